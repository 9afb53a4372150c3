/*-------------------------------------------------------------------------
 *
 * saved_counters.c
 *	  Files of saved counters for tests: entries of all kinds.
 *
 *-------------------------------------------------------------------------
 */
#include "saved_counters.h"

#include <stdlib.h>
#include <string.h>

#define KINDS	(RL_NUM_ALGORITHMS + 1)

/* Sliding windows: few hits or many, costs of one or more, the newest rounded. */
static int
make_log(int i, RlState *state)
{
	int			nhits = i % 50 == 0 ? RL_MAX_EXACT_HITS + 1 : 1 + i % 40;

	state->nhits = nhits;
	for (int hit = 0; hit < nhits; hit++)
	{
		state->hits[hit].time = SAVED_AT + hit * RL_USECS_PER_SEC;
		state->hits[hit].cost = i % 3 == 0 ? 1 + hit : 1;
	}
	state->time = state->hits[nhits - 1].time - i % 2;
	return nhits;
}

static void
make_state(int i, RlSavedCounter *counter)
{
	static RlHit hits[RL_MAX_HITS];
	RlState		state = {
		.active = true,
		.time = SAVED_AT - i,
		.end = SAVED_AT + RL_USECS_PER_DAY,
		.used = 1 + i,
		.capacity = 10 + i,
		.level = (int128) (i - 100) * PG_INT64_MAX,
		.hits = hits
	};
	RlLimit		limit = {.algorithm = counter->entry.kind};

	if (limit.algorithm == RL_SLIDING_WINDOW)
		make_log(i, &state);
	counter->entry.state_words = rl_encode_state(&limit, &state, counter->words);
}

static void
make_reason(int i, RlSavedCounter *counter)
{
	int			length = i * 13 % (RL_MAX_REASON_BYTES + 1);

	counter->words[0] = length;
	memset(&counter->words[1], 'r', length);
	counter->entry.state_words = 1 + rl_words(length);
}

static void
make_identity(int i, RlSavedCounter *counter)
{
	int			length = 1 + i * 37 % RL_MAX_KEY_BYTES;

	memset(counter->identity, 'a' + i % 26, length);
	counter->entry.key_bytes = counter->entry.id_bytes = length;
	if (counter->entry.unit != RL_UNIT_USEC ||
		(counter->entry.kind != RL_KIND_BLOCK && i % 4 == 3))
	{
		/* a time zone, a policy and a rule */
		memcpy(counter->identity + length, "\0Asia/Kolkata\0api\0daily", 23);
		counter->entry.id_bytes += 23;
	}
}

static void
make_window(int i, RlSavedEntry *entry)
{
	static const int64 longest[] = {
		RL_MAX_WINDOW_USECS, RL_MAX_WINDOW_DAYS, RL_MAX_WINDOW_MONTHS
	};

	entry->unit = entry->kind == RL_FIXED_WINDOW ? i % 3 : RL_UNIT_USEC;
	entry->window = i % 7 == 0 ? longest[entry->unit] : 1 + i;
}

void
make_saved_counter(int i, RlSavedCounter *counter)
{
	RlSavedEntry *entry = &counter->entry;

	memset(counter, 0, sizeof(RlSavedCounter));
	entry->database = 5 + i % 3;
	entry->kind = i % KINDS;
	entry->expires = SAVED_AT + i;
	entry->last_use = SAVED_AT - i;
	entry->instant = i % 2 == 0 ? RL_MIN_TIME : SAVED_AT;
	entry->refusals = i * 1000;
	if (entry->kind != RL_KIND_BLOCK)
		make_window(i, entry);
	make_identity(i, counter);
	if (entry->kind == RL_KIND_BLOCK)
	{
		make_reason(i, counter);
		return;
	}
	entry->fill = i % 256;
	entry->flags = i % 2 == 0 ? 0 : RL_ENTRY_REFUSED | RL_ENTRY_REPLAYED;
	entry->limit = i;
	make_state(i, counter);
}

void
make_saved_file(int n, SavedBytes *bytes)
{
	static RlSavedCounter counter;
	size_t		length;
	FILE	   *file = open_memstream(&bytes->data, &length);
	RlSavedFile saved;

	rl_begin_file(&saved, file, SAVED_SYSTEM, SAVED_AT);
	for (int i = 0; i < n; i++)
	{
		make_saved_counter(i, &counter);
		rl_put_entry(&saved, &counter.entry, counter.identity, counter.words);
	}
	expect_true("written", rl_end_file(&saved));
	fclose(file);
	bytes->length = length;
}

/* Return how many entries follow each other up to the end, as their sizes say. */
static uint64
count_entries(const SavedBytes *bytes, int first, int end)
{
	RlSavedEntry entry;
	uint64		n = 0;

	for (int at = first; at + (int) sizeof(entry) <= end; n++)
	{
		memcpy(&entry, bytes->data + at, sizeof(entry));
		at += sizeof(entry) + entry.id_bytes +
			entry.state_words * sizeof(int64);
	}
	return n;
}

void
sign_saved_file(SavedBytes *bytes)
{
	struct
	{
		uint64		nentries;
		uint64		crc;
	}			tail;
	int			end = bytes->length - (int) sizeof(tail);
	pg_crc32c	crc;

	if (end < 32)
		return;
	tail.nentries = count_entries(bytes, 32, end);
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, bytes->data, end);
	COMP_CRC32C(crc, &tail.nentries, sizeof(tail.nentries));
	FIN_CRC32C(crc);
	tail.crc = crc;
	memcpy(bytes->data + end, &tail, sizeof(tail));
}
