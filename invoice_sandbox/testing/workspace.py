"""A workspace of a sandbox, as a test works in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from invoice_sandbox.control.client import ControlClient, SandboxError, needs_no_proxy, path
from invoice_sandbox.testing.webhooks import Webhooks

if TYPE_CHECKING:
    import ssl

    import httpx

USUAL_SCENARIO: Final = "auto-progress"
_MOST_REQUESTS: Final = 1000


@dataclass(frozen=True)
class Story:
    """What happens by itself: the scenario ``name`` under ``conditions``; None is the usual one.

    ``usual`` None leaves that to the server, whose project may have other scenarios than ours.
    """

    name: str | None = None
    conditions: dict[str, Any] = field(default_factory=dict)
    usual: str | None = USUAL_SCENARIO


class Snapshot:
    """A workspace as it was. As a context manager it goes back at the end."""

    def __init__(self, levers: ControlClient, snapshot_id: str) -> None:
        self._levers = levers
        self.id = snapshot_id

    def __repr__(self) -> str:
        return f"Snapshot({self.id!r})"

    def restore(self) -> None:
        """Go back, the clock included."""
        self._levers.ask("POST", path("/snapshots/{id}/restore", id=self.id), {})

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.restore()


class InvoiceSandbox:
    """One isolated workspace: its own state, clock, scenario, faults, journal, inbox and key.

    Everything that pulls a lever raises SandboxError with the message of the API.
    """

    def __init__(self, url: str, key: str, workspace_id: str, story: Story) -> None:
        levers = ControlClient(url, key)
        self._levers = levers
        self._key = key
        self._story = story
        self._own_requests: set[str] = set()
        self.id = workspace_id
        self.webhooks = Webhooks(levers)

    def __repr__(self) -> str:
        return f"InvoiceSandbox({self.id!r}, {self.url!r})"

    @property
    def url(self) -> str:
        """The address of the server, without a final slash; the API is below ``/api``."""
        return self._levers.url

    @property
    def key(self) -> str:
        """The key of the workspace. It holds every scope, that of the levers too."""
        return self._key

    @cached_property
    def client(self) -> httpx.Client:
        """A client that sends the key: ``client.post("/api/invoices", json=...)``."""
        import httpx

        return httpx.Client(**self._connection())

    def async_client(self) -> httpx.AsyncClient:
        """A new client for asynchronous code; close it, best by ``async with``."""
        import httpx

        return httpx.AsyncClient(**self._connection())

    def scenario(
        self, name: str, invoice_id: str | None = None, **conditions: Any
    ) -> dict[str, Any]:
        """Put a scenario in force from now on, for the workspace or for one invoice."""
        values = {key: _plain(value) for key, value in conditions.items()}
        body = {"name": name, **({"with": values} if values else {})}
        if invoice_id is not None:
            body["invoiceId"] = invoice_id
        return dict(self.lever("PUT", "/scenario", body))

    def advance(
        self, by: str | timedelta | None = None, *, to: str | datetime | None = None
    ) -> dict[str, Any]:
        """Move the clock by ``"P3D"``, or to an instant. What falls due on the way is done.

        The answer is the clock as it stands then, with what ``happened``.
        """
        if (by is None) == (to is None):
            raise TypeError("advance takes how far, or where to")
        body = {"to": _plain(to)} if by is None else {"by": _plain(by)}
        return dict(self.lever("POST", "/clock/advance", body))

    @property
    def clock(self) -> dict[str, Any]:
        """The clock: ``mode``, ``now`` and ``nextDue``."""
        return dict(self.lever("GET", "/clock"))

    def release(self) -> dict[str, Any]:
        """Let the clock go on with real time, from where it stands."""
        return dict(self.lever("PUT", "/clock", {"mode": "live"}))

    def freeze(self) -> dict[str, Any]:
        """Stop the clock where it stands."""
        return dict(self.lever("PUT", "/clock", {"mode": "frozen"}))

    def fault(self, operation: str | None, kind: str, **members: Any) -> dict[str, Any]:
        """Spoil the next answer of an operation, or of any: ``"latency"``, ``"status"``, …

        ``members`` are as ``POST /sandbox/faults`` has them: ``status``, ``delay``, ``count``, …
        """
        body = {"kind": kind, **{name: _plain(value) for name, value in members.items()}}
        if operation is not None:
            body["operation"] = operation
        return dict(self.lever("POST", "/faults", body))

    def transition(self, invoice_id: str, trigger: str) -> dict[str, Any]:
        """Move an invoice by a legal trigger."""
        place = path("/invoices/{id}/transition", id=invoice_id)
        return dict(self.lever("POST", place, {"trigger": trigger}))

    def snapshot(self) -> Snapshot:
        """Remember the workspace as it is."""
        return Snapshot(self._levers, self.lever("POST", "/snapshots", {})["id"])

    def reset(self) -> None:
        """Make the workspace what it was when the test began."""
        self.lever("POST", "/reset", {})
        self.webhooks.forget()
        self.prepare()

    def prepare(self) -> None:
        """Register the inbox, before a fault of the scenario can meet it; then choose that."""
        self._open_inbox()
        if self._story.name is not None:
            self.scenario(self._story.name, **self._story.conditions)

    def close(self) -> None:
        """Close the client, if there is one."""
        client = self.__dict__.pop("client", None)
        if client is not None:
            client.close()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The journal: every request to the API, the first one first, with its answer and why.

        Requests to levers are not in it.
        """
        entries = self.lever("GET", f"/requests?limit={_MOST_REQUESTS}")
        return [one for one in reversed(entries) if one["requestId"] not in self._own_requests]

    def lever(self, method: str, lever: str, body: Any = None) -> Any:
        """The data that any lever answers: ``lever("POST", f"/offers/{offer}/accept", {})``."""
        __tracebackhide__ = True
        return self._levers.ask(method, lever, body)

    @contextmanager
    def workspace(
        self,
        scenario: str | None = None,
        *,
        seed: int | None = None,
        clock: str = "frozen",
        **conditions: Any,
    ) -> Iterator[InvoiceSandbox]:
        """Another workspace of the same server, which is deleted at the end.

        Without a ``scenario`` it has the one that this workspace began with.
        """
        story = self._story if scenario is None else replace(self._story, name=scenario)
        story = replace(story, conditions=conditions) if scenario is not None else story
        with new_workspace(self._levers, story, seed=seed, clock=clock) as other:
            yield other

    def _connection(self) -> dict[str, Any]:
        return {
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {self.key}"},
            "timeout": 30,
            "trust_env": not needs_no_proxy(self.url),
            "verify": _tls(self.url),
        }

    def _open_inbox(self) -> None:
        body = {"url": self.webhooks.url, "events": ["*"]}
        try:
            self._levers.ask("POST", "/webhooks", body, below="/api")
        except SandboxError as error:
            if error.status == HTTPStatus.NOT_FOUND:  # a project that knows no webhooks
                return
            raise
        (entry,) = self.lever("GET", "/requests?limit=1")
        self._own_requests.add(entry["requestId"])


