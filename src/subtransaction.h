/*-------------------------------------------------------------------------
 *
 * subtransaction.h
 *	  Work that can be taken back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_SUBTRANSACTION_H
#define RL_SUBTRANSACTION_H

extern bool rl_try(bool (*function) (void *arg), void *arg,
				   ErrorData **error);

#endif							/* RL_SUBTRANSACTION_H */
