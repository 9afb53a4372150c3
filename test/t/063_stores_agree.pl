# The same random histories through the memory store and the table store: every
# row must be the same, column by column.  The instants follow what the memory
# store answered: on reset_at, on the end of retry_after, and a microsecond to
# both sides of them.
#
# RATE_LIMIT_SEED chooses other histories, RATE_LIMIT_STEPS how many steps.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $seed = $ENV{RATE_LIMIT_SEED} // 20000101;
my $total_steps = $ENV{RATE_LIMIT_STEPS} // 30_000;
my $history_steps = 250;
my $histories = int(($total_steps + $history_steps - 1) / $history_steps);

my $node = start_server('main', conf => "timezone = 'UTC'\n");

# --- Making histories, in the server ---

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE steps (id serial, history int, op text, at timestamptz, key text, "limit" bigint, "window" interval,
    cost bigint, algorithm text, burst bigint, zone text, exact_hits int, memory text, "table" text);

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
    c.at := pick(timestamptz '2000-01-01', '1970-01-01', '2024-02-29', '2024-03-31', now()) + us(whole(-2 * c.length, 0));
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

-- 250 steps of four counters in turn, in a few transactions, with calls on other
-- keys that clean the table up
CREATE PROCEDURE history(which int, seed float8, steps int) LANGUAGE plpgsql AS $$
DECLARE
    counters counter[] := '{}';
    c counter;
    s steps;
    i int;
    m rate_limit_result;
    t rate_limit_result;
    at_once int := 0;
BEGIN
    PERFORM setseed(seed);
    FOR i IN 1 .. 4 LOOP
        counters[i] := random_counter('history ' || which || ', ' || i);
    END LOOP;
    FOR n IN 1 .. steps LOOP
        IF at_once = 0 THEN
            i := whole(1, 4);
            at_once := CASE WHEN random() < 0.04 THEN whole(5, 20) ELSE 0 END;
        END IF;
        c := counters[i];
        IF c.limits AND random() < 0.12 OR n = 1 THEN
            c."limit" := random_limit(c);
        END IF;
        IF c.algorithm = 'token_bucket' AND (c.burst IS NULL OR c.limits) AND random() < 0.1 THEN
            c.burst := pick(NULL, 1, 2, whole(1, 100), random_limit(c));
        END IF;
        IF at_once > 0 THEN
            at_once := at_once - 1;
            c.at := c.at + us(whole(0, 1) * whole(0, 1));
        ELSE
            c.at := next_time(c);
            IF c.at NOT BETWEEN '0500-01-01' AND '3500-01-01' THEN
                c.at := '2000-01-01';
            END IF;
        END IF;

        s.history := which;
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

        PERFORM set_config('rate_limit.exact_hits', s.exact_hits::text, false);
        CASE s.op
            WHEN 'check' THEN
                m := rate_limit_check_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'memory', s.zone);
                t := rate_limit_check_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
            WHEN 'peek' THEN
                m := rate_limit_peek_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'memory', s.zone);
                t := rate_limit_peek_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
            WHEN 'adjust' THEN
                m := rate_limit_adjust_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'memory', s.zone);
                t := rate_limit_adjust_at(s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, 'table', s.zone);
        END CASE;
        INSERT INTO steps(history, op, at, key, "limit", "window", cost, algorithm, burst, zone, exact_hits, memory, "table")
            VALUES (s.history, s.op, s.at, s.key, s."limit", s."window", s.cost, s.algorithm, s.burst, s.zone, s.exact_hits,
                    m::text, t::text);

        IF m.reset_at < '3500-01-01' THEN
            c.told := ARRAY[m.reset_at, s.at + us((m.retry_after * 1000000)::bigint)];
        ELSE
            c.told := NULL;
        END IF;
        counters[i] := c;

        IF random() < 0.05 THEN
            PERFORM rate_limit_allowed('noise ' || whole(1, 20), 3, us(whole(1, 2000)), store => 'table');
        END IF;
        IF random() < 0.005 THEN
            PERFORM rate_limit_reset(c.key);
        END IF;
        IF random() < 0.01 THEN
            PERFORM rate_limit_prune();
        END IF;
        IF random() < 0.1 THEN
            COMMIT;
        END IF;
    END LOOP;
    PERFORM rate_limit_reset_prefix('history ');
END $$;
SQL

$node->safe_psql('postgres',
	join "\n",
	map { "CALL history($_, " . (($seed * 1_009 + $_ * 7_919) % 999_983) / 999_983 . ", $history_steps);" }
	  1 .. $histories);

# --- What is compared ---

cmp_ok(value($node, 'SELECT count(*) FROM steps'),
	'>=', $total_steps, "$total_steps steps with seed $seed");

my %parts = (
	"op = 'check'" => 'checks',
	"op = 'peek'" => 'peeks',
	"op = 'adjust'" => 'adjustments',
	'"limit" > exact_hits AND algorithm = \'sliding_window\'' => 'limits above exact_hits',
	'zone IS NOT NULL AND algorithm = \'fixed_window\'' => 'time zones');
