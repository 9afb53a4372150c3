/*-------------------------------------------------------------------------
 *
 * request.h
 *	  What a caller asks for, taken from the arguments of a function.
 *
 * Every bad argument is refused here: an error, never an admission.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_REQUEST_H
#define RL_REQUEST_H

#include "algorithm.h"

#include "settings.h"
#include "stats.h"

#include "access/tupdesc.h"
#include "fmgr.h"
#include "utils/timestamp.h"

/* The bytes of a text, not ended by a zero byte. */
typedef struct RlBytes
{
	const char *data;
	int			length;
} RlBytes;

typedef struct RlRequest
{
	RlBytes		key;
	const char *policy;			/* and ... */
	const char *rule;			/* ... whose counter it is; NULL if ad hoc */
	RlLimit		limit;
	RlZone		zone;			/* what limit.window.zone points to */
	const char *zone_name;		/* of a calendar window, else NULL */
	int64		cost;			/* may be negative in an adjustment */
	RlStore		store;
	Oid			schema;			/* of the extension, for RL_STORE_TABLE */
	bool		unlimited;		/* no limit is in force: no store is asked */
	bool		shadow;			/* may be charged, but never refuses */
	bool		has_time;		/* decide as if it were "at" */
	RlTime		at;
	RlStats    *stats;			/* of the rule, NULL if ad hoc */
} RlRequest;

/* Copy a request, of which the limit points into it. */
static inline void
rl_copy_request(RlRequest *to, const RlRequest *from)
{
	*to = *from;
	if (from->limit.window.zone != NULL)
		to->limit.window.zone = &to->zone;
}

/* What says which limit, as arguments or columns give it. */
typedef struct RlTerms
{
	int64		limit;
	const Interval *window;
	const text *algorithm;
	bool		has_burst;
	int64		burst;
	const text *store;			/* NULL: rate_limit.store */
	const text *time_zone;		/* NULL: UTC */
} RlTerms;

/* What a function keeps in fn_extra, so that it is looked up once per query. */
typedef struct RlFunctionState
{
	Oid			schema;			/* of the extension, once asked for */
	TupleDesc	descriptor;		/* of the result row, once asked for */
} RlFunctionState;

/* number of the first argument in the functions that begin with "at" */
#define RL_ARG_FIRST			0
#define RL_ARG_FIRST_AT			1

extern RlFunctionState *rl_function_state(FunctionCallInfo fcinfo);
extern Oid	rl_extension_schema(FunctionCallInfo fcinfo);
extern void rl_read_request(FunctionCallInfo fcinfo, int first,
							bool adjustment, RlRequest *request);
extern int	rl_read_requests(FunctionCallInfo fcinfo, RlRequest **requests);
extern bool rl_same_counter(const RlRequest *a, const RlRequest *b);
extern RlBytes rl_read_key(FunctionCallInfo fcinfo, int argno);
extern RlBytes rl_read_policy(FunctionCallInfo fcinfo, int argno);
extern int64 rl_read_cost(FunctionCallInfo fcinfo, int argno,
						  bool adjustment);
extern void rl_read_at(FunctionCallInfo fcinfo, int argno, RlTime *at);
extern RlBytes rl_read_prefix(FunctionCallInfo fcinfo, int argno);
extern RlBytes rl_read_reason(FunctionCallInfo fcinfo, int argno);
extern Datum rl_text_datum(RlBytes bytes);
extern RlTime rl_block_end(const Interval *duration, RlTime now);

/* what says which limit (terms.c) */
extern void rl_set_terms(RlRequest *request, const RlTerms *terms);
extern void rl_set_burst(RlLimit *limit, int64 burst);
extern const char *rl_algorithm_name(RlAlgorithm algorithm);
extern RlAlgorithm rl_algorithm_of_text(const text *name);
extern bool rl_set_zone(RlZone *zone, const char *name,
						const char **canonical_name);

#endif							/* RL_REQUEST_H */
