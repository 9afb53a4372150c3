/*-------------------------------------------------------------------------
 *
 * call.c
 *	  One request on its way through the memory store.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "call.h"

#include "state.h"

#include "utils/timestamp.h"

/* Room for an encoded state, kept to spare the hot path an allocation. */
static int64 state_words[RL_MAX_STATE_WORDS];

/*-------------------------------------------------------------------------
 * Before the lock
 *-------------------------------------------------------------------------
 */

/* Complete the identity of a counter by its window. */
static void
identify_window(RlIdentity *identity, const RlRequest *request)
{
	identity->unit = request->limit.window.unit;
	identity->window = request->limit.window.length;

	if (request->zone_name != NULL)
	{
		int			zone_bytes = strlen(request->zone_name);
		char	   *bytes = palloc(identity->key_bytes + 1 + zone_bytes);

		memcpy(bytes, identity->bytes, identity->key_bytes);
		bytes[identity->key_bytes] = '\0';
		memcpy(bytes + identity->key_bytes + 1, request->zone_name,
			   zone_bytes);
		identity->bytes = bytes;
		identity->id_bytes += 1 + zone_bytes;
	}
}

/* Begin a call.  The caller has to set call->state and call->hits. */
void
rl_prepare_call(RlCall *call, RlArena *arena, const RlRequest *request,
				RlVerdict *verdict)
{
	memset(call, 0, sizeof(RlCall));
	call->request = request;
	call->verdict = verdict;
	call->identity = rl_identity(arena, request->key.data,
								 request->key.length,
								 request->limit.algorithm);
	identify_window(&call->identity, request);
	call->partition_number = rl_partition_of(arena, call->identity.hash);
	call->partition = rl_partition(arena, call->partition_number);
}

/*-------------------------------------------------------------------------
 * Under the lock: copying states in and out
 *-------------------------------------------------------------------------
 */

/* Read the clock. */
void
rl_set_time(RlCall *call)
{
	call->clock = GetCurrentTimestamp();
	call->now = call->request->has_time ? call->request->at : call->clock;
}

/*
 * Convert an instant of decisions into one of the server's clock, as far away
 * from now as it is.
 */
static RlTime
clock_time(const RlCall *call, RlTime time)
{
	return time == RL_NEVER ? RL_NEVER : call->clock + (time - call->now);
}

/* Find the entries of a call. */
void
rl_find_entries(RlCall *call)
{
	rl_lookup(call->partition, &call->identity, &call->counter, &call->block);
	if (call->block != NULL && call->block->expires <= call->now)
		call->block = NULL;
}

/* Copy the state of a call's counter, brought to the call's instant. */
void
rl_load_state(RlCall *call)
{
	RlState    *state = call->state;
	RlEntry    *counter = call->counter;

	state->active = false;
	state->hits = call->hits;
	if (counter != NULL)
	{
		rl_get_state(call->partition, counter, state_words);
		rl_decode_state(&call->request->limit, state_words,
						counter->state_words, state);
	}
	call->re_timed = rl_refresh(&call->request->limit, state, call->now);
	call->recorded = false;
}

/*
 * Return how many more chunks than now the counter of a call will have, or
 * how many fewer.
 */
int
rl_chunks_wanted(const RlCall *call)
{
	int			held = call->counter == NULL ? 0 :
	1 + call->counter->tail_chunks;

	if (!call->state->active)
		return -held;
	return rl_chunks_needed(call->identity.id_bytes,
							rl_count_words(&call->request->limit,
										   call->state)) - held;
}

/* Scale what is used of a limit, for the order of eviction. */
static uint8
fill_of(const RlVerdict *verdict)
{
	if (verdict->report.used >= verdict->limit)
		return PG_UINT8_MAX;
	return (uint8) ((int128) verdict->report.used * PG_UINT8_MAX /
					verdict->limit);
}

/* Note how a counter was used last. */
static void
touch(RlCall *call)
{
	call->counter->limit = call->request->limit.limit;
	call->counter->fill = fill_of(call->verdict);
	call->counter->last_use = call->clock;
}

/*
 * Write the copy of a call's state back; remove the counter if nothing is
 * recorded on it.  There must be rl_chunks_wanted() free chunks.
 */
