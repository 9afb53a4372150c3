# A model of the four algorithms for 010_random_histories.pl: a list of all
# admitted hits for the windows, an exact level for the bucket.
#
# A history is a hash:
#   algorithm, W (length of the window), exact_hits
#   unit, length    of a fixed window: us, day or month, and how many
#   table           starts of the windows of a time zone instead of those two
#   hits; level, time, full    what the model remembers
# A call is a hash: op (check, peek or adjust), now, limit, burst, cost, writes
# (false for a call that leaves everything as it is).
#
# Instants are microseconds since 2000-01-01 00:00 UTC, and all numbers integers
# of 64 bits.

package HistoryModel;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use List::Util qw(sum0);

our @EXPORT = qw(
  $US_PER_DAY $UNIX_EPOCH min max floor_div ceil_div text_of_time bounds
  model_step
);

our $US_PER_DAY = 86_400_000_000;
our $UNIX_EPOCH = -946_684_800_000_000;
my $FIRST_MONDAY = 366 * $US_PER_DAY;    # 2001-01-01

#
# Integer arithmetic: List::Util's min and max compare doubles
#

sub min { return $_[0] < $_[1] ? $_[0] : $_[1]; }
sub max { return $_[0] > $_[1] ? $_[0] : $_[1]; }

sub floor_div
{
	use integer;
	my ($a, $b) = @_;
	my $quotient = $a / $b;

	return $a % $b != 0 && ($a < 0) != ($b < 0) ? $quotient - 1 : $quotient;
}

sub ceil_div { return -floor_div(-$_[0], $_[1]); }

# An instant as SQL text.
sub text_of_time
{
	my $unix = $_[0] - $UNIX_EPOCH;
	my $seconds = floor_div($unix, 1_000_000);
	my @t = gmtime $seconds;

	return sprintf '%04d-%02d-%02d %02d:%02d:%02d.%06d+00',
	  $t[5] + 1900, $t[4] + 1, @t[ 3, 2, 1, 0 ],
	  $unix - $seconds * 1_000_000;
}

#
# The calendar: UTC by arithmetic, other zones by the server's date_trunc
#

sub first_of_month    # months since January of year 0
{
	use integer;
	my ($month) = @_;
	my ($y, $m) = (floor_div($month, 12), $month - 12 * floor_div($month, 12));

	# days since 0000-03-01, a year that starts in March
	($y, $m) = $m < 2 ? ($y - 1, $m + 10) : ($y, $m - 2);
	my $days = 365 * $y + floor_div($y, 4) - floor_div($y, 100)
	  + floor_div($y, 400) + (153 * $m + 2) / 5;
	return ($days - 730_425) * $US_PER_DAY;
}

