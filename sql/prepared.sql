-- prepared statements with untyped parameters, as drivers send them
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;

PREPARE p1 AS SELECT allowed, used FROM rate_limit_check($1, $2, $3);
PREPARE p2 AS SELECT allowed, "limit", used FROM rate_limit_check($1, $2, $3, $4, $5, $6, $7, $8);
PREPARE p3 AS SELECT rate_limit_allowed($1, $2, $3);
PREPARE p4 AS SELECT rate_limit_allowed($1, $2, $3, $4, $5, $6, $7, $8);
PREPARE p5 AS SELECT rate_limit_require($1, $2, $3);
PREPARE p6 AS SELECT rate_limit_require($1, $2, $3, $4, $5, $6, $7, $8);
PREPARE p7 AS SELECT used FROM rate_limit_peek($1, $2, $3);
PREPARE p8 AS SELECT used FROM rate_limit_peek($1, $2, $3, $4, $5, $6, $7, $8);
PREPARE p9 AS SELECT used FROM rate_limit_adjust($1, $2, $3, $4);
PREPARE p10 AS SELECT used FROM rate_limit_adjust($1, $2, $3, $4, $5, $6, $7, $8);
PREPARE p11 AS SELECT ord, key, allowed, used FROM rate_limit_check_all($1, $2, $3);
PREPARE p12 AS SELECT ord, key, allowed, used FROM rate_limit_check_all($1, $2, $3, $4, $5);
PREPARE p13 AS SELECT used FROM rate_limit_check_at($1, $2, $3, $4);
PREPARE p14 AS SELECT used FROM rate_limit_check_at($1, $2, $3, $4, $5, $6, $7, $8, $9);
PREPARE p15 AS SELECT used FROM rate_limit_peek_at($1, $2, $3, $4, $5, $6, $7, $8, $9);
PREPARE p16 AS SELECT used FROM rate_limit_adjust_at($1, $2, $3, $4, $5, $6, $7, $8, $9);
PREPARE p17 AS SELECT rate_limit_reset($1);
PREPARE p18 AS SELECT rate_limit_reset_prefix($1);
PREPARE p19 AS SELECT rate_limit_block($1, $2, $3);
PREPARE p20 AS SELECT rate_limit_unblock($1);
PREPARE p21 AS SELECT k, r.allowed FROM unnest($1::text[]) k, rate_limit_check(k, $2, $3) r;
PREPARE p22 AS SELECT used FROM rate_limit_check(key => $1, "limit" => $2, "window" => $3, time_zone => $4);
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY substring(name, 2)::int;

EXECUTE p1('prepared:a', '20', '1 min');
EXECUTE p2('prepared:a', '20', '1 min', '2', 'token_bucket', '40', 'memory', 'UTC');
EXECUTE p2('prepared:a', 20, '1 min', 2, 'fixed_window', NULL, NULL, NULL);
EXECUTE p3('prepared:a', '20', '1 min');
EXECUTE p4('prepared:a', '20', '1 min', '1', 'token_bucket', '40', 'memory', NULL);
EXECUTE p5('prepared:a', '20', '1 min');
EXECUTE p6('prepared:a', '20', '1 min', '1', 'token_bucket', NULL, NULL, NULL);
EXECUTE p7('prepared:a', '20', '1 min');
EXECUTE p8('prepared:a', '20', '1 min', '1', 'sliding_window', NULL, NULL, NULL);
EXECUTE p9('prepared:a', '20', '1 min', '5');
EXECUTE p10('prepared:a', '20', '1 min', '-5', 'sliding_window', NULL, NULL, NULL);
EXECUTE p11('{prepared:b,prepared:c}', '{20,30}', '{1 min,1 hour}');
EXECUTE p12('{prepared:b,prepared:c}', '{20,30}', '{1 min,1 hour}', '{2,3}', 'sliding_window');
EXECUTE p13('2100-03-01 12:00Z', 'prepared:d', '20', '1 min');
EXECUTE p14('2100-03-01 12:00Z', 'prepared:d', '20', '1 min', '1', 'sliding_window', NULL, NULL, NULL);
EXECUTE p15('2100-03-01 12:00Z', 'prepared:d', '20', '1 min', '1', 'sliding_window', NULL, NULL, NULL);
EXECUTE p16('2100-03-01 12:00Z', 'prepared:d', '20', '1 min', '3', 'sliding_window', NULL, NULL, NULL);
EXECUTE p17('prepared:d');
EXECUTE p19('prepared:d', '1 hour', 'test');
EXECUTE p20('prepared:d');
EXECUTE p21('{prepared:e,prepared:f,prepared:e}', '2', '1 hour');
EXECUTE p22('prepared:e', '2', '1 hour', NULL);
EXECUTE p18('prepared:');

-- a generic plan calls the function at each execution; constants do not make it
-- fold the call
SET plan_cache_mode = force_generic_plan;
PREPARE fixed AS SELECT rate_limit_allowed('prepared:g', 2, '1 hour');
EXECUTE fixed;
EXECUTE fixed;
EXECUTE fixed;
RESET plan_cache_mode;
PREPARE never AS SELECT rate_limit_allowed('prepared:g', 0, '1 hour');
EXECUTE never;

-- fault 21: DISCARD ALL between two clients of a pooled connection leaves counters
-- and settings alone
DISCARD ALL;
SELECT allowed, used FROM rate_limit_check('prepared:g', 2, '1 hour');
SHOW rate_limit.mode;
-- fault 21: a new connection as well
\c -
SELECT allowed, used FROM rate_limit_check('prepared:g', 2, '1 hour');
