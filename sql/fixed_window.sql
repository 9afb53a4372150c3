-- fixed_window: windows aligned to the clock
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

-- a window holds its start and not its end
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (-1::numeric, 1, 'yes 1 2 0 0'),
    (-0.000001,   2, 'yes 3 0 0 0'),
    (-0.000001,   1, 'no 3 0 0.000001 0'),
    (0,           1, 'yes 1 2 0 60'),
    (30,          3, 'no 1 2 30 60'),
    (30,          4, 'no 1 2 never 60'),
    (59.999999,   2, 'yes 3 0 0 60'),
    (59.999999,   1, 'no 3 0 0.000001 60'),
    (60,          1, 'yes 1 2 0 120'),
    (1000,        1, 'yes 1 2 0 1020')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'fixed:plain', 3, '1 min', cost, 'fixed_window') r,
    pg_temp.brief(r) got;

-- fault 10: limit 1 admits one in each window
SELECT s, got, got = want AS ok
FROM (VALUES
    (0.5, 'yes 1 0 0 1'),
    (0.9, 'no 1 0 0.1 1'),
    (1,   'yes 1 0 0 2'),
    (2,   'yes 1 0 0 3')) v(s, want),
    rate_limit_check_at(pg_temp.at(s), 'fixed:one', 1, '1 s', 1, 'fixed_window') r,
    pg_temp.brief(r) got;

-- a window starts at a multiple of its length since 1970: seven hours from
-- 11:00, a time zone does not matter
SELECT w, got, got = want AS ok
FROM (VALUES
    (interval '90 min', 'yes 1 2 0 5400'),
    ('7 hours',         'yes 1 2 0 21600'),
    ('24 hours',        'yes 1 2 0 43200'),
    ('1.5 s',           'yes 1 2 0 1.5'),
    ('7 us',            'yes 1 2 0 0.000005')) v(w, want),
    rate_limit_check_at(pg_temp.at(0), 'fixed:aligned', 3, w, 1, 'fixed_window',
                        time_zone => 'Europe/Berlin') r,
    pg_temp.brief(r) got;

-- before 1970 and before 2000 as well
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
SELECT at, w, r.allowed, r.reset_at = want AS ok
FROM (VALUES
    (timestamptz '1969-12-31 23:59:30+00', interval '1 min', timestamptz '1970-01-01 00:00:00+00'),
    ('1969-12-31 23:58:59.999999+00', '1 min',    '1969-12-31 23:59:00+00'),
    ('1999-12-31 23:59:59.999999+00', '7 hours',  '2000-01-01 01:00:00+00'),
    ('0001-01-01 00:00:00+00',        '24 hours', '0001-01-02 00:00:00+00')) v(at, w, want),
    rate_limit_check_at(at, 'fixed:old ' || at::text, 1, w, 1, 'fixed_window') r;
