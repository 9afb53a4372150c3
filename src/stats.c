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
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(rate_limit_stats);
PG_FUNCTION_INFO_V1(rate_limit_stats_reset);

#define STATS_COLUMNS			6

/* Find the counts of a rule among those that there are. */
static RlStats *
search(RlArena *arena, Oid database, const char *policy, const char *rule)
{
	for (int i = 0; i < arena->nstats_used; i++)
	{
		RlStats    *stats = rl_stats(arena, i);

		if (stats->database == database &&
			strcmp(stats->policy, policy) == 0 &&
			strcmp(stats->rule, rule) == 0)
			return stats;
	}
	return NULL;
}

static void
reset(RlStats *stats)
{
	for (int i = 0; i < RL_STATS_LANES; i++)
	{
		for (int j = 0; j < RL_NUM_COUNTS; j++)
			pg_atomic_write_u64(&stats->lanes[i].counts[j], 0);
	}
	pg_atomic_write_u64(&stats->since, (uint64) GetCurrentTimestamp());
}

/* Return a place that is free, NULL if there is none. */
static RlStats *
find_place(RlArena *arena)
{
	for (int i = 0; i < arena->nstats_used; i++)
	{
		if (!OidIsValid(rl_stats(arena, i)->database))
			return rl_stats(arena, i);
	}
	return arena->nstats_used < arena->nstats ?
		rl_stats(arena, arena->nstats_used++) : NULL;
}

/* Give a rule a place, if there is one. */
static RlStats *
add(RlArena *arena, Oid database, const char *policy, const char *rule)
{
	RlStats    *stats = find_place(arena);

	if (stats == NULL)
		return NULL;
	strlcpy(stats->policy, policy, NAMEDATALEN);
	strlcpy(stats->rule, rule, NAMEDATALEN);
	for (int i = 0; i < RL_STATS_LANES; i++)
	{
		for (int j = 0; j < RL_NUM_COUNTS; j++)
			pg_atomic_init_u64(&stats->lanes[i].counts[j], 0);
	}
	pg_atomic_init_u64(&stats->since, (uint64) GetCurrentTimestamp());

	/* who looks at it without the lock must not see less */
	pg_write_barrier();
	stats->database = database;
	return stats;
}

static RlStats *
find_or_add(RlArena *arena, Oid database, const char *policy,
			const char *rule)
{
	RlStats    *stats;

	LWLockAcquire(&arena->stats_lock, LW_EXCLUSIVE);
	stats = search(arena, database, policy, rule);
	if (stats == NULL)
		stats = add(arena, database, policy, rule);
	LWLockRelease(&arena->stats_lock);
	return stats;
}

/* Return where a rule of this database counts, NULL if there is no room. */
RlStats *
rl_find_stats(const char *policy, const char *rule)
{
	return find_or_add(rl_get_arena(), MyDatabaseId, policy, rule);
}

/* Note that there is something of a database in the arena. */
void
rl_note_database(RlArena *arena, Oid database)
{
	(void) find_or_add(arena, database, "", "");
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

/* Return the databases that count, each once. */
int
rl_stats_databases(RlArena *arena, Oid **databases)
{
	int			n = 0;

	*databases = palloc(sizeof(Oid) * arena->nstats);
	LWLockAcquire(&arena->stats_lock, LW_SHARED);
	for (int i = 0; i < arena->nstats_used; i++)
	{
		Oid			database = rl_stats(arena, i)->database;
		bool		known = !OidIsValid(database);

		for (int j = 0; j < n && !known; j++)
			known = (*databases)[j] == database;
		if (!known)
			(*databases)[n++] = database;
	}
	LWLockRelease(&arena->stats_lock);
	return n;
}

/*
 * Forget the counts of a database.  Their places can only be given to others if
 * the database is gone, since sessions know where they count.
 */
void
rl_forget_stats(RlArena *arena, Oid database)
{
	LWLockAcquire(&arena->stats_lock, LW_EXCLUSIVE);
	for (int i = 0; i < arena->nstats_used; i++)
	{
		RlStats    *stats = rl_stats(arena, i);

		if (stats->database != database)
			continue;
		reset(stats);
		if (database != MyDatabaseId)
			stats->database = InvalidOid;
	}
	LWLockRelease(&arena->stats_lock);
}

static int64
total(RlStats *stats, RlCount which)
{
	int64		sum = 0;

	for (int i = 0; i < RL_STATS_LANES; i++)
		sum += pg_atomic_read_u64(&stats->lanes[i].counts[which]);
	return sum;
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
		values[2 + i] = Int64GetDatum(total(stats, (RlCount) i));
	values[5] = TimestampTzGetDatum(pg_atomic_read_u64(&stats->since));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Return how many places have been given. */
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
