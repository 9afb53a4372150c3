/*-------------------------------------------------------------------------
 *
 * table_row.c
 *	  One row of rate_limit_state: finding, locking and writing it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "table_row.h"

#include "compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* the fourth field of the queue's lock; SQL functions use 1 and 2 */
#define QUEUE_CLASS				0x524C

static uint64
hash_text(const text *value)
{
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(value),
							   VARSIZE_ANY_EXHDR(value), 0);
}

static Datum
name_datum(const char *name)
{
	return CStringGetTextDatum(name ? name : "");
}

/* Say which counter. */
static void
set_identity(RlRow *row)
{
	const RlRequest *request = row->request;
	const RlLimit *limit = &request->limit;
	Datum	   *identity = row->identity;

	identity[RL_COLUMN_KEY - 1] = rl_text_datum(request->key);
	identity[RL_COLUMN_POLICY - 1] = name_datum(request->policy);
	identity[RL_COLUMN_RULE - 1] = name_datum(request->rule);
	identity[RL_COLUMN_ALGORITHM - 1] =
		CStringGetTextDatum(rl_algorithm_name(limit->algorithm));
	identity[RL_COLUMN_WINDOW_LENGTH - 1] = Int64GetDatum(limit->window.length);
	identity[RL_COLUMN_WINDOW_UNIT - 1] =
		CStringGetTextDatum(rl_unit_names[limit->window.unit]);
	identity[RL_COLUMN_TIME_ZONE - 1] =
		name_datum(request->zone_name);
}

void
rl_init_row(RlRow *row, RlTableSession *session, const RlRequest *request)
{
	row->session = session;
	row->request = request;
	row->tuple = NULL;
	row->queued = false;
	row->locked = false;
	set_identity(row);
}

/* Say which row, for a scan. */
static void
set_scan_keys(const RlRow *row, ScanKeyData *keys)
{
	for (int i = 0; i < RL_IDENTITY_COLUMNS; i++)
	{
		AttrNumber	column = i + 1;
		bool		is_length = column == RL_COLUMN_WINDOW_LENGTH;

		ScanKeyEntryInitialize(&keys[i], 0, column,
							   BTEqualStrategyNumber, InvalidOid,
							   is_length ? InvalidOid : C_COLLATION_OID,
							   is_length ? F_INT8EQ : F_TEXTEQ,
							   row->identity[i]);
	}
}

/*
 * Find the row as it was last committed, or as this transaction has left it,
 * without waiting; under REPEATABLE READ as the snapshot has it.
 */
void
rl_find_row(RlRow *row)
{
	Relation	relation = row->session->relation;
	Snapshot	snapshot = RegisterSnapshot(IsolationUsesXactSnapshot() ?
											GetTransactionSnapshot() :
											GetLatestSnapshot());
	ScanKeyData keys[RL_IDENTITY_COLUMNS];
	SysScanDesc scan;
	HeapTuple	tuple;

	set_scan_keys(row, keys);
	scan = systable_beginscan(relation, rl_primary_key(relation), true,
							  snapshot, RL_IDENTITY_COLUMNS, keys);
	tuple = systable_getnext(scan);
	row->tuple = HeapTupleIsValid(tuple) ? heap_copytuple(tuple) : NULL;
	row->locked = false;
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
}

/*
 * Tell whether the version that was found is still the newest.  Under
 * REPEATABLE READ it must be.
 */
static bool
is_newest(TM_Result result)
{
	switch (result)
	{
		case TM_Ok:
			return true;
		case TM_Updated:
		case TM_Deleted:
			if (IsolationUsesXactSnapshot())
				ereport(ERROR,
						(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						 errmsg("could not serialize access due to concurrent update")));
			return false;
		case TM_SelfModified:
			ereport(ERROR,
					(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
					 errmsg("a command that changes a row of rate_limit_state cannot use it in a check")));
		default:
			elog(ERROR, "unexpected state of a row of rate_limit_state: %d",
				 result);
	}
	return false;
}

