"""What Alembic runs: the migrations, on the connection that it is given, in one transaction.

First it ends every replica, so that no server of an older version writes into the new schema.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

_END_REPLICAS = """DO $$ BEGIN
  IF to_regclass('invoice_sandbox.replicas') IS NOT NULL THEN
    DELETE FROM invoice_sandbox.replicas;
  END IF;
END $$"""

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table_schema="invoice_sandbox")
with context.begin_transaction():
    connection.execute(text(_END_REPLICAS))
    context.run_migrations()
