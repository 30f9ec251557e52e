"""Records the findings of Schemathesis, inside its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from schemathesis import cli
from schemathesis.engine import events

from invoice_sandbox.fuzzing.record import Finding, Writer


def report_to(writer: Writer, at_end: Callable[[], None]) -> None:
    """Record every finding: the failures of checks, and the errors that prevented a test.

    Of each type of failure of an operation the first one is recorded. ``at_end`` is called after
    the run.
    """

    @cli.handler()
    class _Registered(_Listener):
        def __init__(self, *_args: Any, **_params: Any) -> None:
            super().__init__(writer, at_end)


class _Listener(cli.EventHandler[Any]):
    def __init__(self, writer: Writer, at_end: Callable[[], None]) -> None:
        super().__init__()
        self._writer = writer
        self._at_end = at_end
        self._seen: set[Any] = set()

    def handle_event(self, ctx: Any, event: events.EngineEvent) -> None:  # noqa: ARG002 - theirs
        if isinstance(event, events.ScenarioFinished):
            for finding in self._new(event):
                self._writer.write(finding)
        elif isinstance(event, events.NonFatalError):
            self._writer.write(_error(event))
        elif isinstance(event, events.FatalError):
            self._writer.write(Finding(None, "Schemathesis had to stop", str(event.exception)))

    def shutdown(self, ctx: Any) -> None:  # noqa: ARG002 - theirs
        self._at_end()

    def _new(self, event: events.ScenarioFinished) -> Iterator[Finding]:
        for case_id, checks in event.recorder.checks.items():
            operation = event.recorder.cases[case_id].value.operation
            name = operation.definition.raw.get("operationId", operation.label)
            for info in (check.failure_info for check in checks):
                if info is None or info.failure in self._seen:
                    continue
                self._seen.add(info.failure)
                requests = tuple(step.curl for step in info.steps) or (info.code_sample,)
                failure = info.failure
                phase = event.phase.value
                yield Finding(name, failure.title, failure.message, phase, requests)


def _error(event: events.NonFatalError) -> Finding:
    phase = event.phase.value if event.phase else ""
    text = f"{type(event.value).__name__}: {event.value}"
    return Finding(None, f"{event.label} could not be tested", text, phase)
