# A role that may only connect is limited by policies and can neither see nor
# loosen them, whatever it puts into its search_path and its arguments.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE app LOGIN;
CREATE ROLE editor LOGIN;
GRANT CREATE ON SCHEMA public TO app;
GRANT CREATE ON DATABASE postgres TO app;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON rate_limit_policies, rate_limit_overrides TO editor;
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", store) VALUES
    ('plan', 'memory', 3, '1 day', 'memory'), ('plan', 'table', 3, '1 day', 'table');
INSERT INTO rate_limit_overrides (key, "limit") VALUES ('vip', 5);
SQL

sub as_app
{
	my ($sql) = @_;

	return $node->safe_psql('postgres', $sql, extra_params => [ '-U', 'app' ]);
}

# --- What it may, and what it may not ---

is(as_app(q(SELECT string_agg(allowed::text, ' ') FROM unnest('{1,1,1,1}'::int[]) AS c, rate_limit_enforce('plan', 'mine', c))),
	'true true true false', 'it can enforce');
is(as_app(q(SELECT rule, used FROM rate_limit_usage('plan', 'mine'))), "memory|3\ntable|3", 'and see what it has used');
is(as_app(q(SELECT "limit" FROM rate_limit_enforce('plan', 'vip'))), '5', 'and gets its override');

foreach my $forbidden (
	'SELECT * FROM rate_limit_policies',
	'SELECT count(*) FROM rate_limit_policies',
	q(UPDATE rate_limit_policies SET "limit" = 1000),
	q(INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('own', 1000, '1 day')),
	'DELETE FROM rate_limit_policies',
	'TRUNCATE rate_limit_policies',
	'BEGIN; LOCK TABLE rate_limit_policies IN ACCESS SHARE MODE',
	'SELECT * FROM rate_limit_overrides',
	q(INSERT INTO rate_limit_overrides (key, "limit") VALUES ('mine', NULL)),
	q(UPDATE rate_limit_overrides SET key = 'mine'),
	'DELETE FROM rate_limit_overrides',
	'TRUNCATE rate_limit_overrides',
	q(COPY rate_limit_overrides TO STDOUT),
	q(MERGE INTO rate_limit_overrides USING (VALUES (1)) v ON true WHEN MATCHED THEN DELETE),
	'SELECT * FROM rate_limit_state',
	'DELETE FROM rate_limit_state',
	q(SELECT rate_limit_enforce_at(now(), 'plan', 'mine')),
	q(SELECT rate_limit_enforce_at('2100-01-01', 'plan', 'mine')),
	q(SELECT rate_limit_enforce_adjust('plan', 'mine', -3)),
	'SELECT rate_limit_stats_reset()',
	'SELECT rate_limit_policy_changed()',
	'SELECT rate_limit_validate_policy()',
	'SELECT rate_limit_validate_override()',
	q(SELECT rate_limit_validate_name('policy', 'plan')),
	'BEGIN; CREATE TABLE own (i int); CREATE TRIGGER own AFTER INSERT ON own EXECUTE FUNCTION rate_limit_policy_changed()',
	'BEGIN; CREATE TABLE own (i int); CREATE TRIGGER own BEFORE INSERT ON own FOR EACH ROW EXECUTE FUNCTION rate_limit_validate_policy()')
{
	fails_with($node, $forbidden, '42501', 'permission denied', "it may not: $forbidden", user => 'app');
}
foreach my $forbidden (
	'ALTER TABLE rate_limit_policies DISABLE TRIGGER ALL',
	'DROP TRIGGER rate_limit_policy_changed ON rate_limit_policies',
	'CREATE RULE own AS ON SELECT TO rate_limit_policies DO INSTEAD SELECT 1',
	'ALTER TABLE rate_limit_overrides ENABLE ROW LEVEL SECURITY')
{
	fails_with($node, $forbidden, '42501', 'must be owner', "it may not: $forbidden", user => 'app');
}
fails_with($node, 'CREATE TRIGGER own BEFORE INSERT ON rate_limit_policies FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
	'42501', 'permission denied', 'it may not put a trigger on the policies', user => 'app');
