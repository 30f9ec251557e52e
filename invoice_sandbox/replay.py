"""Sends what a bundle recorded to a new workspace, and compares what comes of it.

The server is in this process and listens nowhere. Its clock shows the recorded instants, and
webhook receivers respond from the recording: a replay opens no connection.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import re
from collections import deque
from collections.abc import (
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
)
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from invoice_sandbox import __version__
from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import Reading
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.base.ids import BASE62, KEY_BODY_LENGTH, key_checksum, new_key
from invoice_sandbox.bundles.archive import Bundle
from invoice_sandbox.bundles.compare import (
    Difference,
    compares_end,
    first_difference,
    has_hidden_body,
)
from invoice_sandbox.bundles.environment import (
    PAUSES,
    RecordedClock,
    RecordedReceivers,
    Rest,
    Served,
    pause,
    settings_of,
)
from invoice_sandbox.bundles.saving import (
    CONTRACT,
    DELIVERIES,
    END,
    INPUTS,
    OUTCOMES,
    RECORDING,
    START,
)
from invoice_sandbox.http.pipeline import CONNECTION, RECORDED, Recorded
from invoice_sandbox.openapi.load.fetching import NOT_FETCHED
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.runtime.agenda import STEPS_LOG
from invoice_sandbox.runtime.journal import Input
from invoice_sandbox.runtime.recording import PLACEHOLDER
from invoice_sandbox.state import USERS, Record
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.state.memory import MemoryStore
from invoice_sandbox.webhooks.inbox import inbox_token

_MOST_LINES: Final = 5_000
_MOST_USERS: Final = 100
_SHIPPED: Final = Served()
_NOTHING: Final[Mapping[str, Any]] = {}
_WORKSPACE: Final = re.compile(r"wsp_sandbox_[0-9a-z]{1,40}(_[0-9]{1,9})?", re.ASCII)
NO_NETWORK: Final = "the contract refers to files over http(s), which a replay does not load"
_PATIENCE: Final = 60
"""Real seconds for a request."""

_SECONDS_TO_END: Final = 2
"""Real seconds for a request that has ended, unless it waits for what was not recorded."""


@dataclass(frozen=True)
class Replayed:
    """What came of a replay: how many requests were sent, the first difference, if any, and what
    may explain it. ``with_end``: what was left was compared, too."""

    requests: int
    difference: Difference | None
    notes: tuple[str, ...] = ()
    with_end: bool = True


def replay(bundle: Bundle, served: Served = _SHIPPED) -> Replayed:
    """Replay a bundle, of an acceptance run every case. Raises BundleError, ProjectError and
    SettingError."""
    requests, notes, with_end = 0, [], True
    for name, one in bundle.workspaces.items():
        if one.manifest.get("replayable") is not True:
            reason = str(one.manifest.get("reason", "its beginning was not recorded"))[:200]
            notes.append(f"{name}: it cannot be replayed: {ascii(reason)[1:-1]}".lstrip(": "))
            continue
        rest = Rest()
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(rest)) as runner:  # noqa: B023
            found = runner.run(_replay(one, served, rest))
        requests, with_end = requests + found.requests, with_end and found.with_end
        notes += [note for note in found.notes if note not in notes]
        if found.difference is not None:
            return Replayed(requests, replace(found.difference, case=name), tuple(notes))
    if not requests:
        raise bundle.problem(notes[0] if notes else "it has no requests")
    return Replayed(requests, None, tuple(notes), with_end)


async def _replay(bundle: Bundle, served: Served, rest: Rest) -> Replayed:
    recorded = _recorded(bundle)
    try:
        run = await _Run.of(recorded, served, rest)
        await run.send_all()
        again, contract = await run.recording(), await run.contract()
        return Replayed(
            len(recorded["inputs"]),
            first_difference(recorded, again),
            tuple(_notes(bundle, recorded, contract, run.sandbox.engine.project.warnings)),
            compares_end(recorded),
        )
    except UserError:
        raise
    except TimeoutError:
        raise bundle.problem(f"a request took more than {_PATIENCE} s") from None
    except Exception as error:  # a stranger's recording may be wrong in any way
        raise bundle.problem(f"its recording is malformed ({type(error).__name__})") from None


def _notes(
    bundle: Bundle, recorded: Record, contract: Any, warnings: Iterable[str]
) -> Iterator[str]:
    if any(NOT_FETCHED in one for one in warnings):
        yield NO_NETWORK
    version = bundle.manifest.get("version")
    if version != __version__:
        yield f"recorded with version {ascii(version)[1:-1][:40]}, replayed with {__version__}"
    if {**bundle.json(CONTRACT), "servers": None} != {**contract, "servers": None}:
        yield "the contract is another one; pass --project or --contract"
    hidden = sum(map(has_hidden_body, recorded["inputs"]))
    if hidden:
        yield f"{hidden} bodies are not in the bundle; what was left is not compared"


def _recorded(bundle: Bundle) -> Record:
    """The recording that the parts of a bundle were made of. Raises BundleError."""
    recording = bundle.json(RECORDING)
    if not isinstance(recording, dict):
        raise bundle.problem(f"{RECORDING} is no object")
    inputs, outcomes = bundle.lines(INPUTS), bundle.lines(OUTCOMES)
    if max(len(inputs), len(outcomes)) > _MOST_LINES:
        raise bundle.problem(f"a recording has at most {_MOST_LINES:,} requests")
    return {
        **recording,
        "inputs": inputs,
        "outcomes": outcomes,
        "start": bundle.json(START),
        "end": bundle.json(END),
        "deliveries": bundle.json(DELIVERIES),
    }


class _Event(NamedTuple):
    """What became of the input at ``place`` at a monotonic second: part 0 is that it began, the
    next ones that it went on after waits, the last one (-1) that it ended. ``wait`` is a wait for
    others. The place -1 stands for a receiver that responded.

    By then at least and at most so many steps and attempts had been logged.
    """

    seconds: float
    place: int
    part: int
    wait: int | None = None
    least: int = 0
    most: float = math.inf


class _Gates:
    """Where a recorded request waits until it goes on as it did: ``places`` are those of its waits
    for others."""

    def __init__(self, places: Iterable[int]) -> None:
        self._open = {place: asyncio.Event() for place in places}
        self._passed = {place: asyncio.Event() for place in self._open}

    async def __call__(self, place: int) -> bool:
        """Wait until the request has gone on at this place. False: it did not wait there."""
        if place not in self._open:
            return False
        await self._open[place].wait()
        self._passed[place].set()
        return True

    async def open(self, place: int, patience: float) -> bool:
        """Let the request go on, and wait until it does; it may wait for a thread. False: it did
        not get there, so the replay differs."""
        self._open[place].set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._passed[place].wait(), patience)
        return self._passed[place].is_set()

    def open_all(self) -> None:
        """Let nothing hold the request."""
        for gate in self._open.values():
            gate.set()


class _NoConnection:
    """The connection of a request in this process: there is none to drop."""

    def get_extra_info(self, _: str) -> Any:
        """There is no socket."""
        raise OSError

    def abort(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


@dataclass
class _Run:
    """A replay under way. ``due`` runs what is due, and may have to wait for a request under way;
    ``values`` are the replay's own secrets, by placeholder."""

    recorded: Record
    sandbox: Sandbox
    clock: RecordedClock
    receivers: RecordedReceivers
    rest: Rest
    key: str
    inbox: str
    due: asyncio.Task[None]
    values: dict[int, str] = field(default_factory=dict)

    @classmethod
    async def of(cls, recorded: Record, served: Served, rest: Rest) -> _Run:
        """A replay with a new server."""
        key = DEMO_KEY if recorded["hasDemoKey"] is True else new_key()
        epoch = datetime.fromisoformat(recorded["epoch"])
        clock = RecordedClock(epoch, float(recorded["created"]))
        settings = settings_of(recorded, served, key)
        receivers = RecordedReceivers(recorded["outcomes"], str(recorded["url"]))
        workspace_id = str(recorded["workspace"]["id"])
        if not _WORKSPACE.fullmatch(workspace_id):
            raise ValueError("no id of a workspace")
        sandbox = await create_app(
            settings,
            url=str(recorded["url"]),
            system_clock=clock,
            sending=receivers.sending,
            users=recorded.get("users", ())[:_MOST_USERS],
            workspace_id=workspace_id,
            is_replay=True,
        )
        receivers.redacted = sandbox.engine.journal.redactor.redacted
        async with sandbox.engine.store.transaction(sandbox.engine.first_workspace) as state:
            inbox = await inbox_token(state)
        nothing = asyncio.create_task(asyncio.sleep(0))
        return cls(recorded, sandbox, clock, receivers, rest, key, inbox, nothing)

    async def send_all(self) -> None:
        """Send every input, when it arrived, and let receivers respond when they did."""
        under_way: dict[int, asyncio.Task[bytes]] = {}
        pauses: dict[int, list[asyncio.Event]] = {}
        gates: dict[int, _Gates] = {}
        patience: float = _SECONDS_TO_END
        for event in self._events():
            await self._pass_time(event.seconds, event.least, event.most)
            if event.place < 0:
                continue
            if event.wait is not None:
                if not await gates[event.place].open(event.wait, patience):
                    patience = 0  # for what comes after it there is no right moment
            elif event.part == 0:
                one = self.recorded["inputs"][event.place]
                pauses[event.place] = own = [asyncio.Event() for _ in one["readings"][1:]]
                gates[event.place] = _Gates(int(wait[0]) for wait in one["waits"])
                request, context = await self._request(one, gates[event.place]), copy_context()
                context.run(PAUSES.set, deque(own))
                under_way[event.place] = asyncio.create_task(request, context=context)
            elif event.part > 0:
                pauses[event.place][event.part - 1].set()
            else:
                gates.pop(event.place).open_all()
                await self._end(under_way.pop(event.place))
        logged = int(self.recorded["logged"])
        await self._pass_time(self.recorded["taken"], logged, logged)

    async def _end(self, request: asyncio.Task[bytes]) -> None:
        """Wait for a request that has ended. What it waits for may not have been recorded."""
        await asyncio.wait({request}, timeout=_SECONDS_TO_END)
        if not request.done():
            self.receivers.hang_up()
        async with asyncio.timeout(_PATIENCE):
            await request

    def _events(self) -> list[_Event]:
        """When each request began, went on and ended, and each receiver responded."""
        inputs, most = self.recorded["inputs"], float(self.recorded["logged"])
        known = [one["seconds"] for one in self.recorded["outcomes"]]
        events = [_Event(one, -1, -1) for one in known if one <= self.recorded["taken"]]
        for index, one in enumerate(inputs):
            events += _events_of(index, one)
        events.sort(key=lambda one: (one.seconds, one.place, one.part < 0, one.part))
        for place, event in reversed(list(enumerate(events))):
            most = min(most, event.most)
            events[place] = event._replace(most=most)
        return events

    async def recording(self) -> Record:
        """What a new recording of the workspace has."""
        self._number(int(self.recorded["end"]["requests"]))
        headers = [["authorization", f"Bearer {self.key}"], ["host", _host(self.recorded["url"])]]
        content = await self._respond("GET", "/sandbox/recording", headers, b"")
        found: Record = json.loads(content)["data"]
        await self.sandbox.engine.agenda.close(0)
        return found

    async def contract(self) -> Any:
        """The contract that the replay serves."""
        headers = [["host", _host(self.recorded["url"])]]
        return json.loads(await self._respond("GET", "/openapi.json", headers, b""))

    async def _pass_time(self, seconds: float, least: int, most: float) -> None:
        """Let the clock reach a monotonic second, and run what falls due meanwhile when it does.

        By then at least and at most so many steps and attempts have been logged: what fell due
        while a request was under way may have come before it was carried out, and a timer is late.
        """
        engine, workspace = self.sandbox.engine, self.sandbox.engine.first_workspace
        is_stuck = False
        await self._rest()
        while True:
            count = await engine.store.count_logged(workspace, STEPS_LOG)
            step, attempt = await self._next_due()
            if is_stuck or count >= max(least, most) or not self.due.done():
                step = math.inf
            first = min(step, attempt, self.receivers.next)
            if first > seconds and (first == math.inf or count >= least):
                break
            self.clock.seconds = max(first, self.clock.seconds)
            if first in {step, attempt}:
                found = await engine.store.workspace(workspace)
                assert found is not None  # noqa: S101 - the first workspace is never deleted
                self.due = asyncio.create_task(engine.agenda.run_workspace(found))
                await self._rest()
                done = await engine.store.count_logged(workspace, STEPS_LOG) - count
                is_stuck = first == step and not done
            await self._rest()
        self.clock.seconds = max(seconds, self.clock.seconds)
        await self._rest()

    async def _next_due(self) -> tuple[float, float]:
        """The monotonic seconds at which a step is due, and at which the next attempt falls due;
        infinite: none does, as on a frozen clock."""
        engine, workspace = self.sandbox.engine, self.sandbox.engine.first_workspace
        found = await engine.store.workspace(workspace)
        if found is None or found.clock.mode == "frozen":
            return math.inf, math.inf
        start = self.clock.start + found.clock.shift
        times = {
            lane: (due - start).total_seconds()
            for lane, due in (await engine.store.due_times(workspace)).items()
        }
        step = times.pop(None, math.inf)
        return step, min(
            (one for one in times.values() if one > self.clock.seconds), default=math.inf
        )

    async def _rest(self) -> None:
        """Let receivers respond that did until now, and everything come as far as it gets."""
        self.receivers.reach(self.clock.seconds)
        async with asyncio.timeout(_PATIENCE):
            await self.rest.wait()

    def _number(self, number: int) -> None:
        """Let the next request have this number, as its recorded one."""
        store = self.sandbox.engine.store
        if number and isinstance(store, MemoryStore):
            store.continue_requests(self.sandbox.engine.first_workspace, number)

    async def _request(self, one: Record, gate: _Gates) -> Coroutine[Any, Any, bytes]:
        """What sends an input."""
        self._number(int(one["number"]))
        request = one["request"]
        body = request["body"]
        content = b" " * min(int(request.get("bodyBytes", 0)), 2**20)
        if body is not None:
            content = (await self._filled(body)).encode()
        elif "base64" in request:
            content = base64.b64decode(request["base64"])
        headers = [
            [name, await self._filled(value)]
            for name, value in request["headers"]
            if name.lower() != "content-length"
        ]
        if content:
            headers.append(["content-length", str(len(content))])
        target = await self._filled(request["target"])
        readings = [
            Reading(datetime.fromisoformat(taken["now"]), float(taken["seconds"]))
            for taken in one["readings"]
        ]
        request_id = None if one["number"] else str(one["requestId"])
        extensions = {RECORDED: Recorded(readings, request_id, gate)}
        own = {"client": (str(one["client"]), 1), "extensions": extensions}
        return self._respond(str(request["method"]), target, headers, content, own)

    async def _respond(
        self,
        method: str,
        target: str,
        headers: list[list[str]],
        content: bytes,
        own: Mapping[str, Any] = _NOTHING,
    ) -> bytes:
        raw_path, _, query = target.partition("?")
        scope: MutableMapping[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw_path),
            "raw_path": raw_path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": [(a.lower().encode("latin-1"), b.encode("latin-1")) for a, b in headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 1),
            **own,
            "extensions": {CONNECTION: _NoConnection(), **own.get("extensions", {})},
        }
        messages = iter([{"type": "http.request", "body": content, "more_body": False}])
        received = bytearray()

        async def receive() -> MutableMapping[str, Any]:
            await pause()
            return next(messages, {"type": "http.disconnect"})

        async def send(message: MutableMapping[str, Any]) -> None:
            received.extend(message.get("body", b""))

        await self.sandbox(scope, receive, send)
        return bytes(received)

    async def _filled(self, text: str) -> str:
        """``text`` with the secrets of this replay."""
        numbers = {int(number) for number in PLACEHOLDER.findall(text)}
        for number in numbers & set(range(len(self.recorded["secrets"]))):
            if number not in self.values:
                self.values[number] = value = await self._value(number)
                self.receivers.placeholders[value] = f"{{{{sandbox-secret-{number}}}}}"
        return PLACEHOLDER.sub(lambda one: self.values.get(int(one[1]), one[0]), text)

    async def _value(self, number: int) -> str:
        source = self.recorded["secrets"][number]
        match source["is"]:
            case "key":
                return self.key
            case "inbox":
                return self.inbox
            case "password":
                return self._password(source["user"])
            case "base64":
                return base64.b64encode((await self._filled(source["text"])).encode()).decode()
            case "response":
                return await self._responded(source) or _unknown(number, source)
        return _unknown(number, source)

    def _password(self, user: str) -> str:
        engine = self.sandbox.engine
        users = engine.project.fixtures.get(USERS, ())
        public = {one["email"]: one["password"] for one in users if "password" in one}
        return str({**public, **engine.passwords}.get(user, "unknown"))

    async def _responded(self, source: Record) -> str:
        """The secret that the replay got in the response to an earlier input."""
        engine, earlier = self.sandbox.engine, self.recorded["inputs"][: source["input"] + 1]
        numbers = [one["number"] for one in earlier]
        inputs = (await engine.journal.recorded(engine.first_workspace)).inputs
        same = [one for one in inputs if one.number == numbers[-1]]
        found = same[numbers.count(numbers[-1]) - 1 :][:1]
        return "".join(_text_in(one, source)[source["from"] :][: source["length"]] for one in found)


