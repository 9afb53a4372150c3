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

/* Room for an encoded state, kept to spare the hot path an allocation. */
static int64 state_words[RL_MAX_STATE_WORDS];

/*-------------------------------------------------------------------------
 * Before the lock
 *-------------------------------------------------------------------------
 */

/* Append a string and its zero byte. */
static char *
append(char *to, const char *string, int bytes)
{
	memcpy(to, string, bytes);
	to[bytes] = '\0';
	return to + bytes + 1;
}

/* Add the names of zone, policy and rule to an identity: see RlIdentity. */
static void
add_names(RlIdentity *identity, const RlRequest *request)
{
	const char *zone = request->zone_name ? request->zone_name : "";
	int			zone_bytes = strlen(zone);
	int			policy_bytes = request->policy ? strlen(request->policy) : 0;
	int			rule_bytes = request->rule ? strlen(request->rule) : 0;
	char	   *end;

	identity->id_bytes += 1 + zone_bytes;
	if (request->rule != NULL)
		identity->id_bytes += 1 + policy_bytes + 1 + rule_bytes;
	end = palloc(identity->id_bytes + 1);
	identity->bytes = memcpy(end, identity->bytes, identity->key_bytes);
	end[identity->key_bytes] = '\0';
	end = append(end + identity->key_bytes + 1, zone, zone_bytes);
	if (request->rule != NULL)
	{
		end = append(end, request->policy, policy_bytes);
		append(end, request->rule, rule_bytes);
	}
}

/* Begin a call.  The caller has to set its state and the room for hits. */
void
rl_prepare_call(RlCall *call, RlArena *arena, const RlRequest *request,
				RlVerdict *verdict)
{
	call->decision.re_timed = false;
	call->decision.recorded = false;
	call->decision.request = request;
	call->decision.verdict = verdict;
	rl_set_identity(&call->identity, arena, MyDatabaseId, request->key.data,
					request->key.length, request->limit.algorithm);
	call->identity.unit = request->limit.window.unit;
	call->identity.window = request->limit.window.length;
	if (request->zone_name != NULL || request->rule != NULL)
		add_names(&call->identity, request);
	call->partition = rl_partition_of(arena, call->identity.hash);
}

/*-------------------------------------------------------------------------
 * Under the lock: copying states in and out
 *-------------------------------------------------------------------------
 */

/* Find the entries of a call: a block only if it has not ended. */
void
rl_find_entries(RlCall *call)
{
	rl_lookup(call->partition, &call->identity, &call->counter, &call->block);
	if (call->block != NULL && call->block->expires <= call->decision.now)
		call->block = NULL;

	call->decision.blocked = call->block != NULL;
	if (call->block != NULL)
		call->decision.block_end = call->block->expires;
}

/* Copy the state of a call's counter, brought to the call's instant. */
void
rl_load_state(RlCall *call)
{
	RlState    *state = call->decision.state;
	RlEntry    *counter = call->counter;

	state->active = false;
	state->hits = call->hits;
	if (counter != NULL)
	{
		bool		valid PG_USED_FOR_ASSERTS_ONLY;

		rl_get_state(call->partition, counter, state_words);
		valid = rl_decode_state(&call->decision.request->limit, state_words,
								counter->state_words, state);
		Assert(valid);
	}
	call->decision.re_timed = rl_refresh_decision(&call->decision);
	call->decision.recorded = false;
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

	if (!call->decision.state->active)
		return -held;
	return rl_chunks_needed(call->identity.id_bytes,
							rl_count_words(&call->decision.request->limit,
										   call->decision.state)) - held;
}

/* Scale what is used of a limit, for the order of eviction. */
static uint8
fill_of(const RlVerdict *verdict)
{
	if (verdict->report.used >= verdict->limit)
		return PG_UINT8_MAX;
	return (uint8) ((double) verdict->report.used * PG_UINT8_MAX /
					(double) verdict->limit);
}

/* Note how a counter was used last. */
static void
touch(RlCall *call)
{
	call->counter->limit = call->decision.request->limit.limit;
	call->counter->fill = fill_of(call->decision.verdict);
	call->counter->last_use = call->decision.clock;
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

	if (!call->decision.state->active)
	{
		if (call->counter != NULL)
			rl_remove_entry(partition, call->counter);
		call->counter = NULL;
		return;
	}
	if (call->counter == NULL)
		call->counter = rl_add_entry(partition, &call->identity);
	else if (call->counter->expires <= call->decision.clock)
	{
		/* it was as good as gone */
		call->counter->refusals = 0;
		call->counter->flags &= ~RL_ENTRY_REFUSED;
	}

	nwords = rl_encode_state(&call->decision.request->limit,
							 call->decision.state, state_words);
	rl_set_state(partition, call->counter, state_words, nwords);
	call->counter->expires = rl_keep_until(&call->decision);
	if (call->decision.request->has_time)
		call->counter->flags |= RL_ENTRY_REPLAYED;
	else
		call->counter->flags &= ~RL_ENTRY_REPLAYED;
	touch(call);
}

/*-------------------------------------------------------------------------
 * Under the lock: refusing
 *-------------------------------------------------------------------------
 */

/*
 * Turn an admission into a refusal because nothing can be dropped, before an
 * instant of the server's clock, for what the call would store.
 */
void
rl_refuse_full(RlCall *call, RlTime until)
{
	RlVerdict  *verdict = call->decision.verdict;

	until = rl_decision_time(&call->decision, until);
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
	const RlVerdict *verdict = call->decision.verdict;
	RlEntry    *entry = verdict->blocked ? call->block : call->counter;
	RlTime		until = rl_clock_time(&call->decision,
									  verdict->report.retry_at);

	if (entry == NULL)
		return;
	call->partition->changes++;
	if (entry->refusals < PG_UINT32_MAX)
		entry->refusals++;
	if (verdict->blocked)
	{
		entry->last_use = call->decision.clock;
		return;
	}

	touch(call);
	if (until != RL_NEVER && until > rl_get_instant(call->partition, entry))
	{
		entry->flags |= RL_ENTRY_REFUSED;
		rl_set_instant(call->partition, entry, until);
	}
}
