# Random histories through the _at functions against a model.  Every column of
# every row is compared, and every refusal is tried again at the instant that
# retry_after promises and one microsecond earlier.
#
# RATE_LIMIT_SEED chooses other histories, RATE_LIMIT_STEPS how many steps.
#
# Instants are microseconds since 2000-01-01 00:00 UTC.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use HistoryModel;
use List::Util qw(sum0);
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $seed = $ENV{RATE_LIMIT_SEED} // 20000101;
my $total_steps = $ENV{RATE_LIMIT_STEPS} // 110_000;
my $history_steps = 220;

my $MOST_UNITS = 1 << 61;    # of a bucket: tokens x window
my %boundaries;              # {zone}{interval} = [ starts of windows ]

# A random integer from $low to $high, also where a double has gaps.
sub any
{
	my ($low, $high) = @_;
	my $size = $high - $low + 1;

	return $low if $size <= 1;
	return $low + int(rand $size) if $size < 1 << 40;
	return $low + min(int(rand($size >> 20)) * (1 << 20) + int(rand 1 << 20),
		$size - 1);
}

sub pick { return $_[ rand @_ ]; }

# --- Making histories ---

# What a theme makes vary, and the faults that it looks for.
my %themes = (
	'boundaries' => { fault => 10 },
	'clock steps' => { fault => 9, back => 1 },
	'changed limits' => { fault => 11, limits => 1 },
	'adjustments' => { fault => 6, adjust => 1 },
	'adjustments and changed limits' => { adjust => 1, limits => 1 },
	'fast rates' => { fault => 8, fast => 1 },
	'long idle times' => { fault => 7, idle => 1 },
	'costs above the limit' => { fault => 1, dear => 1 },
	'everything at once' =>
	  { back => 1, limits => 1, adjust => 1, idle => 1, dear => 1 },
	'rounded times' => { only => 'sliding_window', rounded => 1 },
	'rounded times, everything at once' =>
	  { only => 'sliding_window', rounded => 1, back => 1, limits => 1, adjust => 1, dear => 1 },
	'calendar of UTC' =>
	  { fault => 14, only => 'fixed_window', calendar => 1, idle => 1 },
	'calendars of time zones' =>
	  { fault => 14, only => 'fixed_window', calendar => 1, zones => 1 });

sub random_window
{
	return any(1, pick(9, 1_000, 1_000_000)) if $_[0]->{fast};
	return pick(any(1, 10), 1_000_000, any(1, 1_000_000), 60_000_000,
		any(1, 3_600_000_000), 3_600_000_000, $US_PER_DAY, 30 * $US_PER_DAY,
		any(1, 366 * $US_PER_DAY), any(1, 60 * 365 * $US_PER_DAY));
}

# The same length written in different ways.
sub random_interval
{
	my ($h) = @_;
	my $W = $h->{W};

	return $h->{interval} if defined $h->{interval};
	if ($h->{algorithm} ne 'fixed_window' && $W > $US_PER_DAY && rand() < 0.5)
	{
		my $days = any(1, floor_div($W, $US_PER_DAY));
		return "$days days " . ($W - $days * $US_PER_DAY) . ' microseconds';
	}
	return pick("$W microseconds",
		sprintf('%d.%06d seconds', floor_div($W, 1_000_000), $W % 1_000_000));
}

sub random_limit
{
	my ($h, $theme) = @_;
	my $e = $h->{exact_hits};

	return any($e + 1, pick($e + 5, 10 * $e + 10, 1_000_000_000))
	  if $theme->{rounded};
	my $most = pick(1, 1, 5, 10, 20, 100, $theme->{fast} ? 100_000 : 1_000);
	return any(1, min($most, $e)) if $h->{algorithm} eq 'sliding_window';
	return any(1, $most) if $h->{algorithm} ne 'token_bucket';
	return any(1, max(1, min($most, floor_div($MOST_UNITS, 16 * $h->{W}))));
}

sub random_burst
{
	my ($h, $limit) = @_;

	return undef if $h->{algorithm} ne 'token_bucket' || rand() < 0.4;
	return any(1, max(1, min(pick(1, 2, 2 * $limit, 100), $limit * floor_div(1 << 47, $h->{W}))));
}

