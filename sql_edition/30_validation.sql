/*
 * The arguments: every bad one is refused here.
 */
CREATE FUNCTION rl_refuse_null(p_argument text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE null_value_not_allowed USING
        MESSAGE = format('argument "%s" must not be null', p_argument);
END
$$;

CREATE FUNCTION rl_refuse(p_message text, p_hint text, p_detail text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_detail IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = p_message, HINT = p_hint;
    END IF;
    RAISE invalid_parameter_value USING MESSAGE = p_message, DETAIL = p_detail, HINT = p_hint;
END
$$;

CREATE FUNCTION rl_check_bytes(p_value text, p_argument text, p_hint text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF octet_length(p_value) > 1024 THEN
        PERFORM rl_refuse(format('argument "%s" is too long', p_argument), p_hint,
            format('It has %s bytes, the maximum is 1024.', octet_length(p_value)));
    END IF;
END
$$;

CREATE FUNCTION rl_check_key(p_key text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_key IS NULL THEN
        PERFORM rl_refuse_null('key');
    ELSIF p_key = '' THEN
        PERFORM rl_refuse('argument "key" must not be empty',
            'Give what the limit is counted for, such as ''user:42''.');
    ELSIF octet_length(p_key) > 1024 THEN
        PERFORM rl_check_bytes(p_key, 'key', 'Use a shorter key, or a hash of the long one.');
    END IF;
END
$$;

/* In an adjustment the cost is called "delta" and may be negative. */
CREATE FUNCTION rl_check_cost(p_cost int8, p_adjustment bool) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_cost IS NULL THEN
        PERFORM rl_refuse_null(CASE WHEN p_adjustment THEN 'delta' ELSE 'cost' END);
    ELSIF p_cost < 0 AND NOT p_adjustment THEN
        PERFORM rl_refuse('argument "cost" must not be negative', 'Use rate_limit_adjust to give quota back.');
    END IF;
END
$$;

CREATE FUNCTION rl_check_algorithm(p_algorithm text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_algorithm IS NULL THEN
        PERFORM rl_refuse_null('algorithm');
    ELSIF p_algorithm NOT IN ('sliding_window', 'fixed_window', 'anchored_window', 'token_bucket') THEN
        PERFORM rl_refuse(format('argument "algorithm" is not known: "%s"', p_algorithm),
            'Use "sliding_window", "fixed_window", "anchored_window" or "token_bucket".');
    END IF;
END
$$;

/* The parts of an interval: time in microseconds, days and months. */
CREATE FUNCTION rl_interval_parts(p_interval interval, OUT months int8, OUT days int8, OUT usecs numeric)
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF NOT isfinite(p_interval) THEN
        -- PostgreSQL 17 has endless ones, of the largest parts
        months := CASE WHEN p_interval > '0' THEN 2147483647 ELSE -2147483648 END;
        days := months;
        usecs := months;
    ELSE
        months := extract(year FROM p_interval) * 12 + extract(month FROM p_interval);
        days := extract(day FROM p_interval);
        usecs := extract(hour FROM p_interval) * 3600000000 + extract(minute FROM p_interval) * 60000000
            + extract(microseconds FROM p_interval);
    END IF;
END
$$;

/*
 * The window: of a length in microseconds, or for fixed_window one that the
 * calendar says.
 */
CREATE FUNCTION rl_read_window(p_window interval, p_algorithm text, OUT unit text, OUT length int8)
LANGUAGE plpgsql
AS $$
DECLARE
    part record;
    longest int8 := 3155760000000000;
    whole numeric;
BEGIN
    part := rl_interval_parts(p_window);
    unit := 'microsecond';
    whole := part.days::numeric * 86400000000 + part.usecs;

    IF p_algorithm <> 'fixed_window' THEN
        IF part.months <> 0 THEN
            PERFORM rl_refuse(
                format('argument "window" must not contain months with algorithm "%s"', p_algorithm),
                'Give days, such as ''30 days'', or use algorithm "fixed_window" for calendar months.');
        END IF;
    ELSIF (part.months <> 0)::int + (part.days <> 0)::int + (part.usecs <> 0)::int > 1 THEN
        PERFORM rl_refuse('argument "window" must not mix months, days and time',
            'With algorithm "fixed_window" give one of them, such as ''1 month'', ''7 days'' or ''90 minutes''.');
    ELSIF part.months <> 0 THEN
        unit := 'month';
        whole := part.months;
        longest := 1200;
    ELSIF part.days <> 0 THEN
        unit := 'day';
        whole := part.days;
        longest := 36525;
    END IF;

    IF whole <= 0 THEN
        PERFORM rl_refuse('argument "window" must be greater than zero',
            'Give an interval from 1 microsecond to 100 years.');
    ELSIF whole > longest THEN
        PERFORM rl_refuse('argument "window" must not be longer than 100 years',
            'Give an interval from 1 microsecond to 100 years.');
    END IF;
    length := whole;
END
$$;

/*
 * The name of a time zone as PostgreSQL writes it.  The setting TimeZone takes
 * the same names as the extension, and besides numbers and intervals.
 */
CREATE FUNCTION rl_read_time_zone(p_name text) RETURNS text
LANGUAGE plpgsql SET timezone = 'UTC'
AS $$
BEGIN
    IF p_name !~* '^([[:space:]]|[-+.0-9]|interval)|^(inf|infinity|nan)$' THEN
        RETURN set_config('TimeZone', p_name, true);
    END IF;
    PERFORM rl_refuse_time_zone(p_name);
EXCEPTION WHEN invalid_parameter_value THEN
    PERFORM rl_refuse_time_zone(p_name);
END
$$;

CREATE FUNCTION rl_refuse_time_zone(p_name text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM rl_refuse(format('argument "time_zone" is not known: "%s"', p_name),
        'Use a name from the view pg_timezone_names.');
END
$$;

/* There is one store only. */
CREATE FUNCTION rl_check_store(p_store text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_store = 'memory' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'store "memory" needs the C library of the extension rate_limit, which its SQL edition does without',
            HINT = 'Use "table" or leave it out, or install the extension.';
    ELSIF p_store <> 'table' THEN
        PERFORM rl_refuse(format('argument "store" is not known: "%s"', p_store), 'Use "table".');
    END IF;
END
$$;

/* Read an instant that is given; never null. */
CREATE FUNCTION rl_read_at(p_at timestamptz) RETURNS int8
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_at IS NULL THEN
        PERFORM rl_refuse_null('at');
    ELSIF isfinite(p_at) THEN
        IF rl_instant(p_at) BETWEEN -211813488000000000 AND 4000000000000000000 THEN
            RETURN rl_instant(p_at);
        END IF;
    END IF;
    PERFORM rl_refuse('argument "at" is out of range', 'Give a finite instant before the year 128000.');
END
$$;

/* All arguments of a call. */
CREATE FUNCTION rl_read_request(p_at int8, p_key text, p_limit int8, p_window interval, p_cost int8,
    p_algorithm text, p_burst int8 DEFAULT NULL, p_store text DEFAULT NULL, p_time_zone text DEFAULT NULL,
    p_adjustment bool DEFAULT false)
RETURNS rl_request
LANGUAGE plpgsql
AS $$
DECLARE
    request rl_request;
    part record;
BEGIN
    PERFORM rl_check_key(p_key);
    IF p_limit IS NULL THEN
        PERFORM rl_refuse_null('limit');
    ELSIF p_limit < 0 THEN
        PERFORM rl_refuse('argument "limit" must not be negative',
            'Give the cost that is admitted per window; 0 refuses everything.');
    ELSIF p_window IS NULL THEN
        PERFORM rl_refuse_null('window');
    ELSIF p_cost IS NULL OR p_cost < 0 THEN
        PERFORM rl_check_cost(p_cost, p_adjustment);
    END IF;
    PERFORM rl_check_algorithm(p_algorithm);

    request.at := p_at;
    request.key := p_key;
    request.policy := '';
    request.rule := '';
    request.shadow := false;
    request.algorithm := p_algorithm;
    request."limit" := p_limit;
    request.capacity := p_limit;
    request.cost := p_cost;
    part := rl_read_window(p_window, p_algorithm);
    request.window_unit := part.unit;
    request.window_length := part.length;

    IF p_burst < 1 THEN
        PERFORM rl_refuse('argument "burst" must be at least 1',
            'Leave it out for a capacity as large as the limit.');
    ELSIF p_burst IS NOT NULL AND p_algorithm <> 'token_bucket' THEN
        PERFORM rl_refuse('argument "burst" is only for algorithm "token_bucket"',
            'Leave it out, or use algorithm "token_bucket".');
    ELSIF p_limit > 0 THEN
        -- a bucket that nothing flows into admits nothing
        request.capacity := coalesce(p_burst, p_limit);
    END IF;
    PERFORM rl_check_store(p_store);

    request.time_zone := coalesce(p_time_zone, 'UTC');
    IF request.time_zone <> 'UTC' THEN
        request.time_zone := rl_read_time_zone(p_time_zone);
    END IF;
    IF request.window_unit = 'microsecond' THEN
        request.time_zone := '';
    END IF;
    RETURN request;
END
$$;

/* Check an array; p_length is the length that it must have, or NULL. */
CREATE FUNCTION rl_check_array(p_argument text, p_array anyarray, p_length int) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_array IS NULL THEN
        PERFORM rl_refuse_null(p_argument);
    ELSIF array_ndims(p_array) > 1 THEN
        PERFORM rl_refuse(format('argument "%s" must be a one-dimensional array', p_argument),
            'Give one element per key.');
    ELSIF array_position(p_array, NULL) IS NOT NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = format('argument "%s" must not contain nulls', p_argument);
    ELSIF cardinality(p_array) <> p_length THEN
        PERFORM rl_refuse(format('argument "%s" must have as many elements as "keys"', p_argument),
            'Give one element per key.',
            format('Its length is %s, that of "keys" is %s.', cardinality(p_array), p_length));
    END IF;
END
$$;
