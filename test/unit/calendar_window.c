/*-------------------------------------------------------------------------
 *
 * calendar_window.c
 *	  Windows of days and months in a time zone: known dates.
 *
 * Days count from Monday 2001-01-01, months from January of year 0.  A day
 * starts at the first instant whose local time has reached midnight.  The UTC
 * instants expected follow from the zones' offsets, which each case names.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"
#include "zone.h"

/* Compare the window around an instant, at both of its ends too. */
static void
expect_window(RlUnit unit, int64 length, RlTime now, RlTime start, RlTime end)
{
	RlWindow	window = {unit, length, &zone_current};
	RlTime		times[] = {now, start, end - 1};
	RlTime		got_start;
	RlTime		got_end;

	for (int i = 0; i < lengthof(times); i++)
	{
		rl_window_bounds(&window, times[i], &got_start, &got_end);
		expect_int("start of window", got_start, start);
		expect_int("end of window", got_end, end);
	}
	rl_window_bounds(&window, start - 1, &got_start, &got_end);
	expect_int("end of window before", got_end, start);
	rl_window_bounds(&window, end, &got_start, &got_end);
	expect_int("start of next window", got_start, end);
}

static void
expect_days(int64 length, RlTime now, RlTime start, RlTime end)
{
	expect_window(RL_UNIT_DAY, length, now, start, end);
}

static void
expect_months(int64 length, RlTime now, RlTime start, RlTime end)
{
	expect_window(RL_UNIT_MONTH, length, now, start, end);
}

/* 2026-01-15 is a Thursday; 2001-01-01 + 9,135 days is 2026-01-05. */
static void
days_in_utc(void)
{
	RlTime		now = utc(2026, 1, 15, 12, 0, 0);

	zone_set("UTC");
	expect_days(1, now, utc(2026, 1, 15, 0, 0, 0), utc(2026, 1, 16, 0, 0, 0));
	expect_days(7, now, utc(2026, 1, 12, 0, 0, 0), utc(2026, 1, 19, 0, 0, 0));

	/* day 9,145 since 2001-01-01: 2 * 4,572 = 9,144, 14 * 653 = 9,142 */
	expect_days(2, now, utc(2026, 1, 14, 0, 0, 0), utc(2026, 1, 16, 0, 0, 0));
	expect_days(14, now, utc(2026, 1, 12, 0, 0, 0), utc(2026, 1, 26, 0, 0, 0));
	expect_days(30, now,
				utc(2025, 12, 21, 0, 0, 0), utc(2026, 1, 20, 0, 0, 0));
	expect_days(36525, now,
				utc(2001, 1, 1, 0, 0, 0), utc(2101, 1, 2, 0, 0, 0));
}

/* 2001-01-01 itself, and back from it: days before it have numbers below 0. */
static void
days_from_monday_2001(void)
{
	RlTime		monday = utc(2001, 1, 1, 0, 0, 0);

	zone_set("UTC");
	expect_days(7, monday, monday, utc(2001, 1, 8, 0, 0, 0));
	expect_days(7, monday - 1, utc(2000, 12, 25, 0, 0, 0), monday);
	expect_days(14, monday, monday, utc(2001, 1, 15, 0, 0, 0));
	expect_days(14, monday - 1, utc(2000, 12, 18, 0, 0, 0), monday);
	expect_days(2, monday, monday, utc(2001, 1, 3, 0, 0, 0));
	expect_days(2, monday - 1, utc(2000, 12, 30, 0, 0, 0), monday);

	/* before 2000 and before 1970, Mondays both */
	expect_days(7, utc(1999, 12, 31, 23, 59, 59),
				utc(1999, 12, 27, 0, 0, 0), utc(2000, 1, 3, 0, 0, 0));
	expect_days(7, utc(1969, 7, 20, 20, 17, 40),
				utc(1969, 7, 14, 0, 0, 0), utc(1969, 7, 21, 0, 0, 0));
	expect_days(1, utc(1969, 12, 31, 23, 59, 59),
				utc(1969, 12, 31, 0, 0, 0), utc(1970, 1, 1, 0, 0, 0));
}

