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
hit_time(const RlLimit *limit, RlTime time)
{
	int64		quantum;
	RlTime		rounded;

	if (limit->limit <= limit->exact_hits)
		return time;

	quantum = (limit->window.length - 1) / limit->exact_hits + 1;
	rounded = rl_round_down(time, quantum);
	return rounded < time ? rounded + quantum : time;
}

static void
set_end_of_log(const RlLimit *limit, RlState *state)
{
	state->active = state->nhits > 0;
	if (state->active)
		state->end = state->hits[state->nhits - 1].time + limit->window.length;
}

/*
 * Add a hit to the log, at its end, or before hits that are later because they
 * were rounded up.
 */
static void
add_hit(RlState *state, RlTime time, int64 cost)
{
	RlHit	   *hit = &state->hits[state->nhits];

	while (hit > state->hits && hit[-1].time > time)
		hit--;

	if (hit > state->hits && hit[-1].time == time)
	{
		hit--;
		cost = Min(cost, PG_INT64_MAX - hit->cost);
		hit->cost += cost;
	}
	else
	{
		memmove(hit + 1, hit,
				sizeof(RlHit) * (&state->hits[state->nhits] - hit));
		hit->time = time;
		hit->cost = cost;
		state->nhits++;
	}
	state->used += cost;
}

/*
 * Write the log anew with times as the limit wants them, and with hits later
 * than "latest" as if they were made then.
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

		add_hit(state, hit_time(limit, Min(hit.time, latest)), hit.cost);
	}
}

/*
 * Bring the log to "now".  Hits leave at the start of the array, which keeps
 * its room at the end.
 */
static bool
refresh_log(const RlLimit *limit, RlState *state, RlTime now)
{
	bool		stepped_back = state->time > now;

	if (stepped_back)
	{
		retime_log(limit, state, now);
		state->time = now;
	}

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
	RlHit	   *excess;

	while (first > 0 && recent < limit->limit)
		recent = add_saturated(recent, state->hits[--first].cost);

	if (first < 2)
		return;
	excess = &state->hits[first - 1];
	for (int i = 0; i < first - 1; i++)
	{
		int64		part = Min(state->hits[i].cost,
							   PG_INT64_MAX - excess->cost);

		state->used -= state->hits[i].cost - part;
		excess->cost += part;
	}
	state->nhits -= first - 1;
	memmove(state->hits, excess, sizeof(RlHit) * state->nhits);
}

