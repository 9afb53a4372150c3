-- settings: nobody but a superuser loosens a limit
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;

SELECT rate_limit_allowed('settings:loaded', 1, '1 hour');
SELECT name, context IN ('sighup', 'postmaster') AS server, context = 'superuser' AS superuser, vartype, unit,
       boot_val, min_val, max_val, enumvals
FROM pg_settings WHERE name LIKE 'rate\_limit.%' ORDER BY name;
SELECT name FROM pg_settings WHERE name LIKE 'rate\_limit.%' AND (short_desc = '' OR extra_desc IS NULL);

-- bad values, unknown names
SET rate_limit.mode = 'nonsense';
SET rate_limit.exact_hits = 0;
SET rate_limit.exact_hits = 1025;
SET rate_limit.unknown = 1;

-- an ordinary user, when the library is there
CREATE ROLE regress_rate_limit_user;
SET SESSION AUTHORIZATION regress_rate_limit_user;
SET rate_limit.mode = off;
SET rate_limit.mode = shadow;
SET rate_limit.mode = enforce;
SELECT set_config('rate_limit.mode', 'off', false);
SET rate_limit.exact_hits = 1024;
ALTER ROLE regress_rate_limit_user SET rate_limit.mode = off;
ALTER ROLE regress_rate_limit_user SET rate_limit.exact_hits = 1;
CREATE FUNCTION pg_temp.sneak() RETURNS boolean LANGUAGE sql SET rate_limit.mode = off AS
    'SELECT rate_limit_allowed(''settings:a'', 1, ''1 hour'')';
RESET SESSION AUTHORIZATION;

-- and in a new connection, when it may not be there yet.  Whether that is an error
-- at once or the value is dropped when the library comes depends on whether the
-- server loads it at start: what counts is that the limit holds
\c -
SET SESSION AUTHORIZATION regress_rate_limit_user;
SET client_min_messages = error;
DO $$
BEGIN
    SET rate_limit.mode = off;
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$;
SELECT allowed, used
FROM unnest('{1,1,1}'::int[]) cost, rate_limit_check('settings:set', 1, '1 hour', cost);
SHOW rate_limit.mode;

\c -
SET SESSION AUTHORIZATION regress_rate_limit_user;
SET client_min_messages = error;
DO $$
BEGIN
    PERFORM set_config('rate_limit.mode', 'shadow', false), set_config('rate_limit.exact_hits', '1', false),
        set_config('rate_limit.memory', '1MB', false);
EXCEPTION WHEN insufficient_privilege OR cant_change_runtime_param THEN NULL;
END $$;
SELECT allowed, used
FROM unnest('{1,1,1}'::int[]) cost, rate_limit_check('settings:set_config', 1, '1 hour', cost);
SHOW rate_limit.mode;
SHOW rate_limit.exact_hits;

\c -
SET SESSION AUTHORIZATION regress_rate_limit_user;
SET client_min_messages = error;
BEGIN;
DO $$
BEGIN
    SET LOCAL rate_limit.mode = off;
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$;
SELECT allowed, used
FROM unnest('{1,1,1}'::int[]) cost, rate_limit_check('settings:set_local', 1, '1 hour', cost);
SHOW rate_limit.mode;
COMMIT;

\c -
SET SESSION AUTHORIZATION regress_rate_limit_user;
SET client_min_messages = error;
DO $$
BEGIN
    CREATE FUNCTION pg_temp.sneak(cost int) RETURNS boolean LANGUAGE sql SET rate_limit.mode = off AS
        'SELECT rate_limit_allowed(''settings:function'', 1, ''1 hour'', cost)';
EXCEPTION WHEN insufficient_privilege THEN
    CREATE FUNCTION pg_temp.sneak(cost int) RETURNS boolean LANGUAGE sql AS
        'SELECT rate_limit_allowed(''settings:function'', 1, ''1 hour'', cost)';
END $$;
SELECT pg_temp.sneak(cost) FROM unnest('{1,1,1}'::int[]) cost;

\c -
SET SESSION AUTHORIZATION regress_rate_limit_user;
ALTER ROLE regress_rate_limit_user SET rate_limit.mode = off;
ALTER ROLE CURRENT_USER SET rate_limit.exact_hits = 1;
RESET SESSION AUTHORIZATION;
SELECT count(*) AS settings FROM pg_db_role_setting
WHERE setrole = 'regress_rate_limit_user'::regrole;

-- a superuser may, for himself and for a role
SET rate_limit.mode = shadow;
SHOW rate_limit.mode;
SELECT rate_limit_allowed('settings:set', 1, '1 hour');
RESET rate_limit.mode;
SELECT rate_limit_allowed('settings:set', 1, '1 hour');
ALTER ROLE regress_rate_limit_user SET rate_limit.mode = shadow;
ALTER ROLE regress_rate_limit_user RESET ALL;
DROP ROLE regress_rate_limit_user;
