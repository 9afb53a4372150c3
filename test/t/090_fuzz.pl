# Random calls of every function with values that nobody would send on purpose:
# no crash, no error without an SQLSTATE of its own, no result that cannot be
# right.  fuzz.sql makes the calls, four sessions at the same time run them, in
# transactions of every kind and under changing settings; once where memory is
# full all the time, once where there is enough.
#
# RATE_LIMIT_SEED chooses other calls, RATE_LIMIT_FUZZ_CALLS how many.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use List::Util qw(min);
use POSIX qw(ceil);
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{RATE_LIMIT_SEED} // 20000101;
my $total_calls = $ENV{RATE_LIMIT_FUZZ_CALLS} // 40_000;
my $calls_per_batch = 50;
my $sessions = 4;
my $batches_at_once = min(100, ceil($total_calls / 2 / $sessions / $calls_per_batch));

my $folder = PostgreSQL::Test::Utils::tempdir();
my $session = 0;
my %seen;

srand($seed);
note("seed $seed");

# What a sanitizer, an assertion, or a server that lost a process leaves in the log.
my $disaster = qr/
	TRAP: | PANIC: | runtime\ error: | Sanitizer | terminated\ by\ signal |
	\ XX[0-9A-Z]{3}\  | WARNING:
/x;

sub pick
{
	return $_[ rand @_ ];
}

# A transaction of some calls.
sub batch
{
	my @begin = (
		'BEGIN',
		'BEGIN',
		'BEGIN',
		'BEGIN',
		'BEGIN READ ONLY',
		'BEGIN ISOLATION LEVEL REPEATABLE READ',
		'BEGIN ISOLATION LEVEL SERIALIZABLE');

	return join "\n",
	  pick(@begin) . ';',
	  'SET LOCAL rate_limit.mode = ' . pick(('enforce') x 8, 'shadow', 'off') . ';',
	  'SET LOCAL rate_limit.store = ' . pick(qw("memory" "table")) . ';',
	  'SET LOCAL rate_limit.exact_hits = ' . pick(128, 128, 1, 7, 1024) . ';',
	  "SET LOCAL TimeZone = '" . pick('UTC', 'America/New_York', 'Asia/Kathmandu') . "';",
	  sprintf('SELECT * FROM fuzz.calls(%.6f, %d);', rand, $calls_per_batch),
	  pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n";
}

# Runs batches in one session each and counts what they report.  Returns the
# lines that tell of something wrong.
sub run_sessions
{
	my ($node, $batches) = @_;
	my @wrong;
	# files, not pipes: those would have to be served in turn
	my @running = map {
		my %session = map { $_ => "$folder/$_" . $session } qw(in out err);

		append_to_file($session{in}, join '', map { batch() } 1 .. $batches);
		$session{handle} = IPC::Run::start(
			[ 'psql', '-XAtq', '-F', "\t", '-v', 'VERBOSITY=verbose', connection($node) ],
			'<', $session{in}, '>', $session{out}, '2>', $session{err},
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
		$session++;
		\%session;
	} 1 .. $sessions;

	foreach my $session (@running)
	{
		$session->{handle}->finish;
		foreach (split /\n/, slurp_file($session->{out}))
		{
			if (/^call\t(\S+) (\S+)\t(\d+)$/)
			{
				$seen{$1}{$2} += $3;
			}
			else
			{
				push @wrong, $_;
			}
		}
		# transactions that meet may fail as a whole
		push @wrong, grep { /^(psql:.*)?(ERROR|FATAL|PANIC)|connection/ && !/40001|40P01|25P02/ }
		  split /\n/, slurp_file($session->{err});
		unlink @$session{qw(in out err)};
	}
	return @wrong;
}

# --- One server, half of the calls; a query comes before every round of them ---

sub fuzz
{
	my ($name, $memory, $before) = @_;
	my $node = start_server($name, conf => <<CONF);
rate_limit.memory = '$memory'
deadlock_timeout = '10ms'
statement_timeout = '60s'
fsync = off
log_line_prefix = '%m [%p] %e '
CONF
	my ($done, $started, @wrong) = (0, time);

	$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/fuzz.sql"));
	is(value($node, 'SELECT string_agg(missing, $$, $$) FROM fuzz.without_values() missing'),
		'', "$name: there are values for every argument");
	my $start_time = value($node, 'SELECT pg_postmaster_start_time()');

	while ($done < $total_calls / 2 && !@wrong)
	{
		value($node, $before);
		push @wrong, run_sessions($node, $batches_at_once);
		$done += $sessions * $batches_at_once * $calls_per_batch;
	}
	is_deeply(\@wrong, [], "$name: nothing is wrong in $done calls with seed $seed");
	note(sprintf '%s: %.0f calls a second', $name, $done / (time - $started));

	is(value($node, 'SELECT pg_postmaster_start_time()'), $start_time, "$name: the server runs still");
	my @log = grep { $_ =~ $disaster } split /\n/, slurp_file($node->logfile);
	is_deeply(\@log, [], "$name: nothing in the log tells of a fault");

	my $info = value($node, 'SELECT evictions > 0, bytes_used >= 0, bytes_free >= 0, bytes_used + bytes_free <= bytes FROM rate_limit_info');
	like($info, qr/\|t\|t\|t$/, "$name: the account of memory is right");
	$node->safe_psql('postgres', "SELECT rate_limit_reset_prefix(''); SELECT rate_limit_unblock(key) FROM rate_limit_blocks");
	is(value($node, 'SELECT (SELECT count(*) FROM rate_limit_keys), (SELECT count(*) FROM rate_limit_blocks), counters FROM rate_limit_info'),
		'0|0|0', "$name: no counter and no block is left after they were removed");
	$node->stop;
	return $info;
}

my $flood = q{SELECT count(*) FROM generate_series(1, 20000) n, rate_limit_check('new' || n, 2, '1 day')};

like(fuzz('little', '1MB', $flood), qr/^t/, 'little: the memory was full');
fuzz('enough', '64MB', 'SELECT 1');

# --- What has been called ---

my ($called, %states) = (0);
foreach my $function (sort keys %seen)
{
	foreach my $state (sort keys %{ $seen{$function} })
	{
		$called += $seen{$function}{$state};
		$states{$state} += $seen{$function}{$state};
	}
	next if $function =~ /trigger|validate_(policy|override)|changed/;
	ok($seen{$function}{'00000'}, "$function has been called and has returned");
}
ok($states{$_}, "SQLSTATE $_ has been raised") foreach qw(22004 22023 25006 PGRST RL429);
note("$called calls: " . join ', ', map { "$_ $states{$_}" } sort keys %states);

done_testing();
