/*-------------------------------------------------------------------------
 *
 * arena.h
 *	  The shared memory of the memory store: partitions, entries, chunks.
 *
 * The arena is one piece of memory of fixed size.  It holds its head, a number
 * of partitions of equal size, and the counts of stats.h; a key belongs to the
 * partition that its hash says, with all its counters and its block.
 *
 * A partition is a hash table with chains and a pool of chunks of 128 bytes.  An
 * entry takes one chunk for its head (RlEntry) and the first words of its tail,
 * and as many more as it needs, linked, so that memory cannot fragment: what any
 * entry gives back is good for every other.  The tail is a row of 64-bit words:
 * one instant, the bytes of the identity, then the state.
 *
 * What is in use lies close together, since every page costs a process the first
 * time it meets it, and others after that: the buckets lie below the head of the
 * partition and grow downwards one by one with the number of entries (linear
 * hashing), two for each while there is room, since every entry that is passed on
 * the way to another is a cache miss; the chunks lie above it and are taken in
 * order.
 *
 *		... bucket 2 | bucket 1 | bucket 0 | head | chunk 0 | chunk 1 ...
 *
 * There are no pointers in the arena, only indexes within the partition: the
 * memory may lie at different addresses in different processes, and a copy of
 * a partition can be read like the partition.
 *
 * Locks
 * -----
 * RlArena is written once, before anybody can see it, but for saved_at, which is
 * atomic, and nstats_used: that, and which rules the counts belong to, is
 * covered by stats_lock; the numbers are atomic.  The LWLock at the head
 * of a partition covers all the rest of that partition.  Who decides or
 * changes holds it exclusively, who only copies it holds it shared.  A call
 * that needs several partitions locks them in ascending order; no other lock
 * is taken while one is held.
 *
 * While one is held there is no ereport(), no palloc(), no catalog access and
 * no waiting: decide under the lock, copy out, release, then report.  The
 * clock is read under the lock, so that a counter sees the instants of its
 * calls in the order of the calls.
 *
 * Every function below that takes a partition needs its lock, or a private
 * copy of it where nothing is changed.
 *
 * Instants
 * --------
 * A decision may be asked for at any instant.  What an entry's head and the
 * first word of its tail say is in time of the server's clock all the same, so
 * that a replay cannot remove what is live, nor the other way round.  Only
 * states are in time of the decisions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_ARENA_H
#define RL_ARENA_H

#include "algorithm.h"
#include "stats.h"

#include "storage/lwlock.h"

/*
 * Number of partitions.  A call on many keys may have to lock all of them, and
 * a process can hold 200 LWLocks.  Small arenas have fewer, so that every
 * partition has room for some counters of the largest kind.
 */
#define RL_MAX_PARTITIONS		128
#define RL_MIN_PARTITION_BYTES	(64 * 1024)

/* bounds of rate_limit.memory, in kilobytes */
#define RL_MIN_MEMORY_KB		1024
#define RL_DEFAULT_MEMORY_KB	(64 * 1024)
#define RL_MAX_MEMORY_KB		(16 * 1024 * 1024)

/* the longest key and the longest reason of a block, in bytes */
#define RL_MAX_KEY_BYTES		1024
#define RL_MAX_REASON_BYTES		1024

/* the longest name of a time zone, and of a policy or a rule */
#define RL_MAX_ZONE_BYTES		255
#define RL_MAX_NAME_BYTES		(NAMEDATALEN - 1)

/* the longest RlIdentity.bytes, and the longest state or reason with its length */
#define RL_MAX_IDENTITY_BYTES \
	(RL_MAX_KEY_BYTES + 1 + RL_MAX_ZONE_BYTES + 2 * (1 + RL_MAX_NAME_BYTES))
#define RL_MAX_ENTRY_WORDS		(2 * (RL_MAX_EXACT_HITS + 2))

#define RL_CHUNK_BYTES			128
#define RL_NO_CHUNK				PG_UINT32_MAX

/* what a chunk takes of the arena, with its bucket */
#define RL_BYTES_PER_CHUNK		(RL_CHUNK_BYTES + (int) sizeof(uint32))

/* words of a tail in the first chunk of an entry, and in each of the others */
#define RL_HEAD_WORDS			8
#define RL_CHUNK_WORDS			15

/* RlEntry.kind of a blocked key; counters have their RlAlgorithm there */
#define RL_KIND_BLOCK			RL_NUM_ALGORITHMS

/* flags of an entry */
#define RL_ENTRY_PINNED			0x01	/* a call in progress needs it */
#define RL_ENTRY_REFUSED		0x02	/* has refused until its instant */
#define RL_ENTRY_REPLAYED		0x04	/* last written at a given instant */

typedef struct RlEntry
{
	uint32		next;			/* chunk of the next entry of the bucket */
	uint32		tail;			/* second chunk */
	uint32		tag;			/* bits of the hash, to compare first */
	Oid			database;
	uint16		key_bytes;		/* length of the key */
	uint16		id_bytes;		/* of RlIdentity.bytes */
	uint16		state_words;	/* of the state after the identity */
	uint16		tail_chunks;	/* without the first */
	uint8		kind;			/* RlAlgorithm or RL_KIND_BLOCK */
	uint8		unit;			/* RlUnit of the window */
	uint8		fill;			/* used of limit, 0 to 255 */
	uint8		flags;			/* RL_ENTRY_* */
	uint32		refusals;		/* saturated */
	int64		window;			/* length of the window in its unit */
	int64		limit;			/* as last stated */
	RlTime		expires;		/* may be removed then; end of a block */
	RlTime		last_use;
	int64		words[RL_HEAD_WORDS];	/* of the tail */
} RlEntry;

