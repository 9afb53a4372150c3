-- require: raises RL429 with the row as JSON
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
-- what a statement raises
CREATE FUNCTION pg_temp.raised(statement text,
    OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS
$$
BEGIN
    EXECUTE statement;
    state := '00000';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END
$$;

-- admitted: nothing to see, and recorded
SELECT pg_typeof(rate_limit_require('require:user:42', 3, '1 hour', 2)),
       (rate_limit_peek('require:user:42', 3, '1 hour')).used;

-- refused: the row, and how long to wait
SELECT state, message,
       (SELECT string_agg(k, ' ' ORDER BY n) FROM json_object_keys(detail::json) WITH ORDINALITY j(k, n)) AS columns,
       d.allowed, d.limit, d.used, d.remaining, d.rule,
       d.retry_after > 3500 AND d.retry_after <= 3600 AS retry_after_in_an_hour,
       abs(extract(epoch FROM d.reset_at - clock_timestamp()) - d.retry_after) < 60 AS reset_at_then,
       hint ~ '^Retry in \d+(\.\d+)? seconds\.$' AS hint,
       substring(hint FROM '[\d.]+')::numeric = d.retry_after::numeric AS hint_says_the_same
FROM pg_temp.raised($$ SELECT rate_limit_require('require:user:42', 3, '1 hour', 2) $$) e,
    json_populate_record(NULL::rate_limit_result, detail::json) d;
-- the types of the JSON
SELECT key, json_typeof(value)
FROM pg_temp.raised($$ SELECT rate_limit_require('require:user:42', 3, '1 hour', 2) $$) e,
    json_each(detail::json);

-- the refused call recorded nothing
SELECT used FROM rate_limit_peek('require:user:42', 3, '1 hour');

-- never: cost above the limit, limit 0, blocked without end
SELECT rate_limit_block('require:blocked');
SELECT state, message, hint, d.allowed, d.limit, d.used, d.remaining, d.retry_after, d.rule
FROM (VALUES (1, $$ SELECT rate_limit_require('require:never', 3, '1 hour', 4) $$),
             (2, $$ SELECT rate_limit_require('require:never', 0, '1 hour', 0) $$),
             (3, $$ SELECT rate_limit_require('require:blocked', 3, '1 hour') $$)) v(n, statement),
    pg_temp.raised(statement) e,
    json_populate_record(NULL::rate_limit_result, detail::json) d
ORDER BY n;
-- a block that ends
SELECT rate_limit_block('require:blocked', '1 day');
SELECT state, message, d.rule, d.retry_after BETWEEN 86000 AND 86400 AS retry_after_in_a_day,
       substring(hint FROM '^Retry in ([\d.]+) seconds\.$')::numeric = d.retry_after::numeric AS hint
FROM pg_temp.raised($$ SELECT rate_limit_require('require:blocked', 3, '1 hour') $$) e,
    json_populate_record(NULL::rate_limit_result, detail::json) d;
SELECT rate_limit_unblock('require:blocked');

-- each algorithm
SELECT a, first.state AS first, second.state AS second
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) v(a),
    pg_temp.raised(format($$ SELECT rate_limit_require('require:each', 1, '100 days', 1, %L) $$, a)) first,
    pg_temp.raised(format($$ SELECT rate_limit_require('require:each', 1, '100 days', 1, %L) /* %s */ $$,
                          a, first.state)) second;

-- a key with quotes in the message
SELECT message FROM pg_temp.raised($$ SELECT rate_limit_require('require:"it''s"', 0, '1 hour') $$);

-- fault 20: the statement that is refused is undone, what it charged before stays
CREATE TEMP TABLE done(n int);
SELECT state FROM pg_temp.raised($$
    INSERT INTO done SELECT n FROM generate_series(1, 5) n,
        LATERAL (SELECT rate_limit_require('require:rows' || left(n::text, 0), 3, '1 hour')) r $$);
SELECT count(*) AS rows, (SELECT used FROM rate_limit_peek('require:rows', 3, '1 hour')) FROM done;
