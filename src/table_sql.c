/*-------------------------------------------------------------------------
 *
 * table_sql.c
 *	  The statements of the table store.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "table_sql.h"

#include "state.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* In the texts, %1$s is the schema. */
static const struct
{
	int			nargs;
	Oid			types[RL_TABLE_MAX_ARGS];
	const char *text;
}			statements[RL_NUM_STATEMENTS] =

{
	[RL_SQL_INSERT_ROW] = {11, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, TEXTOID, TEXTOID, INT8ARRAYOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID},
	"INSERT INTO %1$s.rate_limit_state"
	" (key, policy, rule, algorithm, window_length, window_unit, time_zone,"
	" state, \"limit\", expires_at, last_use)"
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
	" ON CONFLICT DO NOTHING"},
	[RL_SQL_RESET] = {1, {TEXTOID},
	"WITH gone AS (DELETE FROM %1$s.rate_limit_state"
	" WHERE key OPERATOR(pg_catalog.=) $1 RETURNING expires_at)"
	" SELECT pg_catalog.count(*) FROM gone"
	" WHERE expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()"},
	[RL_SQL_RESET_PREFIX] = {1, {TEXTOID},
	"WITH gone AS (DELETE FROM %1$s.rate_limit_state"
	" WHERE pg_catalog.starts_with(key, $1) RETURNING expires_at)"
	" SELECT pg_catalog.count(*) FROM gone"
	" WHERE expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()"},
	[RL_SQL_FIND_KEY] = {1, {TEXTOID},
	"SELECT FROM %1$s.rate_limit_state"
	" WHERE key OPERATOR(pg_catalog.=) $1 LIMIT 1"},
	[RL_SQL_FIND_PREFIX] = {1, {TEXTOID},
	"SELECT FROM %1$s.rate_limit_state"
	" WHERE pg_catalog.starts_with(key, $1) LIMIT 1"},
	[RL_SQL_PRUNE] = {1, {INT8OID},
	"WITH gone AS (DELETE FROM %1$s.rate_limit_state"
	" WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
	"SELECT ctid FROM %1$s.rate_limit_state"
	" WHERE expires_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()"
	" LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING 1)"
	" SELECT pg_catalog.count(*) FROM gone"},
	[RL_SQL_PRUNE_SOME] = {2, {TIDOID, TIDOID},
	"DELETE FROM %1$s.rate_limit_state"
	" WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
	"SELECT ctid FROM %1$s.rate_limit_state"
	" WHERE ctid OPERATOR(pg_catalog.>=) $1 AND ctid OPERATOR(pg_catalog.<) $2"
	" AND expires_at OPERATOR(pg_catalog.<=) (pg_catalog.clock_timestamp()"
	" OPERATOR(pg_catalog.-) interval " RL_PRUNE_GRACE ")"
	" LIMIT " CppAsString2(RL_PRUNE_ROWS) " FOR UPDATE SKIP LOCKED))"},
	[RL_SQL_SELECT_ALL] = {0, {InvalidOid},
	"SELECT key, policy, rule, algorithm, window_length, window_unit,"
	" time_zone, state, \"limit\", expires_at, last_use FROM %1$s.rate_limit_state"}
};

/* The plans, and for which schema they were made. */
static SPIPlanPtr plans[RL_NUM_STATEMENTS];
static Oid	plans_schema = InvalidOid;

static int64 words[RL_MAX_STATE_WORDS];

const char *const rl_unit_names[] = {
	[RL_UNIT_USEC] = "microsecond",
	[RL_UNIT_DAY] = "day",
	[RL_UNIT_MONTH] = "month"
};

/*-------------------------------------------------------------------------
 * Running statements
 *-------------------------------------------------------------------------
 */

static void
forget_plans(void)
{
	for (int i = 0; i < RL_NUM_STATEMENTS; i++)
	{
		if (plans[i] != NULL)
			SPI_freeplan(plans[i]);
		plans[i] = NULL;
	}
}

/* Open the table in a schema and become its owner. */
void
rl_table_open(RlTableSession *session, Oid schema, LOCKMODE lock)
{
	Oid			table = get_relname_relid("rate_limit_state", schema);

	if (!OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"rate_limit_state\" does not exist"),
				 errhint("Create the extension \"rate_limit\" anew.")));
	session->relation = table_open(table, lock);

	if (plans_schema != schema)
		forget_plans();
	plans_schema = schema;

	GetUserIdAndSecContext(&session->user, &session->security_context);
	SetUserIdAndSecContext(session->relation->rd_rel->relowner,
						   session->security_context |
						   SECURITY_LOCAL_USERID_CHANGE);
}

/* The lock stays until the transaction ends. */
void
rl_table_close(const RlTableSession *session)
{
	SetUserIdAndSecContext(session->user, session->security_context);
	table_close(session->relation, NoLock);
}

/* Run a statement; rows are in SPI_tuptable, their number is returned. */
int64
rl_table_run(RlStatement statement, Datum *args)
{
	SPIPlanPtr	plan = plans[statement];
	int			result;

	if (plan == NULL)
	{
		char	   *text = psprintf(statements[statement].text,
									quote_identifier(get_namespace_name(plans_schema)));

		/* no argument makes another plan better */
		plan = SPI_prepare_cursor(text, statements[statement].nargs,
								  (Oid *) statements[statement].types,
								  CURSOR_OPT_GENERIC_PLAN);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare \"%s\"", text);
		plans[statement] = plan;
	}

	result = SPI_execute_plan(plan, args, NULL, false, 0);
	if (result < 0)
		elog(ERROR, "could not execute statement %d: %s", statement,
			 SPI_result_code_string(result));
	return SPI_processed;
}

/* Return a column of a row; all are not null. */
Datum
rl_table_column(int64 row, int number)
{
	bool		is_null;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[row],
									  SPI_tuptable->tupdesc, number, &is_null);

	if (is_null)
		elog(ERROR, "null in rate_limit_state");
	return value;
}

/*-------------------------------------------------------------------------
 * States as arrays
 *-------------------------------------------------------------------------
 */

/* Return the state as an array, empty if it is not active. */
Datum
rl_state_to_array(const RlLimit *limit, const RlState *state)
{
	int			nwords = state->active ?
	rl_encode_state(limit, state, words) : 0;
	Datum	   *elements = palloc(sizeof(Datum) * Max(nwords, 1));

	for (int i = 0; i < nwords; i++)
		elements[i] = Int64GetDatum(words[i]);
	return PointerGetDatum(construct_array(elements, nwords, INT8OID,
										   sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

/*
 * Read a state that rl_state_to_array() has written.  There must be room for
 * RL_MAX_HITS.
 */
void
rl_state_from_array(const RlLimit *limit, Datum value, RlState *state,
					RlHit *hits)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	int			nwords = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

	state->active = false;
	state->hits = hits;
	if (nwords == 0)
		return;

	if (nwords <= RL_MAX_STATE_WORDS && !array_contains_nulls(array))
	{
		memcpy(words, ARR_DATA_PTR(array), sizeof(int64) * nwords);
		if (rl_decode_state(limit, words, nwords, state))
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("column \"state\" of a row of rate_limit_state is damaged"),
			 errhint("Remove the row, or reset its key by rate_limit_reset.")));
}
