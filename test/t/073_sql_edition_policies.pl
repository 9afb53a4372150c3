# Policies in the SQL edition: for callers with no rights but to call, under 200
# calls at once in every isolation level, changed while sessions go on, and
# carried by a dump.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = new_server('main', conf => "timezone = 'UTC'\n");

$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE owner LOGIN;
CREATE ROLE app LOGIN;
CREATE DATABASE plain;
SQL
$node->safe_psql('plain', <<'SQL');
CREATE SCHEMA "Odd Schema" AUTHORIZATION owner;
CREATE SCHEMA app AUTHORIZATION app;
GRANT USAGE ON SCHEMA "Odd Schema" TO app;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER DATABASE plain SET search_path = "Odd Schema";
SQL
system_or_bail('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', build_sql_edition(), connection($node, 'plain', 'owner'));

sub plain
{
	my ($query, $user) = @_;

	return $node->safe_psql('plain', $query, extra_params => [ '-U', $user // 'owner' ]);
}

plain(<<SQL);
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, mode, block_for, is_fallback) VALUES
    ('free', 'burst',  20, '$AGE',   'sliding_window',  'enforce', NULL, true),
    ('free', 'month',  30, '1 year', 'fixed_window',    'enforce', NULL, false),
    ('free', 'shadow', 5,  '$AGE',   'token_bucket',    'shadow',  NULL, false),
    ('one',  'once',   1,  '$AGE',   'anchored_window', 'enforce', '1 day', false);
INSERT INTO rate_limit_overrides (key, network, "limit") VALUES ('user:vip', NULL, NULL), (NULL, '192.0.2.0/24', 2);
SQL

# --- A caller that has no rights on the tables, nor a search_path ---

is( plain(<<'SQL', 'app'),
SET search_path = '';
SELECT allowed, "limit", used, remaining, rule FROM "Odd Schema".rate_limit_enforce('free', 'user:1', 2);
SELECT allowed, "limit", used, rule FROM "Odd Schema".rate_limit_enforce('unknown', 'user:1');
SELECT allowed, "limit" FROM "Odd Schema".rate_limit_enforce('one', 'user:vip', 1000);
SELECT allowed, "limit", used FROM "Odd Schema".rate_limit_enforce('one', "Odd Schema".rate_limit_ip_key('::ffff:192.0.2.7'), 2);
SELECT rule, "limit", used FROM "Odd Schema".rate_limit_usage('free', 'user:1');
SQL
	join("\n", 't|20|2|18|burst', 't|20|3|burst', 't|', 't|2|2', 'burst|20|3', 'month|30|3', 'shadow|5|3'),
	'enforce, fallback, overrides, usage');
is( plain(<<'SQL', 'app'),
SET search_path = '';
BEGIN;
SELECT "Odd Schema".rate_limit_postgrest('free', 'user:1');
SELECT jsonb_path_query_array(current_setting('response.headers')::jsonb, '$[*]."X-RateLimit-Remaining"');
ROLLBACK;
CREATE TABLE app.posts (author text);
CREATE TRIGGER limited BEFORE INSERT ON app.posts FOR EACH ROW EXECUTE FUNCTION "Odd Schema".rate_limit_trigger('one', 'author');
INSERT INTO app.posts VALUES ('user:1'), ('user:2') RETURNING author;
SQL
	qq(\n["16"]\nuser:1\nuser:2), 'headers, trigger');
fails_with($node, "INSERT INTO app.posts VALUES ('user:1')", 'RL429', 'rate limit exceeded for key "user:1"',
	'the table refuses', database => 'plain', user => 'app');
fails_with($node, "SELECT $_", '42501', 'permission denied', "an ordinary role may not: $_", database => 'plain', user => 'app')
  foreach "rate_limit_enforce_adjust('free', 'user:1', -1)", "rate_limit_enforce_at(now(), 'free', 'user:1')",
  '* FROM rate_limit_policies', '* FROM rate_limit_overrides', "rate_limit_validate_name('policy', '')";
fails_with($node, 'DELETE FROM rate_limit_policies', '42501', 'permission denied', 'nor change limits', database => 'plain', user => 'app');
fails_with($node, q(INSERT INTO rate_limit_policies (policy, "limit", "window", store) VALUES ('memory', 1, '1 hour', 'memory')),
	'0A000', 'store "memory" needs the C library', 'a rule in memory is refused', database => 'plain', user => 'owner');

# --- A committed change acts on the next call of a session that goes on ---

my $session = $node->background_psql('plain', extra_params => [ '-U', 'app' ]);
my $ask = q(SELECT allowed, "limit", rule FROM rate_limit_enforce('free', 'user:3'));

$session->query_safe("PREPARE ask AS $ask");
is($session->query_safe('EXECUTE ask'), 't|20|burst', 'a limit');
plain(q(UPDATE rate_limit_policies SET "limit" = 10 WHERE rule = 'burst'));
is($session->query_safe('EXECUTE ask'), 't|10|burst', 'changed');
plain(q(INSERT INTO rate_limit_overrides (policy, key, "limit") VALUES ('free', 'user:3', 0)));
is($session->query_safe('EXECUTE ask'), 'f|0|burst', 'overridden');
plain(q(UPDATE rate_limit_overrides SET expires_at = now() WHERE key = 'user:3'));
is($session->query_safe('EXECUTE ask'), 't|10|burst', 'until the override has expired');
plain(q(UPDATE rate_limit_policies SET policy = 'gratis' WHERE policy = 'free'));
is($session->query_safe('EXECUTE ask'), 't|10|burst', 'renamed: the fallback, with counters of that name');
is(plain(q(SELECT used FROM rate_limit_usage('gratis', 'user:3') WHERE rule = 'burst')), 1, 'which count anew');
plain(q(UPDATE rate_limit_policies SET policy = 'free', "limit" = CASE rule WHEN 'burst' THEN 20 ELSE "limit" END WHERE policy = 'gratis'));
is($session->query_safe('EXECUTE ask'), 't|20|burst', 'and back');
$session->quit;

# --- 200 calls at once: all or nothing, in every rule ---

plain('CREATE TABLE admitted (run text); GRANT ALL ON admitted TO app');
my $call = q(INSERT INTO admitted SELECT :run FROM rate_limit_enforce('free', 'run ' || :run) WHERE allowed;) . "\n";

foreach my $isolation ('read committed', 'repeatable read', 'serializable')
{
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=' . $isolation =~ s/ /\\ /r;
	my $run = $isolation =~ s/ .*//r;

	ok( run_pgbench(
			$node,
			map { { clients => 50, transactions => 1, tries => 10_000, script => $call, define => { run => $run }, database => 'plain', user => 'app' } } 1 .. 4),
		"every call is answered, $isolation");
	is(plain("SELECT count(*) FROM admitted WHERE run = '$run'"), 20, "exactly 20 of 200 concurrent calls admitted, $isolation");
	is( plain("SELECT rule, used FROM rate_limit_usage('free', 'run $run')"), "burst|20\nmonth|20\nshadow|5",
		'each rule has counted them, the one in shadow as many as it would have admitted');
}

# a block by a rule is one block, whoever refuses first
ok( run_pgbench(
		$node,
		map { { clients => 25, transactions => 4, script => "SELECT rate_limit_enforce('one', 'blocked at once');\n", database => 'plain', user => 'app' } } 1, 2),
	'calls that block a key at once');
is(plain("SELECT count(*), min(until - blocked_at) FROM rate_limit_blocks WHERE key = 'blocked at once'"), '1|1 day', 'one block');

# blocks that have ended leave without anybody asking for it
plain(q(UPDATE rate_limit_policies SET block_for = '1 us' WHERE policy = 'one'));
ok( run_pgbench(
		$node,
		{ clients => 1, transactions => 500, script => "SELECT rate_limit_enforce('one', 'ended ' || :client_id || random(), 2);\n", database => 'plain', user => 'app' }),
	'calls that block 500 keys for a moment');
is(plain(q(SELECT count(*) < 250, count(*) FILTER (WHERE key = 'blocked at once') FROM rate_limit_blocked)), 't|1', 'which do not pile up');

# several keys and policies, calls and corrections: nobody waits for ever
plain('GRANT EXECUTE ON FUNCTION rate_limit_enforce_adjust TO app');
ok( run_pgbench(
		$node,
		map { { clients => 8, transactions => 100, script => <<'SQL', database => 'plain', user => 'app' } } 1, 2),
\set n random(1, 3)
\set d random(-1, 1)
SELECT rate_limit_enforce('free', 'mixed ' || :n), rate_limit_enforce_adjust('free', 'mixed ' || :n, :d);
SQL
	'no deadlock');

# --- A dump carries limits and counters, and what is restored is checked as before ---

my $dump = "$folder/plain.sql";
system_or_bail('pg_dump', '-f', $dump, connection($node, 'plain'));
$node->safe_psql('postgres', 'CREATE DATABASE restored');
system_or_bail('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, connection($node, 'restored'));
my $rows = join "\n", map { "SELECT * FROM \"Odd Schema\".$_ t ORDER BY t::text COLLATE \"C\";" }
  qw(rate_limit_policies rate_limit_overrides rate_limit_state);
is(value($node, $rows, 'restored'), plain($rows), 'the same rows');
$node->safe_psql('postgres', 'ALTER DATABASE restored SET search_path = "Odd Schema"');
is( $node->safe_psql('restored', q(SELECT allowed, used, rule FROM rate_limit_enforce('free', 'run read')), extra_params => [ '-U', 'app' ]),
	'f|20|burst', 'counting goes on');
fails_with($node, qq(SET session_replication_role = replica; INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('p', 1, '0')),
	'22023', 'argument "window" must be greater than zero', 'bad rows are refused', database => 'restored');

$node->stop;
done_testing();
