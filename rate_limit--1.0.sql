/* rate_limit--1.0.sql */

\echo Use "CREATE EXTENSION rate_limit" to load this file. \quit

/*
 * The result row
 */
CREATE TYPE @extschema@.rate_limit_result AS (
    allowed     pg_catalog.bool,
    "limit"     pg_catalog.int8,
    used        pg_catalog.int8,
    remaining   pg_catalog.int8,
    retry_after pg_catalog.float8,
    reset_at    pg_catalog.timestamptz,
    rule        pg_catalog.text
);
COMMENT ON TYPE @extschema@.rate_limit_result IS
'what a rate limit decided about one call';
COMMENT ON COLUMN @extschema@.rate_limit_result.allowed IS
'the call''s cost was admitted and recorded';
COMMENT ON COLUMN @extschema@.rate_limit_result."limit" IS
'the limit in force; for token_bucket the capacity; NULL = unlimited';
COMMENT ON COLUMN @extschema@.rate_limit_result.used IS
'cost recorded in the current span, after this call';
COMMENT ON COLUMN @extschema@.rate_limit_result.remaining IS
'cost that would still be admitted now, between 0 and the limit';
COMMENT ON COLUMN @extschema@.rate_limit_result.retry_after IS
'seconds until the same call would be admitted if nobody else came; 0 when allowed, NULL when never';
COMMENT ON COLUMN @extschema@.rate_limit_result.reset_at IS
'when additional quota next becomes available; NULL when never';
COMMENT ON COLUMN @extschema@.rate_limit_result.rule IS
'the rule of a policy that decided; block when the key is blocked, else NULL';

/*
 * The table store
 */
