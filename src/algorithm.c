/*-------------------------------------------------------------------------
 *
 * algorithm.c
 *	  The four rate-limiting algorithms, as pure arithmetic.
 *
 * Windows compare whole numbers of hits.  A token bucket counts in units of
 * one token divided by the length of the window in microseconds, so that it
 * gains exactly "limit" units every microsecond; the products need 128 bits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "algorithm.h"

#include "datatype/timestamp.h"

static int64
add_saturated(int64 a, int64 b)
{
	return b > PG_INT64_MAX - a ? PG_INT64_MAX : a + b;
}

/* Add a wait, or RL_NEVER when that is past the range of timestamps. */
static RlTime
add_wait(RlTime time, int128 wait)
{
	int128		sum = time + wait;

	return sum >= END_TIMESTAMP ? RL_NEVER : (RlTime) sum;
}

static int128
ceil_div(int128 dividend, int64 divisor)
{
	return (dividend + divisor - 1) / divisor;
}

static int128
floor_div(int128 dividend, int64 divisor)
{
	int128		quotient = dividend / divisor;

	if (dividend % divisor < 0)
		quotient--;
	return quotient;
}

/*-------------------------------------------------------------------------
 * Sliding window: a log of hits
 *-------------------------------------------------------------------------
 */

/*
 * Return the instant under which a hit is recorded.
 *
 * Above exact_hits it is rounded up to a multiple of window / exact_hits, so
 * at most exact_hits + 1 different instants lie in any window and a hit
 * counts too long rather than too short.
 */
static RlTime
hit_time(const RlLimit *limit, RlTime now)
{
	int64		quantum;
	RlTime		rounded;

	if (limit->limit <= limit->exact_hits)
		return now;

	quantum = ceil_div(limit->window.length, limit->exact_hits);
	rounded = rl_round_down(now, quantum);
	return rounded < now ? rounded + quantum : now;
}

static void
set_end_of_log(const RlLimit *limit, RlState *state)
{
	state->active = state->nhits > 0;
	if (state->active)
		state->end = state->hits[state->nhits - 1].time + limit->window.length;
}

/* Append a hit that is not earlier than the last one. */
static void
append_hit(RlState *state, RlTime time, int64 cost)
{
	RlHit	   *hit = &state->hits[state->nhits];

	if (state->nhits > 0 && hit[-1].time == time)
	{
		hit--;
		cost = Min(cost, PG_INT64_MAX - hit->cost);
		hit->cost += cost;
	}
	else
	{
		hit->time = time;
		hit->cost = cost;
		state->nhits++;
	}
	state->used += cost;
}

/*
 * Write the log anew with other times for its hits, in the same order: round
 * them up, or if that is later than "latest", take that.
 */
static void
retime_log(const RlLimit *limit, RlState *state, RlTime latest)
{
	int			nhits = state->nhits;

	state->nhits = 0;
	state->used = 0;
	for (int i = 0; i < nhits; i++)
	{
		RlHit		hit = state->hits[i];
		RlTime		time = hit_time(limit, hit.time);

		append_hit(state, Min(time, latest), hit.cost);
	}
}

/*
 * Bring the log to "now".  Hits leave at the start of the array, which keeps
 * its room at the end.
 */
static bool
refresh_log(const RlLimit *limit, RlState *state, RlTime now)
{
	RlTime		latest = hit_time(limit, now);
	bool		stepped_back = state->hits[state->nhits - 1].time > latest;

	if (stepped_back)
		retime_log(limit, state, latest);

	while (state->nhits > 0 &&
		   state->hits[0].time <= now - limit->window.length)
	{
		state->used -= state->hits[0].cost;
		state->hits++;
		state->nhits--;
	}
	set_end_of_log(limit, state);
	return stepped_back;
}

/*
 * Join the hits that no decision depends on while the limit stays: those
 * before the newest "limit" of cost, which only an adjustment can have added.
 * They take the time of the newest of them.
 */
static void
join_excess(const RlLimit *limit, RlState *state)
{
	int			first = state->nhits;
	int64		recent = 0;

	while (first > 0 && recent < limit->limit)
		recent = add_saturated(recent, state->hits[--first].cost);

	for (; first > 1; first--)
	{
		RlHit	   *joined = &state->hits[1];
		int64		part = Min(state->hits[0].cost,
							   PG_INT64_MAX - joined->cost);

		state->used -= state->hits[0].cost - part;
		joined->cost += part;
		state->hits++;
		state->nhits--;
	}
}

