-- usage: what every rule of a policy says to a call that costs 1, nothing recorded
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, burst, mode) VALUES
    ('usage:p', 'sliding',   5,    '1 hour',  'sliding_window',  NULL, 'enforce'),
    ('usage:p', 'anchored',  4,    '2 hours', 'anchored_window', NULL, 'enforce'),
    ('usage:p', 'bucket',    1,    '1 hour',  'token_bucket',    3,    'shadow'),
    ('usage:p', 'unlimited', NULL, '1 hour',  'sliding_window',  NULL, 'enforce'),
    ('usage:p', 'Zero',      9,    '1 hour',  'sliding_window',  NULL, 'enforce'),
    ('usage:p', 'off',       1,    '1 hour',  'sliding_window',  NULL, 'off');

-- nothing used: reset_at is the instant of the call
SELECT allowed, "limit", used, remaining, retry_after, reset_at BETWEEN now() AND clock_timestamp() AS now, rule
FROM rate_limit_usage('usage:p', 'usage:a');
SELECT r.allowed, r.limit, r.used, r.remaining, r.rule FROM rate_limit_enforce('usage:p', 'usage:a', 3) r;
-- looked at twice: the same, nothing is recorded
SELECT n, allowed, "limit", used, remaining, retry_after BETWEEN 3500 AND 3600 AS in_an_hour,
       reset_at > now() + interval '50 min' AS later, rule
FROM generate_series(1, 2) n, LATERAL (SELECT * FROM rate_limit_usage('usage:p', 'usage:a') WHERE n > 0) u
ORDER BY n, rule COLLATE "C";
SELECT count(*) FROM rate_limit_usage('usage:p', 'usage:new');
SELECT count(*) FROM rate_limit_keys WHERE key = 'usage:new';

-- the same as rate_limit_enforce would decide, and the row of the tightest of those that can refuse
SELECT r.allowed, r.remaining, r.rule FROM rate_limit_enforce('usage:p', 'usage:a', 1) r;
SELECT rule, remaining FROM rate_limit_usage('usage:p', 'usage:a') WHERE rule IN ('anchored', 'sliding');

-- overrides and blocks
INSERT INTO rate_limit_overrides (policy, rule, key, "limit", reason) VALUES
    ('usage:p', 'sliding', 'usage:a', 0, 'test'), ('usage:p', 'Zero', 'usage:a', NULL, 'test');
SELECT allowed, "limit", used, remaining, retry_after IS NULL AS never, rule
FROM rate_limit_usage('usage:p', 'usage:a') WHERE rule IN ('sliding', 'Zero');
SELECT rate_limit_block('usage:a', '1 day');
SELECT DISTINCT allowed, remaining, reset_at = until AS end_of_block
FROM rate_limit_usage('usage:p', 'usage:a'), rate_limit_blocks WHERE key = 'usage:a';
SELECT rate_limit_unblock('usage:a');

-- in a read-only transaction too
BEGIN READ ONLY;
SELECT rule, used FROM rate_limit_usage('usage:p', 'usage:a') WHERE rule = 'anchored';
COMMIT;

-- everyone may ask, and enforce; to record whatever the limits say, or at an instant, is for few
CREATE ROLE regress_rate_limit_user;
SET ROLE regress_rate_limit_user;
SELECT count(*) FROM rate_limit_usage('usage:p', 'usage:a');
SELECT r.allowed, r.rule FROM rate_limit_enforce('usage:p', 'usage:user') r;
SELECT rate_limit_enforce_adjust('usage:p', 'usage:user', -1);
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_enforce_at(now(), 'usage:p', 'usage:user');
SELECT count(*) FROM rate_limit_policies;
SELECT count(*) FROM rate_limit_overrides;
RESET ROLE;
DROP ROLE regress_rate_limit_user;

DELETE FROM rate_limit_policies WHERE policy LIKE 'usage:%';
DELETE FROM rate_limit_overrides WHERE reason = 'test';
