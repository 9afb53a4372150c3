/*-------------------------------------------------------------------------
 *
 * arena.c
 *	  The shared memory of the memory store: partitions, entries, chunks.
 *
 * See arena.h for the layout and for the rules of locking.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "arena.h"

#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "utils/timestamp.h"

/* A partition: head, buckets, links of the chunks, chunks. */
#define PARTITION_HEAD_BYTES	TYPEALIGN(RL_CHUNK_BYTES, sizeof(RlPartition))
#define ARENA_HEAD_BYTES		TYPEALIGN(RL_CHUNK_BYTES, sizeof(RlArena))

typedef struct RlChunk
{
	int64		words[RL_CHUNK_WORDS];
} RlChunk;

static inline uint32 *
buckets(RlPartition *partition)
{
	return (uint32 *) ((char *) partition + PARTITION_HEAD_BYTES);
}

static inline uint32 *
links(RlPartition *partition)
{
	return buckets(partition) + partition->nbuckets;
}

static inline RlChunk *
chunks(RlPartition *partition)
{
	Size		offset = PARTITION_HEAD_BYTES +
	sizeof(uint32) * ((Size) partition->nbuckets + partition->nchunks);

	return (RlChunk *) ((char *) partition +
						TYPEALIGN(RL_CHUNK_BYTES, offset));
}

static inline RlEntry *
entry_at(RlPartition *partition, uint32 chunk)
{
	return chunk == RL_NO_CHUNK ? NULL :
		(RlEntry *) &chunks(partition)[chunk];
}

/*-------------------------------------------------------------------------
 * Creation and addresses
 *-------------------------------------------------------------------------
 */

static void
init_partition(RlPartition *partition, Size bytes, int tranche)
{
	Size		room = bytes - PARTITION_HEAD_BYTES - RL_CHUNK_BYTES;

	/* an entry takes two chunks at least: one to two entries per bucket */
	partition->nbuckets = pg_prevpower2_32(room / RL_BYTES_PER_CHUNK / 2);
	partition->nchunks = (room - sizeof(uint32) * partition->nbuckets) /
		RL_BYTES_PER_CHUNK;
	partition->free_list = 0;
	partition->nfree = partition->nchunks;
	partition->ncounters = 0;
	partition->nblocks = 0;
	partition->hand = 0;
	partition->evictions = 0;
	partition->refused_full = 0;
	partition->full_until = RL_MIN_TIME;
	partition->changes = 0;

	for (uint32 i = 0; i < partition->nbuckets; i++)
		buckets(partition)[i] = RL_NO_CHUNK;
	for (uint32 i = 0; i < partition->nchunks; i++)
		links(partition)[i] = i + 1;
	links(partition)[partition->nchunks - 1] = RL_NO_CHUNK;

	LWLockInitialize(&partition->lock, tranche);
}

/*
 * Lay out an arena in "bytes" of memory that nobody else sees yet.  The
 * caller fills in the seed.
 */
void
rl_init_arena(RlArena *arena, Size bytes, int tranche, bool preloaded)
{
	Size		room;

	arena->bytes = bytes;
	arena->nstats = Min(bytes / RL_STATS_SHARE / sizeof(RlStats),
						RL_MAX_STATS);
	arena->nstats_used = 0;
	room = bytes - ARENA_HEAD_BYTES - arena->nstats * sizeof(RlStats);
	arena->npartitions = RL_MAX_PARTITIONS;
	while (arena->npartitions > 1 &&
		   bytes / arena->npartitions < RL_MIN_PARTITION_BYTES)
		arena->npartitions /= 2;
	arena->partition_bytes = TYPEALIGN_DOWN(RL_CHUNK_BYTES,
											room / arena->npartitions);
	arena->tranche = tranche;
	arena->preloaded = preloaded;
	arena->set_up_at = GetCurrentTimestamp();
	arena->restored_from = RL_MIN_TIME;
	pg_atomic_init_u64(&arena->saved_at, (uint64) RL_MIN_TIME);

	LWLockInitialize(&arena->stats_lock, tranche);
	for (int i = 0; i < arena->npartitions; i++)
		init_partition(rl_partition(arena, i), arena->partition_bytes,
					   tranche);
}

