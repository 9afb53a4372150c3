-- Random calls of every function that the extension has, for 090_fuzz.pl.
--
-- SELECT * FROM fuzz.calls(seed, n) makes n calls and returns what it saw:
--   call  function  outcome      the SQLSTATE of each call, 00000 if it returned
--   wrong what      statement    a result that cannot be right, an SQLSTATE that nobody expects
-- The same seed makes the same calls.

CREATE SCHEMA fuzz;

--
-- Values
--

-- What an argument may be: by its name where that says more than its type.  The first
-- ones are good, the wild ones mostly refused.
CREATE TABLE fuzz.pool (
    what    text PRIMARY KEY,
    good    text[] NOT NULL,
    wild    text[] NOT NULL
);
INSERT INTO fuzz.pool VALUES
('algorithm', '{sliding_window,sliding_window,fixed_window,anchored_window,token_bucket}',
    '{"",Sliding_Window,"sliding_window ",leaky_bucket,ſliding_window}'),
('store', '{memory,table}', '{"",Memory,redis," table"}'),
('time_zone', '{UTC,Europe/Berlin,America/New_York,Asia/Kathmandu,Pacific/Apia,Antarctica/Troll}',
    E'{"",Mars/Olympus,+03,EST5EDT,../../etc/passwd,utc,"UTC\n",Europe/}'),
('policy', '{plan1,plan2,plan3,free}', '{"",nobody,PLAN1,"plan1 "}'),
('rule', '{default,burst,day}', '{"",block}'),
('name', '{default,key,rule}', E'{"","a\\"b\\\\c",naïve,"\r\nX-Other: 1"}'),
('value', '{plan1,a}', '{"",block}'),
('mode', '{enforce,enforce,shadow,off}', '{"",Enforce}'),
('prefix', '{k1,new,nothing}', '{"",k,%,_}'),
('reason', '{abuse,"a ticket"}', '{""}'),
('interval', '{1 second,10 seconds,1 minute,1 minute,1 minute,1 minute,1 hour,1 day,250 milliseconds,1 microsecond}',
    '{0,-1 second,1 month,3 months,7 days,1 month 2 days,1 month -30 days,100 years,101 years,-100 years,
      2147483647 days,-2147483648 days,2147483647 months,-2147483648 months,
      2562047788:00:54.775807,-2562047788:00:54.775807,36525 days,36524 days 24:00:00.000001,
      1 month -30 days -1 microsecond,1 day -24 hours}'),
('limit', '{1,5,20,100,128,129,1000,1000000}', '{0,-1,9223372036854775807,-9223372036854775808,4611686018427387904}'),
('bigint', '{1,1,1,2,5,10,20,100,128,129}',
    '{0,-1,9223372036854775807,9223372036854775806,-9223372036854775808,-9223372036854775807,
      4611686018427387904,4294967295,4294967296,2147483648,1000000000000}'),
('integer', '{0,24,32,64,128}', '{-1,33,129,2147483647,-2147483648}'),
('timestamp with time zone', '{now}',
    '{infinity,-infinity,epoch,4714-11-24 00:00:00+00 BC,294276-12-31 23:59:59.999999+00,
      128000-01-01,127999-12-31,2024-02-29 23:59:59.999999+00,2026-03-29 02:30:00 Europe/Berlin}'),
('inet', '{192.0.2.1,192.0.2.77/24,2001:db8::1,2001:db8::/32,::ffff:192.0.2.1}',
    '{0.0.0.0/0,::/0,::ffff:0.0.0.0/95,255.255.255.255,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,::ffff:0:0/96}'),
('boolean', '{true,false}', '{true}'),
('double precision', '{0,1,0.5}', '{NaN,Infinity,-Infinity,-1,1e308,1e-308}');

CREATE FUNCTION fuzz.chance(probability float8) RETURNS bool
LANGUAGE sql VOLATILE RETURN random() < probability;

