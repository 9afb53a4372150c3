/*-------------------------------------------------------------------------
 *
 * save.c
 *	  Saving the memory store to a file, and restoring it.
 *
 * Saving copies one partition after the other under its lock and writes the
 * copies, so it holds calls up for the time of a copy only.  The file is written
 * aside and takes its place when it is whole and on disk.
 *
 * Restoring reads the file twice: once to check all of it, before anything of
 * the arena is touched, once to fill the arena, which nobody else sees yet.  A
 * file that is not good is set aside for a look, and the store starts empty.
 * Nothing here raises an error: a server that cannot save or restore its counters
 * still has to run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "save.h"

#include "saved_file.h"

#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define SAVED_FILE				"pg_stat/rate_limit.saved"
#define TEMPORARY_FILE			SAVED_FILE ".tmp"
#define BAD_FILE				SAVED_FILE ".bad"

/*-------------------------------------------------------------------------
 * Saving
 *-------------------------------------------------------------------------
 */

static void
save_entry(RlSavedFile *saved, RlPartition *partition, const RlEntry *entry)
{
	static char identity[RL_MAX_IDENTITY_BYTES];
	static int64 words[RL_MAX_ENTRY_WORDS];
	RlSavedEntry head = {
		.database = entry->database,
		.key_bytes = entry->key_bytes,
		.id_bytes = entry->id_bytes,
		.state_words = entry->state_words,
		.kind = entry->kind,
		.unit = entry->unit,
		.fill = entry->fill,
		.flags = entry->flags & (RL_ENTRY_REFUSED | RL_ENTRY_REPLAYED),
		.refusals = entry->refusals,
		.window = entry->window,
		.limit = entry->limit,
		.expires = entry->expires,
		.last_use = entry->last_use,
		.instant = rl_get_instant(partition, entry)
	};

	rl_read_tail(partition, entry, RL_TAIL_IDENTITY, identity,
				 entry->id_bytes);
	rl_get_state(partition, entry, words);
	rl_put_entry(saved, &head, identity, words);
}

/* Write the live entries of the copy of a partition. */
static void
save_partition(RlSavedFile *saved, RlPartition *partition, RlTime now)
{
	for (RlEntry *entry = rl_first_entry(partition); entry != NULL;
		 entry = rl_next_entry(partition, entry))
	{
		if (entry->expires > now)
			save_entry(saved, partition, entry);
	}
}

static bool
write_file(RlArena *arena, FILE *file)
{
	void	   *room = palloc_extended(rl_copy_bytes(arena),
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	RlTime		now = GetCurrentTimestamp();
	RlSavedFile saved;

	if (room == NULL)
	{
		errno = ENOMEM;
		return false;
	}

	rl_begin_file(&saved, file, GetSystemIdentifier(), now);
	for (int i = 0; i < arena->npartitions; i++)
	{
		RlPartition *partition = rl_partition(arena, i);
		RlPartition *copy;

		LWLockAcquire(&partition->lock, LW_SHARED);
		copy = rl_copy_partition(arena, partition, room);
		LWLockRelease(&partition->lock);
		save_partition(&saved, copy, now);
	}
	pfree(room);
	return rl_end_file(&saved);
}

static void
report_failure(const char *name)
{
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", name),
			 errdetail("Counters of rate_limit will not survive a restart of the server.")));
}

static uint64
count_changes(RlArena *arena)
{
	uint64		changes = 0;

	for (int i = 0; i < arena->npartitions; i++)
	{
		RlPartition *partition = rl_partition(arena, i);

		LWLockAcquire(&partition->lock, LW_SHARED);
		changes += partition->changes;
		LWLockRelease(&partition->lock);
	}
	return changes;
}

/* Save the arena, unless nothing has changed since this process did so last. */
void
rl_save(RlArena *arena)
{
	static uint64 saved_changes = PG_UINT64_MAX;
	uint64		changes = count_changes(arena);
	FILE	   *file;
	bool		done;

	if (changes == saved_changes)
		return;

	file = AllocateFile(TEMPORARY_FILE, PG_BINARY_W);
	if (file == NULL)
	{
		report_failure(TEMPORARY_FILE);
		return;
	}

	done = write_file(arena, file);
	if (!done)
		report_failure(TEMPORARY_FILE);
	if (FreeFile(file) != 0 && done)
	{
		report_failure(TEMPORARY_FILE);
		done = false;
	}

	if (!done)
		unlink(TEMPORARY_FILE);
	else if (durable_rename(TEMPORARY_FILE, SAVED_FILE, LOG) == 0)
	{
		saved_changes = changes;
		pg_atomic_write_u64(&arena->saved_at,
							(uint64) GetCurrentTimestamp());
	}
}

