# What the tests of this folder share: servers, clients at the same time,
# windows that no test outlives.

package RateLimitTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use FindBin;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  @ALGORITHMS $AGE new_server start_server build_sql_edition
  install_sql_edition run_pgbench start_pgbench finish_pgbench comes_back connection value fails_with
);

our @ALGORITHMS =
  qw(sliding_window fixed_window anchored_window token_bucket);

# A window of every algorithm in which no boundary and no whole token comes
# while a test runs: the fixed one goes from 1970 to 2069.
our $AGE = '876000 hours';

my $folder;
my $scripts = 0;

# A server that is not started yet.  Options: conf, lines of postgresql.conf;
# preload, true to name the library in shared_preload_libraries; streaming,
# true for a primary of a standby.
sub new_server
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(
		allows_streaming => $options{streaming} ? 1 : 0,
		extra => [ '--no-locale', '--encoding=UTF8' ]);
	$node->append_conf('postgresql.conf', <<CONF);
max_connections = 250
shared_buffers = 16MB
autovacuum = off
log_statement = none
CONF
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = 'rate_limit'\n")
	  if $options{preload};
	$node->append_conf('postgresql.conf', $options{conf})
	  if defined $options{conf};
	return $node;
}

# The same, running and with the extension in the database postgres.
sub start_server
{
	my $node = new_server(@_);

	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION rate_limit');
	return $node;
}

# Builds the SQL edition, and returns the file of the script.
sub build_sql_edition
{
	my $made = PostgreSQL::Test::Utils::tempdir();

	system_or_bail($^X, "$FindBin::RealBin/../../sql_edition/build", $made);
	return (glob "$made/rate_limit_sql--*.sql")[0];
}

# Installs the SQL edition into a schema of a running server's database.
sub install_sql_edition
{
	my ($node, $schema) = @_;

	$node->safe_psql('postgres', "SET search_path = $schema;\n" . slurp_file(build_sql_edition()));
	return;
}

# The one value of a query.
sub value
{
	my ($node, $query, $database) = @_;

	return $node->safe_psql($database // 'postgres', $query);
}

# A query is refused with an SQLSTATE and a message.
sub fails_with
{
	my ($node, $query, $state, $message, $name, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($exit, $out, $err) = $node->psql(
		$options{database} // 'postgres',
		"\\set VERBOSITY verbose\n$query",
		extra_params => [ '-U', $options{user} // getpwuid($<) ]);

	like($err, qr/ERROR:\s+$state: .*$message/, $name);
	return;
}

# Waits until a server that restarts after a crash takes connections.  It gives
# psql no input, which a psql that cannot connect would not read.
sub comes_back
{
	my ($node) = @_;
	my ($out, $err);

	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1
		  if IPC::Run::run([ 'psql', '-XAtq', '-c', 'SELECT 1', connection($node) ],
			'<', \undef, '>', \$out, '2>', \$err);
		select undef, undef, undef, 0.1;
	}
	diag($err);
	return 0;
}

# Connection options of the command-line programs.
sub connection
{
	my ($node, $database, $user) = @_;
	my @options = ('-h', $node->host, '-p', $node->port);

	push @options, '-U', $user if defined $user;
	push @options, $database // 'postgres';
	return @options;
}

# Starts one pgbench process.  Options: script, clients, transactions,
# define (a hash of variables), database, user, mode (of the queries), tries
# (of a transaction that fails to serialize), connect (anew for each transaction).
sub start_pgbench
{
	my ($node, %options) = @_;
	$folder //= PostgreSQL::Test::Utils::tempdir();
	my $file = "$folder/" . ++$scripts . '.sql';
	my %process = (out => '', err => '');
	my %define = %{ $options{define} // {} };

	append_to_file($file, $options{script});
	$process{handle} = IPC::Run::start(
		[
			'pgbench', '-n',
			'-f', $file,
			'-M', $options{mode} // 'prepared',
			'-c', $options{clients},
			'-t', $options{transactions},
			'--max-tries', $options{tries} // 1,
			$options{connect} ? '-C' : (),
			(map { ('-D', "$_=$define{$_}") } sort keys %define),
			connection($node, $options{database}, $options{user})
		],
		'<', \undef,
		'>', \$process{out},
		'2>', \$process{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return \%process;
}

# Waits for the processes; true if each has done all its work without an error.
sub finish_pgbench
{
	my $well = 1;

	foreach my $process (@_)
	{
		$process->{handle}->finish;
		next if $process->{handle}->full_result(0) == 0
		  && $process->{err} !~ /error|aborted/i;
		diag($process->{err});
		$well = 0;
	}
	return $well;
}

# Runs pgbench processes at the same time, each given as a hash of options.
sub run_pgbench
{
	my ($node, @processes) = @_;

	return finish_pgbench(map { start_pgbench($node, %$_) } @processes);
}

1;
