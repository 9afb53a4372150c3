# Connections that come and go, each with one call: nothing of them stays in the
# server, neither memory nor mappings nor anything beside their keys.
#
# RATE_LIMIT_CONNECTIONS sets how many.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $connections = $ENV{RATE_LIMIT_CONNECTIONS} // 600;
my $clients = 4;
my $proc = -r "/proc/$$/smaps_rollup";

# Opens connections that make one call each on keys that are there already.
sub churn
{
	my ($node, $n) = @_;

	# with -C pgbench opens a connection for each transaction
	return run_pgbench(
		$node,
		{
			clients => $clients,
			transactions => $n / $clients,
			mode => 'simple',
			connect => 1,
			script => "\\set k random(1, 10)\nSELECT rate_limit_check('key ' || :k, 1000000000, '$AGE', algorithm => 'fixed_window');\n"
		});
}

# What the postmaster has mapped that is of shared memory, and its own memory in kB.
sub mappings
{
	my ($pid) = @_;

	return scalar grep { /\/dev\/shm|\/dev\/zero|PostgreSQL\./ } split /\n/, slurp_file("/proc/$pid/maps");
}

sub resident_kb
{
	my ($pid) = @_;
	my ($kb) = slurp_file("/proc/$pid/smaps_rollup") =~ /^Rss:\s+(\d+)/m;

	return $kb;
}

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $node = start_server($preload ? 'preload' : 'first_use', preload => $preload);
	my $segments = 'SELECT count(*), sum(size) FROM pg_shmem_allocations';
	my $used = 'SELECT bytes_used, counters FROM rate_limit_info';

	ok(churn($node, 200), "a few connections, $with");
	my $pid = slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//sr;
	my ($segments_before, $used_before) = (value($node, $segments), value($node, $used));
	my ($mappings_before, $kb_before) = $proc ? (mappings($pid), resident_kb($pid)) : ();

	ok(churn($node, $connections), "fault 21: $connections connections with a call each, $with");
	is( value($node, "SELECT count(*), sum(used) FROM rate_limit_keys"),
		'10|' . ($connections + 200), "every call is counted, $with");
	is(value($node, $used), $used_before, "rate_limit_info knows no more than their keys, $with");
	is(value($node, $segments), $segments_before, "shared memory is as it was, $with");
	ok( $node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"),
		"no session is left, $with");
  SKIP:
	{
		skip 'there is no /proc', 2 if !$proc;
		is(mappings($pid), $mappings_before, "the postmaster has mapped nothing more, $with");
		cmp_ok(resident_kb($pid) - $kb_before, '<', 1024 + $connections / 10, "nor has its memory grown, $with");
		note(sprintf '%s: memory of the postmaster %d kB before, %d kB after', $with, $kb_before, resident_kb($pid));
	}

	# Many connections at once, none of which needs a segment or a slot of its own.
	ok( run_pgbench(
			$node,
			{
				clients => 200,
				transactions => 2,
				script => "SELECT rate_limit_check('many', 1000000000, '$AGE');\n"
			}),
		"two hundred connections at once, $with");
	is(value($node, "SELECT used FROM rate_limit_peek('many', 1000000000, '$AGE')"), '400',
		"with every call counted, $with");
	$node->stop;
}

done_testing();
