/*-------------------------------------------------------------------------
 *
 * store.h
 *	  From a request to a verdict.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_STORE_H
#define RL_STORE_H

#include "request.h"

typedef enum RlOperation
{
	RL_CHECK,					/* record the cost if the limit admits it */
	RL_PEEK,					/* record nothing */
	RL_ADJUST					/* record or give back in any case */
} RlOperation;

/* what decided about the call of a key that is blocked */
#define RL_RULE_BLOCK			"block"

typedef struct RlVerdict
{
	bool		allowed;
	bool		blocked;		/* the key is blocked */
	bool		unlimited;		/* no limit is in force */
	RlTime		now;			/* instant of the decision */
	int64		limit;			/* in force; of a token bucket the capacity */
	RlReport	report;			/* retry_at is "now" if allowed */
	const char *rule;			/* what decided, NULL if a call ad hoc */
} RlVerdict;

/*
 * Tell whether a verdict keeps a call from being admitted.  What only counts
 * does not, but a block of the key always does.
 */
static inline bool
rl_refuses(const RlRequest *request, const RlVerdict *verdict)
{
	return !verdict->allowed && (verdict->blocked || !request->shadow);
}

/* Admit a call, whatever its limit has said. */
static inline void
rl_admit(RlVerdict *verdict)
{
	verdict->allowed = true;
	verdict->report.retry_at = verdict->now;
}

/* With the switch of the operator, rate_limit.mode. */
extern void rl_decide(RlOperation operation, const RlRequest *request,
					  RlVerdict *verdict);
extern void rl_decide_all(const RlRequest *requests, int n,
						  RlVerdict *verdicts);

#endif							/* RL_STORE_H */
