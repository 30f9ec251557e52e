"""Runs scheduled steps when they are due: one heap and one timer for all workspaces of a process.

The steps are stored in the state of their workspace; the heap holds only when each workspace has to
be checked next. A step runs in a transaction of its own, at the instant it was due, one after the
other within a workspace. ``webhooks.lanes`` runs the steps of lanes.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar
from weakref import WeakValueDictionary

from invoice_sandbox.base.clock import SystemClock, instant_text, parse_instant
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.threads import Threads
from invoice_sandbox.state import (
    STEPS_LOG,
    NoWorkspaceError,
    Record,
    ScheduledStep,
    Store,
    StoreError,
    Transaction,
    Workspace,
)
from invoice_sandbox.webhooks.attempts import CLOSE_ENDPOINT, TIMEOUT
from invoice_sandbox.webhooks.lanes import Lanes
from invoice_sandbox.webhooks.outbox import DELIVER

ATTEMPTS_LOG: Final = "attempts"
"""The log of the attempts to deliver, which are too many to share one with the steps."""

MAX_STEPS: Final = 10_000
"""Steps that run without a pause before the agenda stops: a scenario may be an endless loop."""

STEPS_OF_A_SLICE: Final = 50
"""Due steps that run in one transaction, such as that of a request. A step that records several
events counts as so many."""

_STEPS_OF_AN_ADVANCE: Final = 20
"""Due steps that run in one transaction beside requests, which go on between two of them."""

_MAX_WAIT: Final = 24 * 60 * 60
_UNREPORTED: Final = "%s: the %s step '%s' was not reported"
_PAUSE: Final = timedelta(seconds=1)
"""Until due steps are tried again that could not be run, or that another server left."""

_MOMENT: Final = 0.1
"""Seconds until a delivery is looked at again that another server makes, or a workspace that
another one holds."""

PATIENCE: Final = 30.0
"""Real seconds without a response of any receiver that an advance waits for deliveries."""

LONGEST_WAIT: Final = 300.0
"""Real seconds that an advance waits for deliveries in all."""

REST: Final = 2.0
"""Real seconds that a snapshot waits for deliveries in flight."""

T = TypeVar("T")
DueTimes = Mapping[str | None, datetime]

log = logging.getLogger("invoice_sandbox")

RunStep = Callable[[Transaction, Workspace, ScheduledStep], list[str]]
"""Runs one step within a transaction and returns the types of the events that it recorded."""

Dropped = Literal["failed", "skipped"]
"""Why a step was dropped."""

ReportDropped = Callable[[Transaction, Workspace, ScheduledStep, Dropped, str], None]
"""Reports a step that failed or was skipped, with the reason."""

Target = Callable[[datetime], datetime]
"""Calculates the instant to advance to from the present instant."""


_STEPS_RUN: Final = "steps run"
"""The counter of the steps that ran."""

_AFTER_STEPS: Final = {DELIVER: 1, CLOSE_ENDPOINT: 2}
"""Actions that come after the steps of their instant."""


class SkippedStep(Exception):  # noqa: N818  expected when a client has moved the record elsewhere
    """A step that is no longer possible; the message gives the reason."""


class EndlessError(Exception):
    """More than MAX_STEPS steps fell due in one advance."""


@dataclass(frozen=True)
class Preview:
    """The log entries that an advance would have, the next attempt to deliver of each lane, and
    when the first step after it would be due."""

    happened: tuple[Record, ...]
    attempts: tuple[Record, ...]
    next_due: datetime | None


class _Undo(Exception):  # noqa: N818  it ends a transaction that must change nothing
    """The end of a preview."""


@dataclass(frozen=True)
class Advance:
    """The clock before and after, and the log entries of the steps that ran, in order."""

    start: datetime
    end: datetime
    happened: tuple[Record, ...]


class Agenda:
    """Runs due steps: of live workspaces as time passes, of frozen ones after each request."""

    def __init__(
        self,
        store: Store,
        system_clock: SystemClock,
        run: RunStep,
        lanes: Lanes,
        report: ReportDropped | None = None,
        threads: Threads | None = None,
    ) -> None:
        """``run`` raises SkippedStep for a step that is no longer possible."""
        self._store = store
        self._system_clock = system_clock
        self._run = run
        self._report = report
        self._lanes = lanes
        self._threads = threads or Threads()
        lanes.report_to(self.log, self.run_workspace)
        self._heap: list[tuple[datetime, str]] = []
        self._planned: dict[str, datetime] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._looping: dict[str, datetime] = {}
        self._collecting: dict[str, list[list[Record]]] = {}

    def run_due(
        self,
        state: Transaction,
        until: datetime | None = None,
        *,
        real: datetime | None = None,
        most: int = STEPS_OF_A_SLICE,
    ) -> list[Record]:
        """Run steps that are due at the ``real`` instant, by default now, and those that they make
        due, but not many more than ``most``. Return their log entries, for ``settle``.

        With ``until`` the clock moves to each step, at most as far as ``until``. Otherwise an
        endless loop is not continued until the clock is moved or the steps are cancelled.
        """
        done: list[Record] = []
        if not state.has_steps():
            return done
        count, limit = 0, until
        if limit is None:
            limit = state.workspace().clock.instant(real or self._system_clock.now())
        if until is None and self._is_looping(state):
            return done
        while count < most:
            entry = self._run_next(state, limit)
            if entry is None:
                break
            done.append(entry)
            count += max(1, len(entry["events"]))
        return done

    def must_wait(self, state: Transaction, done: list[Record]) -> bool:
        """True if a request has to wait until the rest of what is due has been done.

        On a live clock it does not wait for the steps of thousands of records. On one that stands
        still it does, so that its response is always the same.
        """
        workspace = state.workspace()
        if workspace.clock.mode == "live" or not done:
            return False
        first = state.first_due(None, workspace.clock.at)
        return first is not None and self._looping.get(workspace.id) != first.due

    def settle(self, state: Transaction, done: Iterable[Record]) -> None:
        """Log the steps of a transaction that has committed, and start what they made due."""
        workspace, due = state.workspace(), state.next_due()
        for entry in done:
            self.log(workspace.id, entry)
        planned = self._planned.get(workspace.id)
        if due is None or (
            due > workspace.clock.now(self._system_clock)
            and (
                workspace.clock.mode == "frozen"
                or (planned is not None and planned <= due - workspace.clock.shift)
            )
        ):
            return  # nothing is due until the clock is moved, or the timer is set
        self.start(workspace.id)

    def start(self, workspace_id: str) -> None:
        """Start what is due in a workspace. Raises NoWorkspaceError."""
        self._threads.on_loop(self._start_due, *self._due(workspace_id))

    def _start_due(self, workspace: Workspace, due_times: DueTimes) -> None:
        """Start the lanes that are due, and set the timer for the next due step."""
        self._lanes.wake(workspace, due_times)
        self._set_wakeup(workspace, due_times)

    async def _start(self, workspace_id: str) -> Workspace:
        """Start what is due in a workspace. Raises NoWorkspaceError."""
        workspace, due_times = await self._threads.call(self._due, workspace_id)
        self._start_due(workspace, due_times)
        return workspace

    def _due(self, workspace_id: str) -> tuple[Workspace, DueTimes]:
        return self._workspace(workspace_id), self._store.due_times(workspace_id)

    async def catch_up(self, workspace_id: str) -> None:
        """Run all steps that are due now; others go on between two slices."""
        for _ in range(0, MAX_STEPS, _STEPS_OF_AN_ADVANCE):
            if not await self._threads.call(self._slice, workspace_id):
                return
            await asyncio.sleep(0)
        await self._threads.call(self._note_loop, workspace_id)

    def _slice(self, workspace_id: str, until: datetime | None = None) -> list[Record]:
        with self._store.transaction(workspace_id) as state:
            done = self.run_due(state, until, most=_STEPS_OF_AN_ADVANCE)
        for entry in done:
            self.log(workspace_id, entry)
        return done

    async def advance(self, workspace_id: str, target: Target, *, wait: bool = True) -> Advance:
        """Move the workspace's clock and run all steps that become due, in order of time.

        With ``wait`` this also waits for the lanes, without holding a lock, for PATIENCE and
        LONGEST_WAIT; on a live clock for at most PATIENCE. The result has what happened meanwhile,
        whoever ran it, without the attempts that were due at the start: how many of them were made
        before depends on real time. Raises what ``target`` raises, and EndlessError, which leaves
        the clock where the loop began.
        """
        with self._collect(workspace_id) as happened:
            async with self._alone(workspace_id):
                happened.clear()  # it was before
                clock = (await self._threads.call(self._workspace, workspace_id)).clock
                start = clock.now(self._system_clock)
                end = target(start)
                await self._run_until(workspace_id, end)
                await self._threads.call(self._move_clock, workspace_id, end)
            if wait:
                await self._finish_lanes(workspace_id, happened)
            await self._start(workspace_id)
        if clock.mode == "frozen":  # without what another advance did meanwhile
            happened = [entry for entry in happened if parse_instant(entry["at"]) <= end]
        later = (
            entry
            for entry in happened
            if not _is_attempt(entry) or parse_instant(entry["at"]) > start
        )
        return Advance(start, end, tuple(in_order(later)))

    def preview(self, workspace_id: str, end: datetime, most: int) -> Preview:
        """The result of an advance to an instant, without one: of at most about ``most`` steps and
        as many lanes. Changes nothing."""
        found = Preview((), (), None)
        with suppress(_Undo), self._store.transaction(workspace_id) as state:
            done = self.run_due(state, end, most=most)
            lanes = [lane for lane in self._store.due_times(workspace_id) if lane is not None]
            first = (state.first_due(lane, end) for lane in lanes[:most])
            attempts = [step_summary(step) for step in first if step is not None]
            found = Preview(tuple(done), tuple(attempts), state.next_due())
            raise _Undo
        return found

    @contextmanager
    def _collect(self, workspace_id: str) -> Iterator[list[Record]]:
        """Collect the log entries of the steps and attempts of a workspace."""
        entries: list[Record] = []
        collectors = self._collecting.setdefault(workspace_id, [])
        collectors.append(entries)
        try:
            yield entries
        finally:
            collectors[:] = [collector for collector in collectors if collector is not entries]
            if not collectors:
                self._collecting.pop(workspace_id, None)

    async def finish(self, workspace_id: str, lane: str) -> None:
        """Run what is due in a lane, and wait for it, whichever server runs it."""
        while True:
            await self._start(workspace_id)
            await self._lanes.finish(workspace_id, lane)
            if not self._lanes.is_taken(workspace_id, lane):
                return
            await asyncio.sleep(_MOMENT)

    async def rest(self, workspace_id: str) -> None:
        """Wait until no delivery is in flight, but not for receivers that take long."""
        await self._lanes.finish(workspace_id, patience=REST)

    def _set_wakeup(self, workspace: Workspace, due_times: DueTimes) -> None:
        """Set the timer for the next due step of the workspace, if its clock is live."""
        step, lane = due_times.get(None), self._lanes.next_due(workspace.id, due_times)
        if step is not None and self._looping.get(workspace.id) == step:
            step = None
        due = min((instant for instant in (step, lane) if instant is not None), default=None)
        if due is None:
            return
        if workspace.clock.mode == "live":
            due -= workspace.clock.shift
        elif due <= workspace.clock.at:
            due = self._system_clock.now()
        else:
            return
        planned = self._planned.get(workspace.id)
        if planned is None or due < planned:
            self._plan(workspace.id, due)

    def _plan(self, workspace_id: str, due: datetime) -> None:
        self._planned[workspace_id] = due
        heapq.heappush(self._heap, (due, workspace_id))
        self._set_timer()

    def resume(self) -> None:
        """Start what is due in any workspace, after a restart; and look for what other servers
        leave, if there may be others."""
        for workspace, _ in self._store.workspaces():
            self._start_due(workspace, self._store.due_times(workspace.id))
        if self._store.threads:
            self._keep(self._poll())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it ends or the agenda is closed."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _poll(self) -> None:
        """Run what is due in any workspace, again and again, whichever server made it due."""
        while True:
            await asyncio.sleep(_PAUSE.total_seconds())
            now = self._system_clock.now()
            with suppress(ApiError):  # the store is not there; it is tried again
                for workspace_id in await self._threads.call(self._store.due_workspaces, now):
                    await self.run_workspace(workspace_id)

    async def close(self, patience: float) -> None:
        """Start nothing more, and wait up to ``patience`` real seconds for requests in flight."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await self._lanes.close(patience)

    async def alone(self, workspace_id: str, function: Callable[[], T]) -> T:
        """Return what a function returns, called while no advance is under way."""
        async with self._alone(workspace_id):
            return await self._threads.call(function)

    @asynccontextmanager
    async def _alone(self, workspace_id: str) -> AsyncIterator[None]:
        """Let no other request move the clock of the workspace, or replace its content, in the
        block, through whichever server."""
        async with self._locks.setdefault(workspace_id, asyncio.Lock()):
            while not await self._threads.call(self._store.hold, workspace_id):  # noqa: ASYNC110
                await asyncio.sleep(_MOMENT)
            try:
                yield
            finally:
                await self._threads.call(self._store.let_go, workspace_id)

    def _is_looping(self, state: Transaction) -> bool:
        known = self._looping.get(state.workspace().id) if self._looping else None
        first = None if known is None else state.first_due(None, known)
        return first is not None and first.due == known

    def _note_loop(self, workspace_id: str) -> None:
        due = self._next_step_due(workspace_id)
        if due is not None and due <= self._now(workspace_id):
            self._looping[workspace_id] = due

    def _next_step_due(self, workspace_id: str) -> datetime | None:
        return self._store.due_times(workspace_id).get(None)

    async def _finish_lanes(self, workspace_id: str, happened: list[Record]) -> None:
        """Run what is due until nothing is due in any lane, as long as receivers respond. On a live
        clock new deliveries may become due for ever, so there the lanes are waited for once.

        ``happened`` gets the log entries meanwhile.
        """
        time, responses = asyncio.get_running_loop().time, 0
        started = latest = time()
        while True:
            await self.catch_up(workspace_id)
            workspace = await self._start(workspace_id)
            left = min(latest + PATIENCE, started + LONGEST_WAIT) - time()
            if left <= 0 or not await self._lanes.finish(workspace_id, patience=left):
                return
            if workspace.clock.mode == "live":
                return
            now_responses = sum(
                _is_attempt(entry) and entry["reason"] != TIMEOUT for entry in happened
            )
            if now_responses > responses:
                responses, latest = now_responses, time()

    async def _run_until(self, workspace_id: str, end: datetime) -> None:
        count = 0
        while done := await self._threads.call(self._slice, workspace_id, end):
            count += len(done)
            if count >= MAX_STEPS:
                due = await self._threads.call(self._next_step_due, workspace_id)
                if due is not None and due <= end:
                    await self._threads.call(self._note_loop, workspace_id)
                    raise EndlessError
            await asyncio.sleep(0)  # others go on

    def log(self, workspace_id: str, entry: Record) -> None:
        """Add an entry to the log of the steps of a workspace, or to that of its attempts."""
        log_name = ATTEMPTS_LOG if _is_attempt(entry) else STEPS_LOG
        self._store.append(workspace_id, log_name, entry)
        for collector in self._collecting.get(workspace_id, ()):
            collector.append(entry)

    def _workspace(self, workspace_id: str) -> Workspace:
        workspace = self._store.workspace(workspace_id)
        if workspace is None:
            raise NoWorkspaceError(workspace_id)
        return workspace

    def _now(self, workspace_id: str) -> datetime:
        return (self._workspace(workspace_id)).clock.now(self._system_clock)

    def _run_next(self, state: Transaction, limit: datetime) -> Record | None:
        """Run the step that is due first. Return its log entry; None: nothing is due."""
        step = state.take_due(limit)
        if step is None:
            return None
        workspace = state.workspace()
        workspace = self._forward(state, workspace, step.due)
        numbered = step
        try:
            with state.attempt():
                numbered = replace(step, run=state.next_number(_STEPS_RUN))
                state.not_before(step.due)
                return _entry(numbered, "done", events=self._run(state, workspace, numbered))
        except SkippedStep as skipped:
            return self._dropped(state, step, "skipped", str(skipped))
        except ApiError as error:
            log.warning("%s: the step '%s' failed: %s", workspace.id, step.action, error.message())
            return self._dropped(state, step, "failed", error.message())
        except StoreError:
            raise
        except Exception as error:
            log.exception("%s: the step '%s' failed and is not repeated", workspace.id, step.action)
            return self._dropped(state, step, "failed", type(error).__name__)

    def _dropped(
        self, state: Transaction, step: ScheduledStep, outcome: Dropped, reason: str
    ) -> Record:
        """Report a step that is not repeated. Return its log entry."""
        with suppress(ApiError):  # a full workspace has no room for another counter
            step = replace(step, run=state.next_number(_STEPS_RUN))
        workspace = state.workspace()
        try:
            if self._report is not None:
                with state.attempt():
                    self._report(state, workspace, step, outcome, reason)
        except ApiError as error:
            problem = error.message()
            log.warning(_UNREPORTED + ": %s", workspace.id, outcome, step.action, problem)
        except Exception:
            log.exception(_UNREPORTED, workspace.id, outcome, step.action)
        return _entry(step, outcome, reason)

    def _move_clock(self, workspace_id: str, instant: datetime) -> None:
        with self._store.transaction(workspace_id) as state:
            self._forward(state, state.workspace(), instant)

    def _forward(self, state: Transaction, workspace: Workspace, instant: datetime) -> Workspace:
        span = instant - workspace.clock.now(self._system_clock)
        if span.total_seconds() <= 0:
            return workspace
        moved = replace(workspace, clock=workspace.clock.forward(span))
        state.change_workspace(moved)
        return moved

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = (self._heap[0][0] - self._system_clock.now()).total_seconds()
        self._timer = asyncio.get_running_loop().call_later(
            min(max(0, delay), _MAX_WAIT), self._wake
        )

    def _wake(self) -> None:
        self._keep(self._run_planned())

    async def _run_planned(self) -> None:
        now = self._system_clock.now()
        while self._heap and self._heap[0][0] <= now:
            planned, workspace_id = heapq.heappop(self._heap)
            if self._planned.get(workspace_id) != planned:
                continue  # an earlier time was planned since
            del self._planned[workspace_id]
            await self.run_workspace(workspace_id)
        if self._heap:
            self._set_timer()

    async def run_workspace(self, workspace_id: str) -> None:
        """Do what the timer does: run what is due, and set it again."""
        try:
            await self.catch_up(workspace_id)
            await self._start(workspace_id)
        except NoWorkspaceError:
            pass  # it was deleted in the meantime
        except ApiError as error:
            log.warning("%s: the due steps have to wait: %s", workspace_id, error.message())
            self._plan(workspace_id, self._system_clock.now() + _PAUSE)
        except Exception:  # other workspaces go on
            log.exception("%s: the due steps have stopped", workspace_id)


