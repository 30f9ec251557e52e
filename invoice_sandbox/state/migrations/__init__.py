"""The versions of the PostgreSQL schema, which Alembic applies in their order.

A migration does not change once databases may have it: to them it would never be applied again. So
what it created is changed by a later one, which restates a function with CREATE OR REPLACE and says
what is not as before.
"""
