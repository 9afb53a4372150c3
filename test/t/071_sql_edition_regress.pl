# The pg_regress files that concern no memory store and no setting, with the SQL
# edition in place of the extension.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my @files = qw(adjust anchored_window block_for calendar check_all clock_steps clock_steps_policies cost
  enforce_rules fallback fixed_window headers ip_key limit_change limit_zero
  monthly_cap networks overrides peek per_row policies policies_table policies_validation
  postgrest result_row retry_after shadow token_bucket trigger usage);

my $root = "$FindBin::RealBin/../..";
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = new_server('main');

$node->start;
install_sql_edition($node, 'public');

# as pg_regress does it
local $ENV{PGTZ} = 'PST8PDT';
local $ENV{PGDATESTYLE} = 'Postgres, MDY';
local $ENV{PGOPTIONS} = '-c intervalstyle=postgres_verbose';

foreach my $name (@files)
{
	my $create = qr/^CREATE EXTENSION IF NOT EXISTS rate_limit;\n/m;
	my $input = slurp_file("$root/sql/$name.sql") =~ s/$create//r;
	my $expected = slurp_file("$root/expected/$name.out") =~ s/$create//r;
	my $output = '';

	IPC::Run::run(
		[ 'psql', '-X', '-a', '-q', connection($node) ],
		'<', \$input, '>', \$output, '2>&1');
	next if is($output eq $expected, 1, "sql/$name.sql");

	append_to_file("$folder/$name.expected", $expected);
	append_to_file("$folder/$name.output", $output);
	diag(scalar `diff -U3 $folder/$name.expected $folder/$name.output`);
}

$node->stop;
done_testing();
