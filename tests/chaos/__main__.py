"""``make chaos``: ends servers and databases while clients write, and checks that nothing is lost.

- Every invoice that was acknowledged is there once, under its id.
- Each step of its scenario has happened once, in order, and its webhooks arrive in order, at least
  once, each time with the same content.
- Every error meanwhile is a 503 with ``Retry-After``, or a 409 for a request that is under way.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from invoice_sandbox.base.clock import parse_instant
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.databases import new_database, restart
from tests.receivers import Receiver, receiving
from tests.scenario_run import DATED, data, until

CLIENTS: Final = 4
SECONDS_TO_STOP: Final = 10
SECONDS_TO_RETRY: Final = 0.05
SECONDS_TO_WAIT: Final = 30
SCENARIO: Final = "whole-run"
LANE: Final = "/lane"
STEPS: Final = ("registered", "verification_started", "verified", "funded", "paid", "settled")
"""The events about an invoice, in their order."""

_SERVICE_UNAVAILABLE: Final = 503
_CONFLICT: Final = 409


class Server:
    """A server on a store, in a process of its own."""

    def __init__(self, store: str) -> None:
        self._store = store
        self.url = ""
        self.start()

    def start(self) -> None:
        """Start, and wait until it is ready."""
        options = ["--port", "0", "--rate-limit", "off", "--seed", "1", "--store", self._store]
        options += ["--scenarios", str(Path(__file__).parent / "scenarios")]
        command = [sys.executable, "-m", "invoice_sandbox", "serve", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        found = re.search(r"ready on (\S+)", ready)
        assert found, f"the server printed {ready!r}"
        self.url = found[1]

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> float:
        """SIGTERM. How many seconds it took; the status must be 0."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(SECONDS_TO_WAIT) == 0, "it ends with an error"
        except subprocess.TimeoutExpired:
            self.kill()
        return time.monotonic() - began


