/*-------------------------------------------------------------------------
 *
 * read_saved_file.c
 *	  A target for libFuzzer: the reader of saved counters is given any bytes.
 *
 * Every other mutation gets a checksum that fits, so that what is behind it is
 * reached too.  The first input is a good file with entries of all kinds.
 *
 *-------------------------------------------------------------------------
 */
#include "saved_counters.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_COUNTERS	20
#define HEAD_BYTES		32

extern size_t LLVMFuzzerMutate(uint8 *data, size_t size, size_t max_size);
extern size_t LLVMFuzzerCustomMutator(uint8 *data, size_t size,
									  size_t max_size, unsigned int seed);
extern int	LLVMFuzzerTestOneInput(const uint8 *data, size_t size);

void
unit_expect_between(const char *file, int line, const char *what,
					int64 got, int64 low, int64 high)
{
	if (got >= low && got <= high)
		return;
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

static size_t
put_first(uint8 *data, size_t max_size)
{
	SavedBytes	bytes;
	size_t		size;

	make_saved_file(FIRST_COUNTERS, &bytes);
	size = Min((size_t) bytes.length, max_size);
	memcpy(data, bytes.data, size);
	free(bytes.data);
	return size;
}

size_t
LLVMFuzzerCustomMutator(uint8 *data, size_t size, size_t max_size,
						unsigned int seed)
{
	SavedBytes	bytes = {(char *) data, 0};

	size = size < HEAD_BYTES ? put_first(data, max_size) :
		LLVMFuzzerMutate(data, size, max_size);
	bytes.length = size;
	if (seed % 2 == 0)
		sign_saved_file(&bytes);
	return size;
}

/* What is good has lengths within which all of it lies. */
static void
use(const RlSavedCounter *counter)
{
	if (counter->entry.id_bytes > sizeof(counter->identity) ||
		counter->entry.state_words > lengthof(counter->words) ||
		counter->entry.key_bytes > counter->entry.id_bytes ||
		counter->entry.kind > RL_KIND_BLOCK)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	static RlSavedCounter counter;
	RlSavedFile saved;
	FILE	   *file;

	if (size == 0)
		return 0;
	file = fmemopen((void *) data, size, "rb");
	if (file == NULL)
		abort();
	if (rl_open_file(&saved, file, SAVED_SYSTEM))
	{
		while (rl_get_entry(&saved, &counter))
			use(&counter);
	}
	fclose(file);
	return 0;
}
