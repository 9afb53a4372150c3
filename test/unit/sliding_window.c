/*-------------------------------------------------------------------------
 *
 * sliding_window.c
 *	  At most N in any W-long span (t - W, t], with exact hit times.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static Counter counter;

/*
 * Three a 10 seconds: hits at 0, 1 and 2 s fill the window; the first one
 * leaves it at 10 s, which is when both the next call and quota come.
 */
static void
counts_hits_in_the_window(void)
{
	counter_init(&counter, RL_SLIDING_WINDOW, 3, 10 * SECOND);

	expect_peek(&counter, NOON, 1, true, 0, 3, NOON, NOON);
	expect_check(&counter, NOON, 1, true, 1, 2, NOON, NOON + 10 * SECOND);
	expect_check(&counter, NOON + 1 * SECOND, 1,
				 true, 2, 1, NOON + 1 * SECOND, NOON + 10 * SECOND);
	expect_check(&counter, NOON + 2 * SECOND, 1,
				 true, 3, 0, NOON + 10 * SECOND, NOON + 10 * SECOND);
	expect_check(&counter, NOON + 3 * SECOND, 1,
				 false, 3, 0, NOON + 10 * SECOND, NOON + 10 * SECOND);

	/* the hit at 0 s leaves, the one at 1 s is the oldest now */
	expect_check(&counter, NOON + 10 * SECOND, 1,
				 true, 3, 0, NOON + 11 * SECOND, NOON + 11 * SECOND);
}

/* A hit at s is in (t - W, t] for t = s + W - 1 us, not for t = s + W. */
static void
hit_leaves_after_exactly_one_window(void)
{
	RlTime		windows[] = {1, 2, 7, 1000, SECOND, DAY, YEARS_100};

	for (int i = 0; i < lengthof(windows); i++)
	{
		RlTime		leaves = NOON + windows[i];

		counter_init(&counter, RL_SLIDING_WINDOW, 1, windows[i]);
		expect_check(&counter, NOON, 1, true, 1, 0, leaves, leaves);
		expect_check(&counter, leaves - 1, 1, false, 1, 0, leaves, leaves);
		expect_check(&counter, leaves, 1,
					 true, 1, 0, leaves + windows[i], leaves + windows[i]);
	}
}

/* A window of 1 us holds one instant only. */
static void
window_of_one_microsecond(void)
{
	counter_init(&counter, RL_SLIDING_WINDOW, 2, 1);
	for (RlTime now = NOON; now < NOON + 1000; now++)
	{
		expect_check(&counter, now, 1, true, 1, 1, now, now + 1);
		expect_check(&counter, now, 1, true, 2, 0, now + 1, now + 1);
		expect_check(&counter, now, 1, false, 2, 0, now + 1, now + 1);
	}
}

static void
hits_at_the_same_instant_all_count(void)
{
	counter_init(&counter, RL_SLIDING_WINDOW, 20, MINUTE);
	for (int used = 1; used <= 20; used++)
		expect_int("used", counter_check(&counter, NOON, 1).report.used, used);
	expect_check(&counter, NOON, 1,
				 false, 20, 0, NOON + MINUTE, NOON + MINUTE);
}

/*
 * Of 10: 3 at 0 s, 4 at 1 s, 3 at 2 s.  A cost of 3 waits for the first hit, 4
 * to 7 for the second, 8 to 10 for the third; more quota comes with the first.
 */
static void
retry_waits_for_the_hits_in_the_way(void)
{
	RlTime		now = NOON + 3 * SECOND;
	RlTime		first = NOON + MINUTE;

	counter_init(&counter, RL_SLIDING_WINDOW, 10, MINUTE);
	expect_admitted(&counter, NOON, 3);
	expect_admitted(&counter, NOON + 1 * SECOND, 4);
	expect_admitted(&counter, NOON + 2 * SECOND, 3);

	expect_peek(&counter, now, 0, true, 10, 0, now, first);
	expect_peek(&counter, now, 1, false, 10, 0, first, first);
	expect_peek(&counter, now, 3, false, 10, 0, first, first);
	expect_peek(&counter, now, 4, false, 10, 0, first + 1 * SECOND, first);
	expect_peek(&counter, now, 7, false, 10, 0, first + 1 * SECOND, first);
	expect_peek(&counter, now, 8, false, 10, 0, first + 2 * SECOND, first);
	expect_peek(&counter, now, 10, false, 10, 0, first + 2 * SECOND, first);
	expect_peek(&counter, now, 11, false, 10, 0, RL_NEVER, first);
}

