# What a session keeps of the limits is bounded, and errors in the middle of a
# call leave it usable: timeouts, cancellations, damaged rows, and triggers on the
# counters that call themselves.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = start_server('main');

$node->safe_psql('postgres', <<'SQL');
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", is_fallback) VALUES ('plan', 'hour', 10, '1 hour', true);
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", store) VALUES
    ('table', 'hour', 10, '1 hour', 'table'), ('both', 'a', 10, '1 hour', 'table'), ('both', 'b', 10, '1 hour', 'memory');
CREATE VIEW kept AS
    WITH RECURSIVE contexts AS (
        SELECT name, total_bytes FROM pg_backend_memory_contexts WHERE name = 'rate_limit policies' OR parent = 'rate_limit policies')
    SELECT sum(total_bytes) AS bytes FROM contexts;
SQL

# --- Overrides of thousands of keys ---

my $session = $node->background_psql('postgres', on_error_stop => 0);

is($session->query_safe('SELECT bytes FROM kept'), '', 'a session keeps nothing at first');
$node->safe_psql('postgres', <<'SQL');
INSERT INTO rate_limit_overrides (policy, key, "limit") SELECT 'plan', 'key ' || i, i FROM generate_series(1, 10000) AS i;
INSERT INTO rate_limit_overrides (policy, key, "limit", expires_at)
    SELECT 'plan', 'late ' || i, i, clock_timestamp() + (i - 50) * interval '1 hour' FROM generate_series(1, 100) AS i;
ANALYZE rate_limit_overrides;
SQL
my $wrong = q(SELECT count(*), count(*) FILTER (WHERE r."limit" <> i) FROM generate_series(1, 10000) AS i, rate_limit_enforce('plan', 'key ' || i, 0) AS r);
is($session->query_safe($wrong), '10000|0', 'each of 10,000 keys gets its own limit');
my $first = $session->query_safe('SELECT bytes FROM kept');
is($session->query_safe($wrong), '10000|0', 'and again') for 1 .. 3;
my $later = $session->query_safe('SELECT bytes FROM kept');
note("kept: $first bytes, later $later");
cmp_ok($later, '<', 4_000_000, 'what a session keeps of them is bounded');

# Keys and policies that a caller makes up, the latter with a fallback of many rules.
is( $session->query_safe(q(SELECT count(*), min("limit"), max("limit") FROM generate_series(1, 10000) AS i, rate_limit_enforce('plan', i || repeat('k', 1000), 0))),
	'10000|10|10', 'so are 10,000 keys of 1,000 bytes without an override');
cmp_ok($session->query_safe('SELECT bytes FROM kept'), '<', 20_000_000, 'in what they take');
$node->safe_psql('postgres', q(INSERT INTO rate_limit_policies (policy, rule, "limit", "window") SELECT 'plan', 'rule ' || i, 1000, '1 hour' FROM generate_series(1, 50) AS i));
is( $session->query_safe(q(SELECT count(*), min("limit"), max("limit") FROM generate_series(1, 10000) AS i, rate_limit_enforce('made up ' || i, 'key', 0))),
	'10000|10|10', 'and 10,000 policies that there are not');
cmp_ok($session->query_safe('SELECT bytes FROM kept'), '<', 4_000_000, 'which are bounded, too');
$node->safe_psql('postgres', q(DELETE FROM rate_limit_policies WHERE rule LIKE 'rule %'));

# Expired overrides.
is( $session->query_safe(q(SELECT count(*) FILTER (WHERE i <= 50 AND "limit" = 10), count(*) FILTER (WHERE i > 50 AND "limit" = i)
	FROM generate_series(1, 100) AS i, rate_limit_enforce('plan', 'late ' || i, 0))), '50|50', 'those that have expired do not count');
is( $session->query_safe(q(SELECT count(*) FILTER (WHERE i <= 60 AND "limit" = 10), count(*) FILTER (WHERE i > 60 AND "limit" = i)
	FROM generate_series(1, 100) AS i, rate_limit_enforce_at(clock_timestamp() + interval '10 hours', 'plan', 'late ' || i, 0))),
	'60|40', 'nor do those that will have, though they are kept');

# A thousand changes leave no more behind than one.
$session->query_safe(q(UPDATE rate_limit_policies SET "limit" = 10 WHERE policy = 'plan'));
my $before = $session->query_safe(q(SELECT sum("limit") FROM rate_limit_enforce('plan', 'key 7', 0); SELECT bytes FROM kept));
$session->query_safe(<<'SQL');
DO $$
BEGIN
    FOR i IN 1 .. 1000 LOOP
        UPDATE rate_limit_policies SET "limit" = 10 WHERE policy = 'plan';
        IF (SELECT "limit" FROM rate_limit_enforce('plan', 'key 7', 0)) <> 7 THEN
            RAISE EXCEPTION 'wrong limit';
        END IF;
    END LOOP;
END $$;
SQL
is($session->query_safe(q(SELECT sum("limit") FROM rate_limit_enforce('plan', 'key 7', 0); SELECT bytes FROM kept)),
	$before, 'a thousand changes leave no memory behind');
is($session->query_safe(q(SELECT sum(total_bytes) < 20000000 FROM pg_backend_memory_contexts WHERE parent = 'CacheMemoryContext' OR name = 'CacheMemoryContext')),
	't', 'elsewhere neither');
$node->safe_psql('postgres', 'TRUNCATE rate_limit_overrides');

# --- Errors in the middle of a call ---

my $locker = $node->background_psql('postgres');
my $pid = $session->query_safe('SELECT pg_backend_pid()');

# What a session has been told of errors, once.
sub told
{
	my $errors = $session->{stderr};

	$session->{stderr} = '';
	return $errors;
}

