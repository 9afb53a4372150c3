/*-------------------------------------------------------------------------
 *
 * fixed_window.c
 *	  Windows aligned to the clock: they start at floor(epoch / W) * W, where
 *	  the epoch is 1970-01-01 00:00 UTC.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

static Counter counter;

static void
expect_bounds(RlTime length, RlTime now, RlTime start, RlTime end)
{
	RlWindow	window = {RL_UNIT_USEC, length, NULL};
	RlTime		got_start;
	RlTime		got_end;

	rl_window_bounds(&window, now, &got_start, &got_end);
	expect_int("start of window", got_start, start);
	expect_int("end of window", got_end, end);
}

/*
 * The epoch second 1,700,000,000 is 2023-11-14 22:13:20 UTC;
 * 1,700,000,000 mod 7 = 6, so a window of 7 s starts at 22:13:14.
 */
static void
starts_at_multiples_since_1970(void)
{
	RlTime		now = utc(2023, 11, 14, 22, 13, 20);

	expect_bounds(7 * SECOND, now, utc(2023, 11, 14, 22, 13, 14),
				  utc(2023, 11, 14, 22, 13, 21));
	expect_bounds(MINUTE, now, utc(2023, 11, 14, 22, 13, 0),
				  utc(2023, 11, 14, 22, 14, 0));
	expect_bounds(90 * MINUTE, now, utc(2023, 11, 14, 21, 0, 0),
				  utc(2023, 11, 14, 22, 30, 0));
	expect_bounds(DAY, now, utc(2023, 11, 14, 0, 0, 0),
				  utc(2023, 11, 15, 0, 0, 0));

	/* 1970-01-01 was a Thursday, and so was 2023-11-09 */
	expect_bounds(7 * DAY, now, utc(2023, 11, 9, 0, 0, 0),
				  utc(2023, 11, 16, 0, 0, 0));
	expect_bounds(1, now + 5, now + 5, now + 6);
}

/*
 * 36,525 days from 1970-01-01 is 2070-01-01 (25 leap years), back from it is
 * 1869-12-31 (1900 was none).
 */
static void
windows_of_100_years(void)
{
	RlTime		epoch = utc(1970, 1, 1, 0, 0, 0);

	expect_bounds(YEARS_100, epoch, epoch, utc(2070, 1, 1, 0, 0, 0));
	expect_bounds(YEARS_100, utc(2026, 3, 1, 12, 0, 0),
				  epoch, utc(2070, 1, 1, 0, 0, 0));
	expect_bounds(YEARS_100, epoch - 1, utc(1869, 12, 31, 0, 0, 0), epoch);
}

/* Rounding goes down before the epochs too, not towards them. */
static void
rounds_down_before_the_epochs(void)
{
	RlTime		y2000 = utc(2000, 1, 1, 0, 0, 0);
	RlTime		y1970 = utc(1970, 1, 1, 0, 0, 0);

	expect_int("2000", y2000, 0);
	expect_bounds(MINUTE, y2000 - 1, y2000 - MINUTE, y2000);
	expect_bounds(MINUTE, y2000, y2000, y2000 + MINUTE);
	expect_bounds(MINUTE, y1970 - 1, y1970 - MINUTE, y1970);
	expect_bounds(MINUTE, y1970 - MINUTE, y1970 - MINUTE, y1970);
	expect_bounds(MINUTE, y1970 - MINUTE - 1,
				  y1970 - 2 * MINUTE, y1970 - MINUTE);
	expect_bounds(HOUR, utc(1969, 7, 20, 20, 17, 40),
				  utc(1969, 7, 20, 20, 0, 0), utc(1969, 7, 20, 21, 0, 0));
	expect_bounds(7, y1970 - 1, y1970 - 7, y1970);
}

