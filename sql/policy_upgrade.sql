-- policy_upgrade: a user's plan or a plan's limit changes in mid-window
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
INSERT INTO rate_limit_policies (policy, "limit", "window", algorithm, store)
SELECT concat_ws(' ', 'upgrade:', a, s), 4, '1 hour', a, s
FROM unnest('{sliding_window,fixed_window,anchored_window,token_bucket}'::text[]) a, unnest('{memory,table}'::text[]) s;

-- for each algorithm the answers m minutes after noon to a call of a cost, the
-- limit having been set to another before; both stores must say the same
CREATE FUNCTION pg_temp.answers(a text, key text) RETURNS TABLE (m int, "limit" bigint, cost int, answer text, stores bigint)
LANGUAGE plpgsql AS $$
BEGIN
    FOR m, "limit", cost IN VALUES
        -- used up, then twice as much, which unblocks at once
        (0, 4, 4), (10, 4, 1), (10, 8, 1), (11, 8, 3), (11, 8, 1),
        -- less than is used: refused at once, nothing remains, and not less than nothing
        (12, 4, 1), (12, 4, 0), (13, 1, 1), (13, 0, 1), (13, 0, 0),
        -- back again: refusals have not been counted
        (14, 9, 1), (14, 9, 1), (14, NULL, 1000), (14, 9, 0),
        -- an hour after the first calls
        (60, 4, 1), (69, 9, 1) LOOP
        UPDATE rate_limit_policies p SET "limit" = answers."limit" WHERE p.policy LIKE concat_ws(' ', 'upgrade:', a, '%');
        RETURN QUERY
            SELECT answers.m, answers."limit", answers.cost, s.row, count(*)
            FROM (SELECT concat_ws(' ', CASE WHEN r.allowed THEN 'yes' ELSE 'no' END, r.limit, r.used, r.remaining,
                      coalesce(round(r.retry_after::numeric, 6)::text, 'never')) AS row
                  FROM rate_limit_policies p, rate_limit_enforce_at(timestamptz '2099-03-01 12:00Z' + answers.m * interval '1 min', p.policy, key, answers.cost) r
                  WHERE p.policy LIKE concat_ws(' ', 'upgrade:', a, '%')) s
            GROUP BY s.row;
    END LOOP;
END $$;
SELECT * FROM pg_temp.answers('sliding_window', 'upgrade:a');
SELECT * FROM pg_temp.answers('fixed_window', 'upgrade:a');
SELECT * FROM pg_temp.answers('anchored_window', 'upgrade:a');
-- a bucket keeps its tokens: a larger one is filled faster, a smaller one holds fewer
SELECT * FROM pg_temp.answers('token_bucket', 'upgrade:a');

-- the same by an override that comes, ends and goes
UPDATE rate_limit_policies SET "limit" = 4 WHERE policy LIKE 'upgrade:%';
CREATE FUNCTION pg_temp.call(at text, cost int) RETURNS TABLE (answer text, policies bigint) LANGUAGE sql AS $$
    SELECT concat_ws(' ', r.allowed, r.limit, r.used, r.remaining), count(*)
    FROM rate_limit_policies p, rate_limit_enforce_at(('2099-03-01 ' || at)::timestamptz, p.policy, 'upgrade:b', cost) r
    WHERE p.policy LIKE 'upgrade:%' AND p.algorithm <> 'token_bucket' GROUP BY 1
$$;
SELECT * FROM pg_temp.call('12:00Z', 4);
SELECT * FROM pg_temp.call('12:01Z', 1);
INSERT INTO rate_limit_overrides (key, "limit", expires_at, reason) VALUES ('upgrade:b', 6, '2099-03-01 12:10Z', 'test');
SELECT * FROM pg_temp.call('12:02Z', 2);
SELECT * FROM pg_temp.call('12:02Z', 1);
SELECT * FROM pg_temp.call('12:09:59.999999Z', 0);
SELECT * FROM pg_temp.call('12:10Z', 1);
UPDATE rate_limit_overrides SET expires_at = NULL, "limit" = 0 WHERE key = 'upgrade:b';
SELECT * FROM pg_temp.call('12:11Z', 1);
DELETE FROM rate_limit_overrides WHERE key = 'upgrade:b';
SELECT * FROM pg_temp.call('12:12Z', 1);

-- a plan is a join: another plan has counters of its own, and so unblocks at once
CREATE TEMP TABLE users AS SELECT 1 AS id, 'upgrade: sliding_window memory' AS plan;
SELECT r.allowed, r.limit, r.used FROM users u, rate_limit_enforce(u.plan, 'upgrade:user', 4) r;
SELECT r.allowed, r.limit, r.used FROM users u, rate_limit_enforce(u.plan, 'upgrade:user', 1) r;
UPDATE users SET plan = 'upgrade: anchored_window table';
SELECT r.allowed, r.limit, r.used FROM users u, rate_limit_enforce(u.plan, 'upgrade:user', 1) r;
UPDATE users SET plan = 'upgrade: sliding_window memory';
SELECT r.allowed, r.limit, r.used FROM users u, rate_limit_enforce(u.plan, 'upgrade:user', 1) r;

SELECT rate_limit_reset_prefix('upgrade:') > 0 AS reset;
DELETE FROM rate_limit_policies WHERE policy LIKE 'upgrade:%';
DELETE FROM rate_limit_overrides WHERE reason = 'test';
