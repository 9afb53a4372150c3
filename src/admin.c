/*-------------------------------------------------------------------------
 *
 * admin.c
 *	  The SQL functions for administration.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drop.h"
#include "memory.h"
#include "table_store.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(rate_limit_reset);
PG_FUNCTION_INFO_V1(rate_limit_reset_prefix);
PG_FUNCTION_INFO_V1(rate_limit_block);
PG_FUNCTION_INFO_V1(rate_limit_unblock);
PG_FUNCTION_INFO_V1(rate_limit_prune);
PG_FUNCTION_INFO_V1(rate_limit_forget);

Datum
rate_limit_reset(PG_FUNCTION_ARGS)
{
	RlBytes		key = rl_read_key(fcinfo, 0);
	int64		removed = rl_table_reset(rl_extension_schema(fcinfo), key);

	PG_RETURN_INT64(removed + rl_memory_reset(key));
}

Datum
rate_limit_reset_prefix(PG_FUNCTION_ARGS)
{
	RlBytes		prefix = rl_read_prefix(fcinfo, 0);
	int64		removed = rl_table_reset_prefix(rl_extension_schema(fcinfo),
												prefix);

	PG_RETURN_INT64(removed + rl_memory_reset_prefix(prefix));
}

Datum
rate_limit_block(PG_FUNCTION_ARGS)
{
	RlBytes		key = rl_read_key(fcinfo, 0);
	RlTime		now = GetCurrentTimestamp();
	RlTime		end = rl_block_end(PG_ARGISNULL(1) ? NULL :
								   PG_GETARG_INTERVAL_P(1), now);

	if (!rl_memory_block(key, now, end, rl_read_reason(fcinfo, 2), true))
		rl_raise_memory_full();
	PG_RETURN_VOID();
}

Datum
rate_limit_unblock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(rl_memory_unblock(rl_read_key(fcinfo, 0)));
}

Datum
rate_limit_prune(PG_FUNCTION_ARGS)
{
	int64		max = PG_ARGISNULL(0) ? PG_INT64_MAX : PG_GETARG_INT64(0);

	if (max < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"max\" must be at least 1"),
				 errhint("Leave it out to remove all that has expired.")));
	PG_RETURN_INT64(rl_table_prune(rl_extension_schema(fcinfo), max));
}

Datum
rate_limit_forget(PG_FUNCTION_ARGS)
{
	(void) fcinfo;

	/* dropped and created in one transaction: it may yet be rolled back */
	if (!rl_will_forget())
		rl_memory_forget_database(MyDatabaseId);
	PG_RETURN_VOID();
}