@contextmanager
def new_workspace(
    levers: ControlClient, story: Story, *, seed: int | None = None, clock: str = "frozen"
) -> Iterator[InvoiceSandbox]:
    """A workspace made from that of ``levers``; it is deleted at the end."""
    wish = {"clock": clock, "seed": seed, "scenario": story.usual}
    given = {name: value for name, value in wish.items() if value is not None}
    made = levers.ask("POST", "/workspaces", given)
    sandbox = InvoiceSandbox(levers.url, made["key"], made["id"], story)
    try:
        sandbox.prepare()
        yield sandbox
    finally:
        sandbox.close()
        _delete(levers, made["id"])


def _delete(levers: ControlClient, workspace_id: str) -> None:
    try:
        levers.ask("DELETE", path("/workspaces/{id}", id=workspace_id))
    except SandboxError as error:
        if error.status != HTTPStatus.NOT_FOUND:  # the test may have deleted it itself
            raise


def _plain(value: Any) -> Any:
    """A duration or an instant as the API spells it; anything else as it is."""
    from invoice_sandbox.base.clock import duration_text, instant_text

    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, datetime):
        return instant_text(value)
    return value


_CONTEXTS: Final[dict[bool, ssl.SSLContext]] = {}


def _tls(url: str) -> ssl.SSLContext:
    """Made once: a client that read the certificates for each test would do little else."""
    import ssl

    secure = url.startswith("https:")
    if secure not in _CONTEXTS:
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _CONTEXTS[secure] = ssl.create_default_context() if secure else plain
    return _CONTEXTS[secure]
