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
#include "table_store.h"

#include "utils/timestamp.h"

/* Admit a call that no store has been asked about. */
static void
admit_unseen(const RlRequest *request, RlVerdict *verdict)
{
	verdict->allowed = true;
	verdict->blocked = false;
	verdict->now = request->has_time ? request->at : GetCurrentTimestamp();
	verdict->limit = request->limit.capacity;
	verdict->report.used = 0;
	verdict->report.remaining = request->limit.capacity;
	verdict->report.retry_at = verdict->now;
	verdict->report.reset_at = verdict->now;
}

/* Admit a call that the store may have refused. */
static void
admit(RlVerdict *verdict)
{
	verdict->allowed = true;
	verdict->report.retry_at = verdict->now;
}

void
rl_decide(RlOperation operation, const RlRequest *request, RlVerdict *verdict)
{
	if (rl_mode == RL_MODE_OFF)
	{
		admit_unseen(request, verdict);
		return;
	}

	if (operation == RL_CHECK && request->cost == 0)
		operation = RL_PEEK;
	if (request->store == RL_STORE_TABLE)
		rl_table_decide(operation, request, verdict);
	else
		rl_memory_decide(operation, request, verdict);
	if (rl_mode == RL_MODE_SHADOW)
		admit(verdict);
}

/* All or nothing: record every cost if every limit admits its cost. */
void
rl_decide_all(const RlRequest *requests, int n, RlVerdict *verdicts)
{
	if (rl_mode == RL_MODE_OFF)
		;
	else if (requests[0].store == RL_STORE_TABLE)
		rl_table_decide_all(requests, n, verdicts);
	else
		rl_memory_decide_all(requests, n, verdicts);

	for (int i = 0; i < n; i++)
	{
		if (rl_mode == RL_MODE_OFF)
			admit_unseen(&requests[i], &verdicts[i]);
		else if (rl_mode == RL_MODE_SHADOW)
			admit(&verdicts[i]);
	}
}
