-- every error: SQLSTATE, message, detail, hint
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
\pset format unaligned
\pset tuples_only on

-- what a call raises
CREATE FUNCTION pg_temp.raised(call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
    state text; message text; detail text; hint text;
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN call || E'\n  no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN call || E'\n  ' || state || ': ' || message || coalesce(E'\n  DETAIL: ' || nullif(detail, ''), '')
        || coalesce(E'\n  HINT: ' || nullif(hint, ''), '');
END
$$;

-- the key
SELECT pg_temp.raised(call) FROM unnest(ARRAY[
    $$rate_limit_check('', 1, '1 min')$$,
    $$rate_limit_check(repeat('k', 1025), 1, '1 min')$$,
    $$rate_limit_check(repeat(convert_from('\xc3a9', 'UTF8'), 513), 1, '1 min')$$,
    $$rate_limit_check(repeat('k', 1000000), 1, '1 min')$$,
    $$rate_limit_allowed('', 1, '1 min')$$,
    $$rate_limit_require('', 1, '1 min')$$,
    $$rate_limit_peek('', 1, '1 min')$$,
    $$rate_limit_adjust('', 1, '1 min', 1)$$,
    $$rate_limit_check_at(now(), '', 1, '1 min')$$,
    $$rate_limit_peek_at(now(), '', 1, '1 min')$$,
    $$rate_limit_adjust_at(now(), '', 1, '1 min', 1)$$,
    $$rate_limit_reset('')$$,
    $$rate_limit_reset(repeat('k', 1025))$$,
    $$rate_limit_block('')$$,
    $$rate_limit_block(repeat('k', 1025))$$,
    $$rate_limit_unblock('')$$,
    $$rate_limit_unblock(repeat('k', 1025))$$,
    $$rate_limit_reset_prefix(repeat('k', 1025))$$
    ]) call;

-- fault 4: limit, cost, window
SELECT pg_temp.raised(call) FROM unnest(ARRAY[
    $$rate_limit_check('errors:a', -1, '1 min')$$,
    $$rate_limit_check('errors:a', -9223372036854775808, '1 min')$$,
    $$rate_limit_adjust('errors:a', -1, '1 min', 1)$$,
    $$rate_limit_check('errors:a', 1, '1 min', -1)$$,
    $$rate_limit_check('errors:a', 1, '1 min', -9223372036854775808)$$,
    $$rate_limit_peek('errors:a', 1, '1 min', -1)$$,
    $$rate_limit_check('errors:a', 1, '0')$$,
    $$rate_limit_check('errors:a', 1, '-1 us')$$,
    $$rate_limit_check('errors:a', 1, '-1 day')$$,
    $$rate_limit_check('errors:a', 1, '1 day -24 hours')$$,
    $$rate_limit_check('errors:a', 1, '-2147483648 days')$$,
    $$rate_limit_check('errors:a', 1, '0', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '-1 day', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '-1 month', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '-1 hour', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '0', 1, 'anchored_window')$$,
    $$rate_limit_check('errors:a', 1, '0', 1, 'token_bucket')$$,
    $$rate_limit_check('errors:a', 1, '36525 days 1 us')$$,
    $$rate_limit_check('errors:a', 1, '876600 hours 1 us')$$,
    $$rate_limit_check('errors:a', 1, '2147483647 days 2562047787 hours')$$,
    $$rate_limit_check('errors:a', 1, '36526 days', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '1201 months', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '876601 hours', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '178000000 years', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '1 month')$$,
    $$rate_limit_check('errors:a', 1, '-1 month')$$,
    $$rate_limit_check('errors:a', 1, '1 month -10 days')$$,
    $$rate_limit_check('errors:a', 1, '1 year', 1, 'anchored_window')$$,
    $$rate_limit_check('errors:a', 1, '1 month 2 days', 1, 'token_bucket')$$,
    $$rate_limit_check('errors:a', 1, '1 month 2 days', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '1 month 1 us', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '1 day 2 hours', 1, 'fixed_window')$$,
    $$rate_limit_check('errors:a', 1, '2 days -1 hour', 1, 'fixed_window')$$
    ]) call;
-- the longest ones are none
SELECT r.allowed FROM rate_limit_check('errors:longest', 1, '36525 days') r;
SELECT r.allowed FROM rate_limit_check('errors:longest', 1, '876600 hours', 1, 'anchored_window') r;
SELECT r.allowed FROM rate_limit_check('errors:longest', 1, '36525 days', 1, 'fixed_window') r;
SELECT r.allowed FROM rate_limit_check('errors:longest', 1, '100 years', 1, 'fixed_window') r;
SELECT r.allowed FROM rate_limit_check('errors:longest', 1, '36524 days 24 hours', 1, 'token_bucket') r;

-- algorithm, burst, store, time zone
SELECT pg_temp.raised(call) FROM unnest(ARRAY[
    $$rate_limit_check('errors:a', 1, '1 min', 1, 'nonsense')$$,
    $$rate_limit_check('errors:a', 1, '1 min', 1, '')$$,
    $$rate_limit_check('errors:a', 1, '1 min', 1, 'Sliding_Window')$$,
    $$rate_limit_check('errors:a', 1, '1 min', 1, 'sliding')$$,
    $$rate_limit_check('errors:a', 1, '1 min', 1, 'sliding_window ')$$,
    $$rate_limit_check('errors:a', 1, '1 min', 1, 'token_bucket', 0)$$,
    $$rate_limit_check('errors:a', 1, '1 min', 1, 'token_bucket', -5)$$,
    $$rate_limit_check('errors:a', 1, '1 min', 1, 'sliding_window', 5)$$,
    $$rate_limit_check('errors:a', 1, '1 min', 1, 'fixed_window', 0)$$,
    $$rate_limit_adjust('errors:a', 1, '1 min', 1, 'anchored_window', 5)$$,
    $$rate_limit_check('errors:a', 1, '1 min', store => 'redis')$$,
    $$rate_limit_check('errors:a', 1, '1 min', store => '')$$,
    $$rate_limit_check('errors:a', 1, '1 min', time_zone => 'Mars/Olympus')$$,
    $$rate_limit_check('errors:a', 1, '1 day', 1, 'fixed_window', time_zone => 'Mars/Olympus')$$,
    $$rate_limit_check('errors:a', 1, '1 day', 1, 'fixed_window', time_zone => '')$$,
    $$rate_limit_check('errors:a', 1, '1 day', 1, 'fixed_window', time_zone => '../UTC')$$,
    $$rate_limit_check('errors:a', 1, '1 day', 1, 'fixed_window', time_zone => '5')$$,
    $$rate_limit_check('errors:a', 1, '1 day', 1, 'fixed_window', time_zone => '+02')$$,
    $$rate_limit_check('errors:a', 1, '1 day', 1, 'fixed_window', time_zone => repeat('x', 300))$$
    ]) call;

-- the instant
SELECT pg_temp.raised(call) FROM unnest(ARRAY[
    $$rate_limit_check_at('infinity', 'errors:a', 1, '1 min')$$,
    $$rate_limit_peek_at('-infinity', 'errors:a', 1, '1 min')$$,
    $$rate_limit_adjust_at('294276-12-31 00:00Z', 'errors:a', 1, '1 min', 1)$$
    ]) call;
SELECT r.allowed FROM rate_limit_check_at('4713-01-01 00:00:00 BC', 'errors:early', 1, '1 min') r;
SELECT r.allowed FROM rate_limit_check_at('127999-12-31 00:00Z', 'errors:late', 1, '100 years', 1, 'fixed_window') r;

-- several limits
SELECT pg_temp.raised(call) FROM unnest(ARRAY[
    $$rate_limit_check_all('{}', '{}', '{}')$$,
    $$rate_limit_check_all('{a}', '{}', '{1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{1}', '{1 min,1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min}')$$,
    $$rate_limit_check_all('{a}', '{1}', '{1 min}', '{1,1}')$$,
    $$rate_limit_check_all('{a}', '{1}', '{1 min}', '{}')$$,
    $$rate_limit_check_all('{a,NULL}', '{1,1}', '{1 min,1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{1,NULL}', '{1 min,1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{NULL,1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min,1 min}', '{1,NULL}')$$,
    $$rate_limit_check_all('{{a,b}}', '{1,1}', '{1 min,1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{{1},{1}}', '{1 min,1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{{1 min,1 min}}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min,1 min}', '{{1,1}}')$$,
    $$rate_limit_check_all(array_fill('k'::text, '{1001}'), array_fill(1::bigint, '{1001}'), array_fill('1 min'::interval, '{1001}'))$$,
    $$rate_limit_check_all('{a,""}', '{1,1}', '{1 min,1 min}')$$,
    $$rate_limit_check_all(ARRAY['a', repeat('k', 1025)], '{1,1}', '{1 min,1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{1,-1}', '{1 min,1 min}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min,1 min}', '{1,-1}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min,0}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min,1 month}')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min,1 month 1 day}', NULL, 'fixed_window')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min,101 years}', NULL, 'fixed_window')$$,
    $$rate_limit_check_all('{a,b}', '{1,1}', '{1 min,1 min}', NULL, 'nonsense')$$
    ]) call;
