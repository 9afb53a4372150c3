-- the table store is part of the caller's transaction
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
-- what is used of two keys
CREATE FUNCTION pg_temp.used(OUT a bigint, OUT b bigint) LANGUAGE sql AS
$$
SELECT a.used, b.used FROM rate_limit_peek('table_transactions:a', 3, '1 hour', store => 'table') a,
    rate_limit_peek('table_transactions:b', 3, '1 hour', store => 'table') b
$$;
SET rate_limit.store = 'table';

-- fault 20: ROLLBACK, of the first hit and of a later one
BEGIN;
SELECT r.allowed, r.used FROM rate_limit_check('table_transactions:a', 3, '1 hour') r;
SELECT * FROM pg_temp.used();
ROLLBACK;
SELECT * FROM pg_temp.used();
SELECT r.allowed, r.used FROM rate_limit_check('table_transactions:a', 3, '1 hour') r;
BEGIN;
SELECT r.allowed, r.used FROM unnest('{1,1,1}'::int[]) cost, rate_limit_check('table_transactions:a', 3, '1 hour', cost) r;
ROLLBACK;
SELECT * FROM pg_temp.used();

-- fault 20: ROLLBACK TO SAVEPOINT
BEGIN;
SAVEPOINT s;
SELECT r.allowed, r.used FROM rate_limit_check('table_transactions:a', 3, '1 hour', 2) r;
SELECT r.allowed, r.used FROM rate_limit_check('table_transactions:a', 3, '1 hour', 2) r;
ROLLBACK TO SAVEPOINT s;
SELECT r.allowed, r.used FROM rate_limit_check('table_transactions:a', 3, '1 hour') r;
SAVEPOINT t;
SELECT r.allowed, r.used FROM rate_limit_check('table_transactions:b', 3, '1 hour') r;
ROLLBACK TO SAVEPOINT t;
COMMIT;
SELECT * FROM pg_temp.used();

-- fault 20: a PL/pgSQL exception block
DO $$
BEGIN
    PERFORM rate_limit_check('table_transactions:a', 3, '1 hour'), rate_limit_check('table_transactions:b', 3, '1 hour');
    RAISE EXCEPTION 'login failed';
EXCEPTION WHEN raise_exception THEN
    NULL;
END $$;
SELECT * FROM pg_temp.used();

-- fault 20: an error later in the statement; a refusal of require
SELECT r.allowed, 1 / (r.used - 3) AS error FROM rate_limit_check('table_transactions:a', 3, '1 hour') r;
SELECT * FROM pg_temp.used();
\set VERBOSITY sqlstate
SELECT rate_limit_require('table_transactions:b', 3, '1 hour', 4 - n) FROM generate_series(2, 3) n, generate_series(1, 2);
\set VERBOSITY default
SELECT * FROM pg_temp.used();

-- all or nothing with the transaction too; adjust and reset come back as well
BEGIN;
SELECT bool_and(allowed) AS allowed
FROM rate_limit_check_all('{table_transactions:b,table_transactions:a}', '{3,3}', '{1 hour,1 hour}');
SELECT used FROM rate_limit_adjust('table_transactions:b', 3, '1 hour', 4);
SELECT rate_limit_reset('table_transactions:a');
SELECT * FROM pg_temp.used();
ROLLBACK;
SELECT * FROM pg_temp.used();

-- the same key many times in a statement and in a transaction
SELECT count(*) FILTER (WHERE rate_limit_allowed('table_transactions:often', 20, '1 hour')) AS admitted
FROM generate_series(1, 50);
BEGIN;
DECLARE c CURSOR FOR SELECT rate_limit_allowed('table_transactions:cursor', 20, '1 hour') FROM generate_series(1, 50);
FETCH 2 FROM c;
SELECT used FROM rate_limit_check('table_transactions:cursor', 20, '1 hour', 17);
FETCH 2 FROM c;
COMMIT;
SELECT used FROM rate_limit_peek('table_transactions:cursor', 20, '1 hour');

