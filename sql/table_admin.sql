-- the table store in administration: keys, reset, prune, blocks, modes
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET IntervalStyle = 'postgres';

-- the keys of both stores; refusals of the table are not counted
SELECT r.allowed FROM rate_limit_check('table_admin:a', 5, '1 hour', 3) r;
SELECT r.allowed FROM unnest('{2,4}'::int[]) cost, rate_limit_check('table_admin:a', 5, '1 hour', cost, store => 'table') r;
SELECT r.allowed FROM rate_limit_check('table_admin:b', 8, '90 min', 2, 'anchored_window', store => 'table') r;
SELECT r.allowed FROM rate_limit_check('table_admin:c', 10, '10 hours', 5, 'token_bucket', 20, 'table') r;
SELECT r.allowed FROM rate_limit_check('table_admin:d', 10, '24 hours', 4, 'fixed_window', NULL, 'table', 'Europe/Berlin') r;
SELECT r.allowed FROM rate_limit_check('table_admin:e', 10, '1 month', 4, 'fixed_window', NULL, 'table', 'europe/berlin') r;
SELECT r.allowed FROM rate_limit_check('table_admin:f', 10, '1 week', 4, 'fixed_window', store => 'table') r;
SELECT key, algorithm, "window", time_zone, "limit", used, refusals,
    last_use BETWEEN now() - interval '1 min' AND clock_timestamp() AS last_use_now, store
FROM rate_limit_keys WHERE key LIKE 'table\_admin:%' ORDER BY key, store;
-- when nothing is used any more: the newest hit's end, the window's, a full bucket
SELECT key, expires_at - last_use AS ends FROM rate_limit_keys
WHERE key IN ('table_admin:a', 'table_admin:b', 'table_admin:c') ORDER BY key, store;
SELECT expires_at = (date_trunc('month', now() AT TIME ZONE 'Europe/Berlin') + interval '1 month') AT TIME ZONE 'Europe/Berlin' AS first
FROM rate_limit_keys WHERE key = 'table_admin:e';
-- used is what is used now, and what has expired is not there
SELECT r.used FROM rate_limit_check('table_admin:gone', 5, '1 us', store => 'table') r;
SELECT count(*) FROM rate_limit_keys WHERE key = 'table_admin:gone';

-- reset: of both stores, only this key, and the table's part with the transaction
SELECT count(*) FROM unnest('{table_admin:r,table_admin:R,"table_admin:r ",table_admin:r%,table_admin:r1}'::text[]) key,
    unnest('{memory,table}'::text[]) store, unnest('{1 hour,1 day}'::interval[]) w, rate_limit_check(key, 5, w, store => store);
SELECT rate_limit_reset('table_admin:r');
SELECT rate_limit_reset('table_admin:r');
SELECT r.used FROM rate_limit_check('table_admin:r', 5, '1 hour', store => 'table') r;
SELECT rate_limit_reset('table_admin:r');
SELECT rate_limit_reset_prefix('table_admin:r%');
SELECT rate_limit_reset_prefix('table_admin:r_');
SELECT rate_limit_reset_prefix('table_admin:r');
SELECT key, store, count(*) FROM rate_limit_keys WHERE key ILIKE 'table\_admin:r%' GROUP BY key, store ORDER BY key, store;
BEGIN;
SELECT rate_limit_reset_prefix('table_admin:R');
ROLLBACK;
SELECT key, store, count(*) FROM rate_limit_keys WHERE key ILIKE 'table\_admin:r%' GROUP BY key, store ORDER BY key, store;
SELECT rate_limit_reset_prefix('') > 0 AS some;
SELECT count(*) AS rows, (SELECT count(*) FROM rate_limit_keys) AS keys FROM rate_limit_state;

-- blocks: of both stores
SELECT rate_limit_block('table_admin:blocked', '1 hour');
SELECT store, r.allowed, r.used, r.rule
FROM unnest('{memory,table}'::text[]) store, rate_limit_check('table_admin:blocked', 5, '1 hour', store => store) r;
SELECT r.allowed, r.rule FROM rate_limit_peek('table_admin:blocked', 5, '1 hour', store => 'table') r;
SET rate_limit.store = 'table';
SELECT ord, allowed, used, rule
FROM rate_limit_check_all('{table_admin:free,table_admin:blocked}', '{5,5}', '{1 hour,1 hour}') r;
SELECT count(*) FROM rate_limit_state;
SELECT refusals FROM rate_limit_blocks WHERE key = 'table_admin:blocked';
SELECT used FROM rate_limit_adjust('table_admin:blocked', 5, '1 hour', 2);
SELECT rate_limit_reset('table_admin:blocked');
SELECT r.allowed, r.used, r.rule FROM rate_limit_check('table_admin:blocked', 5, '1 hour') r;
SELECT rate_limit_unblock('table_admin:blocked');
SELECT r.allowed, r.used, r.rule FROM rate_limit_check('table_admin:blocked', 5, '1 hour') r;

