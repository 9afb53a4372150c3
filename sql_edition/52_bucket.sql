/*
 * token_bucket: a level, in units of one token divided by the length of the
 * window in microseconds, so that the bucket gains exactly "limit" units every
 * microsecond.  Stored are the instant, the end, the low and high half of the
 * level as 128-bit integer, and the capacity as last stated.
 */
CREATE FUNCTION rl_bucket_write(p_time int8, p_end int8, p_level numeric, p_capacity int8) RETURNS int8[]
LANGUAGE plpgsql
AS $$
DECLARE
    high numeric := rl_floor_div_wide(p_level, 18446744073709551616);
    low numeric := p_level - high * 18446744073709551616;
BEGIN
    IF low > rl_never() THEN
        low := low - 18446744073709551616;
    END IF;
    RETURN ARRAY[p_time, p_end, low, high, p_capacity]::int8[];
END
$$;

CREATE FUNCTION rl_bucket_read(p_state int8[]) RETURNS numeric
LANGUAGE plpgsql
AS $$
BEGIN
    IF cardinality(p_state) <> 5 OR coalesce(p_state[5], -1) < 0 THEN
        PERFORM rl_refuse_state();
    END IF;
    RETURN p_state[4]::numeric * 18446744073709551616 + p_state[3]
        + CASE WHEN p_state[3] < 0 THEN 18446744073709551616 ELSE 0 END;
END
$$;

/* Return when a bucket will have risen from one level to another. */
CREATE FUNCTION rl_bucket_rises(p_request rl_request, p_now int8, p_from numeric, p_to numeric) RETURNS int8
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_request."limit" = 0 THEN
        RETURN rl_never();
    END IF;
    RETURN rl_instant_of_number(p_now + div(p_to - p_from + p_request."limit" - 1, p_request."limit"));
END
$$;

CREATE FUNCTION rl_bucket_step(p_request rl_request, p_state int8[], p_now int8, p_cost int8, p_operation text)
RETURNS rl_outcome
LANGUAGE plpgsql
AS $$
DECLARE
    active bool := cardinality(p_state) > 0;
    length numeric := p_request.window_length;
    full_level numeric := p_request.capacity * length;
    level numeric := full_level;
    ends_at int8;
    last_capacity int8;
    used numeric := 0;
    outcome rl_outcome;
BEGIN
    -- bring the bucket to the instant
    outcome.re_timed := false;
    IF active THEN
        level := rl_bucket_read(p_state);
        ends_at := p_state[2];
        last_capacity := p_state[5];
        active := ends_at > p_now;
        IF NOT active THEN
            level := full_level;
        ELSIF p_state[1] > p_now THEN
            outcome.re_timed := true;
            IF ends_at <> rl_never() THEN
                ends_at := ends_at - (p_state[1] - p_now);
            END IF;
        ELSE
            level := level + (p_now::numeric - p_state[1]) * p_request."limit";
        END IF;
    END IF;
    IF active THEN
        outcome.state := rl_bucket_write(p_now, ends_at, level, last_capacity);
        level := least(level, full_level);
        used := p_request.capacity - rl_floor_div_wide(level, length);
    END IF;

    -- decide
    outcome.recorded := false;
    outcome.allowed := p_operation = 'adjust'
        OR (p_request."limit" > 0 AND p_cost <= p_request.capacity AND level >= p_cost * length);
    outcome.retry_at := p_now;
    IF NOT outcome.allowed THEN
        outcome.retry_at := rl_never();
        IF p_request."limit" > 0 AND p_cost <= p_request.capacity THEN
            outcome.retry_at := least(rl_bucket_rises(p_request, p_now, level, p_cost * length), ends_at);
        END IF;
    ELSIF p_operation <> 'peek' AND p_cost > 0 THEN
        -- the lowest level is one at which what is used can still be told
        level := greatest(level - p_cost * length, -(rl_never() - p_request.capacity) * length);
        active := true;
        outcome.recorded := true;
    ELSIF p_operation = 'adjust' AND p_cost < 0 AND used > 0 THEN
        level := level - greatest(p_cost, - rl_never()) * length;
        -- full, and not only under a capacity lower than before: as good as new
        active := level < full_level OR p_request.capacity < last_capacity;
        level := least(level, full_level);
        outcome.recorded := true;
    END IF;

    -- A bucket is forgotten when it is full and a window has passed.  By then one
    -- whose capacity is its limit is full under any limit, so that a changed one
    -- finds the same level whether the bucket was forgotten or not.
    IF outcome.recorded THEN
        ends_at := p_now + p_request.window_length;
        IF p_request."limit" > 0 THEN
            ends_at := greatest(ends_at, rl_bucket_rises(p_request, p_now, level, full_level));
        END IF;
        outcome.state := rl_bucket_write(p_now, ends_at, level, p_request.capacity);
        used := p_request.capacity - rl_floor_div_wide(level, length);
    END IF;

    -- report
    outcome.reset_at := p_now;
    IF NOT active THEN
        outcome.state := '{}';
        used := 0;
    ELSE
        outcome.ends_at := ends_at;
        IF level <> full_level THEN
            outcome.reset_at := least(ends_at,
                rl_bucket_rises(p_request, p_now, level, (rl_floor_div_wide(level, length) + 1) * length));
        END IF;
    END IF;
    outcome.used := least(used, rl_never());
    outcome.remaining := greatest(p_request.capacity - used, 0);
    RETURN outcome;
END
$$;
