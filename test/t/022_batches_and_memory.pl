# rate_limit_check_all and memory: counters that shrink while others grow, the
# same counter many times, more than there is room for; and replays, which must
# not drop what is live.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main', conf => "rate_limit.memory = '1MB'\n");

sub info { return value($node, "SELECT $_[0] FROM rate_limit_info"); }

# A counter of 40 hits that have left needs less memory than it has.
$node->safe_psql('postgres', <<'SQL');
SELECT count(*) FROM generate_series(1, 200) AS g WHERE rate_limit_allowed('stranger ' || g, 20, '1 hour');
SELECT count(*) FROM generate_series(1, 40) AS g WHERE rate_limit_allowed('shrinks', 100, '100 ms');
SELECT pg_sleep(0.15);
SQL
is( value($node, "SELECT allowed, used FROM rate_limit_check_all('{shrinks}', '{100}', '{100 ms}')"),
	't|1', 'a counter that shrinks is charged');
is(info('counters, evictions, refused_full'),
	'201|0|0', 'fault 24: and nothing is dropped for it');

# Room that no dropping could make: nothing is dropped, and the rest goes on.
my $huge = <<'SQL';
SELECT count(*), bool_or(allowed), count(retry_after)
  FROM rate_limit_check_all(array_fill(repeat('k', 1000), '{1000}'), array_fill(20::int8, '{1000}'),
	(SELECT array_agg(make_interval(secs => 3600 + g)) FROM generate_series(1, 1000) AS g))
SQL
is(value($node, $huge), '1000|f|0', 'what cannot fit is refused for ever');
is(info('counters, evictions'), '201|0', 'and nothing is dropped for it');
is( value($node, "SELECT count(*) FROM generate_series(1, 20000) AS g WHERE rate_limit_allowed('after ' || g, 20, '1 hour')"),
	20000, 'new keys find room afterwards');

# What one counter gives back is not given to another before it is there.
$node->safe_psql('postgres', <<'SQL');
DO $$
BEGIN
    FOR round IN 1 .. 5 LOOP
        PERFORM rate_limit_reset_prefix('');
        FOR i IN 1 .. 100 LOOP PERFORM rate_limit_allowed('log', 100, '300 ms'); END LOOP;
        FOR i IN 1 .. 9000 LOOP
            PERFORM rate_limit_allowed('refused ' || i, 1, '1 hour') FROM generate_series(1, 2);
        END LOOP;
        PERFORM pg_sleep(0.35);
        FOR n IN 3 .. 8 LOOP
            PERFORM rate_limit_check_all(array_fill('log'::text, ARRAY[n + 1]), array_fill(100::int8, ARRAY[n + 1]),
                (SELECT array_agg(make_interval(secs => 1000 * round + g)) FROM generate_series(1, n) AS g)
                || interval '300 ms');
        END LOOP;
    END LOOP;
END $$;
SQL
is( value($node, "SELECT count(*) FROM rate_limit_keys WHERE used > \"limit\""),
	0, 'counters that grow and shrink in a full partition');

# One counter many times, refused, on a counter that keeps expiring.
$node->safe_psql('postgres', <<'SQL');
DO $$
BEGIN
    FOR i IN 1 .. 5000 LOOP
        PERFORM rate_limit_allowed('often', 2, '1 us');
        PERFORM rate_limit_check_all(array_fill('often'::text, ARRAY[3 + i % 150]),
            array_fill(2::int8, ARRAY[3 + i % 150]), array_fill(interval '1 us', ARRAY[3 + i % 150]));
    END LOOP;
END $$;
SQL
is( value($node, "SELECT bool_or(allowed) FROM rate_limit_check_all(array_fill('often'::text, '{3}'), '{2,2,2}', array_fill(interval '1 us', '{3}')) WHERE ord = 3"),
	'f', 'one counter many times in one call');

# A replay far ahead, and one in the past, beside live counters and blocks.
$node->safe_psql('postgres', <<'SQL');
SELECT rate_limit_reset_prefix('');
SELECT rate_limit_check_at('2020-01-01 00:00+00', 'past', 20, '1 hour');
SELECT rate_limit_block('blocked ' || g, '1 day') FROM generate_series(1, 50) AS g;
SELECT rate_limit_allowed('live ' || g, 20, '1 hour', 10) FROM generate_series(1, 100) AS g;
SELECT rate_limit_check_at('2040-01-01 00:00+00', 'ahead ' || g, 20, '1 hour') FROM generate_series(1, 3000) AS g;
SQL
is( value($node, "SELECT (SELECT count(*) FROM rate_limit_blocks), (SELECT count(*) FROM rate_limit_keys WHERE key LIKE 'live%')"),
	'50|100', 'fault 24: a replay ahead of time drops no block and no live counter');
is( value($node, "SELECT used FROM rate_limit_peek_at('2020-01-01 00:30+00', 'past', 20, '1 hour')"),
	1, 'a replay of the past survives live calls');

# The clock is set back on counters that refuse, while no memory is free: re-timed
# above exact_hits they would need more.
$node->safe_psql('postgres', <<'SQL');
SELECT rate_limit_reset_prefix(''), count(rate_limit_unblock('blocked ' || g)) FROM generate_series(1, 50) AS g;
SELECT rate_limit_check_at('2030-01-01 00:00+00', lpad('x' || g, 44, 'k'), 100, '1 day', cost)
  FROM generate_series(1, 40) AS g, unnest('{1,100}'::int[]) AS cost;
SELECT rate_limit_check_at('2030-01-01 00:00+00', lpad('y' || g, 44, 'k'), 100, '1 day', cost)
  FROM generate_series(1, 40) AS g, unnest('{1,1,100}'::int[]) AS cost;
DO $$
DECLARE
    refused int := 0;
BEGIN
    FOR i IN 1 .. 100000 LOOP
        refused := CASE WHEN rate_limit_allowed('full ' || i, 1, '1 day') THEN 0 ELSE refused + 1 END;
        PERFORM rate_limit_allowed('full ' || i, 1, '1 day');
        EXIT WHEN refused = 400;
    END LOOP;
END $$;
SQL
is( value($node, <<'SQL'),
SELECT count(*), bool_or(r.allowed) FROM generate_series(1, 40) AS g,
	rate_limit_check_at('2029-12-31 23:00+00', lpad('x' || g, 44, 'k'), 200, '1 day', 200) AS r
SQL
	'40|f', 'fault 9: a clock that steps back while memory is full');
is( value($node, <<'SQL'),
SELECT count(*), min(r.used), max(r.used) FROM generate_series(1, 40) AS g,
	rate_limit_adjust_at('2030-01-01 00:00+00', lpad('y' || g, 44, 'k'), 100, '1 day', -1) AS r
SQL
	'40|1|1', 'and giving back needs no memory');

$node->stop;
done_testing();
