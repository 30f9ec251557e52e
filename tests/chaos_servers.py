"""Faults of several servers on one PostgreSQL database, while clients write through all of them.

Each client repeats a request, through any server, until it is acknowledged. Afterwards everything
that was acknowledged must be there once, and each due step must have happened once, although the
servers that remain race for the steps of the one that has ended.
"""

from __future__ import annotations

import http.client
import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from invoice_sandbox.state.postgresql import LEASE
from tests.chaos import BODY, Outcome, Receiver, Server, ask
from tests.databases import Proxy, new_database, restart
from tests.scenario_run import until
from tests.support import PATIENCE

_SERVERS: Final = 3
_WORKSPACES: Final = 4
_EVENTS: Final = ("invoice.registered", "invoice.verified")
_REPEATED: Final = (409, 503)
"""Statuses after which a request is repeated: it is under way, or cannot be carried out now."""


@dataclass
class Deployment:
    """Servers on a database, behind a proxy, and workspaces with one client each."""

    proxy: Proxy
    chosen: random.Random
    servers: list[Server] = field(default_factory=list)

    def start(self) -> Server:
        """One more server."""
        server = Server(self.proxy.dsn, "--seed", "1", quiet=True)
        self.servers.append(server)
        return server

    def end(self) -> None:
        """End all servers."""
        for server in self.servers:
            server.kill()

    def any(self) -> Server:
        """One of the servers."""
        return self.chosen.choice(self.servers)


