"""Each endpoint is a lane: its deliveries are attempted one after the other, by virtual time.

Lanes run side by side, and nothing in the workspace waits for them. A lane holds no more than the
delivery that it is about to send; what waits, waits in the store. A receiver that hangs keeps only
its own lane, and lanes that have hung once share places of their own, so that they do not take
those of the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from math import inf
from typing import Final
from weakref import WeakValueDictionary

from invoice_sandbox.base.clock import SystemClock, instant_text, parse_instant
from invoice_sandbox.state import NoWorkspaceError, Record, Store, Workspace
from invoice_sandbox.webhooks.attempts import Attempt, Outcome, Outgoing, note, prepare

SIDE_BY_SIDE: Final = 384
"""Requests that are under way at once."""

SLOW_SIDE_BY_SIDE: Final = 64
"""Besides, requests that are under way to receivers that did not answer in time before."""

SHARE: Final = 160
"""Of these, so many at most are one workspace's, whatever its receivers do."""

_REMEMBERED: Final = 4096
"""Receivers that did not answer in time, of which the earliest is forgotten first."""

log = logging.getLogger("invoice_sandbox")

Send = Callable[[Outgoing], Awaitable[Outcome]]
_Lane = tuple[str, str]


class Lanes:
    """The lanes of all workspaces. A lane that has nothing due costs nothing."""

    def __init__(
        self,
        store: Store,
        system_clock: SystemClock,
        send: Send,
        *,
        virtual_time: bool,
    ) -> None:
        """With ``virtual_time``, timestamps are those of the workspace, else of real time."""
        self._store = store
        self._wall = system_clock
        self._send = send
        self._virtual_time = virtual_time
        self._tasks: dict[_Lane, asyncio.Task[None]] = {}
        self._ending: dict[asyncio.Task[None], str] = {}
        self._stopped: set[_Lane] = set()
        self._hung: dict[tuple[str, str], None] = {}
        self._quick = asyncio.Semaphore(SIDE_BY_SIDE)
        self._slow = asyncio.Semaphore(SLOW_SIDE_BY_SIDE)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._collecting: dict[str, list[list[Record]]] = {}
        self._is_closing = False

    def report_to(
        self,
        on_attempt: Callable[[str, Record], Awaitable[None]],
        on_end: Callable[[str], Awaitable[None]],
    ) -> None:
        """Tell ``on_attempt`` the workspace and the entry of each attempt, and ``on_end`` the
        workspace of each lane that has come to its end for now. Must be called once, at first."""
        self._on_attempt = on_attempt
        self._on_end = on_end

    async def wake(self, workspace: Workspace) -> None:
        """Set off every lane of the workspace in which something is due. Waits for none."""
        if self._is_closing:
            return
        now = workspace.clock.now(self._wall)
        for lane, due in (await self._store.lanes(workspace.id)).items():
            key = (workspace.id, lane)
            if due <= now and self._is_idle(key):
                self._tasks[key] = asyncio.get_running_loop().create_task(self._run(key))

    async def next_due(self, workspace_id: str) -> datetime | None:
        """When something is due next in a lane that is not under way."""
        lanes = await self._store.lanes(workspace_id)
        idle = (due for lane, due in lanes.items() if self._is_idle((workspace_id, lane)))
        return min(idle, default=None)

    async def finish(
        self, workspace_id: str, lane: str | None = None, patience: float | None = None
    ) -> bool:
        """Wait for the lanes that are under way, or for one; False: there was none.

        With ``patience``, for no more than so many real seconds.
        """
        under_way = [
            task
            for key, task in self._tasks.items()
            if key[0] == workspace_id and lane in {None, key[1]}
        ]
        if lane is None:  # what a lane has made due at its end is to be done as well
            under_way += [task for task, owner in self._ending.items() if owner == workspace_id]
        await _wait(under_way, patience)
        return bool(under_way)

    @asynccontextmanager
    async def collect(self, workspace_id: str) -> AsyncIterator[list[Record]]:
        """What is done in the workspace's lanes meanwhile, and because of them, as entries of its
        agenda; those of attempts have the ``number`` of their delivery."""
        entries: list[Record] = []
        collectors = self._collecting.setdefault(workspace_id, [])
        collectors.append(entries)
        try:
            yield entries
        finally:
            collectors[:] = [one for one in collectors if one is not entries]
            if not collectors:
                self._collecting.pop(workspace_id, None)

    def collected(self, workspace_id: str, entries: Sequence[Record]) -> None:
        """Hand entries to all who collect them."""
        for collector in self._collecting.get(workspace_id, ()):
            collector.extend(entries)

    async def close(self, patience: float) -> None:
        """Begin nothing more, let what is under way come back for so many real seconds.

        What does not come back in time is still in the store, to be sent again.
        """
        self._is_closing = True
        under_way = [*self._tasks.values(), *self._ending]
        if under_way:
            await asyncio.wait(under_way, timeout=patience)
        for task in under_way:
            task.cancel()
        await _wait(under_way)

    def _is_idle(self, key: _Lane) -> bool:
        return key not in self._tasks and key not in self._stopped

    async def _run(self, key: _Lane) -> None:
        try:
            await self._work(key)
        except NoWorkspaceError:
            pass  # deleted meanwhile
        except Exception:
            log.exception("%s: deliveries to %s have stopped", *key)
            self._stopped.add(key)  # begun again, it would send the same for ever
            self._tasks.pop(key, None)
            return
        task = self._tasks.pop(key, None)
        if task is not None and not self._is_closing:
            self._ending[task] = key[0]
            task.add_done_callback(self._ending.pop)
            await self._on_end(key[0])

    async def _work(self, key: _Lane) -> None:
        workspace_id, lane = key
        reached: datetime | None = None
        while not self._is_closing:
            attempt = await self._next(workspace_id, lane, reached)
            if attempt is None:
                return
            if isinstance(attempt, Attempt):
                outcome = attempt.outcome or await self._sent(workspace_id, attempt)
                reached = await self._note(workspace_id, attempt, outcome)

    async def _next(
        self, workspace_id: str, lane: str, reached: datetime | None
    ) -> Attempt | bool | None:
        """The attempt that is due; True: one that was due has lapsed; None: nothing is due."""
        async with self._store.transaction(workspace_id) as state:
            clock = (await state.workspace()).clock
            step = await state.first_in_lane(lane, clock.now(self._wall))
            if step is None:
                return None
            at = max(step.due, reached or step.due)
            instant = at if self._virtual_time else self._wall.now()
            attempt = await prepare(state, step, lane, at, int(instant.timestamp()))
            if attempt is None:
                await state.discard_step(step.number, lane)
            return attempt or True

    async def _sent(self, workspace_id: str, attempt: Attempt) -> Outcome:
        assert attempt.request is not None  # noqa: S101  without one, its outcome is known
        endpoint = (workspace_id, attempt.delivery["endpointId"])
        if endpoint in self._hung:
            async with self._slow:
                outcome = await self._send(attempt.request)
        else:
            share = self._shares.setdefault(workspace_id, asyncio.Semaphore(SHARE))
            async with share, self._quick:
                outcome = await self._send(attempt.request)
        self._hung.pop(endpoint, None)
        if outcome.error == "timeout":
            self._hung[endpoint] = None
        if len(self._hung) > _REMEMBERED:
            del self._hung[next(iter(self._hung))]
        return outcome

    async def _note(self, workspace_id: str, attempt: Attempt, outcome: Outcome) -> datetime | None:
        """Write down what came of an attempt; the lane's own time has come so far."""
        async with self._store.transaction(workspace_id) as state:
            flows = (await state.workspace()).clock.mode == "live"
            delivery = await note(state, attempt, outcome, time_flows=flows)
        if delivery is None:
            return None
        entry = _entry(attempt, outcome)
        await self._on_attempt(workspace_id, entry)
        self.collected(workspace_id, [{**entry, "number": attempt.delivery["number"]}])
        return attempt.at + outcome.took if flows else attempt.at


def in_order(entries: Iterable[Record]) -> list[Record]:
    """What was collected, by instant, then by the making of its delivery; last what followed."""
    ordered = sorted(entries, key=lambda one: (parse_instant(one["at"]), one.get("number", inf)))
    return [{name: one[name] for name in one if name != "number"} for one in ordered]


def _entry(attempt: Attempt, outcome: Outcome) -> Record:
    reason = None if outcome.is_success else outcome.error or f"HTTP {outcome.status}"
    return {
        "at": instant_text(attempt.at),
        "do": attempt.step.action,
        "with": {},
        "scenario": attempt.step.scenario,
        "subject": attempt.delivery["id"],
        "outcome": "done" if outcome.is_success else "failed",
        "reason": reason,
        "events": [],
    }


async def _wait(tasks: list[asyncio.Task[None]], patience: float | None = None) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=patience)
