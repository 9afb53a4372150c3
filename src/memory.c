/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  The memory store: deciding.
 *
 * Several keys are decided with all their partitions locked: all are judged on
 * copies of their states, then, if nobody refuses, all are charged and written
 * back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memory.h"

#include "call.h"
#include "shmem.h"

/* Room for one state, kept to spare the hot path an allocation. */
static RlHit single_hits[RL_MAX_HITS];

/* Report that something that is not a check could not be stored. */
void
rl_raise_memory_full(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("the memory of rate_limit is full"),
			 errdetail("Everything in the part that the key belongs to is blocked or being refused."),
			 errhint("Raise \"rate_limit.memory\" and restart the server, or remove blocks and counters.")));
}

/*-------------------------------------------------------------------------
 * One key
 *-------------------------------------------------------------------------
 */

/*
 * See to it that what a call recorded can be written back.  If it cannot,
 * return false and until when.
 */
static bool
make_room(RlCall *call, RlTime *until)
{
	RlTime		clock = call->decision.clock;
	int			nchunks = rl_chunks_wanted(call);
	bool		enough;

	if (call->counter != NULL && nchunks <= 0)
		return true;
	if (call->counter == NULL)
		rl_sweep(call->partition, clock);
	else
		call->counter->flags |= RL_ENTRY_PINNED;

	enough = rl_make_room(call->partition, nchunks, clock, until);
	if (call->counter != NULL)
		call->counter->flags &= ~RL_ENTRY_PINNED;
	return enough;
}

/*
 * Write back a counter that was only re-timed.  That is not worth dropping
 * another one: if there is no room the next call does it.
 */
static void
write_back_if_room(RlCall *call)
{
	if (rl_chunks_wanted(call) <= (int) call->partition->nfree)
		rl_write_back(call);
}

static void
check_locked(RlCall *call)
{
	RlTime		until;

	if (!rl_may_charge(&call->decision, call->decision.request->cost))
	{
		rl_judge(&call->decision, call->decision.request->cost);
		if (rl_refusal_re_times(&call->decision))
			write_back_if_room(call);
		rl_note_refusal(call);
		return;
	}

	rl_charge(&call->decision);
	if (make_room(call, &until))
		rl_write_back(call);
	else
	{
		rl_load_state(call);
		rl_judge(&call->decision, call->decision.request->cost);
		rl_refuse_full(call, until);
	}
}

/* Return false if there is no room for what is to be recorded. */
static bool
adjust_locked(RlCall *call)
{
	RlTime		until;

	rl_adjust(&call->decision);
	if (!call->decision.recorded && !call->decision.re_timed)
		return true;
	if (!make_room(call, &until))
		return false;
	rl_write_back(call);
	return true;
}

static bool
decide_locked(RlOperation operation, RlCall *call)
{
	rl_set_time(&call->decision);
	rl_find_entries(call);
	rl_load_state(call);

	switch (operation)
	{
		case RL_PEEK:
			rl_judge(&call->decision, call->decision.request->cost);
			break;
		case RL_CHECK:
			check_locked(call);
			break;
		case RL_ADJUST:
			return adjust_locked(call);
	}
	return true;
}

/*
 * Decide one request.  A check that finds memory full is refused, an
 * adjustment raises an error.
 */
void
rl_memory_decide(RlOperation operation, const RlRequest *request,
				 RlVerdict *verdict)
{
	RlState		state;
	RlCall		call;
	bool		done;

	rl_prepare_call(&call, rl_get_arena(), request, verdict);
	call.decision.state = &state;
	call.hits = single_hits;

	LWLockAcquire(&call.partition->lock,
				  operation == RL_PEEK ? LW_SHARED : LW_EXCLUSIVE);
	done = decide_locked(operation, &call);
	LWLockRelease(&call.partition->lock);

	if (!done)
		rl_raise_memory_full();
}

/*-------------------------------------------------------------------------
 * Several keys, all or nothing
 *-------------------------------------------------------------------------
 */

/*
 * All requests of a call.  Calls on the same counter share the state of one of
 * them, its owner, which alone reads and writes the counter.
 */
typedef struct Batch
{
	int			n;
	RlCall	   *calls;			/* in the order of the requests */
	RlCall	  **sorted;			/* by partition and hash */
	RlCall	  **owners;			/* of the calls, in their order */
	int64	   *totals;			/* cost of each call and of those before it on
								 * the same counter, saturated */
} Batch;

static int
compare_calls(const void *a, const void *b)
{
	const RlCall *call_a = *(RlCall *const *) a;
	const RlCall *call_b = *(RlCall *const *) b;

	if (call_a->partition != call_b->partition)
		return call_a->partition < call_b->partition ? -1 : 1;
	if (call_a->identity.hash != call_b->identity.hash)
		return call_a->identity.hash < call_b->identity.hash ? -1 : 1;
	return call_a < call_b ? -1 : 1;
}