sub new_history
{
	my ($algorithm, $name) = @_;
	my $theme = $themes{$name};
	my %h = (
		algorithm => $algorithm,
		theme => $name,
		unit => 'us',
		hits => [],
		exact_hits => $theme->{rounded}
		? pick(1, 2, 3, 7, 16, 128, 1024)
		: pick(5, 128, 128, 1024));

	$h{W} = $h{length} = random_window($theme);
	$h{W} = $h{length} = min($h{W}, 1 << ($theme->{limits} ? 41 : 47))
	  if $theme->{adjust} && $algorithm eq 'token_bucket';
	if ($theme->{calendar})
	{
		$h{unit} = pick('day', 'month');
		$h{length} = $h{unit} eq 'day' ? pick(1, 2, 7, 30) : pick(1, 3, 6, 12, 48);
		$h{interval} = "$h{length} $h{unit}";
	}
	if ($theme->{zones})
	{
		$h{zone} = pick(sort keys %boundaries);
		$h{interval} = pick(sort keys %{ $boundaries{ $h{zone} } });
		$h{table} = $boundaries{ $h{zone} }{ $h{interval} };
		$h{now} = any(@{ $h{table} }[ 1, $#{ $h{table} } >> 1 ]);
	}
	elsif (rand() < 0.3)
	{
		# around the origins of time: 2000, 1970, a leap day
		$h{now} = pick(0, $UNIX_EPOCH, 59 * $US_PER_DAY) - any(0, 2 * $h{W});
	}
	else
	{
		$h{now} = any(-100 * 365 * $US_PER_DAY, 100 * 365 * $US_PER_DAY);
	}
	if ($theme->{calendar})
	{
		my ($start, $end) = bounds(\%h, $h{now});
		$h{W} = $end - $start;
	}
	$h{limit} = random_limit(\%h, $theme);
	$h{burst} = random_burst(\%h, $h{limit});
	return \%h;
}

sub next_time
{
	my ($h, $theme) = @_;
	my ($now, $W) = @$h{qw(now W)};
	my $chance = rand;

	return $now - pick(1, any(1, $W), $W, any(1, 3 * $W))
	  if $theme->{back} && $chance < 0.15;
	$chance = rand;
	return $now if $chance < 0.15;
	return $now + 1 if $chance < 0.22;
	if ($chance < 0.5 && $h->{told})
	{
		my @instants = grep { $_ >= $now } map { ($_ - 1, $_, $_ + 1) }
		  $h->{told}{reset},
		  defined $h->{told}{retry} ? $h->{told_at} + $h->{told}{retry} : ();
		return pick(@instants) if @instants;
	}
	return $now + any(0, max(1, floor_div(2 * $W, min($h->{limit}, 20))))
	  if $chance < 0.85;
	return $now + any(0, $W) if $chance < 0.94;
	return $now + $W + any(-1, 1) if $chance < 0.97 || !$theme->{idle};
	return $now + any(1, max(10 * 365 * $US_PER_DAY, 5 * $W));
}

sub random_cost
{
	my ($h, $theme) = @_;
	my $most = $h->{burst} // $h->{limit};
	my $chance = rand;

	return any($most + 1, 2 * $most + 1) if $theme->{dear} && $chance < 0.2;
	return 0 if !$theme->{back} && !$theme->{limits} && $chance < 0.23;
	return 1 if $chance < 0.7 && !$theme->{rounded};
	return $most if $chance < 0.72;
	return any(1, max(1, floor_div($most, 4)));
}

# One call, random but for what it must not do to the integers of the model, nor
# to retry_after, in which whole microseconds are exact up to 2^51.
sub random_call
{
	my ($h, $theme) = @_;
	my %call = (now => next_time($h, $theme));
	my $chance = rand;

	if ($theme->{limits} && rand() < 0.1)
	{
		$h->{limit} = random_limit($h, $theme);
		$h->{burst} = random_burst($h, $h->{limit});
	}
	@call{qw(limit burst)} = @$h{qw(limit burst)};
	$call{limit} = 0
	  if $theme->{limits}
	  && rand() < 0.03
	  && !$theme->{rounded}
	  && $h->{algorithm} ne 'token_bucket';
	$call{cost} = random_cost($h, $theme);
	$call{op} = 'check';
	if ($theme->{adjust} && $chance < 0.25)
	{
		my $most = $h->{burst} // $h->{limit};
		my $crowded = @{ $h->{hits} } >= $h->{exact_hits} && !$theme->{rounded};
		my $indebted = ($h->{level} // 0) < -4 * $most * $h->{W};

		$call{op} = 'adjust';
		$call{cost} = any(1, pick(1, 3, 2 * $most));
		$call{cost} = -$call{cost} if $crowded || $indebted || $chance < 0.12;
	}
	elsif ($chance > 0.85 || $call{cost} == 0 && $chance > 0.5)
	{
		$call{op} = 'peek';
	}
	$call{writes} = $call{op} ne 'peek' && $call{cost} != 0;
	$call{interval} = random_interval($h);
	$call{zone} = $h->{zone}
	  // ($theme->{calendar} ? pick(undef, 'UTC') : pick(undef, 'Asia/Tokyo'));
	return \%call;
}

sub make_history
{
	my ($algorithm, $name) = @_;
	my $h = new_history($algorithm, $name);
	my $theme = $themes{$name};

	foreach (1 .. $history_steps)
	{
		my $call = random_call($h, $theme);

		# the end of the tables, or of years with four digits
		last
		  if abs($call->{now}) > 1500 * 365 * $US_PER_DAY
		  || $h->{table} && $call->{now} >= $h->{table}[-2];
		$call->{expected} = model_step($h, $call);
		push @{ $h->{calls} }, $call;
		$h->{told} = $call->{expected};
		$h->{told_at} = $h->{now} = $call->{now};
	}
	return $h;
}

# --- Asking the server ---

my $node = start_server('main');
$node->safe_psql(
	'postgres', <<'SQL');
CREATE TABLE steps (history int, step int, op text, at timestamptz, "limit" bigint, "window" interval,
    cost bigint, algorithm text, burst bigint, zone text, exact_hits int);

CREATE FUNCTION replay(which int) RETURNS SETOF text LANGUAGE plpgsql SET timezone = 'Asia/Tokyo' AS $$
DECLARE
    s steps;
    r rate_limit_result;
    k text := 'history ' || which;
    retry timestamptz;
    again text;
BEGIN
    FOR s IN SELECT * FROM steps WHERE history = which ORDER BY step LOOP
        PERFORM set_config('rate_limit.exact_hits', s.exact_hits::text, false);
        CASE s.op
            WHEN 'check' THEN
                r := rate_limit_check_at(s.at, k, s."limit", s."window", s.cost, s.algorithm, s.burst, NULL, s.zone);
            WHEN 'peek' THEN
                r := rate_limit_peek_at(s.at, k, s."limit", s."window", s.cost, s.algorithm, s.burst, NULL, s.zone);
            WHEN 'adjust' THEN
                r := rate_limit_adjust_at(s.at, k, s."limit", s."window", s.cost, s.algorithm, s.burst, NULL, s.zone);
        END CASE;
        again := NULL;
        IF r.retry_after > 0 THEN
            retry := s.at + r.retry_after * interval '1 second';
            again := (rate_limit_peek_at(retry, k, s."limit", s."window", s.cost, s.algorithm,
                                         s.burst, NULL, s.zone)).allowed::text
                     || (rate_limit_peek_at(retry - interval '1 microsecond', k, s."limit", s."window", s.cost,
                                            s.algorithm, s.burst, NULL, s.zone)).allowed::text;
        END IF;
        RETURN NEXT format('%s|%s|%s|%s|%s|%s|%s|%s', r.allowed, r."limit", r.used, r.remaining,
                           (r.retry_after * 1000000)::bigint, (extract(epoch FROM r.reset_at) * 1000000)::bigint,
                           r.rule, again);
    END LOOP;
END $$;
SQL

# Boundaries of windows in zones with daylight saving at other hours than
# midnight, and with odd offsets.
my %units = (
	'1 day' => 'day',
	'7 days' => 'week',
	'1 month' => 'month',
	'3 months' => 'quarter',
	'1 year' => 'year');
foreach my $zone (
	qw(Europe/Berlin America/New_York America/St_Johns Australia/Lord_Howe
	Asia/Kolkata Asia/Kathmandu Pacific/Auckland UTC))
{
	foreach my $interval (keys %units)
	{
		my $starts = value($node, <<SQL);
SELECT DISTINCT (extract(epoch FROM date_trunc('$units{$interval}', g, '$zone')) * 1000000)::bigint AS start
  FROM generate_series(timestamptz '2010-12-01 00:00+00', '2031-01-05 00:00+00', '12 hours') AS g ORDER BY start
SQL
		$boundaries{$zone}{$interval} =
		  [ map { $_ + $UNIX_EPOCH } split /\n/, $starts ];
	}
}

sub columns_of_step
{
	my ($h, $i) = @_;
	my $call = $h->{calls}[$i];

	return ($h->{number}, $i + 1, $call->{op}, text_of_time($call->{now}),
		@$call{qw(limit interval cost)},
		$h->{algorithm}, $call->{burst}, $call->{zone}, $h->{exact_hits});
}

# A line of SQL that makes the call of a step.
sub sql_of_step
{
	my ($h, $i) = @_;
	my (undef, undef, $op, $at, $limit, $interval, $cost, $algorithm, $burst,
		$zone) = columns_of_step($h, $i);

	return sprintf
	  "SELECT * FROM rate_limit_%s_at('%s', 'history %d', %s, '%s', %s, '%s', %s, NULL, %s);",
	  $op, $at, $h->{number}, $limit, $interval, $cost, $algorithm,
	  $burst // 'NULL', defined $zone ? "'$zone'" : 'NULL';
}

# Says once per algorithm and theme what is wrong and how to make it happen again.
my %complaints;

sub complain
{
	my ($h, $i, $what) = @_;
	my $file = "$PostgreSQL::Test::Utils::log_path/history_$h->{number}.sql";

	return if $complaints{"$h->{algorithm} $h->{theme} " . $what =~ s/,.*//r}++;
	append_to_file($file, join "\n", "-- $h->{algorithm}, $h->{theme}, seed $seed",
		"SET rate_limit.exact_hits = $h->{exact_hits};",
		(map { sql_of_step($h, $_) } 0 .. $i), '');
	diag("seed $seed, history $h->{number} ($h->{algorithm}, $h->{theme}), step ",
		$i + 1, ": $what");
	diag('    ' . sql_of_step($h, $_)) foreach max(0, $i - 4) .. $i;
	diag("    the whole history: $file");
	return;
}

sub ask_server
{
	my (@histories) = @_;
	my $script = "COPY steps FROM stdin;\n";

	foreach my $h (@histories)
	{
		foreach my $i (0 .. $#{ $h->{calls} })
		{
			$script .=
			  join("\t", map { $_ // '\N' } columns_of_step($h, $i)) . "\n";
		}
	}
	$script .= "\\.\n";
	$script .= "SELECT * FROM replay($_->{number});\n" foreach @histories;
	$script .= "SELECT rate_limit_reset_prefix('history ') > 0;\n";

	my @lines = split /\n/, $node->safe_psql('postgres', $script);
	foreach my $h (@histories)
	{
		$_->{got} = shift @lines foreach @{ $h->{calls} };
	}
	return;
}

# --- What is compared ---

my %tally;    # {algorithm}{theme} = { steps, wrong }
my %retries;  # {algorithm} = { refusals, wrong }
my %spans;    # {algorithm} = { hits, wrong }
my %rounding = (calls => 0, wrong => 0, retry => 0);

sub compare_with_model
{
	my ($h) = @_;
	my $count = $tally{ $h->{algorithm} }{ $h->{theme} } //=
	  { steps => 0, wrong => 0 };
	my $retry = $retries{ $h->{algorithm} } //= { refusals => 0, wrong => 0 };

	foreach my $i (0 .. $#{ $h->{calls} })
	{
		my $call = $h->{calls}[$i];
		my $row = $call->{expected};
		my $retried = $row->{allowed} || !defined $row->{retry} ? '' : 'truefalse';

		($call->{got}, $retried) = ($call->{got} =~ s/[a-z]*$//r, '')
		  if $row->{unsure};
		my $expected = join '|', $row->{allowed} ? 't' : 'f',
		  @$row{qw(limit used remaining)}, $row->{retry} // '',
		  $row->{reset} - $UNIX_EPOCH, '', $retried;

		$count->{steps}++;
		if ($retried ne '')
		{
			$retry->{refusals}++;
			$retry->{wrong}++ if $call->{got} !~ /\|\Q$retried\E$/;
		}
		next if $call->{got} eq $expected;
		complain($h, $i, "expected $expected, got $call->{got}")
		  if !$h->{wrong}++;
		$count->{wrong}++;
	}
	return;
}

# How much the server admitted in every span that starts with a hit.
sub check_spans
{
	my ($h) = @_;
	my $count = $spans{ $h->{algorithm} } //= { hits => 0, wrong => 0 };
	my ($W, $limit) = @$h{qw(W limit)};
	my $capacity = $h->{burst} // $limit;
	my @hits = map { [ $_->{now}, $_->{cost} ] }
	  grep { $_->{op} eq 'check' && $_->{got} =~ /^t/ } @{ $h->{calls} };

	foreach my $first (0 .. $#hits)
	{
		my ($sum, $wrong) = (0, 0);
		my ($start, $end) = ($hits[$first][0], $hits[$first][0] + $W);

		(undef, $end) = bounds($h, $start)
		  if $h->{algorithm} eq 'fixed_window';
		$end = $start + 8 * $W if $h->{algorithm} eq 'token_bucket';
		foreach my $hit (@hits[ $first .. $#hits ])
		{
			use integer;
			last if $hit->[0] >= $end;
			$sum += $hit->[1];
			my $most = $limit;
			$most = $capacity + ($hit->[0] - $start) * $limit / $W
			  if $h->{algorithm} eq 'token_bucket';
			$most = 2 * $limit if $h->{algorithm} eq 'anchored_window';
			$wrong = 1 if $sum > $most;
		}
		$count->{hits}++;
		$count->{wrong} += $wrong;
		diag("seed $seed, history $h->{number}: too much after ",
			text_of_time($start))
		  if $wrong;
	}
	return;
}

# With unrounded times: a call is admitted only if the window has room, and
# refused only if it would have none with hits that count q longer.
sub check_rounding
{
	my ($h) = @_;
	my $q = $h->{theme} =~ /rounded|both sides/
	  ? ceil_div($h->{W}, $h->{exact_hits})
	  : 0;
	my @hits;

	foreach my $i (0 .. $#{ $h->{calls} })
	{
		my $call = $h->{calls}[$i];
		my ($now, $cost, $limit) = @$call{qw(now cost limit)};
		my ($exact, $longest) = map {
			my $start = $now - $h->{W} - $_;
			sum0(map { $_->[1] } grep { $_->[0] > $start } @hits);
		} 0, $q;
		my ($allowed, undef, $used) = split /\|/, $call->{got};
		my $new = $allowed eq 't' && $call->{op} ne 'peek' ? $cost : 0;
		my $wrong =
		  $used < $exact + $new ? 'too little used'
		  : $used > $longest + $new && !$h->{crowded} ? 'too much used'
		  : $call->{op} eq 'adjust' ? ''
		  : $allowed eq 't' && $exact + $cost > $limit ? 'too much admitted'
		  : $allowed eq 'f' && $longest + $cost <= $limit ? 'refused for too long'
		  : '';
		my $retry = $call->{got} !~ /\|(truefalse)?$/;

		push @hits, [ $now, $new ] if $new > 0;
		$rounding{calls}++;
		$rounding{wrong}++ if $wrong ne '';
		$rounding{retry}++ if $retry;
		complain($h, $i, "retry_after, got $call->{got}") if $retry;
		complain($h, $i, "$wrong, $exact to $longest, got $call->{got}")
		  if $wrong ne '';
	}
	return;
}

# Histories of which only bounds are known: limits on both sides of exact_hits,
# where hits may be stored rounded or not; and more hits in a window than are
# stored, after adjustments past the limit, where those that can decide nothing
# any more may count in "used" for longer.
sub make_loose_history
{
	my ($crowded) = @_;
	my ($e, $W) = (pick(1, 2, 5, 20), random_window({}));
	my %h = (
		algorithm => 'sliding_window',
		theme => $crowded
		? 'more hits than exact_hits'
		: 'limits on both sides of exact_hits',
		crowded => $crowded,
		exact_hits => $e,
		W => $W,
		limit => any(1, $e),
		now => any(-$W, $W));

	foreach (1 .. $history_steps)
	{
		$h{limit} = any(1, 2 * $e) if !$crowded && rand() < 0.3;
		my %call = (
			now => $h{now} + any(0, max(1, floor_div(2 * $W, $h{limit}))),
			limit => $h{limit},
			cost => any(1, pick(1, 1, 3)),
			op => pick('check', 'check', 'check', 'peek', $crowded ? 'adjust' : ()),
			interval => "$W microseconds");

		push @{ $h{calls} }, \%call;
		$h{now} = $call{now};
	}
	return \%h;
}

# --- The test ---

srand $seed;

my @kinds;
foreach my $theme (sort keys %themes)
{
	my $only = $themes{$theme}{only};
	push @kinds, map { [ $_, $theme ] } defined $only ? $only : @ALGORITHMS;
}

my ($steps, $number) = (0, 0);
while ($steps < $total_steps)
{
	my @histories = map { make_history(@$_) } @kinds;
	my @loose = map { make_loose_history($_ > 3) } 1 .. 5;

	$_->{number} = ++$number foreach @histories, @loose;
	ask_server(@histories, @loose);
	foreach my $h (@histories)
	{
		my $theme = $themes{ $h->{theme} };

		compare_with_model($h);
		$steps += @{ $h->{calls} };
		next if $theme->{back} || $theme->{adjust};
		check_spans($h) if !$theme->{limits};
		check_rounding($h) if $h->{algorithm} eq 'sliding_window';
	}
	check_rounding($_) foreach @loose;
	$steps += sum0(map { scalar @{ $_->{calls} } } @loose);
}
cmp_ok($steps, '>=', $total_steps, "$total_steps steps with seed $seed");

foreach my $kind (@kinds)
{
	my ($algorithm, $theme) = @$kind;
	my $count = $tally{$algorithm}{$theme};
	my $fault = $themes{$theme}{fault};

	is($count->{wrong}, 0,
		($fault ? "fault $fault: " : '')
		  . "$theme: every row is the model's, $algorithm, $count->{steps} steps");
}
foreach my $algorithm (@ALGORITHMS)
{
	is($retries{$algorithm}{wrong}, 0,
		"fault 5: admitted at now + retry_after and refused one microsecond earlier, $algorithm, $retries{$algorithm}{refusals} refusals"
	);
	cmp_ok($retries{$algorithm}{refusals}, '>', $steps / 40,
		"there were enough refusals to show that, $algorithm");
}
my %most = (
	sliding_window => 'no span of the length of the window holds more than the limit',
	fixed_window => 'no window of the clock or calendar holds more than the limit',
	anchored_window => 'no span of the length of the window holds more than twice the limit',
	token_bucket => 'no span holds more than the burst and the refill in it');
foreach my $algorithm (@ALGORITHMS)
{
	is($spans{$algorithm}{wrong}, 0,
		"fault 10: $most{$algorithm}, $algorithm, $spans{$algorithm}{hits} spans");
}
is($rounding{retry}, 0,
	'fault 5: the same when a limit goes from one side of exact_hits to the other');
is($rounding{wrong}, 0,
	"sliding_window admits never too much and counts a hit at most window / exact_hits too long, $rounding{calls} calls"
);
is(value($node, 'SELECT counters FROM rate_limit_info'),
	'0', 'no counter is left after a reset of all histories');

$node->stop;
done_testing();
