# A file of saved counters that is damaged, foreign or no file at all: the server
# starts, says in its log what is wrong, sets the file aside and counts anew.
#
# RATE_LIMIT_CORRUPTIONS sets how many damaged files are tried.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;
use Time::HiRes qw(time);

my $corruptions = $ENV{RATE_LIMIT_CORRUPTIONS} // 20;
my $seed = $ENV{RATE_LIMIT_SEED} // 1;
my $node = start_server('main', preload => 1);
my $file = $node->data_dir . '/pg_stat/rate_limit.saved';
my $log;

srand($seed);
note("seed $seed, $corruptions corruptions");

# Starts with a file in place; the log since then is in $log.
sub start_with
{
	my ($bytes) = @_;
	my $start = -s $node->logfile;

	unlink $file, "$file.bad";
	append_to_file($file, $bytes) if defined $bytes;
	$node->start;
	$log = slurp_file($node->logfile, $start);
	return;
}

# Nothing is restored, and counting works.  Returns what is wrong, if anything.
sub faults
{
	my ($problem) = @_;
	my $state = value($node, 'SELECT counters, blocks, restored_from IS NULL FROM rate_limit_info');
	my @faults;

	push @faults, "restored: $state" if $state ne '0|0|t';
	push @faults, "log: $log"
	  if $log !~ /LOG:  counters of rate_limit were not restored from file "pg_stat\/rate_limit\.saved"\n.*DETAIL:  $problem\n.*HINT:  The file is now "pg_stat\/rate_limit\.saved\.bad"\./;
	push @faults, 'not set aside' if !-e "$file.bad" || -e $file;
	push @faults, 'does not count' if value($node, "SELECT used FROM rate_limit_check('new', 5, '1 day')") ne '1';
	return join ', ', @faults;
}

# A good file, of which to make bad ones.
$node->safe_psql('postgres', <<SQL);
SELECT rate_limit_check('key ' || n, 10, '$AGE', 1 + n % 3, a) FROM generate_series(1, 100) AS n, unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) AS a;
SELECT rate_limit_block('blocked ' || n, NULL, repeat('r', n)) FROM generate_series(1, 10) AS n;
SQL
$node->stop;
my $good = slurp_file($file);
start_with($good);
is(value($node, 'SELECT counters, blocks, restored_from IS NOT NULL FROM rate_limit_info'),
	'400|10|t', 'a good file is restored');
ok(!-e "$file.bad", 'and not set aside');
$node->stop;

# What differs from a good file, and what the log says.
my %bad = (
	'of another server' => [ substr($good, 0, 16) . pack('Q', 1) . substr($good, 24), 'It was written by another server\.' ],
	'of another version' => [ substr($good, 0, 8) . pack('L', 99) . substr($good, 12), 'It was written by another version of rate_limit\.' ],
	'of other entries' => [ substr($good, 0, 12) . pack('L', 8) . substr($good, 16), 'It was written by another version of rate_limit\.' ],
	'of another kind of machine' => [ reverse(substr($good, 0, 8)) . substr($good, 8), 'It is none of rate_limit, or comes from another kind of machine\.' ],
	'of zeros' => [ "\0" x 8192, 'It is none of rate_limit, or comes from another kind of machine\.' ],
	'of text' => [ "key, used\n" x 100, 'It is none of rate_limit, or comes from another kind of machine\.' ],
	'that is empty' => [ '', 'It is too short\.' ],
	'of one byte' => [ 'r', 'It is too short\.' ],
	'without its last byte' => [ substr($good, 0, -1), '(It is cut off|Its checksum is wrong|An entry is damaged)\.' ],
	'without its last entry' => [ substr($good, 0, 32) . substr($good, -16), 'Its checksum is wrong\.' ],
	'of which a half is there' => [ substr($good, 0, length($good) / 2), '(It is cut off|Its checksum is wrong|An entry is damaged)\.' ],
	'that is there twice' => [ $good . $good, '(It is cut off|Its checksum is wrong|An entry is damaged)\.' ],
	'with a byte at its end' => [ "${good}x", '(It is cut off|Its checksum is wrong|An entry is damaged)\.' ],
	'with another checksum' => [ substr($good, 0, -8) . pack('Q', 1), 'Its checksum is wrong\.' ]);
