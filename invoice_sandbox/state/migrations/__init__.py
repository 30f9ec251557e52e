"""The versions of the PostgreSQL schema, which Alembic applies in their order."""
