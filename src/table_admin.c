/*-------------------------------------------------------------------------
 *
 * table_admin.c
 *	  The table store: removing counters, looking at them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "table_store.h"

#include "table_row.h"

#include "access/xact.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* One admitted call in this many looks for expired rows ... */
#define PRUNE_CHANCE			32

/* ... in so many pages, and the next one in those behind. */
#define PRUNE_PAGES				4

static RlHit hits[RL_MAX_HITS];

/* Run a statement that returns one number. */
static int64
run_counting(Oid schema, RlStatement statement, Datum arg)
{
	RlTableSession session;
	int64		count;

	rl_table_open(&session, schema, RowExclusiveLock);
	SPI_connect();
	rl_table_run(statement, &arg);
	count = DatumGetInt64(rl_table_column(0, 1));
	SPI_finish();
	rl_table_close(&session);
	return count;
}

/*
 * Remove rows, and return how many meant something.  In a read-only
 * transaction that is an error only if there are any.
 */
static int64
reset(Oid schema, RlBytes bytes, RlStatement find, RlStatement remove)
{
	RlTableSession session;
	Datum		arg = rl_text_datum(bytes);

	if (!XactReadOnly)
		return run_counting(schema, remove, arg);

	rl_table_open(&session, schema, AccessShareLock);
	SPI_connect();
	if (rl_table_run(find, &arg) > 0)
		PreventCommandIfReadOnly("a reset of the table store");
	SPI_finish();
	rl_table_close(&session);
	return 0;
}

/* Remove the counters of a key, and return how many there were. */
int64
rl_table_reset(Oid schema, RlBytes key)
{
	return reset(schema, key, RL_SQL_FIND_KEY, RL_SQL_RESET);
}

/* Remove the counters of all keys with a prefix. */
int64
rl_table_reset_prefix(Oid schema, RlBytes prefix)
{
	return reset(schema, prefix, RL_SQL_FIND_PREFIX, RL_SQL_RESET_PREFIX);
}

/* Remove up to "max" expired rows that nobody has locked. */
int64
rl_table_prune(Oid schema, int64 max)
{
	return run_counting(schema, RL_SQL_PRUNE, Int64GetDatum(max));
}

/*-------------------------------------------------------------------------
 * Pruning by ordinary calls
 *-------------------------------------------------------------------------
 */

/* The schema of the table to prune when the transaction commits. */
static Oid	prune_schema = InvalidOid;

/* Look for expired rows in some pages, beginning anywhere. */
static void
prune_some(Oid schema)
{
	static BlockNumber page = InvalidBlockNumber;

	RlTableSession session;
	BlockNumber pages;
	ItemPointerData from;
	ItemPointerData to;
	Datum		args[2] = {PointerGetDatum(&from), PointerGetDatum(&to)};

	rl_table_open(&session, schema, RowExclusiveLock);
	pages = RelationGetNumberOfBlocks(session.relation);

	/* it is too late for triggers that are deferred to the end */
	if (pages > 0 && session.relation->trigdesc == NULL)
	{
		if (page == InvalidBlockNumber)
			page = pg_prng_uint32(&pg_global_prng_state);
		page %= pages;
		ItemPointerSet(&from, page, 0);
		page += PRUNE_PAGES;
		ItemPointerSet(&to, page, 0);
		SPI_connect();
		rl_table_run(RL_SQL_PRUNE_SOME, args);
		SPI_finish();
	}
	rl_table_close(&session);
}

static void
prune_before_commit(XactEvent event, void *arg)
{
	Oid			schema = *(Oid *) arg;

	*(Oid *) arg = InvalidOid;
	if (event != XACT_EVENT_PRE_COMMIT || !OidIsValid(schema) || XactReadOnly)
		return;

	/* the transaction may have dropped the extension */
	if (!OidIsValid(get_relname_relid("rate_limit_state", schema)))
		return;

	PushActiveSnapshot(GetTransactionSnapshot());
	prune_some(schema);
	PopActiveSnapshot();
}

