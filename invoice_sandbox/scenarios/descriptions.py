"""A scenario in words, for the command line and the console."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.scenarios.script import NOW, START, Reaction, Scenario
from invoice_sandbox.scenarios.simulation import Run, SimulatedStep

_UNITS: Final = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def span_in_words(span: timedelta) -> str:
    """``2 days 3 hours``; nothing is ``at once``."""
    left, parts = span.total_seconds(), []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(_counted(int(count), unit))
    if left:
        parts.append("1 second" if left == 1 else f"{left:g} seconds")
    return " ".join(parts) or "at once"


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


@dataclass(frozen=True)
class StepView:
    """A simulated step in words: ``when`` it runs, ``what`` it does, ``why`` at that time, the
    status it ``leads`` to, and the types of the ``events`` recorded."""

    when: str
    what: str
    why: str
    leads: str
    events: tuple[str, ...]
    simulated: SimulatedStep


def step_views(run: Run) -> list[StepView]:
    """The steps of a run in words. After a client's transition, times count from there."""
    views = []
    start, sign = NOW, ""
    for simulated in run:
        if simulated.step is None:
            when, start, sign = "client", simulated.at, "+ "
        else:
            when = span_in_words(simulated.at - start)
            when = when if when == "at once" else sign + when
        what, why, leads = _what(simulated), _why(simulated.step), _leads(simulated)
        events = simulated.events if simulated.possible else ()
        views.append(StepView(when, what, why, leads, events, simulated))
    return views


def _what(simulated: SimulatedStep) -> str:
    if simulated.step is None:
        return f"a client causes {simulated.do}"
    arguments = simulated.step.arguments.items()
    return _with_arguments(
        simulated.do, {name: value for name, value in arguments if str(value) != simulated.do}
    )


def _with_arguments(action: str, arguments: Mapping[str, Any]) -> str:
    listed = ", ".join(f"{name} {_plain(value)}" for name, value in arguments.items())
    return f"{action} ({listed})" if listed else action


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _why(step: Reaction | None) -> str:
    if step is None:
        return ""
    if step.date is not None:
        since = "the start" if step.on == START else step.on
        default = f"without one, {span_in_words(step.otherwise + step.after)} after {since}"
        if step.on != START:
            default = f"not before {step.on}; {default}"
        if step.after == NOW:
            return f"on {step.date}; {default}"
        return f"{span_in_words(step.after)} after {step.date}; {default}"
    if step.on == START:
        return ""
    after = "with" if step.after == NOW else f"{span_in_words(step.after)} after"
    return f"{after} {step.on}"


def _leads(simulated: SimulatedStep) -> str:
    if not simulated.possible:
        return f"skipped, because the status is {simulated.status} by then"
    if simulated.others:
        return f"{simulated.status} (or {', '.join(simulated.others)})"
    return simulated.status


# Faults, deliveries and steps with requests ----------------------------------------------------


def fault_in_words(fault: Mapping[str, Any]) -> str:
    """``createOrder: status 503, 2 times``."""
    parts = [f"{fault['kind']} {fault['status']}" if "status" in fault else str(fault["kind"])]
    if "delay" in fault:
        longest = f" to {_wait(fault['upTo'])}" if "upTo" in fault else ""
        parts.append(f"{_wait(fault['delay'])}{longest}")
    if "when" in fault:
        parts.append(f"{fault['when']} the request is carried out")
    parts.append(_times(fault.get("count", 1)))
    if "probability" in fault:
        parts.append(f"with probability {fault['probability']}")
    return f"{fault.get('operation', 'every operation')}: {', '.join(parts)}"


def _wait(text: str) -> str:
    return span_in_words(parse_duration(text))


def _times(count: int | None) -> str:
    if count is None:
        return "always"
    return "once" if count == 1 else f"{count} times"


_DELIVERY_FAULTS: Final[Mapping[str, str]] = {
    "fail": "the endpoint returns {status}",
    "duplicate": "sent twice",
    "late": "sent after a later event",
    "bad-signature": "with a wrong signature",
    "stale-timestamp": "with an old timestamp",
    "changed-body": "with a body changed after signing",
    "previous-secret": "signed with the previous secret only",
    "no-signature": "without a signature",
    "empty-signature": "with an empty signature",
    "two-signatures": "with a wrong signature before the right one",
    "other-version": "with a wrong signature of another version",
    "changed-id": "with an id changed after signing",
    "no-timestamp": "without a timestamp",
    "future-timestamp": "with a timestamp from the future",
    "empty-body": "without the body that was signed",
    "patch": "with changed members",
}


def delivery_in_words(delivery: Mapping[str, Any]) -> str:
    """``every event: the endpoint returns 503, 3 times``."""
    what = _DELIVERY_FAULTS[delivery["kind"]].format(status=delivery.get("status", 500))
    return f"{delivery.get('event', 'every event')}: {what}, {_times(delivery.get('count', 1))}"


def calls_in_words(scenario: Scenario) -> Iterator[str]:
    """``request 3 to getOrder: revoke-calling-key``."""
    for step in scenario.calls:
        which = "every request" if step.nth is None else f"request {step.nth}"
        yield f"{which} to {step.call}: {_with_arguments(step.do, step.arguments)}"


def notes(scenario: Scenario) -> list[tuple[str, tuple[str, ...]]]:
    """The effects on requests, responses and deliveries: a title, and a line for each."""
    parts = [
        ("With requests", tuple(calls_in_words(scenario))),
        ("Responses", tuple(map(fault_in_words, scenario.faults))),
        ("Deliveries", tuple(map(delivery_in_words, scenario.deliveries))),
    ]
    return [(title, lines) for title, lines in parts if lines]


def trigger_in_words(scenario: Scenario) -> str:
    """Return what starts the scenario: members of a new record, else where it can be selected."""
    if scenario.begins:
        return " and ".join(f"{name} {value}" for name, value in scenario.begins.items())
    if scenario.faults or scenario.calls:
        return "workspace, header"
    return "workspace, record, header"
