-- peek: decides like check, records nothing
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

-- a new key, as often as one likes, and no counter comes of it
SELECT a, n, got, got = 'yes 0 2 0 0' AS ok
FROM algorithms, generate_series(1, 3) n,
    rate_limit_peek_at(pg_temp.at(0), 'peek:new', 2, '1 min', 1, a) r,
    pg_temp.brief(r) got
ORDER BY a, n;
SELECT count(*) AS allowed FROM algorithms, rate_limit_peek('peek:new', 2, '1 hour', 1, a) WHERE allowed;
SELECT count(*) FROM rate_limit_keys WHERE key = 'peek:new';

-- used and remaining are without this call
SELECT a, r.used FROM algorithms,
    rate_limit_check_at(pg_temp.at(0), 'peek:used', 5, '1 min', 3, a) r;
SELECT a, cost, got, got = want AS ok
FROM (VALUES
    ('sliding_window',  0, 'yes 3 2 0 60'),
    ('sliding_window',  1, 'yes 3 2 0 60'),
    ('sliding_window',  2, 'yes 3 2 0 60'),
    ('sliding_window',  3, 'no 3 2 50 60'),
    ('sliding_window',  6, 'no 3 2 never 60'),
    ('fixed_window',    2, 'yes 3 2 0 60'),
    ('fixed_window',    3, 'no 3 2 50 60'),
    ('fixed_window',    6, 'no 3 2 never 60'),
    ('anchored_window', 2, 'yes 3 2 0 60'),
    ('anchored_window', 3, 'no 3 2 50 60'),
    ('anchored_window', 6, 'no 3 2 never 60'),
    ('token_bucket',    2, 'yes 3 2 0 12'),
    ('token_bucket',    3, 'no 3 2 2 12'),
    ('token_bucket',    6, 'no 3 2 never 12')) v(a, cost, want),
    rate_limit_peek_at(pg_temp.at(10), 'peek:used', 5, '1 min', cost, a) r,
    pg_temp.brief(r) got;

-- what it says is what a check does next
SELECT a, cost, count(*) FILTER (WHERE p.allowed <> c.allowed
                                 OR p.retry_after IS DISTINCT FROM c.retry_after
                                 OR p.used <> c.used - CASE WHEN c.allowed THEN cost ELSE 0 END
                                 OR p.limit <> c.limit) AS differences
FROM algorithms, (VALUES (1), (2), (3), (8)) v(cost), generate_series(0, 50) s,
    rate_limit_peek_at(pg_temp.at(s), 'peek:next' || cost, 7, '7 s', cost, a) p,
    rate_limit_check_at(pg_temp.at(s), 'peek:next' || cost, p.limit, '7 s', cost, a) c
GROUP BY a, cost
ORDER BY a, cost;

-- the clock is now, as in a check
SELECT r.allowed, r.used, r.reset_at BETWEEN now() AND clock_timestamp() AS now
FROM rate_limit_peek('peek:now', 1, '1 hour') r;
