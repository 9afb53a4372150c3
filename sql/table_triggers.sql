-- rate_limit_state is a table: who puts triggers and indexes on it gets what they are for
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
CREATE TABLE seen (what text, used int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    INSERT INTO seen VALUES (TG_WHEN || ' ' || TG_OP, cardinality(new.state));
    RETURN new;
END
$$;
CREATE TRIGGER before_row BEFORE INSERT OR UPDATE ON rate_limit_state FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER after_row AFTER INSERT OR UPDATE ON rate_limit_state FOR EACH ROW EXECUTE FUNCTION note();
SELECT r.* FROM generate_series(1, 3) g, LATERAL
    (SELECT allowed, used FROM rate_limit_check(left('table_triggers:a', 16 + g - g), 2, '1 hour', store => 'table')) r;
SELECT * FROM seen;
DROP TRIGGER before_row ON rate_limit_state;
DROP TRIGGER after_row ON rate_limit_state;

-- an index on what changes is kept
CREATE INDEX table_triggers_last_use ON rate_limit_state (last_use);
SELECT count(*) FILTER (WHERE rate_limit_allowed('table_triggers:b', 50, '1 hour', store => 'table')) FROM generate_series(1, 60);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT cardinality(state) FROM rate_limit_state WHERE last_use > now() - interval '1 hour' AND key = 'table_triggers:b' ORDER BY last_use;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP INDEX table_triggers_last_use;
DROP TABLE seen;
DROP FUNCTION note;
SELECT rate_limit_reset_prefix('table_triggers:');
