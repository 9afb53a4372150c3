# Policies with a rule in memory and a rule in the table, 16 clients at once:
# what one rule refuses is charged to none, whichever store it is in, and a
# refusal writes nothing.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');

# Each policy is named for the store whose rule is the smaller one, and for the
# algorithm of both.  A sequence counts what was admitted, also by transactions
# that roll back; the table, what was committed.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE committed (policy text, isolation text, cost int8);
CREATE FUNCTION sequence(policy text, isolation text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN quote_ident('admitted ' || policy || ' ' || isolation);

INSERT INTO rate_limit_policies (policy, rule, "limit", "window", algorithm, store)
    SELECT smaller || ' ' || algorithm, store, CASE store WHEN smaller THEN 400 ELSE 1500 END, '$AGE', algorithm, store
      FROM unnest('{memory,table}'::text[]) AS smaller, unnest('{memory,table}'::text[]) AS store,
           unnest('{@{[ join ',', @ALGORITHMS ]}}'::text[]) AS algorithm;
SELECT format('CREATE SEQUENCE %s', sequence(policy, isolation))
  FROM (SELECT DISTINCT policy FROM rate_limit_policies) AS p, unnest('{read committed,repeatable read,serializable}'::text[]) AS isolation
\\gexec

CREATE FUNCTION call(policy text, cost int8) RETURNS bool LANGUAGE plpgsql AS \$\$
DECLARE
    isolation text := current_setting('transaction_isolation');
    r record := rate_limit_enforce(policy, isolation, cost);
BEGIN
    IF r.allowed THEN
        INSERT INTO committed VALUES (policy, isolation, cost);
        FOR i IN 1 .. cost LOOP
            PERFORM nextval(sequence(policy, isolation));
        END LOOP;
    END IF;
    RETURN r.allowed;
END \$\$;
SQL

# One transaction in eight rolls back.
my $script = <<'SQL';
\set policy random(1, 8)
\set cost random(1, 3)
\set rollback random(1, 8)
BEGIN;
SELECT call((SELECT policy FROM rate_limit_policies GROUP BY policy ORDER BY policy OFFSET :policy - 1 LIMIT 1), :cost);
\if :rollback = 1
ROLLBACK;
\else
COMMIT;
\endif
SQL

sub counts
{
	return $node->safe_psql('postgres',
		q(SELECT n_tup_ins, n_tup_upd, n_tup_del, n_dead_tup FROM pg_stat_user_tables WHERE relname = 'rate_limit_state'));
}

my %transactions = ('read committed' => 500, 'repeatable read' => 250, 'serializable' => 250);
foreach my $isolation ('read committed', 'repeatable read', 'serializable')
{
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=' . $isolation =~ s/ /\\ /r;

	ok( run_pgbench(
			$node,
			{
				clients => 16,
				transactions => $transactions{$isolation},
				tries => 10_000,
				script => $script
			}),
		"16 clients call without an error, $isolation");

	# Until nothing more passes, as the last calls may have rolled back.
	$node->safe_psql('postgres', <<'SQL');
DO $$
DECLARE
    p text;
BEGIN
    FOR p IN SELECT DISTINCT policy FROM rate_limit_policies LOOP
        WHILE call(p, 1) LOOP
        END LOOP;
    END LOOP;
END $$;
SQL

	# A serializable transaction can fail between the admission and the note of it.
	my $differs = $isolation eq 'serializable' ? '<' : '<>';

	is( value($node, <<SQL),
SELECT p.policy, u.rule, u.used, a.last_value, c.cost
  FROM (SELECT DISTINCT policy FROM rate_limit_policies) AS p
       CROSS JOIN LATERAL rate_limit_usage(p.policy, '$isolation') AS u
       JOIN pg_sequences AS a ON quote_ident(a.sequencename) = sequence(p.policy, '$isolation')
       JOIN (SELECT policy, sum(cost) AS cost FROM committed WHERE isolation = '$isolation' GROUP BY policy) AS c USING (policy)
 WHERE CASE u.rule WHEN 'memory' THEN u.used $differs a.last_value ELSE u.used <> c.cost END OR u.used > u."limit"
SQL
		'',
		"fault 13: memory is charged for all that was admitted, the table for what was committed, $isolation");
	is( value($node, <<SQL),
SELECT count(*), sum((u.used = u."limit")::int), sum((u.remaining = 0)::int), sum((NOT u.allowed)::int)
  FROM (SELECT DISTINCT policy FROM rate_limit_policies) AS p CROSS JOIN LATERAL rate_limit_usage(p.policy, '$isolation') AS u
 WHERE u.rule = split_part(p.policy, ' ', 1)
SQL
		'8|8|8|8', "the smaller rule of each policy is used up exactly, $isolation");
	is( value($node, <<SQL),
SELECT count(*), min(cost) > 250 FROM (SELECT sum(cost) AS cost FROM committed WHERE isolation = '$isolation' GROUP BY policy) AS c
SQL
		'8|t', "and most of it by transactions that were committed, $isolation");

	# Refusals by either store, of a known key and of a new one.
	my $before = counts();
	my $rows = value($node, 'SELECT md5(string_agg(concat(ctid, xmin, xmax, s), NULL ORDER BY ctid)) FROM rate_limit_state AS s');
	ok( run_pgbench(
			$node,
			{
				clients => 16,
				transactions => 50,
				script => <<"SQL" }),
\\set policy random(1, 8)
SELECT 1 / (NOT allowed)::int FROM rate_limit_enforce((SELECT policy FROM rate_limit_policies GROUP BY policy ORDER BY policy OFFSET :policy - 1 LIMIT 1), '$isolation');
SELECT 1 / (NOT allowed)::int FROM rate_limit_enforce('memory sliding_window', 'new ' || :client_id, 401);
SELECT 1 / (NOT allowed)::int FROM rate_limit_enforce('table token_bucket', 'new ' || :client_id, 401);
SQL
		"all further calls are refused, $isolation");
	is(counts(), $before, "fault 18: refusals leave no row and no dead one, $isolation");
	is(value($node, 'SELECT md5(string_agg(concat(ctid, xmin, xmax, s), NULL ORDER BY ctid)) FROM rate_limit_state AS s'),
		$rows, "nor do they touch any, $isolation");
}

$node->stop;
done_testing();
