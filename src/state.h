/*-------------------------------------------------------------------------
 *
 * state.h
 *	  The state of a counter as a row of 64-bit words, for storing it.
 *
 * The instant at which the state ends is not among the words: every store
 * keeps it where it can be seen without decoding the rest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_STATE_H
#define RL_STATE_H

#include "algorithm.h"

/* A hit takes one word, or two when its cost is not 1. */
#define RL_MAX_STATE_WORDS		(2 * (RL_MAX_EXACT_HITS + 1))

/* Recording one cost makes a state longer by at most this. */
#define RL_MAX_GROWTH_WORDS		4

extern int	rl_encode_state(RlAlgorithm algorithm, const RlState *state,
							int64 *words);
extern void rl_decode_state(RlAlgorithm algorithm, const int64 *words,
							int nwords, RlTime end, RlState *state);

#endif							/* RL_STATE_H */
