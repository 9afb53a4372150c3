/*-------------------------------------------------------------------------
 *
 * saved_file.c
 *	  The file in which the counters and blocks of the memory store survive.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "saved_file.h"

#include "datatype/timestamp.h"

/* "rlsaved" and the order of bytes */
#define MAGIC					UINT64CONST(0x0164657661736C72)

typedef struct Head
{
	uint64		magic;
	uint32		version;
	uint32		entry_bytes;
	uint64		system;			/* identifier of the server's data directory */
	RlTime		saved_at;
} Head;

typedef struct Tail
{
	uint64		nentries;
	uint64		crc;
} Tail;

/*-------------------------------------------------------------------------
 * Writing
 *-------------------------------------------------------------------------
 */

/* Errors stay with the file until the end. */
static void
put(RlSavedFile *saved, const void *data, Size bytes)
{
	COMP_CRC32C(saved->crc, data, bytes);
	if (fwrite(data, 1, bytes, saved->file) != bytes)
		saved->problem = "It could not be written.";
}

void
rl_begin_file(RlSavedFile *saved, FILE *file, uint64 system, RlTime now)
{
	Head		head = {MAGIC, RL_FILE_VERSION, sizeof(RlSavedEntry), system, now};

	memset(saved, 0, sizeof(RlSavedFile));
	saved->file = file;
	INIT_CRC32C(saved->crc);
	put(saved, &head, sizeof(head));
}

void
rl_put_entry(RlSavedFile *saved, const RlSavedEntry *entry,
			 const char *identity, const int64 *words)
{
	put(saved, entry, sizeof(RlSavedEntry));
	put(saved, identity, entry->id_bytes);
	put(saved, words, entry->state_words * sizeof(int64));
	saved->nentries++;
}

/* Write the tail.  Return false if anything could not be written; see errno. */
bool
rl_end_file(RlSavedFile *saved)
{
	Tail		tail = {saved->nentries, 0};

	COMP_CRC32C(saved->crc, &tail.nentries, sizeof(tail.nentries));
	FIN_CRC32C(saved->crc);
	tail.crc = saved->crc;
	return fwrite(&tail, sizeof(tail), 1, saved->file) == 1 &&
		saved->problem == NULL && fflush(saved->file) == 0;
}

/*-------------------------------------------------------------------------
 * Reading
 *-------------------------------------------------------------------------
 */

static bool
fail(RlSavedFile *saved, const char *problem)
{
	saved->problem = problem;
	return false;
}

static bool
get(RlSavedFile *saved, void *data, Size bytes)
{
	if (bytes > saved->bytes_left)
		return fail(saved, "It is cut off.");
	if (fread(data, 1, bytes, saved->file) != bytes)
		return fail(saved, "It could not be read.");
	COMP_CRC32C(saved->crc, data, bytes);
	saved->bytes_left -= bytes;
	return true;
}

/* Begin to read a file from its start. */
bool
rl_open_file(RlSavedFile *saved, FILE *file, uint64 system)
{
	off_t		size;
	Head		head;

	memset(saved, 0, sizeof(RlSavedFile));
	saved->file = file;
	INIT_CRC32C(saved->crc);
	if (fseeko(file, 0, SEEK_END) != 0)
		return fail(saved, "It could not be read.");
	size = ftello(file);
	rewind(file);
	if (size < (off_t) (sizeof(Head) + sizeof(Tail)))
		return fail(saved, "It is too short.");
	saved->bytes_left = size - sizeof(Tail);

	if (!get(saved, &head, sizeof(head)))
		return false;
	if (head.magic != MAGIC)
		return fail(saved, "It is none of rate_limit, or comes from another kind of machine.");
	if (head.version != RL_FILE_VERSION ||
		head.entry_bytes != sizeof(RlSavedEntry))
		return fail(saved, "It was written by another version of rate_limit.");
	if (head.system != system)
		return fail(saved, "It was written by another server.");
	if (head.saved_at < RL_MIN_TIME || head.saved_at >= END_TIMESTAMP)
		return fail(saved, "Its head is damaged.");
	saved->saved_at = head.saved_at;
	return true;
}

static bool
check_tail(RlSavedFile *saved)
{
	Tail		tail;

	if (fread(&tail, sizeof(tail), 1, saved->file) != 1)
		return fail(saved, "It could not be read.");
	COMP_CRC32C(saved->crc, &tail.nentries, sizeof(tail.nentries));
	FIN_CRC32C(saved->crc);
	if (tail.nentries != saved->nentries || tail.crc != saved->crc)
		return fail(saved, "Its checksum is wrong.");
	return false;
}

