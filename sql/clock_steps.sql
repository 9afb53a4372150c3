-- a clock that is set back or forth neither frees quota nor locks a key out
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

-- fault 9: hits later than now are taken as now, by a refused call as well
SELECT s, got, got = want AS ok
FROM (VALUES
    (0,         'yes 1 2 0 60'),
    (1,         'yes 2 1 0 60'),
    (2,         'yes 3 0 0 60'),
    (-10,       'no 3 0 60 50'),
    (-10,       'no 3 0 60 50'),
    (49.999999, 'no 3 0 0.000001 50'),
    (50,        'yes 1 2 0 110')) v(s, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:back', 3, '1 min') r,
    pg_temp.brief(r) got;
SELECT s, got, got = want AS ok
FROM (VALUES
    (0,  'yes 1 2 0 60'),
    (20, 'yes 2 1 0 60'),
    (10, 'yes 3 0 0 60'),
    (59, 'no 3 0 1 60'),
    (60, 'yes 3 0 0 70')) v(s, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:between', 3, '1 min') r,
    pg_temp.brief(r) got;

-- fault 9: back by years
SELECT at, r.allowed, r.used, r.retry_after
FROM (VALUES
    (1, timestamptz '2024-03-01 12:00Z'),
    (2, '2024-03-01 12:00Z'),
    (3, '1999-12-31 23:00Z'),
    (4, '1999-12-31 23:01Z')) v(n, t),
    rate_limit_check_at(t, 'steps:years', 1, '1 min') r,
    to_char(t AT TIME ZONE 'UTC', 'YYYY') at
ORDER BY n;

-- fault 9: a jump forth and the return
SELECT s, got, got = want AS ok
FROM (VALUES
    (0,      'yes 1 2 0 60'),
    (100000, 'yes 1 2 0 100060'),
    (5,      'yes 2 1 0 65'),
    (6,      'yes 3 0 0 65'),
    (7,      'no 3 0 58 65'),
    (65,     'yes 2 1 0 66')) v(s, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:forth', 3, '1 min') r,
    pg_temp.brief(r) got;

-- fault 9: times that are rounded up above exact_hits are no clock step
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0.3, 129, 'yes 129 0 0 129'),
    (0.5,   1, 'no 129 0 128.5 129'),
    (0.2,   1, 'no 129 0 128.8 129'),
    (-9.5,  1, 'no 129 0 128.5 119'),
    (119,   1, 'yes 1 128 0 247')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:rounded', 129, '128 s', cost) r,
    pg_temp.brief(r) got;

-- fault 9: a fixed window that has not begun is the one of now; within a window
-- nothing changes
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (61, 3, 'yes 3 0 0 120'),
    (59, 1, 'no 3 0 1 60'),
    (60, 1, 'yes 1 2 0 120')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:fixed', 3, '1 min', cost, 'fixed_window') r,
    pg_temp.brief(r) got;
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (50, 3, 'yes 3 0 0 60'),
    (10, 1, 'no 3 0 50 60'),
    (60, 1, 'yes 1 2 0 120')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:within', 3, '1 min', cost, 'fixed_window') r,
    pg_temp.brief(r) got;
SELECT n, r.allowed, r.used, trim_scale(r.retry_after::numeric) AS retry_after,
    r.reset_at = ends AS ok
FROM (VALUES
    (1, timestamptz '2024-04-05 12:00Z', 3, timestamptz '2024-04-30 22:00Z'),
    (2, '2024-03-31 21:59:59.999999Z', 1, '2024-03-31 22:00Z')) v(n, t, cost, ends),
    rate_limit_check_at(t, 'steps:month', 3, '1 month', cost, 'fixed_window',
                        time_zone => 'Europe/Berlin') r;

-- fault 9: an anchored window that has not begun begins now
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (30,        3, 'yes 3 0 0 90'),
    (10,        1, 'no 3 0 60 70'),
    (69.999999, 1, 'no 3 0 0.000001 70'),
    (70,        1, 'yes 1 2 0 130')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:anchored', 3, '1 min', cost, 'anchored_window') r,
    pg_temp.brief(r) got;

-- fault 9: a bucket keeps its level and is refilled from now on
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (30,     3, 'yes 3 0 0 50'),
    (10,     1, 'no 3 0 20 30'),
    (29,     1, 'no 3 0 1 30'),
    (30,     1, 'yes 3 0 0 50'),
    (100000, 3, 'yes 3 0 0 100020'),
    (35,     1, 'no 3 0 20 55'),
    (55,     1, 'yes 3 0 0 75')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:bucket', 3, '1 min', cost, 'token_bucket') r,
    pg_temp.brief(r) got;

-- a peek at an earlier instant takes hits as now in its answer, and one at a
-- later instant sees them gone, but both leave the counter as it is
SELECT s, got, got = want AS ok
FROM (VALUES
    (0, 'yes 1 2 0 60'),
    (1, 'yes 2 1 0 60'),
    (2, 'yes 3 0 0 60')) v(s, want),
    rate_limit_check_at(pg_temp.at(s), 'steps:peek', 3, '1 min') r,
    pg_temp.brief(r) got;
SELECT s, got, got = want AS ok
FROM (VALUES
    (-10,  'no 3 0 60 50'),
    (1000, 'yes 0 3 0 1000'),
    (60,   'yes 2 1 0 61'),
    (59,   'no 3 0 1 60')) v(s, want),
    rate_limit_peek_at(pg_temp.at(s), 'steps:peek', 3, '1 min') r,
    pg_temp.brief(r) got;
SELECT got, got = 'no 3 0 1 60' AS ok
FROM rate_limit_check_at(pg_temp.at(59), 'steps:peek', 3, '1 min') r,
    pg_temp.brief(r) got;

-- fault 19: the clock is not that of the transaction's start
BEGIN;
SELECT clock_timestamp() AS before \gset
SELECT now() < :'before' AS transaction_started_before,
    r.reset_at - interval '1 hour' BETWEEN :'before' AND clock_timestamp() AS now
FROM rate_limit_check('steps:now', 3, '1 hour') r;
COMMIT;
