/*-------------------------------------------------------------------------
 *
 * adjust.c
 *	  Costs recorded whatever the limit says, and costs given back.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static Counter counter;

/* 8 of 10 used, 5 more become known afterwards: 13 of 10. */
static void
used_may_pass_the_limit(void)
{
	for (int i = 0; i < NUM_WINDOW_ALGORITHMS; i++)
	{
		RlTime		now = NOON + SECOND;
		RlTime		end = NOON + MINUTE;

		counter_init(&counter, window_algorithms[i], 10, MINUTE);
		expect_admitted(&counter, NOON, 8);
		expect_adjust(&counter, NOON, 5, 13, 0, end, end);
		expect_check(&counter, now, 1, false, 13, 0, end, end);
		expect_check(&counter, now, 0, false, 13, 0, end, end);
		expect_adjust(&counter, now, -3, 10, 0, end, end);
		expect_check(&counter, now, 0, true, 10, 0, now, end);
		expect_adjust(&counter, now, -1, 9, 1, now, end);
		expect_check(&counter, now, 1, true, 10, 0, end, end);
	}
}

/* An adjustment begins a counter as a hit does. */
static void
adjustment_begins_a_counter(void)
{
	for (int i = 0; i < RL_NUM_ALGORITHMS; i++)
	{
		counter_init(&counter, (RlAlgorithm) i, 60, MINUTE);
		expect_int("used", counter_adjust(&counter, NOON, 59).report.used, 59);
		expect_admitted(&counter, NOON, 1);
		expect_false("allowed", counter_check(&counter, NOON, 1).allowed);
	}
}

/*
 * A bucket of 10 with a token a second, 15 below zero: used 25, a call has to
 * wait for 16 tokens, one of 0 for 15.
 */
static void
bucket_in_debt(void)
{
	RlTime		later = NOON + 14 * SECOND + SECOND / 2;

	counter_init(&counter, RL_TOKEN_BUCKET, 10, 10 * SECOND);
	expect_admitted(&counter, NOON, 10);
	expect_adjust(&counter, NOON, 15, 25, 0,
				  NOON + 16 * SECOND, NOON + SECOND);
	expect_check(&counter, NOON, 0, false, 25, 0,
				 NOON + 15 * SECOND, NOON + SECOND);
	expect_check(&counter, NOON, 10, false, 25, 0,
				 NOON + 25 * SECOND, NOON + SECOND);

	/* half a token below zero: used is 11 until it has come */
	expect_check(&counter, later, 1, false, 11, 0,
				 NOON + 16 * SECOND, NOON + 15 * SECOND);
	expect_check(&counter, NOON + 16 * SECOND, 1, true, 10, 0,
				 NOON + 17 * SECOND, NOON + 17 * SECOND);
}

/* 2 at 0 s, 3 at 10 s; of 4 given back 3 are those at 10 s. */
static void
newest_hits_are_given_back_first(void)
{
	RlTime		now = NOON + 20 * SECOND;

	counter_init(&counter, RL_SLIDING_WINDOW, 5, MINUTE);
	expect_admitted(&counter, NOON, 2);
	expect_admitted(&counter, NOON + 10 * SECOND, 3);
	expect_adjust(&counter, now, -4, 1, 4, now, NOON + MINUTE);
	expect_peek(&counter, NOON + MINUTE, 5, true, 0, 5,
				NOON + MINUTE, NOON + MINUTE);

	/* part of the newest only */
	counter_init(&counter, RL_SLIDING_WINDOW, 5, MINUTE);
	expect_admitted(&counter, NOON, 2);
	expect_admitted(&counter, NOON + 10 * SECOND, 3);
	expect_adjust(&counter, now, -1, 4, 1, now, NOON + MINUTE);
	expect_peek(&counter, NOON + MINUTE, 4, false, 2, 3,
				NOON + 10 * SECOND + MINUTE, NOON + 10 * SECOND + MINUTE);
}

/* No more comes back than was used, and nothing is left then. */
static void
never_below_zero(void)
{
	int64		amounts[] = {6, 7, 1000, PG_INT64_MAX};

	for (int i = 0; i < RL_NUM_ALGORITHMS * lengthof(amounts); i++)
	{
		int64		amount = amounts[i / RL_NUM_ALGORITHMS];

		counter_init(&counter, (RlAlgorithm) (i % RL_NUM_ALGORITHMS),
					 10, MINUTE);
		expect_adjust(&counter, NOON, -amount, 0, 10, NOON, NOON);
		expect_false("recorded", counter.state.active);

		expect_admitted(&counter, NOON, 4);
		expect_admitted(&counter, NOON + 1, 2);
		expect_adjust(&counter, NOON + 1, -amount, 0, 10, NOON + 1, NOON + 1);
		expect_false("recorded", counter.state.active);
		expect_admitted(&counter, NOON + 1, 10);
		expect_false("allowed", counter_check(&counter, NOON + 1, 1).allowed);
	}
}