RlPartition *
rl_partition(RlArena *arena, int number)
{
	return (RlPartition *) ((char *) arena + ARENA_HEAD_BYTES +
							number * arena->partition_bytes);
}

/* The counts lie behind the last partition. */
RlStats *
rl_stats(RlArena *arena, int number)
{
	return (RlStats *) rl_partition(arena, arena->npartitions) + number;
}

/* Return the number of the partition that a key's entries are in. */
int
rl_partition_of(const RlArena *arena, uint64 hash)
{
	return (hash >> 32) & (arena->npartitions - 1);
}

/*-------------------------------------------------------------------------
 * Identities
 *-------------------------------------------------------------------------
 */

/*
 * Return the identity of what is kept for a key of a database.  For a counter
 * the caller fills in the window.
 */
RlIdentity
rl_identity(const RlArena *arena, Oid database, const char *key,
			int key_bytes, uint8 kind)
{
	RlIdentity	identity = {
		.hash = hash_bytes_extended((const unsigned char *) key, key_bytes,
									arena->seed + database),
		.database = database,
		.bytes = key,
		.key_bytes = key_bytes,
		.id_bytes = key_bytes,
		.kind = kind
	};

	return identity;
}

/* Tell whether two identities are those of one counter. */
bool
rl_same_identity(const RlIdentity *a, const RlIdentity *b)
{
	return a->hash == b->hash &&
		a->database == b->database &&
		a->kind == b->kind &&
		a->unit == b->unit &&
		a->window == b->window &&
		a->key_bytes == b->key_bytes &&
		a->id_bytes == b->id_bytes &&
		memcmp(a->bytes, b->bytes, a->id_bytes) == 0;
}

/*-------------------------------------------------------------------------
 * Chunks
 *-------------------------------------------------------------------------
 */

static uint32
take_chunk(RlPartition *partition)
{
	uint32		chunk = partition->free_list;

	Assert(chunk != RL_NO_CHUNK);
	partition->free_list = links(partition)[chunk];
	partition->nfree--;
	links(partition)[chunk] = RL_NO_CHUNK;
	return chunk;
}

static void
give_chunk(RlPartition *partition, uint32 chunk)
{
	links(partition)[chunk] = partition->free_list;
	partition->free_list = chunk;
	partition->nfree++;
	partition->full_until = RL_MIN_TIME;
}

/* Make the tail of an entry longer or shorter, to a number of words. */
static void
resize_tail(RlPartition *partition, RlEntry *entry, int nwords)
{
	int			wanted = (nwords + RL_CHUNK_WORDS - 1) / RL_CHUNK_WORDS;
	uint32	   *link = &entry->tail;

	for (int i = 0; i < Min(wanted, entry->tail_chunks); i++)
		link = &links(partition)[*link];

	for (; entry->tail_chunks < wanted; entry->tail_chunks++)
	{
		*link = take_chunk(partition);
		link = &links(partition)[*link];
	}

	for (; entry->tail_chunks > wanted; entry->tail_chunks--)
	{
		uint32		chunk = *link;

		*link = links(partition)[chunk];
		give_chunk(partition, chunk);
	}
}

/*-------------------------------------------------------------------------
 * Tails
 *-------------------------------------------------------------------------
 */

/* A place in the tail of an entry. */
typedef struct TailCursor
{
	RlPartition *partition;
	uint32		chunk;
	int			offset;			/* in the chunk, in bytes */
} TailCursor;

static TailCursor
tail_cursor(RlPartition *partition, const RlEntry *entry, int first_word)
{
	TailCursor	cursor = {partition, entry->tail,
	(first_word % RL_CHUNK_WORDS) * (int) sizeof(int64)};

	for (int i = first_word / RL_CHUNK_WORDS; i > 0; i--)
		cursor.chunk = links(partition)[cursor.chunk];
	return cursor;
}

/*
 * Return the place of a cursor and how many of the wanted bytes lie there in
 * one piece, and move on behind them.
 */
static char *
next_piece(TailCursor *cursor, int wanted, int *length)
{
	char	   *piece = (char *) &chunks(cursor->partition)[cursor->chunk] +
	cursor->offset;

	*length = Min(wanted, RL_CHUNK_BYTES - cursor->offset);
	if (*length < wanted)
	{
		cursor->chunk = links(cursor->partition)[cursor->chunk];
		cursor->offset = 0;
	}
	return piece;
}

