The bodies of the functions to administer and to look at, each after its name.

-- rate_limit_reset

DECLARE
    removed int8;
BEGIN
    PERFORM rl_check_key(key);
    WITH gone AS (DELETE FROM rate_limit_state s WHERE s.key = rate_limit_reset.key RETURNING s.expires_at)
    SELECT count(*) INTO removed FROM gone WHERE expires_at > clock_timestamp();
    RETURN removed;
END

-- rate_limit_reset_prefix

DECLARE
    removed int8;
BEGIN
    IF prefix IS NULL THEN
        PERFORM rl_refuse_null('prefix');
    END IF;
    PERFORM rl_check_bytes(prefix, 'prefix', 'No key starts with it, since keys are not longer.');
    WITH gone AS (DELETE FROM rate_limit_state s WHERE starts_with(s.key, prefix) RETURNING s.expires_at)
    SELECT count(*) INTO removed FROM gone WHERE expires_at > clock_timestamp();
    RETURN removed;
END

-- rate_limit_block

DECLARE
    now timestamptz := clock_timestamp();
    ends_at timestamptz;
BEGIN
    PERFORM rl_check_key(key);
    ends_at := rl_read_block_end(duration, now);
    PERFORM rl_check_bytes(reason, 'reason', 'Shorten it, or give the number of a ticket.');
    INSERT INTO rate_limit_blocked AS b VALUES (rate_limit_block.key, now, ends_at, nullif(rate_limit_block.reason, ''))
    ON CONFLICT ON CONSTRAINT rate_limit_blocked_pkey DO UPDATE
    SET blocked_at = excluded.blocked_at, until = excluded.until, reason = excluded.reason;
END

-- rate_limit_unblock

DECLARE
    until timestamptz;
BEGIN
    PERFORM rl_check_key(key);
    DELETE FROM rate_limit_blocked b WHERE b.key = rate_limit_unblock.key RETURNING b.until INTO until;
    RETURN coalesce(until > clock_timestamp(), false);
END

-- rate_limit_prune

DECLARE
    removed int8;
BEGIN
    IF max < 1 THEN
        PERFORM rl_refuse('argument "max" must be at least 1', 'Leave it out to remove all that has expired.');
    END IF;
    DELETE FROM rate_limit_blocked WHERE until <= clock_timestamp();
    DELETE FROM rate_limit_state
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM rate_limit_state WHERE expires_at <= clock_timestamp()
        LIMIT max
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END

-- rate_limit_keys

DECLARE
    stored rate_limit_state;
    now timestamptz := clock_timestamp();
BEGIN
    store := 'table';
    refusals := 0;                          -- they leave no trace in the table
    FOR stored IN SELECT * FROM rate_limit_state s WHERE s.expires_at > now AND cardinality(s.state) > 0 LOOP
        used := rl_used_now(stored);
        CONTINUE WHEN used = 0;
        key := stored.key;
        policy := nullif(stored.policy, '');
        rule := nullif(stored.rule, '');
        algorithm := stored.algorithm;
        "window" := (stored.window_length || ' ' || stored.window_unit)::interval;
        time_zone := nullif(stored.time_zone, '');
        "limit" := CASE algorithm WHEN 'token_bucket' THEN stored.state[5] ELSE stored."limit" END;
        last_use := stored.last_use;
        expires_at := nullif(stored.expires_at, 'infinity');
        RETURN NEXT;
    END LOOP;
END

-- rate_limit_blocks

DECLARE
    block rate_limit_blocked;
    now timestamptz := clock_timestamp();
BEGIN
    refusals := 0;                          -- a refusal writes nothing
    FOR block IN SELECT * FROM rate_limit_blocked b WHERE b.until > now LOOP
        key := block.key;
        blocked_at := block.blocked_at;
        until := nullif(block.until, 'infinity');
        reason := block.reason;
        RETURN NEXT;
    END LOOP;
END
