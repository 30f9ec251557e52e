"""Clients that create invoices, whatever happens to the servers, and a receiver of webhooks."""

from __future__ import annotations

import http.client
import threading
import time
from bisect import bisect
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from invoice_sandbox.base.clock import parse_instant
from tests.chaos.servers import Deployment, NotNowError, Server, ask
from tests.scenario_run import DATED, until
from tests.support import PATIENCE

_SECONDS_TO_RETRY: Final = 0.05


class _Connections(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A server that was killed has reset its connection: print nothing."""


class Receiver:
    """Receives webhooks, and notes those of a lane that came out of order, or with other content.

    Each lane has a path of its own and gets every event of its workspace, whose ids end with a
    number. So the first arrivals of a lane have the numbers 1, 2, 3 and so on. What arrives again
    is the same.
    """

    def __init__(self) -> None:
        self.lanes: dict[str, dict[int, bytes]] = {}
        self.different: list[str] = []
        self.disordered: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:  # the server was killed while it sent
                    self.close_connection = True
                    return
                receiver.note(self.path, str(self.headers["webhook-id"]), body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = _Connections(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._lock = threading.Lock()

    def note(self, lane: str, event: str, body: bytes) -> None:
        """An event was received, maybe again."""
        number = int(event.rpartition("_")[2])
        with self._lock:
            seen = self.lanes.setdefault(lane, {})
            if number in seen:
                self.different += [event] if seen[number] != body else []
            elif number != len(seen) + 1:
                self.disordered.append(f"{event} after {len(seen)} events")
            seen[number] = body

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class Tenant:
    """A workspace with the scenario of its invoices, and the path of its webhook endpoint."""

    id: str
    key: str
    scenario: str
    lane: str
    body: dict[str, Any]

    @classmethod
    def new(cls, server: Server, scenario: str, receiver: Receiver, number: int) -> Tenant:
        """A new workspace."""
        made = server.ask("POST", "/sandbox/workspaces", {"scenario": scenario})
        lane = f"/lane-{number}"
        endpoint = {"url": receiver.url + lane, "events": ["*"]}
        server.ask("POST", "/api/webhooks", endpoint, credential=made["key"])
        year = parse_instant(made["clock"]["now"]).year
        body = {**DATED, "issueDate": f"{year}-01-01", "dueDate": f"{year + 1}-02-20"}
        return cls(made["id"], made["key"], scenario, lane, body)


class Client:
    """Creates invoices in a workspace until it is stopped. It repeats each request, through any
    server, until it is acknowledged. ``pause``: seconds between two."""

    def __init__(self, deployment: Deployment, tenant: Tenant, name: str, pause: float) -> None:
        self.tenant = tenant
        self._deployment = deployment
        self._name = name
        self._pause = pause
        self.ids: dict[str, str] = {}
        self.writes: list[tuple[float, float]] = []
        self.rejected = 0
        self.wrong: list[str] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the invoice under way."""
        self._is_stopping.set()
        self._thread.join(PATIENCE)

    def wait_for_write(self, since: float) -> float:
        """Seconds until a request that began after ``since`` was acknowledged."""
        until(lambda: bool(self.writes) and self.writes[-1][0] > since, "the client writes again")
        return self.writes[bisect(self.writes, (since, since))][1] - since

    def _write(self) -> None:
        while not self._is_stopping.wait(self._pause):
            self._create(f"{self._name}-{len(self.ids)}")

    def _create(self, number: str) -> None:
        while True:
            server = self._deployment.any()
            try:
                with closing(server.connection()) as connection:
                    while self._is_created(connection, number):
                        if self._pause or self._is_stopping.is_set():
                            return
                        number = f"{self._name}-{len(self.ids)}"
            except (OSError, http.client.HTTPException):
                pass
            except NotNowError:
                self.rejected += 1
            except AssertionError as error:
                self.wrong.append(str(error))
            time.sleep(_SECONDS_TO_RETRY)

    def _is_created(self, connection: http.client.HTTPConnection, number: str) -> bool:
        began = time.monotonic()
        body = {**self.tenant.body, "invoiceNumber": number, "amount": 1000 + len(self.ids) / 100}
        created = ask(connection, "POST", "/api/invoices", body, number, self.tenant.key)
        self.ids[number] = str(created["id"])
        self.writes.append((began, time.monotonic()))
        return True