static void
months_in_utc(void)
{
	zone_set("UTC");
	expect_months(1, utc(2026, 1, 31, 23, 59, 59),
				  utc(2026, 1, 1, 0, 0, 0), utc(2026, 2, 1, 0, 0, 0));
	expect_months(1, utc(2026, 2, 28, 23, 59, 59),
				  utc(2026, 2, 1, 0, 0, 0), utc(2026, 3, 1, 0, 0, 0));
	expect_months(1, utc(2026, 12, 31, 12, 0, 0),
				  utc(2026, 12, 1, 0, 0, 0), utc(2027, 1, 1, 0, 0, 0));

	/* quarters, halves, years, centuries */
	expect_months(3, utc(2026, 5, 15, 0, 0, 0),
				  utc(2026, 4, 1, 0, 0, 0), utc(2026, 7, 1, 0, 0, 0));
	expect_months(3, utc(2026, 12, 31, 23, 59, 59),
				  utc(2026, 10, 1, 0, 0, 0), utc(2027, 1, 1, 0, 0, 0));
	expect_months(6, utc(2026, 8, 1, 0, 0, 0),
				  utc(2026, 7, 1, 0, 0, 0), utc(2027, 1, 1, 0, 0, 0));
	expect_months(12, utc(2026, 5, 15, 0, 0, 0),
				  utc(2026, 1, 1, 0, 0, 0), utc(2027, 1, 1, 0, 0, 0));
	expect_months(1200, utc(2026, 5, 15, 0, 0, 0),
				  utc(2000, 1, 1, 0, 0, 0), utc(2100, 1, 1, 0, 0, 0));

	/* 2026 * 12 = 24,312 = 7 * 3,473 + 1: a window began a month before */
	expect_months(7, utc(2026, 1, 15, 0, 0, 0),
				  utc(2025, 12, 1, 0, 0, 0), utc(2026, 7, 1, 0, 0, 0));
}

/* 2024 and 2000 are leap years, 1900 and 2100 are not. */
static void
february_29(void)
{
	zone_set("UTC");
	expect_days(1, utc(2024, 2, 29, 12, 0, 0),
				utc(2024, 2, 29, 0, 0, 0), utc(2024, 3, 1, 0, 0, 0));
	expect_months(1, utc(2024, 2, 29, 12, 0, 0),
				  utc(2024, 2, 1, 0, 0, 0), utc(2024, 3, 1, 0, 0, 0));
	expect_months(1, utc(2000, 2, 29, 12, 0, 0),
				  utc(2000, 2, 1, 0, 0, 0), utc(2000, 3, 1, 0, 0, 0));
	expect_months(12, utc(2024, 2, 29, 12, 0, 0),
				  utc(2024, 1, 1, 0, 0, 0), utc(2025, 1, 1, 0, 0, 0));

	expect_int("February 2024", utc(2024, 3, 1, 0, 0, 0) -
			   utc(2024, 2, 1, 0, 0, 0), 29 * DAY);
	expect_months(1, utc(1900, 2, 28, 12, 0, 0), utc(1900, 2, 1, 0, 0, 0),
				  utc(1900, 2, 1, 0, 0, 0) + 28 * DAY);
	expect_months(1, utc(2100, 2, 28, 12, 0, 0), utc(2100, 2, 1, 0, 0, 0),
				  utc(2100, 2, 1, 0, 0, 0) + 28 * DAY);
	expect_days(1, utc(2100, 2, 28, 12, 0, 0), utc(2100, 2, 28, 0, 0, 0),
				utc(2100, 3, 1, 0, 0, 0));
}

