-- sliding_window: at most N in any span of length W
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

-- a hit counts in (t - W, t]: it leaves at the very instant t + W
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0::numeric, 1, 'yes 1 2 0 60'),
    (10,         1, 'yes 2 1 0 60'),
    (20,         1, 'yes 3 0 0 60'),
    (30,         1, 'no 3 0 30 60'),
    (59.999999,  1, 'no 3 0 0.000001 60'),
    (60,         1, 'yes 3 0 0 70'),
    (65,         1, 'no 3 0 5 70'),
    (70,         1, 'yes 3 0 0 80'),
    (200,        1, 'yes 1 2 0 260')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'sliding:plain', 3, '1 min', cost) r,
    pg_temp.brief(r) got;

-- no double burst: a full limit before a minute's end leaves nothing for its start
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (59::numeric, 10, 'yes 10 0 0 119'),
    (61,           1, 'no 10 0 58 119'),
    (118.999999,  10, 'no 10 0 0.000001 119'),
    (119,         10, 'yes 10 0 0 179')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'sliding:boundary', 10, '1 min', cost) r,
    pg_temp.brief(r) got;

-- fault 10: limit 1 admits one a window, and reset_at is the oldest hit's, not
-- the newest's
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0::numeric, 1, 'yes 1 0 0 1'),
    (0,          1, 'no 1 0 1 1'),
    (0.999999,   1, 'no 1 0 0.000001 1'),
    (1,          1, 'yes 1 0 0 2'),
    (2,          1, 'yes 1 0 0 3')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'sliding:one', 1, '1 s', cost) r,
    pg_temp.brief(r) got;
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0::numeric, 1, 'yes 1 1 0 60'),
    (50,         1, 'yes 2 0 0 60'),
    (55,         1, 'no 2 0 5 60'),
    (60,         1, 'yes 2 0 0 110')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'sliding:oldest', 2, '1 min', cost) r,
    pg_temp.brief(r) got;

-- two hits at one instant are two hits
SELECT cost, got, got = want AS ok
FROM (VALUES
    (1, 'yes 1 1 0 60'),
    (1, 'yes 2 0 0 60'),
    (1, 'no 2 0 60 60')) v(cost, want),
    rate_limit_check_at(pg_temp.at(0), 'sliding:same instant', 2, '1 min', cost) r,
    pg_temp.brief(r) got;

-- a call waits for as many of the oldest hits as its cost needs
SELECT s, cost, got, got = want AS ok
FROM (VALUES
    (0::numeric, 4, 'yes 4 6 0 60'),
    (10,         3, 'yes 7 3 0 60'),
    (20,         3, 'yes 10 0 0 60'),
    (30,         4, 'no 10 0 30 60'),
    (30,         5, 'no 10 0 40 60'),
    (30,         7, 'no 10 0 40 60'),
    (30,         8, 'no 10 0 50 60'),
    (30,        11, 'no 10 0 never 60'),
    (60,         5, 'no 6 4 10 70'),
    (60,         4, 'yes 10 0 0 70')) v(s, cost, want),
    rate_limit_check_at(pg_temp.at(s), 'sliding:weights', 10, '1 min', cost) r,
    pg_temp.brief(r) got;

-- the shortest and the longest window
SELECT s, w, got, got = want AS ok
FROM (VALUES
    (0::numeric,        interval '1 us', 'yes 1 0 0 0.000001'),
    (0,                 '1 us',          'no 1 0 0.000001 0.000001'),
    (0.000001,          '1 us',          'yes 1 0 0 0.000002'),
    (0,                 '36525 days',    'yes 1 0 0 3155760000'),
    (3155759999.999999, '36525 days',    'no 1 0 0.000001 3155760000'),
    (3155760000,        '36525 days',    'yes 1 0 0 6311520000')) v(s, w, want),
    rate_limit_check_at(pg_temp.at(s), 'sliding:extreme', 1, w) r,
    pg_temp.brief(r) got;

