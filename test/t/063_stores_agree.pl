# The same random histories through the memory store, the table store and the SQL
# edition: every row must be the same, column by column, and both tables at the end
# of each history.
#
# RATE_LIMIT_SEED chooses other histories, RATE_LIMIT_HISTORIES how many; 20,000
# take some minutes.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $seed = $ENV{RATE_LIMIT_SEED} // 20000101;
my $histories = $ENV{RATE_LIMIT_HISTORIES} // 1_500;

my $node = start_server('main', conf => "timezone = 'UTC'\n");

$node->safe_psql('postgres', 'CREATE SCHEMA sql_edition');
install_sql_edition($node, 'sql_edition');
$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/histories.sql"));
$node->safe_psql('postgres', "CALL histories($histories, $seed)");

# --- Rows ---

# What a step is, beside what it was given: was the clock set back, do earlier hits
# count under another limit, has a window ended?
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE judged AS
SELECT s.*, (memory::rate_limit_result).allowed,
       memory IS DISTINCT FROM "table" OR memory IS DISTINCT FROM sql_edition AS differs,
       at < lag(at) OVER w AS back,
       "limit" <> lag("limit") OVER w AND earlier > 0 AS changed,
       earlier = 0 AND at > lag(at) OVER w AND lag((memory::rate_limit_result).used) OVER w > 0 AS ended
  FROM (SELECT *, CASE WHEN op <> 'adjust' THEN (memory::rate_limit_result).used
                         - CASE WHEN op = 'check' AND (memory::rate_limit_result).allowed THEN cost ELSE 0 END END AS earlier
          FROM steps) AS s
 WHERE op <> 'reset'
WINDOW w AS (PARTITION BY key ORDER BY id);
SQL

my ($made, $steps, $refusals, $differences) = split /\|/, value($node, <<'SQL');
SELECT count(DISTINCT history), count(*), count(*) FILTER (WHERE NOT allowed), count(*) FILTER (WHERE differs) FROM judged
SQL
is($made, $histories, "$histories histories with seed $seed");
is($differences, 0, "all three give the same rows, column by column, $steps steps, $refusals refused, $differences different");

my %parts = (
	(map { ("algorithm = '$_'" => $_) } @ALGORITHMS),
	"op = 'check'" => 'checks',
	"op = 'peek'" => 'peeks',
	"op = 'adjust'" => 'adjustments',
	'cost > 1' => 'costs',
	'cost > coalesce(burst, "limit")' => 'costs above the limit',
	'"limit" > exact_hits AND algorithm = \'sliding_window\'' => 'sliding windows with limits above exact_hits',
	'"limit" <= exact_hits AND algorithm = \'sliding_window\'' => 'sliding windows with limits up to exact_hits',
	'zone IS NOT NULL AND algorithm = \'fixed_window\'' => 'time zones',
	'back' => 'the clock was set back',
	'changed' => 'the limit changed in mid-window',
	'ended' => 'a window ended');
foreach my $part (sort keys %parts)
{
	my ($in, $of, $refused, $different) = split /\|/, value($node, <<SQL);
SELECT count(DISTINCT history), count(*), count(*) FILTER (WHERE NOT allowed), count(*) FILTER (WHERE differs) FROM judged WHERE $part
SQL

	is($different, 0, "so it is with $of steps in $in histories, $refused refused: $parts{$part}");
	cmp_ok($in, '>', $histories / 20, 'there were enough of them');
	cmp_ok($refused, '>', $of / 30, 'and enough were refused')
	  if $part !~ /adjust|ended/;
}

# The first difference of each algorithm, with its counter's whole history.
my $first = value($node, <<'SQL');
SELECT DISTINCT ON (algorithm) algorithm, id, key FROM judged WHERE differs ORDER BY algorithm, id
SQL
foreach (split /\n/, $first)
{
	my ($algorithm, $id, $key) = split /\|/;
	my $file = "$PostgreSQL::Test::Utils::log_path/difference_$algorithm.sql";

	append_to_file($file, value($node, <<SQL));
SELECT format('SET rate_limit.exact_hits = %s;', min(exact_hits)) FROM steps WHERE key = '$key'
UNION ALL
(SELECT format('SELECT * FROM rate_limit_%s_at(%L, %L, %s, %L, %s, %L, %s, store => :store, time_zone => %L); -- %s %s %s',
              op, at, key, "limit", "window", cost, algorithm, coalesce(burst::text, 'NULL'), zone, memory, "table", sql_edition)
  FROM judged WHERE key = '$key' AND id <= $id ORDER BY id);
SQL
	diag("$algorithm, seed $seed, history of '$key': $file; the last calls:");
	diag((split /\n/, slurp_file($file))[$_]) foreach -3 .. -1;
}

