/*
 * C functions with the signatures of rate_limit_allowed and rate_limit_check
 * that do nothing, to be taken off what those cost.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/timestamp.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(empty_allowed);
PG_FUNCTION_INFO_V1(empty_check);

Datum
empty_allowed(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	PG_RETURN_BOOL(true);
}

/* The row is formed as rate_limit_check does it: that is not its cost. */
Datum
empty_check(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = fcinfo->flinfo->fn_extra;
	Datum		values[7] = {BoolGetDatum(true)};
	bool		nulls[7] = {false, false, false, false, false, false, true};

	if (descriptor == NULL)
	{
		MemoryContext context = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		if (get_call_result_type(fcinfo, NULL,
								 &descriptor) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		descriptor = BlessTupleDesc(descriptor);
		MemoryContextSwitchTo(context);
		fcinfo->flinfo->fn_extra = descriptor;
	}
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}
