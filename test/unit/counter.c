/*-------------------------------------------------------------------------
 *
 * counter.c
 *	  One counter, used by the tests as a store uses it.
 *
 * What must hold after every call, whatever the history, is checked here:
 * remaining lies in [0, capacity]; the log is sorted, sums up to what is used
 * and is no longer than it may be; a call is admitted at retry_at and refused
 * one microsecond earlier; quota becomes available at reset_at and not one
 * microsecond earlier; nothing is used from the end of the state on, and in
 * the windows something is until then.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#include <string.h>
#include <time.h>

const RlAlgorithm window_algorithms[NUM_WINDOW_ALGORITHMS] = {
	RL_SLIDING_WINDOW, RL_FIXED_WINDOW, RL_ANCHORED_WINDOW
};

/* Meaningless values for fields that are to be ignored. */
#define GARBAGE		INT64CONST(0x5a5a5a5a5a5a5a5a)

static void
set_guard(Counter *counter)
{
	for (int i = RL_MAX_HITS; i < RL_MAX_HITS + GUARD_HITS; i++)
		counter->hits[i].time = counter->hits[i].cost = GARBAGE;
}

static bool
guard_intact(const Counter *counter)
{
	for (int i = RL_MAX_HITS; i < RL_MAX_HITS + GUARD_HITS; i++)
	{
		if (counter->hits[i].time != GARBAGE ||
			counter->hits[i].cost != GARBAGE)
			return false;
	}
	return true;
}

/*
 * Bring the state into the form in which a store keeps it: the log at the
 * start of its room, and an inactive state without any other meaning.
 */
static void
normalize(Counter *counter)
{
	RlState    *state = &counter->state;

	if (state->active && counter->limit.algorithm == RL_SLIDING_WINDOW &&
		state->hits != counter->hits)
		memmove(counter->hits, state->hits, state->nhits * sizeof(RlHit));
	state->hits = counter->hits;

	if (!state->active)
	{
		state->time = state->end = state->used = GARBAGE;
		state->level = GARBAGE;
		state->nhits = (int) GARBAGE;
	}
}

static void
copy_counter(Counter *copy, const Counter *counter)
{
	copy->limit = counter->limit;
	copy->state = counter->state;
	copy->state.hits = copy->hits;
	copy->log_bound = counter->log_bound;
	if (counter->state.active &&
		counter->limit.algorithm == RL_SLIDING_WINDOW)
		memcpy(copy->hits, counter->state.hits,
			   counter->state.nhits * sizeof(RlHit));
	set_guard(copy);
}

static void
init(Counter *counter, RlAlgorithm algorithm, RlTime window)
{
	memset(counter, 0, sizeof(*counter));
	counter->limit.algorithm = algorithm;
	counter->limit.window.unit = RL_UNIT_USEC;
	counter->limit.window.length = window;
	counter_set_exact_hits(counter, RL_DEFAULT_EXACT_HITS);
	set_guard(counter);
	normalize(counter);
}

void
counter_init(Counter *counter, RlAlgorithm algorithm, int64 limit,
			 RlTime window)
{
	init(counter, algorithm, window);
	counter_set_limit(counter, limit);
}

void
counter_init_bucket(Counter *counter, int64 limit, RlTime window,
					int64 capacity)
{
	init(counter, RL_TOKEN_BUCKET, window);
	counter->limit.limit = limit;
	counter->limit.capacity = capacity;
}

void
counter_set_limit(Counter *counter, int64 limit)
{
	counter->limit.limit = limit;
	counter->limit.capacity = limit;
}

void
counter_set_exact_hits(Counter *counter, int exact_hits)
{
	counter->limit.exact_hits = exact_hits;
	counter->log_bound = exact_hits + 1;
}

bool
counter_same(const Counter *a, const Counter *b)
{
	const RlState *x = &a->state;
	const RlState *y = &b->state;

	if (!x->active || !y->active)
		return x->active == y->active;
	if (x->end != y->end)
		return false;

	switch (a->limit.algorithm)
	{
		case RL_SLIDING_WINDOW:
			return x->used == y->used && x->nhits == y->nhits &&
				memcmp(x->hits, y->hits, x->nhits * sizeof(RlHit)) == 0;
		case RL_FIXED_WINDOW:
		case RL_ANCHORED_WINDOW:
			return x->used == y->used && x->time == y->time;
		case RL_TOKEN_BUCKET:
			return x->level == y->level && x->time == y->time;
	}
	return false;
}

