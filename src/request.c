/*-------------------------------------------------------------------------
 *
 * request.c
 *	  What a caller asks for, taken from the arguments of a function.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "request.h"

#include "arena.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

/* the most keys that rate_limit_check_all takes */
#define MAX_KEYS				1000

static void
refuse_null(const char *argument)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("argument \"%s\" must not be null", argument)));
}

/*-------------------------------------------------------------------------
 * Texts
 *-------------------------------------------------------------------------
 */

static RlBytes
key_of_text(const text *value)
{
	RlBytes		key = {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};

	return key;
}

Datum
rl_text_datum(RlBytes bytes)
{
	return PointerGetDatum(cstring_to_text_with_len(bytes.data, bytes.length));
}

static void
check_length(RlBytes key, const char *argument, int maximum, const char *hint)
{
	if (key.length > maximum)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is too long", argument),
				 errdetail("It has %d bytes, the maximum is %d.",
						   key.length, maximum),
				 errhint("%s", hint)));
}

static RlBytes
check_key(RlBytes key)
{
	if (key.length == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"key\" must not be empty"),
				 errhint("Give what the limit is counted for, such as 'user:42'.")));
	check_length(key, "key", RL_MAX_KEY_BYTES,
				 "Use a shorter key, or a hash of the long one.");
	return key;
}

RlBytes
rl_read_key(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		refuse_null("key");
	return check_key(key_of_text(PG_GETARG_TEXT_PP(argno)));
}

RlBytes
rl_read_policy(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		refuse_null("policy");
	return key_of_text(PG_GETARG_TEXT_PP(argno));
}

/* Like a key, but an empty one is a prefix of every key. */
RlBytes
rl_read_prefix(FunctionCallInfo fcinfo, int argno)
{
	RlBytes		prefix;

	if (PG_ARGISNULL(argno))
		refuse_null("prefix");
	prefix = key_of_text(PG_GETARG_TEXT_PP(argno));
	check_length(prefix, "prefix", RL_MAX_KEY_BYTES,
				 "No key starts with it, since keys are not longer.");
	return prefix;
}

/* The reason for a block; none when it is null. */
RlBytes
rl_read_reason(FunctionCallInfo fcinfo, int argno)
{
	RlBytes		reason = {NULL, 0};

	if (PG_ARGISNULL(argno))
		return reason;
	reason = key_of_text(PG_GETARG_TEXT_PP(argno));
	check_length(reason, "reason", RL_MAX_REASON_BYTES,
				 "Shorten it, or give the number of a ticket.");
	return reason;
}

/*-------------------------------------------------------------------------
 * The other arguments
 *-------------------------------------------------------------------------
 */

static int64
check_cost(int64 cost)
{
	if (cost < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"cost\" must not be negative"),
				 errhint("Use rate_limit_adjust to give quota back.")));
	return cost;
}

/* Return what a function keeps while a query runs. */
RlFunctionState *
rl_function_state(FunctionCallInfo fcinfo)
{
	FmgrInfo   *function = fcinfo->flinfo;
	RlFunctionState *state = function->fn_extra;

	if (unlikely(state == NULL))
	{
		state = MemoryContextAllocZero(function->fn_mcxt,
									   sizeof(RlFunctionState));
		function->fn_extra = state;
	}
	return state;
}

/* Return the schema of the extension, which is that of its functions. */
Oid
rl_extension_schema(FunctionCallInfo fcinfo)
{
	RlFunctionState *state = rl_function_state(fcinfo);

	if (unlikely(!OidIsValid(state->schema)))
		state->schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	return state->schema;
}

void
rl_read_at(FunctionCallInfo fcinfo, int argno, RlTime *at)
{
	if (PG_ARGISNULL(argno))
		refuse_null("at");
	*at = PG_GETARG_TIMESTAMPTZ(argno);
	if (*at < RL_MIN_TIME || *at > RL_MAX_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"at\" is out of range"),
				 errhint("Give a finite instant before the year 128000.")));
}