void
rl_read_tail(RlPartition *partition, const RlEntry *entry, int first_word,
			 void *data, int bytes)
{
	TailCursor	cursor = tail_cursor(partition, entry, first_word);
	int			length;

	for (int done = 0; done < bytes; done += length)
	{
		char	   *piece = next_piece(&cursor, bytes - done, &length);

		memcpy((char *) data + done, piece, length);
	}
}

void
rl_write_tail(RlPartition *partition, RlEntry *entry, int first_word,
			  const void *data, int bytes)
{
	TailCursor	cursor = tail_cursor(partition, entry, first_word);
	int			length;

	partition->changes++;
	for (int done = 0; done < bytes; done += length)
	{
		char	   *piece = next_piece(&cursor, bytes - done, &length);

		memcpy(piece, (const char *) data + done, length);
	}
}

/* Compare the first bytes of an entry's identity. */
static bool
identity_starts_with(RlPartition *partition, const RlEntry *entry,
					 const char *data, int bytes)
{
	TailCursor	cursor = tail_cursor(partition, entry, RL_TAIL_IDENTITY);
	int			length;

	for (int done = 0; done < bytes; done += length)
	{
		char	   *piece = next_piece(&cursor, bytes - done, &length);

		if (memcmp(piece, data + done, length) != 0)
			return false;
	}
	return true;
}

/* Return how many words a tail with such an identity and state has. */
static int
tail_words(int id_bytes, int state_words)
{
	return RL_TAIL_IDENTITY + rl_words(id_bytes) + state_words;
}

/* Replace the state of an entry.  There must be enough free chunks. */
void
rl_set_state(RlPartition *partition, RlEntry *entry, const int64 *words,
			 int nwords)
{
	resize_tail(partition, entry, tail_words(entry->id_bytes, nwords));
	entry->state_words = nwords;
	rl_write_tail(partition, entry, tail_words(entry->id_bytes, 0), words,
				  nwords * (int) sizeof(int64));
}

/* Copy the state of an entry, which has entry->state_words. */
void
rl_get_state(RlPartition *partition, const RlEntry *entry, int64 *words)
{
	rl_read_tail(partition, entry, tail_words(entry->id_bytes, 0), words,
				 entry->state_words * (int) sizeof(int64));
}

/* Return how many chunks an entry with such an identity and state takes. */
int
rl_chunks_needed(int id_bytes, int state_words)
{
	return 1 + (tail_words(id_bytes, state_words) + RL_CHUNK_WORDS - 1) /
		RL_CHUNK_WORDS;
}

/*-------------------------------------------------------------------------
 * Entries
 *-------------------------------------------------------------------------
 */

/* Return the number of a bucket; the tag is enough of the hash for it. */
static uint32
bucket_number(const RlPartition *partition, uint32 tag)
{
	return tag & (partition->nbuckets - 1);
}

static uint32 *
bucket_of(RlPartition *partition, uint64 hash)
{
	return &buckets(partition)[bucket_number(partition, (uint32) hash)];
}

/*
 * The tag is made of the half of the hash that also says the bucket, lest the
 * number of the partition be part of it.
 */
static bool
has_key(RlPartition *partition, const RlEntry *entry,
		const RlIdentity *identity)
{
	return entry->tag == (uint32) identity->hash &&
		entry->database == identity->database &&
		entry->key_bytes == identity->key_bytes &&
		identity_starts_with(partition, entry, identity->bytes,
							 identity->key_bytes);
}

/* Compare the rest of the identity of an entry that has the key. */
static bool
has_identity(RlPartition *partition, const RlEntry *entry,
			 const RlIdentity *identity)
{
	return entry->kind == identity->kind &&
		entry->unit == identity->unit &&
		entry->window == identity->window &&
		entry->id_bytes == identity->id_bytes &&
		(identity->id_bytes == identity->key_bytes ||
		 identity_starts_with(partition, entry, identity->bytes,
							  identity->id_bytes));
}

/*
 * Find the entry with an identity and the block of its key, NULL where there
 * is none.  To look for a block alone, give it as the identity.
 */
