"""Partner acceptance: plans, rules about what a client did, the runner, verdicts and reports."""
