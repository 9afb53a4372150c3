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
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

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
	[RL_SQL_UPDATE_ROW] = {5, {TIDOID, INT8ARRAYOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID},
	"UPDATE %1$s.rate_limit_state"
	" SET state = $2, \"limit\" = $3, expires_at = $4, last_use = $5"
	" WHERE ctid OPERATOR(pg_catalog.=) $1"},
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
	" time_zone, state, \"limit\", expires_at, last_use FROM %1$s.rate_limit_state"},
	[RL_SQL_SELECT_POLICY] = {1, {TEXTOID},
	"SELECT p.policy, p.rule, p.\"limit\", p.\"window\", p.algorithm, p.burst,"
	" p.store, p.time_zone, p.block_for, p.mode"
	" FROM %1$s.rate_limit_policies p"
	" WHERE p.policy OPERATOR(pg_catalog.=) COALESCE("
	"(SELECT q.policy FROM %1$s.rate_limit_policies q"
	" WHERE q.policy OPERATOR(pg_catalog.=) $1 LIMIT 1),"
	" (SELECT f.policy FROM %1$s.rate_limit_policies f"
	" WHERE f.is_fallback LIMIT 1)) ORDER BY p.rule"},
	[RL_SQL_HAS_OVERRIDES] = {1, {TEXTOID},
	"SELECT FROM %1$s.rate_limit_overrides o"
	" WHERE o.policy OPERATOR(pg_catalog.=) $1 OR o.policy IS NULL LIMIT 1"},
	[RL_SQL_SELECT_OVERRIDES] = {3, {TEXTOID, TEXTOID, INETOID},
	"SELECT o.rule, o.\"limit\", o.expires_at"
	" FROM %1$s.rate_limit_overrides o"
	" WHERE (o.key OPERATOR(pg_catalog.=) $2"
	" OR o.network OPERATOR(pg_catalog.>>=) $3)"
	" AND (o.policy OPERATOR(pg_catalog.=) $1 OR o.policy IS NULL)"
	" ORDER BY o.key IS NULL, pg_catalog.masklen(o.network) DESC,"
	" o.policy IS NULL, o.rule IS NULL"}
};

/* The plans, and for which schema they were made, by the name it had then. */
static SPIPlanPtr plans[RL_NUM_STATEMENTS];
static Oid	plans_schema = InvalidOid;
static NameData plans_schema_name;

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

/* Open a table in a schema and become its owner. */
void
rl_open_as_owner(RlTableSession *session, Oid schema, const char *table,
				 LOCKMODE lock)
{
	Oid			relid = get_relname_relid(table, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" does not exist", table),
				 errhint("Create the extension \"rate_limit\" anew.")));
	session->relation = table_open(relid, lock);

	plans_schema = schema;
	GetUserIdAndSecContext(&session->user, &session->security_context);
	SetUserIdAndSecContext(session->relation->rd_rel->relowner,
						   session->security_context |
						   SECURITY_LOCAL_USERID_CHANGE);
}

void
rl_table_open(RlTableSession *session, Oid schema, LOCKMODE lock)
{
	rl_open_as_owner(session, schema, "rate_limit_state", lock);
}

/*
 * What the owner has put on the table, such as triggers, runs with the owner's
 * rights: it must not find what the caller's search_path says.  To be undone by
 * AtEOXact_GUC(false, level) with the level that is returned.
 */
int
rl_set_safe_path(void)
{
	int			level = NewGUCNestLevel();

	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	return level;
}

/* The lock stays until the transaction ends. */
void
rl_table_close(const RlTableSession *session)
{
	SetUserIdAndSecContext(session->user, session->security_context);
	table_close(session->relation, NoLock);
}

/*
 * Return the plan of a statement.  Plans are made from texts that name the
 * schema: when it gets another name, somebody else may come to have the old
 * one.
 */
static SPIPlanPtr
get_plan(RlStatement statement)
{
	const char *schema = get_namespace_name(plans_schema);
	SPIPlanPtr	plan;

	if (strcmp(NameStr(plans_schema_name), schema) != 0)
		forget_plans();
	namestrcpy(&plans_schema_name, schema);

	plan = plans[statement];
	if (plan == NULL)
	{
		char	   *text = psprintf(statements[statement].text,
									quote_identifier(schema));

		/* no argument makes another plan better */
		plan = SPI_prepare_cursor(text, statements[statement].nargs,
								  (Oid *) statements[statement].types,
								  CURSOR_OPT_GENERIC_PLAN);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare \"%s\"", text);
		plans[statement] = plan;
	}
	return plan;
}

/*
 * Run a statement; or, if it is to see what is committed by now whatever the
 * transaction's snapshot, a query.
 */
static int64
run(RlStatement statement, Datum *args, const char *nulls, bool latest)
{
	int			level = rl_set_safe_path();
	SPIPlanPtr	plan = get_plan(statement);
	int			result = SPI_execute_snapshot(plan, args, nulls,
											  latest ? GetLatestSnapshot() :
											  InvalidSnapshot,
											  InvalidSnapshot, latest,
											  !latest, 0);

	if (result < 0)
		elog(ERROR, "could not execute statement %d: %s", statement,
			 SPI_result_code_string(result));
	AtEOXact_GUC(false, level);
	return SPI_processed;
}

/* Run a statement; rows are in SPI_tuptable, their number is returned. */
int64
rl_table_run(RlStatement statement, Datum *args)
{
	return run(statement, args, NULL, false);
}

/* The same for a query that is to see what is committed by now. */
int64
rl_table_query(RlStatement statement, Datum *args, const char *nulls)
{
	return run(statement, args, nulls, true);
}

/* Return false if a column of a row is null. */
bool
rl_nullable_column(int64 row, int number, Datum *value)
{
	bool		is_null;

	*value = SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc,
						   number, &is_null);
	return !is_null;
}

/* Return a column that is never null. */
Datum
rl_table_column(int64 row, int number)
{
	Datum		value;

	if (!rl_nullable_column(row, number, &value))
		elog(ERROR, "null in a column that must not be null");
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