-- the setting is the default, the argument goes before it
SHOW rate_limit.store;
SELECT n, r.used FROM (VALUES (1, NULL), (2, 'table'), (3, 'memory')) v(n, store),
    rate_limit_check('table_admin:setting', 5, '1 hour', store => store) r ORDER BY n;
SELECT rate_limit_allowed('table_admin:setting', 5, '1 hour');
SELECT rate_limit_require('table_admin:setting', 5, '1 hour');
SELECT used FROM rate_limit_adjust('table_admin:setting', 5, '1 hour', -1);
SELECT used FROM rate_limit_check_at('2024-03-01 12:00Z', 'table_admin:setting', 5, '1 min');
SELECT used FROM rate_limit_adjust_at('2024-03-01 12:00Z', 'table_admin:setting', 5, '1 min', 1);
SELECT used FROM rate_limit_peek_at('2024-03-01 12:00Z', 'table_admin:setting', 5, '1 min');
SELECT ord, allowed, used FROM rate_limit_check_all('{table_admin:setting,table_admin:all}', '{5,5}', '{1 hour,1 hour}');
RESET rate_limit.store;
SELECT used FROM rate_limit_peek('table_admin:setting', 5, '1 hour');
SELECT ord, allowed, used FROM rate_limit_check_all('{table_admin:setting,table_admin:all}', '{5,5}', '{1 hour,1 hour}');
SELECT key, store, used FROM rate_limit_keys WHERE key IN ('table_admin:setting', 'table_admin:all') AND "window" = '1 hour'
ORDER BY key, store;
SET rate_limit.store = 'nonsense';
SET rate_limit.store = '';

-- check_all in the table: all or nothing, the same counter twice
SET rate_limit.store = 'table';
SELECT ord, key, allowed, used, remaining
FROM rate_limit_check_all('{table_admin:z,table_admin:y,table_admin:z}', '{3,100,10}', '{1 hour,1 hour,1 day}', '{1,20,2}');
SELECT ord, key, allowed, used, remaining, retry_after > 3500 AS later
FROM rate_limit_check_all('{table_admin:z,table_admin:new,table_admin:y,table_admin:z}', '{3,5,100,10}',
                          '{1 hour,1 hour,1 hour,1 day}', '{3,1,20,2}');
SELECT ord, key, allowed, used, remaining
FROM rate_limit_check_all('{table_admin:z,table_admin:z}', '{3,3}', '{1 hour,60 min}', '{1,2}');
SELECT ord, key, allowed, used, remaining
FROM rate_limit_check_all('{table_admin:z,table_admin:z}', '{3,3}', '{1 hour,60 min}', '{1,1}');
SELECT key, "window", used FROM rate_limit_keys WHERE key IN ('table_admin:z', 'table_admin:y', 'table_admin:new')
ORDER BY key, "window";
SELECT a, bool_and(allowed) AS allowed, sum(used) AS used
FROM unnest('{fixed_window,anchored_window,token_bucket}'::text[]) a,
    rate_limit_check_all('{table_admin:z,table_admin:y}', '{5,5}', '{36500 days,36500 days}', '{2,3}', a)
GROUP BY a ORDER BY a;
SELECT count(*) FILTER (WHERE allowed) AS allowed, count(*) AS rows
FROM rate_limit_check_all((SELECT array_agg('table_admin:many' || n) FROM generate_series(1, 1000) n),
                          array_fill(5, '{1000}'), array_fill(interval '1 hour', '{1000}'));
SELECT rate_limit_reset_prefix('table_admin:many');

-- modes: shadow admits without recording, off does not even read
SELECT r.allowed, r.used FROM rate_limit_check('table_admin:mode', 2, '1 hour', 2) r;
SET rate_limit.mode = shadow;
SELECT r.allowed, r.used FROM rate_limit_check('table_admin:mode', 2, '1 hour') r;
SELECT rate_limit_allowed('table_admin:mode new', 0, '1 hour');
SET rate_limit.mode = off;
SELECT r.allowed FROM rate_limit_check('table_admin:mode', 2, '1 hour') r;
SELECT r.allowed FROM rate_limit_check('table_admin:mode new', 2, '1 hour') r;
RESET rate_limit.mode;
SELECT key, used FROM rate_limit_keys WHERE key LIKE 'table\_admin:mode%' ORDER BY key;