/* What has left the window cannot be given back. */
static void
expired_hits_are_not_given_back(void)
{
	RlTime		now = NOON + MINUTE;

	counter_init(&counter, RL_SLIDING_WINDOW, 10, MINUTE);
	expect_admitted(&counter, NOON, 6);
	expect_admitted(&counter, NOON + SECOND, 3);
	expect_adjust(&counter, now, -1, 2, 8, now, now + SECOND);
	expect_adjust(&counter, now, -5, 0, 10, now, now);
	expect_admitted(&counter, now, 10);
}

/* used stops at 2^63 - 1 instead of turning negative. */
static void
used_saturates(void)
{
	for (int i = 0; i < RL_NUM_ALGORITHMS; i++)
	{
		Answer		answer;

		counter_init(&counter, (RlAlgorithm) i, 10, MINUTE);
		counter_set_exact_hits(&counter, 10);
		for (int n = 0; n < 100; n++)
		{
			answer = counter_adjust(&counter, NOON + n, PG_INT64_MAX - n);
			expect_int("used", answer.report.used, PG_INT64_MAX);
			expect_int("remaining", answer.report.remaining, 0);
		}
		expect_false("allowed",
					 counter_check(&counter, NOON + 100, 1).allowed);
	}
}

/* What is beyond 2^63 - 1 is not recorded where there is one number only. */
static void
saturated_counts_are_given_back(void)
{
	RlAlgorithm all[] = {RL_FIXED_WINDOW, RL_ANCHORED_WINDOW, RL_TOKEN_BUCKET};

	for (int i = 0; i < lengthof(all); i++)
	{
		counter_init(&counter, all[i], 10, MINUTE);
		counter_adjust(&counter, NOON, PG_INT64_MAX);
		counter_adjust(&counter, NOON, PG_INT64_MAX);
		expect_int("used", counter_adjust(&counter, NOON, -5).report.used,
				   PG_INT64_MAX - 5);
		expect_adjust(&counter, NOON, -(PG_INT64_MAX - 5), 0, 10, NOON, NOON);
	}
}

/*
 * 2^63 - 1 at 0 s and 5 at 30 s: when the first has left, the second is still
 * in the window, although both together are more than used can tell.
 */
static void
saturation_forgets_no_hit(void)
{
	counter_init(&counter, RL_SLIDING_WINDOW, 5, MINUTE);
	counter_adjust(&counter, NOON, PG_INT64_MAX);
	expect_int("used",
			   counter_adjust(&counter, NOON + 30 * SECOND, 5).report.used,
			   PG_INT64_MAX);
	expect_peek(&counter, NOON + MINUTE, 1, false, 5, 0,
				NOON + 90 * SECOND, NOON + 90 * SECOND);
}

/* The largest bucket, overdrawn: still 2^63 - 1 used, nothing left. */
static void
largest_bucket_overdrawn(void)
{
	counter_init(&counter, RL_TOKEN_BUCKET, PG_INT64_MAX, YEARS_100);
	for (int n = 0; n < 10000; n++)
	{
		Answer		answer = counter_adjust(&counter, NOON, PG_INT64_MAX);

		expect_int("used", answer.report.used, PG_INT64_MAX);
		expect_int("remaining", answer.report.remaining, 0);
		expect_false("allowed", counter_check(&counter, NOON, 1).allowed);
	}
}

/*
 * Every hit of the last window, by itself.  With limit <= exact_hits the
 * decisions must be as if all of them were in the log: n hits of cost 1, a
 * second apart, leave in that order, and a cost c passes when all but
 * limit - c of them have left.
 */
static void
exact_far_over_the_limit(void)
{
	int			limits[] = {1, 2, 3, 7, 8, 127, 128};
	int			sizes[] = {1, 2, 3, 8, 8, 128, 128};

	for (int i = 0; i < lengthof(limits) && !unit_failed(); i++)
	{
		int			limit = limits[i];
		int			nhits = 5 * limit + 3;
		RlTime		now = NOON + (nhits - 1) * SECOND;

		counter_init(&counter, RL_SLIDING_WINDOW, limit, HOUR);
		counter_set_exact_hits(&counter, sizes[i]);
		for (int n = 0; n < nhits; n++)
		{
			RlTime		last = NOON + n * SECOND;

			counter_adjust(&counter, last, 1);
			if (n >= limit)
				expect_refused(&counter, last, 0,
							   last - limit * SECOND + HOUR);
		}
		expect_int("used", counter_peek(&counter, now, 1).report.used, nhits);

		for (int cost = 0; cost <= limit; cost++)
			expect_refused(&counter, now, cost,
						   now - (limit - cost) * SECOND + HOUR);
	}
}

