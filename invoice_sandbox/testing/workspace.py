"""A workspace of a sandbox, as a test uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from invoice_sandbox.base.clock import duration_text, instant_text, parse_duration, parse_instant
from invoice_sandbox.base.outgoing import tls_context
from invoice_sandbox.control.client import (
    ControlClient,
    SandboxError,
    ServedProject,
    path,
    uses_proxy,
)
from invoice_sandbox.testing.server import ONLY_CLIENT
from invoice_sandbox.testing.verdicts import Verdicts
from invoice_sandbox.testing.webhooks import Webhooks

if TYPE_CHECKING:
    import ssl
    from collections.abc import Collection

    import httpx2

    from invoice_sandbox.acceptance.runner import CheckReport
    from invoice_sandbox.testing.acceptance import ClientFunction

__tracebackhide__ = True  # a failed test shows the line that it is about

_DEFAULT_SCENARIO: Final = "auto-progress"
_MAX_REQUESTS: Final = 1000


@dataclass(frozen=True)
class ScenarioChoice:
    """The scenario ``name`` with its ``conditions``. Without a name, ``auto-progress`` if the
    project of the server has it, else the scenario that the server was started with."""

    name: str | None = None
    conditions: dict[str, Any] = field(default_factory=dict)


class Snapshot:
    """A saved state of a workspace. As a context manager it is restored at the end."""

    def __init__(self, control: ControlClient, snapshot_id: str) -> None:
        self._client = control
        self.id = snapshot_id

    def __repr__(self) -> str:
        return f"Snapshot({self.id!r})"

    def restore(self) -> None:
        """Restore the workspace, including its clock."""
        self._client.ask("POST", path("/snapshots/{id}/restore", id=self.id), {})

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()


class InvoiceSandbox:
    """One isolated workspace: its own state, clock, scenario, faults, journal, inbox and key.

    Methods that send a request to the control API raise SandboxError with its message.
    """

    def __init__(
        self, url: str, key: str, workspace_id: str, choice: ScenarioChoice, project: ServedProject
    ) -> None:
        self._client = ControlClient(url, key, known=project)
        self._project = project
        self.key = key
        """The API key of the workspace. It has every scope, including that of the control API."""
        self._choice = choice
        self.id = workspace_id
        self.webhooks = Webhooks(self._client)
        self.verdicts = Verdicts(self._client)

    def __repr__(self) -> str:
        return f"InvoiceSandbox({self.id!r}, {self.url!r})"

    @property
    def url(self) -> str:
        """The URL of the server, without a final slash; the API is below ``/api``."""
        return self._client.url

    @cached_property
    def client(self) -> httpx2.Client:
        """An HTTP client that sends the key as the contract declares it:
        ``client.post("/api/invoices", json=...)``."""
        client: httpx2.Client = _http().Client(**self._connection())
        return client

    def async_client(self) -> httpx2.AsyncClient:
        """A new HTTP client for asynchronous code; close it, best with ``async with``."""
        client: httpx2.AsyncClient = _http().AsyncClient(**self._connection())
        return client

    def scenario(
        self, name: str, invoice_id: str | None = None, **conditions: Any
    ) -> dict[str, Any]:
        """Choose the scenario from now on, for the workspace or for one invoice."""
        values = {key: _plain(value) for key, value in conditions.items()}
        body = {"name": name, **({"with": values} if values else {})}
        if invoice_id is not None:
            body[self._project.subject or "subject"] = invoice_id
        return dict(self.control("PUT", "/scenario", body))

    def advance(
        self, by: str | timedelta | None = None, *, to: str | datetime | None = None
    ) -> dict[str, Any]:
        """Move the clock by a duration such as ``"P3D"``, or to an instant. Due steps run.

        Returns the clock afterwards, and in ``happened`` the steps that ran.
        """
        if (by is None) == (to is None):
            raise TypeError("advance takes either a duration or to=")
        body = (
            {"to": _checked(parse_instant, to)}
            if by is None
            else {"by": _checked(parse_duration, by)}
        )
        return dict(self.control("POST", "/clock/advance", body))

    @property
    def clock(self) -> dict[str, Any]:
        """The clock: ``mode``, ``now`` and ``nextDue``."""
        return dict(self.control("GET", "/clock"))

    def release(self) -> dict[str, Any]:
        """Let the clock run with real time, from the instant that it shows."""
        return dict(self.control("PUT", "/clock", {"mode": "live"}))

    def freeze(self) -> dict[str, Any]:
        """Stop the clock."""
        return dict(self.control("PUT", "/clock", {"mode": "frozen"}))

    def fault(self, operation: str | None, kind: str, **members: Any) -> dict[str, Any]:
        """Inject a fault into the next response of an operation, or of any: ``"latency"``, …

        ``members`` are those of ``POST /sandbox/faults``: ``status``, ``delay``, ``count``, …
        """
        body = {"kind": kind, **{name: _plain(value) for name, value in members.items()}}
        if operation is not None:
            body["operation"] = operation
        return dict(self.control("POST", "/faults", body))

    def transition(self, invoice_id: str, trigger: str) -> dict[str, Any]:
        """Fire a trigger that is possible in the status of the invoice."""
        place = path("/invoices/{id}/transition", id=invoice_id)
        return dict(self.control("POST", place, {"trigger": trigger}))

    def snapshot(self) -> Snapshot:
        """Save the workspace."""
        return Snapshot(self._client, self.control("POST", "/snapshots", {})["id"])

    def save_bundle(self, file: str | Path) -> dict[str, Any]:
        """Write the workspace to one file, which ``invoice-sandbox replay`` reads, and return what
        its manifest says. Raises SandboxError and OSError."""
        from invoice_sandbox.bundles.saving import save_bundle

        return dict(save_bundle(self._client, Path(file)))

    def reset(self) -> None:
        """Restore the workspace to the beginning of the test."""
        self.control("POST", "/reset", {})
        self.webhooks.forget()
        self.prepare()

    def prepare(self) -> None:
        """Register the inbox, then choose the scenario, whose faults could hit the registration."""
        self._open_inbox()
        if self._choice.name is not None:
            self.scenario(self._choice.name, **self._choice.conditions)

    def close(self) -> None:
        """Close the HTTP client, if there is one."""
        client = self.__dict__.pop("client", None)
        if client is not None:
            client.close()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The journal: every request to the API, oldest first, with its response and the reason.

        Requests to the control API are not in it.
        """
        return list(reversed(self.control("GET", f"/requests?limit={_MAX_REQUESTS}")))

    @property
    def deliveries(self) -> list[dict[str, Any]]:
        """Every webhook delivery, oldest first; none if the project does not list deliveries."""
        return self._client.deliveries() or []

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Call the control API: ``control("POST", f"/offers/{offer}/accept", {})`` returns data."""
        return self._client.ask(method, path, body)

    def judge(
        self,
        check: str,
        client: ClientFunction,
        *,
        declare: Collection[str] | None = None,
        plan: Path | None = None,
    ) -> CheckReport:
        """Judge a client by a check of the acceptance plan, such as ``"idempotent-retry"``.

        ``client`` is a function that does a ``ClientTask``. The whole check runs, in workspaces of
        its own; ``declare`` are the capabilities of the client, by default all. What this workspace
        has recorded is judged by ``verdicts``.

        Raises AssertionError with the evidence unless the verdict is PASS, WARN or REVIEW: a check
        that judged nothing is not a pass. Returns the report.
        """
        try:
            from invoice_sandbox.testing.acceptance import judge
        except ImportError:
            raise SandboxError(f"judge() needs the sandbox itself; {ONLY_CLIENT}") from None
        return judge(self._client, check, client, declare, plan)

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

        Without ``scenario`` it has the scenario of this workspace.
        """
        choice = self._choice if scenario is None else ScenarioChoice(scenario, conditions)
        with new_workspace(self._client, choice, seed=seed, clock=clock) as other:
            yield other

    def _connection(self) -> dict[str, Any]:
        credentials = self._client.credentials
        return {
            "base_url": self.url,
            "headers": credentials.headers,
            "params": credentials.query,
            "timeout": 30,
            "trust_env": uses_proxy(self.url),
            "verify": _tls(self.url),
        }

    def _open_inbox(self) -> None:
        if self._project.register is None:
            return
        body = {"url": self.webhooks.url, "events": ["*"]}
        self._client.whole("POST", self._project.register, body)


