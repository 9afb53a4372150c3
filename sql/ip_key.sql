-- ip_key: the network that stands for an address, as a key
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
SELECT ip, rate_limit_ip_key(ip)
FROM (VALUES
    (1, inet '192.0.2.1'), (2, '192.0.2.1/24'), (3, '192.0.2.0/24'), (4, '0.0.0.0'), (5, '255.255.255.255'),
    (11, '2001:db8:1:2:3:4:5:6'), (12, '2001:db8:1:2:3:4:5:6/48'), (13, '2001:db8::1'), (14, '::'), (15, '::1'),
    (16, 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'), (17, 'fe80::1')) v(n, ip) ORDER BY n;

-- fault 12: IPv4-mapped IPv6 counts as its IPv4, each client for itself, with any netmask
SELECT ip, rate_limit_ip_key(ip), rate_limit_ip_key(ip, 24) AS "24"
FROM (VALUES
    (1, inet '::ffff:192.0.2.1'), (2, '::ffff:192.0.2.2'), (3, '::ffff:c000:0203'), (4, '::ffff:192.0.2.1/120'),
    (5, '::ffff:192.0.2.1/96'), (6, '::ffff:192.0.2.1/64'), (7, '::ffff:192.0.2.1/0'), (8, '::ffff:0.0.0.0'),
    (9, '::ffff:255.255.255.255')) v(n, ip) ORDER BY n;
-- their neighbours, and addresses that only end in an IPv4 one, are IPv6
SELECT ip, rate_limit_ip_key(ip), rate_limit_ip_key(ip, v6_prefix => 128) AS "128"
FROM (VALUES
    (1, inet '::fffe:192.0.2.1'), (2, '::1:ffff:192.0.2.1'), (3, '::ffff:0:192.0.2.1'), (4, '::192.0.2.1'),
    (5, '64:ff9b::192.0.2.1')) v(n, ip) ORDER BY n;

-- prefixes
SELECT p4, rate_limit_ip_key('192.0.2.215', p4) FROM unnest('{32,31,30,24,16,9,1,0}'::int[]) p4;
SELECT p6, rate_limit_ip_key('2001:db8:89ab:cdef:89ab:cdef:89ab:cdef', v6_prefix => p6)
FROM unnest('{128,127,96,65,64,56,48,33,1,0}'::int[]) p6;
SELECT rate_limit_ip_key('::ffff:192.0.2.215', 28, 48), rate_limit_ip_key('2001:db8:1:2::3', 28, 48);

-- the key of an address and of its network are one
SELECT rate_limit_ip_key('2001:db8:1:2:ffff::1') = rate_limit_ip_key('2001:db8:1:2::/64') AS same,
       rate_limit_ip_key(rate_limit_ip_key('2001:db8:1:2:ffff::1')::inet) AS again;
SELECT r.used FROM (VALUES (1, inet '192.0.2.1'), (2, '::ffff:192.0.2.1'), (3, '192.0.2.2')) v(n, ip),
    rate_limit_check('ip_key:' || rate_limit_ip_key(ip), 5, '1 hour') r ORDER BY n;

-- null is no address, and no key
SELECT rate_limit_ip_key(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_ip_key('192.0.2.1', NULL);
SELECT rate_limit_ip_key('192.0.2.1', 32, NULL);
SELECT rate_limit_ip_key('192.0.2.1', 33);
\echo :LAST_ERROR_SQLSTATE
SELECT rate_limit_ip_key('192.0.2.1', -1);
SELECT rate_limit_ip_key('192.0.2.1', 32, 129);
SELECT rate_limit_ip_key('2001:db8::', 32, -1);
SELECT rate_limit_ip_key('192.0.2.256');

-- good for an index
CREATE TEMP TABLE visits (ip inet);
CREATE INDEX ON visits (rate_limit_ip_key(ip));
SELECT provolatile, proparallel FROM pg_proc WHERE proname = 'rate_limit_ip_key';
