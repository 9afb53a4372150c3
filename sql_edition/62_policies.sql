/*
 * Policies: the rules that apply to a key, as requests with the limits that
 * overrides leave them, and the one row that a call gets for all of them.
 */

/* Arguments of a call, all of them checked before anything is looked up. */
CREATE FUNCTION rl_check_call(p_policy text, p_key text, p_cost int8, p_adjustment bool DEFAULT false) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_policy IS NULL THEN
        PERFORM rl_refuse_null('policy');
    END IF;
    PERFORM rl_check_key(p_key);
    PERFORM rl_check_cost(p_cost, p_adjustment);
END
$$;

/*
 * The rules of a policy, also those that are off, or of the fallback.  Each
 * statement tells whether a policy is there and what its rules are at once, so that
 * one that is just being removed is never taken for one without rules.
 */
CREATE FUNCTION rl_rules(p_policy text) RETURNS SETOF rate_limit_policies
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN QUERY SELECT * FROM rate_limit_policies p WHERE p.policy = p_policy ORDER BY p.rule;
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
        SELECT p.* FROM rate_limit_policies f JOIN rate_limit_policies p ON p.policy = f.policy
        WHERE f.is_fallback
        ORDER BY p.rule;
    IF NOT FOUND THEN
        RAISE undefined_object USING
            MESSAGE = format('policy "%s" does not exist', p_policy),
            HINT = 'Insert it into rate_limit_policies, or mark a policy there with is_fallback.';
    END IF;
END
$$;

/*
 * The address or network that a key is, with or without "ip:" before it; NULL if
 * it is neither.  Most keys that are none are told by their look, at no cost.
 */
CREATE FUNCTION rl_address(p_key text) RETURNS inet
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    name text := regexp_replace(p_key, '^ip:', '');
    address inet;
BEGIN
    IF length(name) > 49
        OR name !~ '^([0-9]{1,3}([.][0-9]{1,3}){3}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]*)(/[0-9]{1,3})?$'
    THEN
        RETURN NULL;
    END IF;
    BEGIN
        address := name::inet;
    EXCEPTION WHEN data_exception THEN
        RETURN NULL;
    END;
    IF address <<= inet '::ffff:0.0.0.0/96' THEN
        address := set_masklen(rate_limit_ip_key(address)::inet, masklen(address) - 96);
    END IF;
    RETURN address;
END
$$;

/*
 * Find the override of a rule for a key: that of the key before those of
 * networks, those before others that contain them; among equals the one for this
 * policy first, then the one for this rule.
 */
CREATE FUNCTION rl_override(p_request rl_request, p_address inet, OUT is_overridden bool, OUT "limit" int8)
LANGUAGE plpgsql
AS $$
DECLARE
    now timestamptz := coalesce(rl_timestamp(p_request.at), clock_timestamp());
BEGIN
    SELECT o."limit" INTO "limit"
    FROM rate_limit_overrides o
    WHERE o.key = p_request.key
        AND coalesce(o.policy = p_request.policy, true) AND coalesce(o.rule = p_request.rule, true)
        AND coalesce(o.expires_at > now, true)
    ORDER BY o.policy IS NULL, o.rule IS NULL
    LIMIT 1;
    is_overridden := FOUND;
    IF NOT is_overridden AND p_address IS NOT NULL THEN
        SELECT o."limit" INTO "limit"
        FROM rate_limit_overrides o
        WHERE o.network >>= p_address
            AND coalesce(o.policy = p_request.policy, true) AND coalesce(o.rule = p_request.rule, true)
            AND coalesce(o.expires_at > now, true)
        ORDER BY masklen(o.network) DESC, o.policy IS NULL, o.rule IS NULL
        LIMIT 1;
        is_overridden := FOUND;
    END IF;
END
$$;

/* What a call asks of each rule that is not off, in the order of their names. */
CREATE FUNCTION rl_policy_requests(p_at int8, p_policy text, p_key text, p_cost int8,
    p_adjustment bool DEFAULT false)
RETURNS rl_request[]
LANGUAGE plpgsql
AS $$
DECLARE
    address inet := rl_address(p_key);
    requests rl_request[] := '{}';
    request rl_request;
    override record;
    rule rate_limit_policies;
BEGIN
    FOR rule IN SELECT * FROM rl_rules(p_policy) LOOP
        CONTINUE WHEN rule.mode = 'off';
        request.key := p_key;
        request.policy := rule.policy;
        request.rule := rule.rule;
        request.at := p_at;
        override := rl_override(request, address);
        IF override.is_overridden THEN
            rule."limit" := override."limit";
        END IF;

        request := rl_read_request(p_at, p_key, coalesce(rule."limit", 1), rule."window", p_cost,
            rule.algorithm, rule.burst, rule.store, rule.time_zone, p_adjustment);
        request.policy := rule.policy;
        request.rule := rule.rule;
        request.shadow := rule.mode = 'shadow';
        IF rule."limit" IS NULL THEN
            request."limit" := NULL;
            request.capacity := NULL;
        END IF;
        requests := requests || request;
    END LOOP;
    RETURN requests;
END
$$;

/* What a call asks where no rule is on: a block still refuses it. */
CREATE FUNCTION rl_unlimited_request(p_at int8, p_key text, p_cost int8) RETURNS rl_request
LANGUAGE plpgsql
AS $$
DECLARE
    request rl_request;
