/*-------------------------------------------------------------------------
 *
 * random_windows.c
 *	  Random histories of the windows, against a list of all hits.
 *
 * The list holds every admitted hit with its true time.  Where the log of a
 * sliding window may round, what is used must lie between the hits that are in
 * the window and those that were at most one quantum ago.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define SEEDS	300
#define STEPS	1000

typedef struct ModelHit
{
	RlTime		time;			/* as it was, or taken as by a step back */
	int64		cost;			/* what has not been given back */
	bool		gone;			/* out of the window, if not of the log */
} ModelHit;

/* How near to the list of hits the counter has to be. */
typedef enum Precision
{
	EXACT,						/* in every respect */
	EXACT_DECISIONS,			/* used may be too high while over the limit */
	AT_MOST_A_QUANTUM,			/* a hit counts at most a quantum too long */
	AT_LEAST					/* no hit counts too short */
} Precision;

static Counter counter;
static ModelHit hits[STEPS + 1];
static int	nhits;
static Precision precision;
static int64 decisive;			/* highest limit judged exactly */

static RlTime
window_length(void)
{
	return counter.limit.window.length;
}

static RlTime
quantum(void)
{
	int			exact_hits = counter.limit.exact_hits;

	return window_length() / exact_hits +
		(window_length() % exact_hits > 0 ? 1 : 0);
}

/* Start of the fixed window of an instant; all of them are after 1970 here. */
static RlTime
fixed_start(RlTime now)
{
	RlTime		epoch = now - utc(1970, 1, 1, 0, 0, 0);

	return now - epoch % window_length();
}

/* Does a hit of an instant count at another, given the oldest that does? */
static bool
counts(RlTime hit, RlTime oldest, RlTime now)
{
	switch (counter.limit.algorithm)
	{
		case RL_SLIDING_WINDOW:
			return Min(hit, now) > now - window_length();
		case RL_FIXED_WINDOW:
			return Min(hit, now) >= fixed_start(now);
		default:
			return Min(oldest, now) > now - window_length();
	}
}

/* The cost that counts at an instant, with hits counting "longer" too long. */
static int64
model_used(RlTime now, RlTime longer)
{
	int64		used = 0;

	for (int i = 0; i < nhits; i++)
	{
		if (longer > 0)
			used += Min(hits[i].time, now) > now - window_length() - longer ?
				hits[i].cost : 0;
		else if (!hits[i].gone && counts(hits[i].time, hits[0].time, now))
			used += hits[i].cost;
	}
	return used;
}

/* Keep what a call sees: hits later than now are of now, others have left. */
static void
model_refresh(RlTime now)
{
	RlTime		slack = precision >= AT_MOST_A_QUANTUM ? quantum() : 0;
	RlTime		oldest = nhits > 0 ? hits[0].time : now;
	int			kept = 0;

	for (int i = 0; i < nhits; i++)
	{
		ModelHit	hit = hits[i];

		if (!counts(hit.time, oldest, now))
			hit.gone = true;
		hit.time = Min(hit.time, now);
		if (!hit.gone ||
			(slack > 0 && hit.time > now - window_length() - slack))
			hits[kept++] = hit;
	}
	nhits = kept;
}

static void
model_record(RlTime now, int64 cost)
{
	int			instants = 1;

	for (int i = 0; i < nhits; i++)
	{
		if (hits[i].time < now && (i == 0 || hits[i].time > hits[i - 1].time))
			instants++;
	}
	hits[nhits].time = now;
	hits[nhits].cost = cost;
	hits[nhits].gone = false;
	nhits++;

	/* the log may have an instant twice, once rounded */
	if (precision == AT_MOST_A_QUANTUM)
		instants++;

	/* too many for the log while each one counts: only an adjustment can */
	if (counter.limit.algorithm == RL_SLIDING_WINDOW &&
		counter.limit.limit <= counter.limit.exact_hits &&
		instants > counter.limit.exact_hits + 1)
	{
		if (precision == EXACT)
			precision = EXACT_DECISIONS;
		else if (precision == AT_MOST_A_QUANTUM)
			precision = AT_LEAST;
		decisive = Min(decisive, counter.limit.limit);
	}
}

