-- blocks: a key that is refused whatever its counters say
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET IntervalStyle = 'postgres';

-- blocked without end
SELECT r.used FROM rate_limit_check('blocks:a', 5, '1 hour', 2) r;
SELECT rate_limit_block('blocks:a');
SELECT n, r.allowed, r.limit, r.used, r.remaining, r.retry_after, r.reset_at, r.rule
FROM (VALUES (1, 1), (2, 0), (3, 6)) v(n, cost), rate_limit_check('blocks:a', 5, '1 hour', cost) r
ORDER BY n;
SELECT r.allowed, r.limit, r.used, r.remaining, r.retry_after, r.reset_at, r.rule
FROM rate_limit_peek('blocks:a', 5, '1 hour') r;
SELECT rate_limit_allowed('blocks:a', 5, '1 hour');
-- for every window and algorithm; the limit of a bucket is its capacity
SELECT a, r.allowed, r.limit, r.used, r.remaining, r.retry_after, r.reset_at, r.rule
FROM (VALUES ('sliding_window', NULL), ('fixed_window', NULL), ('anchored_window', NULL),
             ('token_bucket', 7)) v(a, burst),
    rate_limit_check('blocks:a', 3, '1 min', 1, a, burst) r;

SELECT rate_limit_unblock('blocks:a') AS was_blocked;
SELECT rate_limit_unblock('blocks:a') AS was_blocked;
SELECT rate_limit_unblock('blocks:never') AS was_blocked;
-- what was refused is not recorded
SELECT r.allowed, r.used, r.rule FROM rate_limit_check('blocks:a', 5, '1 hour') r;

-- until an instant: refused a microsecond earlier, admitted then; reset_at says so
SELECT rate_limit_block('blocks:b', '2 hours', 'too many failed logins');
SELECT key, until - blocked_at AS duration, blocked_at BETWEEN now() - interval '1 min' AND now() AS just_now,
       reason, refusals
FROM rate_limit_blocks WHERE key LIKE 'blocks:%';
SELECT n, r.allowed, trim_scale(r.retry_after::numeric) AS retry_after, r.reset_at = until AS reset_at, r.rule
FROM rate_limit_blocks b,
    (VALUES (1, interval '-1 hour'), (2, '-0.000001 s'), (3, '0')) v(n, before),
    rate_limit_peek_at(until + before, 'blocks:b', 5, '1 hour') r
WHERE key = 'blocks:b'
ORDER BY n;

-- another block replaces it: shorter, without end, with another reason
SELECT rate_limit_block('blocks:b', '90 min', 'manual');
SELECT key, until - blocked_at AS duration, reason FROM rate_limit_blocks WHERE key LIKE 'blocks:%';
SELECT rate_limit_block('blocks:b');
SELECT key, until, reason FROM rate_limit_blocks WHERE key LIKE 'blocks:%';
SELECT rate_limit_block('blocks:b', '3 hours');
SELECT key, until - blocked_at AS duration, reason FROM rate_limit_blocks WHERE key LIKE 'blocks:%';

-- refusals of a block are counted; cost 0 is no more than a look
SELECT count(*) AS calls FROM unnest('{1,1,1,1,0}'::int[]) cost, rate_limit_check('blocks:b', 5, '1 hour', cost);
SELECT refusals FROM rate_limit_blocks WHERE key = 'blocks:b';

-- fault 5: retry_after is when both the block has ended and the counter admits:
-- the counter's one after the block, the block's one after the counter
SELECT n, r.allowed FROM (VALUES (1, 'blocks:long'), (2, 'blocks:short')) v(n, key),
    rate_limit_check(key, 1, '1 hour') r ORDER BY n;
SELECT rate_limit_block('blocks:long', '2 hours'), rate_limit_block('blocks:short', '10 min');
SELECT key, r.allowed, r.used, r.remaining, r.rule,
       r.retry_after BETWEEN 7100 AND 7200 AS in_two_hours,
       r.retry_after BETWEEN 3500 AND 3600 AS in_an_hour,
       r.reset_at = until AS end_of_block,
       early.allowed AS a_microsecond_early, due.allowed AS due
FROM rate_limit_blocks b,
    clock_timestamp() t,
    rate_limit_peek_at(t, key, 1, '1 hour') r,
    rate_limit_peek_at(t + (r.retry_after - 0.000001) * interval '1 s', key, 1, '1 hour') early,
    rate_limit_peek_at(t + r.retry_after * interval '1 s', key, 1, '1 hour') due
WHERE key IN ('blocks:long', 'blocks:short')
ORDER BY key;
-- and never, when the counter never would
SELECT r.allowed, r.retry_after, r.rule FROM rate_limit_peek('blocks:long', 1, '1 hour', 2) r;
SELECT r.allowed, r.retry_after, r.rule FROM rate_limit_peek('blocks:long', 0, '1 hour') r;

-- adjust does not mind a block
SELECT allowed, used, remaining, retry_after FROM rate_limit_adjust('blocks:b', 5, '1 hour', 2);
SELECT r.allowed, r.used, r.remaining, r.rule FROM rate_limit_check('blocks:b', 5, '1 hour') r;

-- reset removes counters, not the block
SELECT rate_limit_reset('blocks:b');
SELECT r.allowed, r.used, r.rule FROM rate_limit_check('blocks:b', 5, '1 hour') r;
SELECT rate_limit_reset_prefix('blocks:b');
SELECT r.allowed, r.used, r.rule FROM rate_limit_check('blocks:b', 5, '1 hour') r;

-- only this key: no prefix, no other case
SELECT key, r.allowed
FROM (VALUES ('blocks:'), ('blocks:b '), ('blocks:B'), ('blocks:bb')) v(key),
    rate_limit_check(key, 5, '1 hour') r;

-- a block that has ended is none
SELECT rate_limit_block('blocks:ended', '1 us');
SELECT r.allowed, r.rule FROM rate_limit_check('blocks:ended', 5, '1 hour') r;
SELECT count(*) FROM rate_limit_blocks WHERE key = 'blocks:ended';
SELECT rate_limit_unblock('blocks:ended') AS was_blocked;

-- it stays when the transaction rolls back, and so does its lifting
BEGIN;
SELECT rate_limit_block('blocks:rollback', '1 hour');
ROLLBACK;
SELECT r.rule FROM rate_limit_peek('blocks:rollback', 5, '1 hour') r;
BEGIN;
SELECT rate_limit_unblock('blocks:rollback');
ROLLBACK;
SELECT r.rule FROM rate_limit_peek('blocks:rollback', 5, '1 hour') r;

SELECT rate_limit_unblock(key) FROM rate_limit_blocks WHERE key LIKE 'blocks:%';
SELECT count(*) FROM rate_limit_blocks WHERE key LIKE 'blocks:%';
