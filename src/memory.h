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

#include "compat.h"
#include "store.h"

/* deciding */
extern void rl_memory_decide(RlOperation operation, const RlRequest *request,
							 RlVerdict *verdict);
extern bool rl_memory_judge_all(const RlRequest *requests, int n,
								RlVerdict *verdicts);
extern bool rl_memory_charge_all(const RlRequest *requests, int n,
								 RlVerdict *verdicts);

pg_noreturn extern void rl_raise_memory_full(void);

/* administration (memory_admin.c) */
extern int64 rl_memory_reset(RlBytes key);
extern int64 rl_memory_reset_prefix(RlBytes prefix);
extern bool rl_memory_block(RlBytes key, RlTime now, RlTime end,
							RlBytes reason, bool replace);
extern bool rl_memory_unblock(RlBytes key);
extern bool rl_memory_remembers(void);
extern void rl_memory_forget_database(Oid database);
extern RlTime rl_memory_block_end(RlBytes key);
extern void rl_memory_count_blocked(RlBytes key);

#endif							/* RL_MEMORY_H */
