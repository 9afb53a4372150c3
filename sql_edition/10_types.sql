/*
 * The inside of the SQL edition.  Instants are microseconds since 2000-01-01
 * 00:00 UTC, as in the column "state"; 2^63 - 1 is an instant that never comes.
 * What nobody but the functions below should call starts with rl_.
 *
 * The functions that run as their owner get a fixed search_path at the end: all
 * others are called by them and run in theirs.
 */

/* What a caller asks for, once its arguments have been found good. */
CREATE TYPE rl_request AS (
    key             text COLLATE "C",
    policy          text COLLATE "C",   -- and rule: of a policy, else empty
    rule            text COLLATE "C",
    algorithm       text COLLATE "C",
    window_length   int8,
    window_unit     text COLLATE "C",
    time_zone       text COLLATE "C",
    "limit"         int8,       -- NULL: unlimited
    capacity        int8,       -- burst of a token bucket, else the limit
    cost            int8,       -- may be negative in an adjustment
    at              int8,       -- decide as if it were then; NULL: now
    shadow          bool        -- a rule that never refuses
);
COMMENT ON TYPE rl_request IS
'internal: what a call asks for';

/* What became of it. */
CREATE TYPE rl_outcome AS (
    allowed         bool,
    blocked         bool,
    used            int8,
    remaining       int8,
    decided_at      int8,
    retry_at        int8,
    reset_at        int8,
    state           int8[],     -- of the counter now; empty: nothing is recorded
    ends_at         int8,       -- until when that means something
    recorded        bool,       -- was anything recorded or given back?
    re_timed        bool        -- was the clock set back?  Keep the state then
);
COMMENT ON TYPE rl_outcome IS
'internal: what was decided about a call';

/* The blocks, which the extension keeps in memory. */
CREATE TABLE rate_limit_blocked (
    key             text COLLATE "C" PRIMARY KEY,
    blocked_at      timestamptz NOT NULL,
    until           timestamptz NOT NULL,
    reason          text
);
REVOKE ALL ON rate_limit_blocked FROM PUBLIC;
COMMENT ON TABLE rate_limit_blocked IS
'blocked keys; written by the functions only';
COMMENT ON COLUMN rate_limit_blocked.until IS
'infinity: until unblocked';

/*
 * The largest limit for which a sliding window keeps the exact time of every
 * hit.  A setting could be changed by every user, a function only by its owner:
 * replace it to have another number, from 1 to 1024.
 */
CREATE FUNCTION rl_exact_hits() RETURNS int8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS 'SELECT int8 ''128''';