static void
model_give_back(int64 cost)
{
	while (cost > 0 && nhits > 0)
	{
		int64		part = Min(cost, hits[nhits - 1].cost);

		cost -= part;
		hits[nhits - 1].cost -= part;
		if (hits[nhits - 1].cost == 0)
			nhits--;
	}

	/* what was put together in the log cannot be told apart any more */
	if (precision == EXACT_DECISIONS)
		precision = AT_LEAST;
}

/* The first instant at which a condition of the windows can change. */
static RlTime
leaves(RlTime hit, RlTime now)
{
	switch (counter.limit.algorithm)
	{
		case RL_SLIDING_WINDOW:
			return Min(hit, now) + window_length();
		case RL_FIXED_WINDOW:
			return fixed_start(now) + window_length();
		default:
			return Min(hits[0].time, now) + window_length();
	}
}

/* When used has fallen to a value, the hits of later than now being of now. */
static RlTime
model_falls_to(RlTime now, int64 used)
{
	int64		left = model_used(now, 0);

	for (int i = 0; i < nhits; i++)
	{
		if (hits[i].gone || !counts(hits[i].time, hits[0].time, now))
			continue;
		left -= hits[i].cost;
		if (left <= used || counter.limit.algorithm != RL_SLIDING_WINDOW)
			return leaves(hits[i].time, now);
	}
	return now;
}

static void
compare_decision(RlTime now, int64 cost, const RlReport *report)
{
	int64		limit = counter.limit.limit;

	if (limit == 0 || cost > limit)
		expect_int("retry_at", report->retry_at, RL_NEVER);
	else if (model_used(now, 0) <= limit - cost)
		expect_int("retry_at", report->retry_at, now);
	else
		expect_int("retry_at", report->retry_at,
				   model_falls_to(now, limit - cost));
}

/* Compare a report with the list as it is now. */
static void
compare(RlTime now, int64 cost, const RlReport *report)
{
	int64		used = model_used(now, 0);

	switch (precision)
	{
		case EXACT:
			expect_int("used", report->used, used);
			expect_int("reset_at", report->reset_at,
					   used > 0 ? model_falls_to(now, used - 1) : now);
			compare_decision(now, cost, report);
			break;
		case EXACT_DECISIONS:
			if (counter.limit.limit <= decisive)
				compare_decision(now, cost, report);
			expect_between("used", report->used, used, PG_INT64_MAX);
			break;
		case AT_MOST_A_QUANTUM:
			expect_between("used", report->used, used,
						   model_used(now, quantum()));
			break;
		case AT_LEAST:
			expect_between("used", report->used, used, PG_INT64_MAX);
			break;
	}
}

/* Take over what the counter kept, and forget with it. */
static void
model_keep(RlTime now, bool kept)
{
	bool		later = nhits > 0 && hits[nhits - 1].time > now;

	if (kept || (later && precision <= EXACT_DECISIONS))
		model_refresh(now);
}

static void
random_check(UnitRandom *random, RlTime now)
{
	int64		limit = counter.limit.limit;
	int64		cost = unit_draw(random, 0, 2);
	int64		used = model_used(now, 0);
	Answer		answer;

	if (unit_draw(random, 0, 9) == 0)
		cost = unit_draw(random, 0, limit + 1);
	if (unit_draw(random, 0, 99) == 0)
		cost = PG_INT64_MAX - unit_draw(random, 0, 3);

	if (unit_draw(random, 0, 3) == 0)
	{
		answer = counter_peek(&counter, now, cost);
		compare(now, cost, &answer.report);
		return;
	}

	answer = counter_check(&counter, now, cost);
	if (limit == 0 || cost > limit)
		expect_false("allowed", answer.allowed);
	else if (precision == EXACT ||
			 (precision == EXACT_DECISIONS && limit <= decisive))
		expect_int("allowed", answer.allowed, used <= limit - cost);
	else if (answer.allowed)
		expect_between("used before", used, 0, limit - cost);
	else if (precision == AT_MOST_A_QUANTUM)
		expect_true("refused only when full",
					model_used(now, quantum()) > limit - cost);

	model_keep(now, answer.kept);
	if (answer.allowed && cost > 0)
		model_record(now, cost);
	compare(now, cost, &answer.report);
}

