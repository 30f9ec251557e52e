"""Kills a server with SIGKILL while clients write, again and again, and compares what is left.

``make chaos`` writes the table of ``docs/durability.md``. A test runs a few rounds of it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.scenario_run import DATED
from tests.support import PATIENCE

_PAGE = Path(__file__).parents[1] / "docs" / "durability.md"
_BEGIN, _END = "<!-- chaos -->\n", "<!-- end of chaos -->\n"
_CLIENTS = 8
_KILLS, _WRITES = 200, 20_000
BODY = {**DATED, "amount": 1250.5, "dueDate": "2099-12-30"}


@dataclass
class Outcome:
    """What happened in all rounds. Everything but the first three must be empty."""

    kills: int = 0
    acknowledged: int = 0
    unfinished: int = 0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    repeated_events: list[str] = field(default_factory=list)
    undelivered: list[str] = field(default_factory=list)
    repeated_steps: list[str] = field(default_factory=list)
    slowest_start: float = 0

    @property
    def problems(self) -> list[str]:
        """Everything that must not happen."""
        repeated = [*self.duplicated, *self.repeated_events, *self.repeated_steps]
        return [*self.lost, *repeated, *self.undelivered]


class Receiver:
    """Receives webhooks, and compares those that have the same id."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.different: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:  # the server was killed while it sent
                    return
                receiver.note(str(self.headers["webhook-id"]), body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._lock = threading.Lock()

    def note(self, event: str, body: bytes) -> None:
        """An event was received, maybe again."""
        with self._lock:
            if self.bodies.setdefault(event, body) != body:
                self.different.append(event)

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Server:
    """A server on a file or a database, in a process of its own."""

    def __init__(self, store: Path | str, *more: str, quiet: bool = False) -> None:
        options = ["--port", "0", "--rate-limit", "off", "--max-deliveries", "1000000", *more]
        options += ["--store", store if isinstance(store, str) else f"sqlite:///{store}"]
        command = [sys.executable, "-m", "invoice_sandbox", "serve", *options]
        began = time.monotonic()
        errors = subprocess.DEVNULL if quiet else None
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        found = re.search(r"ready on http://127\.0\.0\.1:(\d+)", ready)
        assert found, f"the server printed {ready!r}"
        self.port = int(found[1])
        self.seconds = time.monotonic() - began

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


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    key: str = "",
    credential: str = DEMO_KEY,
) -> Any:
    """The data of a response. Raises OSError, HTTPException, and AssertionError for an error."""
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, headers)
    response = connection.getresponse()
    text = response.read()
    if response.headers["Content-Length"] is None:  # the server was killed within the head
        raise http.client.IncompleteRead(text)
    assert response.status < 300, f"{method} {path}: {response.status} {text[:300]!r}"
    return json.loads(text)["data"]


class Round:
    """Clients that write to a server until it is killed."""

    def __init__(self, server: Server, name: str, kill_after: int) -> None:
        self._server = server
        self._name = name
        self._kill_after = kill_after
        self.ids: dict[str, str] = {}
        self.unfinished: list[str] = []
        self._enough = threading.Event()

    def run(self, pause: float) -> None:
        """Write, kill the server ``pause`` seconds after enough was written, and wait."""
        clients = [threading.Thread(target=self._write, args=(one,)) for one in range(_CLIENTS)]
        for client in clients:
            client.start()
        assert self._enough.wait(PATIENCE), "the server is too slow"
        time.sleep(pause)
        self._server.kill()
        for client in clients:
            client.join(PATIENCE)

    def _write(self, client: int) -> None:
        with closing(self._server.connection()) as connection:
            self._write_all(connection, client)

    def _write_all(self, connection: http.client.HTTPConnection, client: int) -> None:
        for count in range(10**6):
            number = f"{self._name}-{client}-{count}"
            try:
                body = {**BODY, "invoiceNumber": number}
                created = ask(connection, "POST", "/api/invoices", body, key=number)
            except (OSError, http.client.HTTPException):
                self.unfinished.append(number)
                return
            self.ids[number] = created["id"]
            if len(self.ids) >= self._kill_after:
                self._enough.set()


def check(server: Server, done: Round, outcome: Outcome) -> None:
    """Compare what the clients know with what the restarted server has."""
    for number, invoice_id in done.ids.items():
        try:
            found = server.ask("GET", f"/api/invoices/{invoice_id}")["invoiceNumber"]
        except AssertionError:
            found = None
        if found != number:
            outcome.lost.append(f"{number} ({invoice_id}): {found}")
    for number in done.unfinished:
        body = {**BODY, "invoiceNumber": number}
        done.ids[number] = server.ask("POST", "/api/invoices", body, key=number)["id"]


