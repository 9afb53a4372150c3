/*-------------------------------------------------------------------------
 *
 * memory_admin.c
 *	  The memory store: removing counters, blocking keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memory.h"

#include "save.h"
#include "shmem.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

/* Return the partition of a key, and what its block is called. */
static RlPartition *
locate(RlBytes key, RlIdentity *identity)
{
	RlArena    *arena = rl_get_arena();

	rl_set_identity(identity, arena, MyDatabaseId, key.data, key.length,
					RL_KIND_BLOCK);
	return rl_partition_of(arena, identity->hash);
}

/* Remove a counter and return 1, or 0 if it meant nothing any more. */
static int
remove_counter(RlPartition *partition, RlEntry *counter, RlTime now)
{
	int			live = counter->expires > now ? 1 : 0;

	rl_remove_entry(partition, counter);
	return live;
}

/* Remove the counters of a key, and return how many there were. */
int64
rl_memory_reset(RlBytes key)
{
	RlIdentity	identity;
	RlPartition *partition = locate(key, &identity);
	RlTime		now = GetCurrentTimestamp();
	int64		removed = 0;
	RlEntry    *next;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	for (RlEntry *entry = rl_first_of_hash(partition, identity.hash);
		 entry != NULL; entry = next)
	{
		next = rl_next(partition, entry);
		if (rl_is_counter_of(partition, entry, &identity))
			removed += remove_counter(partition, entry, now);
	}
	LWLockRelease(&partition->lock);
	return removed;
}

/*
 * Remove the counters of a database whose keys start with a prefix, and its
 * blocks if they are to go, too.  Return how many counters meant something.
 */
static int64
remove_from_partition(RlPartition *partition, Oid database, RlBytes prefix,
					  bool blocks_too)
{
	RlTime		now = GetCurrentTimestamp();
	int64		removed = 0;
	RlEntry    *next;

	for (RlEntry *entry = rl_first_entry(partition); entry != NULL;
		 entry = next)
	{
		next = rl_next_entry(partition, entry);
		if (entry->database != database ||
			!rl_key_starts_with(partition, entry, prefix.data, prefix.length))
			continue;
		if (entry->kind != RL_KIND_BLOCK)
			removed += remove_counter(partition, entry, now);
		else if (blocks_too)
			rl_remove_entry(partition, entry);
	}
	return removed;
}

/* The same, one partition of the arena at a time. */
static int64
remove_entries(RlArena *arena, Oid database, RlBytes prefix, bool blocks_too)
{
	int64		removed = 0;

	for (int i = 0; i < arena->npartitions; i++)
	{
		RlPartition *partition = rl_partition(arena, i);

		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
		removed += remove_from_partition(partition, database, prefix,
										 blocks_too);
		LWLockRelease(&partition->lock);
	}
	return removed;
}

/* Remove the counters of all keys with a prefix. */
int64
rl_memory_reset_prefix(RlBytes prefix)
{
	return remove_entries(rl_get_arena(), MyDatabaseId, prefix, false);
}

/*
 * Tell whether there is anything to forget: what is saved is in memory once that
 * is set up.
 */
bool
rl_memory_remembers(void)
{
	return rl_find_arena() != NULL || (rl_is_saved() && rl_get_arena() != NULL);
}

/* Forget all counters and blocks of a database, and the counts of its rules. */
void
rl_memory_forget_database(Oid database)
{
	const RlBytes every_key = {"", 0};

	if (!rl_memory_remembers())
		return;
	remove_entries(rl_get_arena(), database, every_key, true);
	rl_forget_stats(rl_get_arena(), database);
}

/* Put a block into its partition, or return false if there is no room. */
static bool
block_locked(RlPartition *partition, const RlIdentity *identity, RlTime now,
			 RlTime end, const int64 *words, int nwords, bool replace)
{
	int			nchunks = rl_chunks_needed(identity->id_bytes, nwords);
	RlTime		until;
	RlEntry    *counter;
	RlEntry    *block;

	rl_lookup(partition, identity, &counter, &block);
	if (block != NULL && block->expires > now && !replace)
		return true;
	if (block != NULL && block->expires > now)
		nchunks -= 1 + block->tail_chunks;
	else if (block != NULL)
	{
		rl_remove_entry(partition, block);
		block = NULL;
	}
	if (!rl_make_room(partition, nchunks, now, &until))
		return false;

	if (block != NULL)
		rl_remove_entry(partition, block);
	block = rl_add_entry(partition, identity);
	rl_set_state(partition, block, words, nwords);
	rl_set_instant(partition, block, now);
	block->expires = end;
	block->last_use = now;
	return true;
}

/*
 * Block a key until "end", in place of the block that it may have, or only if
 * it has none.  Return false if there is no room.  The state of a block is the
 * length of the reason and its bytes.
 */
bool
rl_memory_block(RlBytes key, RlTime now, RlTime end, RlBytes reason,
				bool replace)
{
	int64		words[1 + RL_MAX_REASON_BYTES / sizeof(int64)] = {reason.length};
	RlIdentity	identity;
	RlPartition *partition = locate(key, &identity);
	bool		done;

	/* lets it be forgotten with its database */
	rl_ad_hoc_stats();
	if (reason.length > 0)
		memcpy(&words[1], reason.data, reason.length);

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	done = block_locked(partition, &identity, now, end, words,
						1 + rl_words(reason.length), replace);
	LWLockRelease(&partition->lock);
	return done;
}

/* Lift the block of a key.  Return false if it was not blocked. */
bool
rl_memory_unblock(RlBytes key)
{
	RlIdentity	identity;
	RlPartition *partition = locate(key, &identity);
	RlEntry    *counter;
	RlEntry    *block;
	bool		blocked = false;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	rl_lookup(partition, &identity, &counter, &block);
	if (block != NULL)
	{
		blocked = block->expires > GetCurrentTimestamp();
		rl_remove_entry(partition, block);
	}
	LWLockRelease(&partition->lock);
	return blocked;
}

/* Return until when a key is blocked, RL_MIN_TIME if it is not. */
RlTime
rl_memory_block_end(RlBytes key)
{
	RlIdentity	identity;
	RlPartition *partition;
	RlTime		end = RL_MIN_TIME;
	RlEntry    *counter;
	RlEntry    *block;

	partition = locate(key, &identity);
	LWLockAcquire(&partition->lock, LW_SHARED);
	rl_lookup(partition, &identity, &counter, &block);
	if (block != NULL)
		end = block->expires;
	LWLockRelease(&partition->lock);
	return end;
}

/* Count a call of another store that the block of its key has refused. */
void
rl_memory_count_blocked(RlBytes key)
{
	RlIdentity	identity;
	RlPartition *partition = locate(key, &identity);
	RlEntry    *counter;
	RlEntry    *block;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	rl_lookup(partition, &identity, &counter, &block);
	if (block != NULL && block->refusals < PG_UINT32_MAX)
	{
		partition->changes++;
		block->refusals++;
	}
	LWLockRelease(&partition->lock);
}
