# Memory full of counters that must not be dropped: a rule in shadow mode that
# finds no room for its own counter keeps no other rule from being charged.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main', conf => "rate_limit.memory = '1MB'\n");

# Keys that the enforced rule knows, protected because a large call was refused.
$node->safe_psql('postgres', <<SQL);
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, store, mode) VALUES
    ('memory', 'enforced', 10, '$AGE', 'fixed_window', 'memory', 'enforce'),
    ('table',  'enforced', 10, '$AGE', 'fixed_window', 'table',  'enforce');
SELECT count(allowed) FROM generate_series(1, 20) AS i, unnest('{1,10}'::int[]) AS cost, rate_limit_enforce('memory', 'key ' || i, cost);

-- until none of 200 new keys finds room
DO \$\$
DECLARE
    in_vain int := 0;
BEGIN
    FOR i IN 1 .. 100000 LOOP
        in_vain := CASE WHEN rate_limit_allowed('full ' || i, 1, '$AGE') THEN 0 ELSE in_vain + 1 END;
        PERFORM rate_limit_check('full ' || i, 1, '$AGE');
        EXIT WHEN in_vain = 200;
    END LOOP;
END \$\$;
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, store, mode)
    SELECT policy, 'shadow ' || i, 3, '$AGE', 'sliding_window', 'memory', 'shadow'
      FROM unnest('{memory,table}'::text[]) AS policy, generate_series(1, 2) AS i;
SQL
is( value($node, q(SELECT count(*) FROM rate_limit_keys WHERE policy = 'memory' AND used = 1)),
	20, 'the known keys are there');

foreach my $policy ('memory', 'table')
{
	my $before = $policy eq 'memory' ? 1 : 0;
	my $left = 10 - $before;

	is( value($node, <<SQL),
SELECT DISTINCT string_agg(concat(left(allowed::text, 1), used), ' ' ORDER BY n) FROM (
    SELECT i, n, r.allowed, r.used FROM generate_series(1, 20) AS i, generate_series(1, 12) AS n, rate_limit_enforce('$policy', 'key ' || i, sign(n)::int) AS r) AS s
 GROUP BY i
SQL
		join(' ', (map { "t$_" } $before + 1 .. 10), ('f10') x (12 - $left)),
		"fault 24: what is admitted is charged, enforced in $policy");
	is( value($node, <<SQL),
SELECT DISTINCT rule, used, allowed FROM generate_series(1, 20) AS i, rate_limit_usage('$policy', 'key ' || i) WHERE rule = 'enforced'
SQL
		'enforced|10|f', "up to the limit of each key, $policy");
	is( value($node, "SELECT allowed, refused, shadow_refused FROM rate_limit_stats WHERE policy = '$policy' AND rule = 'enforced'"),
		$policy eq 'memory' ? '200|80|0' : '200|40|0', "and is counted, $policy");
	is( value($node, <<SQL),
SELECT rule, allowed, refused, allowed + shadow_refused BETWEEN @{[ 20 * $left ]} AND 240, shadow_refused > 0
  FROM rate_limit_stats WHERE policy = '$policy' AND rule LIKE 'shadow%' ORDER BY rule
SQL
		"shadow 1|0|0|t|t\nshadow 2|0|0|t|t", "the rules that find no room count that, $policy");
}
is(value($node, q(SELECT count(*) FROM rate_limit_keys WHERE rule LIKE 'shadow%')), 0, 'and have no counters');

# An enforced rule without room refuses for all, be it in the table that others are.
$node->safe_psql('postgres', <<SQL);
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", store) VALUES ('table', 'memory', 10, '$AGE', 'memory');
UPDATE rate_limit_policies SET "limit" = 20 WHERE rule = 'enforced';
SQL
is( value($node, q(SELECT DISTINCT r.allowed, r.used, r.rule FROM generate_series(1, 20) AS i, rate_limit_enforce('table', 'key ' || i) AS r)),
	'f|0|memory', 'fault 24: an enforced rule that finds no room refuses');
is( value($node, q(SELECT DISTINCT used FROM generate_series(1, 20) AS i, rate_limit_usage('table', 'key ' || i) WHERE rule = 'enforced')),
	'10', 'fault 13: and the other rule is not charged');

$node->stop;
done_testing();