/* Tell whether there is more to writing a row than the row. */
static bool
needs_sql(Relation relation)
{
	TupleConstr *constraints = RelationGetDescr(relation)->constr;

	return relation->trigdesc != NULL ||
		(constraints != NULL && constraints->has_generated_stored);
}

/* Tell whether another transaction held the version when it was found. */
static bool
is_held(HeapTuple tuple)
{
	TransactionId holder = HeapTupleHeaderGetRawXmax(tuple->t_data);

	if (tuple->t_data->t_infomask & HEAP_XMAX_INVALID)
		return false;
	if (tuple->t_data->t_infomask & HEAP_XMAX_IS_MULTI)
		return true;
	return !TransactionIdIsCurrentTransactionId(holder) &&
		TransactionIdIsInProgress(holder);
}

/*
 * Tell whether the row has to be locked before it is written.  If nobody holds it
 * that would only be one more record in the WAL; should somebody come in between,
 * writing waits for them.
 */
bool
rl_needs_lock(const RlRow *row)
{
	return !row->locked &&
		(is_held(row->tuple) || needs_sql(row->session->relation));
}

/*
 * Calls that find a row held by another transaction queue for it, so that its
 * end wakes one of them and not all.  The queue is an advisory lock, of a kind
 * that no SQL function takes, on a 64-bit hash of the counter.  It only
 * spares wake-ups; what protects the row is the lock of the row.
 */
static void
join_queue(RlRow *row)
{
	uint64		hash = RelationGetRelid(row->session->relation);

	for (int i = 0; i < RL_IDENTITY_COLUMNS; i++)
		hash = hash_combine64(hash, i + 1 == RL_COLUMN_WINDOW_LENGTH ?
							  DatumGetUInt64(row->identity[i]) :
							  hash_text(DatumGetTextPP(row->identity[i])));
	SET_LOCKTAG_ADVISORY(row->queue, MyDatabaseId, (uint32) (hash >> 32),
						 (uint32) hash, QUEUE_CLASS);
	LockAcquire(&row->queue, ExclusiveLock, false, false);
	row->queued = true;
}

/* Let the next one have its turn, without waiting for the transaction's end. */
void
rl_leave_queue(RlRow *row)
{
	if (row->queued)
		LockRelease(&row->queue, ExclusiveLock, false);
	row->queued = false;
}

/*
 * Lock the version that was found.  If somebody else holds it, wait for the end
 * of their transaction; it may have changed the row then, and the row is not
 * locked but to be found anew.
 */
void
rl_lock_row(RlRow *row)
{
	Relation	relation = row->session->relation;
	TupleTableSlot *slot;
	TM_FailureData failure;

	if (is_held(row->tuple) && !row->queued)
	{
		join_queue(row);
		return;
	}

	slot = table_slot_create(relation, NULL);
	row->locked = is_newest(table_tuple_lock(relation, &row->tuple->t_self,
											 GetActiveSnapshot(), slot,
											 GetCurrentCommandId(false),
											 LockTupleNoKeyExclusive,
											 LockWaitBlock, 0, &failure));
	ExecDropSingleTupleTableSlot(slot);
}

/* Read the state. */
void
rl_read_row(const RlRow *row, RlState *state, RlHit *hits)
{
	bool		is_null;
	Datum		value = heap_getattr(row->tuple, RL_COLUMN_STATE,
									 RelationGetDescr(row->session->relation),
									 &is_null);

	rl_state_from_array(&row->request->limit, value, state, hits);
}

