# Changes of limits that arrive by replication, physical and logical, act on the
# next call of sessions that know what was before.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $primary = start_server(
	'primary',
	streaming => 1,
	conf => "wal_level = logical\nmax_prepared_transactions = 1\n");
my $ask = q(SELECT concat_ws(' ', allowed, "limit", rule) FROM rate_limit_enforce('plan', 'key', 0));

$primary->safe_psql('postgres',
	q(INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('plan', 10, '1 day')));

# --- A standby: sessions on it know the policy, one in an open transaction ---

my $standby = PostgreSQL::Test::Cluster->new('standby');
$primary->backup('backup');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my $outside = $standby->background_psql('postgres');
my $within = $standby->background_psql('postgres');
is($_->query_safe($ask), 't 10 default', 'a limit on the standby') foreach $outside, $within;
$within->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) > 0 FROM pg_class');

sub replayed
{
	my ($sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$primary->safe_psql('postgres', $sql);
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
	is($outside->query_safe($ask), $expected, $name);
	is($within->query_safe($ask), $expected, "$name, within a transaction");
	return;
}

replayed(q(UPDATE rate_limit_policies SET "limit" = 20), 't 20 default', 'an UPDATE is replayed');
replayed(q(INSERT INTO rate_limit_overrides (key, "limit") VALUES ('key', 0)), 'f 0 default', 'an override');
replayed(q(BEGIN; UPDATE rate_limit_policies SET "limit" = 30; DELETE FROM rate_limit_overrides; ROLLBACK),
	'f 0 default', 'a rollback changes nothing');
replayed(q(BEGIN; DELETE FROM rate_limit_overrides; PREPARE TRANSACTION 'change'),
	'f 0 default', 'nor does a first phase');
replayed(q(COMMIT PREPARED 'change'), 't 20 default', 'the second does');

# the row is of the standby, which counts for itself
is($outside->query_safe(q(SELECT r.allowed, r.used FROM unnest('{15,5,1}'::int[]) c, rate_limit_enforce('plan', 'own', c) r)),
	"t|15\nt|20\nf|20", 'the standby enforces the limit');
is(value($primary, q(SELECT used FROM rate_limit_usage('plan', 'own'))), '0', 'by counters of its own');

$within->query_safe('COMMIT');
replayed(q(DROP EXTENSION rate_limit; CREATE EXTENSION rate_limit;
	INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('plan', 40, '1 day')),
	't 40 default', 'another extension is replayed');

my ($exit, $out, $err) = $standby->psql('postgres',
	"\\set VERBOSITY verbose\nUPDATE rate_limit_policies SET \"limit\" = 50");
like($err, qr/ERROR:\s+25006: /, 'limits are changed on the primary only');
$_->quit foreach $outside, $within;
$standby->promote;
$standby->safe_psql('postgres', q(UPDATE rate_limit_policies SET "limit" = 50));
is(value($standby, $ask), 't 50 default', 'once promoted the standby has limits of its own');
$standby->stop;

# --- Logical replication into another database ---

$primary->safe_psql('postgres', <<'SQL');
CREATE DATABASE subscriber;
CREATE PUBLICATION limits FOR TABLE rate_limit_policies, rate_limit_overrides;
SELECT pg_create_logical_replication_slot('limits', 'pgoutput');
SQL
my $connection = $primary->connstr('postgres');
$primary->safe_psql('subscriber', 'CREATE EXTENSION rate_limit');
$primary->safe_psql('subscriber',
	"CREATE SUBSCRIPTION limits CONNECTION \$\$$connection\$\$ PUBLICATION limits WITH (create_slot = false, copy_data = true)");
$primary->wait_for_subscription_sync($primary, 'limits', 'subscriber');

my $session = $primary->background_psql('subscriber');
is($session->query_safe($ask), 't 40 default', 'the limits have been copied');

sub applied
{
	my ($sql, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$primary->safe_psql('postgres', $sql);
	$primary->wait_for_catchup('limits', 'replay', $primary->lsn('flush'));
	is($session->query_safe($ask), $expected, "applied: $sql");
	return;
}

applied(q(UPDATE rate_limit_policies SET "limit" = 60), 't 60 default');
applied(q(INSERT INTO rate_limit_policies (policy, rule, "limit", "window") VALUES ('plan', 'less', 3, '1 day')), 't 3 less');
applied(q(DELETE FROM rate_limit_policies WHERE rule = 'less'), 't 60 default');
applied(q(INSERT INTO rate_limit_overrides (key, "limit") VALUES ('key', 7), ('other', 8)), 't 7 default');
applied(q(UPDATE rate_limit_overrides SET "limit" = 0 WHERE key = 'key'), 'f 0 default');
applied(q(DELETE FROM rate_limit_overrides WHERE key = 'key'), 't 60 default');
applied(q(INSERT INTO rate_limit_overrides (policy, network, "limit", expires_at) VALUES (NULL, '::/0', NULL, '2000-01-01'), ('plan', '0.0.0.0/0', 2, NULL)), 't 60 default');
is($session->query_safe('SELECT count(*) FROM rate_limit_overrides'), '3', 'with rows that have columns without a value');
applied(q(TRUNCATE rate_limit_overrides), 't 60 default');
is($session->query_safe('SELECT count(*) FROM rate_limit_overrides'), '0', 'they are truncated');
applied(q(TRUNCATE rate_limit_policies; INSERT INTO rate_limit_policies (policy, "limit", "window", is_fallback) VALUES ('free', 70, '1 day', true)), 't 70 default');

$session->quit;
$primary->safe_psql('subscriber', 'DROP SUBSCRIPTION limits');
$primary->stop;
done_testing();
