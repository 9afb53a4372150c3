/*-------------------------------------------------------------------------
 *
 * saved_file.c
 *	  The file of saved counters: what is written is read, and no damage is
 *	  taken for good.
 *
 *-------------------------------------------------------------------------
 */
#include "saved_counters.h"

#include <stdlib.h>
#include <string.h>

#define DAMAGES		10000

/* bytes at the start of a file that no entry has, and at its end */
#define HEAD_BYTES	32
#define TAIL_BYTES	16

static SavedBytes good;

/* Return how many entries could be read, and whether the file was good. */
static int
read_all(const SavedBytes *bytes, uint64 system, const char **problem)
{
	static RlSavedCounter counter;
	RlSavedFile saved;
	FILE	   *file = fmemopen((void *) bytes->data, bytes->length, "rb");
	int			n = 0;

	if (rl_open_file(&saved, file, system))
	{
		while (rl_get_entry(&saved, &counter))
			n++;
	}
	*problem = saved.problem;
	fclose(file);
	return n;
}

static void
expect_problem(const SavedBytes *bytes, uint64 system, const char *expected)
{
	const char *problem;

	read_all(bytes, system, &problem);
	expect_true(expected, problem != NULL && strcmp(problem, expected) == 0);
}

/* Every entry comes back as it was, in order. */
static void
round_trip(void)
{
	static RlSavedCounter expected;
	static RlSavedCounter got;
	FILE	   *file = fmemopen(good.data, good.length, "rb");
	RlSavedFile saved;

	expect_true("opened", rl_open_file(&saved, file, SAVED_SYSTEM));
	expect_int("saved_at", saved.saved_at, SAVED_AT);
	for (int i = 0; i < SAVED_COUNTERS && !unit_failed(); i++)
	{
		make_saved_counter(i, &expected);
		unit_place(0, i);
		expect_true("an entry", rl_get_entry(&saved, &got));
		expect_true("same entry", memcmp(&got.entry, &expected.entry,
										 sizeof(RlSavedEntry)) == 0);
		expect_true("same identity", memcmp(got.identity, expected.identity,
											expected.entry.id_bytes) == 0);
		expect_true("same state",
					memcmp(got.words, expected.words,
						   expected.entry.state_words * sizeof(int64)) == 0);
	}
	expect_false("one more", rl_get_entry(&saved, &got));
	expect_true("good", saved.problem == NULL);
	fclose(file);
}

static void
no_entries(void)
{
	SavedBytes	bytes;
	const char *problem;

	make_saved_file(0, &bytes);
	expect_int("length", bytes.length, HEAD_BYTES + TAIL_BYTES);
	expect_int("entries", read_all(&bytes, SAVED_SYSTEM, &problem), 0);
	expect_true("good", problem == NULL);
	bytes.length--;
	expect_problem(&bytes, SAVED_SYSTEM, "It is too short.");
	free(bytes.data);
}

static void
another_server(void)
{
	expect_problem(&good, SAVED_SYSTEM + 1, "It was written by another server.");
}

/* Entries left out or written twice are noticed though all are whole. */
static void
number_of_entries(void)
{
	SavedBytes	bytes;
	SavedBytes	fewer;

	make_saved_file(2, &bytes);
	make_saved_file(1, &fewer);
	memcpy(bytes.data + fewer.length - TAIL_BYTES,
		   bytes.data + bytes.length - TAIL_BYTES, TAIL_BYTES);
	bytes.length = fewer.length;
	expect_problem(&bytes, SAVED_SYSTEM, "Its checksum is wrong.");
	free(bytes.data);
	free(fewer.data);
}

/*
 * Damage a file in a random way: a bit, a byte or a number changed, a piece cut
 * out, put in, exchanged for another, or the end cut off.  There is room for
 * another 64 bytes.
 */
static void
damage(UnitRandom *random, SavedBytes *bytes)
{
	char		piece[64];
	int			n = unit_draw(random, 1, sizeof(piece));
	int			at = unit_draw(random, 0, bytes->length - n - 1);
	int			other = unit_draw(random, 0, bytes->length - n - 1);
	int64		number = unit_draw(random, -2, 2) *
	unit_draw(random, 0, PG_INT64_MAX / 2 - 1);

	switch (unit_draw(random, 0, 6))
	{
		case 0:
			bytes->data[at] ^= 1 << unit_draw(random, 0, 7);
			break;
		case 1:
			bytes->data[at] = unit_draw(random, -128, 127);
			break;
		case 2:
			memcpy(bytes->data + at, &number, Min(n, (int) sizeof(number)));
			break;
		case 3:
			memmove(bytes->data + at, bytes->data + at + n,
					bytes->length - at - n);
			bytes->length -= n;
			break;
		case 4:
			memcpy(piece, bytes->data + other, n);
			memmove(bytes->data + at + n, bytes->data + at,
					bytes->length - at);
			memcpy(bytes->data + at, piece, n);
			bytes->length += n;
			break;
		case 5:
			memcpy(piece, bytes->data + at, n);
			memmove(bytes->data + at, bytes->data + other, n);
			memcpy(bytes->data + other, piece, n);
			break;
		case 6:
			bytes->length = Max(at, HEAD_BYTES);
			break;
	}
}

static bool
is_same(const SavedBytes *a, const SavedBytes *b)
{
	return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

/*
 * Read files with random damage.  With a checksum that fits, the checks of the
 * entries are reached, and damage that they cannot know of is taken for good;
 * without, nothing may be good.
 */
static void
read_damaged(bool fitting_checksum)
{
	SavedBytes	bytes = {malloc(good.length + 64 * 3), 0};
	UnitRandom	random = {fitting_checksum};
	const char *problem;
	int			ngood = 0;
	int			nbad_entries = 0;

	for (int i = 0; i < DAMAGES && !unit_failed(); i++)
	{
		memcpy(bytes.data, good.data, good.length);
		bytes.length = good.length;
		for (int n = unit_draw(&random, 1, 3); n > 0; n--)
			damage(&random, &bytes);
		if (fitting_checksum)
			sign_saved_file(&bytes);
		if (is_same(&bytes, &good))
			continue;

		unit_place(fitting_checksum, i);
		read_all(&bytes, SAVED_SYSTEM, &problem);
		ngood += problem == NULL;
		nbad_entries += problem != NULL &&
			strcmp(problem, "An entry is damaged.") == 0;
	}

	/* damage to a key or a number of hits does not show in an entry */
	unit_place(-1, -1);
	if (fitting_checksum)
	{
		expect_between("good in spite of damage", ngood, 100, DAMAGES / 2);
		expect_between("entries found damaged", nbad_entries, DAMAGES / 10,
					   DAMAGES);
	}
	else
		expect_int("good in spite of damage", ngood, 0);
	free(bytes.data);
}

static void
damaged(void)
{
	read_damaged(false);
}

static void
damaged_and_signed(void)
{
	read_damaged(true);
}

void
saved_file_cases(void)
{
	make_saved_file(SAVED_COUNTERS, &good);
	unit_case("saved file: what is written is read", round_trip);
	unit_case("saved file: no entries", no_entries);
	unit_case("saved file: of another server", another_server);
	unit_case("saved file: number of entries", number_of_entries);
	unit_case("saved file: damage is found by the checksum", damaged);
	unit_case("saved file: damage with a checksum that fits", damaged_and_signed);
	free(good.data);
}
