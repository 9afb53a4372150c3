-- networks: overrides for all keys that are addresses in a network
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';
\set SHOW_CONTEXT never
INSERT INTO rate_limit_policies (policy, rule, "limit", "window")
VALUES ('networks:p', 'hour', 100, '1 hour'), ('networks:q', 'hour', 200, '1 hour');
INSERT INTO rate_limit_overrides (policy, network, "limit", reason) VALUES
    (NULL,         '192.0.2.0/24',         24, 'test'),
    (NULL,         '192.0.2.128/25',       25, 'test'),
    ('networks:p', '192.0.2.0/24',         124, 'test'),
    ('networks:p', '192.0.0.0/16',         116, 'test'),
    ('networks:q', '2001:db8::/32',        32, 'test'),
    ('networks:q', '2001:db8:1::/48',      NULL, 'test'),
    ('networks:q', '::ffff:203.0.113.0/120', 120, 'test');
CREATE FUNCTION pg_temp.limits(key text) RETURNS TABLE (p bigint, q bigint) LANGUAGE sql AS $$
    SELECT (rate_limit_usage('networks:p', key))."limit", (rate_limit_usage('networks:q', key))."limit"
$$;

-- the longest network first, then the policy; 100 and 200 where none matches
SELECT key, l.*
FROM (VALUES
    (1, '192.0.2.1'), (2, 'ip:192.0.2.1'), (3, '192.0.2.129'), (4, '192.0.2.255'), (5, '192.0.1.1'), (6, '192.1.0.0'),
    -- IPv4-mapped addresses are IPv4 addresses
    (11, '::ffff:192.0.2.1'), (12, 'ip:::ffff:192.0.2.129'), (13, '::FFFF:c000:0201'), (14, 'ip:203.0.113.7'),
    (15, '::ffff:203.0.113.7'),
    -- networks as keys are in a network that contains all of them
    (21, '192.0.2.0/24'), (22, '192.0.2.0/23'), (23, 'ip:192.0.2.192/26'), (24, '::ffff:192.0.2.128/121'),
    (25, '192.0.2.7/24'),
    -- IPv6
    (31, '2001:db8::1'), (32, 'ip:2001:db8:1::/64'), (33, 'ip:2001:DB8:0001:ffff::'), (34, '2001:db9::'),
    (35, '2001:db8::/31'), (36, '2001:db8:1:2:3:4:5:6'), (37, '2001:db8::192.0.2.1')) v(n, key),
    pg_temp.limits(key) l
ORDER BY n;

-- other keys are in no network, and no error
SELECT count(*), count(*) FILTER (WHERE l.p = 100 AND l.q = 200) AS unchanged
FROM (VALUES
    (1, 'user:42'), (2, '192.0.2'), (3, '192.0.2.256'), (4, '192.0.2.1.1'), (5, '192.0.2.1/33'), (6, '192.0.2.1/'),
    (7, ' 192.0.2.1'), (8, '192.0.2.1 '), (9, 'ip: 192.0.2.1'), (10, 'IP:192.0.2.1'), (11, 'ip:'),
    (12, 'ip:ip:192.0.2.1'), (13, '2001:db8:::1'), (14, '2001:db8::1::'), (15, '2001:db8::1/129'), (16, '2001:db8::g'),
    (17, '::ffff:192.0.2.256'), (18, '2001:db8::1%eth0'), (19, '[2001:db8::1]'), (20, '192.0.2.1:80'),
    (21, 'a:b:c'), (22, 'a::b:c::'), (23, '192'), (24, '3221225985'), (25, repeat('1:', 500)), (26, ':'),
    (27, '2001:db8:1:2:3:4:5:6:7')) v(n, key),
    pg_temp.limits(key) l;

-- the key itself is nearer than any network
INSERT INTO rate_limit_overrides (key, "limit", reason) VALUES ('192.0.2.129', 1, 'test'), ('ip:192.0.2.1', 2, 'test');
SELECT key, l.*
FROM (VALUES (1, '192.0.2.129'), (2, 'ip:192.0.2.129'), (3, 'ip:192.0.2.1'), (4, '192.0.2.1'), (5, 'ip:192.0.2.01')) v(n, key),
    pg_temp.limits(key) l ORDER BY n;

-- each address has its own counter, with the limit of the network
SELECT key, r.*
FROM unnest('{192.0.2.130,192.0.2.131}'::text[]) key,
    rate_limit_enforce_at('2024-03-01 12:00Z', 'networks:q', key, 20) r;
SELECT r.*
FROM rate_limit_enforce_at('2024-03-01 12:30Z', 'networks:q', '192.0.2.130', 6) r;

-- expired and rule
UPDATE rate_limit_overrides SET expires_at = now() WHERE network = '192.0.2.128/25';
UPDATE rate_limit_overrides SET rule = 'minute' WHERE network = '192.0.2.0/24' AND policy = 'networks:p';
SELECT key, l.* FROM (VALUES ('192.0.2.130')) v(key), pg_temp.limits(key) l;

DELETE FROM rate_limit_policies WHERE policy LIKE 'networks:%';
DELETE FROM rate_limit_overrides WHERE reason = 'test';
