"""Control functions of the simulated clock and the agenda."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from invoice_sandbox.base.clock import clock_at, instant_text, parse_duration, parse_instant
from invoice_sandbox.base.errors import conflict
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.runtime.agenda import (
    MAX_STEPS,
    Advance,
    EndlessError,
    finished,
    step_summary,
)
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.scenarios.library import resolver_of
from invoice_sandbox.state import STEPS_LOG, Record
from invoice_sandbox.webhooks.outbox import DELIVER

MAX_PENDING: Final = 100
"""Deliveries that the response to an advance lists as left."""

LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""The last instant of a clock, which leaves room for terms and deadlines after it."""


def get_clock(call: ControlCall) -> Record:
    """The clock now."""
    return call.clock_of(call.fresh())


def set_clock(call: ControlCall) -> Later:
    """Change the mode at the present instant, then advance to ``now``. Raises ApiError 409."""
    if "now" in call.body:
        _check(_now(call), parse_instant(call.body["now"]))
    if "mode" in call.body:
        with call.engine.store.transaction(call.workspace.id) as state:
            workspace = state.workspace()
            now = workspace.clock.now(call.engine.system_clock)
            clock = clock_at(call.body["mode"], now, call.engine.system_clock)
            state.change_workspace(replace(workspace, clock=clock))
    if "now" in call.body:
        return _advance(call, to=parse_instant(call.body["now"]))
    return _advance(call, by=timedelta(), wait=False)


def advance_clock(call: ControlCall) -> Later | Record:
    """Move the clock by a duration or to an instant; with ``dryRun`` only show what that would do.
    Raises ApiError 409.
    """
    wait = call.body.get("wait", True)
    by = parse_duration(call.body["by"]) if "by" in call.body else None
    to = parse_instant(call.body["to"]) if "to" in call.body else None
    if call.body.get("dryRun", False):
        return _previewed(call, by=by, to=to)
    return _advance(call, by=by, to=to, wait=wait)


def _previewed(call: ControlCall, *, by: timedelta | None, to: datetime | None) -> Record:
    """The effect that an advance would have, as its response shows it."""
    start = _now(call)
    end = _target(start, by=by, to=to)
    preview = call.engine.agenda.preview(call.workspace.id, end, MAX_PENDING)
    return {
        "mode": call.fresh().clock.mode,
        "now": instant_text(end),
        "nextDue": None if preview.next_due is None else instant_text(preview.next_due),
        "from": instant_text(start),
        "happened": [*preview.happened],
        **({"pending": [*preview.attempts]} if preview.attempts else {}),
    }


def _target(start: datetime, *, by: timedelta | None, to: datetime | None) -> datetime:
    if to is not None:
        return _check(start, to)
    try:
        return _check(start, start + (by or timedelta()))
    except OverflowError:
        raise _too_far() from None


def get_agenda(call: ControlCall) -> Record:
    """The due steps in order, and the finished steps, newest first; of the records that the query
    names, and not more than its ``limit`` of each. The counts are those of all."""
    store, subjects = call.engine.store, set(call.query.get("subject", ()))
    has_deliveries = call.query.get("deliveries", True)
    with store.transaction(call.workspace.id) as state:
        lanes = store.due_times(call.workspace.id)
        steps = state.steps(*(lanes if has_deliveries else [None]))
        resolver = resolver_of(call.engine.project.scenarios, state.workspace())
        running = {name: [run.name for run in resolver.running(state, name)] for name in subjects}
    due = [step for step in map(step_summary, steps) if _is_about(step, subjects)]
    steps_log = store.log(call.workspace.id, STEPS_LOG).entries  # in order
    entries = finished(store, call.workspace.id) if has_deliveries else steps_log
    done = [entry for entry in reversed(entries) if _is_about(entry, subjects)]
    limit = call.query.get("limit")
    return {
        "due": due[:limit],
        "done": done[:limit],
        "count": {"due": len(due), "done": len(done)},
        "next": {**_next_attempt(lanes), **{step["do"]: step["at"] for step in reversed(due)}},
        "scenario": call.fresh().scenario,
        "scenarios": running,
    }


def _next_attempt(lanes: Mapping[str | None, datetime]) -> dict[str, str]:
    """The instant of the next attempt to deliver, if one is due."""
    first = min((at for lane, at in lanes.items() if lane is not None), default=None)
    return {} if first is None else {DELIVER: instant_text(first)}


def _is_about(step: Record, subjects: Set[str]) -> bool:
    """True if a step is about one of the records, or if there are none."""
    return (
        not subjects
        or step["subject"] in subjects
        or not subjects.isdisjoint(
            value for value in step["with"].values() if isinstance(value, str)
        )
    )


def _now(call: ControlCall) -> datetime:
    return call.fresh().clock.now(call.engine.system_clock)


def _advance(
    call: ControlCall, *, by: timedelta | None = None, to: datetime | None = None, wait: bool = True
) -> Later:
    return Later(
        partial(_advanced, call, partial(_target, by=by, to=to), wait=wait),
        lambda advance: _shown(call, advance, is_awaited=wait),
    )


async def _advanced(
    call: ControlCall, target: Callable[[datetime], datetime], *, wait: bool
) -> Advance:
    try:
        return await call.engine.agenda.advance(call.workspace.id, target, wait=wait)
    except EndlessError:
        stopped = instant_text(await call.engine.call(_now, call))
        raise conflict(
            f"More than {MAX_STEPS} steps fell due; the clock stopped at {stopped}",
            "Advance again to continue; the agenda shows steps that repeat.",
        ) from None


def _pending(call: ControlCall) -> list[Record]:
    """The deliveries that are due and not done, at most MAX_PENDING."""
    now = _now(call)
    due_times = call.engine.store.due_times(call.workspace.id)
    lanes = [lane for lane, due in due_times.items() if lane is not None and due <= now]
    if not lanes:
        return []
    with call.engine.store.transaction(call.workspace.id) as state:
        steps = [step for step in state.steps(*lanes) if step.due <= now]
    return [step_summary(step) for step in steps[:MAX_PENDING]]


def _shown(call: ControlCall, advance: Advance, *, is_awaited: bool) -> Record:
    shown = {
        **get_clock(call),
        "from": instant_text(advance.start),
        "happened": list(advance.happened),
    }
    pending = _pending(call) if is_awaited else []
    return {**shown, "pending": pending} if pending else shown


def _check(start: datetime, end: datetime) -> datetime:
    if end < start:
        raise conflict(
            f"The clock shows {instant_text(start)} and never goes backwards, "
            f"here to {instant_text(end)}",
            "Restore a snapshot, reset the workspace, or create a new one.",
        )
    if end > LATEST:
        raise _too_far()
    return end


def _too_far() -> Exception:
    return conflict(f"A clock cannot go beyond {instant_text(LATEST)}", "Advance by less.")
