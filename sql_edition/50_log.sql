/*
 * sliding_window: a log of hits.  It is stored as a word per hit, the time * 2 if
 * the cost is 1, else the time * 2 + 1 and the cost; a last one with a cost of 0
 * is the newest hit before its time was rounded.  Here a log is an array of
 * times and costs by turns, oldest first.
 */
CREATE FUNCTION rl_log_read(p_state int8[], OUT log int8[], OUT newest int8)
LANGUAGE plpgsql
AS $$
DECLARE
    words int := cardinality(p_state);
    i int := 1;
    n int := 0;
    hit_at int8;
    cost int8;
BEGIN
    log := '{}';
    WHILE i <= words LOOP
        hit_at := p_state[i] >> 1;
        cost := 1;
        IF p_state[i] & 1 = 1 THEN
            i := i + 1;
            cost := p_state[i];
        END IF;
        i := i + 1;

        IF cost = 0 AND n > 0 AND i > words THEN
            newest := hit_at;
        ELSIF cost > 0 AND n <= 2048 AND hit_at > coalesce(newest, - rl_never()) THEN
            newest := hit_at;
            log[n + 1] := hit_at;
            log[n + 2] := cost;
            n := n + 2;
        ELSE
            PERFORM rl_refuse_state();
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION rl_log_write(p_log int8[], p_newest int8) RETURNS int8[]
LANGUAGE plpgsql
AS $$
DECLARE
    state int8[] := '{}';
    length int := cardinality(p_log);
    n int := 0;
BEGIN
    FOR i IN 1 .. length BY 2 LOOP
        IF p_log[i + 1] = 1 THEN
            n := n + 1;
            state[n] := p_log[i] * 2;
        ELSE
            state[n + 1] := p_log[i] * 2 + 1;
            state[n + 2] := p_log[i + 1];
            n := n + 2;
        END IF;
    END LOOP;
    IF length > 0 AND p_log[length - 1] <> p_newest THEN
        state[n + 1] := p_newest * 2 + 1;
        state[n + 2] := 0;
    END IF;
    RETURN state;
END
$$;

CREATE FUNCTION rl_log_used(p_log int8[]) RETURNS numeric
LANGUAGE plpgsql
AS $$
DECLARE
    used numeric := 0;
BEGIN
    FOR i IN 2 .. cardinality(p_log) BY 2 LOOP
        used := used + p_log[i];
    END LOOP;
    RETURN used;
END
$$;

/*
 * Return the instant under which a hit is recorded.  Above exact_hits it is
 * rounded up to a multiple of window / exact_hits, so that at most exact_hits + 1
 * instants lie in any window, and a hit counts too long rather than too short.
 */
CREATE FUNCTION rl_hit_time(p_request rl_request, p_time int8) RETURNS int8
LANGUAGE plpgsql
AS $$
DECLARE
    quantum int8;
    rounded int8;
BEGIN
    IF p_request."limit" <= rl_exact_hits() THEN
        RETURN p_time;
    END IF;
    quantum := (p_request.window_length + rl_exact_hits() - 1) / rl_exact_hits();
    rounded := rl_round_down(p_time, quantum);
    IF rounded < p_time THEN
        RETURN rounded + quantum;
    END IF;
    RETURN rounded;
END
$$;

/* Add a hit at the end of a log, or before those that were rounded up. */
CREATE FUNCTION rl_log_add(p_log int8[], p_time int8, p_cost int8) RETURNS int8[]
LANGUAGE plpgsql
AS $$
DECLARE
    i int := cardinality(p_log) + 1;        -- where the hit goes
BEGIN
    WHILE i > 1 AND p_log[i - 2] > p_time LOOP
        i := i - 2;
    END LOOP;
    IF i > 1 AND p_log[i - 2] = p_time THEN
        p_log[i - 1] := p_log[i - 1] + least(p_cost, rl_never() - p_log[i - 1]);
        RETURN p_log;
    END IF;
    RETURN p_log[: i - 1] || p_time || p_cost || p_log[i :];
END
$$;

/*
 * Write the log anew with times as the limit wants them, and with hits later than
 * p_latest as if they were made then.
 */
