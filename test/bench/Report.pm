# The results as text and as charts.

package Report;

use strict;
use utf8;
use warnings FATAL => 'all';

use List::Util qw(max min);

sub new
{
	my ($class, %self) = @_;
	return bless {%self}, $class;
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return @sorted % 2 ? $sorted[ @sorted / 2 ] : ($sorted[ @sorted / 2 - 1 ] + $sorted[ @sorted / 2 ]) / 2;
}

# Median, least and greatest.
sub spread
{
	return (median(@_), min(@_), max(@_));
}

sub thousands
{
	my $number = sprintf '%.0f', $_[0];
	1 while $number =~ s/^(\d+)(\d{3})/$1,$2/;
	return $number;
}

sub runs
{
	my ($self, $title, $clients, $name) = @_;
	return @{ $self->{results}{$title}{$clients}{$name} };
}

# Ratios of two contenders, round by round.
sub ratios
{
	my ($self, $title, $clients, $a, $b) = @_;
	my @a = map { $_->{tps} } $self->runs($title, $clients, $a);
	my @b = map { $_->{tps} } $self->runs($title, $clients, $b);
	return map { $a[$_] / $b[$_] } 0 .. $#a;
}

sub table
{
	my ($head, @rows) = @_;
	return join '', map { '| ' . join(' | ', map { s/\|/\\|/gr } @$_) . " |\n" } $head, [ map { '---' } @$head ], @rows;
}

sub group_text
{
	my ($self, $group) = @_;
	my $text = "## $group->{title}\n\n$group->{about}.\n\n";

	foreach my $clients (@{ $group->{clients} })
	{
		my @rows;
		foreach my $name (@{ $group->{names} })
		{
			my @runs = $self->runs($group->{title}, $clients, $name);
			my ($tps, $least, $most) = spread(map { $_->{tps} } @runs);
			push @rows,
			  [
				$self->{labels}{$name}, thousands($tps), thousands($least) . '–' . thousands($most),
				map { my $which = $_; sprintf '%.3f', median(map { $_->{$which} } @runs) } 'p50', 'p99'
			  ];
		}
		$text .= ($clients == 1 ? '1 client' : "$clients clients") . ":\n\n"
		  . table([ '', 'calls/s', 'spread', 'p50, ms', 'p99, ms' ], @rows) . "\n";
	}
	return $text;
}

sub bars_text
{
	my ($self) = @_;
	my @rows;

	foreach my $bar (@{ $self->{bars} })
	{
		my ($a, $b, $title, $clients, $wanted) = @$bar;
		my ($ratio, $least, $most) = spread($self->ratios($title, $clients, $a, $b));
		push @rows,
		  [
			$self->{labels}{$a}, $self->{labels}{$b}, $title, $clients,
			sprintf('%.2f', $ratio), sprintf('%.2f–%.2f', $least, $most), $wanted, $ratio >= $wanted ? 'yes' : '**no**'
		  ];
	}
	return "## Ratios\n\nMedians of the ratios of one round each.\n\n"
	  . table([ 'what', 'against', 'load', 'clients', 'ratio', 'spread', 'wanted', 'reached' ], @rows) . "\n";
}

sub ceilings_text
{
	my ($self) = @_;

	return table([ 'what', 'measured', 'at most', 'reached' ],
		map { my ($what, $value, $most) = @$_; [ $what, thousands($value), thousands($most), $value <= $most ? 'yes' : '**no**' ] } @{ $self->{ceilings} }) . "\n";
}

sub inside_text
{
	my ($self) = @_;
	my %names = (allowed => 'rate_limit_allowed', row => 'rate_limit_check, the row by LATERAL');
	my @rows;

	foreach my $load (sort keys %{ $self->{inside} })
	{
		foreach my $form (sort keys %names)
		{
			my ($ns, $least, $most) = spread(@{ $self->{inside}{$load}{$form} });
			push @rows, [ $names{$form}, $load, sprintf('%.0f', $ns), sprintf('%.0f–%.0f', $least, $most) ];
		}
	}
	return "## Inside the server\n\n1,000,000 calls on 10,000 keys in one statement, less those of an empty C function of the same signature. "
	  . "The longest log is that of 100 keys at a limit of 1,000,000 per second.\n\n"
	  . table([ '', 'load', 'ns per call', 'spread' ], @rows) . "\n";
}

sub profile_text
{
	my ($self) = @_;
	my ($parts, $forms) = @{ $self->{profile} }{ 'parts', 'forms' };
	my @names = sort keys %$forms;
	my %totals;

	foreach my $name (@names)
	{
		$totals{$name} += $_ foreach values %{ $forms->{$name} };
	}
	return "## Where the instructions of a call go\n\nInstructions per call inside the server, counted by callgrind (1,000 keys with one or two hits; the refused ones with 20 hits of 20). "
	  . "Under callgrind the clock is a system call and its cost in the kernel not counted.\n\n"
	  . table([ '', @names ],
		(map { my $part = $_; [ $part, map { thousands($forms->{$_}{$part}) } @names ] } @$parts),
		[ 'all', map { thousands($totals{$_}) } @names ])
	  . "\n";
}

sub notes_text
{
	my ($self) = @_;

	open my $file, '<:utf8', $self->{notes} or die "$self->{notes}: $!\n";
	local $/ = undef;
	my $text = <$file>;
	close $file;
	return $text;
}