static void
record_in_log(const RlLimit *limit, RlState *state, RlTime now, int64 cost)
{
	RlTime		time = hit_time(limit, now);

	append_hit(state, time, cost);
	if (state->nhits > limit->exact_hits + 1)
	{
		if (limit->limit > limit->exact_hits)
			retime_log(limit, state, time);
		else
			join_excess(limit, state);
	}
	set_end_of_log(limit, state);
}

static void
give_back_log(const RlLimit *limit, RlState *state, int64 cost)
{
	while (state->nhits > 0 && cost > 0)
	{
		RlHit	   *newest = &state->hits[state->nhits - 1];
		int64		part = Min(cost, newest->cost);

		cost -= part;
		state->used -= part;
		newest->cost -= part;
		if (newest->cost == 0)
			state->nhits--;
	}
	set_end_of_log(limit, state);
}

/* Find when the oldest hits that are in the way of a cost have left. */
static RlTime
log_retry_at(const RlLimit *limit, const RlState *state, int64 cost)
{
	int128		excess = state->used + cost - limit->limit;
	int			i = 0;

	while (excess > state->hits[i].cost)
		excess -= state->hits[i++].cost;
	return state->hits[i].time + limit->window.length;
}

/*-------------------------------------------------------------------------
 * Fixed and anchored windows: a start and a count
 *-------------------------------------------------------------------------
 */

static void
start_window(const RlLimit *limit, RlState *state, RlTime now)
{
	if (limit->algorithm == RL_FIXED_WINDOW)
		rl_window_bounds(&limit->window, now, &state->time, &state->end);
	else
	{
		state->time = now;
		state->end = now + limit->window.length;
	}
}

static bool
refresh_window(const RlLimit *limit, RlState *state, RlTime now)
{
	if (state->time <= now)
		return false;

	start_window(limit, state, now);
	return true;
}

static void
record_in_window(const RlLimit *limit, RlState *state, RlTime now, int64 cost)
{
	if (!state->active)
		start_window(limit, state, now);
	state->active = true;
	state->used = Min(state->used + cost, PG_INT64_MAX);
}

static void
give_back_window(RlState *state, int64 cost)
{
	state->used -= Min(cost, state->used);
	state->active = state->used > 0;
}

/*-------------------------------------------------------------------------
 * Token bucket: a level
 *-------------------------------------------------------------------------
 */

static int128
tokens(const RlLimit *limit, int64 count)
{
	return (int128) count * limit->window.length;
}

static int128
bucket_level(const RlLimit *limit, const RlState *state)
{
	return state->active ? state->level : tokens(limit, limit->capacity);
}

/* Return when the bucket will have risen to a level above its present one. */
static RlTime
bucket_rises_to(const RlLimit *limit, const RlState *state, RlTime now,
				int128 level)
{
	if (limit->limit == 0)
		return RL_NEVER;
	return add_wait(now, ceil_div(level - state->level, limit->limit));
}

/*
 * Let the bucket be forgotten when it is full and a window has passed since
 * anything was recorded.  By then a bucket whose capacity is its limit is full
 * under any limit, so that a changed one finds the same level whether the
 * bucket was forgotten or not.
 */
static void
set_end_of_bucket(const RlLimit *limit, RlState *state)
{
	int128		full = tokens(limit, limit->capacity);

	state->capacity = limit->capacity;
	state->active = state->level < full;
	state->end = state->time + limit->window.length;
	if (limit->limit > 0)
		state->end = Max(state->end,
						 bucket_rises_to(limit, state, state->time, full));
}

static bool
refresh_bucket(const RlLimit *limit, RlState *state, RlTime now)
{
	int128		full = tokens(limit, limit->capacity);
	bool		stepped_back = state->time > now;

	if (stepped_back)
	{
		if (state->end != RL_NEVER)
			state->end -= state->time - now;
	}
	else
		state->level += ((int128) now - state->time) * limit->limit;

	state->active = state->level < full;
	state->time = now;
	return stepped_back;
}

static void
record_in_bucket(const RlLimit *limit, RlState *state, RlTime now, int64 cost)
{
	int128		lowest = -tokens(limit, PG_INT64_MAX - limit->capacity);

	state->level = bucket_level(limit, state) - tokens(limit, cost);
	state->level = Max(state->level, lowest);	/* saturates "used" */
	state->time = now;
	set_end_of_bucket(limit, state);
}

static void
give_back_bucket(const RlLimit *limit, RlState *state, int64 cost)
{
	state->level += tokens(limit, cost);
	set_end_of_bucket(limit, state);
}

/*
 * Return when a call will find the bucket at a level above its present one.
 * When the limit has been changed, that may be when the bucket is forgotten.
 */
