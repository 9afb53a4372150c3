/*-------------------------------------------------------------------------
 *
 * zone.c
 *	  Time zones for the calendar, as the C library knows them.
 *
 *-------------------------------------------------------------------------
 */
#include "zone.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int
library_offset(const RlZone *zone, int64 unix_secs)
{
	time_t		clock = (time_t) unix_secs;
	struct tm	tm;

	expect_true("zone handed through", zone == &zone_current);
	if (localtime_r(&clock, &tm) == NULL)
	{
		expect_true("instant in the range of the C library", false);
		return 0;
	}
	return (int) tm.tm_gmtoff;
}

const RlZone zone_current = {library_offset, NULL};

void
zone_set(const char *name)
{
	setenv("TZ", name, 1);
	tzset();

	/* every place had a local mean time in 1840; without its file it is UTC */
	expect_true("time zone data installed",
				strcmp(name, "UTC") == 0 ||
				library_offset(&zone_current, INT64CONST(-4102444800)) != 0);
}
