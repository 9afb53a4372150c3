/*-------------------------------------------------------------------------
 *
 * counter.h
 *	  One counter, used by the tests as a store uses it.
 *
 * A check or an adjustment keeps the refreshed state if it recorded something
 * or if the clock was put back; a peek or a refusal keeps nothing else.  After
 * every call the answer and the state are compared with what must always hold
 * (see counter.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef COUNTER_H
#define COUNTER_H

#include "unit.h"

#include "algorithm.h"

#define USEC	INT64CONST(1)
#define SECOND	RL_USECS_PER_SEC
#define MINUTE	(60 * SECOND)
#define HOUR	(60 * MINUTE)
#define DAY		RL_USECS_PER_DAY
#define YEARS_100 RL_MAX_WINDOW_USECS

/* space past the room of the log that nothing may write to */
#define GUARD_HITS	4

typedef struct Counter
{
	RlLimit		limit;
	RlState		state;
	RlHit		hits[RL_MAX_HITS + GUARD_HITS];
	int			log_bound;		/* most hits the log may have */
} Counter;

typedef struct Answer
{
	bool		allowed;
	bool		stepped_back;	/* what rl_refresh() returned */
	bool		kept;			/* has the counter kept a new state? */
	RlReport	report;
} Answer;

/* All algorithms but the token bucket. */
#define NUM_WINDOW_ALGORITHMS	3
extern const RlAlgorithm window_algorithms[NUM_WINDOW_ALGORITHMS];

/* Make a counter on which nothing is recorded, with exact_hits 128. */
extern void counter_init(Counter *counter, RlAlgorithm algorithm,
						 int64 limit, RlTime window);
extern void counter_init_bucket(Counter *counter, int64 limit, RlTime window,
								int64 capacity);

/* State a limit for the calls to come; the capacity of a bucket likewise. */
extern void counter_set_limit(Counter *counter, int64 limit);
extern void counter_set_exact_hits(Counter *counter, int exact_hits);

extern Answer counter_check(Counter *counter, RlTime now, int64 cost);
extern Answer counter_peek(const Counter *counter, RlTime now, int64 cost);

/* Record or give back a cost; the answer is that of a peek at cost 1 after. */
extern Answer counter_adjust(Counter *counter, RlTime now, int64 delta);

extern bool counter_same(const Counter *a, const Counter *b);

/* The instant of a date and time in UTC (proleptic Gregorian calendar). */
extern RlTime utc(int year, int month, int day, int hour, int min, int sec);

/* Check and compare with the whole answer. */
#define expect_check(counter, now, cost, allowed, used, remaining, retry_at, \
					 reset_at) \
	counter_expect(__FILE__, __LINE__, counter_check(counter, now, cost), \
				   allowed, used, remaining, retry_at, reset_at)
#define expect_peek(counter, now, cost, allowed, used, remaining, retry_at, \
					reset_at) \
	counter_expect(__FILE__, __LINE__, counter_peek(counter, now, cost), \
				   allowed, used, remaining, retry_at, reset_at)
#define expect_adjust(counter, now, delta, used, remaining, retry_at, \
					  reset_at) \
	counter_expect_rest(__FILE__, __LINE__, \
						counter_adjust(counter, now, delta), \
						used, remaining, retry_at, reset_at)

/*
 * Check and compare only the decision.  The second one is for calls that are
 * to pass; the third for calls to be refused until an instant.
 */
#define expect_admitted(counter, now, cost) \
	expect_true("allowed", counter_check(counter, now, cost).allowed)
#define expect_refused(counter, now, cost, retry_at) \
	counter_expect_refused(__FILE__, __LINE__, \
						   counter_check(counter, now, cost), retry_at)

extern void counter_expect(const char *file, int line, Answer answer,
						   bool allowed, int64 used, int64 remaining,
						   RlTime retry_at, RlTime reset_at);
extern void counter_expect_rest(const char *file, int line, Answer answer,
								int64 used, int64 remaining,
								RlTime retry_at, RlTime reset_at);
extern void counter_expect_refused(const char *file, int line, Answer answer,
								   RlTime retry_at);

#endif							/* COUNTER_H */
