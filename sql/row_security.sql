-- row_security: limits in policies of row level security; what they charge stays
-- when the statement fails
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
CREATE FUNCTION pg_temp.used(key text) RETURNS bigint LANGUAGE sql AS
    $$ SELECT used FROM rate_limit_peek(key, 1000, '1 hour') $$;
CREATE ROLE regress_rate_limit_user;
CREATE TABLE row_security AS SELECT generate_series(1, 10) AS id;
GRANT SELECT ON row_security TO regress_rate_limit_user;
ALTER TABLE row_security ENABLE ROW LEVEL SECURITY;

-- fault 29: a subquery without a column of the row is called once, else for each row
CREATE POLICY each_row ON row_security USING (rate_limit_allowed('row_security:row', 15, '1 hour'));
SET ROLE regress_rate_limit_user;
SELECT count(*) FROM row_security;
SELECT count(*) FROM row_security;
RESET ROLE;
DROP POLICY each_row ON row_security;
CREATE POLICY each_query ON row_security USING ((SELECT rate_limit_allowed('row_security:query', 2, '1 hour')));
SET ROLE regress_rate_limit_user;
SELECT count(*) FROM row_security;
SELECT count(*) FROM row_security;
SELECT count(*) FROM row_security;
RESET ROLE;
SELECT pg_temp.used('row_security:row') AS rows, pg_temp.used('row_security:query') AS queries;
DROP POLICY each_query ON row_security;
CREATE POLICY each_row ON row_security USING ((SELECT rate_limit_allowed('row_security:of:' || id % 2, 3, '1 hour')));
SET ROLE regress_rate_limit_user;
SELECT array_agg(id ORDER BY id) FROM row_security;
SELECT count(*) FROM row_security;
RESET ROLE;
DROP POLICY each_row ON row_security;

-- for what is written: the statement fails as a whole, what it has charged stays
GRANT INSERT, UPDATE ON row_security TO regress_rate_limit_user;
CREATE POLICY visible ON row_security FOR SELECT USING (true);
CREATE POLICY changed ON row_security FOR UPDATE USING (true) WITH CHECK (rate_limit_allowed('row_security:update', 2, '1 hour'));
CREATE FUNCTION row_security_required(key text) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN PERFORM rate_limit_require(key, 3, '1 hour'); RETURN true; END $$;
CREATE POLICY written ON row_security FOR INSERT WITH CHECK (row_security_required('row_security:insert'));
\set VERBOSITY terse
SET ROLE regress_rate_limit_user;
INSERT INTO row_security VALUES (11), (12);
INSERT INTO row_security VALUES (13), (14);
\echo :LAST_ERROR_SQLSTATE
UPDATE row_security SET id = 21 WHERE id = 11;
UPDATE row_security SET id = id + 10 WHERE id IN (12, 21);
\echo :LAST_ERROR_SQLSTATE
UPDATE row_security SET id = 22 WHERE id = 12;
SELECT array_agg(id ORDER BY id) FROM row_security WHERE id > 10;
RESET ROLE;
\set VERBOSITY default
SELECT pg_temp.used('row_security:insert') AS calls, pg_temp.used('row_security:update') AS updates;
DROP TABLE row_security;
DROP FUNCTION row_security_required;

-- rate_limit_enforce: once in a subquery, else once for each row
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('row_security:p', 3, '1 hour');
CREATE TABLE row_security AS SELECT generate_series(1, 10) AS id;
GRANT SELECT, INSERT ON row_security TO regress_rate_limit_user;
ALTER TABLE row_security ENABLE ROW LEVEL SECURITY;
CREATE POLICY each_query ON row_security FOR SELECT USING ((SELECT allowed FROM rate_limit_enforce('row_security:p', 'row_security:query')));
CREATE POLICY written ON row_security FOR INSERT WITH CHECK ((rate_limit_enforce('row_security:p', 'row_security:written:' || id % 2)).allowed);
SET ROLE regress_rate_limit_user;
SELECT n, (SELECT count(*) FROM row_security WHERE id > 0 * n) AS rows FROM generate_series(1, 5) n;
INSERT INTO row_security SELECT generate_series(1, 6);
\set VERBOSITY sqlstate
INSERT INTO row_security VALUES (7);
\set VERBOSITY default
RESET ROLE;
SELECT count(*) FROM row_security;
SELECT key, u.used FROM unnest('{row_security:query,row_security:written:0,row_security:written:1}'::text[]) key, rate_limit_usage('row_security:p', key) u ORDER BY key;
DROP TABLE row_security;
DELETE FROM rate_limit_policies WHERE policy = 'row_security:p';
DROP ROLE regress_rate_limit_user;
