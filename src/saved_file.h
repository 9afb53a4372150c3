/*-------------------------------------------------------------------------
 *
 * saved_file.h
 *	  The file in which the counters and blocks of the memory store survive.
 *
 * A head, an entry after the other, a tail with their number and a checksum of
 * all before it.  Numbers are as the machine has them: a file from another kind
 * of machine has another magic number.  Nothing here needs a server, so that
 * the reader can be given any bytes in a test.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_SAVED_FILE_H
#define RL_SAVED_FILE_H

#include "arena.h"
#include "state.h"

#include <stdio.h>

#include "port/pg_crc32c.h"

/* to be raised when the meaning of the bytes changes */
#define RL_FILE_VERSION			1

/* What a counter or a block is, before its identity and its state. */
typedef struct RlSavedEntry
{
	Oid			database;
	uint16		key_bytes;
	uint16		id_bytes;
	uint16		state_words;
	uint8		kind;			/* RlAlgorithm or RL_KIND_BLOCK */
	uint8		unit;
	uint8		fill;
	uint8		flags;
	uint16		unused;
	uint32		refusals;
	uint32		also_unused;
	int64		window;
	int64		limit;
	RlTime		expires;
	RlTime		last_use;
	RlTime		instant;
} RlSavedEntry;

/* An entry with all that belongs to it. */
typedef struct RlSavedCounter
{
	RlSavedEntry entry;
	char		identity[RL_MAX_IDENTITY_BYTES];
	int64		words[RL_MAX_ENTRY_WORDS];
} RlSavedCounter;

typedef struct RlSavedFile
{
	FILE	   *file;
	pg_crc32c	crc;
	uint64		nentries;		/* so far */
	uint64		bytes_left;		/* to read, before the tail */
	RlTime		saved_at;
	const char *problem;		/* what is wrong with it, NULL if nothing */
} RlSavedFile;

/* writing */
extern void rl_begin_file(RlSavedFile *saved, FILE *file, uint64 system,
						  RlTime now);
extern void rl_put_entry(RlSavedFile *saved, const RlSavedEntry *entry,
						 const char *identity, const int64 *words);
extern bool rl_end_file(RlSavedFile *saved);

/* reading */
extern bool rl_open_file(RlSavedFile *saved, FILE *file, uint64 system);
extern bool rl_get_entry(RlSavedFile *saved, RlSavedCounter *counter);

#endif							/* RL_SAVED_FILE_H */
