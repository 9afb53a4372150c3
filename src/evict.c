/*-------------------------------------------------------------------------
 *
 * evict.c
 *	  What leaves the arena, and in which order.
 *
 * Entries that have ended mean nothing and go first, a few whenever a new one
 * comes.  When a partition is full all the same, a counter has to go: the one
 * least used of its limit, among those the one idle longest, of as many as are
 * looked at.  Never dropped are blocks, counters that have refused a call and
 * would still refuse it, and whatever the call in progress needs.  So a flood
 * of new keys cannot free a key that is being limited.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "arena.h"

/* buckets looked at for ended entries when a new one comes */
#define SWEEP_BUCKETS			2

/* counters among which the one to drop is chosen, if none has ended */
#define EVICTION_CANDIDATES		64

/* steps of "used of limit" that count as equal, so that idle time counts */
#define FILL_STEPS				8

/* Return whether one counter should be dropped rather than another. */
static bool
less_relevant(const RlEntry *a, const RlEntry *b)
{
	int			fill_a = a->fill * FILL_STEPS / 256;
	int			fill_b = b->fill * FILL_STEPS / 256;

	if (fill_a != fill_b)
		return fill_a < fill_b;
	return a->last_use < b->last_use;
}

/*
 * Return until when an entry must not be dropped; RL_MIN_TIME or an instant
 * that has passed means that it may go.
 */
static RlTime
protected_until(RlPartition *partition, const RlEntry *entry)
{
	if (entry->flags & RL_ENTRY_PINNED)
		return RL_NEVER;
	if (entry->kind == RL_KIND_BLOCK)
		return entry->end;
	if (entry->flags & RL_ENTRY_REFUSED)
		return rl_get_instant(partition, entry);
	return RL_MIN_TIME;
}

/* Remove the entries of a bucket that have ended.  Return how many did. */
static int
sweep_bucket(RlPartition *partition, uint32 bucket, RlTime now)
{
	int			removed = 0;
	RlEntry    *next;

	for (RlEntry *entry = rl_first_in_bucket(partition, bucket);
		 entry != NULL; entry = next)
	{
		next = rl_next(partition, entry);
		if (entry->end <= now && !(entry->flags & RL_ENTRY_PINNED))
		{
			rl_remove_entry(partition, entry);
			removed++;
		}
	}
	return removed;
}

static uint32
advance_hand(RlPartition *partition)
{
	uint32		bucket = partition->hand;

	partition->hand = (bucket + 1) & (partition->nbuckets - 1);
	return bucket;
}

/* Remove some entries that have ended, before a new one comes. */
void
rl_sweep(RlPartition *partition, RlTime now)
{
	for (int i = 0; i < SWEEP_BUCKETS; i++)
		sweep_bucket(partition, advance_hand(partition), now);
}

/*
 * Remove the next entries that have ended, or else one live counter.  If
 * nothing may go, note until when.
 */
static bool
evict(RlPartition *partition, RlTime now)
{
	RlEntry    *victim = NULL;
	RlTime		full_until = RL_NEVER;
	int			candidates = 0;

	for (uint32 i = 0; i < partition->nbuckets &&
		 candidates < EVICTION_CANDIDATES; i++)
	{
		uint32		bucket = advance_hand(partition);

		if (sweep_bucket(partition, bucket, now) > 0)
			return true;

		for (RlEntry *entry = rl_first_in_bucket(partition, bucket);
			 entry != NULL; entry = rl_next(partition, entry))
		{
			RlTime		until = protected_until(partition, entry);

			if (until > now)
			{
				full_until = Min(full_until, until);
				continue;
			}
			candidates++;
			if (victim == NULL || less_relevant(entry, victim))
				victim = entry;
		}
	}

	if (victim == NULL)
	{
		partition->full_until = full_until;
		return false;
	}
	rl_remove_entry(partition, victim);
	partition->evictions++;
	return true;
}

/*
 * See to it that a number of chunks is free.  Return false if that cannot be
 * before partition->full_until.
 */
bool
rl_make_room(RlPartition *partition, int nchunks, RlTime now)
{
	while (partition->nfree < (uint32) nchunks)
	{
		if (now < partition->full_until || !evict(partition, now))
			return false;
	}
	return true;
}