BEGIN
    request.key := p_key;
    request.policy := '';
    request.rule := '';
    request.cost := p_cost;
    request.at := p_at;
    request.shadow := false;
    RETURN request;
END
$$;

/*
 * Choose the outcome that a call reports.  Rules that only count have no say
 * where there is another.  Of those that refuse it is the one that does longest,
 * else the one that has least left.
 */
CREATE FUNCTION rl_reported(p_requests rl_request[], p_outcomes rl_outcome[]) RETURNS int
LANGUAGE plpgsql
AS $$
BEGIN
    IF rl_any_refuses(p_requests, p_outcomes) THEN
        RETURN (
            SELECT i FROM generate_subscripts(p_requests, 1) i
            WHERE rl_refuses(p_requests[i], p_outcomes[i])
            ORDER BY (p_requests[i]).shadow, (p_outcomes[i]).retry_at DESC, (p_requests[i]).rule
            LIMIT 1);
    END IF;
    RETURN (
        SELECT i FROM generate_subscripts(p_requests, 1) i
        ORDER BY (p_requests[i]).shadow, (p_outcomes[i]).remaining, (p_outcomes[i]).reset_at DESC, (p_requests[i]).rule
        LIMIT 1);
END
$$;

CREATE FUNCTION rl_policy_result(p_request rl_request, p_outcome rl_outcome) RETURNS rate_limit_result
LANGUAGE plpgsql
AS $$
DECLARE
    result rate_limit_result := rl_result(p_request, p_outcome);
BEGIN
    IF NOT p_outcome.allowed AND NOT rl_refuses(p_request, p_outcome) THEN
        result.allowed := true;
        result.retry_after := 0;
    END IF;
    RETURN result;
END
$$;

/*
 * Block the key for the longest block_for of the rules that refuse, if any has
 * one.  A block that is there already stays as it is.
 */
CREATE FUNCTION rl_block_for(p_requests rl_request[], p_outcomes rl_outcome[]) RETURNS bool
LANGUAGE plpgsql
AS $$
DECLARE
    now timestamptz := clock_timestamp();
    longest record;
BEGIN
    SELECT p.policy, p.rule, now + p.block_for AS until INTO longest
    FROM generate_subscripts(p_requests, 1) i
    JOIN rate_limit_policies p ON p.policy = (p_requests[i]).policy AND p.rule = (p_requests[i]).rule
    WHERE rl_refuses(p_requests[i], p_outcomes[i]) AND p.block_for IS NOT NULL
    ORDER BY until DESC, p.rule
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO rate_limit_blocked AS b
    VALUES ((p_requests[1]).key, now, longest.until, format('policy "%s", rule "%s"', longest.policy, longest.rule))
    ON CONFLICT (key) DO UPDATE
    SET blocked_at = excluded.blocked_at, until = excluded.until, reason = excluded.reason
    WHERE b.until <= excluded.blocked_at;
    RETURN true;
END
$$;

/* Decide a call by all rules of a policy, all or nothing. */
CREATE FUNCTION rl_enforce(p_at int8, p_policy text, p_key text, p_cost int8) RETURNS rate_limit_result
LANGUAGE plpgsql
AS $$
DECLARE
    requests rl_request[];
    outcomes rl_outcome[];
    outcome rl_outcome;
    result rate_limit_result;
    i int;
BEGIN
    PERFORM rl_check_call(p_policy, p_key, p_cost);
    requests := rl_policy_requests(p_at, p_policy, p_key, p_cost);
    IF requests = '{}' THEN
        requests := ARRAY[rl_unlimited_request(p_at, p_key, p_cost)];
    END IF;
    outcomes := rl_decide_all(requests);
    i := rl_reported(requests, outcomes);
    outcome := outcomes[i];

    -- a look, a replay and a key that is blocked already block nothing
    IF p_cost > 0 AND p_at IS NULL AND rl_refuses(requests[i], outcome) AND NOT outcome.blocked THEN
        IF rl_block_for(requests, outcomes) THEN
            outcome := rl_peek(requests[i], p_cost);
        END IF;
        result := rl_result(requests[i], outcome);
        result.rule := (requests[i]).rule;
        RETURN result;
    END IF;
    RETURN rl_policy_result(requests[i], outcome);
END
$$;

/* Record what a call has cost in all rules of a policy, whatever the limits say. */
CREATE FUNCTION rl_enforce_adjust(p_policy text, p_key text, p_delta int8) RETURNS rate_limit_result
LANGUAGE plpgsql
AS $$
DECLARE
    requests rl_request[];
    outcomes rl_outcome[] := '{}';
    i int;
BEGIN
    PERFORM rl_check_call(p_policy, p_key, p_delta, true);
    requests := rl_policy_requests(NULL, p_policy, p_key, p_delta, true);
    IF requests = '{}' THEN
        requests := ARRAY[rl_unlimited_request(NULL, p_key, p_delta)];
    END IF;
    FOREACH i IN ARRAY rl_lock_order(requests) LOOP
        outcomes[i] := rl_decide('adjust', requests[i]);
    END LOOP;
    i := rl_reported(requests, outcomes);
    RETURN rl_result(requests[i], outcomes[i]);
END
$$;