sub memory_text
{
	my ($self) = @_;

	return "## Memory per key\n\nKeys of 16 bytes; of Redis its used_memory.\n\n"
	  . table([ 'hits', 'limit', 'rate_limit, bytes', 'Redis sorted set, bytes' ],
		map { [ thousands($_->[0]), thousands($_->[1]), thousands($_->[2]), thousands($_->[3]) ] } @{ $self->{memory} })
	  . "\n";
}

sub accuracy_text
{
	my ($self) = @_;
	my $passed = $self->{accuracy};

	return "## Accuracy\n\nHow many of 200 calls at once pass a limit of 20, and how many of 40 calls in two seconds around a full minute pass 20 per minute.\n\n"
	  . table([ '', 'at once', 'around a full minute' ],
		map { [ $_, $passed->{$_}{race}, $passed->{$_}{boundary} // '' ] } sort keys %$passed)
	  . "\n";
}

sub machine_text
{
	my ($self) = @_;
	my $machine = $self->{machine};
	my $settings = join ', ', map { "$_ = $machine->{settings}{$_}" } sort keys %{ $machine->{settings} };

	return <<TEXT;
# Results

Made by `make bench`: $self->{rounds} rounds of all contenders in turn, twice as many for 10,000 keys with 4 clients and where all
are refused, $self->{seconds} s each after a second to warm up, over Unix sockets, client and server on one machine. pgbench with
prepared statements; redis-benchmark with one thread or two, whichever is faster by the median. Figures are medians; "spread"
is the least and the greatest.

- Machine: $machine->{cpu}, $machine->{cores} cores, $machine->{memory}
- PostgreSQL $machine->{postgres}: $settings
- Redis $machine->{redis}: no persistence

TEXT
}

sub escape
{
	return $_[0] =~ s/&/&amp;/gr =~ s/</&lt;/gr;
}

# A chart of horizontal bars: title, unit, list of [label, value, color].
sub chart
{
	my ($title, $unit, @bars) = @_;
	my ($left, $width, $line) = (290, 380, 24);
	my $height = 60 + $line * @bars;
	my $most = max map { $_->[1] } @bars;
	my $svg = qq(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 $height" font-family="sans-serif" font-size="13">\n)
	  . qq(<rect width="760" height="$height" fill="#ffffff"/>\n)
	  . qq(<text x="16" y="26" font-size="16" font-weight="bold">) . escape($title) . "</text>\n";

	foreach my $i (0 .. $#bars)
	{
		my ($label, $value, $color) = @{ $bars[$i] };
		my $y = 46 + $line * $i;
		my $bar = sprintf '%.1f', $width * $value / $most;
		$svg .= sprintf qq(<text x="%d" y="%d" text-anchor="end">%s</text>\n), $left - 8, $y + 14, escape($label);
		$svg .= qq(<rect x="$left" y="$y" width="$bar" height="18" fill="$color"/>\n);
		$svg .= sprintf qq(<text x="%.1f" y="%d">%s</text>\n), $left + $bar + 6, $y + 14,
		  ($unit eq 'ms' ? sprintf('%.3f', $value) : thousands($value)) . " $unit";
	}
	return $svg . "</svg>\n";
}

sub color
{
	return $_[0] =~ /redis/ ? '#d9722e' : $_[0] =~ /upsert|hit_log/ ? '#9a9a9a' : $_[0] =~ /select/ ? '#cccccc' : '#1d6fb8';
}

sub save
{
	my ($self, $name, $text) = @_;

	open my $file, '>:utf8', "$self->{folder}/$name" or die "$self->{folder}/$name: $!\n";
	print $file $text;
	close $file or die "$!\n";
	return;
}

sub write
{
	my ($self) = @_;
	my @names = grep { !/select|empty/ } @{ $self->{groups}[0]{names} };
	my $title = $self->{groups}[0]{title};

	my $median_of = sub { my ($name, $which) = @_; return median(map { $_->{$which} } $self->runs($title, 4, $name)) };

	$self->save('throughput.svg',
		chart('Calls per second, 10,000 keys, 4 clients', '',
			map { [ $self->{labels}{$_}, $median_of->($_, 'tps'), color($_) ] } @names));
	$self->save('latency.svg',
		chart('Latency, median and 99th percentile, 4 clients', 'ms',
			map { my $name = $_; map { [ "$self->{labels}{$name}, $_", $median_of->($name, $_), color($name) ] } 'p50', 'p99' } @names));
	$self->save('accuracy.svg',
		chart('Calls that pass a limit of 20', '',
			map { my $who = $_; map { defined $self->{accuracy}{$who}{ $_->[0] } ? [ "$who, $_->[1]", $self->{accuracy}{$who}{ $_->[0] }, $who eq 'rate_limit' ? color('') : color('upsert') ] : () }
				  [ 'race', 'at once' ], [ 'boundary', 'around a minute' ] } sort keys %{ $self->{accuracy} }));
	$self->save('memory.svg',
		chart('Bytes per key', '',
			map { my ($hits, $limit, $own, $redis) = @$_; ([ 'rate_limit, ' . thousands($hits) . ' hits', $own, '#1d6fb8' ], [ 'Redis sorted set, ' . thousands($hits) . ' hits', $redis, '#d9722e' ]) }
			  @{ $self->{memory} }));
	$self->save('results.md',
		$self->machine_text . "![throughput](throughput.svg)\n\n![latency](latency.svg)\n\n![memory](memory.svg)\n\n![accuracy](accuracy.svg)\n\n"
		  . $self->bars_text . $self->ceilings_text . $self->notes_text . join('', map { $self->group_text($_) } @{ $self->{groups} })
		  . $self->inside_text . $self->profile_text . $self->memory_text . $self->accuracy_text);
	return;
}

1;
