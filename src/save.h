/*-------------------------------------------------------------------------
 *
 * save.h
 *	  Saving the memory store to a file, and restoring it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_SAVE_H
#define RL_SAVE_H

#include "arena.h"

extern void rl_save(RlArena *arena);
extern void rl_restore(RlArena *arena);
extern bool rl_is_saved(void);

#endif							/* RL_SAVE_H */
