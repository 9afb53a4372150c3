/*-------------------------------------------------------------------------
 *
 * table_store.c
 *	  The table store: deciding.
 *
 * A check looks at its row without locking it, so that a call which is refused
 * by what is committed neither waits nor writes.  One that is admitted replaces
 * the very version that it has seen.  If another transaction holds that, it
 * waits for its end and decides anew, as it does if others were faster.  A row
 * that is not there is inserted, unless somebody else does so first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "table_store.h"

#include "memory.h"
#include "subtransaction.h"
#include "table_row.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/utility.h"

/* what a read-only transaction cannot execute */
#define TABLE_COMMAND			"a check of the table store"

static RlHit hits[RL_MAX_HITS];

/*-------------------------------------------------------------------------
 * One counter
 *-------------------------------------------------------------------------
 */

static void
init_decision(RlDecision *decision, const RlRequest *request,
			  RlVerdict *verdict, RlState *state)
{
	memset(decision, 0, sizeof(RlDecision));
	decision->request = request;
	decision->verdict = verdict;
	decision->state = state;
}

/* Read the state of the row, or that of no row, and bring it to now. */
static void
load_state(RlDecision *decision, const RlRow *row)
{
	decision->state->active = false;
	decision->state->hits = hits;
	if (row->tuple != NULL)
		rl_read_row(row, decision->state, hits);
	rl_set_time(decision);
	decision->block_end = rl_memory_block_end(decision->request->key);
	decision->blocked = decision->block_end > decision->now;
	decision->re_timed = rl_refresh_decision(decision);
	decision->recorded = false;
}

/* Decide on the state.  Return whether it has to be kept. */
static bool
decide(RlDecision *decision, RlOperation operation)
{
	if (operation == RL_ADJUST)
	{
		rl_adjust(decision);
		return decision->recorded || decision->re_timed;
	}

	rl_judge(decision, decision->request->cost);
	if (operation == RL_PEEK)
		return false;
	if (!decision->verdict->allowed)
		return rl_refusal_re_times(decision);
	rl_charge(decision);
	return true;
}

/*
 * A serializable transaction should not have looked for what others insert: it
 * tries to insert first.
 */
static bool
is_to_look(const RlRequest *request)
{
	return !IsolationIsSerializable() || request->cost <= 0;
}

static void
decide_in_table(RlTableSession *session, RlOperation operation,
				RlDecision *decision)
{
	RlRow		row;
	bool		look = operation == RL_PEEK || is_to_look(decision->request);

	rl_init_row(&row, session, decision->request);
	for (;;)
	{
		if (look && !row.locked)
			rl_find_row(&row);
		load_state(decision, &row);
		if (!decide(decision, operation))
		{
			if (look)
				break;
		}
		else if (row.tuple == NULL)
		{
			if (rl_insert_row(&row, decision))
				break;
		}
		else if (rl_needs_lock(&row))
			rl_lock_row(&row);
		else if (rl_update_row(&row, decision))
			break;
		look = true;
		CHECK_FOR_INTERRUPTS();
	}
	if (!decision->recorded)
		rl_leave_queue(&row);
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
	rl_table_open(&session, request->schema,
				  operation == RL_PEEK ? AccessShareLock : RowExclusiveLock);
	decide_in_table(&session, operation, &decision);
	rl_table_close(&session);

	if (decision.recorded)
		rl_table_prune_at_commit(request->schema);
	if (operation == RL_CHECK && verdict->blocked)
		rl_memory_count_blocked(request->key);
}

/*-------------------------------------------------------------------------
 * Several counters, all or nothing
 *-------------------------------------------------------------------------
 */

typedef struct Batch
{
	int			n;
	const RlRequest *requests;
	RlVerdict  *verdicts;
	const RlRequest **sorted;	/* by counter */
	RlTableSession session;
	bool		(*then) (void *arg);
	void	   *then_arg;
} Batch;

static RlVerdict *
verdict_of(const Batch *batch, const RlRequest *request)
{
	return &batch->verdicts[request - batch->requests];
}

static int
compare_bytes(const char *a, int a_length, const char *b, int b_length)
{
	int			result = memcmp(a, b, Min(a_length, b_length));

	return result != 0 ? result : a_length - b_length;
}

