/*-------------------------------------------------------------------------
 *
 * every_algorithm.c
 *	  What is the same for all algorithms: limits of 0, 1 and 2^63 - 1, costs
 *	  of 0 and above the limit.
 *
 * Noon is a multiple of a minute since 1970, so the windows of all algorithms
 * coincide for hits at noon.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static const char *const names[RL_NUM_ALGORITHMS] = {
	"sliding window", "fixed window", "anchored window", "token bucket"
};

static Counter counter;
static RlAlgorithm algorithm;	/* the one that the running case is about */

static void
limit_one(void)
{
	RlTime		end = NOON + MINUTE;

	counter_init(&counter, algorithm, 1, MINUTE);
	expect_peek(&counter, NOON, 1, true, 0, 1, NOON, NOON);
	expect_check(&counter, NOON, 1, true, 1, 0, end, end);
	expect_check(&counter, NOON, 1, false, 1, 0, end, end);
	expect_check(&counter, end - 1, 1, false, 1, 0, end, end);
	expect_check(&counter, end, 1, true, 1, 0, end + MINUTE, end + MINUTE);
	expect_check(&counter, end, 1, false, 1, 0, end + MINUTE, end + MINUTE);
}

/*
 * The largest limit is a limit like others.  The sliding window rounds by at
 * most q = 60 s / 128 = 468,750 us; the bucket gains 2^63 - 1 tokens in
 * 60,000,000 us, so that one comes in the next microsecond.
 */
static void
limit_largest(void)
{
	Answer		answer;
	RlTime		end = NOON + MINUTE;
	RlTime		latest = algorithm == RL_SLIDING_WINDOW ? end + 468750 : end;

	counter_init(&counter, algorithm, PG_INT64_MAX, MINUTE);
	answer = counter_check(&counter, NOON, PG_INT64_MAX - 1);
	expect_true("allowed", answer.allowed);
	expect_int("used", answer.report.used, PG_INT64_MAX - 1);
	expect_int("remaining", answer.report.remaining, 1);

	expect_false("allowed", counter_check(&counter, NOON, 2).allowed);
	answer = counter_check(&counter, NOON, 1);
	expect_true("allowed", answer.allowed);
	expect_int("used", answer.report.used, PG_INT64_MAX);
	expect_int("remaining", answer.report.remaining, 0);

	answer = counter_check(&counter, NOON, 1);
	expect_false("allowed", answer.allowed);
	if (algorithm == RL_TOKEN_BUCKET)
		expect_int("retry_at", answer.report.retry_at, NOON + 1);
	else
		expect_between("retry_at", answer.report.retry_at, end, latest);

	answer = counter_check(&counter, NOON, PG_INT64_MAX);
	expect_false("allowed", answer.allowed);
	expect_between("retry_at", answer.report.retry_at, end, latest);
	expect_admitted(&counter, latest, PG_INT64_MAX);
}

/* Refused whatever the cost, nothing recorded, no instant to come back. */
static void
limit_zero(void)
{
	counter_init(&counter, algorithm, 0, MINUTE);
	expect_check(&counter, NOON, 1, false, 0, 0, RL_NEVER, NOON);
	expect_check(&counter, NOON, 0, false, 0, 0, RL_NEVER, NOON);
	expect_check(&counter, NOON, PG_INT64_MAX, false, 0, 0, RL_NEVER, NOON);
	expect_check(&counter, NOON + DAY, 1, false, 0, 0, RL_NEVER, NOON + DAY);
	expect_false("recorded", counter.state.active);

	/* nothing of it is left when the limit is raised */
	counter_set_limit(&counter, 1);
	expect_admitted(&counter, NOON + DAY, 1);
}

/* A limit of 0 refuses also while something is recorded, and later. */
static void
limit_zero_with_something_used(void)
{
	counter_init(&counter, algorithm, 0, MINUTE);
	counter_adjust(&counter, NOON, 7);
	for (RlTime now = NOON; now < NOON + 3 * MINUTE; now += SECOND)
	{
		Answer		answer = counter_check(&counter, now, now / SECOND % 2);

		expect_false("allowed", answer.allowed);
		expect_int("remaining", answer.report.remaining, 0);
		expect_int("retry_at", answer.report.retry_at, RL_NEVER);
	}
}

