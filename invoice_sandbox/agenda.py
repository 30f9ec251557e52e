"""What is due, when: one heap and one timer for all workspaces of a process; nothing is polled.

Steps belong to their workspace and live in its state; here is only the order in which the
workspaces of live clocks have to be looked at. A step runs in a transaction of its own, at the
instant it was due, one after the other within a workspace.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from invoice_sandbox.clock import Wall
from invoice_sandbox.store import ScheduledStep, Store, Transaction, Workspace

_STEPS_AT_A_TIME: Final = 50

log = logging.getLogger("invoice_sandbox")

RunStep = Callable[[Transaction, Workspace, ScheduledStep], Awaitable[None]]


class Agenda:
    """Does what falls due in live workspaces, and what is due already in any of them."""

    def __init__(self, store: Store, wall: Wall, run: RunStep) -> None:
        """``run`` does one step within a transaction."""
        self._store = store
        self._wall = wall
        self._run = run
        self._heap: list[tuple[datetime, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def settle(self, workspace: Workspace) -> None:
        """Do everything that is due at the workspace's present, and what that makes due."""
        for done in itertools.count(1):
            if done % _STEPS_AT_A_TIME == 0:
                await asyncio.sleep(0)  # others get their turn in between
            now = workspace.clock.now(self._wall)
            due = await self._store.next_due(workspace.id)
            if due is None or due > now:
                return
            await self._do_next(workspace, now)

    async def watch(self, workspace: Workspace) -> None:
        """Look at the workspace again when its next step is due, if its clock is live."""
        due = await self._store.next_due(workspace.id)
        if due is None:
            return
        if workspace.clock.mode == "frozen":
            if due > workspace.clock.now(self._wall):
                return
            due = self._wall.now()
        else:
            due -= workspace.clock.shift
        heapq.heappush(self._heap, (due, workspace.id))
        if self._heap[0] == (due, workspace.id):
            self._set_timer()

    def close(self) -> None:
        """Do nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    async def _do_next(self, workspace: Workspace, now: datetime) -> None:
        step: ScheduledStep | None = None
        try:
            async with self._store.transaction(workspace.id) as state:
                step = await state.take_due(now)
                if step is not None:
                    await self._run(state, workspace, step)
        except Exception:
            if step is None:
                raise
            log.exception("%s: step '%s' failed and is given up", workspace.id, step.action)
            async with self._store.transaction(workspace.id) as state:
                await state.discard_step(step.number)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = (self._heap[0][0] - self._wall.now()).total_seconds()
        self._timer = asyncio.get_running_loop().call_later(max(0, delay), self._wake)

    def _wake(self) -> None:
        task = asyncio.get_running_loop().create_task(self._do_due())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do_due(self) -> None:
        now = self._wall.now()
        while self._heap and self._heap[0][0] <= now:
            _, workspace_id = heapq.heappop(self._heap)
            workspace = await self._store.workspace(workspace_id)
            if workspace is not None:
                await self.settle(workspace)
                await self.watch(workspace)
        if self._heap:
            self._set_timer()
