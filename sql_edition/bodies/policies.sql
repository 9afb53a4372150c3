The bodies of the functions that decide by policies, each after its name.

-- rate_limit_enforce

BEGIN
    RETURN rl_enforce(NULL, policy, key, cost);
END

-- rate_limit_enforce_at

BEGIN
    RETURN rl_enforce(rl_read_at(at), policy, key, cost);
END

-- rate_limit_enforce_adjust

BEGIN
    RETURN rl_enforce_adjust(policy, key, delta);
END

-- rate_limit_usage

DECLARE
    request rl_request;
    result rate_limit_result;
BEGIN
    PERFORM rl_check_call(policy, key, 1);
    FOREACH request IN ARRAY rl_policy_requests(NULL, policy, key, 1) LOOP
        result := rl_result(request, rl_peek(request, 1));
        result.rule := request.rule;
        RETURN NEXT result;
    END LOOP;
END