/*
 * Now and then look for expired rows when the transaction is about to commit.
 * Then it takes no more locks, so that the rows removed, which are those of
 * other keys, can neither be part of a deadlock nor keep anybody waiting.
 */
void
rl_table_prune_at_commit(Oid schema)
{
	static bool registered = false;

	/* under a snapshot that stays, rows that others change are errors */
	if (pg_prng_uint32(&pg_global_prng_state) % PRUNE_CHANCE != 0 ||
		IsolationUsesXactSnapshot())
		return;

	if (!registered)
		RegisterXactCallback(prune_before_commit, &prune_schema);
	registered = true;
	prune_schema = schema;
}

/*-------------------------------------------------------------------------
 * Looking at the rows
 *-------------------------------------------------------------------------
 */

static RlBytes
bytes_column(int64 number, RlColumn column)
{
	text	   *value = DatumGetTextPP(rl_table_column(number, column));
	RlBytes		bytes = {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};

	return bytes;
}

static char *
string_column(int64 number, RlColumn column)
{
	return TextDatumGetCString(rl_table_column(number, column));
}

/* The same, NULL if it is empty. */
static char *
name_column(int64 number, RlColumn column)
{
	char	   *name = string_column(number, column);

	return name[0] == '\0' ? NULL : name;
}

static RlUnit
unit_of_name(const char *name)
{
	for (int unit = RL_UNIT_USEC; unit <= RL_UNIT_MONTH; unit++)
	{
		if (strcmp(name, rl_unit_names[unit]) == 0)
			return (RlUnit) unit;
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("column \"window_unit\" of a row of rate_limit_state is damaged"),
			 errhint("Remove the row, or reset its key by rate_limit_reset.")));
}

/* Take a row apart.  Return false if its zone is not known any more. */
static bool
read_row(int64 number, RlTableRow *row)
{
	RlLimit    *limit = &row->limit;
	char	   *unit = string_column(number, RL_COLUMN_WINDOW_UNIT);
	char	   *zone = name_column(number, RL_COLUMN_TIME_ZONE);

	memset(row, 0, sizeof(RlTableRow));
	row->key = bytes_column(number, RL_COLUMN_KEY);
	row->policy = name_column(number, RL_COLUMN_POLICY);
	row->rule = name_column(number, RL_COLUMN_RULE);
	limit->algorithm = rl_algorithm_of_text(DatumGetTextPP(rl_table_column(number, RL_COLUMN_ALGORITHM)));
	limit->window.length = DatumGetInt64(rl_table_column(number, RL_COLUMN_WINDOW_LENGTH));
	limit->window.unit = unit_of_name(unit);
	limit->limit = DatumGetInt64(rl_table_column(number, RL_COLUMN_LIMIT));
	limit->exact_hits = RL_MAX_EXACT_HITS;
	row->expires_at = DatumGetTimestampTz(rl_table_column(number, RL_COLUMN_EXPIRES_AT));
	row->last_use = DatumGetTimestampTz(rl_table_column(number, RL_COLUMN_LAST_USE));

	if (zone != NULL)
	{
		if (!rl_set_zone(&row->zone, zone, &row->zone_name))
			return false;
		limit->window.zone = &row->zone;
	}
	rl_state_from_array(limit, rl_table_column(number, RL_COLUMN_STATE),
						&row->state, hits);
	limit->capacity = limit->algorithm == RL_TOKEN_BUCKET ?
		row->state.capacity : limit->limit;
	return row->state.active;
}

/* Call a function for each row that has not expired. */
void
rl_table_for_each_row(Oid schema, RlTableRowFunction function, void *arg)
{
	RlTableSession session;
	RlTime		now = GetCurrentTimestamp();
	int64		nrows;

	rl_table_open(&session, schema, AccessShareLock);
	SPI_connect();
	nrows = rl_table_run(RL_SQL_SELECT_ALL, NULL);
	for (int64 i = 0; i < nrows; i++)
	{
		RlTableRow	row;

		CHECK_FOR_INTERRUPTS();
		if (read_row(i, &row) && row.expires_at > now)
			function(&row, arg);
	}
	SPI_finish();
	rl_table_close(&session);
}
