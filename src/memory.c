/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  The memory store: deciding.
 *
 * Several keys are decided with all their partitions locked: first on copies
 * of their states, then, if nobody refuses, all copies are written back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memory.h"

#include "call.h"
#include "shmem.h"

/* Room for one state, kept to spare the hot path an allocation. */
static RlHit single_hits[RL_MAX_HITS];

/*
 * Turn an admission into a refusal because nothing can be dropped for what
 * the call would store.
 */
static void
refuse_full(RlCall *call)
{
	call->partition->refused_full++;
	call->verdict->allowed = false;
	call->verdict->report.retry_at = call->partition->full_until;
}

/*
 * Report on a call whose state has been loaded anew, without what the call had
 * recorded on it.  Whether and until when the call is refused stays.
 */
static void
report_uncharged(RlCall *call, RlTime now)
{
	RlTime		retry_at = call->verdict->report.retry_at;

	rl_report_call(call, now);
	call->verdict->report.retry_at = retry_at;
}

/* Report that something that is not a check could not be stored. */
void
rl_raise_memory_full(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("the memory of rate_limit is full"),
			 errdetail("Everything in it is blocked or being refused."),
			 errhint("Raise \"rate_limit.memory\" and restart the server, or remove blocks and counters.")));
}

/*-------------------------------------------------------------------------
 * One key
 *-------------------------------------------------------------------------
 */

/*
 * See to it that some chunks are free besides those of a call's counter, which
 * may be NULL.
 */
static bool
make_room(RlCall *call, int nchunks, RlTime now)
{
	bool		enough;

	if (call->counter == NULL)
	{
		rl_sweep(call->partition, now);
		return rl_make_room(call->partition, nchunks, now);
	}

	call->counter->flags |= RL_ENTRY_PINNED;
	enough = rl_make_room(call->partition, nchunks, now);
	call->counter->flags &= ~RL_ENTRY_PINNED;
	return enough;
}

/*
 * Write back what a call recorded on the copy of its state.  Return false if
 * there is no room.
 */
static bool
settle(RlCall *call, RlTime now)
{
	if (call->state->active)
	{
		int			nchunks = rl_encode_call(call);

		if (nchunks > 0 && !make_room(call, nchunks, now))
			return false;
	}
	rl_write_back(call);
	return true;
}

