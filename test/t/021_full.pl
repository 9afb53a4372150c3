# Memory full of counters that must not be dropped: calls of new keys are refused
# and not failed, known keys go on, and what cannot be recorded is an error.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main', conf => "rate_limit.memory = '1MB'\n");

# Makes keys that have refused a call until none of 200 new ones finds room;
# returns how many it has tried.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION fill(prefix text, "window" interval) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    in_vain int := 0;
BEGIN
    FOR i IN 1 .. 100000 LOOP
        in_vain := CASE WHEN rate_limit_allowed(prefix || i, 1, "window") THEN 0 ELSE in_vain + 1 END;
        PERFORM rate_limit_check(prefix || i, 1, "window");
        IF in_vain = 200 THEN
            RETURN i;
        END IF;
    END LOOP;
END $$;
SQL

sub info { return value($node, "SELECT $_[0] FROM rate_limit_info"); }

$node->safe_psql('postgres', "SELECT rate_limit_check('first', 1, '1 day'), rate_limit_reset('first')");
my $start = info('bytes_used');

# Two keys with one hit of a hundred, kept because each has refused a large call.
$node->safe_psql(
	'postgres', <<SQL);
SELECT rate_limit_check('known', 100, '1 day', cost) FROM unnest('{1,100}'::int[]) AS cost;
SELECT rate_limit_check('fixed', 100, '$AGE', cost, 'fixed_window') FROM unnest('{1,100}'::int[]) AS cost;
SQL
$node->safe_psql('postgres', "SELECT fill('full ', '1 day')");
note('keys that refuse and fill 1MB: ' . info('counters'));

is( value($node, <<SQL),
SELECT allowed, used, remaining, retry_after BETWEEN 86000 AND 86400,
       abs(extract(epoch FROM reset_at - clock_timestamp()) - retry_after) < 1
  FROM rate_limit_check('new', 20, '1 day')
SQL
	'f|0|0|t|t',
	'fault 24: a new key is refused until a protected counter lets go');
my $refused = info('refused_full');
is( value($node, <<SQL),
SELECT count(*) FROM generate_series(1, 100) AS g, rate_limit_check('new ' || g, 20, '1 day') AS r
 WHERE NOT r.allowed AND r.retry_after > 0
SQL
	'100', 'fault 24: no new key is admitted uncounted');
is(info('refused_full') - $refused, 100, 'and the refusals are counted');
is( value($node, <<SQL),
SELECT bool_or(allowed) FROM rate_limit_check_all('{known,new}', '{100,20}', '{1 day,1 day}') WHERE key = 'new'
SQL
	'f', 'rate_limit_check_all refuses because of a new key');
fails_with($node, "SELECT rate_limit_require('new', 20, '1 day')",
	'RL429', 'rate limit exceeded', 'rate_limit_require refuses a new key');
fails_with($node, "SELECT rate_limit_block('new')",
	'53200', '', 'rate_limit_block says that it could not block');
fails_with($node, "SELECT rate_limit_adjust('new', 20, '1 day', 5)",
	'53200', '', 'rate_limit_adjust says that it could not record');
is( value($node, "SELECT allowed FROM rate_limit_adjust('new', 20, '1 day', -5)"),
	't', 'a negative adjustment of an unknown key has nothing to record');
is( value($node, "SELECT count(*) FROM rate_limit_keys WHERE key LIKE 'new%'"),
	0, 'no new key left a counter');

# Known keys: their hit logs may have to grow.
my $known =
  value($node, "SELECT used FROM rate_limit_peek('known', 100, '1 day')");
is($known, 1, 'a refused rate_limit_check_all charged nothing on the known key');
my ($exit, $admitted, $err) = $node->psql(
	'postgres', <<SQL);
SELECT count(*) FROM generate_series(1, 150) AS g WHERE rate_limit_allowed('known', 100, '1 day');
SQL
is($err, '', 'fault 24: a known key never fails when memory is full');
cmp_ok($admitted, '<=', 99, 'and is not admitted above its limit');
note("$admitted of 99 admitted on the known key");
is( value($node, <<SQL),
SELECT count(*) FROM generate_series(1, 150) AS g
 WHERE rate_limit_allowed('fixed', 100, '$AGE', algorithm => 'fixed_window')
SQL
	99, 'a known key that needs no more memory is admitted up to its limit');
is( value($node, "SELECT bool_or(rate_limit_allowed(key, 1, '1 day')) FROM rate_limit_keys WHERE key LIKE 'full %'"),
	'f', 'every refusing key goes on refusing');

# A key that is reset makes room.
$node->safe_psql('postgres',
	"SELECT sum(rate_limit_reset('full ' || g)) FROM generate_series(1, 3000) AS g");
is( value($node, "SELECT bool_and(rate_limit_allowed('room ' || g, 20, '1 day')) FROM generate_series(1, 100) AS g"),
	't', 'memory of reset keys is there for new ones');
$node->safe_psql('postgres', "SELECT rate_limit_reset_prefix('')");
is(info('counters, bytes_used'), "0|$start", 'fault 23: nothing leaks');

# The promise of retry_after when memory is full.
$node->safe_psql('postgres', "SELECT fill('short ', '2 s')");
is( $node->safe_psql(
		'postgres', <<'SQL'),
SELECT allowed AS "before", retry_after FROM rate_limit_check('patient', 1, '1 day') \gset
SELECT :'before', :retry_after BETWEEN 0 AND 2;
SELECT FROM pg_sleep(:retry_after);
SELECT rate_limit_allowed('patient', 1, '1 day');
SQL
	"f|t\nt",
	'fault 24: a retry after retry_after finds room');
$node->safe_psql('postgres', "SELECT pg_sleep(2), rate_limit_reset_prefix('')");

# Blocks until no more fit; they all hold.
($exit, my $out, $err) = $node->psql('postgres', <<'SQL');
DO $$
BEGIN
    FOR i IN 1 .. 100000 LOOP
        PERFORM rate_limit_block('block ' || i);
    END LOOP;
EXCEPTION WHEN out_of_memory THEN
    RAISE NOTICE 'full';
END $$;
SQL
like($err, qr/NOTICE:  full/, 'fault 24: blocks are not dropped for other blocks');
my $blocks = info('blocks');
cmp_ok($blocks, '>', 1000, 'many blocks fit');
is( value($node, "SELECT count(*), count(*) FILTER (WHERE (rate_limit_check(key, 5, '1 day')).rule = 'block') FROM rate_limit_blocks"),
	"$blocks|$blocks", 'and each of them refuses');
is( value($node, "SELECT bool_and(rate_limit_unblock('block ' || g)) FROM generate_series(1, $blocks) AS g"),
	't', 'all can be lifted');
is(info('counters, blocks, bytes_used'), "0|0|$start", 'fault 23: and their memory comes back');

$node->stop;
done_testing();
