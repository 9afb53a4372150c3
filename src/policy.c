/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  What the rules of a policy ask of a call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "policy.h"

#include "address.h"
#include "table_sql.h"

#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* A policy by the name that it is asked for. */
typedef struct KeptPolicy
{
	char		asked[NAMEDATALEN];
	RlPolicy   *policy;
} KeptPolicy;

/* Another limit for a rule. */
typedef struct Override
{
	char		rule[NAMEDATALEN];	/* empty: every rule */
	bool		unlimited;
	int64		limit;
	RlTime		expires_at;
} Override;

/* The overrides of a policy for a key, the first that fits goes. */
typedef struct KeptOverrides
{
	uint64		hash;			/* of policy and key, which are compared too */
	char		policy[NAMEDATALEN];
	RlBytes		key;
	int			n;
	Override   *overrides;
} KeptOverrides;

/* What is kept, and for what. */
static MemoryContext kept_context = NULL;
static HTAB *kept_policies;
static HTAB *kept_overrides;
static Oid	kept_schema = InvalidOid;
static uint64 kept_generation = 0;

/* Counts the messages about the two tables. */
static uint64 generation = 1;
static Oid	policies_table = InvalidOid;
static Oid	overrides_table = InvalidOid;

/*-------------------------------------------------------------------------
 * What is kept
 *-------------------------------------------------------------------------
 */

static void
note_change(Datum arg, Oid table)
{
	(void) arg;
	if (!OidIsValid(table) || table == policies_table ||
		table == overrides_table)
		generation++;
}

static HTAB *
create_table(const char *name, Size key_size, Size entry_size, int flags)
{
	HASHCTL		control = {
		.keysize = key_size,
		.entrysize = entry_size,
		.hcxt = kept_context
	};

	return hash_create(name, 64, &control, HASH_ELEM | HASH_CONTEXT | flags);
}

/* Forget what is kept. */
static void
begin_anew(Oid schema)
{
	if (kept_context == NULL)
	{
		kept_context = AllocSetContextCreate(CacheMemoryContext,
											 "rate_limit policies",
											 ALLOCSET_DEFAULT_SIZES);
		CacheRegisterRelcacheCallback(note_change, (Datum) 0);
	}
	kept_generation = 0;
	MemoryContextReset(kept_context);
	kept_policies = create_table("rate_limit policies", NAMEDATALEN,
								 sizeof(KeptPolicy), HASH_STRINGS);
	kept_overrides = create_table("rate_limit overrides", sizeof(uint64),
								  sizeof(KeptOverrides), HASH_BLOBS);
	kept_schema = schema;
	kept_generation = generation;
}

static bool
is_current(Oid schema)
{
	return kept_generation == generation && kept_schema == schema &&
		hash_get_num_entries(kept_policies) < RL_MAX_KEPT &&
		hash_get_num_entries(kept_overrides) < RL_MAX_KEPT;
}

/*-------------------------------------------------------------------------
 * Reading the tables
 *-------------------------------------------------------------------------
 */

/* Open both tables: from then on, changes that the snapshot lacks are noted. */
static void
open_tables(RlTableSession *policies, RlTableSession *overrides, Oid schema)
{
	rl_open_as_owner(policies, schema, "rate_limit_policies",
					 AccessShareLock);
	rl_open_as_owner(overrides, schema, "rate_limit_overrides",
					 AccessShareLock);
	policies_table = RelationGetRelid(policies->relation);
	overrides_table = RelationGetRelid(overrides->relation);
	SPI_connect();
}

static void
close_tables(const RlTableSession *policies, const RlTableSession *overrides)
{
	SPI_finish();
	rl_table_close(overrides);
	rl_table_close(policies);
}

/* Copy a column into room for a name, an empty one if it is null. */
static void
copy_name(char *name, int64 row, int column)
{
	Datum		value;

	name[0] = '\0';
	if (rl_nullable_column(row, column, &value))
		text_to_cstring_buffer(DatumGetTextPP(value), name, NAMEDATALEN);
}

static const text *
text_column(int64 row, int column)
{
	Datum		value;

	return rl_nullable_column(row, column, &value) ? DatumGetTextPP(value) :
		NULL;
}

/*
 * Read a row of RL_SQL_SELECT_POLICY into a rule.  Return false if the rule is
 * off.
 */