is(as_app(q(SELECT allowed, used FROM rate_limit_enforce('plan', 'mine'))), 'f|3', 'after all that it is refused as before');

# Who has been given rights on the tables needs none on their triggers.
is( $node->safe_psql('postgres', <<'SQL', extra_params => [ '-U', 'editor' ]),
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('edited', 1, '1 day');
SELECT "limit" FROM rate_limit_enforce('edited', 'key', 0);
UPDATE rate_limit_policies SET "limit" = 2 WHERE policy = 'edited';
SELECT "limit" FROM rate_limit_enforce('edited', 'key', 0);
INSERT INTO rate_limit_overrides (policy, key, "limit") VALUES ('edited', 'key', 3);
SELECT "limit" FROM rate_limit_enforce('edited', 'key', 0);
DELETE FROM rate_limit_overrides WHERE policy = 'edited';
DELETE FROM rate_limit_policies WHERE policy = 'edited';
SQL
	"1\n2\n3", 'a role with rights on the tables can edit them');

# --- A schema of its own that comes first ---

is( as_app(<<'SQL'),
CREATE SCHEMA own;
CREATE TABLE own.rate_limit_policies (policy text, rule text, "limit" int8, "window" interval, algorithm text, burst int8, store text,
    time_zone text, block_for interval, mode text, is_fallback bool);
INSERT INTO own.rate_limit_policies VALUES ('plan', 'own', 1000, '1 day', 'sliding_window', NULL, 'memory', NULL, NULL, 'enforce', true);
CREATE TABLE own.rate_limit_overrides (policy text, key text, network cidr, "limit" int8, expires_at timestamptz, reason text, rule text);
INSERT INTO own.rate_limit_overrides (key) VALUES ('mine');
CREATE TABLE own.rate_limit_state AS SELECT 1 AS key;
CREATE FUNCTION own.hijacked() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked by %', current_user; END $$;
CREATE FUNCTION own.eq(text, text) RETURNS bool LANGUAGE sql AS 'SELECT own.hijacked()';
CREATE FUNCTION own.contains(inet, inet) RETURNS bool LANGUAGE sql AS 'SELECT own.hijacked()';
CREATE OPERATOR own.= (LEFTARG = text, RIGHTARG = text, FUNCTION = own.eq);
CREATE OPERATOR own.>>= (LEFTARG = inet, RIGHTARG = inet, FUNCTION = own.contains);
CREATE FUNCTION own.masklen(inet) RETURNS int LANGUAGE sql AS 'SELECT 1 WHERE own.hijacked()';
CREATE FUNCTION own.row_to_json(record) RETURNS json LANGUAGE plpgsql AS $$ BEGIN PERFORM own.hijacked(); END $$;
CREATE FUNCTION own.rate_limit_enforce(text, text, int8 DEFAULT 1) RETURNS bool LANGUAGE sql AS 'SELECT own.hijacked()';
CREATE FUNCTION own.rate_limit_headers(public.rate_limit_result, interval, text) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb WHERE own.hijacked()';
CREATE TYPE own.rate_limit_result AS (hijacked bool);
SET search_path = own, pg_catalog;
SELECT allowed, "limit", rule, used FROM public.rate_limit_enforce('plan', 'mine');
SELECT allowed, "limit", rule, used FROM public.rate_limit_enforce('plan', '192.0.2.1', 3);
SELECT allowed, "limit", rule, used FROM public.rate_limit_enforce('plan', 'vip', 4);
SELECT rule, "limit", used FROM public.rate_limit_usage('plan', 'mine');
BEGIN;
SELECT public.rate_limit_postgrest('plan', 'another', 1);
SELECT jsonb_path_query_first(pg_catalog.current_setting('response.headers')::jsonb, '$[*]."X-RateLimit-Limit"');
COMMIT;
SQL
	join("\n", 'f|3|memory|3', 't|3|memory|3', 't|5|memory|5', 'memory|3|3', 'table|3|3', '', '"3"'),
	'a search_path with tables, functions and operators of the same names changes nothing');
