/*
 * Instants and whole numbers.  What may not fit into 64 bits is numeric, whose
 * integers are exact.
 */
CREATE FUNCTION rl_never() RETURNS int8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS 'SELECT int8 ''9223372036854775807''';

/* Negative infinity, which no counter has, becomes the first instant. */
CREATE FUNCTION rl_instant(p_time timestamptz) RETURNS int8
LANGUAGE sql STABLE PARALLEL SAFE
AS 'SELECT (extract(epoch FROM p_time) * 1000000 - 946684800000000)::int8';

/* What is past the range of timestamps becomes infinity. */
CREATE FUNCTION rl_timestamp(p_instant int8) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    IF p_instant >= 9223371331200000000 THEN
        RETURN 'infinity';
    END IF;
    RETURN timestamptz '2000-01-01 00:00:00+00' + (p_instant || ' microseconds')::interval;
END
$$;

/* Return the instant of a number, or never if it is past the range. */
CREATE FUNCTION rl_instant_of_number(p_number numeric) RETURNS int8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    IF p_number >= 9223371331200000000 THEN
        RETURN rl_never();
    END IF;
    RETURN p_number;
END
$$;

/* Divide by a positive number and round down. */
CREATE FUNCTION rl_floor_div_wide(p_dividend numeric, p_divisor numeric) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    IF mod(p_dividend, p_divisor) < 0 THEN
        RETURN div(p_dividend, p_divisor) - 1;
    END IF;
    RETURN div(p_dividend, p_divisor);
END
$$;

CREATE FUNCTION rl_floor_div(p_dividend int8, p_divisor int8) RETURNS int8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    IF p_dividend % p_divisor < 0 THEN
        RETURN p_dividend / p_divisor - 1;
    END IF;
    RETURN p_dividend / p_divisor;
END
$$;

/* Round an instant down to a multiple of a unit, counted from 1970. */
CREATE FUNCTION rl_round_down(p_time int8, p_unit int8) RETURNS int8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN rl_floor_div(p_time + 946684800000000, p_unit) * p_unit - 946684800000000;
END
$$;

/* Refuse a state that these functions have not written. */
CREATE FUNCTION rl_refuse_state() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE data_corrupted USING
        MESSAGE = 'column "state" of a row of rate_limit_state is damaged',
        HINT = 'Remove the row, or reset its key by rate_limit_reset.';
END
$$;
