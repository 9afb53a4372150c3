-- enforce_rules: several rules, all or nothing, and the row of the tightest
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, time_zone) VALUES
    ('rules:p', 'day',    8,  '1 day',  'fixed_window',   'UTC'),
    ('rules:p', 'hour',   6,  '1 hour', 'sliding_window', NULL),
    ('rules:p', 'minute', 3,  '1 min',  'sliding_window', NULL);

-- at 12:00:00, 10, 20 three pass; at 30 the minute is full until 12:01:00.  Then
-- one per leaving hit, until the hour is full with 6 and refuses until 13:00
SELECT at::time, r.*
FROM unnest('{12:00:00,12:00:10,12:00:20,12:00:30,12:01:00,12:01:05,12:01:10,12:01:20,12:01:30}'::time[]) at,
    rate_limit_enforce_at('2024-03-01Z'::timestamptz + at, 'rules:p', 'rules:a') r;
-- at 13:00:20 the hits up to then have left the hour; the day has two left, and
-- then refuses until midnight
SELECT at::time, r.*
FROM unnest('{13:00:20,13:00:30,13:00:40}'::time[]) at,
    rate_limit_enforce_at('2024-03-01Z'::timestamptz + at, 'rules:p', 'rules:a') r;
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 23:59:59.999999Z', 'rules:p', 'rules:a') r;
SELECT r.* FROM rate_limit_enforce_at('2024-03-02 00:00Z', 'rules:p', 'rules:a') r;

-- costs: 4 is above the minute's limit and never admitted, though others have room
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'rules:p', 'rules:cost', 4) r;
SELECT count(*) FROM rate_limit_keys WHERE key = 'rules:cost';
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'rules:p', 'rules:cost', 3) r;
-- a look says what is left of the tightest
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'rules:p', 'rules:cost', 0) r;

-- fault 13: what one rule refuses is charged to none
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm) VALUES
    ('rules:none', 'a', 9, '1 hour', 'sliding_window'), ('rules:none', 'b', 2, '2 hours', 'anchored_window'),
    ('rules:none', 'c', 9, '3 hours', 'token_bucket'), ('rules:none', 'd', 3, '4 hours', 'sliding_window');
SELECT n, r.allowed, r.limit, r.used, r.remaining, r.rule
FROM generate_series(1, 5) n, rate_limit_enforce('rules:none', 'rules:charged', sign(n)::int) r;
SELECT rule, used, remaining FROM rate_limit_usage('rules:none', 'rules:charged');
UPDATE rate_limit_policies SET "limit" = 9 WHERE policy = 'rules:none' AND rule = 'b';
SELECT n, r.allowed, r.limit, r.used, r.remaining, r.rule
FROM generate_series(1, 3) n, rate_limit_enforce('rules:none', 'rules:charged', sign(n)::int) r;
SELECT rule, used, remaining FROM rate_limit_usage('rules:none', 'rules:charged');

-- refused by two: the one that refuses longest, never being the longest
INSERT INTO rate_limit_policies (policy, rule, "limit", "window") VALUES
    ('rules:two', 'a', 2, '1 min'), ('rules:two', 'b', 2, '1 hour'), ('rules:two', 'c', 9, '2 hours');
SELECT cost, r.*
FROM (VALUES (1, 2), (2, 1), (3, 3), (4, 10)) v(n, cost),
    rate_limit_enforce_at('2024-03-01 12:00Z', 'rules:two', 'rules:a', cost) r ORDER BY n;
UPDATE rate_limit_policies SET "limit" = 0 WHERE policy = 'rules:two' AND rule = 'c';
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'rules:two', 'rules:a') r;

-- ties go by the later reset, then by the name byte for byte
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm) VALUES
    ('rules:tie', 'b', 2, '1 hour', 'sliding_window'), ('rules:tie', 'B', 2, '1 hour', 'anchored_window'),
    ('rules:tie', 'a', 2, '1 min', 'sliding_window');
SELECT n, r.*
FROM generate_series(1, 3) n,
    rate_limit_enforce_at('2024-03-01 12:00:00Z'::timestamptz + n * interval '1 s', 'rules:tie', 'rules:a') r;

-- unlimited is the least tight
INSERT INTO rate_limit_policies (policy, rule, "limit", "window") VALUES
    ('rules:open', 'a', NULL, '1 hour'), ('rules:open', 'b', 1000000, '1 min');
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'rules:open', 'rules:a') r;
SELECT policy, rule FROM rate_limit_keys WHERE key = 'rules:a' AND policy = 'rules:open';
UPDATE rate_limit_policies SET mode = 'off' WHERE policy = 'rules:open' AND rule = 'b';
SELECT r.* FROM rate_limit_enforce_at('2024-03-01 12:00Z', 'rules:open', 'rules:a') r;

-- rules of every algorithm, each with its own counter
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, burst) VALUES
    ('rules:all', 'anchored', 5, '1 hour', 'anchored_window', NULL),
    ('rules:all', 'bucket',   60, '1 hour', 'token_bucket', 3),
    ('rules:all', 'fixed',    5, '1 hour', 'fixed_window', NULL),
    ('rules:all', 'sliding',  5, '1 hour', 'sliding_window', NULL);
SELECT at::time, r.*
FROM unnest('{12:30,12:30,12:30,12:30,12:31,12:32,13:00}'::time[]) at,
    rate_limit_enforce_at('2024-03-01Z'::timestamptz + at, 'rules:all', 'rules:a') r;

-- adjusting: in every rule, whatever the limits say
UPDATE rate_limit_policies SET "limit" = 9 WHERE policy = 'rules:two' AND rule = 'c';
SELECT allowed, "limit", used, remaining, retry_after, rule FROM rate_limit_enforce_adjust('rules:two', 'rules:adjust', 3);
SELECT rule, allowed, "limit", used, remaining FROM rate_limit_usage('rules:two', 'rules:adjust');
SELECT allowed, used, remaining, rule FROM rate_limit_enforce_adjust('rules:two', 'rules:adjust', -2);
SELECT rule, allowed, "limit", used, remaining FROM rate_limit_usage('rules:two', 'rules:adjust');
SELECT allowed, used, remaining FROM rate_limit_enforce_adjust('rules:two', 'rules:adjust', -100);
SELECT count(*) FROM rate_limit_keys WHERE key = 'rules:adjust';

DELETE FROM rate_limit_policies WHERE policy LIKE 'rules:%';
