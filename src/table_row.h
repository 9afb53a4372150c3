/*-------------------------------------------------------------------------
 *
 * table_row.h
 *	  One row of rate_limit_state: finding, locking and writing it.
 *
 * Goes to the row by the table's primary key and not by SQL, whose statements
 * cost more than all the rest of a check.  Left to SQL are a new row, which
 * others may insert at the same time, and any row if the table's owner has put
 * triggers or generated columns on the table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_TABLE_ROW_H
#define RL_TABLE_ROW_H

#include "decision.h"
#include "table_sql.h"

#include "access/htup.h"
#include "storage/lock.h"

/* The columns of the table by number; the first ones say which counter. */
typedef enum RlColumn
{
	RL_COLUMN_KEY = 1,
	RL_COLUMN_POLICY,
	RL_COLUMN_RULE,
	RL_COLUMN_ALGORITHM,
	RL_COLUMN_WINDOW_LENGTH,
	RL_COLUMN_WINDOW_UNIT,
	RL_COLUMN_TIME_ZONE,
	RL_COLUMN_STATE,
	RL_COLUMN_LIMIT,
	RL_COLUMN_EXPIRES_AT,
	RL_COLUMN_LAST_USE
} RlColumn;

#define RL_IDENTITY_COLUMNS		RL_COLUMN_TIME_ZONE
#define RL_TABLE_COLUMNS		RL_COLUMN_LAST_USE

/* The row of a request's counter, in the table that a session has opened. */
typedef struct RlRow
{
	RlTableSession *session;
	const RlRequest *request;
	Datum		identity[RL_IDENTITY_COLUMNS];
	HeapTuple	tuple;			/* the version found, NULL if there is none */
	bool		queued;			/* is this call's turn to wait for it? */
	bool		locked;			/* by this transaction */
	LOCKTAG		queue;			/* valid if queued */
} RlRow;

extern void rl_init_row(RlRow *row, RlTableSession *session,
						const RlRequest *request);
extern void rl_find_row(RlRow *row);
extern void rl_lock_row(RlRow *row);
extern void rl_leave_queue(RlRow *row);
extern void rl_read_row(const RlRow *row, RlState *state, RlHit *hits);
extern bool rl_needs_lock(const RlRow *row);
extern bool rl_update_row(RlRow *row, const RlDecision *decision);
extern bool rl_insert_row(RlRow *row, const RlDecision *decision);

#endif							/* RL_TABLE_ROW_H */