-- none of them charged the first key
SELECT count(*) FROM rate_limit_keys WHERE key = 'a';

-- blocks
SELECT pg_temp.raised(call) FROM unnest(ARRAY[
    $$rate_limit_block('errors:a', '0')$$,
    $$rate_limit_block('errors:a', '-1 s')$$,
    $$rate_limit_block('errors:a', '1 month -40 days')$$,
    $$rate_limit_block('errors:a', '1 hour', repeat('r', 1025))$$
    ]) call;
-- an end past all time
SELECT pg_temp.raised(call) LIKE E'%\n  22023: argument "duration" %'
FROM unnest(ARRAY[
    $$rate_limit_block('errors:a', '170000000 years')$$,
    $$rate_limit_block('errors:a', '106751991 days 2562047787 hours')$$,
    $$rate_limit_block('errors:a', '69273666 months -2147483646 days 1 s')$$
    ]) call;
SELECT count(*) FROM rate_limit_blocks WHERE key = 'errors:a';
-- months and a reason of 1,024 bytes are none
SELECT rate_limit_block('errors:a', '1 month', repeat('r', 1024));
SELECT extract(day FROM until - blocked_at) BETWEEN 28 AND 31 AS month, octet_length(reason)
FROM rate_limit_blocks WHERE key = 'errors:a';
SELECT rate_limit_unblock('errors:a');

