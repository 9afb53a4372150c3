/*-------------------------------------------------------------------------
 *
 * address.h
 *	  Keys that are network addresses.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_ADDRESS_H
#define RL_ADDRESS_H

#include "request.h"

#include "utils/inet.h"

extern inet *rl_address_of_key(RlBytes key);

#endif							/* RL_ADDRESS_H */
