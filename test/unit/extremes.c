/*-------------------------------------------------------------------------
 *
 * extremes.c
 *	  The largest limits, windows and instants, and very long rests.
 *
 * 100 years are 36,525 days = 3,155,760,000,000,000 us, so 2^63 - 1 tokens
 * need 115 bits.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static Counter counter;

/* After 10 and 200 years of rest everything is there again, and no more. */
static void
long_rest(void)
{
	RlTime		rests[] = {YEARS_100 / 10, 2 * YEARS_100};
	RlTime		windows[] = {1, SECOND, DAY, YEARS_100 / 20};
	int64		limits[] = {1, 100, 1000000, PG_INT64_MAX};

	for (int i = 0; i < 2 * 4 * 4 * RL_NUM_ALGORITHMS && !unit_failed(); i++)
	{
		int64		limit = limits[i / 2 % 4];
		RlTime		later = NOON + rests[i % 2];

		counter_init(&counter, (RlAlgorithm) (i / 32), limit,
					 windows[i / 8 % 4]);
		expect_admitted(&counter, NOON - YEARS_100 / 100, limit);
		counter_adjust(&counter, NOON - YEARS_100 / 100 + 1,
					   Min(limit, 1000) / 2);
		expect_peek(&counter, later, limit, true, 0, limit, later, later);
		expect_admitted(&counter, later, limit);
		expect_false("allowed", counter_check(&counter, later, 1).allowed);
	}
}

/*
 * A bucket at debt after a long rest: 1 token per 100 years, 3 below zero;
 * 2.5 of them have come after 250 years.
 */
static void
long_rest_in_debt(void)
{
	RlTime		later = NOON + 2 * YEARS_100 + YEARS_100 / 2;

	counter_init(&counter, RL_TOKEN_BUCKET, 1, YEARS_100);
	counter_adjust(&counter, NOON, 4);
	expect_peek(&counter, NOON, 1, false, 4, 0,
				NOON + 4 * YEARS_100, NOON + YEARS_100);
	expect_peek(&counter, later, 1, false, 2, 0,
				NOON + 4 * YEARS_100, NOON + 3 * YEARS_100);
}

/*
 * 2^63 - 1 per 100 years: a token comes within a microsecond (2,922.7 do), and
 * all of them take exactly 100 years.
 */
static void
largest_bucket(void)
{
	RlTime		full = NOON + YEARS_100;
	int64		per_usec = PG_INT64_MAX / YEARS_100;

	counter_init(&counter, RL_TOKEN_BUCKET, PG_INT64_MAX, YEARS_100);
	expect_check(&counter, NOON, PG_INT64_MAX, true, PG_INT64_MAX, 0,
				 full, NOON + 1);
	expect_peek(&counter, NOON, 1, false, PG_INT64_MAX, 0,
				NOON + 1, NOON + 1);
	expect_peek(&counter, NOON + 1, per_usec, true, PG_INT64_MAX - per_usec,
				per_usec, NOON + 1, NOON + 2);
	expect_peek(&counter, NOON + 1, per_usec + 1, false,
				PG_INT64_MAX - per_usec, per_usec, NOON + 2, NOON + 2);
	expect_false("allowed",
				 counter_peek(&counter, full - 1, PG_INT64_MAX).allowed);
	expect_peek(&counter, full, PG_INT64_MAX, true, 0, PG_INT64_MAX,
				full, full);
}

/*
 * Capacity 2^63 - 1 at one token per 100 years.  1,000 tokens take 100,000
 * years; 3,000 take 9.47e18 us, which no timestamp holds, and neither does
 * the 2^63 - 1 times 100 years until it is full.
 */
static void
largest_capacity_at_the_slowest_rate(void)
{
	RlTime		next = NOON + YEARS_100;

	counter_init_bucket(&counter, 1, YEARS_100, PG_INT64_MAX);
	expect_check(&counter, NOON, PG_INT64_MAX, true, PG_INT64_MAX, 0,
				 RL_NEVER, next);
	expect_check(&counter, NOON, 1, false, PG_INT64_MAX, 0, next, next);
	expect_check(&counter, NOON, 1000, false, PG_INT64_MAX, 0,
				 NOON + 1000 * YEARS_100, next);
	expect_check(&counter, NOON, 3000, false, PG_INT64_MAX, 0,
				 RL_NEVER, next);
	expect_int("end of the state", counter.state.end, RL_NEVER);

	/* a step back leaves an end that does not come as it is */
	expect_refused(&counter, NOON - DAY, 1, next - DAY);
	expect_int("end of the state", counter.state.end, RL_NEVER);
	expect_check(&counter, next - DAY, 1, true, PG_INT64_MAX, 0,
				 next - DAY + YEARS_100, next - DAY + YEARS_100);
}

/*
 * A token per microsecond, so a cost is a wait: the last instant that a
 * timestamp holds is one before the year 294,277, 9,223,371,331,200,000,000.
 */
static void
last_timestamp(void)
{
	RlTime		end = INT64CONST(9223371331200000000);

	counter_init_bucket(&counter, 1, 1, PG_INT64_MAX);
	expect_admitted(&counter, NOON, PG_INT64_MAX);
	expect_refused(&counter, NOON, end - 1 - NOON, end - 1);
	expect_refused(&counter, NOON, end - NOON, RL_NEVER);
	expect_refused(&counter, NOON, PG_INT64_MAX, RL_NEVER);
}

