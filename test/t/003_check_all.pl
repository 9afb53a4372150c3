# rate_limit_check_all from 16 clients on overlapping keys in random order: all
# or nothing, and no deadlock.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');

# Thirty keys with costs and limits of their own.  Each call takes one to six of
# them in random order; what it was told is recorded.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE keys AS
    SELECT 'key ' || i AS key, 20 + 15 * i AS "limit", 1 + i % 3 AS cost FROM generate_series(1, 30) AS i;
CREATE TABLE calls (algorithm text, passed bool, keys text[], costs int8[], rows int, refusals int, strange int);

CREATE FUNCTION call(algorithm text) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
    k text[];
    l int8[];
    c int8[];
BEGIN
    SELECT array_agg(s.key), array_agg(s."limit"), array_agg(s.cost) INTO k, l, c
      FROM (SELECT * FROM keys ORDER BY random() LIMIT 1 + random() * 5) AS s;
    INSERT INTO calls
        SELECT call.algorithm, bool_and(r.allowed), k, c, count(*), count(*) FILTER (WHERE NOT r.allowed),
               count(*) FILTER (WHERE r.key <> k[r.ord] OR r."limit" <> l[r.ord] OR r.used > r."limit"
                                OR r.remaining <> r."limit" - r.used OR r.allowed <> (r.retry_after = 0))
          FROM rate_limit_check_all(k, l, array_fill('$AGE'::interval, ARRAY[cardinality(k)]), c, algorithm) AS r;
END \$\$;
SQL

foreach my $algorithm (@ALGORITHMS)
{
	ok( run_pgbench(
			$node,
			{
				clients => 16,
				transactions => 250,
				script => "SELECT call('$algorithm');\n"
			}),
		"fault 16: keys in random order from 16 clients make no deadlock and no error, $algorithm"
	);

	is( value($node, <<SQL),
SELECT count(*), count(*) FILTER (WHERE passed) > 100, count(*) FILTER (WHERE NOT passed) > 100
  FROM calls WHERE algorithm = '$algorithm'
SQL
		'4000|t|t',
		"some calls passed, others were refused, $algorithm");

	is( value($node, <<SQL),
SELECT k.key, p.used, coalesce(c.charged, 0)
  FROM keys AS k
       CROSS JOIN LATERAL rate_limit_peek(k.key, k."limit", '$AGE', algorithm => '$algorithm') AS p
       LEFT JOIN (SELECT u.key, sum(u.cost) AS charged
                    FROM calls, unnest(keys, costs) AS u(key, cost)
                   WHERE algorithm = '$algorithm' AND passed
                   GROUP BY u.key) AS c USING (key)
 WHERE p.used <> coalesce(c.charged, 0) OR p.used > k."limit"
SQL
		'',
		"fault 13: on every key the charge is the sum of the admitted calls' costs, $algorithm"
	);

	is( value($node, <<SQL),
SELECT count(*) FROM calls
 WHERE algorithm = '$algorithm'
   AND (strange > 0 OR rows <> cardinality(keys) OR passed <> (refusals = 0))
SQL
		'0',
		"fault 13: a refused call names the limits that refused, $algorithm");
}

# The same with a limit that is never reached: nothing else can refuse.
my $order = join ',', map { "'shared $_'" } 1 .. 8;
ok( run_pgbench(
		$node,
		{
			clients => 16,
			transactions => 500,
			script => <<"SCRIPT" }),
SELECT bool_and(allowed) FROM rate_limit_check_all((SELECT array_agg(k ORDER BY random()) FROM unnest(ARRAY[$order]) AS k), array_fill(1000000::int8, ARRAY[8]), array_fill('$AGE'::interval, ARRAY[8]));
SCRIPT
	'fault 16: eight keys in random order from 16 clients make no deadlock');
is( value($node,
		"SELECT DISTINCT used FROM rate_limit_keys WHERE key LIKE 'shared %'"),
	'8000',
	'every call was charged once on each of its keys');

$node->stop;
done_testing();