# --- What is in the tables ---

my $states = 'SELECT key, algorithm, window_length, window_unit, time_zone, state, "limit" FROM states WHERE edition =';
my $rows = value($node, 'SELECT count(*) FROM states');
my $others = value($node, <<SQL);
SELECT * FROM ((SELECT 'extension', * FROM ($states 'extension' EXCEPT ALL $states 'SQL edition') AS e)
               UNION ALL (SELECT 'SQL edition', * FROM ($states 'SQL edition' EXCEPT ALL $states 'extension') AS s)) AS d
ORDER BY key LIMIT 6
SQL
is($others, '', "both tables have the same states, $rows rows");
cmp_ok($rows, '>', $histories, 'there were enough of them');

# --- Batches, at the same time but for some microseconds ---

foreach my $schema ('public', 'sql_edition')
{
	$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION $schema.batch(k text[], l bigint[], w interval[], c bigint[], a text) RETURNS text LANGUAGE sql AS
    \$\$SELECT string_agg(concat_ws(' ', ord, key, allowed, "limit", used, remaining, coalesce(retry_after > 0, false), retry_after IS NULL, rule), ', ' ORDER BY ord)
         FROM $schema.rate_limit_check_all(k, l, w, c, a)\$\$;
SELECT $schema.rate_limit_block('batch 9');
SQL
}
$node->safe_psql('postgres', <<SQL);
CREATE TABLE batches (call text, memory text, "table" text, sql_edition text);

DO \$\$
DECLARE
    n int;
    k text[];
    l bigint[];
    w interval[];
    c bigint[];
    a text;
    b batches;
BEGIN
    PERFORM setseed(0.@{[ $seed % 999_983 ]});
    FOR g IN 1 .. 2000 LOOP
        n := whole(1, 6);
        a := pick('sliding_window', 'fixed_window', 'anchored_window', 'token_bucket');
        k := ARRAY(SELECT 'batch ' || whole(1, CASE WHEN g % 10 = 0 THEN 9 ELSE 8 END) FROM generate_series(1, n));
        l := ARRAY(SELECT whole(1, 10 + g / 2) FROM generate_series(1, n));
        l := CASE WHEN a = 'token_bucket' THEN array_fill(l[1], ARRAY[n]) ELSE l END;
        w := ARRAY(SELECT pick(interval '$AGE', '875999 hours') FROM generate_series(1, n));
        c := ARRAY(SELECT whole(0, 3) FROM generate_series(1, n));
        b.call := concat_ws(' ', k, l, w, c, a);
        PERFORM set_config('rate_limit.store', 'memory', true);
        b.memory := public.batch(k, l, w, c, a);
        PERFORM set_config('rate_limit.store', 'table', true);
        b."table" := public.batch(k, l, w, c, a);
        b.sql_edition := sql_edition.batch(k, l, w, c, a);
        INSERT INTO batches SELECT b.*;
    END LOOP;
END \$\$;
SQL
is( value($node, <<'SQL'),
SELECT count(*), count(*) FILTER (WHERE memory ~ ' f ') > 100, count(*) FILTER (WHERE memory <> "table"), count(*) FILTER (WHERE memory <> sql_edition)
  FROM batches
SQL
	'2000|t|0|0',
	'all three give the same rows, batches');
note(value($node, 'SELECT * FROM batches WHERE memory <> "table" OR memory <> sql_edition LIMIT 3'));

my $counters = 'SELECT key, algorithm, "window", time_zone, used FROM';
my $of_batches = 'rate_limit_keys WHERE key LIKE \'batch %\'';
foreach my $there ("$of_batches AND store = 'table'", "sql_edition.$of_batches")
{
	is( value($node, <<SQL), '0|t', "and leave the same counters: $there");
SELECT (SELECT count(*) FROM ($counters $of_batches AND store = 'memory' EXCEPT $counters $there) AS d),
       (SELECT count(*) FROM $there) >= 60
SQL
}

$node->stop;
done_testing();
