/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  How many calls each rule has admitted and refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stats.h"

#include "shmem.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(rate_limit_stats);
PG_FUNCTION_INFO_V1(rate_limit_stats_reset);

#define STATS_COLUMNS			6

/* Find the counts of a rule among those that there are. */
static RlStats *
search(RlArena *arena, const char *policy, const char *rule)
{
	for (int i = 0; i < arena->nstats_used; i++)
	{
		RlStats    *stats = rl_stats(arena, i);

		if (stats->database == MyDatabaseId &&
			strcmp(stats->policy, policy) == 0 &&
			strcmp(stats->rule, rule) == 0)
			return stats;
	}
	return NULL;
}

static void
reset(RlStats *stats)
{
	for (int i = 0; i < RL_NUM_COUNTS; i++)
		pg_atomic_write_u64(&stats->counts[i], 0);
	pg_atomic_write_u64(&stats->since, (uint64) GetCurrentTimestamp());
}

/* Give a rule of this database the next place. */
static RlStats *
add(RlArena *arena, const char *policy, const char *rule)
{
	RlStats    *stats = rl_stats(arena, arena->nstats_used);

	stats->database = MyDatabaseId;
	strlcpy(stats->policy, policy, NAMEDATALEN);
	strlcpy(stats->rule, rule, NAMEDATALEN);
	for (int i = 0; i < RL_NUM_COUNTS; i++)
		pg_atomic_init_u64(&stats->counts[i], 0);
	pg_atomic_init_u64(&stats->since, (uint64) GetCurrentTimestamp());
	arena->nstats_used++;
	return stats;
}

/* Return where a rule of this database counts, NULL if there is no room. */
RlStats *
rl_find_stats(const char *policy, const char *rule)
{
	RlArena    *arena = rl_get_arena();
	RlStats    *stats;

	LWLockAcquire(&arena->stats_lock, LW_EXCLUSIVE);
	stats = search(arena, policy, rule);
	if (stats == NULL && arena->nstats_used < arena->nstats)
		stats = add(arena, policy, rule);
	LWLockRelease(&arena->stats_lock);
	return stats;
}

/*
 * Return where calls without a policy count, NULL if there is no room.  As no
 * place is ever given back, it is enough to look once.
 */
RlStats *
rl_ad_hoc_stats(void)
{
	static RlStats *stats;
	static bool looked = false;

	if (unlikely(!looked))
		stats = rl_find_stats("", "");
	looked = true;
	return stats;
}

static void
put_row(ReturnSetInfo *result, RlStats *stats)
{
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {false};

	nulls[0] = nulls[1] = stats->rule[0] == '\0';
	values[0] = CStringGetTextDatum(stats->policy);
	values[1] = CStringGetTextDatum(stats->rule);
	for (int i = 0; i < RL_NUM_COUNTS; i++)
		values[2 + i] = Int64GetDatum(pg_atomic_read_u64(&stats->counts[i]));
	values[5] = TimestampTzGetDatum(pg_atomic_read_u64(&stats->since));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Return how many counts there are; those do not change any more. */
static int
count_used(RlArena *arena)
{
	int			used;

	LWLockAcquire(&arena->stats_lock, LW_SHARED);
	used = arena->nstats_used;
	LWLockRelease(&arena->stats_lock);
	return used;
}

Datum
rate_limit_stats(PG_FUNCTION_ARGS)
{
	RlArena    *arena = rl_find_arena();
	int			used = arena == NULL ? 0 : count_used(arena);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < used; i++)
	{
		RlStats    *stats = rl_stats(arena, i);

		if (stats->database == MyDatabaseId)
			put_row((ReturnSetInfo *) fcinfo->resultinfo, stats);
	}
	return (Datum) 0;
}

Datum
rate_limit_stats_reset(PG_FUNCTION_ARGS)
{
	RlArena    *arena = rl_find_arena();
	int			used = arena == NULL ? 0 : count_used(arena);

	(void) fcinfo;
	for (int i = 0; i < used; i++)
	{
		RlStats    *stats = rl_stats(arena, i);

		if (stats->database == MyDatabaseId)
			reset(stats);
	}
	PG_RETURN_VOID();
}
