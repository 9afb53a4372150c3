/*-------------------------------------------------------------------------
 *
 * anchored_window.c
 *	  Windows that start at a key's first admitted hit.
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#define NOON	utc(2026, 3, 1, 12, 0, 0)

static Counter counter;

/* First hit at 12:00:07, so the window ends at 12:01:07. */
static void
starts_at_the_first_hit(void)
{
	RlTime		first = NOON + 7 * SECOND;
	RlTime		end = first + MINUTE;

	counter_init(&counter, RL_ANCHORED_WINDOW, 3, MINUTE);
	expect_peek(&counter, NOON, 1, true, 0, 3, NOON, NOON);
	expect_check(&counter, first, 1, true, 1, 2, first, end);
	expect_check(&counter, end - 1, 2, true, 3, 0, end, end);
	expect_check(&counter, end - 1, 1, false, 3, 0, end, end);

	/* the next one starts at its own first hit, not where this one ended */
	expect_check(&counter, end + 5, 1,
				 true, 1, 2, end + 5, end + 5 + MINUTE);
}

static void
ends_after_exactly_one_window(void)
{
	RlTime		windows[] = {1, 2, 1000, SECOND, DAY, YEARS_100};

	for (int i = 0; i < lengthof(windows); i++)
	{
		RlTime		end = NOON + windows[i];

		counter_init(&counter, RL_ANCHORED_WINDOW, 1, windows[i]);
		expect_check(&counter, NOON, 1, true, 1, 0, end, end);
		expect_check(&counter, end - 1, 1, false, 1, 0, end, end);
		expect_check(&counter, end, 1,
					 true, 1, 0, end + windows[i], end + windows[i]);
	}
}

/* A call that is refused or costs nothing does not start a window. */
static void
only_an_admitted_hit_starts_a_window(void)
{
	RlTime		first = NOON + 30 * SECOND;

	counter_init(&counter, RL_ANCHORED_WINDOW, 3, MINUTE);
	expect_check(&counter, NOON, 4, false, 0, 3, RL_NEVER, NOON);
	expect_check(&counter, NOON + 1, 0, true, 0, 3, NOON + 1, NOON + 1);
	expect_false("recorded", counter.state.active);
	expect_check(&counter, first, 3,
				 true, 3, 0, first + MINUTE, first + MINUTE);

	/* nor does a refusal prolong one */
	for (RlTime now = first; now < first + MINUTE; now += SECOND)
		expect_refused(&counter, now, 1, first + MINUTE);
	expect_admitted(&counter, first + MINUTE, 3);
}

/* When all is given back, the next hit starts a new window. */
static void
giving_all_back_forgets_the_start(void)
{
	RlTime		again = NOON + 20 * SECOND;

	counter_init(&counter, RL_ANCHORED_WINDOW, 3, MINUTE);
	expect_admitted(&counter, NOON, 2);
	expect_adjust(&counter, NOON + SECOND, -1, 1, 2,
				  NOON + SECOND, NOON + MINUTE);
	expect_adjust(&counter, NOON + SECOND, -1, 0, 3,
				  NOON + SECOND, NOON + SECOND);
	expect_false("recorded", counter.state.active);
	expect_check(&counter, again, 1, true, 1, 2, again, again + MINUTE);
}

void
anchored_window_cases(void)
{
	unit_case("anchored window: starts at the first hit",
			  starts_at_the_first_hit);
	unit_case("anchored window: ends after exactly one window",
			  ends_after_exactly_one_window);
	unit_case("anchored window: only an admitted hit starts one",
			  only_an_admitted_hit_starts_a_window);
	unit_case("anchored window: giving all back forgets the start",
			  giving_all_back_forgets_the_start);
}
