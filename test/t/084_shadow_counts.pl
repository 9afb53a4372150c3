# A rule in shadow mode counts as would-be refusals exactly what it refuses when
# it is enforced: over random histories, in every algorithm and store, and when
# all limits are in shadow mode.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');
my $seed = int(rand(1_000_000));

note("seed $seed");
is(value($node, 'SELECT count(*) FROM rate_limit_stats'), '0', 'nothing is counted at first');

# Random histories: six keys, a call every two seconds or so that costs 1 to 3,
# now and then nothing or too much.  One clock is set back often, the other is
# steady.
$node->safe_psql('postgres', <<SQL);
SELECT setseed($seed / 1000000.0);
CREATE TABLE histories AS
    SELECT i, 'key ' || (random() * 5)::int AS key, (random() * 2 + 1)::int + CASE i % 50 WHEN 0 THEN 100 ELSE 0 END AS cost,
           timestamptz '2100-01-01 00:00Z' + i * interval '1.7 s' * (1 + random() / 3) AS at,
           timestamptz '2100-01-01 00:00Z' + i * interval '1.7 s' AS steady
      FROM generate_series(1, 1200) AS i ORDER BY i;
UPDATE histories SET cost = 0 WHERE i % 31 = 0;

INSERT INTO rate_limit_policies (policy, "limit", "window", algorithm, burst, store, mode)
    SELECT concat_ws(' ', algorithm, store, mode), 8, '1 min', algorithm, CASE algorithm WHEN 'token_bucket' THEN 5 END, store, mode
      FROM unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) AS algorithm, unnest('{memory,table}'::text[]) AS store,
           unnest('{enforce,shadow}'::text[]) AS mode;
CREATE TABLE answers AS
    SELECT p.policy, p.algorithm, p.store, p.mode, a.*
      FROM rate_limit_policies AS p CROSS JOIN LATERAL (
          SELECT h.*, r.allowed, r."limit", r.used, r.remaining
            FROM histories AS h, rate_limit_enforce_at(h.at, p.policy, p.policy || h.key, h.cost) AS r ORDER BY h.i) AS a;
SQL

is(value($node, q(SELECT count(*) FROM answers WHERE mode = 'shadow' AND NOT allowed)), '0', 'a rule in shadow mode admits all');
foreach my $algorithm (@ALGORITHMS)
{
	foreach my $store ('memory', 'table')
	{
		my $enforced = value($node, <<SQL);
SELECT count(*) FILTER (WHERE allowed), count(*) FILTER (WHERE NOT allowed)
  FROM answers WHERE cost > 0 AND policy = '$algorithm $store enforce'
SQL
		my ($allowed, $refused) = split /\|/, $enforced;

		cmp_ok($allowed * $refused, '>', 10_000, "the history has both: $allowed admitted, $refused refused, $algorithm, $store");
		is( value($node, "SELECT rule, allowed, refused, shadow_refused FROM rate_limit_stats WHERE policy = '$algorithm $store enforce'"),
			"default|$allowed|$refused|0", "what is told is counted, $algorithm, $store");
		is( value($node, "SELECT rule, allowed, refused, shadow_refused FROM rate_limit_stats WHERE policy = '$algorithm $store shadow'"),
			"default|$allowed|0|$refused", "fault 30: the rule in shadow mode counts the same, $algorithm, $store");
	}
	is( value($node, <<SQL),
SELECT i FROM answers WHERE algorithm = '$algorithm' GROUP BY i
HAVING count(*) <> 4 OR count(DISTINCT ("limit", used, remaining)) <> 1 LIMIT 10
SQL
		'', "fault 30: used and remaining are the same all the time, $algorithm");
}

# A rule in shadow mode beside one that is enforced counts as if it were alone
# with the calls that the other one lets pass.
$node->safe_psql('postgres', <<SQL);
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", mode) VALUES
    ('pair', 'wide', 30, '3 min', 'enforce'), ('pair', 'narrow', 8, '1 min', 'shadow'),
    ('alone', 'wide', 30, '3 min', 'enforce'), ('narrow', 'narrow', 8, '1 min', 'enforce');
