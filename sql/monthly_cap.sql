-- monthly_cap: tokens per calendar month of a plan, checked before every turn
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, time_zone) VALUES
    ('cap:utc',     'month', 1000, '1 month', 'fixed_window', NULL),
    ('cap:berlin',  'month', 1000, '1 month', 'fixed_window', 'Europe/Berlin'),
    ('cap:angeles', 'month', 1000, '1 month', 'fixed_window', 'America/Los_Angeles');

-- 31 January to 1 February in UTC: used up in the last microsecond, all there at midnight
SELECT n, at, r.*
FROM (VALUES
    (1, timestamptz '2025-01-01 00:00Z', 400), (2, '2025-01-31 23:59:58Z', 600), (3, '2025-01-31 23:59:59.999999Z', 1),
    (4, '2025-02-01 00:00Z', 1000), (5, '2025-02-01 00:00:01Z', 1)) v(n, at, tokens),
    rate_limit_enforce_at(at, 'cap:utc', 'cap:a', tokens) r ORDER BY n;

-- February has 28 or 29 days: what is used on the 28th still counts on the 29th
SELECT n, at, r.allowed, r.used, r.remaining, r.retry_after, r.reset_at
FROM (VALUES
    (1, timestamptz '2023-02-28 12:00Z', 990), (2, '2023-02-28 12:00:01Z', 20), (3, '2023-03-01 00:00Z', 20),
    (4, '2024-02-28 12:00Z', 990), (5, '2024-02-29 12:00Z', 20), (6, '2024-03-01 00:00Z', 20)) v(n, at, tokens),
    rate_limit_enforce_at(at, 'cap:utc', 'cap:leap ' || extract(year FROM at), tokens) r ORDER BY n;

-- a time zone: months begin at local midnight, in winter an hour before that of
-- UTC in Berlin and eight hours after in Los Angeles
SELECT n, policy, at, r.allowed, r.used, r.remaining, r.retry_after, r.reset_at
FROM (VALUES
    (1, 'cap:berlin',  timestamptz '2025-01-31 22:59:59Z', 1000),
    (2, 'cap:berlin',  '2025-01-31 22:59:59.5Z', 1),
    (3, 'cap:berlin',  '2025-01-31 23:00Z', 1),
    (4, 'cap:angeles', '2025-02-01 07:59:59Z', 1000),
    (5, 'cap:angeles', '2025-02-01 07:59:59.5Z', 1),
    (6, 'cap:angeles', '2025-02-01 08:00Z', 1)) v(n, policy, at, tokens),
    rate_limit_enforce_at(at, policy, 'cap:zone', tokens) r ORDER BY n;

-- the clock changes within the month.  In Berlin March 2025 begins at 23:00 UTC and
-- ends at 22:00, October begins at 22:00 and ends at 23:00; retry_after counts
-- the hours that pass: from noon UTC on the day of the change to the end of the month
SELECT n, at, r.allowed, r.used, r.remaining, r.retry_after / 3600 AS retry_hours, r.reset_at
FROM (VALUES
    (1, timestamptz '2025-02-28 23:00Z', 900), (2, '2025-03-30 00:59:59Z', 50), (3, '2025-03-30 01:00Z', 50),
    (4, '2025-03-30 12:00Z', 1), (5, '2025-03-31 22:00Z', 1),
    (6, '2025-09-30 22:00Z', 900), (7, '2025-10-26 00:30Z', 50), (8, '2025-10-26 01:30Z', 50),
    (9, '2025-10-26 12:00Z', 1), (10, '2025-10-31 22:59:59Z', 1), (11, '2025-10-31 23:00Z', 1)) v(n, at, tokens),
    rate_limit_enforce_at(at, 'cap:berlin', 'cap:dst', tokens) r ORDER BY n;
-- in Los Angeles March 2025 lasts from 08:00 to 07:00 UTC, November from 07:00 to 08:00
SELECT n, at, r.allowed, r.used, r.remaining, r.retry_after / 3600 AS retry_hours, r.reset_at
FROM (VALUES
    (1, timestamptz '2025-03-01 08:00Z', 950), (2, '2025-03-09 09:59:59Z', 25), (3, '2025-03-09 10:00Z', 25),
    (4, '2025-03-09 12:00Z', 1), (5, '2025-04-01 07:00Z', 1),
    (6, '2025-11-01 07:00Z', 950), (7, '2025-11-02 08:30Z', 25), (8, '2025-11-02 09:30Z', 25),
    (9, '2025-11-02 12:00Z', 1), (10, '2025-12-01 07:59:59Z', 1), (11, '2025-12-01 08:00Z', 1)) v(n, at, tokens),
    rate_limit_enforce_at(at, 'cap:angeles', 'cap:dst', tokens) r ORDER BY n;

-- an upgrade in mid-month acts on the next turn, a downgrade too; what was used stays
SELECT r.allowed, r.used, r.remaining FROM rate_limit_enforce_at('2025-05-10 12:00Z', 'cap:utc', 'cap:upgrade', 1000) r;
SELECT r.allowed, r.retry_after / 86400 AS retry_days FROM rate_limit_enforce_at('2025-05-10 12:00Z', 'cap:utc', 'cap:upgrade', 500) r;
UPDATE rate_limit_policies SET "limit" = 5000 WHERE policy = 'cap:utc';
SELECT r.allowed, r.limit, r.used, r.remaining FROM rate_limit_enforce_at('2025-05-10 12:00:01Z', 'cap:utc', 'cap:upgrade', 500) r;
UPDATE rate_limit_policies SET "limit" = 1000 WHERE policy = 'cap:utc';
SELECT r.allowed, r.limit, r.used, r.remaining, r.reset_at FROM rate_limit_enforce_at('2025-05-10 12:00:02Z', 'cap:utc', 'cap:upgrade', 0) r;

-- the cap besides a limit per minute: requests and tokens are policies of their own
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, time_zone) VALUES
    ('cap:requests', 'minute', 2, '1 min', 'sliding_window', NULL),
    ('cap:requests', 'month', 3, '1 month', 'fixed_window', 'Europe/Berlin');
SELECT s, r.*
FROM unnest('{0,1,2,60,120}'::int[]) s,
    rate_limit_enforce_at('2025-12-31 22:58Z'::timestamptz + s * interval '1 s', 'cap:requests', 'cap:a') r;

-- overage: what a turn has used in the end is recorded, and the next one waits
SELECT r.allowed, r.limit, r.used FROM rate_limit_enforce('cap:utc', 'cap:overage', 900) r;
SELECT allowed, "limit", used, remaining, rule FROM rate_limit_enforce_adjust('cap:utc', 'cap:overage', 350);
SELECT r.allowed, r.used, r.remaining, r.reset_at = date_trunc('month', now()) + interval '1 month' AS end_of_month, r.rule
FROM rate_limit_enforce('cap:utc', 'cap:overage') r;

DELETE FROM rate_limit_policies WHERE policy LIKE 'cap:%';
