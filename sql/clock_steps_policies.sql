-- fault 9: a clock that is set back locks no key out of a policy for longer than a window
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm)
SELECT 'back ' || a || n, 'rule ' || r, r, '1 min', a
FROM unnest('{sliding_window,fixed_window,anchored_window,token_bucket}'::text[]) a, generate_series(1, 2) n, generate_series(1, n) r;
SELECT a AS algorithm, n AS rules, string_agg(concat_ws(' ', allowed, retry_after), ', ' ORDER BY step) AS answers
FROM unnest('{sliding_window,fixed_window,anchored_window,token_bucket}'::text[]) a, generate_series(1, 2) n,
    LATERAL (SELECT step, r.allowed, r.retry_after
             FROM unnest(ARRAY[timestamptz '2100-01-01 00:00Z', '2099-01-01 00:00Z', '2099-01-01 00:00:59Z', '2099-01-01 00:02Z', '2099-01-02 00:00Z']) WITH ORDINALITY s(t, step),
                 rate_limit_enforce_at(t, 'back ' || a || n, 'key') r) answers
GROUP BY a, n ORDER BY a, n;
DELETE FROM rate_limit_policies WHERE policy LIKE 'back %';
SELECT rate_limit_reset('key') > 0 AS reset;
