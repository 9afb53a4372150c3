-- rate_limit.mode: the operator's switch for all limits
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SELECT r.allowed, r.used FROM unnest('{1,1,1}'::int[]) cost, rate_limit_check('modes:a', 2, '1 hour', cost) r;
SELECT rate_limit_block('modes:blocked', '1 hour');
SHOW rate_limit.mode;

-- shadow: what would be refused passes, is not recorded, and is counted
SET rate_limit.mode = shadow;
SELECT r.allowed, r.limit, r.used, r.remaining, r.retry_after
FROM unnest('{1,1,1}'::int[]) cost, rate_limit_check('modes:a', 2, '1 hour', cost) r;
SELECT "limit", used, refusals FROM rate_limit_keys WHERE key = 'modes:a';
SELECT rate_limit_allowed('modes:a', 2, '1 hour'), rate_limit_allowed('modes:a', 0, '1 hour'),
       rate_limit_allowed('modes:blocked', 2, '1 hour');
SELECT rate_limit_require('modes:a', 2, '1 hour');
SELECT r.allowed, r.used, r.retry_after FROM rate_limit_check('modes:a', 2, '1 hour', 99) r;
SELECT ord, allowed, used, retry_after FROM rate_limit_check_all('{modes:a,modes:new}', '{2,2}', '{1 hour,1 hour}');
SELECT key, used, refusals FROM rate_limit_keys WHERE key LIKE 'modes:%' ORDER BY key;
SELECT refusals FROM rate_limit_blocks WHERE key = 'modes:blocked';
-- what would pass is recorded as ever
SELECT r.allowed, r.used, r.remaining FROM unnest('{1,1}'::int[]) cost, rate_limit_check('modes:b', 2, '1 hour', cost) r;

-- fault 30: the same calls, one key enforced, one in shadow: the same counter
RESET rate_limit.mode;
CREATE FUNCTION pg_temp.calls(key text, OUT allowed bigint) LANGUAGE sql AS
$$
SELECT count(*) FILTER (WHERE r.allowed)
FROM generate_series(0, 99) n,
    rate_limit_check_at('2100-01-01 12:00Z'::timestamptz + n * interval '1.7 s', key, 10, '1 min', 1 + n % 3) r
$$;
SELECT pg_temp.calls('modes:live') < 100 AS some_refused;
SET rate_limit.mode = shadow;
SELECT pg_temp.calls('modes:shadow') AS passed;
RESET rate_limit.mode;
SELECT count(*) AS counters, count(DISTINCT (used, refusals, "limit")) AS different, min(refusals) > 0 AS refusals
FROM rate_limit_keys WHERE key IN ('modes:live', 'modes:shadow');

-- off: everything passes, nothing is recorded
SET rate_limit.mode = off;
SELECT r.allowed, r.limit, r.retry_after FROM unnest('{1,1,1}'::int[]) cost, rate_limit_check('modes:off', 2, '1 hour', cost) r;
SELECT rate_limit_allowed('modes:a', 2, '1 hour'), rate_limit_allowed('modes:off', 0, '1 hour'),
       rate_limit_allowed('modes:off', 2, '1 hour', 3), rate_limit_allowed('modes:blocked', 2, '1 hour');
SELECT rate_limit_require('modes:blocked', 2, '1 hour');
SELECT ord, allowed, retry_after FROM rate_limit_check_all('{modes:a,modes:off}', '{2,2}', '{1 hour,1 hour}');
SELECT allowed FROM rate_limit_adjust('modes:off', 2, '1 hour', 5);
SELECT r.allowed, r.retry_after FROM rate_limit_peek('modes:a', 2, '1 hour') r;

-- fault 3: a mistake is a mistake in these modes too
\set VERBOSITY sqlstate
SELECT rate_limit_allowed(NULL, 2, '1 hour');
SELECT rate_limit_allowed('modes:off', NULL, '1 hour');
SELECT rate_limit_allowed('modes:off', -1, '1 hour');
SELECT rate_limit_allowed('modes:off', 2, '0');
SELECT rate_limit_allowed('modes:off', 2, '1 hour', 1, 'nonsense');
SELECT * FROM rate_limit_check_all('{modes:off}', '{2,2}', '{1 hour}');
SET rate_limit.mode = shadow;
SELECT rate_limit_allowed(NULL, 2, '1 hour');
SELECT rate_limit_allowed('modes:off', -1, '1 hour');
\set VERBOSITY default

-- back: what was counted before is there, what was called meanwhile is not
RESET rate_limit.mode;
SELECT count(*) FROM rate_limit_keys WHERE key = 'modes:off';
SELECT used, refusals FROM rate_limit_keys WHERE key = 'modes:a';
SELECT r.allowed, r.rule FROM rate_limit_check('modes:blocked', 2, '1 hour') r;
SELECT rate_limit_unblock('modes:blocked');
