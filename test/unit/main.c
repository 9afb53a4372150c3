/*-------------------------------------------------------------------------
 *
 * main.c
 *	  Runs all unit tests and counts.
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"

#include <stdlib.h>

static int	passed = 0;
static int	failed = 0;

/* the first difference of the running case, empty if there was none */
static char difference[512];

static int64 place_seed = -1;
static int64 place_step = -1;

#if PG_VERSION_NUM >= 160000
void
ExceptionalCondition(const char *conditionName,
					 const char *fileName, int lineNumber)
{
	fprintf(stderr, "assertion failed: %s, %s:%d\n",
			conditionName, fileName, lineNumber);
	abort();
}
#else
void
ExceptionalCondition(const char *conditionName, const char *errorType,
					 const char *fileName, int lineNumber)
{
	fprintf(stderr, "%s: %s, %s:%d\n",
			errorType, conditionName, fileName, lineNumber);
	abort();
}
#endif

void
unit_case(const char *name, UnitFunction function)
{
	difference[0] = '\0';
	unit_place(-1, -1);

	function();

	if (unit_failed())
	{
		printf("not ok - %s (%s)\n", name, difference);
		failed++;
	}
	else
	{
		printf("ok - %s\n", name);
		passed++;
	}
	fflush(stdout);
}

bool
unit_failed(void)
{
	return difference[0] != '\0';
}

void
unit_place(int64 seed, int64 step)
{
	place_seed = seed;
	place_step = step;
}

void
unit_expect_between(const char *file, int line, const char *what,
					int64 got, int64 low, int64 high)
{
	char		range[64];
	char		place[80] = "";

	if ((got >= low && got <= high) || unit_failed())
		return;

	if (low == high)
		snprintf(range, sizeof(range), INT64_FORMAT, low);
	else
		snprintf(range, sizeof(range), INT64_FORMAT " to " INT64_FORMAT,
				 low, high);
	if (place_step >= 0)
		snprintf(place, sizeof(place),
				 ", seed " INT64_FORMAT " step " INT64_FORMAT,
				 place_seed, place_step);
	snprintf(difference, sizeof(difference),
			 "%s: expected %s, got " INT64_FORMAT "%s, %s:%d",
			 what, range, got, place, file, line);
}

int64
unit_draw(UnitRandom *random, int64 low, int64 high)
{
	uint64		word;

	random->state += UINT64CONST(0x9e3779b97f4a7c15);
	word = random->state;
	word = (word ^ (word >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	word = (word ^ (word >> 27)) * UINT64CONST(0x94d049bb133111eb);
	word ^= word >> 31;
	return low + (int64) (word % ((uint64) (high - low) + 1));
}

int
main(void)
{
	sliding_window_cases();
	rounded_window_cases();
	fixed_window_cases();
	anchored_window_cases();
	token_bucket_cases();
	token_rate_cases();
	every_algorithm_cases();
	clock_steps_cases();
	extremes_cases();
	limit_changes_cases();
	adjust_cases();
	calendar_window_cases();
	calendar_zones_cases();
	random_windows_cases();
	random_buckets_cases();
	saved_file_cases();

	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
