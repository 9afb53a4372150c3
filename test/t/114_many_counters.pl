# Many counters are saved and restored, all of them, without a long wait.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(time);

my $counters = $ENV{RATE_LIMIT_COUNTERS} // 200_000;

# Key number n has used n % 7 + 1, so that none can stand for another.
my $all = <<SQL;
SELECT count(*), sum(used), bool_and(used = substr(key, 5)::int % 7 + 1), count(DISTINCT key) FROM rate_limit_keys
SQL

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $node = start_server($preload ? 'preload' : 'first_use', preload => $preload);

	value($node, "SELECT count(*) FROM generate_series(1, $counters) AS n WHERE rate_limit_allowed('key ' || n, 10, '$AGE', n % 7 + 1)");
	my $before = value($node, $all);
	like($before, qr/^$counters\|\d+\|t\|$counters$/, "$counters counters are there, $with");

	my $log = -s $node->logfile;
	my $started = time();
	$node->stop;
	my $stopped = time();
	$node->start;
	value($node, "SELECT rate_limit_peek('key', 5, '1 day')");
	my $restored = time();
	is(value($node, $all), $before, "all are restored as they were, $with");
	like(slurp_file($node->logfile, $log), qr/rate_limit restored $counters counters and blocks/, "and the log says so, $with");
	cmp_ok($restored - $stopped, '<', 20, "before long, $with");
	note(sprintf('%s: %.2f s to stop and save %d bytes, %.2f s to start and restore', $with,
			$stopped - $started, -s $node->data_dir . '/pg_stat/rate_limit.saved', $restored - $stopped));
	$node->stop;
}

# What does not fit into less memory is left out, and the log says so.
my $node = start_server('less', preload => 1, conf => "rate_limit.memory = '16MB'\n");
value($node, "SELECT count(*) FROM generate_series(1, 50000) AS n WHERE rate_limit_allowed('key ' || n, 10, '$AGE', n % 7 + 1)");
my $before = value($node, 'SELECT counters FROM rate_limit_info');
$node->append_conf('postgresql.conf', "rate_limit.memory = '1MB'\n");
my $log = -s $node->logfile;
$node->restart;
my ($left) = slurp_file($node->logfile, $log) =~ /There was no room for (\d+) more\.\n.*HINT:  Raise "rate_limit.memory"\./;
my $restored = value($node, 'SELECT counters FROM rate_limit_info');
cmp_ok($restored, '>', 1000, 'with less memory a part is restored');
is($restored + ($left // 0), $before, 'and the log says how many are left out');
is( value($node, "SELECT bool_and(used = substr(key, 5)::int % 7 + 1) FROM rate_limit_keys"),
	't', 'those that are there are right');
is(value($node, "SELECT used FROM rate_limit_check('another', 5, '1 day')"), '1', 'and a full memory counts on');
$node->stop;

done_testing();
