/* rate_limit--1.0.sql */

\echo Use "CREATE EXTENSION rate_limit" to load this file. \quit

/*
 * The result row
 */
CREATE TYPE @extschema@.rate_limit_result AS (
    allowed     pg_catalog.bool,
    "limit"     pg_catalog.int8,
    used        pg_catalog.int8,
    remaining   pg_catalog.int8,
    retry_after pg_catalog.float8,
    reset_at    pg_catalog.timestamptz,
    rule        pg_catalog.text
);
COMMENT ON TYPE @extschema@.rate_limit_result IS
'what a rate limit decided about one call';
COMMENT ON COLUMN @extschema@.rate_limit_result.allowed IS
'the call''s cost was admitted and recorded';
COMMENT ON COLUMN @extschema@.rate_limit_result."limit" IS
'the limit in force; for token_bucket the capacity; NULL = unlimited';
COMMENT ON COLUMN @extschema@.rate_limit_result.used IS
'cost recorded in the current span, after this call';
COMMENT ON COLUMN @extschema@.rate_limit_result.remaining IS
'cost that would still be admitted now, between 0 and the limit';
COMMENT ON COLUMN @extschema@.rate_limit_result.retry_after IS
'seconds until the same call would be admitted if nobody else came; 0 when allowed, NULL when never';
COMMENT ON COLUMN @extschema@.rate_limit_result.reset_at IS
'when additional quota next becomes available; NULL when never';
COMMENT ON COLUMN @extschema@.rate_limit_result.rule IS
'the rule that decided: block when the key is blocked, else NULL';

/*
 * The table store
 */
