-- the table store when its table is not as it should be
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;

-- a row that the functions have not written is an error, not an admission, and goes
-- with a reset
SELECT allowed FROM rate_limit_check('table_errors:a', 3, '1 hour', store => 'table');
SELECT allowed FROM rate_limit_check('table_errors:a', 3, '1 hour', 1, 'token_bucket', store => 'table');
CREATE FUNCTION pg_temp.with_state(bigint[]) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
    UPDATE rate_limit_state SET state = $1 WHERE key = 'table_errors:a' AND algorithm = 'sliding_window';
    PERFORM rate_limit_check('table_errors:a', 3, '1 hour', store => 'table');
    RETURN 'no error';
EXCEPTION WHEN data_corrupted THEN
    RETURN SQLERRM;
END
$$;
SELECT DISTINCT pg_temp.with_state(state)
FROM (VALUES ('{NULL}'::bigint[]), ('{1}'), ('{1,-5}'), ('{1,0}'), ('{4,2}'), ('{4,3,0,7}'),
             (array_fill(2::bigint, '{3000}')),
             ((SELECT array_agg(i * 2) FROM generate_series(1, 2000) i))) v(state);
UPDATE rate_limit_state SET state = '{1,2,3}' WHERE key = 'table_errors:a';
SELECT rate_limit_peek('table_errors:a', 3, '1 hour', 1, 'token_bucket', store => 'table');
SELECT rate_limit_reset('table_errors:a');
SELECT allowed FROM rate_limit_check('table_errors:a', 3, '1 hour', store => 'table');

-- no table, no decision
BEGIN;
ALTER TABLE rate_limit_state RENAME TO elsewhere;
SELECT rate_limit_check('table_errors:a', 3, '1 hour', store => 'table');
ROLLBACK;

-- the extension may go in a transaction that has used it
BEGIN;
SELECT count(*) FROM generate_series(1, 200) g WHERE rate_limit_allowed('table_errors:' || g, 3, '1 hour', store => 'table');
DROP EXTENSION rate_limit;
COMMIT;
CREATE EXTENSION rate_limit;
SELECT allowed, used FROM rate_limit_check('table_errors:a', 3, '1 hour', store => 'table');

-- nor within a command that is about to change the very row
SELECT allowed FROM rate_limit_check('table_errors:own', 3, '1 hour', store => 'table');
UPDATE rate_limit_state SET last_use = now() WHERE key = 'table_errors:own'
    RETURNING (rate_limit_check('table_errors:own', 3, '1 hour', store => 'table')).used;
SELECT used FROM rate_limit_check('table_errors:own', 3, '1 hour', store => 'table');
