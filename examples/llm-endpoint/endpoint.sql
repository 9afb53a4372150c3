-- What the endpoint asks before every turn, and says after it.  SECURITY DEFINER, with
-- names that are looked up now: the role of the endpoint needs these two functions only.

-- Who is it, and may this pass?  One statement: the user, the requests of the minute, and
-- the tokens of the month, of which as many are reserved as the turn can use at most.
-- Later turns of a request cost no further request.  No row: nobody has this key.
CREATE FUNCTION llm_reserve(
    api_key text, feature text, tokens bigint, requests bigint,
    OUT user_id bigint, OUT allowed boolean, OUT rule text, OUT headers jsonb, OUT month_ends timestamptz)
RETURNS SETOF record LANGUAGE sql SECURITY DEFINER
BEGIN ATOMIC
    SELECT a.id, minute.allowed AND month.allowed, d.rule, rate_limit_headers(d.row, d.length, d.rule), month.reset_at
    FROM accounts a,
         LATERAL (SELECT a.plan || ':' || feature) p (policy),
         rate_limit_enforce(p.policy, 'user:' || a.id, requests) minute,
         -- what the minute has refused only looks: it costs 0
         rate_limit_check('tokens:' || a.id, a.cap, '1 month', CASE WHEN minute.allowed THEN tokens ELSE 0 END,
             'fixed_window', NULL, 'table', a.time_zone) month,
         -- the one that decided is what the headers tell of
         LATERAL (
             SELECT minute, coalesce(minute.rule, 'minute'),
                    (SELECT r."window" FROM rate_limit_policies r WHERE (r.policy, r.rule) = (p.policy, minute.rule))
             WHERE month.allowed OR NOT minute.allowed
             UNION ALL
             SELECT month, coalesce(month.rule, 'month'), NULL
             WHERE minute.allowed AND NOT month.allowed) d (row, rule, length)
    WHERE a.api_key_hash = sha256(convert_to(api_key, 'UTF8'));
END;

-- The turn has used "delta" more than was reserved, or less if it is negative.  What was
-- reserved in a month that is over is not given back to the next.
CREATE FUNCTION llm_settle(
    user_id bigint, delta bigint, month_ends timestamptz,
    OUT used bigint, OUT included bigint, OUT overage bigint)
RETURNS SETOF record LANGUAGE sql SECURITY DEFINER
BEGIN ATOMIC
    SELECT month.used, a.included, greatest(month.used - a.included, 0)
    FROM accounts a,
         rate_limit_adjust('tokens:' || a.id, a.cap, '1 month',
             CASE WHEN delta < 0 AND clock_timestamp() >= month_ends THEN 0 ELSE delta END,
             'fixed_window', NULL, 'table', a.time_zone) month
    WHERE a.id = user_id;
END;

REVOKE EXECUTE ON FUNCTION llm_reserve, llm_settle FROM PUBLIC;
