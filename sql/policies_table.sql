-- policies_table: rules whose counters are rows, part of the transaction
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, store, time_zone) VALUES
    ('in_table:p', 'hour',  3, '1 hour',  'sliding_window', 'table', NULL),
    ('in_table:p', 'month', 9, '1 month', 'fixed_window',   'table', 'Europe/Berlin');

-- a row for each rule, and one for calls without a policy
SELECT r.allowed, r.used, r.rule FROM rate_limit_enforce('in_table:p', 'in_table:a', 2) r;
SELECT r.allowed, r.used, r.rule FROM rate_limit_check('in_table:a', 3, '1 hour', store => 'table') r;
SELECT key, policy, rule, algorithm, window_length, window_unit, time_zone, "limit"
FROM rate_limit_state WHERE key = 'in_table:a' ORDER BY policy, rule;
SELECT policy, rule, algorithm, time_zone, "limit", used, store
FROM rate_limit_keys WHERE key = 'in_table:a' ORDER BY policy, rule;

-- a rollback gives the call back in every rule, and so does one to a savepoint
BEGIN;
SELECT r.allowed, r.used, r.rule FROM rate_limit_enforce('in_table:p', 'in_table:a') r;
ROLLBACK;
BEGIN;
SAVEPOINT before;
SELECT r.allowed, r.used, r.rule FROM rate_limit_enforce('in_table:p', 'in_table:a') r;
ROLLBACK TO before;
SELECT rule, used FROM rate_limit_usage('in_table:p', 'in_table:a');
COMMIT;

-- fault 18: a refusal writes nothing, for no rule
SELECT string_agg(concat_ws(' ', rule, ctid, xmin, state), ', ' ORDER BY rule) AS rows
FROM rate_limit_state WHERE key = 'in_table:a' \gset
SELECT n, r.allowed, r.used, r.remaining, r.rule
FROM generate_series(1, 3) n, rate_limit_enforce('in_table:p', 'in_table:a', 1 + sign(n)::int) r;
SELECT string_agg(concat_ws(' ', rule, ctid, xmin, state), ', ' ORDER BY rule) = :'rows' AS unchanged
FROM rate_limit_state WHERE key = 'in_table:a';
-- nor does it make rows, and a call that costs nothing neither
SELECT r.allowed FROM rate_limit_enforce('in_table:p', 'in_table:new', 4) r;
SELECT r.allowed FROM rate_limit_enforce('in_table:p', 'in_table:new', 0) r;
SELECT count(*) FROM rate_limit_state WHERE key = 'in_table:new';

-- a limit of the month that is used up leaves the hour alone
UPDATE rate_limit_policies SET "limit" = 2 WHERE policy = 'in_table:p' AND rule = 'month';
SELECT r.allowed, r.used, r.rule FROM rate_limit_enforce('in_table:p', 'in_table:a') r;
SELECT rule, used, remaining FROM rate_limit_usage('in_table:p', 'in_table:a');

-- in a read-only transaction a check is an error, whether it would be admitted or
-- not; to look is none
BEGIN READ ONLY;
SELECT rule, used FROM rate_limit_usage('in_table:p', 'in_table:a');
SELECT rate_limit_enforce('in_table:p', 'in_table:new');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN READ ONLY;
SELECT rate_limit_enforce('in_table:p', 'in_table:a');
ROLLBACK;
BEGIN READ ONLY;
SELECT rate_limit_enforce_adjust('in_table:p', 'in_table:a', 1);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
-- unless there is nothing to record
INSERT INTO rate_limit_overrides (policy, key, "limit", reason) VALUES ('in_table:p', 'in_table:a', NULL, 'test');
BEGIN READ ONLY;
SELECT r.allowed, r.limit FROM rate_limit_enforce('in_table:p', 'in_table:a') r;
COMMIT;

-- a reset of the key removes the rows of its policies
SELECT rate_limit_reset('in_table:a');
SELECT count(*) FROM rate_limit_state WHERE key LIKE 'in\_table:%';

DELETE FROM rate_limit_policies WHERE policy LIKE 'in\_table:%';
DELETE FROM rate_limit_overrides WHERE reason = 'test';
