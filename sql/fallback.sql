-- fallback: what becomes of a policy that is not there
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
SELECT rate_limit_enforce('fallback:none', 'fallback:a');
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_enforce_at('2024-03-01 12:00Z', 'fallback:none', 'fallback:a');
SELECT rate_limit_enforce_adjust('fallback:none', 'fallback:a', 1);
SELECT * FROM rate_limit_usage('fallback:none', 'fallback:a');
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_enforce('', 'fallback:a');

-- one row marked marks the whole policy
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", is_fallback) VALUES
    ('fallback:free', 'hour', 5, '1 hour', false), ('fallback:free', 'minute', 2, '1 min', true),
    ('fallback:pro', 'hour', 50, '1 hour', false);
SELECT n, r.*
FROM (VALUES (1, 'fallback:none', 0), (2, 'fallback:pro', 0), (3, '', 1), (4, 'fallback:none', 2)) v(n, policy, s),
    rate_limit_enforce_at('2024-03-01 12:00Z'::timestamptz + s * interval '1 s', policy, 'fallback:a') r ORDER BY n;
-- unknown policies count with it, not each for itself
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00:03Z', 'fallback:free', 'fallback:a') r;
SELECT DISTINCT policy FROM rate_limit_keys WHERE key = 'fallback:a' ORDER BY policy;
SELECT r.used FROM rate_limit_enforce('fallback:other', 'fallback:b') r;
SELECT rule, "limit", used FROM rate_limit_usage('fallback:unknown', 'fallback:b');
SELECT used, rule FROM rate_limit_enforce_adjust('fallback:unknown', 'fallback:b', 1);
SELECT rule, "limit", used FROM rate_limit_usage('fallback:free', 'fallback:b');
-- so do its overrides
INSERT INTO rate_limit_overrides (policy, key, "limit", reason) VALUES ('fallback:free', 'fallback:c', 0, 'test');
SELECT r.allowed, r.limit FROM rate_limit_enforce('fallback:none', 'fallback:c') r;

-- a policy that is there and off is not unknown
UPDATE rate_limit_policies SET mode = 'off' WHERE policy = 'fallback:pro';
SELECT r.allowed, r.limit, r.rule FROM rate_limit_enforce('fallback:pro', 'fallback:c') r;
DELETE FROM rate_limit_policies WHERE policy = 'fallback:pro';
SELECT r.allowed, r.limit, r.rule IS NOT NULL AS by_rule FROM rate_limit_enforce('fallback:pro', 'fallback:c') r;

-- another one, none again
UPDATE rate_limit_policies SET is_fallback = false WHERE policy = 'fallback:free';
INSERT INTO rate_limit_policies (policy, "limit", "window", is_fallback) VALUES ('fallback:last', 1, '1 hour', true);
SELECT r.allowed, r.limit, r.used FROM rate_limit_enforce('fallback:none', 'fallback:d') r;
UPDATE rate_limit_policies SET is_fallback = false WHERE policy = 'fallback:last';
SELECT rate_limit_enforce('fallback:none', 'fallback:d');

DELETE FROM rate_limit_policies WHERE policy LIKE 'fallback:%';
DELETE FROM rate_limit_overrides WHERE reason = 'test';