void
rl_write_back(RlCall *call)
{
	RlPartition *partition = call->partition;
	int			nwords;

	if (!call->state->active)
	{
		if (call->counter != NULL)
			rl_remove_entry(partition, call->counter);
		call->counter = NULL;
		return;
	}
	if (call->counter == NULL)
		call->counter = rl_add_entry(partition, &call->identity);
	else if (call->counter->expires <= call->clock)
	{
		/* it was as good as gone */
		call->counter->refusals = 0;
		call->counter->flags &= ~RL_ENTRY_REFUSED;
	}

	nwords = rl_encode_state(&call->request->limit, call->state, state_words);
	rl_set_state(partition, call->counter, state_words, nwords);
	call->counter->expires = clock_time(call, call->state->end);
	call->counter->flags &= ~RL_ENTRY_REPLAYED;
	if (call->request->has_time)
	{
		call->counter->flags |= RL_ENTRY_REPLAYED;
		if (call->counter->expires != RL_NEVER)
			call->counter->expires += RL_REPLAY_GRACE;
	}
	touch(call);
}

/*-------------------------------------------------------------------------
 * Under the lock: judging
 *-------------------------------------------------------------------------
 */

/* Report on a call that its key's block refuses. */
static void
report_block(RlCall *call, int64 cost)
{
	const RlLimit *limit = &call->request->limit;
	RlReport   *report = &call->verdict->report;
	RlTime		until = call->block->expires;
	RlTime		retry_at = RL_NEVER;

	if (until != RL_NEVER)
	{
		RlState		later = *call->state;

		rl_refresh(limit, &later, until);
		rl_report(limit, &later, until, cost, report);
		retry_at = report->retry_at;
	}
	rl_report(limit, call->state, call->now, cost, report);
	report->remaining = 0;
	report->retry_at = retry_at;
	report->reset_at = until;
}

/*
 * Judge whether a cost may be charged, and report as if it were not.
 */
void
rl_judge(RlCall *call, int64 cost)
{
	const RlLimit *limit = &call->request->limit;
	RlVerdict  *verdict = call->verdict;

	verdict->now = call->now;
	verdict->limit = limit->capacity;
	verdict->blocked = call->block != NULL;
	verdict->allowed = !verdict->blocked &&
		rl_admits(limit, call->state, cost);

	if (verdict->blocked)
		report_block(call, cost);
	else
		rl_report(limit, call->state, call->now, cost, &verdict->report);
}

/* Report on a call whose cost has been recorded. */
void
rl_report_charged(RlCall *call)
{
	RlVerdict  *verdict = call->verdict;

	verdict->now = call->now;
	verdict->limit = call->request->limit.capacity;
	verdict->blocked = false;
	verdict->allowed = true;
	rl_report(&call->request->limit, call->state, call->now, 0,
			  &verdict->report);
	verdict->report.retry_at = call->now;
}

/* Record the cost of an admitted call on the copy of its state. */
void
rl_charge(RlCall *call)
{
	rl_record(&call->request->limit, call->state, call->now,
			  call->request->cost);
	call->recorded = true;
	rl_report_charged(call);
}

/*
 * Record or give back on the copy, whatever the limit says.  Return false if
 * there was nothing to give back.
 */
bool
rl_adjust(RlCall *call)
{
	const RlRequest *request = call->request;
	int64		delta = request->cost;

	if (delta > 0)
		rl_record(&request->limit, call->state, call->now, delta);

	/* the smallest bigint has no positive counterpart */
	call->recorded = delta > 0 ||
		(delta < 0 && rl_give_back(&request->limit, call->state,
								   delta == PG_INT64_MIN ? PG_INT64_MAX :
								   -delta));
	rl_report_charged(call);
	return call->recorded;
}

/*
 * Turn an admission into a refusal because nothing can be dropped, before an
 * instant of the server's clock, for what the call would store.
 */
void
rl_refuse_full(RlCall *call, RlTime until)
{
	RlVerdict  *verdict = call->verdict;

	if (until != RL_NEVER)
		until = call->now + (until - call->clock);
	call->partition->refused_full++;
	verdict->allowed = false;
	verdict->report.remaining = 0;
	verdict->report.retry_at = until;
	verdict->report.reset_at = until;
}

/*
 * Note a refusal: it is counted, and the counter may not be dropped before the
 * call would be admitted.
 */
void
rl_note_refusal(RlCall *call)
{
	const RlVerdict *verdict = call->verdict;
	RlEntry    *entry = verdict->blocked ? call->block : call->counter;
	RlTime		until = clock_time(call, verdict->report.retry_at);

	if (entry == NULL)
		return;
	if (entry->refusals < PG_UINT32_MAX)
		entry->refusals++;
	if (verdict->blocked)
	{
		entry->last_use = call->clock;
		return;
	}

	touch(call);
	if (until != RL_NEVER && until > rl_get_instant(call->partition, entry))
	{
		entry->flags |= RL_ENTRY_REFUSED;
		rl_set_instant(call->partition, entry, until);
	}
}