CREATE TABLE @extschema@.rate_limit_state (
    key             pg_catalog.text COLLATE "C" NOT NULL,
    policy          pg_catalog.text COLLATE "C" NOT NULL DEFAULT '',
    rule            pg_catalog.text COLLATE "C" NOT NULL DEFAULT '',
    algorithm       pg_catalog.text COLLATE "C" NOT NULL,
    window_length   pg_catalog.int8 NOT NULL,
    window_unit     pg_catalog.text COLLATE "C" NOT NULL,
    time_zone       pg_catalog.text COLLATE "C" NOT NULL,
    state           pg_catalog.int8[] NOT NULL,
    "limit"         pg_catalog.int8 NOT NULL,
    expires_at      pg_catalog.timestamptz NOT NULL,
    last_use        pg_catalog.timestamptz NOT NULL,
    PRIMARY KEY (key, policy, rule, algorithm, window_length, window_unit, time_zone)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
REVOKE ALL ON @extschema@.rate_limit_state FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('@extschema@.rate_limit_state', '');
COMMENT ON TABLE @extschema@.rate_limit_state IS
'counters of the table store, one row each; written by the functions only';
COMMENT ON COLUMN @extschema@.rate_limit_state.policy IS
'whose counter it is; empty if it is that of ad-hoc calls';
COMMENT ON COLUMN @extschema@.rate_limit_state.window_length IS
'length of the window in window_unit: microsecond, day or month';
COMMENT ON COLUMN @extschema@.rate_limit_state.time_zone IS
'of a calendar window, else empty';
COMMENT ON COLUMN @extschema@.rate_limit_state.state IS
'what is recorded, as src/state.c describes it';
COMMENT ON COLUMN @extschema@.rate_limit_state.expires_at IS
'from then on the row means nothing and is removed sooner or later';

/*
 * Deciding
 */
CREATE FUNCTION @extschema@.rate_limit_check(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_check'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_check IS
'decides whether a call may pass and records its cost if so';

CREATE FUNCTION @extschema@.rate_limit_allowed(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'rate_limit_allowed'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_allowed IS
'rate_limit_check reduced to its first column, the cheapest form';

CREATE FUNCTION @extschema@.rate_limit_require(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'rate_limit_require'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_require IS
'records a call''s cost, or raises SQLSTATE RL429 with the result row as JSON in the detail';

CREATE FUNCTION @extschema@.rate_limit_peek(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_peek'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.rate_limit_peek IS
'decides like rate_limit_check, but records nothing';

CREATE FUNCTION @extschema@.rate_limit_check_all(
    keys        pg_catalog.text[],
    limits      pg_catalog.int8[],
    windows     pg_catalog.interval[],
    costs       pg_catalog.int8[] DEFAULT NULL,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    OUT ord         pg_catalog.int4,
    OUT key         pg_catalog.text,
    OUT allowed     pg_catalog.bool,
    OUT "limit"     pg_catalog.int8,
    OUT used        pg_catalog.int8,
    OUT remaining   pg_catalog.int8,
    OUT retry_after pg_catalog.float8,
    OUT reset_at    pg_catalog.timestamptz,
    OUT rule        pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_check_all'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION @extschema@.rate_limit_check_all IS
'checks several limits, all or nothing: if one refuses, none is charged';

/*
 * Deciding at an explicit instant, and recording whatever the limit says
 */
CREATE FUNCTION @extschema@.rate_limit_adjust(
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    delta       pg_catalog.int8,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_adjust'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_adjust FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_adjust IS
'records delta whatever the limit says; a negative delta gives back the newest hits first';

CREATE FUNCTION @extschema@.rate_limit_check_at(
    at          pg_catalog.timestamptz,
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_check_at'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_check_at FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_check_at IS
'rate_limit_check at an explicit instant, for tests and replays';

CREATE FUNCTION @extschema@.rate_limit_peek_at(
    at          pg_catalog.timestamptz,
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    cost        pg_catalog.int8 DEFAULT 1,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_peek_at'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_peek_at FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_peek_at IS
'rate_limit_peek at an explicit instant, for tests and replays';

CREATE FUNCTION @extschema@.rate_limit_adjust_at(
    at          pg_catalog.timestamptz,
    key         pg_catalog.text,
    "limit"     pg_catalog.int8,
    "window"    pg_catalog.interval,
    delta       pg_catalog.int8,
    algorithm   pg_catalog.text DEFAULT 'sliding_window',
    burst       pg_catalog.int8 DEFAULT NULL,
    store       pg_catalog.text DEFAULT NULL,
    time_zone   pg_catalog.text DEFAULT NULL)
RETURNS @extschema@.rate_limit_result
AS 'MODULE_PATHNAME', 'rate_limit_adjust_at'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_adjust_at FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_adjust_at IS
'rate_limit_adjust at an explicit instant, for tests and replays';

/*
 * Administration
 */
CREATE FUNCTION @extschema@.rate_limit_reset(
    key         pg_catalog.text)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'rate_limit_reset'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_reset FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_reset IS
'removes every counter of a key and returns how many there were; a block stays';

CREATE FUNCTION @extschema@.rate_limit_reset_prefix(
    prefix      pg_catalog.text)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'rate_limit_reset_prefix'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_reset_prefix FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_reset_prefix IS
'removes every counter of this database whose key starts with prefix and returns how many there were';

CREATE FUNCTION @extschema@.rate_limit_block(
    key         pg_catalog.text,
    duration    pg_catalog.interval DEFAULT NULL,
    reason      pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'rate_limit_block'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_block FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_block IS
'makes every check of a key refuse for a duration; NULL = until unblocked';

CREATE FUNCTION @extschema@.rate_limit_unblock(
    key         pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'rate_limit_unblock'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_unblock FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_unblock IS
'lifts the block of a key; false when it was not blocked';

CREATE FUNCTION @extschema@.rate_limit_prune(
    max         pg_catalog.int8 DEFAULT NULL)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'rate_limit_prune'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_prune FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_prune IS
'removes rows of the table store that have expired, up to max, and returns how many';

/*
 * To look at
 */
CREATE FUNCTION @extschema@.rate_limit_keys(
    OUT key         pg_catalog.text,
    OUT algorithm   pg_catalog.text,
    OUT "window"    pg_catalog.interval,
    OUT time_zone   pg_catalog.text,
    OUT "limit"     pg_catalog.int8,
    OUT used        pg_catalog.int8,
    OUT refusals    pg_catalog.int8,
    OUT last_use    pg_catalog.timestamptz,
    OUT expires_at  pg_catalog.timestamptz,
    OUT store       pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_keys'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1000;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_keys FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_keys IS
'the live counters of this database; see the view of the same name';

CREATE VIEW @extschema@.rate_limit_keys AS
    SELECT * FROM @extschema@.rate_limit_keys();
REVOKE ALL ON @extschema@.rate_limit_keys FROM PUBLIC;
COMMENT ON VIEW @extschema@.rate_limit_keys IS
'the live counters of this database';

CREATE FUNCTION @extschema@.rate_limit_blocks(
    OUT key         pg_catalog.text,
    OUT blocked_at  pg_catalog.timestamptz,
    OUT until       pg_catalog.timestamptz,
    OUT reason      pg_catalog.text,
    OUT refusals    pg_catalog.int8)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_blocks'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 100;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_blocks FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_blocks IS
'the blocks of this database; see the view of the same name';

CREATE VIEW @extschema@.rate_limit_blocks AS
    SELECT * FROM @extschema@.rate_limit_blocks();
REVOKE ALL ON @extschema@.rate_limit_blocks FROM PUBLIC;
COMMENT ON VIEW @extschema@.rate_limit_blocks IS
'the keys of this database that are blocked now; until is NULL when the block has no end';

CREATE FUNCTION @extschema@.rate_limit_info(
    OUT set_up      pg_catalog.text,
    OUT set_up_at   pg_catalog.timestamptz,
    OUT bytes       pg_catalog.int8,
    OUT bytes_used  pg_catalog.int8,
    OUT bytes_free  pg_catalog.int8,
    OUT counters    pg_catalog.int8,
    OUT blocks      pg_catalog.int8,
    OUT evictions   pg_catalog.int8,
    OUT refused_full pg_catalog.int8)
RETURNS pg_catalog.record
AS 'MODULE_PATHNAME', 'rate_limit_info'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION @extschema@.rate_limit_info FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.rate_limit_info IS
'the state of the memory store; see the view of the same name';

CREATE VIEW @extschema@.rate_limit_info AS
    SELECT * FROM @extschema@.rate_limit_info();
REVOKE ALL ON @extschema@.rate_limit_info FROM PUBLIC;
COMMENT ON VIEW @extschema@.rate_limit_info IS
'the state of the memory store, all databases together';
COMMENT ON COLUMN @extschema@.rate_limit_info.set_up IS
'preload = at server start, first use = by the first call, NULL = not yet';
COMMENT ON COLUMN @extschema@.rate_limit_info.bytes IS
'size of the shared memory in bytes, rate_limit.memory when it was set up';
COMMENT ON COLUMN @extschema@.rate_limit_info.evictions IS
'live counters dropped because memory was full; expired ones do not count';
COMMENT ON COLUMN @extschema@.rate_limit_info.refused_full IS
'calls refused because memory was full of counters that must not be dropped';

GRANT SELECT ON @extschema@.rate_limit_keys, @extschema@.rate_limit_blocks,
    @extschema@.rate_limit_info TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.rate_limit_keys, @extschema@.rate_limit_blocks,
    @extschema@.rate_limit_info TO pg_monitor;