static bool
is_owner(const Batch *batch, const RlCall *call)
{
	return batch->owners[call - batch->calls] == call;
}

/* Return the first call on the counter of a sorted one. */
static RlCall *
find_owner(const Batch *batch, int i)
{
	RlCall	   *call = batch->sorted[i];

	for (int j = i - 1; j >= 0; j--)
	{
		RlCall	   *other = batch->sorted[j];

		if (other->identity.hash != call->identity.hash)
			break;
		if (is_owner(batch, other) &&
			rl_same_identity(&call->identity, &other->identity))
			return other;
	}
	return call;
}

/* Let calls on the same counter share one state. */
static void
share_states(Batch *batch)
{
	for (int i = 0; i < batch->n; i++)
	{
		RlCall	   *call = batch->sorted[i];
		RlCall	   *owner = find_owner(batch, i);

		batch->owners[call - batch->calls] = owner;
		if (owner == call)
		{
			call->decision.state = palloc(sizeof(RlState));
			call->hits = palloc(sizeof(RlHit) * RL_MAX_HITS);
		}
		else
			call->decision.state = owner->decision.state;
	}
}

/* Add up the costs of calls on the same counter. */
static void
add_up_costs(Batch *batch)
{
	for (int i = 0; i < batch->n; i++)
	{
		int64		cost = batch->calls[i].decision.request->cost;
		int64		before = 0;

		for (int j = i - 1; j >= 0; j--)
		{
			if (batch->owners[j] == batch->owners[i])
			{
				before = batch->totals[j];
				break;
			}
		}
		batch->totals[i] = cost > PG_INT64_MAX - before ? PG_INT64_MAX :
			before + cost;
	}
}

static void
prepare_batch(Batch *batch, const RlRequest *requests, int n,
			  RlVerdict *verdicts)
{
	RlArena    *arena = rl_get_arena();

	batch->n = n;
	batch->calls = palloc(sizeof(RlCall) * n);
	batch->sorted = palloc(sizeof(RlCall *) * n);
	batch->owners = palloc0(sizeof(RlCall *) * n);
	batch->totals = palloc(sizeof(int64) * n);
	for (int i = 0; i < n; i++)
	{
		rl_prepare_call(&batch->calls[i], arena, &requests[i], &verdicts[i]);
		batch->sorted[i] = &batch->calls[i];
	}
	qsort(batch->sorted, n, sizeof(RlCall *), compare_calls);
	share_states(batch);
	add_up_costs(batch);
}

/* Tell whether a sorted call is the first one of its partition. */
static bool
opens_partition(const Batch *batch, int i)
{
	return i == 0 || batch->sorted[i]->partition !=
		batch->sorted[i - 1]->partition;
}

static void
lock_batch(const Batch *batch)
{
	for (int i = 0; i < batch->n; i++)
	{
		if (opens_partition(batch, i))
			LWLockAcquire(&batch->sorted[i]->partition->lock, LW_EXCLUSIVE);
	}
}

static void
unlock_batch(const Batch *batch)
{
	for (int i = batch->n - 1; i >= 0; i--)
	{
		if (opens_partition(batch, i))
			LWLockRelease(&batch->sorted[i]->partition->lock);
	}
}

/* Copy all states, as of one instant. */
static void
load_batch(const Batch *batch)
{
	rl_set_time(&batch->calls[0].decision);
	for (int i = 0; i < batch->n; i++)
	{
		RlCall	   *call = &batch->calls[i];

		call->decision.now = batch->calls[0].decision.now;
		call->decision.clock = batch->calls[0].decision.clock;
		rl_find_entries(call);
		if (is_owner(batch, call))
			rl_load_state(call);
	}
}

/*
 * Judge each call as if those before it on the same counter had been charged.
 * Return whether none is refused.
 */
static bool
judge_batch(const Batch *batch)
{
	bool		admitted = true;

	for (int i = 0; i < batch->n; i++)
	{
		RlCall	   *call = &batch->calls[i];

		/* a state that is shared has been left by a call of another limit */
		rl_refresh_decision(&call->decision);
		rl_judge(&call->decision, batch->totals[i]);
		admitted = admitted && !rl_refuses(call->decision.request,
										   call->decision.verdict);
	}
	return admitted;
}

/* Record the costs on the copies of the states. */
static void
charge_batch(const Batch *batch)
{
	for (int i = 0; i < batch->n; i++)
	{
		RlDecision *decision = &batch->calls[i].decision;

		/* what only counts may be over its limit */
		if (!decision->verdict->allowed)
			continue;
		rl_refresh_decision(decision);
		rl_charge(decision);
		if (decision->recorded)
			batch->owners[i]->decision.recorded = true;
	}
}

static void
pin_batch(const Batch *batch, bool pinned)
{
	for (int i = 0; i < batch->n; i++)
	{
		RlEntry    *counter = batch->calls[i].counter;

		if (counter == NULL)
			continue;
		if (pinned)
			counter->flags |= RL_ENTRY_PINNED;
		else
			counter->flags &= ~RL_ENTRY_PINNED;
	}
}

