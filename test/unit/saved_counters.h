/*-------------------------------------------------------------------------
 *
 * saved_counters.h
 *	  Files of saved counters for tests: entries of all kinds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SAVED_COUNTERS_H
#define SAVED_COUNTERS_H

#include "unit.h"

#include "saved_file.h"

#define SAVED_COUNTERS	300
#define SAVED_SYSTEM	UINT64CONST(7000000000000000001)
#define SAVED_AT		INT64CONST(830000000123456)

typedef struct SavedBytes
{
	char	   *data;
	int			length;
} SavedBytes;

/* Make entry number i, the same each time. */
extern void make_saved_counter(int i, RlSavedCounter *counter);

/* Write the first n of them; the caller frees the bytes. */
extern void make_saved_file(int n, SavedBytes *bytes);

/* Put the checksum and the number of entries right, as far as they can be read. */
extern void sign_saved_file(SavedBytes *bytes);

#endif							/* SAVED_COUNTERS_H */
