/*-------------------------------------------------------------------------
 *
 * store.c
 *	  From a request to a verdict.
 *
 * The stores decide; what becomes of the decision is the operator's to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store.h"

#include "memory.h"
#include "settings.h"
#include "table_store.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

/* Admit a call that no store has been asked about. */
static void
admit_unseen(const RlRequest *request, RlVerdict *verdict)
{
	verdict->allowed = true;
	verdict->blocked = false;
	verdict->unlimited = request->unlimited;
	verdict->now = request->has_time ? request->at : GetCurrentTimestamp();
	verdict->limit = request->limit.capacity;
	verdict->rule = request->rule;
	verdict->report.used = 0;
	verdict->report.remaining = request->limit.capacity;
	verdict->report.retry_at = verdict->now;
	verdict->report.reset_at = verdict->now;
}

/* Admit a call that a store may have refused, if everything is to be. */
static void
admit_in_shadow_mode(RlVerdict *verdict)
{
	if (rl_mode == RL_MODE_SHADOW)
		rl_admit(verdict);
}

/* Decide on a call for which no limit is in force: only a block refuses it. */
static void
decide_unlimited(const RlRequest *request, RlVerdict *verdict)
{
	RlTime		block_end = rl_memory_block_end(request->key);

	admit_unseen(request, verdict);
	if (block_end <= verdict->now)
		return;

	verdict->allowed = false;
	verdict->blocked = true;
	verdict->rule = RL_RULE_BLOCK;
	verdict->report.remaining = 0;
	verdict->report.retry_at = block_end;
	verdict->report.reset_at = block_end;
	admit_in_shadow_mode(verdict);
}

/* Count a call that is admitted, or what refuses it. */
static void
count(const RlRequest *request, const RlVerdict *verdict, bool admitted)
{
	RlStats    *stats = request->rule ? request->stats : rl_ad_hoc_stats();

	if (verdict->allowed && admitted)
		rl_count(stats, RL_ALLOWED);
	else if (!verdict->allowed)
		rl_count(stats, request->shadow || rl_mode == RL_MODE_SHADOW ?
				 RL_SHADOW_REFUSED : RL_REFUSED);
}

void
rl_decide(RlOperation operation, const RlRequest *request, RlVerdict *verdict)
{
	if (rl_mode == RL_MODE_OFF)
	{
		admit_unseen(request, verdict);
		return;
	}
	if (request->unlimited)
	{
		decide_unlimited(request, verdict);
		return;
	}

	if (operation == RL_CHECK && request->cost == 0)
		operation = RL_PEEK;
	if (request->store == RL_STORE_TABLE)
		rl_table_decide(operation, request, verdict);
	else
		rl_memory_decide(operation, request, verdict);
	if (operation == RL_CHECK)
		count(request, verdict, true);
	admit_in_shadow_mode(verdict);
}

/*-------------------------------------------------------------------------
 * Several requests, all or nothing
 *-------------------------------------------------------------------------
 */

/* The requests to the memory store in a call that asks both. */
typedef struct MemoryPart
{
	const RlRequest *requests;
	int			n;
	RlVerdict  *verdicts;
	bool		refused;
} MemoryPart;

static bool
charge_memory_part(void *arg)
{
	MemoryPart *part = arg;

	part->refused = part->n > 0 &&
		!rl_memory_charge_all(part->requests, part->n, part->verdicts);
	return !part->refused;
}

/*
 * Decide requests, of which the first "ntable" are to the table store.  First
 * all are judged, so that refusals write nothing.  Then the table is charged,
 * and memory, which cannot take back, last.  Others may come in between: then
 * what was charged in the table is taken back, and if it was they who charged
 * the table, all are judged again.
 */
static void
decide_across(const RlRequest *requests, int n, int ntable,
			  RlVerdict *verdicts)
{
	MemoryPart	part = {&requests[ntable], n - ntable, &verdicts[ntable], false};

	for (;;)
	{
		bool		admitted = rl_table_judge_all(requests, ntable, verdicts);

		if (part.n > 0 &&
			!rl_memory_judge_all(part.requests, part.n, part.verdicts))
			admitted = false;
		if (!admitted || rl_table_charge_all(requests, ntable, verdicts,
											 charge_memory_part, &part))
			return;
		if (part.refused)
		{
			rl_table_judge_all(requests, ntable, verdicts);
			return;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

static bool
any_refuses(const RlRequest *requests, int n, const RlVerdict *verdicts)
{
	for (int i = 0; i < n; i++)
	{
		if (rl_refuses(&requests[i], &verdicts[i]))
			return true;
	}
	return false;
}

/* Decide requests that have limits, those to the table store first. */
static void
decide_limited(const RlRequest *requests, int n, RlVerdict *verdicts)
{
	int			ntable = 0;
	bool		admitted;

	while (ntable < n && requests[ntable].store == RL_STORE_TABLE)
		ntable++;
	if (ntable == 0)
		rl_memory_charge_all(requests, n, verdicts);
	else
		decide_across(requests, n, ntable, verdicts);

	admitted = !any_refuses(requests, n, verdicts);
	for (int i = 0; i < n; i++)
	{
		if (requests[i].cost > 0)
			count(&requests[i], &verdicts[i], admitted);
		admit_in_shadow_mode(&verdicts[i]);
	}
}

/*
 * Decide requests, of which those to the table store come first and those that
 * have no limit last.  Every cost is recorded that its limit admits, unless one
 * of them is refused.
 */
void
rl_decide_all(const RlRequest *requests, int n, RlVerdict *verdicts)
{
	int			nlimited = n;

	if (rl_mode == RL_MODE_OFF)
	{
		for (int i = 0; i < n; i++)
			admit_unseen(&requests[i], &verdicts[i]);
		return;
	}

	while (nlimited > 0 && requests[nlimited - 1].unlimited)
		nlimited--;
	if (nlimited > 0)
		decide_limited(requests, nlimited, verdicts);
	for (int i = nlimited; i < n; i++)
		decide_unlimited(&requests[i], &verdicts[i]);
}
