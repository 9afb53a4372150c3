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
		'rate_limit_keys()' => 'SELECT * FROM rate_limit_keys()',
		'rate_limit_blocks()' => 'SELECT * FROM rate_limit_blocks()',
		'rate_limit_info()' => 'SELECT * FROM rate_limit_info()');
	foreach my $object (sort keys %forbidden)
	{
		fails_with($node, $forbidden{$object}, '42501', 'permission denied',
			"it cannot use $object, $with", user => 'app');
	}
	is( $node->safe_psql(
			'postgres',
			'SELECT (SELECT count(*) FROM rate_limit_keys), (SELECT count(*) FROM rate_limit_blocks), (SELECT count(*) FROM rate_limit_info)',
			extra_params => [ '-U', 'monitor' ]),
		'1|0|1', "pg_monitor can read the views, $with");
	fails_with($node, "SELECT rate_limit_reset('mine')", '42501', 'permission denied',
		"but not reset, $with", user => 'monitor');

	# Settings, before and after the session's first call loads the library.
	my @settings = (
		[ 'rate_limit.mode', 'off' ],
		[ 'rate_limit.mode', 'shadow' ],
		[ 'rate_limit.exact_hits', '1' ],
		[ 'rate_limit.memory', '1MB' ]);
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