# The window of the clock or calendar in which an instant lies.
sub bounds
{
	my ($h, $now) = @_;
	my $n = $h->{length};

	if ($h->{table})
	{
		my $table = $h->{table};
		my ($low, $high) = (0, $#$table);

		while ($high - $low > 1)
		{
			my $middle = ($low + $high) >> 1;
			if ($table->[$middle] <= $now) { $low = $middle }
			else { $high = $middle }
		}
		return ($table->[$low], $table->[$high]);
	}
	if ($h->{unit} eq 'month')
	{
		my $month = 12 * floor_div($now, 366 * $US_PER_DAY) + 12 * 2000 - 12 * 8;

		$month -= $month % $n;
		$month += $n while first_of_month($month + $n) <= $now;
		return (first_of_month($month), first_of_month($month + $n));
	}
	my ($origin, $length) =
	  $h->{unit} eq 'day'
	  ? ($FIRST_MONDAY, $n * $US_PER_DAY)
	  : ($UNIX_EPOCH, $n);
	my $start = $origin + floor_div($now - $origin, $length) * $length;
	return ($start, $start + $length);
}

#
# The model of the windows: $h->{hits} holds [ time, cost ], oldest first
#

# When a hit that is taken as made at $time starts to count.
sub rounded
{
	my ($h, $call, $time) = @_;
	my $q = ceil_div($h->{W}, $h->{exact_hits});

	return $time if $call->{limit} <= $h->{exact_hits};
	return ceil_div($time - $UNIX_EPOCH, $q) * $q + $UNIX_EPOCH;
}

# The hits that count at $now.
sub live_hits
{
	my ($h, $call, $now) = @_;
	my @hits = map { [ min($_->[0], $now), $_->[1] ] } @{ $h->{hits} };

	return () if !@hits;
	if ($h->{algorithm} eq 'sliding_window')
	{
		return grep { rounded($h, $call, $_->[0]) + $h->{W} > $now } @hits;
	}
	if ($h->{algorithm} eq 'fixed_window')
	{
		my ($start) = bounds($h, $now);
		return grep { $_->[0] >= $start } @hits;
	}
	return $hits[0][0] + $h->{W} > $now ? @hits : ();
}

# The instants at which hits stop to count, in order.
sub ends
{
	my ($h, $call, $now, @hits) = @_;

	return map { rounded($h, $call, $_->[0]) + $h->{W} } @hits
	  if $h->{algorithm} eq 'sliding_window';
	return map { (bounds($h, $now))[1] } @hits
	  if $h->{algorithm} eq 'fixed_window';
	return map { $hits[0][0] + $h->{W} } @hits;
}

sub window_step
{
	my ($h, $call) = @_;
	my ($now, $limit, $cost) = @$call{qw(now limit cost)};
	my @hits = live_hits($h, $call, $now);
	my $used = sum0(map { $_->[1] } @hits);
	my $stepped_back = grep { $_->[0] > $now } @{ $h->{hits} };
	my $allowed = 1;
	my $retry = 0;
	my $nothing = $call->{op} eq 'adjust' && $cost < 0 && $used == 0;

	if ($call->{op} eq 'adjust')
	{
		push @hits, [ $now, $cost ] if $cost > 0;
		my $back = min($used, max(-$cost, 0));
		while ($back > 0)
		{
			my $newest = min($back, $hits[-1][1]);
			$back -= $newest;
			$hits[-1][1] -= $newest;
			pop @hits if $hits[-1][1] == 0;
		}
	}
	elsif ($limit > 0 && $used + $cost <= $limit)
	{
		push @hits, [ $now, $cost ] if $call->{op} eq 'check' && $cost > 0;
	}
	else
	{
		my $left = $used;
		my @ends = ends($h, $call, $now, @hits);

		($allowed, $retry) = (0, undef);
		foreach my $i (0 .. $#hits)
		{
			last if $limit == 0;
			$left -= $hits[$i][1];
			next if $left + $cost > $limit;
			next if $h->{algorithm} ne 'sliding_window' && $i < $#hits;
			$retry = $ends[$i] - $now;
			last;
		}
	}
	if ($allowed && $call->{writes} && !$nothing)
	{
		$h->{hits} = \@hits;
	}
	elsif ($call->{writes} && defined $retry)
	{
		$_->[0] = min($_->[0], $now) foreach @{ $h->{hits} };
	}

	$used = sum0(map { $_->[1] } @hits);
	return {
		allowed => $allowed,
		limit => $limit,
		used => $used,
		remaining => max(0, $limit - $used),
		retry => $retry,
		unsure => $stepped_back && !$call->{writes},
		reset => $used > 0 ? (ends($h, $call, $now, @hits))[0] : $now
	};
}

#
# The model of the bucket: $h->{level} in tokens x window as recorded last, at
# $h->{time}.  When it is full under the limit of that call, at $h->{full}, and a
# window has passed, the counter is no more: a full bucket for the next call
# whatever capacity that states.  So it is when all was given back, but not under
# a capacity, $h->{capacity}, that came down.  No level is no counter.  A negative
# adjustment with nothing to give back leaves everything as it is.
#

sub bucket_step
{
	use integer;
	my ($h, $call) = @_;
	my ($now, $limit, $cost) = @$call{qw(now limit cost)};
	my $W = $h->{W};
	my $capacity = $call->{burst} // $limit;
	my $full = $capacity * $W;
	my $level = $full;
	my $ahead = defined $h->{level} ? max(0, $h->{time} - $now) : 0;
	my $end = $now;
	my $allowed = 1;
	my $retry = 0;

	if (defined $h->{level})
	{
		$end = max($h->{time} + $W, $h->{full}) - $ahead;
	}
	if ($now < $end)
	{
		my $elapsed = $ahead > 0 ? 0 : $now - $h->{time};

		$level = min($full, $h->{level});
		$level = $elapsed >= ceil_div($full - $level, $limit)
		  ? $full
		  : $level + $elapsed * $limit;
	}

	my $nothing = $call->{op} eq 'adjust' && $cost < 0 && $level == $full;

	if ($call->{op} eq 'adjust')
	{
		$level = min($full, $level - $cost * $W);
	}
	elsif (floor_div($level, $W) >= $cost)
	{
		$level -= $cost * $W if $call->{op} eq 'check';
	}
	else
	{
		$allowed = 0;
		$retry = $cost > $capacity
		  ? undef
		  : min(ceil_div($cost * $W - $level, $limit), $end - $now);
	}
	if ($allowed && $call->{writes} && !$nothing)
	{
		my $lower = defined $h->{level} && $capacity < $h->{capacity};

		$h->{level} = $level < $full || $lower ? $level : undef;
		$h->{capacity} = $capacity;
		$h->{time} = $now;
		$h->{full} = $now + ceil_div($full - $level, $limit);
		$end = max($now + $W, $h->{full});
	}
	elsif ($call->{writes} && $ahead > 0 && defined $retry)
	{
		$h->{time} = $now;
		$h->{full} -= $ahead;
	}

	my $tokens = floor_div($level, $W);
	return {
		allowed => $allowed,
		limit => $capacity,
		used => $capacity - $tokens,
		remaining => max(0, $tokens),
		retry => $retry,
		unsure => $ahead > 0 && !$call->{writes},
		reset => $level < $full
		? min($now + ceil_div(($tokens + 1) * $W - $level, $limit), $end)
		: $now
	};
}

# Makes the call and returns the row that it must get: times in microseconds,
# retry undefined for never.  "unsure" says that retry is no promise: a peek at an
# instant before the last hit takes that one as made now but leaves it where it
# is, so that a later peek sees another history.
sub model_step
{
	my ($h, $call) = @_;

	return $h->{algorithm} eq 'token_bucket'
	  ? bucket_step($h, $call)
	  : window_step($h, $call);
}

1;
