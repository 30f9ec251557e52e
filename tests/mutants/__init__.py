"""Mutation tests: small wrong changes that the tests of the area must notice."""
