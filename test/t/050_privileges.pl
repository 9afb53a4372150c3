# A role that may only connect and call cannot loosen a limit: no function, view
# or setting lets it.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

# Exhausts a key and says whether a fourth call of a limit of three is refused.
my $key = 0;

sub enforced_after
{
	my ($node, $sql, $name, %options) = @_;
	my $call = "rate_limit_allowed('enforced " . ++$key . "', 3, '1 day')";
	my $before = $options{loaded} ? "SELECT rate_limit_allowed('loaded', 100, '1 day');\n" : '';
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	local $ENV{PGOPTIONS} = $options{pgoptions} // '';

	# ON_ERROR_STOP is off: the setting may be refused, the calls go on.
	my ($exit, $out, $err) = $node->psql(
		$options{database} // 'postgres',
		"$before$sql\n" . "SELECT 'answer', $call;\n" x 4,
		on_error_stop => 0,
		extra_params => [ '-U', $options{user} // 'app' ]);
	my $answers = join '', $out =~ /^answer\|(.)$/mg;
	ok( $answers eq 'tttf' || ($answers eq '' && $options{no_session}),
		$name) or diag("answers: $answers, errors: $err");
	return $err;
}

foreach my $preload (0, 1)
{
	my $with = $preload ? 'preloaded' : 'not preloaded';
	my $node = start_server($preload ? 'preload' : 'first_use', preload => $preload);

	$node->safe_psql('postgres', <<SQL);
CREATE ROLE app LOGIN;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
CREATE ROLE owner LOGIN;
CREATE DATABASE owned OWNER owner;
GRANT CREATE ON SCHEMA public TO app;
SQL
	$node->safe_psql('owned', 'CREATE EXTENSION rate_limit');

	# What everybody may do.
	is( $node->safe_psql(
			'postgres', <<SQL, extra_params => [ '-U', 'app' ]),
SELECT allowed FROM rate_limit_check('mine', 3, '1 day');
SELECT rate_limit_allowed('mine', 3, '1 day');
SELECT rate_limit_require('mine', 3, '1 day');
SELECT used FROM rate_limit_peek('mine', 3, '1 day');
SELECT allowed FROM rate_limit_check_all('{mine}', '{3}', '{1 day}');
SQL
		"t\nt\n\n3\nf",
		"a role that may only connect can check, $with");

	# What it may not.
	my %forbidden = (
		rate_limit_reset => "SELECT rate_limit_reset('mine')",
		rate_limit_reset_prefix => "SELECT rate_limit_reset_prefix('')",
		rate_limit_block => "SELECT rate_limit_block('mine')",
		rate_limit_unblock => "SELECT rate_limit_unblock('mine')",
		rate_limit_adjust => "SELECT rate_limit_adjust('mine', 3, '1 day', -3)",
		rate_limit_check_at => "SELECT rate_limit_check_at('2030-01-01', 'mine', 3, '1 day')",
		rate_limit_peek_at => "SELECT rate_limit_peek_at('2030-01-01', 'mine', 3, '1 day')",
		rate_limit_adjust_at => "SELECT rate_limit_adjust_at('2030-01-01', 'mine', 3, '1 day', -3)",
		rate_limit_keys => 'SELECT * FROM rate_limit_keys',
		rate_limit_blocks => 'SELECT * FROM rate_limit_blocks',
		rate_limit_info => 'SELECT * FROM rate_limit_info',
		rate_limit_enforce_at => "SELECT rate_limit_enforce_at('2030-01-01', 'plan', 'mine')",
		rate_limit_enforce_adjust => "SELECT rate_limit_enforce_adjust('plan', 'mine', -3)",
		rate_limit_prune => 'SELECT rate_limit_prune()',
		rate_limit_forget => 'SELECT rate_limit_forget()',
		rate_limit_stats => 'SELECT * FROM rate_limit_stats',
		'rate_limit_stats()' => 'SELECT * FROM rate_limit_stats()',
		rate_limit_stats_reset => 'SELECT rate_limit_stats_reset()',
		rate_limit_state => 'DELETE FROM rate_limit_state',
		'rate_limit_state to read' => 'SELECT * FROM rate_limit_state',
		rate_limit_policies => q(UPDATE rate_limit_policies SET "limit" = NULL),
		'rate_limit_policies to add' => q(INSERT INTO rate_limit_policies (policy, "window") VALUES ('plan', '1 day')),
		'rate_limit_policies to read' => 'SELECT * FROM rate_limit_policies',
		'rate_limit_policies to empty' => 'TRUNCATE rate_limit_policies',
		rate_limit_overrides => q(INSERT INTO rate_limit_overrides (key) VALUES ('mine')),
		'rate_limit_overrides to remove' => 'DELETE FROM rate_limit_overrides',
		'rate_limit_overrides to read' => 'SELECT * FROM rate_limit_overrides',
		'rate_limit_keys()' => 'SELECT * FROM rate_limit_keys()',
		'rate_limit_blocks()' => 'SELECT * FROM rate_limit_blocks()',
		'rate_limit_info()' => 'SELECT * FROM rate_limit_info()');
	value($node, <<SQL);
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('plan', 3, '1 day');
SELECT rate_limit_enforce('plan', 'mine', 3)
SQL
	foreach my $object (sort keys %forbidden)
	{
		fails_with($node, $forbidden{$object}, '42501', 'permission denied',
			"it cannot use $object, $with", user => 'app');
	}
	is( value($node, <<SQL),
SELECT string_agg(policy || ' ' || used, ', ' ORDER BY policy), (SELECT sum(allowed) > 0 FROM rate_limit_stats)
  FROM rate_limit_keys WHERE key = 'mine' AND policy IS NOT NULL
SQL
		'plan 3|t', "what it tried has changed nothing, $with");
	is( $node->safe_psql(
			'postgres',
			'SELECT (SELECT count(*) FROM rate_limit_keys), (SELECT count(*) FROM rate_limit_blocks), (SELECT count(*) FROM rate_limit_info), (SELECT count(*) > 0 FROM rate_limit_stats)',
			extra_params => [ '-U', 'monitor' ]),
		'2|0|1|t', "pg_monitor can read the views, $with");
	foreach my $administration (
		"rate_limit_reset('mine')", "rate_limit_block('mine')", "rate_limit_unblock('mine')",
		"rate_limit_adjust('mine', 3, '1 day', -3)", 'rate_limit_prune()', 'rate_limit_forget()', 'rate_limit_stats_reset()')
	{
		fails_with($node, "SELECT $administration", '42501', 'permission denied',
			"but not call $administration, $with", user => 'monitor');
	}

	# Whatever is added later is forbidden too, unless it stands here.
	is( value($node, <<SQL),
SELECT string_agg(DISTINCT p.proname, ' ' ORDER BY p.proname)
  FROM pg_depend AS d JOIN pg_extension AS e ON d.refobjid = e.oid JOIN pg_proc AS p ON d.objid = p.oid
 WHERE e.extname = 'rate_limit' AND d.classid = 'pg_proc'::regclass AND has_function_privilege('app', p.oid, 'EXECUTE')
SQL
		'rate_limit_allowed rate_limit_check rate_limit_check_all rate_limit_enforce rate_limit_headers rate_limit_ip_key rate_limit_peek rate_limit_postgrest rate_limit_require rate_limit_retry_hint rate_limit_trigger rate_limit_usage',
		"these functions are for everybody and no other, $with");
	is( value($node, <<SQL),
SELECT count(*) FROM pg_depend AS d JOIN pg_extension AS e ON d.refobjid = e.oid JOIN pg_class AS c ON d.objid = c.oid
 WHERE e.extname = 'rate_limit' AND d.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'v', 'S')
   AND has_table_privilege('app', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
SQL
		'0', "no table or view is, $with");

	# Settings, before and after the session's first call loads the library.
	my @settings = (
		[ 'rate_limit.mode', 'off' ],
		[ 'rate_limit.mode', 'shadow' ],
		[ 'rate_limit.exact_hits', '1' ],
		[ 'rate_limit.memory', '1MB' ],
		[ 'rate_limit.save_interval', '0' ]);
	foreach my $setting (@settings)
	{
		my ($name, $value) = @$setting;

		foreach my $loaded (0, 1)
		{
			my $when = ($loaded ? 'after' : 'before') . " the session's first call, $with";

			enforced_after($node, "SET $name = '$value';",
				"limits hold: SET $name = $value $when", loaded => $loaded);
			enforced_after($node, "SELECT set_config('$name', '$value', false);",
				"limits hold: set_config of $name = $value $when", loaded => $loaded);
			enforced_after($node, "ALTER ROLE app SET $name = '$value';\n\\c\n",
				"limits hold: ALTER ROLE SET $name = $value $when", loaded => $loaded);
		}
		enforced_after($node, "BEGIN; SET LOCAL $name = '$value'; SELECT rate_limit_allowed('loaded', 100, '1 day'); COMMIT;",
			"limits hold: SET LOCAL $name = $value, $with");
		enforced_after($node, '', "limits hold: PGOPTIONS with $name = $value, $with",
			pgoptions => "-c $name=$value", no_session => 1);
		enforced_after($node, "ALTER DATABASE owned SET $name = '$value';\n\\c\n",
			"limits hold: ALTER DATABASE SET $name = $value by its owner, $with",
			database => 'owned', user => 'owner');
		$node->safe_psql('postgres', "ALTER DATABASE owned RESET ALL; ALTER ROLE app RESET ALL");
	}

	# A function that brings its own setting, created in sessions with and without
	# the library.
	foreach my $loaded (0, 1)
	{
		my $when = ($loaded ? 'with' : 'without') . " the library in the session, $with";

		enforced_after($node, <<'SQL',
CREATE FUNCTION loosened(key text) RETURNS bool LANGUAGE plpgsql SET rate_limit.mode = 'off'
    AS $$BEGIN RETURN rate_limit_allowed(key, 1, '1 day'); END$$;
\c
SELECT 'loosened', loosened('function'), loosened('function');
SQL
			"limits hold: after a function with SET rate_limit.mode, $when", loaded => $loaded);
		my ($exit, $out, $err) = $node->psql('postgres',
			"SELECT loosened('from function'); SELECT loosened('from function')",
			on_error_stop => 0,
			extra_params => [ '-U', 'app' ]);
		unlike($out, qr/t\nt/, "limits hold: within that function, $when");
		$node->safe_psql('postgres', 'DROP FUNCTION IF EXISTS loosened');
	}

	# The superuser can.
	is( $node->safe_psql(
			'postgres', <<SQL),
SELECT rate_limit_allowed('operator', 1, '1 day');
SET rate_limit.mode = off;
SELECT rate_limit_allowed('operator', 1, '1 day');
SET rate_limit.mode = enforce;
SELECT rate_limit_allowed('operator', 1, '1 day');
SQL
		"t\nt\nf", "a superuser can switch limits off, $with");

	# The settings of a superuser for a role and a database count in new sessions.
	$node->safe_psql('postgres', "ALTER ROLE app SET rate_limit.mode = 'off'");
	is( $node->safe_psql(
			'postgres', "SELECT rate_limit_allowed('exempt', 0, '1 day')",
			extra_params => [ '-U', 'app' ]),
		't', "and for a role, $with");
	$node->stop;
}

done_testing();