/*
 * The report at a later instant, without keeping anything.
 */
static Answer
later(const Counter *counter, RlTime now, int64 cost)
{
	static Counter copy;
	Answer		answer;

	copy_counter(&copy, counter);
	answer.stepped_back = rl_refresh(&copy.limit, &copy.state, now);
	answer.allowed = rl_admits(&copy.limit, &copy.state, cost);
	answer.kept = false;
	rl_report(&copy.limit, &copy.state, now, cost, &answer.report);
	return answer;
}

/* Has something been recorded that is still used at a later instant? */
static bool
used_later(const Counter *counter, RlTime now)
{
	static Counter copy;

	copy_counter(&copy, counter);
	rl_refresh(&copy.limit, &copy.state, now);
	return copy.state.active;
}

static void
verify_log(const Counter *counter, RlTime now)
{
	const RlState *state = &counter->state;
	const RlHit *hits = state->hits;
	int128		sum = 0;

	expect_between("hits in the log", state->nhits, 1, RL_MAX_HITS);
	if (unit_failed())
		return;

	for (int i = 0; i < state->nhits; i++)
	{
		expect_true("cost of a hit > 0", hits[i].cost > 0);
		expect_true("log oldest first",
					i == 0 || hits[i - 1].time <= hits[i].time);
		sum += hits[i].cost;
	}
	expect_true("used is the sum of the log", state->used == sum);
	expect_true("oldest hit in the window",
				hits[0].time + counter->limit.window.length > now);
	expect_true("newest hit not after now", state->time <= now);
}

static void
verify_retry(const Counter *counter, RlTime now, int64 cost, Answer answer)
{
	RlTime		retry_at = answer.report.retry_at;

	if (answer.allowed)
		expect_int("retry_at of a call that would pass", retry_at, now);
	else if (counter->limit.limit == 0 || cost > counter->limit.capacity)
		expect_int("retry_at of what never passes", retry_at, RL_NEVER);
	else if (retry_at == RL_NEVER || retry_at > RL_MAX_TIME)
	{
		expect_true("retry_at past the range of a bucket or a last window",
					counter->limit.algorithm == RL_TOKEN_BUCKET ||
					now + 2 * counter->limit.window.length > RL_MAX_TIME);
		expect_false("admitted in the range",
					 later(counter, RL_MAX_TIME, cost).allowed);
	}
	else
	{
		expect_true("retry_at after now", retry_at > now);
		expect_true("admitted at retry_at",
					later(counter, retry_at, cost).allowed);
		expect_false("admitted 1 us before retry_at",
					 later(counter, retry_at - 1, cost).allowed);
	}
}

static void
verify_reset(const Counter *counter, RlTime now, const RlReport *report)
{
	RlTime		reset_at = report->reset_at;

	if (report->used == 0)
	{
		expect_int("reset_at when nothing is used", reset_at, now);
		return;
	}

	expect_true("reset_at after now", reset_at > now);
	if (reset_at > RL_MAX_TIME || report->used == PG_INT64_MAX)
		return;
	expect_true("less is used at reset_at",
				later(counter, reset_at, 0).report.used < report->used);
	expect_int("used 1 us before reset_at",
			   later(counter, reset_at - 1, 0).report.used, report->used);
}

static void
verify_end(const Counter *counter, RlTime now)
{
	RlTime		end = counter->state.end;

	expect_true("end after now", end > now);
	if (end > RL_MAX_TIME)
		return;
	if (counter->limit.algorithm != RL_TOKEN_BUCKET)
		expect_true("used 1 us before the end", used_later(counter, end - 1));
	expect_false("used at the end", used_later(counter, end));
}

/* Check a refreshed state and what is reported about it. */
static void
verify(const Counter *counter, RlTime now, int64 cost, Answer answer)
{
	const RlReport *report = &answer.report;

	expect_between("remaining in its range", report->remaining,
				   0, counter->limit.capacity);
	expect_between("used in its range", report->used, 0, PG_INT64_MAX);
	if (counter->limit.algorithm != RL_TOKEN_BUCKET)
	{
		expect_true("active when something is used",
					counter->state.active == (report->used > 0));
		expect_int("remaining", report->remaining,
				   Max(counter->limit.limit - report->used, 0));
	}
	if (counter->state.active &&
		counter->limit.algorithm == RL_SLIDING_WINDOW)
		verify_log(counter, now);
	verify_retry(counter, now, cost, answer);
	verify_reset(counter, now, report);
}

