# What a key takes of the memory, as the README says.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use RateLimitTest;
use Test::More;

my $node = start_server('memory', conf => "rate_limit.memory = '64MB'\n");
my $key = "'key ' || lpad(k::text, 12, '0')";

# Bytes that each of some new keys of 16 bytes takes after $calls calls, one per step.
sub bytes_per_key
{
	my ($keys, $calls, $arguments, $step) = @_;

	$node->safe_psql('postgres', "SELECT rate_limit_reset_prefix('')");
	my $before = value($node, 'SELECT bytes_used FROM rate_limit_info');
	my $admitted = value($node, <<SQL);
SELECT count(*)
  FROM generate_series(1, $keys) k, generate_series(1, $calls) c,
       rate_limit_check_at('2030-01-01 00:00:00+00'::timestamptz + c * $step, $key, $arguments) r
 WHERE r.allowed
SQL
	is($admitted, $keys * $calls, "all of $calls calls on each of $keys keys admitted ($arguments)");
	return (value($node, 'SELECT bytes_used FROM rate_limit_info') - $before) / $keys;
}

my $day = "'1 day'";
my $second = "interval '1 second'";
is(bytes_per_key(1000, 1, "20, $day", $second), 132, 'one hit: a chunk');
is(bytes_per_key(1000, 5, "20, $day", $second), 132, 'five hits: a chunk');
is(bytes_per_key(1000, 6, "20, $day", $second), 264, 'six hits: two chunks');
is(bytes_per_key(1000, 20, "20, $day", $second), 264, '20 hits of 20: two chunks');
is(bytes_per_key(1000, 20, "20, $day, algorithm => '$_'", $second), 132, "$_: a chunk")
  foreach qw(fixed_window anchored_window token_bucket);

# A call in each of the 128 parts of the window, which are the most that are told apart.
is(bytes_per_key(100, 128, "1000000, $day, 2", "interval '1 day' / 128"), 18 * 132, 'the longest log: 18 chunks');

# Nothing depends on how many keys there are, nor on what was there before.
$node->safe_psql('postgres', "SELECT rate_limit_reset_prefix('')");
my $empty = value($node, 'SELECT bytes_used FROM rate_limit_info');
is(value($node, "SELECT count(*) FROM generate_series(1, 100000) k WHERE rate_limit_allowed($key, 1, $day)"), 100000, '100,000 new keys');
is(value($node, "SELECT count(*) FROM generate_series(1, 100000) k WHERE rate_limit_allowed($key, 1, $day)"), 0, 'are all known');
is(value($node, "SELECT count(*), count(DISTINCT key) FROM rate_limit_keys"), '100000|100000', 'and are all shown, once');
is(value($node, "SELECT sum(rate_limit_reset($key)) FROM generate_series(1, 100000) k WHERE k % 3 > 0"), 66667, 'two of three are reset');
is(value($node, "SELECT count(*) FROM generate_series(1, 100000) k WHERE rate_limit_allowed($key, 1, $day) <> (k % 3 > 0)"), 0, 'the others go on refusing');
is(value($node, "SELECT rate_limit_reset_prefix('')"), 100000, 'all are reset');
is(value($node, 'SELECT bytes_used FROM rate_limit_info'), $empty, 'and all memory is free');

$node->stop;
done_testing();