/* What a decision leaves behind.  Nothing charged: the limit stays. */
static void
set_result(const RlDecision *decision, Datum *values)
{
	const RlRequest *request = decision->request;
	RlTime		until = decision->state->active ?
	rl_keep_until(decision) : decision->clock;

	values[RL_COLUMN_STATE - 1] = rl_state_to_array(&request->limit,
													decision->state);
	if (request->cost > 0)
		values[RL_COLUMN_LIMIT - 1] = Int64GetDatum(request->limit.limit);
	values[RL_COLUMN_EXPIRES_AT - 1] = TimestampTzGetDatum(until);
	values[RL_COLUMN_LAST_USE - 1] = TimestampTzGetDatum(decision->clock);
}

/* Write the entries of a new version that is not on the page of the old one. */
static void
insert_index_entries(Relation relation, TupleTableSlot *slot,
					 TU_UpdateIndexes which)
{
	ResultRelInfo *target = makeNode(ResultRelInfo);
	EState	   *estate = CreateExecutorState();
	int			level = rl_set_safe_path();

	InitResultRelInfo(target, relation, 0, NULL, 0);
	ExecOpenIndices(target, false);
	rl_insert_index_entries(target, slot, estate, which);
	ExecCloseIndices(target);
	FreeExecutorState(estate);
	AtEOXact_GUC(false, level);
}

/*
 * Replace the version that was found by that in a slot.  Return false if it is
 * not the newest.
 */
static bool
replace_row(RlRow *row, TupleTableSlot *slot)
{
	Relation	relation = row->session->relation;
	TM_FailureData failure;
	LockTupleMode lock_mode;
	TU_UpdateIndexes update_indexes;
	TM_Result	result;

	result = table_tuple_update(relation, &row->tuple->t_self, slot,
								GetCurrentCommandId(true),
								GetActiveSnapshot(), InvalidSnapshot, true,
								&failure, &lock_mode, &update_indexes);
	if (!is_newest(result))
		return false;
	if (update_indexes != TU_None)
		insert_index_entries(relation, slot, update_indexes);
	CommandCounterIncrement();
	return true;
}

static void
refuse_trigger(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("a trigger on rate_limit_state keeps a row from being written"),
			 errhint("Let it return the row.")));
}

static void
replace_row_by_sql(RlRow *row, const Datum *values)
{
	Datum		args[] = {
		PointerGetDatum(&row->tuple->t_self),
		values[RL_COLUMN_STATE - 1],
		values[RL_COLUMN_LIMIT - 1],
		values[RL_COLUMN_EXPIRES_AT - 1],
		values[RL_COLUMN_LAST_USE - 1]
	};

	SPI_connect();
	if (rl_table_run(RL_SQL_UPDATE_ROW, args) == 0)
		refuse_trigger();
	SPI_finish();
}

/*
 * Write what a decision leaves behind.  Return false if the row has been changed
 * since it was found.
 */
bool
rl_update_row(RlRow *row, const RlDecision *decision)
{
	Relation	relation = row->session->relation;
	TupleDesc	descriptor = RelationGetDescr(relation);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(descriptor,
													&TTSOpsVirtual);
	bool		done = true;

	heap_deform_tuple(row->tuple, descriptor, slot->tts_values,
					  slot->tts_isnull);
	set_result(decision, slot->tts_values);
	ExecStoreVirtualTuple(slot);
	if (needs_sql(relation))
		replace_row_by_sql(row, slot->tts_values);
	else
		done = replace_row(row, slot);
	ExecDropSingleTupleTableSlot(slot);
	return done;
}

/* Insert a row, unless somebody else has. */
bool
rl_insert_row(RlRow *row, const RlDecision *decision)
{
	Datum		values[RL_TABLE_COLUMNS];
	bool		inserted;

	memcpy(values, row->identity, sizeof(row->identity));
	set_result(decision, values);
	SPI_connect();
	inserted = rl_table_run(RL_SQL_INSERT_ROW, values) > 0;
	SPI_finish();

	/* a row that is in the way is there now */
	if (!inserted && needs_sql(row->session->relation))
	{
		rl_find_row(row);
		if (row->tuple == NULL)
			refuse_trigger();
	}
	return inserted;
}
