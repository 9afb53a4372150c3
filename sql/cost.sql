-- cost: nothing, more than one, more than the limit
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

CREATE TEMP VIEW algorithms AS
SELECT * FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'),
                      ('token_bucket')) v(a);

-- cost 0 reports and records nothing; it passes as long as no more is used than
-- the limit
SELECT a, got, got = 'yes 0 6 0 0' AS ok
FROM algorithms,
    rate_limit_check_at(pg_temp.at(0), 'cost:zero', 6, '1 min', 0, a) r,
    pg_temp.brief(r) got;
SELECT a, cost, got, got = want AS ok
FROM (VALUES
    ('sliding_window',  6, 'yes 6 0 0 60'),
    ('sliding_window',  0, 'yes 6 0 0 60'),
    ('sliding_window',  1, 'no 6 0 60 60'),
    ('fixed_window',    6, 'yes 6 0 0 60'),
    ('fixed_window',    0, 'yes 6 0 0 60'),
    ('fixed_window',    1, 'no 6 0 60 60'),
    ('anchored_window', 6, 'yes 6 0 0 60'),
    ('anchored_window', 0, 'yes 6 0 0 60'),
    ('anchored_window', 1, 'no 6 0 60 60'),
    ('token_bucket',    6, 'yes 6 0 0 10'),
    ('token_bucket',    0, 'yes 6 0 0 10'),
    ('token_bucket',    1, 'no 6 0 10 10')) v(a, cost, want),
    rate_limit_check_at(pg_temp.at(0), 'cost:zero', 6, '1 min', cost, a) r,
    pg_temp.brief(r) got;
-- over the limit, here after it was lowered to 2, cost 0 is refused until it is not
SELECT a, got, got = want AS ok
FROM (VALUES
    ('sliding_window',  'no 6 0 60 60'),
    ('fixed_window',    'no 6 0 60 60'),
    ('anchored_window', 'no 6 0 60 60')) v(a, want),
    rate_limit_check_at(pg_temp.at(0), 'cost:zero', 2, '1 min', 0, a) r,
    pg_temp.brief(r) got;

-- fault 1: cost above the limit is refused, never admitted later, and charges
-- nothing: not on a new key, not on one in use, however often it comes
SELECT a, s, cost, got, got = want AS ok
FROM (VALUES
    ('sliding_window',  0, 11, 'no 0 10 never 0'),
    ('sliding_window',  1, 4,  'yes 4 6 0 61'),
    ('sliding_window',  2, 11, 'no 4 6 never 61'),
    ('sliding_window',  3, 99, 'no 4 6 never 61'),
    ('sliding_window',  4, 6,  'yes 10 0 0 61'),
    ('fixed_window',    0, 11, 'no 0 10 never 0'),
    ('fixed_window',    1, 4,  'yes 4 6 0 60'),
    ('fixed_window',    2, 11, 'no 4 6 never 60'),
    ('fixed_window',    3, 99, 'no 4 6 never 60'),
    ('fixed_window',    4, 6,  'yes 10 0 0 60'),
    ('anchored_window', 0, 11, 'no 0 10 never 0'),
    ('anchored_window', 1, 4,  'yes 4 6 0 61'),
    ('anchored_window', 2, 11, 'no 4 6 never 61'),
    ('anchored_window', 3, 99, 'no 4 6 never 61'),
    ('anchored_window', 4, 6,  'yes 10 0 0 61'),
    ('token_bucket',    0, 11, 'no 0 10 never 0'),
    ('token_bucket',    0, 8,  'yes 8 2 0 6'),
    ('token_bucket',    6, 11, 'no 7 3 never 12'),
    ('token_bucket',    6, 99, 'no 7 3 never 12'),
    ('token_bucket',    6, 3,  'yes 10 0 0 12')) v(a, s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'cost:above', 10, '1 min', cost, a) r,
    pg_temp.brief(r) got;

-- fault 1: the rows of peeks now and later are what they were without the
-- refused calls
CREATE TEMP VIEW peeks AS
SELECT a, s, p.*
FROM algorithms, (VALUES (10), (20), (59), (60), (90)) v(s),
    rate_limit_peek_at(pg_temp.at(s), 'cost:same', 5, '1 min', 1, a) p;
SELECT r.used FROM algorithms,
    rate_limit_check_at(pg_temp.at(0), 'cost:same', 5, '1 min', 3, a) r;
CREATE TEMP TABLE before AS SELECT * FROM peeks;
SELECT cost, count(*) FILTER (WHERE NOT r.allowed AND r.retry_after IS NULL) AS refused
FROM algorithms, (VALUES (6), (10), (9223372036854775807)) v(cost),
    rate_limit_check_at(pg_temp.at(10), 'cost:same', 5, '1 min', cost, a) r
GROUP BY cost ORDER BY cost;
SELECT count(*) AS differences
FROM (SELECT * FROM peeks EXCEPT SELECT * FROM before) d;

-- fault 1: and leaves no counter where there was none
SELECT r.allowed FROM algorithms, rate_limit_check('cost:none', 5, '1 hour', 6, a) r;
SELECT r.allowed FROM algorithms, rate_limit_check('cost:none', 5, '1 hour', 0, a) r;
SELECT count(*) FROM rate_limit_keys WHERE key = 'cost:none';

-- fault 7: the largest cost and the largest limit
SELECT a, n, cost, got, got = want AS ok
FROM (VALUES
    ('sliding_window',  9223372036854775807, 9223372036854775807,
        'yes 9223372036854775807 0 0 64'),
    ('sliding_window',  9223372036854775807, 1,
        'no 9223372036854775807 0 64 64'),
    ('sliding_window',  9223372036854775807, 9223372036854775807,
        'no 9223372036854775807 0 64 64'),
    ('sliding_window',  10, 9223372036854775807,
        'no 9223372036854775807 0 never 64'),
    ('fixed_window',    9223372036854775807, 9223372036854775806,
        'yes 9223372036854775806 1 0 64'),
    ('fixed_window',    9223372036854775807, 9223372036854775807,
        'no 9223372036854775806 1 64 64'),
    ('fixed_window',    9223372036854775807, 1,
        'yes 9223372036854775807 0 0 64'),
    ('anchored_window', 9223372036854775807, 9223372036854775806,
        'yes 9223372036854775806 1 0 64'),
    ('anchored_window', 9223372036854775807, 9223372036854775807,
        'no 9223372036854775806 1 64 64'),
    ('anchored_window', 9223372036854775807, 1,
        'yes 9223372036854775807 0 0 64')) v(a, n, cost, want),
    rate_limit_check_at(pg_temp.at(0), 'cost:largest', n, '64 s', cost, a) r,
    pg_temp.brief(r) got;
