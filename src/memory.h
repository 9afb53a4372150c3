/*-------------------------------------------------------------------------
 *
 * memory.h
 *	  The memory store: counters in shared memory, shared by all sessions.
 *
 * Independent of transactions.  Each function takes the locks that it needs,
 * as arena.h says.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_MEMORY_H
#define RL_MEMORY_H

#include "store.h"

/* deciding */
extern void rl_memory_decide(RlOperation operation, const RlRequest *request,
							 RlVerdict *verdict);
extern void rl_memory_decide_all(RlOperation operation,
								 const RlRequest *requests, int n,
								 RlVerdict *verdicts);

extern void rl_raise_memory_full(void) pg_attribute_noreturn();

/* administration (memory_admin.c) */
extern int64 rl_memory_reset(RlKey key);
extern int64 rl_memory_reset_prefix(RlKey prefix);
extern void rl_memory_block(RlKey key, RlTime now, RlTime end, RlKey reason);
extern bool rl_memory_unblock(RlKey key);

#endif							/* RL_MEMORY_H */
