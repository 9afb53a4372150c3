/*
 * Deciding: the algorithm steps on the counter's row as it was last committed; if
 * that admits the call, the row is locked, the algorithm steps again, and the row
 * is written.  So a refusal writes nothing and waits for nobody.
 */

/* Return the state of a counter, locked or not, NULL if there is none. */
CREATE FUNCTION rl_stored(p_request rl_request, p_lock bool) RETURNS int8[]
LANGUAGE plpgsql
AS $$
DECLARE
    stored int8[];
BEGIN
    IF p_request."limit" IS NULL THEN
        RETURN NULL;
    ELSIF p_lock THEN
        SELECT s.state INTO stored
        FROM rate_limit_state s
        WHERE s.key = p_request.key AND s.policy = p_request.policy AND s.rule = p_request.rule
            AND s.algorithm = p_request.algorithm AND s.window_length = p_request.window_length
            AND s.window_unit = p_request.window_unit AND s.time_zone = p_request.time_zone
        FOR UPDATE;
    ELSE
        SELECT s.state INTO stored
        FROM rate_limit_state s
        WHERE s.key = p_request.key AND s.policy = p_request.policy AND s.rule = p_request.rule
            AND s.algorithm = p_request.algorithm AND s.window_length = p_request.window_length
            AND s.window_unit = p_request.window_unit AND s.time_zone = p_request.time_zone;
    END IF;
    RETURN stored;
END
$$;

/* What is decided where there is no limit: nothing counts, nothing is used. */
CREATE FUNCTION rl_unlimited(p_now int8) RETURNS rl_outcome
LANGUAGE plpgsql
AS $$
DECLARE
    outcome rl_outcome;
BEGIN
    outcome.allowed := true;
    outcome.blocked := false;
    outcome.used := 0;
    outcome.decided_at := p_now;
    outcome.retry_at := p_now;
    outcome.reset_at := p_now;
    outcome.recorded := false;
    outcome.re_timed := false;
    RETURN outcome;
END
$$;

/*
 * Decide on a state as of an instant.  The operation is check: record the cost if
 * the limit admits it; peek: record nothing; adjust: record or give back in any
 * case.
 */
CREATE FUNCTION rl_step(p_request rl_request, p_state int8[], p_now int8, p_cost int8, p_operation text)
RETURNS rl_outcome
LANGUAGE plpgsql
AS $$
DECLARE
    outcome rl_outcome;
BEGIN
    IF p_request."limit" IS NULL THEN
        RETURN rl_unlimited(p_now);
    ELSIF array_position(p_state, NULL) IS NOT NULL THEN
        PERFORM rl_refuse_state();
    END IF;
    IF p_request.algorithm = 'sliding_window' THEN
        outcome := rl_log_step(p_request, coalesce(p_state, '{}'), p_now, p_cost, p_operation);
    ELSIF p_request.algorithm = 'token_bucket' THEN
        outcome := rl_bucket_step(p_request, coalesce(p_state, '{}'), p_now, p_cost, p_operation);
    ELSE
        outcome := rl_window_step(p_request, coalesce(p_state, '{}'), p_now, p_cost, p_operation);
    END IF;
    outcome.decided_at := p_now;
    outcome.blocked := false;
    RETURN outcome;
END
$$;

/* Return until when a key is blocked, never past 2^63 - 1; NULL if it is not. */
CREATE FUNCTION rl_block_end(p_key text) RETURNS int8
LANGUAGE plpgsql
AS $$
DECLARE
    until timestamptz;
BEGIN
    SELECT b.until INTO until FROM rate_limit_blocked b WHERE b.key = p_key;
    IF until = 'infinity' THEN
        RETURN rl_never();
    END IF;
    RETURN rl_instant(until);
END
$$;

/*
 * Judge a cost without recording anything, on a state as stored.  A block
 * refuses until it has ended and the counter would admit the call.
 */
CREATE FUNCTION rl_judge(p_request rl_request, p_state int8[], p_now int8, p_cost int8, p_block_end int8)
RETURNS rl_outcome
LANGUAGE plpgsql
AS $$
DECLARE
    outcome rl_outcome := rl_step(p_request, p_state, p_now, p_cost, 'peek');
    later rl_outcome;
BEGIN
    IF p_block_end > p_now THEN
        outcome.retry_at := rl_never();
        IF p_block_end <> rl_never() THEN
            later := rl_step(p_request, outcome.state, p_block_end, p_cost, 'peek');
            outcome.retry_at := later.retry_at;
        END IF;
        outcome.allowed := false;
        outcome.blocked := true;
        outcome.remaining := 0;
        outcome.reset_at := p_block_end;
    END IF;
    RETURN outcome;
END
$$;

/* Judge a cost without locking anything. */
CREATE FUNCTION rl_peek(p_request rl_request, p_cost int8) RETURNS rl_outcome
LANGUAGE plpgsql
AS $$
DECLARE
    stored int8[] := rl_stored(p_request, false);
    block_end int8 := rl_block_end(p_request.key);
BEGIN
    RETURN rl_judge(p_request, stored, coalesce(p_request.at, rl_instant(clock_timestamp())), p_cost, block_end);
END
$$;

/*
 * Until when, by the server's clock, a state must be kept: as long as it means
 * something, and an hour more in a replay, which may be slower than the history.
 */
