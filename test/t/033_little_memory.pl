# Where there is less dynamic shared memory than rate_limit.memory, as in many
# containers, the first call takes what it can get and says so.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Utils;
use RateLimitTest;
use Test::More;

my $node = new_server('little');

# No file, and so no shared memory segment, of more than 20 MB.
system_or_bail('sh', '-c',
	'ulimit -f 40960 && exec pg_ctl -w -D "$0" -l "$1" start',
	$node->data_dir, $node->logfile);
$node->_update_pid(1);
$node->safe_psql('postgres', 'CREATE EXTENSION rate_limit');

is( value($node, 'BEGIN READ ONLY; SELECT used FROM rate_limit_check(\'key\', 5, \'1 day\'); ROLLBACK'),
	1, 'the first call counts');
is( value($node, "SELECT used, bytes, set_up FROM rate_limit_check('key', 5, '1 day'), rate_limit_info"),
	'2|16777216|first use', 'the memory is a quarter of rate_limit.memory');
like(
	slurp_file($node->logfile),
	qr/LOG:  rate_limit was set up with 16384 kB of shared memory instead of 65536 kB\n.*DETAIL: .*\n.*HINT:  Give the server more shared memory/,
	'the log says so, and what to do');

$node->stop;
done_testing();
