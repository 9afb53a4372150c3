# Two databases share nothing, two schemas are the same limiter, and a hostile
# search_path changes nothing.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other',
	'CREATE SCHEMA "Odd schema"; CREATE EXTENSION rate_limit SCHEMA "Odd schema"');

my $odd = '"Odd schema".';
my $hit = "rate_limit_check('key', 5, '1 day')";

# The same keys in both, from both at once.
ok( run_pgbench(
		$node,
		map {
			{
				database => $_->[0],
				clients => 4,
				transactions => 100,
				script => <<"SCRIPT" }
\\set k random(1, 10)
SELECT $_->[1]rate_limit_check('shared ' || :k, 1000000, '$AGE');
SCRIPT
		} [ 'postgres', '' ],
		[ 'other', $odd ]),
	'clients of two databases call with the same keys');
foreach my $database ([ 'postgres', '' ], [ 'other', $odd ])
{
	is( value($node, "SELECT count(*), sum(used) FROM $database->[1]rate_limit_keys", $database->[0]),
		'10|400',
		"fault 12: the keys seen in database $database->[0] are its own");
}
is(value($node, 'SELECT counters FROM rate_limit_info'),
	'20', 'rate_limit_info counts all databases together');

$node->safe_psql('other', "SELECT ${odd}rate_limit_block('key'), ${odd}rate_limit_block('shared 1')");
is(value($node, "SELECT allowed, used FROM $hit"),
	't|1', 'fault 12: a block in one database is none in the other');
is(value($node, 'SELECT count(*) FROM rate_limit_blocks'),
	'0', 'nor is it seen there');
is(value($node, "SELECT rate_limit_unblock('key')"), 'f', 'nor can it be lifted there');
is(value($node, "SELECT allowed, rule FROM ${odd}$hit", 'other'), 'f|block', 'it holds');

is(value($node, "SELECT rate_limit_reset_prefix('')"),
	'11', 'fault 12: a reset of everything in one database');
is( value($node, "SELECT count(*), sum(used) FROM ${odd}rate_limit_keys WHERE key LIKE 'shared %'", 'other'),
	'10|400', 'leaves the other database as it is');
is(value($node, "SELECT rate_limit_reset('shared 1')"), '0', 'and so does a reset of a key');

# The extension goes and comes back in another schema: it starts anew.
$node->safe_psql('postgres', "SELECT $hit");
$node->safe_psql('postgres',
	'DROP EXTENSION rate_limit; CREATE SCHEMA limits; CREATE EXTENSION rate_limit SCHEMA limits');
is(value($node, "SELECT used FROM limits.$hit"),
	'1', 'counters go with the extension, whichever schema it is created in next');
is( value($node, "SELECT count(*), sum(used) FROM ${odd}rate_limit_keys WHERE key LIKE 'shared %'", 'other'),
	'10|400', 'and those of the other database stay');

# Everything that a search_path could put in front of PostgreSQL's own objects.
$node->safe_psql(
	'postgres', <<'SQL');
CREATE SCHEMA evil;
SET search_path = evil, pg_catalog;
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (false);
CREATE DOMAIN evil.int8 AS pg_catalog.int8 CHECK (false);
CREATE DOMAIN evil.bool AS pg_catalog.bool CHECK (false);
CREATE DOMAIN evil."interval" AS pg_catalog."interval" CHECK (false);
CREATE DOMAIN evil.timestamptz AS pg_catalog.timestamptz CHECK (false);
CREATE TYPE evil.rate_limit_result AS (nothing pg_catalog.int4);
CREATE FUNCTION evil.rate_limit_keys() RETURNS pg_catalog.int4 LANGUAGE sql AS 'SELECT 1 / 0';
CREATE FUNCTION evil.rate_limit_info() RETURNS pg_catalog.int4 LANGUAGE sql AS 'SELECT 1 / 0';
CREATE FUNCTION evil.rate_limit_blocks() RETURNS pg_catalog.int4 LANGUAGE sql AS 'SELECT 1 / 0';
CREATE FUNCTION evil.now() RETURNS pg_catalog.timestamptz LANGUAGE sql AS $$SELECT 'epoch'::pg_catalog.timestamptz$$;
CREATE FUNCTION evil.clock_timestamp() RETURNS pg_catalog.timestamptz LANGUAGE sql AS $$SELECT 'epoch'::pg_catalog.timestamptz$$;
CREATE FUNCTION evil.refuse(pg_catalog.int8, pg_catalog.int8) RETURNS pg_catalog.bool LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR evil.<= (LEFTARG = pg_catalog.int8, RIGHTARG = pg_catalog.int8, FUNCTION = evil.refuse);
CREATE OPERATOR evil.+ (LEFTARG = pg_catalog.int8, RIGHTARG = pg_catalog.int8, FUNCTION = evil.refuse);
CREATE TABLE evil.pg_class (nothing pg_catalog.int4);
SQL
my $hostile = "SET search_path = evil, pg_catalog;\n";
is( value($node, <<SQL),
${hostile}SELECT count(*) FROM generate_series(1, 7) WHERE limits.rate_limit_allowed('hostile', 5, '1 day');
SELECT allowed, used, remaining FROM limits.rate_limit_peek('hostile', 6, '1 day');
SELECT count(*) FROM limits.rate_limit_check_all('{hostile,new}', '{6,6}', '{1 day,1 day}') AS r WHERE r.allowed;
SELECT used FROM limits.rate_limit_adjust('hostile', 6, '1 day', -1);
SELECT limits.rate_limit_block('hostile', '1 day', 'reason');
SELECT key, reason FROM limits.rate_limit_blocks;
SELECT limits.rate_limit_unblock('hostile');
SELECT key, "limit", used FROM limits.rate_limit_keys WHERE key = 'hostile';
SELECT set_up FROM limits.rate_limit_info;
SELECT limits.rate_limit_reset('hostile');
SQL
	join("\n", '5', 't|5|1', '2', '5', '', 'hostile|reason', 't', 'hostile|6|5', 'first use', '1'),
	'every function and view works with a hostile search_path');
my ($exit, $out, $err) = $node->psql('postgres', <<SQL);
${hostile}SELECT count(limits.rate_limit_check('detail', 5, '1 day')) FROM generate_series(1, 5);
SELECT limits.rate_limit_require('detail', 5, '1 day');
SQL
like($err, qr/rate limit exceeded.*\n.*"used" *: *5/s,
	'and so does the detail of a refusal');

# The extension is created with the same path in force.
$node->safe_psql('postgres', <<SQL);
DROP EXTENSION rate_limit;
${hostile}CREATE EXTENSION rate_limit SCHEMA limits;
SQL
is( value($node, <<SQL),
SELECT count(*) FROM pg_depend AS d JOIN pg_extension AS e ON d.refobjid = e.oid
       JOIN pg_proc AS p ON d.objid = p.oid
 WHERE e.extname = 'rate_limit' AND d.classid = 'pg_proc'::regclass
   AND (p.pronamespace <> 'limits'::regnamespace
        OR EXISTS (SELECT FROM pg_type AS t
                    WHERE t.oid = ANY (p.proargtypes || p.prorettype || coalesce(p.proallargtypes, '{}'))
                      AND t.typnamespace = 'evil'::regnamespace))
SQL
	'0', 'nothing of a hostile search_path gets into the extension');
is( value($node, "SELECT allowed FROM limits.rate_limit_check('created', 5, '1 day')"),
	't', 'which works');

$node->stop;
done_testing();
