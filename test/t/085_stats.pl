# rate_limit_stats counts exactly, also with clients at the same time, for each
# rule and for calls ad hoc, in every database on its own; and rules for which
# there is no room are enforced all the same.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main', conf => "rate_limit.memory = '1MB'\n");

$node->safe_psql('postgres', <<SQL);
CREATE DATABASE other;
CREATE ROLE app LOGIN;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", store, mode) VALUES
    ('two', 'large', 1200, '$AGE', 'memory', 'enforce'), ('two', 'small', 300, '$AGE', 'table', 'enforce'),
    ('shadow', 'only', 500, '$AGE', 'memory', 'shadow'), ('off', 'off', 0, '$AGE', 'memory', 'off'),
    ('free', 'fallback', 100, '$AGE', 'memory', 'enforce');
UPDATE rate_limit_policies SET is_fallback = true WHERE policy = 'free';
SQL
$node->safe_psql('other', <<SQL);
CREATE EXTENSION rate_limit;
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", store, mode) VALUES ('two', 'large', 7, '$AGE', 'memory', 'enforce');
SQL

# --- Eight clients, in two databases ---

ok( run_pgbench(
		$node,
		{
			clients => 8,
			transactions => 100,
			user => 'app',
			script => <<"SQL" },
SELECT rate_limit_enforce('two', 'key'), rate_limit_enforce('shadow', 'key'), rate_limit_enforce('off', 'key');
SELECT rate_limit_enforce('unknown ' || :client_id, 'key', 2), rate_limit_enforce('two', 'key', 0);
SELECT count(*) FROM rate_limit_usage('two', 'key');
SELECT rate_limit_check('key', 600, '$AGE'), rate_limit_peek('key', 600, '$AGE'), rate_limit_check('key', 600, '$AGE', 0);
SELECT rate_limit_allowed('key', 700, '$AGE', store => 'table');
SQL
		{
			clients => 4,
			transactions => 10,
			database => 'other',
			user => 'app',
			script => "SELECT rate_limit_enforce('two', 'key', 1);\n"
		}),
	'clients call without an error');

my $stats = q(SELECT policy, rule, allowed, refused, shadow_refused FROM rate_limit_stats ORDER BY policy, rule);

is( value($node, $stats),
	join("\n",
		'free|fallback|50|750|0',
		'shadow|only|500|0|300',
		'two|large|300|0|0',
		'two|small|300|500|0',
		'||1300|300|0'),
	'every call is counted once, by rule; those that only look are not');
is(value($node, $stats, 'other'), 'two|large|7|33|0', 'and in the other database apart from them');

# A call of several limits counts for each of them what it says of it.
is( value($node, <<SQL),
SELECT rate_limit_stats_reset();
SELECT count(allowed) FROM rate_limit_check_all('{a,b,c}', '{5,1,0}', '{1 day,1 day,1 day}');
SELECT count(allowed) FROM rate_limit_check_all('{a,b,c}', '{5,1,1}', '{1 day,1 day,1 day}', '{1,1,0}');
SELECT allowed, refused, shadow_refused FROM rate_limit_stats WHERE policy IS NULL;
SQL
	"\n3\n3\n2|1|0", 'rate_limit_check_all counts refusals by limit, admissions if all admit');

# What is rolled back has been decided all the same; a wrong call has not.
is( value($node, <<SQL),
SELECT rate_limit_stats_reset();
BEGIN;
SELECT allowed FROM rate_limit_check('rolled back', 1, '1 day', store => 'table');
SELECT allowed FROM rate_limit_check('rolled back', 1, '1 day', store => 'table');
ROLLBACK;
SELECT allowed, refused, shadow_refused FROM rate_limit_stats WHERE policy IS NULL;
SQL
	"\nt\nf\n1|1|0", 'decisions of transactions that roll back count');
$node->psql('postgres', "SELECT rate_limit_check('wrong', -1, '1 day')");
is(value($node, 'SELECT sum(allowed + refused) FROM rate_limit_stats'), '2', 'errors do not');

# --- The reset ---

my $session = $node->background_psql('postgres');
$session->query_safe("SELECT rate_limit_enforce('two', 'reset', 1)");
my $before = value($node, 'SELECT clock_timestamp()');
$node->safe_psql('postgres', 'SELECT rate_limit_stats_reset()');
is( value($node, <<SQL),
SELECT count(*), count(DISTINCT policy), sum(allowed), sum(refused), sum(shadow_refused), min(since) > '$before', max(since) < clock_timestamp()
  FROM rate_limit_stats
SQL
	'5|3|0|0|0|t|t', 'a reset sets all to zero and says when');
is(value($node, $stats, 'other'), 'two|large|7|33|0', 'but not in other databases');
$session->query_safe("SELECT rate_limit_enforce('two', 'reset', 301)");
is( value($node, "SELECT rule, allowed, refused FROM rate_limit_stats WHERE policy = 'two' ORDER BY rule"),
	"large|0|0\nsmall|0|1", 'a session that goes on counts anew');
$session->quit;

# --- Who may look, and reset ---

foreach my $call ('SELECT * FROM rate_limit_stats', 'SELECT * FROM rate_limit_stats()', 'SELECT rate_limit_stats_reset()')
{
	fails_with($node, $call, '42501', 'permission denied', "an ordinary role may not: $call", user => 'app');
}
is( $node->safe_psql('postgres', 'SELECT count(*) FROM rate_limit_stats', extra_params => [ '-U', 'monitor' ]),
	'5', 'pg_monitor may look');
fails_with($node, 'SELECT rate_limit_stats_reset()', '42501', 'permission denied', 'but not reset', user => 'monitor');

# --- More rules than there is room for ---

$node->safe_psql('postgres', <<SQL);
INSERT INTO rate_limit_policies (policy, rule, "limit", "window")
    SELECT 'many ' || i, rule, 1, '$AGE' FROM generate_series(1, 400) AS i, unnest('{a,b}'::text[]) AS rule;
SQL
is( value($node, <<'SQL'),
SELECT count(*) FILTER (WHERE (rate_limit_enforce('many ' || i, 'key ' || i)).allowed), count(*) FILTER (WHERE (rate_limit_enforce('many ' || i, 'key ' || i)).allowed)
  FROM generate_series(1, 400) AS i
SQL
	'400|0', 'rules are enforced without room for their counts');
my $counted = value($node, q(SELECT count(*) FROM rate_limit_stats WHERE policy LIKE 'many %'));
cmp_ok($counted, '>', 50, 'some of them are counted');
cmp_ok($counted, '<', 800, 'but not all');
is( value($node, q(SELECT count(*) FROM rate_limit_stats WHERE policy LIKE 'many %' AND (allowed, refused, shadow_refused) <> (1, 1, 0))),
	'0', 'those exactly');
$node->safe_psql('other', "SELECT rate_limit_check('no room', 5, '1 day')");
is(value($node, $stats, 'other'), 'two|large|7|33|0', 'a database that comes later counts no more');
is( value($node, q(SELECT allowed, used FROM rate_limit_check('no room', 2, '1 day', 2)), 'other'),
	'f|1', 'but enforces');

$node->stop;
done_testing();