class Client:
    """Creates invoices in one workspace until it is stopped."""

    def __init__(self, deployment: Deployment, key: str, name: str) -> None:
        self.key = key
        self._deployment = deployment
        self._name = name
        self.ids: dict[str, str] = {}
        self.begun: list[float] = []
        self.wrong: list[str] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the invoice under way."""
        self._is_stopping.set()
        self._thread.join(PATIENCE)

    def _write(self) -> None:
        while not self._is_stopping.is_set():
            number = f"{self._name}-{len(self.ids)}"
            while (created := self._try(number)) is None:
                time.sleep(0.05)
            self.ids[number] = created

    def _try(self, number: str) -> str | None:
        """The id of the created invoice; None: not yet."""
        began, server = time.monotonic(), self._deployment.any()
        try:
            with closing(server.connection()) as connection:
                body = {**BODY, "invoiceNumber": number}
                created = ask(connection, "POST", "/api/invoices", body, number, self.key)
        except (OSError, http.client.HTTPException):
            return None
        except AssertionError as error:
            if not any(f": {status} " in str(error) for status in _REPEATED):
                self.wrong.append(str(error))
            return None
        self.begun.append(began)
        return str(created["id"])


Fault = Callable[[Deployment], None]


def kill(deployment: Deployment) -> None:
    """SIGKILL of one of the servers, and a new one in its place."""
    server = deployment.any()
    deployment.servers.remove(server)
    server.kill()
    deployment.start()


def freeze(deployment: Deployment) -> None:
    """A server that stands still until others have taken its place, and then goes on."""
    server = deployment.any()
    server.process.send_signal(signal.SIGSTOP)
    deployment.servers.remove(server)
    time.sleep(LEASE + 2)
    server.process.send_signal(signal.SIGCONT)
    deployment.servers.append(server)


def cut(deployment: Deployment) -> None:
    """A connection to the database ends right after a COMMIT was sent."""
    is_cut = threading.Event()

    def cut_once(content: bytes) -> bool:
        is_last = b"COMMIT" in content
        if is_last:
            is_cut.set()
        return is_last

    deployment.proxy.cut_at = cut_once
    assert is_cut.wait(PATIENCE)


def restart_database(_: Deployment) -> None:
    """PostgreSQL ends at once and starts again."""
    restart()


FAULTS: Final[dict[str, tuple[Fault, int]]] = {
    f"SIGKILL of one of {_SERVERS} servers on PostgreSQL": (kill, 40),
    f"A server stands still for {LEASE + 2:.0f} s, longer than its lease": (freeze, 5),
    "Connection to PostgreSQL cut in a commit": (cut, 200),
    "PostgreSQL killed and started again": (restart_database, 20),
}
"""What is tried, and how often."""


def run(fault: Fault, times: int, seed: int) -> Outcome:
    """Let the fault happen several times while clients write."""
    outcome, chosen = Outcome(), random.Random(seed)  # noqa: S311  no secret
    with Receiver() as receiver, deployed(chosen) as deployment:
        clients = [
            Client(deployment, key, f"w{number}")
            for number, key in enumerate(workspaces(deployment, receiver.url))
        ]
        for _ in range(times):
            time.sleep(chosen.uniform(0.1, 0.5))
            began = time.monotonic()
            fault(deployment)
            outcome.kills += 1
            recovered = [wait_for_write(client, began) for client in clients]
            outcome.slowest_start = max(outcome.slowest_start, *recovered)
        for client in clients:
            client.stop()
            outcome.lost += client.wrong
        compare(deployment, clients, receiver, outcome)
    return outcome


@contextmanager
def deployed(chosen: random.Random) -> Iterator[Deployment]:
    """Servers that end with the block."""
    with closing(Proxy(new_database())) as proxy, ExitStack() as stack:
        deployment = Deployment(proxy, chosen)
        stack.callback(deployment.end)
        for _ in range(_SERVERS):
            deployment.start()
        yield deployment


def workspaces(deployment: Deployment, receiver: str) -> list[str]:
    """The keys of new workspaces, each with a webhook endpoint."""
    keys = []
    for _ in range(_WORKSPACES):
        made = deployment.any().ask("POST", "/sandbox/workspaces", {"scenario": "auto-progress"})
        endpoint = {"url": receiver, "events": list(_EVENTS)}
        deployment.any().ask("POST", "/api/webhooks", endpoint, credential=made["key"])
        keys.append(made["key"])
    return keys


def wait_for_write(client: Client, since: float) -> float:
    """Seconds until a request of the client that began after ``since`` was acknowledged."""
    until(lambda: bool(client.begun) and client.begun[-1] > since, "clients write again")
    return next(one for one in client.begun if one > since) - since


def compare(
    deployment: Deployment, clients: list[Client], receiver: Receiver, outcome: Outcome
) -> None:
    """Compare what the clients and the receiver know with what the servers have."""
    expected: set[str] = set()
    for client in clients:
        outcome.acknowledged += len(client.ids)
        found = invoices(deployment, client.key)
        numbers = Counter(one["invoiceNumber"] for one in found)
        ids = {one["invoiceNumber"]: one["id"] for one in found}
        outcome.lost += [n for n, one in client.ids.items() if ids.get(n) != one]
        outcome.duplicated += [n for n in client.ids if numbers[n] > 1]
        expected |= set(client.ids.values())
    wait_until_delivered(receiver, expected, outcome)


def invoices(deployment: Deployment, key: str) -> list[Any]:
    """All invoices of a workspace."""
    found: list[Any] = []
    path: str | None = "/api/invoices?limit=100"
    while path is not None:
        with closing(deployment.any().connection()) as connection:
            connection.request("GET", path, headers={"X-API-Key": key})
            response = connection.getresponse()
            found += json.loads(response.read())["data"]
        links = (response.headers["Link"] or "").split(",")
        following = [one for one in links if 'rel="next"' in one]
        path = following[0].partition("<")[2].partition(">")[0] if following else None
        if path is not None and "://" in path:
            path = "/" + path.split("/", 3)[3]
    return found


def wait_until_delivered(receiver: Receiver, expected: set[str], outcome: Outcome) -> None:
    """Wait for both events of every invoice, and count those that were recorded twice."""
    deadline, received = time.monotonic() + PATIENCE, 0
    while time.monotonic() < deadline:
        if len(receiver.bodies) > received:
            received, deadline = len(receiver.bodies), time.monotonic() + PATIENCE
        events = [json.loads(one) for one in list(receiver.bodies.values())]
        seen = Counter((one["type"], one["data"]["id"]) for one in events)
        missing = {(kind, one) for kind in _EVENTS for one in expected} - seen.keys()
        if not missing:
            break
        time.sleep(0.2)
    outcome.undelivered += sorted(map(str, missing))
    outcome.repeated_events += receiver.different
    outcome.repeated_steps += [str(one) for one, count in seen.items() if count > 1]
