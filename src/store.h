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

typedef struct RlVerdict
{
	bool		allowed;
	bool		blocked;		/* the key is blocked */
	RlTime		now;			/* instant of the decision */
	int64		limit;			/* in force; of a token bucket the capacity */
	RlReport	report;			/* retry_at is "now" if allowed */
} RlVerdict;

/* With the switch of the operator, rate_limit.mode. */
extern void rl_decide(RlOperation operation, const RlRequest *request,
					  RlVerdict *verdict);
extern void rl_decide_all(const RlRequest *requests, int n,
						  RlVerdict *verdicts);

#endif							/* RL_STORE_H */
