-- transactions: a hit of the memory store stays, whatever becomes of its transaction
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;

-- fault 20: ROLLBACK
BEGIN;
SELECT r.allowed, r.used FROM rate_limit_check('transactions:a', 2, '1 hour') r;
ROLLBACK;
SELECT r.used FROM rate_limit_peek('transactions:a', 2, '1 hour') r;

-- fault 20: ROLLBACK TO SAVEPOINT
BEGIN;
SAVEPOINT s;
SELECT r.allowed, r.used FROM rate_limit_check('transactions:a', 2, '1 hour') r;
ROLLBACK TO SAVEPOINT s;
SELECT r.allowed, r.used FROM rate_limit_check('transactions:a', 2, '1 hour') r;
COMMIT;

-- fault 20: a PL/pgSQL exception block
DO $$
BEGIN
    PERFORM rate_limit_check('transactions:b', 2, '1 hour');
    RAISE EXCEPTION 'login failed';
EXCEPTION WHEN raise_exception THEN
    NULL;
END $$;
SELECT r.used FROM rate_limit_peek('transactions:b', 2, '1 hour') r;

-- fault 20: an error later in the statement
SELECT r.allowed, 1 / (r.used - 2) AS error FROM rate_limit_check('transactions:b', 2, '1 hour') r;
SELECT r.used FROM rate_limit_peek('transactions:b', 2, '1 hour') r;

-- all of it: check_all, adjust, reset
BEGIN;
SELECT bool_and(allowed) AS allowed FROM rate_limit_check_all('{transactions:c,transactions:d}', '{5,5}', '{1 hour,1 hour}');
SELECT used FROM rate_limit_adjust('transactions:c', 5, '1 hour', 3);
SELECT used FROM rate_limit_check('transactions:e', 5, '1 hour');
SELECT rate_limit_reset('transactions:e');
ROLLBACK;
SELECT key, used FROM unnest('{transactions:c,transactions:d,transactions:e}'::text[]) key,
    rate_limit_peek(key, 5, '1 hour');

-- fault 28: a READ ONLY transaction, of each isolation level, also when it rolls back
BEGIN READ ONLY;
SELECT allowed, used FROM rate_limit_check('transactions:ro', 9, '1 hour');
SELECT rate_limit_allowed('transactions:ro', 9, '1 hour');
SELECT rate_limit_require('transactions:ro', 9, '1 hour');
SELECT used FROM rate_limit_check_all('{transactions:ro}', '{9}', '{1 hour}');
SELECT used FROM rate_limit_adjust('transactions:ro', 9, '1 hour', 1);
SELECT rate_limit_block('transactions:ro:blocked');
SELECT rate_limit_unblock('transactions:ro:blocked');
SELECT used FROM rate_limit_check('transactions:ro:reset', 9, '1 hour');
SELECT rate_limit_reset('transactions:ro:reset');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE;
SELECT allowed, used FROM rate_limit_check('transactions:ro', 9, '1 hour');
COMMIT;
SET default_transaction_read_only = on;
SELECT allowed, used FROM rate_limit_check('transactions:ro', 9, '1 hour');
RESET default_transaction_read_only;

-- fault 22: REPEATABLE READ and SERIALIZABLE see every hit, not a snapshot of them
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) >= 0 AS snapshot FROM pg_class;
SELECT allowed, used FROM rate_limit_check('transactions:rr', 9, '1 hour');
SELECT allowed, used FROM rate_limit_check('transactions:rr', 9, '1 hour');
COMMIT;

-- fault 18: no transaction id is used, so nothing is written, and nothing is locked
BEGIN;
SELECT allowed, used FROM rate_limit_check('transactions:xid', 1, '1 hour');
SELECT rate_limit_allowed('transactions:xid', 1, '1 hour');
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid;
SELECT locktype, mode FROM pg_locks
WHERE pid = pg_backend_pid() AND locktype NOT IN ('virtualxid')
  AND relation IS DISTINCT FROM 'pg_locks'::regclass
  AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relnamespace = 'pg_catalog'::regnamespace);
COMMIT;

-- a function that catches the refusal of require
CREATE FUNCTION pg_temp.try(key text) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
    PERFORM rate_limit_require(key, 1, '1 hour');
    RETURN 'done';
EXCEPTION WHEN SQLSTATE 'RL429' THEN
    RETURN 'come again';
END
$$;
SELECT pg_temp.try('transactions:try');
SELECT pg_temp.try('transactions:try');

-- a trigger that refuses rows, as part of a statement that fails as a whole
CREATE TEMP TABLE posts(author text, n int);
CREATE FUNCTION pg_temp.limit_posts() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    PERFORM rate_limit_require('transactions:post:' || NEW.author, 2, '1 hour');
    RETURN NEW;
END
$$;
CREATE TRIGGER limit_posts BEFORE INSERT ON posts FOR EACH ROW EXECUTE FUNCTION pg_temp.limit_posts();
INSERT INTO posts VALUES ('ann', 1), ('ann', 2), ('bob', 1);
\set VERBOSITY sqlstate
INSERT INTO posts VALUES ('bob', 2), ('ann', 3);
\set VERBOSITY default
SELECT author, count(*), (SELECT used FROM rate_limit_peek('transactions:post:' || author, 2, '1 hour')) AS used
FROM posts GROUP BY author ORDER BY author;
