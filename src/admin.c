/*-------------------------------------------------------------------------
 *
 * admin.c
 *	  The SQL functions for administration.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memory.h"

#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(rate_limit_reset);
PG_FUNCTION_INFO_V1(rate_limit_reset_prefix);
PG_FUNCTION_INFO_V1(rate_limit_block);
PG_FUNCTION_INFO_V1(rate_limit_unblock);

Datum
rate_limit_reset(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(rl_memory_reset(rl_read_key(fcinfo, 0)));
}

Datum
rate_limit_reset_prefix(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(rl_memory_reset_prefix(rl_read_prefix(fcinfo, 0)));
}

Datum
rate_limit_block(PG_FUNCTION_ARGS)
{
	RlBytes		key = rl_read_key(fcinfo, 0);
	RlTime		now = GetCurrentTimestamp();
	RlTime		end = rl_read_block_end(fcinfo, 1, now);

	rl_memory_block(key, now, end, rl_read_reason(fcinfo, 2));
	PG_RETURN_VOID();
}

Datum
rate_limit_unblock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(rl_memory_unblock(rl_read_key(fcinfo, 0)));
}
