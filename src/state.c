/*-------------------------------------------------------------------------
 *
 * state.c
 *	  The state of a counter as a row of 64-bit words, for storing it.
 *
 * Pure like algorithm.c.  The words are
 *
 *	sliding window			per hit: time * 2 when the cost is 1, else
 *							time * 2 + 1 and the cost; with a cost of 0
 *							the newest hit before its time was rounded, if
 *							it was
 *	fixed window			start and end of the window, cost used
 *	anchored window			start of the window, cost used
 *	token bucket			instant, end, low and high half of the level,
 *							capacity
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "state.h"

static bool
newest_was_rounded(const RlState *state)
{
	return state->time != state->hits[state->nhits - 1].time;
}

static int
count_log_words(const RlState *state)
{
	int			nwords = state->nhits;

	for (int i = 0; i < state->nhits; i++)
		nwords += state->hits[i].cost != 1;
	return nwords + (newest_was_rounded(state) ? 2 : 0);
}

static int
encode_hit(RlTime time, int64 cost, int64 *words)
{
	if (cost == 1)
	{
		words[0] = time * 2;
		return 1;
	}
	words[0] = time * 2 + 1;
	words[1] = cost;
	return 2;
}

static int
encode_log(const RlState *state, int64 *words)
{
	int			nwords = 0;

	for (int i = 0; i < state->nhits; i++)
		nwords += encode_hit(state->hits[i].time, state->hits[i].cost,
							 &words[nwords]);
	if (newest_was_rounded(state))
		nwords += encode_hit(state->time, 0, &words[nwords]);
	return nwords;
}

static bool
decode_log(const RlLimit *limit, const int64 *words, int nwords,
		   RlState *state)
{
	state->used = 0;
	state->nhits = 0;
	for (int i = 0; i < nwords; i++)
	{
		RlHit	   *hit = &state->hits[state->nhits];
		bool		has_cost = words[i] & 1;

		hit->time = words[i] >> 1;
		if (has_cost && i + 1 == nwords)
			return false;
		hit->cost = has_cost ? words[++i] : 1;

		if (hit->cost == 0)
		{
			state->time = hit->time;
			return state->nhits > 0 && i + 1 == nwords &&
				rl_is_time(hit->time);
		}
		if (hit->cost < 0 || state->nhits > RL_MAX_EXACT_HITS ||
			!rl_is_time(hit->time) ||
			(state->nhits > 0 && hit->time <= state->time))
			return false;
		state->time = hit->time;
		state->used += hit->cost;
		state->end = hit->time + limit->window.length;
		state->nhits++;
	}
	return state->nhits > 0;
}

/* Return how many words rl_encode_state() writes. */
int
rl_count_words(const RlLimit *limit, const RlState *state)
{
	switch (limit->algorithm)
	{
		case RL_SLIDING_WINDOW:
			return count_log_words(state);
		case RL_FIXED_WINDOW:
			return 3;
		case RL_ANCHORED_WINDOW:
			return 2;
		case RL_TOKEN_BUCKET:
			return 5;
	}
	return 0;
}

/*
 * Write an active state to "words", which has room for RL_MAX_STATE_WORDS, and
 * return how many were needed.
 */
int
rl_encode_state(const RlLimit *limit, const RlState *state, int64 *words)
{
	switch (limit->algorithm)
	{
		case RL_SLIDING_WINDOW:
			return encode_log(state, words);
		case RL_FIXED_WINDOW:
			words[0] = state->time;
			words[1] = state->end;
			words[2] = (int64) state->used;
			break;
		case RL_ANCHORED_WINDOW:
			words[0] = state->time;
			words[1] = (int64) state->used;
			break;
		case RL_TOKEN_BUCKET:
			words[0] = state->time;
			words[1] = state->end;
			words[2] = (int64) state->level;
			words[3] = (int64) (state->level >> 64);
			words[4] = state->capacity;
			break;
	}
	return rl_count_words(limit, state);
}

/*
 * Read an active state.  state->hits must have been set to an array with room
 * for RL_MAX_HITS.  Return false if rl_encode_state() has not written this.
 */
bool
rl_decode_state(const RlLimit *limit, const int64 *words, int nwords,
				RlState *state)
{
	state->active = true;
	if (limit->algorithm == RL_SLIDING_WINDOW)
		return decode_log(limit, words, nwords, state);
	if (nwords != rl_count_words(limit, state) || !rl_is_time(words[0]))
		return false;

	switch (limit->algorithm)
	{
		case RL_FIXED_WINDOW:
			state->time = words[0];
			state->end = words[1];
			state->used = words[2];
			return state->used > 0 && state->end > state->time;
		case RL_ANCHORED_WINDOW:
			state->time = words[0];
			state->end = words[0] + limit->window.length;
			state->used = words[1];
			return state->used > 0;
		case RL_TOKEN_BUCKET:
			state->time = words[0];
			state->end = words[1];
			state->level = words[3] * ((int128) 1 << 64) + (uint64) words[2];
			state->capacity = words[4];
			return state->capacity >= 0 && state->end >= state->time;
		default:
			return false;
	}
}
