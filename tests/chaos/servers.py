"""Servers in processes of their own, on a file or on a database behind a proxy."""

from __future__ import annotations

import http.client
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from email.message import Message
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.chaos.forked import Forked
from tests.databases import Proxy, new_database
from tests.support import PATIENCE

_SCENARIOS: Final = Path(__file__).parent / "scenarios"
_ERRORS, _REPEATED, _UNAVAILABLE = 300, 409, 503


def spawned(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """``invoice-sandbox`` with these arguments."""
    command = [sys.executable, "-m", "invoice_sandbox", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class Server:
    """A server on a file or a database, in a process of its own."""

    def __init__(
        self,
        store: Path | str,
        *more: str,
        start: Callable[[Sequence[str]], subprocess.Popen[str] | Forked] = spawned,
    ) -> None:
        options = ["--port", "0", "--rate-limit", "off", "--max-deliveries", "1000000", *more]
        options += ["--store", store if isinstance(store, str) else f"sqlite:///{store}"]
        self.process = start(["serve", *options])
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        found = re.search(r"ready on http://127\.0\.0\.1:(\d+)", ready)
        assert found, f"the server printed {ready!r}"
        self.port = int(found[1])

    def connection(self) -> http.client.HTTPConnection:
        """A connection to the server."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(
        self, method: str, path: str, body: Any = None, key: str = "", credential: str = DEMO_KEY
    ) -> Any:
        """The same as ``ask``, on a connection of its own."""
        with closing(self.connection()) as connection:
            return ask(connection, method, path, body, key, credential)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class NotNowError(Exception):
    """The server is busy with the same request (409), or cannot carry it out now (503)."""


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    key: str = "",
    credential: str = DEMO_KEY,
) -> Any:
    """The data of a response. Raises what ``exchange`` raises."""
    return json.loads(exchange(connection, method, path, body, key, credential)[0])["data"]


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    key: str = "",
    credential: str = DEMO_KEY,
) -> tuple[bytes, Message]:
    """The text and the headers of a response.

    Raises OSError, HTTPException, NotNowError, and AssertionError for another error.
    """
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read()
    if response.headers["Content-Length"] is None:  # the server was killed within the head
        raise http.client.IncompleteRead(text)
    if response.status < _ERRORS:
        return text, response.headers
    shown = f"{method} {path}: {response.status} {text[:300]!r}"
    if response.status == _REPEATED and key:
        raise NotNowError(shown)
    if response.status == _UNAVAILABLE and response.headers["Retry-After"] is not None:
        raise NotNowError(shown)
    raise AssertionError(shown)


@dataclass
class Deployment:
    """Servers on the same store."""

    store: Path | str
    chosen: random.Random
    proxy: Proxy | None
    is_cached: bool = False
    servers: list[Server] = field(default_factory=list)
    clients: list[Any] = field(default_factory=list)
    skews: dict[int, float] = field(default_factory=dict)

    def start(self, skew: float = 0) -> Server:
        """One more server."""
        options = ("--seed", "1", "--scenarios", str(_SCENARIOS), "--webhook-timeout", "600")
        cached = None
        if self.is_cached and isinstance(self.store, Path):
            cached = self.store.parent, self.chosen.randrange(2**32)
        server = Server(self.store, *options, start=partial(Forked, skew=skew, cached=cached))
        self.skews[server.port] = skew
        return server

    def end(self) -> None:
        """End all servers."""
        for server in self.servers:
            server.kill()

    def any(self) -> Server:
        """One of the servers; one that was killed stays until another one has taken its place."""
        return self.chosen.choice(self.servers)

    def replace(self, server: Server) -> None:
        """Start a server in the place of one that was killed."""
        self.servers[self.servers.index(server)] = self.start(self.skews[server.port])


@contextmanager
def deployed(
    chosen: random.Random, skews: tuple[float, ...], *, on_file: bool, is_cached: bool = False
) -> Iterator[Deployment]:
    """A server for each of ``skews``. They end with the block. ``is_cached``: the disk of the file
    loses what was not synced when the power fails."""
    with ExitStack() as stack:
        if on_file:
            folder = stack.enter_context(TemporaryDirectory())
            deployment = Deployment(Path(folder) / "state.db", chosen, None, is_cached)
        else:
            proxy = stack.enter_context(closing(Proxy(new_database())))
            deployment = Deployment(proxy.dsn, chosen, proxy)
        stack.callback(deployment.end)
        for skew in skews:
            deployment.servers.append(deployment.start(skew))
        yield deployment