sub usable_after
{
	my ($error, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	like(told(), $error, $name);
	is($session->query_safe(q(SELECT concat_ws(' ', current_user, r.allowed, r."limit") FROM rate_limit_enforce('both', 'usable', 0) AS r)),
		getpwuid($<) . ' t 10', "the session is usable after $name");
	return;
}

foreach my $policy ('table', 'both')
{
	$locker->query_safe("BEGIN; SELECT rate_limit_enforce('$policy', 'held', 4)");
	$session->query("SET statement_timeout = '50ms'; SELECT rate_limit_enforce('$policy', 'held'); RESET statement_timeout");
	usable_after(qr/due to statement timeout/, "a timeout while it waits, $policy");
	$session->query("BEGIN; SELECT rate_limit_enforce('$policy', 'own', 2); SAVEPOINT a; SET LOCAL lock_timeout = '50ms'; SELECT rate_limit_enforce('$policy', 'held'); ROLLBACK TO a; COMMIT");
	usable_after(qr/due to lock timeout/, "a lock timeout after a savepoint, $policy");
	$session->query_until(qr/waits/, "\\echo waits\nSELECT rate_limit_enforce('$policy', 'held');\n");
	$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$session->query('SELECT 1');
	usable_after(qr/due to user request/, "a cancellation while it waits, $policy");
	is($session->query_safe(<<SQL), '57014 10', "and after one that is caught, $policy");
CREATE OR REPLACE FUNCTION caught() RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
    state text;
BEGIN
    BEGIN
        PERFORM rate_limit_enforce('$policy', 'held');
    EXCEPTION WHEN query_canceled THEN
        state := sqlstate;
    END;
    RETURN state || ' ' || (SELECT "limit" FROM rate_limit_enforce('plan', 'key', 0));
END \$\$;
SET statement_timeout = '50ms';
SELECT caught();
RESET statement_timeout;
SQL
	$locker->query_safe('COMMIT');
	is( value($node, "SELECT string_agg(concat(rule, ' ', used), ', ' ORDER BY rule) FROM rate_limit_usage('$policy', 'held')"),
		{ table => 'hour 4', both => 'a 4, b 4' }->{$policy}, "what did not come about is charged nowhere, $policy");
	is( value($node, "SELECT string_agg(concat(rule, ' ', used), ', ' ORDER BY rule) FROM rate_limit_usage('$policy', 'own')"),
		{ table => 'hour 2', both => 'a 2, b 2' }->{$policy}, "what did is, $policy");
}

# The limits themselves cannot be read.
$locker->query_safe('BEGIN; LOCK TABLE rate_limit_policies IN ACCESS EXCLUSIVE MODE');
$session->query_safe(q(SELECT rate_limit_enforce('both', 'usable', 0)));
$session->query("SET lock_timeout = '50ms'; SELECT rate_limit_enforce('not read yet', 'key'); RESET lock_timeout");
usable_after(qr/due to lock timeout/, 'a timeout while the policies are locked');
$locker->query_safe('COMMIT');

# A row that got past the triggers is an error, not an admission.
$node->safe_psql('postgres', <<'SQL');
ALTER TABLE rate_limit_policies DISABLE TRIGGER rate_limit_validate_policy;
INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('damaged', 10, '0');
INSERT INTO rate_limit_policies (policy, "limit", "window", algorithm) VALUES ('strange', 10, '1 hour', 'leaky');
ALTER TABLE rate_limit_policies ENABLE ALWAYS TRIGGER rate_limit_validate_policy;
SQL
fails_with($node, q(SELECT rate_limit_enforce('damaged', 'key')), '22023', 'argument "window" must be greater than zero', 'a damaged policy is an error');
fails_with($node, q(SELECT rate_limit_enforce('strange', 'key')), '22023', 'argument "algorithm" is not known', 'and one of an unknown algorithm');
$session->query(q(SELECT rate_limit_enforce('damaged', 'key')));
usable_after(qr/must be greater than zero/, 'a damaged policy');

# --- A trigger on the counters that calls, and changes the policy meanwhile ---

$node->safe_psql('postgres', <<'SQL');
UPDATE rate_limit_policies SET "limit" = 100 WHERE policy = 'both' AND rule = 'b';
CREATE FUNCTION nested() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
DECLARE
    r record;
BEGIN
    IF NEW.key LIKE 'nested %' THEN
        RETURN NULL;
    END IF;
    UPDATE rate_limit_policies SET "limit" = "limit" + 1 WHERE store = 'table';
    PERFORM rate_limit_enforce(p, 'nested ' || NEW.key, 2) FROM unnest('{table,both,plan}'::text[]) AS p;
    RETURN NULL;
END $$;
CREATE TRIGGER nested AFTER INSERT OR UPDATE ON rate_limit_state FOR EACH ROW EXECUTE FUNCTION nested();
SQL
is( $session->query_safe(q(SELECT "limit", allowed, used, rule FROM generate_series(1, 4) AS i, rate_limit_enforce('both', 'outer', sign(i)::int))),
	"10|t|1|a\n11|t|2|a\n12|t|3|a\n13|t|4|a", 'each call is decided by the limit when it began');
is( value($node, q(SELECT policy, rule, "limit", used FROM unnest('{table,both,plan}'::text[]) AS policy, rate_limit_usage(policy, 'nested outer') ORDER BY 1, 2)),
	join("\n", 'both|a|14|8', 'both|b|100|8', 'plan|hour|10|8', 'table|hour|14|8'), 'and so are those of the trigger, which count');
is( value($node, q(SELECT rule, used FROM rate_limit_usage('both', 'outer'))), "a|4\nb|4", 'the outer ones, too');

$_->quit foreach $session, $locker;
$node->stop;
done_testing();