CREATE FUNCTION fuzz.below(n int) RETURNS int
LANGUAGE sql VOLATILE RETURN floor(random() * n)::int;

-- Characters of every length in UTF-8, combining and undefined ones too.
CREATE FUNCTION fuzz.letters(n int) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(string_agg(chr(CASE fuzz.below(5)
        WHEN 0 THEN 1 + fuzz.below(127)
        WHEN 1 THEN 128 + fuzz.below(1920)
        WHEN 2 THEN 2048 + fuzz.below(53248)
        WHEN 3 THEN 57344 + fuzz.below(8192)
        ELSE 65536 + fuzz.below(1048576) END), ''), '')
    FROM generate_series(1, n)
$$;

-- Keys are few, and some frequent, so that they meet again; but for addresses, floods, lengths at the limit.
CREATE FUNCTION fuzz.key(wildness float8) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT fuzz.chance(wildness) THEN
        RETURN CASE fuzz.below(8)
            WHEN 0 THEN 'new' || fuzz.below(100000)
            WHEN 1 THEN 'ip:192.0.2.' || fuzz.below(4)
            WHEN 2 THEN rpad('k' || fuzz.below(4), (ARRAY[16, 17, 64, 65, 255, 256, 1023, 1024])[1 + fuzz.below(8)], 'x')
            ELSE 'k' || floor(20 * random() ^ 4) END;
    END IF;
    RETURN CASE fuzz.below(7)
        WHEN 0 THEN ''
        WHEN 1 THEN repeat('x', 1025)
        WHEN 2 THEN repeat(chr(128512), 257)
        WHEN 3 THEN repeat('y', 100000)
        WHEN 4 THEN fuzz.letters(fuzz.below(300))
        WHEN 5 THEN ' k1'
        ELSE fuzz.letters(fuzz.below(20)) END;
END
$$;

-- A number of any size: as many bits, and either sign.
CREATE FUNCTION fuzz.number() RETURNS text
LANGUAGE sql VOLATILE
RETURN ((CASE WHEN fuzz.chance(0.5) THEN 1 ELSE -1 END) * floor(random() * 2.0 ^ fuzz.below(63)))::int8::text;

CREATE FUNCTION fuzz.scalar(argument text, type text, wildness float8) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_wild bool := fuzz.chance(wildness);
    choices text[];
BEGIN
    IF is_wild AND fuzz.chance(0.2) THEN
        RETURN NULL;
    ELSIF type = 'text' AND argument = 'key' THEN
        RETURN fuzz.key(wildness);
    ELSIF is_wild AND type = 'bigint' AND fuzz.chance(0.5) THEN
        RETURN fuzz.number();
    ELSIF is_wild AND type = 'interval' AND fuzz.chance(0.4) THEN
        RETURN (fuzz.number()::numeric % 3000) || ' months ' || (fuzz.number()::numeric % 100000) || ' days '
            || (fuzz.number()::numeric % 4000000000000000) || ' microseconds';
    ELSIF is_wild AND type = 'text' AND fuzz.chance(0.4) THEN
        RETURN fuzz.letters((ARRAY[1, 3, 63, 64, 300, 2000])[1 + fuzz.below(6)]);
    ELSIF type = 'timestamp with time zone' AND NOT is_wild THEN
        RETURN clock_timestamp() + (random() * 120 - 60) * interval '1 second';
    END IF;

    SELECT CASE WHEN is_wild THEN pool.wild ELSE pool.good END INTO STRICT choices
    FROM fuzz.pool WHERE pool.what IN (argument, type)
    ORDER BY pool.what = argument DESC LIMIT 1;
    RETURN choices[1 + fuzz.below(cardinality(choices))];
END
$$;

-- An array: of the given length, or ragged, empty, two-dimensional, with other bounds.
CREATE FUNCTION fuzz.elements(argument text, type text, length int, wildness float8) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    elements text[];
    literal text;
