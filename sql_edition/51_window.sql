/*
 * fixed_window and anchored_window: a start and a count.  Stored are start, end
 * and cost used of a fixed window, start and cost used of an anchored one.
 */
CREATE FUNCTION rl_window_bounds(p_request rl_request, p_now int8, OUT starts_at int8, OUT ends_at int8)
LANGUAGE plpgsql
AS $$
DECLARE
    bounds record;
BEGIN
    IF p_request.window_unit <> 'microsecond' THEN
        bounds := rl_calendar_window(p_request, p_now);
        starts_at := bounds.starts_at;
        ends_at := bounds.ends_at;
        RETURN;
    END IF;
    starts_at := p_now;
    IF p_request.algorithm = 'fixed_window' THEN
        starts_at := rl_round_down(p_now, p_request.window_length);
    END IF;
    ends_at := starts_at + p_request.window_length;
END
$$;

CREATE FUNCTION rl_window_step(p_request rl_request, p_state int8[], p_now int8, p_cost int8, p_operation text)
RETURNS rl_outcome
LANGUAGE plpgsql
AS $$
DECLARE
    bounds record;
    starts_at int8 := p_state[1];
    ends_at int8;
    words int := 2;
    used numeric := 0;
    outcome rl_outcome;
BEGIN
    -- bring the window to the instant
    IF cardinality(p_state) > 0 THEN
        IF p_request.algorithm = 'fixed_window' THEN
            words := 3;
            ends_at := p_state[2];
            used := p_state[3];
        ELSE
            ends_at := starts_at + p_request.window_length;
            used := p_state[2];
        END IF;
        IF cardinality(p_state) <> words OR used IS NULL OR used <= 0 THEN
            PERFORM rl_refuse_state();
        END IF;
    END IF;
    outcome.re_timed := false;
    IF ends_at <= p_now THEN
        used := 0;
    ELSIF starts_at > p_now THEN
        outcome.re_timed := true;
        bounds := rl_window_bounds(p_request, p_now);
        starts_at := bounds.starts_at;
        ends_at := bounds.ends_at;
    END IF;

    -- decide
    outcome.recorded := false;
    outcome.allowed := p_operation = 'adjust'
        OR (p_request."limit" > 0 AND used + p_cost <= p_request."limit");
    outcome.retry_at := p_now;
    IF NOT outcome.allowed THEN
        outcome.retry_at := rl_never();
        IF p_request."limit" > 0 AND p_cost <= p_request."limit" THEN
            outcome.retry_at := ends_at;
        END IF;
    ELSIF p_operation <> 'peek' AND p_cost > 0 THEN
        IF used = 0 THEN
            bounds := rl_window_bounds(p_request, p_now);
            starts_at := bounds.starts_at;
            ends_at := bounds.ends_at;
        END IF;
        used := least(used + p_cost, rl_never());
        outcome.recorded := true;
    ELSIF p_operation = 'adjust' AND p_cost < 0 AND used > 0 THEN
        used := greatest(used + p_cost, 0);
        outcome.recorded := true;
    END IF;

    -- report
    outcome.used := used;
    outcome.remaining := greatest(p_request."limit" - used, 0);
    outcome.reset_at := p_now;
    outcome.state := '{}';
    IF used > 0 THEN
        outcome.reset_at := ends_at;
        outcome.ends_at := ends_at;
        outcome.state := CASE p_request.algorithm
            WHEN 'fixed_window' THEN ARRAY[starts_at, ends_at, used::int8]
            ELSE ARRAY[starts_at, used::int8] END;
    END IF;
    RETURN outcome;
END
$$;
