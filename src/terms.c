/*-------------------------------------------------------------------------
 *
 * terms.c
 *	  What says which limit: found good, or refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "request.h"

#include <ctype.h>

#include "pgtime.h"
#include "utils/builtins.h"

#define NAME(literal) {literal, sizeof(literal) - 1}

static const struct
{
	const char *name;
	size_t		length;
}			algorithms[RL_NUM_ALGORITHMS] = {

	[RL_SLIDING_WINDOW] = NAME("sliding_window"),
	[RL_FIXED_WINDOW] = NAME("fixed_window"),
	[RL_ANCHORED_WINDOW] = NAME("anchored_window"),
	[RL_TOKEN_BUCKET] = NAME("token_bucket")
};

const char *
rl_algorithm_name(RlAlgorithm algorithm)
{
	return algorithms[algorithm].name;
}

static inline bool
text_equals(const text *value, const char *string, size_t length)
{
	return VARSIZE_ANY_EXHDR(value) == length &&
		memcmp(VARDATA_ANY(value), string, length) == 0;
}

/* The same for a literal. */
#define TEXT_IS(value, literal) \
	text_equals(value, literal, sizeof(literal) - 1)

/*-------------------------------------------------------------------------
 * The window
 *-------------------------------------------------------------------------
 */

#define WINDOW_HINT \
	errhint("Give an interval from 1 microsecond to 100 years.")

/* The time fields of an interval in microseconds, a day being 24 hours. */
static int128
interval_usecs(const Interval *interval)
{
	return (int128) interval->day * RL_USECS_PER_DAY + interval->time;
}

/* A window of a fixed length in microseconds. */
static void
read_elapsed_window(const Interval *interval, RlAlgorithm algorithm,
					int128 *length)
{
	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"window\" must not contain months with algorithm \"%s\"",
						rl_algorithm_name(algorithm)),
				 errhint("Give days, such as '30 days', or use algorithm \"fixed_window\" for calendar months.")));
	*length = interval_usecs(interval);
}

/* A window that the clock or the calendar says. */
static RlUnit
read_aligned_window(const Interval *interval, int128 *length)
{
	if ((interval->month != 0) + (interval->day != 0) +
		(interval->time != 0) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"window\" must not mix months, days and time"),
				 errhint("With algorithm \"fixed_window\" give one of them, such as '1 month', '7 days' or '90 minutes'.")));

	if (interval->month != 0)
	{
		*length = interval->month;
		return RL_UNIT_MONTH;
	}
	if (interval->day != 0)
	{
		*length = interval->day;
		return RL_UNIT_DAY;
	}
	*length = interval->time;
	return RL_UNIT_USEC;
}

static void
set_window(RlRequest *request, const Interval *interval)
{
	static const int64 longest[] = {
		[RL_UNIT_USEC] = RL_MAX_WINDOW_USECS,
		[RL_UNIT_DAY] = RL_MAX_WINDOW_DAYS,
		[RL_UNIT_MONTH] = RL_MAX_WINDOW_MONTHS
	};
	RlWindow   *window = &request->limit.window;
	int128		length;

	window->unit = RL_UNIT_USEC;
	if (request->limit.algorithm == RL_FIXED_WINDOW)
		window->unit = read_aligned_window(interval, &length);
	else
		read_elapsed_window(interval, request->limit.algorithm, &length);

	if (length <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"window\" must be greater than zero"),
				 WINDOW_HINT));
	if (length > longest[window->unit])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"window\" must not be longer than 100 years"),
				 WINDOW_HINT));
	window->length = (int64) length;
}

/*-------------------------------------------------------------------------
 * The time zone of a calendar window
 *-------------------------------------------------------------------------
 */

/* RlZone.offset of the server's time zones. */
static int
zone_offset(const RlZone *zone, int64 unix_secs)
{
	pg_time_t	time = (pg_time_t) unix_secs;
	struct pg_tm *local = pg_localtime(&time, (const pg_tz *) zone->data);

	return local == NULL ? 0 : (int) local->tm_gmtoff;
}