static void
record_in_log(const RlLimit *limit, RlState *state, RlTime now, int64 cost)
{
	add_hit(state, hit_time(limit, now), cost);
	state->time = now;
	if (state->nhits > limit->exact_hits + 1)
	{
		if (limit->limit > limit->exact_hits)
			retime_log(limit, state, now);
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
	if (state->nhits > 0)
		state->time = Min(state->time, state->hits[state->nhits - 1].time);
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

/* Return the level that a call finds: no more than its capacity. */
static int128
bucket_level(const RlLimit *limit, const RlState *state)
{
	int128		full = tokens(limit, limit->capacity);

	return state->active ? Min(state->level, full) : full;
}

/* Return when the bucket will have risen to a level above its present one. */
static RlTime
bucket_rises_to(const RlLimit *limit, const RlState *state, RlTime now,
				int128 level)
{
	if (limit->limit == 0)
		return RL_NEVER;
	return add_wait(now, ceil_div(level - bucket_level(limit, state),
								  limit->limit));
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

/*
 * Set a level.  The bucket is forgotten when it is full and a window has
 * passed.  By then a bucket whose capacity is its limit is full under any
 * limit, so that a changed one finds the same level whether the bucket was
 * forgotten or not.
 */
static void
set_bucket(const RlLimit *limit, RlState *state, RlTime now, int128 level)
{
	state->active = true;
	state->time = now;
	state->level = level;
	state->capacity = limit->capacity;
	state->end = now + limit->window.length;
	if (limit->limit > 0)
		state->end = Max(state->end,
						 bucket_rises_to(limit, state, now,
										 tokens(limit, limit->capacity)));
}

static bool
refresh_bucket(const RlLimit *limit, RlState *state, RlTime now)
{
	bool		stepped_back = state->time > now;

	if (!stepped_back)
		state->level += ((int128) now - state->time) * limit->limit;
	else if (state->end != RL_NEVER)
		state->end -= state->time - now;

	state->time = now;
	return stepped_back;
}

static void
record_in_bucket(const RlLimit *limit, RlState *state, RlTime now, int64 cost)
{
	/* the lowest level is one at which what is used can still be told */
	int128		lowest = -tokens(limit, PG_INT64_MAX - limit->capacity);
	int128		level = bucket_level(limit, state) - tokens(limit, cost);

	set_bucket(limit, state, now, Max(level, lowest));
}

static void
give_back_bucket(const RlLimit *limit, RlState *state, int64 cost)
{
	int64		last_capacity = state->capacity;
	int128		full = tokens(limit, limit->capacity);
	int128		level = bucket_level(limit, state) + tokens(limit, cost);

	set_bucket(limit, state, state->time, Min(level, full));

	/* full, and not only under a capacity lower than before: as good as new */
	state->active = level < full || limit->capacity < last_capacity;
}

static RlTime
bucket_reset_at(const RlLimit *limit, const RlState *state, RlTime now)
{
	int128		level = bucket_level(limit, state);
	int128		next = floor_div(level, limit->window.length) + 1;

	if (level == tokens(limit, limit->capacity))
		return now;
	return bucket_reaches(limit, state, now, next * limit->window.length);
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

static int128
cost_used(const RlLimit *limit, const RlState *state)
{
	if (!state->active)
		return 0;
	if (limit->algorithm == RL_TOKEN_BUCKET)
		return limit->capacity - floor_div(bucket_level(limit, state),
										   limit->window.length);
	return state->used;
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
		return bucket_level(limit, state) >= tokens(limit, cost);
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
 * The state must be refreshed.  Returns false if nothing is used.
 */
bool
rl_give_back(const RlLimit *limit, RlState *state, int64 cost)
{
	if (cost_used(limit, state) <= 0)
		return false;

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
	return true;
}

static RlTime
retry_at(const RlLimit *limit, const RlState *state, RlTime now, int64 cost)
{
	if (rl_admits(limit, state, cost))
		return now;
	if (limit->limit == 0 || cost > limit->capacity)
		return RL_NEVER;
	if (limit->algorithm == RL_SLIDING_WINDOW)
		return log_retry_at(limit, state, cost);
	if (limit->algorithm == RL_TOKEN_BUCKET)
		return bucket_reaches(limit, state, now, tokens(limit, cost));
	return state->end;
}

static RlTime
reset_at(const RlLimit *limit, const RlState *state, RlTime now)
{
	if (!state->active)
		return now;
	if (limit->algorithm == RL_SLIDING_WINDOW)
		return state->hits[0].time + limit->window.length;
	if (limit->algorithm == RL_TOKEN_BUCKET)
		return bucket_reset_at(limit, state, now);
	return state->end;
}

/*
 * Tell about a call that has been recorded what is used and what is left.  The
 * state must be refreshed to the same instant.
 */
void
rl_report_admitted(const RlLimit *limit, const RlState *state, RlTime now,
				   RlReport *report)
{
	int128		used = cost_used(limit, state);

	report->used = (int64) Min(used, PG_INT64_MAX);
	report->remaining = (int64) Max(limit->capacity - used, 0);
	report->retry_at = now;
	report->reset_at = reset_at(limit, state, now);
}

/* The same before a cost >= 0 is recorded, and when to come back with it. */
void
rl_report(const RlLimit *limit, const RlState *state, RlTime now, int64 cost,
		  RlReport *report)
{
	rl_report_admitted(limit, state, now, report);
	report->retry_at = retry_at(limit, state, now, cost);
}
