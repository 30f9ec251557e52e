"""Conformance of a client: acceptance plans, their rules, and observations of a client."""