/* 20 just before a full minute leave nothing for the beginning of the next. */
static void
no_double_burst_at_a_clock_minute(void)
{
	RlTime		minute = NOON + MINUTE;

	counter_init(&counter, RL_SLIDING_WINDOW, 20, MINUTE);
	for (int i = 0; i < 20; i++)
		expect_admitted(&counter, minute - 1, 1);
	for (int i = 0; i < 20; i++)
		expect_refused(&counter, minute + i * SECOND, 1,
					   minute - 1 + MINUTE);
	expect_admitted(&counter, minute - 1 + MINUTE, 20);
}

/* A refusal is not recorded: a client that keeps trying is not kept out. */
static void
refusals_do_not_count(void)
{
	counter_init(&counter, RL_SLIDING_WINDOW, 2, MINUTE);
	expect_admitted(&counter, NOON, 2);
	for (RlTime now = NOON; now < NOON + MINUTE; now += SECOND / 4)
		expect_check(&counter, now, 1,
					 false, 2, 0, NOON + MINUTE, NOON + MINUTE);
	expect_check(&counter, NOON + MINUTE, 2,
				 true, 2, 0, NOON + 2 * MINUTE, NOON + 2 * MINUTE);
}

/*
 * With limit = exact_hits hits of different instants are all told apart: the
 * n-th leaves n us after the first.
 */
static void
exact_up_to_exact_hits(void)
{
	int			sizes[] = {1, 2, 3, 128, 1024};

	for (int i = 0; i < lengthof(sizes); i++)
	{
		int			size = sizes[i];

		counter_init(&counter, RL_SLIDING_WINDOW, size, HOUR);
		counter_set_exact_hits(&counter, size);
		for (int n = 0; n < size; n++)
			expect_check(&counter, NOON + n, 1, true, n + 1, size - n - 1,
						 n + 1 < size ? NOON + n : NOON + HOUR, NOON + HOUR);
		for (int n = 0; n < size; n++)
		{
			RlTime		leaves = NOON + HOUR + n;

			expect_check(&counter, leaves - 1, n + 1, false, size - n, n,
						 leaves, leaves);
			expect_int("used", counter_peek(&counter, leaves, 1).report.used,
					   size - n - 1);
		}
	}
}

/* After a window of rest a counter is as good as none. */
static void
forgotten_after_the_newest_hit(void)
{
	RlTime		newest = NOON + 5 * SECOND;

	counter_init(&counter, RL_SLIDING_WINDOW, 5, MINUTE);
	expect_admitted(&counter, NOON, 1);
	expect_admitted(&counter, newest, 1);

	expect_int("end of the state", counter.state.end, newest + MINUTE);
	expect_peek(&counter, newest + MINUTE - 1, 5, false, 1, 4,
				newest + MINUTE, newest + MINUTE);
	expect_peek(&counter, newest + MINUTE, 5, true, 0, 5,
				newest + MINUTE, newest + MINUTE);
}

void
sliding_window_cases(void)
{
	unit_case("sliding window: counts the hits in the window",
			  counts_hits_in_the_window);
	unit_case("sliding window: a hit leaves after exactly one window",
			  hit_leaves_after_exactly_one_window);
	unit_case("sliding window: of 1 us", window_of_one_microsecond);
	unit_case("sliding window: hits at the same instant all count",
			  hits_at_the_same_instant_all_count);
	unit_case("sliding window: retry waits for the hits in the way",
			  retry_waits_for_the_hits_in_the_way);
	unit_case("sliding window: no double burst at a clock minute",
			  no_double_burst_at_a_clock_minute);
	unit_case("sliding window: refusals do not count", refusals_do_not_count);
	unit_case("sliding window: exact up to exact_hits",
			  exact_up_to_exact_hits);
	unit_case("sliding window: forgotten after the newest hit",
			  forgotten_after_the_newest_hit);
}