/*-------------------------------------------------------------------------
 * Restoring
 *-------------------------------------------------------------------------
 */

/*
 * Put an entry into the arena, which nobody else sees, if there is room or what
 * matters less can be dropped for it: keys fall on other partitions than before.
 */
static void
restore_entry(RlArena *arena, const RlSavedCounter *counter, RlTime now)
{
	const RlSavedEntry *saved = &counter->entry;
	RlIdentity	identity;
	RlPartition *partition;
	RlTime		until;
	RlEntry    *entry;

	rl_set_identity(&identity, arena, saved->database, counter->identity,
					saved->key_bytes, saved->kind);
	partition = rl_partition_of(arena, identity.hash);
	identity.id_bytes = saved->id_bytes;
	identity.unit = saved->unit;
	identity.window = saved->window;
	if (!rl_make_room(partition, rl_chunks_needed(saved->id_bytes,
												  saved->state_words),
					  now, &until))
		return;

	entry = rl_add_entry(partition, &identity);
	rl_set_state(partition, entry, counter->words, saved->state_words);
	rl_set_instant(partition, entry, saved->instant);
	entry->fill = saved->fill;
	entry->flags = saved->flags;
	entry->refusals = saved->refusals;
	entry->limit = saved->limit;
	entry->expires = saved->expires;
	entry->last_use = saved->last_use;
}

static int64
count_entries(RlArena *arena)
{
	int64		n = 0;

	for (int i = 0; i < arena->npartitions; i++)
		n += rl_partition(arena, i)->ncounters + rl_partition(arena, i)->nblocks;
	return n;
}

/* Fill the arena from a file that has been found good. */
static void
restore_entries(RlArena *arena, RlSavedFile *saved, RlSavedCounter *counter)
{
	RlTime		now = GetCurrentTimestamp();
	Oid			noted = InvalidOid;
	int64		live = 0;
	int64		restored;

	while (rl_get_entry(saved, counter))
	{
		if (counter->entry.expires <= now)
			continue;
		live++;
		restore_entry(arena, counter, now);

		/* entries in a row are often of the same one */
		if (counter->entry.database != noted)
			rl_note_database(arena, counter->entry.database);
		noted = counter->entry.database;
	}
	arena->restored_from = saved->saved_at;
	restored = count_entries(arena);

	ereport(LOG,
			(errmsg("rate_limit restored " INT64_FORMAT " counters and blocks, saved %s",
					restored, timestamptz_to_str(saved->saved_at)),
			 restored == live ? 0 :
			 errdetail("There was no room for " INT64_FORMAT " more.",
					   live - restored),
			 restored == live ? 0 :
			 errhint("Raise \"rate_limit.memory\".")));
}

/* Get the file out of the way, and tell what is wrong with it. */
static void
set_aside(const char *problem)
{
	bool		moved = rename(SAVED_FILE, BAD_FILE) == 0;

	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("counters of rate_limit were not restored from file \"%s\"",
					SAVED_FILE),
			 errdetail("%s", problem),
			 moved ?
			 errhint("The file is now \"%s\". All counters start anew.",
					 BAD_FILE) :
			 errhint("The file will be written over. All counters start anew.")));
}

/* Read a file to its end.  Return whether all of it is good. */
static bool
is_good(RlSavedFile *saved, FILE *file, RlSavedCounter *counter)
{
	if (!rl_open_file(saved, file, GetSystemIdentifier()))
		return false;
	while (rl_get_entry(saved, counter))
		;
	return saved->problem == NULL;
}

/* Restore what was saved, into an arena that nobody else sees yet. */
void
rl_restore(RlArena *arena)
{
	FILE	   *file = AllocateFile(SAVED_FILE, PG_BINARY_R);
	RlSavedCounter *counter;
	RlSavedFile saved;

	if (file == NULL)
	{
		if (errno != ENOENT)
			set_aside(psprintf("It could not be opened: %m"));
		return;
	}

	counter = palloc(sizeof(RlSavedCounter));
	if (is_good(&saved, file, counter) &&
		rl_open_file(&saved, file, GetSystemIdentifier()))
		restore_entries(arena, &saved, counter);
	FreeFile(file);
	if (saved.problem != NULL)
		set_aside(saved.problem);
	pfree(counter);
}

/* Tell whether there is anything to restore. */
bool
rl_is_saved(void)
{
	return access(SAVED_FILE, F_OK) == 0;
}
