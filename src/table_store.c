/*-------------------------------------------------------------------------
 *
 * table_store.c
 *	  The table store: one row per counter in rate_limit_state.
 *
 * A check is one INSERT ... ON CONFLICT DO UPDATE.  What it inserts is the
 * state of a new counter with the cost recorded.  If there is a row, its WHERE
 * clause calls rate_limit_table_step() on the state of the locked row, which
 * judges and charges a copy; the new state is fetched by the SET clause from
 * where the step left it.  When the step refuses, the row is not touched.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "table_store.h"

#include "memory.h"
#include "table_sql.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(rate_limit_table_step);
PG_FUNCTION_INFO_V1(rate_limit_table_state);
PG_FUNCTION_INFO_V1(rate_limit_table_expires_at);
PG_FUNCTION_INFO_V1(rate_limit_table_last_use);

/* what a read-only transaction cannot execute */
#define TABLE_COMMAND			"a check of the table store"

/* What the statement in progress decides, NULL when there is none. */
static RlDecision *current = NULL;
static RlOperation current_operation;

static RlHit hits[RL_MAX_HITS];

/*-------------------------------------------------------------------------
 * The functions that the statements call
 *-------------------------------------------------------------------------
 */

static void
check_in_progress(FunctionCallInfo fcinfo)
{
	if (current == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("function %s works only within the table store",
						get_func_name(fcinfo->flinfo->fn_oid)),
				 errhint("Call rate_limit_check with store => 'table'.")));
}

/* Decide on a state, as of now.  Return whether it has to be kept. */
static bool
decide(RlDecision *decision, RlOperation operation)
{
	rl_set_time(decision);
	decision->re_timed = rl_refresh_decision(decision);
	decision->recorded = false;

	if (operation == RL_ADJUST)
		rl_adjust(decision);
	else
	{
		rl_judge(decision, decision->request->cost);
		if (operation == RL_CHECK && decision->verdict->allowed)
			rl_charge(decision);
	}
	return decision->recorded || decision->re_timed;
}

/* Decide on the state of the row that the statement in progress has locked. */
Datum
rate_limit_table_step(PG_FUNCTION_ARGS)
{
	check_in_progress(fcinfo);
	rl_state_from_array(&current->request->limit, PG_GETARG_DATUM(0),
						current->state, hits);
	PG_RETURN_BOOL(decide(current, current_operation));
}

/* Return the state that the step has left. */
Datum
rate_limit_table_state(PG_FUNCTION_ARGS)
{
	check_in_progress(fcinfo);
	PG_RETURN_DATUM(rl_state_to_array(&current->request->limit,
									  current->state));
}

/* Return the instant of the decision by the server's clock. */
Datum
rate_limit_table_last_use(PG_FUNCTION_ARGS)
{
	check_in_progress(fcinfo);
	PG_RETURN_TIMESTAMPTZ(current->clock);
}

/* Return until when it has to be kept. */
Datum
rate_limit_table_expires_at(PG_FUNCTION_ARGS)
{
	check_in_progress(fcinfo);
	PG_RETURN_TIMESTAMPTZ(current->state->active ? rl_keep_until(current) :
						  current->clock);
}

/* Run a statement that calls these functions. */
static int64
run_deciding(RlStatement statement, Datum *args, RlDecision *decision,
			 RlOperation operation)
{
	int64		nrows;

	current = decision;
	current_operation = operation;
	PG_TRY();
	{
		nrows = rl_table_run(statement, args);
	}
	PG_FINALLY();
	{
		current = NULL;
	}
	PG_END_TRY();
	return nrows;
}

/*-------------------------------------------------------------------------
 * One counter
 *-------------------------------------------------------------------------
 */

static void
set_identity_args(const RlRequest *request, Datum *args)
{
	const RlWindow *window = &request->limit.window;

	args[0] = PointerGetDatum(cstring_to_text_with_len(request->key.data,
													   request->key.length));
	args[1] = CStringGetTextDatum(rl_algorithm_name(request->limit.algorithm));
	args[2] = Int64GetDatum(window->length);
	args[3] = CStringGetTextDatum(rl_unit_names[window->unit]);
	args[4] = CStringGetTextDatum(request->zone_name ? request->zone_name :
								  "");
}

static void
init_decision(RlDecision *decision, const RlRequest *request,
			  RlVerdict *verdict, RlState *state)
{
	memset(decision, 0, sizeof(RlDecision));
	decision->request = request;
	decision->verdict = verdict;
	decision->state = state;
	rl_set_time(decision);
	decision->block_end = rl_memory_block_end(request->key);
	decision->blocked = decision->block_end > decision->now;
	state->active = false;
	state->hits = hits;
}

/* Judge a cost without recording or locking anything. */
static void
peek(RlDecision *decision, int64 cost, Datum *args)
{
	decision->state->active = false;
	if (rl_table_run(RL_SQL_SELECT_ROW, args) > 0)
		rl_state_from_array(&decision->request->limit, rl_table_column(0, 1),
							decision->state, hits);
	rl_set_time(decision);
	rl_refresh_decision(decision);
	rl_judge(decision, cost);
}

/*
 * Decide as if there were no counter, and if that is admitted try to insert
 * it; if there is one, the statement decides anew.
 */