/* Return the cost of a call, in an adjustment "delta", which may be negative. */
int64
rl_read_cost(FunctionCallInfo fcinfo, int argno, bool adjustment)
{
	if (PG_ARGISNULL(argno))
		refuse_null(adjustment ? "delta" : "cost");
	return adjustment ? PG_GETARG_INT64(argno) :
		check_cost(PG_GETARG_INT64(argno));
}

static void
init_request(RlRequest *request)
{
	memset(request, 0, sizeof(RlRequest));
	request->limit.exact_hits = rl_exact_hits;
}

static const text *
read_text(FunctionCallInfo fcinfo, int argno)
{
	return PG_ARGISNULL(argno) ? NULL : PG_GETARG_TEXT_PP(argno);
}

/*
 * Read the arguments (key, limit, window, cost, algorithm, burst, store,
 * time_zone), of which the key is argument number "first".  With
 * RL_ARG_FIRST_AT the instant comes before them.
 */
void
rl_read_request(FunctionCallInfo fcinfo, int first, bool adjustment,
				RlRequest *request)
{
	RlTerms		terms;

	init_request(request);
	request->has_time = first == RL_ARG_FIRST_AT;
	if (request->has_time)
		rl_read_at(fcinfo, 0, &request->at);
	request->key = rl_read_key(fcinfo, first);
	if (PG_ARGISNULL(first + 1))
		refuse_null("limit");
	if (PG_ARGISNULL(first + 2))
		refuse_null("window");
	request->cost = rl_read_cost(fcinfo, first + 3, adjustment);
	if (PG_ARGISNULL(first + 4))
		refuse_null("algorithm");

	terms.limit = PG_GETARG_INT64(first + 1);
	terms.window = PG_GETARG_INTERVAL_P(first + 2);
	terms.algorithm = PG_GETARG_TEXT_PP(first + 4);
	terms.has_burst = !PG_ARGISNULL(first + 5);
	terms.burst = terms.has_burst ? PG_GETARG_INT64(first + 5) : 0;
	terms.store = read_text(fcinfo, first + 6);
	terms.time_zone = read_text(fcinfo, first + 7);
	rl_set_terms(request, &terms);
	if (request->store == RL_STORE_TABLE)
		request->schema = rl_extension_schema(fcinfo);
}

/*-------------------------------------------------------------------------
 * Several requests, in arrays
 *-------------------------------------------------------------------------
 */

/*
 * Return the elements of a one-dimensional array without nulls.  "length" is
 * -1 or the length that it must have.
 */
static Datum *
read_array(FunctionCallInfo fcinfo, int argno, const char *argument, Oid type,
		   int type_length, bool by_value, int *length)
{
	ArrayType  *array;
	Datum	   *elements;
	int			nelements;

	if (PG_ARGISNULL(argno))
		refuse_null(argument);
	array = PG_GETARG_ARRAYTYPE_P(argno);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be a one-dimensional array",
						argument),
				 errhint("Give one element per key.")));
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not contain nulls", argument)));

	deconstruct_array(array, type, type_length, by_value,
					  type == TEXTOID ? TYPALIGN_INT : TYPALIGN_DOUBLE,
					  &elements, NULL, &nelements);
	if (*length >= 0 && nelements != *length)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must have as many elements as \"keys\"",
						argument),
				 errdetail("Its length is %d, that of \"keys\" is %d.",
						   nelements, *length),
				 errhint("Give one element per key.")));
	*length = nelements;
	return elements;
}

/* Tell in an error's context which element of the arrays is at fault. */
static void
name_element(void *arg)
{
	errcontext("element %d of the arrays", *(int *) arg + 1);
}

/* Tell whether two requests of one call are for the same counter. */
bool
rl_same_counter(const RlRequest *a, const RlRequest *b)
{
	return a->rule == b->rule &&
		a->limit.window.unit == b->limit.window.unit &&
		a->limit.window.length == b->limit.window.length &&
		a->key.length == b->key.length &&
		memcmp(a->key.data, b->key.data, a->key.length) == 0;
}

/*
 * Refuse a token bucket that is given with two capacities: which of them caps
 * its level would depend on the order.
 */
