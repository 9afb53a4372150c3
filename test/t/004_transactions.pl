# A hit stays whatever becomes of its transaction, and an open transaction
# hinders nobody: eight clients at once in every kind of transaction.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');

$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION hit_in_exception_block(key text) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
    PERFORM rate_limit_check(key, 1000000, '$AGE');
    RAISE EXCEPTION 'undone';
EXCEPTION WHEN raise_exception THEN
    NULL;
END \$\$;

CREATE FUNCTION hit_in_nested_blocks(key text) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
    BEGIN
        PERFORM rate_limit_check(key, 1000000, '$AGE');
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        PERFORM rate_limit_check(key, 1000000, '$AGE');
    END;
    RAISE EXCEPTION 'undone';
EXCEPTION WHEN raise_exception THEN
    NULL;
END \$\$;
SQL

my $check = "SELECT allowed FROM rate_limit_check(:'key', 1000000, '$AGE');";
my @kinds = (
	[ 'COMMIT', 1, "BEGIN;\n$check\nCOMMIT;" ],
	[ 'READ ONLY', 1, "BEGIN READ ONLY;\n$check\nCOMMIT;" ],
	[ 'ROLLBACK', 1, "BEGIN;\n$check\nROLLBACK;" ],
	[ 'READ ONLY and ROLLBACK', 1, "BEGIN READ ONLY;\n$check\nROLLBACK;" ],
	[
		'ROLLBACK TO SAVEPOINT', 2,
		"BEGIN;\nSAVEPOINT s;\n$check\nROLLBACK TO s;\n$check\nCOMMIT;"
	],
	[
		'PL/pgSQL exception block', 1,
		"SELECT hit_in_exception_block(:'key');"
	],
	[
		'nested exception blocks', 2, "SELECT hit_in_nested_blocks(:'key');"
	],
	[
		'SERIALIZABLE and ROLLBACK', 1,
		"BEGIN ISOLATION LEVEL SERIALIZABLE;\n$check\nROLLBACK;"
	],
	[
		'REPEATABLE READ, READ ONLY', 1,
		"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\n$check\nCOMMIT;"
	],
	[ 'DISCARD ALL after each call', 1, "$check\nDISCARD ALL;" ],
);

foreach my $kind (@kinds)
{
	my ($name, $hits, $script) = @$kind;
	my $number = $name =~ /DISCARD/ ? 21 : $name =~ /^READ ONLY/ ? 28 : 20;

	$script =~ s/:'key'/'$name'/g;
	ok( run_pgbench(
			$node,
			{
				clients => 8,
				transactions => 100,
				mode => 'simple',
				script => "$script\n"
			}),
		"no error: $name");
	is( value(
			$node, "SELECT used FROM rate_limit_peek('$name', 1000000, '$AGE')"),
		800 * $hits,
		"fault $number: every hit stays: $name");
}

# A limit that is reached: what rolled back was admitted all the same.
ok( run_pgbench(
		$node,
		{
			clients => 8,
			transactions => 50,
			mode => 'simple',
			script =>
			  "BEGIN;\nSELECT rate_limit_check('login', 20, '$AGE');\nROLLBACK;\n"
		}),
	'no error: a limit reached by transactions that roll back');
is( value($node, "SELECT allowed, used FROM rate_limit_check('login', 20, '$AGE')"),
	'f|20',
	'fault 20: 400 failed attempts that rolled back have used up the limit');

# rate_limit_require rolls back its own transaction when it refuses.
$node->safe_psql('postgres', "SELECT rate_limit_require('api', 1, '$AGE')");
foreach my $attempt (1 .. 3)
{
	my ($exit, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY sqlstate\nBEGIN READ ONLY; SELECT rate_limit_require('api', 1, '$AGE'); COMMIT"
	);
	like($err, qr/ERROR:  RL429/,
		"fault 28: a refusal in a READ ONLY transaction, attempt $attempt");
}
is( value($node, "SELECT used FROM rate_limit_peek('api', 1, '$AGE')"),
	'1', 'fault 28: refused calls that rolled back charge nothing');

# One session holds its transaction open after the call.
my $open = $node->background_psql('postgres');
$open->query_safe(
	"BEGIN; SELECT rate_limit_check(k, 1000000, '$AGE') FROM unnest('{hot,hotter}'::text[]) AS k;"
);
ok( run_pgbench(
		$node,
		{
			clients => 8,
			transactions => 100,
			mode => 'simple',
			script => <<"SCRIPT" }),
SET statement_timeout = '5s';
SELECT rate_limit_check('hot', 1000000, '$AGE');
SELECT rate_limit_check_all('{hotter,hot}', '{1000000,1000000}', '{$AGE,$AGE}');
SCRIPT
	'fault 17: an open transaction that has called keeps nobody waiting');
$open->query_safe("ROLLBACK;");
$open->quit;
is( value($node, <<SQL), '1601|801', 'fault 17: and all hits are counted');
SELECT (rate_limit_peek('hot', 1000000, '$AGE')).used, (rate_limit_peek('hotter', 1000000, '$AGE')).used
SQL

# Nothing is written: no WAL, no transaction id, so no row of a table.
my $plan = $node->safe_psql(
	'postgres', <<SQL);
SELECT rate_limit_check('key 0', 20, '$AGE');
BEGIN;
EXPLAIN (ANALYZE, WAL, COSTS OFF, TIMING OFF, SUMMARY OFF)
    SELECT FROM generate_series(1, 10000) AS g, rate_limit_check('key ' || g % 100, 20, '$AGE');
SELECT pg_current_xact_id_if_assigned() IS NULL;
SQL
like($plan, qr/rows=10000/, 'there were 2,000 admitted and 8,000 refused calls');
unlike($plan, qr/WAL:/, 'fault 18: they write no WAL');
like($plan, qr/^t$/m, 'fault 18: and need no transaction id');

$node->stop;
done_testing();
