/*-------------------------------------------------------------------------
 *
 * token_bucket.c
 *	  Capacity B, full at first, refilled continuously by N per W.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static Counter counter;

/* 10 per 10 s: a token a second. */
static void
full_at_first_then_a_token_per_interval(void)
{
	counter_init(&counter, RL_TOKEN_BUCKET, 10, 10 * SECOND);
	expect_peek(&counter, NOON, 10, true, 0, 10, NOON, NOON);
	expect_check(&counter, NOON, 9, true, 9, 1,
				 NOON + 8 * SECOND, NOON + SECOND);
	expect_check(&counter, NOON, 1, true, 10, 0,
				 NOON + SECOND, NOON + SECOND);

	for (int n = 1; n <= 50; n++)
	{
		RlTime		next = NOON + n * SECOND;

		expect_check(&counter, next - 1, 1, false, 10, 0, next, next);
		expect_check(&counter, next, 1, true, 10, 0,
					 next + SECOND, next + SECOND);
	}
}

/* Empty at 0 s; at 0.4 s a call waits 0.6 s for its token, not 1 s more. */
static void
partly_refilled_token_counts(void)
{
	RlTime		now = NOON + 400000;

	counter_init(&counter, RL_TOKEN_BUCKET, 10, 10 * SECOND);
	expect_admitted(&counter, NOON, 10);
	expect_check(&counter, now, 1, false, 10, 0,
				 NOON + SECOND, NOON + SECOND);
	expect_check(&counter, now, 3, false, 10, 0,
				 NOON + 3 * SECOND, NOON + SECOND);

	/* 2.5 tokens at 2.5 s, 0.5 left after two, so one at 3 s */
	expect_check(&counter, NOON + 2500000, 2, true, 10, 0,
				 NOON + 4 * SECOND, NOON + 3 * SECOND);
	expect_check(&counter, NOON + 2500000, 1, false, 10, 0,
				 NOON + 3 * SECOND, NOON + 3 * SECOND);
}

/* Every call sees less than a token arrive; none of it may be lost. */
static void
polled_faster_than_its_interval(void)
{
	counter_init(&counter, RL_TOKEN_BUCKET, 1, 1000);
	expect_admitted(&counter, NOON, 1);
	for (RlTime now = NOON + 1; now <= NOON + 100000; now++)
		expect_int("allowed", counter_check(&counter, now, 1).allowed,
				   (now - NOON) % 1000 == 0);
}

/*
 * The same with calls that pass: limit 1000 in 7 ms at a cost of 3 every
 * 13 us; 13 / 7 of a token arrive in between.  The tokens taken in T us are
 * at most 1000 + T * 1000 / 7000 and are short of it by less than 3.
 */
static void
drained_faster_than_it_refills(void)
{
	int64		taken = 0;

	counter_init(&counter, RL_TOKEN_BUCKET, 1000, 7000);
	for (RlTime elapsed = 0; elapsed < 200000; elapsed += 13)
	{
		if (counter_check(&counter, NOON + elapsed, 3).allowed)
			taken += 3;
		if (elapsed > 20000)
			expect_between("tokens taken", taken,
						   1000 + elapsed / 7 - 3, 1000 + elapsed / 7);
	}
}

/* Capacity 100 at 10 per second: 100 at once, then one each 0.1 s. */
static void
burst_above_the_limit(void)
{
	counter_init_bucket(&counter, 10, SECOND, 100);
	expect_check(&counter, NOON, 100, true, 100, 0,
				 NOON + 10 * SECOND, NOON + SECOND / 10);
	expect_check(&counter, NOON, 101, false, 100, 0,
				 RL_NEVER, NOON + SECOND / 10);
	expect_refused(&counter, NOON + SECOND / 10 - 1, 1, NOON + SECOND / 10);
	expect_admitted(&counter, NOON + SECOND / 10, 1);

	/* full after 100 tokens = 10 s, not after one window */
	expect_peek(&counter, NOON + 10 * SECOND, 100, false, 1, 99,
				NOON + 10 * SECOND + SECOND / 10,
				NOON + 10 * SECOND + SECOND / 10);
	expect_int("end of the state", counter.state.end,
			   NOON + 10 * SECOND + SECOND / 10);
}

/* Capacity 5 at 10 per second: 6 never pass, though 10 come in a second. */
static void
burst_below_the_limit(void)
{
	counter_init_bucket(&counter, 10, SECOND, 5);
	expect_check(&counter, NOON, 6, false, 0, 5, RL_NEVER, NOON);
	expect_check(&counter, NOON, 5, true, 5, 0,
				 NOON + SECOND / 2, NOON + SECOND / 10);
	expect_check(&counter, NOON + SECOND / 4, 2, true, 5, 0,
				 NOON + 4 * SECOND / 10, NOON + 3 * SECOND / 10);
}

/* It never holds more than its capacity, however long it rests. */
static void
never_fuller_than_full(void)
{
	counter_init(&counter, RL_TOKEN_BUCKET, 10, 10 * SECOND);
	expect_admitted(&counter, NOON, 1);
	expect_peek(&counter, NOON + SECOND - 1, 10, false, 1, 9,
				NOON + SECOND, NOON + SECOND);
	expect_peek(&counter, NOON + SECOND, 10, true, 0, 10,
				NOON + SECOND, NOON + SECOND);
	expect_peek(&counter, NOON + HOUR, 11, false, 0, 10,
				RL_NEVER, NOON + HOUR);
	expect_check(&counter, NOON + HOUR, 10, true, 10, 0,
				 NOON + HOUR + 10 * SECOND, NOON + HOUR + SECOND);
}

/*
 * GCRA in its usual form, in units of 1/N us: a theoretical arrival time that
 * moves on by W for each token and may be ahead of now by B * W.
 */
static void
equivalent_to_gcra(void)
{
	for (int64 seed = 1; seed <= 100 && !unit_failed(); seed++)
	{
		UnitRandom	random = {(uint64) seed};
		int64		limit = unit_draw(&random, 1, 2000);
		RlTime		window = unit_draw(&random, 1, 100000);
		int64		burst = unit_draw(&random, 1, 50);
		RlTime		now = NOON;
		int128		arrival = 0;

		counter_init_bucket(&counter, limit, window, burst);
		for (int step = 0; step < 1000 && !unit_failed(); step++)
		{
			int64		cost = unit_draw(&random, 1, 5);
			int128		clock;
			int128		after;

			now += unit_draw(&random, 0, 4 * window / limit + 1);
			clock = (int128) now * limit;
			after = Max(arrival, clock) + (int128) cost * window;

			unit_place(seed, step);
			expect_int("allowed", counter_check(&counter, now, cost).allowed,
					   after - clock <= (int128) burst * window);
			if (after - clock <= (int128) burst * window)
				arrival = after;
		}
	}
}

void
token_bucket_cases(void)
{
	unit_case("token bucket: full at first, then a token per interval",
			  full_at_first_then_a_token_per_interval);
	unit_case("token bucket: a partly refilled token counts",
			  partly_refilled_token_counts);
	unit_case("token bucket: polled faster than its interval",
			  polled_faster_than_its_interval);
	unit_case("token bucket: drained faster than it refills",
			  drained_faster_than_it_refills);
	unit_case("token bucket: burst above the limit", burst_above_the_limit);
	unit_case("token bucket: burst below the limit", burst_below_the_limit);
	unit_case("token bucket: never fuller than full", never_fuller_than_full);
	unit_case("token bucket: equivalent to GCRA", equivalent_to_gcra);
}
