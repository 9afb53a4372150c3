# Without shared_preload_libraries the first call sets up the memory, whichever
# of many sessions makes it; with it, the server does at its start.  Counters
# outlive a restart, so each start has a key of its own.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(time);

my $node = start_server('first_use');
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION rate_limit');

my $setup = 'SELECT set_up, set_up_at IS NULL, bytes IS NULL OR bytes = 0, counters FROM rate_limit_info';
like(value($node, $setup), qr/^\|t\|t\|0?$/, 'nothing is set up before the first call');
value($node, "SET rate_limit.mode = off; SELECT rate_limit_allowed('off', 1, '$AGE')");
like(value($node, $setup), qr/^\|t\|t\|0?$/, 'nor by a call that is admitted unseen');

# Twenty clients in each of two databases wait in their sessions for the same
# instant, after each of several starts of the server.
foreach my $database ('postgres', 'other')
{
	$node->safe_psql($database, 'CREATE TABLE admitted (round int)');
}
my $rounds = 5;
foreach my $round (1 .. $rounds)
{
	$node->restart if $round > 1;

	my $start = time() + 0.7;
	my @clients = map {
		{
			database => $_,
			clients => 20,
			transactions => 1,
			mode => 'simple',
			define => { start => $start, round => $round },
			script => <<"SCRIPT" }
SELECT pg_sleep(:start - extract(epoch FROM clock_timestamp()));
INSERT INTO admitted SELECT :round WHERE rate_limit_allowed('round ' || :round, 5, '$AGE');
SCRIPT
	} 'postgres', 'other';
	ok(run_pgbench($node, @clients),
		"round $round: forty sessions race for the first call without an error");
}
foreach my $database ('postgres', 'other')
{
	is( value(
			$node,
			'SELECT count(*), min(n), max(n) FROM (SELECT count(*) AS n FROM admitted GROUP BY round) AS r',
			$database),
		"$rounds|5|5",
		"fault 16: exactly the limit is admitted in each round, database $database");
}
is( value($node, "SELECT set_up, set_up_at BETWEEN pg_postmaster_start_time() AND now(), bytes, counters, evictions FROM rate_limit_info"),
	'first use|t|67108864|' . 2 * $rounds . '|0',
	'rate_limit_info says that the first call set up 64MB, once, and has the keys of all rounds');

# The first call's session, transaction and subtransaction do not matter.
my %firsts = (
	'a session that ends' => "SELECT rate_limit_check('ends', 5, '1 day');",
	'a READ ONLY transaction that rolls back' =>
	  "BEGIN READ ONLY; SELECT rate_limit_check('rolls', 5, '1 day'); ROLLBACK;",
	'a savepoint that is rolled back' =>
	  "BEGIN; SAVEPOINT s; SELECT rate_limit_check('savepoint', 5, '1 day'); ROLLBACK TO s; COMMIT;",
	'a transaction that fails' =>
	  "DO \$\$BEGIN PERFORM rate_limit_check('fails', 5, '1 day'); PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN END\$\$;",
	'a cursor that is left open' =>
	  "BEGIN; DECLARE c CURSOR FOR SELECT rate_limit_check('cursor', 5, '1 day') FROM generate_series(1, 2); FETCH 1 FROM c; ROLLBACK;");
foreach my $first (sort keys %firsts)
{
	$node->restart;
	$node->safe_psql('postgres', $firsts{$first});
	my ($key) = $firsts{$first} =~ /rate_limit_check\('(\w+)'/;
	is( value($node, "SELECT used FROM rate_limit_check('$key', 5, '1 day')"),
		'2', "the memory outlives a first call in $first");
}

# A first call that fails for its arguments, or is refused, sets nothing on fire.
$node->restart;
fails_with($node, "SELECT rate_limit_check(NULL, 5, '1 day')",
	'22004', 'must not be null', 'fault 3: a bad first call is an error');
is( value($node, "SELECT allowed FROM rate_limit_check('next', 0, '1 day')"),
	'f', 'fault 2: a first call with limit 0 is refused');
is( value($node, "SELECT allowed, used FROM rate_limit_check('next', 5, '1 day')"),
	't|1', 'and the next one counts');

# A block as the first call.
$node->restart;
$node->safe_psql('postgres', "SELECT rate_limit_block('blocked')");
is( value($node, "SELECT allowed, rule FROM rate_limit_check('blocked', 5, '1 day')"),
	'f|block', 'a block may be the first call');

# rate_limit.memory is read when the memory is set up.
$node->append_conf('postgresql.conf', "rate_limit.memory = '2MB'\n");
$node->restart;
$node->safe_psql('postgres', "SELECT rate_limit_check('sized', 5, '1 day')");
is( value($node, 'SELECT set_up, bytes FROM rate_limit_info'),
	'first use|2097152', 'rate_limit.memory counts at the first call');
$node->append_conf('postgresql.conf', "rate_limit.memory = '4MB'\n");
$node->reload;
is( value($node, "SELECT used FROM rate_limit_check('sized', 5, '1 day'), pg_sleep(0.2)"),
	'2', 'a reload with another rate_limit.memory keeps the counters');
is(value($node, 'SELECT bytes FROM rate_limit_info'),
	'2097152', 'and the memory as it is');

# With shared_preload_libraries.
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'rate_limit'\n");
$node->restart;
is( value($node, "SELECT set_up, set_up_at BETWEEN pg_postmaster_start_time() - interval '10 s' AND now(), bytes, counters = (SELECT count(*) FROM rate_limit_keys) + $rounds FROM rate_limit_info"),
	'preload|t|4194304|t',
	'with shared_preload_libraries the memory is set up at start');
is( value($node, "SELECT used FROM rate_limit_check('sized', 5, '1 day')"),
	'3', 'with the counters there were, and the first call counts');
my ($exit, $out, $err) =
  $node->psql('postgres', "SET rate_limit.memory = '8MB'");
like($err, qr/cannot be changed/, 'rate_limit.memory is no session setting');

$node->stop;
done_testing();
