"""Runs one case: a fresh workspace, the operator's steps, the client, and what was observed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from time import monotonic, sleep
from typing import Any, Final

from invoice_sandbox.acceptance.clients import Assignment, Client, Ending, Endpoint, Session
from invoice_sandbox.acceptance.observer import Observer
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict, controlled, judge
from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import parse_duration, parse_instant
from invoice_sandbox.bundles.saving import listed_entries
from invoice_sandbox.conformance.observations import Observations, observations_of
from invoice_sandbox.conformance.plan import Case, Check, Plan
from invoice_sandbox.conformance.rules import evaluate
from invoice_sandbox.control.client import ControlClient, SandboxError, path
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.scenarios.script import resolved
from invoice_sandbox.webhooks.outbox import EVENTS

_VALUE: Final = re.compile(r"\$([A-Za-z][A-Za-z0-9]*)")
_POLL: Final = 0.03
_SECRETS: Final = ("key", "nextKey", "secret", "nextSecret")


class InterruptedRunError(Exception):
    """The run was interrupted."""


@dataclass(frozen=True)
class CaseRecord:
    """The record of a case in a bundle: the recording of its workspace, values without secrets, the
    marks that were set, the periods of requests and attempts, and ``until`` of the observations."""

    recording: Mapping[str, Any]
    values: Mapping[str, Any]
    marks: Sequence[str]
    periods: Mapping[str, int]
    until: str | None

    def observations(self) -> Observations:
        """Return what the recording shows; what nobody had seen before is of the last period."""
        journal = listed_entries(self.recording["journal"])
        deliveries = self.recording["deliveries"]
        latest = len(self.marks)
        seen = observations_of(
            journal, deliveries, self.marks, lambda key: int(self.periods.get(key, latest))
        )
        return replace(seen, until=None if self.until is None else parse_instant(self.until))


@dataclass(frozen=True)
class CaseReport:
    """The result of a case. ``requests`` and ``deliveries`` are as the control API shows them;
    deliveries also have the ``payload`` of their event, if it is known.

    ``before`` and ``after`` are what came of its probe. ``took`` is how many seconds of real time
    it took with its probe.
    """

    name: str
    verdict: CaseVerdict
    seen: Observations = field(default_factory=Observations)
    requests: Sequence[Mapping[str, Any]] = ()
    deliveries: Sequence[Mapping[str, Any]] = ()
    task: Mapping[str, Any] = field(default_factory=dict)
    ending: Ending = field(default_factory=Ending)
    before: CaseReport | None = None
    after: CaseReport | None = None
    record: CaseRecord | None = None
    took: float = 0.0


def with_payloads(recording: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The deliveries of a recording, oldest first, with the payloads of their events."""
    events = (recording["end"]["records"] or {}).get(EVENTS, ())
    payloads = {event["id"]: event["payload"] for event in events}
    deliveries = recording["deliveries"]
    return [{**delivery, "payload": payloads.get(delivery["eventId"])} for delivery in deliveries]


def filled(case: Case, values: Mapping[str, Any]) -> Case:
    """The case with the values of its run in its rules."""
    return replace(
        case,
        rules=tuple(resolved(rule, values) for rule in case.rules),
        controls=tuple(resolved(rule, values) for rule in case.controls),
        effects=tuple(resolved(rule, values) for rule in case.effects),
        review=resolved(case.review, values),
    )


def case_report(
    check: Check, case: Case, record: CaseRecord, ending: Ending, task: Mapping[str, Any]
) -> CaseReport:
    """Judge what a recording shows of a case."""
    seen = record.observations()
    return CaseReport(
        name=case.name,
        verdict=judge(filled(case, record.values), check.level, seen, ending),
        seen=seen,
        requests=listed_entries(record.recording["journal"]),
        deliveries=with_payloads(record.recording),
        task=task,
        ending=ending,
        record=record,
    )


def with_probe(report: CaseReport, before: CaseReport, after: CaseReport) -> CaseReport:
    """Return the report on a case with what came of its probe before and after it."""
    verdict = controlled(report.verdict, before.verdict, after.verdict)
    return replace(report, verdict=verdict, before=before, after=after)


