# What is measured, and how each contender is run.

package Contenders;

use strict;
use warnings FATAL => 'all';

use List::Util qw(max min sum);

my $keys = 10_000;

# One sliding window in a sorted set, the way Redis is used for it: what is too
# old goes, what is left is counted, the call is added; its time is Redis's.
my $window_script = <<'LUA';
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local used = redis.call('ZCARD', KEYS[1])
if used < limit then
  redis.call('ZADD', KEYS[1], now, now .. ':' .. used)
  redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
  return {1, limit, used + 1, limit - used - 1, 0}
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {0, limit, used, 0, oldest[2] + window - now}
LUA

# A window of the clock: no more than a counter that expires.
my $counter_script = <<'LUA';
local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('EXPIRE', KEYS[1], 1)
end
return used
LUA

my $many = "\\set k random(1, $keys)\n";

sub check
{
	my ($key, $limit, $window, $more) = @_;
	return "SELECT * FROM rate_limit_check($key, $limit, '$window'" . ($more // '') . ');';
}

# The same check, for its first column only.
sub allowed
{
	return check(@_) =~ s/\* FROM rate_limit_check/rate_limit_allowed/r;
}

sub upsert
{
	my ($key) = @_;
	return "INSERT INTO counter AS c VALUES ($key, date_trunc('minute', now()), 1) "
	  . 'ON CONFLICT (key, window_start) DO UPDATE SET count = c.count + 1 RETURNING count;';
}

sub pipeline
{
	my ($statement) = @_;
	return $many . "\\startpipeline\n" . ("$statement\n" x 20) . "\\endpipeline\n";
}

my @user = ("'user:' || :k", 20, '1 second');
my @table = (@user, ", store => 'table'");
my $row = check(@user);
my $allowed = allowed(@user);

# What a function scan, and a function, cost without a limiter: see empty.c.
my $empty_row = $row =~ s/rate_limit_check/empty_check/r;
my $empty_allowed = $allowed =~ s/rate_limit_allowed/empty_allowed/r;

# label, kind, script; calls per transaction, if not one
my %contenders = (
	row => [ 'rate_limit_check, full row', 'sql', "$many$row" ],
	allowed => [ 'rate_limit_allowed', 'sql', "$many$allowed" ],
	table => [ 'rate_limit_check, table store', 'sql', $many . check(@table) ],
	table_allowed => [
		'rate_limit_allowed, table store', 'sql',
		$many . allowed(@table)
	],
	upsert => [ 'upsert counter', 'sql', $many . upsert("'user:' || :k") ],
	hit_log => [
		'hit log, three statements', 'sql',
		$many . <<'SQL' ],
DELETE FROM hit WHERE key = 'user:' || :k AND at <= now() - interval '1 second';
SELECT count(*) < 20 AS free FROM hit WHERE key = 'user:' || :k AND at > now() - interval '1 second' \gset
\if :free
INSERT INTO hit (key) VALUES ('user:' || :k);
\endif
SQL
	redis_script => [ 'Redis, sorted-set script', 'redis', [ 'window', "user:__rand_int__", 20, 1_000_000 ] ],
	redis_counter => [ 'Redis, INCR and EXPIRE', 'redis', [ 'counter', "counter:__rand_int__" ] ],
	select_1 => [ 'SELECT 1', 'sql', "${many}SELECT 1;" ],
	select_key => [ "SELECT 'user:' || k", 'sql', "${many}SELECT 'user:' || :k;" ],
	select_row => [
		'the seven columns as constants', 'sql',
		$many . <<'SQL' ],
SELECT true AS allowed, 20::bigint AS "limit", 1::bigint AS used, 19::bigint AS remaining, 0::float8 AS retry_after, '2030-01-01 00:00+00'::timestamptz AS reset_at, NULL::text AS rule;
SQL
	empty_row => [ 'an empty C function, full row', 'sql', "$many$empty_row" ],
	empty_allowed => [ 'an empty C function, boolean', 'sql', "$many$empty_allowed" ],
	hot_row => [ 'rate_limit_check, one hot key', 'sql', $many . check("'hot'", 1_000_000_000, '1 second') ],
	hot_table => [ 'table store, one hot key', 'sql', $many . check("'hot'", 1_000_000_000, '1 second', ", store => 'table'") ],
	hot_upsert => [ 'upsert counter, one hot key', 'sql', $many . upsert("'hot'") ],
	hot_redis_script => [ 'Redis, sorted-set script, one hot key', 'redis', [ 'window', 'hot', 1_000_000_000, 1_000_000 ] ],
	refused_row => [ 'rate_limit_check, all refused', 'sql', $many . check("'full:' || :k", 1, '1 day') ],
	refused_table => [ 'table store, all refused', 'sql', $many . check("'full:' || :k", 1, '1 day', ", store => 'table'") ],
	refused_redis_script => [ 'Redis, sorted-set script, all refused', 'redis', [ 'window', 'full:__rand_int__', 1, 86_400_000_000 ] ],
	million_row => [ 'rate_limit_check, 1,000,000 keys', 'sql', "\\set k random(1, 1000000)\n" . check("'live:' || :k", 1_000_000, '1 day') ],
	thousand_row => [ 'rate_limit_check, 1,000 keys', 'sql', "\\set k random(1, 1000)\n" . check("'live:' || :k", 1_000_000, '1 day') ],
	million_redis_script => [ 'Redis, sorted-set script, 1,000,000 keys', 'redis', [ 'window', 'live:__rand_int__', 1_000_000, 86_400_000_000 ], 1, 1_000_000 ],
	pipelined_row => [ 'rate_limit_check, pipelined', 'sql', pipeline($row), 20 ],
	pipelined_allowed => [ 'rate_limit_allowed, pipelined', 'sql', pipeline($allowed), 20 ],
	pipelined_redis_script => [ 'Redis, sorted-set script, pipelined', 'redis', [ 'window', "user:__rand_int__", 20, 1_000_000 ], 20 ],
	pipelined_redis_counter => [ 'Redis, INCR and EXPIRE, pipelined', 'redis', [ 'counter', "counter:__rand_int__" ], 20 ],
	batch_row => [
		'rate_limit_check, 100 keys by LATERAL', 'sql',
		$many . "SELECT r.* FROM generate_series(1, 100) g, rate_limit_check('user:' || :k + g, 20, '1 second') r;", 100
	]);

# The columns of a statement's result, as one list.
sub query
{
	my ($sql) = @_;

	open my $psql, '-|', 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-c', $sql or die "psql: $!\n";
	my @rows = <$psql>;
	close $psql or die "psql failed: $sql\n";
	chomp @rows;
	return map { split /\|/ } @rows;
}

sub new
{
	my ($class, %self) = @_;
	my $self = bless {%self}, $class;

	$self->create_empty_functions;
	query($_) foreach (
		'CREATE TABLE counter (key text, window_start timestamptz, count int NOT NULL, PRIMARY KEY (key, window_start))',
		'CREATE TABLE hit (id bigserial PRIMARY KEY, key text NOT NULL, at timestamptz NOT NULL DEFAULT now())',
		'CREATE INDEX ON hit (key, at)',
		'VACUUM ANALYZE', 'CHECKPOINT');
	foreach my $name (keys %contenders)
	{
		my (undef, $kind, $script) = @{ $contenders{$name} };
		next if $kind ne 'sql';
		open my $file, '>', "$ENV{RL_WORK}/$name.sql" or die "$!\n";
		print $file $script;
		close $file;
	}
	$self->{scripts} = { window => $self->redis('script', 'load', $window_script),
		counter => $self->redis('script', 'load', $counter_script) };
	return $self;
}

sub create_empty_functions
{
	my ($self) = @_;
	my $arguments = 'key text, "limit" int8, "window" interval, cost int8 DEFAULT 1, '
	  . "algorithm text DEFAULT 'sliding_window', burst int8 DEFAULT NULL, store text DEFAULT NULL, time_zone text DEFAULT NULL";

	query("CREATE FUNCTION empty_allowed($arguments) RETURNS bool LANGUAGE c VOLATILE AS '$self->{empty}', 'empty_allowed'");
	query("CREATE FUNCTION empty_check($arguments) RETURNS rate_limit_result LANGUAGE c VOLATILE AS '$self->{empty}', 'empty_check'");
	return;
}

# Keys that a load finds, in both servers.
sub fill_all_refused
{
	my ($self) = @_;
	query("SELECT count(rate_limit_allowed('full:' || k, 1, '1 day')), count(rate_limit_allowed('full:' || k, 1, '1 day', store => 'table')) FROM generate_series(1, $keys) k");
	return;
}

sub fill_million
{
	my ($self) = @_;
	query("SELECT count(rate_limit_allowed('live:' || k, 1000000, '1 day')) FROM generate_series(1, 1000000) k");
	$self->redis('eval', "for k = 1, 1000000 do redis.call('ZADD', string.format('live:%012d', k), redis.call('TIME')[1] * 1000000, '0') end", 0);
	return;
}

sub labels
{
	return { map { $_ => $contenders{$_}[0] } keys %contenders };
}

sub redis
{
	my ($self, @command) = @_;

	open my $cli, '-|', 'redis-cli', '-s', $self->{socket}, @command or die "redis-cli: $!\n";
	my $answer = join '', <$cli>;
	close $cli or die "redis-cli failed\n";
	chomp $answer;
	return $answer;
}

sub percentile
{
	my ($sorted, $part) = @_;
	return $sorted->[ min($#$sorted, int(@$sorted * $part)) ];
}

# Runs a contender once and returns calls per second and latencies in milliseconds, for
# each setting of the client that may be the best one.  To warm up, the first seconds of
# each run of pgbench are left out, so that what a new connection costs is not in it.
sub run
{
	my ($self, $name, $clients, $warm_up) = @_;
	my (undef, $kind) = @{ $contenders{$name} };

	return $kind eq 'redis' ? $self->run_redis($name, $clients) : $self->run_sql($name, $clients, $warm_up);
}

sub run_sql
{
	my ($self, $name, $clients, $warm_up) = @_;
	my $calls = $contenders{$name}[3] // 1;
	my $log = "$ENV{RL_WORK}/latency";

	unlink glob "$log.*";
	my @command = (
		'pgbench', '-n', '-M', 'prepared', '-c', $clients, '-j', min($clients, 2), '-T', $warm_up + $self->{seconds},
		'-P', $warm_up, '-l', '--sampling-rate=0.1', "--log-prefix=$log", '-f', "$ENV{RL_WORK}/$name.sql");
	open my $pgbench, '-|', join(' ', @command) . ' 2>&1' or die "pgbench: $!\n";
	my $output = join '', <$pgbench>;
	close $pgbench or die "pgbench failed: $name\n$output";

	# all transactions, less those to warm up
	my ($n) = $output =~ /^number of transactions actually processed: (\d+)/m;
	my ($tps) = $output =~ /^tps = ([\d.]+)/m;
	my ($first, $first_tps) = $output =~ /^progress: ([\d.]+) s, ([\d.]+) tps/m;
	$tps = ($n - $first * $first_tps) / ($n / $tps - $first);
	my @calls;    # [ when, microseconds ]
	foreach my $file (glob "$log.*")
	{
		open my $handle, '<', $file or die "$!\n";
		push @calls, map { my @c = split; [ $c[4] + $c[5] / 1e6, $c[2] ] } <$handle>;
		close $handle;
	}
	my $start = $warm_up + min(map { $_->[0] } @calls);
	my @latencies = sort { $a <=> $b } map { $_->[1] / 1000 } grep { $_->[0] >= $start } @calls;
	return { tps => $tps * $calls, p50 => percentile(\@latencies, 0.5), p99 => percentile(\@latencies, 0.99) };
}

sub redis_benchmark
{
	my ($self, $name, $clients, $threads, $calls) = @_;
	my (undef, undef, $arguments, $pipeline, $range) = @{ $contenders{$name} };
	my ($script, $key, @values) = @$arguments;
	my @command = (
		'redis-benchmark', '-s', $self->{socket}, '-c', $clients, '-n', int($calls), '-P', $pipeline // 1,
		'-r', $range // $keys, '--csv', ($threads > 1 ? ('--threads', $threads) : ()),
		'EVALSHA', $self->{scripts}{$script}, 1, $key, @values);

	open my $benchmark, '-|', @command or die "redis-benchmark: $!\n";
	my ($line) = grep { /^"EVALSHA/ } <$benchmark>;
	close $benchmark or die "redis-benchmark failed: $name\n";
	my (undef, $rps, undef, undef, $p50, undef, $p99) = $line =~ /"([^"]*)"/g;
	return { tps => $rps, p50 => $p50, p99 => $p99 };
}

# With one thread of the client and with two.
sub run_redis
{
	my ($self, $name, $clients) = @_;
	my @results;

	foreach my $threads (1, 2)
	{
		my $tps = \$self->{tps}{$name}{$clients}{$threads};

		$$tps //= $self->redis_benchmark($name, $clients, $threads, 30_000)->{tps};
		push @results, $self->redis_benchmark($name, $clients, $threads, max(1000, $$tps * $self->{seconds}));
	}
	return @results;
}

# Nanoseconds of a call inside the server, less an empty function, by load.
sub inside
{
	my ($self, $rounds) = @_;
	my %arguments = (
		'20 per minute, most calls refused' => "20, '1 minute'",
		'1,000,000 per day, all admitted' => "1000000, '1 day'",
		'1,000,000 per second, the longest log' => "1000000, '1 second'");
	my %from = (
		allowed => sub { "generate_series(1, 1000000) g WHERE $_[0]_allowed('user:' || g % $_[2], $_[1])" },
		row => sub { "generate_series(1, 1000000) g, $_[0]_check('user:' || g % $_[2], $_[1]) r WHERE r.allowed" });
	my %times;
	foreach my $load (sort keys %arguments)
	{
		# so few keys that each is called often in a second
		my $n = $load =~ /longest/ ? 100 : $keys;
		foreach my $round (1 .. $rounds)
		{
			foreach my $form (sort keys %from)
			{
				my %seconds;
				foreach my $who ('empty', 'rate_limit')
				{
					my @answer = query('SET max_parallel_workers_per_gather = 0; SET jit = off;'
						  . "SELECT rate_limit_reset_prefix('user:'); SELECT extract(epoch FROM clock_timestamp());"
						  . 'SELECT count(*) FROM ' . $from{$form}->($who, $arguments{$load}, $n) . ';'
						  . 'SELECT extract(epoch FROM clock_timestamp())');
					$seconds{$who} = $answer[3] - $answer[1];
				}
				push @{ $times{$load}{$form} }, ($seconds{rate_limit} - $seconds{empty}) * 1000;
			}
		}
	}
	return \%times;
}

# Bytes per key: hits, limit => bytes of rate_limit and of Redis.
sub memory
{
	my ($self) = @_;
	my @rows;
	my $n = 10_000;

	foreach my $case ([ 1, 20 ], [ 20, 20 ], [ 1_000, 1_000_000 ])
	{
		my ($hits, $limit) = @$case;
		my $some = $hits > 100 ? $n / 10 : $n;

		query("SELECT rate_limit_reset_prefix('memory:')");
		my ($before) = query('SELECT bytes_used FROM rate_limit_info');
		# spread over the window, so that the log is as long as it can get
		query("SELECT count(rate_limit_check_at('2030-01-01 00:00+00'::timestamptz + h * interval '1 hour' / ($hits + 1), 'memory:' || lpad(k::text, 9, '0'), $limit, '1 hour')) FROM generate_series(1, $some) k, generate_series(1, $hits) h");
		my ($after) = query('SELECT bytes_used FROM rate_limit_info');

		$self->redis('flushall');
		my ($start) = $self->redis('info', 'memory') =~ /^used_memory:(\d+)/m;
		my $lua = "for k = 1, $some do for h = 1, $hits do redis.call('ZADD', string.format('memory:%09d', k), 1700000000000000 + h, (1700000000000000 + h) .. ':' .. h) end end";
		$self->redis('eval', $lua, 0);
		my ($end) = $self->redis('info', 'memory') =~ /^used_memory:(\d+)/m;
		push @rows, [ $hits, $limit, ($after - $before) / $some, ($end - $start) / $some ];
	}
	query("SELECT rate_limit_reset_prefix('memory:')");
	$self->redis('flushall');
	return \@rows;
}

# 200 calls at once under a limit of 20, and 40 around a full minute: how many pass.
sub accuracy
{
	my ($self) = @_;
	my %calls = (
		'rate_limit' => "INSERT INTO passed SELECT 'rate_limit' WHERE rate_limit_allowed('race', 20, '1 hour');",
		'upsert counter' => "WITH c AS (INSERT INTO counter AS c VALUES ('race', '2030-01-01', 1) ON CONFLICT (key, window_start) DO UPDATE SET count = c.count + 1 RETURNING count) INSERT INTO passed SELECT 'upsert counter' FROM c WHERE count <= 20;",
		'hit log' => "SELECT count(*) < 20 AS free FROM hit WHERE key = 'race' \\gset\n\\if :free\nINSERT INTO hit (key) VALUES ('race');\nINSERT INTO passed VALUES ('hit log');\n\\endif");
	my %passed;

	query('CREATE TABLE passed (who text)');
	foreach my $who (sort keys %calls)
	{
		my $file = "$ENV{RL_WORK}/race.sql";
		open my $handle, '>', $file or die "$!\n";
		print $handle $calls{$who};
		close $handle;
		system("pgbench -n -c 50 -j 2 -t 4 -f $file >>$ENV{RL_WORK}/pgbench.log 2>&1") == 0 or die "pgbench failed\n";
		($passed{$who}{race}) = query("SELECT count(*) FROM passed WHERE who = '$who'");
	}
	($passed{rate_limit}{boundary}) = query(<<SQL);
SELECT count(*) FILTER (WHERE allowed)
  FROM generate_series(1, 40) g, rate_limit_check_at('2030-01-01 00:00:59+00'::timestamptz + g * interval '50 ms', 'boundary' || g * 0, 20, '1 minute')
SQL
	($passed{'upsert counter'}{boundary}) = query(<<SQL);
SELECT sum(least(n, 20)) FROM (SELECT count(*) AS n FROM generate_series(1, 40) g GROUP BY date_trunc('minute', '2030-01-01 00:00:59+00'::timestamptz + g * interval '50 ms')) w
SQL
	$self->redis('del', 'race');
	system("redis-benchmark -s $self->{socket} -c 50 -n 200 -q EVALSHA $self->{scripts}{window} 1 race 20 3600000000 >/dev/null") == 0
	  or die "redis-benchmark failed\n";
	$passed{'Redis, sorted-set script'}{race} = $self->redis('zcard', 'race');

	query('CREATE TABLE boundary (at timestamptz)');
	query(<<'SQL');
DO $$ BEGIN
    FOR g IN 1 .. 40 LOOP
        INSERT INTO boundary SELECT t FROM (SELECT '2030-01-01 00:00:59+00'::timestamptz + g * interval '50 ms' AS t) s
         WHERE (SELECT count(*) FROM boundary WHERE at > t - interval '1 minute') < 20;
    END LOOP;
END $$
SQL
	($passed{'hit log'}{boundary}) = query('SELECT count(*) FROM boundary');
	return \%passed;
}

# What it was measured on.
sub machine
{
	my ($self) = @_;
	my ($cpu) = `grep -m 1 '^model name' /proc/cpuinfo` =~ /: (.*)/;
	my ($memory) = `grep MemTotal /proc/meminfo` =~ /(\d+)/;
	my ($server) = query('SHOW server_version');
	my ($redis) = $self->redis('info', 'server') =~ /^redis_version:(\S+)/m;
	chomp(my $cores = `nproc`);

	return {
		cpu => $cpu // 'unknown',
		cores => $cores,
		memory => sprintf('%.0f GB', $memory / 1024 / 1024),
		postgres => $server,
		redis => $redis,
		settings => { map { $_ => (query("SHOW $_"))[0] } qw(shared_buffers fsync synchronous_commit shared_preload_libraries rate_limit.memory) }
	};
}

1;
