-- store => 'table': every function and algorithm, the same answers as in memory
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

-- the algorithms, through rate_limit_check_at: at the limit, the last microsecond
-- in which it refuses, the instant at which it admits again
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0::numeric, 1, 'yes 1 2 0 60'),
    (10,         1, 'yes 2 1 0 60'),
    (20,         1, 'yes 3 0 0 60'),
    (30,         1, 'no 3 0 30 60'),
    (30,         2, 'no 3 0 40 60'),
    (30,         4, 'no 3 0 never 60'),
    (30,         0, 'yes 3 0 0 60'),
    (59.999999,  1, 'no 3 0 0.000001 60'),
    (60,         1, 'yes 3 0 0 70'),
    (200,        1, 'yes 1 2 0 260')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'table:sliding', 3, '1 min', cost, store => 'table') r,
    pg_temp.brief(r) got;
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (-0.000001::numeric, 3, 'yes 3 0 0 0'),
    (-0.000001, 1, 'no 3 0 0.000001 0'),
    (0,         1, 'yes 1 2 0 60'),
    (30,        3, 'no 1 2 30 60'),
    (59.999999, 2, 'yes 3 0 0 60'),
    (59.999999, 1, 'no 3 0 0.000001 60'),
    (60,        1, 'yes 1 2 0 120')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'table:fixed', 3, '1 min', cost, 'fixed_window', store => 'table') r,
    pg_temp.brief(r) got;
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (5::numeric, 4, 'no 0 3 never 5'),
    (7,          1, 'yes 1 2 0 67'),
    (66,         2, 'yes 3 0 0 67'),
    (66.999999,  1, 'no 3 0 0.000001 67'),
    (67,         2, 'yes 2 1 0 127'),
    (300,        1, 'yes 1 2 0 360')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'table:anchored', 3, '1 min', cost, 'anchored_window', store => 'table') r,
    pg_temp.brief(r) got;
SELECT s, cost, r.limit, got, got = want AS ok
FROM (VALUES
    (0::numeric, 5, 'yes 5 0 0 1'),
    (0.4,        1, 'no 5 0 0.6 1'),
    (0.999999,   1, 'no 5 0 0.000001 1'),
    (1,          1, 'yes 5 0 0 2'),
    (2.5,        1, 'yes 5 0 0 3'),
    (2.5,        6, 'no 5 0 never 3'),
    (100,        1, 'yes 1 4 0 101')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'table:bucket', 1, '1 s', cost, 'token_bucket', 5, 'table') r,
    pg_temp.brief(r) got;

-- a month of the calendar in a time zone, whatever its case; another zone and
-- another window are other counters
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SELECT n, w, z, r.allowed, r.used, r.reset_at
FROM (VALUES
    (1, interval '1 month', 'Europe/Berlin', timestamptz '2024-02-29 22:59:59.999999Z'),
    (2, '1 month', 'europe/BERLIN', '2024-02-29 22:59:59.999999Z'),
    (3, '1 month', 'Europe/Berlin', '2024-02-29 23:00Z'),
    (4, '1 month', NULL,            '2024-02-29 23:00Z'),
    (5, '1 month', 'UTC',           '2024-02-29 23:00Z'),
    (6, '1 day',   NULL,            '2024-02-29 23:00Z'),
    (7, '24 hours', 'Europe/Berlin', '2024-02-29 23:00Z')) v(n, w, z, t),
    rate_limit_check_at(t, 'table:calendar', 1, w, 1, 'fixed_window', NULL, 'table', z) r
ORDER BY n;

-- above exact_hits times are rounded up, here to a second
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0.3, 129, 'yes 129 0 0 129'),
    (128.999999, 1, 'no 129 0 0.000001 129'),
    (129, 129, 'yes 129 0 0 257')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'table:rounded', 129, '128 s', cost, store => 'table') r,
    pg_temp.brief(r) got;

