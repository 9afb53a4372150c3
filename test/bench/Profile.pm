# Where the instructions of a call go, counted by callgrind in a server of its own.

package Profile;

use strict;
use warnings FATAL => 'all';

my $calls = 20_000;
my $folder = "$ENV{RL_WORK}/profile";

# What is counted, by source file or by function: first that matches.
my @parts = (
	[ 'arguments: reading, checking', qr{src/(request|terms)\.c} ],
	[ 'hash of the key', qr{:hash_bytes_extended } ],
	[ 'entry: finding, reading, writing', qr{src/(arena|evict)\.[ch]} ],
	[ 'state: words to numbers and back', qr{src/state\.c} ],
	[ 'decision and report', qr{src/(algorithm|calendar|decision)\.[ch]} ],
	[ 'row of the result', qr{src/result\.c|:(heap_\w+|HeapTupleHeaderGetDatum|TupleDescGetVersion) } ],
	[ 'lock', qr{:LWLock\w+ } ],
	[ 'clock', qr{gettimeofday|GetCurrentTimestamp} ],
	[ 'copying and comparing bytes', qr{mem(cpy|move|cmp|set)|string_fortified} ],
	[ 'steps between, counts', qr{rate_limit\.so} ],
	[ 'rest of PostgreSQL, libc', qr{.} ]);

sub command
{
	my ($command, $input) = @_;
	my $log = "$ENV{RL_WORK}/profile.log";

	open my $pipe, '|-', "$command >>$log 2>&1" or die "$command: $!\n";
	print $pipe $input if defined $input;
	close $pipe or die "failed: $command (see $log)\n";
	return;
}

sub make_server
{
	command("initdb -D $folder -A trust --locale=C -E UTF8 --no-sync");
	open my $conf, '>>', "$folder/postgresql.conf" or die "$!\n";
	print $conf "include '$ENV{RL_WORK}/extension.conf'\nshared_preload_libraries = 'rate_limit'\nfsync = off\njit = off\n";
	close $conf;
	command("postgres --single -j -D $folder postgres", "CREATE EXTENSION rate_limit;\n\n");
	return;
}

# Instructions per call: part => number.
sub count
{
	my ($function, $query) = @_;
	my $out = "$ENV{RL_WORK}/callgrind.out";
	my %counts = map { $_->[0] => 0 } @parts;

	unlink $out;
	command("valgrind --tool=callgrind --callgrind-out-file=$out --toggle-collect=$function postgres --single -j -D $folder postgres",
		"$query;\n\n");
	open my $annotated, '-|', "callgrind_annotate --auto=no --threshold=100 $out" or die "callgrind_annotate: $!\n";
	while (my $line = <$annotated>)
	{
		my ($number, $where) = $line =~ /^\s*([\d,]+) \([ \d.]+%\)\s+(\S+:.*)$/ or next;
		my ($part) = grep { "$where " =~ $_->[1] } @parts;
		$counts{ $part->[0] } += $number =~ s/,//gr;
	}
	close $annotated;
	$_ /= $calls foreach values %counts;
	return \%counts;
}

# Names of the parts in order, and of each form of call the counts.  The server saves what
# a form leaves, so that each has keys of its own.
sub measure
{
	make_server();
	my %forms = (
		'rate_limit_allowed, admitted' => [ 'rate_limit_allowed', "SELECT count(*) FROM generate_series(1, $calls) g WHERE rate_limit_allowed('admitted:' || g % 1000, 1000000, '1 day')" ],
		'rate_limit_allowed, refused' => [ 'rate_limit_allowed', "SELECT count(*) FROM generate_series(1, $calls) g WHERE rate_limit_allowed('refused:' || g % 10, 20, '1 day')" ],
		'rate_limit_check, admitted' => [ 'rate_limit_check', "SELECT count(*) FROM generate_series(1, $calls) g, rate_limit_check('row:' || g % 1000, 1000000, '1 day') r WHERE r.allowed" ]);
	return { parts => [ map { $_->[0] } @parts ], forms => { map { $_ => count(@{ $forms{$_} }) } keys %forms } };
}

1;