StaticAssertDecl(sizeof(RlEntry) == RL_CHUNK_BYTES,
				 "an entry must begin with one chunk");

/*
 * What an entry is found by.  The bytes are the key, and after a zero byte each
 * the time zone of a calendar window, else nothing, and the names of policy and
 * rule.  What would be empty at the end is left out with its zero byte.
 */
typedef struct RlIdentity
{
	uint64		hash;			/* of database and key */
	Oid			database;
	const char *bytes;
	int			key_bytes;
	int			id_bytes;
	uint8		kind;
	uint8		unit;
	int64		window;
} RlIdentity;

/*
 * The head of a partition.  What most calls write and what they only read are in
 * different cache lines, so that a call can look for its entry while it waits for
 * the lock.
 */
typedef struct RlPartition
{
	LWLock		lock;
	uint32		nfresh;			/* chunks at the end that were never used */
	uint32		free_list;		/* first chunk that was given back */
	uint32		nfree;			/* chunks, fresh ones too */
	uint32		ncounters;
	uint32		nblocks;		/* blocked keys */
	uint32		hand;			/* bucket at which the next sweep starts */
	uint64		changes;		/* of entries, since the arena was set up */
	RlTime		full_until;		/* nothing can be dropped before */

	/* seldom written */
	uint32		nbuckets pg_attribute_aligned(64);	/* in use: 0 to nbuckets -
													 * 1 */
	uint32		bucket_mask;	/* of the hash, at least nbuckets - 1 */
	uint32		nchunks;		/* as many buckets are the most; fixed */
	uint64		evictions;		/* live counters dropped for lack of memory */
	uint64		refused_full;	/* calls refused for lack of memory */
} RlPartition;

typedef struct RlArena
{
	Size		bytes;			/* of all */
	Size		partition_bytes;
	Size		bucket_bytes;	/* of a partition: room for all buckets */
	int			npartitions;	/* power of two */
	int			tranche;		/* of the partitions' locks */
	uint64		seed;			/* secret of the hash */
	LWLock		stats_lock;
	int			nstats;			/* room for counts */
	int			nstats_used;
	pg_atomic_uint64 saved_at;	/* last, RL_MIN_TIME if never */
	RlTime		restored_from;	/* instant of that, RL_MIN_TIME if nothing was */
	bool		preloaded;		/* set up at server start, not on first use */
	RlTime		set_up_at;
} RlArena;

/*
 * Words of a tail: an instant (until when a counter that has refused a call
 * must be kept, or since when a key is blocked), then the identity.
 */
#define RL_TAIL_INSTANT			0
#define RL_TAIL_IDENTITY		1

/* creation and addresses */
extern void rl_init_arena(RlArena *arena, Size bytes, int tranche,
						  bool preloaded);
extern RlPartition *rl_partition(RlArena *arena, int number);
extern Size rl_copy_bytes(const RlArena *arena);
extern RlPartition *rl_copy_partition(const RlArena *arena,
									  const RlPartition *partition,
									  void *room);
extern RlPartition *rl_partition_of(RlArena *arena, uint64 hash);
extern RlStats *rl_stats(RlArena *arena, int number);

/* identities */
extern void rl_set_identity(RlIdentity *identity, const RlArena *arena,
							Oid database, const char *key, int key_bytes,
							uint8 kind);
extern bool rl_same_identity(const RlIdentity *a, const RlIdentity *b);

/* entries */
extern void rl_lookup(RlPartition *partition, const RlIdentity *identity,
					  RlEntry **counter, RlEntry **block);
extern bool rl_is_counter_of(RlPartition *partition, const RlEntry *entry,
							 const RlIdentity *identity);
extern bool rl_key_starts_with(RlPartition *partition, const RlEntry *entry,
							   const char *prefix, int bytes);
extern RlEntry *rl_add_entry(RlPartition *partition,
							 const RlIdentity *identity);
extern void rl_remove_entry(RlPartition *partition, RlEntry *entry);
extern RlEntry *rl_first_of_hash(RlPartition *partition, uint64 hash);
extern RlEntry *rl_first_entry(RlPartition *partition);
extern RlEntry *rl_next_entry(RlPartition *partition, const RlEntry *entry);
extern RlEntry *rl_first_in_bucket(RlPartition *partition, uint32 bucket);
extern RlEntry *rl_next(RlPartition *partition, const RlEntry *entry);

/* tails */
extern int	rl_chunks_needed(int id_bytes, int state_words);
extern void rl_set_state(RlPartition *partition, RlEntry *entry,
						 const int64 *words, int nwords);
extern void rl_get_state(RlPartition *partition, const RlEntry *entry,
						 int64 *words);
extern void rl_read_tail(RlPartition *partition, const RlEntry *entry,
						 int first_word, void *data, int bytes);
extern void rl_write_tail(RlPartition *partition, RlEntry *entry,
						  int first_word, const void *data, int bytes);

/* memory (evict.c) */
extern void rl_sweep(RlPartition *partition, RlTime clock);
extern bool rl_make_room(RlPartition *partition, int nchunks, RlTime clock,
						 RlTime *until);

static inline int
rl_words(int bytes)
{
	return (bytes + (int) sizeof(int64) - 1) / (int) sizeof(int64);
}

static inline RlTime
rl_get_instant(RlPartition *partition, const RlEntry *entry)
{
	RlTime		instant;

	rl_read_tail(partition, entry, RL_TAIL_INSTANT, &instant, sizeof(instant));
	return instant;
}

static inline void
rl_set_instant(RlPartition *partition, RlEntry *entry, RlTime instant)
{
	rl_write_tail(partition, entry, RL_TAIL_INSTANT, &instant,
				  sizeof(instant));
}

#endif							/* RL_ARENA_H */
