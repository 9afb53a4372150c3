/*-------------------------------------------------------------------------
 *
 * calendar_zones.c
 *	  Windows of days and months in many time zones: swept against a model.
 *
 * The model knows when a zone's offset changes.  From that follows the latest
 * local day that has been reached up to an instant, which never falls; a
 * window is the span in which it lies between two of the days at which windows
 * may start.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"
#include "zone.h"

#include <time.h>

#define SECS_1970_TO_2000	INT64CONST(946684800)
#define SECS_PER_DAY		INT64CONST(86400)

/* no zone puts its clock back by more than a day */
#define LONGEST_REPEAT		(2 * SECS_PER_DAY)

/* where the model looks for changes of offset, in seconds since 1970 */
#define FIRST_SECOND		INT64CONST(-4102444800) /* 1840 */
#define LAST_SECOND			INT64CONST(4133980800)	/* 2101 */

static int64 transitions[1000];
static int	ntransitions;

static const char *const zones[] = {
	"UTC", "Europe/Berlin", "America/Los_Angeles", "America/Havana",
	"America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Asia/Kolkata",
	"America/Asuncion",			/* DST at midnight, also on the 1st */
	"America/Juneau",			/* had 18 October 1867 twice */
	"Asia/Manila",				/* had no 31 December 1844 */
	"Pacific/Kwajalein",		/* crossed the date line both ways */
	"Australia/Lord_Howe",		/* DST of half an hour */
	"Africa/Monrovia",			/* UTC-0:44:30 until 1972 */
	"Asia/Gaza", "Africa/Cairo", "Africa/Casablanca", "Europe/Dublin"
};

static int64
floor_quotient(int64 dividend, int64 divisor)
{
	int64		quotient = dividend / divisor;

	return quotient * divisor > dividend ? quotient - 1 : quotient;
}

static int64
offset_at(int64 second)
{
	return zone_current.offset(&zone_current, second);
}

static int64
local_day(int64 second)
{
	return floor_quotient(second + offset_at(second), SECS_PER_DAY);
}

/* Find the changes of offset; two within a day are not to be expected. */
static void
find_transitions(void)
{
	int64		before = offset_at(FIRST_SECOND);

	ntransitions = 0;
	for (int64 high = FIRST_SECOND; high < LAST_SECOND; high += SECS_PER_DAY)
	{
		int64		low = high - SECS_PER_DAY;
		int64		first = high;

		if (offset_at(high) == before)
			continue;
		while (first - low > 1)
		{
			int64		middle = (low + first) / 2;

			if (offset_at(middle) == before)
				low = middle;
			else
				first = middle;
		}
		if (ntransitions < lengthof(transitions))
			transitions[ntransitions++] = first;
		before = offset_at(high);
	}
	expect_between("transitions", ntransitions, 0, lengthof(transitions) - 1);
}

/* The latest local day reached up to a second; between changes it rises. */
static int64
day_reached(int64 second)
{
	int64		day = local_day(second);
	int			low = 0;
	int			high = ntransitions;

	/* the changes up to now are the first "low" ones */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (transitions[middle] <= second)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low > 0 && transitions[low - 1] > second - LONGEST_REPEAT; low--)
	{
		int64		before = local_day(transitions[low - 1] - 1);

		day = Max(day, before);
	}
	return day;
}

/* The first day of the window that a day is in, and of the next window. */
static void
model_days(RlUnit unit, int64 length, int64 day, int64 *first, int64 *next)
{
	time_t		clock = day * SECS_PER_DAY;
	struct tm	tm;
	int64		month;

	if (unit == RL_UNIT_DAY)
	{
		/* 2001-01-01 is day 11,323 */
		*first = floor_quotient(day - 11323, length) * length + 11323;
		*next = *first + length;
		return;
	}

	gmtime_r(&clock, &tm);
	month = (tm.tm_year + INT64CONST(1900)) * 12 + tm.tm_mon;
	month = floor_quotient(month, length) * length;
	*first = utc(0, (int) month + 1, 1, 0, 0, 0) / DAY +
		SECS_1970_TO_2000 / SECS_PER_DAY;
	*next = utc(0, (int) (month + length) + 1, 1, 0, 0, 0) / DAY +
		SECS_1970_TO_2000 / SECS_PER_DAY;
}

