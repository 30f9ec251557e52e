"""``invoice_sandbox.judge``: a check of the acceptance plan in a test."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from invoice_sandbox.acceptance.clients import Assignment, Ending, LocalClient, without_secrets
from invoice_sandbox.acceptance.observer import served_vocabulary
from invoice_sandbox.acceptance.process import listens
from invoice_sandbox.acceptance.runner import CheckReport, run_plan
from invoice_sandbox.acceptance.verdicts import CONFORMANT, Verdict
from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.conformance.plan import Check, Plan, load_plan, plan_of
from invoice_sandbox.control.client import ControlClient, SandboxError
from invoice_sandbox.project.loader import default_project

_SECONDS_TO_STOP: Final = 5.0


@dataclass(frozen=True)
class ClientTask:
    """The task of a client in a check: ``task`` with its ``name``, and its environment.

    ``stopped`` is set when the client must end.
    """

    task: Mapping[str, Any]
    environment: Mapping[str, str]
    stopped: Event

    @property
    def name(self) -> str:
        """The name of the task, such as ``register``."""
        return str(self.task["name"])

    @property
    def url(self) -> str:
        """The origin of the API."""
        return self.environment["SANDBOX_API_URL"]

    @property
    def key(self) -> str:
        """The API key for this task."""
        return self.environment["SANDBOX_API_KEY"]


ClientFunction = Callable[[ClientTask], object]


def judge(
    control: ControlClient,
    check_id: str,
    client: ClientFunction,
    declare: Collection[str] | None,
    file: Path | None,
) -> CheckReport:
    """The verdict on a check; ``InvoiceSandbox.judge`` describes it. Raises SandboxError."""
    __tracebackhide__ = True
    plan = load_plan(file or plan_of(default_project()), served_vocabulary(control))
    known = {check.id: check for check in plan.checks}
    if check_id not in known:
        raise SandboxError(f"there is no check '{check_id}' ({suggestion(check_id, known)})")
    report = _run(plan, known[check_id], control, client, declare)
    if report.verdict not in {*CONFORMANT, Verdict.REVIEW}:
        raise AssertionError(_text(report))
    return report


def _run(
    plan: Plan,
    check: Check,
    control: ControlClient,
    client: ClientFunction,
    declare: Collection[str] | None,
) -> CheckReport:
    declared = frozenset(plan.capabilities if declare is None else declare)
    for name in sorted(declared - set(plan.capabilities)):
        advice = suggestion(name, plan.capabilities)
        raise SandboxError(f"there is no capability '{name}' ({advice})")
    subject = _FunctionClient(declared, function=client)
    (report,) = run_plan(plan, [check], subject, control, lambda _: None, Event()).checks
    return report


def _text(report: CheckReport) -> str:
    """The verdict with the requests that prove it, and what the client printed or raised."""
    lines = [f"{report.verdict.value} {report.check.id}: {report.summary}"]
    decisive = report.decisive.decisive
    if decisive is not None:
        lines += [
            f"  {entry['line']} ({entry.get('requestId') or entry['deliveryId']})"
            for entry in decisive.evidence
        ]
    case = next(case for case in report.cases if case.verdict is report.decisive)
    return "\n".join([*lines, *case.ending.output.splitlines()])


@dataclass(frozen=True, kw_only=True)
class _FunctionClient(LocalClient):
    """A client that is a function of the test."""

    function: ClientFunction

    def start(self, assignment: Assignment) -> _Call:
        """Call the function in a thread."""
        port = assignment.endpoint.port if assignment.endpoint else None
        task = ClientTask(assignment.task, assignment.environment, Event())
        return _Call(self.function, task, port)


@dataclass
class _Call:
    """A call of the function. An error of it is evidence, like the output of a command."""

    function: ClientFunction
    task: ClientTask
    port: int | None
    error: str = ""
    thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def has_ended(self) -> bool:
        """True if the function has returned."""
        return not self.thread.is_alive()

    def has_begun(self, requests: Callable[[], int]) -> bool:  # noqa: ARG002 - it begins at once
        """True if it accepts connections, or need not."""
        return self.port is None or listens(self.port)

    def stop(self) -> None:
        """Have it end."""
        self.task.stopped.set()
        self.thread.join(_SECONDS_TO_STOP)

    def ending(self, secrets: Sequence[str]) -> Ending:
        """The error that it raised."""
        return Ending(output=without_secrets(self.error, secrets))

    def _run(self) -> None:
        try:
            self.function(self.task)
        except BaseException:  # whatever a client raises
            self.error = traceback.format_exc(limit=-3)
