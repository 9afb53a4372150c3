-- policies_validation: rows that could not be enforced are refused when written
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('validation:ok', 5, '1 hour');

-- every fault is an error with the SQLSTATE of a bad value, and nothing is written
CREATE FUNCTION pg_temp.insert_policy(assignments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    columns text := 'INSERT INTO rate_limit_policies SELECT (jsonb_populate_record(NULL::rate_limit_policies, %L)).*';
    hint text;
BEGIN
    EXECUTE format(columns, jsonb '{"policy": "validation:new", "rule": "default", "limit": 5, "window": "1 hour",
        "algorithm": "sliding_window", "mode": "enforce", "is_fallback": false}' || assignments::jsonb);
    RETURN 'inserted';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', sqlstate, sqlerrm, nullif(hint, ''));
END
$$;
\pset format unaligned
\pset tuples_only on
SELECT pg_temp.insert_policy(v) FROM (VALUES
    (1, '{"policy": ""}'),
    (2, format('{"policy": "%s"}', repeat('x', 64))),
    (3, format('{"rule": "%s"}', repeat('ä', 32))),
    (4, '{"rule": ""}'),
    (5, '{"rule": "block"}'),
    (6, '{"limit": -1}'),
    (7, '{"window": "0"}'),
    (8, '{"window": "-1 hour"}'),
    (9, '{"window": "36526 days"}'),
    (10, '{"window": "1 month"}'),
    (11, '{"window": "1 month", "algorithm": "token_bucket"}'),
    (12, '{"window": "1 month 2 days", "algorithm": "fixed_window"}'),
    (13, '{"algorithm": "leaky"}'),
    (14, '{"burst": 5}'),
    (15, '{"burst": 0, "algorithm": "token_bucket"}'),
    (16, '{"time_zone": "Mars/Olympus", "algorithm": "fixed_window", "window": "1 day"}'),
    (17, '{"time_zone": "+01:00"}'),
    (18, '{"block_for": "0"}'),
    (19, '{"block_for": "-1 s"}'),
    (20, '{"block_for": "36526 days"}'),
    (21, '{"block_for": "101 years"}'),
    (22, '{"block_for": "1000000 years"}'),
    (23, '{"limit": null, "window": "1 month"}'),
    (24, '{"mode": "off", "window": "0"}'),
    (25, '{"mode": "audit"}'),
    (26, '{"window": null}'),
    (27, '{"policy": null}'),
    (28, '{"policy": "validation:ok"}')) v(n, v) ORDER BY n;
\pset format aligned
\pset tuples_only off
-- an unknown store; the hint says which there are
SELECT split_part(pg_temp.insert_policy('{"store": "disk"}'), ' | ', 1) AS sqlstate,
       split_part(pg_temp.insert_policy('{"store": "disk"}'), ' | ', 2) AS message;
SELECT count(*) FROM rate_limit_policies WHERE policy = 'validation:new';

-- so are changes of a good row
UPDATE rate_limit_policies SET "window" = '1 month' WHERE policy = 'validation:ok';
\echo :LAST_ERROR_SQLSTATE
UPDATE rate_limit_policies SET "limit" = -5 WHERE policy = 'validation:ok';
SELECT "limit", "window" FROM rate_limit_policies WHERE policy = 'validation:ok';

-- even where triggers are off, as in a replica that applies changes
SET session_replication_role = replica;
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('validation:new', 5, '0');
INSERT INTO rate_limit_overrides (key, "limit") VALUES ('', 5);
RESET session_replication_role;

-- what is just good enough
SELECT v, pg_temp.insert_policy(v) FROM (VALUES
    (format('{"policy": "validation:%s", "rule": "%1$s"}', repeat('x', 52))),
    ('{"rule": "1", "window": "1 us", "limit": 9223372036854775807}'),
    ('{"rule": "2", "window": "36525 days", "block_for": "100 years"}'),
    ('{"rule": "3", "window": "100 years", "algorithm": "fixed_window", "time_zone": "europe/berlin"}'),
    ('{"rule": "4", "algorithm": "token_bucket", "burst": 1, "block_for": "1 us"}'),
    ('{"rule": "5", "store": "table"}'),
    ('{"rule": "6", "limit": null, "mode": "shadow"}'),
    ('{"rule": "7", "limit": 0, "mode": "off"}'),
    ('{"rule": "Block"}')) v(v);

-- one policy is the fallback
UPDATE rate_limit_policies SET is_fallback = true WHERE policy = 'validation:ok';
UPDATE rate_limit_policies SET is_fallback = true WHERE policy = 'validation:new' AND rule = '1';
\echo :LAST_ERROR_SQLSTATE

-- overrides: of a key or a network, not of both or neither, and once
\pset format unaligned
\pset tuples_only on
CREATE FUNCTION pg_temp.insert_override(assignments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    INSERT INTO rate_limit_overrides
    SELECT (jsonb_populate_record(NULL::rate_limit_overrides, assignments::jsonb)).*;
    RETURN 'inserted';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', sqlstate, sqlerrm, nullif(hint, ''));
END
$$;
SELECT pg_temp.insert_override(v) FROM (VALUES
    (1, '{"limit": 5}'),
    (2, '{"key": "validation:a", "network": "192.0.2.0/24", "limit": 5}'),
    (3, '{"key": "validation:a", "limit": -1}'),
    (4, '{"key": "", "limit": 5}'),
    (5, format('{"key": "%s"}', repeat('x', 1025))),
    (6, '{"key": "validation:a", "policy": ""}'),
    (7, format('{"key": "validation:a", "policy": "%s"}', repeat('x', 64))),
    (8, '{"key": "validation:a", "rule": "block"}'),
    (9, format('{"key": "validation:%s"}', repeat('x', 1013))),
    (10, '{"key": "validation:a", "limit": 0}'),
    (11, '{"key": "validation:a", "limit": 5}'),
    (12, '{"key": "validation:a", "policy": "validation:ok"}'),
    (13, '{"key": "validation:a", "policy": "validation:ok", "rule": "default"}'),
    (14, '{"key": "validation:a", "policy": "validation:ok", "rule": "default", "limit": 9}'),
    (15, '{"key": "validation:a", "rule": "default"}'),
    (16, '{"network": "198.51.100.0/25", "reason": "validation"}'),
    (17, '{"network": "198.51.100.0/25", "reason": "validation"}')) v(n, v) ORDER BY n;
\pset format aligned
\pset tuples_only off
-- a network of mapped addresses is that of the addresses, one that has others too is not
INSERT INTO rate_limit_overrides (network, reason)
VALUES ('::ffff:192.0.2.0/120', 'validation'), ('::ffff:192.0.2.7', 'validation'), ('::/64', 'validation');
SELECT network FROM rate_limit_overrides WHERE reason = 'validation' ORDER BY network;

-- look-ups by key and by network are index look-ups
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM rate_limit_overrides WHERE key = 'a';
EXPLAIN (COSTS OFF) SELECT * FROM rate_limit_overrides WHERE network >>= inet '192.0.2.1';
RESET enable_bitmapscan;
RESET enable_seqscan;

-- who may write the tables
CREATE ROLE regress_rate_limit_user;
SELECT t, has_table_privilege('regress_rate_limit_user', t, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER') AS everyone
FROM unnest('{rate_limit_policies,rate_limit_overrides}'::text[]) t;
GRANT SELECT, INSERT ON rate_limit_policies TO regress_rate_limit_user;
SET ROLE regress_rate_limit_user;
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('validation:user', 5, '1 hour');
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('validation:user', 5, '1 month');
INSERT INTO rate_limit_overrides (key, "limit") VALUES ('validation:a', 5);
RESET ROLE;
REVOKE ALL ON rate_limit_policies FROM regress_rate_limit_user;
DROP ROLE regress_rate_limit_user;

DELETE FROM rate_limit_policies WHERE policy LIKE 'validation:%';
DELETE FROM rate_limit_overrides WHERE key LIKE 'validation:%' OR reason = 'validation';
