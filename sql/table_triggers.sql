-- rate_limit_state is a table: who puts triggers and indexes on it gets what they are for
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
CREATE TABLE public.seen (what text, used int);
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    INSERT INTO public.seen VALUES (concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL), CASE TG_LEVEL WHEN 'ROW' THEN cardinality(new.state) END);
    RETURN new;
END
$$;
CREATE TRIGGER a_before BEFORE INSERT OR UPDATE ON rate_limit_state FOR EACH ROW EXECUTE FUNCTION public.note();
CREATE TRIGGER b_after AFTER INSERT OR UPDATE OF state ON rate_limit_state FOR EACH ROW EXECUTE FUNCTION public.note();
CREATE TRIGGER c_statement AFTER UPDATE ON rate_limit_state EXECUTE FUNCTION public.note();
SELECT r.* FROM generate_series(1, 3) g, LATERAL
    (SELECT allowed, used FROM rate_limit_check(left('table_triggers:a', 16 + g - g), 2, '1 hour', store => 'table')) r;
SELECT * FROM public.seen;

-- they run as the owner of the table, and do not find what a caller puts in their way
CREATE FUNCTION public.audit() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    INSERT INTO public.seen VALUES (lower('AUDIT by ') || current_user, 0);
    RETURN new;
END
$$;
CREATE ROLE regress_rate_limit_mallory;
CREATE SCHEMA mallory AUTHORIZATION regress_rate_limit_mallory;
CREATE TRIGGER d_audit AFTER INSERT OR UPDATE ON rate_limit_state FOR EACH ROW EXECUTE FUNCTION public.audit();
SET ROLE regress_rate_limit_mallory;
CREATE FUNCTION mallory.lower(text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE ''% calls this as %'', session_user, current_user; END';
SET search_path = mallory, public, pg_catalog;
SELECT allowed FROM rate_limit_check('table_triggers:m', 2, '1 hour', store => 'table');
SELECT allowed FROM rate_limit_check('table_triggers:m', 2, '1 hour', store => 'table');
SHOW search_path;
RESET ROLE;
RESET search_path;
SELECT count(*), bool_and(what = 'audit by ' || current_user) AS by_the_owner FROM public.seen WHERE what LIKE 'audit%';
DROP TRIGGER d_audit ON rate_limit_state;
DROP FUNCTION mallory.lower;
DROP SCHEMA mallory;
DROP ROLE regress_rate_limit_mallory;

-- a trigger that keeps a row from being written is an error, not an admission
CREATE FUNCTION public.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER e_nothing BEFORE INSERT OR UPDATE ON rate_limit_state FOR EACH ROW EXECUTE FUNCTION public.nothing();
SELECT allowed FROM rate_limit_check('table_triggers:m', 5, '1 hour', store => 'table');
SELECT allowed FROM rate_limit_check('table_triggers:new', 5, '1 hour', store => 'table');
DROP TRIGGER a_before ON rate_limit_state;
DROP TRIGGER b_after ON rate_limit_state;
DROP TRIGGER c_statement ON rate_limit_state;
DROP TRIGGER e_nothing ON rate_limit_state;
SELECT used FROM rate_limit_check('table_triggers:m', 5, '1 hour', store => 'table');

-- an index on what changes is kept, and so is a generated column
ALTER TABLE rate_limit_state ADD hits int GENERATED ALWAYS AS (cardinality(state)) STORED;
SELECT count(*) FILTER (WHERE rate_limit_allowed('table_triggers:g', 50, '1 hour', store => 'table')) FROM generate_series(1, 60);
SELECT hits FROM rate_limit_state WHERE key = 'table_triggers:g';
ALTER TABLE rate_limit_state DROP hits;
CREATE INDEX table_triggers_last_use ON rate_limit_state (last_use);
SELECT count(*) FILTER (WHERE rate_limit_allowed('table_triggers:b', 50, '1 hour', store => 'table')) FROM generate_series(1, 60);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT cardinality(state) FROM rate_limit_state WHERE last_use > now() - interval '1 hour' AND key = 'table_triggers:b' ORDER BY last_use;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP INDEX table_triggers_last_use;

-- rows that could not be made sense of are not taken
\set VERBOSITY terse
INSERT INTO rate_limit_state VALUES ('bad', '', '', 'leaky_bucket', 1, 'microsecond', '', '{}', 1, now(), now());
INSERT INTO rate_limit_state VALUES ('bad', '', '', 'fixed_window', 0, 'microsecond', '', '{}', 1, now(), now());
INSERT INTO rate_limit_state VALUES ('bad', '', '', 'fixed_window', 1, 'hour', 'UTC', '{}', 1, now(), now());
INSERT INTO rate_limit_state VALUES ('bad', '', '', 'sliding_window', 1, 'day', 'UTC', '{}', 1, now(), now());
INSERT INTO rate_limit_state VALUES ('bad', '', '', 'fixed_window', 1, 'day', '', '{}', 1, now(), now());
\set VERBOSITY default

-- a row that the transaction has locked itself
BEGIN;
SELECT key FROM rate_limit_state WHERE key = 'table_triggers:m' FOR UPDATE;
SELECT used FROM rate_limit_check('table_triggers:m', 5, '1 hour', store => 'table');
COMMIT;

-- a transaction that becomes read-only after its check commits all the same
DO $$
BEGIN
    FOR i IN 1 .. 200 LOOP
        PERFORM rate_limit_check('table_triggers:r', 1000, '1 hour', store => 'table');
        SET TRANSACTION READ ONLY;
        COMMIT;
    END LOOP;
END $$;
SELECT used FROM rate_limit_peek('table_triggers:r', 1000, '1 hour', store => 'table');
DROP TABLE public.seen;
DROP FUNCTION public.note, public.audit, public.nothing;
SELECT rate_limit_reset_prefix('table_triggers:');
