"""What surrounds a replay: the settings of its server, its clock, and webhook receivers."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.settings import Settings
from invoice_sandbox.state import Record
from invoice_sandbox.webhooks.attempts import Outcome, Outgoing
from invoice_sandbox.webhooks.inbox import inbox_url
from invoice_sandbox.webhooks.lanes import Send
from invoice_sandbox.webhooks.network import listener_url

_MOST: Final = 1_000_000
_MOST_MIB: Final = 512


@dataclass(frozen=True)
class Served:
    """What the replay serves: a project, or a contract; None: what the sandbox ships."""

    project: Path | None = None
    contract: Path | None = None
    scenarios: Path | None = None
    folders: tuple[Path, ...] = ()
    """Folders that ``$ref`` may lead to, besides that of the contract."""


PAUSES: Final[ContextVar[deque[asyncio.Event] | None]] = ContextVar("pauses", default=None)
"""Each is set when a wait of the request of this context was over."""


async def pause() -> None:
    """Wait until the recorded request of this context went on, if it did."""
    pauses = PAUSES.get()
    if pauses:
        await pauses.popleft().wait()
    else:
        await asyncio.sleep(0)


class RecordedClock:
    """Real time as it was recorded: ``start`` is the instant of the monotonic second 0.

    Nobody waits longer than until the replay gets there.
    """

    def __init__(self, start: datetime, seconds: float) -> None:
        self.start = start
        self.seconds = seconds

    def now(self) -> datetime:
        """The instant, in UTC."""
        return self.start + timedelta(seconds=self.seconds)

    def calendar(self) -> datetime:
        """The same."""
        return self.now()

    def monotonic(self) -> float:
        """Seconds, as they were recorded."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - time passes with the inputs
        """Return when the recorded request went on, if that is known."""
        await pause()


class Rest(selectors.DefaultSelector):
    """The selector of an event loop, which can be asked when nothing is left to do."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Let everything that is under way come as far as it gets without time passing."""
        asked = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        await asked

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What happened; the loop allows time for that only when it has nothing to do."""
        if not self._asked or timeout == 0:
            return super().select(timeout)
        happened = super().select(0)
        while self._asked and not happened:
            self._asked.pop().set_result(None)
        return happened


class RecordedReceivers:
    """Responds as webhook receivers did, in the same order for each event and address, and at the
    same time as requests did. What was not recorded is not sent: it was under way at the end."""

    def __init__(self, outcomes: Sequence[Record], url: str) -> None:
        """``url`` is that of the server. ``placeholders``: those of the replay's own secrets;
        ``redacted`` returns a value without secrets, as recordings have it."""
        self._inboxes = inbox_url(url)
        self._listeners = listener_url(url)
        self.placeholders: dict[str, str] = {}
        self.redacted: Callable[[Any], Any] = str
        self._outcomes: defaultdict[tuple[str, str], deque[Record]] = defaultdict(deque)
        for one in sorted(outcomes, key=lambda one: one["seconds"] - one["took"]):
            self._outcomes[self._address(one["url"]), one["webhookId"]].append(one)
        self._times = sorted(one["seconds"] for one in outcomes)
        self._reached = 0.0
        self._moved = asyncio.Event()
        self._hung_up = asyncio.Event()

    def hang_up(self) -> None:
        """Let nobody wait for what was not recorded."""
        self._hung_up.set()

    def reach(self, seconds: float) -> None:
        """Let everything respond that did until this monotonic second."""
        self._reached = seconds
        self._moved.set()
        self._moved = asyncio.Event()

    @property
    def next(self) -> float:
        """The next monotonic second at which one responded; infinite: there is none."""
        return next((one for one in self._times if one > self._reached), math.inf)

    def sending(self, send: Send) -> Send:
        """What delivers webhooks. Messages to the inbox of the workspace are sent in process; its
        response is the recorded one, with its random id, unless the status is another one."""

        async def respond(request: Outgoing) -> Outcome:
            address = self._address(request.url)
            left = self._outcomes[address, request.headers["webhook-id"]]
            if not left:
                await self._hung_up.wait()
                return Outcome(error="no_connection")
            outcome = left.popleft()
            while outcome["seconds"] > self._reached:
                await self._moved.wait()
            recorded = _outcome(outcome)
            sent = await send(request) if address == self._inboxes else recorded
            return recorded if sent.status == recorded.status else sent

        return respond

    def _address(self, url: str) -> str:
        """The tokens of inboxes are random, and so are those of listeners, which can be many."""
        if url.startswith(self._listeners):
            token = url.removeprefix(self._listeners)
            return self._listeners + self.placeholders.get(token, token)
        return self._inboxes if url.startswith(self._inboxes) else str(self.redacted(url))


def _outcome(one: Record) -> Outcome:
    waits = one["retryAfter"]
    return Outcome(
        status=one["status"],
        error=one["error"],
        took=timedelta(seconds=one["took"]),
        body=one["body"].encode("latin-1"),
        retry_after=None if waits is None else timedelta(seconds=waits),
    )


def settings_of(recorded: Record, served: Served, key: str) -> Settings:
    """The settings of the replay's server. Raises KeyError, TypeError and ValueError."""
    start, given = recorded["start"], recorded["settings"]
    mode, at = start["clock"]["mode"], datetime.fromisoformat(start["clock"]["at"])
    shift = timedelta(seconds=float(start["clock"]["shift"]))
    if mode not in {"live", "frozen"} or given["webhook_time"] not in {"wall", "virtual"}:
        raise ValueError("unknown mode")
    limit = given["rate_limit"]
    return Settings(
        port=0,
        scenario=str(start["scenario"]),
        seed=int(recorded["workspace"]["seed"]),
        clock=ClockState(mode, at.astimezone(UTC), shift),
        key=key,
        key_given=bool(given["key_given"]),
        rate_limit=None if limit is None else _number(limit),
        public_url=None if recorded["local"] else str(recorded["url"]),
        workspace_idle=None,
        webhook_time=given["webhook_time"],
        stateful=bool(given["stateful"]),
        base_path=None if given["base_path"] is None else str(given["base_path"]),
        project=served.project,
        contract=served.contract,
        scenarios=served.scenarios,
        allow_refs_outside=served.folders,
        max_state=min(_number(given["max_state"]), _MOST_MIB),
    )


def _number(value: Any) -> int:
    return max(1, min(int(value), _MOST))
