# The clock is the server's at the moment of the decision, not the start of the
# transaction or of the statement.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');

my $call = <<SQL;
SELECT string_agg(left(rate_limit_allowed('pausing', 1, '1 s', algorithm => a)::text, 1), '' ORDER BY a)
  FROM unnest('{sliding_window,anchored_window,token_bucket}'::text[]) AS a
SQL
is( $node->safe_psql(
		'postgres', <<SQL),
BEGIN;
$call;
$call;
SELECT pg_sleep(1);
$call;
COMMIT;
SQL
	"ttt\nfff\n\nttt",
	'fault 19: time passes within a transaction');

is( value($node, <<SQL),
SELECT string_agg(left(allowed::text, 1), '' ORDER BY g)
  FROM (SELECT g, CASE WHEN g = 3 THEN pg_sleep(1) END, rate_limit_allowed('statement', 1, '1 s') AS allowed
          FROM generate_series(1, 4) AS g OFFSET 0) AS s
SQL
	'tftf',
	'fault 19: time passes within a statement');

# The window of a hit starts when it is made, not when its transaction started.
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN;');
$session->query_safe('SELECT pg_sleep(1);');
$session->query_safe("SELECT rate_limit_check('late', 1, '1 hour');");
is( value($node, <<SQL),
SELECT allowed, retry_after BETWEEN 3595 AND 3600, reset_at - clock_timestamp() BETWEEN '3595 s' AND '3600 s'
  FROM rate_limit_check('late', 1, '1 hour')
SQL
	'f|t|t',
	'fault 19: a hit late in a long transaction counts from when it was made');
is( $session->query_safe(<<SQL),
SELECT reset_at > now() + interval '1 hour 1 second' FROM rate_limit_peek('late', 1, '1 hour');
SQL
	't',
	'fault 19: and not from the start of the transaction');
is( $session->query_safe(<<SQL),
SELECT reset_at BETWEEN clock_timestamp() - interval '1 s' AND clock_timestamp() AND reset_at > now() + interval '1 s'
  FROM rate_limit_peek('unused', 1, '1 hour');
SQL
	't',
	'fault 19: reset_at of an unused key is the instant of the call');
$session->query_safe('COMMIT;');
$session->quit;

# What retry_after promises is what the clock keeps: call until refused, sleep,
# call again.
$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION allowed_after_sleep(algorithm text) RETURNS bool LANGUAGE plpgsql AS \$\$
DECLARE
    r rate_limit_result;
BEGIN
    LOOP
        r := rate_limit_check('retry', 3, '0.4 s', algorithm => algorithm);
        EXIT WHEN NOT r.allowed;
    END LOOP;
    PERFORM pg_sleep(r.retry_after);
    RETURN r.retry_after > 0 AND r.retry_after <= 0.4
           AND rate_limit_allowed('retry', 3, '0.4 s', algorithm => algorithm);
END \$\$;
SQL
foreach my $algorithm (@ALGORITHMS)
{
	is(value($node, "SELECT allowed_after_sleep('$algorithm')"),
		't',
		"fault 5: a retry after a sleep of retry_after is admitted, $algorithm");
}

# 200 a second for a second, asked for much faster than that: the bucket fills
# while it is polled, and no fraction of a token is lost or given twice.
is( $node->safe_psql(
		'postgres', <<SQL),
CREATE TABLE polls (asked int, admitted int, least numeric, most numeric);
DO \$\$
DECLARE
    before timestamptz := clock_timestamp();
    emptied timestamptz;
    last_call timestamptz;
    asked int := 0;
    admitted int := 0;
    passed bool;
BEGIN
    PERFORM rate_limit_check('polled', 200, '1 s', 200, 'token_bucket');
    emptied := clock_timestamp();
    LOOP
        last_call := clock_timestamp();
        asked := asked + 1;
        passed := rate_limit_allowed('polled', 200, '1 s', algorithm => 'token_bucket');
        admitted := admitted + passed::int;
        EXIT WHEN NOT passed AND last_call > emptied + interval '1 s';
    END LOOP;
    INSERT INTO polls VALUES (asked, admitted, floor(extract(epoch FROM last_call - emptied) * 200),
                              floor(extract(epoch FROM clock_timestamp() - before) * 200));
END \$\$;
SELECT asked > 2 * admitted, admitted BETWEEN least AND most FROM polls;
SQL
	't|t',
	'fault 8: a bucket that is polled faster than its rate fills all the same');

$node->stop;
done_testing();
