/*-------------------------------------------------------------------------
 *
 * policy.h
 *	  What the rules of a policy ask of a call.
 *
 * The tables rate_limit_policies and rate_limit_overrides are read once and
 * kept by every session.  A trigger on them invalidates the relation cache entry
 * of its table, a message that PostgreSQL sends to every session when the
 * transaction commits, and that drops what is kept here.  Messages are looked
 * for at the beginning of each call, which costs next to nothing if there are
 * none.  Whatever is kept was read after the last message had been looked for,
 * with a snapshot taken then, so no call that begins after a commit decides by
 * what was before.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_POLICY_H
#define RL_POLICY_H

#include "arena.h"
#include "request.h"

#include "datatype/timestamp.h"

/*
 * How many policies, and keys of policies that have overrides, a session keeps.
 * When there are more it begins anew.
 */
#define RL_MAX_KEPT				4096

typedef struct RlRule
{
	char		name[NAMEDATALEN];
	RlRequest	request;		/* all but the key and the cost */
	bool		default_store;	/* rate_limit.store says which */
	int64		burst;			/* 0: as large as the limit */
	bool		has_block_for;
	Interval	block_for;
} RlRule;

typedef struct RlPolicy
{
	char		name[NAMEDATALEN];	/* may be that of the fallback */
	bool		has_overrides;	/* does any key or network have one? */
	int			nrules;			/* those that are off do not count */
	RlRule		rules[FLEXIBLE_ARRAY_MEMBER];	/* by name */
} RlPolicy;

extern const RlPolicy *rl_get_policy(Oid schema, RlBytes name);
extern void rl_set_rule(RlRequest *request, const RlPolicy *policy, int n,
						Oid schema, RlBytes key);
extern void rl_apply_overrides(RlRequest *requests, const RlPolicy *policy,
							   Oid schema);

#endif							/* RL_POLICY_H */
