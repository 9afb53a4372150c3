/*
 * Expired rows: one call in eight that has written a row looks at two pages,
 * chosen at random, when its transaction commits.  It removes rows that have
 * expired for longer than a minute: a key that is used now and then keeps its
 * row.  It takes no more locks by then, so that the rows removed, which are those
 * of other keys, cannot be part of a deadlock.  Under isolation levels above READ
 * COMMITTED rows that others have changed would be an error.
 */
CREATE FUNCTION rl_prune_some() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    pages int8 := pg_relation_size('rate_limit_state') / current_setting('block_size')::int;
    page int8 := floor(random() * pages);
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        DELETE FROM rate_limit_state
        WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM rate_limit_state s
            WHERE s.ctid >= format('(%s,0)', page)::tid AND s.ctid < format('(%s,0)', page + 2)::tid
                AND s.expires_at <= clock_timestamp() - interval '1 minute'
            FOR UPDATE SKIP LOCKED));
    END IF;
    RETURN NULL;
END
$$;

/* The same for blocks, which rules with block_for may make by the thousand. */
CREATE FUNCTION rl_prune_some_blocks() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    pages int8 := pg_relation_size('rate_limit_blocked') / current_setting('block_size')::int;
    page int8 := floor(random() * pages);
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        DELETE FROM rate_limit_blocked
        WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM rate_limit_blocked b
            WHERE b.ctid >= format('(%s,0)', page)::tid AND b.ctid < format('(%s,0)', page + 2)::tid
                AND b.until <= clock_timestamp()
            FOR UPDATE SKIP LOCKED));
    END IF;
    RETURN NULL;
END
$$;

/* Rows that were written by hand or restored have been used before. */
CREATE CONSTRAINT TRIGGER rl_prune_some AFTER INSERT OR UPDATE ON rate_limit_state
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (new.last_use >= statement_timestamp() AND random() < 0.125)
    EXECUTE FUNCTION rl_prune_some();

CREATE CONSTRAINT TRIGGER rl_prune_some_blocks AFTER INSERT OR UPDATE ON rate_limit_blocked
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (new.blocked_at >= statement_timestamp() AND random() < 0.125)
    EXECUTE FUNCTION rl_prune_some_blocks();

/* Return when a block that starts now ends.  What is far too long cannot be added. */
CREATE FUNCTION rl_read_block_end(p_duration interval, p_now timestamptz) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    longest CONSTANT int8 := 3155760000000000;
    part record;
    ends_at timestamptz := p_now;
BEGIN
    IF p_duration IS NULL THEN
        RETURN 'infinity';
    END IF;
    part := rl_interval_parts(p_duration);
    IF abs(part.months) <= 2 * 1200 AND abs(part.days) <= 2 * 36525 AND abs(part.usecs) <= 2 * longest THEN
        ends_at := p_now + p_duration;
    ELSIF (part.months * 31 + part.days) * 86400000000::numeric + part.usecs > 0 THEN
        ends_at := 'infinity';
    END IF;

    IF ends_at <= p_now THEN
        PERFORM rl_refuse('argument "duration" must be greater than zero',
            'Leave it out to block until rate_limit_unblock.');
    ELSIF ends_at = 'infinity' OR rl_instant(ends_at) - rl_instant(p_now) > longest THEN
        PERFORM rl_refuse('argument "duration" must not be longer than 100 years',
            'Leave it out to block until rate_limit_unblock.');
    END IF;
    RETURN ends_at;
END
$$;

/* Return the instant from which a stored state means nothing. */
CREATE FUNCTION rl_end_of_state(p_row rate_limit_state) RETURNS int8
LANGUAGE plpgsql
AS $$
DECLARE
    log int8[];
BEGIN
    CASE p_row.algorithm
        WHEN 'sliding_window' THEN
            log := (rl_log_read(p_row.state)).log;
            RETURN log[cardinality(log) - 1] + p_row.window_length;
        WHEN 'anchored_window' THEN
            RETURN p_row.state[1] + p_row.window_length;
        ELSE
            RETURN p_row.state[2];
    END CASE;
END
$$;

/* What is used of a counter now; that of a replay is told as its last call left it. */
CREATE FUNCTION rl_used_now(p_row rate_limit_state) RETURNS int8
LANGUAGE plpgsql
AS $$
DECLARE
    request rl_request;
    now int8 := rl_instant(clock_timestamp());
    ends_at int8 := rl_end_of_state(p_row);
BEGIN
    request.algorithm := p_row.algorithm;
    request.window_length := p_row.window_length;
    request.window_unit := p_row.window_unit;
    request.time_zone := p_row.time_zone;
    request."limit" := p_row."limit";
    request.capacity := CASE p_row.algorithm WHEN 'token_bucket' THEN p_row.state[5] ELSE p_row."limit" END;
    IF isfinite(p_row.expires_at) AND rl_instant(p_row.expires_at) <> ends_at THEN
        now := least(now, ends_at - 1);
    END IF;
    RETURN (rl_step(request, p_row.state, now, 0, 'peek')).used;
END
$$;