-- fault 3: NULL is an error wherever a value is needed, never an admission: in each
-- argument of each function, the others being good
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('errors:null', 1000, '1 min');
SELECT proname || ': refuses NULL as '
    || coalesce(string_agg(missing, ', ' ORDER BY n) FILTER (WHERE raised LIKE E'%\n  22004: argument "' || missing || '" must not be null'), '-')
    || coalesce('; takes it as ' || string_agg(missing, ', ' ORDER BY n) FILTER (WHERE raised LIKE E'%\n  no error'), '')
FROM (
    SELECT proname, missing, n, pg_temp.raised(format('%s(%s)', proname, string_agg(
        format('%I => %s', a, CASE WHEN a = missing THEN 'NULL' ELSE good END), ', ' ORDER BY i))) AS raised
    FROM (SELECT proname, proargnames[1:pronargs] AS names
          FROM pg_proc
          WHERE proname LIKE 'rate\_limit\_%' AND pronamespace = 'public'::regnamespace AND pronargs > 0) f,
        unnest(names) WITH ORDINALITY m(missing, n),
        unnest(names) WITH ORDINALITY x(a, i)
        JOIN (VALUES ('at', $$'2024-03-01 12:00Z'$$), ('key', $$'errors:null'$$), ('limit', '1000'), ('window', $$'1 min'$$),
                     ('cost', '1'), ('delta', '1'), ('algorithm', $$'token_bucket'$$), ('burst', '500'), ('store', $$'memory'$$),
                     ('time_zone', $$'UTC'$$), ('keys', $$'{errors:null}'$$), ('limits', $$'{1000}'$$), ('windows', $$'{1 min}'$$),
                     ('costs', $$'{1}'$$), ('prefix', $$'errors:null'$$), ('duration', $$'1 us'$$), ('reason', $$'test'$$),
                     ('policy', $$'errors:null'$$), ('r', $$'(t,1,0,1,0,2024-03-01,)'$$), ('name', $$'default'$$),
                     ('ip', $$'192.0.2.1'$$), ('v4_prefix', '32'), ('v6_prefix', '64')) g(a, good) USING (a)
    GROUP BY proname, missing, n
    ORDER BY proname, n) t
GROUP BY proname
ORDER BY proname;
DELETE FROM rate_limit_policies WHERE policy = 'errors:null';
-- one bucket with two capacities
SELECT * FROM rate_limit_check_all('{errors:a,errors:b,errors:a}', '{5,6,7}', '{1 min,1 min,60 s}', NULL, 'token_bucket');
-- an element of an array is named in the context
SELECT * FROM rate_limit_check_all('{errors:a,errors:b}', '{1,-1}', '{1 min,1 min}');
SELECT * FROM rate_limit_check_all('{errors:a,errors:b,""}', '{1,1,1}', '{1 min,1 min,1 min}');
