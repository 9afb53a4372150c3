# Ten times as many new keys as the memory holds: no error, the memory stays
# within its setting, and what enforces a limit is not forgotten for a stranger.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

# Calls with $n new keys that start with $prefix; how many were admitted.
sub flood
{
	my ($node, $prefix, $n, $limit, $window) = @_;

	return value($node, <<SQL);
SELECT count(*) FROM generate_series(1, $n) AS g WHERE rate_limit_allowed('$prefix' || g, $limit, '$window')
SQL
}

sub info
{
	my ($node, $columns) = @_;

	return value($node, "SELECT $columns FROM rate_limit_info");
}

# How many counters with short keys and one hit fit.
sub capacity
{
	my ($node, $setting) = @_;
	my $evictions = info($node, 'evictions');
	my $n = 0;

	do
	{
		flood($node, 'measure ' . ++$n . ' ', 1000, 20, $AGE);
		die 'the memory is never full' if $n > 1000;
	} while (info($node, 'evictions') == $evictions);
	my $capacity = info($node, 'counters');
	$node->safe_psql('postgres', "SELECT rate_limit_reset_prefix('')");
	note("rate_limit.memory = $setting holds $capacity counters");
	return $capacity;
}

# Bytes of dynamic shared memory that a session has mapped.
sub mapped
{
	my ($session) = @_;
	my $pid = $session->query_safe('SELECT pg_backend_pid();');
	my $bytes = 0;

	foreach (split /\n/, slurp_file("/proc/$pid/maps"))
	{
		no warnings 'portable';    # addresses have 64 bits
		$bytes += hex($2) - hex($1)
		  if m{^([0-9a-f]+)-([0-9a-f]+) .*/dev/shm/PostgreSQL\.};
	}
	return $bytes;
}

sub flood_tests
{
	my ($node, $preload, $megabytes) = @_;
	my $setting = "${megabytes}MB";
	my $with = "with $setting, " . ($preload ? 'preloaded' : 'set up on first use');
	my $bytes = $megabytes << 20;

	my $session = $node->background_psql('postgres');
	my $mapped = mapped($session);
	$session->query_safe("SELECT rate_limit_check('first', 1, '1 day');");
	if ($preload)
	{
		my $allocated = value($node, <<SQL);
SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name ILIKE '%rate%limit%'
SQL
		cmp_ok($allocated, '<=', $bytes * 1.01,
			"fault 23: shared memory of the server is within the setting $with");
		is(mapped($session), $mapped, "and there is no other $with");
	}
	else
	{
		$mapped = mapped($session) - $mapped;
		cmp_ok($mapped, '>', $bytes / 2, "there is a shared memory segment $with");
		cmp_ok($mapped, '<=', $bytes,
			"fault 23: the segment is within the setting $with");
	}
	$session->quit;
	cmp_ok(info($node, 'bytes'), '<=', $bytes,
		"the size told is within the setting $with");
	$node->safe_psql('postgres', "SELECT rate_limit_reset('first')");

	my $start = info($node, 'bytes_used');
	my $capacity = capacity($node, $setting);
	my $flood = 10 * $capacity;
	is(info($node, 'bytes_used'), $start,
		"fault 23: all memory comes back after a reset $with");

	# What must survive: blocks, refusing keys, keys near their limit.
	$node->safe_psql(
		'postgres', <<SQL);
SELECT rate_limit_block('blocked', reason => 'attack');
SELECT rate_limit_block('blocked for a day', '1 day');
SELECT count(rate_limit_check('refusing', 5, '$AGE', algorithm => a))
  FROM unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) AS a, generate_series(1, 6);
SELECT rate_limit_check('large', 100, '$AGE', cost) FROM unnest('{1,100}'::int[]) AS cost;
SELECT count(rate_limit_check('near ' || k, 20, '$AGE')) FROM generate_series(1, 50) AS k, generate_series(1, 19);
SQL
	my $before = info($node, 'evictions');
	my $counters = info($node, 'counters');
	is(flood($node, 'flood ', $flood, 20, $AGE),
		$flood, "fault 24: 10 x capacity of new keys, all admitted without an error $with");
	is( value($node, <<SQL),
SELECT k, r.allowed, r.rule, r.retry_after > 86000
  FROM unnest('{blocked,blocked for a day}'::text[]) AS k, rate_limit_check(k, 5, '1 day') AS r
SQL
		"blocked|f|block|\nblocked for a day|f|block|t",
		"fault 24: blocked keys stay blocked $with");
	is( value($node, <<SQL),
SELECT count(*) FROM unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) AS a,
       rate_limit_check('refusing', 5, '$AGE', algorithm => a) AS r WHERE NOT r.allowed AND r.used = 5
