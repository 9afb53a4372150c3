-- trigger: a table that refuses rows by itself
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window") VALUES
    ('trigger:posts', 'hour', 3, '1 hour'), ('trigger:edits', 'hour', 1, '1 hour');
CREATE TABLE posts (id int, author text, "Odd ""Name" int, body text DEFAULT 'x', made_at timestamptz);
CREATE TRIGGER limited BEFORE INSERT ON posts
    FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:posts', 'author');

-- three rows an hour and author, in one statement or in several
INSERT INTO posts VALUES (1, 'trigger:ann'), (2, 'trigger:ann');
INSERT INTO posts VALUES (3, 'trigger:ann'), (4, 'trigger:bob');
CREATE FUNCTION pg_temp.raised(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
    hint text;
BEGIN
    EXECUTE call;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    detail := regexp_replace(detail, '"retry_after":3[56][0-9][0-9]\.?[0-9]*,"reset_at":"[^"]*"', '"retry_after":…,"reset_at":…');
    hint := regexp_replace(hint, '3[56][0-9][0-9]\.[0-9]{6}', '…');
    RETURN concat_ws(E'\n', sqlstate, sqlerrm, nullif(detail, ''), nullif(hint, ''));
END
$$;
\pset format unaligned
\pset tuples_only on
SELECT pg_temp.raised($$INSERT INTO posts VALUES (5, 'trigger:ann')$$);
\pset format aligned
\pset tuples_only off
-- what was refused is not there, nor are other rows of its statement
SELECT split_part(pg_temp.raised($$INSERT INTO posts VALUES (6, 'trigger:bob'), (7, 'trigger:ann')$$), E'\n', 2) AS message;
SELECT id, author, body FROM posts ORDER BY id;
-- COPY, too
\set VERBOSITY terse
COPY posts (id, author) FROM stdin;
8	trigger:ann
\.
\set VERBOSITY default
-- a change of the policy acts on the next row
UPDATE rate_limit_policies SET "limit" = 5 WHERE policy = 'trigger:posts';
INSERT INTO posts VALUES (9, 'trigger:ann');
SELECT rule, used FROM rate_limit_usage('trigger:posts', 'trigger:ann');

-- the key is the text of the column, whatever its type and name
CREATE TRIGGER edits BEFORE UPDATE ON posts FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:edits', 'Odd "Name');
UPDATE posts SET "Odd ""Name" = 4242424 WHERE id = 1;
SELECT used FROM rate_limit_usage('trigger:edits', '4242424');
SELECT split_part(pg_temp.raised('UPDATE posts SET "Odd ""Name" = 4242424 WHERE id = 2'), E'\n', 2) AS message;
-- the new row of an update, the old one of a deletion
UPDATE posts SET "Odd ""Name" = 4242425 WHERE id = 1;
DROP TRIGGER edits ON posts;
CREATE TRIGGER edits BEFORE DELETE ON posts FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:edits', 'author');
DELETE FROM posts WHERE id = 4;
SELECT used FROM rate_limit_usage('trigger:edits', 'trigger:bob');
SELECT split_part(pg_temp.raised('DELETE FROM posts WHERE id IN (1, 2)'), E'\n', 2) AS message;
SELECT id FROM posts ORDER BY id;
DROP TRIGGER edits ON posts;

-- several triggers, by name
CREATE TRIGGER also BEFORE INSERT ON posts FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:edits', 'body');
INSERT INTO posts VALUES (10, 'trigger:cat', NULL, 'trigger:body');
SELECT split_part(pg_temp.raised($$INSERT INTO posts VALUES (11, 'trigger:cat', NULL, 'trigger:body')$$), E'\n', 2) AS message;
SELECT used FROM rate_limit_usage('trigger:posts', 'trigger:cat');
DROP TRIGGER also ON posts;

-- a null or empty key is an error, never a way around
INSERT INTO posts VALUES (12, NULL);
\echo :LAST_ERROR_SQLSTATE
INSERT INTO posts VALUES (12, '');
\echo :LAST_ERROR_SQLSTATE
-- so are a policy that is not there, and never, and a block
DELETE FROM rate_limit_policies WHERE policy = 'trigger:posts';
INSERT INTO posts VALUES (12, 'trigger:dan');
\echo :LAST_ERROR_SQLSTATE
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('trigger:posts', 0, '1 hour');
\pset format unaligned
\pset tuples_only on
SELECT regexp_replace(pg_temp.raised($$INSERT INTO posts VALUES (12, 'trigger:dan')$$), '"reset_at":"[^"]*"', '"reset_at":…');
UPDATE rate_limit_policies SET "limit" = 5 WHERE policy = 'trigger:posts';
SELECT rate_limit_block('trigger:dan');
SELECT pg_temp.raised($$INSERT INTO posts VALUES (12, 'trigger:dan')$$);
SELECT rate_limit_unblock('trigger:dan');
\pset format aligned
\pset tuples_only off

-- the one who inserts needs no right to the limits
CREATE ROLE regress_rate_limit_user;
GRANT ALL ON posts TO regress_rate_limit_user;
SET ROLE regress_rate_limit_user;
INSERT INTO posts VALUES (13, 'trigger:user');
SELECT count(*) FROM rate_limit_policies;
-- who makes tables can limit them, and a search_path cannot lead the trigger astray
CREATE TEMP TABLE own (author text);
CREATE TRIGGER own BEFORE INSERT ON own FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:edits', 'author');
CREATE FUNCTION pg_temp.rate_limit_enforce(text, text) RETURNS rate_limit_result LANGUAGE sql AS 'SELECT NULL::rate_limit_result';
SET search_path = pg_temp, public;
INSERT INTO own VALUES ('trigger:own');
\set VERBOSITY terse
INSERT INTO own VALUES ('trigger:own');
\set VERBOSITY default
RESET search_path;
RESET ROLE;
DROP TABLE own;
REVOKE ALL ON posts FROM regress_rate_limit_user;
DROP FUNCTION pg_temp.rate_limit_enforce;
DROP ROLE regress_rate_limit_user;

-- mistakes in the definition show with the first row
CREATE FUNCTION pg_temp.with_trigger(definition text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'DROP TABLE IF EXISTS pg_temp.t; CREATE TEMP TABLE t (a text); CREATE TRIGGER t ' || definition;
    RETURN pg_temp.raised($i$INSERT INTO t VALUES ('trigger:t')$i$);
END
$$;
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
SELECT pg_temp.with_trigger(d) FROM (VALUES
    (1, $$AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:posts', 'a')$$),
    (2, $$BEFORE INSERT ON t EXECUTE FUNCTION rate_limit_trigger('trigger:posts', 'a')$$),
    (3, $$BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger()$$),
    (4, $$BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:posts')$$),
    (5, $$BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:posts', 'a', '1')$$),
    (6, $$BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:posts', 'b')$$),
    (7, $$BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:posts', 'A')$$),
    (8, $$BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('trigger:posts', 'a')$$)) v(n, d) ORDER BY n;
\pset format aligned
\pset tuples_only off
SELECT rate_limit_trigger();

DROP TABLE posts;
DELETE FROM rate_limit_policies WHERE policy LIKE 'trigger:%';
