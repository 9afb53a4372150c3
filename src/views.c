/*-------------------------------------------------------------------------
 *
 * views.c
 *	  The SQL functions to look at the memory store.
 *
 * Each partition is copied with its lock held shared, and the copy read
 * afterwards, so that looking holds up the calls for the time of a copy only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "decision.h"
#include "shmem.h"
#include "state.h"
#include "table_store.h"

#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(rate_limit_keys);
PG_FUNCTION_INFO_V1(rate_limit_blocks);
PG_FUNCTION_INFO_V1(rate_limit_info);

#define KEYS_COLUMNS			12
#define BLOCKS_COLUMNS			5
#define INFO_COLUMNS			11

/* A walk through the live entries of this database. */
typedef struct ArenaScan
{
	ReturnSetInfo *result;
	RlTime		now;
	RlPartition *partition;		/* a private copy */
} ArenaScan;

typedef void (*RowFunction) (const ArenaScan *scan, const RlEntry *entry);

/* Call a function for each live entry in the copy of a partition. */
static void
scan_partition(const ArenaScan *scan, RowFunction add_row)
{
	RlPartition *partition = scan->partition;

	for (RlEntry *entry = rl_first_entry(partition); entry != NULL;
		 entry = rl_next_entry(partition, entry))
	{
		if (entry->database == MyDatabaseId && entry->expires > scan->now)
			add_row(scan, entry);
	}
}

/* Return the rows that a function adds for the live entries. */
static void
scan_arena(FunctionCallInfo fcinfo, RowFunction add_row)
{
	RlArena    *arena = rl_get_arena();
	MemoryContext context;
	MemoryContext rows;
	ArenaScan	scan;
	void	   *room;

	InitMaterializedSRF(fcinfo, 0);

	scan.result = (ReturnSetInfo *) fcinfo->resultinfo;
	scan.now = GetCurrentTimestamp();
	room = palloc_extended(rl_copy_bytes(arena), MCXT_ALLOC_HUGE);
	rows = AllocSetContextCreate(CurrentMemoryContext, "rate_limit rows",
								 ALLOCSET_DEFAULT_SIZES);
	context = MemoryContextSwitchTo(rows);
	for (int i = 0; i < arena->npartitions; i++)
	{
		RlPartition *partition = rl_partition(arena, i);

		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(&partition->lock, LW_SHARED);
		scan.partition = rl_copy_partition(arena, partition, room);
		LWLockRelease(&partition->lock);

		scan_partition(&scan, add_row);
		MemoryContextReset(rows);
	}
	MemoryContextSwitchTo(context);
	MemoryContextDelete(rows);
	pfree(room);
}

/* Return the bytes of an entry's identity, ended by a zero byte. */
static char *
identity_of_entry(RlPartition *partition, const RlEntry *entry)
{
	char	   *bytes = palloc(entry->id_bytes + 1);

	rl_read_tail(partition, entry, RL_TAIL_IDENTITY, bytes, entry->id_bytes);
	bytes[entry->id_bytes] = '\0';
	return bytes;
}

/*
 * Return string number n after the key in the bytes of an identity: see
 * RlIdentity.  NULL if it is left out or empty.
 */
static const char *
identity_part(const RlEntry *entry, const char *identity, int n)
{
	const char *part = identity + entry->key_bytes;
	const char *end = identity + entry->id_bytes;

	for (int i = 0; i <= n; i++)
	{
		part += i == 0 ? 0 : strlen(part);
		if (part >= end)
			return NULL;
		part++;
	}
	return part[0] == '\0' ? NULL : part;
}

static Datum
interval_of_window(const RlWindow *window)
{
	Interval   *interval = palloc0(sizeof(Interval));

	switch (window->unit)
	{
		case RL_UNIT_USEC:
			interval->time = window->length;
			break;
		case RL_UNIT_DAY:
			interval->day = window->length;
			break;
		case RL_UNIT_MONTH:
			interval->month = window->length;
			break;
	}
	return IntervalPGetDatum(interval);
}

/* What a row of rate_limit_keys tells. */
typedef struct KeyRow
{
	RlBytes		key;
	const char *policy;
	const char *rule;
	const RlLimit *limit;
	const char *zone_name;
	int64		used;
	int64		refusals;
	RlTime		last_use;
	RlTime		expires_at;
	const char *store;
} KeyRow;

/*
 * Who may read a view but is no member of pg_read_all_stats does not see keys,
 * as in PostgreSQL's own statistics.  The rows of the table store are read as its
 * owner, so this has to be known before.
 */