static void
upsert(RlDecision *decision, RlOperation operation, Datum *args)
{
	const RlLimit *limit = &decision->request->limit;

	if (!decide(decision, operation))
	{
		peek(decision, decision->request->cost, args);
		return;
	}
	args[5] = rl_state_to_array(limit, decision->state);
	args[6] = Int64GetDatum(limit->limit);
	args[7] = TimestampTzGetDatum(rl_keep_until(decision));
	args[8] = TimestampTzGetDatum(decision->clock);
	run_deciding(RL_SQL_UPSERT, args, decision, operation);
}

static void
decide_in_table(RlOperation operation, RlDecision *decision)
{
	int64		cost = decision->request->cost;
	Datum		args[RL_TABLE_MAX_ARGS];

	set_identity_args(decision->request, args);
	if (operation == RL_PEEK)
		peek(decision, cost, args);
	else if (operation == RL_CHECK || cost > 0)
		upsert(decision, operation, args);
	else
	{
		/* with nothing to give back from: as if there were no counter */
		decide(decision, operation);
		run_deciding(RL_SQL_UPDATE_ROW, args, decision, operation);
	}
}

/* Decide one request. */
void
rl_table_decide(RlOperation operation, const RlRequest *request,
				RlVerdict *verdict)
{
	RlTableSession session;
	RlDecision	decision;
	RlState		state;

	if (operation != RL_PEEK)
		PreventCommandIfReadOnly(TABLE_COMMAND);

	init_decision(&decision, request, verdict, &state);
	rl_table_begin(&session, request->schema);
	decide_in_table(operation, &decision);
	rl_table_end(&session);

	if (decision.recorded)
		rl_table_prune_at_commit(request->schema);
	if (operation == RL_CHECK && verdict->blocked)
		rl_memory_count_blocked(request->key);
}

/*-------------------------------------------------------------------------
 * Several counters, all or nothing
 *-------------------------------------------------------------------------
 */

static int
compare_bytes(const char *a, int a_length, const char *b, int b_length)
{
	int			result = memcmp(a, b, Min(a_length, b_length));

	return result != 0 ? result : a_length - b_length;
}

/* Compare requests by their counters, then by their order. */
static int
compare_requests(const void *a, const void *b)
{
	const RlRequest *request_a = *(const RlRequest *const *) a;
	const RlRequest *request_b = *(const RlRequest *const *) b;
	const RlWindow *window_a = &request_a->limit.window;
	const RlWindow *window_b = &request_b->limit.window;
	int			result = compare_bytes(request_a->key.data,
									   request_a->key.length,
									   request_b->key.data,
									   request_b->key.length);

	if (result != 0)
		return result;
	if (window_a->unit != window_b->unit)
		return window_a->unit < window_b->unit ? -1 : 1;
	if (window_a->length != window_b->length)
		return window_a->length < window_b->length ? -1 : 1;
	return request_a < request_b ? -1 : 1;
}

/* Judge all sorted requests without recording anything. */
static bool
peek_all(const RlRequest **sorted, int n, const RlRequest *requests,
		 RlVerdict *verdicts)
{
	bool		admitted = true;
	int64		total = 0;

	for (int i = 0; i < n; i++)
	{
		const RlRequest *request = sorted[i];
		RlDecision	decision;
		RlState		state;
		Datum		args[RL_TABLE_MAX_ARGS];

		if (i == 0 || !rl_same_counter(sorted[i - 1], request))
			total = 0;
		total += Min(request->cost, PG_INT64_MAX - total);
		init_decision(&decision, request, &verdicts[request - requests],
					  &state);
		set_identity_args(request, args);
		peek(&decision, total, args);
		admitted = admitted && decision.verdict->allowed;
	}
	return admitted;
}

/* Charge all sorted requests; stop and return false if one is refused. */
static bool
charge_all(const RlRequest **sorted, int n, const RlRequest *requests,
		   RlVerdict *verdicts)
{
	for (int i = 0; i < n; i++)
	{
		const RlRequest *request = sorted[i];
		RlDecision	decision;
		RlState		state;

		init_decision(&decision, request, &verdicts[request - requests],
					  &state);
		decide_in_table(request->cost == 0 ? RL_PEEK : RL_CHECK, &decision);
		if (!decision.verdict->allowed)
			return false;
	}
	return true;
}

/* Charge all in a subtransaction, which is rolled back if one is refused. */
static bool
try_to_charge(const RlRequest **sorted, int n, const RlRequest *requests,
			  RlVerdict *verdicts)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;
	volatile bool charged = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		charged = charge_all(sorted, n, requests, verdicts);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();

	if (charged)
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error != NULL)
		ReThrowError(error);
	return charged;
}

/*
 * Decide several requests.  Looking first keeps refusals from writing; a
 * charge can still be refused when others come in between, and then all is
 * taken back and looked at again.
 */
void
rl_table_decide_all(const RlRequest *requests, int n, RlVerdict *verdicts)
{
	const RlRequest **sorted = palloc(sizeof(RlRequest *) * n);
	RlTableSession session;

	PreventCommandIfReadOnly(TABLE_COMMAND);
	for (int i = 0; i < n; i++)
		sorted[i] = &requests[i];
	qsort(sorted, n, sizeof(RlRequest *), compare_requests);

	rl_table_begin(&session, requests[0].schema);
	while (peek_all(sorted, n, requests, verdicts) &&
		   !try_to_charge(sorted, n, requests, verdicts))
		CHECK_FOR_INTERRUPTS();
	rl_table_end(&session);

	rl_table_prune_at_commit(requests[0].schema);
	for (int i = 0; i < n; i++)
	{
		if (verdicts[i].blocked)
			rl_memory_count_blocked(requests[i].key);
	}
}
