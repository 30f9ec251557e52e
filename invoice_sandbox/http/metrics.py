"""``/metrics``: what this process has done, in the text format of Prometheus.

It exists with ``--metrics`` only: it needs no key, and shows which operations are used and how
much. No label contains anything that a client has chosen.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from invoice_sandbox.http.request import Reply, Request
from invoice_sandbox.http.routing import Page
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.webhooks.attempts import Outcome, Outgoing
from invoice_sandbox.webhooks.lanes import Send

PATH: Final = "/metrics"


class Metrics:
    """Counts requests and deliveries as they happen; gauges are read when they are asked for."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "sandbox_requests",
            "Requests. Those of documents, of pages and of nothing have no operation.",
            ["operation", "status"],
            registry=registry,
        )
        self._durations = Histogram(
            "sandbox_request_duration_seconds",
            "From the head of a request to its response.",
            ["operation"],
            registry=registry,
        )
        self._deliveries = Counter(
            "sandbox_deliveries",
            "Webhooks sent: accepted, rejected, or failed without a response.",
            ["outcome"],
            registry=registry,
        )
        self._workspaces = Gauge("sandbox_workspaces", "Workspaces.", registry=registry)
        self._ready = Gauge(
            "sandbox_ready",
            "1 while the store works, which requests need. /sandbox/health shows the same.",
            registry=registry,
        )

    def note(self, operation: str, status: int, seconds: float) -> None:
        """A request to an operation, or to none (an empty text), has its response."""
        self._requests.labels(operation, str(int(status))).inc()
        self._durations.labels(operation).observe(seconds)

    def sending(self, send: Send) -> Send:
        """``send``, counted."""

        async def counted(request: Outgoing) -> Outcome:
            outcome = await send(request)
            self._deliveries.labels(_kind(outcome)).inc()
            return outcome

        return counted

    def page(self, engine: Engine) -> Page:
        """Return the page."""
        return Page(PATH, partial(self._respond, engine))

    async def _respond(self, engine: Engine, _request: Request) -> Reply:
        is_ready = await engine.call(engine.store.is_ready)
        self._ready.set(is_ready)
        if is_ready:
            self._workspaces.set(await engine.call(engine.store.count_workspaces))
        return Reply(HTTPStatus.OK, generate_latest(self._registry), CONTENT_TYPE_LATEST)


def _kind(outcome: Outcome) -> str:
    if outcome.is_success:
        return "accepted"
    return "failed" if outcome.status is None else "rejected"
