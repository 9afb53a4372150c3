/*-------------------------------------------------------------------------
 *
 * result.h
 *	  Verdicts as SQL values.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_RESULT_H
#define RL_RESULT_H

#include "compat.h"
#include "store.h"

/* columns of rate_limit_result */
#define RL_RESULT_COLUMNS		7

/* SQLSTATE of a refusal */
#define ERRCODE_RATE_LIMIT_EXCEEDED MAKE_SQLSTATE('R','L','4','2','9')

extern void rl_result_values(const RlVerdict *verdict, Datum *values,
							 bool *nulls);
extern Datum rl_result_datum(FunctionCallInfo fcinfo,
							 const RlVerdict *verdict);
pg_noreturn extern void rl_raise_refusal(const RlRequest *request,
										 const RlVerdict *verdict);

#endif							/* RL_RESULT_H */
