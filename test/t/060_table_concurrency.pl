# The table store with 200 calls on one key at once, from four processes of 50
# clients each, in every isolation level; and batches on overlapping keys.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(time);

my $node = start_server('main');

$node->safe_psql('postgres', <<SQL);
CREATE TABLE admitted (process int, run int, algorithm text, isolation text);

CREATE FUNCTION hit(process int, run int, start float8) RETURNS void
LANGUAGE plpgsql AS \$\$
DECLARE
    a text;
    level text := current_setting('transaction_isolation');
BEGIN
    PERFORM pg_sleep(start + run * 0.15 - extract(epoch FROM clock_timestamp()));
    FOREACH a IN ARRAY '{@{[ join ',', @ALGORITHMS ]}}'::text[] LOOP
        IF (SELECT allowed FROM rate_limit_check(level || run, 20, '$AGE', algorithm => a, store => 'table')) THEN
            INSERT INTO admitted VALUES (process, run, a, level);
        END IF;
    END LOOP;
END \$\$;
SQL

my $file = PostgreSQL::Test::Utils::tempdir() . '/hit.sql';
append_to_file($file, <<'SCRIPT');
\set run :run + :step
SELECT hit(:process, :run, :start);
SCRIPT

# Four processes; true if all calls went through, be it after retries.  Each
# retry adds the step again.
sub four_processes
{
	my ($isolation, $run, $step, $transactions) = @_;
	my $start = time() + 2;
	my @processes;
	local $ENV{PGOPTIONS} =
	  '-c default_transaction_isolation=' . $isolation =~ s/ /\\ /r;

	foreach my $number (1 .. 4)
	{
		my %process = (out => '', err => '');

		$process{handle} = IPC::Run::start(
			[
				'pgbench', '-n', '-M', 'prepared', '-f', $file,
				'-c', 50, '-t', $transactions, '--max-tries', 10_000,
				'-D', "process=$number", '-D', "run=$run", '-D', "step=$step",
				'-D', 'start=' . ($start - 0.15 * $run),
				connection($node)
			],
			'<', \undef,
			'>', \$process{out},
			'2>', \$process{err},
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
		push @processes, \%process;
	}
	return finish_pgbench(@processes)
	  && 4 == grep { $_->{out} =~ /^number of failed transactions: 0 /m } @processes;
}

my %runs = ('read committed' => 40, 'repeatable read' => 3, 'serializable' => 3);
foreach my $isolation ('read committed', 'repeatable read', 'serializable')
{
	my $runs = $runs{$isolation};

	my $well = $isolation eq 'read committed'
	  ? four_processes($isolation, 0, 1, $runs)
	  : $runs == grep { four_processes($isolation, $_, 0, 1) } 1 .. $runs;
	ok($well, "fault 16: every call is answered, $isolation");
	foreach my $algorithm (@ALGORITHMS)
	{
		my $counts = value($node, <<SQL);
SELECT count(*) FILTER (WHERE n = 20), min(n), max(n)
  FROM (SELECT count(*) AS n FROM admitted WHERE algorithm = '$algorithm' AND isolation = '$isolation' GROUP BY run) AS r
SQL
		is($counts, "$runs|20|20",
			($isolation eq 'read committed' ? 'fault 15' : 'fault 22')
			  . ": exactly 20 of 200 concurrent calls admitted in each of $runs runs, $isolation, $algorithm");
		is( value($node, <<SQL),
SELECT DISTINCT allowed, "limit", used, remaining, retry_after > 0
  FROM generate_series(1, $runs) AS run,
       rate_limit_peek('$isolation' || run, 20, '$AGE', algorithm => '$algorithm', store => 'table')
SQL
			'f|20|20|0|t', "20 used and nothing remaining after each run, $isolation, $algorithm");
	}
}

# --- Batches ---

# Thirty keys with costs and limits of their own.  Each call takes one to six of
# them in random order, one in ten rolls back; what it was told is recorded.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE keys AS
    SELECT 'key ' || i AS key, 20 + 15 * i AS "limit", 1 + i % 3 AS cost FROM generate_series(1, 30) AS i;
CREATE TABLE calls (algorithm text, passed bool, keys text[], costs int8[], rows int, refusals int, strange int);
ALTER DATABASE postgres SET rate_limit.store = 'table';

CREATE FUNCTION call(algorithm text) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
    k text[];
    l int8[];
    c int8[];
BEGIN
    SELECT array_agg(s.key), array_agg(s."limit"), array_agg(s.cost) INTO k, l, c
      FROM (SELECT * FROM keys ORDER BY random() LIMIT 1 + random() * 5) AS s;
    INSERT INTO calls
        SELECT call.algorithm, bool_and(r.allowed), k, c, count(*), count(*) FILTER (WHERE NOT r.allowed),
               count(*) FILTER (WHERE r.key <> k[r.ord] OR r."limit" <> l[r.ord] OR r.used > r."limit"
                                OR r.remaining <> r."limit" - r.used OR r.allowed <> (r.retry_after = 0))
          FROM rate_limit_check_all(k, l, array_fill('$AGE'::interval, ARRAY[cardinality(k)]), c, algorithm) AS r;
    IF random() < 0.1 THEN
        RAISE EXCEPTION 'given back';
    END IF;
EXCEPTION WHEN raise_exception THEN
    NULL;
END \$\$;
SQL

foreach my $algorithm (@ALGORITHMS)
{
	ok( run_pgbench(
			$node,
			{
				clients => 16,
				transactions => 250,
				script => "SELECT call('$algorithm');\n"
			}),
		"fault 16: keys in random order from 16 clients make no deadlock and no error, $algorithm");

	is( value($node, <<SQL),
SELECT count(*) > 3400, count(*) FILTER (WHERE passed) > 100, count(*) FILTER (WHERE NOT passed) > 100
  FROM calls WHERE algorithm = '$algorithm'
SQL
		't|t|t',
		"some calls passed, others were refused, $algorithm");

	is( value($node, <<SQL),
SELECT k.key, p.used, coalesce(c.charged, 0)
  FROM keys AS k
       CROSS JOIN LATERAL rate_limit_peek(k.key, k."limit", '$AGE', algorithm => '$algorithm', store => 'table') AS p
       LEFT JOIN (SELECT u.key, sum(u.cost) AS charged
                    FROM calls, unnest(keys, costs) AS u(key, cost)
                   WHERE algorithm = '$algorithm' AND passed
                   GROUP BY u.key) AS c USING (key)
 WHERE p.used <> coalesce(c.charged, 0) OR p.used > k."limit"
SQL
		'',
		"fault 13: on every key the charge is the sum of the admitted calls' costs, $algorithm");

	is( value($node, <<SQL),
SELECT count(*) FROM calls
 WHERE algorithm = '$algorithm'
   AND (strange > 0 OR rows <> cardinality(keys) OR passed <> (refusals = 0))
SQL
		'0',
		"fault 13: a refused call names the limits that refused, $algorithm");
}
is( value($node, "SELECT count(*) FROM rate_limit_keys WHERE store = 'memory'"),
	'0', 'all that was in the table');

# New keys in every call, while what has expired is removed by all of them.
ok( run_pgbench(
		$node,
		{
			clients => 16,
			transactions => 200,
			script => <<'SCRIPT' }),
\set k random(1, 1000)
\set l random(1, 1000)
SELECT bool_and(allowed) FROM rate_limit_check_all(ARRAY['short ' || :k, 'short ' || :l, 'short ' || :k], '{3,3,3}', '{1 ms,2 ms,3 ms}');
SCRIPT
	'fault 16: rows that come and go make no deadlock and no error');

$node->stop;
done_testing();
