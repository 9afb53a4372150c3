-- The application's own tables, and its limits as data.  Wants the extension rate_limit.

CREATE TABLE plans (
    plan                text PRIMARY KEY,
    tokens_per_month    bigint NOT NULL CHECK (tokens_per_month >= 0),
    overage_per_month   bigint NOT NULL CHECK (overage_per_month >= 0)     -- for users who pay for more
);

INSERT INTO plans VALUES
    ('free',    10000,       0),
    ('pro',   1000000,  500000),
    ('team',  5000000, 5000000);

CREATE TABLE users (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    api_key_hash    bytea NOT NULL UNIQUE,          -- sha256 of it
    plan            text NOT NULL,                  -- as the payment provider calls it
    time_zone       text NOT NULL DEFAULT 'UTC',    -- months begin at this midnight
    overage         boolean NOT NULL DEFAULT false  -- agreed to pay for more than the plan includes
);

-- What is in force for a user.  A plan that nobody knows is free, never unlimited.
CREATE VIEW accounts AS
SELECT u.id, u.api_key_hash, u.time_zone, p.plan, p.tokens_per_month AS included,
       p.tokens_per_month + CASE WHEN u.overage THEN p.overage_per_month ELSE 0 END AS cap
FROM users u, LATERAL (
    SELECT * FROM plans WHERE plans.plan IN (u.plan, 'free') ORDER BY plans.plan = u.plan DESC LIMIT 1) p;

-- Requests per minute: a policy for each feature of each plan, so that features count
-- apart.  A feature that was forgotten in a plan gets the smallest.
INSERT INTO rate_limit_policies (policy, rule, "limit", "window", is_fallback) VALUES
    ('free:chat',       'minute',    5, '1 minute', true),
    ('free:embeddings', 'minute',   20, '1 minute', false),
    ('pro:chat',        'minute',   60, '1 minute', false),
    ('pro:embeddings',  'minute',  600, '1 minute', false),
    ('team:chat',       'minute',  300, '1 minute', false),
    ('team:embeddings', 'minute', 3000, '1 minute', false);

-- A counter belongs to its time zone: a user who moves takes along what was used this month.
-- The role that changes a time zone needs the right to execute rate_limit_adjust.
CREATE FUNCTION move_tokens() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    key CONSTANT text := 'tokens:' || NEW.id;
    used bigint;
BEGIN
    SELECT r.used INTO used
    FROM rate_limit_peek(key, 0, '1 month', algorithm => 'fixed_window', store => 'table', time_zone => OLD.time_zone) r;
    PERFORM rate_limit_adjust(key, 0, '1 month', -used, 'fixed_window', NULL, 'table', OLD.time_zone),
            rate_limit_adjust(key, 0, '1 month', used, 'fixed_window', NULL, 'table', NEW.time_zone);
    RETURN NEW;
END
$$;

CREATE TRIGGER move_tokens BEFORE UPDATE OF time_zone ON users FOR EACH ROW
WHEN (OLD.time_zone <> NEW.time_zone) EXECUTE FUNCTION move_tokens();