/* Refused for good, and the counter stays exactly as it was. */
static void
cost_above_the_limit(void)
{
	int64		costs[] = {11, 12, 1000, PG_INT64_MAX - 1, PG_INT64_MAX};
	static Counter before;

	counter_init(&counter, algorithm, 10, MINUTE);
	for (int i = 0; i < lengthof(costs); i++)
		expect_check(&counter, NOON, costs[i], false, 0, 10, RL_NEVER, NOON);
	expect_false("recorded", counter.state.active);

	expect_admitted(&counter, NOON, 9);
	before = counter;
	before.state.hits = before.hits;
	for (int i = 0; i < lengthof(costs); i++)
	{
		Answer		answer = counter_check(&counter, NOON + i, costs[i]);

		expect_false("allowed", answer.allowed);
		expect_int("used", answer.report.used, 9);
		expect_int("remaining", answer.report.remaining, 1);
		expect_int("retry_at", answer.report.retry_at, RL_NEVER);
		expect_true("unchanged", counter_same(&counter, &before));
	}
	expect_admitted(&counter, NOON, 1);
}

/* Within the limit but not within what is left: the counter stays as well. */
static void
refusal_changes_nothing(void)
{
	static Counter before;

	counter_init(&counter, algorithm, 10, MINUTE);
	expect_admitted(&counter, NOON, 8);
	before = counter;
	before.state.hits = before.hits;
	for (int64 cost = 3; cost <= 10; cost++)
	{
		Answer		answer = counter_check(&counter, NOON, cost);

		expect_false("allowed", answer.allowed);
		expect_false("to be kept", answer.stepped_back);
		expect_true("unchanged", counter_same(&counter, &before));
	}
	expect_admitted(&counter, NOON, 2);
}

/* A cost of 0 passes while no more than the limit is used; nothing is kept. */
static void
cost_zero(void)
{
	RlTime		end = NOON + MINUTE;

	counter_init(&counter, algorithm, 1, MINUTE);
	expect_check(&counter, NOON, 0, true, 0, 1, NOON, NOON);
	expect_false("recorded", counter.state.active);
	expect_admitted(&counter, NOON, 1);
	expect_check(&counter, NOON, 0, true, 1, 0, NOON, end);

	/* past the limit: 0 passes again when used is down to 1, at noon + W */
	counter_adjust(&counter, NOON, 1);
	expect_check(&counter, NOON, 0, false, 2, 0, end, end);
	expect_check(&counter, end, 0, true, algorithm == RL_TOKEN_BUCKET ? 1 : 0,
				 algorithm == RL_TOKEN_BUCKET ? 0 : 1, end,
				 algorithm == RL_TOKEN_BUCKET ? end + MINUTE : end);
}

/* A window of 1 us: what was used a microsecond ago is back. */
static void
window_of_one_microsecond(void)
{
	counter_init(&counter, algorithm, 5, 1);
	for (RlTime now = NOON; now < NOON + 100; now++)
	{
		expect_check(&counter, now, 3, true, 3, 2, now + 1, now + 1);
		expect_check(&counter, now, 3, false, 3, 2, now + 1, now + 1);
		expect_check(&counter, now, 2, true, 5, 0, now + 1, now + 1);
	}
}

static void
each_algorithm(const char *behaviour, UnitFunction function)
{
	for (int i = 0; i < RL_NUM_ALGORITHMS; i++)
	{
		char		name[100];

		algorithm = (RlAlgorithm) i;
		snprintf(name, sizeof(name), "%s: %s", names[i], behaviour);
		unit_case(name, function);
	}
}

void
every_algorithm_cases(void)
{
	each_algorithm("limit 1", limit_one);
	each_algorithm("limit 2^63 - 1", limit_largest);
	each_algorithm("limit 0", limit_zero);
	each_algorithm("limit 0 with something used",
				   limit_zero_with_something_used);
	each_algorithm("cost above the limit", cost_above_the_limit);
	each_algorithm("a refusal changes nothing", refusal_changes_nothing);
	each_algorithm("cost 0", cost_zero);
	each_algorithm("window of 1 us with limit 5", window_of_one_microsecond);
}
