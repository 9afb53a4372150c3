# Changes of policies and overrides act on the next call of sessions that know
# what was before, wherever in a transaction they are; what is rolled back never
# does.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main', conf => "max_prepared_transactions = 2\n");

# What a call that costs nothing is told: limit and rule, or that there is none.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION ask() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT concat_ws(' ', "limit", rule) FROM rate_limit_enforce('plan', 'key', 0));
EXCEPTION WHEN undefined_object THEN
    RETURN 'unknown';
END $$;
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('plan', 10, '1 hour');
SQL
my $ask = q(SELECT concat_ws(' ', "limit", rule) FROM rate_limit_enforce('plan', 'key', 0));

# Sessions that call on their own, by a prepared statement and in a function, and
# within transactions that have looked at the tables before the change.
my @sessions = (
	{ name => 'a plain statement', ask => $ask },
	{ name => 'a prepared statement', prepare => "PREPARE ask AS $ask", ask => 'EXECUTE ask' },
	{ name => 'a function', ask => 'SELECT ask()' },
	map { { name => $_, begin => "BEGIN ISOLATION LEVEL $_; SELECT count(*) > 0 FROM pg_class", ask => $ask } }
	  'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE', 'SERIALIZABLE READ ONLY');

foreach my $session (@sessions)
{
	$session->{psql} = $node->background_psql('postgres');
	$session->{psql}->query_safe($session->{prepare}) if $session->{prepare};
}

# What every session is told; one answer if it is the same.
sub answers
{
	my %told;

	push @{ $told{ $_->{psql}->query_safe($_->{ask}) } }, $_->{name} foreach @sessions;
	return join '; ', keys %told == 1 ? keys %told : map { "$_: " . join(', ', @{ $told{$_} }) } sort keys %told;
}

# Every session has called, and then begins the transaction it is to be in.  What
# has been read before it began is not locked.
sub begin
{
	answers();
	$_->{psql}->query_safe($_->{begin}) foreach grep { $_->{begin} } @sessions;
	return answers();
}

sub end
{
	$_->{psql}->query_safe('COMMIT') foreach grep { $_->{begin} } @sessions;
	return;
}