def finished(store: Store, workspace_id: str) -> list[Record]:
    """The log entries of the steps and of the attempts to deliver, in order."""
    logs = [store.log(workspace_id, name) for name in (STEPS_LOG, ATTEMPTS_LOG)]
    return in_order(entry for log in logs for entry in log.entries)


def in_order(entries: Iterable[Record]) -> list[Record]:
    """Log entries by instant, whatever real time the attempts of several lanes took: at an instant
    first the steps, then attempts in the order of their deliveries, then what these caused."""
    return sorted(entries, key=_place)


def _is_attempt(entry: Record) -> bool:
    """True if a log entry is that of an attempt to deliver, or of a simulated one."""
    return entry["do"] in _AFTER_STEPS


def _place(entry: Record) -> tuple[datetime, int, int, str]:
    instant, action, subject = parse_instant(entry["at"]), entry["do"], ""
    if action in _AFTER_STEPS:
        subject = str(entry["subject"])  # ends with a number that has four digits or more
    return instant, _AFTER_STEPS.get(action, 0), len(subject), subject


def _entry(
    step: ScheduledStep, outcome: str, reason: str | None = None, events: list[str] | None = None
) -> Record:
    return {
        **step_summary(step),
        "number": step.run,
        "outcome": outcome,
        "reason": reason,
        "events": events or [],
    }


def cancelled_entry(
    step: ScheduledStep, now: datetime, reason: str, request_id: str | None
) -> Record:
    """The log entry of a step that a request cancelled."""
    return {**_entry(replace(step, due=now), "cancelled", reason), "requestId": request_id}


def step_summary(step: ScheduledStep) -> Record:
    """A step as the control API shows it; ``subject`` is the id of the record that it is about.

    Arguments other than strings and integers are omitted, because they may be large.
    """
    shown = {
        name: value
        for name, value in step.arguments.items()
        if name != "subject" and isinstance(value, str | int)
    }
    return {
        "at": instant_text(step.due),
        "do": step.action,
        "with": shown,
        "scenario": step.scenario,
        "subject": step.arguments.get("subject"),
    }
