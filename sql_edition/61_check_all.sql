/*
 * Several requests, all or nothing.  Looking first keeps refusals from writing; a
 * charge can still be refused when others come in between, and then all is taken
 * back and looked at again.
 */

CREATE FUNCTION rl_read_requests(p_keys text[], p_limits int8[], p_windows interval[], p_costs int8[],
    p_algorithm text)
RETURNS rl_request[]
LANGUAGE plpgsql
AS $$
DECLARE
    n int := cardinality(p_keys);
    keys text[] := p_keys[:];               -- counted from 1
    limits int8[] := p_limits[:];
    windows interval[] := p_windows[:];
    costs int8[] := p_costs[:];
    requests rl_request[] := '{}';
BEGIN
    PERFORM rl_check_array('keys', p_keys, NULL);
    IF n = 0 THEN
        PERFORM rl_refuse('argument "keys" must not be empty', 'Give 1 to 1000 keys.');
    ELSIF n > 1000 THEN
        PERFORM rl_refuse('argument "keys" has too many elements', 'Give 1 to 1000 keys.');
    END IF;
    PERFORM rl_check_array('limits', p_limits, n);
    PERFORM rl_check_array('windows', p_windows, n);
    IF p_costs IS NOT NULL THEN
        PERFORM rl_check_array('costs', p_costs, n);
    END IF;
    PERFORM rl_check_algorithm(p_algorithm);

    FOR i IN 1 .. n LOOP
        requests[i] := rl_read_request(NULL, keys[i], limits[i], windows[i],
            CASE WHEN p_costs IS NULL THEN 1 ELSE costs[i] END, p_algorithm);
    END LOOP;
    IF p_algorithm = 'token_bucket' AND EXISTS (
        SELECT FROM unnest(requests) r GROUP BY r.key, r.window_length HAVING min(r."limit") <> max(r."limit"))
    THEN
        PERFORM rl_refuse('argument "limits" must not differ for the same key and window',
            'With algorithm "token_bucket" give a counter one limit in a call.');
    END IF;
    RETURN requests;
END
$$;

/* The order in which requests are decided: by their counters, then as given. */
CREATE FUNCTION rl_lock_order(p_requests rl_request[]) RETURNS int[]
LANGUAGE sql
AS $$
    SELECT array_agg(r.ord::int ORDER BY r.key, r.policy, r.rule,
        r.window_unit = 'month', r.window_unit = 'day', r.window_length, r.ord)
    FROM unnest(p_requests) WITH ORDINALITY
        AS r(key, policy, rule, algorithm, window_length, window_unit, time_zone, "limit", capacity, cost, at, shadow, ord);
$$;

/*
 * Judge all without recording anything.  A counter given before is judged as if
 * that had been charged.
 */
CREATE FUNCTION rl_peek_all(p_requests rl_request[], p_order int[]) RETURNS rl_outcome[]
LANGUAGE plpgsql
AS $$
DECLARE
    outcomes rl_outcome[] := array_fill(NULL::rl_outcome, ARRAY[cardinality(p_requests)]);
    request rl_request;
    last rl_request;
    total int8;
    i int;
BEGIN
    FOREACH i IN ARRAY p_order LOOP
        request := p_requests[i];
        IF (request.key, request.rule, request.window_unit, request.window_length)
            IS DISTINCT FROM (last.key, last.rule, last.window_unit, last.window_length) THEN
            total := 0;
        END IF;
        total := total + least(request.cost, rl_never() - total);
        outcomes[i] := rl_peek(request, total);
        last := request;
    END LOOP;
    RETURN outcomes;
END
$$;

/* Does this keep the call as a whole from being admitted?  A block always does. */
CREATE FUNCTION rl_refuses(p_request rl_request, p_outcome rl_outcome) RETURNS bool
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN NOT p_outcome.allowed AND (p_outcome.blocked OR NOT p_request.shadow);
END
$$;

CREATE FUNCTION rl_any_refuses(p_requests rl_request[], p_outcomes rl_outcome[]) RETURNS bool
LANGUAGE sql
AS $$
    SELECT bool_or(rl_refuses(p_requests[i], p_outcomes[i])) FROM generate_subscripts(p_requests, 1) i;
$$;

/* Charge all, or take back what was charged and return NULL if one is refused. */
CREATE FUNCTION rl_charge_all(p_requests rl_request[], p_order int[]) RETURNS rl_outcome[]
LANGUAGE plpgsql
AS $$
DECLARE
    outcomes rl_outcome[] := array_fill(NULL::rl_outcome, ARRAY[cardinality(p_requests)]);
    outcome rl_outcome;
    i int;
BEGIN
    FOREACH i IN ARRAY p_order LOOP
        outcome := rl_decide('check', p_requests[i]);
        IF rl_refuses(p_requests[i], outcome) THEN
            RAISE SQLSTATE 'RL000';
        END IF;
        outcomes[i] := outcome;
    END LOOP;
    RETURN outcomes;
EXCEPTION WHEN SQLSTATE 'RL000' THEN
    RETURN NULL;
END
$$;

/*
 * Keep what a clock that was set back has changed in rows that refuse, as the
 * check of a single request does: else the key would wait for the old clock.
 */
CREATE FUNCTION rl_keep_re_timed(p_requests rl_request[], p_outcomes rl_outcome[], p_order int[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    request rl_request;
    outcome rl_outcome;
    i int;
BEGIN
    FOREACH i IN ARRAY p_order LOOP
        request := p_requests[i];
        outcome := p_outcomes[i];
        IF outcome.re_timed AND NOT outcome.allowed AND NOT outcome.blocked AND request.cost > 0
            AND outcome.retry_at <> rl_never() THEN
            request.cost := 0;
            PERFORM rl_decide('adjust', request);
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION rl_decide_all(p_requests rl_request[]) RETURNS rl_outcome[]
LANGUAGE plpgsql
AS $$
DECLARE
    lock_order int[] := rl_lock_order(p_requests);
    outcomes rl_outcome[];
BEGIN
    IF EXISTS (SELECT FROM unnest(p_requests) r WHERE r."limit" IS NOT NULL) THEN
        PERFORM rl_refuse_read_only();
    END IF;
    LOOP
        outcomes := rl_peek_all(p_requests, lock_order);
        PERFORM rl_keep_re_timed(p_requests, outcomes, lock_order);
        IF rl_any_refuses(p_requests, outcomes) THEN
            RETURN outcomes;
        END IF;
        outcomes := rl_charge_all(p_requests, lock_order);
        IF outcomes IS NOT NULL THEN
            RETURN outcomes;
        END IF;
    END LOOP;
END
$$;
