/*-------------------------------------------------------------------------
 *
 * limit_changes.c
 *	  A limit, a burst or exact_hits changed while something is used: the hits
 *	  stay and the new limit judges them.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

/* the longest that rounding may add for a minute and exact_hits 128 */
#define QUANTUM	468750

static Counter counter;

/* Full at 2 and refusing; a limit of 3 admits one more at once. */
static void
raising_admits_at_once(void)
{
	for (int i = 0; i < NUM_WINDOW_ALGORITHMS; i++)
	{
		RlTime		end = NOON + MINUTE;

		counter_init(&counter, window_algorithms[i], 2, MINUTE);
		expect_admitted(&counter, NOON, 2);
		for (int n = 0; n < 100; n++)
			expect_refused(&counter, NOON + n, 1, end);
		counter_set_limit(&counter, 3);
		expect_check(&counter, NOON + SECOND, 1, true, 3, 0, end, end);
		expect_refused(&counter, NOON + SECOND, 1, end);
	}
}

/* 7 of 10 used; of 5 it is 7 too, nothing remains and nothing passes. */
static void
lowering_keeps_what_is_used(void)
{
	for (int i = 0; i < NUM_WINDOW_ALGORITHMS; i++)
	{
		RlTime		now = NOON + SECOND;
		RlTime		end = NOON + MINUTE;

		counter_init(&counter, window_algorithms[i], 10, MINUTE);
		expect_admitted(&counter, NOON, 7);
		counter_set_limit(&counter, 5);
		expect_check(&counter, now, 1, false, 7, 0, end, end);
		expect_check(&counter, now, 6, false, 7, 0, RL_NEVER, end);
		counter_set_limit(&counter, 0);
		expect_check(&counter, now, 1, false, 7, 0, RL_NEVER, end);
		counter_set_limit(&counter, 8);
		expect_check(&counter, now, 1, true, 8, 0, end, end);
	}
}

/*
 * Seven hits a second apart, then limit 5: a cost of 1 needs used at 4, which
 * is when the hits at 0, 1 and 2 s have left; more quota first comes with the
 * hit at 0 s, though none of it can be had yet.
 */
static void
lowered_limit_waits_for_more_hits(void)
{
	RlTime		now = NOON + 10 * SECOND;

	counter_init(&counter, RL_SLIDING_WINDOW, 10, MINUTE);
	for (int n = 0; n < 7; n++)
		expect_admitted(&counter, NOON + n * SECOND, 1);
	counter_set_limit(&counter, 5);
	expect_check(&counter, now, 1, false, 7, 0,
				 NOON + 2 * SECOND + MINUTE, NOON + MINUTE);
	expect_check(&counter, now, 5, false, 7, 0,
				 NOON + 6 * SECOND + MINUTE, NOON + MINUTE);
	expect_check(&counter, NOON + 2 * SECOND + MINUTE, 1, true, 5, 0,
				 NOON + 3 * SECOND + MINUTE, NOON + 3 * SECOND + MINUTE);
}

/* 100 exact hits, then 1,000: those count on, rounded at most by q. */
static void
raised_above_exact_hits(void)
{
	RlTime		now;

	counter_init(&counter, RL_SLIDING_WINDOW, 100, MINUTE);
	for (int n = 0; n < 100; n++)
		expect_admitted(&counter, NOON + n * 1000, 1);

	counter_set_limit(&counter, 1000);
	for (int n = 0; n < 900; n++)
		expect_int("used",
				   counter_check(&counter, NOON + SECOND + n * 1000,
								 1).report.used, 101 + n);
	now = NOON + 2 * SECOND;
	expect_between("retry_at", counter_check(&counter, now, 1).report.retry_at,
				   NOON + MINUTE, NOON + MINUTE + QUANTUM);
	expect_between("retry_at",
				   counter_check(&counter, now, 1000).report.retry_at,
				   NOON + SECOND + 899000 + MINUTE,
				   NOON + SECOND + 899000 + MINUTE + QUANTUM);
}