foreach my $what (sort keys %bad)
{
	my ($bytes, $problem) = @{ $bad{$what} };

	start_with($bytes);
	is(faults($problem), '', "fault 27: a file $what");
	is(slurp_file("$file.bad"), $bytes, "fault 27: is set aside as it is, a file $what");
	$node->stop;
}

# Random damage to the bytes.
my %damages = (
	flipped => sub { my ($b, $at) = @_; substr($b, $at, 1) = chr(ord(substr($b, $at, 1)) ^ (1 << int rand 8)); return $b; },
	cut => sub { my ($b, $at) = @_; return substr($b, 0, $at); },
	removed => sub { my ($b, $at) = @_; substr($b, $at, 1 + int rand 64) = ''; return $b; },
	inserted => sub { my ($b, $at) = @_; substr($b, $at, 0) = join '', map { chr int rand 256 } 0 .. rand 64; return $b; },
	overwritten => sub { my ($b, $at) = @_; my $n = 1 + int rand(length($b) - $at); substr($b, $at, $n) = chr(int rand 256) x $n; return $b; });
my $found = 0;
my $started = time();
my %kinds;
while ($found < $corruptions)
{
	my $kind = (sort keys %damages)[ $found % keys %damages ];
	my $bytes = $damages{$kind}->($good, int rand length $good);

	next if $bytes eq $good;
	start_with($bytes);
	my $faults = faults('.*\.');
	$faults eq '' or fail("fault 27: corruption $found, $kind, seed $seed: $faults");
	$kinds{$kind}++ if $faults eq '';
	$node->stop;
	$found++;
}
is(eval { my $sum = 0; $sum += $_ foreach values %kinds; $sum }, $corruptions,
	"fault 27: the server starts anew with each of $corruptions damaged files");
note(sprintf('%.1f s for %d starts', time() - $started, $corruptions));

# What is no file.
unlink $file, "$file.bad";
mkdir $file or die $!;
my $start = -s $node->logfile;
$node->start;
like(slurp_file($node->logfile, $start), qr/counters of rate_limit were not restored.*\n.*It could not be read|could not read file/,
	'fault 27: a folder in its place is reported');
is(value($node, "SELECT used FROM rate_limit_check('new', 5, '1 day')"), '1', 'fault 27: and the server counts anew');
$node->stop;
rmdir $file;
rmdir "$file.bad";

start_with($good);
$node->stop;
SKIP:
{
	skip 'root can read every file', 2 if $> == 0;
	chmod 0000, $file;
	$start = -s $node->logfile;
	$node->start;
	like(slurp_file($node->logfile, $start), qr/not restored from file "pg_stat\/rate_limit\.saved"\n.*It could not be opened: Permission denied/,
		'fault 27: a file that cannot be read is reported');
	is(value($node, "SELECT used FROM rate_limit_check('new', 5, '1 day')"), '1', 'fault 27: and the server counts anew');
	$node->stop;
}

# A file that claims to be huge costs neither memory nor time.
unlink $file;
append_to_file($file, substr($good, 0, 4096));
truncate $file, 1 << 40;
$start = -s $node->logfile;
my $began = time();
$node->start;
$log = slurp_file($node->logfile, $start);
is(faults('.*\.'), '', 'fault 27: a sparse file of a terabyte');
cmp_ok(time() - $began, '<', 30, 'fault 27: is not read to its end');
unlink "$file.bad";

# What is left of an earlier saving does not matter.
value($node, "SELECT rate_limit_check('left', 5, '$AGE')");
append_to_file("$file.tmp", 'torn');
$node->restart;
is(value($node, "SELECT used FROM rate_limit_check('left', 5, '$AGE')"), '2', 'fault 27: a torn temporary file is overwritten');
$node->stop;

done_testing();
