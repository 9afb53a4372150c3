/*-------------------------------------------------------------------------
 *
 * decision.c
 *	  Deciding one request on a copy of its counter's state.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "decision.h"

#include "datatype/timestamp.h"
#include "utils/timestamp.h"

/* Read the clock. */
void
rl_set_time(RlDecision *decision)
{
	const RlRequest *request = decision->request;

	decision->clock = GetCurrentTimestamp();
	decision->now = request->has_time ? request->at : decision->clock;
}

/* Bring the state to the instant of the decision; see rl_refresh(). */
bool
rl_refresh_decision(RlDecision *decision)
{
	return rl_refresh(&decision->request->limit, decision->state,
					  decision->now);
}

/*
 * Convert an instant of decisions into one of the server's clock, as far away
 * from now as it is.
 */
RlTime
rl_clock_time(const RlDecision *decision, RlTime time)
{
	int128		wait = (int128) time - decision->now;

	if (decision->clock == decision->now)
		return time;
	if (time == RL_NEVER || decision->clock + wait >= END_TIMESTAMP)
		return RL_NEVER;
	return (RlTime) (decision->clock + wait);
}

/* The other way round. */
RlTime
rl_decision_time(const RlDecision *decision, RlTime time)
{
	int128		wait = (int128) time - decision->clock;

	if (time == RL_NEVER || decision->now + wait >= END_TIMESTAMP)
		return RL_NEVER;
	return (RlTime) (decision->now + wait);
}

/*
 * Return until when, by the server's clock, the state must be kept.  A counter
 * of a replay is kept as long as if the replay were live, and an hour more,
 * since a replay may be slower than the history.
 */
RlTime
rl_keep_until(const RlDecision *decision)
{
	RlTime		until = rl_clock_time(decision, decision->state->end);

	if (decision->request->has_time && until < RL_NEVER - RL_REPLAY_GRACE)
		until += RL_REPLAY_GRACE;
	return until;
}

/* Report on a call that its key's block refuses. */
static void
report_block(const RlDecision *decision, int64 cost)
{
	const RlLimit *limit = &decision->request->limit;
	RlReport   *report = &decision->verdict->report;
	RlTime		until = decision->block_end;
	RlTime		retry_at = RL_NEVER;

	if (until != RL_NEVER)
	{
		RlState		later = *decision->state;

		rl_refresh(limit, &later, until);
		rl_report(limit, &later, until, cost, report);
		retry_at = report->retry_at;
	}
	rl_report(limit, decision->state, decision->now, cost, report);
	report->remaining = 0;
	report->retry_at = retry_at;
	report->reset_at = until;
}

static void
init_verdict(const RlDecision *decision)
{
	RlVerdict  *verdict = decision->verdict;

	verdict->blocked = decision->blocked;
	verdict->unlimited = false;
	verdict->now = decision->now;
	verdict->limit = decision->request->limit.capacity;
	verdict->rule = decision->blocked ? RL_RULE_BLOCK :
		decision->request->rule;
}

/* Tell whether a cost may be charged. */
bool
rl_may_charge(const RlDecision *decision, int64 cost)
{
	return !decision->blocked &&
		rl_admits(&decision->request->limit, decision->state, cost);
}

/* Judge whether a cost may be charged, and report as if it were not. */
void
rl_judge(RlDecision *decision, int64 cost)
{
	const RlLimit *limit = &decision->request->limit;
	RlVerdict  *verdict = decision->verdict;

	init_verdict(decision);
	verdict->allowed = rl_may_charge(decision, cost);

	if (decision->blocked)
		report_block(decision, cost);
	else
		rl_report(limit, decision->state, decision->now, cost,
				  &verdict->report);
}

/*
 * Tell whether a call that is refused leaves a state that was re-timed: only if
 * it waits for its counter does that matter.  A call that costs nothing only
 * looks.
 */
bool
rl_refusal_re_times(const RlDecision *decision)
{
	return decision->re_timed && decision->request->cost > 0 &&
		!decision->verdict->allowed && !decision->blocked &&
		decision->verdict->report.retry_at != RL_NEVER;
}

/* Report on a call whose cost has been recorded. */
static void
report_charged(const RlDecision *decision)
{
	const RlLimit *limit = &decision->request->limit;
	RlVerdict  *verdict = decision->verdict;

	init_verdict(decision);
	verdict->blocked = false;
	verdict->allowed = true;
	verdict->rule = decision->request->rule;
	rl_report_admitted(limit, decision->state, decision->now,
					   &verdict->report);
}

/* Record the cost of an admitted call. */
void
rl_charge(RlDecision *decision)
{
	if (decision->request->cost > 0)
	{
		rl_record(&decision->request->limit, decision->state, decision->now,
				  decision->request->cost);
		decision->recorded = true;
	}
	report_charged(decision);
}

/* Record or give back, whatever the limit says. */
void
rl_adjust(RlDecision *decision)
{
	const RlLimit *limit = &decision->request->limit;
	int64		delta = decision->request->cost;

	if (delta > 0)
		rl_record(limit, decision->state, decision->now, delta);

	/* the smallest bigint has no positive counterpart */
	decision->recorded = delta > 0 ||
		(delta < 0 && rl_give_back(limit, decision->state,
								   delta == PG_INT64_MIN ? PG_INT64_MAX :
								   -delta));
	report_charged(decision);
}
