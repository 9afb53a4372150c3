# The table store survives an immediate stop, arrives on a standby, and goes into
# dumps: that of the extension, and the SQL edition.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $conf = "rate_limit.store = 'table'\nsearch_path = 'limits'\n";
my $algorithms = "unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) WITH ORDINALITY AS a(algorithm, n)";

# What all counters of 'key' have used, by the functions.
my $peeks = <<SQL;
SELECT string_agg(algorithm || ' ' || allowed || ' ' || used || ' ' || remaining || ' ' || reset_at, ', ' ORDER BY n)
  FROM $algorithms, rate_limit_peek('key', 10, '$AGE', 1, algorithm)
SQL

# Charges all counters of 'key'.
sub charge
{
	my ($node, $cost) = @_;

	value($node, "SELECT rate_limit_allowed('key', 10, '$AGE', $cost, algorithm) FROM $algorithms");
	return;
}

# A primary with an edition in a schema of its own.
sub start_primary
{
	my ($edition) = @_;
	my $primary = new_server("primary of the $edition" =~ s/ /_/gr, streaming => 1, conf => $conf);

	$primary->start;
	$primary->safe_psql('postgres', 'CREATE ROLE app; CREATE SCHEMA limits; GRANT USAGE ON SCHEMA limits TO app');
	if ($edition eq 'extension')
	{
		$primary->safe_psql('postgres', 'CREATE EXTENSION rate_limit SCHEMA limits');
	}
	else
	{
		install_sql_edition($primary, 'limits');
		value($primary, "SELECT rate_limit_block('blocked', reason => 'abuse')");
	}
	return $primary;
}

# The SQL edition keeps blocks as rows, which go where the counters go.
sub still_blocked
{
	my ($edition, $node, $where, $database) = @_;

	return if $edition eq 'extension';
	is( value($node, "SELECT rule, reason FROM rate_limit_peek('blocked', 10, '$AGE'), rate_limit_blocks", $database),
		'block|abuse', "a block is there $where, $edition");
	return;
}

# Each call of a load is recorded with its hit, or neither.
sub stop_immediately
{
	my ($edition, $primary) = @_;

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
		charge($primary, 1);

		$primary->stop('immediate');
		$load->{handle}->finish;
		$primary->start;
		cmp_ok(value($primary, 'SELECT count(*) FROM hits'),
			'>=', $committed, "stop $stop: what was committed is there, $edition");
		is( value($primary, <<SQL),
SELECT key, used, count FROM (SELECT key, count(*) FROM hits GROUP BY key) AS h, rate_limit_peek(key, 1000000, '$AGE')
 WHERE used <> count
SQL
			'', "stop $stop: no committed hit is lost, and none that was not committed counts, $edition");
		like(value($primary, $peeks), qr/^\w+ true $stop .*, \w+ true $stop .*, \w+ true $stop .*, \w+ true $stop /,
			"stop $stop: so it is with every algorithm, $edition");
	}
	still_blocked($edition, $primary, 'after the stops');
	return;
}

sub follow_and_promote
{
	my ($edition, $primary) = @_;
	my $standby = PostgreSQL::Test::Cluster->new("standby of the $edition" =~ s/ /_/gr);

	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
	charge($primary, 7);
	$primary->wait_for_catchup($standby);

	is(value($standby, $peeks), value($primary, $peeks), "a standby sees the same, $edition");
	is(value($standby, "SELECT count(*), sum(used) FROM rate_limit_keys WHERE key = 'key' AND store = 'table'"),
		'4|36', "and shows the rows, $edition");
	still_blocked($edition, $standby, 'on the standby');
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
		fails_with($standby, "SELECT $call;", '25006', "(?:$read_only)", "the read-only error on the standby: $call, $edition");
	}
	is(value($standby, "SELECT allowed, used FROM rate_limit_check('key', 10, '$AGE', store => 'memory')"),
		't|1', 'the memory store works there')
	  if $edition eq 'extension';

	$standby->promote;
	is(value($standby, "SELECT allowed, used, remaining FROM rate_limit_check('key', 10, '$AGE', 2)"),
		'f|9|1', "promoted, it refuses what would be too much, $edition");
	is(value($standby, "SELECT allowed, used, remaining FROM rate_limit_check('key', 10, '$AGE')"),
		't|10|0', "and goes on counting, $edition");
	$standby->stop;
	return;
}

# What was restored decides as the original does, and goes on counting on its own.
sub compare_restored
{
	my ($edition, $primary, $node, $database, $where) = @_;
	my $rows = 'SELECT * FROM rate_limit_state ORDER BY key, algorithm, window_length, window_unit, time_zone';
	my $month = "'month', 10, '3 months', 5, 'fixed_window', NULL, 'table', 'Europe/Berlin'";

	is(value($node, $rows, $database), value($primary, $rows), "the rows are the same $where, $edition");
	is(value($node, $peeks, $database), value($primary, $peeks), "and so are the decisions, $edition");
	still_blocked($edition, $node, $where, $database);
	is(value($node, "SET ROLE app; SELECT allowed, used FROM rate_limit_check($month)", $database),
		't|9', "the restored counters go on counting, for every role, $edition");
	is(value($primary, "SELECT used FROM rate_limit_peek($month)"), '4', "on their own, $edition");
	fails_with($node, "SET ROLE app; SELECT rate_limit_reset('month')", '42501', 'permission denied',
		"what an ordinary role may not do, it may not do there, $edition", database => $database);
	return;
}

sub dump_and_restore
{
	my ($edition, $primary) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $other = new_server("other than the $edition" =~ s/ /_/gr, conf => $conf);

	value($primary, "SELECT used FROM rate_limit_check('month', 10, '3 months', 4, 'fixed_window', NULL, 'table', 'Europe/Berlin')");
	value($primary, "SELECT used FROM rate_limit_check(E'odd\\tkey\\n\\\\N', 10, '$AGE', 4, 'token_bucket', 20)");

	command_ok([ 'pg_dump', '-Fc', '-f', "$folder/dump", connection($primary) ], "pg_dump, $edition");
	$primary->safe_psql('postgres', 'CREATE DATABASE restored');
	command_ok([ 'pg_restore', '--exit-on-error', '-d', 'restored',
			(connection($primary))[ 0 .. 3 ], "$folder/dump" ],
		"pg_restore into another database, $edition");
	compare_restored($edition, $primary, $primary, 'restored', 'in another database');

	# as plain SQL; without the extension, the schema is all that there is
	my @schema = $edition eq 'extension' ? () : ('-n', 'limits');
	$other->start;
	$other->safe_psql('postgres', 'CREATE ROLE app');
	command_ok([ 'pg_dump', @schema, '-f', "$folder/dump.sql", connection($primary) ], "pg_dump as SQL, $edition");
	$other->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$folder/dump.sql", connection($other) ],
		"psql into another server, $edition");
	compare_restored($edition, $primary, $other, 'postgres', 'in another server');
	$other->stop;
	return;
}

foreach my $edition ('extension', 'SQL edition')
{
	my $primary = start_primary($edition);

	stop_immediately($edition, $primary);
	follow_and_promote($edition, $primary);
	dump_and_restore($edition, $primary);
	$primary->stop;
}

done_testing();
