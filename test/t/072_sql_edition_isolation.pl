# The isolation specs of the table store with the SQL edition in place of the
# extension: waiting, roll-back, keys in opposite order, isolation levels and
# clean-up are the same in both.
#
# The other specs are about the memory store, where nobody waits and nothing is
# part of a transaction.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use File::Basename qw(basename);
use IPC::Run ();
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $specs = "$FindBin::RealBin/../isolation";
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = new_server('main');

$node->start;
install_sql_edition($node, 'public');

chomp(my $libraries = `pg_config --pkglibdir`);
my $tester = "$libraries/pgxs/src/test/isolation/isolationtester";
my $database = $node->connstr('postgres');
my @names = map { basename($_, '.spec') } sort glob "$specs/specs/table_*.spec";

cmp_ok(scalar @names, '>=', 5, scalar(@names) . ' specs of the table store');
foreach my $name (@names)
{
	my $spec = slurp_file("$specs/specs/$name.spec") =~ s/^ *CREATE EXTENSION IF NOT EXISTS rate_limit;\n//mr;
	my $expected = slurp_file("$specs/expected/$name.out");
	my $output = '';

	IPC::Run::run(
		[ $tester, $database ],
		'<', \$spec, '>', \$output, '2>&1',
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	next if is($output eq $expected, 1, "specs/$name.spec");

	append_to_file("$folder/$name.expected", $expected);
	append_to_file("$folder/$name.output", $output);
	diag(scalar `diff -U3 $folder/$name.expected $folder/$name.output`);
}

is(value($node, 'SELECT count(*) FROM pg_extension WHERE extname = \'rate_limit\''),
	'0', 'without the extension');

$node->stop;
done_testing();
