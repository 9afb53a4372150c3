-- token_bucket: a capacity that is refilled continuously, N tokens per W
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

-- full at first; a token each 20 seconds, and part of one shortens retry_after
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0::numeric, 1, 'yes 1 2 0 20'),
    (0,          2, 'yes 3 0 0 20'),
    (10,         1, 'no 3 0 10 20'),
    (10,         2, 'no 3 0 30 20'),
    (19.999999,  1, 'no 3 0 0.000001 20'),
    (20,         1, 'yes 3 0 0 40'),
    (50,         1, 'yes 3 0 0 60'),
    (60,         2, 'no 2 1 20 80'),
    (60,         4, 'no 2 1 never 80'),
    (60,         1, 'yes 3 0 0 80'),
    (1000,       1, 'yes 1 2 0 1020')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'bucket:plain', 3, '1 min', cost, 'token_bucket') r,
    pg_temp.brief(r) got;

-- a burst above and one below the limit is the capacity, and what is reported
SELECT s, cost, r.limit, got, r.limit = 5 AND got = want AS ok
FROM (VALUES
    (0::numeric, 5, 'yes 5 0 0 1'),
    (0.4,        1, 'no 5 0 0.6 1'),
    (2.5,        2, 'yes 5 0 0 3'),
    (2.5,        6, 'no 5 0 never 3'),
    (6.9,        5, 'no 1 4 0.1 7'),
    (7,          5, 'yes 5 0 0 8')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'bucket:burst', 1, '1 s', cost, 'token_bucket', 5) r,
    pg_temp.brief(r) got;
SELECT s, cost, r.limit, got, r.limit = 2 AND got = want AS ok
FROM (VALUES
    (0::numeric, 3, 'no 0 2 never 0'),
    (0,          2, 'yes 2 0 0 1'),
    (1,          1, 'yes 2 0 0 2'),
    (100,        2, 'yes 2 0 0 101')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'bucket:low burst', 10, '10 s', cost, 'token_bucket', 2) r,
    pg_temp.brief(r) got;

-- a token each 3.333... seconds: rounded up to the microsecond, nothing is lost
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0::numeric, 3, 'yes 3 0 0 3.333334'),
    (3.333333,   1, 'no 3 0 0.000001 3.333334'),
    (3.333334,   1, 'yes 3 0 0 6.666667'),
    (6.666666,   1, 'no 3 0 0.000001 6.666667'),
    (6.666667,   1, 'yes 3 0 0 10'),
    (10,         1, 'yes 3 0 0 13.333334')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'bucket:thirds', 3, '10 s', cost, 'token_bucket') r,
    pg_temp.brief(r) got;

-- fault 8: 1,000, 1,000,000 and 10,000,000 a second
SELECT n, s, cost, got, got = want AS ok
FROM (VALUES
    (1000,     0::numeric, 1000, 'yes 1000 0 0 0.001'),
    (1000,     0.0005,   1, 'no 1000 0 0.0005 0.001'),
    (1000,     0.000999, 1, 'no 1000 0 0.000001 0.001'),
    (1000,     0.001,    1, 'yes 1000 0 0 0.002'),
    (1000,     0.5,      499, 'yes 1000 0 0 0.501'),
    (1000000,  0,        1000000, 'yes 1000000 0 0 0.000001'),
    (1000000,  0,        1, 'no 1000000 0 0.000001 0.000001'),
    (1000000,  0.000001, 1, 'yes 1000000 0 0 0.000002'),
    (1000000,  0.5,      499999, 'yes 1000000 0 0 0.500001'),
    (10000000, 0,        10000000, 'yes 10000000 0 0 0.000001'),
    (10000000, 0.000001, 11, 'no 9999990 10 0.000001 0.000002'),
    (10000000, 0.000001, 10, 'yes 10000000 0 0 0.000002')) v(n, s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'bucket:' || n, n, '1 s', cost, 'token_bucket') r,
    pg_temp.brief(r) got;

-- fault 8: a bucket of one a second that is asked ten times a second gives one a
-- second, at 0, 1, 2 ... 10
SELECT count(*) FILTER (WHERE r.allowed) AS admitted,
       string_agg(trim_scale(s)::text, ' ' ORDER BY s) FILTER (WHERE r.allowed) AS at
FROM generate_series(0, 10, 0.1) s,
    rate_limit_check_at(pg_temp.at(s), 'bucket:polled', 1, '1 s', 1, 'token_bucket') r;
-- and one of seven in 60 seconds, asked every 0.1 s, 7 at once and 7 more a minute
SELECT count(*) FILTER (WHERE r.allowed) AS admitted
FROM generate_series(0, 600, 0.1) s,
    rate_limit_check_at(pg_temp.at(s), 'bucket:sevenths', 7, '1 min', 1, 'token_bucket') r;

-- fault 7: full, not fuller, after ten years; the largest limit, the longest window
SELECT n, w, s, cost, got, got = want AS ok
FROM (VALUES
    (3, interval '1 min', 0::numeric, 3, 'yes 3 0 0 20'),
    (3, '1 min', 315360000, 1, 'yes 1 2 0 315360020'),
    (3, '1 min', 315360000, 3, 'no 1 2 20 315360020'),
    (9223372036854775807, '36525 days', 0, 9223372036854775807,
        'yes 9223372036854775807 0 0 0.000001'),
    (9223372036854775807, '36525 days', 0, 1,
        'no 9223372036854775807 0 0.000001 0.000001'),
    (9223372036854775807, '36525 days', 3155760000, 9223372036854775807,
        'yes 9223372036854775807 0 0 3155760000.000001'),
    (9223372036854775807, '1 us', 0, 9223372036854775807,
        'yes 9223372036854775807 0 0 0.000001'),
    (9223372036854775807, '1 us', 3155760000, 9223372036854775807,
        'yes 9223372036854775807 0 0 3155760000.000001'),
    (1, '36525 days', 0, 1, 'yes 1 0 0 3155760000'),
    (1, '36525 days', 3155759999.999999, 1, 'no 1 0 0.000001 3155760000'),
    (1, '36525 days', 3155760000, 1, 'yes 1 0 0 6311520000')) v(n, w, s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'bucket:extreme ' || n, n, w, cost, 'token_bucket') r,
    pg_temp.brief(r) got;

-- fault 7: a debt that takes some 298,000 years to pay, from the earliest instant on
SELECT r.used FROM rate_limit_adjust_at('4713-01-01 00:00Z BC', 'bucket:debt', 1, '36525 days', 2980, 'token_bucket') r;
SELECT r.allowed, r.retry_after FROM rate_limit_check_at('4713-01-01 00:00Z BC', 'bucket:debt', 1, '36525 days', 1, 'token_bucket') r;
SELECT r.allowed FROM rate_limit_check('bucket:debt', 1, '36525 days', 1, 'token_bucket') r;
