# Through PgBouncer in transaction mode, where a session's calls come from many
# servers' sessions: limits are exact, with prepared statements and without.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my ($pgbouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'PgBouncer is not installed (Debian: pgbouncer)' if !defined $pgbouncer;

my ($version) = `$pgbouncer --version` =~ /PgBouncer (\d+\.\d+)/;
my $folder = PostgreSQL::Test::Utils::tempdir_short();
my $port = 6432;
my $user = getpwuid $<;
my $prepares = $version >= 1.21;
my $process;

sub start_pgbouncer
{
	my ($node, $pool_size) = @_;

	append_to_file("$folder/users", "\"$user\" \"\"\n");
	append_to_file("$folder/ini", <<INI);
[databases]
* = host=@{[ $node->host ]} port=@{[ $node->port ]}
[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = $folder
auth_type = trust
auth_file = $folder/users
pool_mode = transaction
default_pool_size = $pool_size
max_client_conn = 200
ignore_startup_parameters = extra_float_digits,options
logfile = $folder/log
server_reset_query = DISCARD ALL
server_reset_query_always = 1
INI
	append_to_file("$folder/ini", "max_prepared_statements = 100\n") if $prepares;
	$process = IPC::Run::start([ $pgbouncer, '-q', "$folder/ini" ], '<', \undef, '>', '/dev/null', '2>', '/dev/null');
	foreach (1 .. 100)
	{
		last if -S "$folder/.s.PGSQL.$port";
		select undef, undef, undef, 0.1;
	}
	return;
}

# Runs pgbench through PgBouncer and returns whether all went well.
sub run_through
{
	my ($mode, $clients, $transactions, $script) = @_;
	my ($out, $err) = ('', '');
	my $file = "$folder/" . rand() . '.sql';

	append_to_file($file, $script);
	IPC::Run::run(
		[ 'pgbench', '-n', '-f', $file, '-M', $mode, '-c', $clients, '-t', $transactions, '-h', $folder, '-p', $port, 'postgres' ],
		'<', \undef, '>', \$out, '2>', \$err);
	my $well = $? == 0 && $err !~ /error|aborted/i;
	diag($err) if !$well;
	return $well;
}

my $node = start_server('main');
$node->safe_psql('postgres', 'CREATE TABLE admitted (key text)');
start_pgbouncer($node, 4);

foreach my $mode ('simple', 'extended', $prepares ? 'prepared' : ())
{
	# Sixteen clients over four sessions; each session is reset after each transaction.
	ok( run_through($mode, 16, 50, <<SQL),
\\set k random(1, 5)
INSERT INTO admitted SELECT '$mode ' || :k WHERE rate_limit_allowed('$mode ' || :k, 20, '$AGE');
SQL
		"fault 21: sixteen clients call through PgBouncer, $mode queries");
	is( value($node, "SELECT count(*), min(n), max(n) FROM (SELECT count(*) AS n FROM admitted WHERE key LIKE '$mode %' GROUP BY key) AS a"),
		'5|20|20', "fault 21: exactly the limit is admitted, $mode queries");
	is( value($node, "SELECT sum(used + refusals) FROM rate_limit_keys WHERE key LIKE '$mode %'"),
		'800', "fault 21: and every call is counted, $mode queries");
}

# A transaction of several calls stays in one session; what it calls after DISCARD
# ALL, with plans and temporary objects gone, counts on.
ok(run_through('simple', 16, 5, <<'SQL'), 'fault 21: calls with a prepared statement and DISCARD ALL in between');
BEGIN;
PREPARE hit(text) AS SELECT used FROM rate_limit_check($1, 1000000, '100 years', algorithm => 'fixed_window');
EXECUTE hit('discard');
DEALLOCATE hit;
COMMIT;
DISCARD ALL;
SELECT used FROM rate_limit_check('discard', 1000000, '100 years', algorithm => 'fixed_window');
SQL
is(value($node, "SELECT used FROM rate_limit_peek('discard', 1000000, '100 years', algorithm => 'fixed_window')"),
	'160', 'fault 21: every one of them is counted');

# In one session of the server's own.
is( value($node, <<'SQL'),
PREPARE hit AS SELECT used FROM rate_limit_check('session', 5, '1 day');
EXECUTE hit;
DISCARD ALL;
SELECT used FROM rate_limit_check('session', 5, '1 day');
PREPARE hit AS SELECT used FROM rate_limit_check('session', 5, '1 day');
EXECUTE hit;
SQL
	"1\n2\n3", 'fault 21: DISCARD ALL loses nothing');
cmp_ok(value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"),
	'<=', 4, 'fault 21: sixteen clients had four sessions');

note("PgBouncer $version");
$process->signal('INT');
$process->finish;
$node->stop;

done_testing();
