/*-------------------------------------------------------------------------
 *
 * store.c
 *	  From a request to a verdict.
 *
 * The store decides; what becomes of the decision is the operator's to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store.h"

#include "memory.h"
#include "settings.h"

static void
admit_all(RlVerdict *verdicts, int n)
{
	for (int i = 0; i < n; i++)
	{
		verdicts[i].allowed = true;
		verdicts[i].report.retry_at = verdicts[i].now;
	}
}

void
rl_decide(RlOperation operation, const RlRequest *request, RlVerdict *verdict)
{
	if (rl_mode == RL_MODE_OFF)
		operation = RL_PEEK;
	rl_memory_decide(operation, request, verdict);
	if (rl_mode != RL_MODE_ENFORCE)
		admit_all(verdict, 1);
}

/* All or nothing: record every cost if every limit admits its cost. */
void
rl_decide_all(const RlRequest *requests, int n, RlVerdict *verdicts)
{
	rl_memory_decide_all(rl_mode == RL_MODE_OFF ? RL_PEEK : RL_CHECK,
						 requests, n, verdicts);
	if (rl_mode != RL_MODE_ENFORCE)
		admit_all(verdicts, n);
}
