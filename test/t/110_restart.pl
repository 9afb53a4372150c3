# A clean restart keeps every live counter and every block as it was, in all
# databases, with and without preload, and leaves out what has expired meanwhile.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(sleep);

my $algorithms = join ',', @ALGORITHMS;
my $instant = '2026-06-15 15:00:00.123456+00';

# Counters and blocks of all kinds.
my $fill = <<SQL;
SET client_min_messages = warning;
SET timezone = 'UTC';
CREATE TEMP TABLE odd AS
SELECT * FROM unnest(ARRAY[E'\\x01\\t\\n''"\\\\\\x7f', 'Ünïcode 🐘', ' blanks ', '007', repeat('k', 1024), repeat('é', 512)]) AS key;

-- every algorithm, of which the exhausted ones refuse
SELECT rate_limit_check(key, 10, '$AGE', 3, a) FROM odd, unnest('{$algorithms}'::text[]) AS a;
SELECT rate_limit_check('exhausted', 3, '$AGE', 1, a) FROM unnest('{$algorithms}'::text[]) AS a, generate_series(1, 5);
SELECT rate_limit_check('refusing', 10, '$AGE', 4, a) FROM unnest('{$algorithms}'::text[]) AS a, generate_series(1, 3);
SELECT rate_limit_adjust('past its limit', 10, '$AGE', 25, a) FROM unnest('{$algorithms}'::text[]) AS a;
SELECT rate_limit_check('burst', 10, '$AGE', 15, 'token_bucket', 20);
SELECT rate_limit_check_at('$instant', 'largest', 9223372036854775807, '$AGE', 9223372036854775806, a) FROM unnest('{$algorithms}'::text[]) AS a;

-- logs with many hits, exact and rounded
SELECT rate_limit_check_at(timestamptz '$instant' + n * interval '7 s', 'exact', 128, '1 hour', 1 + n % 3) FROM generate_series(1, 60) AS n;
SELECT rate_limit_check_at(timestamptz '$instant' + n * interval '7 s', 'rounded', 100000, '1 hour', n) FROM generate_series(1, 400) AS n;

-- windows of the calendar, and stacked on one key
SELECT rate_limit_check('calendar', 10, w, 2, 'fixed_window', NULL, NULL, z)
  FROM unnest('{50 years,1200 months,36525 days}'::interval[]) AS w, unnest('{UTC,America/New_York,Asia/Kolkata}'::text[]) AS z;
SELECT rate_limit_check_at('$instant', 'replayed', 10, w, 2, 'fixed_window', NULL, NULL, z)
  FROM unnest('{1 day,7 days,1 month,3 months}'::interval[]) AS w, unnest('{UTC,America/New_York,Asia/Kolkata}'::text[]) AS z;
SELECT rate_limit_check_at('$instant', 'replayed', 10, '1 hour', 6, a) FROM unnest('{$algorithms}'::text[]) AS a, generate_series(1, 2);

-- policies
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, time_zone) VALUES
    ('api', 'burst', 10, '$AGE', 'token_bucket', NULL), ('api', 'daily', 4, '100 years', 'fixed_window', 'Asia/Kolkata'),
    ('größe', 'default', 100, '$AGE', 'sliding_window', NULL);
SELECT rate_limit_enforce(p, 'replayed', 3) FROM unnest('{api,api,größe}'::text[]) AS p;

-- blocks, which refuse
SELECT rate_limit_block('blocked'), rate_limit_block('until', '36500 days', 'abuse'), rate_limit_block('exhausted', '1 day', repeat('ü', 512)), rate_limit_block(repeat('k', 1024), NULL, '');
SELECT rate_limit_check(k, 10, '1 day') FROM unnest('{blocked,until,until}'::text[]) AS k;
SQL

# What anybody can see of them.
my $keys = <<SQL;
SELECT key, policy, rule, algorithm, "window", time_zone, "limit", refusals, last_use, expires_at, store,
       -- this bucket is refilled all the time
       CASE WHEN key <> 'largest' OR algorithm <> 'token_bucket' THEN used END
  FROM rate_limit_keys ORDER BY key, policy, rule, algorithm, "window", time_zone
SQL
my $blocks = 'SELECT * FROM rate_limit_blocks ORDER BY key';
my $answers = <<SQL;
SELECT a, k, r.* FROM unnest('{$algorithms}'::text[]) AS a, unnest('{exhausted,refusing,past its limit,blocked}'::text[]) AS k,
       rate_limit_peek_at('2040-01-01', k, 10, '$AGE', 7, a) AS r ORDER BY a, k;
SELECT a, r.* FROM unnest('{$algorithms}'::text[]) AS a, rate_limit_peek_at('$instant', 'replayed', 10, '1 hour', 6, a) AS r ORDER BY a;
SELECT w, z, r.* FROM unnest('{1 day,7 days,1 month,3 months}'::interval[]) AS w, unnest('{UTC,America/New_York,Asia/Kolkata}'::text[]) AS z,
       rate_limit_peek_at('$instant', 'replayed', 10, w, 9, 'fixed_window', NULL, NULL, z) AS r ORDER BY w, z;
SELECT n, r.* FROM generate_series(0, 4000, 100) AS n, rate_limit_peek_at(timestamptz '$instant' + n * interval '1 s', 'exact', 128, '1 hour', 100) AS r;
SELECT n, r.* FROM generate_series(0, 7000, 100) AS n, rate_limit_peek_at(timestamptz '$instant' + n * interval '1 s', 'rounded', 100000, '1 hour', 90000) AS r;
SELECT a, r.* FROM unnest('{$algorithms}'::text[]) AS a, rate_limit_peek_at('$instant', 'largest', 9223372036854775807, '$AGE', 2, a) AS r ORDER BY a;
SELECT r.* FROM rate_limit_peek_at('2040-01-01', 'burst', 10, '$AGE', 7, 'token_bucket', 20) AS r;
SQL

