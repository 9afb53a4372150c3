/*-------------------------------------------------------------------------
 *
 * state.c
 *	  The state of a counter as a row of 64-bit words, for storing it.
 *
 * Pure like algorithm.c.  The words are
 *
 *	sliding window			per hit: time * 2 when the cost is 1, else
 *							time * 2 + 1 and the cost
 *	fixed, anchored window	start of the window, cost used
 *	token bucket			instant, low and high half of the level, capacity
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "state.h"

static int
encode_log(const RlState *state, int64 *words)
{
	int			nwords = 0;

	for (int i = 0; i < state->nhits; i++)
	{
		const RlHit *hit = &state->hits[i];

		if (hit->cost == 1)
			words[nwords++] = hit->time * 2;
		else
		{
			words[nwords++] = hit->time * 2 + 1;
			words[nwords++] = hit->cost;
		}
	}
	return nwords;
}

static void
decode_log(const int64 *words, int nwords, RlState *state)
{
	state->used = 0;
	state->nhits = 0;
	for (int i = 0; i < nwords; i++)
	{
		RlHit	   *hit = &state->hits[state->nhits++];

		hit->time = words[i] >> 1;
		hit->cost = (words[i] & 1) ? words[++i] : 1;
		state->used += hit->cost;
	}
}

/*
 * Write an active state to "words", which has room for RL_MAX_STATE_WORDS, and
 * return how many were needed.
 */
int
rl_encode_state(RlAlgorithm algorithm, const RlState *state, int64 *words)
{
	switch (algorithm)
	{
		case RL_SLIDING_WINDOW:
			return encode_log(state, words);
		case RL_FIXED_WINDOW:
		case RL_ANCHORED_WINDOW:
			words[0] = state->time;
			words[1] = (int64) state->used;
			return 2;
		case RL_TOKEN_BUCKET:
			words[0] = state->time;
			words[1] = (int64) state->level;
			words[2] = (int64) (state->level >> 64);
			words[3] = state->capacity;
			return 4;
	}
	return 0;
}

/*
 * Read an active state that ends at "end".  state->hits must have been set to
 * an array with room for RL_MAX_HITS.
 */
void
rl_decode_state(RlAlgorithm algorithm, const int64 *words, int nwords,
				RlTime end, RlState *state)
{
	state->active = true;
	state->end = end;
	switch (algorithm)
	{
		case RL_SLIDING_WINDOW:
			decode_log(words, nwords, state);
			break;
		case RL_FIXED_WINDOW:
		case RL_ANCHORED_WINDOW:
			state->time = words[0];
			state->used = words[1];
			break;
		case RL_TOKEN_BUCKET:
			state->time = words[0];
			state->level = words[2] * ((int128) 1 << 64) + (uint64) words[1];
			state->capacity = words[3];
			break;
	}
}
