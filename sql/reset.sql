-- reset: counters of a key, counters of a prefix
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
-- every window and algorithm of the key, and only of it
SELECT count(*) FROM
    (VALUES ('reset:a'), ('reset:A'), ('reset:a '), ('reset:ab')) k(key),
    (VALUES ('sliding_window', interval '1 hour'), ('sliding_window', '1 day'), ('fixed_window', '100 years'),
            ('anchored_window', '1 hour'), ('token_bucket', '1 hour')) v(a, w),
    rate_limit_check(key, 5, w, 1, a);
SELECT rate_limit_reset('reset:a');
SELECT rate_limit_reset('reset:a');
SELECT rate_limit_reset('reset:unknown');
SELECT r.allowed, r.used, r.remaining FROM rate_limit_peek('reset:a', 5, '1 hour') r;
SELECT key, count(*) FROM rate_limit_keys WHERE key LIKE 'reset:%' GROUP BY key ORDER BY key COLLATE "C";

-- a key that refuses starts anew
SELECT r.allowed, r.used FROM unnest('{1,1}'::int[]) cost, rate_limit_check('reset:full', 1, '1 hour', cost) r;
SELECT rate_limit_reset('reset:full');
SELECT r.allowed, r.used FROM rate_limit_check('reset:full', 1, '1 hour') r;

-- a prefix is compared byte for byte: wildcards and case mean themselves
SELECT count(*) FROM
    unnest('{reset:p:1,reset:p:2,reset:p:,reset:p,reset:P:1,reset:p%1,reset:p_1,reset:p%:1,"reset:p\\%"}'::text[]) key,
    rate_limit_check(key, 5, '1 hour');
SELECT rate_limit_reset_prefix('reset:%:');
SELECT rate_limit_reset_prefix('reset:p%');
SELECT rate_limit_reset_prefix('reset:p_');
SELECT rate_limit_reset_prefix('reset:p\');
SELECT rate_limit_reset_prefix('reset:p:');
SELECT rate_limit_reset_prefix('reset:p:');
SELECT key FROM rate_limit_keys WHERE key ILIKE 'reset:p%' ORDER BY key COLLATE "C";
-- a prefix longer than the key, one as long as the key
SELECT rate_limit_reset_prefix('reset:p:1:2');
SELECT rate_limit_reset_prefix('reset:P:1');
-- half of a multibyte letter cannot be said, a whole one can
SELECT count(*) FROM
    unnest('{"\\xc3a9", "\\xc3a8", "\\xc3a961"}'::bytea[]) b,
    rate_limit_check('reset:m:' || convert_from(b, 'UTF8'), 5, '1 hour');
SELECT rate_limit_reset_prefix('reset:m:' || convert_from('\xc3a9', 'UTF8'));

-- the empty prefix: every counter, no block
SELECT rate_limit_block('reset:blocked', '1 hour');
SELECT rate_limit_reset_prefix('') > 0 AS some;
SELECT count(*) FROM rate_limit_keys;
SELECT rate_limit_unblock('reset:blocked');

-- not undone by a rollback
SELECT r.allowed FROM rate_limit_check('reset:rollback', 1, '1 hour') r;
BEGIN;
SELECT rate_limit_reset('reset:rollback');
ROLLBACK;
SELECT r.allowed FROM rate_limit_check('reset:rollback', 1, '1 hour') r;
