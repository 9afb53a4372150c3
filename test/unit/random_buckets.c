/*-------------------------------------------------------------------------
 *
 * random_buckets.c
 *	  Random histories of a token bucket, against a model.
 *
 * The model counts tokens times the length of the window in 128 bits and, at
 * every step, fills the bucket anew from its last record.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define SEEDS	400
#define STEPS	1000

typedef struct Model
{
	int64		limit;			/* as the next call states them */
	int64		capacity;
	RlTime		window;
	bool		exists;			/* has anything been recorded? */
	RlTime		time;			/* of the last record */
	int128		level;			/* then */
	int128		end;			/* when it is forgotten, full by the limit of
								 * the last record and a window after it */
} Model;

static Counter counter;
static Model model;

static int128
quotient_up(int128 dividend, int128 divisor)
{
	return dividend / divisor + (dividend % divisor > 0 ? 1 : 0);
}

/* The level at an instant; a record later than that is taken as one then. */
static int128
model_level(RlTime now)
{
	int128		full = (int128) model.capacity * model.window;
	int128		level = model.level;

	if (!model.exists || (now >= model.time && now >= model.end))
		return full;
	if (now > model.time)
		level += (int128) (now - model.time) * model.limit;
	return Min(level, full);
}

/* Keep a level as recorded now; a full bucket is as good as none. */
static void
model_record(RlTime now, int128 level)
{
	int128		full = (int128) model.capacity * model.window;
	int128		lowest = full - (int128) PG_INT64_MAX * model.window;

	model.level = Max(level, lowest);
	model.exists = model.level < full;
	model.time = now;
	model.end = now + model.window;
	if (model.limit > 0)
	{
		int128		rises = quotient_up(full - model.level, model.limit);

		model.end = Max(model.end, now + rises);
	}
}

/* Keep a step back: record and end move to now together. */
static void
model_step_back(RlTime now)
{
	if (!model.exists || now >= model.time)
		return;
	model.end -= model.time - now;
	model.time = now;
}

/* When a level is reached, which the end of the state may come before. */
static RlTime
model_reaches(RlTime now, int128 level)
{
	int128		at = PG_INT64_MAX;
	int128		end = model.end;

	if (now < model.time)
		end -= model.time - now;
	if (model.limit > 0)
		at = now + quotient_up(level - model_level(now), model.limit);
	at = Min(at, end);
	return at > RL_MAX_TIME ? RL_NEVER : (RlTime) at;
}

static void
compare(RlTime now, int64 cost, Answer answer, bool recorded)
{
	int128		level = model_level(now);
	int128		whole = level / model.window - (level % model.window < 0);
	RlTime		retry_at = answer.report.retry_at;
	RlTime		reset_at = answer.report.reset_at;
	bool		passes = model.limit > 0 && cost <= model.capacity &&
	level >= (int128) cost * model.window;

	if (!recorded)
		expect_int("allowed", answer.allowed, passes);
	expect_int("used", answer.report.used, (int64) (model.capacity - whole));
	expect_int("remaining", answer.report.remaining, (int64) Max(whole, 0));

	if (model.limit == 0 || cost > model.capacity)
		expect_int("retry_at", retry_at, RL_NEVER);
	else if (passes)
		expect_int("retry_at", retry_at, now);
	else
		expect_int("retry_at", retry_at > RL_MAX_TIME ? RL_NEVER : retry_at,
				   model_reaches(now, (int128) cost * model.window));

	if (answer.report.used == 0)
		expect_int("reset_at", reset_at, now);
	else if (model.limit > 0)
		expect_int("reset_at", reset_at > RL_MAX_TIME ? RL_NEVER : reset_at,
				   model_reaches(now, (whole + 1) * model.window));
}

