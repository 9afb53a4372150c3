-- limit 0 always refuses, and has no retry
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

-- fault 2: nothing is admitted and nothing divides by it, cost 0 included
SELECT a, cost, r.limit, got, got = 'no 0 0 never 0' AND r.limit = 0 AS ok
FROM algorithms, (VALUES (0::bigint), (1), (9223372036854775807)) v(cost),
    rate_limit_check_at(pg_temp.at(0), 'zero:new', 0, '1 min', cost, a) r,
    pg_temp.brief(r) got
ORDER BY a, cost;
SELECT a, r.limit, got, got = 'no 0 0 never 0' AND r.limit = 0 AS ok
FROM algorithms,
    rate_limit_peek_at(pg_temp.at(0), 'zero:new', 0, '1 min', 1, a) r,
    pg_temp.brief(r) got;

-- fault 2: a burst does not change that
SELECT cost, r.limit, got, got = 'no 0 0 never 0' AND r.limit = 0 AS ok
FROM (VALUES (0), (1), (5), (6)) v(cost),
    rate_limit_check_at(pg_temp.at(0), 'zero:burst', 0, '1 min', cost, 'token_bucket', 5) r,
    pg_temp.brief(r) got;

-- fault 2: with something used already, which comes back with the next limit
SELECT a, i, n, r.allowed, r.limit, r.used, r.remaining, r.retry_after
FROM algorithms, (VALUES (1, 5), (2, 0), (3, 5)) v(i, n),
    rate_limit_check_at(pg_temp.at(0), 'zero:used', n, '1 min', 1, a) r
WHERE a <> 'token_bucket'
ORDER BY a, i;
SELECT n, r.allowed, r.limit, r.remaining, r.retry_after
FROM (VALUES (5), (0)) v(n),
    rate_limit_check_at(pg_temp.at(0), 'zero:used', n, '1 min', 1, 'token_bucket') r;

-- fault 2: the other functions
SELECT a, rate_limit_allowed('zero:all', 0, '1 min', 1, a) AS allowed,
       rate_limit_allowed('zero:all', 0, '1 min', 0, a) AS cost_0
FROM algorithms;
SELECT a, ord, allowed, "limit", used, remaining, retry_after
FROM algorithms, rate_limit_check_all('{zero:a,zero:b}', '{5,0}', '{1 min,1 min}', NULL, a)
ORDER BY a, ord;
SELECT count(*) FROM rate_limit_keys WHERE key LIKE 'zero:all' OR key LIKE 'zero:_';
