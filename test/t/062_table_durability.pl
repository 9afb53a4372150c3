# The table store survives an immediate stop, arrives on a standby, and goes into
# dumps.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $primary = start_server(
	'primary',
	streaming => 1,
	conf => "rate_limit.store = 'table'\n");

# What all counters of 'key' have used, by the functions.
my $peeks = <<SQL;
SELECT string_agg(algorithm || ' ' || allowed || ' ' || used || ' ' || remaining || ' ' || reset_at, ', ' ORDER BY n)
  FROM unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) WITH ORDINALITY AS a(algorithm, n),
       rate_limit_peek('key', 10, '$AGE', 1, algorithm)
SQL

# --- Immediate stop ---

# Each call of the load is recorded with its hit, or neither.
$primary->safe_psql('postgres', <<SQL);
CREATE TABLE hits (key text);
CREATE FUNCTION hit(k text) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
    IF rate_limit_allowed(k, 1000000, '$AGE') THEN
        INSERT INTO hits VALUES (k);
    END IF;
END \$\$;
SQL
foreach my $stop (1, 2)
{
	my $load = start_pgbench(
		$primary,
		clients => 8,
		transactions => 1_000_000,
		script => "\\set k random(1, 5)\nSELECT hit('load ' || :k);\n");
	$primary->poll_query_until('postgres', "SELECT count(*) > 500 * $stop FROM hits");
	my $committed = value($primary, 'SELECT count(*) FROM hits');
	value($primary, "SELECT rate_limit_allowed('key', 10, '$AGE', algorithm => a) FROM unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) AS a");

	$primary->stop('immediate');
	$load->{handle}->finish;
	$primary->start;
	cmp_ok(value($primary, 'SELECT count(*) FROM hits'), '>=', $committed, "stop $stop: what was committed is there");
	is( value($primary, <<SQL),
SELECT key, used, count FROM (SELECT key, count(*) FROM hits GROUP BY key) AS h, rate_limit_peek(key, 1000000, '$AGE')
 WHERE used <> count
SQL
		'', "stop $stop: no committed hit is lost, and none that was not committed counts");
	like(value($primary, $peeks), qr/^\w+ true $stop .*, \w+ true $stop .*, \w+ true $stop .*, \w+ true $stop /,
		"stop $stop: so it is with every algorithm");
}

# --- Standby ---

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
value($primary, "SELECT rate_limit_allowed('key', 10, '$AGE', 7, a) FROM unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) AS a");
$primary->wait_for_catchup($standby);

is(value($standby, $peeks), value($primary, $peeks), 'a standby sees the same');
is(value($standby, "SELECT count(*), sum(used) FROM rate_limit_keys WHERE key = 'key' AND store = 'table'"),
	'4|36', 'and shows the rows');
my $read_only = 'cannot execute .* in a read-only transaction|cannot execute .* during recovery';
foreach my $call (
	"rate_limit_check('key', 10, '$AGE')",
	"rate_limit_check('key', 5, '$AGE')",
	"rate_limit_check('unknown', 10, '$AGE')",
	"rate_limit_allowed('key', 10, '$AGE', algorithm => 'token_bucket')",
	"rate_limit_require('key', 10, '$AGE')",
	"rate_limit_check_all('{key,other}', '{10,10}', '{1 day,1 day}')",
	"rate_limit_adjust('key', 10, '$AGE', -1)",
	'rate_limit_prune()')
{
	fails_with($standby, "SELECT $call;", '25006', "(?:$read_only)", "the read-only error on the standby: $call");
}
is(value($standby, "SELECT allowed, used FROM rate_limit_check('key', 10, '$AGE', store => 'memory')"),
	't|1', 'the memory store works there');

$standby->promote;
is(value($standby, "SELECT allowed, used, remaining FROM rate_limit_check('key', 10, '$AGE', 2)"),
	'f|9|1', 'promoted, it refuses what would be too much');
is(value($standby, "SELECT allowed, used, remaining FROM rate_limit_check('key', 10, '$AGE')"),
	't|10|0', 'and goes on counting');
$standby->stop;

# --- Dump and restore ---

value($primary, "SELECT used FROM rate_limit_check('month', 10, '3 months', 4, 'fixed_window', NULL, 'table', 'Europe/Berlin')");
value($primary, "SELECT used FROM rate_limit_check(E'odd\\tkey\\n\\\\N', 10, '$AGE', 4, 'token_bucket', 20)");
my $rows = 'SELECT * FROM rate_limit_state ORDER BY key, algorithm, window_length, window_unit, time_zone';
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
command_ok([ 'pg_dump', '-Fc', '-f', $dump, connection($primary) ], 'pg_dump');

$primary->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'pg_restore', '--exit-on-error', '-d', 'restored',
		(connection($primary))[ 0 .. 3 ], $dump ],
	'pg_restore into another database');
is(value($primary, $rows, 'restored'), value($primary, $rows), 'the rows are the same');
is(value($primary, $peeks, 'restored'), value($primary, $peeks), 'and so are the decisions');
is( value($primary, "SELECT allowed, used FROM rate_limit_check('month', 10, '3 months', 5, 'fixed_window', NULL, 'table', 'Europe/Berlin')", 'restored'),
	't|9', 'the restored counters go on counting');
is( value($primary, "SELECT used FROM rate_limit_peek('month', 10, '3 months', 5, 'fixed_window', NULL, 'table', 'Europe/Berlin')"),
	'4', 'on their own');

# The same into another server, as plain SQL.
my $other = new_server('other', conf => "rate_limit.store = 'table'\n");
my $script = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$other->start;
command_ok([ 'pg_dump', '-f', $script, connection($primary) ], 'pg_dump as SQL');
$other->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $script, connection($other) ],
	'psql into another server');
is(value($other, $peeks), value($primary, $peeks), 'the decisions are the same there');

$other->stop;
$primary->stop;
done_testing();
