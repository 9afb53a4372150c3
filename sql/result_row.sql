-- the result row
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';

SELECT attname AS column, format_type(atttypid, atttypmod) AS type
FROM pg_attribute WHERE attrelid = 'rate_limit_result'::regclass AND attnum > 0 ORDER BY attnum;
SELECT proargnames[6:] AS columns
FROM pg_proc WHERE proname = 'rate_limit_check_all';

-- as columns, as a row, as JSON: admitted, refused, never
SELECT * FROM rate_limit_check_at('2024-03-01 12:00:00.25Z', 'result:a', 1, '1 min');
SELECT r FROM rate_limit_peek_at('2024-03-01 12:00:30Z', 'result:a', 1, '1 min') r;
SELECT to_json(r) FROM rate_limit_peek_at('2024-03-01 12:00:30Z', 'result:a', 1, '1 min') r;
SELECT to_json(r) FROM rate_limit_peek_at('2024-03-01 12:00:30Z', 'result:a', 1, '1 min', 2) r;
-- the types it has
SELECT pg_typeof(allowed) AS a, pg_typeof("limit") AS l, pg_typeof(used) AS u, pg_typeof(remaining) AS rem,
       pg_typeof(retry_after) AS ret, pg_typeof(reset_at) AS res, pg_typeof(rule) AS rule
FROM rate_limit_peek_at('2024-03-01 12:00:30Z', 'result:a', 1, '1 min');
-- it can be stored, compared and read back
CREATE TEMP TABLE answers(r rate_limit_result);
INSERT INTO answers SELECT r FROM rate_limit_peek_at('2024-03-01 12:00:30Z', 'result:a', 1, '1 min') r;
SELECT a.r = r AS same, json_populate_record(NULL::rate_limit_result, to_json(a.r)) = r AS through_json
FROM answers a, rate_limit_peek_at('2024-03-01 12:00:30Z', 'result:a', 1, '1 min') r;
-- some columns of it, in any order, and none
SELECT remaining, allowed FROM rate_limit_peek_at('2024-03-01 12:00:30Z', 'result:a', 1, '1 min');
SELECT count(*) FROM rate_limit_check_at('2024-03-01 12:00:00Z', 'result:b', 1, '1 min');
SELECT used FROM rate_limit_peek_at('2024-03-01 12:00:00Z', 'result:b', 1, '1 min');

-- through PL/pgSQL: into a variable of the type, into a record
DO $$
DECLARE
    typed rate_limit_result;
    untyped record;
BEGIN
    typed := rate_limit_check_at('2024-03-01 12:00Z', 'result:c', 2, '1 min');
    RAISE NOTICE '%', typed;
    SELECT * INTO untyped FROM rate_limit_check_at('2024-03-01 12:00Z', 'result:c', 2, '1 min');
    RAISE NOTICE '% %', untyped.used, untyped.remaining;
    SELECT rate_limit_check_at('2024-03-01 12:00Z', 'result:c', 2, '1 min') INTO untyped;
    RAISE NOTICE '%', untyped;
END $$;

-- retry_after keeps microseconds over the longest window
SELECT n, retry_after
FROM (VALUES (1, timestamptz '2024-03-01 12:00:00Z'), (2, '2024-03-01 12:00:00.000001Z')) v(n, t),
    rate_limit_check_at(t, 'result:long', 1, '36525 days');
