"""Contracts of others: those that openapi-spec-validator accepts start."""