static bool
read_rule(RlRule *rule, int64 row, const char *policy)
{
	char		mode[NAMEDATALEN];
	RlTerms		terms;
	Datum		value;

	copy_name(mode, row, 10);
	if (strcmp(mode, "off") == 0)
		return false;

	memset(rule, 0, sizeof(RlRule));
	copy_name(rule->name, row, 2);
	rule->request.unlimited = !rl_nullable_column(row, 3, &value);
	terms.limit = rule->request.unlimited ? 1 : DatumGetInt64(value);
	terms.window = DatumGetIntervalP(rl_table_column(row, 4));
	terms.algorithm = DatumGetTextPP(rl_table_column(row, 5));
	terms.has_burst = rl_nullable_column(row, 6, &value);
	terms.burst = rule->burst = terms.has_burst ? DatumGetInt64(value) : 0;
	terms.store = text_column(row, 7);
	terms.time_zone = text_column(row, 8);
	rl_set_terms(&rule->request, &terms);

	rule->default_store = terms.store == NULL;
	rule->has_block_for = rl_nullable_column(row, 9, &value);
	if (rule->has_block_for)
		rule->block_for = *DatumGetIntervalP(value);
	rule->request.shadow = strcmp(mode, "shadow") == 0;
	rule->request.stats = rl_find_stats(policy, rule->name);
	return true;
}

static void
refuse_unknown(RlBytes name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("policy \"%s\" does not exist",
					pnstrdup(name.data, name.length)),
			 errhint("Insert it into rate_limit_policies, or mark a policy there with is_fallback.")));
}

/* Read a policy, or the fallback if there is none of that name. */
static RlPolicy *
read_policy(Oid schema, RlBytes name)
{
	MemoryContext context = CurrentMemoryContext;
	RlTableSession policies;
	RlTableSession overrides;
	RlPolicy   *policy;
	Datum		arg = rl_text_datum(name);
	int64		nrows;

	open_tables(&policies, &overrides, schema);
	nrows = rl_table_query(RL_SQL_SELECT_POLICY, &arg, NULL);
	if (nrows == 0)
		refuse_unknown(name);

	policy = MemoryContextAllocZero(context, offsetof(RlPolicy, rules) +
									sizeof(RlRule) * nrows);
	copy_name(policy->name, 0, 1);
	for (int64 i = 0; i < nrows; i++)
		policy->nrules += read_rule(&policy->rules[policy->nrules], i,
									policy->name);

	arg = CStringGetTextDatum(policy->name);
	policy->has_overrides = rl_table_query(RL_SQL_HAS_OVERRIDES, &arg,
										   NULL) > 0;
	close_tables(&policies, &overrides);
	return policy;
}

static Override *
read_overrides(Oid schema, const RlPolicy *policy, RlBytes key, int *n)
{
	MemoryContext context = CurrentMemoryContext;
	RlTableSession policies;
	RlTableSession overrides;
	Override   *result;
	inet	   *address = rl_address_of_key(key);
	Datum		args[3] = {
		CStringGetTextDatum(policy->name),
		rl_text_datum(key),
		PointerGetDatum(address)
	};

	open_tables(&policies, &overrides, schema);
	*n = rl_table_query(RL_SQL_SELECT_OVERRIDES, args,
						address == NULL ? "  n" : NULL);
	result = MemoryContextAlloc(context, sizeof(Override) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		Datum		value;

		copy_name(result[i].rule, i, 1);
		result[i].unlimited = !rl_nullable_column(i, 2, &value);
		result[i].limit = result[i].unlimited ? 1 : DatumGetInt64(value);
		result[i].expires_at = rl_nullable_column(i, 3, &value) ?
			DatumGetTimestampTz(value) : RL_NEVER;
	}
	close_tables(&policies, &overrides);
	return result;
}

/*-------------------------------------------------------------------------
 * Policies
 *-------------------------------------------------------------------------
 */

static Size
policy_bytes(const RlPolicy *policy)
{
	return offsetof(RlPolicy, rules) + sizeof(RlRule) * policy->nrules;
}

static RlPolicy *
copy_policy(MemoryContext context, const RlPolicy *policy)
{
	return memcpy(MemoryContextAlloc(context, policy_bytes(policy)), policy,
				  policy_bytes(policy));
}

/* Keep a policy by its own name, and by the one that it was asked for. */
static void
keep_policy(const char *asked, const RlPolicy *policy)
{
	KeptPolicy *kept = hash_search(kept_policies, policy->name, HASH_FIND,
								   NULL);
	RlPolicy   *copy = kept != NULL ? kept->policy :
	copy_policy(kept_context, policy);

	kept = hash_search(kept_policies, policy->name, HASH_ENTER, NULL);
	kept->policy = copy;
	kept = hash_search(kept_policies, asked, HASH_ENTER, NULL);
	kept->policy = copy;
}