static void
months_before_the_epochs(void)
{
	zone_set("UTC");
	expect_months(1, utc(1999, 12, 31, 23, 59, 59),
				  utc(1999, 12, 1, 0, 0, 0), utc(2000, 1, 1, 0, 0, 0));
	expect_months(1, utc(1969, 12, 31, 23, 59, 59),
				  utc(1969, 12, 1, 0, 0, 0), utc(1970, 1, 1, 0, 0, 0));
	expect_months(3, utc(1969, 7, 20, 20, 17, 40),
				  utc(1969, 7, 1, 0, 0, 0), utc(1969, 10, 1, 0, 0, 0));
	expect_months(1200, utc(1999, 12, 31, 23, 59, 59),
				  utc(1900, 1, 1, 0, 0, 0), utc(2000, 1, 1, 0, 0, 0));

	/* around year 0, where the count begins; 4713 BC is the year -4712 */
	expect_months(12, utc(0, 1, 1, 0, 0, 0),
				  utc(0, 1, 1, 0, 0, 0), utc(1, 1, 1, 0, 0, 0));
	expect_months(5, utc(0, 1, 1, 0, 0, 0) - 1,
				  utc(-1, 8, 1, 0, 0, 0), utc(0, 1, 1, 0, 0, 0));
	expect_months(1, RL_MIN_TIME,
				  utc(-4713, 11, 1, 0, 0, 0), utc(-4713, 12, 1, 0, 0, 0));
}

/* CET is UTC+1, CEST UTC+2: 23 hours on 31 March, 25 on 27 October 2024. */
static void
berlin(void)
{
	zone_set("Europe/Berlin");
	expect_days(1, utc(2024, 3, 31, 12, 0, 0),
				utc(2024, 3, 30, 23, 0, 0), utc(2024, 3, 31, 22, 0, 0));
	expect_days(1, utc(2024, 10, 27, 12, 0, 0),
				utc(2024, 10, 26, 22, 0, 0), utc(2024, 10, 27, 23, 0, 0));
	expect_days(7, utc(2024, 3, 31, 12, 0, 0),
				utc(2024, 3, 24, 23, 0, 0), utc(2024, 3, 31, 22, 0, 0));
	expect_months(1, utc(2024, 3, 31, 12, 0, 0),
				  utc(2024, 2, 29, 23, 0, 0), utc(2024, 3, 31, 22, 0, 0));
	expect_months(3, utc(2024, 5, 1, 0, 0, 0),
				  utc(2024, 3, 31, 22, 0, 0), utc(2024, 6, 30, 22, 0, 0));
	expect_months(12, utc(2024, 5, 1, 0, 0, 0),
				  utc(2023, 12, 31, 23, 0, 0), utc(2024, 12, 31, 23, 0, 0));

	/* 2026-01-31 23:30 UTC is in February there */
	expect_months(1, utc(2026, 1, 31, 23, 30, 0),
				  utc(2026, 1, 31, 23, 0, 0), utc(2026, 2, 28, 23, 0, 0));
}

/* PST is UTC-8, PDT UTC-7: 23 hours on 10 March, 25 on 3 November 2024. */
static void
los_angeles(void)
{
	zone_set("America/Los_Angeles");
	expect_days(1, utc(2024, 3, 10, 12, 0, 0),
				utc(2024, 3, 10, 8, 0, 0), utc(2024, 3, 11, 7, 0, 0));
	expect_days(1, utc(2024, 11, 3, 12, 0, 0),
				utc(2024, 11, 3, 7, 0, 0), utc(2024, 11, 4, 8, 0, 0));
	expect_months(1, utc(2024, 11, 1, 6, 59, 59),
				  utc(2024, 10, 1, 7, 0, 0), utc(2024, 11, 1, 7, 0, 0));
}

/*
 * CST is UTC-5, CDT UTC-4.  On 10 March 2024 the clock goes from 0:00 to 1:00,
 * so the day starts at 1:00 = 5:00 UTC; on 3 November it goes from 1:00 back
 * to 0:00, so midnight comes at 4:00 and 5:00 UTC, and the first one counts.
 */
