"""What Alembic runs: the migrations, on the connection that it is given."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema="invoice_sandbox",
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
