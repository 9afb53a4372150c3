/*-------------------------------------------------------------------------
 *
 * table_store.h
 *	  The table store: one row per counter in rate_limit_state.
 *
 * Part of the caller's transaction.  The lock of a counter is the lock of its
 * row, held until the transaction ends; calls on several counters lock them in
 * one fixed order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_TABLE_STORE_H
#define RL_TABLE_STORE_H

#include "decision.h"

/* A row, to look at. */
typedef struct RlTableRow
{
	RlBytes		key;
	const char *policy;			/* and ... */
	const char *rule;			/* ... whose counter it is; NULL if ad hoc */
	RlLimit		limit;			/* as last recorded */
	RlZone		zone;			/* what limit.window.zone points to */
	const char *zone_name;		/* NULL unless a calendar window */
	RlState		state;			/* as stored */
	RlTime		expires_at;
	RlTime		last_use;
} RlTableRow;

typedef void (*RlTableRowFunction) (const RlTableRow *row, void *arg);

extern void rl_table_decide(RlOperation operation, const RlRequest *request,
							RlVerdict *verdict);
extern bool rl_table_judge_all(const RlRequest *requests, int n,
							   RlVerdict *verdicts);
extern bool rl_table_charge_all(const RlRequest *requests, int n,
								RlVerdict *verdicts,
								bool (*then) (void *arg), void *arg);
extern int64 rl_table_reset(Oid schema, RlBytes key);
extern int64 rl_table_reset_prefix(Oid schema, RlBytes prefix);
extern int64 rl_table_prune(Oid schema, int64 max);
extern void rl_table_prune_at_commit(Oid schema);
extern void rl_table_for_each_row(Oid schema, RlTableRowFunction function,
								  void *arg);

#endif							/* RL_TABLE_STORE_H */