/* Compare a window with the model, and with the windows at its two ends. */
static void
verify_window(const RlWindow *window, RlTime now)
{
	RlTime		start;
	RlTime		end;
	RlTime		other_start;
	RlTime		other_end;
	int64		second = floor_quotient(now, SECOND) + SECS_1970_TO_2000;
	int64		first;
	int64		next;

	rl_window_bounds(window, now, &start, &end);
	expect_between("now", now, start, end - 1);

	rl_window_bounds(window, start, &other_start, &other_end);
	expect_int("start at the start", other_start, start);
	expect_int("end at the start", other_end, end);
	rl_window_bounds(window, end - 1, &other_start, &other_end);
	expect_int("start 1 us before the end", other_start, start);
	expect_int("end 1 us before the end", other_end, end);
	rl_window_bounds(window, end, &other_start, &other_end);
	expect_int("start of the next", other_start, end);

	expect_int("fraction of the start", start % SECOND, 0);
	expect_int("fraction of the end", end % SECOND, 0);
	start = start / SECOND + SECS_1970_TO_2000;
	end = end / SECOND + SECS_1970_TO_2000;

	/* first and next become those of the latest day reached now */
	model_days(window->unit, window->length, day_reached(second),
			   &first, &next);
	expect_true("first day reached at the start", day_reached(start) >= first);
	expect_true("and not before", day_reached(start - 1) < first);
	expect_true("next day reached at the end", day_reached(end) >= next);
	expect_true("and not before", day_reached(end - 1) < next);
}

static const RlWindow swept[] = {
	{RL_UNIT_DAY, 1, &zone_current},
	{RL_UNIT_DAY, 2, &zone_current},
	{RL_UNIT_DAY, 7, &zone_current},
	{RL_UNIT_DAY, 14, &zone_current},
	{RL_UNIT_MONTH, 1, &zone_current},
	{RL_UNIT_MONTH, 3, &zone_current},
	{RL_UNIT_MONTH, 12, &zone_current}
};

/* Random instants of 1842 to 2099, some at full hours. */
static void
sweep_instants(UnitRandom *random, int64 seed)
{
	for (int step = 0; step < 3500 && !unit_failed(); step++)
	{
		RlTime		now = unit_draw(random, utc(1842, 1, 1, 0, 0, 0),
									utc(2099, 1, 1, 0, 0, 0));

		if (step % 3 == 0)
			now -= now % HOUR;
		unit_place(seed, step);
		verify_window(&swept[step % lengthof(swept)], now);
	}
}

/* On both sides of every change of offset, at some distances. */
static void
sweep_transitions(int64 seed)
{
	RlTime		distances[] = {
		-DAY, -HOUR, -MINUTE, -1, 0, MINUTE, HOUR, DAY - 1
	};

	for (int i = 0; i < ntransitions && !unit_failed(); i++)
	{
		RlTime		change = (transitions[i] - SECS_1970_TO_2000) * SECOND;

		if (change < utc(1842, 1, 1, 0, 0, 0) ||
			change > utc(2099, 1, 1, 0, 0, 0))
			continue;
		for (int n = 0; n < lengthof(distances); n++)
		{
			unit_place(seed, 10000 + i);
			verify_window(&swept[0], change + distances[n]);
			verify_window(&swept[1 + (i + n) % (lengthof(swept) - 1)],
						  change + distances[n]);
		}
	}
}

/* The seed that is reported is the place of the zone in the list. */
static void
windows_follow_local_days(void)
{
	for (int i = 0; i < lengthof(zones) && !unit_failed(); i++)
	{
		UnitRandom	random = {(uint64) i};

		unit_place(i, 0);
		zone_set(zones[i]);
		find_transitions();
		sweep_instants(&random, i);
		sweep_transitions(i);
	}
}

/* Windows of the greatest lengths, and of the first and the last instants. */
static void
ends_of_the_calendar(void)
{
	RlTime		times[] = {
		RL_MIN_TIME, RL_MIN_TIME + 1, RL_MAX_TIME - 1, RL_MAX_TIME
	};
	RlWindow	lengths[] = {
		{RL_UNIT_DAY, 1, &zone_current},
		{RL_UNIT_DAY, RL_MAX_WINDOW_DAYS, &zone_current},
		{RL_UNIT_MONTH, 1, &zone_current},
		{RL_UNIT_MONTH, RL_MAX_WINDOW_MONTHS, &zone_current}
	};

	for (int i = 0; i < lengthof(zones) * 16 && !unit_failed(); i++)
	{
		RlTime		now = times[i / 4 % 4];
		RlTime		start;
		RlTime		end;
		RlTime		next_start;
		RlTime		next_end;

		unit_place(i / 16, i % 16);
		zone_set(zones[i / 16]);
		rl_window_bounds(&lengths[i % 4], now, &start, &end);
		expect_between("now", now, start, end - 1);
		rl_window_bounds(&lengths[i % 4], end, &next_start, &next_end);
		expect_int("start of the next", next_start, end);
		expect_true("days in the longest window",
					end - start <= YEARS_100 + 2 * DAY);
	}
}

void
calendar_zones_cases(void)
{
	unit_case("calendar zones: windows follow local days",
			  windows_follow_local_days);
	unit_case("calendar zones: the first and the last instant",
			  ends_of_the_calendar);
}