/*
 * Return a policy, or the fallback if there is none of that name, for as long
 * as the memory context lasts.  It is an error if there is neither.
 */
const RlPolicy *
rl_get_policy(Oid schema, RlBytes name)
{
	char		asked[NAMEDATALEN] = {0};
	KeptPolicy *kept;
	RlPolicy   *policy;

	AcceptInvalidationMessages();
	if (kept_context == NULL || !is_current(schema))
		begin_anew(schema);

	/* no policy has a longer name: it is not worth keeping */
	if (name.length > RL_MAX_NAME_BYTES)
		return read_policy(schema, name);

	memcpy(asked, name.data, name.length);
	kept = hash_search(kept_policies, asked, HASH_FIND, NULL);
	if (kept != NULL)
		return copy_policy(CurrentMemoryContext, kept->policy);

	policy = read_policy(schema, name);
	if (is_current(schema))
		keep_policy(asked, policy);
	return policy;
}

/* Set all of a request but the cost and the instant, as a rule says. */
void
rl_set_rule(RlRequest *request, const RlPolicy *policy, int n, Oid schema,
			RlBytes key)
{
	const RlRule *rule = &policy->rules[n];

	rl_copy_request(request, &rule->request);
	request->key = key;
	request->policy = policy->name;
	request->rule = rule->name;
	request->schema = schema;
	request->limit.exact_hits = rl_exact_hits;
	if (rule->default_store)
		request->store = rl_default_store;
}

/*-------------------------------------------------------------------------
 * Overrides
 *-------------------------------------------------------------------------
 */

static bool
is_of(const KeptOverrides *kept, const RlPolicy *policy, RlBytes key)
{
	return strcmp(kept->policy, policy->name) == 0 &&
		kept->key.length == key.length &&
		memcmp(kept->key.data, key.data, key.length) == 0;
}

static void
keep_overrides(uint64 hash, const RlPolicy *policy, RlBytes key,
			   const Override *overrides, int n)
{
	char	   *key_copy = MemoryContextAlloc(kept_context, key.length);
	Override   *copy = MemoryContextAlloc(kept_context,
										  sizeof(Override) * Max(n, 1));
	KeptOverrides *kept;

	memcpy(key_copy, key.data, key.length);
	memcpy(copy, overrides, sizeof(Override) * n);
	kept = hash_search(kept_overrides, &hash, HASH_ENTER, NULL);
	strlcpy(kept->policy, policy->name, NAMEDATALEN);
	kept->key.data = key_copy;
	kept->key.length = key.length;
	kept->n = n;
	kept->overrides = copy;
}

/* Find the overrides of a policy for a key, of which there may be none. */
static const Override *
get_overrides(Oid schema, const RlPolicy *policy, RlBytes key, int *n)
{
	uint64		hash = hash_combine64(hash_bytes_extended((const unsigned char *) key.data, key.length, 0),
									  hash_bytes_extended((const unsigned char *) policy->name, strlen(policy->name), 0));
	KeptOverrides *kept = hash_search(kept_overrides, &hash, HASH_FIND,
									  NULL);
	Override   *overrides;

	if (kept != NULL && is_of(kept, policy, key))
	{
		*n = kept->n;
		return kept->overrides;
	}

	overrides = read_overrides(schema, policy, key, n);
	if (is_current(schema))
		keep_overrides(hash, policy, key, overrides, *n);
	return overrides;
}

static void
apply_override(RlRequest *request, const RlRule *rule,
			   const Override *overrides, int n, RlTime now)
{
	for (int i = 0; i < n; i++)
	{
		const Override *override = &overrides[i];

		if (override->expires_at <= now ||
			(override->rule[0] != '\0' &&
			 strcmp(override->rule, rule->name) != 0))
			continue;
		request->unlimited = override->unlimited;
		request->limit.limit = override->limit;
		rl_set_burst(&request->limit, rule->burst);
		return;
	}
}

/* Put the limits of overrides, if there are any, into a policy's requests. */
void
rl_apply_overrides(RlRequest *requests, const RlPolicy *policy, Oid schema)
{
	const Override *overrides;
	int			n;
	RlTime		now;

	if (!policy->has_overrides || policy->nrules == 0)
		return;

	overrides = get_overrides(schema, policy, requests[0].key, &n);
	now = requests[0].has_time ? requests[0].at : GetCurrentTimestamp();
	for (int i = 0; i < policy->nrules; i++)
		apply_override(&requests[i], &policy->rules[i], overrides, n, now);
}
