/*-------------------------------------------------------------------------
 *
 * functions.c
 *	  The SQL functions that decide.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "result.h"

#include "funcapi.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(rate_limit_check);
PG_FUNCTION_INFO_V1(rate_limit_check_at);
PG_FUNCTION_INFO_V1(rate_limit_allowed);
PG_FUNCTION_INFO_V1(rate_limit_require);
PG_FUNCTION_INFO_V1(rate_limit_peek);
PG_FUNCTION_INFO_V1(rate_limit_peek_at);
PG_FUNCTION_INFO_V1(rate_limit_adjust);
PG_FUNCTION_INFO_V1(rate_limit_adjust_at);
PG_FUNCTION_INFO_V1(rate_limit_check_all);

/* Decide with the arguments of a function and return the row. */
static Datum
decide(FunctionCallInfo fcinfo, RlOperation operation, int first)
{
	RlRequest	request;
	RlVerdict	verdict;

	rl_read_request(fcinfo, first, operation == RL_ADJUST, &request);
	rl_decide(operation, &request, &verdict);
	return rl_result_datum(fcinfo, &verdict);
}

Datum
rate_limit_check(PG_FUNCTION_ARGS)
{
	return decide(fcinfo, RL_CHECK, RL_ARG_FIRST);
}

Datum
rate_limit_check_at(PG_FUNCTION_ARGS)
{
	return decide(fcinfo, RL_CHECK, RL_ARG_FIRST_AT);
}

Datum
rate_limit_peek(PG_FUNCTION_ARGS)
{
	return decide(fcinfo, RL_PEEK, RL_ARG_FIRST);
}

Datum
rate_limit_peek_at(PG_FUNCTION_ARGS)
{
	return decide(fcinfo, RL_PEEK, RL_ARG_FIRST_AT);
}

Datum
rate_limit_adjust(PG_FUNCTION_ARGS)
{
	return decide(fcinfo, RL_ADJUST, RL_ARG_FIRST);
}

Datum
rate_limit_adjust_at(PG_FUNCTION_ARGS)
{
	return decide(fcinfo, RL_ADJUST, RL_ARG_FIRST_AT);
}

Datum
rate_limit_allowed(PG_FUNCTION_ARGS)
{
	RlRequest	request;
	RlVerdict	verdict;

	rl_read_request(fcinfo, RL_ARG_FIRST, false, &request);
	rl_decide(RL_CHECK, &request, &verdict);
	PG_RETURN_BOOL(verdict.allowed);
}

Datum
rate_limit_require(PG_FUNCTION_ARGS)
{
	RlRequest	request;
	RlVerdict	verdict;

	rl_read_request(fcinfo, RL_ARG_FIRST, false, &request);
	rl_decide(RL_CHECK, &request, &verdict);
	if (!verdict.allowed)
		rl_raise_refusal(&request, &verdict);
	PG_RETURN_VOID();
}

Datum
rate_limit_check_all(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	RlRequest  *requests;
	int			n = rl_read_requests(fcinfo, &requests);
	RlVerdict  *verdicts = palloc(sizeof(RlVerdict) * n);

	InitMaterializedSRF(fcinfo, 0);
	rl_decide_all(requests, n, verdicts);

	for (int i = 0; i < n; i++)
	{
		Datum		values[2 + RL_RESULT_COLUMNS];
		bool		nulls[2 + RL_RESULT_COLUMNS] = {false};

		values[0] = Int32GetDatum(i + 1);
		values[1] = rl_text_datum(requests[i].key);
		rl_result_values(&verdicts[i], &values[2], &nulls[2]);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}
