# A backend is killed under load, again and again: each time the server comes back
# with counters that are at most one interval old, and its limits hold.
#
# RATE_LIMIT_CRASHES sets how many times.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $crashes = $ENV{RATE_LIMIT_CRASHES} // 5;
my $limit = 1500;
my $clients = 4;

# Calls that are admitted are noted in the table, which a crash does not forget.
my $script = <<SQL;
\\set k random(1, 20)
INSERT INTO admitted SELECT 'key ' || :k, clock_timestamp() WHERE rate_limit_allowed('key ' || :k, $limit, '$AGE');
SELECT count(rate_limit_check('busy ' || :k, 1000000000, '$AGE')) FROM generate_series(1, 100);
SQL

# How many hits were noted before an instant and are not counted.
my $lost = <<SQL;
SELECT coalesce(sum(greatest(n - used, 0)), 0)
  FROM (SELECT key, count(*) AS n FROM admitted WHERE at < '%s' GROUP BY key) AS a,
       rate_limit_peek(key, $limit, '$AGE') AS p
SQL

# By how much a key is over its limit, at most.
my $over = "SELECT max(n) - $limit FROM (SELECT count(*) AS n FROM admitted GROUP BY key) AS a";

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'set up on first use';
	my $node = start_server(
		$preload ? 'preload' : 'first_use',
		preload => $preload,
		conf => "restart_after_crash = on\nrate_limit.save_interval = 1s\n");
	my $rounds = $preload ? $crashes - int($crashes / 2) : int($crashes / 2);
	my ($came_back, $fresh, $works, $excess, $restored) = (0, 0, 0, 0, 0);

	$node->safe_psql('postgres', 'CREATE TABLE admitted (key text, at timestamptz)');
	foreach my $crash (1 .. $rounds)
	{
		$node->safe_psql('postgres', "TRUNCATE admitted; SELECT rate_limit_reset_prefix('')");
		my $load = start_pgbench(
			$node,
			clients => $clients,
			transactions => 1000000,
			script => $script);
		sleep(1.6 + rand 0.6);
		my ($victim, $saved) = split /\|/, value($node, <<SQL);
SELECT pid, (SELECT saved_at FROM rate_limit_info) FROM pg_stat_activity
 WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1
SQL
		$victim or die "no load: $load->{err}";
		my $killed = value($node, 'SELECT clock_timestamp()');
		kill 'KILL', $victim;
		$load->{handle}->finish;

		$came_back++ if comes_back($node);
		value($node, "SELECT rate_limit_peek('key 1', $limit, '$AGE')");

		# Saved at most an interval before the crash, give or take the time of
		# saving on a busy machine; all that was noted before is counted.
		$restored++ if value($node, "SELECT restored_from >= timestamptz '$saved' - interval '3 s' AND restored_from > timestamptz '$killed' - interval '3 s' FROM rate_limit_info") eq 't';
		my $from = value($node, 'SELECT restored_from FROM rate_limit_info');
		$fresh++ if $from && value($node, sprintf $lost, $from) eq '0';

		# No lock is held: every key of every partition answers at once.
		$works++ if value($node, <<SQL) eq '10000';
SET statement_timeout = '10s';
SELECT count(rate_limit_check('key ' || n % 20, $limit, '$AGE', 0)) FROM generate_series(1, 10000) AS n
SQL

		# The rest of the limit is admitted, and no more than what was forgotten on top.
		my $forgotten = value($node, "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM admitted WHERE at >= '$from' GROUP BY key) AS a");
		value($node, "INSERT INTO admitted SELECT 'key ' || (1 + n % 20), clock_timestamp() FROM generate_series(1, 20 * $limit) AS n WHERE rate_limit_allowed('key ' || (1 + n % 20), $limit, '$AGE')");
		my $most = value($node, $over);
		$excess++ if $most > $forgotten || $most < 0;
		note("crash $crash: restored from $from, killed $killed, over the limit by $most, forgotten up to $forgotten");
	}
	is($came_back, $rounds, "fault 27: the server comes back after each of $rounds crashes, $with");
	is($restored, $rounds, "fault 27: with what was saved last, $with");
	is($fresh, $rounds, "fault 27: every hit from before that is counted, $with");
	is($works, $rounds, "fault 27: no lock is held, $with");
	is($excess, 0, "fault 27: no key is over its limit by more than the hits since, $with");
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP|not restored/, "fault 27: no panic, no bad file, $with");
	$node->stop;
}

done_testing();