Answer
counter_peek(const Counter *counter, RlTime now, int64 cost)
{
	static Counter copy;
	Answer		answer;

	copy_counter(&copy, counter);
	answer.stepped_back = rl_refresh(&copy.limit, &copy.state, now);
	answer.allowed = rl_admits(&copy.limit, &copy.state, cost);
	answer.kept = false;
	rl_report(&copy.limit, &copy.state, now, cost, &answer.report);
	verify(&copy, now, cost, answer);
	return answer;
}

/* Check that what was recorded is in order, and how it is reported. */
static void
report_recorded(const Counter *counter, RlTime now, int64 cost, bool changed,
				Answer *answer)
{
	Answer		next;

	rl_report(&counter->limit, &counter->state, now, cost, &answer->report);
	next = *answer;
	next.allowed = rl_admits(&counter->limit, &counter->state, cost);
	verify(counter, now, cost, next);
	expect_true("nothing written past the log", guard_intact(counter));

	if (changed && counter->state.active)
	{
		verify_end(counter, now);
		if (counter->limit.algorithm == RL_SLIDING_WINDOW)
			expect_between("length of the log", counter->state.nhits,
						   1, counter->log_bound);
	}
}

Answer
counter_check(Counter *counter, RlTime now, int64 cost)
{
	static Counter copy;
	Answer		answer;

	copy_counter(&copy, counter);
	answer.stepped_back = rl_refresh(&copy.limit, &copy.state, now);
	answer.allowed = rl_admits(&copy.limit, &copy.state, cost);

	answer.kept = answer.stepped_back;

	if (answer.allowed && cost > 0)
	{
		rl_record(&copy.limit, &copy.state, now, cost);
		report_recorded(&copy, now, cost, true, &answer);
		answer.kept = true;
	}
	else
	{
		rl_report(&copy.limit, &copy.state, now, cost, &answer.report);
		verify(&copy, now, cost, answer);
	}

	if (answer.kept)
	{
		copy_counter(counter, &copy);
		normalize(counter);
	}
	return answer;
}

Answer
counter_adjust(Counter *counter, RlTime now, int64 delta)
{
	static Counter copy;
	Answer		answer;
	bool		changed;

	copy_counter(&copy, counter);
	answer.allowed = true;
	answer.stepped_back = rl_refresh(&copy.limit, &copy.state, now);
	changed = delta > 0 ||
		(delta < 0 && rl_give_back(&copy.limit, &copy.state, -delta));
	if (delta > 0)
		rl_record(&copy.limit, &copy.state, now, delta);

	report_recorded(&copy, now, 1, changed, &answer);
	answer.kept = changed || answer.stepped_back;
	if (answer.kept)
	{
		copy_counter(counter, &copy);
		normalize(counter);
	}
	return answer;
}

RlTime
utc(int year, int month, int day, int hour, int min, int sec)
{
	struct tm	tm = {0};

	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	tm.tm_mday = day;
	tm.tm_hour = hour;
	tm.tm_min = min;
	tm.tm_sec = sec;
	return ((int64) timegm(&tm) - INT64CONST(946684800)) * SECOND;
}

void
counter_expect(const char *file, int line, Answer answer, bool allowed,
			   int64 used, int64 remaining, RlTime retry_at, RlTime reset_at)
{
	unit_expect_between(file, line, "allowed", answer.allowed,
						allowed, allowed);
	counter_expect_rest(file, line, answer, used, remaining,
						retry_at, reset_at);
}

void
counter_expect_rest(const char *file, int line, Answer answer, int64 used,
					int64 remaining, RlTime retry_at, RlTime reset_at)
{
	const RlReport *report = &answer.report;

	unit_expect_between(file, line, "used", report->used, used, used);
	unit_expect_between(file, line, "remaining", report->remaining,
						remaining, remaining);
	unit_expect_between(file, line, "retry_at", report->retry_at,
						retry_at, retry_at);
	unit_expect_between(file, line, "reset_at", report->reset_at,
						reset_at, reset_at);
}

void
counter_expect_refused(const char *file, int line, Answer answer,
					   RlTime retry_at)
{
	unit_expect_between(file, line, "allowed", answer.allowed, false, false);
	unit_expect_between(file, line, "retry_at", answer.report.retry_at,
						retry_at, retry_at);
}
