# The SQL edition: installed by an ordinary role, every function and error, and 200
# calls at once.  That it gives the same rows as the extension for the same
# histories is in 063_stores_agree.pl.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(time);

my $folder = PostgreSQL::Test::Utils::tempdir();
my $build = "$FindBin::RealBin/../../sql_edition/build";
my $node = start_server('main', conf => "timezone = 'UTC'\n");

# The SQL edition is in a database of its own, for an owner with no rights but
# these, in a schema whose name needs quotes.
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE owner LOGIN;
CREATE ROLE app LOGIN;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
CREATE DATABASE plain;
SQL
$node->safe_psql('plain', <<'SQL');
CREATE SCHEMA "Odd Schema" AUTHORIZATION owner;
GRANT USAGE ON SCHEMA "Odd Schema" TO app, monitor;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER DATABASE plain SET search_path = "Odd Schema";
SQL

sub plain
{
	my ($query, $user) = @_;

	return $node->safe_psql('plain', $query,
		extra_params => [ '-U', $user // 'owner' ]);
}

# --- Installing ---

command_ok([ $^X, $build, $folder ], 'both scripts are made');
my ($script) = glob "$folder/rate_limit_sql--*.sql";
my ($tle) = glob "$folder/rate_limit_tle--*.sql";
my $text = slurp_file($script);

unlike($text, qr/^\\/m, 'no commands of psql');
unlike($text, qr/MODULE_PATHNAME|LANGUAGE C\b|\@extschema\@/i, 'no C, no schema to be filled in');
command_ok(
	[
		'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $script,
		connection($node, 'plain', 'owner')
	],
	'an ordinary role installs it by psql -f');
is( plain(<<'SQL'),
SELECT count(*) FROM pg_extension WHERE extname = 'rate_limit';
SELECT count(*) FROM pg_proc p JOIN pg_language l ON l.oid = prolang
 WHERE pronamespace = '"Odd Schema"'::regnamespace AND lanname NOT IN ('sql', 'plpgsql');
SQL
	"0\n0", 'without the extension, without C');

# pg_tle itself is not here: its function gets the script, and CREATE EXTENSION
# would run it in the schema of the extension.
$node->safe_psql('postgres', <<'SQL');
CREATE DATABASE tle;
\c tle
CREATE SCHEMA pgtle;
CREATE TABLE pgtle.installed(name text, version text, description text, script text);
CREATE FUNCTION pgtle.install_extension(name text, version text, description text, script text) RETURNS bool
LANGUAGE sql AS 'INSERT INTO pgtle.installed VALUES ($1, $2, $3, $4) RETURNING true';
SQL
$node->safe_psql('tle', slurp_file($tle));
my $control = slurp_file("$FindBin::RealBin/../../rate_limit.control");
my ($version) = $control =~ /^default_version = '(.*)'/m;
my ($comment) = $control =~ /^comment = '(.*)'/m;
is(value($node, 'SELECT name, version, description FROM pgtle.installed', 'tle'),
	"rate_limit|$version|$comment", 'pg_tle gets name, version and comment from the control file');
is( value($node, <<'SQL', 'tle'), $text =~ s/^\s+|\s+$//gr, 'and the same script, but for what is dumped');
SELECT btrim(regexp_replace(script, '^SELECT pg_catalog\.pg_extension_config_dump.*?\n', '', 'gn'), E' \n')
  FROM pgtle.installed
SQL
my $dumped = () = value($node, 'SELECT script FROM pgtle.installed', 'tle') =~ /pg_extension_config_dump/g;
is($dumped, 4, 'all tables are dumped with an extension');

# --- The same signatures, rights and comments as the extension ---

my $functions = <<'SQL';
SELECT proname, pg_get_function_arguments(p.oid),
       regexp_replace(pg_get_function_result(p.oid), '^.*\.', ''),
       provolatile, proparallel, proretset, prorows, obj_description(p.oid, 'pg_proc'),
       has_function_privilege('app', p.oid, 'EXECUTE'), has_function_privilege('monitor', p.oid, 'EXECUTE')
  FROM pg_proc p
 WHERE proname LIKE 'rate\_limit\_%' AND proname !~ '^rate_limit_(info|forget|stats|stats_reset|policy_changed)$'
 ORDER BY proname
SQL
is(plain($functions), value($node, $functions), 'the functions, their rights and comments are those of the extension');

my $columns = <<'SQL';
SELECT relname, relkind, attname, format_type(atttypid, atttypmod), attnotnull, col_description(c.oid, attnum), relacl IS NULL,
       has_table_privilege('app', c.oid, 'SELECT'), has_table_privilege('monitor', c.oid, 'SELECT'), reloptions
  FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0
 WHERE relname IN ('rate_limit_result', 'rate_limit_state', 'rate_limit_state_pkey', 'rate_limit_keys', 'rate_limit_blocks',
                   'rate_limit_policies', 'rate_limit_overrides')
 ORDER BY relname, attnum
SQL
is(plain($columns), value($node, $columns), 'so are the type, the table and the views');
is( plain(<<'SQL'), '', 'nobody else may call what is inside');
SELECT proname FROM pg_proc WHERE pronamespace = '"Odd Schema"'::regnamespace AND proname NOT LIKE 'rate\_limit\_%'
   AND has_function_privilege('app', oid, 'EXECUTE')
SQL
is( plain(<<'SQL'), '', 'what runs as its owner has a fixed search_path');
SELECT proname FROM pg_proc WHERE pronamespace = '"Odd Schema"'::regnamespace
   AND prosecdef AND NOT coalesce(proconfig, '{}') @> ARRAY['search_path="Odd Schema", pg_temp']
SQL

# --- Every function, called by a role that has no rights on the tables ---

is( plain(<<'SQL', 'app'),
SET search_path = '';
SELECT allowed, used, remaining, retry_after, reset_at > now() + interval '59 min', rule FROM "Odd Schema".rate_limit_check('a', 3, '1 hour');
SELECT "Odd Schema".rate_limit_allowed('a', 3, '1 hour');
SELECT "Odd Schema".rate_limit_require('a', 3, '1 hour');
SELECT allowed, used, remaining, retry_after > 3500 FROM "Odd Schema".rate_limit_peek('a', 3, '1 hour');
SELECT "Odd Schema".rate_limit_allowed('a', 3, '1 hour');
SELECT ord, key, allowed, used FROM "Odd Schema".rate_limit_check_all('{b,a}', '{2,3}', '{1 hour,1 hour}');
SELECT ord, key, allowed, used FROM "Odd Schema".rate_limit_check_all('{b,c,b}', '{2,3,2}', '{1 hour,1 hour,1 hour}');
SQL
	"t|1|2|0|t|\nt\n\nf|3|0|t\nf\n1|b|t|0\n2|a|f|3\n1|b|t|1\n2|c|t|1\n3|b|t|2",
	'check, allowed, require, peek, check_all');
is( plain(<<'SQL'),
SELECT allowed, used, remaining FROM rate_limit_adjust('a', 3, '1 hour', 4);
SELECT used FROM rate_limit_adjust('a', 3, '1 hour', -5);
SELECT allowed, retry_after, reset_at FROM rate_limit_check_at('2024-03-01 12:00Z', 'at', 1, '1 min');
SELECT allowed, retry_after FROM rate_limit_peek_at('2024-03-01 12:00:59.999999Z', 'at', 1, '1 min');
SELECT used FROM rate_limit_adjust_at('2024-03-01 12:00:10Z', 'at', 1, '1 min', 2);
SELECT rate_limit_block('d', '1 hour', 'test');
SELECT allowed, used, remaining, retry_after > 3500, rule FROM rate_limit_check('d', 3, '1 hour');
SELECT key, until > now(), reason, refusals FROM rate_limit_blocks;
SELECT rate_limit_block('d');
SELECT allowed, retry_after, reset_at, rule FROM rate_limit_check('d', 3, '1 hour');
SELECT allowed, used, rule FROM rate_limit_adjust('d', 3, '1 hour', 1);
SELECT until, reason FROM rate_limit_blocks;
SELECT rate_limit_unblock('d'), rate_limit_unblock('d');
SELECT key, algorithm, "window", "limit", used, refusals, store FROM rate_limit_keys ORDER BY key;
SELECT rate_limit_reset('a'), rate_limit_reset('a'), rate_limit_reset_prefix('a'), rate_limit_reset_prefix('');
SQL
	join("\n",
		't|7|0', '2', 't|0|2024-03-01 12:01:00+00', 'f|1e-06', '3', '',
		'f|0|0|t|block', 'd|t|test|0', '', 'f|||block', 't|1|', '|', 't|f',
		'a|sliding_window|01:00:00|3|2|0|table', 'at|sliding_window|00:01:00|1|2|0|table',
		'b|sliding_window|01:00:00|2|2|0|table', 'c|sliding_window|01:00:00|3|1|0|table',
		'd|sliding_window|01:00:00|3|1|0|table', '1|0|1|3'),
	'adjust, the functions at an instant, blocks, views, reset');
is(plain('SELECT count(*) FROM rate_limit_keys; SELECT count(*) FROM rate_limit_blocks', 'monitor'),
	"0\n0", 'pg_monitor reads the views');
is( plain(<<'SQL'),
SELECT count(*) FILTER (WHERE rate_limit_allowed('stale ' || n, 5, '1 hour')) FROM generate_series(1, 5000) n;
SELECT rate_limit_allowed('live', 5, '1 hour');
SELECT rate_limit_block('gone', '1 us'), rate_limit_block('kept');
UPDATE rate_limit_state SET expires_at = now() - interval '1 day' WHERE key LIKE 'stale %';
SELECT rate_limit_prune(10);
SELECT rate_limit_prune();
SELECT key FROM rate_limit_state;
SELECT key FROM rate_limit_blocked;
SQL
	"5000\nt\n|\n10\n4990\nlive\nkept", 'prune');
is( plain(<<'SQL'),
SELECT bool_or(rate_limit_allowed('live', 5, '1 hour')) FROM generate_series(1, 4);
UPDATE rate_limit_state SET expires_at = now() - interval '1 day' WHERE key <> 'live';
SELECT ctid, xmin, state FROM rate_limit_state WHERE key = 'live' \gset
SELECT count(*) FILTER (WHERE rate_limit_allowed('live', 5, '1 hour')) FROM generate_series(1, 100);
SELECT rate_limit_allowed('live', 5, '1 hour', 0), rate_limit_allowed('live', 0, '1 hour'), rate_limit_allowed('none', 0, '1 hour');
SELECT ctid = :'ctid', xmin = :'xmin'::xid, state = :'state' FROM rate_limit_state;
SQL
	"t\n0\nt|f|f\nt|t|t", 'a refusal leaves the very row version, and none for a new key');
is( plain(<<'SQL'),
BEGIN;
SELECT count(*) FILTER (WHERE rate_limit_allowed('rolled back', 9, '1 hour')) FROM generate_series(1, 9);
ROLLBACK;
SELECT used FROM rate_limit_peek('rolled back', 9, '1 hour');
SQL
	"9\n0", 'a rollback gives the hits back');

# expired rows leave without anybody asking for it
plain(<<'SQL');
SELECT count(rate_limit_check('stale ' || n, 5, '1 hour')) FROM generate_series(1, 500) n;
UPDATE rate_limit_state SET expires_at = now() - interval '1 day' WHERE key LIKE 'stale %';
SQL
is(plain(<<'SQL'), "2000\nt", 'admitted calls remove what has expired');
SELECT count(*) FILTER (WHERE rate_limit_allowed('busy', 100000, '1 hour', 1, 'token_bucket')) FROM generate_series(1, 2000);
SELECT count(*) < 250 FROM rate_limit_state WHERE key LIKE 'stale %';
SQL

# --- The same errors ---

my $raised = <<'SQL';
SET client_min_messages = error;
CREATE FUNCTION pg_temp.raised(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text; message text; detail text; hint text;
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN call || ' no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', call, state, message, nullif(detail, ''), nullif(hint, ''));
END $$;
SQL
# the calls of the regression test of errors, but for those that name a store
my @calls = grep { !/store/ }
  slurp_file("$FindBin::RealBin/../../sql/errors.sql") =~ /^ +\$\$(rate_limit_.*?)\$\$,?$/mg;
my @nulls = map {
	my ($function, @arguments) = @$_;
	map {
		my $null = $_;
		"$function(" . join(', ', map { $_ == $null ? 'NULL' : $arguments[$_] } 0 .. $#arguments) . ')'
	} 0 .. $#arguments
} (
	[ 'rate_limit_check', "'k'", 5, "'1 min'", 1, "'token_bucket'", 9, "'table'", "'UTC'" ],
	[ 'rate_limit_adjust_at', 'now()', "'k'", 5, "'1 min'", 1, "'token_bucket'" ],
	[ 'rate_limit_check_all', "'{k}'", "'{5}'", "'{1 min}'", "'{1}'", "'sliding_window'" ],
	[ 'rate_limit_reset_prefix', "'k'" ], [ 'rate_limit_unblock', "'k'" ],
	[ 'rate_limit_prune', 0 ]);
my @refusals = map { "rate_limit_require('refused', $_)" } "0, '1 hour'", "5, '1 hour', 6", "5, '1 month', 6, 'fixed_window'";
my $all = join "\n", map { "SELECT pg_temp.raised(\$raised\$$_\$raised\$);" } @calls, @nulls, @refusals;

cmp_ok(scalar @calls, '>', 80, scalar(@calls) . ' calls with errors');
my @mine = split /\n(?=rate_limit_)/, plain($raised . $all);
my @theirs = split /\n(?=rate_limit_)/,
  $node->safe_psql('postgres', "SET rate_limit.store = 'table';\n$raised$all");
s/"reset_at":"[^"]*"/"reset_at":"…"/ foreach @mine, @theirs;
my @different = grep { $mine[$_] ne $theirs[$_] } 0 .. $#theirs;
is(@mine . '|' . @different, @theirs . '|0',
	'SQLSTATE, message, detail and hint of each are those of the extension');
diag("$mine[$_]\n$theirs[$_]") foreach @different;
is( plain($raised . <<'SQL'),
SELECT pg_temp.raised('rate_limit_check(''k'', 5, ''1 min'', store => ''memory'')');
SELECT pg_temp.raised('rate_limit_check(''k'', 5, ''1 min'', store => ''disk'')');
SQL
	"rate_limit_check('k', 5, '1 min', store => 'memory') | 0A000 | store \"memory\" needs the C library of the extension rate_limit, which its SQL edition does without | Use \"table\" or leave it out, or install the extension.\n"
	  . "rate_limit_check('k', 5, '1 min', store => 'disk') | 22023 | argument \"store\" is not known: \"disk\" | Use \"table\".",
	'there is no memory store');
fails_with($node, "INSERT INTO rate_limit_state (key, algorithm, window_length, window_unit, time_zone, state, \"limit\", expires_at, last_use) VALUES ('bad', 'sliding_window', 60000000, 'microsecond', '', '{3}', 5, 'infinity', now());\n"
	  . "SELECT * FROM rate_limit_check('bad', 5, '1 min')",
	'XX001', 'column "state" of a row of rate_limit_state is damaged', 'a damaged row is refused',
	database => 'plain', user => 'owner');
fails_with($node, "SET default_transaction_read_only = on; SELECT * FROM rate_limit_check('k', 5, '1 min')",
	'25006', 'cannot execute a check of the table store in a read-only transaction', 'so is a check that may not write', database => 'plain', user => 'app');
fails_with($node, "SELECT rate_limit_$_", '42501', 'permission denied', "an ordinary role may not: $_", database => 'plain', user => 'app')
  foreach "adjust('a', 1, '1 hour', -1)", "reset('a')", "reset_prefix('')", "block('a')", "unblock('a')", 'prune()', 'keys()',
  "check_at(now(), 'a', 1, '1 hour')";

# --- Rows move from the extension to the SQL edition and count on ---

$node->safe_psql('postgres', <<SQL);
SELECT rate_limit_check('moved', 20, '$AGE', 3, a, store => 'table') FROM unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) a;
\\copy (SELECT * FROM rate_limit_state WHERE key = 'moved') TO '$folder/moved.copy'
SQL
is( plain(<<SQL), "20\n20\n20\n20", 'rows of the extension count on here');
\\copy rate_limit_state FROM '$folder/moved.copy'
SELECT used FROM unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) a, rate_limit_check('moved', 20, '$AGE', 17, a);
SQL

# --- 200 calls at once ---

plain(<<SQL);
CREATE TABLE admitted (run text, algorithm text);
GRANT ALL ON admitted TO app;
CREATE FUNCTION hit(run text, start float8) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
    a text;
BEGIN
    PERFORM pg_sleep(start - extract(epoch FROM clock_timestamp()));
    FOREACH a IN ARRAY '{@{[ join ',', @ALGORITHMS ]}}'::text[] LOOP
        IF (SELECT allowed FROM rate_limit_check('run ' || run, 20, '$AGE', algorithm => a)) THEN
            INSERT INTO admitted VALUES (run, a);
        END IF;
    END LOOP;
END \$\$;
SQL
append_to_file("$folder/hit.sql", "SELECT hit(:run, :start);\n");

foreach my $isolation ('read committed', 'repeatable read', 'serializable')
{
	my $runs = $isolation eq 'read committed' ? 5 : 2;
	my $well = 0;
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=' . $isolation =~ s/ /\\ /r;

	foreach my $run (1 .. $runs)
	{
		my $start = time() + 1.5;
		my @processes;

		foreach my $number (1 .. 4)
		{
			my %process = (out => '', err => '');

			$process{handle} = IPC::Run::start(
				[
					'pgbench', '-n', '-M', 'prepared', '-f', "$folder/hit.sql",
					'-c', 50, '-t', 1, '--max-tries', 10_000,
					'-D', "run=$isolation $run", '-D', "start=$start",
					connection($node, 'plain', 'app')
				],
				'<', \undef,
				'>', \$process{out},
				'2>', \$process{err},
				IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
			push @processes, \%process;
		}
		$well++ if finish_pgbench(@processes)
		  && 4 == grep { $_->{out} =~ /^number of failed transactions: 0 /m } @processes;
	}
	is($well, $runs, "every call is answered, $isolation");
	is( plain(<<SQL),
SELECT algorithm, count(*), min(n), max(n)
  FROM (SELECT run, algorithm, count(*) AS n FROM admitted WHERE run LIKE '$isolation %' GROUP BY run, algorithm) r
 GROUP BY algorithm ORDER BY algorithm
SQL
		join("\n", map { "$_|$runs|20|20" } sort @ALGORITHMS),
		"exactly 20 of 200 concurrent calls admitted, $isolation");
}

# --- Batches over the same keys in any order ---

plain(<<'SQL');
CREATE TABLE calls (passed bool, keys text[]);
GRANT ALL ON calls TO app;
CREATE FUNCTION call() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    k text[] := ARRAY(SELECT 'all ' || i FROM generate_series(1, 12) i ORDER BY random() LIMIT 1 + random() * 4);
    n int := cardinality(k);
BEGIN
    INSERT INTO calls SELECT bool_and(allowed), k
      FROM rate_limit_check_all(k, array_fill(200::int8, ARRAY[n]), array_fill(interval '1 day', ARRAY[n]));
END $$;
SQL
ok( run_pgbench(
		$node,
		map { { clients => 8, transactions => 200, script => "SELECT call();\n", database => 'plain', user => 'app' } } 1, 2),
	'no deadlock in batches');
is( plain(<<'SQL'), '12|t|t', 'each key has the cost of the batches that passed, none more than its limit');
SELECT count(*), bool_and(n = (rate_limit_peek(key, 200, '1 day')).used), max(n) = 200
  FROM (SELECT key, count(*) FILTER (WHERE passed) AS n FROM calls, unnest(keys) key GROUP BY key) t
SQL

$node->stop;
done_testing();
