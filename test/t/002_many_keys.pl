# 16 clients on 1,000 random keys: every key is exhausted, and each has admitted
# exactly its limit.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $keys = 1000;
my $limit = 10;
my $node = start_server('main');
my $algorithms = join ',', @ALGORITHMS;

$node->safe_psql('postgres',
	'CREATE TABLE admitted (key int, algorithm text)');

# 64 calls on a key in the mean: that one gets fewer than 10 has a probability
# below 1e-15.
ok( run_pgbench(
		$node,
		{
			clients => 16,
			transactions => 4 * $keys,
			script => <<"SCRIPT" }),
\\set key random(1, $keys)
INSERT INTO admitted SELECT :key, a FROM unnest('{$algorithms}'::text[]) AS a WHERE rate_limit_allowed('key:' || :key, $limit, '$AGE', algorithm => a);
SCRIPT
	'16 clients on 1,000 keys: no error');

foreach my $algorithm (@ALGORITHMS)
{
	is( value($node, <<SQL),
SELECT count(*), min(n), max(n)
  FROM (SELECT count(*) AS n FROM admitted WHERE algorithm = '$algorithm' GROUP BY key) AS k
SQL
		"$keys|$limit|$limit",
		"fault 15: each of 1,000 keys admitted exactly its limit, $algorithm");
}

is( value($node, 'SELECT count(*), sum(used) FROM rate_limit_keys'),
	4 * $keys . '|' . 4 * $keys * $limit,
	'fault 12: each key and algorithm has a counter of its own, and no other is there'
);

# Keys are told apart by all their bytes: among 300,000 keys ten pairs would
# share a hash of 32 bits.
is( value($node, <<SQL),
SELECT count(*) FROM generate_series(1, 300000) AS g WHERE rate_limit_allowed('one of many ' || g, 1, '1 day')
SQL
	'300000', 'fault 12: no two of 300,000 keys share a counter');
is(value($node, 'SELECT counters >= 300000, evictions FROM rate_limit_info'),
	't|0', 'and there is room for them');

$node->stop;
done_testing();
