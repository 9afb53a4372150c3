# ALTER EXTENSION UPDATE: whatever version was installed, what is there afterwards is what
# CREATE EXTENSION makes, and no row is lost.  Every script rate_limit--A--B.sql is tried,
# and, so that the comparison itself is tested, two of a made-up version 0.9.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use File::Copy qw(copy);
use File::Path qw(make_path);
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $root = "$FindBin::RealBin/../..";
my $folder = PostgreSQL::Test::Utils::tempdir();
my ($default) = slurp_file("$root/rate_limit.control") =~ /^default_version = '(.*)'/m;

# A private folder of scripts, which the server looks into instead.
my $node = new_server('main');
my ($sharedir) = `pg_config --sharedir` =~ /(.*)/;
my ($libdir) = `pg_config --pkglibdir` =~ /(.*)/;
my $scripts = "$folder$sharedir/extension";
make_path($scripts, "$folder$libdir");
my ($library) = grep { -f } "$root/rate_limit.so", "$libdir/rate_limit.so";
copy($library, "$folder$libdir") or die "$library: $!";
copy($_, $scripts) or die "$_: $!"
  foreach "$root/rate_limit.control", glob("$root/rate_limit--*.sql"), glob("$sharedir/extension/plpgsql*");
my $setting = has_setting('extension_destdir') ? "extension_destdir = '$folder'" : "extension_control_path = '$folder$sharedir:\$system'";
$node->append_conf('postgresql.conf', "$setting\ndynamic_library_path = '$folder$libdir:\$libdir'\n");
$node->start;

# Does this PostgreSQL have a setting?
sub has_setting
{
	my ($name) = @_;
	return grep { /^$name\t/ } `postgres --describe-config`;
}

# Everything that the extension consists of, one line each.
my $parts = <<'SQL';
WITH members AS (
    SELECT classid, objid, objsubid FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
       AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'rate_limit'))
SELECT 'object', pg_describe_object(classid, objid, 0), coalesce(obj_description(objid, classid::regclass::name), '') FROM members
UNION ALL
SELECT 'function', p.oid::regprocedure::text, md5(pg_get_functiondef(p.oid)) || coalesce(proacl::text, '') FROM members JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
UNION ALL
SELECT 'relation', c.oid::regclass::text, concat_ws(' ', relkind, reloptions, relacl, relreplident, CASE WHEN relkind = 'v' THEN pg_get_viewdef(c.oid) END)
  FROM members JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass
UNION ALL
SELECT 'column', c.oid::regclass || '.' || attname,
       concat_ws(' ', attnum, format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation, pg_get_expr(adbin, adrelid), col_description(c.oid, attnum))
  FROM members JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
  LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
UNION ALL
SELECT 'index', i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM members JOIN pg_index i ON i.indrelid = objid AND classid = 'pg_class'::regclass
UNION ALL
SELECT 'constraint', conname, pg_get_constraintdef(k.oid) FROM members JOIN pg_constraint k ON k.conrelid = objid AND classid = 'pg_class'::regclass
UNION ALL
SELECT 'trigger', tgname || ' of ' || tgrelid::regclass, tgenabled::text || pg_get_triggerdef(t.oid) FROM members JOIN pg_trigger t ON t.tgrelid = objid AND classid = 'pg_class'::regclass AND NOT tgisinternal
UNION ALL
SELECT 'dumped', unnest(extconfig)::regclass::text, '' FROM pg_extension WHERE extname = 'rate_limit'
ORDER BY 1, 2, 3
SQL

# The parts of the extension in a new database, installed as a version and updated.
sub parts_of
{
	my ($database, $from, $to, $between) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, "CREATE EXTENSION rate_limit VERSION '$from';\n" . ($between // ''));
	$node->safe_psql($database, "ALTER EXTENSION rate_limit UPDATE TO '$to'") if $to ne $from;
	return value($node, $parts, $database);
}

my $now = parts_of('new', $default, $default);
cmp_ok(() = $now =~ /\n/g, '>', 100, 'the extension has many parts');

# --- The scripts that there are ---

foreach my $script (sort glob "$root/rate_limit--*--*.sql")
{
	my ($from, $to) = $script =~ /rate_limit--(.*)--(.*)\.sql$/;
	(my $database = "from_${from}_$to") =~ s/\W/_/g;

	is(parts_of($database, $from, $to), parts_of("${database}_new", $to, $to), "an update from $from to $to makes what $to is");
}

# --- A version 0.9 that lacked a function, a column and a comment ---

my $whole = slurp_file("$root/rate_limit--$default.sql");
my ($function) = $whole =~ /^(CREATE FUNCTION \@extschema\@\.rate_limit_unblock\(.*?^COMMENT ON FUNCTION \@extschema\@\.rate_limit_unblock IS\n[^\n]*;\n)/ms
  or die 'no function rate_limit_unblock in the script';
my ($comment) = $whole =~ /^(COMMENT ON TABLE \@extschema\@\.rate_limit_policies IS\n[^\n]*;\n)/m
  or die 'no comment on rate_limit_policies in the script';
my $without = $whole =~ s/\Q$function\E//r =~ s/\Q$comment\E//r =~ s/^    last_use        .*\n//mr;

append_to_file("$scripts/rate_limit--0.9.sql", $without);
append_to_file("$scripts/rate_limit--0.9--$default.sql", <<SQL);
\\echo Use "ALTER EXTENSION rate_limit UPDATE" to load this file. \\quit
$function$comment
ALTER TABLE \@extschema\@.rate_limit_state ADD last_use pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now();
ALTER TABLE \@extschema\@.rate_limit_state ALTER last_use DROP DEFAULT;
SQL

is(parts_of('updated', '0.9', $default,
		"INSERT INTO rate_limit_policies (policy, \"limit\", \"window\") VALUES ('kept', 5, '1 hour');\n"
		  . "INSERT INTO rate_limit_state (key, algorithm, window_length, window_unit, time_zone, state, \"limit\", expires_at)\n"
		  . "VALUES ('kept', 'anchored_window', 3600000000, 'microsecond', '', ARRAY[extract(epoch FROM now() - '2000-01-01Z') * 1000000, 3]::int8[], 5, now() + interval '1 hour');"),
	$now, 'an update from a version that lacked something makes what is new');
is(value($node, "SELECT used FROM rate_limit_check('kept', 5, '1 hour', algorithm => 'anchored_window', store => 'table')", 'updated'),
	4, 'and the counters count on');
is(value($node, "SELECT \"limit\" FROM rate_limit_enforce('kept', 'k')", 'updated'), 5, 'the policies are kept');

# --- A script that forgets something is found out ---

append_to_file("$scripts/rate_limit--0.8.sql", $without);
append_to_file("$scripts/rate_limit--0.8--$default.sql", <<SQL);
$comment
ALTER TABLE \@extschema\@.rate_limit_state ADD last_use pg_catalog.timestamptz;
SQL
my $wrong = parts_of('wrong', '0.8', $default);
isnt($wrong, $now, 'a script that forgets a function and a constraint does not');
unlike($wrong, qr/rate_limit_unblock/, 'the function is missing');

$node->stop;
done_testing();