def run_case(
    plan: Plan, check: Check, case: Case, client: Client, control: ControlClient, interrupted: Event
) -> CaseReport:
    """Run one case, and its probe before and after it. Raises InterruptedRunError."""
    if case.when is not None and case.when not in client.declared:
        text = f"The client does not declare '{case.when}'."
        return CaseReport(case.name, CaseVerdict(Verdict.NOT_APPLICABLE, text))
    if case.unless in client.declared:
        text = f"The client declares '{case.unless}'."
        return CaseReport(case.name, CaseVerdict(Verdict.NOT_APPLICABLE, text))
    case = case.demanded(client.declared)
    try:
        if case.probe is None:
            return _in_workspace(_CaseRun(plan, check, case, client, control, interrupted))
        probe = plan.probes[case.probe]
        before, report, after = (
            _in_workspace(_CaseRun(plan, check, part, client, control, interrupted, suffix))
            for part, suffix in ((probe, "before"), (case, ""), (probe, "after"))
        )
    except (SandboxError, OSError) as error:
        return CaseReport(case.name, CaseVerdict(Verdict.ERROR, f"Preflight: {error}"))
    return with_probe(report, before, after)


def _in_workspace(run: _CaseRun) -> CaseReport:
    """Run in a workspace of its own, which is deleted at the end. Raises SandboxError, OSError."""
    parent = run.control
    made = parent.ask("POST", "/workspaces", {"clock": run.case.clock})
    run.use(replace(parent, key=made["key"], loads=jsonio.loads, dumps=jsonio.dumps))
    try:
        return run.run()
    finally:
        parent.ask("DELETE", path("/workspaces/{id}", id=made["id"]))


