/*-------------------------------------------------------------------------
 *
 * decision.h
 *	  Deciding one request on a copy of its counter's state.
 *
 * Common to all stores: a store loads the state, has it judged and charged
 * here, and keeps what was recorded.  Nothing here allocates, locks or raises
 * an error, so that a store may do it under its lock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_DECISION_H
#define RL_DECISION_H

#include "store.h"

typedef struct RlDecision
{
	const RlRequest *request;
	RlVerdict  *verdict;		/* the result */
	RlState    *state;			/* brought to "now" by rl_refresh() */
	RlTime		clock;			/* of the server ... */
	RlTime		now;			/* ... and of the decision, if that was given */
	bool		blocked;		/* is the key blocked ... */
	RlTime		block_end;		/* ... and until when, or RL_NEVER */
	bool		re_timed;		/* was the clock set back?  Keep the state
								 * then */
	bool		recorded;		/* was anything recorded on the state? */
} RlDecision;

/* How much longer than live ones the counters of replays are kept. */
#define RL_REPLAY_GRACE			(3600 * RL_USECS_PER_SEC)

extern void rl_set_time(RlDecision *decision);
extern bool rl_refresh_decision(RlDecision *decision);
extern RlTime rl_clock_time(const RlDecision *decision, RlTime time);
extern RlTime rl_decision_time(const RlDecision *decision, RlTime time);
extern RlTime rl_keep_until(const RlDecision *decision);
extern bool rl_may_charge(const RlDecision *decision, int64 cost);
extern void rl_judge(RlDecision *decision, int64 cost);
extern bool rl_refusal_re_times(const RlDecision *decision);
extern void rl_charge(RlDecision *decision);
extern void rl_adjust(RlDecision *decision);

#endif							/* RL_DECISION_H */