def check_all(server: Server, ids: dict[str, str], outcome: Outcome) -> None:
    """Each invoice is there once, under one id."""
    if len(set(ids.values())) < len(ids):
        outcome.duplicated.append("two invoices have the same id")
    seen, cursor = dict[str, str](), ""
    while True:
        with closing(server.connection()) as connection:
            path = f"/api/invoices?limit=100{cursor}"
            connection.request("GET", path, headers={"X-API-Key": DEMO_KEY})
            response = connection.getresponse()
            text = response.read()
        for one in json.loads(text)["data"]:
            if one["invoiceNumber"] in ids and one["invoiceNumber"] in seen:
                outcome.duplicated.append(one["invoiceNumber"])
            seen[one["invoiceNumber"]] = one["id"]
        link = response.headers["Link"] or ""
        following = re.search(r'[?&](cursor=[^&>]+)[^>]*>; rel="next"', link)
        if following is None:
            break
        cursor = f"&{following[1]}"
    outcome.lost += [number for number, one in ids.items() if seen.get(number) != one]


def wait_for_deliveries(receiver: Receiver, ids: dict[str, str], outcome: Outcome) -> None:
    """Wait until the registration of every invoice was received."""
    received, deadline = 0, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if len(receiver.bodies) > received:
            received, deadline = len(receiver.bodies), time.monotonic() + PATIENCE
        events = [json.loads(one)["data"] for one in list(receiver.bodies.values())]
        missing = set(ids.values()) - {one["id"] for one in events}
        if not missing:
            break
        time.sleep(0.2)
    outcome.undelivered += sorted(missing)
    outcome.repeated_events += receiver.different


def run(kills: int, writes: int, seed: int) -> Outcome:
    """Kill a server ``kills`` times during ``writes`` acknowledged writes."""
    outcome, ids, chosen = Outcome(), dict[str, str](), random.Random(seed)  # noqa: S311  no secret
    with TemporaryDirectory() as folder, Receiver() as receiver:
        file = Path(folder) / "state.db"
        server = Server(file)
        body = {"url": receiver.url, "events": ["invoice.registered"]}
        server.ask("POST", "/api/webhooks", body)
        for number in range(kills):
            done = Round(server, f"r{number}", writes // kills)
            done.run(chosen.uniform(0, 0.05))
            outcome.kills += 1
            outcome.acknowledged += len(done.ids)
            outcome.unfinished += len(done.unfinished)
            server = Server(file)
            outcome.slowest_start = max(outcome.slowest_start, server.seconds)
            check(server, done, outcome)
            ids.update(done.ids)
        check_all(server, ids, outcome)
        wait_for_deliveries(receiver, ids, outcome)
        server.kill()
    return outcome


HEADER = (
    "| Fault | Times | Acknowledged writes | Lost | Duplicated | Event ids with two contents "
    "| Steps done twice | Not delivered | Slowest recovery |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def row(fault: str, outcome: Outcome) -> str:
    """The outcome as the page shows it."""
    return (
        f"| {fault} | {outcome.kills} | {outcome.acknowledged:,} | {len(outcome.lost)} "
        f"| {len(outcome.duplicated)} | {len(outcome.repeated_events)} "
        f"| {len(outcome.repeated_steps)} | {len(outcome.undelivered)} "
        f"| {outcome.slowest_start:.1f} s |\n"
    )


def main() -> None:
    """Try every fault and print the table. Status 1 if anything was lost or repeated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1, help="of how often each fault is tried")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    chosen = parser.parse_args()
    outcomes = dict(_all(chosen.share, chosen.seed))
    found = HEADER + "".join(row(*one) for one in outcomes.items())
    if chosen.page:
        before, _, rest = _PAGE.read_text().partition(_BEGIN)
        _PAGE.write_text(f"{before}{_BEGIN}{found}{_END}{rest.partition(_END)[2]}")
    problems = [one for outcome in outcomes.values() for one in outcome.problems]
    sys.stdout.write(found + "".join(f"{one}\n" for one in problems))
    sys.exit(1 if problems else 0)


def _all(share: float, seed: int) -> Iterator[tuple[str, Outcome]]:
    from tests import chaos_servers

    kills, writes = max(1, round(_KILLS * share)), round(_WRITES * share)
    yield f"SIGKILL of a server on SQLite, {_CLIENTS} clients", run(kills, writes, seed)
    for name, (fault, times) in chaos_servers.FAULTS.items():
        yield name, chaos_servers.run(fault, max(1, round(times * share)), seed)


if __name__ == "__main__":
    main()
