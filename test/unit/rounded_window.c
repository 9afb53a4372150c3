/*-------------------------------------------------------------------------
 *
 * rounded_window.c
 *	  Sliding windows whose limit is above exact_hits.
 *
 * Hit times are rounded up to a multiple of q = ceil(W / exact_hits): a hit
 * counts for at least W and at most W + q, and the log has at most
 * exact_hits + 1 entries.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static Counter counter;

static RlTime
quantum(const Counter *any)
{
	RlTime		window = any->limit.window.length;
	int			exact_hits = any->limit.exact_hits;

	return window / exact_hits + (window % exact_hits > 0 ? 1 : 0);
}

/*
 * q of a minute is 60,000,000 / 128 = 468,750 us, of 129 us it is
 * ceil(129 / 128) = 2 us, of 100 years 24,654,375,000,000 us.
 */
static void
hit_counts_at_most_one_quantum_too_long(void)
{
	RlTime		windows[] = {129, 1000, MINUTE, DAY + 1, YEARS_100};
	RlTime		quanta[] = {
		2, 8, 468750, 675000001, INT64CONST(24654375000000)
	};
	UnitRandom	random = {1};

	for (int i = 0; i < lengthof(windows); i++)
	{
		counter_init(&counter, RL_SLIDING_WINDOW, 129, windows[i]);
		for (int n = 0; n < 1000 && !unit_failed(); n++)
		{
			RlTime		hit = NOON + unit_draw(&random, 0, 4 * windows[i]);
			Answer		full;

			counter_init(&counter, RL_SLIDING_WINDOW, 129, windows[i]);
			full = counter_check(&counter, hit, 129);
			expect_true("allowed", full.allowed);
			expect_between("retry_at", full.report.retry_at,
						   hit + windows[i], hit + windows[i] + quanta[i] - 1);
			expect_int("reset_at", full.report.reset_at, full.report.retry_at);
		}
	}
}

/* A window of at most exact_hits microseconds has q = 1 us: it is exact. */
static void
short_window_is_exact(void)
{
	counter_init(&counter, RL_SLIDING_WINDOW, 1000, 128);
	for (RlTime now = NOON; now < NOON + 128; now++)
		expect_admitted(&counter, now, 7);
	expect_check(&counter, NOON + 128 - 1, 105, false, 896, 104,
				 NOON + 128, NOON + 128);

	/* 111 more have room when 16 hits of 7 have left */
	expect_check(&counter, NOON + 128, 111, true, 1000, 0,
				 NOON + 16 + 128, NOON + 1 + 128);
}

/*
 * A million an hour, called as fast as the limit allows at times that do not
 * match the quantum: 3 windows long, compared with the true number of hits.
 * counter_check() sees to the length of the log.
 */
static void
log_stays_short(void)
{
	RlTime		step = 13 * SECOND + 7;
	int64		limit = 1000000;
	int			width = 276;	/* floor((W - 1) / step) earlier hits */

	counter_init(&counter, RL_SLIDING_WINDOW, limit, HOUR);
	for (int n = 0; n < 900 && !unit_failed(); n++)
	{
		Answer		answer = counter_check(&counter, NOON + n * step, 1000);
		int64		in_window = 1000 * (Min(n, width) + 1);

		/* q = 28,125,000 us is at most 3 steps long */
		expect_true("allowed", answer.allowed);
		expect_between("used", answer.report.used, in_window,
					   in_window + 3 * 1000);
	}
}

/*
 * A hit every microsecond in windows that exact_hits does not divide: q must
 * be rounded up, or more than exact_hits + 1 multiples would fit in.  Before
 * 2000 and 1970 too.
 */
static void
log_stays_short_in_short_windows(void)
{
	RlTime		lengths[] = {129, 255, 257, 1000, 1279};
	RlTime		starts[] = {NOON, utc(1999, 7, 1, 0, 0, 0), RL_MIN_TIME};

	for (int i = 0; i < lengthof(lengths) * lengthof(starts); i++)
	{
		RlTime		window = lengths[i / lengthof(starts)];
		RlTime		start = starts[i % lengthof(starts)];

		counter_init(&counter, RL_SLIDING_WINDOW, 1000000, window);
		for (int n = 0; n < 3 * window; n++)
		{
			Answer		answer = counter_check(&counter, start + n, 1);
			int64		in_window = Min(n + 1, window);

			expect_between("used", answer.report.used, in_window,
						   in_window + quantum(&counter));
		}
	}
}

/*
 * Count what was admitted in every span that ends with a hit: never more than
 * the limit, and never less than what would fit with q added to every hit.
 */