/* The same with costs: 4, 1, 2, 1, 1 of 3 in a log of at most 4. */
static void
exact_over_the_limit_with_costs(void)
{
	int64		costs[] = {4, 1, 2, 1, 1};

	counter_init(&counter, RL_SLIDING_WINDOW, 3, HOUR);
	counter_set_exact_hits(&counter, 3);
	for (int n = 0; n < lengthof(costs); n++)
		counter_adjust(&counter, NOON + n * SECOND, costs[n]);

	/* used falls to 5 at 0 s + W, then to 4, 2, 1 and 0 */
	expect_refused(&counter, NOON + 4 * SECOND, 0, NOON + 2 * SECOND + HOUR);
	expect_refused(&counter, NOON + 4 * SECOND, 1, NOON + 2 * SECOND + HOUR);
	expect_refused(&counter, NOON + 4 * SECOND, 2, NOON + 3 * SECOND + HOUR);
	expect_refused(&counter, NOON + 4 * SECOND, 3, NOON + 4 * SECOND + HOUR);
}

/* Above exact_hits the log stays short, and a hit counts at most q longer. */
static void
rounded_over_the_limit(void)
{
	RlTime		now = NOON;
	int64		total = 0;

	counter_init(&counter, RL_SLIDING_WINDOW, 200, MINUTE);
	for (int n = 0; n < 1000; n++)
	{
		now = NOON + n * 50000;
		total += n % 3 + 1;
		expect_int("used",
				   counter_adjust(&counter, now, n % 3 + 1).report.used,
				   total);
	}

	/*
	 * A cost of 200 waits until the last hit has left; one of 199 until only
	 * the last one, of cost 1, is left.
	 */
	expect_between("retry_at",
				   counter_peek(&counter, now, 200).report.retry_at,
				   now + MINUTE, now + MINUTE + 468750);
	expect_between("retry_at",
				   counter_peek(&counter, now, 199).report.retry_at,
				   now - 50000 + MINUTE, now - 50000 + MINUTE + 468750);
}

/* With limit 0 adjustments are recorded, and judged when it is raised. */
static void
recorded_at_limit_zero(void)
{
	for (int i = 0; i < NUM_WINDOW_ALGORITHMS; i++)
	{
		RlTime		end = NOON + MINUTE;

		counter_init(&counter, window_algorithms[i], 0, MINUTE);
		expect_adjust(&counter, NOON, 3, 3, 0, RL_NEVER, end);
		expect_check(&counter, NOON, 0, false, 3, 0, RL_NEVER, end);
		counter_set_limit(&counter, 4);
		expect_check(&counter, NOON, 1, true, 4, 0, end, end);
	}

	counter_init(&counter, RL_TOKEN_BUCKET, 0, MINUTE);
	expect_int("used", counter_adjust(&counter, NOON, 3).report.used, 3);
	expect_refused(&counter, NOON, 0, RL_NEVER);
}

void
adjust_cases(void)
{
	unit_case("adjust: used may pass the limit", used_may_pass_the_limit);
	unit_case("adjust: begins a counter", adjustment_begins_a_counter);
	unit_case("adjust: bucket in debt", bucket_in_debt);
	unit_case("adjust: the newest hits are given back first",
			  newest_hits_are_given_back_first);
	unit_case("adjust: never below zero", never_below_zero);
	unit_case("adjust: expired hits are not given back",
			  expired_hits_are_not_given_back);
	unit_case("adjust: used saturates", used_saturates);
	unit_case("adjust: saturated counts are given back",
			  saturated_counts_are_given_back);
	unit_case("adjust: saturation forgets no hit", saturation_forgets_no_hit);
	unit_case("adjust: the largest bucket overdrawn",
			  largest_bucket_overdrawn);
	unit_case("adjust: exact far over the limit", exact_far_over_the_limit);
	unit_case("adjust: exact over the limit with costs",
			  exact_over_the_limit_with_costs);
	unit_case("adjust: rounded over the limit", rounded_over_the_limit);
	unit_case("adjust: recorded at limit 0", recorded_at_limit_zero);
}
