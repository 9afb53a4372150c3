-- which calls share a counter: database, key, algorithm, window, calendar zone
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
-- what a key, algorithm, window and zone have used after one more hit, at noon
CREATE FUNCTION pg_temp.hit(key text, algorithm text, "window" interval, zone text = NULL)
RETURNS bigint LANGUAGE sql AS
$$
SELECT used FROM rate_limit_check_at('2024-03-01 12:00Z', key, 1000000, "window", 1, algorithm,
                                     time_zone => zone)
$$;

-- fault 12: every byte of a key counts: leading zeros, case, blanks, control
-- characters, wildcards, a multibyte letter composed and decomposed
CREATE TEMP TABLE odd_keys(key text);
INSERT INTO odd_keys
SELECT 'identity:' || k
FROM unnest(ARRAY['7', '07', '007', '7.0', 'key', 'Key', 'KEY', 'k', 'k ', 'k  ', ' k', E'k\t',
                  E'k\n', E'k\r\n', '%', '_', '\', '''', '"', '*', '(k,1)', '{k}', 'NULL',
                  'identity:']) k
UNION ALL
SELECT 'identity:' || convert_from(b, 'UTF8')
FROM unnest('{"\\xc3a9", "\\x65cc81", "\\xc389", "\\xf09f9a80", "\\xf09f9a81"}'::bytea[]) b;
SELECT count(*) AS keys, count(*) FILTER (WHERE pg_temp.hit(key, 'fixed_window', '1 min') = 1) AS new
FROM odd_keys;
SELECT count(*) AS keys, count(*) FILTER (WHERE pg_temp.hit(key, 'fixed_window', '1 min') = 2) AS again
FROM odd_keys;

-- fault 12: up to 1,024 bytes, of whatever characters, to the last one
SELECT octet_length(key) AS bytes, pg_temp.hit(key, 'sliding_window', '1 min') AS used
FROM (VALUES
    (rpad('identity:', 256, 'x')),
    (rpad('identity:', 1023, 'x')),
    (rpad('identity:', 1023, 'x') || 'a'),
    (rpad('identity:', 1023, 'x') || 'b'),
    (rpad('identity:', 1023, 'x') || ' '),
    (rpad('identity:', 1022, 'x') || convert_from('\xc3a9', 'UTF8')),
    (rpad('identity:', 1022, 'x') || convert_from('\xc3a8', 'UTF8')),
    ('y' || rpad('identity:', 1023, 'x'))) v(key);

-- fault 12: 20,000 keys are 20,000 counters
SELECT count(*) FILTER (WHERE rate_limit_allowed('identity:n' || n, 1, '1 hour')) AS new
FROM generate_series(1, 20000) n;
SELECT count(*) FILTER (WHERE rate_limit_allowed('identity:n' || n, 1, '1 hour')) AS again
FROM generate_series(1, 20000) n;
SELECT rate_limit_reset_prefix('identity:n');

-- windows stack on one key: 2 a second and 3 a day
SELECT n, second.allowed AS second, day.allowed AS day
FROM (VALUES (1, timestamptz '2024-03-01 12:00:00Z'), (2, '2024-03-01 12:00:00.5Z'),
             (3, '2024-03-01 12:00:00.9Z'), (4, '2024-03-01 12:00:01Z')) v(n, t),
    rate_limit_check_at(t, 'identity:stack', 2, '1 s') second,
    rate_limit_check_at(t, 'identity:stack', 3, '1 day') day;

SET IntervalStyle = 'postgres';
-- as many counters as algorithms, and as windows to the microsecond
SELECT a, w, pg_temp.hit('identity:windows', a, w) AS used
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window')) x(a),
    (VALUES (interval '1 min'), ('59.999999 s'), ('60.000001 s')) y(w)
ORDER BY a, w;

-- limit, burst and cost are no part of it, nor is the name of the default store
SELECT n, used FROM
    (VALUES (1, 5::bigint, NULL::text, NULL::bigint), (2, 9, 'memory', NULL), (3, 7, NULL, NULL)) v(n, l, s, b),
    rate_limit_check_at('2024-03-01 12:00Z', 'identity:limit', l, '1 min', n, store => s);
SELECT n, remaining FROM
    (VALUES (1, 10, NULL), (2, 10, 10), (3, 10, 20)) v(n, l, b),
    rate_limit_check_at('2024-03-01 12:00Z', 'identity:burst', l, '1 min', 1, 'token_bucket', b);

-- ways to write one window: one counter, where a day is 24 hours
SELECT a, w, pg_temp.hit('identity:same', a, w) AS used
FROM (VALUES
    ('sliding_window',  interval '1 day'), ('sliding_window', '24 hours'),
    ('sliding_window',  '1440 min'),       ('sliding_window', '2 days -24 hours'),
    ('anchored_window', '1 day'),          ('anchored_window', '24 hours'),
    ('fixed_window',    '60 min'),         ('fixed_window', '1 hour'),
    ('fixed_window',    '1 week'),         ('fixed_window', '7 days'),
    ('fixed_window',    '1 year'),         ('fixed_window', '12 months')) v(a, w);
SELECT w, remaining
FROM (VALUES (interval '1 day'), ('24 hours')) v(w),
    rate_limit_check_at('2024-03-01 12:00Z', 'identity:same', 9, w, 1, 'token_bucket');

-- in a calendar window they are two: days of the calendar, and 24 hours
SELECT w, pg_temp.hit('identity:day', 'fixed_window', w) AS used
FROM (VALUES (interval '1 day'), ('24 hours'), ('1 month'), ('30 days')) v(w);

-- a calendar window has one counter for each time zone; elsewhere the zone does
-- not matter
SELECT a, w, z, pg_temp.hit('identity:zone', a, w, z) AS used
FROM (VALUES
    ('fixed_window',   interval '1 day', 'Europe/Berlin'),
    ('fixed_window',   '1 day',  'America/Los_Angeles'),
    ('fixed_window',   '1 day',  'UTC'),
    ('fixed_window',   '1 day',  NULL),
    ('fixed_window',   '1 day',  'europe/BERLIN'),
    ('fixed_window',   '1 hour', 'Europe/Berlin'),
    ('fixed_window',   '1 hour', 'America/Los_Angeles'),
    ('sliding_window', '1 day',  'Europe/Berlin'),
    ('sliding_window', '1 day',  NULL)) v(a, w, z);
