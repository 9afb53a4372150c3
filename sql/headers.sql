-- headers: a result row as HTTP headers
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.headers(r rate_limit_result, "window" interval DEFAULT NULL, name text DEFAULT 'default')
RETURNS TABLE (header text, value jsonb) LANGUAGE sql AS $$
    SELECT key, value FROM jsonb_each(rate_limit_headers(r, "window", name)) ORDER BY key COLLATE "C"
$$;

-- admitted: t is the time until reset_at in whole seconds, rounded up
SELECT * FROM pg_temp.headers(ROW(true, 20, 1, 19, 0, clock_timestamp() + interval '41 s', NULL), '1 minute', 'minute')
WHERE header <> 'X-RateLimit-Reset';
-- the epoch of reset_at is rounded up, too
SELECT reset_at, value
FROM (VALUES (timestamptz '2100-01-01 00:00Z'), ('2100-01-01 00:00:00.000001Z'), ('2100-01-01 00:00:00.999999Z')) v(reset_at),
    pg_temp.headers(ROW(true, 20, 1, 19, 0, reset_at, NULL)) WHERE header = 'X-RateLimit-Reset';
-- nothing is used: now
SELECT * FROM pg_temp.headers(ROW(true, 20, 0, 20, 0, '2024-03-01 12:00Z', NULL));

-- refused: Retry-After in whole seconds, rounded up, at least 1
SELECT * FROM pg_temp.headers(ROW(false, 20, 20, 0, 41.027361, '2024-03-01 12:00Z', NULL), '1 minute');
SELECT retry_after, value
FROM unnest('{0.000001,0.5,1,1.000001,59.999999,60,3155760000}'::float8[]) retry_after,
    pg_temp.headers(ROW(false, 20, 20, 0, retry_after, '2024-03-01 12:00Z', NULL)) WHERE header = 'Retry-After';
-- never: no Retry-After; blocked without end: no reset either
SELECT * FROM pg_temp.headers(ROW(false, 20, 0, 20, NULL, '2024-03-01 12:00Z', NULL));
SELECT * FROM pg_temp.headers(ROW(false, 20, 3, 0, NULL, NULL, 'block'), '1 minute');
SELECT * FROM pg_temp.headers(ROW(true, 20, 3, 17, 0, 'infinity', NULL));

-- unlimited: nothing to say, but when to come back if blocked
SELECT rate_limit_headers(ROW(true, NULL, 0, NULL, 0, now(), NULL), '1 minute');
SELECT rate_limit_headers(ROW(false, NULL, 0, 0, 10.5, now(), 'block'), '1 minute');

-- windows in seconds, a part of one as a whole; months have none
SELECT w, value
FROM unnest('{1 us,1 s,1.5 s,1 min,1 day,7 days 12:00,36525 days,1 month,1 year,1 mon 1 day}'::interval[]) w,
    pg_temp.headers(ROW(true, 5, 1, 4, 0, '2024-03-01 12:00Z', NULL), w) WHERE header = 'RateLimit-Policy';

-- names are strings of structured fields; numbers there have 15 digits at most
SELECT header, value #>> '{}' AS value
FROM (VALUES (1, 'per-minute'), (2, 'a "b" \c'), (3, ' !#[]^~'), (4, ''), (5, '";q=1000')) v(n, name),
    pg_temp.headers(ROW(true, 5, 1, 4, 0, '2024-03-01 12:00Z', NULL), NULL, name)
WHERE header LIKE 'RateLimit%' ORDER BY n, header COLLATE "C";
SELECT * FROM pg_temp.headers(ROW(true, 9223372036854775807, 1, 9223372036854775806, 0, '2024-03-01 12:00Z', NULL));
SELECT * FROM pg_temp.headers(ROW(true, 999999999999999, 0, 999999999999999, 0, '2024-03-01 12:00Z', NULL))
WHERE header LIKE 'RateLimit%';

-- every value is a string
SELECT DISTINCT jsonb_typeof(value) FROM pg_temp.headers(ROW(false, 20, 20, 0, 41.5, now(), NULL), '1 minute');

-- from a call, as an application would ask for them
SELECT r.allowed, h ->> 'X-RateLimit-Limit' AS "limit", h ->> 'X-RateLimit-Remaining' AS remaining,
       (h ->> 'X-RateLimit-Reset')::int8 - extract(epoch FROM r.reset_at) BETWEEN 0 AND 1 AS reset,
       h ->> 'RateLimit-Policy' AS policy, h ->> 'RateLimit' ~ '^"login";r=[10];t=(59|60)$' AS state,
       (h ->> 'Retry-After')::int BETWEEN 50 AND 60 AS retry
FROM unnest('{1,1,1}'::int[]) cost, rate_limit_check('headers:a', 2, '1 minute', cost) r,
    rate_limit_headers(r, '1 minute', 'login') h;

-- errors: nulls, names that a header cannot hold, windows that are none
SELECT rate_limit_headers(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_headers(ROW(NULL, 5, 0, 5, 0, now(), NULL));
SELECT rate_limit_headers(ROW(true, 5, 0, 5, 0, now(), NULL), NULL, NULL);
SELECT rate_limit_headers(ROW(true, 5, 0, 5, 0, now(), NULL), NULL, 'größer');
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_headers(ROW(true, 5, 0, 5, 0, now(), NULL), NULL, E'a\r\nSet-Cookie: b');
SELECT rate_limit_headers(ROW(true, 5, 0, 5, 0, now(), NULL), NULL, E'\x7f');
SELECT rate_limit_headers(ROW(true, 5, 0, 5, 0, now(), NULL), '0');
SELECT rate_limit_headers(ROW(true, 5, 0, 5, 0, now(), NULL), '-1 minute');
-- whatever a session thinks of backslashes
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SELECT rate_limit_headers(ROW(true, 5, 1, 4, 0, '2024-03-01 12:00Z', NULL), NULL, 'a"b\\c') ->> 'RateLimit-Policy' AS policy;
