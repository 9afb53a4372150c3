/*-------------------------------------------------------------------------
 *
 * enforce.c
 *	  The SQL functions that decide by policies.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memory.h"
#include "policy.h"
#include "result.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "funcapi.h"
#include "utils/inval.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(rate_limit_enforce);
PG_FUNCTION_INFO_V1(rate_limit_enforce_at);
PG_FUNCTION_INFO_V1(rate_limit_enforce_adjust);
PG_FUNCTION_INFO_V1(rate_limit_usage);
PG_FUNCTION_INFO_V1(rate_limit_policy_changed);

/* A call, and what each rule of its policy asks and answers. */
typedef struct Call
{
	RlRequest	common;			/* key, cost and instant */
	const RlPolicy *policy;
	int			n;				/* rules; one that has no limit if there is
								 * none */
	RlRequest  *requests;
	RlVerdict  *verdicts;
} Call;

/*-------------------------------------------------------------------------
 * Requests
 *-------------------------------------------------------------------------
 */

/* Read the arguments (policy, key, cost), of which the policy is number "first". */
static RlBytes
read_call(FunctionCallInfo fcinfo, int first, bool adjustment, Call *call)
{
	RlRequest  *common = &call->common;
	RlBytes		policy;

	memset(call, 0, sizeof(Call));
	common->has_time = first == RL_ARG_FIRST_AT;
	if (common->has_time)
		rl_read_at(fcinfo, 0, &common->at);
	policy = rl_read_policy(fcinfo, first);
	common->key = rl_read_key(fcinfo, first + 1);
	common->cost = PG_NARGS() > first + 2 ?
		rl_read_cost(fcinfo, first + 2, adjustment) : 1;
	return policy;
}

/* Make the requests of all rules. */
static void
make_requests(Call *call, Oid schema, RlBytes name)
{
	const RlPolicy *policy = rl_get_policy(schema, name);
	RlRequest  *common = &call->common;

	call->policy = policy;
	call->n = Max(policy->nrules, 1);
	call->requests = palloc(sizeof(RlRequest) * call->n);
	call->verdicts = palloc(sizeof(RlVerdict) * call->n);
	if (policy->nrules == 0)
	{
		common->unlimited = true;
		call->requests[0] = *common;
		return;
	}

	for (int i = 0; i < policy->nrules; i++)
	{
		RlRequest  *request = &call->requests[i];

		rl_set_rule(request, policy, i, schema, common->key);
		request->cost = common->cost;
		request->has_time = common->has_time;
		request->at = common->at;
	}
	rl_apply_overrides(call->requests, policy, schema);
}

/*-------------------------------------------------------------------------
 * Deciding
 *-------------------------------------------------------------------------
 */

/* The number of the store that a request goes to, in the order of deciding. */
static int
rank(const RlRequest *request)
{
	if (request->unlimited)
		return 2;
	return request->store == RL_STORE_TABLE ? 0 : 1;
}

/* Put the numbers of the requests in the order of deciding. */
static void
order_requests(const Call *call, int *numbers)
{
	int			n = 0;

	for (int wanted = 0; wanted <= 2; wanted++)
	{
		for (int i = 0; i < call->n; i++)
		{
			if (rank(&call->requests[i]) == wanted)
				numbers[n++] = i;
		}
	}
}

/* Decide on the requests together. */
static void
decide_together(Call *call)
{
	RlRequest  *requests = palloc(sizeof(RlRequest) * call->n);
	RlVerdict  *verdicts = palloc(sizeof(RlVerdict) * call->n);
	int		   *numbers = palloc(sizeof(int) * call->n);

	order_requests(call, numbers);
	for (int i = 0; i < call->n; i++)
		rl_copy_request(&requests[i], &call->requests[numbers[i]]);
	rl_decide_all(requests, call->n, verdicts);
	for (int i = 0; i < call->n; i++)
		call->verdicts[numbers[i]] = verdicts[i];
}

/* Decide on the call: all rules or none are charged. */
static void
decide(Call *call)
{
	if (call->n == 1 && !call->requests[0].shadow)
		rl_decide(RL_CHECK, &call->requests[0], &call->verdicts[0]);
	else
		decide_together(call);
}

/*-------------------------------------------------------------------------
 * What is reported
 *-------------------------------------------------------------------------
 */

/* Tell whether a rule that refuses is to be reported rather than another. */
static bool
refuses_longer(const Call *call, int a, int b)
{
	const RlVerdict *verdict_a = &call->verdicts[a];
	const RlVerdict *verdict_b = &call->verdicts[b];

	if (call->requests[a].shadow != call->requests[b].shadow)
		return call->requests[b].shadow;
	return verdict_a->report.retry_at > verdict_b->report.retry_at;
}

/* Tell whether a rule that admits is to be reported rather than another. */
static bool
is_tighter(const Call *call, int a, int b)
{
	const RlVerdict *verdict_a = &call->verdicts[a];
	const RlVerdict *verdict_b = &call->verdicts[b];

	if (call->requests[a].shadow != call->requests[b].shadow)
		return call->requests[b].shadow;
	if (verdict_a->unlimited != verdict_b->unlimited)
		return verdict_b->unlimited;
	if (!verdict_a->unlimited &&
		verdict_a->report.remaining != verdict_b->report.remaining)
		return verdict_a->report.remaining < verdict_b->report.remaining;
	return verdict_a->report.reset_at > verdict_b->report.reset_at;
}