static void
havana(void)
{
	zone_set("America/Havana");
	expect_days(1, utc(2024, 3, 10, 12, 0, 0),
				utc(2024, 3, 10, 5, 0, 0), utc(2024, 3, 11, 4, 0, 0));
	expect_days(1, utc(2024, 3, 9, 12, 0, 0),
				utc(2024, 3, 9, 5, 0, 0), utc(2024, 3, 10, 5, 0, 0));
	expect_days(1, utc(2024, 11, 3, 12, 0, 0),
				utc(2024, 11, 3, 4, 0, 0), utc(2024, 11, 4, 5, 0, 0));
}

/*
 * UTC-3, in summer UTC-2.  On 4 November 2018 the clock goes from 0:00 to
 * 1:00; on 18 February 2018 it went from 0:00 back to 23:00 of the 17th.
 */
static void
sao_paulo(void)
{
	zone_set("America/Sao_Paulo");
	expect_days(1, utc(2018, 11, 4, 12, 0, 0),
				utc(2018, 11, 4, 3, 0, 0), utc(2018, 11, 5, 2, 0, 0));
	expect_days(1, utc(2018, 2, 17, 12, 0, 0),
				utc(2018, 2, 17, 2, 0, 0), utc(2018, 2, 18, 3, 0, 0));
	expect_days(1, utc(2018, 2, 18, 2, 30, 0),
				utc(2018, 2, 17, 2, 0, 0), utc(2018, 2, 18, 3, 0, 0));
}

/*
 * NST is UTC-3:30, NDT UTC-2:30.  On 29 October 2006 the clock went from 0:01
 * back to 23:01 of the 28th: the 29th has started at the first midnight, 2:30
 * UTC, and the hour that comes again is in it.  On 2 April it went from 0:01
 * to 1:01.
 */
static void
st_johns(void)
{
	zone_set("America/St_Johns");
	expect_days(1, utc(2006, 10, 28, 12, 0, 0),
				utc(2006, 10, 28, 2, 30, 0), utc(2006, 10, 29, 2, 30, 0));
	expect_days(1, utc(2006, 10, 29, 2, 30, 30),
				utc(2006, 10, 29, 2, 30, 0), utc(2006, 10, 30, 3, 30, 0));
	expect_days(1, utc(2006, 10, 29, 3, 0, 0),
				utc(2006, 10, 29, 2, 30, 0), utc(2006, 10, 30, 3, 30, 0));
	expect_days(1, utc(2006, 4, 2, 12, 0, 0),
				utc(2006, 4, 2, 3, 30, 0), utc(2006, 4, 3, 2, 30, 0));
}

/*
 * From UTC-10 to UTC+14 at the end of 29 December 2011: there was no 30th.
 * It was day 4,015 since 2001-01-01 and so the second of two.
 */
static void
apia(void)
{
	RlTime		jump = utc(2011, 12, 30, 10, 0, 0);

	zone_set("Pacific/Apia");
	expect_days(1, jump - 1, utc(2011, 12, 29, 10, 0, 0), jump);
	expect_days(1, jump, jump, utc(2011, 12, 31, 10, 0, 0));
	expect_days(2, jump - 1, utc(2011, 12, 29, 10, 0, 0), jump);
	expect_days(2, jump, jump, utc(2012, 1, 1, 10, 0, 0));
	expect_months(1, jump, utc(2011, 12, 1, 10, 0, 0),
				  utc(2011, 12, 31, 10, 0, 0));
}

/* UTC+5:30 all the year. */
static void
kolkata(void)
{
	zone_set("Asia/Kolkata");
	expect_days(1, utc(2026, 1, 15, 12, 0, 0),
				utc(2026, 1, 14, 18, 30, 0), utc(2026, 1, 15, 18, 30, 0));
	expect_months(1, utc(2026, 1, 31, 18, 30, 0),
				  utc(2026, 1, 31, 18, 30, 0), utc(2026, 2, 28, 18, 30, 0));
}

/* UTC-4, in summer UTC-3, from 0:00 to 1:00 on the 1st of October 2017. */
static void
month_without_a_midnight(void)
{
	zone_set("America/Asuncion");
	expect_months(1, utc(2017, 10, 1, 12, 0, 0),
				  utc(2017, 10, 1, 4, 0, 0), utc(2017, 11, 1, 3, 0, 0));
	expect_months(1, utc(2017, 9, 30, 12, 0, 0),
				  utc(2017, 9, 1, 4, 0, 0), utc(2017, 10, 1, 4, 0, 0));
}

