"""Two server processes on one PostgreSQL database behind a load balancer, as a team runs them.

The balancer is a small one of TCP, which gives each connection to the next server. Clients know its
address only, as they would in a deployment.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.ids import new_key
from tests.databases import new_database
from tests.receivers import free_port, receiving
from tests.scenario_run import DATED, data, until
from tests.support import PATIENCE
from tests.test_backup import block, run
from tests.test_listen import Process, listening, process, sandbox

pytestmark = [pytest.mark.process, pytest.mark.slow]

KEY = new_key()


class Balancer:
    """Gives each connection to the next server that accepts it."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._turn = count()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.used: set[int] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = self._next()
                except ConnectionError:
                    client.close()
                    continue
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=pair, daemon=True).start()

    def _next(self) -> socket.socket:
        first = next(self._turn)
        for number in range(len(self._ports)):
            port = self._ports[(first + number) % len(self._ports)]
            with suppress(OSError):
                server = socket.create_connection(("127.0.0.1", port))
                self.used.add(port)
                return server
        raise ConnectionError("no server accepts connections")

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    source.close()


@dataclass
class Deployment:
    """The balancer, and the servers behind it by their ports."""

    balancer: Balancer
    servers: dict[int, Process] = field(default_factory=dict)

    def send(self, method: str, path: str, port: int | None = None, **more: Any) -> httpx.Response:
        """A request on a connection of its own, through the balancer or to one server."""
        url = self.balancer.url if port is None else f"http://127.0.0.1:{port}"
        headers = {"Authorization": f"Bearer {KEY}"} | more.pop("headers", {})
        with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
            return client.request(method, url + path, headers=headers, **more)

    def create(self, number: str, port: int | None = None) -> httpx.Response:
        """Register an invoice."""
        body = {**DATED, "dueDate": "2099-12-30", "invoiceNumber": number}
        return self.send("POST", "/api/invoices", port, json=body)

    def seen_at(self, port: int) -> str:
        """The invoices, as one server shows them."""
        return self.send("GET", "/api/invoices?limit=100", port).text


@contextmanager
def deployed(*words: str, count: int = 2) -> Iterator[Deployment]:
    """Servers that are ready. They know each other by a name, as on several machines: only of a
    loopback address is it known that the process has ended if nobody listens there."""
    ports = [free_port() for _ in range(count)]
    dsn = new_database()
    with closing(Balancer(ports)) as balancer, ExitStack() as stack:
        options = ["--store", dsn, "--key", KEY, "--public-url", balancer.url]
        options += ["--replica-host", "localhost", *words]
        deployment = Deployment(balancer)
        for port in ports:
            deployment.servers[port] = stack.enter_context(sandbox(port, *options))
        yield deployment


def test_a_client_and_the_tools_work_through_any_server() -> None:
    with deployed() as deployment, receiving() as receiver:
        here, there = deployment.servers
        url = deployment.balancer.url
        following = ("requests", "--follow", "--url", url, "--key", KEY)
        with (
            listening(url, receiver.url, "--key", KEY) as (listener, secret),
            process(*following) as follower,
        ):
            until(lambda: is_followed(deployment, follower), "new requests are shown")
            inbox = data(deployment.send("GET", "/sandbox/inbox"))["url"]
            hook = {"url": inbox, "events": ["invoice.registered"]}
            deployment.send("POST", "/api/webhooks", json=hook).raise_for_status()
            for port in (here, there):
                made = data(deployment.create(f"INV-{port}", port))["id"]
                listener.expect(r"invoice\.registered .* 200 ")
                follower.expect(r"POST +/api/invoices +201")
                assert made in deployment.seen_at(here)
                assert made in deployment.seen_at(there)
            received = {one.id: one.verified(secret)["type"] for one in receiver.messages}
            assert [*received.values()] == ["invoice.registered"] * 2, "each at least once"
            deployment.send("POST", "/sandbox/clock/advance", json={"by": "PT0S"})
            found = [data(deployment.send("GET", "/sandbox/inbox", one)) for one in (here, there)]
            assert found[0]["messages"] == found[1]["messages"]
            assert len({one["headers"]["webhook-id"] for one in found[0]["messages"]}) == 2
            assert deployment.balancer.used == {here, there}


def is_followed(deployment: Deployment, follower: Process) -> bool:
    """Whether a request that is made now is shown."""
    deployment.send("GET", "/api/partners")
    return any("/api/partners" in line for line in follower.lines)


def test_a_server_that_is_stopped_finishes_its_requests_and_another_takes_over_at_once() -> None:
    """The lease of a server that ends without a word would run on: there would be a 503."""
    with deployed() as deployment, receiving() as receiver:
        here, there = deployment.servers
        slow = {"operation": "createInvoice", "kind": "latency", "delay": "PT2S", "when": "before"}
        deployment.create("INV-1").raise_for_status()  # the first server runs the workspace
        with listening(deployment.balancer.url, receiver.url, "--key", KEY) as (listener, secret):
            deployment.send("POST", "/sandbox/faults", json=slow).raise_for_status()
            sent: list[httpx.Response] = []
            client = threading.Thread(target=lambda: sent.append(deployment.create("INV-2", there)))
            client.start()
            until(lambda: is_under_way(deployment), "the request has begun")
            stopping = deployment.servers[here].popen
            stopping.send_signal(signal.SIGTERM)
            meanwhile: list[httpx.Response] = []
            while stopping.poll() is None:
                meanwhile.append(deployment.create(f"Late-{len(meanwhile)}"))
            assert deployment.create("INV-3").status_code == 201
            assert stopping.returncode == 0
            assert {one.status_code for one in meanwhile} <= {201, 503}, "none is cut off"
            assert all("Retry-After" in one.headers for one in meanwhile if one.is_error)
            client.join(PATIENCE)
            assert [one.status_code for one in sent] == [201]
            shown = deployment.seen_at(there)
            kept = [f"Late-{turn}" for turn, one in enumerate(meanwhile) if one.is_success]
            assert all(f'"{number}"' in shown for number in ("INV-1", "INV-2", "INV-3", *kept))
            listener.expect("Reconnected")
            deployment.create("INV-4").raise_for_status()
            listener.expect(r"invoice\.registered .* 200 ")
            assert all(one.verified(secret) for one in receiver.messages)
        health = data(deployment.send("GET", "/sandbox/health"))
        assert health == {"status": "ok", "store": "ready", "jobs": "ready"}


def is_under_way(deployment: Deployment) -> bool:
    """Whether the fault was met."""
    return bool(data(deployment.send("GET", "/sandbox/faults")) == [])


def test_the_commands_that_run_three_servers_do_what_the_page_says(tmp_path: Path) -> None:
    names = ("start", "write here, read there", "stop one")
    commands = "".join(block(f"three servers: {one}") for one in names)
    for port in ("8081", "8082", "8083"):
        commands = commands.replace(port, str(free_port()))
    assert "postgresql://sandbox@db.example/sandbox" in commands
    commands = commands.replace("postgresql://sandbox@db.example/sandbox", f"'{new_database()}'")
    ending = "trap 'kill $(jobs -p); wait' EXIT\n"
    printed = run(ending + commands, tmp_path)
    assert printed.count('"store":"ready"') == 3
    assert printed.count('"invoiceNumber":"INV-42"') == 3
    assert "ilk_sandbox_" in printed.splitlines()[-1], "the key of a new workspace"
