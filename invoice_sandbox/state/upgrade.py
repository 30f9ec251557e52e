"""Upgrades the schema in a PostgreSQL database by Alembic, which is the migration tool that lives.

Any number of servers may start at the same time: an advisory lock lets one of them upgrade.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import psycopg

from invoice_sandbox.state.postgresql import SCHEMA, shown
from invoice_sandbox.state.rows import StoreError

_MIGRATIONS: Final = Path(__file__).with_name("migrations")
_LOCK: Final = 0x494C5321
_SECONDS_TO_CONNECT: Final = 5

log = logging.getLogger("invoice_sandbox")


def upgrade(dsn: str) -> tuple[str | None, str]:
    """Bring the schema to the newest version; returns the versions before and after.

    Servers of an older version that run respond 503 from then on.
    Raises StoreError, also for a schema that a newer server has made.
    """
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=_SECONDS_TO_CONNECT) as database:
            if (before := _version(database)) == SCHEMA:
                return before, SCHEMA
            database.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            before = _version(database)
            if before is not None and before > SCHEMA:
                raise StoreError(
                    f"{shown(dsn)} was upgraded by a newer version: its schema is {before}, "
                    f"this server uses {SCHEMA}"
                )
            if before != SCHEMA:
                migrate(dsn)
    except psycopg.Error as error:
        text = str(error).strip().partition("\n")[0]
        raise StoreError(f"{shown(dsn)} cannot be used: {text}") from None
    return before, SCHEMA


def _version(database: psycopg.Connection) -> str | None:
    (exists,) = database.execute(
        "SELECT to_regclass('invoice_sandbox.alembic_version') IS NOT NULL"
    ).fetchone() or (False,)
    if not exists:
        return None
    found = database.execute("SELECT version_num FROM invoice_sandbox.alembic_version").fetchone()
    return None if found is None else str(found[0])


def migrate(dsn: str, version: str = "head") -> None:
    """Bring the schema to a version that is newer than its own. Raises StoreError."""
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS invoice_sandbox")
            connection.commit()
            config.attributes["connection"] = connection
            command.upgrade(config, version)
            connection.commit()
    except SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise StoreError(f"{shown(dsn)} cannot be upgraded: {text}") from None
    finally:
        engine.dispose()