/* Compare names, of which those that are NULL come first. */
static int
compare_names(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
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

	if (result == 0)
		result = compare_names(request_a->policy, request_b->policy);
	if (result == 0)
		result = compare_names(request_a->rule, request_b->rule);
	if (result != 0)
		return result;
	if (window_a->unit != window_b->unit)
		return window_a->unit < window_b->unit ? -1 : 1;
	if (window_a->length != window_b->length)
		return window_a->length < window_b->length ? -1 : 1;
	return request_a < request_b ? -1 : 1;
}

static void
open_batch(Batch *batch, const RlRequest *requests, int n,
		   RlVerdict *verdicts)
{
	PreventCommandIfReadOnly(TABLE_COMMAND);
	batch->n = n;
	batch->requests = requests;
	batch->verdicts = verdicts;
	batch->sorted = palloc(sizeof(RlRequest *) * n);
	for (int i = 0; i < n; i++)
		batch->sorted[i] = &requests[i];
	qsort(batch->sorted, n, sizeof(RlRequest *), compare_requests);
	rl_table_open(&batch->session, requests[0].schema, RowExclusiveLock);
}

/*
 * Keep what a step of the clock has changed in a row that refuses, as the check
 * of a single request does: else the key would wait for the old clock.
 */
static void
keep_re_timed(Batch *batch, const RlRequest *request)
{
	RlRequest	nothing;
	RlVerdict	verdict;
	RlDecision	decision;
	RlState		state;

	rl_copy_request(&nothing, request);
	nothing.cost = 0;
	init_decision(&decision, &nothing, &verdict, &state);
	decide_in_table(&batch->session, RL_ADJUST, &decision);
}

/*
 * Judge several requests without recording or locking anything, so that
 * refusals do not write.  Return whether none is refused.
 */
bool
rl_table_judge_all(const RlRequest *requests, int n, RlVerdict *verdicts)
{
	bool		admitted = true;
	int64		total = 0;
	Batch		batch;

	open_batch(&batch, requests, n, verdicts);
	for (int i = 0; i < n; i++)
	{
		const RlRequest *request = batch.sorted[i];
		RlVerdict  *verdict = verdict_of(&batch, request);
		RlDecision	decision;
		RlState		state;
		RlRow		row;

		if (i == 0 || !rl_same_counter(batch.sorted[i - 1], request))
			total = 0;
		total += Min(request->cost, PG_INT64_MAX - total);
		init_decision(&decision, request, verdict, &state);
		rl_init_row(&row, &batch.session, request);
		rl_find_row(&row);
		load_state(&decision, &row);
		rl_judge(&decision, total);
		admitted = admitted && !rl_refuses(request, verdict);
		if (verdict->blocked)
			rl_memory_count_blocked(request->key);
		if (rl_refusal_re_times(&decision))
			keep_re_timed(&batch, request);
	}
	rl_table_close(&batch.session);
	return admitted;
}

/* Charge all requests; stop and return false if one is refused. */
static bool
charge_all(void *arg)
{
	Batch	   *batch = arg;

	for (int i = 0; i < batch->n; i++)
	{
		const RlRequest *request = batch->sorted[i];
		RlVerdict  *verdict = verdict_of(batch, request);
		RlDecision	decision;
		RlState		state;

		init_decision(&decision, request, verdict, &state);
		decide_in_table(&batch->session, request->cost == 0 ?
						RL_PEEK : RL_CHECK, &decision);
		if (rl_refuses(request, verdict))
			return false;
	}
	return batch->then == NULL || batch->then(batch->then_arg);
}

/*
 * Charge several requests, and then do something else.  If one is refused, which
 * is so if others have come first, or the other thing fails, all is taken back
 * and false returned.
 */
bool
rl_table_charge_all(const RlRequest *requests, int n, RlVerdict *verdicts,
					bool (*then) (void *arg), void *arg)
{
	Batch		batch = {.then = then,.then_arg = arg};
	ErrorData  *error;
	bool		charged;

	open_batch(&batch, requests, n, verdicts);
	charged = rl_try(charge_all, &batch, &error);
	if (error != NULL)
		ReThrowError(error);
	rl_table_close(&batch.session);
	rl_table_prune_at_commit(requests[0].schema);
	return charged;
}
