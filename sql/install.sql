-- the objects of the extension, and who may use them
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS rate_limit CASCADE;  -- a session of the test before may still be leaving
RESET client_min_messages;
CREATE EXTENSION rate_limit;

-- relocation is not supported, other schemas are: see schema.sql
SELECT extversion, extrelocatable FROM pg_extension WHERE extname = 'rate_limit';

-- newer versions list the row types of the views and all array types, too
CREATE TEMP VIEW members AS
SELECT classid, objid, pg_describe_object(classid, objid, objsubid) AS object
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'rate_limit')
  AND deptype = 'e'
  AND (classid <> 'pg_type'::regclass OR objid = 'rate_limit_result'::regtype);
SELECT object FROM members ORDER BY object COLLATE "C";

-- every object has a comment, so has every column of the result row
SELECT object FROM members WHERE obj_description(objid, classid::regclass::name) IS NULL;
SELECT count(*) AS extension FROM pg_extension
WHERE extname = 'rate_limit' AND obj_description(oid, 'pg_extension') <> '';
SELECT attname FROM pg_attribute
WHERE attrelid = 'rate_limit_result'::regclass AND attnum > 0
  AND col_description(attrelid, attnum) IS NULL;

CREATE TEMP VIEW functions AS
SELECT p.* FROM pg_proc p JOIN members ON classid = 'pg_proc'::regclass AND objid = p.oid;

-- no overloads: untyped parameters always resolve
SELECT count(*) - count(DISTINCT proname) AS overloads FROM functions;

-- arguments as in the documentation
\pset format unaligned
\pset tuples_only on
SELECT proname || '(' || replace(replace(pg_get_function_arguments(oid), '::text', ''), ', ', E',\n    ') || E')\n    -> '
       || pg_get_function_result(oid)
FROM functions ORDER BY proname;
\pset format aligned
\pset tuples_only off

-- volatile, called on NULL too (which is an error), with the caller's rights, and
-- never in a parallel worker
SELECT proname, provolatile AS volatile, proparallel AS parallel, proisstrict AS strict,
       prosecdef AS definer, proleakproof AS leakproof
FROM functions ORDER BY proname;

-- who may execute and read
CREATE ROLE regress_rate_limit_user;
CREATE ROLE regress_rate_limit_monitor IN ROLE pg_monitor;
SELECT proname, has_function_privilege('regress_rate_limit_user', oid, 'execute') AS everyone,
       has_function_privilege('regress_rate_limit_monitor', oid, 'execute') AS pg_monitor
FROM functions ORDER BY proname;
SELECT relname, has_table_privilege('regress_rate_limit_user', c.oid, 'select') AS everyone,
       has_table_privilege('regress_rate_limit_monitor', c.oid, 'select') AS pg_monitor,
       has_table_privilege('regress_rate_limit_monitor', c.oid, 'insert, update, delete, truncate') AS change
FROM pg_class c JOIN members ON classid = 'pg_class'::regclass AND objid = c.oid
ORDER BY relname;
SELECT has_type_privilege('regress_rate_limit_user', 'rate_limit_result', 'usage') AS result_row;
-- as an ordinary user: the deciding functions work, the others are refused
SET ROLE regress_rate_limit_user;
SELECT rate_limit_allowed('install:a', 2, '1 hour');
SELECT r.used FROM rate_limit_check('install:a', 2, '1 hour') r;
SELECT r.used FROM rate_limit_peek('install:a', 2, '1 hour') r;
SELECT r.used FROM rate_limit_check_all('{install:b}', '{2}', '{1 hour}') r;
SELECT rate_limit_require('install:c', 2, '1 hour');
SELECT rate_limit_reset('install:a');
SELECT rate_limit_reset_prefix('install:a');
SELECT rate_limit_block('install:a');
SELECT rate_limit_unblock('install:a');
SELECT rate_limit_adjust('install:a', 2, '1 hour', -1);
SELECT rate_limit_adjust_at(now(), 'install:a', 2, '1 hour', -1);
SELECT rate_limit_check_at(now(), 'install:a', 2, '1 hour');
SELECT rate_limit_peek_at(now(), 'install:a', 2, '1 hour');
RESET ROLE;
DROP ROLE regress_rate_limit_user, regress_rate_limit_monitor;

-- fault 18: nothing is stored in tables, indexes or sequences
SELECT count(*) AS with_storage FROM pg_class c JOIN members ON classid = 'pg_class'::regclass AND objid = c.oid
WHERE relkind <> 'v';
