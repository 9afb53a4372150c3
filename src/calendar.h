/*-------------------------------------------------------------------------
 *
 * calendar.h
 *	  Windows aligned to the clock or to the calendar of a time zone.
 *
 * Pure arithmetic like algorithm.h: what a time zone says comes in through a
 * callback, so that the server's time zones and a test's can both be used.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_CALENDAR_H
#define RL_CALENDAR_H

#ifndef HAVE_INT128
#error "rate_limit needs a compiler with 128-bit integers"
#endif

/* Microseconds since 2000-01-01 00:00 UTC, as in TimestampTz. */
typedef int64 RlTime;

/* An instant that does not come, also when it is past what is representable. */
#define RL_NEVER				PG_INT64_MAX

/* Instants that are taken: 4713 BC to the year 128,753. */
#define RL_MIN_TIME				INT64CONST(-211813488000000000)
#define RL_MAX_TIME				INT64CONST(4000000000000000000)

#define RL_USECS_PER_SEC		INT64CONST(1000000)
#define RL_SECS_PER_DAY			86400
#define RL_UNIX_EPOCH_SECS		INT64CONST(946684800)	/* 1970 to 2000 */
#define RL_USECS_PER_DAY		(RL_SECS_PER_DAY * RL_USECS_PER_SEC)

/* The longest window: 100 years. */
#define RL_MAX_WINDOW_DAYS		36525
#define RL_MAX_WINDOW_MONTHS	1200
#define RL_MAX_WINDOW_USECS		(RL_MAX_WINDOW_DAYS * RL_USECS_PER_DAY)

/*
 * Instants that a state can have: one that is taken, the start of a window
 * around it, or what it is rounded up to within one.
 */
#define RL_FIRST_TIME			(RL_MIN_TIME - RL_MAX_WINDOW_USECS)
#define RL_LAST_TIME			(RL_MAX_TIME + RL_MAX_WINDOW_USECS)

static inline bool
rl_is_time(RlTime time)
{
	return time >= RL_FIRST_TIME && time <= RL_LAST_TIME;
}

typedef enum RlUnit
{
	RL_UNIT_USEC,
	RL_UNIT_DAY,				/* calendar days in a time zone */
	RL_UNIT_MONTH				/* calendar months in a time zone */
} RlUnit;

/*
 * A time zone.  offset() returns the seconds to add to UTC to get local time
 * at an instant, given in seconds since 1970-01-01 00:00 UTC.
 */
typedef struct RlZone RlZone;

struct RlZone
{
	int			(*offset) (const RlZone *zone, int64 unix_secs);
	const void *data;			/* for offset() */
};

typedef struct RlWindow
{
	RlUnit		unit;
	int64		length;			/* number of units, > 0 */
	const RlZone *zone;			/* NULL for RL_UNIT_USEC */
} RlWindow;

extern RlTime rl_round_down(RlTime time, int64 unit);
extern void rl_window_bounds(const RlWindow *window, RlTime now,
							 RlTime *start, RlTime *end);

#endif							/* RL_CALENDAR_H */
