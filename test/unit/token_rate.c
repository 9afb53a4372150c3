/*-------------------------------------------------------------------------
 *
 * token_rate.c
 *	  Token buckets whose tokens come fast, or not a whole number of
 *	  microseconds apart.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static Counter counter;

/* The interval at 1,000 to 1,000,000 per second is 1,000 to 1 us. */
static void
interval_of_fast_rates(void)
{
	int64		rates[] = {1000, 2000, 10000, 100000, 500000, 1000000};

	for (int i = 0; i < lengthof(rates); i++)
	{
		RlTime		interval = SECOND / rates[i];

		counter_init(&counter, RL_TOKEN_BUCKET, rates[i], SECOND);
		expect_check(&counter, NOON, rates[i], true, rates[i], 0,
					 NOON + SECOND, NOON + interval);
		for (int n = 1; n <= 100; n++)
		{
			RlTime		next = NOON + n * interval;

			expect_check(&counter, next - 1, 1, false, rates[i], 0,
						 next, next);
			expect_check(&counter, next, 1, true, rates[i], 0,
						 next + interval, next + interval);
		}
	}
}

/* Polled every microsecond for 50 ms with room for one token only. */
static void
fast_rates_admit_what_they_say(void)
{
	int64		rates[] = {1000, 3000, 100000, 700000, 1000000};

	for (int i = 0; i < lengthof(rates); i++)
	{
		int64		admitted = 0;
		int64		expected = 1;
		int64		last = 0;

		/* without remainder carried over a full bucket of one token */
		for (RlTime elapsed = 1; elapsed < 50000; elapsed++)
		{
			if ((elapsed - last) * rates[i] >= SECOND)
			{
				expected++;
				last = elapsed;
			}
		}

		counter_init_bucket(&counter, rates[i], SECOND, 1);
		for (RlTime elapsed = 0; elapsed < 50000; elapsed++)
			admitted += counter_check(&counter, NOON + elapsed, 1).allowed;
		expect_int("admitted", admitted, expected);
	}
}

/* 3,000,000 per second are 3 a microsecond: a cost of 4 takes 2 us. */
static void
several_tokens_per_microsecond(void)
{
	counter_init(&counter, RL_TOKEN_BUCKET, 3000000, SECOND);
	expect_check(&counter, NOON, 3000000, true, 3000000, 0,
				 NOON + SECOND, NOON + 1);
	expect_check(&counter, NOON, 3, false, 3000000, 0, NOON + 1, NOON + 1);
	expect_check(&counter, NOON, 4, false, 3000000, 0, NOON + 2, NOON + 1);
	expect_check(&counter, NOON + 1, 4, false, 2999997, 3,
				 NOON + 2, NOON + 2);
	expect_check(&counter, NOON + 1, 3, true, 3000000, 0,
				 NOON + 2, NOON + 2);
	expect_check(&counter, NOON + 3, 6, true, 3000000, 0,
				 NOON + 5, NOON + 4);
}

/*
 * Three per second: a token takes 333,333 1/3 us.  Retry is rounded up to the
 * microsecond, and the third token comes at the full second all the same.
 */
static void
interval_with_a_fraction(void)
{
	counter_init(&counter, RL_TOKEN_BUCKET, 3, SECOND);
	expect_check(&counter, NOON, 3, true, 3, 0,
				 NOON + SECOND, NOON + 333334);
	for (int n = 0; n < 10; n++)
	{
		RlTime		start = NOON + n * SECOND;

		expect_refused(&counter, start + 333333, 1, start + 333334);
		expect_admitted(&counter, start + 333334, 1);
		expect_refused(&counter, start + 666666, 1, start + 666667);
		expect_admitted(&counter, start + 666667, 1);
		expect_refused(&counter, start + 999999, 1, start + SECOND);
		expect_admitted(&counter, start + SECOND, 1);
	}
}

/* More than one token per microsecond, and not a whole number: 7 in 3 us. */
static void
window_shorter_than_its_tokens(void)
{
	counter_init(&counter, RL_TOKEN_BUCKET, 7, 3);
	expect_check(&counter, NOON, 7, true, 7, 0, NOON + 3, NOON + 1);
	/* 7/3, 14/3 and 21/3 tokens after 1, 2 and 3 us */
	expect_peek(&counter, NOON + 1, 2, true, 5, 2, NOON + 1, NOON + 2);
	expect_peek(&counter, NOON + 1, 3, false, 5, 2, NOON + 2, NOON + 2);
	expect_peek(&counter, NOON + 2, 4, true, 3, 4, NOON + 2, NOON + 3);
	expect_peek(&counter, NOON + 2, 5, false, 3, 4, NOON + 3, NOON + 3);
	expect_peek(&counter, NOON + 3, 7, true, 0, 7, NOON + 3, NOON + 3);
}

/* One per 100 years: a token does come, 3,155,760,000 s later. */
static void
slow_rate(void)
{
	counter_init_bucket(&counter, 1, YEARS_100, 5);
	expect_check(&counter, NOON, 5, true, 5, 0,
				 NOON + 5 * YEARS_100, NOON + YEARS_100);
	expect_refused(&counter, NOON + YEARS_100 - 1, 1, NOON + YEARS_100);
	expect_check(&counter, NOON + YEARS_100, 1, true, 5, 0,
				 NOON + 2 * YEARS_100, NOON + 2 * YEARS_100);
}

void
token_rate_cases(void)
{
	unit_case("token rate: interval of 1,000 to 1,000,000 per second",
			  interval_of_fast_rates);
	unit_case("token rate: fast rates admit what they say",
			  fast_rates_admit_what_they_say);
	unit_case("token rate: several tokens per microsecond",
			  several_tokens_per_microsecond);
	unit_case("token rate: interval with a fraction",
			  interval_with_a_fraction);
	unit_case("token rate: window shorter than its tokens",
			  window_shorter_than_its_tokens);
	unit_case("token rate: one per 100 years", slow_rate);
}
