# 200 concurrent calls on one key from four separate processes of 50 clients
# each, limit 20, a hundred times in a row.  The clients stay connected, wait in
# the server for the same instant, and call.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(time);

my $runs = 100;
my $node = start_server('main');

$node->safe_psql('postgres', <<SQL);
CREATE TABLE admitted (process int, run int, algorithm text);

CREATE FUNCTION hit(process int, run int, start float8) RETURNS void
LANGUAGE plpgsql AS \$\$
DECLARE
    a text;
BEGIN
    PERFORM pg_sleep(start + run * 0.05 - extract(epoch FROM clock_timestamp()));
    FOREACH a IN ARRAY '{@{[ join ',', @ALGORITHMS ]}}'::text[] LOOP
        IF (SELECT allowed FROM rate_limit_check('run ' || run, 20, '$AGE', algorithm => a)) THEN
            INSERT INTO admitted VALUES (process, run, a);
        END IF;
    END LOOP;
END \$\$;
SQL

my $start = time() + 3;
my @processes = map {
	{
		clients => 50,
		transactions => $runs,
		define => { process => $_, run => 0, start => $start },
		script => <<'SCRIPT' }
\set run :run + 1
SELECT hit(:process, :run, :start);
SCRIPT
} 1 .. 4;
ok(run_pgbench($node, @processes),
	'fault 16: no error when 200 sessions use a key for the first time at once');

foreach my $algorithm (@ALGORITHMS)
{
	my $counts = value($node, <<SQL);
SELECT count(*) FILTER (WHERE n = 20), min(n), max(n)
  FROM (SELECT count(*) AS n FROM admitted WHERE algorithm = '$algorithm' GROUP BY run) AS r
SQL
	is($counts, "$runs|20|20",
		"fault 15: exactly 20 of 200 concurrent calls admitted in each of $runs runs, $algorithm"
	);

	my $granted = value($node, <<SQL);
SELECT string_agg(n::text, ' + ' ORDER BY process)
  FROM (SELECT process, count(*) AS n FROM admitted WHERE algorithm = '$algorithm' GROUP BY process) AS p
SQL
	note("$algorithm, granted to the four processes: $granted");

	is( value($node, <<SQL),
SELECT DISTINCT allowed, "limit", used, remaining, retry_after > 0
  FROM generate_series(1, $runs) AS run,
       rate_limit_peek('run ' || run, 20, '$AGE', algorithm => '$algorithm')
SQL
		'f|20|20|0|t',
		"fault 6: 20 used and nothing remaining after each run, $algorithm");
}

$node->stop;
done_testing();
