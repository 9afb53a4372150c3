-- retry_after is exact: admitted then, refused a microsecond earlier
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
-- s seconds after noon of a Friday, and what a call answered: allowed, used,
-- remaining, retry_after, reset_at in seconds after that noon
CREATE FUNCTION pg_temp.at(s numeric) RETURNS timestamptz LANGUAGE sql IMMUTABLE
    RETURN timestamptz '2024-03-01 12:00:00+00' + s * interval '1 second';
CREATE FUNCTION pg_temp.brief(r rate_limit_result) RETURNS text LANGUAGE sql AS
$$
SELECT concat_ws(' ',
    CASE WHEN r.allowed THEN 'yes' ELSE 'no' END, r.used, r.remaining,
    coalesce(trim_scale(r.retry_after::numeric)::text, 'never'),
    coalesce(trim_scale(extract(epoch FROM r.reset_at - pg_temp.at(0)))::text, 'never'))
$$;

-- the history: 7 of 7 in a minute
SELECT a, s, r.allowed, r.used
FROM (VALUES ('sliding_window'), ('fixed_window'), ('anchored_window'), ('token_bucket')) w(a),
    (VALUES (0::numeric, 2), (3.000001, 1), (10.5, 3), (33.333333, 1)) v(s, cost),
    rate_limit_check_at(pg_temp.at(s), 'retry:plan', 7, '1 min', cost, a) r
ORDER BY a, s;

-- fault 5: what each cost has to wait for, 41.123457 seconds after the first: a
-- bucket holds 7 * 41.123457 / 60 = 4.79 tokens then, part of the fifth included
SELECT a, cost, trim_scale(r.retry_after::numeric) AS retry_after,
    trim_scale(r.retry_after::numeric) IS NOT DISTINCT FROM want AS ok,
    early.allowed AS a_microsecond_early, due.allowed AS due
FROM (VALUES
    ('sliding_window',  1, 18.876543),
    ('sliding_window',  2, 18.876543),
    ('sliding_window',  3, 21.876544),
    ('sliding_window',  4, 29.376543),
    ('sliding_window',  6, 29.376543),
    ('sliding_window',  7, 52.209876),
    ('sliding_window',  8, NULL),
    ('fixed_window',    1, 18.876543),
    ('fixed_window',    7, 18.876543),
    ('fixed_window',    8, NULL),
    ('anchored_window', 1, 18.876543),
    ('anchored_window', 7, 18.876543),
    ('anchored_window', 8, NULL),
    ('token_bucket',    4, 0),
    ('token_bucket',    5, 1.733686),
    ('token_bucket',    6, 10.305115),
    ('token_bucket',    7, 18.876543),
    ('token_bucket',    8, NULL)) v(a, cost, want),
    rate_limit_peek_at(pg_temp.at(41.123457), 'retry:plan', 7, '1 min', cost, a) r,
    rate_limit_peek_at(pg_temp.at(41.123457)
                       + (coalesce(r.retry_after, 1e9) - 0.000001) * interval '1 s',
                       'retry:plan', 7, '1 min', cost, a) early,
    rate_limit_peek_at(pg_temp.at(41.123457) + coalesce(r.retry_after, 1e9) * interval '1 s',
                       'retry:plan', 7, '1 min', cost, a) due;

-- fault 5: over 1,500 calls of mixed cost for each algorithm, a bucket of two sizes
-- among them: the same call as one that was refused is refused a microsecond before
-- its retry_after has passed and admitted then; every fifth is made.  "bounds" counts
-- answers with remaining outside [0, limit], a retry_after of an admitted call
-- other than 0, and a reset_at in the past
CREATE FUNCTION pg_temp.walk(algorithm text, "limit" bigint, "window" interval, burst bigint,
    OUT refused_and_admitted boolean, OUT early bigint, OUT late bigint, OUT bounds bigint)
LANGUAGE plpgsql AS
$$
DECLARE
    t timestamptz := '2024-03-01 12:00:00+00';
    k text := format('retry:walk %s %s', algorithm, burst);
    x bigint := 12345;
    refused bigint := 0;
    r rate_limit_result;
    cost bigint;
    retry timestamptz;
BEGIN
    early := 0; late := 0; bounds := 0;
    FOR i IN 1..1500 LOOP
        x := (x * 1103515245 + 12345) % 2147483648;
        t := t + (x / 64 % 3000001) * interval '1 us';
        cost := 1 + x / 4096 % 4;
        r := rate_limit_check_at(t, k, "limit", "window", cost, algorithm, burst);
        IF r.remaining NOT BETWEEN 0 AND r.limit OR r.used NOT BETWEEN 0 AND r.limit
           OR r.allowed <> (r.retry_after = 0) OR r.reset_at < t THEN
            bounds := bounds + 1;
        END IF;
        CONTINUE WHEN r.allowed;
        refused := refused + 1;
        retry := t + r.retry_after * interval '1 s';
        early := early + (rate_limit_peek_at(retry - interval '1 us', k, "limit", "window",
                                             cost, algorithm, burst)).allowed::int;
        late := late + (NOT (rate_limit_peek_at(retry, k, "limit", "window",
                                                cost, algorithm, burst)).allowed)::int;
        CONTINUE WHEN i % 5 > 0;
        early := early + (rate_limit_check_at(retry - interval '1 us', k, "limit", "window",
                                              cost, algorithm, burst)).allowed::int;
        late := late + (NOT (rate_limit_check_at(retry, k, "limit", "window",
                                                 cost, algorithm, burst)).allowed)::int;
        t := retry;
    END LOOP;
    refused_and_admitted := refused BETWEEN 200 AND 1300;
END
$$;
SELECT v.*, w.*
FROM (VALUES
    ('sliding_window',  7, interval '10 s', NULL::bigint),
    ('sliding_window',  200, '290 s', NULL),
    ('fixed_window',    7, '10 s', NULL),
    ('anchored_window', 7, '10 s', NULL),
    ('token_bucket',    7, '10 s', NULL),
    ('token_bucket',    7, '10.000001 s', 19)) v(algorithm, "limit", "window", burst),
    pg_temp.walk(algorithm, "limit", "window", burst) w;
