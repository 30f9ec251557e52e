"""Acceptance tests of clients: plans, rules, the runner, verdicts and reports."""