class Client:
    """Creates invoices until it is stopped, with one server after the other. It repeats each
    request until it is acknowledged."""

    def __init__(self, servers: Sequence[Server], key: str, name: str) -> None:
        self._servers = cycle(servers)
        self._headers = {"Authorization": f"Bearer {key}"}
        self._name = name
        self.ids: dict[str, str] = {}
        self.latest = 0.0
        self.wrong: list[str] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the invoice under way."""
        self._is_stopping.set()
        self._thread.join()

    def _write(self) -> None:
        with httpx.Client(headers=self._headers, timeout=SECONDS_TO_WAIT) as client:
            while not self._is_stopping.is_set():
                number = f"{self._name}-{len(self.ids)}"
                while not self._is_created(client, number):
                    time.sleep(SECONDS_TO_RETRY)

    def _is_created(self, client: httpx.Client, number: str) -> bool:
        began, year = time.monotonic(), time.gmtime().tm_year
        dates = {"issueDate": f"{year}-01-01", "dueDate": f"{year + 1}-12-20"}
        try:
            response = client.post(
                f"{next(self._servers).url}/api/invoices",
                json={**DATED, **dates, "invoiceNumber": number},
                headers={"Idempotency-Key": number},
            )
        except httpx.TransportError:  # the server has ended
            return False
        if response.is_success:
            self.ids[number], self.latest = response.json()["data"]["id"], began
        elif response.status_code != _CONFLICT and not _is_unavailable(response):
            self.wrong.append(f"{number}: {response.status_code} {response.text[:200]}")
        return response.is_success


def _is_unavailable(response: httpx.Response) -> bool:
    return response.status_code == _SERVICE_UNAVAILABLE and "Retry-After" in response.headers


@dataclass
class Outcome:
    """What happened: acknowledged invoices, the slowest recovery and stop, and problems."""

    acknowledged: int = 0
    recovered: float = 0
    stopped: float = 0
    problems: list[str] = field(default_factory=list)


def kill(server: Server, _outcome: Outcome) -> None:
    """SIGKILL of a server, and a new one."""
    server.kill()
    server.start()


def stop(server: Server, outcome: Outcome) -> None:
    """SIGTERM of the server, and a new one."""
    seconds = server.stop()
    outcome.stopped = max(outcome.stopped, seconds)
    if seconds > SECONDS_TO_STOP:
        outcome.problems.append(f"SIGTERM took {seconds:.1f} s")
    server.start()


def restart_database(_server: Server, _outcome: Outcome) -> None:
    """PostgreSQL ends at once and starts again."""
    restart()


@contextmanager
def file() -> Iterator[str]:
    """A store in a file."""
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/state.db"


@contextmanager
def database() -> Iterator[str]:
    """A store in a database."""
    yield new_database()


Fault = Callable[[Server, Outcome], None]
TRIALS: Final[tuple[tuple[str, Callable[[], Any], Fault, int, int], ...]] = (
    ("SIGKILL, SQLite", file, kill, 40, 1),
    ("SIGKILL, PostgreSQL", database, kill, 40, 1),
    ("SIGKILL of one of two servers, PostgreSQL", database, kill, 40, 2),
    ("SIGTERM, SQLite", file, stop, 10, 1),
    ("SIGTERM, PostgreSQL", database, stop, 10, 1),
    ("PostgreSQL killed and started again", database, restart_database, 10, 2),
)
"""Name, store, fault, how often, and how many servers."""


def run(
    store: str, fault: Fault, times: int, count: int, chosen: random.Random, writes: int = 0
) -> Outcome:
    """Let a fault happen so many times while clients write, and check everything at the end.

    The faults are spread over so many ``writes``."""
    outcome = Outcome()
    with ExitStack() as stack:
        servers = [Server(store) for _ in range(count)]
        for server in servers:
            stack.callback(server.kill)
        receiver = stack.enter_context(receiving())
        key = _workspace(servers[0], receiver)
        clients = [Client(servers, key, f"C{number}") for number in range(CLIENTS)]
        try:
            for turn in range(1, times + 1):
                time.sleep(chosen.uniform(0.1, 1.5))
                _wait_for_so_many(clients, writes * turn // times)
                began = time.monotonic()
                fault(chosen.choice(servers), outcome)
                _wait_for_writes(clients, began)
                outcome.recovered = max(outcome.recovered, time.monotonic() - began)
        finally:
            for client in clients:
                client.stop()
        _judge(servers[-1], key, receiver, clients, outcome)
    return outcome


def _wait_for_so_many(clients: list[Client], writes: int) -> None:
    """Wait until so many requests were acknowledged."""

    def written() -> int:
        return sum(len(client.ids) for client in clients)

    while written() < writes:
        _wait_for_more(written, "all are written")


def _wait_for_more(count: Callable[[], int], what: str) -> None:
    """Wait until a number has grown, then a second: what takes long may, but it has to go on."""
    reached = count()
    until(lambda: count() > reached, what)
    time.sleep(1)


def _wait_for_writes(clients: list[Client], since: float) -> None:
    """Wait until a request of each client that began later was acknowledged."""
    until(lambda: min(one.latest for one in clients) > since, "all clients write again")


def _workspace(server: Server, receiver: Receiver) -> str:
    """The key of a new workspace, whose webhooks the receiver gets."""
    with _asking(server, DEMO_KEY) as client:
        made = data(client.post("/sandbox/workspaces", json={"scenario": SCENARIO}))
    assert parse_instant(made["clock"]["now"])
    with _asking(server, made["key"]) as client:
        data(client.post("/api/webhooks", json={"url": receiver.url + LANE, "events": ["*"]}))
    return str(made["key"])


def _asking(server: Server, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=SECONDS_TO_WAIT)


def _judge(
    server: Server, key: str, receiver: Receiver, clients: list[Client], outcome: Outcome
) -> None:
    expected = {number: one for client in clients for number, one in client.ids.items()}
    outcome.acknowledged = len(expected)
    outcome.problems += [problem for client in clients for problem in client.wrong]
    found = _invoices(server, key)
    times = Counter(number for number, _ in found)
    ids = dict(found)
    outcome.problems += [f"{n} is lost" for n, one in expected.items() if ids.get(n) != one]
    outcome.problems += [f"{n} is there twice" for n in expected if times[n] > 1]
    while not _happened(receiver, STEPS[-1]) >= set(expected.values()):
        _wait_for_more(lambda: len(receiver.messages), "all are settled")
    outcome.problems += _problems_of_events(receiver, set(expected.values()))


def _invoices(server: Server, key: str) -> list[tuple[str, str]]:
    """Number and id of every invoice in the workspace."""
    found: list[tuple[str, str]] = []
    path: str | None = "/api/invoices?limit=100"
    with _asking(server, key) as client:
        while path is not None:
            response = client.get(path)
            found += [(one["invoiceNumber"], one["id"]) for one in data(response)]
            path = response.links.get("next", {}).get("url")
    return found


def _happened(receiver: Receiver, step: str) -> set[str]:
    """The ids of invoices of which an event was received."""
    messages = [one.event for one in receiver.messages if step.encode() in one.body]
    return {one["data"]["id"] for one in messages if one["type"] == f"invoice.{step}"}


def _problems_of_events(receiver: Receiver, invoices: set[str]) -> list[str]:
    """What came twice with other content, out of order, or not at all."""
    problems: list[str] = []
    seen: dict[str, bytes] = {}
    steps = defaultdict(list)
    for message in receiver.messages:
        if message.id in seen:
            problems += [f"{message.id} differs"] if seen[message.id] != message.body else []
            continue
        seen[message.id] = message.body
        if int(message.id.rpartition("_")[2]) != len(seen):
            problems.append(f"{message.id} comes after {len(seen) - 1} others")
        steps[message.event["data"]["id"]].append(message.kind.removeprefix("invoice."))
    return problems + [f"{one}: {steps[one]}" for one in invoices if steps[one] != [*STEPS]]


def main() -> None:
    """Try every fault and print what happened. Status 1 if there was a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1, help="of how often each fault happens")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writes", type=int, default=0, help="at least, while each fault happens")
    parser.add_argument("--only", default="", help="trials that have this in their name")
    options = parser.parse_args()
    chosen, is_wrong = random.Random(options.seed), False  # noqa: S311  not for secrets
    for name, place, fault, most, count in TRIALS:
        if options.only not in name:
            continue
        times = max(1, round(most * options.share))
        with place() as store:
            outcome = run(store, fault, times, count, chosen, options.writes)
        stopped = f", stopped in {outcome.stopped:.1f} s" if outcome.stopped else ""
        first = (
            f"{name}: {times} times, {outcome.acknowledged} acknowledged writes, recovered in "
            f"{outcome.recovered:.1f} s{stopped}, {len(outcome.problems)} problems"
        )
        sys.stdout.write("\n  ".join([first, *outcome.problems[:20]]) + "\n")
        sys.stdout.flush()
        is_wrong = is_wrong or bool(outcome.problems)
    sys.exit(is_wrong)


if __name__ == "__main__":
    main()
