-- batches: many checks in one statement
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;

-- a check for each key, in order; the same key twice is two calls
SELECT k, r.allowed, r.used, r.remaining
FROM unnest('{batch:a,batch:b,batch:a,batch:a}'::text[]) k, rate_limit_check(k, 2, '1 hour') r;

-- each with its own limit, window, cost and algorithm
SELECT k, r.allowed, r.limit, r.used
FROM unnest('{batch:c,batch:d,batch:c}'::text[], '{2,10,5}'::bigint[], '{1 hour,1 day,1 hour}'::interval[],
            '{2,4,3}'::bigint[], '{sliding_window,token_bucket,sliding_window}'::text[]) v(k, l, w, c, a),
    LATERAL rate_limit_check(k, l, w, c, a) r;

-- a bad one raises an error, what was checked before stays
SELECT k, r.allowed FROM unnest('{batch:e,""}'::text[]) k, rate_limit_check(k, 2, '1 hour') r;
SELECT used FROM rate_limit_peek('batch:e', 2, '1 hour');

-- limits from a table of plans: a changed plan acts on the next call, an unknown one
-- has the free one's limit
CREATE TEMP TABLE plans(plan text PRIMARY KEY, per_hour bigint);
INSERT INTO plans VALUES ('free', 2), ('pro', 5);
CREATE TEMP TABLE users(id int PRIMARY KEY, plan text);
INSERT INTO users VALUES (1, 'free'), (2, 'pro'), (3, 'unheard of');
CREATE FUNCTION pg_temp.calls(n int, OUT id int, OUT admitted bigint) RETURNS SETOF record LANGUAGE sql AS
$$
SELECT id, count(*) FILTER (WHERE r.allowed)
FROM generate_series(1, n) i, users u
    CROSS JOIN LATERAL (SELECT coalesce((SELECT per_hour FROM plans p WHERE p.plan = u.plan),
                                        (SELECT per_hour FROM plans p WHERE p.plan = 'free')) + 0 * i AS per_hour) p
    CROSS JOIN LATERAL rate_limit_check('batch:user:' || u.id, p.per_hour, '1 hour') r
GROUP BY id ORDER BY id
$$;
SELECT * FROM pg_temp.calls(4);
UPDATE users SET plan = 'pro' WHERE id = 1;
UPDATE plans SET per_hour = 6 WHERE plan = 'pro';
SELECT * FROM pg_temp.calls(4);

-- no cache between the rows of a large table and the calls: of 2,000 rows of four keys
-- each is a call.  Without statistics, and with those that say there are but four
CREATE TEMP TABLE events(key text, n int);
INSERT INTO events SELECT 'batch:event:' || i % 4, i FROM generate_series(1, 2000) i;
SELECT count(*) FILTER (WHERE r.allowed) AS admitted FROM events, rate_limit_check(key, 100, '1 hour') r;
ANALYZE events;
SELECT rate_limit_reset_prefix('batch:event:');
SELECT count(*) FILTER (WHERE r.allowed) AS admitted FROM events, rate_limit_check(key, 100, '1 hour') r;
SELECT rate_limit_reset_prefix('batch:event:');
SELECT count(*) AS admitted FROM events, rate_limit_check(key, 100, '1 hour') r WHERE r.allowed;
SELECT rate_limit_reset_prefix('batch:event:');
SELECT count(*) FILTER (WHERE r.allowed) AS admitted
FROM events, rate_limit_check_all(ARRAY[key], '{100}', '{1 hour}') r;
SELECT rate_limit_reset_prefix('batch:event:');
SELECT count(*) AS admitted FROM events WHERE rate_limit_allowed(key, 100, '1 hour');
-- conditions on several columns of the row: with the call in the select list of a
-- subquery that is not merged into the query, no plan can save calls
SELECT rate_limit_reset_prefix('batch:event:');
SELECT count(*) AS admitted
FROM (SELECT rate_limit_check(key, 100, '1 hour') AS r FROM events OFFSET 0) s
WHERE (r).allowed AND (r).used BETWEEN 1 AND 100 AND (r).remaining >= 0 AND (r).retry_after = 0;

-- UPDATE and DELETE of what is admitted: a queue that is worked off at a rate
SELECT rate_limit_reset_prefix('batch:event:');
WITH done AS (DELETE FROM events WHERE rate_limit_allowed(key, 3, '1 hour') RETURNING key)
SELECT key, count(*) FROM done GROUP BY key ORDER BY key;

-- parallel plans keep the calls in the leader
CREATE TABLE batch_many AS SELECT i, 'batch:parallel:' || i % 8 AS key FROM generate_series(1, 20000) i;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
ANALYZE batch_many;
SELECT count(*) AS admitted FROM batch_many WHERE rate_limit_allowed(key, 50, '1 hour');
SELECT count(*) AS refused FROM batch_many, rate_limit_peek(key, 50, '1 hour') r WHERE NOT r.allowed;
DROP TABLE batch_many;
SELECT rate_limit_reset_prefix('batch:event:');
WITH calls AS MATERIALIZED (SELECT rate_limit_check(key, 100, '1 hour') AS r FROM events)
SELECT count(*) AS admitted FROM calls
WHERE (r).allowed AND (r).used BETWEEN 1 AND 100 AND (r).remaining >= 0 AND (r).retry_after = 0;