/*
 * Return the number of the rule to report.  Rules that only count have no say
 * where there is another.  Of those that refuse it is the one that does
 * longest, else the one that has least left; of equals the first by name.
 */
static int
find_reported(const Call *call)
{
	int			refusing = -1;
	int			tightest = 0;

	for (int i = 0; i < call->n; i++)
	{
		if (rl_refuses(&call->requests[i], &call->verdicts[i]) &&
			(refusing < 0 || refuses_longer(call, i, refusing)))
			refusing = i;
		if (is_tighter(call, i, tightest))
			tightest = i;
	}
	return refusing >= 0 ? refusing : tightest;
}

/*
 * Block the key for the longest block_for of the rules that refuse.  Return
 * false if none has one.
 */
static bool
block_key(const Call *call, RlTime now)
{
	const RlRule *longest = NULL;
	RlTime		end = RL_MIN_TIME;
	char		buffer[64 + 2 * NAMEDATALEN];
	RlBytes		reason;

	for (int i = 0; i < call->policy->nrules; i++)
	{
		const RlRule *rule = &call->policy->rules[i];

		if (rule->has_block_for &&
			rl_refuses(&call->requests[i], &call->verdicts[i]))
		{
			RlTime		rule_end = rl_block_end(&rule->block_for, now);

			if (rule_end > end)
			{
				longest = rule;
				end = rule_end;
			}
		}
	}
	if (longest == NULL)
		return false;

	reason.data = buffer;
	reason.length = snprintf(buffer, sizeof(buffer),
							 "policy \"%s\", rule \"%s\"",
							 call->policy->name, longest->name);

	/* if memory is full the refusal is all there is */
	return rl_memory_block(call->common.key, now, end, reason, false);
}

/*
 * See to what a refusal brings with it.  A look, a replay and a key that is
 * blocked already block nothing.
 */
static void
follow_up(Call *call, int reported)
{
	const RlRequest *request = &call->requests[reported];
	RlVerdict  *verdict = &call->verdicts[reported];

	if (verdict->blocked || request->cost == 0 || request->has_time ||
		!rl_refuses(request, verdict) || !block_key(call, verdict->now))
		return;
	rl_decide(RL_PEEK, request, verdict);
	verdict->rule = request->rule;
}

/* Admit what only counts. */
static void
admit_shadow(const RlRequest *request, RlVerdict *verdict)
{
	if (!verdict->allowed && !rl_refuses(request, verdict))
		rl_admit(verdict);
}

/*-------------------------------------------------------------------------
 * The functions
 *-------------------------------------------------------------------------
 */

static Datum
enforce(FunctionCallInfo fcinfo, int first)
{
	Call		call;
	RlBytes		policy = read_call(fcinfo, first, false, &call);
	int			reported;

	make_requests(&call, rl_extension_schema(fcinfo), policy);
	decide(&call);
	reported = find_reported(&call);
	follow_up(&call, reported);
	admit_shadow(&call.requests[reported], &call.verdicts[reported]);
	return rl_result_datum(fcinfo, &call.verdicts[reported]);
}

Datum
rate_limit_enforce(PG_FUNCTION_ARGS)
{
	return enforce(fcinfo, RL_ARG_FIRST);
}

Datum
rate_limit_enforce_at(PG_FUNCTION_ARGS)
{
	return enforce(fcinfo, RL_ARG_FIRST_AT);
}

Datum
rate_limit_enforce_adjust(PG_FUNCTION_ARGS)
{
	Call		call;
	RlBytes		policy = read_call(fcinfo, RL_ARG_FIRST, true, &call);
	int		   *numbers;

	make_requests(&call, rl_extension_schema(fcinfo), policy);

	/* an error of the table store leaves memory as it was */
	numbers = palloc(sizeof(int) * call.n);
	order_requests(&call, numbers);
	for (int i = 0; i < call.n; i++)
		rl_decide(RL_ADJUST, &call.requests[numbers[i]],
				  &call.verdicts[numbers[i]]);
	return rl_result_datum(fcinfo, &call.verdicts[find_reported(&call)]);
}

Datum
rate_limit_usage(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Call		call;
	RlBytes		policy = read_call(fcinfo, RL_ARG_FIRST, false, &call);

	make_requests(&call, rl_extension_schema(fcinfo), policy);
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < call.policy->nrules; i++)
	{
		RlVerdict  *verdict = &call.verdicts[i];
		Datum		values[RL_RESULT_COLUMNS];
		bool		nulls[RL_RESULT_COLUMNS];

		rl_decide(RL_PEEK, &call.requests[i], verdict);
		verdict->rule = call.requests[i].rule;
		rl_result_values(verdict, values, nulls);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}

/*
 * Trigger on the tables of limits: tell every session when this commits, and
 * this one when the command ends and when it is rolled back.
 */
Datum
rate_limit_policy_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function rate_limit_policy_changed must be called as a trigger")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	return PointerGetDatum(NULL);
}
