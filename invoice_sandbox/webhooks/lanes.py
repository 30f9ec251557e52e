"""Lanes: the deliveries of an endpoint are attempted one after the other, in virtual time.

Lanes run concurrently, and nothing in the workspace waits for them. A lane holds in memory only the
delivery that it is sending; the others wait in the store. A receiver that hangs delays only its own
lane. Lanes whose receiver timed out before have a limit of their own, so that they cannot use up
the requests of the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from datetime import datetime
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from invoice_sandbox.base.clock import SystemClock, instant_text
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.ids import new_secret
from invoice_sandbox.base.threads import Threads
from invoice_sandbox.state import (
    OUTCOMES_LOG,
    NoWorkspaceError,
    Record,
    Store,
    Transaction,
    Workspace,
)
from invoice_sandbox.webhooks.attempts import TIMEOUT, Attempt, Outcome, Outgoing, note, prepare
from invoice_sandbox.webhooks.dns import WORKSPACE
from invoice_sandbox.webhooks.inbox import SENT_AT
from invoice_sandbox.webhooks.sender import RECEIVER_SECONDS

SIDE_BY_SIDE: Final = 384
"""Requests in flight at the same time."""

SLOW_SIDE_BY_SIDE: Final = 64
"""Requests in flight to receivers that timed out before; in addition to SIDE_BY_SIDE."""

SHARE: Final = 160
"""Of SIDE_BY_SIDE, the most that one workspace can use."""

CLAIMS: Final = "#claims"
"""The collection of the lanes that a server works in, where there may be several."""

_SECONDS_TO_NOTE: Final = 5.0
"""After the time that a receiver has; then another server may send the delivery again."""

_SECONDS_TAKEN: Final = 1.0
"""Until a lane is looked at again that another server works in."""

_SECONDS_LEFT: Final = 10.0
"""For another server to make an attempt to a listener that this one does not know."""

_REMEMBERED: Final = 4096
"""Receivers that timed out and are remembered as slow; the oldest is dropped first."""

_KEPT_BODY: Final = 512
"""Bytes of a response to a webhook that the log keeps."""

log = logging.getLogger("invoice_sandbox")

Send = Callable[[Outgoing], Awaitable[Outcome]]
_Lane = tuple[str, str]


class Lanes:
    """The lanes of all workspaces. A lane without due deliveries has no task."""

    def __init__(
        self,
        store: Store,
        system_clock: SystemClock,
        send: Send,
        *,
        virtual_time: bool,
        threads: Threads | None = None,
        is_elsewhere: Callable[[str], bool] | None = None,
    ) -> None:
        """``virtual_time``: signatures use the time of the workspace, not real time.
        ``is_elsewhere``: another server may have the listener of an address."""
        self._threads = threads or Threads()
        self._is_elsewhere = is_elsewhere
        self._left: dict[_Lane, float] = {}
        self._owner = new_secret()
        self._taken: set[_Lane] = set()
        self._store = store
        self._system_clock = system_clock
        self._send = send
        self._virtual_time = virtual_time
        self._tasks: dict[_Lane, asyncio.Task[None]] = {}
        self._ending: dict[asyncio.Task[None], str] = {}
        self._stopped: set[_Lane] = set()
        self._slow_endpoints: dict[tuple[str, str], None] = {}
        self._quick = asyncio.Semaphore(SIDE_BY_SIDE)
        self._slow = asyncio.Semaphore(SLOW_SIDE_BY_SIDE)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._is_closing = False

    def report_to(
        self,
        on_attempt: Callable[[str, Record], None],
        on_end: Callable[[str], Awaitable[None]],
    ) -> None:
        """Call ``on_attempt`` with the workspace and the log entry of each attempt, ``on_end`` with
        the workspace of each lane that has ended. Must be called once, before anything else."""
        self._on_attempt = on_attempt
        self._on_end = on_end

    def wake(self, workspace: Workspace, due_times: Mapping[str | None, datetime]) -> None:
        """Start every lane of the workspace in which a delivery is due, without waiting."""
        if self._is_closing:
            return
        now = workspace.clock.now(self._system_clock)
        for due, lane in sorted((due, lane or "") for lane, due in due_times.items()):
            if not lane:
                continue
            key = (workspace.id, lane)
            if due <= now and self._is_idle(key):
                task = asyncio.get_running_loop().create_task(self._run(key), context=Context())
                self._tasks[key] = task

    def next_due(
        self, workspace_id: str, due_times: Mapping[str | None, datetime]
    ) -> datetime | None:
        """The earliest of ``due_times`` of lanes that are not running; None: there is none."""
        idle = (
            due
            for lane, due in due_times.items()
            if lane is not None and self._is_idle((workspace_id, lane))
        )
        return min(idle, default=None)

    async def finish(
        self, workspace_id: str, lane: str | None = None, patience: float | None = None
    ) -> bool:
        """Wait for the running lanes of a workspace, or for one of them. False: none was running.

        ``patience``: the most real seconds to wait.
        """
        running = [
            task
            for key, task in self._tasks.items()
            if key[0] == workspace_id and lane in {None, key[1]}
        ]
        if lane is None:  # a lane that has ended may still run the steps that it made due
            running += [task for task, owner in self._ending.items() if owner == workspace_id]
        await _wait(running, patience)
        return bool(running)

    async def close(self, patience: float) -> None:
        """Start nothing more, and wait up to ``patience`` real seconds for requests in flight.

        A delivery without a response by then stays in the store, to be sent again.
        """
        self._is_closing = True
        running = [*self._tasks.values(), *self._ending]
        await _wait(running, patience)
        left = [*self._tasks]
        for task in running:
            task.cancel()
        await _wait(running)
        for workspace_id, lane in left:
            with suppress(ApiError, NoWorkspaceError):
                await self._threads.call(self._give_up, workspace_id, lane)

    def _give_up(self, workspace_id: str, lane: str) -> None:
        with self._store.transaction(workspace_id) as state:
            self._release(state, lane)

    def is_taken(self, workspace_id: str, lane: str) -> bool:
        """True if another server was at work in the lane a moment ago."""
        return (workspace_id, lane) in self._taken

    def _leave(self, key: _Lane) -> None:
        """Look at a lane again after a moment."""
        self._taken.add(key)
        asyncio.get_running_loop().call_later(_SECONDS_TAKEN, self._taken.discard, key)

    def _is_idle(self, key: _Lane) -> bool:
        return key not in self._tasks and key not in self._stopped and not self.is_taken(*key)

    def _claim(self, state: Transaction, lane: str) -> bool:
        """Let no other server work in the lane until the attempt has ended. False: one does."""
        if not self._store.threads:
            return True
        key, now = (state.workspace().id, lane), self._system_clock.now().timestamp()
        claim = state.get(CLAIMS, lane)
        if claim is not None and claim["owner"] != self._owner and claim["until"] > now:
            self._threads.on_loop(self._leave, key)
            return False
        until = now + RECEIVER_SECONDS + _SECONDS_TO_NOTE
        state.put(CLAIMS, lane, {"owner": self._owner, "until": until})
        return True

    def _is_left(self, key: _Lane, attempt: Attempt) -> bool:
        """True if an attempt is left to the server that has the listener, if one has."""
        if not self._store.threads or self._is_elsewhere is None or attempt.request is None:
            return False
        if self._is_elsewhere(attempt.url):
            now = self._system_clock.now().timestamp()
            if now < self._left.setdefault(key, now + _SECONDS_LEFT):
                self._threads.on_loop(self._leave, key)
                return True
        self._left.pop(key, None)
        return False

    def _release(self, state: Transaction, lane: str) -> bool:
        """Let other servers work in the lane. False: one does already, as this took too long."""
        if not self._store.threads:
            return True
        claim = state.get(CLAIMS, lane)
        is_own = claim is not None and claim["owner"] == self._owner
        return is_own and state.delete(CLAIMS, lane)

    async def _run(self, key: _Lane) -> None:
        try:
            await self._work(key)
        except NoWorkspaceError:
            pass  # it was deleted in the meantime
        except ApiError as error:
            log.warning("%s: a delivery to %s was not noted: %s", *key, error.message())
        except Exception:
            log.exception("%s: deliveries to %s have stopped", *key)
            self._stopped.add(key)  # restarted, it would fail the same way for ever
            self._tasks.pop(key, None)
            return
        task = self._tasks.pop(key, None)
        if task is not None and not self._is_closing:
            self._ending[task] = key[0]
            task.add_done_callback(self._ending.pop)
            await self._on_end(key[0])

    async def _work(self, key: _Lane) -> None:
        workspace_id, lane = key
        WORKSPACE.set(workspace_id)
        reached: datetime | None = None
        while not self._is_closing:
            attempt = await self._threads.call(self._next, workspace_id, lane, reached)
            if attempt is None:
                return
            if isinstance(attempt, Attempt):
                outcome = attempt.outcome or await self._send_attempt(workspace_id, attempt)
                finish = partial(self._finish_attempt, workspace_id, attempt, outcome)
                reached = await self._threads.call(finish)
            await asyncio.sleep(0)  # others go on

    def _next(
        self, workspace_id: str, lane: str, reached: datetime | None
    ) -> Attempt | bool | None:
        """The attempt that is due; True: the due one is obsolete; None: nothing is due."""
        with self._store.transaction(workspace_id) as state:
            clock = state.workspace().clock
            step = state.first_due(lane, clock.now(self._system_clock))
            if step is None or not self._claim(state, lane):
                return None
            at = max(step.due, reached or step.due)
            instant = at if self._virtual_time else self._system_clock.calendar()
            attempt = prepare(state, step, lane, at, int(instant.timestamp()))
            if attempt is None:
                state.discard_step(step.number, lane)
                self._release(state, lane)
            elif self._is_left((workspace_id, lane), attempt):
                self._release(state, lane)
                return None
            return attempt or True

    async def _send_attempt(self, workspace_id: str, attempt: Attempt) -> Outcome:
        assert attempt.request is not None  # noqa: S101  only a simulated failure has no request
        SENT_AT.set(attempt.at)
        endpoint = (workspace_id, attempt.delivery["endpointId"])
        if endpoint in self._slow_endpoints:
            async with self._slow:
                outcome = await self._send(attempt.request)
        else:
            share = self._shares.setdefault(workspace_id, asyncio.Semaphore(SHARE))
            async with share, self._quick:
                outcome = await self._send(attempt.request)
        self._slow_endpoints.pop(endpoint, None)
        if outcome.error == TIMEOUT:
            self._slow_endpoints[endpoint] = None
        if len(self._slow_endpoints) > _REMEMBERED:
            del self._slow_endpoints[next(iter(self._slow_endpoints))]
        return outcome

    def _finish_attempt(
        self, workspace_id: str, attempt: Attempt, outcome: Outcome
    ) -> datetime | None:
        """Store the outcome of an attempt and return the instant that the lane has reached."""
        with self._store.transaction(workspace_id) as state:
            if not self._release(state, attempt.lane):
                return None  # whoever works in the lane now sends it again
            flows = state.workspace().clock.mode == "live"
            delivery = note(state, attempt, outcome, time_flows=flows)
        if attempt.request is not None:
            received = _received(attempt.request, outcome)
            self._store.append(workspace_id, OUTCOMES_LOG, received, _KEPT_BODY)
        if delivery is None:
            return None
        self._on_attempt(workspace_id, _entry(attempt, outcome))
        return attempt.at + outcome.took if flows else attempt.at


def _entry(attempt: Attempt, outcome: Outcome) -> Record:
    reason = None if outcome.is_success else outcome.error or f"HTTP {outcome.status}"
    return {
        "at": instant_text(attempt.at),
        "do": attempt.step.action,
        "with": {},
        "scenario": attempt.step.scenario,
        "subject": attempt.delivery["id"],
        "number": None,
        "outcome": "done" if outcome.is_success else "failed",
        "reason": reason,
        "events": [],
    }


def _received(request: Outgoing, outcome: Outcome) -> Record:
    """Return an outcome for the log."""
    waits = outcome.retry_after
    return {
        "url": request.url,
        "webhookId": request.headers["webhook-id"],
        "status": outcome.status,
        "error": outcome.error,
        "took": outcome.took.total_seconds(),
        "retryAfter": None if waits is None else waits.total_seconds(),
        "body": outcome.body[:_KEPT_BODY].decode("latin-1"),
    }


async def _wait(tasks: list[asyncio.Task[None]], patience: float | None = None) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=patience)