-- fault 11: a limit that changes in mid-window
SELECT s, n, got, got = want AS ok
FROM (VALUES
    (0, 2, 'yes 1 1 0 64'),
    (1, 2, 'yes 2 0 0 64'),
    (2, 2, 'no 2 0 62 64'),
    (3, 3, 'yes 3 0 0 64'),
    (4, 1, 'no 3 0 63 64'),
    (5, 0, 'no 3 0 never 64'),
    (6, 9223372036854775807, 'yes 4 9223372036854775803 0 64')) v(s, n, want),
    rate_limit_check_at(pg_temp.at(s), 'table:change', n, '64 s', store => 'table') r,
    pg_temp.brief(r) got;

-- fault 9: a clock that is set back neither frees quota nor locks out
SELECT s, got, got = want AS ok
FROM (VALUES
    (0,         'yes 1 1 0 60'),
    (100000,    'yes 1 1 0 100060'),
    (5,         'yes 2 0 0 65'),
    (6,         'no 2 0 59 65'),
    (-10,       'no 2 0 60 50'),
    (49.999999, 'no 2 0 0.000001 50'),
    (50,        'yes 1 1 0 110')) v(s, want),
    rate_limit_check_at(pg_temp.at(s), 'table:steps', 2, '1 min', store => 'table') r,
    pg_temp.brief(r) got;

-- peek records nothing, at whatever instant; adjust records and gives back
SELECT s, got, got = want AS ok
FROM (VALUES
    (0,    'yes 0 5 0 0'),
    (1000, 'yes 0 5 0 1000')) v(s, want),
    rate_limit_peek_at(pg_temp.at(s), 'table:adjust', 5, '1 min', store => 'table') r,
    pg_temp.brief(r) got;
SELECT s, delta, got, got = want AS ok
FROM (VALUES
    (0,  -1, 'yes 0 5 0 0'),
    (0,  3,  'yes 3 2 0 60'),
    (10, 4,  'yes 7 0 0 60'),
    (20, -2, 'yes 5 0 0 60'),
    (21, -1, 'yes 4 1 0 60')) v(s, delta, want),
    rate_limit_adjust_at(pg_temp.at(s), 'table:adjust', 5, '1 min', delta, store => 'table') r,
    pg_temp.brief(r) got;
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (30, 2, 'no 4 1 30 60'),
    (60, 5, 'no 1 4 10 70'),
    (70, 5, 'yes 0 5 0 70')) v(s, cost, want),
    rate_limit_peek_at(pg_temp.at(s), 'table:adjust', 5, '1 min', cost, store => 'table') r,
    pg_temp.brief(r) got;
SELECT a, n, delta, r.allowed, r.used, r.remaining
FROM (VALUES ('fixed_window'), ('anchored_window'), ('token_bucket')) w(a),
    (VALUES (1, 7), (2, -3), (3, -9223372036854775807 - 1)) v(n, delta),
    rate_limit_adjust_at(pg_temp.at(0), 'table:adjust', 5, '1 min', delta, a, store => 'table') r
ORDER BY a, n;

-- the functions without an instant, each with each algorithm
SELECT a, c.allowed, c.used,
    rate_limit_allowed('table:now', 3, '36500 days', 2, a, store => 'table'),
    rate_limit_allowed('table:now', 3, '36500 days', 1 + (c.used - c.used), a, store => 'table') AS full
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) v(a),
    rate_limit_check('table:now', 3, '36500 days', 1, a, NULL, 'table') c;
SELECT a, p.allowed, p.used, p.remaining, p.retry_after > 0 AS later
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) v(a),
    rate_limit_peek('table:now', 3, '36500 days', 1, a, NULL, 'table') p;
SELECT a, r.used
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) v(a),
    rate_limit_adjust('table:now', 3, '36500 days', -1, a, NULL, 'table') r;
\set VERBOSITY sqlstate
SELECT rate_limit_require('table:now', 3, '36500 days', store => 'table');
SELECT rate_limit_require('table:now', 3, '36500 days', store => 'table');
\set VERBOSITY default
-- the memory store knows nothing of them
SELECT used FROM rate_limit_peek('table:now', 3, '36500 days', store => 'memory');

