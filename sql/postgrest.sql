-- postgrest: limits in a db-pre-request of PostgREST
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm) VALUES
    ('postgrest:api', 'minute', 2, '1 min', 'sliding_window'), ('postgrest:api', 'month', 100, '1 month', 'fixed_window'),
    ('postgrest:open', 'any', NULL, '1 min', 'sliding_window'), ('postgrest:never', 'any', 0, '1 min', 'sliding_window'),
    ('postgrest:ä', 'stündlich', 5, '1 hour', 'sliding_window');

-- what PostgREST runs for a POST: a transaction, its settings, the function, the
-- statement; then it reads the headers
CREATE ROLE regress_rate_limit_anon;
CREATE TABLE posts (id int);
GRANT ALL ON posts TO regress_rate_limit_anon;
CREATE FUNCTION pre_request() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM rate_limit_postgrest('postgrest:api',
        'postgrest:' || rate_limit_ip_key((current_setting('request.headers')::json ->> 'x-real-ip')::inet));
END
$$;
CREATE VIEW headers AS
SELECT ord, key, CASE WHEN key = 'X-RateLimit-Reset'
                      THEN (value::int8 - extract(epoch FROM clock_timestamp()) BETWEEN 0 AND 61)::text
                      ELSE regexp_replace(value, 't=(59|60)$', 't=60') END AS value
FROM json_array_elements(nullif(current_setting('response.headers', true), '')::json) WITH ORDINALITY a(object, ord),
    json_each_text(object)
ORDER BY ord, key COLLATE "C";
GRANT SELECT ON headers TO regress_rate_limit_anon;

BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT set_config('search_path', current_setting('search_path'), true) <> '' AS search_path,
       set_config('role', 'regress_rate_limit_anon', true) AS role,
       set_config('request.method', 'POST', true) AS method, set_config('request.path', '/posts', true) AS path,
       set_config('request.headers', '{"x-real-ip": "::ffff:192.0.2.1"}', true) <> '' AS headers;
SELECT pre_request();
INSERT INTO posts VALUES (1);
SELECT key, value FROM headers ORDER BY key COLLATE "C";
COMMIT;
-- nothing stays for the next request of the connection
SELECT count(*) FROM headers;

-- headers that are there stay, in their order; one object with one key for each
BEGIN;
SET LOCAL "request.headers" = '{"x-real-ip": "192.0.2.1"}';
SET LOCAL "response.headers" = '[{"Cache-Control": "no-store"}, {"Set-Cookie": "a=1"}, {"Set-Cookie": "b=2"}]';
SELECT pre_request();
SELECT * FROM headers WHERE ord <= 3;
SELECT count(*), bool_and(json_typeof(value) = 'string') AS strings, max(n) AS keys
FROM (SELECT value, count(*) OVER (PARTITION BY ord) AS n
      FROM json_array_elements(current_setting('response.headers')::json) WITH ORDINALITY a(object, ord), json_each(object)) h;
COMMIT;

-- the third call within a minute: an error of which PostgREST makes a response
CREATE FUNCTION pg_temp.raised(call text, OUT state text, OUT message json, OUT detail json, OUT hint text) LANGUAGE plpgsql AS $$
DECLARE
    message_text text;
    detail_text text;
BEGIN
    EXECUTE call;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message_text = MESSAGE_TEXT,
        detail_text = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    message := message_text;
    detail := detail_text;
END
$$;
BEGIN;
SET LOCAL "request.headers" = '{"x-real-ip": "192.0.2.1"}';
CREATE TEMP TABLE refusal AS SELECT * FROM pg_temp.raised('SELECT pre_request()');
COMMIT;
SELECT state, message ->> 'code' AS code, message ->> 'message' AS message,
       message ->> 'hint' ~ '^Retry in [56][0-9]\.[0-9]{6} seconds\.$' AS hint, hint AS no_hint
FROM refusal;
SELECT key, json_typeof(value) FROM refusal, json_each(message) ORDER BY key COLLATE "C";
-- details: the row, as text
SELECT d.allowed, d.limit, d.used, d.remaining, d.retry_after BETWEEN 50 AND 60 AS in_a_minute, d.rule
FROM refusal, json_populate_record(NULL::rate_limit_result, (message ->> 'details')::json) d;
SELECT detail ->> 'status' AS status, json_typeof(detail -> 'status') FROM refusal;
SELECT key, CASE WHEN key IN ('Retry-After', 'X-RateLimit-Reset') THEN (value ~ '^[0-9]+$')::text
                 ELSE regexp_replace(value, 't=[56][0-9]$', 't=60') END AS value
FROM refusal, json_each_text(detail -> 'headers') ORDER BY key COLLATE "C";
SELECT DISTINCT json_typeof(value) FROM refusal, json_each(detail -> 'headers');
SELECT (detail #>> '{headers,Retry-After}')::int BETWEEN 50 AND 60 AS retry FROM refusal;
-- no headers are set then
SELECT count(*) FROM headers;

-- never admitted: no Retry-After
SELECT state, message ->> 'hint' AS hint, detail #>> '{headers,Retry-After}' AS retry, detail #>> '{headers,RateLimit-Policy}' AS policy
FROM pg_temp.raised($$SELECT rate_limit_postgrest('postgrest:never', 'postgrest:a')$$);

-- blocked: until then, by no rule's window
SELECT rate_limit_block('postgrest:blocked', '1 hour');
SELECT state, detail #>> '{headers,RateLimit-Policy}' AS policy, detail #>> '{headers,Retry-After}' IN ('3599', '3600') AS retry
FROM pg_temp.raised($$SELECT rate_limit_postgrest('postgrest:api', 'postgrest:blocked')$$);
SELECT rate_limit_unblock('postgrest:blocked');

-- unlimited: no header; in read-only transactions too, where nothing is recorded
BEGIN READ ONLY;
SELECT rate_limit_postgrest('postgrest:open', 'postgrest:a');
SELECT count(*) FROM headers;
COMMIT;

-- the month is the tightest: a calendar window has no length in seconds
BEGIN;
UPDATE rate_limit_policies SET "limit" = NULL WHERE policy = 'postgrest:api' AND rule = 'minute';
SELECT rate_limit_postgrest('postgrest:api', 'postgrest:cost', 40);
SELECT key, value FROM headers WHERE key IN ('RateLimit-Policy', 'X-RateLimit-Remaining');
ROLLBACK;

-- the fallback's window; a name that no header can hold
UPDATE rate_limit_policies SET is_fallback = true WHERE policy = 'postgrest:ä';
BEGIN;
SELECT rate_limit_postgrest('postgrest:none', 'postgrest:a');
SELECT key, value FROM headers WHERE key IN ('RateLimit-Policy', 'X-RateLimit-Remaining');
COMMIT;
UPDATE rate_limit_policies SET is_fallback = false WHERE policy = 'postgrest:ä';

-- other errors stay what they are
SELECT rate_limit_postgrest('postgrest:none', 'postgrest:a');
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_postgrest(NULL, 'postgrest:a');
SELECT rate_limit_postgrest('postgrest:api', NULL);
SELECT rate_limit_postgrest('postgrest:api', 'postgrest:a', NULL);

DROP VIEW headers;
DROP FUNCTION pre_request();
DROP TABLE posts;
DROP ROLE regress_rate_limit_anon;
DELETE FROM rate_limit_policies WHERE policy LIKE 'postgrest:%';