@dataclass
class _CaseRun:
    """A case while it runs; ``values`` replace texts such as ``$order``."""

    plan: Plan
    check: Check
    case: Case
    client: Client
    control: ControlClient
    interrupted: Event
    suffix: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    endpoint: Endpoint | None = None
    session: Session | None = None
    deadline: float = 0.0
    until: str | None = None
    has_begun: bool = True
    requests_before: int = 0
    restarts: int = 0

    def use(self, workspace: ControlClient) -> None:
        """Run in this workspace."""
        self.control = workspace
        self.values["key"] = workspace.key
        self.observer = Observer(workspace)

    def run(self) -> CaseReport:
        """Prepare, run the client, judge. Raises SandboxError and OSError before it starts."""
        self._prepare()
        task = resolved(self.case.task, self.values)
        client = self._accompanied(task, self.case.during)
        for number, following in enumerate(self.case.then, start=2):
            self.requests_before = len(self.observer.observe().requests)
            client = self._accompanied(resolved(following, self.values), (), str(number))
        return self._report(task, client)

    def _accompanied(
        self, task: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], number: str = ""
    ) -> Session:
        """Have the client do a task, and do the steps meanwhile."""
        self.task, self.session = task, self._start(task, number)
        try:
            self._accompany(steps)
            ended = self.session.has_ended
            self.until = None if ended else str(self.control.ask("GET", "/clock")["now"])
        finally:
            self.session.stop()
        return self.session

    def _prepare(self) -> None:
        if self.plan.credentials is not None:
            self._send(self.plan.credentials)
        if self.case.webhooks:
            self._register_endpoint()
        for step in self.case.setup:
            self._do(step)
        if self.plan.preflight is not None:
            read = replace(self.control, key=self.values["key"])
            read.whole("GET", self.plan.preflight.removeprefix("GET "))

    def _register_endpoint(self) -> None:
        where = self.control.registration_path()
        self.endpoint = self.client.endpoint()
        url, events = self.endpoint.url, list(self.case.webhooks)
        made = self.control.send("POST", where, {"url": url, "events": events}).data
        if made.get("status") != "Enabled":
            raise SandboxError(f"{url} cannot be called: {made.get('disabledReason')}")
        self.values |= {"endpoint": made["id"], "secret": made["secret"]}

    def _start(self, task: Mapping[str, Any], number: str) -> Session:
        name = "-".join(filter(None, [self.check.id, self.case.name, self.suffix, number]))
        text, environment = self.plan.words_of(task), self._environment(task)
        return self.client.start(
            Assignment(self.check.id, name, task, text, environment, self.endpoint)
        )

    def _restart(self) -> None:
        """Have the client do its task again, and wait until it has begun."""
        self.requests_before = len(self.observer.observe().requests)
        self.restarts += 1
        self.session = self._start(self.task, f"restart-{self.restarts}")
        self._until(self._has_begun, monotonic() + self.client.patience)

    def _environment(self, task: Mapping[str, Any]) -> dict[str, str]:
        """The task of the client; what does not apply is left out."""
        texts = {
            "SANDBOX_API_URL": self.control.url,
            "SANDBOX_API_KEY": self.values["key"],
            "SANDBOX_API_KEY_2": self.values.get("nextKey", ""),
            "SANDBOX_WEBHOOK_SECRET": self.values.get("secret", ""),
            "SANDBOX_WEBHOOK_SECRET_2": self.values.get("nextSecret", ""),
            "ACCEPTANCE_CHECK": self.check.id,
            "ACCEPTANCE_TASK": jsonio.dumps(task).decode(),
            "ACCEPTANCE_WEBHOOK_PORT": self._port(),
        }
        return {name: text for name, text in texts.items() if text}

    def _port(self) -> str:
        port = self.endpoint.port if self.endpoint else None
        return "" if port is None else str(port)

    def _accompany(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Do the steps while the client runs, until the case ends."""
        self.has_begun = self._until(self._has_begun, monotonic() + self.client.patience)
        if not self.has_begun:
            return
        self.deadline = monotonic() + self.case.window.total_seconds()
        for step in steps:
            self._do(step)
        if self.case.ends == "client":
            self._until(lambda: False, self.deadline)

    def _has_begun(self) -> bool:
        return self.session is None or self.session.has_begun(
            lambda: len(self.observer.observe().requests) - self.requests_before
        )

    def _do(self, step: Mapping[str, Any]) -> None:
        if "send" in step:
            self._send(step)
        elif "mark" in step:
            self.observer.mark(step["mark"])
        elif step.get("client") == "start":
            self._restart()
        elif "client" in step:
            if self.session is not None:
                self.session.stop()
        elif "pause" in step:
            self._until(lambda: False, monotonic() + parse_duration(step["pause"]).total_seconds())
        else:
            rule, limit = resolved(step["wait"], self.values), self.deadline
            if "for" in step:
                limit = min(limit, monotonic() + parse_duration(step["for"]).total_seconds())
            self._until(lambda: evaluate(rule, self.observer.observe()).is_kept, limit)

    def _until(self, is_over: Callable[[], bool], limit: float) -> bool:
        """Wait for something, until the client has ended. False: a limit was reached."""
        while self.session is not None and not self.session.has_ended:
            if self.interrupted.is_set():
                raise InterruptedRunError
            if is_over():
                break
            if monotonic() >= limit:
                return False
            sleep(_POLL)
        return True

    def _send(self, step: Mapping[str, Any]) -> None:
        method, _, place = step["send"].partition(" ")
        place = _VALUE.sub(lambda match: str(self.values.get(match[1], match[0])), place)
        body = resolved(step["body"], self.values) if "body" in step else None
        if body is None and method != "GET":
            body = {}
        for _ in range(step.get("times", 1)):
            reply = self.control.whole(method, place, body)
        for name, pointer in step.get("keep", {}).items():
            self.values[name] = at_pointer(reply, pointer)

    def _report(self, task: Mapping[str, Any], client: Session) -> CaseReport:
        secrets = [str(self.values[name]) for name in _SECRETS if self.values.get(name)]
        ending = replace(client.ending(secrets), has_begun=self.has_begun)
        return case_report(self.check, self.case, self._record(), ending, task)

    def _record(self) -> CaseRecord:
        values = {name: value for name, value in self.values.items() if name not in _SECRETS}
        recording = self.control.ask("GET", "/recording")
        marks, periods = self.observer.marks, self.observer.periods()
        return CaseRecord(recording, values, marks, periods, self.until)
