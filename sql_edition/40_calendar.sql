/*
 * Windows aligned to the clock or to the calendar of a time zone.  Days are
 * numbered from 1970-01-01, months from January of year 0.
 */

/*
 * Return the seconds to add to UTC to get local time, at an instant given in
 * seconds since 1970.  The zone is the setting TimeZone, since AT TIME ZONE takes
 * some names for abbreviations.  Before the first timestamp there is one offset.
 */
CREATE FUNCTION rl_offset(p_secs int8) RETURNS int8
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    secs int8 := greatest(p_secs, -210866630400);
BEGIN
    RETURN extract(epoch FROM rl_timestamp((secs - 946684800) * 1000000)::timestamp)::int8 - secs;
END
$$;

/*
 * Return the first instant at which local time has reached midnight of a day, in
 * seconds since 1970.  The clock may be put forward over midnight: then the day
 * starts at the transition; or midnight may come twice: then at the first.
 */
CREATE FUNCTION rl_local_midnight(p_day int8) RETURNS int8
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    local int8 := p_day * 86400;
    low int8 := local - 57600;
    high int8 := local + 57600;
    middle int8;
    before int8 := rl_offset(low);
    after int8 := rl_offset(high);
BEGIN
    IF before = after THEN
        RETURN local - before;
    END IF;

    -- find the second at which the offset changes
    WHILE high - low > 1 LOOP
        middle := low + (high - low) / 2;
        IF rl_offset(middle) = before THEN
            low := middle;
        ELSE
            high := middle;
        END IF;
    END LOOP;
    IF local - before < high THEN
        RETURN local - before;
    END IF;
    RETURN greatest(high, local - after);
END
$$;

/* Number the month of a day, by the Gregorian calendar with years from March. */
CREATE FUNCTION rl_month_of_day(p_day int8) RETURNS int8
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    cycle int8 := rl_floor_div(p_day + 719468, 146097);     -- of 400 years, from 0000-03-01
    day_of_cycle int8 := p_day + 719468 - cycle * 146097;
    year int8;
    day_of_year int8;
BEGIN
    year := (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36524 - day_of_cycle / 146096) / 365;
    day_of_year := day_of_cycle - (365 * year + year / 4 - year / 100);
    RETURN (cycle * 400 + year) * 12 + (5 * day_of_year + 2) / 153 + 2;
END
$$;

/* Return the number of the first day of a month. */
CREATE FUNCTION rl_first_day_of_month(p_month int8) RETURNS int8
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    year int8 := rl_floor_div(p_month - 2, 12);
    month_of_year int8 := p_month - 2 - year * 12;          -- 0 = March
    cycle int8 := rl_floor_div(year, 400);
    year_of_cycle int8 := year - cycle * 400;
BEGIN
    RETURN -719468 + cycle * 146097
        + 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100
        + (153 * month_of_year + 2) / 5;
END
$$;

/* Return the instant at which the window with a number starts. */
CREATE FUNCTION rl_window_start(p_unit text, p_length int8, p_number int8) RETURNS int8
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    day int8;
BEGIN
    IF p_unit = 'day' THEN
        day := 11323 + p_number * p_length;                 -- from Monday, 2001-01-01
    ELSE
        day := rl_first_day_of_month(p_number * p_length);
    END IF;
    RETURN (rl_local_midnight(day) - 946684800) * 1000000;
END
$$;

/* Find the window that an instant lies in. */
CREATE FUNCTION rl_calendar_window(p_request rl_request, p_now int8, OUT starts_at int8, OUT ends_at int8)
LANGUAGE plpgsql SET timezone = 'UTC'
AS $$
DECLARE
    secs int8 := rl_floor_div(p_now, 1000000) + 946684800;
    day int8;
    number int8;
BEGIN
    PERFORM set_config('TimeZone', p_request.time_zone, true);
    day := rl_floor_div(secs + rl_offset(secs), 86400);
    IF p_request.window_unit = 'day' THEN
        number := rl_floor_div(day - 11323, p_request.window_length);
    ELSE
        number := rl_floor_div(rl_month_of_day(day), p_request.window_length);
    END IF;

    starts_at := rl_window_start(p_request.window_unit, p_request.window_length, number);
    ends_at := rl_window_start(p_request.window_unit, p_request.window_length, number + 1);
    -- when the clock is put back just after midnight, the old date comes once
    -- more, but its window has ended at the first midnight
    WHILE ends_at <= p_now LOOP
        number := number + 1;
        starts_at := ends_at;
        ends_at := rl_window_start(p_request.window_unit, p_request.window_length, number + 1);
    END LOOP;
END
$$;