/* Return how many chunks a call needs; what it gives back does not count. */
static int
chunks_to_find(const Batch *batch, const RlCall *call)
{
	if (!is_owner(batch, call) || !call->decision.recorded)
		return 0;
	return Max(rl_chunks_wanted(call), 0);
}

/*
 * Make room in one partition for the calls sorted from number "first" on.  If
 * there is none, mark those that need some with until when.
 */
static bool
make_room_for(const Batch *batch, int first, RlTime *untils)
{
	RlPartition *partition = batch->sorted[first]->partition;
	RlTime		until;
	int			nchunks = 0;
	int			end;

	for (end = first; end < batch->n &&
		 batch->sorted[end]->partition == partition; end++)
		nchunks += chunks_to_find(batch, batch->sorted[end]);
	if (rl_make_room(partition, nchunks, batch->calls[0].decision.clock,
					 &until))
		return true;

	for (int i = first; i < end; i++)
	{
		RlCall	   *call = batch->sorted[i];

		if (chunks_to_find(batch, call) > 0)
			untils[call - batch->calls] = until;
	}
	return false;
}

/*
 * Write back what was charged.  If there is no room for it, return false and
 * until when for each call that needs some.
 */
static bool
settle_batch(const Batch *batch, RlTime *untils)
{
	bool		enough = true;

	pin_batch(batch, true);
	for (int i = 0; i < batch->n; i++)
	{
		if (opens_partition(batch, i) && !make_room_for(batch, i, untils))
			enough = false;
	}
	pin_batch(batch, false);

	for (int i = 0; enough && i < batch->n; i++)
	{
		RlCall	   *call = &batch->calls[i];

		if (call->decision.recorded && is_owner(batch, call))
			rl_write_back(call);
	}
	return enough;
}

/*
 * Write what a step of the clock has changed where a limit refuses, as the check
 * of one key does.
 */
static void
write_re_timed(const Batch *batch)
{
	for (int i = 0; i < batch->n; i++)
	{
		if (rl_refusal_re_times(&batch->calls[i].decision))
			write_back_if_room(&batch->calls[i]);
	}
}

static void
note_refusals(const Batch *batch)
{
	for (int i = 0; i < batch->n; i++)
	{
		if (!batch->calls[i].decision.verdict->allowed)
			rl_note_refusal(&batch->calls[i]);
	}
}

/*
 * Judge anew when memory is full for some calls.  Return whether none is
 * refused.
 */
static bool
judge_full_batch(const Batch *batch, const RlTime *untils)
{
	bool		admitted;

	load_batch(batch);
	admitted = judge_batch(batch);
	for (int i = 0; i < batch->n; i++)
	{
		RlCall	   *call = &batch->calls[i];

		if (untils[i] == RL_MIN_TIME)
			continue;
		rl_refuse_full(call, untils[i]);
		admitted = admitted && !rl_refuses(call->decision.request,
										   call->decision.verdict);
	}
	return admitted;
}

/*
 * Return whether all was charged.  What only counts is left out if memory is
 * too full for it, and does not keep the others from being charged.
 */
static bool
check_batch(const Batch *batch, RlTime *untils)
{
	if (!judge_batch(batch))
	{
		write_re_timed(batch);
		note_refusals(batch);
		return false;
	}

	for (int i = 0; i < batch->n; i++)
		untils[i] = RL_MIN_TIME;
	charge_batch(batch);
	while (!settle_batch(batch, untils))
	{
		if (!judge_full_batch(batch, untils))
			return false;
		charge_batch(batch);
	}
	write_re_timed(batch);
	note_refusals(batch);
	return true;
}

/*
 * Judge several requests without charging any.  Return whether none is refused;
 * which ones are is noted.
 */
bool
rl_memory_judge_all(const RlRequest *requests, int n, RlVerdict *verdicts)
{
	Batch		batch;
	bool		admitted;

	prepare_batch(&batch, requests, n, verdicts);
	lock_batch(&batch);
	load_batch(&batch);
	admitted = judge_batch(&batch);
	if (!admitted)
	{
		write_re_timed(&batch);
		note_refusals(&batch);
	}
	unlock_batch(&batch);
	return admitted;
}

/*
 * Decide several requests.  The verdict on each says whether its limit admits
 * its cost; costs are recorded only if none is refused.  Return whether they
 * were.
 */
bool
rl_memory_charge_all(const RlRequest *requests, int n, RlVerdict *verdicts)
{
	RlTime	   *untils = palloc(sizeof(RlTime) * n);
	Batch		batch;
	bool		charged;

	prepare_batch(&batch, requests, n, verdicts);
	lock_batch(&batch);
	load_batch(&batch);
	charged = check_batch(&batch, untils);
	unlock_batch(&batch);
	return charged;
}
