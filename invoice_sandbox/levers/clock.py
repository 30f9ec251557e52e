"""The time of the workspace, and what it has in store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from invoice_sandbox.agenda import MOST_STEPS, STEPS_LOG, Advance, EndlessError, step_summary
from invoice_sandbox.clock import clock_at, instant_text, parse_duration, parse_instant
from invoice_sandbox.errors import refuse
from invoice_sandbox.levers.lever import Lever
from invoice_sandbox.store import Record

LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""As far as a clock goes, so that there is room for terms and deadlines behind it."""


async def get_clock(lever: Lever) -> Record:
    """The clock as it stands."""
    return await lever.clock_of(await lever.fresh())


async def set_clock(lever: Lever) -> Record:
    """Change the mode where the clock stands, then go on to ``now``. Raises ApiError 409."""
    if "now" in lever.body:
        _check(await _now(lever), parse_instant(lever.body["now"]))
    if "mode" in lever.body:
        async with lever.engine.store.transaction(lever.workspace.id) as state:
            workspace = await state.workspace()
            now = workspace.clock.now(lever.engine.wall)
            clock = clock_at(lever.body["mode"], now, lever.engine.wall)
            await state.change_workspace(replace(workspace, clock=clock))
    if "now" in lever.body:
        return await _advance(lever, to=parse_instant(lever.body["now"]))
    return await _advance(lever, by=timedelta(), wait=False)


async def advance_clock(lever: Lever) -> Record:
    """Move the clock by a time or to an instant. Raises ApiError 409."""
    wait = lever.body.get("wait", True)
    if "by" in lever.body:
        return await _advance(lever, by=parse_duration(lever.body["by"]), wait=wait)
    return await _advance(lever, to=parse_instant(lever.body["to"]), wait=wait)


async def get_agenda(lever: Lever) -> Record:
    """What is still to be done, and what became of the rest, the latest first."""
    async with lever.engine.store.transaction(lever.workspace.id) as state:
        lanes = await lever.engine.store.lanes(lever.workspace.id)
        steps = [step for lane in (None, *lanes) for step in await state.steps(lane)]
    due = sorted(steps, key=lambda step: (step.due, step.number))
    done = await lever.engine.store.log(lever.workspace.id, STEPS_LOG)
    return {
        "due": [step_summary(step) for step in due],
        "done": list(reversed(done.entries)),
    }


async def _now(lever: Lever) -> datetime:
    return (await lever.fresh()).clock.now(lever.engine.wall)


async def _advance(
    lever: Lever, *, by: timedelta | None = None, to: datetime | None = None, wait: bool = True
) -> Record:
    def target(start: datetime) -> datetime:
        if to is not None:
            return _check(start, to)
        try:
            return _check(start, start + (by or timedelta()))
        except OverflowError:
            raise _too_far() from None

    try:
        advance = await lever.engine.agenda.advance(lever.workspace.id, target, wait=wait)
    except EndlessError:
        stopped = instant_text(await _now(lever))
        raise refuse(
            "conflict",
            problem=f"More than {MOST_STEPS} steps fell due; the clock has stopped at {stopped}",
            advice="Advance again to go on, or look in the agenda for a circle.",
        ) from None
    finally:
        await lever.engine.agenda.watch(lever.workspace.id)
    return await _shown(lever, advance)


async def _shown(lever: Lever, advance: Advance) -> Record:
    return {
        **await get_clock(lever),
        "from": instant_text(advance.start),
        "happened": list(advance.happened),
    }


def _check(start: datetime, end: datetime) -> datetime:
    if end < start:
        raise refuse(
            "conflict",
            problem=f"The clock stands at {instant_text(start)} and never goes backwards",
            advice="Go back to a snapshot, reset the workspace, or make a new one.",
        )
    if end > LATEST:
        raise _too_far()
    return end


def _too_far() -> Exception:
    return refuse(
        "conflict",
        problem=f"A clock goes no further than {instant_text(LATEST)}",
        advice="Advance by less.",
    )
