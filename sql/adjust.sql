-- adjust: records whatever the limit says, and gives back
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

-- past the limit; then the newest hits are given back first, so the oldest go on
-- counting until their time
SELECT s, delta, got, got = want AS ok
FROM (VALUES
    (0,  3,  'yes 3 2 0 60'),
    (10, 4,  'yes 7 0 0 60'),
    (20, 0,  'yes 7 0 0 60'),
    (20, -2, 'yes 5 0 0 60'),
    (21, -1, 'yes 4 1 0 60'),
    (22, 2,  'yes 6 0 0 60')) v(s, delta, want),
    rate_limit_adjust_at(pg_temp.at(s), 'adjust:sliding', 5, '1 min', delta) r,
    pg_temp.brief(r) got;
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (30, 1, 'no 6 0 30 60'),
    (60, 1, 'yes 4 1 0 70'),
    (70, 1, 'yes 4 1 0 82')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'adjust:sliding', 5, '1 min', cost) r,
    pg_temp.brief(r) got;

-- fault 6: never below 0 used, never more remaining than the limit, and a
-- negative delta on no counter leaves none
SELECT a, n, delta, got, got = 'yes 0 5 0 0' AS ok
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) w(a),
    (VALUES (1, -1), (2, -9223372036854775807 - 1)) v(n, delta),
    rate_limit_adjust_at(pg_temp.at(0), 'adjust:none', 5, '1 min', delta, a) r,
    pg_temp.brief(r) got
ORDER BY a, n;
SELECT a, n, delta, got, got = want AS ok
FROM (VALUES
    ('sliding_window',  1, 3,    'yes 3 2 0 60'),
    ('sliding_window',  2, -4,   'yes 0 5 0 0'),
    ('sliding_window',  3, 5,    'yes 5 0 0 60'),
    ('sliding_window',  4, -9223372036854775807 - 1, 'yes 0 5 0 0'),
    ('fixed_window',    1, 3,    'yes 3 2 0 60'),
    ('fixed_window',    2, -4,   'yes 0 5 0 0'),
    ('fixed_window',    3, 7,    'yes 7 0 0 60'),
    ('fixed_window',    4, -3,   'yes 4 1 0 60'),
    ('fixed_window',    5, -9223372036854775807 - 1, 'yes 0 5 0 0'),
    ('anchored_window', 1, 3,    'yes 3 2 0 60'),
    ('anchored_window', 2, -4,   'yes 0 5 0 0'),
    ('anchored_window', 3, 7,    'yes 7 0 0 60'),
    ('anchored_window', 4, -3,   'yes 4 1 0 60'),
    ('anchored_window', 5, -9223372036854775807 - 1, 'yes 0 5 0 0'),
    ('token_bucket',    1, 3,    'yes 3 2 0 12'),
    ('token_bucket',    2, -4,   'yes 0 5 0 0'),
    ('token_bucket',    3, 5,    'yes 5 0 0 12'),
    ('token_bucket',    4, -3,   'yes 2 3 0 12'),
    ('token_bucket',    5, -9223372036854775807 - 1, 'yes 0 5 0 0')) v(a, n, delta, want),
    rate_limit_adjust_at(pg_temp.at(0), 'adjust:back', 5, '1 min', delta, a) r,
    pg_temp.brief(r) got;
SELECT a, r.used FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) w(a),
    rate_limit_adjust('adjust:gone', 5, '1 hour', 2, a) r;
SELECT count(*) FROM rate_limit_keys WHERE key = 'adjust:gone';
SELECT a, r.used FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) w(a),
    rate_limit_adjust('adjust:gone', 5, '1 hour', -2, a) r;
SELECT count(*) FROM rate_limit_keys WHERE key = 'adjust:gone';

-- an anchored window that was given back wholly is anchored anew
SELECT s, delta, got, got = want AS ok
FROM (VALUES
    (0,  3,  'yes 3 2 0 60'),
    (10, -1, 'yes 2 3 0 60'),
    (20, -2, 'yes 0 5 0 20'),
    (30, 1,  'yes 1 4 0 90')) v(s, delta, want),
    rate_limit_adjust_at(pg_temp.at(s), 'adjust:anchor', 5, '1 min', delta, 'anchored_window') r,
    pg_temp.brief(r) got;

-- a bucket goes below empty, and has to be refilled from there: 5 used of 3 are
-- 2 below, so 1 token takes 3 of 20 seconds
SELECT s, delta, r.allowed, r.used, r.remaining, r.used = want AS ok
FROM (VALUES
    (0,  1, 1),
    (0,  4, 5),
    (20, 0, 4),
    (30, 0, 4)) v(s, delta, want),
    rate_limit_adjust_at(pg_temp.at(s), 'adjust:bucket', 3, '1 min', delta, 'token_bucket') r;
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (30, 0, 'no 4 0 10'),
    (30, 1, 'no 4 0 30'),
    (59.999999, 1, 'no 3 0 0.000001'),
    (60, 1, 'yes 3 0 0')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'adjust:bucket', 3, '1 min', cost, 'token_bucket') r,
    regexp_replace(pg_temp.brief(r), ' \S+$', '') got;

-- fault 7: used stops at 2^63 - 1
SELECT a, n, r.allowed, r.used, r.remaining
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) w(a),
    (VALUES (1, 9223372036854775807), (2, 9223372036854775807), (3, 1)) v(n, delta),
    rate_limit_adjust_at(pg_temp.at(0), 'adjust:most', 5, '64 s', delta, a) r
ORDER BY a, n;
SELECT a, r.allowed, r.used, r.remaining
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) w(a),
    rate_limit_check_at(pg_temp.at(0), 'adjust:most', 5, '64 s', 1, a) r;
SELECT a, got, got = 'yes 0 5 0 64' AS ok
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window')) w(a),
    rate_limit_peek_at(pg_temp.at(64), 'adjust:most', 5, '64 s', 1, a) r,
    pg_temp.brief(r) got;

-- limit 0 records too
SELECT a, r.limit, r.allowed, r.used, r.remaining
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window')) w(a),
    rate_limit_adjust_at(pg_temp.at(0), 'adjust:zero', 0, '1 min', 2, a) r;

-- fault 26: the most a call may use is charged before, the difference given back
-- after: of five concurrent calls of up to 30 tokens, 100 tokens admit three
SELECT cost, allowed, used, remaining
FROM unnest('{30,30,30,30,30}'::int[]) cost,
    rate_limit_check_at(pg_temp.at(0), 'adjust:tokens', 100, '1 min', cost);
SELECT actual, used, remaining
FROM (VALUES (17), (30), (5)) v(actual),
    rate_limit_adjust_at(pg_temp.at(1), 'adjust:tokens', 100, '1 min', actual - 30);