SQL
		4, "fault 24: a refusing key goes on refusing, every algorithm $with");
	is( value($node, "SELECT allowed, used FROM rate_limit_check('large', 100, '$AGE', 100)"),
		'f|1', "fault 24: as does one that has refused a large call at 1 of 100 $with");
	is( value($node, <<SQL),
SELECT r.used, count(*) FROM generate_series(1, 50) AS k, rate_limit_peek('near ' || k, 20, '$AGE') AS r GROUP BY 1
SQL
		'19|50',
		"fault 24: keys at 19 of 20 survive keys at 1 of 20 $with");
	is(info($node, "counters - $counters + evictions - $before"),
		$flood, "every eviction is counted $with");
	is(info($node, 'bytes = bytes_used + bytes_free AND bytes_used <= bytes AND bytes_free >= 0'),
		't', "fault 23: memory used stays within the setting $with");
	is(info($node, 'refused_full'), '0',
		"no call is refused while there is something to drop $with");

	# One key calls between the flood's.
	is( value($node, <<SQL),
SELECT count(*) FROM generate_series(1, 100) AS g
 WHERE rate_limit_allowed('attacker', 3, '$AGE') AND rate_limit_allowed('stranger ' || g, 20, '$AGE')
SQL
		3, "fault 24: an attacker cannot push out his own key $with");
	$node->safe_psql('postgres', "SELECT rate_limit_reset_prefix('')");

	# Expired counters go first.  At a hundred thousand calls a second no more
	# than a hundred keys with a window of a millisecond are alive.
	my $live = int($capacity / 4);
	flood($node, 'live ', $live, 1000, '1 day');
	$before = info($node, 'evictions');
	is(flood($node, 'short ', $flood, 5, '1 ms'),
		$flood, "10 x capacity of keys with a window of 1 ms $with");
	is( value($node, <<SQL),
SELECT count(*) FROM generate_series(1, $live) AS g, rate_limit_peek('live ' || g, 1000, '1 day') AS r WHERE r.used = 1
SQL
		$live, "fault 23: expired counters go first, little-used live ones stay $with");
	is(info($node, 'evictions') - $before,
		0, "and expired counters are no evictions $with");
	is( value($node, "SELECT count(*) FROM rate_limit_keys WHERE key LIKE 'short %' AND expires_at < now() - interval '1 s'"),
		0, "fault 23: no expired counter is shown as live $with");
	$node->safe_psql('postgres', "SELECT rate_limit_reset_prefix('')");

	# From eight sessions at once, with keys and hit logs of every size.
	$before = info($node, 'evictions');
	ok( run_pgbench(
			$node,
			{
				clients => 8,
				transactions => 20,
				script => <<"SCRIPT" }),
\\set client random(1, 1000000000)
SELECT count(*) FROM generate_series(1, @{[ int($flood / 160) ]}) AS g, rate_limit_check(repeat('k', g % 900) || :client || ' ' || g, 200, '1 day', 1 + g % 3);
SELECT count(rate_limit_check('log ' || :client % 40, 100 + :client % 40, '1 day')) FROM generate_series(1, 300);
SCRIPT
		"fault 24: a flood from eight sessions, no error $with");
	is(info($node, "evictions > $before AND bytes_used <= bytes"),
		't', "and memory stays within the setting $with");
	is( value($node, <<SQL),
SELECT count(*) FROM rate_limit_keys WHERE key LIKE 'log %' AND used > "limit"
SQL
		0, "and no limit is passed $with");
	$node->safe_psql('postgres',
		"SELECT rate_limit_reset_prefix(''), rate_limit_unblock('blocked'), rate_limit_unblock('blocked for a day')"
	);
	is(info($node, 'counters, blocks, bytes_used'),
		"0|0|$start", "fault 23: nothing leaks: all memory is free again $with");
	my $again = capacity($node, $setting);
	cmp_ok(abs($again - $capacity), '<=', $capacity / 20,
		"fault 23: and it holds as many counters as before $with");
	return;
}

my $node = start_server('first_use', conf => "rate_limit.memory = '1MB'\n");
flood_tests($node, 0, 1);
$node->stop;

$node = start_server(
	'preload',
	preload => 1,
	conf => "rate_limit.memory = '3MB'\n");
flood_tests($node, 1, 3);
$node->stop;

done_testing();
