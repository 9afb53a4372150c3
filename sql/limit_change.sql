-- a limit that changes in mid-window: hits stay, the new limit judges them
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

-- fault 11: raised and lowered; nothing is negative and nothing waits for a reset
SELECT s, n, got, got = want AS ok
FROM (VALUES
    (0, 3, 'yes 1 2 0 64'),
    (1, 3, 'yes 2 1 0 64'),
    (2, 3, 'yes 3 0 0 64'),
    (3, 3, 'no 3 0 61 64'),
    (4, 5, 'yes 4 1 0 64'),
    (5, 2, 'no 4 0 61 64'),
    (6, 1, 'no 4 0 62 64'),
    (65, 2, 'no 2 0 1 66'),
    (66, 2, 'yes 2 0 0 68'),
    (67, 9223372036854775807, 'yes 3 9223372036854775804 0 68')) v(s, n, want),
    rate_limit_check_at(pg_temp.at(s), 'change:sliding', n, '64 s') r,
    pg_temp.brief(r) got;
SELECT a, s, n, got, got = want AS ok
FROM (VALUES ('fixed_window'), ('anchored_window')) w(a), (VALUES
    (0, 3, 'yes 1 2 0 60'),
    (1, 3, 'yes 2 1 0 60'),
    (2, 3, 'yes 3 0 0 60'),
    (3, 3, 'no 3 0 57 60'),
    (4, 5, 'yes 4 1 0 60'),
    (5, 2, 'no 4 0 55 60'),
    (6, 9223372036854775807, 'yes 5 9223372036854775802 0 60')) v(s, n, want),
    rate_limit_check_at(pg_temp.at(s), 'change:window', n, '1 min', 1, a) r,
    pg_temp.brief(r) got
ORDER BY a, s;

-- fault 11: a bucket's level is capped when the capacity gets smaller, and a
-- larger one adds no tokens at once; the rate is that of the limit
SELECT s, n, cost, got, got = want AS ok
FROM (VALUES
    (0, 3, 3, 'yes 3 0 0 20'),
    (0, 6, 1, 'no 6 0 10 10'),
    (30, 6, 1, 'yes 4 2 0 40'),
    (30, 1, 1, 'yes 1 0 0 90'),
    (30, 6, 1, 'no 6 0 10 40')) v(s, n, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'change:bucket', n, '1 min', cost, 'token_bucket') r,
    pg_temp.brief(r) got;
SELECT s, burst, cost, got, got = want AS ok
FROM (VALUES
    (0, 9, 3, 'yes 3 6 0 10'),
    (0, 2, 3, 'no 0 2 never 0'),
    (0, 2, 1, 'yes 1 1 0 10'),
    (0, 9, 1, 'yes 9 0 0 10')) v(s, burst, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'change:burst', 6, '1 min', cost, 'token_bucket', burst) r,
    pg_temp.brief(r) got;

-- fault 11: a peek with another limit changes nothing
SELECT got, got = 'yes 1 5 0 10' AS ok
FROM rate_limit_check_at(pg_temp.at(0), 'change:peek', 6, '1 min', 1, 'token_bucket') r,
    pg_temp.brief(r) got;
SELECT n, got, got = want AS ok
FROM (VALUES
    (6, 'yes 1 5 0 10'),
    (2, 'yes 0 2 0 0'),
    (6, 'yes 1 5 0 10')) v(n, want),
    rate_limit_peek_at(pg_temp.at(0), 'change:peek', n, '1 min', 1, 'token_bucket') r,
    pg_temp.brief(r) got;

-- fault 11: refusals are not counted, so one more admits one more
SELECT count(*) AS calls, count(*) FILTER (WHERE r.allowed) AS admitted
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window')) v(a),
    generate_series(1, 50) n,
    rate_limit_check_at(pg_temp.at(0 * n), 'change:refused', 2, '1 min', 1, a) r;
SELECT a, n, got, got = want AS ok
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window')) w(a),
    (VALUES (1, 'yes 3 0 0 60'), (2, 'no 3 0 60 60')) v(n, want),
    rate_limit_check_at(pg_temp.at(0 * n), 'change:refused', 3, '1 min', 1, a) r,
    pg_temp.brief(r) got
ORDER BY a, n;

-- fault 11: across exact_hits the hits stay too
SELECT s, n, cost, got, got = want AS ok
FROM (VALUES
    (0, 128, 128, 'yes 128 0 0 64'),
    (1, 256, 28, 'yes 156 100 0 64'),
    (2, 256, 101, 'no 156 100 62 64'),
    (3, 128, 1, 'no 156 0 61 64'),
    (64, 128, 100, 'yes 128 0 0 65'),
    (65, 128, 28, 'yes 128 0 0 128')) v(s, n, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'change:exact', n, '64 s', cost) r,
    pg_temp.brief(r) got;