static bool
decide_locked(RlOperation operation, RlCall *call)
{
	RlTime		now = rl_instant_of(call->request);

	rl_find_entries(call, now);
	rl_load_state(call, now);

	if (operation == RL_ADJUST)
	{
		rl_adjust(call, now);
		return call->request->cost == 0 || settle(call, now);
	}

	rl_judge(operation, call, now);
	if (operation == RL_PEEK || call->request->cost == 0)
		return true;
	if (!call->verdict->allowed)
		rl_note_refusal(call);
	else if (!settle(call, now))
	{
		refuse_full(call);
		rl_load_state(call, now);
		report_uncharged(call, now);
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

	rl_prepare_call(&call, rl_get_arena(), request, verdict, &state,
					single_hits);

	LWLockAcquire(&call.partition->lock, LW_EXCLUSIVE);
	done = decide_locked(operation, &call);
	LWLockRelease(&call.partition->lock);

	if (!done)
		rl_raise_memory_full();
}

/*-------------------------------------------------------------------------
 * Several keys, all or nothing
 *-------------------------------------------------------------------------
 */

/* All requests of a call, in their order and in that of the locks. */
typedef struct Batch
{
	int			n;
	RlCall	   *calls;
	RlCall	  **sorted;			/* by partition and hash */
} Batch;

static int
compare_calls(const void *a, const void *b)
{
	const RlCall *call_a = *(RlCall *const *) a;
	const RlCall *call_b = *(RlCall *const *) b;

	if (call_a->partition_number != call_b->partition_number)
		return call_a->partition_number < call_b->partition_number ? -1 : 1;
	if (call_a->identity.hash != call_b->identity.hash)
		return call_a->identity.hash < call_b->identity.hash ? -1 : 1;
	return call_a < call_b ? -1 : 1;
}

/* A call that has a state of its own, not that of one sorted before it. */
static bool
owns_state(const RlCall *call)
{
	return call->hits != NULL;
}

/* Let calls on the same counter share one state. */
static void
share_states(Batch *batch)
{
	for (int i = 1; i < batch->n; i++)
	{
		RlCall	   *call = batch->sorted[i];

		for (int j = i - 1; j >= 0 && batch->sorted[j]->identity.hash ==
			 call->identity.hash; j--)
		{
			RlCall	   *other = batch->sorted[j];

			if (owns_state(other) &&
				rl_same_identity(&call->identity, &other->identity))
			{
				call->state = other->state;
				call->hits = NULL;
				break;
			}
		}
	}
}

static void
prepare_batch(Batch *batch, const RlRequest *requests, int n,
			  RlVerdict *verdicts)
{
	RlArena    *arena = rl_get_arena();
	RlState    *states = palloc(sizeof(RlState) * n);
	RlHit	   *hits = palloc(sizeof(RlHit) * RL_MAX_HITS * n);

	batch->n = n;
	batch->calls = palloc(sizeof(RlCall) * n);
	batch->sorted = palloc(sizeof(RlCall *) * n);
	for (int i = 0; i < n; i++)
	{
		rl_prepare_call(&batch->calls[i], arena, &requests[i], &verdicts[i],
						&states[i], &hits[i * RL_MAX_HITS]);
		batch->sorted[i] = &batch->calls[i];
	}
	qsort(batch->sorted, n, sizeof(RlCall *), compare_calls);
	share_states(batch);
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

/*
 * Make room in one partition for the states of the calls sorted from number
 * "first" on.  If there is none, the calls that need some are refused.
 */
static bool
make_room_for(const Batch *batch, int first, RlTime now)
{
	RlPartition *partition = batch->sorted[first]->partition;
	int			nchunks = 0;
	int			end;

	for (end = first; end < batch->n &&
		 batch->sorted[end]->partition == partition; end++)
	{
		RlCall	   *call = batch->sorted[end];

		if (owns_state(call) && call->state->active)
			nchunks += rl_encode_call(call);
	}
	if (rl_make_room(partition, nchunks, now))
		return true;

	for (int i = first; i < end; i++)
		refuse_full(batch->sorted[i]);
	return false;
}

/* Write back all copies, or refuse if there is no room for them. */
static bool
settle_batch(const Batch *batch, RlTime now)
{
	bool		enough = true;

	pin_batch(batch, true);
	for (int i = 0; i < batch->n; i++)
	{
		if (opens_partition(batch, i) && !make_room_for(batch, i, now))
			enough = false;
	}
	pin_batch(batch, false);

	for (int i = 0; enough && i < batch->n; i++)
	{
		RlCall	   *call = batch->sorted[i];

		if (owns_state(call) && call->state->active)
		{
			rl_encode_call(call);
			rl_write_back(call);
		}
	}
	return enough;
}

/* Judge all calls in the order of the requests; charge all or none. */
static void
decide_batch(RlOperation operation, const Batch *batch)
{
	RlTime		now = rl_instant_of(batch->calls[0].request);
	bool		admitted = true;

	for (int i = 0; i < batch->n; i++)
	{
		RlCall	   *call = batch->sorted[i];

		rl_find_entries(call, now);
		if (owns_state(call))
			rl_load_state(call, now);
	}

	for (int i = 0; i < batch->n; i++)
	{
		RlCall	   *call = &batch->calls[i];

		/* a state that is shared has been left by a call of another limit */
		rl_refresh(&call->request->limit, call->state, now);
		rl_judge(operation, call, now);
		admitted = admitted && call->verdict->allowed;
	}
	if (operation == RL_PEEK || (admitted && settle_batch(batch, now)))
		return;

	for (int i = 0; i < batch->n; i++)
	{
		if (owns_state(batch->sorted[i]))
			rl_load_state(batch->sorted[i], now);
	}
	for (int i = 0; i < batch->n; i++)
	{
		RlCall	   *call = &batch->calls[i];

		report_uncharged(call, now);
		if (!call->verdict->allowed)
			rl_note_refusal(call);
	}
}

/*
 * Decide several requests.  The verdict on each says whether its limit admits
 * its cost; costs are recorded only if all do.
 */
void
rl_memory_decide_all(RlOperation operation, const RlRequest *requests, int n,
					 RlVerdict *verdicts)
{
	Batch		batch;

	prepare_batch(&batch, requests, n, verdicts);
	lock_batch(&batch);
	decide_batch(operation, &batch);
	unlock_batch(&batch);
}
