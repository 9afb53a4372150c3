# What is saved without a background worker, and when the server is not stopped
# cleanly.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

sub hit
{
	my ($node, $key) = @_;

	return value($node, "SELECT used FROM rate_limit_check('$key', 100, '$AGE')");
}

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $node = start_server($preload ? 'preload' : 'first_use', preload => $preload);

	hit($node, 'first');
	$node->append_conf('postgresql.conf', "max_worker_processes = 0\n");
	my $log = -s $node->logfile;
	$node->restart;
	is(hit($node, 'first'), '2', "without a worker slot calls work, with what was saved, $with");
	is(value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rate_limit worker'"), '0', "though there is no worker, $with");
	$node->restart;
	is(hit($node, 'first'), $preload ? '3' : '2',
		"and a clean stop " . ($preload ? 'saves all the same' : 'loses what was counted since') . ", $with");
	like(slurp_file($node->logfile, $log),
		$preload
		? qr/too many background workers/
		: qr/could not start the background worker of rate_limit.*\n.*will not survive a restart.*\n.*HINT:  Raise "max_worker_processes", or add "rate_limit" to "shared_preload_libraries"/,
		"the log says so, and what to do, $with");
	$node->stop;
}

# An immediate stop in mid-change: what is half done is not saved, and nothing waits
# for the lock of a process that is gone.
my $node = start_server('immediate', preload => 1, conf => "rate_limit.save_interval = 1s\n");
value($node, "SELECT rate_limit_check('before', 100, '$AGE', 7)");
ok($node->poll_query_until('postgres', 'SELECT saved_at IS NOT NULL FROM rate_limit_info'), 'a counter is saved');
foreach my $stop (1 .. 3)
{
	my $load = start_pgbench(
		$node,
		clients => 8,
		transactions => 1,
		script => "SELECT count(*) FROM generate_series(1, 100000000) AS g, rate_limit_check('key ' || g % 5, 1000000000, '$AGE');\n");
	$node->poll_query_until('postgres', "SELECT count(*) = 8 FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT count.*generate_series' AND pid <> pg_backend_pid()")
	  or die 'no load';
	$node->stop('immediate');
	$load->{handle}->finish;
	$node->start;
	is(value($node, "SELECT used FROM rate_limit_peek('before', 100, '$AGE')"),
		'7', "fault 27: stop $stop: the server starts with what was saved before");
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'fault 27: no panic in the log');
$node->stop;

done_testing();
