# What the table store writes: nothing for a refusal, updates in place for
# admissions, and no rows that stay for ever.
#
# RATE_LIMIT_CALLS chooses how many refusals, and how many admissions, of each kind.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $refusals = $ENV{RATE_LIMIT_CALLS} // 5_000;
my $admissions = $ENV{RATE_LIMIT_CALLS} // 20_000;

my $node = start_server('main', conf => "rate_limit.store = 'table'\n");

# Rows inserted, updated, of those HOT, deleted, and dead now, when all sessions
# have reported.
sub counts
{
	my $counts;

	$node->poll_query_until('postgres',
		'SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = \'client backend\'');
	$counts = value($node, <<'SQL');
SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del, n_dead_tup FROM pg_stat_user_tables WHERE relname = 'rate_limit_state'
SQL
	return split /\|/, $counts;
}

# Makes that many calls, each client its share of them.
sub calls
{
	my ($clients, $calls, $call, $name) = @_;

	ok( run_pgbench(
			$node,
			{
				clients => $clients,
				transactions => int(($calls + $clients - 1) / $clients),
				script => "\\set k random(1, 200)\nSELECT $call;\n"
			}),
		$name);
	return;
}

# --- Refusals ---

foreach my $algorithm (@ALGORITHMS)
{
	my $arguments = "'refused', 5, '$AGE', algorithm => '$algorithm'";

	is(value($node, "SELECT count(*) FILTER (WHERE rate_limit_allowed($arguments)) FROM generate_series(1, 6)"),
		5, "the limit is used up, $algorithm");
	my @before = counts();
	my $version = value($node, "SELECT ctid, xmin FROM rate_limit_state WHERE algorithm = '$algorithm'");

	calls(4, $refusals, "rate_limit_allowed($arguments)", "$refusals refusals, $algorithm");
	is("@{[ counts() ]}", "@before",
		"fault 18: $refusals refusals insert, update and delete nothing, $algorithm");
	is( value($node, "SELECT ctid, xmin FROM rate_limit_state WHERE algorithm = '$algorithm'"),
		$version, "and leave the very row version, $algorithm");
}
{
	my @before = counts();

	calls(4, $refusals, "rate_limit_allowed('new ' || :k, 5, '$AGE', 6)", "$refusals refusals of keys without a row");
	is("@{[ counts() ]}", "@before", 'fault 18: leave no row, nor a dead one');
}

# --- Admissions ---

# Of one key and of many; with a state of one number and with one of 128 hits.
my %admissions = (
	'one key, a bucket' => "rate_limit_allowed('hot', 1000000, '$AGE', algorithm => 'token_bucket')",
	'200 keys, fixed windows' => "rate_limit_allowed('hot ' || :k, 1000000, '$AGE', algorithm => 'fixed_window')",
	'one key of one client, a sliding window of 128 hits' => "rate_limit_allowed('hot', 1000000, '200 ms')",
	'200 keys, sliding windows of 128 hits' => "rate_limit_allowed('hot ' || :k, 1000000, '$AGE')");
foreach my $name (sort keys %admissions)
{
	my @before = counts();

	calls($name =~ /one client/ ? 1 : 4, $admissions, $admissions{$name}, "$admissions admissions, $name");
	my @after = counts();
	my ($updates, $hot) = map { $after[$_] - $before[$_] } 1, 2;
	cmp_ok($updates, '>=', 0.95 * $admissions, "each is an update, $updates of $name");
	cmp_ok($hot, '>=', 0.95 * $updates, "fault 18: at least 95 % in place, $hot of $updates, $name");
}

# --- Rows that have expired ---

sub stale
{
	$node->safe_psql('postgres', <<'SQL');
SELECT rate_limit_reset_prefix('');
SELECT count(rate_limit_allowed('stale ' || g, 5, '1 hour')) FROM generate_series(1, 5000) AS g;
UPDATE rate_limit_state SET expires_at = now() - interval '1 day';
SQL
	return;
}

my $rows = 'SELECT count(*) FROM rate_limit_state';

stale();
is(value($node, $rows), 5000, '5,000 rows that have expired');
is(value($node, 'SELECT rate_limit_prune(1000)'), 1000, 'prune removes as many as it is told');
is(value($node, 'SELECT rate_limit_prune()'), 4000, 'and the rest in one go');
is(value($node, $rows), 0, 'nothing is left');

stale();
value($node, "SELECT count(rate_limit_allowed('live', 0, '$AGE')) FROM generate_series(1, 1000)");
is(value($node, $rows), 5000, 'refusals remove none');
my ($left, $rounds) = (5000, 0);
while ($left > 0 && ++$rounds <= 10)
{
	calls(2, 4000, "rate_limit_allowed('live ' || :k, 1000000, '$AGE')", '4,000 ordinary calls');
	$left = value($node, "$rows WHERE key LIKE 'stale %'");
	note("$left rows that have expired are left");
}
is($left, 0, "fault 18: the rows that have expired go by themselves, in $rounds times 4,000 calls");

# Prune waits for nobody: a row that somebody holds stays for the next time.
stale();
my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; SELECT 1 FROM rate_limit_state WHERE key = 'stale 7' FOR UPDATE");
is(value($node, "SET lock_timeout = '5s'; SELECT rate_limit_prune()"),
	4999, 'prune leaves out a row that is locked');
$holder->query_safe('COMMIT');
$holder->quit;
is(value($node, 'SELECT rate_limit_prune()'), 1, 'and removes it later');

# With the space that VACUUM finds, a flood of new keys does not grow the table, when
# those of the rounds before have expired for longer than a key is given to come back.
foreach my $round (1 .. 4)
{
	$node->safe_psql('postgres', "UPDATE rate_limit_state SET expires_at = now() - interval '61 s' WHERE key LIKE 'flood %'");
	calls(4, 5000, "rate_limit_allowed('flood ' || random(), 5, '1 ms')", '5,000 new keys with short windows');
	$node->safe_psql('postgres', 'VACUUM rate_limit_state');
}
cmp_ok(value($node, $rows), '<', 13_000, 'fault 18: most of 20,000 rows were removed by the calls that made new ones');

$node->stop;
done_testing();
