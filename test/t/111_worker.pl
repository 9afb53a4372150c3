# The background worker saves by itself, at the interval that is set, and comes
# back when it is stopped or killed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'rate_limit worker' AND datname IS NULL";
my $saved = 'SELECT saved_at FROM rate_limit_info';

sub hit
{
	my ($node, $key) = @_;

	return value($node, "SELECT used FROM rate_limit_check('$key', 100, '$AGE')");
}

sub set_interval
{
	my ($node, $interval) = @_;

	$node->append_conf('postgresql.conf', "rate_limit.save_interval = $interval\n");
	$node->reload;
	return;
}

# Waits until something was saved after an instant.
sub saves_after
{
	my ($node, $instant, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok($node->poll_query_until('postgres', "SELECT coalesce(saved_at > '$instant', false) FROM rate_limit_info"),
		$name);
	return;
}

my %nodes;
foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $node = start_server(
		$preload ? 'preload' : 'first_use',
		preload => $preload,
		conf => "restart_after_crash = on\nrate_limit.save_interval = 0\n");
	my $file = $node->data_dir . '/pg_stat/rate_limit.saved';

	# There is one, and with 0 it does not save.
	hit($node, 'first');
	value($node, "SELECT rate_limit_check('first', 1, '$AGE')");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($worker) AS w"),
		"one worker is to be seen, $with");
	sleep(0.3);
	is(value($node, $saved), '', "with save_interval = 0 nothing is saved, $with");
	ok(!-e $file, "nor is there a file, $with");

	# A reload acts at once.
	my $now = value($node, 'SELECT now()');
	my $started = time();
	set_interval($node, '1s');
	saves_after($node, $now, "after a reload with 1s it saves, $with");
	cmp_ok(time() - $started, '<', 15, "and soon, $with");
	ok(-s $file && !-e "$file.tmp", "the file is there, whole, $with");

	# Nothing new, nothing written; one more refusal is something new.
	my $first = value($node, $saved);
	my $inode = (stat $file)[1];
	sleep(1.3);
	is(value($node, $saved), $first, "what has not changed is not saved again, $with");
	value($node, "SELECT rate_limit_check('first', 1, '$AGE')");
	saves_after($node, $first, "a refusal is, $with");
	isnt((stat $file)[1], $inode, "in a new file, $with");

	# Stopped by hand it is started again, see below; meanwhile limits hold.
	my $pid = value($node, $worker);
	hit($node, 'stopped by hand');
	is(value($node, "SELECT pg_terminate_backend($pid, 5000)"), 't', "it ends when told, $with");
	is(hit($node, 'stopped by hand'), '2', "calls go on without it, $with");
	$nodes{$preload} = [ $node, $pid ];
}

# What comes back takes its time: both servers have that at once.
foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my ($node, $pid) = @{ $nodes{$preload} };

	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($worker AND pid <> $pid) AS w"),
		"and it is back after some seconds, $with");
	my $now = value($node, 'SELECT now()');
	hit($node, 'stopped by hand');
	saves_after($node, $now, "and saves, $with");

	# Killed, it takes the server's shared memory with it; what was saved is there.
	$pid = value($node, $worker);
	kill 'KILL', $pid;
	sleep(0.3);
	comes_back($node) or die 'no server';
	value($node, "SELECT rate_limit_peek('first', 100, '1 day')");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($worker AND pid <> $pid) AS w"),
		"fault 27: killed, it is back after the crash restart, $with");
	is( value($node, "SELECT string_agg(key || ' ' || used, ', ' ORDER BY key) FROM rate_limit_keys"),
		'first 1, stopped by hand 3', "fault 27: with the counters that it had saved, $with");

	# It does not hold up a stop.
	my $started = time();
	$node->stop('fast');
	cmp_ok(time() - $started, '<', 10, "a stop does not wait for it, $with");
}

done_testing();