-- fault 18: a refusal, cost 0 and a peek leave the very row version, and none for a
-- new key
SELECT r.allowed FROM rate_limit_check('table:refused', 5, '1 hour', 5, store => 'table') r;
SELECT ctid AS row_version, xmin AS writer, state AS content FROM rate_limit_state WHERE key = 'table:refused' \gset
SELECT n, r.allowed, r.used
FROM (VALUES (1, 1, 5), (2, 6, 5), (3, 1, 0), (4, 0, 5), (5, 1, 3)) v(n, cost, l),
    rate_limit_check('table:refused', l, '1 hour', cost, store => 'table') r;
SELECT r.allowed FROM rate_limit_peek('table:refused', 9, '1 hour', store => 'table') r;
SELECT r.used FROM rate_limit_adjust('table:refused', 9, '1 hour', 0, store => 'table') r;
SELECT ctid = :'row_version' AS same_version, xmin = :'writer'::xid AS same_writer, state = :'content' AS same_state
FROM rate_limit_state WHERE key = 'table:refused';
SELECT n, r.allowed, r.used
FROM (VALUES (1, 0, 1), (2, 5, 6), (3, 5, 0)) v(n, l, cost),
    rate_limit_check('table:new', l, '1 hour', cost, store => 'table') r;
SELECT count(*) FROM rate_limit_state WHERE key = 'table:new';

-- the rows
SELECT r.used FROM rate_limit_check('table:row', 5, '1 day', 2, store => 'table') r;
SELECT r.used FROM rate_limit_check('table:row', 5, '1 hour', 2, 'token_bucket', 8, 'table') r;
SELECT r.used FROM rate_limit_check('table:row', 5, '90 min', 2, 'anchored_window', store => 'table') r;
SELECT w, r.used
FROM (VALUES (interval '1 hour'), ('1 day'), ('2 weeks'), ('3 months'), ('1 year')) v(w),
    rate_limit_check('table:row', 5, w, 2, 'fixed_window', NULL, 'table', 'europe/berlin') r;
SELECT algorithm, window_length, window_unit, time_zone, "limit", cardinality(state) > 0 AS state,
    last_use BETWEEN now() - interval '1 min' AND clock_timestamp() AS last_use, expires_at > last_use AS expires_later
FROM rate_limit_state WHERE key = 'table:row' ORDER BY algorithm COLLATE "C", window_unit COLLATE "C", window_length;

-- fault 12: every byte of a key counts, up to 1,024
SELECT count(*) AS keys, count(*) FILTER (WHERE r.used = 1) AS new
FROM unnest(ARRAY['7', '07', 'k', 'K', 'k ', ' k', E'k\t', '%', '_', '\', '''', '"', 'NULL', '$1',
                  convert_from('\xc3a9', 'UTF8'), convert_from('\x65cc81', 'UTF8'),
                  repeat('x', 1017), repeat('x', 1016), repeat('x', 1016) || 'y']) k,
    rate_limit_check('table:' || k, 5, '1 hour', store => 'table') r;
-- and the longest with the longest other parts of the primary key
SELECT r.used
FROM rate_limit_check((SELECT string_agg(md5(n::text), '' ORDER BY n) FROM generate_series(1, 32) n), 5, '100 years', 1,
    'fixed_window', NULL, 'table', 'America/Argentina/ComodRivadavia') r;

-- errors
SELECT * FROM rate_limit_check('table:error', 5, '1 hour', store => 'disk');
SELECT * FROM rate_limit_check('table:error', 5, '1 hour', store => 'Table');
SELECT * FROM rate_limit_check('table:error', 5, '1 hour', store => '');
\set VERBOSITY sqlstate
SELECT rate_limit_allowed(NULL, 5, '1 hour', store => 'table');
SELECT rate_limit_allowed('', 5, '1 hour', store => 'table');
SELECT rate_limit_allowed('table:error', NULL, '1 hour', store => 'table');
SELECT rate_limit_allowed('table:error', -1, '1 hour', store => 'table');
SELECT rate_limit_allowed('table:error', 5, '1 month', store => 'table');
\set VERBOSITY default
SELECT count(*) FROM rate_limit_state WHERE key IN ('', 'table:error');
