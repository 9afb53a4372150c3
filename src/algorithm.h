/*-------------------------------------------------------------------------
 *
 * algorithm.h
 *	  The four rate-limiting algorithms, as pure arithmetic.
 *
 * A counter's state is a plain value.  Every call goes through the same steps:
 * rl_refresh() brings the state to the instant of the call, rl_admits() judges,
 * rl_record() adds the cost, rl_report() says what is left and when to come
 * back.  The instant is an argument and nothing here allocates, locks, raises
 * an error or looks at a clock, so the same code serves every store and can be
 * tested without a server.
 *
 * Units: instants are microseconds since 2000-01-01 00:00 UTC (TimestampTz),
 * limits and costs are whole numbers of hits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_ALGORITHM_H
#define RL_ALGORITHM_H

#include "calendar.h"

/* bounds of rate_limit.exact_hits */
#define RL_MIN_EXACT_HITS		1
#define RL_DEFAULT_EXACT_HITS	128
#define RL_MAX_EXACT_HITS		1024

/*
 * Room for the hits of one state: what the largest exact_hits stores, and what
 * is added before a log is made smaller: at one instant a hit, and one that is
 * rounded.
 */
#define RL_MAX_HITS				(RL_MAX_EXACT_HITS + 3)

typedef enum RlAlgorithm
{
	RL_SLIDING_WINDOW,
	RL_FIXED_WINDOW,
	RL_ANCHORED_WINDOW,
	RL_TOKEN_BUCKET
} RlAlgorithm;

#define RL_NUM_ALGORITHMS		4

/*
 * What a call asks for.  Two calls share a counter if key, algorithm and
 * window are the same; the rest may change from call to call.
 */
typedef struct RlLimit
{
	RlAlgorithm algorithm;
	RlWindow	window;			/* calendar units only for RL_FIXED_WINDOW */
	int64		limit;			/* cost per window, 0 = nothing at all */
	int64		capacity;		/* burst of a token bucket, else = limit; 0 if
								 * limit is 0 */
	int			exact_hits;		/* largest limit with exact hit times */
} RlLimit;

/* Hits admitted at one instant. */
typedef struct RlHit
{
	RlTime		time;
	int64		cost;			/* > 0 */
} RlHit;

/*
 * The state of one counter.  A counter on which nothing is recorded is as good
 * as none; then "active" is false and the other fields mean nothing.
 */
typedef struct RlState
{
	bool		active;			/* is anything recorded? */
	RlTime		time;			/* sliding: newest hit, not rounded; fixed:
								 * start of window; anchored: first hit; token
								 * bucket: instant of "level" */
	RlTime		end;			/* from here on as good as none */
	int128		used;			/* windows: cost recorded */
	int64		capacity;		/* token bucket: as last stated */
	int128		level;			/* token bucket: tokens times length of
								 * window, negative after an adjustment past
								 * the limit */
	int			nhits;			/* sliding window: the log ... */
	RlHit	   *hits;			/* ... oldest first, room for RL_MAX_HITS */
} RlState;

/* What is told about a call. */
typedef struct RlReport
{
	int64		used;			/* cost in the current span, saturated */
	int64		remaining;		/* what would still be admitted */
	RlTime		retry_at;		/* the call would be admitted then, or
								 * RL_NEVER */
	RlTime		reset_at;		/* more quota becomes available then, or
								 * RL_NEVER */
} RlReport;

extern bool rl_refresh(const RlLimit *limit, RlState *state, RlTime now);
extern bool rl_admits(const RlLimit *limit, const RlState *state, int64 cost);
extern void rl_record(const RlLimit *limit, RlState *state, RlTime now,
					  int64 cost);
extern bool rl_give_back(const RlLimit *limit, RlState *state, int64 cost);
extern void rl_report(const RlLimit *limit, const RlState *state, RlTime now,
					  int64 cost, RlReport *report);
extern void rl_report_admitted(const RlLimit *limit, const RlState *state,
							   RlTime now, RlReport *report);

#endif							/* RL_ALGORITHM_H */