sub see
{
	my ($node, $database) = @_;

	return (
		keys => value($node, $keys, $database),
		blocks => value($node, $blocks, $database),
		answers => value($node, $answers, $database));
}

# Lines that are not the same, if any.
sub differences
{
	my ($got, $expected) = @_;
	my %lines;

	$lines{$_}++ foreach split /\n/, $got;
	$lines{$_}-- foreach split /\n/, $expected;
	return join "\n", map { ($lines{$_} > 0 ? 'now' : 'before') . " $_" } grep { $lines{$_} } sort keys %lines;
}

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $node = start_server($preload ? 'preload' : 'first_use', preload => $preload);
	my %before;

	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other', 'CREATE EXTENSION rate_limit');

	# The very first call, and the server stops at once; and so a few times more.
	foreach my $round (1 .. 4)
	{
		$node->safe_psql('postgres', "SELECT rate_limit_check('last', 100, '$AGE'), rate_limit_block('last ' || $round)");
		$node->restart;
	}
	is( value($node, "SELECT used, (SELECT string_agg(key, ',' ORDER BY key) FROM rate_limit_blocks) FROM rate_limit_peek('last', 100, '$AGE')"),
		'4|last 1,last 2,last 3,last 4', "the last call before a stop is never lost, $with");
	$node->safe_psql('postgres', "SELECT rate_limit_reset('last'), rate_limit_unblock('last ' || n) FROM generate_series(1, 4) AS n");

	foreach my $database ('postgres', 'other')
	{
		$node->safe_psql($database, $fill);
		$before{$database} = { see($node, $database) };
		is( value($node, 'SELECT count(*), (SELECT count(*) FROM rate_limit_blocks) FROM rate_limit_keys', $database),
			'71|4', "there are counters and blocks of all kinds in database $database, $with");
	}
	my $last = value($node, "SELECT rate_limit_allowed('short', 5, '100 ms'), rate_limit_block('short', '100 ms'); SELECT clock_timestamp()");
	$last =~ s/.*\n//s;

	$node->stop;
	sleep(0.12);
	my $log = -s $node->logfile;
	$node->start;

	# All of this server, as the first call finds it.
	is(value($node, "SELECT allowed, used FROM rate_limit_peek('key', 5, '1 day')"), 't|0', "a first call, $with");
	is( value($node, "SELECT set_up, restored_from BETWEEN '$last' AND set_up_at, saved_at IS NULL, counters, blocks, evictions FROM rate_limit_info"),
		($preload ? 'preload' : 'first use') . '|t|t|142|8|0',
		"rate_limit_info says what was restored, all but what has expired, $with");
	like(slurp_file($node->logfile, $log), qr/rate_limit restored 150 counters and blocks, saved 2/,
		"the log says so, $with");
	foreach my $database ('postgres', 'other')
	{
		my %after = see($node, $database);

		is(differences($after{$_}, $before{$database}{$_}), '', "the $_ of database $database are those from before the restart, $with")
		  foreach 'keys', 'blocks', 'answers';
	}

	# They are still counters and blocks.
	is( value($node, <<SQL),
SELECT string_agg(used || ' ' || allowed, ',' ORDER BY n)
  FROM unnest('{$algorithms}'::text[]) WITH ORDINALITY AS a(a, n), rate_limit_check('refusing', 10, '$AGE', 2, a) AS r;
SELECT allowed, rule FROM rate_limit_check('until', 10, '$AGE');
SELECT used, allowed, rule FROM rate_limit_enforce('api', 'replayed', 1);
SELECT used, allowed, rule FROM rate_limit_enforce('api', 'replayed', 1);
SELECT refusals FROM rate_limit_keys WHERE key = 'refusing' AND algorithm = 'fixed_window';
SELECT rate_limit_unblock('until'), rate_limit_reset_prefix('') > 70;
SQL
		join("\n", '10 true,10 true,10 true,10 true', 'f|block', '4|t|daily', '4|f|daily', '1', 't|t'),
		"and count, refuse and go as before, $with");
	is( value($node, "SELECT count(*) FROM rate_limit_keys", 'other'), '71',
		"each in its own database, $with");

	# A stop in mid-load: what was admitted and committed is counted.
	$node->safe_psql('postgres', 'CREATE TABLE admitted (key text)');
	my $load = start_pgbench(
		$node,
		clients => 4,
		transactions => 1000000,
		script => "\\set k random(1, 10)\nINSERT INTO admitted SELECT 'load ' || :k WHERE rate_limit_allowed('load ' || :k, 1000000, '$AGE');\n");
	$node->poll_query_until('postgres', 'SELECT count(*) > 1000 FROM admitted') or die 'no load';
	$node->stop;
	$load->{handle}->finish;
	$node->start;
	my $lost = value($node, 'SELECT sum(greatest(n - used, 0)) FROM (SELECT key, count(*) AS n FROM admitted GROUP BY key) AS a, rate_limit_peek(key, 1000000, \'' . $AGE . '\')');
	note("hits lost, $with: $lost");
	cmp_ok($lost, '<=', $preload ? 0 : 100,
		'a stop under load loses ' . ($preload ? 'no hit' : 'next to none') . ", $with");

	# A restart in which nothing has changed.
	$node->restart;
	value($node, "SELECT rate_limit_peek('key', 5, '1 day')");
	is( differences(value($node, $answers, 'other'), $before{other}{answers}), '', "a second restart keeps them too, $with");
	$node->stop;
}

done_testing();
