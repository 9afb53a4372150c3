/*-------------------------------------------------------------------------
 *
 * evict.c
 *	  What leaves the arena, and in which order.
 *
 * Entries that have expired mean nothing and go first, a few whenever a new one
 * comes.  When a partition is full all the same, a counter has to go: the one
 * least used of its limit, among those the one idle longest, of as many as are
 * looked at.  Never dropped are blocks, counters that have refused a call and
 * would still refuse it, and whatever the call in progress needs.  So a flood
 * of new keys cannot free a key that is being refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "arena.h"

/* buckets looked at for expired entries when a new one comes */
#define SWEEP_BUCKETS			2

/* counters among which the one to drop is chosen, if none has expired */
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
 * Return until when an entry must not be dropped; an instant that has passed
 * means that it may go.
 */
static RlTime
protected_until(RlPartition *partition, const RlEntry *entry)
{
	if (entry->kind == RL_KIND_BLOCK)
		return entry->expires;
	if (entry->flags & RL_ENTRY_REFUSED)
		return Min(rl_get_instant(partition, entry), entry->expires);
	return RL_MIN_TIME;
}

/* Remove the entries of a bucket that have expired.  Return how many. */
static int
sweep_bucket(RlPartition *partition, uint32 bucket, RlTime clock)
{
	int			removed = 0;
	RlEntry    *next;

	for (RlEntry *entry = rl_first_in_bucket(partition, bucket);
		 entry != NULL; entry = next)
	{
		next = rl_next(partition, entry);
		if (entry->expires <= clock && !(entry->flags & RL_ENTRY_PINNED))
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

	partition->hand = bucket + 1 < partition->nbuckets ? bucket + 1 : 0;
	return bucket;
}

/* Remove some entries that have expired, before a new one comes. */
void
rl_sweep(RlPartition *partition, RlTime clock)
{
	for (int i = 0; i < SWEEP_BUCKETS; i++)
		sweep_bucket(partition, advance_hand(partition), clock);
}

/*
 * Remove the next entries that have expired, or else one live counter.  If
 * nothing may go, return false and until when, and remember it.
 */
static bool
evict(RlPartition *partition, RlTime clock, RlTime *until)
{
	RlEntry    *victim = NULL;
	bool		any_pinned = false;
	int			candidates = 0;

	*until = RL_NEVER;
	for (uint32 i = 0; i < partition->nbuckets &&
		 candidates < EVICTION_CANDIDATES; i++)
	{
		uint32		bucket = advance_hand(partition);

		if (sweep_bucket(partition, bucket, clock) > 0)
			return true;

		for (RlEntry *entry = rl_first_in_bucket(partition, bucket);
			 entry != NULL; entry = rl_next(partition, entry))
		{
			RlTime		end = protected_until(partition, entry);

			if (entry->flags & RL_ENTRY_PINNED)
			{
				any_pinned = true;
				continue;
			}
			if (end > clock)
			{
				*until = Min(*until, end);
				continue;
			}
			candidates++;
			if (victim == NULL || less_relevant(entry, victim))
				victim = entry;
		}
	}

	if (victim == NULL)
	{
		/* what this call needs itself may be dropped for the next one */
		if (!any_pinned && *until != RL_NEVER)
			partition->full_until = *until;
		return false;
	}
	rl_remove_entry(partition, victim);
	partition->evictions++;
	return true;
}

/*
 * See to it that a number of chunks is free.  If that cannot be, return false
 * and when to try again, or RL_NEVER.
 */
bool
rl_make_room(RlPartition *partition, int nchunks, RlTime clock, RlTime *until)
{
	*until = RL_NEVER;
	if (nchunks > (int) partition->nchunks)
		return false;

	while ((int) partition->nfree < nchunks)
	{
		*until = partition->full_until;
		if (clock < partition->full_until)
			return false;
		if (!evict(partition, clock, until))
			return false;
	}
	return true;
}
