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
	const RlHit *hits = state->hits;
	int			nhits = state->nhits;
	int			nwords = nhits;

	for (int i = 0; i < nhits; i++)
		nwords += hits[i].cost != 1;
	return nwords + (newest_was_rounded(state) ? 2 : 0);
}

/* Write a hit and return the place after it. */
static inline int64 *
encode_hit(RlTime time, int64 cost, int64 *words)
{
	if (cost == 1)
	{
		*words++ = time * 2;
		return words;
	}
	*words++ = time * 2 + 1;
	*words++ = cost;
	return words;
}

static int
encode_log(const RlState *state, int64 *words)
{
	const RlHit *hits = state->hits;
	int			nhits = state->nhits;
	int64	   *end = words;

	for (int i = 0; i < nhits; i++)
		end = encode_hit(hits[i].time, hits[i].cost, end);
	if (newest_was_rounded(state))
		end = encode_hit(state->time, 0, end);
	return (int) (end - words);
}

static bool
decode_log(const RlLimit *limit, const int64 *words, int nwords,
		   RlState *state)
{
	const int64 *end = words + nwords;
	RlHit	   *hit = state->hits;
	const RlHit *last_hit = hit + RL_MAX_EXACT_HITS;
	RlTime		newest = RL_FIRST_TIME - 1;
	RlTime		time = newest;	/* of the newest, not rounded */
	int128		more = 0;		/* cost of the hits beyond 1 each */

	while (words < end)
	{
		int64		word = *words++;
		int64		cost = 1;

		time = word >> 1;
		if (unlikely(word & 1))
		{
			if (words == end)
				return false;
			cost = *words++;
			if (cost == 0 && words == end)
				break;
			if (cost <= 0)
				return false;
			more += cost - 1;
		}
		if (hit > last_hit || time <= newest)
			return false;
		hit->time = time;
		hit->cost = cost;
		hit++;
		newest = time;
	}
	if (hit == state->hits || newest > RL_LAST_TIME || !rl_is_time(time))
		return false;

	state->nhits = hit - state->hits;
	state->used = state->nhits + more;
	state->time = time;
	state->end = newest + limit->window.length;
	return true;
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