foreach my $part ((map { "algorithm = '$_'" } @ALGORITHMS), sort keys %parts)
{
	my ($steps, $refused, $wrong) = split /\|/, value($node, <<SQL);
SELECT count(*), count(*) FILTER (WHERE memory LIKE '(f,%'), count(*) FILTER (WHERE memory <> "table") FROM steps WHERE $part
SQL

	is($wrong, 0,
		'both stores give the same rows, '
		  . ($parts{$part} // $part =~ s/.*'(.*)'/$1/r)
		  . ", $steps steps, $refused refused");
	cmp_ok($steps, '>', $total_steps / 30, 'there were enough of them');
	cmp_ok($refused, '>', $steps / 30, 'and enough were refused')
	  if $part !~ /adjust/;
}

# The first difference of each algorithm, with its counter's whole history.
my $differences = value($node, <<'SQL');
SELECT DISTINCT ON (algorithm) algorithm, id, key FROM steps WHERE memory <> "table" ORDER BY algorithm, id
SQL
foreach (split /\n/, $differences)
{
	my ($algorithm, $id, $key) = split /\|/;
	my $file = "$PostgreSQL::Test::Utils::log_path/difference_$algorithm.sql";

	append_to_file($file, value($node, <<SQL));
SELECT format('SET rate_limit.exact_hits = %s;', min(exact_hits)) FROM steps WHERE key = '$key'
UNION ALL
(SELECT format('SELECT * FROM rate_limit_%s_at(%L, %L, %s, %L, %s, %L, %s, store => :store, time_zone => %L); -- %s %s',
              op, at, key, "limit", "window", cost, algorithm, coalesce(burst::text, 'NULL'), zone, memory, "table")
  FROM steps WHERE key = '$key' AND id <= $id ORDER BY id);
SQL
	diag("$algorithm, seed $seed, history of '$key': $file; the last calls:");
	diag((split /\n/, slurp_file($file))[$_]) foreach -3 .. -1;
}

# --- Batches, at the same time but for some microseconds ---

$node->safe_psql('postgres', <<SQL);
CREATE TABLE batches (call text, memory text, "table" text);

CREATE FUNCTION batch(store text, k text[], l bigint[], w interval[], c bigint[], a text) RETURNS text LANGUAGE plpgsql AS \$\$
BEGIN
    PERFORM set_config('rate_limit.store', store, true);
    RETURN (SELECT string_agg(concat_ws(' ', ord, key, allowed, "limit", used, remaining, coalesce(retry_after > 0, false), retry_after IS NULL, rule), ', ' ORDER BY ord)
              FROM rate_limit_check_all(k, l, w, c, a));
END \$\$;

DO \$\$
DECLARE
    n int;
    k text[];
    l bigint[];
    w interval[];
    c bigint[];
    a text;
BEGIN
    PERFORM setseed(0.@{[ $seed % 999_983 ]}), rate_limit_block('batch 9');
    FOR g IN 1 .. 2000 LOOP
        n := whole(1, 6);
        a := pick('sliding_window', 'fixed_window', 'anchored_window', 'token_bucket');
        k := ARRAY(SELECT 'batch ' || whole(1, CASE WHEN g % 10 = 0 THEN 9 ELSE 8 END) FROM generate_series(1, n));
        l := ARRAY(SELECT whole(1, 10 + g / 2) FROM generate_series(1, n));
        l := CASE WHEN a = 'token_bucket' THEN array_fill(l[1], ARRAY[n]) ELSE l END;
        w := ARRAY(SELECT pick(interval '$AGE', '875999 hours') FROM generate_series(1, n));
        c := ARRAY(SELECT whole(0, 3) FROM generate_series(1, n));
        INSERT INTO batches
            VALUES (concat_ws(' ', k, l, w, c, a), batch('memory', k, l, w, c, a), batch('table', k, l, w, c, a));
    END LOOP;
END \$\$;
SQL
is( value($node, 'SELECT count(*), count(*) FILTER (WHERE memory ~ \' f \') > 100, count(*) FILTER (WHERE memory <> "table") FROM batches'),
	'2000|t|0',
	'both stores give the same rows, batches');
note(value($node, 'SELECT call, memory, "table" FROM batches WHERE memory <> "table" LIMIT 3'));
is( value($node, <<'SQL'),
SELECT count(*) FROM (
    SELECT key, algorithm, "window", time_zone, used FROM rate_limit_keys WHERE key LIKE 'batch %' AND store = 'memory'
    EXCEPT SELECT key, algorithm, "window", time_zone, used FROM rate_limit_keys WHERE key LIKE 'batch %' AND store = 'table') AS d
SQL
	'0',
	'and leave the same counters');

$node->stop;
done_testing();
