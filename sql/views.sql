-- the views: live counters, blocks, the state of the store
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET IntervalStyle = 'postgres';

-- columns and types
SELECT attrelid::regclass AS view, attnum AS n, attname AS column, format_type(atttypid, atttypmod) AS type
FROM pg_attribute
WHERE attrelid IN ('rate_limit_keys'::regclass, 'rate_limit_blocks'::regclass, 'rate_limit_info'::regclass)
  AND attnum > 0
ORDER BY attrelid::regclass::text, attnum;

-- a row for each counter
SELECT clock_timestamp() AS before \gset
SELECT r.allowed FROM rate_limit_check('views:a', 5, '1 hour', 3) r;
SELECT r.allowed FROM rate_limit_check('views:b', 8, '90 min', 2, 'anchored_window') r;
SELECT r.allowed FROM rate_limit_check('views:c', 10, '10 hours', 5, 'token_bucket', 20) r;
SELECT r.allowed FROM rate_limit_check('views:d', 10, '24 hours', 4, 'fixed_window', time_zone => 'Europe/Berlin') r;
SELECT r.allowed FROM rate_limit_check('views:e', 10, '1 month', 4, 'fixed_window', time_zone => 'europe/berlin') r;
SELECT r.allowed FROM rate_limit_check('views:f', 10, '100 years', 4, 'fixed_window') r;
SELECT key, algorithm, extract(epoch FROM "window")::bigint AS window_seconds, time_zone, "limit", used, refusals,
       last_use BETWEEN :'before' AND clock_timestamp() AS last_use_now
FROM rate_limit_keys WHERE key LIKE 'views:%' ORDER BY key;
SELECT "window" = '1 month' AS month FROM rate_limit_keys WHERE key = 'views:e';
-- when nothing is used any more: the newest hit's end, the window's, a full bucket
SELECT key, expires_at - last_use AS ends FROM rate_limit_keys WHERE key IN ('views:a', 'views:b', 'views:c') ORDER BY key;
SELECT expires_at = ((now() AT TIME ZONE 'UTC')::date + 1)::timestamp AT TIME ZONE 'UTC' AS midnight
FROM rate_limit_keys WHERE key = 'views:d';
SELECT expires_at = (date_trunc('month', now() AT TIME ZONE 'Europe/Berlin') + interval '1 month') AT TIME ZONE 'Europe/Berlin' AS first
FROM rate_limit_keys WHERE key = 'views:e';
SELECT expires_at = timestamptz '2100-01-01 00:00Z' AS century FROM rate_limit_keys WHERE key = 'views:f';

-- refusals are counted, used and the limit are the last ones; a peek does not show
SELECT count(*) FILTER (WHERE NOT r.allowed) AS refused
FROM (VALUES (1, 6, 4), (2, 6, 3), (3, 6, 1), (4, 6, 1)) v(n, l, cost), rate_limit_check('views:a', l, '1 hour', cost) r;
SELECT r.allowed FROM rate_limit_peek('views:a', 99, '1 hour', 100) r;
SELECT key, "limit", used, refusals FROM rate_limit_keys WHERE key = 'views:a';

-- fault 23: what has expired is not there
SELECT r.used FROM rate_limit_check('views:gone', 5, '1 us') r;
SELECT count(*) FROM rate_limit_keys WHERE key = 'views:gone';
-- for a counter of a replay time goes on from where the replay left it
SELECT r.used FROM rate_limit_check_at('2024-03-01 12:00Z', 'views:replay', 5, '1 day') r;
SELECT used FROM rate_limit_keys WHERE key = 'views:replay';

-- the store: set up by now
SELECT set_up IN ('preload', 'first use') AS set_up, set_up_at <= now() AS at,
       bytes >= 1024 * 1024 AS bytes, bytes_used > 0 AS used, bytes_free > 0 AS free,
       bytes_used + bytes_free <= bytes AS within,
       counters >= 6 AS counters, blocks >= 0 AS blocks, evictions >= 0 AS evictions, refused_full >= 0 AS full
FROM rate_limit_info;
SELECT counters AS c, bytes_used AS b FROM rate_limit_info \gset
SELECT count(*) FROM generate_series(1, 1000) n, rate_limit_check('views:more' || n, 5, '1 hour');
SELECT counters - :c >= 900 AS counted, bytes_used > :b AS used FROM rate_limit_info;
SELECT rate_limit_reset_prefix('views:more');
SELECT abs(counters - :c) <= 100 AS back FROM rate_limit_info;

-- pg_monitor may look, others may not, and neither may reset
CREATE ROLE regress_rate_limit_monitor IN ROLE pg_monitor;
CREATE ROLE regress_rate_limit_user;
SET ROLE regress_rate_limit_monitor;
SELECT count(*) > 0 AS keys FROM rate_limit_keys;
SELECT count(*) >= 0 AS blocks FROM rate_limit_blocks;
SELECT count(*) AS info FROM rate_limit_info;
SELECT rate_limit_reset('views:a');
SET ROLE regress_rate_limit_user;
SELECT count(*) FROM rate_limit_keys;
SELECT count(*) FROM rate_limit_blocks;
SELECT count(*) FROM rate_limit_info;
SELECT count(*) FROM rate_limit_keys();
SELECT count(*) FROM rate_limit_blocks();
SELECT count(*) FROM rate_limit_info();
RESET ROLE;
DROP ROLE regress_rate_limit_monitor, regress_rate_limit_user;

-- keys are for members of pg_read_all_stats, whoever may read the views
CREATE ROLE regress_rate_limit_counts;
GRANT SELECT ON rate_limit_keys, rate_limit_blocks TO regress_rate_limit_counts;
GRANT EXECUTE ON FUNCTION rate_limit_keys, rate_limit_blocks TO regress_rate_limit_counts;
SELECT used FROM rate_limit_check('views:secret', 9, '1 hour', 4);
SELECT used FROM rate_limit_check('views:secret', 9, '1 hour', 4, store => 'table');
SELECT rate_limit_block('views:secret', '1 hour');
SET ROLE regress_rate_limit_counts;
SELECT DISTINCT key FROM rate_limit_keys;
SELECT DISTINCT key FROM rate_limit_blocks;
SELECT count(*) >= 2 AS counted FROM rate_limit_keys WHERE used = 4;
RESET ROLE;
GRANT pg_read_all_stats TO regress_rate_limit_counts;
SET ROLE regress_rate_limit_counts;
SELECT key, used, store FROM rate_limit_keys WHERE key = 'views:secret' ORDER BY store;
SELECT key FROM rate_limit_blocks WHERE key = 'views:secret';
RESET ROLE;
SELECT rate_limit_unblock('views:secret'), rate_limit_reset('views:secret');
REVOKE ALL ON rate_limit_keys, rate_limit_blocks FROM regress_rate_limit_counts;
REVOKE ALL ON FUNCTION rate_limit_keys, rate_limit_blocks FROM regress_rate_limit_counts;
DROP ROLE regress_rate_limit_counts;