BEGIN
    IF fuzz.chance(wildness / 4) THEN
        length := (ARRAY[0, 1, 1001, fuzz.below(8)])[1 + fuzz.below(4)];
    END IF;
    SELECT array_agg(fuzz.scalar(rtrim(argument, 's'), type, wildness / 4)) INTO elements
    FROM generate_series(1, length);
    literal := coalesce(elements, '{}')::text;
    IF fuzz.chance(wildness / 8) AND length > 0 THEN
        RETURN '{' || literal || ',' || literal || '}';
    ELSIF fuzz.chance(wildness / 8) AND length > 0 THEN
        RETURN format('[%s:%s]=', -3, length - 4) || literal;
    END IF;
    RETURN literal;
END
$$;

-- One argument as an expression.
CREATE FUNCTION fuzz.argument(argument text, type text, length int, wildness float8) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF type = 'rate_limit_result' THEN
        RETURN format('ROW(%s)::rate_limit_result', (
            SELECT string_agg(quote_nullable(fuzz.scalar(attname, format_type(atttypid, NULL), wildness)), ', ' ORDER BY attnum)
            FROM pg_attribute WHERE attrelid = 'rate_limit_result'::regclass));
    ELSIF type LIKE '%[]' THEN
        IF fuzz.chance(wildness / 8) THEN
            RETURN 'NULL';
        END IF;
        RETURN quote_literal(fuzz.elements(argument, left(type, -2), length, wildness)) || '::' || type;
    END IF;
    RETURN quote_nullable(fuzz.scalar(argument, type, wildness)) || '::' || type;
END
$$;

-- One argument that is mostly left out.
CREATE FUNCTION fuzz.rarely(argument text, type text, wildness float8) RETURNS text
LANGUAGE sql VOLATILE RETURN CASE WHEN fuzz.chance(0.1) THEN fuzz.argument(argument, type, 0, wildness) ELSE 'NULL' END;

--
-- Statements
--

-- What can be called.  "row" tells that the result has the columns of rate_limit_result.
CREATE TABLE fuzz.function AS
    SELECT row_number() OVER (ORDER BY p.oid)::int AS number, p.oid::regproc::text AS name,
        input.names, input.types, p.pronargs - p.pronargdefaults AS required,
        p.prorettype = 'rate_limit_result'::regtype
            OR coalesce('retry_after' = ANY (p.proargnames), false) AS has_row,
        p.prorettype = 'trigger'::regtype AS is_trigger
    FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid,
        LATERAL (
            SELECT coalesce(array_agg(coalesce(p.proargnames[n], '') ORDER BY n), '{}') AS names,
                coalesce(array_agg(format_type(p.proargtypes[n - 1], NULL) ORDER BY n), '{}') AS types
            FROM generate_series(1, p.pronargs) n) input
    WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
        AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'rate_limit');

-- The arguments for which there is nothing to choose from.
CREATE FUNCTION fuzz.without_values() RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT f.name || ' ' || argument.name || ' ' || argument.type
    FROM fuzz.function f, unnest(f.names, f.types) argument (name, type)
    WHERE argument.type <> 'rate_limit_result'
        AND rtrim(argument.name, 's') <> 'key'
        AND NOT EXISTS (SELECT FROM fuzz.pool p
            WHERE p.what IN (rtrim(argument.name, 's'), rtrim(argument.type, '[]')))
$$;

-- Rows that change what the functions decide by, and a table that refuses rows.
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, store, is_fallback) VALUES
    ('plan1', 'default', 20, '1 minute', 'sliding_window', 'memory', false),
    ('plan1', 'burst', 5, '1 second', 'token_bucket', 'memory', false),
    ('plan2', 'default', 100, '1 hour', 'fixed_window', 'table', false),
    ('plan2', 'day', 1000, '1 day', 'anchored_window', 'memory', false),
    ('free', 'default', 3, '1 minute', 'sliding_window', NULL, true);
