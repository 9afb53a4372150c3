/*-------------------------------------------------------------------------
 *
 * result.c
 *	  Verdicts as SQL values.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "result.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

/* Return the seconds from the decision until an instant. */
static double
seconds_until(const RlVerdict *verdict, RlTime instant)
{
	return (double) ((int128) instant - verdict->now) / RL_USECS_PER_SEC;
}

/* Fill in the columns of rate_limit_result. */
void
rl_result_values(const RlVerdict *verdict, Datum *values, bool *nulls)
{
	const RlReport *report = &verdict->report;

	memset(nulls, false, RL_RESULT_COLUMNS);
	values[0] = BoolGetDatum(verdict->allowed);
	values[1] = Int64GetDatum(verdict->limit);
	nulls[1] = verdict->unlimited;
	values[2] = Int64GetDatum(report->used);
	values[3] = Int64GetDatum(report->remaining);
	nulls[3] = verdict->unlimited && verdict->allowed;
	if (report->retry_at == RL_NEVER)
		nulls[4] = true;
	else
		values[4] = Float8GetDatum(seconds_until(verdict, report->retry_at));
	if (report->reset_at == RL_NEVER)
		nulls[5] = true;
	else
		values[5] = TimestampTzGetDatum(report->reset_at);
	if (verdict->rule != NULL)
		values[6] = CStringGetTextDatum(verdict->rule);
	else
		nulls[6] = true;
}

static TupleDesc
look_up_descriptor(FunctionCallInfo fcinfo)
{
	RlFunctionState *state = rl_function_state(fcinfo);

	if (state->descriptor == NULL)
	{
		MemoryContext context = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
		TupleDesc	descriptor;

		if (get_call_result_type(fcinfo, NULL,
								 &descriptor) != TYPEFUNC_COMPOSITE ||
			descriptor->natts != RL_RESULT_COLUMNS)
			elog(ERROR, "return type must be rate_limit_result");
		state->descriptor = BlessTupleDesc(descriptor);
		MemoryContextSwitchTo(context);
	}
	return state->descriptor;
}

/*
 * Return the descriptor of the row that a function returns.  In FROM the
 * executor has it; elsewhere it is looked up once per query.
 */
static TupleDesc
result_descriptor(FunctionCallInfo fcinfo)
{
	const ReturnSetInfo *info = (const ReturnSetInfo *) fcinfo->resultinfo;

	if (info != NULL && IsA(info, ReturnSetInfo) &&
		info->expectedDesc != NULL &&
		info->expectedDesc->tdtypeid != RECORDOID &&
		info->expectedDesc->natts == RL_RESULT_COLUMNS)
		return info->expectedDesc;
	return look_up_descriptor(fcinfo);
}

/* Form a row of the type that a function returns. */
Datum
rl_result_datum(FunctionCallInfo fcinfo, const RlVerdict *verdict)
{
	Datum		values[RL_RESULT_COLUMNS];
	bool		nulls[RL_RESULT_COLUMNS];

	rl_result_values(verdict, values, nulls);
	return HeapTupleGetDatum(heap_form_tuple(result_descriptor(fcinfo),
											 values, nulls));
}

/*-------------------------------------------------------------------------
 * The error of rate_limit_require
 *-------------------------------------------------------------------------
 */

/* Return the verdict as row_to_json() would print its row. */
static char *
verdict_to_json(const RlVerdict *verdict)
{
	TupleDesc	descriptor = CreateTemplateTupleDesc(RL_RESULT_COLUMNS);
	Datum		values[RL_RESULT_COLUMNS];
	bool		nulls[RL_RESULT_COLUMNS];
	HeapTuple	tuple;
	Datum		json;

	TupleDescInitEntry(descriptor, 1, "allowed", BOOLOID, -1, 0);
	TupleDescInitEntry(descriptor, 2, "limit", INT8OID, -1, 0);
	TupleDescInitEntry(descriptor, 3, "used", INT8OID, -1, 0);
	TupleDescInitEntry(descriptor, 4, "remaining", INT8OID, -1, 0);
	TupleDescInitEntry(descriptor, 5, "retry_after", FLOAT8OID, -1, 0);
	TupleDescInitEntry(descriptor, 6, "reset_at", TIMESTAMPTZOID, -1, 0);
	TupleDescInitEntry(descriptor, 7, "rule", TEXTOID, -1, 0);
	descriptor = BlessTupleDesc(descriptor);

	rl_result_values(verdict, values, nulls);
	tuple = heap_form_tuple(descriptor, values, nulls);
	json = DirectFunctionCall1(row_to_json, HeapTupleGetDatum(tuple));
	return TextDatumGetCString(json);
}

/* Raise the error of a refused call. */
void
rl_raise_refusal(const RlRequest *request, const RlVerdict *verdict)
{
	RlTime		retry_at = verdict->report.retry_at;

	ereport(ERROR,
			(errcode(ERRCODE_RATE_LIMIT_EXCEEDED),
			 errmsg("rate limit exceeded for key \"%s\"",
					pnstrdup(request->key.data, request->key.length)),
			 errdetail_internal("%s", verdict_to_json(verdict)),
			 retry_at == RL_NEVER ?
			 errhint("The call can never be admitted: the limit is 0 or less than its cost, or the key is blocked without end.") :
			 errhint("Retry in %.6f seconds.",
					 seconds_until(verdict, retry_at))));
}
