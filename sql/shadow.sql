-- shadow: rules that count and report but never refuse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", mode) VALUES
    ('shadow:p', 'old', 4, '1 hour', 'enforce'), ('shadow:p', 'new', 2, '1 hour', 'shadow');

-- the rule in shadow would refuse the third call; the other one does the fifth.
-- The row is that of the rule that can refuse
SELECT n, r.*
FROM generate_series(1, 5) n,
    rate_limit_enforce_at('2024-03-01 12:00Z'::timestamptz + n * interval '1 min', 'shadow:p', 'shadow:a') r;
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 13:01Z', 'shadow:p', 'shadow:a') r;

-- fault 30: it counts as it would alone: the two that it would have admitted
SELECT n, r.allowed, r.used, r.rule
FROM generate_series(1, 5) n, rate_limit_enforce('shadow:p', 'shadow:b', sign(n)::int) r;
SELECT rule, allowed, used, remaining FROM rate_limit_usage('shadow:p', 'shadow:b');
-- and a call that is smaller than the one it would have refused
UPDATE rate_limit_policies SET "limit" = 10 WHERE policy = 'shadow:p' AND rule = 'old';
UPDATE rate_limit_policies SET "limit" = 5 WHERE policy = 'shadow:p' AND rule = 'new';
SELECT n, r.allowed, r.used, r.rule
FROM (VALUES (1, 4), (2, 2)) v(n, cost), rate_limit_enforce('shadow:p', 'shadow:b', cost) r ORDER BY n;
SELECT rule, allowed, used, remaining FROM rate_limit_usage('shadow:p', 'shadow:b');
-- what another rule refuses is not charged to it
SELECT r.allowed, r.used, r.rule FROM rate_limit_enforce('shadow:p', 'shadow:b') r;
SELECT rule, allowed, used, remaining FROM rate_limit_usage('shadow:p', 'shadow:b');

-- only rules in shadow: the tightest is reported, always as admitted
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", mode) VALUES
    ('shadow:only', 'a', 5, '1 hour', 'shadow'), ('shadow:only', 'b', 2, '1 min', 'shadow');
SELECT n, r.*
FROM generate_series(1, 3) n,
    rate_limit_enforce_at('2024-03-01 12:00Z'::timestamptz + n * interval '1 s', 'shadow:only', 'shadow:a') r;
-- even what the limit would never admit
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'shadow:only', 'shadow:b', 100) r;
UPDATE rate_limit_policies SET "limit" = 0 WHERE policy = 'shadow:only';
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'shadow:only', 'shadow:b') r;

-- turned on, it refuses with what it has counted; turned off, it is not looked at
UPDATE rate_limit_policies SET "limit" = 3, mode = 'enforce' WHERE policy = 'shadow:only' AND rule = 'a';
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00:10Z', 'shadow:only', 'shadow:a') r;
UPDATE rate_limit_policies SET mode = 'off' WHERE policy = 'shadow:only' AND rule = 'a';
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00:10Z', 'shadow:only', 'shadow:a') r;

-- usage tells of both kinds what they would say, and of none that is off
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", mode) VALUES
    ('shadow:usage', 'a', 1, '1 hour', 'shadow'), ('shadow:usage', 'b', 2, '1 hour', 'enforce'),
    ('shadow:usage', 'c', 3, '1 hour', 'off');
SELECT r.allowed, r.rule, r.remaining FROM rate_limit_enforce('shadow:usage', 'shadow:a') r;
SELECT allowed, "limit", used, remaining, retry_after BETWEEN 3500 AND 3600 AS in_an_hour, rule
FROM rate_limit_usage('shadow:usage', 'shadow:a');

-- a rule in shadow blocks nobody
UPDATE rate_limit_policies SET block_for = '1 hour' WHERE policy = 'shadow:usage';
SELECT r.allowed, r.rule, r.remaining FROM rate_limit_enforce('shadow:usage', 'shadow:a') r;
SELECT count(*) FROM rate_limit_blocks WHERE key = 'shadow:a';

DELETE FROM rate_limit_policies WHERE policy LIKE 'shadow:%';
