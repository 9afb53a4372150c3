-- how often a call in a query is made
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;

CREATE FUNCTION pg_temp.used(key text) RETURNS bigint LANGUAGE sql AS
    $$ SELECT used FROM rate_limit_peek(key, 1000, '1 hour') $$;
CREATE TABLE per_row(id int);
INSERT INTO per_row SELECT generate_series(1, 10);

-- fault 29: in FROM: once
SELECT r.allowed, r.limit, r.used, r.remaining, r.retry_after, r.rule FROM rate_limit_check('per_row:from', 1000, '1 hour') r;
SELECT pg_temp.used('per_row:from') AS calls;

-- fault 29: (f()).*: once for each of the seven columns
SELECT count(*) FROM (SELECT (rate_limit_check('per_row:star', 1000, '1 hour')).*) r WHERE used > 0;
SELECT pg_temp.used('per_row:star') AS calls;

-- the row as one column: once
SELECT pg_typeof(rate_limit_check('per_row:column', 1000, '1 hour'));
SELECT pg_temp.used('per_row:column') AS calls;
SELECT (r).allowed, (r).used, (r).remaining FROM (SELECT rate_limit_check('per_row:offset', 1000, '1 hour') AS r OFFSET 0) s;
SELECT pg_temp.used('per_row:offset') AS calls;

-- in FROM without a column of another table among the arguments: once for the whole
-- join; with one: once for each row
SELECT count(*) FROM per_row, rate_limit_check('per_row:join', 1000, '1 hour') r WHERE r.allowed;
SELECT pg_temp.used('per_row:join') AS calls;
SELECT count(*) FROM per_row, rate_limit_check('per_row:lateral' || left(id::text, 0), 1000, '1 hour') r WHERE r.allowed;
SELECT pg_temp.used('per_row:lateral') AS calls;

-- fault 29: in WHERE: once for each row; in a subquery: once
SELECT count(*) FROM per_row WHERE rate_limit_allowed('per_row:where', 1000, '1 hour');
SELECT pg_temp.used('per_row:where') AS calls;
SELECT count(*) FROM per_row WHERE (SELECT rate_limit_allowed('per_row:subquery', 1000, '1 hour'));
SELECT pg_temp.used('per_row:subquery') AS calls;
-- so three of ten rows, or all or none of them
SELECT id FROM per_row WHERE rate_limit_allowed('per_row:three', 3, '1 hour');
SELECT n, (SELECT count(*) FROM per_row WHERE (SELECT rate_limit_allowed('per_row:two', 2 + 0 * n, '1 hour'))) AS rows
FROM generate_series(1, 3) n;

-- fault 29: the same in a policy of row level security
CREATE ROLE regress_rate_limit_user;
GRANT SELECT ON per_row TO regress_rate_limit_user;
ALTER TABLE per_row ENABLE ROW LEVEL SECURITY;
CREATE POLICY each_row ON per_row USING (rate_limit_allowed('per_row:policy', 1000, '1 hour'));
SET ROLE regress_rate_limit_user;
SELECT count(*) FROM per_row;
RESET ROLE;
SELECT pg_temp.used('per_row:policy') AS calls;
DROP POLICY each_row ON per_row;
CREATE POLICY each_query ON per_row USING ((SELECT rate_limit_allowed('per_row:query', 2, '1 hour')));
SET ROLE regress_rate_limit_user;
SELECT count(*) FROM per_row;
SELECT count(*) FROM per_row;
SELECT count(*) FROM per_row;
RESET ROLE;
DROP TABLE per_row;
DROP ROLE regress_rate_limit_user;

-- in a CHECK constraint: once for each row that is written
CREATE TEMP TABLE messages(sender text, CHECK (rate_limit_allowed('per_row:check:' || sender, 2, '1 hour')));
INSERT INTO messages VALUES ('ann'), ('ann'), ('bob');
INSERT INTO messages VALUES ('ann');
INSERT INTO messages VALUES ('bob');
SELECT sender, count(*) FROM messages GROUP BY sender ORDER BY sender;