def _events_of(index: int, one: Record) -> Iterator[_Event]:
    """What became of an input."""
    parts: list[tuple[float, int | None, Any]]
    parts = [(float(taken["seconds"]), None, taken["logged"]) for taken in one["readings"]]
    parts += [(float(seconds), int(place), logged) for place, seconds, logged in one["waits"]]
    for part, (seconds, wait, logged) in enumerate(parts):
        yield _Event(seconds, index, part, wait, *_logged(logged))
    yield _Event(max(float(one["ended"]), *(part[0] for part in parts)), index, -1)


def _logged(count: int | None) -> tuple[int, float]:
    return (0, math.inf) if count is None else (int(count), int(count))


def _text_in(item: Input, source: Record) -> str:
    if "header" in source:
        headers = {name.lower(): value for name, value in item.entry.response_headers}
        return headers.get(source["header"], "")
    try:
        body = jsonio.loads(item.entry.response_body.content)
    except jsonio.JsonError:
        return ""
    return str(at_pointer(body, source["member"]) or "")


def _unknown(number: int, source: Record) -> str:
    """A secret that nobody has, of the same form."""
    length = min(int(source["length"]), 10_000)
    digest = hashlib.sha256(f"unknown/{number}".encode()).digest()
    drawn = "".join(BASE62[byte % len(BASE62)] for byte in digest * (length // 32 + 1))
    prefix = str(source.get("prefix", ""))
    if not source.get("checksum"):
        return (prefix + drawn)[:length]
    return prefix + drawn[:KEY_BODY_LENGTH] + key_checksum(drawn[:KEY_BODY_LENGTH])


def _host(url: str) -> str:
    return url.partition("://")[2]
