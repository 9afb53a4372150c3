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

$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/histories.sql"));
$node->safe_psql('postgres',
	join "\n",
	map { "CALL history($_, " . (($seed * 1_009 + $_ * 7_919) % 999_983) / 999_983 . ", $history_steps);" }
	  1 .. $histories);

# --- What is compared ---

cmp_ok(value($node, "SELECT count(*) FROM steps WHERE op <> 'reset'"),
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
  FROM steps WHERE key = '$key' AND id <= $id AND op <> 'reset' ORDER BY id);
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