# A change, and what all sessions are told before and after it.
sub change
{
	my ($sql, $before, $after, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $was = begin();

	$node->safe_psql('postgres', $sql);
	is("$was -> " . answers(), "$before -> $after", $name);
	end();
	return;
}

change(q(UPDATE rate_limit_policies SET "limit" = 20),
	'10 default', '20 default', 'UPDATE of a policy');
change(q(INSERT INTO rate_limit_policies (policy, rule, "limit", "window") VALUES ('plan', 'tight', 3, '1 day')),
	'20 default', '3 tight', 'INSERT of a rule');
change(q(UPDATE rate_limit_policies SET rule = 'narrow' WHERE rule = 'tight'),
	'3 tight', '3 narrow', 'UPDATE of its name');
change(q(UPDATE rate_limit_policies SET mode = 'off' WHERE rule = 'narrow'),
	'3 narrow', '20 default', 'UPDATE of its mode');
change(q(INSERT INTO rate_limit_overrides (key, "limit") VALUES ('key', 5)),
	'20 default', '5 default', 'INSERT of the first override');
change(q(UPDATE rate_limit_overrides SET "limit" = 6),
	'5 default', '6 default', 'UPDATE of an override');
change(q(INSERT INTO rate_limit_overrides (policy, key, "limit") VALUES ('plan', 'key', NULL)),
	'6 default', 'default', 'INSERT of a nearer one, without a limit');
change(q(DELETE FROM rate_limit_overrides WHERE policy = 'plan'),
	'default', '6 default', 'DELETE of it');
change(q(UPDATE rate_limit_overrides SET key = 'other key'),
	'6 default', '20 default', 'UPDATE of the key of an override');
change(q(UPDATE rate_limit_overrides SET key = 'key'),
	'20 default', '6 default', 'and back');
change(q(TRUNCATE rate_limit_overrides),
	'6 default', '20 default', 'TRUNCATE of the overrides');
change(q(SET session_replication_role = replica; UPDATE rate_limit_policies SET "limit" = 21),
	'20 default', '21 default', 'UPDATE as replication does it');
change(q(SET session_replication_role = replica; INSERT INTO rate_limit_overrides (key, "limit") VALUES ('key', 0)),
	'21 default', '0 default', 'INSERT of an override as replication does it');
change(q(SET session_replication_role = replica; TRUNCATE rate_limit_overrides),
	'0 default', '21 default', 'TRUNCATE as replication does it');
change(q(COPY rate_limit_overrides (key, "limit") FROM PROGRAM 'echo key,9' (FORMAT csv)),
	'21 default', '9 default', 'COPY');
change(q(DELETE FROM rate_limit_overrides; DELETE FROM rate_limit_policies WHERE policy = 'plan';
	     INSERT INTO rate_limit_policies (policy, rule, "limit", "window", is_fallback) VALUES ('free', 'f', 2, '1 hour', true)),
	'9 default', '2 f', 'a policy removed while in use: the fallback');
change(q(INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('plan', 20, '1 hour')),
	'2 f', '20 default', 'the policy is there again');
change(q(MERGE INTO rate_limit_policies p USING (VALUES ('plan', 22)) v ON p.policy = v.column1
	     WHEN MATCHED THEN UPDATE SET "limit" = v.column2),
	'20 default', '22 default', 'MERGE');
change(q(BEGIN; TRUNCATE rate_limit_policies; INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('plan', 23, '1 hour'); COMMIT),
	'22 default', '23 default', 'TRUNCATE of the policies');

# Rolled back, as a whole and to savepoints.  The own session sees its changes.
my $changer = $node->background_psql('postgres');

sub steps
{
	my ($name, @steps) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	begin();
	while (my ($sql, $own, $others) = splice @steps, 0, 3)
	{
		$changer->query_safe($sql);
		is($changer->query_safe('SELECT ask()'), $own, "$name, own session: $sql");
		is(answers(), $others, "$name, other sessions: $sql") if defined $others;
	}
	end();
	return;
}

sub set { return qq(UPDATE rate_limit_policies SET "limit" = $_[0]) }

steps('rollback', 'BEGIN', '23 default', '23 default',
	set(30), '30 default', '23 default',
	'ROLLBACK', '23 default', '23 default');
steps('commit', 'BEGIN', '23 default', '23 default',
	set(30), '30 default', '23 default',
	q(INSERT INTO rate_limit_overrides (key, "limit") VALUES ('key', 31)), '31 default', '23 default',
	'DELETE FROM rate_limit_policies', 'unknown', '23 default',
	'ROLLBACK', '23 default', '23 default',
	'BEGIN; ' . set(24) . '; COMMIT', '24 default', '24 default');
steps('savepoints', 'BEGIN; ' . set(30), '30 default', '24 default',
	'SAVEPOINT a; ' . set(40), '40 default', '24 default',
	'SAVEPOINT b; ' . set(50), '50 default', '24 default',
	'RELEASE b', '50 default', '24 default',
	'ROLLBACK TO a', '30 default', '24 default',
	'COMMIT', '30 default', '30 default');
steps('two phases', 'BEGIN; ' . set(60), '60 default', '30 default',
	q(PREPARE TRANSACTION 'change'), '30 default', '30 default',
	q(COMMIT PREPARED 'change'), '60 default', '60 default',
	'BEGIN; ' . set(70) . q(; PREPARE TRANSACTION 'change'), '60 default', '60 default',
	q(ROLLBACK PREPARED 'change'), '60 default', '60 default');

# A call in the middle of a change that fails leaves nothing behind.
$changer->query_safe(<<'SQL');
CREATE FUNCTION fail() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'saw %', ask();
END $$;
CREATE FUNCTION failed(change text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE change;
    RETURN 'no error';
EXCEPTION WHEN raise_exception THEN
    RETURN sqlerrm;
END $$;
SQL
foreach my $test (
	[ set(80) . ' RETURNING fail()', 'saw 80 default' ],
	[ q(INSERT INTO rate_limit_overrides (key, "limit") VALUES ('key', 81) RETURNING fail()), 'saw 81 default' ],
	[ q(DELETE FROM rate_limit_policies RETURNING fail()), 'saw unknown' ])
{
	my ($sql, $saw) = @$test;

	is($changer->query_safe("SELECT failed(\$\$$sql\$\$)"), $saw, "a call sees the change: $sql");
	is($changer->query_safe('SELECT ask()'), '60 default', 'but not when it has failed');
}

# The extension goes and comes back, in another schema too.
fails_with($node, 'ALTER EXTENSION rate_limit SET SCHEMA pg_catalog', '0A000',
	'does not support SET SCHEMA', 'the extension stays in its schema');
$_->{psql}->query_safe(q(SET search_path = public, elsewhere)) foreach @sessions;
$node->safe_psql('postgres', <<'SQL');
DROP EXTENSION rate_limit;
CREATE EXTENSION rate_limit;
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('plan', 90, '1 hour');
SQL
is(answers(), '90 default', 'another extension of the same name has limits of its own');
$node->safe_psql('postgres', set(91));
is(answers(), '91 default', 'which can be changed');
$node->safe_psql('postgres', <<'SQL');
DROP EXTENSION rate_limit;
CREATE SCHEMA elsewhere;
CREATE EXTENSION rate_limit SCHEMA elsewhere;
INSERT INTO elsewhere.rate_limit_policies (policy, "limit", "window") VALUES ('plan', 92, '1 hour');
SQL
is(answers(), '92 default', 'so has one in another schema');
$node->safe_psql('postgres', q(UPDATE elsewhere.rate_limit_policies SET "limit" = 93));
is(answers(), '93 default', 'which can be changed, too');

$changer->query_safe('SET search_path = public, elsewhere');
steps('another extension, rolled back',
	'BEGIN; DROP EXTENSION rate_limit; CREATE EXTENSION rate_limit SCHEMA elsewhere', 'unknown', undef,
	q(INSERT INTO elsewhere.rate_limit_policies (policy, "limit", "window") VALUES ('plan', 94, '1 hour')), '94 default', undef,
	'ROLLBACK', '93 default', '93 default');

$_->{psql}->quit foreach @sessions;
$changer->quit;
$node->stop;
done_testing();