-- prune: all that has expired or as much as is said, and nothing else
SELECT rate_limit_reset_prefix('') > 0 AS some, rate_limit_prune() AS none;
SELECT count(*) FILTER (WHERE rate_limit_allowed('table_admin:stale' || n, 5, '1 hour')) FROM generate_series(1, 40) n;
SELECT rate_limit_allowed('table_admin:live', 5, '1 hour');
UPDATE rate_limit_state SET expires_at = now() - interval '1 day', last_use = now() - interval '2 days'
WHERE key LIKE 'table\_admin:stale%';
SELECT rate_limit_prune(max => 5);
-- fault 18: refused calls remove nothing, admitted ones do so now and then
SELECT count(*) FILTER (WHERE rate_limit_allowed('table_admin:live', 0, '1 hour')) FROM generate_series(1, 300) n;
SELECT count(*) FROM rate_limit_state WHERE key LIKE 'table\_admin:stale%';
DO $$
BEGIN
    FOR n IN 1 .. 1000 LOOP
        PERFORM rate_limit_allowed('table_admin:live', 1000000, '1 hour');
        COMMIT;
    END LOOP;
END $$;
SELECT key FROM rate_limit_state;
UPDATE rate_limit_state SET expires_at = now() - interval '1 day';
SELECT rate_limit_prune(), rate_limit_prune(NULL);
SELECT rate_limit_prune(0);
SELECT rate_limit_prune(-9223372036854775808);
SELECT rate_limit_prune(9223372036854775807);
-- a removed row comes back with the transaction
SELECT rate_limit_allowed('table_admin:live', 5, '1 hour');
UPDATE rate_limit_state SET expires_at = now() - interval '1 day';
BEGIN;
SELECT rate_limit_prune();
ROLLBACK;
SELECT rate_limit_prune();

-- what expired is not counted, though its row is there still: no call removes it
-- before the transaction commits
BEGIN;
SELECT r.used FROM rate_limit_check('table_admin:tiny', 5, '1 us', 5) r;
SELECT r.allowed, r.used FROM rate_limit_check('table_admin:tiny', 5, '1 us', 5) r;
SELECT count(*) FROM rate_limit_state WHERE key = 'table_admin:tiny';
SELECT pg_sleep(0.01);
SELECT rate_limit_prune();
COMMIT;

-- fault 23: a replay's counters are not removed in the middle of it
SELECT s, r.allowed, r.used,
    (SELECT count(*) FILTER (WHERE rate_limit_allowed('table_admin:noise', 10000, '1 hour')) FROM generate_series(1, 100 + s)) AS noise
FROM unnest('{0,10,20,30}'::int[]) s,
    rate_limit_check_at(timestamptz '2024-03-01 12:00Z' + s * interval '1 s', 'table_admin:replay', 3, '1 min') r;
SELECT rate_limit_prune();
SELECT r.allowed, r.used FROM rate_limit_check_at('2024-03-01 12:00:40Z', 'table_admin:replay', 3, '1 min') r;

-- an unlogged table works
ALTER TABLE rate_limit_state SET UNLOGGED;
SELECT r.used FROM rate_limit_check('table_admin:noise', 10000, '1 hour') r;
ALTER TABLE rate_limit_state SET LOGGED;
SELECT r.used FROM rate_limit_check('table_admin:noise', 10000, '1 hour') r;
TRUNCATE rate_limit_state;
SELECT r.used FROM rate_limit_check('table_admin:noise', 10000, '1 hour') r;

-- the table is the extension's, its rows go into dumps, and it is made for updates in place
SELECT extconfig::regclass[] FROM pg_extension WHERE extname = 'rate_limit';
SELECT reloptions::text LIKE '%fillfactor=%' AS fillfactor, reloptions::text LIKE '%autovacuum%' AS autovacuum
FROM pg_class WHERE oid = 'rate_limit_state'::regclass;
SELECT attname, format_type(atttypid, atttypmod) AS type, attnotnull FROM pg_attribute
WHERE attrelid = 'rate_limit_state'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'rate_limit_state'::regclass AND contype = 'p';
-- a new table in the same session
SET client_min_messages = warning;
DROP EXTENSION rate_limit;
CREATE EXTENSION rate_limit;
RESET client_min_messages;
SELECT r.used FROM rate_limit_check('table_admin:noise', 10000, '1 hour') r;
SELECT count(*) FROM rate_limit_state;
-- another schema in the same session
SET client_min_messages = warning;
DROP EXTENSION rate_limit;
CREATE SCHEMA table_admin;
CREATE EXTENSION rate_limit SCHEMA table_admin;
RESET client_min_messages;
SELECT r.used FROM table_admin.rate_limit_check('table_admin:noise', 10000, '1 hour') r;
SELECT count(*) FROM table_admin.rate_limit_state;
SELECT key, used FROM table_admin.rate_limit_keys WHERE key = 'table_admin:noise' AND store = 'table';
SELECT table_admin.rate_limit_reset('table_admin:noise'), table_admin.rate_limit_prune();
SET client_min_messages = warning;
DROP EXTENSION rate_limit;
DROP SCHEMA table_admin;
CREATE EXTENSION rate_limit;
RESET client_min_messages;
RESET rate_limit.store;
