/*-------------------------------------------------------------------------
 *
 * unit.h
 *	  A small harness for tests that need no server.
 *
 * A case is a function that compares what it gets with what is right.  Each
 * case prints one line; the first difference it met is part of that line.
 * Every topic has one file and registers its cases in one function, which
 * main.c calls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNIT_H
#define UNIT_H

#include "postgres.h"

/* postgres.h puts the server's own functions in place of these */
#undef printf
#undef fprintf
#undef snprintf
#undef vsnprintf

/* as a signed number, to be compared with loop counters */
#undef lengthof
#define lengthof(array)		((int) (sizeof(array) / sizeof((array)[0])))

typedef void (*UnitFunction) (void);

/* Run a case and print its line. */
extern void unit_case(const char *name, UnitFunction function);

/* Has the running case met a difference?  Lets long loops end early. */
extern bool unit_failed(void);

/* Name the place in a random history, to be reported with a difference. */
extern void unit_place(int64 seed, int64 step);

/* Compare; what "expect" is given first is what is compared, in words. */
#define expect_int(what, got, expected) \
	unit_expect_between(__FILE__, __LINE__, what, got, expected, expected)
#define expect_between(what, got, low, high) \
	unit_expect_between(__FILE__, __LINE__, what, got, low, high)
#define expect_true(what, got) \
	unit_expect_between(__FILE__, __LINE__, what, got, 1, 1)
#define expect_false(what, got) \
	unit_expect_between(__FILE__, __LINE__, what, got, 0, 0)

extern void unit_expect_between(const char *file, int line, const char *what,
								int64 got, int64 low, int64 high);

/* Random numbers from a seed (splitmix64). */
typedef struct UnitRandom
{
	uint64		state;
} UnitRandom;

/* Draw a number in [low, high]; the span must be below 2^63. */
extern int64 unit_draw(UnitRandom *random, int64 low, int64 high);

/* the topics */
extern void sliding_window_cases(void);
extern void rounded_window_cases(void);
extern void fixed_window_cases(void);
extern void anchored_window_cases(void);
extern void token_bucket_cases(void);
extern void token_rate_cases(void);
extern void every_algorithm_cases(void);
extern void clock_steps_cases(void);
extern void extremes_cases(void);
extern void limit_changes_cases(void);
extern void adjust_cases(void);
extern void calendar_window_cases(void);
extern void calendar_zones_cases(void);
extern void random_windows_cases(void);
extern void random_buckets_cases(void);
extern void saved_file_cases(void);

#endif							/* UNIT_H */
