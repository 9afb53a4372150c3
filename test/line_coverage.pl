# Reads what gcov prints as JSON, one object file a line, and prints the lines of
# src/ that were never executed, and the share of those that were, per file and
# in total.  Exit status 1 if the total is below the argument, in per cent.

use strict;
use warnings FATAL => 'all';

use JSON::PP;

my ($minimum) = @ARGV;
my %count;

# A header is in many objects: a line counts if one of them has executed it.
while (my $object = <STDIN>)
{
	foreach my $file (@{ decode_json($object)->{files} })
	{
		next unless $file->{file} =~ m{^src/};
		$count{ $file->{file} }{ $_->{line_number} } += $_->{count}
		  foreach @{ $file->{lines} };
	}
}
die "no counts\n" unless %count;

my ($lines, $executed) = (0, 0);
my @table;

foreach my $file (sort keys %count)
{
	my $of_file = $count{$file};
	my @missed = grep { !$of_file->{$_} } sort { $a <=> $b } keys %$of_file;
	my $n = keys %$of_file;

	open my $source, '<', $file or die "$file: $!\n";
	my @text = <$source>;
	print "$file:$_:$text[$_ - 1]" foreach @missed;

	push @table, sprintf "%-28s %5d of %5d  %5.1f %%\n", $file, $n - @missed, $n, 100 * ($n - @missed) / $n;
	$lines += $n;
	$executed += $n - @missed;
}

printf "\n%s%-28s %5d of %5d  %5.1f %%\n", join('', @table), 'total', $executed, $lines, 100 * $executed / $lines;
exit($executed * 100 < $lines * $minimum ? 1 : 0);
