/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  How the arena comes to be, and how a process gets at it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_SHMEM_H
#define RL_SHMEM_H

#include "arena.h"

/* Call from _PG_init: with preload, sets the arena up at server start. */
extern void rl_init_shmem(void);

/* Return the arena; set it up if nobody has, attach to it if need be. */
extern RlArena *rl_get_arena(void);

/* Return the arena, or NULL if nobody has set it up yet. */
extern RlArena *rl_find_arena(void);

/* Call from the worker.  Return false if there is another one. */
extern bool rl_be_the_worker(void);

#endif							/* RL_SHMEM_H */
