/*-------------------------------------------------------------------------
 *
 * clock_steps.c
 *	  The clock is put back or forward, by itself or by the test.
 *
 * What was recorded later than now is taken as recorded now: a step neither
 * frees quota nor keeps a key out for longer than a window.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static Counter counter;

/*
 * Full at 12:00:30; a minute back, the hits count as hits of 11:59:30 and
 * leave at 12:00:30.
 */
static void
sliding_window_back(void)
{
	RlTime		hit = NOON + 30 * SECOND;
	RlTime		back = NOON - 30 * SECOND;
	Answer		answer;

	counter_init(&counter, RL_SLIDING_WINDOW, 2, MINUTE);
	expect_admitted(&counter, hit, 1);
	expect_admitted(&counter, hit + 1, 1);

	answer = counter_check(&counter, back, 1);
	expect_false("allowed", answer.allowed);
	expect_true("to be kept", answer.stepped_back);
	expect_int("used", answer.report.used, 2);
	expect_int("retry_at", answer.report.retry_at, back + MINUTE);

	/* the refusal was kept: the wait does not start anew */
	expect_refused(&counter, back + 10 * SECOND, 1, back + MINUTE);
	expect_refused(&counter, back + MINUTE - 1, 1, back + MINUTE);
	expect_admitted(&counter, back + MINUTE, 2);
}

/* Only the hits later than now move; the others leave when they would. */
static void
sliding_window_back_between_hits(void)
{
	RlTime		now = NOON + 5 * SECOND;

	counter_init(&counter, RL_SLIDING_WINDOW, 3, MINUTE);
	expect_admitted(&counter, NOON, 1);
	expect_admitted(&counter, NOON + 10 * SECOND, 1);
	expect_check(&counter, now, 1, true, 3, 0,
				 NOON + MINUTE, NOON + MINUTE);
	expect_check(&counter, now, 2, false, 3, 0,
				 now + MINUTE, NOON + MINUTE);
	expect_check(&counter, NOON + MINUTE, 1, true, 3, 0,
				 now + MINUTE, now + MINUTE);
	expect_check(&counter, now + MINUTE, 2, true, 3, 0,
				 now + 2 * MINUTE, NOON + 2 * MINUTE);
}

/* With a limit above exact_hits, a step back costs at most q more. */
static void
rounded_window_back(void)
{
	RlTime		hit = NOON + 30 * SECOND + 1;
	RlTime		back = NOON - 30 * SECOND + 1;
	Answer		answer;

	counter_init(&counter, RL_SLIDING_WINDOW, 1000, MINUTE);
	expect_admitted(&counter, hit, 600);
	expect_admitted(&counter, hit + SECOND, 400);

	answer = counter_check(&counter, back, 1);
	expect_false("allowed", answer.allowed);
	expect_true("to be kept", answer.stepped_back);
	expect_int("used", answer.report.used, 1000);
	expect_between("retry_at", answer.report.retry_at,
				   back + MINUTE, back + MINUTE + 468750);
	expect_refused(&counter, back + SECOND, 1, answer.report.retry_at);
}

/* A peek at another instant, earlier or later, leaves everything as it is. */
static void
peek_keeps_nothing(void)
{
	for (int i = 0; i < NUM_WINDOW_ALGORITHMS; i++)
	{
		RlTime		hour = NOON + HOUR;

		counter_init(&counter, window_algorithms[i], 2, MINUTE);
		expect_admitted(&counter, NOON, 2);
		expect_peek(&counter, hour, 2, true, 0, 2, hour, hour);
		expect_peek(&counter, NOON - HOUR, 1, false, 2, 0,
					NOON - HOUR + MINUTE, NOON - HOUR + MINUTE);
		expect_check(&counter, NOON + 1, 1, false, 2, 0,
					 NOON + MINUTE, NOON + MINUTE);
	}
}