-- at most exact_hits (128): exact.  Above, times are rounded up to a multiple
-- of ceil(W / 128), here a second, so a hit counts at most that much too long
SELECT n, s, got, got = want AS ok
FROM (VALUES
    (128, 0.3,        'yes 128 0 0 128.3'),
    (128, 128.299999, 'no 128 0 0.000001 128.3'),
    (128, 128.3,      'yes 128 0 0 256.3'),
    (129, 0.3,        'yes 129 0 0 129'),
    (129, 0.5,        'no 129 0 128.5 129'),
    (129, 128.3,      'no 129 0 0.7 129'),
    (129, 128.999999, 'no 129 0 0.000001 129'),
    (129, 129,        'yes 129 0 0 257')) v(n, s, want),
    rate_limit_check_at(pg_temp.at(s), 'sliding:exact ' || n, n, '128 s', n) r,
    pg_temp.brief(r) got;

-- the same with rate_limit.exact_hits = 4: rounding to a second again
SET rate_limit.exact_hits = 4;
SELECT n, s, got, got = want AS ok
FROM (VALUES
    (4, 0.3,      'yes 4 0 0 4.3'),
    (4, 4.299999, 'no 4 0 0.000001 4.3'),
    (4, 4.3,      'yes 4 0 0 8.3'),
    (5, 0.3,      'yes 5 0 0 5'),
    (5, 4.3,      'no 5 0 0.7 5'),
    (5, 5,        'yes 5 0 0 9')) v(n, s, want),
    rate_limit_check_at(pg_temp.at(s), 'sliding:four ' || n, n, '4 s', n) r,
    pg_temp.brief(r) got;
RESET rate_limit.exact_hits;

-- 600 calls of mixed cost against a list of all admitted hits: how many
-- answers differ from "the admitted cost in (t - W, t] plus this one's is <= N"
CREATE TEMP TABLE history AS
SELECT i, s, cost, r.allowed, r.used
FROM (SELECT i, sum((i * 7919 % 997) / 100.0) OVER (ORDER BY i) AS s,
             1 + i * 31 % 4 AS cost
      FROM generate_series(1, 600) i) v,
    rate_limit_check_at(pg_temp.at(s), 'sliding:model', 10, '1 min', cost) r;
SELECT count(*) FILTER (WHERE allowed) BETWEEN 100 AND 500 AS some_of_each,
       count(*) FILTER (WHERE allowed <> (recent + cost <= 10)) AS wrong,
       count(*) FILTER (WHERE used <> recent + CASE WHEN allowed THEN cost ELSE 0 END)
       AS wrong_used
FROM (SELECT *, (SELECT coalesce(sum(cost), 0) FROM history o
                 WHERE o.i < h.i AND o.allowed AND o.s > h.s - 60) AS recent
      FROM history h) x;

-- above exact_hits: never more than N in a span, and refused only when there
-- would be more than N in a span longer by the rounding
CREATE TEMP TABLE rounded AS
SELECT i, s, cost, r.allowed
FROM (SELECT i, sum((i * 7919 % 997) / 100.0) OVER (ORDER BY i) AS s,
             1 + i * 31 % 60 AS cost
      FROM generate_series(1, 600) i) v,
    rate_limit_check_at(pg_temp.at(s), 'sliding:rounded', 200, '64 s', cost) r;
SELECT count(*) FILTER (WHERE allowed) BETWEEN 100 AND 500 AS some_of_each,
       count(*) FILTER (WHERE allowed AND recent + cost > 200) AS too_many,
       count(*) FILTER (WHERE NOT allowed AND longer + cost <= 200) AS too_strict
FROM (SELECT *, (SELECT coalesce(sum(cost), 0) FROM rounded o
                 WHERE o.i < h.i AND o.allowed AND o.s > h.s - 64) AS recent,
                (SELECT coalesce(sum(cost), 0) FROM rounded o
                 WHERE o.i < h.i AND o.allowed AND o.s > h.s - 64.5) AS longer
      FROM rounded h) x;
