# Dropping the extension or its database frees what it had in memory, once that is
# committed; what is created anew starts at zero; other databases keep theirs.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $fill = <<SQL;
SELECT rate_limit_check('key ' || n, 5, '$AGE') FROM generate_series(1, 100) AS n;
SELECT rate_limit_block('blocked ' || n, NULL, repeat('r', 1000)) FROM generate_series(1, 10) AS n;
SQL
my $mine = 'SELECT count(*), sum(used), (SELECT count(*) FROM rate_limit_blocks) FROM rate_limit_keys';
my $all = 'SELECT counters, blocks FROM rate_limit_info';

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $node = start_server($preload ? 'preload' : 'first_use',
		preload => $preload,
		conf => "rate_limit.save_interval = 1s\n");
	my $load = $preload ? '' : "LOAD 'rate_limit';";
	my $empty = value($node, "SELECT bytes_used FROM rate_limit_peek('key', 5, '1 day'), rate_limit_info");

	$node->safe_psql('postgres', "CREATE DATABASE other");
	$node->safe_psql('other', 'CREATE EXTENSION rate_limit');
	$node->safe_psql($_, $fill) foreach 'postgres', 'other';
	is(value($node, $all), '200|20', "two databases have counters and blocks, $with");

	# Rolled back in one way or the other, and in sessions that have called nothing.
	my %kept = (
		'a transaction that is rolled back' => 'BEGIN; DROP EXTENSION rate_limit; ROLLBACK',
		'a savepoint that is rolled back' => 'BEGIN; SAVEPOINT s; DROP EXTENSION rate_limit; ROLLBACK TO s; COMMIT',
		'an inner savepoint that is rolled back with the outer one' =>
		  'BEGIN; SAVEPOINT s; SAVEPOINT t; DROP EXTENSION rate_limit; RELEASE t; ROLLBACK TO s; COMMIT',
		'a transaction that fails' =>
		  "DO \$\$BEGIN EXECUTE 'DROP EXTENSION rate_limit'; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN END\$\$",
		'a transaction that also creates it anew, and is rolled back' =>
		  'BEGIN; DROP EXTENSION rate_limit; CREATE EXTENSION rate_limit; ROLLBACK');
	foreach my $how (sort keys %kept)
	{
		$node->safe_psql('postgres', "$load $kept{$how};");
		is(value($node, $mine), '100|100|10', "everything is kept after a drop in $how, $with");
	}

	# Committed.
	my %freed = (
		'a drop' => 'DROP EXTENSION rate_limit',
		'a drop in a savepoint that is released' =>
		  'BEGIN; SAVEPOINT s; DROP EXTENSION rate_limit; RELEASE s; SAVEPOINT t; SELECT 1; ROLLBACK TO t; COMMIT',
		'a drop of its schema' => 'DROP SCHEMA public CASCADE; CREATE SCHEMA public',
		'a drop and a creation in one transaction' => 'BEGIN; DROP EXTENSION rate_limit; CREATE EXTENSION rate_limit; COMMIT');
	foreach my $how (sort keys %freed)
	{
		$node->safe_psql('postgres', "SET client_min_messages = warning; $load $freed{$how};");
		is(value($node, $all, 'other'), '100|10', "the memory is free at once after $how, $with");
		$node->safe_psql('postgres', "SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS rate_limit");
		is(value($node, $mine), '0||0', "the database has nothing after $how, $with");
		is(value($node, $mine, 'other'), '100|100|10', "the other one has all, $with");
		$node->safe_psql('postgres', $fill);
		is(value($node, $mine), '100|100|10', "and the first counts anew, $with");
	}

	# A session without the library leaves it to the one that creates it next.
	$node->safe_psql('postgres', 'DROP EXTENSION rate_limit');
	is(value($node, $all, 'other'), $preload ? '100|10' : '200|20',
		'without the library in the session ' . ($preload ? 'there is none' : 'the memory is freed later') . ", $with");
	$node->safe_psql('postgres', 'CREATE EXTENSION rate_limit');
	is(value($node, $all), '100|10', "at the latest when it is created again, $with");
	is(value($node, $mine), '0||0', "which starts at zero, $with");
	is(value($node, 'SELECT count(*) FROM rate_limit_stats WHERE allowed > 0'), '0', "with statistics at zero, $with");

	# A dropped database: by the worker, within an interval; also one that has only
	# been restored and never called since.
	$node->safe_psql('postgres', 'DROP DATABASE other');
	ok($node->poll_query_until('postgres', "SELECT counters = 0 AND blocks = 0 FROM rate_limit_info"),
		"what a dropped database had is forgotten, $with");
	is(value($node, 'SELECT bytes_used FROM rate_limit_info'), $empty, "to the last byte, $with");

	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other', 'CREATE EXTENSION rate_limit');
	$node->safe_psql('other', $fill);
	$node->append_conf('postgresql.conf', "restart_after_crash = on\n");
	$node->restart;
	value($node, "SELECT rate_limit_peek('key', 5, '1 day')");
	is(value($node, $all), '100|10', "a database whose counters were restored, $with");

	# once more by the same postmaster, after a crash
	my $victim = $node->background_psql('postgres');
	kill 'KILL', $victim->query_safe('SELECT pg_backend_pid()');
	eval { $victim->quit };
	ok(comes_back($node), "the server comes back, $with");
	value($node, "SELECT rate_limit_peek('key', 5, '1 day')");
	is(value($node, $all), '100|10', "a database whose counters were restored again, $with");
	$node->safe_psql('postgres', 'DROP DATABASE other');
	ok($node->poll_query_until('postgres', "SELECT counters = 0 AND blocks = 0 FROM rate_limit_info"),
		"is forgotten too when it is dropped, $with");
	$node->stop;
}

done_testing();