/* Forward by an hour, a hit there, and back: that hit counts as one of now. */
static void
sliding_window_forward_and_back(void)
{
	RlTime		now = NOON + SECOND;

	counter_init(&counter, RL_SLIDING_WINDOW, 2, MINUTE);
	expect_admitted(&counter, NOON, 1);
	expect_admitted(&counter, NOON + HOUR, 1);
	expect_check(&counter, now, 1, true, 2, 0,
				 now + MINUTE, now + MINUTE);
	expect_refused(&counter, now, 1, now + MINUTE);
	expect_admitted(&counter, now + MINUTE, 2);
}

/*
 * The window of 12:01 was used up; back at 12:00:50 its hits count in the
 * window of 12:00, which ends ten seconds later.
 */
static void
fixed_window_back(void)
{
	RlTime		back = NOON + 50 * SECOND;
	Answer		answer;

	counter_init(&counter, RL_FIXED_WINDOW, 2, MINUTE);
	expect_admitted(&counter, NOON + 61 * SECOND, 2);
	answer = counter_check(&counter, back, 1);
	expect_true("to be kept", answer.stepped_back);
	expect_refused(&counter, back, 1, NOON + MINUTE);
	expect_check(&counter, NOON + MINUTE, 1, true, 1, 1,
				 NOON + MINUTE, NOON + 2 * MINUTE);
}

static void
fixed_window_back_inside_the_window(void)
{
	Answer		answer;

	counter_init(&counter, RL_FIXED_WINDOW, 2, MINUTE);
	expect_admitted(&counter, NOON + 30 * SECOND, 2);
	answer = counter_check(&counter, NOON + 10 * SECOND, 1);
	expect_false("to be kept", answer.stepped_back);
	expect_refused(&counter, NOON + 10 * SECOND, 1, NOON + MINUTE);
	expect_admitted(&counter, NOON + MINUTE, 2);
}

/* Forward by an hour, a hit there, and back. */
static void
fixed_window_forward_and_back(void)
{
	counter_init(&counter, RL_FIXED_WINDOW, 2, MINUTE);
	expect_admitted(&counter, NOON, 1);
	expect_admitted(&counter, NOON + HOUR, 1);
	expect_check(&counter, NOON + SECOND, 1, true, 2, 0,
				 NOON + MINUTE, NOON + MINUTE);
	expect_refused(&counter, NOON + SECOND, 1, NOON + MINUTE);
	expect_admitted(&counter, NOON + MINUTE, 2);
}

/* The start of the window is taken as now: it ends a window later at most. */
static void
anchored_window_back(void)
{
	RlTime		back = NOON - 10 * SECOND;
	Answer		answer;

	counter_init(&counter, RL_ANCHORED_WINDOW, 2, MINUTE);
	expect_admitted(&counter, NOON, 2);
	answer = counter_check(&counter, back, 1);
	expect_true("to be kept", answer.stepped_back);
	expect_int("retry_at", answer.report.retry_at, back + MINUTE);
	expect_refused(&counter, back + SECOND, 1, back + MINUTE);
	expect_refused(&counter, back + MINUTE - 1, 1, back + MINUTE);
	expect_admitted(&counter, back + MINUTE, 2);
}

/* The level stays, and rises from there on. */
static void
token_bucket_back(void)
{
	RlTime		back = NOON - HOUR;
	Answer		answer;

	counter_init(&counter, RL_TOKEN_BUCKET, 60, MINUTE);
	expect_admitted(&counter, NOON, 55);
	answer = counter_check(&counter, back, 6);
	expect_false("allowed", answer.allowed);
	expect_true("to be kept", answer.stepped_back);
	expect_int("used", answer.report.used, 55);
	expect_int("retry_at", answer.report.retry_at, back + SECOND);

	expect_check(&counter, back, 5, true, 60, 0,
				 back + 5 * SECOND, back + SECOND);
	expect_check(&counter, back + 30 * SECOND, 30, true, 60, 0,
				 back + 60 * SECOND, back + 31 * SECOND);
	expect_int("full again", counter.state.end, back + 90 * SECOND);
}

/*
 * A second back and forth, a token a second: the bucket's 10 tokens, and one
 * for each of the 999 steps forward.  Steps back alone bring none.
 */