/* Windows of 100 years with the largest limit, to the last hit. */
static void
largest_windows(void)
{
	RlAlgorithm all[] = {RL_FIXED_WINDOW, RL_ANCHORED_WINDOW};
	RlTime		ends[] = {utc(2070, 1, 1, 0, 0, 0), NOON + YEARS_100};

	for (int i = 0; i < lengthof(all); i++)
	{
		counter_init(&counter, all[i], PG_INT64_MAX, YEARS_100);
		expect_check(&counter, NOON, 1, true, 1, PG_INT64_MAX - 1,
					 NOON, ends[i]);
		expect_check(&counter, NOON, PG_INT64_MAX, false, 1, PG_INT64_MAX - 1,
					 ends[i], ends[i]);
		expect_check(&counter, NOON, PG_INT64_MAX - 1, true, PG_INT64_MAX, 0,
					 ends[i], ends[i]);
		expect_check(&counter, ends[i] - 1, 1, false, PG_INT64_MAX, 0,
					 ends[i], ends[i]);
		expect_check(&counter, ends[i], PG_INT64_MAX, true, PG_INT64_MAX, 0,
					 ends[i] + YEARS_100, ends[i] + YEARS_100);
	}

	counter_init(&counter, RL_SLIDING_WINDOW, 1, YEARS_100);
	expect_check(&counter, NOON, 1, true, 1, 0,
				 NOON + YEARS_100, NOON + YEARS_100);
	expect_refused(&counter, NOON + YEARS_100 - 1, 1, NOON + YEARS_100);
	expect_admitted(&counter, NOON + YEARS_100, 1);
}

/* The first and the last instant that are taken, with every window. */
static void
ends_of_time(void)
{
	RlTime		times[] = {RL_MIN_TIME, RL_MAX_TIME};
	RlTime		windows[] = {1, SECOND, YEARS_100};
	int64		limits[] = {1, 128, 129, PG_INT64_MAX};

	for (int i = 0; i < 2 * 3 * 4 * RL_NUM_ALGORITHMS && !unit_failed(); i++)
	{
		RlTime		now = times[i % 2];
		int64		limit = limits[i / 6 % 4];
		Answer		answer;

		counter_init(&counter, (RlAlgorithm) (i / 24), limit,
					 windows[i / 2 % 3]);
		expect_peek(&counter, now, limit, true, 0, limit, now, now);
		expect_admitted(&counter, now, limit);
		answer = counter_check(&counter, now, limit);
		expect_false("allowed", answer.allowed);
		expect_between("retry_at", answer.report.retry_at, now + 1,
					   now + 2 * counter.limit.window.length);
	}
}

/* From the first instant to the last: everything has expired. */
static void
rest_from_the_first_to_the_last_instant(void)
{
	int64		limits[] = {1, 1000, PG_INT64_MAX};

	for (int i = 0; i < 3 * RL_NUM_ALGORITHMS && !unit_failed(); i++)
	{
		int64		limit = limits[i % 3];

		counter_init(&counter, (RlAlgorithm) (i / 3), limit, YEARS_100);
		expect_admitted(&counter, RL_MIN_TIME, limit);
		expect_peek(&counter, RL_MAX_TIME, limit, true, 0, limit,
					RL_MAX_TIME, RL_MAX_TIME);
	}

	/* a bucket that is not full yet: 1,334 tokens of 100 years have come */
	counter_init_bucket(&counter, 1, YEARS_100, PG_INT64_MAX);
	expect_admitted(&counter, RL_MIN_TIME, PG_INT64_MAX);
	expect_int("remaining",
			   counter_peek(&counter, RL_MAX_TIME, 1).report.remaining,
			   (RL_MAX_TIME - RL_MIN_TIME) / YEARS_100);

	/* and one that gets 2^63 - 1 a microsecond */
	counter_init(&counter, RL_TOKEN_BUCKET, PG_INT64_MAX, 1);
	counter_adjust(&counter, RL_MIN_TIME, PG_INT64_MAX);
	counter_adjust(&counter, RL_MIN_TIME, PG_INT64_MAX);
	expect_peek(&counter, RL_MAX_TIME, 1, true, 0, PG_INT64_MAX,
				RL_MAX_TIME, RL_MAX_TIME);
}

void
extremes_cases(void)
{
	unit_case("extremes: rest of 10 and 200 years", long_rest);
	unit_case("extremes: rest of 250 years in debt", long_rest_in_debt);
	unit_case("extremes: bucket of 2^63 - 1 per 100 years", largest_bucket);
	unit_case("extremes: capacity 2^63 - 1 at one per 100 years",
			  largest_capacity_at_the_slowest_rate);
	unit_case("extremes: retry at the last timestamp", last_timestamp);
	unit_case("extremes: windows of 100 years with limit 2^63 - 1",
			  largest_windows);
	unit_case("extremes: the first and the last instant", ends_of_time);
	unit_case("extremes: rest from the first to the last instant",
			  rest_from_the_first_to_the_last_instant);
}
