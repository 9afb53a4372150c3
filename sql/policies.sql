-- policies: limits that are rows, each with counters of its own
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('policies:free', 3, '1 min');
INSERT INTO rate_limit_policies (policy, "limit", "window", algorithm, burst, time_zone)
VALUES ('policies:pro', 5, '1 day', 'fixed_window', NULL, 'Europe/Berlin'),
       ('policies:bucket', 60, '1 hour', 'token_bucket', 2, NULL);
SELECT policy, rule, algorithm, store, block_for, mode, is_fallback
FROM rate_limit_policies WHERE policy = 'policies:free';

-- one call a second against 3 per minute: three pass, the fourth waits for the
-- first to be a minute old
SELECT n, r.*
FROM generate_series(0, 3) n,
    rate_limit_enforce_at('2024-03-01 12:00:00Z'::timestamptz + n * interval '1 s', 'policies:free', 'policies:a') r
ORDER BY n;
-- admitted at that instant, not a microsecond earlier
SELECT n, r.*
FROM (VALUES (1, timestamptz '2024-03-01 12:00:59.999999Z'), (2, '2024-03-01 12:01:00Z')) v(n, at),
    rate_limit_enforce_at(at, 'policies:free', 'policies:a') r
ORDER BY n;

-- windows, time zones and bursts are those of the row: in Berlin a day ends at
-- 23:00 UTC, and a bucket of 2 gains a token per minute
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'policies:pro', 'policies:a', 2) r;
SELECT r.*
FROM unnest('{1,1,1}'::int[]) cost, rate_limit_enforce_at('2024-03-01 12:00Z', 'policies:bucket', 'policies:a', cost) r;

-- a policy has counters of its own: apart from other policies with the same
-- window, and from calls without a policy
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('policies:other', 3, '1 min');
SELECT r.used FROM rate_limit_enforce('policies:free', 'policies:apart', 2) r;
SELECT r.used FROM rate_limit_enforce('policies:other', 'policies:apart') r;
SELECT r.used FROM rate_limit_check('policies:apart', 3, '1 min', 3) r;
SELECT r.used FROM rate_limit_enforce('policies:free', 'policies:apart') r;
SELECT key, policy, rule, algorithm, "window", "limit", used
FROM rate_limit_keys WHERE key = 'policies:apart' ORDER BY policy;
-- a reset of the key is one of all of them
SELECT rate_limit_reset('policies:apart');
SELECT count(*) FROM rate_limit_keys WHERE key = 'policies:apart';
SELECT r.used FROM rate_limit_enforce('policies:free', 'policies:apart') r;
SELECT rate_limit_reset_prefix('policies:apart');

-- a change acts on the next call: raised, lowered, back again
SELECT r.allowed, r.used, r.remaining FROM rate_limit_enforce('policies:free', 'policies:change', 3) r;
SELECT r.allowed, r.used, r.remaining FROM rate_limit_enforce('policies:free', 'policies:change') r;
UPDATE rate_limit_policies SET "limit" = 10 WHERE policy = 'policies:free';
SELECT r.allowed, r.limit, r.used, r.remaining FROM rate_limit_enforce('policies:free', 'policies:change') r;
UPDATE rate_limit_policies SET "limit" = 2 WHERE policy = 'policies:free';
SELECT r.allowed, r.limit, r.used, r.remaining FROM rate_limit_enforce('policies:free', 'policies:change') r;
-- another window is another counter
UPDATE rate_limit_policies SET "window" = '2 min' WHERE policy = 'policies:free';
SELECT r.allowed, r.limit, r.used, r.remaining FROM rate_limit_enforce('policies:free', 'policies:change') r;
-- within a transaction too, and not when it has rolled back
BEGIN;
UPDATE rate_limit_policies SET "limit" = NULL WHERE policy = 'policies:free';
SELECT r.allowed, r.limit, r.used, r.remaining FROM rate_limit_enforce('policies:free', 'policies:change', 1000) r;
ROLLBACK;
SELECT r.allowed, r.limit, r.used, r.remaining FROM rate_limit_enforce('policies:free', 'policies:change', 1000) r;

-- limits: 0 is never, NULL is unlimited and records nothing
INSERT INTO rate_limit_policies (policy, "limit", "window")
VALUES ('policies:never', 0, '1 min'), ('policies:unlimited', NULL, '1 min');
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'policies:never', 'policies:a') r;
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'policies:unlimited', 'policies:a', 1000000) r;
SELECT count(*) FROM rate_limit_keys WHERE policy IN ('policies:never', 'policies:unlimited');

-- a cost of 0 is a look; one above the limit is never admitted and not recorded
SELECT n, r.*
FROM (VALUES (1, 0), (2, 6), (3, 5), (4, 0)) v(n, cost),
    rate_limit_enforce_at('2024-03-03 12:00Z', 'policies:pro', 'policies:cost', cost) r
ORDER BY n;

-- a policy that is off admits and records nothing
UPDATE rate_limit_policies SET mode = 'off' WHERE policy = 'policies:never';
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'policies:never', 'policies:a') r;

-- a plan is a join
CREATE TEMP TABLE users (id int, plan text);
INSERT INTO users VALUES (1, 'policies:never'), (2, 'policies:other'), (3, 'policies:unlimited');
UPDATE rate_limit_policies SET mode = 'enforce' WHERE policy = 'policies:never';
SELECT u.id, r.allowed, r.limit, r.used, r.remaining
FROM users u, rate_limit_enforce(u.plan, 'policies:user:' || u.id) r ORDER BY u.id;
UPDATE users SET plan = 'policies:other' WHERE id = 1;
SELECT r.allowed, r.limit FROM users u, rate_limit_enforce(u.plan, 'policies:user:' || u.id) r WHERE u.id = 1;

-- untyped parameters resolve
PREPARE enforce AS SELECT r.allowed, r.used FROM rate_limit_enforce($1, $2, $3) r;
EXECUTE enforce('policies:other', 'policies:prepared', 2);
EXECUTE enforce('policies:other', 'policies:prepared', 2);
DEALLOCATE enforce;

-- errors: nulls and bad values, before anything is looked up
SELECT rate_limit_enforce(NULL, 'policies:a');
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_enforce('policies:none', NULL);
SELECT rate_limit_enforce('policies:none', 'policies:a', NULL);
SELECT rate_limit_enforce('policies:none', '');
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_enforce('policies:none', repeat('x', 1025));
SELECT rate_limit_enforce('policies:none', 'policies:a', -1);
SELECT rate_limit_enforce_at(NULL, 'policies:pro', 'policies:a');
SELECT rate_limit_enforce_at('infinity', 'policies:pro', 'policies:a');
SELECT rate_limit_enforce_adjust(NULL, 'policies:a', 1);
SELECT rate_limit_enforce_adjust('policies:none', 'policies:a', NULL);
SELECT rate_limit_usage(NULL, 'policies:a');
SELECT rate_limit_usage('policies:none', NULL);

DELETE FROM rate_limit_policies WHERE policy LIKE 'policies:%';