static void
token_bucket_back_and_forth(void)
{
	int64		admitted = 0;

	counter_init(&counter, RL_TOKEN_BUCKET, 10, 10 * SECOND);
	for (int n = 0; n < 1000; n++)
	{
		admitted += counter_check(&counter, NOON, 1).allowed;
		admitted += counter_check(&counter, NOON - SECOND, 1).allowed;
	}
	expect_int("admitted", admitted, 10 + 999);

	counter_init(&counter, RL_TOKEN_BUCKET, 10, 10 * SECOND);
	admitted = 0;
	for (int n = 0; n < 1000; n++)
		admitted += counter_check(&counter, NOON - n * SECOND, 1).allowed;
	expect_int("admitted", admitted, 10);
}

/* A clock that only goes back frees nothing in the windows either. */
static void
windows_only_backwards(void)
{
	int64		limits[] = {10, 1000};

	for (int i = 0; i < NUM_WINDOW_ALGORITHMS * lengthof(limits); i++)
	{
		int64		limit = limits[i / NUM_WINDOW_ALGORITHMS];
		int64		admitted = 0;

		counter_init(&counter, window_algorithms[i % NUM_WINDOW_ALGORITHMS],
					 limit, 10 * SECOND);
		for (int n = 0; n < 2000; n++)
			admitted += counter_check(&counter, NOON - n * SECOND, 1).allowed;
		expect_int("admitted", admitted, limit);
	}
}

/*
 * Steps of 10 and 200 years and between the ends of time: refused at first,
 * admitted a window later at most (and q = 781,250 us when rounded).
 */
static void
long_steps_back(void)
{
	RlTime		from[] = {NOON, NOON, RL_MAX_TIME};
	RlTime		to[] = {
		NOON - YEARS_100 / 10, NOON - 2 * YEARS_100, RL_MIN_TIME
	};
	int64		limits[] = {2, 1000};

	for (int i = 0; i < lengthof(from) * RL_NUM_ALGORITHMS * 2; i++)
	{
		RlAlgorithm algorithm = (RlAlgorithm) (i % RL_NUM_ALGORITHMS);
		int			step = i / RL_NUM_ALGORITHMS % lengthof(from);
		int64		limit = limits[i / RL_NUM_ALGORITHMS / lengthof(from)];
		Answer		answer;

		counter_init(&counter, algorithm, limit, 100 * SECOND);
		expect_admitted(&counter, from[step], limit);
		answer = counter_check(&counter, to[step], limit);
		expect_false("allowed", answer.allowed);
		expect_true("to be kept", answer.stepped_back);
		expect_int("used", answer.report.used, limit);
		expect_between("retry_at", answer.report.retry_at, to[step] + 1,
					   to[step] + 100 * SECOND + (limit > 128 ? 781250 : 0));
		expect_admitted(&counter, answer.report.retry_at, limit);
	}
}

void
clock_steps_cases(void)
{
	unit_case("clock steps: sliding window, back", sliding_window_back);
	unit_case("clock steps: sliding window, back between hits",
			  sliding_window_back_between_hits);
	unit_case("clock steps: rounded window, back", rounded_window_back);
	unit_case("clock steps: a peek keeps nothing", peek_keeps_nothing);
	unit_case("clock steps: sliding window, forward and back",
			  sliding_window_forward_and_back);
	unit_case("clock steps: fixed window, back", fixed_window_back);
	unit_case("clock steps: fixed window, back inside the window",
			  fixed_window_back_inside_the_window);
	unit_case("clock steps: fixed window, forward and back",
			  fixed_window_forward_and_back);
	unit_case("clock steps: anchored window, back", anchored_window_back);
	unit_case("clock steps: token bucket, back", token_bucket_back);
	unit_case("clock steps: token bucket, back and forth",
			  token_bucket_back_and_forth);
	unit_case("clock steps: windows, only backwards", windows_only_backwards);
	unit_case("clock steps: from one end of time to the other",
			  long_steps_back);
}