@contextmanager
def new_workspace(
    control: ControlClient,
    choice: ScenarioChoice,
    *,
    seed: int | None = None,
    clock: str = "frozen",
) -> Iterator[InvoiceSandbox]:
    """A workspace created from that of ``control``; it is deleted at the end."""
    default = _DEFAULT_SCENARIO if _DEFAULT_SCENARIO in control.project.scenarios else None
    options = {"clock": clock, "seed": seed, "scenario": default}
    given = {name: value for name, value in options.items() if value is not None}
    made = control.ask("POST", "/workspaces", given)
    sandbox = InvoiceSandbox(control.url, made["key"], made["id"], choice, control.project)
    try:
        sandbox.prepare()
        yield sandbox
    finally:
        sandbox.close()
        _delete(control, made["id"])


def _delete(control: ControlClient, workspace_id: str) -> None:
    try:
        control.ask("DELETE", path("/workspaces/{id}", id=workspace_id))
    except SandboxError as error:
        if error.status != HTTPStatus.NOT_FOUND:  # the test may have deleted it
            raise


def _http() -> Any:
    """Return httpx2, or httpx, which has the same API, where it is not installed."""
    try:
        return import_module("httpx2")
    except ImportError:
        return import_module("httpx")


def _checked(check: Callable[[str], object], value: object) -> str:
    """Return a duration or an instant in the format of the API. Raises SandboxError."""
    text = str(_plain(value))
    try:
        check(text)
    except ValueError as error:
        raise SandboxError(str(error)) from None
    return text


def _plain(value: Any) -> Any:
    """Return a duration or an instant in the format of the API; other values unchanged.

    Raises SandboxError for an instant without a time zone, as for a text without one.
    """
    if isinstance(value, timedelta):
        return ("-" if value < timedelta() else "") + duration_text(abs(value))
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise SandboxError(f"{value!r} has no time zone; add one, such as tzinfo=UTC")
        return instant_text(value)
    return value


_CONTEXTS: Final[dict[bool, ssl.SSLContext]] = {}


def _tls(url: str) -> ssl.SSLContext:
    """Created once: loading the certificates for each test takes most of its time."""
    import ssl

    secure = url.startswith("https:")
    if secure not in _CONTEXTS:
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _CONTEXTS[secure] = tls_context() if secure else plain
    return _CONTEXTS[secure]
