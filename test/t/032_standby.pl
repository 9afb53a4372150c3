# On a hot standby the limiter works, with counters of its own.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $primary = start_server(
		"primary_$preload",
		streaming => 1,
		preload => $preload);
	my $standby = PostgreSQL::Test::Cluster->new("standby_$preload");

	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;

	is(value($standby, 'SELECT pg_is_in_recovery()'), 't', "a standby, $with");
	is( value($primary, "SELECT count(*) FROM generate_series(1, 15) AS g WHERE rate_limit_allowed('key', 10, '1 day')"),
		'10', "the primary admits its limit, $with");
	is( value($standby, "SELECT count(*) FROM generate_series(1, 15) AS g WHERE rate_limit_allowed('key', 10, '1 day')"),
		'10', "the standby admits its own, $with");
	is( value($standby, "BEGIN READ ONLY; SELECT allowed, used FROM rate_limit_check('key', 12, '1 day'); ROLLBACK"),
		't|11', "a call in a READ ONLY transaction on the standby counts, $with");
	is( value($standby, "SELECT used FROM rate_limit_peek('key', 12, '1 day')"),
		'11', "and stays when it rolls back, $with");
	is( value($primary, "SELECT used FROM rate_limit_peek('key', 12, '1 day')"),
		'10', "and the primary knows nothing of it, $with");

	$standby->safe_psql('postgres',
		"SELECT rate_limit_block('blocked'), rate_limit_reset('key')");
	is( value($standby, "SELECT allowed FROM rate_limit_check('blocked', 5, '1 day')"),
		'f', "a block on the standby, $with");
	is( value($primary, "SELECT allowed, (SELECT used FROM rate_limit_peek('key', 10, '1 day')) FROM rate_limit_check('blocked', 5, '1 day')"),
		't|10', "is none on the primary, nor is a reset, $with");

	ok( run_pgbench(
			$standby,
			{
				clients => 8,
				transactions => 50,
				script => "SELECT rate_limit_check('busy', 100, '1 day');\n"
			}),
		"eight clients on the standby, $with");
	$standby->promote;
	is( value($standby, "SELECT allowed, used FROM rate_limit_check('busy', 100, '1 day')"),
		'f|100', "a promotion keeps the standby's counters, $with");

	$standby->stop;
	$primary->stop;
}

done_testing();