CREATE TABLE pairs AS
    SELECT h.*, pair.allowed AS pair, alone.allowed AS alone
      FROM histories AS h, rate_limit_enforce_at(h.steady, 'pair', h.key, h.cost) AS pair,
           rate_limit_enforce_at(h.steady, 'alone', h.key, h.cost) AS alone ORDER BY h.i;
CREATE TABLE narrow AS
    SELECT h.*, r.allowed FROM pairs AS h, rate_limit_enforce_at(h.steady, 'narrow', h.key, h.cost) AS r WHERE h.alone ORDER BY h.i;
SQL
is(value($node, 'SELECT count(*) FROM pairs WHERE pair <> alone'), '0', 'a rule in shadow mode changes no answer');
is( value($node, <<'SQL'),
SELECT s.allowed = count(*) FILTER (WHERE n.allowed), count(*) FILTER (WHERE NOT n.allowed) BETWEEN 50 AND s.shadow_refused, s.refused
  FROM rate_limit_stats AS s, narrow AS n WHERE s.policy = 'pair' AND s.rule = 'narrow' AND n.cost > 0
 GROUP BY s.allowed, s.refused, s.shadow_refused
SQL
	't|t|0', 'and counts what it would have admitted and refused');

# The operator's switch: the same history ad hoc, and by policies.
$node->safe_psql('postgres', <<'SQL');
SELECT rate_limit_stats_reset();
SELECT count(r.allowed) FROM histories AS h, rate_limit_check_at(h.steady, 'ad hoc ' || h.key, 8, '1 min', h.cost) AS r;
SQL
my $ad_hoc = value($node, 'SELECT allowed, refused, shadow_refused FROM rate_limit_stats WHERE policy IS NULL');
is( value($node, <<'SQL'),
SET rate_limit.mode = shadow;
SELECT rate_limit_stats_reset();
SELECT bool_and(r.allowed) FROM histories AS h, rate_limit_check_at(h.steady, 'ad hoc in shadow ' || h.key, 8, '1 min', h.cost) AS r;
SELECT allowed, shadow_refused, refused FROM rate_limit_stats WHERE policy IS NULL;
SQL
	"\nt\n$ad_hoc", 'fault 30: rate_limit.mode = shadow counts calls ad hoc as they would have been decided');
$node->safe_psql('postgres', q(UPDATE rate_limit_policies SET mode = 'enforce'; SELECT rate_limit_reset_prefix('')));
my $reset = q(SELECT rate_limit_reset_prefix('') > 0; SELECT rate_limit_stats_reset(););
my $replay = q(SELECT bool_and(r.allowed) FROM histories AS h, rate_limit_enforce_at(h.steady, 'pair', h.key, h.cost) AS r;);
my $counts = q(FROM rate_limit_stats WHERE policy = 'pair' ORDER BY rule;);
my $enforced = value($node, "SELECT rate_limit_stats_reset(); $replay SELECT rule, allowed, refused, shadow_refused $counts");
like($enforced, qr/^\nf\nnarrow\|(\d{3,4})\|\d{2,3}\|0\nwide\|\1\|\d{2,3}\|0$/, 'two rules that are enforced');
my $in_shadow = value($node, "SET rate_limit.mode = shadow; $reset $replay SELECT rule, allowed, shadow_refused, refused $counts");
is($in_shadow, "t\n" . $enforced =~ s/^\nf/\nt/r, 'fault 30: and both in rate_limit.mode = shadow');

# Off: nothing is counted.
is( value($node, <<'SQL'),
SET rate_limit.mode = off;
SELECT rate_limit_stats_reset();
SELECT bool_and(r.allowed) FROM histories AS h, rate_limit_enforce_at(h.steady, 'pair', h.key, h.cost) AS r;
SELECT bool_and(r.allowed) FROM histories AS h, rate_limit_check_at(h.steady, h.key, 8, '1 min', h.cost) AS r;
SELECT sum(allowed), sum(refused), sum(shadow_refused) FROM rate_limit_stats;
SQL
	"\nt\nt\n0|0|0", 'when limits are off nothing is counted');

$node->stop;
done_testing();