static RlTime
bucket_reaches(const RlLimit *limit, const RlState *state, RlTime now,
			   int128 level)
{
	RlTime		time = bucket_rises_to(limit, state, now, level);

	return Min(time, state->end);
}

static void
report_bucket(const RlLimit *limit, const RlState *state, RlTime now,
			  int64 cost, RlReport *report)
{
	int128		whole = floor_div(state->level, limit->window.length);

	report->used = (int64) Min(limit->capacity - whole, PG_INT64_MAX);
	report->remaining = (int64) Max(whole, 0);
	report->retry_at = bucket_reaches(limit, state, now, tokens(limit, cost));
	report->reset_at = bucket_reaches(limit, state, now,
									  (whole + 1) * limit->window.length);
}

/*-------------------------------------------------------------------------
 * All algorithms
 *-------------------------------------------------------------------------
 */

/*
 * Bring a state to the instant "now": forget what has expired, refill.
 *
 * Time never runs backwards for a counter.  What was recorded later than
 * "now" is taken as recorded now, so that a step of the clock neither frees
 * quota nor locks the key out for longer than a window.  Returns true if that
 * was necessary: the caller should store the state whatever it decides, since
 * otherwise the next call would start the wait anew.
 */
bool
rl_refresh(const RlLimit *limit, RlState *state, RlTime now)
{
	if (state->active && state->end <= now)
		state->active = false;
	if (!state->active)
	{
		state->used = 0;
		state->nhits = 0;
		return false;
	}

	switch (limit->algorithm)
	{
		case RL_SLIDING_WINDOW:
			return refresh_log(limit, state, now);
		case RL_FIXED_WINDOW:
		case RL_ANCHORED_WINDOW:
			return refresh_window(limit, state, now);
		case RL_TOKEN_BUCKET:
			return refresh_bucket(limit, state, now);
	}
	return false;
}

/* Judge whether a cost is within the limit.  The state must be refreshed. */
bool
rl_admits(const RlLimit *limit, const RlState *state, int64 cost)
{
	if (limit->limit == 0 || cost > limit->capacity)
		return false;
	if (!state->active)
		return true;
	if (limit->algorithm == RL_TOKEN_BUCKET)
		return state->level >= tokens(limit, cost);
	return state->used <= limit->limit - cost;
}

/*
 * Record a cost > 0, whether the limit admits it or not.  The state must be
 * refreshed to the same instant.
 */
void
rl_record(const RlLimit *limit, RlState *state, RlTime now, int64 cost)
{
	switch (limit->algorithm)
	{
		case RL_SLIDING_WINDOW:
			record_in_log(limit, state, now, cost);
			break;
		case RL_FIXED_WINDOW:
		case RL_ANCHORED_WINDOW:
			record_in_window(limit, state, now, cost);
			break;
		case RL_TOKEN_BUCKET:
			record_in_bucket(limit, state, now, cost);
			break;
	}
}

/*
 * Give back a cost > 0, the newest hits first, as far as anything is used.
 * The state must be refreshed.
 */
void
rl_give_back(const RlLimit *limit, RlState *state, int64 cost)
{
	if (!state->active)
		return;

	switch (limit->algorithm)
	{
		case RL_SLIDING_WINDOW:
			give_back_log(limit, state, cost);
			break;
		case RL_FIXED_WINDOW:
		case RL_ANCHORED_WINDOW:
			give_back_window(state, cost);
			break;
		case RL_TOKEN_BUCKET:
			give_back_bucket(limit, state, cost);
			break;
	}
}

/*
 * Tell what is used, what is left, and when to come back with a cost.  The
 * state must be refreshed to the same instant.
 */
void
rl_report(const RlLimit *limit, const RlState *state, RlTime now, int64 cost,
		  RlReport *report)
{
	if (!state->active)
	{
		report->used = 0;
		report->remaining = limit->capacity;
		report->reset_at = now;
	}
	else if (limit->algorithm == RL_TOKEN_BUCKET)
		report_bucket(limit, state, now, cost, report);
	else
	{
		report->used = (int64) Min(state->used, PG_INT64_MAX);
		report->remaining = Max(limit->limit - report->used, 0);
		report->retry_at = state->end;
		report->reset_at = state->end;
	}

	if (rl_admits(limit, state, cost))
		report->retry_at = now;
	else if (limit->limit == 0 || cost > limit->capacity)
		report->retry_at = RL_NEVER;
	else if (limit->algorithm == RL_SLIDING_WINDOW)
		report->retry_at = log_retry_at(limit, state, cost);

	if (state->active && limit->algorithm == RL_SLIDING_WINDOW)
		report->reset_at = state->hits[0].time + limit->window.length;
}