static bool shows_keys;

static void
set_shows_keys(void)
{
	shows_keys = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

static Datum
key_datum(RlBytes key)
{
	if (!shows_keys)
		return CStringGetTextDatum("<insufficient privilege>");
	return rl_text_datum(key);
}

/* Set a column that is null if the string is. */
static void
set_string(Datum *value, bool *null, const char *string)
{
	*null = string == NULL;
	if (string != NULL)
		*value = CStringGetTextDatum(string);
}

static void
put_key_row(ReturnSetInfo *result, const KeyRow *row)
{
	Datum		values[KEYS_COLUMNS];
	bool		nulls[KEYS_COLUMNS] = {false};

	values[0] = key_datum(row->key);
	set_string(&values[1], &nulls[1], row->policy);
	set_string(&values[2], &nulls[2], row->rule);
	values[3] = CStringGetTextDatum(rl_algorithm_name(row->limit->algorithm));
	values[4] = interval_of_window(&row->limit->window);
	set_string(&values[5], &nulls[5], row->zone_name);
	values[6] = Int64GetDatum(row->limit->capacity);
	values[7] = Int64GetDatum(row->used);
	values[8] = Int64GetDatum(row->refusals);
	values[9] = TimestampTzGetDatum(row->last_use);
	if (row->expires_at == RL_NEVER)
		nulls[10] = true;
	else
		values[10] = TimestampTzGetDatum(row->expires_at);
	values[11] = CStringGetTextDatum(row->store);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * Return the instant that is now for a counter: that of a replay goes on from
 * where the replay has left it.
 */
static RlTime
now_of_counter(const ArenaScan *scan, const RlEntry *entry,
			   const RlState *state)
{
	if (!(entry->flags & RL_ENTRY_REPLAYED) || entry->expires == RL_NEVER)
		return scan->now;
	return scan->now + state->end - (entry->expires - RL_REPLAY_GRACE);
}

/*
 * Work out what is used of a counter now, and the limit as last stated.
 * Return false if nothing is.
 */
static bool
read_counter(const ArenaScan *scan, const RlEntry *entry, const char *zone_name,
			 RlLimit *limit, RlReport *report)
{
	static int64 words[RL_MAX_STATE_WORDS];
	static RlHit hits[RL_MAX_HITS];
	RlState		state = {.hits = hits};
	RlZone		zone;
	const char *canonical_name;
	RlTime		now;

	memset(limit, 0, sizeof(RlLimit));
	limit->algorithm = entry->kind;
	limit->window.unit = entry->unit;
	limit->window.length = entry->window;
	limit->limit = entry->limit;
	limit->exact_hits = RL_MAX_EXACT_HITS;
	if (zone_name != NULL)
	{
		if (!rl_set_zone(&zone, zone_name, &canonical_name))
			return false;
		limit->window.zone = &zone;
	}

	rl_get_state(scan->partition, entry, words);
	rl_decode_state(limit, words, entry->state_words, &state);
	limit->capacity = limit->algorithm == RL_TOKEN_BUCKET ? state.capacity :
		limit->limit;

	now = now_of_counter(scan, entry, &state);
	rl_refresh(limit, &state, now);
	rl_report(limit, &state, now, 0, report);
	return report->used > 0;
}

static void
add_key_row(const ArenaScan *scan, const RlEntry *entry)
{
	RlLimit		limit;
	RlReport	report;
	char	   *identity;
	KeyRow		row;

	if (entry->kind == RL_KIND_BLOCK)
		return;
	identity = identity_of_entry(scan->partition, entry);
	row.zone_name = identity_part(entry, identity, 0);
	if (!read_counter(scan, entry, row.zone_name, &limit, &report))
		return;

	row.key.data = identity;
	row.key.length = entry->key_bytes;
	row.policy = identity_part(entry, identity, 1);
	row.rule = identity_part(entry, identity, 2);
	row.limit = &limit;
	row.used = report.used;
	row.refusals = entry->refusals;
	row.last_use = entry->last_use;
	row.expires_at = entry->expires;
	row.store = "memory";
	put_key_row(scan->result, &row);
}

/* Add a row of the table store; refusals leave no trace there. */
static void
add_table_row(const RlTableRow *stored, void *arg)
{
	RlState		state = stored->state;
	RlReport	report;
	KeyRow		row;
	RlTime		now = GetCurrentTimestamp();

	/* a state of a replay is told as its last call left it */
	if (stored->expires_at != RL_NEVER && state.end != stored->expires_at)
		now = Min(now, state.end - 1);

	rl_refresh(&stored->limit, &state, now);
	rl_report(&stored->limit, &state, now, 0, &report);
	if (report.used == 0)
		return;

	row.key = stored->key;
	row.policy = stored->policy;
	row.rule = stored->rule;
	row.limit = &stored->limit;
	row.zone_name = stored->zone_name;
	row.used = report.used;
	row.refusals = 0;
	row.last_use = stored->last_use;
	row.expires_at = stored->expires_at;
	row.store = "table";
	put_key_row((ReturnSetInfo *) arg, &row);
}

Datum
rate_limit_keys(PG_FUNCTION_ARGS)
{
	set_shows_keys();
	scan_arena(fcinfo, add_key_row);
	rl_table_for_each_row(rl_extension_schema(fcinfo), add_table_row,
						  fcinfo->resultinfo);
	return (Datum) 0;
}

static void
add_block_row(const ArenaScan *scan, const RlEntry *entry)
{
	Datum		values[BLOCKS_COLUMNS];
	bool		nulls[BLOCKS_COLUMNS] = {false};
	int64		words[1 + RL_MAX_REASON_BYTES / sizeof(int64)];
	RlBytes		key;

	if (entry->kind != RL_KIND_BLOCK)
		return;
	rl_get_state(scan->partition, entry, words);

	key.data = identity_of_entry(scan->partition, entry);
	key.length = entry->key_bytes;
	values[0] = key_datum(key);
	values[1] = TimestampTzGetDatum(rl_get_instant(scan->partition, entry));
	if (entry->expires == RL_NEVER)
		nulls[2] = true;
	else
		values[2] = TimestampTzGetDatum(entry->expires);
	if (words[0] == 0)
		nulls[3] = true;
	else
		values[3] = PointerGetDatum(cstring_to_text_with_len((char *) &words[1],
															 (int) words[0]));
	values[4] = Int64GetDatum((int64) entry->refusals);
	tuplestore_putvalues(scan->result->setResult, scan->result->setDesc,
						 values, nulls);
}

Datum
rate_limit_blocks(PG_FUNCTION_ARGS)
{
	set_shows_keys();
	scan_arena(fcinfo, add_block_row);
	return (Datum) 0;
}

/* Add up the counts of all partitions. */
static void
sum_partitions(RlArena *arena, Datum *values)
{
	int64		bytes_free = 0;
	int64		counters = 0;
	int64		blocks = 0;
	int64		evictions = 0;
	int64		refused_full = 0;

	for (int i = 0; i < arena->npartitions; i++)
	{
		RlPartition *partition = rl_partition(arena, i);

		LWLockAcquire(&partition->lock, LW_SHARED);
		bytes_free += (int64) partition->nfree * RL_BYTES_PER_CHUNK;
		counters += partition->ncounters;
		blocks += partition->nblocks;
		evictions += partition->evictions;
		refused_full += partition->refused_full;
		LWLockRelease(&partition->lock);
	}
	values[3] = Int64GetDatum((int64) arena->bytes - bytes_free);
	values[4] = Int64GetDatum(bytes_free);
	values[5] = Int64GetDatum(counters);
	values[6] = Int64GetDatum(blocks);
	values[7] = Int64GetDatum(evictions);
	values[8] = Int64GetDatum(refused_full);
}

/* Set a column that is null if the instant has never been. */
static void
set_instant(Datum *value, bool *null, RlTime instant)
{
	*null = instant == RL_MIN_TIME;
	*value = TimestampTzGetDatum(instant);
}

Datum
rate_limit_info(PG_FUNCTION_ARGS)
{
	Datum		values[INFO_COLUMNS] = {0};
	bool		nulls[INFO_COLUMNS];
	TupleDesc	descriptor;
	RlArena    *arena = rl_find_arena();

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	memset(nulls, arena == NULL, sizeof(nulls));
	if (arena != NULL)
	{
		values[0] = CStringGetTextDatum(arena->preloaded ? "preload" :
										"first use");
		values[1] = TimestampTzGetDatum(arena->set_up_at);
		values[2] = Int64GetDatum((int64) arena->bytes);
		sum_partitions(arena, values);
		set_instant(&values[9], &nulls[9],
					(RlTime) pg_atomic_read_u64(&arena->saved_at));
		set_instant(&values[10], &nulls[10], arena->restored_from);
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor),
											 values, nulls));
}
