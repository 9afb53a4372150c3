/*-------------------------------------------------------------------------
 *
 * state.h
 *	  The state of a counter as a row of 64-bit words, for storing it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_STATE_H
#define RL_STATE_H

#include "algorithm.h"

/* A hit takes one word, or two; so may the instant of the newest. */
#define RL_MAX_STATE_WORDS		(2 * (RL_MAX_EXACT_HITS + 2))

extern int	rl_count_words(const RlLimit *limit, const RlState *state);
extern int	rl_encode_state(const RlLimit *limit, const RlState *state,
							int64 *words);
extern bool rl_decode_state(const RlLimit *limit, const int64 *words,
							int nwords, RlState *state);

#endif							/* RL_STATE_H */