CREATE FUNCTION rl_log_retime(p_request rl_request, p_log int8[], p_latest int8) RETURNS int8[]
LANGUAGE plpgsql
AS $$
DECLARE
    log int8[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(p_log) BY 2 LOOP
        log := rl_log_add(log, rl_hit_time(p_request, least(p_log[i], p_latest)), p_log[i + 1]);
    END LOOP;
    RETURN log;
END
$$;

/*
 * Join the hits that no decision depends on while the limit stays: those before
 * the newest "limit" of cost.  They take the time of the newest of them.
 */
CREATE FUNCTION rl_log_join_excess(p_log int8[], p_limit int8) RETURNS int8[]
LANGUAGE plpgsql
AS $$
DECLARE
    first int := cardinality(p_log) + 1;    -- of those that are kept
    recent numeric := 0;
    joined numeric;
BEGIN
    WHILE first > 1 AND recent < p_limit LOOP
        first := first - 2;
        recent := recent + p_log[first + 1];
    END LOOP;
    IF first < 5 THEN
        RETURN p_log;
    END IF;
    joined := least(rl_log_used(p_log[: first - 1]), rl_never());
    RETURN ARRAY[p_log[first - 2], joined::int8] || p_log[first :];
END
$$;

/* Record a cost at an instant. */
CREATE FUNCTION rl_log_record(p_request rl_request, p_log int8[], p_now int8, p_cost int8) RETURNS int8[]
LANGUAGE plpgsql
AS $$
DECLARE
    log int8[] := rl_log_add(p_log, rl_hit_time(p_request, p_now), p_cost);
BEGIN
    IF cardinality(log) / 2 <= rl_exact_hits() + 1 THEN
        RETURN log;
    ELSIF p_request."limit" > rl_exact_hits() THEN
        RETURN rl_log_retime(p_request, log, p_now);
    END IF;
    RETURN rl_log_join_excess(log, p_request."limit");
END
$$;

/* Give back a cost, the newest hits first. */
CREATE FUNCTION rl_log_give_back(p_log int8[], p_cost int8) RETURNS int8[]
LANGUAGE plpgsql
AS $$
DECLARE
    last int := cardinality(p_log);
    rest int8 := p_cost;
BEGIN
    WHILE last > 0 AND rest >= p_log[last] LOOP
        rest := rest - p_log[last];
        last := last - 2;
    END LOOP;
    IF last > 0 THEN
        p_log[last] := p_log[last] - rest;
    END IF;
    RETURN p_log[: last];
END
$$;

/* Find when the oldest hits that are in the way of a cost have left. */
CREATE FUNCTION rl_log_retry_at(p_request rl_request, p_log int8[], p_used numeric, p_cost int8) RETURNS int8
LANGUAGE plpgsql
AS $$
DECLARE
    excess numeric := p_used + p_cost - p_request."limit";
    i int := 1;
BEGIN
    WHILE excess > p_log[i + 1] LOOP
        excess := excess - p_log[i + 1];
        i := i + 2;
    END LOOP;
    RETURN p_log[i] + p_request.window_length;
END
$$;

CREATE FUNCTION rl_log_step(p_request rl_request, p_state int8[], p_now int8, p_cost int8, p_operation text)
RETURNS rl_outcome
LANGUAGE plpgsql
AS $$
DECLARE
    stored record;
    log int8[];
    newest int8;
    first int := 1;
    used numeric;
    outcome rl_outcome;
BEGIN
    -- bring the log to the instant
    stored := rl_log_read(p_state);
    log := stored.log;
    newest := stored.newest;
    outcome.re_timed := false;
    IF cardinality(log) > 0 AND log[cardinality(log) - 1] + p_request.window_length <= p_now THEN
        log := '{}';
    ELSIF newest > p_now THEN
        outcome.re_timed := true;
        log := rl_log_retime(p_request, log, p_now);
        newest := p_now;
    END IF;
    WHILE first < cardinality(log) AND log[first] <= p_now - p_request.window_length LOOP
        first := first + 2;
    END LOOP;
    IF first > 1 THEN
        log := log[first :];
    END IF;
    used := rl_log_used(log);

    -- decide
    outcome.recorded := false;
    outcome.allowed := p_operation = 'adjust'
        OR (p_request."limit" > 0 AND used + p_cost <= p_request."limit");
    outcome.retry_at := p_now;
    IF NOT outcome.allowed THEN
        outcome.retry_at := rl_never();
        IF p_request."limit" > 0 AND p_cost <= p_request."limit" THEN
            outcome.retry_at := rl_log_retry_at(p_request, log, used, p_cost);
        END IF;
    ELSIF p_operation <> 'peek' AND p_cost > 0 THEN
        log := rl_log_record(p_request, log, p_now, p_cost);
        newest := p_now;
        outcome.recorded := true;
        used := rl_log_used(log);
    ELSIF p_operation = 'adjust' AND p_cost < 0 AND used > 0 THEN
        log := rl_log_give_back(log, -greatest(p_cost, - rl_never()));
        IF cardinality(log) > 0 THEN
            newest := least(newest, log[cardinality(log) - 1]);
        END IF;
        outcome.recorded := true;
        used := rl_log_used(log);
    END IF;

    -- report
    outcome.used := least(used, rl_never());
    outcome.remaining := greatest(p_request."limit" - used, 0);
    outcome.reset_at := p_now;
    IF cardinality(log) > 0 THEN
        outcome.reset_at := log[1] + p_request.window_length;
        outcome.ends_at := log[cardinality(log) - 1] + p_request.window_length;
    END IF;
    outcome.state := rl_log_write(log, newest);
    RETURN outcome;
END
$$;