static void
random_adjust(UnitRandom *random, RlTime now)
{
	int64		delta = unit_draw(random, -4, 4);
	Answer		answer;

	if (unit_draw(random, 0, 9) == 0)
		delta *= unit_draw(random, 1, INT64CONST(1000000000000));
	answer = counter_adjust(&counter, now, delta);
	model_keep(now, answer.kept);
	if (delta > 0)
		model_record(now, delta);
	else if (delta < 0 && answer.kept)
		model_give_back(-delta);
	compare(now, 1, &answer.report);
}

/* Choose an instant: near, where a hit leaves, a window ahead, or back. */
static RlTime
random_instant(UnitRandom *random, RlTime now)
{
	int64		kind = unit_draw(random, 0, 39);
	RlTime		window = window_length();

	if (kind < 8)
		return now;
	if (kind < 16)
		return now + 1;
	if (kind < 26)
		return now + unit_draw(random, 0, window / 50 + 1);
	if (kind < 32 && nhits > 0)
		return leaves(hits[unit_draw(random, 0, nhits - 1)].time, now) -
			unit_draw(random, 0, 2);
	if (kind < 36)
		return now + unit_draw(random, 0, window);
	if (kind < 38)
		return now - unit_draw(random, 0, window / 10 + 1);
	if (kind == 38)
		return now - unit_draw(random, 0, window);
	return now + unit_draw(random, 0, 3) * window;
}

static void
random_limit(UnitRandom *random, bool rounding)
{
	int64		exact_hits = counter.limit.exact_hits;
	int64		limits[] = {
		0, 1, 2, exact_hits / 2, exact_hits - 1, exact_hits, exact_hits + 1,
		2 * exact_hits, 1000, PG_INT64_MAX / 4
	};
	int64		limit = limits[unit_draw(random, 0, lengthof(limits) - 1)];

	counter_set_limit(&counter, rounding ? limit : Min(limit, exact_hits));
}

/* Begin a new counter when the old one is used up, with all its history. */
static void
forget(bool rounding)
{
	precision = rounding ? AT_MOST_A_QUANTUM : EXACT;
	decisive = PG_INT64_MAX;
	nhits = 0;
}

static void
run(RlAlgorithm algorithm, int64 seed, bool rounding, bool adjusting)
{
	RlTime		lengths[] = {1, 2, 7, 100, 1000, SECOND, DAY, YEARS_100 / 10};
	int			sizes[] = {1, 2, 3, 5, 8, 128};
	UnitRandom	random = {(uint64) seed};
	RlTime		now = utc(2026, 3, 1, 12, 0, 0) + 3000 * (YEARS_100 / 100);
	bool		log = algorithm == RL_SLIDING_WINDOW;

	counter_init(&counter, algorithm, 1,
				 lengths[unit_draw(&random, 0, lengthof(lengths) - 1)]);
	counter_set_exact_hits(&counter,
						   sizes[unit_draw(&random, 0, lengthof(sizes) - 1)]);
	random_limit(&random, rounding);
	forget(rounding && log);

	for (int step = 0; step < STEPS && !unit_failed(); step++)
	{
		unit_place(seed, step);
		if (unit_draw(&random, 0, 29) == 0)
			random_limit(&random, rounding);
		now = random_instant(&random, now);
		if (adjusting && unit_draw(&random, 0, 4) == 0)
			random_adjust(&random, now);
		else
			random_check(&random, now);
		if (!counter.state.active)
		{
			expect_int("used when forgotten", model_used(now, 0), 0);
			forget(rounding && log);
		}
	}
}

static void
run_all(RlAlgorithm algorithm, bool rounding)
{
	for (int64 seed = 1; seed <= SEEDS && !unit_failed(); seed++)
		run(algorithm, seed, rounding, seed % 3 > 0);
}

static void
exact_sliding_window(void)
{
	run_all(RL_SLIDING_WINDOW, false);
}

static void
rounded_sliding_window(void)
{
	run_all(RL_SLIDING_WINDOW, true);
}

static void
fixed_window(void)
{
	run_all(RL_FIXED_WINDOW, true);
}

static void
anchored_window(void)
{
	run_all(RL_ANCHORED_WINDOW, true);
}

void
random_windows_cases(void)
{
	unit_case("random windows: exact sliding window", exact_sliding_window);
	unit_case("random windows: rounded sliding window",
			  rounded_sliding_window);
	unit_case("random windows: fixed window", fixed_window);
	unit_case("random windows: anchored window", anchored_window);
}
