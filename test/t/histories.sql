-- Random histories through the memory store, the table store and the SQL edition in
-- the schema sql_edition, for the test that compares them: CALL histories(number,
-- seed) makes the steps and records what each answered.  The instants follow those
-- answers: on reset_at, on the end of retry_after, and a microsecond to both sides
-- of them.

CREATE TABLE steps (id serial, history int, op text, at timestamptz, key text, "limit" bigint, "window" interval,
    cost bigint, algorithm text, burst bigint, zone text, exact_hits int, memory text, "table" text, sql_edition text);

-- what is in both tables at the end of each history
CREATE TABLE states (edition text, key text, algorithm text, window_length bigint, window_unit text, time_zone text,
    state bigint[], "limit" bigint);

-- the SQL edition looks at the setting of the extension beside it
CREATE OR REPLACE FUNCTION sql_edition.rl_exact_hits() RETURNS int8 LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT pg_catalog.current_setting(''rate_limit.exact_hits'')::int8';

CREATE FUNCTION whole(low numeric, high numeric) RETURNS bigint LANGUAGE sql
    RETURN least(low + floor(random()::numeric * (high - low + 1)), high)::bigint;
CREATE FUNCTION pick(VARIADIC choices anycompatiblearray) RETURNS anycompatible LANGUAGE sql AS
    'SELECT choices[1 + floor(random() * cardinality(choices))::int]';
CREATE FUNCTION us(n bigint) RETURNS interval LANGUAGE sql
    RETURN (n || ' microseconds')::interval;

-- one counter, what its calls vary, and what the last of them was told
CREATE TYPE counter AS (key text, algorithm text, "window" interval, length bigint, zone text, exact_hits int,
    "limit" bigint, burst bigint, at timestamptz, told timestamptz[],
    back bool, limits bool, adjust bool, dear bool, idle bool);

CREATE FUNCTION random_limit(c counter) RETURNS bigint LANGUAGE sql
    RETURN greatest(1, pick(1, 2, whole(1, 20), whole(1, 20), whole(1, 1000), c.exact_hits - 1, c.exact_hits, c.exact_hits + 1,
        c.exact_hits + whole(1, 5), c.exact_hits * 10, 1000000000, 9223372036854775807));

CREATE FUNCTION random_counter(key text) RETURNS counter LANGUAGE plpgsql AS $$
DECLARE
    c counter;
BEGIN
    c.key := key;
    c.algorithm := pick('sliding_window', 'sliding_window', 'fixed_window', 'anchored_window', 'token_bucket');
    c.length := pick(whole(1, 10), 1000000, whole(1, 1000000), 60000000, whole(1, 3600000000), 3600000000, 86400000000,
                     30 * 86400000000, whole(1, 366 * 86400000000), whole(1, 60 * 365 * 86400000000));
    c."window" := us(c.length);
    c.zone := pick(NULL, 'Asia/Tokyo');
    IF c.algorithm = 'fixed_window' AND random() < 0.6 THEN
        c."window" := pick('1 day', '2 days', '7 days', '30 days', '1 month', '3 months', '5 months', '1 year', '4 years');
        c.length := extract(epoch FROM c."window") * 1000000;
        c.zone := pick(NULL, 'UTC', 'Europe/Berlin', 'America/New_York', 'America/St_Johns', 'Australia/Lord_Howe',
                       'Asia/Kathmandu', 'Pacific/Apia', 'America/Havana');
    END IF;
    c.exact_hits := pick(1, 2, 3, 5, 16, 128, 128, 1024);
    c."limit" := random_limit(c);
    c.at := pick(timestamptz '2000-01-01', '1970-01-01', '2024-02-29', '2024-03-31', '2026-10-25') + us(whole(-2 * c.length, 0));
    c.back := random() < 0.4;
    c.limits := random() < 0.4;
    c.adjust := random() < 0.4;
    c.dear := random() < 0.3;
    c.idle := random() < 0.2;
    RETURN c;
END $$;

CREATE FUNCTION next_time(c counter) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    chance float8 := random();
    told timestamptz;
