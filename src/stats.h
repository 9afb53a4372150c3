/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  How many calls each rule has admitted and refused.
 *
 * The counts are in the arena, which has room for a fixed number of rules; what
 * comes later is not counted.  Only the counts change once a rule has its place,
 * and they are atomic, so that a session finds the place once and counts without
 * a lock.  Several lanes keep processors from waiting for each other's cache line;
 * their sum is what counts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_STATS_H
#define RL_STATS_H

#include "miscadmin.h"
#include "port/atomics.h"

typedef enum RlCount
{
	RL_ALLOWED,
	RL_REFUSED,
	RL_SHADOW_REFUSED			/* would have been refused */
} RlCount;

#define RL_NUM_COUNTS			(RL_SHADOW_REFUSED + 1)

/* How many lanes; a process keeps to one. */
#define RL_STATS_LANES			4

typedef struct RlLane
{
	pg_atomic_uint64 counts[RL_NUM_COUNTS] pg_attribute_aligned(64);
} RlLane;

typedef struct RlStats
{
	Oid			database;
	char		policy[NAMEDATALEN];	/* empty: calls ad hoc */
	char		rule[NAMEDATALEN];
	pg_atomic_uint64 since;		/* instant of the last reset */
	RlLane		lanes[RL_STATS_LANES];
} RlStats;

/* how much of the arena they may take, and how many there are at most */
#define RL_STATS_SHARE			32
#define RL_MAX_STATS			4096

extern RlStats *rl_find_stats(const char *policy, const char *rule);
extern RlStats *rl_ad_hoc_stats(void);

/* for RlArena see arena.h */
struct RlArena;
extern void rl_note_database(struct RlArena *arena, Oid database);
extern int	rl_stats_databases(struct RlArena *arena, Oid **databases);
extern void rl_forget_stats(struct RlArena *arena, Oid database);

static inline void
rl_count(RlStats *stats, RlCount which)
{
	RlLane	   *lane;

	if (stats == NULL)
		return;
	lane = &stats->lanes[MyProcPid % RL_STATS_LANES];
	pg_atomic_fetch_add_u64(&lane->counts[which], 1);
}

#endif							/* RL_STATS_H */
