/*-------------------------------------------------------------------------
 *
 * drop.h
 *	  Freeing the memory of a database from which the extension is dropped.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_DROP_H
#define RL_DROP_H

/* Call from _PG_init. */
extern void rl_watch_drop(void);
extern bool rl_will_forget(void);

#endif							/* RL_DROP_H */
