-- fixed_window with days and months: windows of the calendar in a time zone
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rate_limit;
RESET client_min_messages;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET IntervalStyle = 'postgres';

-- fault 14: from "starts" to "ends", to the microsecond: a call at the start
-- and one just before the end share a window, one just before the start belongs
-- to the window that ends there, and at the end nothing is used.  Instants are
-- in UTC
SELECT v.*,
    a.used = 1 AND a.reset_at = ends AND c.used = 2 AND c.reset_at = ends AS inside,
    b.used = 1 AND b.reset_at = starts AS before,
    d.used = 0 AS after
FROM (VALUES
    -- days of 23 and 25 hours
    ('Europe/Berlin',       interval '1 day', timestamptz '2024-03-30 23:00Z', timestamptz '2024-03-31 22:00Z'),
    ('Europe/Berlin',       '1 day',    '2024-10-26 22:00Z', '2024-10-27 23:00Z'),
    ('America/Los_Angeles', '1 day',    '2024-03-10 08:00Z', '2024-03-11 07:00Z'),
    ('America/Los_Angeles', '1 day',    '2024-11-03 07:00Z', '2024-11-04 08:00Z'),
    -- clocks that change by half an hour, a zone 5:45 ahead
    ('Australia/Lord_Howe', '1 day',    '2024-04-06 13:00Z', '2024-04-07 13:30Z'),
    ('Asia/Kathmandu',      '1 day',    '2024-02-29 18:15Z', '2024-03-01 18:15Z'),
    -- clocks that change at midnight: 0:00 does not exist, comes twice, or is
    -- turned back to 23:00; a day that does not exist
    ('America/Havana',      '1 day',    '2024-03-10 05:00Z', '2024-03-11 04:00Z'),
    ('America/Havana',      '1 day',    '2024-11-03 04:00Z', '2024-11-04 05:00Z'),
    ('America/Sao_Paulo',   '1 day',    '2018-11-04 03:00Z', '2018-11-05 02:00Z'),
    ('America/Sao_Paulo',   '1 day',    '2018-02-17 02:00Z', '2018-02-18 03:00Z'),
    ('Pacific/Apia',        '1 day',    '2011-12-30 10:00Z', '2011-12-31 10:00Z'),
    -- 29 February, and where there is none
    ('UTC',                 '1 day',    '2024-02-29 00:00Z', '2024-03-01 00:00Z'),
    ('UTC',                 '1 day',    '2023-02-28 00:00Z', '2023-03-01 00:00Z'),
    ('UTC',                 '1 day',    '1900-02-28 00:00Z', '1900-03-01 00:00Z'),
    ('UTC',                 '1 month',  '2024-02-01 00:00Z', '2024-03-01 00:00Z'),
    ('UTC',                 '1 month',  '2023-02-01 00:00Z', '2023-03-01 00:00Z'),
    -- 31 January: in Berlin February starts on it
    ('UTC',                 '1 month',  '2024-01-01 00:00Z', '2024-02-01 00:00Z'),
    ('Europe/Berlin',       '1 month',  '2024-01-31 23:00Z', '2024-02-29 23:00Z'),
    ('America/Los_Angeles', '1 month',  '2024-03-01 08:00Z', '2024-04-01 07:00Z'),
    -- quarters, years, a century; five months since the year 0
    ('UTC',                 '3 months', '2024-01-01 00:00Z', '2024-04-01 00:00Z'),
    ('Europe/Berlin',       '3 months', '2024-03-31 22:00Z', '2024-06-30 22:00Z'),
    ('Europe/Berlin',       '3 months', '2024-09-30 22:00Z', '2024-12-31 23:00Z'),
    ('UTC',                 '1 year',   '2024-01-01 00:00Z', '2025-01-01 00:00Z'),
    ('UTC',                 '100 years', '2000-01-01 00:00Z', '2100-01-01 00:00Z'),
    ('UTC',                 '5 months', '2023-10-01 00:00Z', '2024-03-01 00:00Z'),
    -- weeks start on Monday; eleven days since Monday, 1 January 2001
    ('UTC',                 '7 days',   '2024-02-26 00:00Z', '2024-03-04 00:00Z'),
    ('Europe/Berlin',       '1 week',   '2024-03-24 23:00Z', '2024-03-31 22:00Z'),
    ('UTC',                 '7 days',   '2000-12-25 00:00Z', '2001-01-01 00:00Z'),
    ('UTC',                 '2 weeks',  '2000-12-18 00:00Z', '2001-01-01 00:00Z'),
    ('UTC',                 '11 days',  '2024-02-29 00:00Z', '2024-03-11 00:00Z')
    ) v(zone, w, starts, ends),
    rate_limit_check_at(starts, 'calendar:in' || starts, 5, w, 1, 'fixed_window', time_zone => zone) a,
    rate_limit_check_at(a.reset_at - interval '1 us', 'calendar:in' || starts, 5, w, 1, 'fixed_window', time_zone => zone) c,
    rate_limit_peek_at(c.reset_at, 'calendar:in' || starts, 5, w, 1, 'fixed_window', time_zone => zone) d,
    rate_limit_check_at(starts - interval '1 us', 'calendar:before' || starts, 5, w, 1, 'fixed_window', time_zone => zone) b;

-- without a time zone it is UTC, whatever the session's is
SET TimeZone = 'Asia/Tokyo';
SELECT r.reset_at = timestamptz '2024-03-02 00:00Z' AS midnight_utc
FROM rate_limit_check_at('2024-03-01 23:00Z', 'calendar:utc', 5, '1 day', 1, 'fixed_window') r;
SELECT used FROM rate_limit_peek_at('2024-03-01 23:00Z', 'calendar:utc', 5, '1 day', 1,
                                    'fixed_window', time_zone => 'UTC');
SET TimeZone = 'UTC';

-- names of zones in any case are the same zone
SELECT z, used
FROM (VALUES ('Europe/Berlin'), ('europe/berlin'), ('EUROPE/BERLIN')) v(z),
    rate_limit_check_at('2024-03-01 12:00Z', 'calendar:case', 5, '1 day', 1,
                        'fixed_window', time_zone => z);

-- retry_after across the hour that is skipped: from 01:30 in Berlin to midnight
-- there are 21.5 hours
SELECT allowed, used, remaining, retry_after / 3600 AS retry_hours
FROM unnest('{1,1}'::int[]) cost,
    rate_limit_check_at('2024-03-31 00:30Z', 'calendar:retry', 1, '1 day', cost,
                        'fixed_window', time_zone => 'Europe/Berlin');
