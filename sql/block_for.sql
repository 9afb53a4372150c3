-- block_for: a rule that blocks the key once it has refused
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", block_for) VALUES
    ('block_for:p', 'login', 2, '1 min', '1 hour'), ('block_for:p', 'other', 5, '2 hours', NULL);
SELECT n, r.allowed, r.used, r.remaining, r.rule
FROM generate_series(1, 2) n, rate_limit_enforce('block_for:p', 'block_for:a', sign(n)::int) r;
SELECT count(*) FROM rate_limit_blocks WHERE key = 'block_for:a';

-- the call that is refused says which rule it was, and already waits for the end
-- of the block: an hour instead of a minute
SELECT r.allowed, r.limit, r.used, r.remaining, r.retry_after BETWEEN 3590 AND 3600 AS in_an_hour,
       r.reset_at = until AS end_of_block, r.rule
FROM rate_limit_enforce('block_for:p', 'block_for:a') r, LATERAL (
    SELECT until FROM rate_limit_blocks WHERE key = 'block_for:a' AND r.allowed IS NOT NULL) b;
SELECT key, until - blocked_at AS duration, reason FROM rate_limit_blocks WHERE key = 'block_for:a';
SELECT until AS end_of_block FROM rate_limit_blocks WHERE key = 'block_for:a' \gset

-- while blocked everything is refused, and nothing makes it longer
SELECT r.allowed, r.remaining, r.retry_after BETWEEN 3590 AND 3600 AS in_an_hour, r.reset_at = :'end_of_block' AS end_of_block, r.rule
FROM rate_limit_enforce('block_for:p', 'block_for:a') r;
SELECT r.allowed, r.rule FROM rate_limit_enforce('block_for:p', 'block_for:a', 100) r;
SELECT r.allowed, r.retry_after BETWEEN 3590 AND 3600 AS in_an_hour, r.rule FROM rate_limit_check('block_for:a', 5, '1 min') r;
SELECT until = :'end_of_block' AS same, reason FROM rate_limit_blocks WHERE key = 'block_for:a';
-- usage names the rules
SELECT allowed, used, remaining, reset_at = :'end_of_block' AS end_of_block, rule FROM rate_limit_usage('block_for:p', 'block_for:a');
-- refused a microsecond before its end, admitted at it
SELECT n, r.allowed, r.retry_after * 1000000 AS microseconds, r.rule
FROM (VALUES (1, interval '-1 us'), (2, '0')) v(n, after),
    rate_limit_enforce_at(:'end_of_block'::timestamptz + after, 'block_for:p', 'block_for:a') r ORDER BY n;
SELECT rate_limit_unblock('block_for:a');

-- no refusal, no block: an admitted call, a look, a replay, another rule's refusal
SELECT r.allowed FROM rate_limit_enforce('block_for:p', 'block_for:b', 2) r;
SELECT r.allowed FROM rate_limit_enforce('block_for:p', 'block_for:b', 0) r;
SELECT count(*), bool_or(allowed) AS allowed FROM rate_limit_usage('block_for:p', 'block_for:b') WHERE rule = 'login';
SELECT r.allowed, r.rule, r.retry_after <= 60 AS in_a_minute FROM rate_limit_enforce_at(clock_timestamp(), 'block_for:p', 'block_for:b') r;
UPDATE rate_limit_policies SET "limit" = 100 WHERE policy = 'block_for:p' AND rule = 'login';
SELECT r.allowed, r.rule FROM rate_limit_enforce('block_for:p', 'block_for:b', 4) r;
SELECT count(*) FROM rate_limit_blocks WHERE key = 'block_for:b';

-- two that refuse: the longer block
UPDATE rate_limit_policies SET block_for = '3 hours' WHERE policy = 'block_for:p' AND rule = 'other';
UPDATE rate_limit_policies SET "limit" = 2 WHERE policy = 'block_for:p';
SELECT r.allowed, r.used FROM rate_limit_enforce('block_for:p', 'block_for:c', 2) r;
SELECT r.allowed, r.retry_after BETWEEN 10790 AND 10800 AS in_three_hours, r.rule FROM rate_limit_enforce('block_for:p', 'block_for:c') r;
SELECT until - blocked_at AS duration, reason FROM rate_limit_blocks WHERE key = 'block_for:c';
-- a block is lifted by hand only, or by its end
SELECT rate_limit_reset('block_for:c');
SELECT r.allowed, r.rule FROM rate_limit_enforce('block_for:p', 'block_for:c') r;
SELECT rate_limit_unblock('block_for:c');
SELECT r.allowed, r.rule FROM rate_limit_enforce('block_for:p', 'block_for:c') r;

-- shorter than the window: the call waits for the limit after the block has ended
UPDATE rate_limit_policies SET block_for = '1 min', "window" = '1 hour' WHERE policy = 'block_for:p' AND rule = 'login';
UPDATE rate_limit_policies SET mode = 'off' WHERE policy = 'block_for:p' AND rule = 'other';
SELECT r.allowed FROM rate_limit_enforce('block_for:p', 'block_for:d', 2) r;
SELECT r.allowed, r.retry_after BETWEEN 3590 AND 3600 AS in_an_hour, r.reset_at < now() + interval '2 min' AS end_of_block, r.rule
FROM rate_limit_enforce('block_for:p', 'block_for:d') r;

-- a block refuses by whatever policy, with and without a limit
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", mode) VALUES
    ('block_for:open', 'a', NULL, '1 min', 'enforce'), ('block_for:shadow', 'a', 5, '1 min', 'shadow');
SELECT p, r.allowed, r.limit, r.used, r.remaining, r.retry_after BETWEEN 40 AND 60 AS in_a_minute, r.rule
FROM unnest('{block_for:open,block_for:shadow}'::text[]) p, rate_limit_enforce(p, 'block_for:d') r;
SELECT rate_limit_unblock('block_for:d');
SELECT p, r.allowed, r.limit, r.used, r.remaining, r.retry_after, r.rule
FROM unnest('{block_for:open,block_for:shadow}'::text[]) p, rate_limit_enforce(p, 'block_for:d') r;

DELETE FROM rate_limit_policies WHERE policy LIKE 'block_for:%';
