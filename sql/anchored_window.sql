-- anchored_window: the window starts at the first admitted hit
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
-- s seconds after noon of a Friday, and what a call answered: allowed, used,
-- remaining, retry_after, reset_at in seconds after that noon
CREATE FUNCTION pg_temp.at(s numeric) RETURNS timestamptz LANGUAGE sql IMMUTABLE
    RETURN timestamptz '2024-03-01 12:00:00+00' + s * interval '1 second';
CREATE FUNCTION pg_temp.brief(r rate_limit_result) RETURNS text LANGUAGE sql AS
$$
SELECT concat_ws(' ',
    CASE WHEN r.allowed THEN 'yes' ELSE 'no' END, r.used, r.remaining,
    coalesce(trim_scale(r.retry_after::numeric)::text, 'never'),
    coalesce(trim_scale(extract(epoch FROM r.reset_at - pg_temp.at(0)))::text, 'never'))
$$;

SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (7::numeric, 1, 'yes 1 2 0 67'),
    (30,         1, 'yes 2 1 0 67'),
    (66,         1, 'yes 3 0 0 67'),
    (66.5,       1, 'no 3 0 0.5 67'),
    (66.999999,  1, 'no 3 0 0.000001 67'),
    (67,         2, 'yes 2 1 0 127'),
    (100,        2, 'no 2 1 27 127'),
    (300,        1, 'yes 1 2 0 360')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'anchored:plain', 3, '1 min', cost, 'anchored_window') r,
    pg_temp.brief(r) got;

-- a refused call is no anchor, nor is cost 0
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0::numeric, 4, 'no 0 3 never 0'),
    (2,          0, 'yes 0 3 0 2'),
    (5,          1, 'yes 1 2 0 65'),
    (65,         4, 'no 0 3 never 65'),
    (70,         3, 'yes 3 0 0 130')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'anchored:refused', 3, '1 min', cost, 'anchored_window') r,
    pg_temp.brief(r) got;

-- fault 10: limit 1, and a window of a day is 24 hours on a day of 23 as well
SELECT s, w, got, got = want AS ok
FROM (VALUES
    (0::numeric, interval '1 us', 'yes 1 0 0 0.000001'),
    (0,          '1 us',          'no 1 0 0.000001 0.000001'),
    (0.000001,   '1 us',          'yes 1 0 0 0.000002'),
    (2548800,    '1 day',         'yes 1 0 0 2635200'),
    (2635199.999999, '1 day',     'no 1 0 0.000001 2635200'),
    (2635200,    '1 day',         'yes 1 0 0 2721600')) v(s, w, want),
    rate_limit_check_at(pg_temp.at(s), 'anchored:one', 1, w, 1, 'anchored_window',
                        time_zone => 'Europe/Berlin') r,
    pg_temp.brief(r) got;
