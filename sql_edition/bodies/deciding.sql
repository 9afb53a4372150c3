The bodies of the functions that decide, each after its name.  All that they
need to know is in rl_read_request and rl_decide.

-- rate_limit_check

DECLARE
    request rl_request := rl_read_request(NULL, key, "limit", "window", cost, algorithm, burst, store, time_zone);
BEGIN
    RETURN rl_result(request, rl_decide('check', request));
END

-- rate_limit_check_at

DECLARE
    request rl_request := rl_read_request(rl_read_at(at), key, "limit", "window", cost, algorithm, burst, store, time_zone);
BEGIN
    RETURN rl_result(request, rl_decide('check', request));
END

-- rate_limit_peek

DECLARE
    request rl_request := rl_read_request(NULL, key, "limit", "window", cost, algorithm, burst, store, time_zone);
BEGIN
    RETURN rl_result(request, rl_decide('peek', request));
END

-- rate_limit_peek_at

DECLARE
    request rl_request := rl_read_request(rl_read_at(at), key, "limit", "window", cost, algorithm, burst, store, time_zone);
BEGIN
    RETURN rl_result(request, rl_decide('peek', request));
END

-- rate_limit_adjust

DECLARE
    request rl_request := rl_read_request(NULL, key, "limit", "window", delta, algorithm, burst, store, time_zone,
        p_adjustment => true);
BEGIN
    RETURN rl_result(request, rl_decide('adjust', request));
END

-- rate_limit_adjust_at

DECLARE
    request rl_request := rl_read_request(rl_read_at(at), key, "limit", "window", delta, algorithm, burst, store, time_zone,
        p_adjustment => true);
BEGIN
    RETURN rl_result(request, rl_decide('adjust', request));
END

-- rate_limit_allowed

DECLARE
    request rl_request := rl_read_request(NULL, key, "limit", "window", cost, algorithm, burst, store, time_zone);
BEGIN
    RETURN (rl_decide('check', request)).allowed;
END

-- rate_limit_require

DECLARE
    request rl_request := rl_read_request(NULL, key, "limit", "window", cost, algorithm, burst, store, time_zone);
    outcome rl_outcome := rl_decide('check', request);
BEGIN
    IF NOT outcome.allowed THEN
        PERFORM rl_raise_refusal(request, outcome);
    END IF;
END

-- rate_limit_check_all

DECLARE
    requests rl_request[] := rl_read_requests(keys, limits, windows, costs, algorithm);
    outcomes rl_outcome[] := rl_decide_all(requests);
    result rate_limit_result;
BEGIN
    FOR i IN 1 .. cardinality(requests) LOOP
        result := rl_result(requests[i], outcomes[i]);
        ord := i;
        key := (requests[i]).key;
        allowed := result.allowed;
        "limit" := result."limit";
        used := result.used;
        remaining := result.remaining;
        retry_after := result.retry_after;
        reset_at := result.reset_at;
        rule := result.rule;
        RETURN NEXT;
    END LOOP;
END
