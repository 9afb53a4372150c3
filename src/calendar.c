/*-------------------------------------------------------------------------
 *
 * calendar.c
 *	  Windows aligned to the clock or to the calendar of a time zone.
 *
 * Days and months are numbered, local midnight of a number's first day is
 * converted to an instant, and a window lies between two such instants.  The
 * day numbers follow the proleptic Gregorian calendar; the conversion between
 * them and dates is the usual one with the year beginning in March, so that
 * 29 February comes last.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "calendar.h"

/* Day numbers count from 1970-01-01; weeks from Monday, 2001-01-01. */
#define MONDAY_DAY				INT64CONST(11323)

#define DAYS_PER_400_YEARS		146097
#define DAYS_PER_100_YEARS		36524
#define DAYS_PER_4_YEARS		1461

/* day number of 0000-03-01, from which the 400-year cycles are counted */
#define MARCH_YEAR_ZERO			INT64CONST(-719468)

/* PostgreSQL's zones differ from UTC by less than 16 hours */
#define MAX_OFFSET_SECS			(16 * 3600)

static int64
floor_div(int64 dividend, int64 divisor)
{
	int64		quotient = dividend / divisor;

	if (dividend % divisor < 0)
		quotient--;
	return quotient;
}

/* Number the months from January of year 0, for the month of a day number. */
static int64
month_of_day(int64 day)
{
	int64		cycle = floor_div(day - MARCH_YEAR_ZERO, DAYS_PER_400_YEARS);
	int64		day_of_cycle = day - MARCH_YEAR_ZERO - cycle * DAYS_PER_400_YEARS;
	int64		year;			/* of the cycle, beginning in March */
	int64		day_of_year;
	int64		month;			/* 0 = March */

	year = (day_of_cycle
			- day_of_cycle / (DAYS_PER_4_YEARS - 1)
			+ day_of_cycle / DAYS_PER_100_YEARS
			- day_of_cycle / (DAYS_PER_400_YEARS - 1)) / 365;
	day_of_year = day_of_cycle - (365 * year + year / 4 - year / 100);
	month = (5 * day_of_year + 2) / 153;
	return (cycle * 400 + year) * 12 + month + 2;
}

/* Return the day number of the first of a month, the inverse of the above. */
static int64
first_day_of_month(int64 month)
{
	int64		year = floor_div(month - 2, 12);
	int64		month_of_year = month - 2 - year * 12;	/* 0 = March */
	int64		cycle = floor_div(year, 400);
	int64		year_of_cycle = year - cycle * 400;

	return MARCH_YEAR_ZERO
		+ cycle * DAYS_PER_400_YEARS
		+ 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100
		+ (153 * month_of_year + 2) / 5;
}

/*
 * Find the second after "low", at most "high", at which the offset changes
 * from what it is at "low".
 */
static int64
find_transition(const RlZone *zone, int64 low, int64 high)
{
	int			before = zone->offset(zone, low);

	while (high - low > 1)
	{
		int64		middle = low + (high - low) / 2;

		if (zone->offset(zone, middle) == before)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * Return the first instant at which local time has reached midnight of a day,
 * in seconds since 1970.
 *
 * Midnight may not exist (the clock is put forward over it: the day starts at
 * the transition) or come twice (the day starts at the first one).
 */
static int64
local_midnight(const RlZone *zone, int64 day)
{
	int64		local = day * RL_SECS_PER_DAY;
	int64		low = local - MAX_OFFSET_SECS;
	int64		high = local + MAX_OFFSET_SECS;
	int			before = zone->offset(zone, low);
	int			after = zone->offset(zone, high);
	int64		transition;

	if (before == after)
		return local - before;

	transition = find_transition(zone, low, high);
	if (local - before < transition)
		return local - before;
	return Max(transition, local - after);
}

/* Return the instant at which the window with a number starts. */
static RlTime
window_start(const RlWindow *window, int64 number)
{
	int64		day;

	if (window->unit == RL_UNIT_DAY)
		day = MONDAY_DAY + number * window->length;
	else
		day = first_day_of_month(number * window->length);

	return (local_midnight(window->zone, day) - RL_UNIX_EPOCH_SECS)
		* RL_USECS_PER_SEC;
}

/* Return the number of the window that the local date of an instant is in. */
static int64
window_number(const RlWindow *window, RlTime now)
{
	int64		secs = floor_div(now, RL_USECS_PER_SEC) + RL_UNIX_EPOCH_SECS;
	int64		day;

	day = floor_div(secs + window->zone->offset(window->zone, secs),
					RL_SECS_PER_DAY);
	if (window->unit == RL_UNIT_DAY)
		return floor_div(day - MONDAY_DAY, window->length);
	return floor_div(month_of_day(day), window->length);
}

/*
 * Find the window [start, end) that an instant lies in.
 *
 * Windows in time units start at floor(epoch / length) * length.
 */
void
rl_window_bounds(const RlWindow *window, RlTime now,
				 RlTime *start, RlTime *end)
{
	int64		number;

	if (window->unit == RL_UNIT_USEC)
	{
		*start = rl_round_down(now, window->length);
		*end = *start + window->length;
		return;
	}

	number = window_number(window, now);
	*start = window_start(window, number);
	*end = window_start(window, number + 1);

	/*
	 * When the clock is put back just after midnight, the old date comes once
	 * more, but its window has ended at the first midnight.
	 */
	while (*end <= now)
	{
		number++;
		*start = *end;
		*end = window_start(window, number + 1);
	}
}

/* Round an instant down to a multiple of a unit, counted from 1970. */
RlTime
rl_round_down(RlTime time, int64 unit)
{
	int64		epoch = time + RL_UNIX_EPOCH_SECS * RL_USECS_PER_SEC;

	return floor_div(epoch, unit) * unit - RL_UNIX_EPOCH_SECS * RL_USECS_PER_SEC;
}