static void
check_capacities(const RlRequest *requests, int n)
{
	for (int i = 1; i < n; i++)
	{
		const RlRequest *a = &requests[i];

		for (int j = 0; j < i; j++)
		{
			const RlRequest *b = &requests[j];

			if (a->limit.limit != b->limit.limit && rl_same_counter(a, b))
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("argument \"limits\" must not differ for the same key and window"),
						 errhint("With algorithm \"token_bucket\" give a counter one limit in a call.")));
		}
	}
}

/*
 * Read the arguments (keys, limits, windows, costs, algorithm) into an array
 * of requests, and return how many there are.
 */
int
rl_read_requests(FunctionCallInfo fcinfo, RlRequest **requests)
{
	int			n = -1;
	Datum	   *keys = read_array(fcinfo, 0, "keys", TEXTOID, -1, false, &n);
	Datum	   *limits;
	Datum	   *windows;
	Datum	   *costs = NULL;
	RlTerms		terms = {0};
	ErrorContextCallback context;
	int			element;

	if (n == 0 || n > MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 n == 0 ? errmsg("argument \"keys\" must not be empty") :
				 errmsg("argument \"keys\" has too many elements"),
				 errhint("Give 1 to %d keys.", MAX_KEYS)));
	limits = read_array(fcinfo, 1, "limits", INT8OID, 8, FLOAT8PASSBYVAL, &n);
	windows = read_array(fcinfo, 2, "windows", INTERVALOID, sizeof(Interval),
						 false, &n);
	if (!PG_ARGISNULL(3))
		costs = read_array(fcinfo, 3, "costs", INT8OID, 8, FLOAT8PASSBYVAL,
						   &n);
	if (PG_ARGISNULL(4))
		refuse_null("algorithm");
	terms.algorithm = PG_GETARG_TEXT_PP(4);

	context.callback = name_element;
	context.arg = &element;
	context.previous = error_context_stack;
	error_context_stack = &context;

	*requests = palloc(sizeof(RlRequest) * n);
	for (element = 0; element < n; element++)
	{
		RlRequest  *request = &(*requests)[element];

		init_request(request);
		request->key = check_key(key_of_text(DatumGetTextPP(keys[element])));
		request->cost = costs ? check_cost(DatumGetInt64(costs[element])) : 1;
		terms.limit = DatumGetInt64(limits[element]);
		terms.window = DatumGetIntervalP(windows[element]);
		rl_set_terms(request, &terms);
		if (request->store == RL_STORE_TABLE)
			request->schema = rl_extension_schema(fcinfo);
	}

	error_context_stack = context.previous;
	if ((*requests)[0].limit.algorithm == RL_TOKEN_BUCKET)
		check_capacities(*requests, n);
	return n;
}

/*-------------------------------------------------------------------------
 * The duration of a block
 *-------------------------------------------------------------------------
 */

/* Tell whether an interval can be added to now: what is far too long cannot. */
static bool
may_be_added(const Interval *interval)
{
	return Abs((int64) interval->month) <= 2 * RL_MAX_WINDOW_MONTHS &&
		Abs((int64) interval->day) <= 2 * RL_MAX_WINDOW_DAYS &&
		interval->time <= 2 * RL_MAX_WINDOW_USECS &&
		interval->time >= -2 * RL_MAX_WINDOW_USECS;
}

/* Return when a block that starts now ends: never if the duration is NULL. */
RlTime
rl_block_end(const Interval *duration, RlTime now)
{
	RlTime		end;

	if (duration == NULL)
		return RL_NEVER;
	if (may_be_added(duration))
		end = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
													  TimestampTzGetDatum(now),
													  IntervalPGetDatum(duration)));
	else
	{
		int128		days = (int128) duration->month * 31 + duration->day;

		end = days * RL_USECS_PER_DAY + duration->time > 0 ? RL_NEVER : now;
	}

	if (end <= now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"duration\" must be greater than zero"),
				 errhint("Leave it out to block until rate_limit_unblock.")));
	if (end - now > RL_MAX_WINDOW_USECS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"duration\" must not be longer than 100 years"),
				 errhint("Leave it out to block until rate_limit_unblock.")));
	return end;
}
