-- check_all: several limits, all or nothing
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
-- fault 13: all admitted, all charged, in the order of the arrays
SELECT ord, key, allowed, "limit", used, remaining, retry_after, rule
FROM rate_limit_check_all('{all:z,all:a,all:z}', '{3,100,10}', '{1 hour,1 hour,1 day}', '{1,20,2}');

-- fault 13: one refuses, none is charged, and the row says which
SELECT ord, key, allowed, "limit", used, remaining, retry_after BETWEEN 3500 AND 3600 AS wait_an_hour
FROM rate_limit_check_all('{all:z,all:a,all:z}', '{3,100,10}', '{1 hour,1 hour,1 day}', '{3,20,2}');
SELECT ord, key, allowed, used, remaining, retry_after
FROM rate_limit_check_all('{all:z,all:a,all:z}', '{3,100,10}', '{1 hour,1 hour,1 day}', '{1,81,9}')
WHERE allowed;
SELECT key, used
FROM (VALUES (1, 'all:z', interval '1 hour'), (2, 'all:a', '1 hour'), (3, 'all:z', '1 day')) v(n, key, w),
    rate_limit_peek(key, 100, w)
ORDER BY n;
-- new keys get no counter
SELECT ord, key, allowed, used, remaining, retry_after
FROM rate_limit_check_all('{all:new1,all:new2}', '{5,0}', '{1 hour,1 hour}');
SELECT ord, key, allowed, used, remaining, retry_after
FROM rate_limit_check_all('{all:new1,all:new2}', '{5,5}', '{1 hour,1 hour}', '{6,1}');
SELECT count(*) FROM rate_limit_keys WHERE key LIKE 'all:new%';

-- whether the call went through: one boolean
SELECT n, bool_and(r.allowed) AS allowed
FROM generate_series(1, 3) n, rate_limit_check_all('{all:and1,all:and2}', ARRAY[2, 8 + sign(n)::int], '{1 hour,1 day}') r
GROUP BY n ORDER BY n;

-- one limit twice is charged twice, and judged one after the other
SELECT ord, key, allowed, remaining
FROM rate_limit_check_all('{all:twice,all:twice}', '{4,4}', '{1 hour,1 hour}', '{1,2}');
SELECT used FROM rate_limit_peek('all:twice', 4, '1 hour');
SELECT bool_and(allowed) AS allowed
FROM rate_limit_check_all('{all:twice,all:twice}', '{4,4}', '{1 hour,1 hour}');
SELECT used FROM rate_limit_peek('all:twice', 4, '1 hour');
SELECT bool_and(allowed) AS allowed
FROM rate_limit_check_all('{all:twice,all:other,all:twice,all:twice}', '{5,5,5,5}',
                          '{1 hour,1 hour,60 min,1 hour}', '{1,1,1,0}');
SELECT used FROM rate_limit_peek('all:twice', 4, '1 hour');
SELECT bool_and(allowed) AS allowed
FROM rate_limit_check_all('{all:twice,all:twice}', '{5,5}', '{1 hour,60 min}', '{1,0}');
SELECT used FROM rate_limit_peek('all:twice', 4, '1 hour');

-- without costs each costs 1, and 0 charges nothing
SELECT ord, used FROM rate_limit_check_all('{all:cost1,all:cost2}', '{5,5}', '{1 hour,1 hour}');
SELECT ord, used FROM rate_limit_check_all('{all:cost1,all:cost2}', '{5,5}', '{1 hour,1 hour}', NULL);
SELECT ord, used FROM rate_limit_check_all('{all:cost1,all:cost2}', '{5,5}', '{1 hour,1 hour}', '{0,2}');

-- the other algorithms; a counter of theirs is that of rate_limit_check
SELECT a, ord, allowed, used, remaining
FROM (VALUES ('fixed_window'), ('anchored_window'), ('token_bucket')) v(a),
    rate_limit_check_all('{all:each1,all:each2}', '{5,5}', '{100 days,200 days}', '{2,3}', a)
ORDER BY a, ord;
SELECT a, ord, allowed, used, remaining, retry_after IS NOT NULL AS later
FROM (VALUES ('fixed_window'), ('anchored_window'), ('token_bucket')) v(a),
    rate_limit_check_all('{all:each1,all:each2}', '{5,5}', '{100 days,200 days}', '{1,3}', a)
ORDER BY a, ord;
SELECT a, used
FROM (VALUES ('fixed_window'), ('anchored_window'), ('token_bucket')) v(a),
    rate_limit_check('all:each1', 5, '100 days', 1, a);
-- calendar windows are those of UTC
SELECT used FROM rate_limit_check_all('{all:utc}', '{5}', '{100 years}', NULL, 'fixed_window');
SELECT used FROM rate_limit_peek('all:utc', 5, '100 years', 1, 'fixed_window', time_zone => 'UTC');

-- a block
SELECT rate_limit_block('all:blocked', '1 day');
SELECT ord, key, allowed, used, remaining, retry_after > 86000 AS wait_a_day, rule
FROM rate_limit_check_all('{all:free,all:blocked}', '{5,5}', '{1 hour,1 hour}');
SELECT count(*) FROM rate_limit_keys WHERE key IN ('all:free', 'all:blocked');
SELECT rate_limit_unblock('all:blocked');
SELECT bool_and(allowed) AS allowed FROM rate_limit_check_all('{all:free,all:blocked}', '{5,5}', '{1 hour,1 hour}');

-- a thousand keys in one call
SELECT count(*), bool_and(allowed) AS allowed, min(ord), max(ord)
FROM (SELECT array_agg('all:many' || n) AS keys, array_agg(1::bigint) AS limits,
             array_agg(interval '1 hour') AS windows
      FROM generate_series(1, 1000) n) a,
    rate_limit_check_all(keys, limits, windows);
SELECT rate_limit_reset('all:many500');
SELECT count(*), count(*) FILTER (WHERE allowed) AS allowed, sum(used) AS used
FROM (SELECT array_agg('all:many' || n) AS keys, array_agg(1::bigint) AS limits,
             array_agg(interval '1 hour') AS windows
      FROM generate_series(1, 1000) n) a,
    rate_limit_check_all(keys, limits, windows);

-- arrays with other bounds are read from their first element
SELECT ord, key, used FROM rate_limit_check_all('[0:1]={all:bound1,all:bound2}', '[5:6]={5,5}',
                                                '{1 hour,1 hour}', '[-1:0]={1,2}');