static void
never_more_than_the_limit_in_any_span(void)
{
	static RlTime hits[20000];
	UnitRandom	random = {2};
	int			nhits = 0;
	RlTime		now = NOON;
	int64		limit = 300;
	RlTime		window = 10 * SECOND;

	counter_init(&counter, RL_SLIDING_WINDOW, limit, window);
	for (int n = 0; n < lengthof(hits) && !unit_failed(); n++)
	{
		int			in_window = 0;
		int			with_quantum = 0;

		now += unit_draw(&random, 0, window / limit);
		for (int i = nhits - 1;
			 i >= 0 && hits[i] > now - window - quantum(&counter); i--)
		{
			with_quantum++;
			if (hits[i] > now - window)
				in_window++;
		}

		unit_place(2, n);
		if (counter_check(&counter, now, 1).allowed)
		{
			expect_true("room in the window", in_window < limit);
			hits[nhits++] = now;
		}
		else
			expect_true("refused only when full", with_quantum >= limit);
	}
	expect_between("admitted", nhits, 1, lengthof(hits) - 1);
}

/* A rounded hit is later than now, which is not a step of the clock. */
static void
refusal_keeps_nothing(void)
{
	static Counter before;

	counter_init(&counter, RL_SLIDING_WINDOW, 1000, MINUTE);
	expect_admitted(&counter, NOON + 1, 1000);
	before = counter;
	before.state.hits = before.hits;
	for (RlTime now = NOON + 1; now < NOON + MINUTE; now += SECOND / 10)
	{
		Answer		answer = counter_check(&counter, now, 1);

		expect_false("allowed", answer.allowed);
		expect_false("to be kept", answer.kept);
		expect_true("unchanged", counter_same(&counter, &before));
	}
}

/* exact_hits 1: limit 1 is exact; above that q = W and two entries do. */
static void
exact_hits_of_one(void)
{
	counter_init(&counter, RL_SLIDING_WINDOW, 1, MINUTE);
	counter_set_exact_hits(&counter, 1);
	expect_check(&counter, NOON + 1, 1, true, 1, 0,
				 NOON + 1 + MINUTE, NOON + 1 + MINUTE);
	expect_check(&counter, NOON + MINUTE, 1, false, 1, 0,
				 NOON + 1 + MINUTE, NOON + 1 + MINUTE);
	expect_admitted(&counter, NOON + 1 + MINUTE, 1);

	for (int64 limit = 2; limit <= 200; limit += 33)
	{
		RlTime		now = NOON;

		counter_init(&counter, RL_SLIDING_WINDOW, limit, MINUTE);
		counter_set_exact_hits(&counter, 1);
		for (int64 n = 1; n <= limit; n++)
		{
			now += SECOND / 4;
			expect_int("used", counter_check(&counter, now, 1).report.used, n);
		}
		expect_false("allowed", counter_check(&counter, now, 1).allowed);
		expect_between("retry_at",
					   counter_peek(&counter, now, 1).report.retry_at,
					   NOON + SECOND / 4 + MINUTE,
					   NOON + SECOND / 4 + 2 * MINUTE);
	}
}

/*
 * The largest log: exact_hits 1024, a limit above it, a hit in every quantum
 * and on both sides of the window's ends.
 */
static void
largest_log(void)
{
	RlTime		window = 1024 * 1000;

	counter_init(&counter, RL_SLIDING_WINDOW, 1000000, window);
	counter_set_exact_hits(&counter, 1024);
	for (RlTime now = NOON; now < NOON + 3 * window; now += 333)
	{
		int64		before = Min((now - NOON) / 333, (window - 1) / 333);
		Answer		answer = counter_check(&counter, now, 1);

		/* q = 1000 us is at most 4 steps long */
		expect_between("used", answer.report.used, before + 1, before + 1 + 4);
	}
	expect_between("hits in the log", counter.state.nhits, 1024, 1025);
}

/* A hit a quantum apart, before 2000 and before 1970. */
static void
rounds_up_before_the_epochs(void)
{
	RlTime		times[] = {
		utc(1999, 12, 31, 23, 59, 59), utc(1969, 7, 20, 20, 17, 40),
		utc(1, 1, 1, 0, 0, 1), RL_MIN_TIME + 1, -1, -1 - 946684800 * SECOND
	};

	for (int i = 0; i < lengthof(times); i++)
	{
		for (RlTime now = times[i]; now < times[i] + 10; now++)
		{
			counter_init(&counter, RL_SLIDING_WINDOW, 1000, 128 * 7);
			expect_between("retry_at",
						   counter_check(&counter, now, 1000).report.retry_at,
						   now + 128 * 7, now + 128 * 7 + 7 - 1);
		}
	}
}

void
rounded_window_cases(void)
{
	unit_case("rounded window: a hit counts at most one quantum too long",
			  hit_counts_at_most_one_quantum_too_long);
	unit_case("rounded window: exact when short", short_window_is_exact);
	unit_case("rounded window: the log stays short", log_stays_short);
	unit_case("rounded window: the log stays short in short windows",
			  log_stays_short_in_short_windows);
	unit_case("rounded window: never more than the limit in any span",
			  never_more_than_the_limit_in_any_span);
	unit_case("rounded window: a refusal keeps nothing",
			  refusal_keeps_nothing);
	unit_case("rounded window: exact_hits 1", exact_hits_of_one);
	unit_case("rounded window: the largest log", largest_log);
	unit_case("rounded window: rounds up before 2000 and 1970",
			  rounds_up_before_the_epochs);
}
