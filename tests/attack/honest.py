"""Ten workspaces whose clients register invoices and receive webhooks, beside an attack.

A process of its own, so that the work of the attacker does not count. It ends with its input, and
prints one JSON object: ``sent`` requests, the 99th percentile ``p99`` of their milliseconds,
what was ``lost``, and the ids of the ``workspaces``. Arguments: port and process id of the server.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, Final

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.attack.corpus import request
from tests.attack.probe import Stopwatch, until_input_ends
from tests.hostile.wire import Wire
from tests.scenario_run import DATED

WORKSPACES: Final = 10
_PAUSE: Final = 0.05


@dataclass
class Client:
    """A client with a workspace of its own; ``lost`` is what it finds wrong."""

    wire: Wire
    watch: Stopwatch
    key: str = DEMO_KEY
    workspace: str = ""
    seconds: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The data that the server responds with."""
        content = None if body is None else json.dumps(body).encode()
        started = self.watch.read()
        self.wire.send(request(self.key, method, path, content))
        response = self.wire.response()
        self.seconds.append(self.watch.read() - started)
        if response.status not in {200, 201}:
            self.lost.append(f"{method} {path}: {response.status} {response.body[:80]!r}")
            return {}
        return json.loads(response.body)["data"]

    def begin(self) -> None:
        """Make the workspace, with a webhook endpoint, before the attack."""
        made = self.ask("POST", "/sandbox/workspaces", {"clock": "frozen"})
        self.key, self.workspace = made["key"], made["id"]
        url = self.ask("GET", "/sandbox/inbox")["url"]
        self.ask("POST", "/api/webhooks", {"url": url, "events": ["invoice.registered"]})
        self.seconds.clear()

    def work(self, end: threading.Event) -> None:
        """Register invoices until ``end``; then all of them and their webhooks must be there."""
        ids: list[str] = []
        while not end.wait(_PAUSE):
            body = {**DATED, "invoiceNumber": f"N-{len(ids)}"}
            ids.append(self.ask("POST", "/api/invoices", body).get("id"))
        self.ask("POST", "/sandbox/clock/advance", {"by": "PT0S"})
        for one in ids:
            self.ask("GET", f"/api/invoices/{one}")
        delivered = self.ask("GET", "/sandbox/inbox")["messages"]
        self.lost += sorted({*ids} - {json.loads(one["body"])["data"]["id"] for one in delivered})


def main() -> None:
    """Run until the input ends."""
    port, pid = map(int, sys.argv[1:])
    with ExitStack() as stack, ThreadPoolExecutor(WORKSPACES) as pool:
        wires = [stack.enter_context(Wire(port, 120)) for _ in range(WORKSPACES)]
        clients = [Client(one, Stopwatch(pid)) for one in wires]
        for client in clients:
            client.begin()
        end = until_input_ends()
        list(pool.map(lambda one: one.work(end), clients))
    seconds = [one for client in clients for one in client.seconds]
    lost = [one for client in clients for one in client.lost]
    p99 = 1000 * quantiles(seconds, n=100)[-1]
    workspaces = [one.workspace for one in clients]
    shown = {"sent": len(seconds), "p99": p99, "lost": lost, "workspaces": workspaces}
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main()
