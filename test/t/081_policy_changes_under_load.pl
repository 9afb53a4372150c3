# A hundred sessions call without a pause while limits go up and down: no call
# that begins after a commit has returned is decided by what was before.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');

# Change number n names the rule after itself.  Odd ones let nobody pass.  One
# key has an override, whose limit is the number.
$node->safe_psql('postgres', <<SQL);
CREATE UNLOGGED TABLE changes (n int, began timestamptz, committed timestamptz);
CREATE UNLOGGED TABLE calls (began timestamptz, ended timestamptz, key text, allowed bool, "limit" int8, n int);

INSERT INTO rate_limit_policies (policy, rule, "limit", "window") VALUES ('plan', '0', 1000000000, '$AGE');
INSERT INTO rate_limit_overrides (policy, key, "limit") VALUES ('plan', 'key 0', 0);

CREATE PROCEDURE change(times int) LANGUAGE plpgsql AS \$\$
DECLARE
    began timestamptz;
BEGIN
    FOR i IN 1 .. times LOOP
        began := clock_timestamp();
        UPDATE rate_limit_policies SET rule = i, "limit" = CASE i % 2 WHEN 0 THEN 1000000000 ELSE 0 END;
        UPDATE rate_limit_overrides SET "limit" = i;
        COMMIT;
        INSERT INTO changes VALUES (i, began, clock_timestamp());
        COMMIT;
        PERFORM pg_sleep(0.01);
    END LOOP;
END \$\$;

CREATE FUNCTION call(client int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
    key text := 'key ' || client % 4;
    began timestamptz;
    r record;
BEGIN
    FOR i IN 1 .. 10 LOOP
        began := clock_timestamp();
        r := rate_limit_enforce('plan', key, CASE key WHEN 'key 0' THEN 0 ELSE 1 END);
        INSERT INTO calls VALUES (began, clock_timestamp(), key, r.allowed, r."limit", r.rule::int);
        PERFORM pg_sleep(0.01 * random());
    END LOOP;
END \$\$;
SQL

my @processes = map {
	local $ENV{PGOPTIONS} = "-c default_transaction_isolation=$_";

	start_pgbench(
		$node,
		clients => 50,
		transactions => 50,
		script => "SELECT call(:client_id);\n");
} 'read\ committed', 'repeatable\ read';
$node->safe_psql('postgres', 'CALL change(200)');
ok(finish_pgbench(@processes), 'a hundred sessions call without an error');

# What a call may know: the last change that was committed when it began, to the
# last one that had begun when it ended.
$node->safe_psql('postgres', <<'SQL');
CREATE INDEX ON changes (committed);
CREATE INDEX ON changes (began);
CREATE TABLE judged AS
    SELECT c.*, coalesce(lowest.n, 0) AS lowest, coalesce(highest.n, 0) AS highest
      FROM calls AS c
           LEFT JOIN LATERAL (SELECT h.n FROM changes AS h WHERE h.committed < c.began ORDER BY h.committed DESC LIMIT 1) AS lowest ON true
           LEFT JOIN LATERAL (SELECT h.n FROM changes AS h WHERE h.began < c.ended ORDER BY h.began DESC LIMIT 1) AS highest ON true;
SQL
note('calls, changes seen, calls during a change: '
	  . value($node, 'SELECT count(*), count(DISTINCT n), count(*) FILTER (WHERE lowest < highest) FROM judged'));
is( value($node, 'SELECT count(*), count(DISTINCT n) > 50, count(*) FILTER (WHERE lowest > 0) > 1000 FROM judged'),
	'50000|t|t', 'between them the limit has changed many times');
is( value($node, 'SELECT * FROM judged WHERE n NOT BETWEEN lowest AND highest LIMIT 10'),
	'', 'no call is decided by a policy from before a commit, or not committed yet');
is( value($node, q(SELECT * FROM judged WHERE key = 'key 0' AND "limit" NOT BETWEEN lowest AND highest LIMIT 10)),
	'', 'nor by such an override');
is( value($node, <<'SQL'),
SELECT * FROM judged
 WHERE key <> 'key 0' AND (allowed, "limit") IS DISTINCT FROM (n % 2 = 0, CASE n % 2 WHEN 0 THEN 1000000000 ELSE 0 END)
 LIMIT 10
SQL
	'', 'with a limit of 0 all were refused, with the other none');
is( value($node, <<'SQL'),
SELECT k.rule FROM rate_limit_keys AS k
       FULL JOIN (SELECT key, n::text AS rule, count(*) FROM calls WHERE allowed AND key <> 'key 0' GROUP BY key, n) AS c
       USING (key, rule)
 WHERE k.used IS DISTINCT FROM c.count
SQL
	'', 'and each is counted by the rule that admitted it');
note('other rule than override: ' . value($node, q(SELECT count(*), count(*) FILTER (WHERE n <> "limit") FROM judged WHERE key = 'key 0')));

$node->stop;
done_testing();