-- a check in a trigger, in a function called by the statement that it limits
CREATE TEMP TABLE posts(author text, n int);
CREATE FUNCTION pg_temp.limit_posts() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    PERFORM rate_limit_require('table_transactions:post:' || NEW.author, 2, '1 hour');
    RETURN NEW;
END
$$;
CREATE TRIGGER limit_posts BEFORE INSERT ON posts FOR EACH ROW EXECUTE FUNCTION pg_temp.limit_posts();
INSERT INTO posts VALUES ('ann', 1), ('ann', 2), ('bob', 1);
\set VERBOSITY sqlstate
INSERT INTO posts VALUES ('bob', 2), ('ann', 3);
\set VERBOSITY default
SELECT author, count(*), (SELECT used FROM rate_limit_peek('table_transactions:post:' || author, 2, '1 hour')) AS used
FROM posts GROUP BY author ORDER BY author;

-- a READ ONLY transaction: a check is an error, also one that would be refused and of
-- a key without a counter; a peek is none, and the memory store works
SELECT used FROM unnest('{memory,table}'::text[]) store, rate_limit_check('table_transactions:ro', 1, '1 hour', store => store);
SELECT used FROM rate_limit_check('table_transactions:ro memory', 1, '1 hour', store => 'memory');
SET default_transaction_read_only = on;
SELECT allowed, used FROM rate_limit_peek('table_transactions:ro', 1, '1 hour');
SELECT allowed, used FROM rate_limit_peek('table_transactions:unknown', 1, '1 hour');
SELECT allowed, used FROM rate_limit_check('table_transactions:ro memory', 2, '1 hour', store => 'memory');
\set VERBOSITY sqlstate
SELECT allowed, used FROM rate_limit_check('table_transactions:ro', 1, '1 hour');
SELECT rate_limit_allowed('table_transactions:ro', 2, '1 hour');
SELECT rate_limit_allowed('table_transactions:unknown', 3, '1 hour');
SELECT rate_limit_require('table_transactions:a', 3, '1 hour');
SELECT rate_limit_adjust('table_transactions:a', 3, '1 hour', 1);
SELECT * FROM rate_limit_check_all('{table_transactions:a}', '{3}', '{1 hour}');
SELECT rate_limit_prune();
-- a reset that would leave a counter of the table behind is an error too, and removes
-- nothing; one that finds none there works
SELECT rate_limit_reset('table_transactions:ro');
SELECT rate_limit_reset_prefix('table_transactions:ro');
SELECT rate_limit_reset('table_transactions:ro memory');
SELECT rate_limit_reset_prefix('table_transactions:ro m');
\set VERBOSITY default
RESET default_transaction_read_only;
SELECT store, used FROM unnest('{memory,table}'::text[]) store, rate_limit_peek('table_transactions:ro', 1, '1 hour', store => store);
SELECT * FROM pg_temp.used();
-- such an error in a batch leaves the transaction as it was, with what it did before
BEGIN;
SELECT used FROM rate_limit_check('table_transactions:c', 3, '1 hour');
DO $$
BEGIN
    SET TRANSACTION READ ONLY;
    PERFORM rate_limit_check_all('{table_transactions:c,table_transactions:d}', '{3,3}', '{1 hour,1 hour}');
EXCEPTION WHEN read_only_sql_transaction THEN
    RAISE NOTICE 'read only';
END $$;
SELECT used FROM rate_limit_check('table_transactions:c', 3, '1 hour');
COMMIT;
SELECT key, used FROM unnest('{table_transactions:c,table_transactions:d}'::text[]) key, rate_limit_peek(key, 3, '1 hour');

-- fault 19: the clock is not that of the transaction's start
BEGIN;
SELECT clock_timestamp() AS before \gset
SELECT now() < :'before' AS transaction_started_before,
    r.reset_at - interval '1 hour' BETWEEN :'before' AND clock_timestamp() AS now
FROM rate_limit_check('table_transactions:now', 3, '1 hour') r;
COMMIT;
RESET rate_limit.store;
