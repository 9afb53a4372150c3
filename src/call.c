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

#include "miscadmin.h"
#include "utils/timestamp.h"

/* Room for an encoded state, kept to spare the hot path an allocation. */
static int64 state_words[RL_MAX_STATE_WORDS];

/*-------------------------------------------------------------------------
 * Before the lock
 *-------------------------------------------------------------------------
 */

static RlIdentity
identity_of(const RlRequest *request, uint64 hash)
{
	const RlLimit *limit = &request->limit;
	RlIdentity	identity = {
		.hash = hash,
		.database = MyDatabaseId,
		.bytes = request->key.bytes,
		.key_bytes = request->key.length,
		.id_bytes = request->key.length,
		.kind = limit->algorithm,
		.unit = limit->window.unit,
		.window = limit->window.length
	};

	if (request->zone_name != NULL)
	{
		int			zone_bytes = strlen(request->zone_name);
		char	   *bytes = palloc(identity.key_bytes + 1 + zone_bytes);

		memcpy(bytes, identity.bytes, identity.key_bytes);
		bytes[identity.key_bytes] = '\0';
		memcpy(bytes + identity.key_bytes + 1, request->zone_name, zone_bytes);
		identity.bytes = bytes;
		identity.id_bytes += 1 + zone_bytes;
	}
	return identity;
}

void
rl_prepare_call(RlCall *call, RlArena *arena, const RlRequest *request,
				RlVerdict *verdict, RlState *state, RlHit *hits)
{
	uint64		hash = rl_hash_key(arena, MyDatabaseId, request->key.bytes,
								   request->key.length);

	call->request = request;
	call->verdict = verdict;
	call->identity = identity_of(request, hash);
	call->partition_number = rl_partition_of(arena, hash);
	call->partition = rl_partition(arena, call->partition_number);
	call->state = state;
	call->hits = hits;
}

/*-------------------------------------------------------------------------
 * Under the lock: copying states in and out
 *-------------------------------------------------------------------------
 */

/* Return the instant of a decision; with the lock held, see arena.h. */
RlTime
rl_instant_of(const RlRequest *request)
{
	return request->has_time ? request->at : GetCurrentTimestamp();
}

/* Find the entries of a call. */
void
rl_find_entries(RlCall *call, RlTime now)
{
	rl_lookup(call->partition, &call->identity, &call->counter, &call->block);
	if (call->block != NULL && call->block->end <= now)
		call->block = NULL;
}

/* Copy the state of a call's counter, brought to an instant. */
void
rl_load_state(RlCall *call, RlTime now)
{
	RlState    *state = call->state;
	RlEntry    *counter = call->counter;

	state->active = false;
	state->hits = call->hits;
	call->expired = counter != NULL && counter->end <= now;
	if (counter != NULL && !call->expired)
	{
		rl_get_state(call->partition, counter, state_words);
		rl_decode_state(counter->kind, state_words, counter->state_words,
						counter->end, state);
	}
	call->stepped_back = rl_refresh(&call->request->limit, state, now);
}

/* Return how many chunks a call's counter has. */
static int
chunks_held(const RlCall *call)
{
	return call->counter == NULL ? 0 : 1 + call->counter->tail_chunks;
}

/*
 * Encode the copy of a call's state, and return how many chunks more than now
 * its counter will need.
 */
int
rl_encode_call(RlCall *call)
{
	call->nwords = rl_encode_state(call->request->limit.algorithm, call->state,
								   state_words);
	return rl_chunks_needed(call->identity.id_bytes, call->nwords) -
		chunks_held(call);
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

/*
 * Write the encoded state of a call into its counter; remove the counter if
 * nothing is used.  There must be enough free chunks.
 */
void
rl_write_back(RlCall *call)
{
	RlPartition *partition = call->partition;

	if (!call->state->active)
	{
		if (call->counter != NULL)
			rl_remove_entry(partition, call->counter);
		call->counter = NULL;
		return;
	}
	if (call->counter == NULL)
		call->counter = rl_add_entry(partition, &call->identity);
	else if (call->expired)
	{
		call->counter->refusals = 0;
		call->counter->flags &= ~RL_ENTRY_REFUSED;
	}

	rl_set_state(partition, call->counter, state_words, call->nwords);
	call->counter->end = call->state->end;
	call->counter->limit = call->request->limit.limit;
	call->counter->fill = fill_of(call->verdict);
	call->counter->last_use = call->verdict->now;
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

	if (call->stepped_back)
	{
		rl_encode_call(call);
		rl_write_back(call);
	}
	if (entry == NULL)
		return;

	if (entry->refusals < PG_UINT32_MAX)
		entry->refusals++;
	entry->last_use = verdict->now;
	if (verdict->blocked)
		return;
	entry->limit = call->request->limit.limit;
	entry->fill = fill_of(verdict);
	if (verdict->report.retry_at != RL_NEVER &&
		verdict->report.retry_at > rl_get_instant(call->partition, entry))
	{
		entry->flags |= RL_ENTRY_REFUSED;
		rl_set_instant(call->partition, entry, verdict->report.retry_at);
	}
}

/*-------------------------------------------------------------------------
 * Under the lock: judging
 *-------------------------------------------------------------------------
 */

/* Report on a call that its key's block refuses. */
static void
report_block(RlCall *call, RlTime now)
{
	const RlRequest *request = call->request;
	RlReport   *report = &call->verdict->report;
	RlTime		until = call->block->end;
	RlTime		retry_at = RL_NEVER;

	if (until != RL_NEVER)
	{
		RlState		later = *call->state;

		rl_refresh(&request->limit, &later, until);
		rl_report(&request->limit, &later, until, request->cost, report);
		retry_at = report->retry_at;
	}
	rl_report(&request->limit, call->state, now, request->cost, report);
	report->remaining = 0;
	report->retry_at = retry_at;
	report->reset_at = until;
}

/* Fill in the report of a verdict, as the copy of the state is. */
void
rl_report_call(RlCall *call, RlTime now)
{
	RlVerdict  *verdict = call->verdict;

	if (verdict->blocked)
		report_block(call, now);
	else
		rl_report(&call->request->limit, call->state, now,
				  call->request->cost, &verdict->report);
	if (verdict->allowed)
		verdict->report.retry_at = now;
}

/*
 * Judge a call on the copy of its state, and if it is admitted record its cost
 * there.
 */
void
rl_judge(RlOperation operation, RlCall *call, RlTime now)
{
	const RlRequest *request = call->request;
	RlVerdict  *verdict = call->verdict;

	verdict->now = now;
	verdict->limit = request->limit.capacity;
	verdict->blocked = call->block != NULL;
	verdict->allowed = !verdict->blocked &&
		rl_admits(&request->limit, call->state, request->cost);

	if (verdict->allowed && operation == RL_CHECK && request->cost > 0)
		rl_record(&request->limit, call->state, now, request->cost);
	rl_report_call(call, now);
}

/* Record or give back whatever the limit says. */
void
rl_adjust(RlCall *call, RlTime now)
{
	const RlRequest *request = call->request;

	if (request->cost > 0)
		rl_record(&request->limit, call->state, now, request->cost);
	else if (request->cost < 0)
	{
		/* the cost of the smallest bigint has no positive counterpart */
		rl_give_back(&request->limit, call->state,
					 request->cost == PG_INT64_MIN ? PG_INT64_MAX :
					 -request->cost);
	}
	call->verdict->now = now;
	call->verdict->limit = request->limit.capacity;
	call->verdict->blocked = false;
	call->verdict->allowed = true;
	rl_report_call(call, now);
}
