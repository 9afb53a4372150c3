/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background worker that saves the memory store.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_WORKER_H
#define RL_WORKER_H

extern void rl_register_worker(void);
extern void rl_start_worker(void);
extern PGDLLEXPORT void rl_worker_main(Datum arg);

#endif							/* RL_WORKER_H */
