-- policies_memory: rules whose counters are in shared memory, apart from the transaction
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", store, block_for) VALUES
    ('in_memory:api', 'hour', 3, '1 hour', 'memory', NULL),
    ('in_memory:login', 'hour', 1, '1 hour', 'memory', '2 hours'),
    ('in_memory:mixed', 'a', 2, '1 hour', 'memory', NULL), ('in_memory:mixed', 'b', 3, '1 hour', 'table', NULL);

-- fault 28: what PostgREST runs for a GET, which it must not write in
BEGIN READ ONLY;
SET LOCAL "request.method" = 'GET';
SELECT rate_limit_postgrest('in_memory:api', 'in_memory:a');
SELECT current_setting('response.headers')::json -> 0 IS NOT NULL AS headers;
COMMIT;
-- an error of the statement itself: the call still counts
BEGIN READ ONLY;
SELECT rate_limit_postgrest('in_memory:api', 'in_memory:a');
SELECT 1 / 0;
ROLLBACK;
SELECT rule, used, remaining FROM rate_limit_usage('in_memory:api', 'in_memory:a');
-- the same for a POST
BEGIN;
SELECT rate_limit_postgrest('in_memory:api', 'in_memory:a');
ROLLBACK;
SELECT rule, used, remaining FROM rate_limit_usage('in_memory:api', 'in_memory:a');
-- the next one is refused, and the one after the rollback too
BEGIN READ ONLY;
\set VERBOSITY sqlstate
SELECT rate_limit_postgrest('in_memory:api', 'in_memory:a');
ROLLBACK;
BEGIN;
SELECT rate_limit_postgrest('in_memory:api', 'in_memory:a');
\set VERBOSITY default
ROLLBACK;
SELECT rule, used, remaining FROM rate_limit_usage('in_memory:api', 'in_memory:a');
SELECT count(*) FROM rate_limit_state WHERE key = 'in_memory:a';

-- a block stays when the refused transaction rolls back
SELECT r.allowed FROM rate_limit_enforce('in_memory:login', 'in_memory:b') r;
BEGIN;
SELECT r.allowed, r.retry_after BETWEEN 7190 AND 7200 AS in_two_hours, r.rule FROM rate_limit_enforce('in_memory:login', 'in_memory:b') r;
ROLLBACK;
SELECT reason FROM rate_limit_blocks WHERE key = 'in_memory:b';
SELECT r.allowed, r.rule FROM rate_limit_enforce('in_memory:api', 'in_memory:b') r;
SELECT rate_limit_unblock('in_memory:b');

-- both stores in one policy: all or nothing
SELECT n, r.allowed, r.used, r.rule
FROM generate_series(1, 3) n, rate_limit_enforce('in_memory:mixed', 'in_memory:c', sign(n)::int) r;
SELECT rule, used FROM rate_limit_usage('in_memory:mixed', 'in_memory:c');
UPDATE rate_limit_policies SET "limit" = 9 WHERE policy = 'in_memory:mixed' AND rule = 'a';
SELECT n, r.allowed, r.used, r.rule
FROM generate_series(1, 2) n, rate_limit_enforce('in_memory:mixed', 'in_memory:c', sign(n)::int) r;
SELECT rule, used FROM rate_limit_usage('in_memory:mixed', 'in_memory:c');
-- a rule in the table keeps the policy from being enforced where nothing may be
-- written, and then nothing is charged in memory either
UPDATE rate_limit_policies SET "limit" = 9 WHERE policy = 'in_memory:mixed';
BEGIN READ ONLY;
SELECT rate_limit_enforce('in_memory:mixed', 'in_memory:c');
ROLLBACK;
BEGIN READ ONLY;
SELECT rate_limit_enforce_adjust('in_memory:mixed', 'in_memory:c', 1);
ROLLBACK;
SELECT rule, used FROM rate_limit_usage('in_memory:mixed', 'in_memory:c');
-- a rollback gives back what is in the table, not what is in memory
BEGIN;
SELECT r.allowed, r.used FROM rate_limit_enforce('in_memory:mixed', 'in_memory:c', 2) r;
ROLLBACK;
SELECT rule, used FROM rate_limit_usage('in_memory:mixed', 'in_memory:c');

-- the default store of the setting is that of rules which name none
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('in_memory:default', 5, '1 hour');
SELECT r.used FROM rate_limit_enforce('in_memory:default', 'in_memory:d') r;
SET rate_limit.store = 'table';
SELECT r.used FROM rate_limit_enforce('in_memory:default', 'in_memory:d') r;
RESET rate_limit.store;
SELECT r.used FROM rate_limit_enforce('in_memory:default', 'in_memory:d') r;
SELECT store, policy, used FROM rate_limit_keys WHERE key = 'in_memory:d' ORDER BY store;

DELETE FROM rate_limit_policies WHERE policy LIKE 'in\_memory:%';