BEGIN
    IF c.back AND random() < 0.12 THEN
        RETURN c.at - us(pick(1, whole(1, c.length), c.length, whole(1, 3 * c.length::numeric)));
    ELSIF chance < 0.2 THEN
        RETURN c.at;
    ELSIF chance < 0.27 THEN
        RETURN c.at + us(1);
    ELSIF chance < 0.5 THEN
        told := pick(VARIADIC c.told) + us(whole(-1, 1));
        IF told >= c.at THEN
            RETURN told;
        END IF;
    ELSIF chance > 0.97 AND c.idle THEN
        RETURN c.at + us(whole(c.length, 10 * 365 * 86400000000));
    ELSIF chance > 0.95 THEN
        RETURN c.at + us(c.length + whole(-1, 1));
    ELSIF chance > 0.9 THEN
        RETURN c.at + us(whole(0, c.length));
    END IF;
    RETURN c.at + us(whole(0, greatest(1, 2 * c.length::numeric / least(c."limit", 20))));
END $$;

CREATE FUNCTION random_cost(c counter) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    most bigint := coalesce(c.burst, c."limit");
BEGIN
    IF c.dear AND random() < 0.15 THEN
        RETURN least(most::numeric + whole(1, most), 9223372036854775807);
    END IF;
    RETURN pick(0, 1, 1, 1, 1, 1, whole(1, greatest(1, most / 4)), whole(1, greatest(1, most / 4)), most / 2, most);
END $$;

-- Moves a counter on to its next step.  At once is at the same time, or a microsecond
-- later.
CREATE FUNCTION move(INOUT c counter, at_once bool) LANGUAGE plpgsql AS $$
BEGIN
    IF c.limits AND random() < 0.12 THEN
        c."limit" := random_limit(c);
    END IF;
    IF c.algorithm = 'token_bucket' AND (c.burst IS NULL OR c.limits) AND random() < 0.1 THEN
        c.burst := pick(NULL, 1, 2, whole(1, 100), random_limit(c));
    END IF;
    IF at_once THEN
        c.at := c.at + us(whole(0, 1) * whole(0, 1));
        RETURN;
    END IF;
    c.at := next_time(c);
    IF c.at NOT BETWEEN '0500-01-01' AND '3500-01-01' THEN
        c.at := '2000-01-01';
    END IF;
END $$;

CREATE FUNCTION random_step(c counter) RETURNS steps LANGUAGE plpgsql AS $$
DECLARE
    s steps;
BEGIN
    s.at := c.at;
    s.key := c.key;
    s."limit" := CASE WHEN c.limits AND random() < 0.03 THEN 0 ELSE c."limit" END;
    s."window" := c."window";
    s.algorithm := c.algorithm;
    s.burst := c.burst;
    s.zone := c.zone;
    s.exact_hits := c.exact_hits;
    s.cost := random_cost(c);
    s.op := CASE WHEN random() < 0.15 THEN 'peek' ELSE 'check' END;
    IF c.adjust AND random() < 0.25 THEN
        s.op := 'adjust';
        s.cost := pick(1, -1, 1, -1) * whole(1, pick(1, 3, least(c."limit", 4611686018427387903) * 2 - 1));
    END IF;
    RETURN s;
END $$;

-- Makes one call through all three, which adds their answers to the step.
CREATE FUNCTION make(INOUT s steps) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('rate_limit.exact_hits', s.exact_hits::text, false);
    CASE s.op
        WHEN 'check' THEN
            s.memory := rate_limit_check_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'memory', s.zone);
            s."table" := rate_limit_check_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
            s.sql_edition := sql_edition.rate_limit_check_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
        WHEN 'peek' THEN
            s.memory := rate_limit_peek_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'memory', s.zone);
            s."table" := rate_limit_peek_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
            s.sql_edition := sql_edition.rate_limit_peek_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
        WHEN 'adjust' THEN
            s.memory := rate_limit_adjust_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'memory', s.zone);
            s."table" := rate_limit_adjust_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
            s.sql_edition := sql_edition.rate_limit_adjust_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
    END CASE;
END $$;

