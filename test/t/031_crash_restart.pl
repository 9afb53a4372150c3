# A backend is killed in mid-load and the server restarts its shared memory: the
# limiter starts afresh, since nothing has been saved, and works, with and without
# preload.  What had been saved is another test's.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $node = start_server(
		$preload ? 'preload' : 'first_use',
		preload => $preload,
		conf => "restart_after_crash = on\nrate_limit.save_interval = 0\n");

	foreach my $crash (1, 2)
	{
		# Clients that hold the limiter's locks most of the time.
		my $load = start_pgbench(
			$node,
			clients => 8,
			transactions => 100,
			script =>
			  "SELECT count(*) FROM generate_series(1, 10000000) AS g, rate_limit_check('key ' || g % 5, 1000000000, '1 day');\n"
		);
		ok( $node->poll_query_until('postgres', <<SQL),
SELECT count(*) = 8 AND (SELECT counters FROM rate_limit_info) > 0 FROM pg_stat_activity
 WHERE state = 'active' AND query ~ '^SELECT count.*generate_series' AND pid <> pg_backend_pid()
SQL
			"crash $crash: there is a load, $with");
		my $started = value($node, 'SELECT set_up_at FROM rate_limit_info');
		my $victim = value($node,
			"SELECT pid FROM pg_stat_activity WHERE query ~ '^SELECT count.*generate_series' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
		);

		# This session sees the crash.
		my $session = $node->background_psql('postgres', on_error_stop => 0);
		$session->query("SELECT rate_limit_check('key', 5, '1 day');");
		kill 'KILL', $victim;
		$load->{handle}->finish;
		like($load->{err}, qr/terminating connection|server closed|crash/i,
			"fault 27: crash $crash: the sessions were ended, $with");
		eval { $session->quit; };

		ok( comes_back($node),
			"fault 27: crash $crash: the server comes back, $with");
		is( value($node, 'SELECT coalesce(counters, 0), coalesce(blocks, 0) FROM rate_limit_info'),
			'0|0', "fault 27: crash $crash: no counter is left, $with");
		is( value($node, 'SELECT restored_from IS NULL FROM rate_limit_info'),
			't', "crash $crash: nor was one saved, $with");
		is( value($node, <<SQL),
SET statement_timeout = '5s';
SELECT sum(rate_limit_allowed('key ' || g % 5, 20, '1 day')::int) FROM generate_series(1, 200) AS g
SQL
			'100', "fault 27: crash $crash: no lock is held, and the limits hold, $with");
		is( value($node, "SELECT set_up, set_up_at > '$started' FROM rate_limit_info"),
			($preload ? 'preload' : 'first use') . '|t',
			"fault 27: crash $crash: the memory was set up again, $with");
	}

	ok( run_pgbench(
			$node,
			{
				clients => 16,
				transactions => 50,
				script => "SELECT rate_limit_check('after', 1000000, '1 day');\n"
			}),
		"fault 27: 16 clients call after two crashes, $with");
	is( value($node, "SELECT used FROM rate_limit_peek('after', 1000000, '1 day')"),
		'800', "and every hit is counted, $with");
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, "no panic in the log, $with");

	# A clean stop and start.
	$node->restart;
	is( value($node, "SELECT used FROM rate_limit_check('after', 1000000, '1 day')"),
		'801', "the limiter works after a clean restart and has counted on, $with");
	$node->stop;
}

done_testing();