/*
 * Tell whether something can be the name of a zone.  PostgreSQL takes numbers
 * too, but as POSIX has them, with a sign that people do not expect.
 */
static bool
looks_like_zone(const char *name)
{
	return isalpha((unsigned char) name[0]) &&
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			   "0123456789_+-/") == strlen(name);
}

/* Look up a zone by its name in any case.  Return false if there is none. */
bool
rl_set_zone(RlZone *zone, const char *name, const char **canonical_name)
{
	pg_tz	   *tz = looks_like_zone(name) ? pg_tzset(name) : NULL;

	if (tz == NULL || !pg_tz_acceptable(tz))
		return false;
	zone->offset = zone_offset;
	zone->data = tz;
	*canonical_name = pg_get_timezone_name(tz);
	return true;
}

static void
set_zone(RlRequest *request, const char *name)
{
	const char *canonical_name;

	if (!rl_set_zone(&request->zone, name, &canonical_name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"time_zone\" is not known: \"%s\"", name),
				 errhint("Use a name from the view pg_timezone_names.")));

	if (request->limit.window.unit == RL_UNIT_USEC)
		return;
	request->limit.window.zone = &request->zone;
	request->zone_name = canonical_name;
}

/*-------------------------------------------------------------------------
 * The limit
 *-------------------------------------------------------------------------
 */

RlAlgorithm
rl_algorithm_of_text(const text *name)
{
	for (int i = 0; i < RL_NUM_ALGORITHMS; i++)
	{
		if (text_equals(name, algorithms[i].name, algorithms[i].length))
			return (RlAlgorithm) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"algorithm\" is not known: \"%s\"",
					text_to_cstring(name)),
			 errhint("Use \"sliding_window\", \"fixed_window\", \"anchored_window\" or \"token_bucket\".")));
}

static int64
check_limit(int64 limit)
{
	if (limit < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"limit\" must not be negative"),
				 errhint("Give the cost that is admitted per window; 0 refuses everything.")));
	return limit;
}

static void
check_burst(const RlLimit *limit, int64 burst)
{
	if (burst < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"burst\" must be at least 1"),
				 errhint("Leave it out for a capacity as large as the limit.")));
	if (limit->algorithm != RL_TOKEN_BUCKET)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"burst\" is only for algorithm \"token_bucket\""),
				 errhint("Leave it out, or use algorithm \"token_bucket\".")));
}

/* Set the capacity; a burst of 0 stands for none given. */
void
rl_set_burst(RlLimit *limit, int64 burst)
{
	limit->capacity = burst == 0 ? limit->limit : burst;

	/* a bucket that nothing flows into admits nothing */
	if (limit->limit == 0)
		limit->capacity = 0;
}

static RlStore
store_of_text(const text *store)
{
	if (store == NULL)
		return rl_default_store;
	if (TEXT_IS(store, "memory"))
		return RL_STORE_MEMORY;
	if (TEXT_IS(store, "table"))
		return RL_STORE_TABLE;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"store\" is not known: \"%s\"",
					text_to_cstring(store)),
			 errhint("Use \"memory\" or \"table\".")));
}

/* Set all that says which limit, and where it is kept. */
void
rl_set_terms(RlRequest *request, const RlTerms *terms)
{
	RlLimit    *limit = &request->limit;

	limit->limit = check_limit(terms->limit);
	limit->algorithm = rl_algorithm_of_text(terms->algorithm);
	set_window(request, terms->window);
	if (terms->has_burst)
		check_burst(limit, terms->burst);
	rl_set_burst(limit, terms->has_burst ? terms->burst : 0);
	request->store = store_of_text(terms->store);

	if (terms->time_zone != NULL)
		set_zone(request, text_to_cstring(terms->time_zone));
	else if (limit->window.unit != RL_UNIT_USEC)
		set_zone(request, "UTC");
}