/* Offsets of 15:30 and 14:30, or of -15:30 and -14:30, with one change. */
static int
far_offset(const RlZone *zone, int64 unix_secs)
{
	const int64 *change = zone->data;
	int			sign = *change > 0 ? 1 : -1;

	if (unix_secs < sign * *change)
		return sign > 0 ? 55800 : -52200;
	return sign > 0 ? 52200 : -55800;
}

/*
 * The clock is put back by an hour half an hour after midnight, as far from
 * UTC as zones may be: the day starts at the first midnight.  East of UTC that
 * is 15:30 hours before midnight UTC, west of it 14:30 hours after.
 */
static void
farthest_offsets(void)
{
	/* 2026-03-01 00:00 UTC is 1,772,323,200 seconds after 1970 */
	int64		east = INT64CONST(1772323200) - 15 * 3600;
	int64		west = -(INT64CONST(1772323200) + 15 * 3600);
	RlZone		zone_east = {far_offset, &east};
	RlZone		zone_west = {far_offset, &west};
	RlWindow	day_east = {RL_UNIT_DAY, 1, &zone_east};
	RlWindow	day_west = {RL_UNIT_DAY, 1, &zone_west};
	RlTime		midnight = utc(2026, 3, 1, 0, 0, 0);
	RlTime		start;
	RlTime		end;

	rl_window_bounds(&day_east, midnight, &start, &end);
	expect_int("start in the east", start, midnight - 31 * HOUR / 2);
	expect_int("end in the east", end, midnight + DAY - 29 * HOUR / 2);
	rl_window_bounds(&day_west, midnight + DAY, &start, &end);
	expect_int("start in the west", start, midnight + 29 * HOUR / 2);
	expect_int("end in the west", end, midnight + DAY + 31 * HOUR / 2);
}

/* A counter over the day of 23 hours: what is used comes back at its end. */
static void
counter_of_a_calendar_day(void)
{
	static Counter counter;
	RlTime		now = utc(2024, 3, 31, 0, 30, 0);
	RlTime		end = utc(2024, 3, 31, 22, 0, 0);

	zone_set("Europe/Berlin");
	counter_init(&counter, RL_FIXED_WINDOW, 2, 1);
	counter.limit.window.unit = RL_UNIT_DAY;
	counter.limit.window.zone = &zone_current;
	expect_check(&counter, now, 2, true, 2, 0, end, end);
	expect_check(&counter, end - 1, 1, false, 2, 0, end, end);
	expect_check(&counter, end, 1, true, 1, 1, end, end + DAY);

	/* back over the start of the day: used in the day of now */
	expect_check(&counter, end - 1, 2, false, 1, 1, end, end);
	expect_check(&counter, end - 1, 1, true, 2, 0, end, end);
}

void
calendar_window_cases(void)
{
	unit_case("calendar: days in UTC", days_in_utc);
	unit_case("calendar: days from Monday 2001-01-01", days_from_monday_2001);
	unit_case("calendar: months in UTC", months_in_utc);
	unit_case("calendar: 29 February", february_29);
	unit_case("calendar: months before 2000 and 1970",
			  months_before_the_epochs);
	unit_case("calendar: Berlin", berlin);
	unit_case("calendar: Los Angeles", los_angeles);
	unit_case("calendar: Havana", havana);
	unit_case("calendar: Sao Paulo", sao_paulo);
	unit_case("calendar: St. John's", st_johns);
	unit_case("calendar: Apia", apia);
	unit_case("calendar: Kolkata", kolkata);
	unit_case("calendar: a month without a midnight",
			  month_without_a_midnight);
	unit_case("calendar: the farthest offsets", farthest_offsets);
	unit_case("calendar: counter of a calendar day",
			  counter_of_a_calendar_day);
}
