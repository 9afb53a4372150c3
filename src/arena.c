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
#include "utils/timestamp.h"

#define PARTITION_HEAD_BYTES	TYPEALIGN(RL_CHUNK_BYTES, sizeof(RlPartition))
#define ARENA_HEAD_BYTES		TYPEALIGN(RL_CHUNK_BYTES, sizeof(RlArena))

/* buckets of an empty partition; a power of two */
#define FIRST_BUCKETS			64

/* Any chunk of an entry but the first; of one that is free, only the link. */
typedef struct RlChunk
{
	uint32		next;
	int64		words[RL_CHUNK_WORDS];
} RlChunk;

StaticAssertDecl(sizeof(RlChunk) == RL_CHUNK_BYTES,
				 "words and link must fill a chunk");

static inline uint32 *
bucket_at(RlPartition *partition, uint32 number)
{
	return (uint32 *) partition - 1 - number;
}

static inline RlChunk *
chunk_at(RlPartition *partition, uint32 number)
{
	return (RlChunk *) ((char *) partition + PARTITION_HEAD_BYTES) + number;
}

static inline RlEntry *
entry_at(RlPartition *partition, uint32 chunk)
{
	return chunk == RL_NO_CHUNK ? NULL :
		(RlEntry *) chunk_at(partition, chunk);
}

/*-------------------------------------------------------------------------
 * Creation and addresses
 *-------------------------------------------------------------------------
 */

/* Make all chunks fresh, and have as few buckets as at the beginning. */
static void
clear_partition(RlPartition *partition)
{
	partition->nbuckets = FIRST_BUCKETS;
	partition->bucket_mask = FIRST_BUCKETS - 1;
	partition->nfresh = partition->nchunks;
	partition->free_list = RL_NO_CHUNK;
	partition->hand = 0;
	for (uint32 i = 0; i < partition->nbuckets; i++)
		*bucket_at(partition, i) = RL_NO_CHUNK;
}

static void
init_partition(RlPartition *partition, uint32 nchunks, int tranche)
{
	memset(partition, 0, sizeof(RlPartition));
	Assert(nchunks >= FIRST_BUCKETS);
	partition->nchunks = nchunks;
	partition->nfree = nchunks;
	partition->full_until = RL_MIN_TIME;
	clear_partition(partition);
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
	Size		nchunks;

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
	nchunks = (arena->partition_bytes - PARTITION_HEAD_BYTES - RL_CHUNK_BYTES) /
		RL_BYTES_PER_CHUNK;
	arena->bucket_bytes = TYPEALIGN(RL_CHUNK_BYTES, nchunks * sizeof(uint32));
	arena->tranche = tranche;
	arena->preloaded = preloaded;
	arena->set_up_at = GetCurrentTimestamp();
	arena->restored_from = RL_MIN_TIME;
	pg_atomic_init_u64(&arena->saved_at, (uint64) RL_MIN_TIME);

	LWLockInitialize(&arena->stats_lock, tranche);
	for (int i = 0; i < arena->npartitions; i++)
		init_partition(rl_partition(arena, i), nchunks, tranche);
}

/* Return where the memory of a partition begins. */
static char *
partition_start(RlArena *arena, int number)
{
	return (char *) arena + ARENA_HEAD_BYTES +
		number * arena->partition_bytes;
}

RlPartition *
rl_partition(RlArena *arena, int number)
{
	return (RlPartition *) (partition_start(arena, number) +
							arena->bucket_bytes);
}

/* Return how much room rl_copy_partition() needs. */
Size
rl_copy_bytes(const RlArena *arena)
{
	return arena->partition_bytes + RL_CHUNK_BYTES;
}

/* Copy what is in use of a partition, and return the copy. */
RlPartition *
rl_copy_partition(const RlArena *arena, const RlPartition *partition,
				  void *room)
{
	RlPartition *copy = (RlPartition *)
	((char *) TYPEALIGN(RL_CHUNK_BYTES, room) + arena->bucket_bytes);
	Size		below = partition->nbuckets * sizeof(uint32);
	Size		above = PARTITION_HEAD_BYTES + RL_CHUNK_BYTES *
	(Size) (partition->nchunks - partition->nfresh);

	memcpy((char *) copy - below, (const char *) partition - below,
		   below + above);
	return copy;
}

/* The counts lie behind the last partition. */
RlStats *
rl_stats(RlArena *arena, int number)
{
	return (RlStats *) partition_start(arena, arena->npartitions) + number;
}

/* Return the partition that a key's entries are in. */
RlPartition *
rl_partition_of(RlArena *arena, uint64 hash)
{
	return rl_partition(arena, (hash >> 32) & (arena->npartitions - 1));
}

