"""What is due, when: one heap and one timer for all workspaces of a process; nothing is polled.

What stands in a lane is due here, and done by ``webhooks.lanes``. Steps belong to their workspace
and live in its state; here is only the order in which the
workspaces of live clocks have to be looked at. A step runs in a transaction of its own, at the
instant it was due, one after the other within a workspace.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from weakref import WeakValueDictionary

from invoice_sandbox.base.clock import SystemClock, instant_text, parse_instant
from invoice_sandbox.state import (
    NoWorkspaceError,
    Record,
    ScheduledStep,
    Store,
    Transaction,
    Workspace,
)
from invoice_sandbox.webhooks.lanes import Lanes, in_order

STEPS_LOG: Final = "steps"
"""The log of a workspace that holds what became of its steps."""

MOST_STEPS: Final = 10_000
"""Steps that are done in one go before the agenda stops where it is: a story may go in circles."""

_STEPS_AT_A_TIME: Final = 50
_LONGEST_WAIT: Final = 24 * 60 * 60
_PATIENCE: Final = 30.0

log = logging.getLogger("invoice_sandbox")

RunStep = Callable[[Transaction, Workspace, ScheduledStep], Awaitable[list[str]]]
"""Does one step within a transaction and answers the kinds of the events that it recorded."""

Target = Callable[[datetime], datetime]
"""From where a clock stands to where it is to go."""


class SkippedStep(Exception):  # noqa: N818  what it is about has moved on; nothing went wrong
    """A step that cannot be done any more; the message says why."""


class EndlessError(Exception):
    """More than MOST_STEPS steps fell due in one advance."""


@dataclass(frozen=True)
class Advance:
    """From where to where a clock was moved, and what was done on the way, in order."""

    start: datetime
    end: datetime
    happened: tuple[Record, ...]


class Agenda:
    """Does what falls due in live workspaces, and what is due already in any of them."""

    def __init__(self, store: Store, system_clock: SystemClock, run: RunStep, lanes: Lanes) -> None:
        """``run`` raises SkippedStep for a step whose time has gone by."""
        self._store = store
        self._wall = system_clock
        self._run = run
        self._lanes = lanes
        lanes.report_to(self._note_attempt, self._look_after)
        self._heap: list[tuple[datetime, str]] = []
        self._planned: dict[str, datetime] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._circling: dict[str, datetime] = {}

    async def run_due(self, workspace: Workspace) -> list[Record]:
        """Do everything that is due at the workspace's present, and what that makes due.

        Lanes are set off, and not waited for. A story that went in circles is left alone until the
        clock is moved or it is given up.
        """
        done = await self._settle_steps(workspace)
        await self._lanes.wake(workspace)
        return done

    async def advance(self, workspace_id: str, target: Target, *, wait: bool = True) -> Advance:
        """Move the workspace's clock and do all that falls due on the way, one instant at a time.

        With ``wait`` all lanes have come to rest, too; no lock is held while they are waited for,
        and on a clock that flows they are waited for half a minute at most.
        Raises what ``target`` raises, and EndlessError, with the clock where it stopped.
        """
        async with self._lanes.collect(workspace_id) as attempted:
            async with self.alone(workspace_id):
                start = await self._now(workspace_id)
                end = target(start)
                happened = await self._do_until(workspace_id, end)
                await self._move_clock(workspace_id, end)
            if wait:
                happened += await self._rest(workspace_id)
        everything = [*happened, *in_order(attempted)]
        return Advance(start, end, tuple(sorted(everything, key=_instant)))

    async def finish(self, workspace_id: str, lane: str) -> None:
        """Wait until a lane has come to rest."""
        await self._lanes.wake(await self._workspace(workspace_id))
        await self._lanes.finish(workspace_id, lane)

    async def schedule_wakeup(self, workspace_id: str) -> None:
        """Look at the workspace again when its next step is due, if its clock gets there."""
        workspace = await self._store.workspace(workspace_id)
        if workspace is None:
            return
        steps, lanes = (
            await self._store.next_due(workspace_id),
            await self._lanes.next_due(workspace_id),
        )
        if steps is not None and self._is_circling(workspace, steps):
            steps = None
        due = min((one for one in (steps, lanes) if one is not None), default=None)
        if due is None:
            return
        if workspace.clock.mode == "live":
            due -= workspace.clock.shift
        elif due <= workspace.clock.at:
            due = self._wall.now()
        else:
            return
        planned = self._planned.get(workspace_id)
        if planned is None or due < planned:
            self._planned[workspace_id] = due
            heapq.heappush(self._heap, (due, workspace_id))
            self._set_timer()

    async def close(self, patience: float) -> None:
        """Do nothing more; what lanes have under way may come back for so many real seconds."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await self._lanes.close(patience)

    def alone(self, workspace_id: str) -> asyncio.Lock:
        """Held by whoever takes the steps of a workspace, or puts others in their place."""
        return self._locks.setdefault(workspace_id, asyncio.Lock())

    def _is_circling(self, workspace: Workspace, due: datetime) -> bool:
        return self._circling.get(workspace.id) == due

    async def _note_circle(self, workspace_id: str) -> None:
        due = await self._store.next_due(workspace_id)
        if due is not None and due <= await self._now(workspace_id):
            self._circling[workspace_id] = due

    async def _is_due(self, workspace_id: str, until: datetime) -> bool:
        due = await self._store.next_due(workspace_id)
        return due is not None and due <= until

    async def _settle_steps(self, workspace: Workspace) -> list[Record]:
        due = await self._store.next_due(workspace.id)
        if (
            due is None
            or due > workspace.clock.now(self._wall)
            or self._is_circling(workspace, due)
        ):
            return []
        happened: list[Record] = []
        async with self.alone(workspace.id):
            while (done := await self._do_next(workspace.id)) is not None:
                happened.append(done)
                if len(happened) == MOST_STEPS:
                    await self._note_circle(workspace.id)
                    break
                await _give_way(len(happened))
        return happened

    async def _rest(self, workspace_id: str) -> list[Record]:
        """Let the lanes come to rest. Where time flows, what is new may keep them busy for ever:
        then they are waited for once, and not for long."""
        happened: list[Record] = []
        while True:
            workspace = await self._workspace(workspace_id)
            happened += await self.run_due(workspace)
            flows = workspace.clock.mode == "live"
            patience = _PATIENCE if flows else None
            if not await self._lanes.finish(workspace_id, patience=patience) or flows:
                return happened

    async def _do_until(self, workspace_id: str, end: datetime) -> list[Record]:
        happened: list[Record] = []
        while (done := await self._do_next(workspace_id, end)) is not None:
            happened.append(done)
            if len(happened) == MOST_STEPS and await self._is_due(workspace_id, end):
                await self._note_circle(workspace_id)
                raise EndlessError
            await _give_way(len(happened))
        return happened

    async def _note_attempt(self, workspace_id: str, entry: Record) -> None:
        await self._store.append(workspace_id, STEPS_LOG, entry)

    async def _look_after(self, workspace_id: str) -> None:
        """A lane has come to its end: it may have made something due, and may have missed more."""
        workspace = await self._store.workspace(workspace_id)
        if workspace is not None:
            await self._settle_quietly(workspace)

    async def _workspace(self, workspace_id: str) -> Workspace:
        workspace = await self._store.workspace(workspace_id)
        if workspace is None:
            raise NoWorkspaceError(workspace_id)
        return workspace

    async def _now(self, workspace_id: str) -> datetime:
        return (await self._workspace(workspace_id)).clock.now(self._wall)

    async def _do_next(self, workspace_id: str, until: datetime | None = None) -> Record | None:
        """Do the step that is due first, and answer what became of it; None: nothing is due.

        With ``until`` the clock goes along, at most as far as that; else it is the present.
        """
        step: ScheduledStep | None = None
        try:
            async with self._store.transaction(workspace_id) as state:
                workspace = await state.workspace()
                step = await state.take_due(until or workspace.clock.now(self._wall))
                if step is None:
                    return None
                workspace = await self._forward(state, workspace, step.due)
                done = _entry(step, "done", events=await self._run(state, workspace, step))
        except SkippedStep as skipped:
            done = await self._give_up(workspace_id, step, "skipped", str(skipped))
        except Exception as error:
            if step is None:
                raise
            log.exception("%s: step '%s' failed and is given up", workspace_id, step.action)
            done = await self._give_up(workspace_id, step, "failed", type(error).__name__)
        await self._store.append(workspace_id, STEPS_LOG, done)
        return done

    async def _give_up(
        self, workspace_id: str, step: ScheduledStep | None, outcome: str, reason: str
    ) -> Record:
        assert step is not None  # noqa: S101  only a step that was taken can fail
        async with self._store.transaction(workspace_id) as state:
            await state.discard_step(step.number)
            await self._forward(state, await state.workspace(), step.due)
        return _entry(step, outcome, reason)

    async def _move_clock(self, workspace_id: str, instant: datetime) -> None:
        async with self._store.transaction(workspace_id) as state:
            await self._forward(state, await state.workspace(), instant)

    async def _forward(
        self, state: Transaction, workspace: Workspace, instant: datetime
    ) -> Workspace:
        span = instant - workspace.clock.now(self._wall)
        if span.total_seconds() <= 0:
            return workspace
        moved = replace(workspace, clock=workspace.clock.forward(span))
        await state.change_workspace(moved)
        return moved

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = (self._heap[0][0] - self._wall.now()).total_seconds()
        self._timer = asyncio.get_running_loop().call_later(
            min(max(0, delay), _LONGEST_WAIT), self._wake
        )

    def _wake(self) -> None:
        task = asyncio.get_running_loop().create_task(self._do_due())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do_due(self) -> None:
        now = self._wall.now()
        while self._heap and self._heap[0][0] <= now:
            planned, workspace_id = heapq.heappop(self._heap)
            if self._planned.get(workspace_id) != planned:
                continue  # it was planned anew, for an earlier time
            del self._planned[workspace_id]
            workspace = await self._store.workspace(workspace_id)
            if workspace is not None:
                await self._settle_quietly(workspace)
        if self._heap:
            self._set_timer()

    async def _settle_quietly(self, workspace: Workspace) -> None:
        try:
            done = await self.run_due(workspace)
            self._lanes.collected(workspace.id, done)
            await self.schedule_wakeup(workspace.id)
        except NoWorkspaceError:
            pass  # deleted meanwhile


def _instant(entry: Record) -> datetime:
    return parse_instant(str(entry["at"]))


async def _give_way(done: int) -> None:
    if done % _STEPS_AT_A_TIME == 0:
        await asyncio.sleep(0)  # others get their turn in between


def _entry(
    step: ScheduledStep, outcome: str, reason: str | None = None, events: list[str] | None = None
) -> Record:
    return {**step_summary(step), "outcome": outcome, "reason": reason, "events": events or []}


def step_summary(step: ScheduledStep) -> Record:
    """A step as the levers show it; ``subject`` is the id of what it is about.

    Of what the action is given, only words and whole numbers are shown: the rest may be large.
    """
    told = {name: value for name, value in step.arguments.items() if name != "subject"}
    return {
        "at": instant_text(step.due),
        "do": step.action,
        "with": {name: value for name, value in told.items() if isinstance(value, str | int)},
        "scenario": step.scenario,
        "subject": step.arguments.get("subject"),
    }
