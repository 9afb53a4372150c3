-- an ordinary role may call, but has no rights on the table, and does not choose the store for others
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
CREATE ROLE regress_rate_limit_user;
CREATE ROLE regress_rate_limit_monitor IN ROLE pg_monitor;
SELECT rolname, has_table_privilege(rolname, 'rate_limit_state', 'SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER') AS of_table,
    has_any_column_privilege(rolname, 'rate_limit_state', 'SELECT,INSERT,UPDATE,REFERENCES') AS of_columns,
    has_function_privilege(rolname, 'rate_limit_prune(bigint)', 'EXECUTE') AS prune
FROM unnest('{regress_rate_limit_user,regress_rate_limit_monitor}'::text[]) rolname;
-- all that everybody may execute
SELECT p.proname FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
WHERE e.extname = 'rate_limit' AND has_function_privilege('regress_rate_limit_user', p.oid, 'EXECUTE')
ORDER BY p.proname;

-- with a table of the same name in the way, and functions and operators that spoil all
CREATE SCHEMA table_privileges AUTHORIZATION regress_rate_limit_user;
SET SESSION AUTHORIZATION regress_rate_limit_user;
CREATE TABLE table_privileges.rate_limit_state(key text);
CREATE TEMP TABLE rate_limit_state(key text);
CREATE FUNCTION table_privileges.eq(text, text) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'hijacked as %', current_user; END $$;
CREATE OPERATOR table_privileges.= (LEFTARG = text, RIGHTARG = text, FUNCTION = table_privileges.eq);
CREATE FUNCTION table_privileges.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'hijacked as %', current_user; END $$;
SET search_path = table_privileges, pg_temp, pg_catalog, public;

-- every function for everybody works
SELECT r.allowed, r.used FROM rate_limit_check('table_privileges:a', 3, '1 hour', store => 'table') r;
SELECT rate_limit_allowed('table_privileges:a', 3, '1 hour', store => 'table');
SELECT rate_limit_require('table_privileges:a', 3, '1 hour', store => 'table');
SELECT r.allowed, r.used FROM rate_limit_peek('table_privileges:a', 3, '1 hour', store => 'table') r;
SELECT r.allowed, r.used FROM rate_limit_check('table_privileges:a', 3, '1 hour', store => 'table') r;
SELECT r.used FROM rate_limit_check('table_privileges:b', 3, '1 month', 1, 'fixed_window', NULL, 'table', 'Europe/Berlin') r;
SET search_path = public;

-- the table and the administration do not
SELECT * FROM public.rate_limit_state;
SELECT count(*) FROM public.rate_limit_state;
INSERT INTO public.rate_limit_state VALUES ('x');
UPDATE public.rate_limit_state SET state = '{}';
DELETE FROM public.rate_limit_state;
TRUNCATE public.rate_limit_state;
SELECT 1 FROM public.rate_limit_state FOR UPDATE;
BEGIN;
LOCK TABLE public.rate_limit_state IN ACCESS SHARE MODE;
ROLLBACK;
CREATE TRIGGER t BEFORE UPDATE ON public.rate_limit_state FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
SELECT rate_limit_prune();
SELECT rate_limit_reset('table_privileges:a');
SELECT rate_limit_adjust('table_privileges:a', 3, '1 hour', -1, store => 'table');
SELECT * FROM rate_limit_keys;

-- an error in the middle of a call leaves the role as it was
DO $$
BEGIN
    SET TRANSACTION READ ONLY;
    PERFORM rate_limit_check('table_privileges:a', 9, '1 hour', store => 'table');
EXCEPTION WHEN read_only_sql_transaction THEN
    RAISE NOTICE 'read only, as %', current_user;
END $$;
SELECT current_user, session_user;
SELECT count(*) FROM public.rate_limit_state;

-- nor may it choose the store for calls that do not name one
SET rate_limit.store = 'table';
SELECT set_config('rate_limit.store', 'table', false);
ALTER ROLE regress_rate_limit_user SET rate_limit.store = 'table';
RESET SESSION AUTHORIZATION;
\c -
SET SESSION AUTHORIZATION regress_rate_limit_user;
SET client_min_messages = error;
DO $$
BEGIN
    PERFORM set_config('rate_limit.store', 'table', false);
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$;
SELECT used FROM rate_limit_check('table_privileges:a', 9, '1 hour');
SHOW rate_limit.store;
RESET client_min_messages;
RESET SESSION AUTHORIZATION;

-- pg_monitor looks through the view
SET ROLE regress_rate_limit_monitor;
SELECT key, used, store FROM rate_limit_keys WHERE key = 'table_privileges:a' ORDER BY store;
SELECT count(*) FROM rate_limit_state;
RESET ROLE;
SELECT used FROM rate_limit_peek('table_privileges:a', 9, '1 hour', store => 'table');

-- in a view, and in a function of somebody who has no rights either
CREATE VIEW table_privileges.v AS SELECT public.rate_limit_allowed('table_privileges:view', 2, '1 hour', store => 'table') AS allowed;
ALTER VIEW table_privileges.v OWNER TO regress_rate_limit_user;
GRANT USAGE ON SCHEMA table_privileges TO regress_rate_limit_monitor;
GRANT SELECT ON table_privileges.v TO regress_rate_limit_monitor;
CREATE FUNCTION table_privileges.f() RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS
    $$ SELECT public.rate_limit_allowed('table_privileges:view', 2, '1 hour', store => 'table') $$;
ALTER FUNCTION table_privileges.f() OWNER TO regress_rate_limit_user;
SET ROLE regress_rate_limit_monitor;
SELECT allowed FROM table_privileges.v;
SELECT table_privileges.f();
SELECT allowed FROM table_privileges.v;
RESET ROLE;
-- with row security for all, and while somebody else does not want it
SET row_security = off;
SET ROLE regress_rate_limit_user;
SELECT used FROM rate_limit_check('table_privileges:a', 9, '1 hour', store => 'table');
RESET ROLE;
RESET row_security;

SET client_min_messages = warning;
DROP SCHEMA table_privileges CASCADE;
DROP ROLE regress_rate_limit_user, regress_rate_limit_monitor;