CREATE TABLE fuzz.guarded (owner text);
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON fuzz.guarded
    FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('plan1', 'owner');

CREATE FUNCTION fuzz.table_statement(wildness float8) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    CASE fuzz.below(6)
    WHEN 0, 1 THEN
        RETURN 'INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, store, time_zone, block_for, mode, is_fallback)'
            || format(' VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %L)',
                fuzz.argument('policy', 'text', 0, wildness), fuzz.argument('rule', 'text', 0, wildness),
                fuzz.argument('limit', 'bigint', 0, 0.2), fuzz.argument('window', 'interval', 0, wildness),
                fuzz.argument('algorithm', 'text', 0, wildness), fuzz.argument('store', 'text', 0, wildness),
                fuzz.rarely('time_zone', 'text', wildness), fuzz.rarely('block_for', 'interval', wildness),
                fuzz.argument('mode', 'text', 0, wildness), fuzz.chance(0.05))
            || ' ON CONFLICT (policy, rule) DO UPDATE SET "limit" = EXCLUDED."limit", "window" = EXCLUDED."window", mode = EXCLUDED.mode';
    WHEN 2 THEN
        RETURN 'INSERT INTO rate_limit_overrides (policy, key, network, "limit", expires_at, reason)'
            || format(' VALUES (%s, %s, network(%s), %s, %s, %s)',
                fuzz.argument('policy', 'text', 0, 0.3),
                CASE WHEN fuzz.chance(0.6) THEN fuzz.argument('key', 'text', 0, wildness) ELSE 'NULL' END,
                CASE WHEN fuzz.chance(0.4) THEN fuzz.argument('network', 'inet', 0, wildness) ELSE 'NULL' END,
                fuzz.argument('limit', 'bigint', 0, 0.2),
                fuzz.rarely('expires_at', 'timestamp with time zone', wildness), fuzz.argument('reason', 'text', 0, wildness));
    WHEN 3 THEN
        RETURN 'DELETE FROM rate_limit_policies WHERE policy = ' || fuzz.argument('policy', 'text', 0, wildness)
            || ' AND rule = ' || fuzz.argument('rule', 'text', 0, wildness);
    WHEN 4 THEN
        RETURN 'DELETE FROM rate_limit_overrides WHERE random() < 0.2';
    ELSE
        RETURN format('INSERT INTO fuzz.guarded VALUES (%s)', fuzz.argument('key', 'text', 0, wildness));
    END CASE;
END
$$;

-- The call of a function with some or all of its arguments.
CREATE FUNCTION fuzz.call(f fuzz.function, wildness float8) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    given int := f.required + fuzz.below(cardinality(f.names) - f.required + 1);
    length int := 1 + fuzz.below(5);
    arguments text := '';
BEGIN
    FOR n IN 1 .. given LOOP
        arguments := arguments || CASE WHEN n > 1 THEN ', ' ELSE '' END || CASE
            -- one is for one algorithm only, the other for another
            WHEN f.names[n] IN ('burst', 'time_zone') THEN fuzz.rarely(f.names[n], f.types[n], wildness)
            ELSE fuzz.argument(f.names[n], f.types[n], length, wildness) END;
    END LOOP;
    RETURN f.name || '(' || arguments || ')';
END
$$;

--
-- Results
--

-- What cannot be right about a row; NULL if nothing.
CREATE FUNCTION fuzz.wrong(allowed bool, "limit" int8, used int8, remaining int8, retry_after float8, charged bool) RETURNS text
LANGUAGE sql IMMUTABLE RETURN CASE
    WHEN allowed IS NULL THEN 'allowed is null'
    WHEN used IS NULL OR used < 0 THEN 'used'
    WHEN "limit" < 0 THEN 'limit'
    WHEN "limit" IS NOT NULL AND (remaining IS NULL OR remaining < 0 OR remaining > "limit") THEN 'remaining'
    WHEN allowed AND retry_after IS DISTINCT FROM 0 THEN 'retry_after of an admitted call'
    WHEN NOT allowed AND (retry_after <= 0 OR retry_after = 'Infinity') THEN 'retry_after of a refused call'
    WHEN charged AND allowed AND used > "limit" THEN 'admitted above the limit' END;

