-- a clock that is set back locks no key out, however many rules its policy has
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
-- a rule of 2 and one of 9 per minute, in every algorithm and combination of
-- stores, and the smaller one in shadow mode as well
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, store, mode)
SELECT concat_ws(' ', 'steps:', a, s, t, mode), r, CASE r WHEN 'small' THEN 2 ELSE 9 END, '1 min', a,
       CASE r WHEN 'small' THEN s ELSE t END, CASE r WHEN 'small' THEN mode ELSE 'enforce' END
FROM unnest('{sliding_window,fixed_window,anchored_window,token_bucket}'::text[]) a, unnest('{memory,table}'::text[]) s,
    unnest('{memory,table}'::text[]) t, unnest('{enforce,shadow}'::text[]) mode, unnest('{small,large}'::text[]) r;

-- s seconds after noon of a day, or, first, of one a year later
CREATE FUNCTION pg_temp.call(policy text, s numeric) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', r.allowed, r.limit, r.used, r.retry_after)
    FROM rate_limit_enforce_at(timestamptz '2099-03-01 12:00:00+00' + s * interval '1 second', policy, 'steps:key') r
$$;
CREATE FUNCTION pg_temp.answers(a text, m text) RETURNS TABLE (s numeric, answer text, policies bigint) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH s IN ARRAY '{31536000, 31536000, 0, 0, 59.999999, 60, 120}'::numeric[] LOOP
        RETURN QUERY
            SELECT answers.s, c, count(*)
            FROM (SELECT DISTINCT p.policy FROM rate_limit_policies p WHERE p.policy LIKE concat_ws(' ', 'steps:', a, '%', m)) p,
                pg_temp.call(p.policy, answers.s) c
            GROUP BY c ORDER BY c;
    END LOOP;
END $$;
-- fault 9: the hits of next year are taken as made now, by a refused call as well
SELECT * FROM pg_temp.answers('sliding_window', 'enforce');
SELECT * FROM pg_temp.answers('fixed_window', 'enforce');
SELECT * FROM pg_temp.answers('anchored_window', 'enforce');
SELECT * FROM pg_temp.answers('token_bucket', 'enforce');
-- fault 30: and by one that only would be refused
SELECT * FROM pg_temp.answers('sliding_window', 'shadow');
SELECT u.rule, u.shadow_refused, count(*) FROM rate_limit_stats u WHERE policy LIKE 'steps:%shadow' AND rule = 'small'
GROUP BY 1, 2 ORDER BY 2;

-- the same for rate_limit_check_all in the table
SET rate_limit.store = 'table';
SELECT ord, allowed, used FROM rate_limit_check_all('{steps:a,steps:b}', '{1,1}', '{1 min,1 min}');
UPDATE rate_limit_state SET state = ARRAY(SELECT w + 31536000000000 FROM unnest(state) w), expires_at = expires_at + interval '1 year'
WHERE key IN ('steps:a', 'steps:b');
SELECT ord, allowed, used, retry_after FROM rate_limit_check_all('{steps:a,steps:b}', '{1,1}', '{1 min,1 min}');
SELECT key, expires_at BETWEEN now() AND now() + interval '2 min' AS in_a_minute FROM rate_limit_state WHERE key IN ('steps:a', 'steps:b') ORDER BY key;
RESET rate_limit.store;

SELECT rate_limit_reset_prefix('steps:') > 0 AS reset;
DELETE FROM rate_limit_policies WHERE policy LIKE 'steps:%';