-- The instants that a step was told.
CREATE FUNCTION told(s steps) RETURNS timestamptz[] LANGUAGE plpgsql AS $$
DECLARE
    r rate_limit_result := s.memory::rate_limit_result;
BEGIN
    IF r.reset_at < '3500-01-01' THEN
        RETURN ARRAY[r.reset_at, s.at + us((r.retry_after * 1000000)::bigint)];
    END IF;
    RETURN NULL;
END $$;

-- In between: calls on other keys, which clean the tables up, and resets.
CREATE PROCEDURE disturb(which int, c counter) LANGUAGE plpgsql AS $$
DECLARE
    noise text := 'noise ' || whole(1, 20);
    short interval := us(whole(1, 2000));
    call bool := random() < 0.05;
    reset bool := random() < 0.005;
    prune bool := random() < 0.01;
BEGIN
    IF call THEN
        PERFORM rate_limit_allowed(noise, 3, short, store => 'table'), sql_edition.rate_limit_allowed(noise, 3, short);
    END IF;
    IF reset THEN
        PERFORM rate_limit_reset(c.key), sql_edition.rate_limit_reset(c.key);
        INSERT INTO steps(history, op, key, exact_hits) VALUES (which, 'reset', c.key, c.exact_hits);
    END IF;
    IF prune THEN
        PERFORM rate_limit_prune(), sql_edition.rate_limit_prune();
    END IF;
END $$;

-- Records what a history has left in both tables, and removes it from all three.
CREATE PROCEDURE finish(which int) LANGUAGE plpgsql AS $$
DECLARE
    prefix text := 'history ' || which || ',';
BEGIN
    INSERT INTO states
        SELECT 'extension', key, algorithm, window_length, window_unit, time_zone, state, "limit"
          FROM rate_limit_state WHERE starts_with(key, prefix) AND cardinality(state) > 0
        UNION ALL
        SELECT 'SQL edition', key, algorithm, window_length, window_unit, time_zone, state, "limit"
          FROM sql_edition.rate_limit_state WHERE starts_with(key, prefix) AND cardinality(state) > 0;
    PERFORM rate_limit_reset_prefix(prefix), sql_edition.rate_limit_reset_prefix(prefix);
END $$;

-- Steps of some counters in turn, in a few transactions.  Most histories are short,
-- with one counter or two; one in forty is long enough to fill a sliding window with
-- hits of its own.
CREATE PROCEDURE history(which int, seed float8) LANGUAGE plpgsql AS $$
DECLARE
    long bool := which % 40 = 0;
    counters counter[] := '{}';
    c counter;
    s steps;
    i int;
    at_once int := 0;
    next_seed float8;
BEGIN
    PERFORM setseed(seed);
    FOR i IN 1 .. CASE WHEN long THEN 4 ELSE whole(1, 2) END LOOP
        counters[i] := random_counter('history ' || which || ', ' || i);
    END LOOP;
    next_seed := random();
    FOR n IN 1 .. CASE WHEN long THEN 250 ELSE whole(5, 40) END LOOP
        -- the SQL edition draws random numbers too, for its clean-up
        PERFORM setseed(next_seed);
        IF at_once = 0 THEN
            i := whole(1, cardinality(counters));
            at_once := CASE WHEN random() < 0.04 THEN whole(5, 20) ELSE 0 END;
        END IF;
        c := move(counters[i], at_once > 0);
        at_once := greatest(at_once - 1, 0);

        s := random_step(c);
        next_seed := random();
        s := make(s);
        s.id := nextval('steps_id_seq');
        s.history := which;
        INSERT INTO steps SELECT s.*;

        c.told := told(s);
        counters[i] := c;
        CALL disturb(which, c);
        IF random() < 0.1 THEN
            COMMIT;
        END IF;
    END LOOP;
    CALL finish(which);
    COMMIT;
END $$;

CREATE PROCEDURE histories(number int, seed bigint) LANGUAGE plpgsql AS $$
BEGIN
    FOR which IN 1 .. number LOOP
        CALL history(which, (seed * 1009 + which * 7919) % 999983 / 999983::float8);
    END LOOP;
END $$;