CREATE FUNCTION rl_keep_until(p_request rl_request, p_outcome rl_outcome, p_clock timestamptz) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_outcome.ends_at IS NULL THEN
        RETURN p_clock;
    ELSIF p_outcome.ends_at = rl_never() THEN
        RETURN 'infinity';
    END IF;
    RETURN rl_timestamp(rl_instant_of_number(rl_instant(p_clock)::numeric + p_outcome.ends_at - p_outcome.decided_at
        + CASE WHEN p_request.at IS NULL THEN 0 ELSE 3600000000 END));
END
$$;

/* Refuse a check that could write, whether it would or not. */
CREATE FUNCTION rl_refuse_read_only() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('transaction_read_only')::bool THEN
        RAISE read_only_sql_transaction USING
            MESSAGE = 'cannot execute a check of the table store in a read-only transaction';
    END IF;
END
$$;

/* Decide one request. */
CREATE FUNCTION rl_decide(p_operation text, p_request rl_request) RETURNS rl_outcome
LANGUAGE plpgsql
AS $$
DECLARE
    stored int8[];
    is_locked bool := false;
    -- a serializable transaction should not have looked for what others insert
    may_be_stored bool := p_request.cost <= 0 OR current_setting('transaction_isolation') <> 'serializable';
    clock timestamptz;
    keep_until timestamptz;
    outcome rl_outcome;
BEGIN
    IF p_operation = 'adjust' AND p_request."limit" IS NULL THEN
        RETURN rl_unlimited(coalesce(p_request.at, rl_instant(clock_timestamp())));
    ELSIF p_operation <> 'peek' AND p_request."limit" IS NOT NULL THEN
        PERFORM rl_refuse_read_only();
    END IF;
    IF p_operation = 'peek' OR p_operation = 'check' AND (
        p_request."limit" IS NULL OR p_request.cost = 0 OR p_request."limit" = 0
        OR p_request.cost > p_request.capacity) THEN
        RETURN rl_peek(p_request, p_request.cost);
    END IF;

    LOOP
        IF may_be_stored THEN
            stored := rl_stored(p_request, is_locked);
        END IF;
        clock := clock_timestamp();
        IF p_operation = 'check' AND rl_block_end(p_request.key) > coalesce(p_request.at, rl_instant(clock)) THEN
            RETURN rl_peek(p_request, p_request.cost);
        END IF;
        outcome := rl_step(p_request, stored, coalesce(p_request.at, rl_instant(clock)), p_request.cost, p_operation);
        -- a clock that was set back matters only to a call that may pass later
        EXIT WHEN NOT outcome.recorded
            AND (NOT outcome.re_timed OR NOT outcome.allowed AND outcome.retry_at = rl_never());

        keep_until := rl_keep_until(p_request, outcome, clock);
        IF stored IS NULL THEN
            -- if another session comes first, its row is there to be locked
            INSERT INTO rate_limit_state AS s
                (key, policy, rule, algorithm, window_length, window_unit, time_zone,
                 state, "limit", expires_at, last_use)
            VALUES (p_request.key, p_request.policy, p_request.rule, p_request.algorithm,
                p_request.window_length, p_request.window_unit, p_request.time_zone,
                outcome.state, p_request."limit", keep_until, clock)
            ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
            may_be_stored := true;
        ELSIF is_locked THEN
            UPDATE rate_limit_state s
            SET state = outcome.state,
                "limit" = CASE WHEN p_request.cost > 0 THEN p_request."limit" ELSE s."limit" END,
                expires_at = keep_until,
                last_use = clock
            WHERE s.key = p_request.key AND s.policy = p_request.policy AND s.rule = p_request.rule
                AND s.algorithm = p_request.algorithm AND s.window_length = p_request.window_length
                AND s.window_unit = p_request.window_unit AND s.time_zone = p_request.time_zone;
            EXIT;
        END IF;
        is_locked := true;
    END LOOP;
    RETURN outcome;
END
$$;

/* The row that callers get. */
CREATE FUNCTION rl_result(p_request rl_request, p_outcome rl_outcome) RETURNS rate_limit_result
LANGUAGE plpgsql
AS $$
DECLARE
    result rate_limit_result;
BEGIN
    result.allowed := p_outcome.allowed;
    result."limit" := p_request.capacity;
    result.used := p_outcome.used;
    result.remaining := p_outcome.remaining;
    IF p_outcome.retry_at <> rl_never() THEN
        result.retry_after := (p_outcome.retry_at::numeric - p_outcome.decided_at)::float8 / 1000000;
    END IF;
    IF p_outcome.reset_at <> rl_never() THEN
        result.reset_at := rl_timestamp(p_outcome.reset_at);
    END IF;
    result.rule := CASE WHEN p_outcome.blocked THEN 'block' ELSE nullif(p_request.rule, '') END;
    RETURN result;
END
$$;

/* Raise the error of a refused call. */
CREATE FUNCTION rl_raise_refusal(p_request rl_request, p_outcome rl_outcome) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    hint text := 'The call can never be admitted: the limit is 0 or less than its cost, or the key is blocked without end.';
BEGIN
    IF p_outcome.retry_at <> rl_never() THEN
        hint := format('Retry in %s seconds.',
            round((p_outcome.retry_at::numeric - p_outcome.decided_at) / 1000000, 6));
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'RL429',
        MESSAGE = format('rate limit exceeded for key "%s"', p_request.key),
        DETAIL = row_to_json(rl_result(p_request, p_outcome)),
        HINT = hint;
END
$$;