void
rl_lookup(RlPartition *partition, const RlIdentity *identity,
		  RlEntry **counter, RlEntry **block)
{
	*counter = NULL;
	*block = NULL;
	for (RlEntry *entry = rl_first_of_hash(partition, identity->hash);
		 entry != NULL; entry = rl_next(partition, entry))
	{
		if (!has_key(partition, entry, identity))
			continue;
		if (entry->kind == RL_KIND_BLOCK)
			*block = entry;
		else if (has_identity(partition, entry, identity))
			*counter = entry;
	}
}

/* Tell whether an entry is a counter of the key of an identity. */
bool
rl_is_counter_of(RlPartition *partition, const RlEntry *entry,
				 const RlIdentity *identity)
{
	return entry->kind != RL_KIND_BLOCK &&
		has_key(partition, entry, identity);
}

/* Tell whether the key of an entry starts with some bytes. */
bool
rl_key_starts_with(RlPartition *partition, const RlEntry *entry,
				   const char *prefix, int bytes)
{
	return entry->key_bytes >= bytes &&
		identity_starts_with(partition, entry, prefix, bytes);
}

/*
 * Add an entry with an empty state.  There must be rl_chunks_needed() free
 * chunks.
 */
RlEntry *
rl_add_entry(RlPartition *partition, const RlIdentity *identity)
{
	uint32	   *bucket = bucket_of(partition, identity->hash);
	uint32		chunk = take_chunk(partition);
	RlEntry    *entry = entry_at(partition, chunk);

	memset(entry, 0, sizeof(RlEntry));
	entry->tag = (uint32) identity->hash;
	entry->database = identity->database;
	entry->key_bytes = identity->key_bytes;
	entry->id_bytes = identity->id_bytes;
	entry->kind = identity->kind;
	entry->unit = identity->unit;
	entry->window = identity->window;
	entry->tail = RL_NO_CHUNK;
	resize_tail(partition, entry, tail_words(entry->id_bytes, 0));
	rl_set_instant(partition, entry, RL_MIN_TIME);
	rl_write_tail(partition, entry, RL_TAIL_IDENTITY, identity->bytes,
				  identity->id_bytes);

	entry->next = *bucket;
	*bucket = chunk;
	if (entry->kind == RL_KIND_BLOCK)
		partition->nblocks++;
	else
		partition->ncounters++;
	return entry;
}

void
rl_remove_entry(RlPartition *partition, RlEntry *entry)
{
	uint32	   *link = bucket_of(partition, entry->tag);
	uint32		chunk;

	partition->changes++;
	while (entry_at(partition, *link) != entry)
		link = &entry_at(partition, *link)->next;

	if (entry->kind == RL_KIND_BLOCK)
		partition->nblocks--;
	else
		partition->ncounters--;

	resize_tail(partition, entry, 0);
	chunk = *link;
	*link = entry->next;
	give_chunk(partition, chunk);
}

/* Return the first entry among which those with a hash are, or NULL. */
RlEntry *
rl_first_of_hash(RlPartition *partition, uint64 hash)
{
	return entry_at(partition, *bucket_of(partition, hash));
}

/* Return the first entry of the buckets from one on, or NULL. */
static RlEntry *
first_from(RlPartition *partition, uint32 bucket)
{
	for (; bucket < partition->nbuckets; bucket++)
	{
		RlEntry    *entry = rl_first_in_bucket(partition, bucket);

		if (entry != NULL)
			return entry;
	}
	return NULL;
}

/* Return the first of all entries of a partition, or NULL. */
RlEntry *
rl_first_entry(RlPartition *partition)
{
	return first_from(partition, 0);
}

/* Return the one after it, or NULL. */
RlEntry *
rl_next_entry(RlPartition *partition, const RlEntry *entry)
{
	RlEntry    *next = rl_next(partition, entry);

	return next != NULL ? next :
		first_from(partition, bucket_number(partition, entry->tag) + 1);
}

/* Return the first entry of a bucket, or NULL. */
RlEntry *
rl_first_in_bucket(RlPartition *partition, uint32 bucket)
{
	return entry_at(partition, buckets(partition)[bucket]);
}

RlEntry *
rl_next(RlPartition *partition, const RlEntry *entry)
{
	return entry_at(partition, entry->next);
}