/* The sizes say how much has to be read: they come first. */
static bool
sizes_are_good(const RlSavedEntry *entry)
{
	return entry->key_bytes >= 1 && entry->key_bytes <= RL_MAX_KEY_BYTES &&
		entry->id_bytes >= entry->key_bytes &&
		entry->id_bytes <= RL_MAX_IDENTITY_BYTES &&
		entry->state_words <= RL_MAX_ENTRY_WORDS;
}

static bool
window_is_good(const RlSavedEntry *entry)
{
	if (entry->window < 1)
		return false;
	switch (entry->unit)
	{
		case RL_UNIT_USEC:
			return entry->window <= RL_MAX_WINDOW_USECS;
		case RL_UNIT_DAY:
			return entry->kind == RL_FIXED_WINDOW &&
				entry->window <= RL_MAX_WINDOW_DAYS;
		case RL_UNIT_MONTH:
			return entry->kind == RL_FIXED_WINDOW &&
				entry->window <= RL_MAX_WINDOW_MONTHS;
	}
	return false;
}

/* Tell whether after the key there is what RlIdentity says: a calendar has a zone. */
static bool
identity_is_good(const RlSavedCounter *counter)
{
	const RlSavedEntry *entry = &counter->entry;
	const char *rest = counter->identity + entry->key_bytes;

	if (entry->id_bytes == entry->key_bytes)
		return entry->unit == RL_UNIT_USEC;
	return rest[0] == '\0' &&
		(entry->unit == RL_UNIT_USEC ||
		 (entry->id_bytes > entry->key_bytes + 1 && rest[1] != '\0'));
}

static bool
counter_is_good(const RlSavedCounter *counter)
{
	static RlHit hits[RL_MAX_HITS];
	const RlSavedEntry *entry = &counter->entry;
	RlState		state = {.hits = hits};
	RlLimit		limit = {.algorithm = entry->kind};

	if (!window_is_good(entry) || entry->limit < 0 ||
		(entry->flags & ~(RL_ENTRY_REFUSED | RL_ENTRY_REPLAYED)) != 0)
		return false;
	if (!identity_is_good(counter))
		return false;
	limit.window.unit = entry->unit;
	limit.window.length = entry->window;
	return rl_decode_state(&limit, counter->words, entry->state_words,
						   &state);
}

/* The state of a block is the length of the reason and its bytes. */
static bool
block_is_good(const RlSavedCounter *counter)
{
	const RlSavedEntry *entry = &counter->entry;

	return entry->id_bytes == entry->key_bytes && entry->flags == 0 &&
		entry->state_words >= 1 &&
		counter->words[0] >= 0 && counter->words[0] <= RL_MAX_REASON_BYTES &&
		entry->state_words == 1 + rl_words(counter->words[0]);
}

/* Tell whether a number can be an instant of the server's clock. */
static bool
is_clock_time(RlTime time)
{
	return time >= RL_MIN_TIME && time < END_TIMESTAMP;
}

static bool
is_good(const RlSavedCounter *counter)
{
	const RlSavedEntry *entry = &counter->entry;

	if (!OidIsValid(entry->database) || !is_clock_time(entry->last_use) ||
		!(is_clock_time(entry->expires) || entry->expires == RL_NEVER) ||
		!(is_clock_time(entry->instant) || entry->instant == RL_NEVER))
		return false;
	if (entry->kind == RL_KIND_BLOCK)
		return block_is_good(counter);
	return entry->kind < RL_NUM_ALGORITHMS && counter_is_good(counter);
}

/*
 * Read the next entry.  Return false at the end, or when there is a problem;
 * only when the end has come without one, all that was read is good.
 */
bool
rl_get_entry(RlSavedFile *saved, RlSavedCounter *counter)
{
	RlSavedEntry *entry = &counter->entry;

	if (saved->bytes_left == 0)
		return check_tail(saved);
	if (!get(saved, entry, sizeof(RlSavedEntry)))
		return false;
	if (!sizes_are_good(entry))
		return fail(saved, "An entry is damaged.");
	if (!get(saved, counter->identity, entry->id_bytes) ||
		!get(saved, counter->words, entry->state_words * sizeof(int64)))
		return false;
	if (!is_good(counter))
		return fail(saved, "An entry is damaged.");
	saved->nentries++;
	return true;
}