/* From 129, the lowest that rounds, to 128, the highest that does not. */
static void
lowered_to_exact_hits(void)
{
	RlTime		rounded = NOON + 10 * SECOND;
	RlTime		exact = NOON + 70 * SECOND + 1;
	Answer		answer;

	counter_init(&counter, RL_SLIDING_WINDOW, 129, MINUTE);
	for (int n = 0; n < 129; n++)
		expect_admitted(&counter, NOON + 10 * SECOND - 128 + n, 1);
	counter_set_limit(&counter, 128);
	answer = counter_check(&counter, rounded, 1);
	expect_false("allowed", answer.allowed);
	expect_int("used", answer.report.used, 129);
	expect_between("retry_at", answer.report.retry_at,
				   rounded - 128 + 1 + MINUTE, rounded + MINUTE + QUANTUM);

	/* when the rounded hits are gone, each microsecond counts again */
	exact += QUANTUM;
	for (int n = 0; n < 128; n++)
		expect_admitted(&counter, exact + n, 1);
	for (int n = 0; n < 128; n++)
		expect_check(&counter, exact + 200, n + 1, false, 128, 0,
					 exact + n + MINUTE, exact + MINUTE);
}

/*
 * Raised and lowered around exact_hits at every call, against the times of
 * the hits themselves: no admission above the limit of the call, no hit that
 * counts more than q too long.  The length of the log is checked by the way.
 */
static void
changing_around_exact_hits(void)
{
	static RlTime hits[30000];
	int64		limits[] = {100, 127, 128, 129, 130, 1000};
	UnitRandom	random = {4};
	RlTime		now = NOON;
	int			nhits = 0;

	counter_init(&counter, RL_SLIDING_WINDOW, 128, MINUTE);
	for (int n = 0; n < lengthof(hits) && !unit_failed(); n++)
	{
		int64		limit = limits[unit_draw(&random, 0, 5)];
		int			in_window = 0;
		int			with_quantum = 0;
		Answer		answer;

		now += unit_draw(&random, 0, MINUTE / 100);
		for (int i = nhits - 1;
			 i >= 0 && hits[i] > now - MINUTE - QUANTUM; i--)
		{
			with_quantum++;
			if (hits[i] > now - MINUTE)
				in_window++;
		}

		unit_place(4, n);
		counter_set_limit(&counter, limit);
		answer = counter_check(&counter, now, 1);
		if (answer.allowed)
		{
			expect_true("room in the window", in_window < limit);
			hits[nhits++] = now;
		}
		else
			expect_true("refused only when full", with_quantum >= limit);
		expect_between("used", answer.report.used,
					   in_window + answer.allowed,
					   with_quantum + answer.allowed);
	}
}

/* exact_hits lowered from 128 to 4 and 1: the log follows at the next hit. */
static void
exact_hits_lowered(void)
{
	RlTime		now = NOON + SECOND;

	counter_init(&counter, RL_SLIDING_WINDOW, 128, MINUTE);
	for (int n = 0; n < 100; n++)
		expect_admitted(&counter, NOON + n, 1);
	expect_int("hits in the log", counter.state.nhits, 100);

	counter_set_exact_hits(&counter, 4);
	expect_int("used", counter_check(&counter, now, 1).report.used, 101);
	expect_between("hits in the log", counter.state.nhits, 1, 5);
	counter_set_exact_hits(&counter, 1);
	expect_int("used", counter_check(&counter, now, 27).report.used, 128);
	expect_between("hits in the log", counter.state.nhits, 1, 2);

	/* q is now a minute */
	expect_between("retry_at", counter_check(&counter, now, 1).report.retry_at,
				   NOON + MINUTE, NOON + 2 * MINUTE);
	expect_true("gone after two minutes",
				counter_check(&counter, now + 2 * MINUTE, 128).allowed);
}

/* exact_hits raised from 1 to 1024: nothing gets lost, new hits are exact. */
static void
exact_hits_raised(void)
{
	RlTime		later = NOON + 3 * MINUTE;

	counter_init(&counter, RL_SLIDING_WINDOW, 128, MINUTE);
	counter_set_exact_hits(&counter, 1);
	for (int n = 0; n < 100; n++)
		expect_admitted(&counter, NOON + n, 1);
	counter_set_exact_hits(&counter, 1024);
	expect_int("used",
			   counter_check(&counter, NOON + 100, 1).report.used, 101);
	for (int n = 0; n < 128; n++)
		expect_admitted(&counter, later + n, 1);
	for (int n = 0; n < 128; n++)
		expect_refused(&counter, later + 128, n + 1, later + n + MINUTE);
}