is( as_app(<<'SQL'),
CREATE TEMP TABLE rate_limit_policies AS SELECT * FROM own.rate_limit_policies;
CREATE TEMP TABLE rate_limit_overrides AS SELECT * FROM own.rate_limit_overrides;
SELECT allowed, "limit", rule, used FROM public.rate_limit_enforce('plan', 'mine');
SET search_path = '';
SELECT allowed, "limit", rule, used FROM public.rate_limit_enforce('plan', 'mine');
SQL
	"f|3|memory|3\nf|3|memory|3", 'nor do temporary tables, or no search_path at all');

# --- Names and keys ---

my $odd = q('a"b''c\d' || E'\\n\\t' || '%s%n; -- ');
my $long = q(repeat('x', 63));
my $cut = q('x' || repeat('ä', 31));
$node->safe_psql('postgres', <<SQL);
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", store, block_for) VALUES
    ($odd, $odd, 1, '1 day', 'table', '1 day'), ($long, $long, 1, '1 day', 'table', '1 day'), ($cut, $cut, 1, '1 day', 'memory', NULL);
SQL
foreach my $name ($odd, $long, $cut)
{
	is( as_app("SELECT allowed, used, rule = $name FROM unnest('{1,1}'::int[]) AS c, rate_limit_enforce($name, 'key of ' || $name, c)"),
		"t|1|t\nf|1|t", "a policy named $name");
	is(value($node, "SELECT policy = $name, rule = $name FROM rate_limit_keys WHERE key = 'key of ' || $name"),
		't|t', 'has its own counter');
}
is( value($node, "SELECT count(*) FROM rate_limit_blocks WHERE reason = format('policy \"%s\", rule \"%s\"', $odd, $odd) OR reason = format('policy \"%s\", rule \"%s\"', $long, $long)"),
	'2', 'blocks name them in full');

# Names that differ only beyond the longest name are unknown, not the same.
foreach my $name ("$long || 'x'", "$cut || 'ä'", "$cut || 'b'", "left($cut, -1)", "left($long, -1)", "upper($long)", "$odd || ' '", "rtrim($odd)", q(''),
	q(repeat('long', 1000000)))
{
	fails_with($node, "SELECT rate_limit_enforce($name, 'key')", '42704', 'policy \".*', "no policy has this name: " . substr($name, 0, 40), user => 'app');
}
$node->safe_psql('postgres', q(INSERT INTO rate_limit_policies (policy, "limit", "window", is_fallback) VALUES ('free', 1, '1 day', true)));
is( as_app("SELECT n, allowed, rule FROM (VALUES (1, $long || 'x'), (2, $cut || 'ä'), (3, ''), (4, repeat('long', 1000000))) AS v(n, name), rate_limit_enforce(name, 'fallback') ORDER BY n"),
	"1|t|default\n2|f|default\n3|f|default\n4|f|default", 'with a fallback all of them are one policy');

# Keys up to the longest, which overrides tell apart to the last byte.
$node->safe_psql('postgres', <<'SQL');
INSERT INTO rate_limit_overrides (policy, key, "limit") VALUES
    ('plan', repeat('k', 1024), 11), ('plan', repeat('k', 1023), 12), ('plan', repeat('ä', 512), 13), ('plan', E'\n', 14), ('plan', 'Key', 15);
SQL
is( as_app(<<'SQL'),
SELECT n, "limit" FROM (VALUES (1, repeat('k', 1024)), (2, repeat('k', 1023)), (3, repeat('k', 1022)), (4, repeat('ä', 512)), (5, repeat('ä', 511)), (6, E'\n'),
    (7, E'\n '), (8, 'Key'), (9, 'key'), (10, repeat('k', 1023) || 'l')) AS v(n, key), rate_limit_enforce('plan', key, 0) ORDER BY n
SQL
	join("\n", '1|11', '2|12', '3|3', '4|13', '5|3', '6|14', '7|3', '8|15', '9|3', '10|3'), 'overrides of long keys and similar ones');
fails_with($node, q(SELECT rate_limit_enforce('plan', repeat('k', 1025))), '22023', 'argument "key" is too long', 'a longer key is an error', user => 'app');

$node->stop;
done_testing();