static void
random_check(UnitRandom *random, RlTime now)
{
	int64		cost = unit_draw(random, 0, 4);
	int128		level = model_level(now);
	Answer		answer;

	if (unit_draw(random, 0, 9) == 0)
		cost = unit_draw(random, 0, model.capacity);
	if (unit_draw(random, 0, 99) == 0)
		cost = PG_INT64_MAX - unit_draw(random, 0, 3);

	if (unit_draw(random, 0, 3) == 0)
	{
		compare(now, cost, counter_peek(&counter, now, cost), false);
		return;
	}

	answer = counter_check(&counter, now, cost);
	expect_int("allowed", answer.allowed,
			   model.limit > 0 && cost <= model.capacity &&
			   level >= (int128) cost * model.window);
	if (answer.allowed && cost > 0)
		model_record(now, level - (int128) cost * model.window);
	else
		model_step_back(now);
	compare(now, cost, answer, answer.allowed);
}

static void
random_adjust(UnitRandom *random, RlTime now)
{
	int64		delta = unit_draw(random, -6, 6);
	int128		level = model_level(now);
	Answer		answer;

	if (unit_draw(random, 0, 19) == 0)
		delta = unit_draw(random, -model.capacity, model.capacity);
	answer = counter_adjust(&counter, now, delta);
	if (delta > 0 ||
		(delta < 0 && level < (int128) model.capacity * model.window))
		model_record(now, level - (int128) delta * model.window);
	else
		model_step_back(now);
	compare(now, 1, answer, true);
}

/* Choose an instant: near, at a turning point, far, or back. */
static RlTime
random_instant(UnitRandom *random, RlTime now)
{
	int64		kind = unit_draw(random, 0, 39);
	RlTime		interval = model.window / Max(model.limit, 1) + 1;
	RlTime		next;

	if (kind < 10)
		return now;
	if (kind < 20)
		return now + unit_draw(random, 0, 2);
	if (kind < 30)
		return now + unit_draw(random, 0, 3 * interval);
	if (kind < 35)
	{
		int64		cost = unit_draw(random, 1, 4);

		next = counter_peek(&counter, now, cost).report.retry_at;
		if (next < RL_MAX_TIME / 2)
			return next - unit_draw(random, 0, 1);
		return now;
	}
	if (kind < 37)
		return now - unit_draw(random, 0, 5 * interval);
	if (kind == 37)
		return now - unit_draw(random, 0, model.window);
	if (kind == 38)
		return now + unit_draw(random, 0, model.window);
	return now + unit_draw(random, 0, 1) * 2 * YEARS_100 / 100;
}

static void
random_limit(UnitRandom *random)
{
	int64		limits[] = {0, 1, 2, 3, 10, 1000, 1000000, 12345678901};
	int64		kind = unit_draw(random, 0, 5);

	model.limit = limits[unit_draw(random, kind == 0 ? 0 : 1, 7)];
	model.capacity = kind < 3 || model.limit == 0 ? model.limit :
		limits[unit_draw(random, 1, 7)];
	counter.limit.limit = model.limit;
	counter.limit.capacity = model.capacity;
}

static void
run(int64 seed, bool changing)
{
	RlTime		windows[] = {1, 2, 7, 1000, SECOND, MINUTE, DAY, YEARS_100};
	UnitRandom	random = {(uint64) seed};
	RlTime		now = unit_draw(&random, -YEARS_100, YEARS_100);

	model.exists = false;
	model.window = windows[unit_draw(&random, 0, lengthof(windows) - 1)];
	counter_init_bucket(&counter, 0, model.window, 0);
	random_limit(&random);

	for (int step = 0; step < STEPS && !unit_failed(); step++)
	{
		unit_place(seed, step);
		if (changing && unit_draw(&random, 0, 49) == 0)
			random_limit(&random);
		now = random_instant(&random, now);
		if (unit_draw(&random, 0, 9) == 0)
			random_adjust(&random, now);
		else
			random_check(&random, now);
	}
}

static void
constant_limit(void)
{
	for (int64 seed = 1; seed <= SEEDS && !unit_failed(); seed++)
		run(seed, false);
}

static void
changing_limit(void)
{
	for (int64 seed = 1; seed <= SEEDS && !unit_failed(); seed++)
		run(seed, true);
}

void
random_buckets_cases(void)
{
	unit_case("random buckets: constant limit", constant_limit);
	unit_case("random buckets: changing limit", changing_limit);
}