/* Every window is [start, end), the next one begins where it ends. */
static void
windows_partition_time(void)
{
	RlTime		lengths[] = {
		1, 2, 3, 1000, SECOND + 1, HOUR, 11 * DAY, YEARS_100
	};
	UnitRandom	random = {3};

	for (int n = 0; n < 20000 && !unit_failed(); n++)
	{
		RlTime		length = lengths[n % lengthof(lengths)];
		RlWindow	window = {RL_UNIT_USEC, length, NULL};
		RlTime		now = unit_draw(&random, RL_MIN_TIME, RL_MAX_TIME);
		RlTime		start;
		RlTime		end;

		if (n % 2 == 0)
			now = unit_draw(&random, -100 * HOUR, 100 * HOUR);
		unit_place(3, n);
		rl_window_bounds(&window, now, &start, &end);
		expect_between("now", now, start, end - 1);
		expect_int("length", end - start, length);
		expect_int("microseconds since 1970 modulo the length",
				   (int64) (((int128) start + 946684800 * (int128) SECOND) %
							length), 0);
		expect_bounds(length, start, start, end);
		expect_bounds(length, end - 1, start, end);
		expect_bounds(length, end, end, end + length);
	}
}

/* Three a minute, first hit in mid-window: quota comes back at 12:01:00. */
static void
counts_until_the_end_of_the_window(void)
{
	RlTime		now = utc(2026, 3, 1, 12, 0, 40);
	RlTime		end = utc(2026, 3, 1, 12, 1, 0);

	counter_init(&counter, RL_FIXED_WINDOW, 3, MINUTE);
	expect_peek(&counter, now, 1, true, 0, 3, now, now);
	expect_check(&counter, now, 1, true, 1, 2, now, end);
	expect_check(&counter, now + SECOND, 2, true, 3, 0, end, end);
	expect_check(&counter, now + SECOND, 1, false, 3, 0, end, end);
	expect_check(&counter, end - 1, 1, false, 3, 0, end, end);
	expect_check(&counter, end, 1, true, 1, 2, end, end + MINUTE);
}

/* What the sliding window is there to avoid: twice the limit around an end. */
static void
burst_on_both_sides_of_an_end(void)
{
	RlTime		end = utc(2026, 3, 1, 12, 1, 0);

	counter_init(&counter, RL_FIXED_WINDOW, 20, MINUTE);
	expect_check(&counter, end - 1, 20, true, 20, 0, end, end);
	expect_check(&counter, end, 20,
				 true, 20, 0, end + MINUTE, end + MINUTE);
	expect_refused(&counter, end, 1, end + MINUTE);
}

/* Exact for any limit: a fixed window keeps a count, not a log. */
static void
counts_exactly_above_exact_hits(void)
{
	RlTime		now = utc(2026, 3, 1, 12, 0, 0);

	counter_init(&counter, RL_FIXED_WINDOW, 1000, HOUR);
	for (int n = 1; n < 1000; n++)
		expect_check(&counter, now + n, 1, true, n, 1000 - n,
					 now + n, now + HOUR);
	expect_check(&counter, now + 1000, 1,
				 true, 1000, 0, now + HOUR, now + HOUR);
	expect_refused(&counter, now + HOUR - 1, 1, now + HOUR);
	expect_admitted(&counter, now + HOUR, 1000);
}

void
fixed_window_cases(void)
{
	unit_case("fixed window: starts at multiples since 1970",
			  starts_at_multiples_since_1970);
	unit_case("fixed window: of 100 years", windows_of_100_years);
	unit_case("fixed window: rounds down before 2000 and 1970",
			  rounds_down_before_the_epochs);
	unit_case("fixed window: windows partition time", windows_partition_time);
	unit_case("fixed window: counts until the end of the window",
			  counts_until_the_end_of_the_window);
	unit_case("fixed window: a burst on both sides of an end",
			  burst_on_both_sides_of_an_end);
	unit_case("fixed window: counts exactly above exact_hits",
			  counts_exactly_above_exact_hits);
}