/*-------------------------------------------------------------------------
 * Identities
 *-------------------------------------------------------------------------
 */

/*
 * Set the identity of what is kept for a key of a database.  For a counter the
 * caller fills in the window.
 */
void
rl_set_identity(RlIdentity *identity, const RlArena *arena, Oid database,
				const char *key, int key_bytes, uint8 kind)
{
	identity->hash = hash_bytes_extended((const unsigned char *) key,
										 key_bytes, arena->seed + database);
	identity->database = database;
	identity->bytes = key;
	identity->key_bytes = key_bytes;
	identity->id_bytes = key_bytes;
	identity->kind = kind;
	identity->unit = 0;
	identity->window = 0;
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

/* Return how many chunks a tail of so many words takes after the first one. */
static int
tail_chunks(int nwords)
{
	return nwords <= RL_HEAD_WORDS ? 0 :
		(nwords - RL_HEAD_WORDS + RL_CHUNK_WORDS - 1) / RL_CHUNK_WORDS;
}

static uint32
take_chunk(RlPartition *partition)
{
	uint32		chunk = partition->free_list;

	Assert(partition->nfree > 0);
	if (chunk != RL_NO_CHUNK)
		partition->free_list = chunk_at(partition, chunk)->next;
	else
		chunk = partition->nchunks - partition->nfresh--;
	partition->nfree--;
	return chunk;
}

static void
give_chunk(RlPartition *partition, uint32 chunk)
{
	chunk_at(partition, chunk)->next = partition->free_list;
	partition->free_list = chunk;
	partition->nfree++;
	partition->full_until = RL_MIN_TIME;
}

/* Give the last chunks of an entry back, or take some, to have a number. */
static void
resize_tail(RlPartition *partition, RlEntry *entry, int wanted)
{
	uint32	   *link = &entry->tail;

	for (int i = 0; i < Min(wanted, entry->tail_chunks); i++)
		link = &chunk_at(partition, *link)->next;

	for (; entry->tail_chunks < wanted; entry->tail_chunks++)
	{
		*link = take_chunk(partition);
		link = &chunk_at(partition, *link)->next;
	}

	for (; entry->tail_chunks > wanted; entry->tail_chunks--)
	{
		uint32		chunk = *link;

		*link = chunk_at(partition, chunk)->next;
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
	char	   *place;
	int			left;			/* bytes until the end of the chunk */
	const uint32 *link;			/* to the next one */
} TailCursor;

static inline void
next_chunk(TailCursor *cursor)
{
	RlChunk    *chunk = chunk_at(cursor->partition, *cursor->link);

	cursor->place = (char *) chunk->words;
	cursor->left = sizeof(chunk->words);
	cursor->link = &chunk->next;
}

static inline TailCursor
tail_cursor(RlPartition *partition, const RlEntry *entry, int first_word)
{
	TailCursor	cursor = {partition, (char *) entry->words,
	sizeof(entry->words), &entry->tail};
	int			skip = first_word * (int) sizeof(int64);

	while (skip > 0 && skip >= cursor.left)
	{
		skip -= cursor.left;
		next_chunk(&cursor);
	}
	cursor.place += skip;
	cursor.left -= skip;
	return cursor;
}

/*
 * Return the place of a cursor and how many of the wanted bytes lie there in
 * one piece, and move on behind them.
 */
static inline char *
next_piece(TailCursor *cursor, int wanted, int *length)
{
	char	   *piece = cursor->place;

	*length = Min(wanted, cursor->left);
	if (*length < wanted)
		next_chunk(cursor);
	return piece;
}

/* Tell whether a part of a tail lies in the first chunk of its entry. */
static inline bool
is_in_head(int first_word, int bytes)
{
	return first_word * (int) sizeof(int64) + bytes <=
		RL_HEAD_WORDS * (int) sizeof(int64);
}

void
rl_read_tail(RlPartition *partition, const RlEntry *entry, int first_word,
			 void *data, int bytes)
{
	TailCursor	cursor;
	int			length;

	if (is_in_head(first_word, bytes))
	{
		memcpy(data, &entry->words[first_word], bytes);
		return;
	}

	cursor = tail_cursor(partition, entry, first_word);
	for (int done = 0; done < bytes; done += length)
	{
		char	   *piece = next_piece(&cursor, bytes - done, &length);

		memcpy((char *) data + done, piece, length);
	}
}

/*
 * Write to a tail.  Chunks in which nothing changes are left alone, so that other
 * processors can keep them: of a long log most often only the end does.
 */
void
rl_write_tail(RlPartition *partition, RlEntry *entry, int first_word,
			  const void *data, int bytes)
{
	TailCursor	cursor;
	int			length;

	partition->changes++;
	if (is_in_head(first_word, bytes))
	{
		memcpy(&entry->words[first_word], data, bytes);
		return;
	}

	cursor = tail_cursor(partition, entry, first_word);
	for (int done = 0; done < bytes; done += length)
	{
		char	   *piece = next_piece(&cursor, bytes - done, &length);

		if (memcmp(piece, (const char *) data + done, length) != 0)
			memcpy(piece, (const char *) data + done, length);
	}
}

/* Compare the first bytes of an entry's identity. */
static bool
identity_starts_with(RlPartition *partition, const RlEntry *entry,
					 const char *data, int bytes)
{
	TailCursor	cursor;
	int			length;

	if (is_in_head(RL_TAIL_IDENTITY, bytes))
		return memcmp(&entry->words[RL_TAIL_IDENTITY], data, bytes) == 0;

	cursor = tail_cursor(partition, entry, RL_TAIL_IDENTITY);
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
	int			first_word = tail_words(entry->id_bytes, 0);
	int			nchunks = tail_chunks(first_word + nwords);

	if (nchunks != entry->tail_chunks)
		resize_tail(partition, entry, nchunks);
	entry->state_words = nwords;
	rl_write_tail(partition, entry, first_word, words,
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
	return 1 + tail_chunks(tail_words(id_bytes, state_words));
}

/*-------------------------------------------------------------------------
 * Entries
 *-------------------------------------------------------------------------
 */

/* Return the number of a bucket; the tag is enough of the hash for it. */
static inline uint32
bucket_number(const RlPartition *partition, uint32 tag)
{
	uint32		number = tag & partition->bucket_mask;

	return number < partition->nbuckets ? number :
		number & (partition->bucket_mask >> 1);
}

static inline uint32 *
bucket_of(RlPartition *partition, uint32 tag)
{
	return bucket_at(partition, bucket_number(partition, tag));
}

/*
 * Add a bucket, with what belongs there of the one that had it so far: linear
 * hashing, by W. Litwin, "Linear hashing: a new tool for file and table
 * addressing", 1980.
 */
static void
add_bucket(RlPartition *partition)
{
	uint32		number = partition->nbuckets++;
	uint32	   *link;

	if (number > partition->bucket_mask)
		partition->bucket_mask = 2 * partition->bucket_mask + 1;
	link = bucket_at(partition, number & (partition->bucket_mask >> 1));
	*bucket_at(partition, number) = RL_NO_CHUNK;

	while (*link != RL_NO_CHUNK)
	{
		uint32		chunk = *link;
		RlEntry    *entry = entry_at(partition, chunk);

		if (bucket_number(partition, entry->tag) != number)
		{
			link = &entry->next;
			continue;
		}
		*link = entry->next;
		entry->next = *bucket_at(partition, number);
		*bucket_at(partition, number) = chunk;
	}
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
		{
			*counter = entry;
			if (partition->nblocks == 0)
				break;
		}
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
	uint32		chunk = take_chunk(partition);
	RlEntry    *entry = entry_at(partition, chunk);
	uint32	   *bucket;

	memset(entry, 0, sizeof(RlEntry));
	entry->tag = (uint32) identity->hash;
	entry->database = identity->database;
	entry->key_bytes = identity->key_bytes;
	entry->id_bytes = identity->id_bytes;
	entry->kind = identity->kind;
	entry->unit = identity->unit;
	entry->window = identity->window;
	entry->tail = RL_NO_CHUNK;
	resize_tail(partition, entry, tail_chunks(tail_words(entry->id_bytes, 0)));
	rl_set_instant(partition, entry, RL_MIN_TIME);
	rl_write_tail(partition, entry, RL_TAIL_IDENTITY, identity->bytes,
				  identity->id_bytes);

	bucket = bucket_of(partition, entry->tag);
	entry->next = *bucket;
	*bucket = chunk;
	if (entry->kind == RL_KIND_BLOCK)
		partition->nblocks++;
	else
		partition->ncounters++;
	if (2 * (partition->ncounters + partition->nblocks) > partition->nbuckets &&
		partition->nbuckets < partition->nchunks)
		add_bucket(partition);
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
	if (partition->nfree == partition->nchunks)
		clear_partition(partition);
}

/* Return the first entry among which those with a hash are, or NULL. */
RlEntry *
rl_first_of_hash(RlPartition *partition, uint64 hash)
{
	return entry_at(partition, *bucket_of(partition, (uint32) hash));
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
	return entry_at(partition, *bucket_at(partition, bucket));
}

RlEntry *
rl_next(RlPartition *partition, const RlEntry *entry)
{
	return entry_at(partition, entry->next);
}
