-- overrides: other limits for some keys
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window")
VALUES ('overrides:p', 'hour', 100, '1 hour'), ('overrides:p', 'minute', 10, '1 min'),
       ('overrides:q', 'minute', 20, '1 min');
CREATE FUNCTION pg_temp.limits(key text) RETURNS TABLE (policy text, rule text, "limit" bigint)
LANGUAGE sql AS $$
    SELECT p, u.rule, u."limit" FROM unnest('{overrides:p,overrides:q}'::text[]) p, rate_limit_usage(p, key) u
$$;
SELECT * FROM pg_temp.limits('overrides:a');

-- of a key: each one is nearer than those before it
INSERT INTO rate_limit_overrides (key, "limit", reason) VALUES ('overrides:a', 1, 'test');
SELECT * FROM pg_temp.limits('overrides:a');
INSERT INTO rate_limit_overrides (rule, key, "limit", reason) VALUES ('minute', 'overrides:a', 2, 'test');
SELECT * FROM pg_temp.limits('overrides:a');
INSERT INTO rate_limit_overrides (policy, key, "limit", reason) VALUES ('overrides:p', 'overrides:a', 3, 'test');
SELECT * FROM pg_temp.limits('overrides:a');
INSERT INTO rate_limit_overrides (policy, rule, key, "limit", reason)
VALUES ('overrides:p', 'minute', 'overrides:a', 4, 'test');
SELECT * FROM pg_temp.limits('overrides:a');
-- of no other key
SELECT * FROM pg_temp.limits('overrides:A');

-- expired ones are none; the next nearest counts then
UPDATE rate_limit_overrides SET expires_at = now() WHERE policy = 'overrides:p' AND key = 'overrides:a';
SELECT * FROM pg_temp.limits('overrides:a');
UPDATE rate_limit_overrides SET expires_at = now() + interval '1 day' WHERE policy = 'overrides:p' AND rule IS NULL;
SELECT * FROM pg_temp.limits('overrides:a');
-- up to their end, not at it
UPDATE rate_limit_overrides SET expires_at = '2024-03-01 12:00Z'
WHERE policy = 'overrides:p' AND rule IS NULL AND key = 'overrides:a';
DELETE FROM rate_limit_overrides WHERE key = 'overrides:a' AND (policy IS NULL OR rule IS NOT NULL);
SELECT at, r.limit, r.rule
FROM (VALUES (timestamptz '2024-03-01 11:59:59.999999Z'), ('2024-03-01 12:00Z')) v(at),
    rate_limit_enforce_at(at, 'overrides:p', 'overrides:a', 0) r;

-- the limit is that of the override, the counter stays: unlimited, never, more, less
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:q', 'overrides:b', 15) r;
INSERT INTO rate_limit_overrides (policy, key, "limit", reason)
VALUES ('overrides:q', 'overrides:b', NULL, 'test') RETURNING "limit";
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:q', 'overrides:b', 1000) r;
UPDATE rate_limit_overrides SET "limit" = 0 WHERE key = 'overrides:b' RETURNING "limit";
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:q', 'overrides:b') r;
UPDATE rate_limit_overrides SET "limit" = 50 WHERE key = 'overrides:b' RETURNING "limit";
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:q', 'overrides:b') r;
UPDATE rate_limit_overrides SET "limit" = 5 WHERE key = 'overrides:b' RETURNING "limit";
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:q', 'overrides:b') r;
DELETE FROM rate_limit_overrides WHERE key = 'overrides:b' RETURNING "limit";
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:q', 'overrides:b') r;

-- a policy without a limit can get one, a rule that is off is still off
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('overrides:open', NULL, '1 hour');
INSERT INTO rate_limit_overrides (policy, key, "limit", reason) VALUES ('overrides:open', 'overrides:c', 1, 'test');
SELECT r.* FROM unnest('{1,1}'::int[]) cost, rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:open', 'overrides:c', cost) r;
UPDATE rate_limit_policies SET mode = 'off' WHERE policy = 'overrides:open';
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:open', 'overrides:c') r;

-- unlimited in one rule: the other one decides
INSERT INTO rate_limit_overrides (policy, rule, key, "limit", reason)
VALUES ('overrides:p', 'minute', 'overrides:d', NULL, 'test');
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:p', 'overrides:d', 90) r;
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 12:00Z', 'overrides:p', 'overrides:d', 11) r;

-- no override undoes a block
SELECT rate_limit_block('overrides:e');
INSERT INTO rate_limit_overrides (key, "limit", reason) VALUES ('overrides:e', NULL, 'test');
SELECT r.* FROM rate_limit_enforce('overrides:q', 'overrides:e') r;
SELECT rate_limit_unblock('overrides:e');
SELECT r.allowed, r.limit, r.rule FROM rate_limit_enforce('overrides:q', 'overrides:e') r;

DELETE FROM rate_limit_policies WHERE policy LIKE 'overrides:%';
DELETE FROM rate_limit_overrides WHERE reason = 'test';