-- SQLSTATEs that the README lists, and those of bad rows and of transactions that meet.
CREATE FUNCTION fuzz.is_expected(state text, function text) RETURNS bool
LANGUAGE sql IMMUTABLE RETURN CASE
    WHEN state IN ('00000', '22004', '22023', '25006', '40001', '40P01', '53200') THEN true
    WHEN state = '42704' THEN function ~ 'enforce|usage|postgrest|tables'
    WHEN state = 'RL429' THEN function ~ 'require|tables'
    WHEN state = 'PGRST' THEN function ~ 'postgrest'
    WHEN state IN ('23502', '23505', '23514') THEN function ~ 'tables'
    WHEN state IN ('0A000', '39P01') THEN function ~ 'trigger|validate|changed'
    ELSE false END;

CREATE FUNCTION fuzz.calls(seed float8, n int) RETURNS TABLE (kind text, what text, detail text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    functions fuzz.function[] := (SELECT array_agg(f ORDER BY number) FROM fuzz.function f);
    enforcing bool := current_setting('rate_limit.mode', true) = 'enforce';
    seen jsonb := '{}';
    f fuzz.function;
    wildness float8;
    call text;
    title text;
    found text;
    state text;
BEGIN
    PERFORM setseed(seed);
    FOR i IN 1 .. n LOOP
        wildness := (ARRAY[0, 0.05, 0.2, 0.6])[1 + fuzz.below(4)];
        f := functions[1 + fuzz.below(cardinality(functions))];
        IF NOT f.has_row AND fuzz.chance(0.7) THEN      -- mostly those that decide
            f := functions[1 + fuzz.below(cardinality(functions))];
        END IF;
        IF fuzz.chance(0.9) AND (f.name ~ '_(reset|reset_prefix|stats_reset|block)$'    -- little may be left to decide
            OR cardinality(f.names) = 0 AND NOT f.is_trigger) THEN                      -- views of everything are dear
            f := functions[1];
        END IF;
        title := f.name;
        IF fuzz.chance(0.03) THEN
            title := 'tables';
            call := fuzz.table_statement(wildness);
        ELSIF f.has_row THEN
            call := format('SELECT min(fuzz.wrong(r.allowed, r."limit", r.used, r.remaining, r.retry_after, %L)) FROM %s r',
                enforcing AND f.name ~ '_check(_at|_all)?$', fuzz.call(f, wildness));
        ELSIF f.is_trigger THEN
            call := 'SELECT NULL::text FROM (SELECT ' || fuzz.call(f, wildness) || ' LIMIT 1) x';
        ELSE
            call := format('SELECT NULL::text FROM (SELECT count(r) FROM %s r) x', fuzz.call(f, wildness));
        END IF;

        found := NULL;
        state := '00000';
        BEGIN
            IF title = 'tables' THEN
                EXECUTE call;
            ELSE
                EXECUTE call INTO found;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            state := SQLSTATE;
            IF NOT fuzz.is_expected(state, title) THEN
                found := state || ' ' || SQLERRM;
            END IF;
        END;
        IF found IS NOT NULL THEN
            kind := 'wrong'; what := found; detail := left(call, 2000);
            RETURN NEXT;
        END IF;
        state := title || ' ' || state;
        seen := jsonb_set(seen, ARRAY[state], to_jsonb(coalesce((seen ->> state)::int, 0) + 1));
    END LOOP;
    RETURN QUERY SELECT 'call', s.key, s.value FROM jsonb_each_text(seen) s;
END
$$;
