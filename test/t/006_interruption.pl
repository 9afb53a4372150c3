# Statements are cancelled, time out and lose their sessions while 16 clients
# call: nothing is stuck and no hit is lost.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');
my $limit = 1_000_000_000;

# A bucket that gets no whole token while the test runs.
my %call = map { $_ => "$limit, '$AGE', algorithm => '$_'" } @ALGORITHMS;
$call{token_bucket} = "1, '$AGE', algorithm => 'token_bucket', burst => $limit";

# The short statements record what was admitted on one key an algorithm.  The
# long ones hit "long 0" to "long 9" until they are stopped.
$node->safe_psql('postgres', 'CREATE TABLE admitted (key text)');
my $script = "SET statement_timeout = '40ms';\n";
foreach my $round (1 .. 40)
{
	foreach my $n (1 .. 40)
	{
		my $algorithm = $ALGORITHMS[ $n % 4 ];
		my $key = "key $algorithm";

		$script .=
		  "INSERT INTO admitted SELECT '$key' FROM rate_limit_check('$key', $call{$algorithm}) WHERE allowed;\n";
	}
	$script .=
	  "SELECT count(*) FROM generate_series(1, 10000000) AS g, rate_limit_check('long ' || g % 10, $limit, '$AGE');\n";
	$script .=
	  "SELECT count(*) FROM generate_series(1, 10000000) AS g, rate_limit_check_all(ARRAY['long ' || g % 10, 'long ' || g % 7], '{$limit,$limit}', '{$AGE,$AGE}');\n";
}
my $file = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
append_to_file($file, $script);

sub start_client
{
	my %client = (out => '', err => '');

	$client{handle} = IPC::Run::start(
		[
			'psql', '-X', '-A', '-q', '-t',
			'-v', 'VERBOSITY=sqlstate',
			'-f', $file,
			connection($node)
		],
		'<', \undef,
		'>', \$client{out},
		'2>', \$client{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return \%client;
}

# Another session interrupts one of them at a time, some by ending the session.
my @clients = map { start_client() } 1 .. 16;
my $interrupted = $node->safe_psql(
	'postgres', <<'SQL');
CREATE TABLE interruptions (ended bool);
CREATE PROCEDURE interrupt() LANGUAGE plpgsql AS $$
DECLARE
    victim int;
    ended bool;
BEGIN
    FOR i IN 1 .. 300 LOOP
        ended := i % 30 = 0;
        SELECT pid INTO victim FROM pg_stat_activity
         WHERE pid <> pg_backend_pid() AND state = 'active' AND query ~ '^(INSERT|SELECT count).*rate_limit_check'
         ORDER BY random() LIMIT 1;
        IF victim IS NOT NULL THEN
            IF ended THEN
                PERFORM pg_terminate_backend(victim);
            ELSE
                PERFORM pg_cancel_backend(victim);
            END IF;
            INSERT INTO interruptions VALUES (ended);
        END IF;
        COMMIT;
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
CALL interrupt();
SELECT count(*) FILTER (WHERE NOT ended) > 100, count(*) FILTER (WHERE ended) >= 5 FROM interruptions;
SQL
is($interrupted, 't|t', 'statements were cancelled and sessions ended in mid-load');

# 57014 is a cancelled statement; an ended session is no ERROR but FATAL.
my %errors;
foreach my $client (@clients)
{
	$client->{handle}->finish;
	$errors{$1}++ while $client->{err} =~ /ERROR: +(\w+)/g;
}
note("errors seen by the clients: "
	  . join(', ', map { "$_ $errors{$_} times" } sort keys %errors));
my $stopped = delete $errors{57014} // 0;
cmp_ok($stopped, '>', 300,
	'statements in the middle of ten million calls were stopped');
is_deeply([ sort keys %errors ], [], 'and no call failed for another reason');

is( value($node,
		"SELECT count(*) FROM pg_stat_activity WHERE query ~ 'rate_limit_check' AND state = 'active' AND pid <> pg_backend_pid()"
	),
	'0',
	'no session is left behind at work');

# Nothing is stuck: every counter answers within a second.
my @keys =
  ((map { [ "key $_", $_ ] } @ALGORITHMS),
	(map { [ "long $_", 'sliding_window' ] } 0 .. 9));
my @answers = map {
	scalar $node->psql('postgres',
		"SET statement_timeout = '1s'; SELECT rate_limit_check('$_->[0]', $call{$_->[1]})"
	)
} @keys;
is_deeply(\@answers, [ (0) x @keys ],
	'a call on each key that was interrupted answers within a second');

# Nothing is lost: what clients recorded was counted, and one call of the loop
# above.  A call whose INSERT was stopped is counted but not recorded.
is( value($node, <<SQL),
SELECT a.key, a.recorded, k.used
  FROM (SELECT key, count(*) AS recorded FROM admitted GROUP BY key) AS a
       FULL JOIN (SELECT * FROM rate_limit_keys WHERE key LIKE 'key %') AS k USING (key)
 WHERE a.recorded IS NULL OR k.used IS NULL
    OR NOT k.used - 1 BETWEEN a.recorded AND a.recorded + $stopped + 16
SQL
	'',
	'every recorded admission is counted, and no more than was called');

# And afterwards the counters are exact.
my $before = value($node, "SELECT sum(used) FROM rate_limit_keys");
ok( run_pgbench(
		$node,
		{
			clients => 16,
			transactions => 100,
			script => <<"SCRIPT" }),
\\set n random(0, 9)
SELECT rate_limit_check('long ' || :n, $limit, '$AGE'), rate_limit_check('key token_bucket', $call{token_bucket});
SCRIPT
	'16 clients call again without an error');
is(value($node, "SELECT sum(used) - $before FROM rate_limit_keys"),
	'3200', 'and exactly their calls are counted');

# All the memory comes back.
$node->safe_psql('postgres', "SELECT rate_limit_reset_prefix('')");
is( value($node, 'SELECT counters, blocks FROM rate_limit_info'),
	'0|0', 'no counter is left after a reset');

$node->stop;
done_testing();