CREATE TABLE @extschema@.rate_limit_state (
    key             pg_catalog.text COLLATE "C" NOT NULL,
    policy          pg_catalog.text COLLATE "C" NOT NULL DEFAULT '',
    rule            pg_catalog.text COLLATE "C" NOT NULL DEFAULT '',
    algorithm       pg_catalog.text COLLATE "C" NOT NULL,
    window_length   pg_catalog.int8 NOT NULL,
    window_unit     pg_catalog.text COLLATE "C" NOT NULL,
    time_zone       pg_catalog.text COLLATE "C" NOT NULL,
    state           pg_catalog.int8[] NOT NULL,
    "limit"         pg_catalog.int8 NOT NULL,
    expires_at      pg_catalog.timestamptz NOT NULL,
    last_use        pg_catalog.timestamptz NOT NULL,
    PRIMARY KEY (key, policy, rule, algorithm, window_length, window_unit, time_zone),
    CHECK (algorithm IN ('sliding_window', 'fixed_window', 'anchored_window', 'token_bucket')),
    CHECK (window_length > 0),
    CHECK (window_unit = 'microsecond' OR algorithm = 'fixed_window' AND window_unit IN ('day', 'month')),
    CHECK ((window_unit = 'microsecond') = (time_zone = ''))
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
REVOKE ALL ON @extschema@.rate_limit_state FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('@extschema@.rate_limit_state', '');
COMMENT ON TABLE @extschema@.rate_limit_state IS
'counters of the table store, one row each; written by the functions only';
COMMENT ON COLUMN @extschema@.rate_limit_state.policy IS
'whose rule has the counter; empty for calls without a policy';
COMMENT ON COLUMN @extschema@.rate_limit_state.rule IS
'name of the rule; empty for calls without a policy';
COMMENT ON COLUMN @extschema@.rate_limit_state.window_length IS
'length of the window in window_unit: microsecond, day or month';
COMMENT ON COLUMN @extschema@.rate_limit_state.time_zone IS
'of a calendar window, else empty';
COMMENT ON COLUMN @extschema@.rate_limit_state.state IS
'what is recorded, as src/state.c describes it';
COMMENT ON COLUMN @extschema@.rate_limit_state.expires_at IS
'from then on the row means nothing and is removed sooner or later';

/*
 * Limits as data
 */
CREATE TABLE @extschema@.rate_limit_policies (
    policy          pg_catalog.text COLLATE "C" NOT NULL,
    rule            pg_catalog.text COLLATE "C" NOT NULL DEFAULT 'default',
    "limit"         pg_catalog.int8,
    "window"        pg_catalog.interval NOT NULL,
    algorithm       pg_catalog.text COLLATE "C" NOT NULL DEFAULT 'sliding_window',
    burst           pg_catalog.int8,
    store           pg_catalog.text COLLATE "C",
    time_zone       pg_catalog.text COLLATE "C",
    block_for       pg_catalog.interval,
    mode            pg_catalog.text COLLATE "C" NOT NULL DEFAULT 'enforce'
                    CHECK (mode IN ('enforce', 'shadow', 'off')),
    is_fallback     pg_catalog.bool NOT NULL DEFAULT false,
    PRIMARY KEY (policy, rule)
);
CREATE UNIQUE INDEX rate_limit_policies_one_fallback
    ON @extschema@.rate_limit_policies ((is_fallback)) WHERE is_fallback;
REVOKE ALL ON @extschema@.rate_limit_policies FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('@extschema@.rate_limit_policies', '');
COMMENT ON TABLE @extschema@.rate_limit_policies IS
'limits for rate_limit_enforce, one row per rule; a change acts on the next call';
COMMENT ON COLUMN @extschema@.rate_limit_policies.policy IS
'what callers name, such as a plan; 1 to 63 bytes';
COMMENT ON COLUMN @extschema@.rate_limit_policies.rule IS
'tells the rules of a policy apart, also in results; 1 to 63 bytes, not block';
COMMENT ON COLUMN @extschema@.rate_limit_policies."limit" IS
'cost admitted per window; 0 = never, NULL = unlimited';
COMMENT ON COLUMN @extschema@.rate_limit_policies.burst IS
'capacity of a token_bucket; NULL = the limit';
COMMENT ON COLUMN @extschema@.rate_limit_policies.store IS
'where counters are kept; NULL = the default store';
COMMENT ON COLUMN @extschema@.rate_limit_policies.time_zone IS
'of a calendar window; NULL = UTC';
COMMENT ON COLUMN @extschema@.rate_limit_policies.block_for IS
'for how long the key is blocked once the rule refuses; NULL = not at all';
COMMENT ON COLUMN @extschema@.rate_limit_policies.mode IS
'enforce = may refuse, shadow = counts but never refuses, off = not looked at';
COMMENT ON COLUMN @extschema@.rate_limit_policies.is_fallback IS
'unknown policies get the rules of the policy of which one row is marked';

CREATE TABLE @extschema@.rate_limit_overrides (
    policy          pg_catalog.text COLLATE "C",
    key             pg_catalog.text COLLATE "C",
    network         pg_catalog.cidr,
    "limit"         pg_catalog.int8,
    expires_at      pg_catalog.timestamptz,
    reason          pg_catalog.text,
    rule            pg_catalog.text COLLATE "C",
    CONSTRAINT rate_limit_overrides_key_or_network CHECK ((key IS NULL) <> (network IS NULL)),
    UNIQUE NULLS NOT DISTINCT (key, policy, rule, network)
);
CREATE INDEX rate_limit_overrides_network
    ON @extschema@.rate_limit_overrides USING gist (network pg_catalog.inet_ops)
    WHERE network IS NOT NULL;
-- there is no primary key that a publication could use
ALTER TABLE @extschema@.rate_limit_overrides REPLICA IDENTITY FULL;
REVOKE ALL ON @extschema@.rate_limit_overrides FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('@extschema@.rate_limit_overrides', '');
COMMENT ON TABLE @extschema@.rate_limit_overrides IS
'other limits for some keys or networks: the key first, then the longest network, then the policy';
COMMENT ON COLUMN @extschema@.rate_limit_overrides.policy IS
'NULL = every policy';
COMMENT ON COLUMN @extschema@.rate_limit_overrides.rule IS
'NULL = every rule of the policy';
COMMENT ON COLUMN @extschema@.rate_limit_overrides.network IS
'of the keys that are addresses or networks in it, with or without ip: before them';
COMMENT ON COLUMN @extschema@.rate_limit_overrides."limit" IS
'in place of the limit of the rule; 0 = never, NULL = unlimited';
COMMENT ON COLUMN @extschema@.rate_limit_overrides.expires_at IS
'from then on without effect; NULL = no end';

/*
 * Deciding
 */
CREATE FUNCTION @extschema@.rate_limit_check(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_check'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_check IS
'decides whether a call may pass and records its cost if so';

CREATE FUNCTION @extschema@.rate_limit_allowed(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'rate_limit_allowed'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_allowed IS
'rate_limit_check reduced to its first column, the cheapest form';

CREATE FUNCTION @extschema@.rate_limit_require(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'rate_limit_require'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_require IS
'records a call''s cost, or raises SQLSTATE RL429 with the result row as JSON in the detail';

CREATE FUNCTION @extschema@.rate_limit_peek(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_peek'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_peek IS
'decides like rate_limit_check, but records nothing';

CREATE FUNCTION @extschema@.rate_limit_check_all(
    keys        pg_catalog.text[],
    limits      pg_catalog.int8[],
    windows     pg_catalog.interval[],
    costs       pg_catalog.int8[] DEFAULT NULL,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    OUT ord         pg_catalog.int4,
    OUT key         pg_catalog.text,
    OUT allowed     pg_catalog.bool,
    OUT "limit"     pg_catalog.int8,
    OUT used        pg_catalog.int8,
    OUT remaining   pg_catalog.int8,
    OUT retry_after pg_catalog.float8,
    OUT reset_at    pg_catalog.timestamptz,
    OUT rule        pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_check_all'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION @extschema@.rate_limit_check_all IS
'checks several limits, all or nothing: if one refuses, none is charged';

/*
 * Deciding by policies
 */
CREATE FUNCTION @extschema@.rate_limit_enforce(
    policy      pg_catalog.text,
    key         pg_catalog.text,
    cost        pg_catalog.int8 DEFAULT 1)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_enforce'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_enforce IS
'checks all rules of a policy, all or nothing, and returns the row of the tightest';

CREATE FUNCTION @extschema@.rate_limit_enforce_at(
    at          pg_catalog.timestamptz,
    policy      pg_catalog.text,
    key         pg_catalog.text,
    cost        pg_catalog.int8 DEFAULT 1)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_enforce_at'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_enforce_at FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_enforce_at IS
'rate_limit_enforce at an explicit instant, for tests and replays; blocks nobody';

CREATE FUNCTION @extschema@.rate_limit_enforce_adjust(
    policy      pg_catalog.text,
    key         pg_catalog.text,
    delta       pg_catalog.int8)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_enforce_adjust'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_enforce_adjust FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_enforce_adjust IS
'records delta in all rules of a policy whatever the limits say; a negative delta gives back';

CREATE FUNCTION @extschema@.rate_limit_usage(
    policy      pg_catalog.text,
    key         pg_catalog.text)
RETURNS SETOF @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_usage'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 3;
COMMENT ON FUNCTION @extschema@.rate_limit_usage IS
'what rules of a policy would say to a call that costs 1, one row per rule; records nothing';

/*
 * What is written to the tables of limits can be enforced
 */
CREATE FUNCTION @extschema@.rate_limit_validate_name(
    name        pg_catalog.text,
    value       pg_catalog.text)
RETURNS pg_catalog.void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF value = '' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('column "%s" must not be empty', name),
            HINT = 'Give a name of 1 to 63 bytes.';
    ELSIF octet_length(value) > 63 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('column "%s" is too long', name),
            DETAIL = format('It has %s bytes, the maximum is 63.', octet_length(value)),
            HINT = 'Give a name of 1 to 63 bytes.';
    ELSIF name = 'rule' AND value = 'block' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'column "rule" must not be "block"',
            HINT = 'Give another name: in results this one says that the key is blocked.';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_validate_name FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_validate_name IS
'internal to the tables of limits: refuses a bad name of a policy or rule';

CREATE FUNCTION @extschema@.rate_limit_validate_policy()
RETURNS pg_catalog.trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM @extschema@.rate_limit_validate_name('policy', NEW.policy);
    PERFORM @extschema@.rate_limit_validate_name('rule', NEW.rule);
    IF NEW."window" IS NULL OR NEW.algorithm IS NULL THEN
        RETURN NEW;                         -- the table says so itself
    END IF;
    PERFORM @extschema@.rate_limit_peek('policy', coalesce(NEW."limit", 1), NEW."window", 1,
        NEW.algorithm, NEW.burst, NEW.store, NEW.time_zone);

    -- the first comparison keeps the others from an overflow
    IF NEW.block_for <= interval '0' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'column "block_for" must be greater than zero',
            HINT = 'Leave it out to block nobody.';
    ELSIF NEW.block_for > interval '36525 days'
        OR timestamp '2000-01-01' + NEW.block_for > timestamp '2100-01-01' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'column "block_for" must not be longer than 100 years',
            HINT = 'Give a shorter time; to block without end there is rate_limit_block.';
    END IF;
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_validate_policy FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_validate_policy IS
'internal to rate_limit_policies: refuses a row that could not be enforced';

CREATE TRIGGER rate_limit_validate_policy BEFORE INSERT OR UPDATE ON @extschema@.rate_limit_policies
    FOR EACH ROW EXECUTE FUNCTION @extschema@.rate_limit_validate_policy();
ALTER TABLE @extschema@.rate_limit_policies ENABLE ALWAYS TRIGGER rate_limit_validate_policy;

CREATE FUNCTION @extschema@.rate_limit_validate_override()
RETURNS pg_catalog.trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM @extschema@.rate_limit_validate_name('policy', NEW.policy);
    PERFORM @extschema@.rate_limit_validate_name('rule', NEW.rule);
    PERFORM @extschema@.rate_limit_peek(coalesce(NEW.key, 'network'), coalesce(NEW."limit", 1), interval '1 hour');
    IF NEW.network <<= inet '::ffff:0.0.0.0/96' THEN
        NEW.network := set_masklen(@extschema@.rate_limit_ip_key(NEW.network)::inet, masklen(NEW.network) - 96);
    END IF;
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_validate_override FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_validate_override IS
'internal to rate_limit_overrides: refuses a row that could not be enforced, stores IPv4-mapped networks as IPv4';

CREATE TRIGGER rate_limit_validate_override BEFORE INSERT OR UPDATE ON @extschema@.rate_limit_overrides
    FOR EACH ROW EXECUTE FUNCTION @extschema@.rate_limit_validate_override();
ALTER TABLE @extschema@.rate_limit_overrides ENABLE ALWAYS TRIGGER rate_limit_validate_override;

/*
 * A committed change of them acts on the next call of every session.  One that
 * fails in the middle is forgotten by its own session, which may have called
 * then: so there is a trigger before the change, too.
 */
CREATE FUNCTION @extschema@.rate_limit_policy_changed()
RETURNS pg_catalog.trigger
AS 'MODULE_PATHNAME', 'rate_limit_policy_changed'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_policy_changed FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_policy_changed IS
'internal to the tables of limits: makes every session read them anew';

CREATE TRIGGER rate_limit_policy_changed_before BEFORE INSERT OR UPDATE OR DELETE ON @extschema@.rate_limit_policies
    EXECUTE FUNCTION @extschema@.rate_limit_policy_changed();
CREATE TRIGGER rate_limit_policy_changed AFTER INSERT OR UPDATE OR DELETE ON @extschema@.rate_limit_policies
    FOR EACH ROW EXECUTE FUNCTION @extschema@.rate_limit_policy_changed();
CREATE TRIGGER rate_limit_policy_changed_truncate AFTER TRUNCATE ON @extschema@.rate_limit_policies
    EXECUTE FUNCTION @extschema@.rate_limit_policy_changed();
CREATE TRIGGER rate_limit_policy_changed_before BEFORE INSERT OR UPDATE OR DELETE ON @extschema@.rate_limit_overrides
    EXECUTE FUNCTION @extschema@.rate_limit_policy_changed();
CREATE TRIGGER rate_limit_policy_changed AFTER INSERT OR UPDATE OR DELETE ON @extschema@.rate_limit_overrides
    FOR EACH ROW EXECUTE FUNCTION @extschema@.rate_limit_policy_changed();
CREATE TRIGGER rate_limit_policy_changed_truncate AFTER TRUNCATE ON @extschema@.rate_limit_overrides
    EXECUTE FUNCTION @extschema@.rate_limit_policy_changed();
ALTER TABLE @extschema@.rate_limit_policies ENABLE ALWAYS TRIGGER rate_limit_policy_changed_before;
ALTER TABLE @extschema@.rate_limit_policies ENABLE ALWAYS TRIGGER rate_limit_policy_changed;
ALTER TABLE @extschema@.rate_limit_policies ENABLE ALWAYS TRIGGER rate_limit_policy_changed_truncate;
ALTER TABLE @extschema@.rate_limit_overrides ENABLE ALWAYS TRIGGER rate_limit_policy_changed_before;
ALTER TABLE @extschema@.rate_limit_overrides ENABLE ALWAYS TRIGGER rate_limit_policy_changed;
ALTER TABLE @extschema@.rate_limit_overrides ENABLE ALWAYS TRIGGER rate_limit_policy_changed_truncate;

/*
 * For HTTP
 */
CREATE FUNCTION @extschema@.rate_limit_ip_key(
    ip          pg_catalog.inet,
    v4_prefix   pg_catalog.int4 DEFAULT 32,
    v6_prefix   pg_catalog.int4 DEFAULT 64)
RETURNS pg_catalog.text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    address inet := host(ip);
BEGIN
    IF ip IS NULL OR v4_prefix IS NULL OR v6_prefix IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = format('argument "%s" must not be null',
                CASE WHEN ip IS NULL THEN 'ip' WHEN v4_prefix IS NULL THEN 'v4_prefix' ELSE 'v6_prefix' END);
    ELSIF v4_prefix NOT BETWEEN 0 AND 32 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'argument "v4_prefix" is out of range', HINT = 'Give 0 to 32 bits.';
    ELSIF v6_prefix NOT BETWEEN 0 AND 128 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'argument "v6_prefix" is out of range', HINT = 'Give 0 to 128 bits.';
    END IF;
    IF address <<= inet '::ffff:0.0.0.0/96' THEN
        address := inet '0.0.0.0' + (address - inet '::ffff:0.0.0.0');
    END IF;
    RETURN abbrev(network(set_masklen(address, CASE family(address) WHEN 4 THEN v4_prefix ELSE v6_prefix END))::inet);
END
$$;
COMMENT ON FUNCTION @extschema@.rate_limit_ip_key IS
'the network that stands for an address, as a key; IPv4-mapped IPv6 counts as its IPv4';

CREATE FUNCTION @extschema@.rate_limit_headers(
    r           @extschema@.rate_limit_result,
    "window"    pg_catalog.interval DEFAULT NULL,
    name        pg_catalog.text DEFAULT 'default')
RETURNS pg_catalog.jsonb
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    largest CONSTANT int8 := 999999999999999;   -- integer of a structured field
    reset_at timestamptz := CASE WHEN isfinite(r.reset_at) THEN r.reset_at END;
    quoted text;
    policy text;
    state text;
    retry text;
BEGIN
    IF r.allowed IS NULL OR name IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = format('argument "%s" must not be null', CASE WHEN name IS NULL THEN 'name' ELSE 'r' END);
    ELSIF name !~ '^[ -~]*$' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'argument "name" must be printable ASCII', HINT = 'Other characters cannot be in a header.';
    ELSIF "window" <= interval '0' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'argument "window" must be greater than zero', HINT = 'Give the window of the limit, or leave it out.';
    END IF;

    IF r."limit" IS NOT NULL THEN
        quoted := '"' || replace(replace(name, E'\\', E'\\\\'), '"', E'\\"') || '"';
        policy := quoted || ';q=' || least(r."limit", largest);
        IF isfinite("window") AND extract(year FROM "window") = 0 AND extract(month FROM "window") = 0 THEN
            policy := policy || ';w=' || ceil(extract(epoch FROM "window"));
        END IF;
        state := quoted || ';r=' || least(r.remaining, largest);
        IF reset_at IS NOT NULL THEN
            state := state || ';t=' || greatest(ceil(extract(epoch FROM reset_at - clock_timestamp())), 0);
        END IF;
    END IF;
    IF NOT r.allowed AND r.retry_after IS NOT NULL THEN
        retry := least(greatest(ceil(r.retry_after), 1), largest)::int8;
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'X-RateLimit-Limit', r."limit"::text,
        'X-RateLimit-Remaining', CASE WHEN r."limit" IS NOT NULL THEN r.remaining::text END,
        'X-RateLimit-Reset', CASE WHEN r."limit" IS NOT NULL THEN ceil(extract(epoch FROM reset_at))::text END,
        'RateLimit-Policy', policy,
        'RateLimit', state,
        'Retry-After', retry));
END
$$;
COMMENT ON FUNCTION @extschema@.rate_limit_headers IS
'a result row as HTTP headers, one JSON object whose values are strings';

CREATE FUNCTION @extschema@.rate_limit_retry_hint(
    r           @extschema@.rate_limit_result)
RETURNS pg_catalog.text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF r.retry_after IS NULL THEN
        RETURN 'The call can never be admitted: the limit is 0 or less than its cost, or the key is blocked without end.';
    END IF;
    RETURN format('Retry in %s seconds.', round(r.retry_after::numeric, 6));
END
$$;
COMMENT ON FUNCTION @extschema@.rate_limit_retry_hint IS
'internal: says when a refused call would be admitted';

CREATE FUNCTION @extschema@.rate_limit_postgrest(
    policy      pg_catalog.text,
    key         pg_catalog.text,
    cost        pg_catalog.int8 DEFAULT 1)
RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r @extschema@.rate_limit_result := @extschema@.rate_limit_enforce(policy, key, cost);
    length interval;
    headers jsonb;
    present jsonb;
BEGIN
    -- the row is of this policy, or of the fallback
    SELECT p."window" INTO length
    FROM @extschema@.rate_limit_policies p
    WHERE p.rule = r.rule AND (p.policy = rate_limit_postgrest.policy
        OR p.policy = (SELECT f.policy FROM @extschema@.rate_limit_policies f WHERE f.is_fallback))
    ORDER BY p.policy <> rate_limit_postgrest.policy
    LIMIT 1;
    headers := @extschema@.rate_limit_headers(r, length, CASE WHEN r.rule ~ '^[ -~]+$' THEN r.rule ELSE 'default' END);

    IF NOT r.allowed THEN
        RAISE EXCEPTION USING
            ERRCODE = 'PGRST',
            MESSAGE = json_build_object('code', 'RL429', 'message', 'rate limit exceeded',
                'details', row_to_json(r)::text, 'hint', @extschema@.rate_limit_retry_hint(r)),
            DETAIL = json_build_object('status', 429, 'headers', headers);
    END IF;
    present := coalesce(nullif(current_setting('response.headers', true), ''), '[]');
    PERFORM set_config('response.headers',
        (present || (SELECT coalesce(jsonb_agg(jsonb_build_object(h.key, h.value)), '[]') FROM jsonb_each(headers) h))::text,
        true);
END
$$;
COMMENT ON FUNCTION @extschema@.rate_limit_postgrest IS
'rate_limit_enforce for a db-pre-request of PostgREST: sets response headers, or raises what becomes status 429';

/*
 * The table itself refuses
 */
CREATE FUNCTION @extschema@.rate_limit_trigger()
RETURNS pg_catalog.trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    usage CONSTANT text :=
        'Write BEFORE INSERT ON the table FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger(''policy'', ''column'').';
    changed record;
    key text;
    r @extschema@.rate_limit_result;
BEGIN
    IF TG_WHEN <> 'BEFORE' OR TG_LEVEL <> 'ROW' THEN
        RAISE trigger_protocol_violated USING
            MESSAGE = 'rate_limit_trigger must be fired before rows are changed, for each row', HINT = usage;
    ELSIF TG_NARGS <> 2 THEN
        RAISE trigger_protocol_violated USING
            MESSAGE = 'rate_limit_trigger must be given a policy and a column', HINT = usage;
    END IF;
    IF TG_OP = 'DELETE' THEN
        changed := OLD;
    ELSE
        changed := NEW;
    END IF;
    EXECUTE format('SELECT ($1).%I::text', TG_ARGV[1]) INTO key USING changed;
    IF key IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = format('column "%s" of table "%s" must not be null', TG_ARGV[1], TG_TABLE_NAME),
            DETAIL = 'It is the key of a rate limit.';
    END IF;

    r := @extschema@.rate_limit_enforce(TG_ARGV[0], key);
    IF NOT r.allowed THEN
        RAISE EXCEPTION USING
            ERRCODE = 'RL429',
            MESSAGE = format('rate limit exceeded for key "%s"', key),
            DETAIL = row_to_json(r),
            HINT = @extschema@.rate_limit_retry_hint(r);
    END IF;
    RETURN changed;
END
$$;
COMMENT ON FUNCTION @extschema@.rate_limit_trigger IS
'trigger before a row changes: enforces a policy with a column as key; arguments: policy, column';

/*
 * Deciding at an explicit instant, and recording whatever the limit says
 */
CREATE FUNCTION @extschema@.rate_limit_adjust(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    delta       pg_catalog.int8,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_adjust'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_adjust FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_adjust IS
'records delta whatever the limit says; a negative delta gives back the newest hits first';

CREATE FUNCTION @extschema@.rate_limit_check_at(
    at          pg_catalog.timestamptz,
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_check_at'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_check_at FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_check_at IS
'rate_limit_check at an explicit instant, for tests and replays';

CREATE FUNCTION @extschema@.rate_limit_peek_at(
    at          pg_catalog.timestamptz,
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_peek_at'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_peek_at FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_peek_at IS
'rate_limit_peek at an explicit instant, for tests and replays';

CREATE FUNCTION @extschema@.rate_limit_adjust_at(
    at          pg_catalog.timestamptz,
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    delta       pg_catalog.int8,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_adjust_at'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_adjust_at FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_adjust_at IS
'rate_limit_adjust at an explicit instant, for tests and replays';

/*
 * Administration
 */
CREATE FUNCTION @extschema@.rate_limit_reset(
    key         pg_catalog.text)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'rate_limit_reset'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_reset FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_reset IS
'removes every counter of a key and returns how many there were; a block stays';

CREATE FUNCTION @extschema@.rate_limit_reset_prefix(
    prefix      pg_catalog.text)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'rate_limit_reset_prefix'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_reset_prefix FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_reset_prefix IS
'removes every counter of this database whose key starts with prefix and returns how many there were';

CREATE FUNCTION @extschema@.rate_limit_block(
    key         pg_catalog.text,
    duration    pg_catalog.interval DEFAULT NULL,
    reason      pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'rate_limit_block'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_block FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_block IS
'makes every check of a key refuse for a duration; NULL = until unblocked';

CREATE FUNCTION @extschema@.rate_limit_unblock(
    key         pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'rate_limit_unblock'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_unblock FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_unblock IS
'lifts the block of a key; false when it was not blocked';

CREATE FUNCTION @extschema@.rate_limit_prune(
    max         pg_catalog.int8 DEFAULT NULL)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'rate_limit_prune'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_prune FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_prune IS
'removes rows of the table store that have expired, up to max, and returns how many';

/*
 * To look at
 */
CREATE FUNCTION @extschema@.rate_limit_keys(
    OUT key         pg_catalog.text,
    OUT policy      pg_catalog.text,
    OUT rule        pg_catalog.text,
    OUT algorithm   pg_catalog.text,
    OUT "window"    pg_catalog.interval,
    OUT time_zone   pg_catalog.text,
    OUT "limit"     pg_catalog.int8,
    OUT used        pg_catalog.int8,
    OUT refusals    pg_catalog.int8,
    OUT last_use    pg_catalog.timestamptz,
    OUT expires_at  pg_catalog.timestamptz,
    OUT store       pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_keys'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_keys FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_keys IS
'the live counters of this database; see the view of the same name';

CREATE VIEW @extschema@.rate_limit_keys AS
    SELECT * FROM @extschema@.rate_limit_keys();
REVOKE ALL ON @extschema@.rate_limit_keys FROM PUBLIC;
COMMENT ON VIEW @extschema@.rate_limit_keys IS
'the live counters of this database';

CREATE FUNCTION @extschema@.rate_limit_blocks(
    OUT key         pg_catalog.text,
    OUT blocked_at  pg_catalog.timestamptz,
    OUT until       pg_catalog.timestamptz,
    OUT reason      pg_catalog.text,
    OUT refusals    pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_blocks'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_blocks FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_blocks IS
'the blocks of this database; see the view of the same name';

CREATE VIEW @extschema@.rate_limit_blocks AS
    SELECT * FROM @extschema@.rate_limit_blocks();
REVOKE ALL ON @extschema@.rate_limit_blocks FROM PUBLIC;
COMMENT ON VIEW @extschema@.rate_limit_blocks IS
'the keys of this database that are blocked now; until is NULL when the block has no end';

CREATE FUNCTION @extschema@.rate_limit_info(
    OUT set_up      pg_catalog.text,
    OUT set_up_at   pg_catalog.timestamptz,
    OUT bytes       pg_catalog.int8,
    OUT bytes_used  pg_catalog.int8,
    OUT bytes_free  pg_catalog.int8,
    OUT counters    pg_catalog.int8,
    OUT blocks      pg_catalog.int8,
    OUT evictions   pg_catalog.int8,
    OUT refused_full pg_catalog.int8,
    OUT saved_at    pg_catalog.timestamptz,
    OUT restored_from pg_catalog.timestamptz)
RETURNS pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_info'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_info FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_info IS
'the state of the memory store; see the view of the same name';

CREATE VIEW @extschema@.rate_limit_info AS
    SELECT * FROM @extschema@.rate_limit_info();
REVOKE ALL ON @extschema@.rate_limit_info FROM PUBLIC;
COMMENT ON VIEW @extschema@.rate_limit_info IS
'the state of the memory store, all databases together';
COMMENT ON COLUMN @extschema@.rate_limit_info.set_up IS
'preload = at server start, first use = by the first call, NULL = not yet';
COMMENT ON COLUMN @extschema@.rate_limit_info.bytes IS
'size of the shared memory in bytes, rate_limit.memory when it was set up';
COMMENT ON COLUMN @extschema@.rate_limit_info.evictions IS
'live counters dropped because memory was full; expired ones do not count';
COMMENT ON COLUMN @extschema@.rate_limit_info.refused_full IS
'calls refused because memory was full of counters that must not be dropped';
COMMENT ON COLUMN @extschema@.rate_limit_info.saved_at IS
'when the counters were last saved since the memory was set up';
COMMENT ON COLUMN @extschema@.rate_limit_info.restored_from IS
'when the counters were saved that the memory was set up with';

CREATE FUNCTION @extschema@.rate_limit_stats(
    OUT policy          pg_catalog.text,
    OUT rule            pg_catalog.text,
    OUT allowed         pg_catalog.int8,
    OUT refused         pg_catalog.int8,
    OUT shadow_refused  pg_catalog.int8,
    OUT since           pg_catalog.timestamptz)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_stats'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 100;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_stats FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_stats IS
'calls admitted and refused in this database; see the view of the same name';

CREATE VIEW @extschema@.rate_limit_stats AS
    SELECT * FROM @extschema@.rate_limit_stats();
REVOKE ALL ON @extschema@.rate_limit_stats FROM PUBLIC;
COMMENT ON VIEW @extschema@.rate_limit_stats IS
'calls admitted and refused in this database, per rule of a policy; policy is NULL for calls without one';
COMMENT ON COLUMN @extschema@.rate_limit_stats.refused IS
'calls that this rule has refused, whether or not others did too';
COMMENT ON COLUMN @extschema@.rate_limit_stats.shadow_refused IS
'calls that it would have refused, were it not in shadow mode';

CREATE FUNCTION @extschema@.rate_limit_stats_reset()
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'rate_limit_stats_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_stats_reset FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_stats_reset IS
'sets the counts of rate_limit_stats of this database to zero';

/*
 * What an earlier installation has left in memory
 */
CREATE FUNCTION @extschema@.rate_limit_forget()
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'rate_limit_forget'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_forget FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_forget IS
'internal: removes all counters and blocks of this database from memory';
SELECT @extschema@.rate_limit_forget();

GRANT SELECT ON @extschema@.rate_limit_keys, @extschema@.rate_limit_blocks,
    @extschema@.rate_limit_info, @extschema@.rate_limit_stats TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.rate_limit_keys, @extschema@.rate_limit_blocks,
    @extschema@.rate_limit_info, @extschema@.rate_limit_stats TO pg_monitor;
