-- any schema, any search_path
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS rate_limit CASCADE;  -- a session of the test before may still be leaving
RESET client_min_messages;

-- a hostile schema that comes before pg_catalog: whatever of it is used gives this away
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.hijacked() RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
CREATE TYPE hostile.text AS (hijacked pg_catalog.int4);
CREATE TYPE hostile.int8 AS (hijacked pg_catalog.int4);
CREATE TYPE hostile.bool AS (hijacked pg_catalog.int4);
CREATE TYPE hostile.float8 AS (hijacked pg_catalog.int4);
CREATE TYPE hostile."interval" AS (hijacked pg_catalog.int4);
CREATE TYPE hostile.timestamptz AS (hijacked pg_catalog.int4);
CREATE TYPE hostile.rate_limit_result AS (hijacked pg_catalog.int4);
CREATE FUNCTION hostile.eq(pg_catalog.text, pg_catalog.text) RETURNS pg_catalog.bool LANGUAGE sql AS 'SELECT hostile.hijacked()';
CREATE FUNCTION hostile.eq(pg_catalog.int8, pg_catalog.int8) RETURNS pg_catalog.bool LANGUAGE sql AS 'SELECT hostile.hijacked()';
CREATE OPERATOR hostile.= (LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.text, FUNCTION = hostile.eq);
CREATE OPERATOR hostile.= (LEFTARG = pg_catalog.int8, RIGHTARG = pg_catalog.int8, FUNCTION = hostile.eq);
CREATE FUNCTION hostile.now() RETURNS pg_catalog.timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.now() WHERE hostile.hijacked() $$;
CREATE FUNCTION hostile.clock_timestamp() RETURNS pg_catalog.timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.now() WHERE hostile.hijacked() $$;
CREATE FUNCTION hostile.to_json(anyelement) RETURNS pg_catalog.json LANGUAGE sql AS $$ SELECT '{}'::json WHERE hostile.hijacked() $$;
CREATE FUNCTION hostile.row_to_json(record) RETURNS pg_catalog.json LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
CREATE FUNCTION hostile.rate_limit_keys() RETURNS SETOF pg_catalog.text LANGUAGE sql AS $$ SELECT 'x' WHERE hostile.hijacked() $$;
CREATE FUNCTION hostile.rate_limit_check(pg_catalog.text, pg_catalog.int8, pg_catalog."interval") RETURNS pg_catalog.bool LANGUAGE sql AS 'SELECT hostile.hijacked()';

-- installed with that search_path, into a schema of odd name
CREATE SCHEMA "odd; Schema-Name %s";
SET search_path = hostile, pg_catalog;
CREATE EXTENSION rate_limit SCHEMA "odd; Schema-Name %s";
\set o '"odd; Schema-Name %s"'
SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
WHERE e.extname OPERATOR(pg_catalog.=) 'rate_limit';

-- every function with that search_path; the second check is refused
SELECT allowed, used FROM :o.rate_limit_check('schema:a', 1, '1 hour');
SELECT allowed, used FROM :o.rate_limit_check('schema:a', 1, '1 hour');
SELECT :o.rate_limit_allowed('schema:a', 1, '1 hour', 1, 'fixed_window', time_zone => 'Europe/Berlin');
SELECT :o.rate_limit_require('schema:b', 1, '1 hour');
DO $$
DECLARE
    detail pg_catalog.text;
BEGIN
    PERFORM "odd; Schema-Name %s".rate_limit_require('schema:b', 1, '1 hour');
EXCEPTION WHEN SQLSTATE 'RL429' THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RAISE NOTICE 'refused, used %', detail::pg_catalog.json OPERATOR(pg_catalog.->>) 'used';
END $$;
SELECT used FROM :o.rate_limit_peek('schema:a', 1, '1 hour');
SELECT used FROM :o.rate_limit_adjust('schema:a', 1, '1 hour', 1);
SELECT ord, key, allowed, used FROM :o.rate_limit_check_all('{schema:c,schema:d}', '{1,1}', '{1 hour,1 hour}');
SELECT used FROM :o.rate_limit_check_at('2100-03-01 12:00Z', 'schema:e', 1, '1 hour');
SELECT used FROM :o.rate_limit_peek_at('2100-03-01 12:00Z', 'schema:e', 1, '1 hour');
SELECT used FROM :o.rate_limit_adjust_at('2100-03-01 12:00Z', 'schema:e', 1, '1 hour', 1);
SELECT :o.rate_limit_block('schema:f', '1 hour', 'test');
SELECT key, reason FROM :o.rate_limit_blocks WHERE key OPERATOR(pg_catalog.~~) 'schema:%';
SELECT :o.rate_limit_unblock('schema:f');
SELECT key, used FROM :o.rate_limit_keys
WHERE key OPERATOR(pg_catalog.~~) 'schema:%' ORDER BY key;
SELECT set_up IS NOT NULL AS set_up FROM :o.rate_limit_info;
SELECT :o.rate_limit_reset('schema:a');
SELECT :o.rate_limit_reset_prefix('schema:');
RESET search_path;
SELECT pg_typeof(r) FROM :o.rate_limit_peek('schema:a', 1, '1 hour') r;
SHOW search_path;

-- statements and functions that were prepared go on after a new installation elsewhere
CREATE FUNCTION pg_temp.used(cost int) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
    r record;
BEGIN
    r := rate_limit_check('schema:again', 100, '1 hour', cost);
    RETURN r.used;
END
$$;
SET search_path = "odd; Schema-Name %s", public;
PREPARE p AS SELECT allowed, used FROM rate_limit_check('schema:again', 100, '1 hour');
EXECUTE p;
SELECT pg_temp.used(1);
DROP EXTENSION rate_limit;
\set VERBOSITY sqlstate
EXECUTE p;
SELECT pg_temp.used(1);
\set VERBOSITY default
RESET search_path;
CREATE EXTENSION rate_limit;
SELECT allowed FROM rate_limit_check('schema:new', 1, '1 hour');
EXECUTE p;
SELECT pg_temp.used(1) > 1 AS again;
DEALLOCATE p;

SET client_min_messages = warning;
DROP SCHEMA hostile, "odd; Schema-Name %s" CASCADE;
RESET client_min_messages;