/* Raising a bucket's capacity adds no tokens, lowering it caps the level. */
static void
capacity_of_a_bucket(void)
{
	RlTime		now = NOON + 1;

	counter_init_bucket(&counter, 1, MINUTE, 10);
	expect_admitted(&counter, NOON, 7);

	counter.limit.capacity = 100;
	expect_peek(&counter, NOON, 4, false, 97, 3,
				NOON + MINUTE, NOON + MINUTE);
	expect_check(&counter, NOON, 1, true, 98, 2, NOON, NOON + MINUTE);

	counter.limit.capacity = 2;
	expect_peek(&counter, now, 3, false, 0, 2, RL_NEVER, now);
	expect_check(&counter, now, 1, true, 1, 1, now, now + MINUTE);

	counter.limit.capacity = 10;
	expect_peek(&counter, now, 2, false, 9, 1, now + MINUTE, now + MINUTE);
}

/* A bucket empty at noon, a token a minute; at 30 s the rate becomes 6. */
static void
rate_of_a_bucket_raised(void)
{
	RlTime		now = NOON + 30 * SECOND;

	counter_init_bucket(&counter, 1, MINUTE, 5);
	expect_admitted(&counter, NOON, 5);
	expect_refused(&counter, now, 1, NOON + MINUTE);
	counter.limit.limit = 6;

	/* the new rate judges all the time since the last hit: 3 in 30 s */
	expect_check(&counter, now, 3, true, 5, 0,
				 now + 30 * SECOND, now + 10 * SECOND);
}

/*
 * A bucket of 10, empty at noon, 10 a second; then 1 a second.  It is full at
 * 12:00:01 by the rate that was in force at its last hit, and as good as none
 * from then on; the instants to come back at must say so.
 */
static void
rate_of_a_bucket_lowered(void)
{
	RlTime		now = NOON + SECOND / 2;

	counter_init_bucket(&counter, 10, SECOND, 10);
	expect_admitted(&counter, NOON, 10);
	counter.limit.limit = 1;
	expect_check(&counter, now, 5, false, 10, 0,
				 NOON + SECOND, NOON + SECOND);
	expect_admitted(&counter, NOON + SECOND, 10);
}

/* Limit 0 in between takes nothing from a bucket and adds nothing to it. */
static void
bucket_with_limit_zero_in_between(void)
{
	counter_init(&counter, RL_TOKEN_BUCKET, 60, MINUTE);
	expect_admitted(&counter, NOON, 50);
	counter_set_limit(&counter, 0);
	expect_false("allowed", counter_check(&counter, NOON, 1).allowed);
	expect_false("allowed",
				 counter_check(&counter, NOON + SECOND, 1).allowed);
	counter_set_limit(&counter, 60);
	expect_check(&counter, NOON + SECOND, 11, true, 60, 0,
				 NOON + 12 * SECOND, NOON + 2 * SECOND);
}

void
limit_changes_cases(void)
{
	unit_case("limit changes: raising admits at once", raising_admits_at_once);
	unit_case("limit changes: lowering keeps what is used",
			  lowering_keeps_what_is_used);
	unit_case("limit changes: a lowered limit waits for more hits",
			  lowered_limit_waits_for_more_hits);
	unit_case("limit changes: raised above exact_hits",
			  raised_above_exact_hits);
	unit_case("limit changes: lowered to exact_hits", lowered_to_exact_hits);
	unit_case("limit changes: changing around exact_hits",
			  changing_around_exact_hits);
	unit_case("limit changes: exact_hits lowered", exact_hits_lowered);
	unit_case("limit changes: exact_hits raised", exact_hits_raised);
	unit_case("limit changes: capacity of a bucket", capacity_of_a_bucket);
	unit_case("limit changes: rate of a bucket raised",
			  rate_of_a_bucket_raised);
	unit_case("limit changes: rate of a bucket lowered",
			  rate_of_a_bucket_lowered);
	unit_case("limit changes: bucket with limit 0 in between",
			  bucket_with_limit_zero_in_between);
}
