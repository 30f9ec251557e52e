"""Sends the requests of a bundle, one after the other, to a new workspace, and compares.

The server is in this process and listens nowhere. Its real time stands still at the instant at
which each request arrived, and webhook receivers respond as they did: a replay opens no connection.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from invoice_sandbox import __version__
from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.base.ids import new_key
from invoice_sandbox.bundles.archive import Bundle
from invoice_sandbox.bundles.compare import Comparison, Difference
from invoice_sandbox.bundles.saving import (
    CONTRACT,
    DELIVERIES,
    END,
    JOURNAL,
    OUTCOMES,
    RECORDING,
    START,
)
from invoice_sandbox.http.request import CONNECTION
from invoice_sandbox.runtime.agenda import ATTEMPTS_LOG
from invoice_sandbox.runtime.journal import REQUESTS_LOG
from invoice_sandbox.runtime.journal_entry import JournalEntry
from invoice_sandbox.runtime.named_secrets import (
    INBOX,
    KEY,
    SECRET,
    NamedSecrets,
    named_secrets,
    passwords_of,
)
from invoice_sandbox.settings import Settings
from invoice_sandbox.state import MEBIBYTE, STEPS_LOG, Record
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.state.memory import MemoryStore
from invoice_sandbox.webhooks.attempts import Outcome, Outgoing
from invoice_sandbox.webhooks.inbox import inbox_token, inbox_url
from invoice_sandbox.webhooks.lanes import Send

_MOST_ENTRIES: Final = 5_000
_PATIENCE: Final = 60
"""Real seconds for a request."""

_OF_CONNECTION: Final = frozenset({"content-length", "transfer-encoding", "...", "expect"})
"""Headers that a replay does not send, besides those that the journal does not show."""

LIVE: Final = (
    "the clock was live: instants, and request ids and digests, which have one in them, "
    "are not compared"
)


@dataclass(frozen=True)
class Replayed:
    """The result of a replay: the number of requests, what differs, and what may explain it."""

    requests: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Served:
    """The project or contract that the replay serves; None: those of the sandbox."""

    project: Path | None = None
    contract: Path | None = None
    scenarios: Path | None = None


def replay(bundle: Bundle, served: Served = Served()) -> Replayed:
    """Replay a bundle, of an acceptance run every case. Raises BundleError, ProjectError and
    SettingError."""
    requests = 0
    differences: list[Difference] = []
    notes: list[str] = []
    for name, workspace in bundle.workspaces.items():
        if workspace.manifest.get("replayable") is not True:
            reason = str(workspace.manifest.get("reason", "its beginning was not recorded"))[:200]
            notes.append(f"{name}: it cannot be replayed: {ascii(reason)[1:-1]}".lstrip(": "))
            continue
        replayed = asyncio.run(_replay(workspace, served))
        requests += replayed.requests
        differences += [replace(found, case=name) for found in replayed.differences]
        notes += [note for note in replayed.notes if note not in notes]
    if not requests:
        raise bundle.problem(notes[0] if notes else "it has no requests")
    return Replayed(requests, tuple(differences), tuple(notes))


async def _replay(bundle: Bundle, served: Served) -> Replayed:
    recorded: Record = bundle.json(RECORDING)
    journal = sorted(bundle.lines(JOURNAL), key=lambda entry: str(entry.get("receivedAt")))
    if len(journal) > _MOST_ENTRIES:
        raise bundle.problem(f"a replay sends at most {_MOST_ENTRIES:,} requests")
    try:
        run = await _Run.of(bundle, recorded, served)
        differences = [found async for found in run.differences(journal)]
        return Replayed(
            sum(entry["isSentAgain"] for entry in journal),
            tuple(differences),
            tuple(_notes(bundle, journal, await run.get("/openapi.json"))),
        )
    except UserError:
        raise
    except TimeoutError:
        raise bundle.problem(f"a request took more than {_PATIENCE} s") from None
    except Exception as error:  # a stranger's recording may be wrong in any way
        raise bundle.problem(f"its recording is malformed ({type(error).__name__})") from None


def _notes(bundle: Bundle, journal: list[Record], contract: Mapping[str, Any]) -> Iterator[str]:
    version = bundle.manifest.get("version")
    if version != __version__:
        yield f"recorded with version {ascii(version)[1:-1][:40]}, replayed with {__version__}"
    if {**bundle.json(CONTRACT), "servers": None} != {**contract, "servers": None}:
        yield "the contract is another one; pass --project or --contract"
    if _is_live(bundle):
        yield LIVE
    hidden = sum("bodyBytes" in entry["request"] for entry in journal)
    if hidden:
        yield f"{hidden} request bodies are not in the bundle; spaces were sent instead"


def _is_live(bundle: Bundle) -> bool:
    """True if the clock was live at the beginning or at the end."""
    return any(bundle.json(part)["clock"]["mode"] == "live" for part in (START, END))


@dataclass
class _StandingClock:
    """Real time, which stands still at the arrival of the request that is replayed."""

    instant: datetime

    def now(self) -> datetime:
        """The instant, in UTC."""
        return self.instant

    calendar = now

    def monotonic(self) -> float:
        """Seconds since the epoch."""
        return self.instant.timestamp()

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - nobody waits
        """Return at once."""
        await asyncio.sleep(0)


class _Receivers:
    """Responds as webhook receivers did, in the same order for each event and address."""

    def __init__(self, outcomes: list[Record], url: str, secrets: Secrets) -> None:
        self._inboxes = inbox_url(url)
        self._secrets = secrets
        self._left: defaultdict[str, list[Record]] = defaultdict(list)
        for outcome in outcomes:
            self._left[outcome["webhookId"]].append(outcome)

    def sending(self, send: Send) -> Send:
        """Return what delivers webhooks. The inbox of the workspace gets its messages."""

        async def respond(request: Outgoing) -> Outcome:
            recorded = self._next(request)
            if request.url.startswith(self._inboxes):
                sent = await send(request)
                return recorded if sent.status == recorded.status else sent
            return recorded

        return respond

    def _next(self, request: Outgoing) -> Outcome:
        left = self._left[request.headers["webhook-id"]]
        for outcome in left:
            if self._secrets.filled(outcome["url"]) == request.url:
                left.remove(outcome)
                return _outcome(outcome)
        return Outcome(error="no_connection")


@dataclass
class Secrets:
    """The replay's own secrets, by their names in the bundle."""

    values: dict[str, str] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        """Return a text of the bundle with the secrets of the replay."""
        return SECRET.sub(lambda name: self.values.get(name[1], f"unknown-secret-{name[1]}"), text)

    def learn(self, recorded: Any, actual: Any) -> None:
        """Learn the secrets that a value of the replay has where the bundle has their names."""
        if isinstance(recorded, str) and isinstance(actual, str):
            names = SECRET.findall(recorded)
            parts = map(re.escape, SECRET.split(recorded)[::2])
            match = re.fullmatch("(.+?)".join(parts), actual, re.DOTALL) if names else None
            if match is not None:
                self.values |= dict(zip(names, match.groups(), strict=True))
        elif isinstance(recorded, Mapping) and isinstance(actual, Mapping):
            for name in recorded.keys() & actual.keys():
                self.learn(recorded[name], actual[name])
        elif isinstance(recorded, list) and isinstance(actual, list):
            for pair in zip(recorded, actual, strict=False):
                self.learn(*pair)


@dataclass
class _Run:
    """A replay under way."""

    bundle: Bundle
    sandbox: Sandbox
    clock: _StandingClock
    secrets: Secrets
    names: NamedSecrets

    @classmethod
    async def of(cls, bundle: Bundle, recorded: Record, served: Served) -> _Run:
        """Return a replay with a new server."""
        settings = _settings(bundle, recorded, served)
        clock = _StandingClock(datetime.fromisoformat(recorded["createdAt"]))
        secrets = Secrets({KEY: settings.key})
        receivers = _Receivers(bundle.lines(OUTCOMES), recorded["url"], secrets)
        sandbox = await create_app(
            settings, url=recorded["url"], system_clock=clock, sending=receivers.sending
        )
        engine = sandbox.engine
        workspace = engine.default_workspace()
        with engine.store.transaction(workspace.id) as state:
            secrets.values[INBOX] = inbox_token(state)
        for user, password in passwords_of(engine).items():
            secrets.values[f"password of {user}"] = password
        names = named_secrets(engine, workspace)
        return cls(bundle, sandbox, clock, secrets, names)

    async def differences(self, journal: list[Record]) -> AsyncIterator[Difference]:
        """Send every request, and return what differs, at last in what is left."""
        compare = Comparison(without_times=_is_live(self.bundle))
        for number, entry in enumerate(journal, 1):
            if entry["isSentAgain"]:
                place = f"{number} ({entry['method']} {entry['target']})"
                for found in compare.of_request(place, entry, await self._sent(entry)):
                    yield found
        left = (await self.get("/sandbox/recording"))["data"]
        await self.sandbox.engine.agenda.close(0)
        recorded = self.bundle.json(END), self.bundle.json(DELIVERIES)
        actual = left["end"], left["deliveries"]
        for found in compare.of_end(_left(*recorded), _left(*actual)):
            yield found

    async def get(self, path: str) -> Any:
        """Return a document of the server."""
        url, key = self.sandbox.engine.url, self.secrets.values[KEY]
        headers = [["host", url.partition("://")[2]], ["authorization", f"Bearer {key}"]]
        return json.loads(await self._respond("GET", path, headers))

    async def _sent(self, entry: Record) -> Record:
        """Send a request, and return its entry in the journal of the replay."""
        engine, workspace_id = self.sandbox.engine, self.sandbox.engine.first_workspace
        self.clock.instant = datetime.fromisoformat(entry["receivedAt"])
        async with asyncio.timeout(_PATIENCE):
            await self._rest()
            if entry["number"] and isinstance(engine.store, MemoryStore):
                engine.store.continue_requests(workspace_id, int(entry["number"]))
            count = engine.store.count_logged(workspace_id, REQUESTS_LOG)
            content = self._content(entry["request"])
            headers = [*self._headers(entry["request"], len(content))]
            target = self.secrets.filled(entry["target"])
            await self._respond(entry["method"], target, headers, content, entry["client"])
            await self._rest()
        log = engine.store.log(workspace_id, REQUESTS_LOG)
        for actual in log.entries[max(count - log.dropped, 0) :]:
            self._learn(entry["response"], actual)
            return self.names.recorded(actual)
        return {}

    async def _rest(self) -> None:
        """Do what is due, as timers do, and wait until nothing is under way."""
        engine, before = self.sandbox.engine, -1
        while before != (count := await self._count_steps()):
            before = count
            await engine.agenda.run_workspace(engine.first_workspace)
            await engine.agenda.rest(engine.first_workspace)

    async def _count_steps(self) -> int:
        engine = self.sandbox.engine
        count = engine.store.count_logged
        return sum(count(engine.first_workspace, name) for name in (STEPS_LOG, ATTEMPTS_LOG))

    def _content(self, request: Record) -> bytes:
        if "base64" in request:
            return base64.b64decode(request["base64"])
        if "bodyBytes" in request:
            return b" " * min(int(request["bodyBytes"]), MEBIBYTE)
        return self.secrets.filled(request["body"] or "").encode()

    def _headers(self, request: Record, length: int) -> Iterator[list[str]]:
        for name, value in request["headers"]:
            if name not in _OF_CONNECTION:
                yield [name, self.secrets.filled(value)]
        if length:
            yield ["content-length", str(length)]

    def _learn(self, recorded: Record, actual: JournalEntry) -> None:
        headers = [list(pair) for pair in actual.response_headers]
        self.secrets.learn(recorded["headers"], headers)
        with suppress(ValueError, RecursionError):
            body = json.loads(actual.response_body.content)
            self.secrets.learn(json.loads(recorded["body"] or "null"), body)

    async def _respond(
        self,
        method: str,
        target: str,
        headers: list[list[str]],
        content: bytes = b"",
        client: str = "127.0.0.1",
    ) -> bytes:
        path, _, query = target.partition("?")
        scope: MutableMapping[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers],
            "client": (client, 1),
            "server": ("127.0.0.1", 1),
            "extensions": {CONNECTION: _NoConnection()},
        }
        messages = iter([{"type": "http.request", "body": content, "more_body": False}])
        received = bytearray()

        async def receive() -> MutableMapping[str, Any]:
            return next(messages, {"type": "http.disconnect"})

        async def send(message: MutableMapping[str, Any]) -> None:
            received.extend(message.get("body", b""))

        await self.sandbox(scope, receive, send)
        return bytes(received)


class _NoConnection:
    """The connection of a request in this process: there is none to drop."""

    def get_extra_info(self, _: str) -> Any:
        """There is no socket."""
        raise OSError

    def abort(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _left(end: Record, deliveries: list[Record]) -> Record:
    """Return what the requests have left, as it is compared."""
    clock = {name: end["clock"][name] for name in ("mode", "at")}
    return {"clock": clock, "records": end["records"], "deliveries": deliveries}


def _outcome(recorded: Record) -> Outcome:
    waits = recorded["retryAfter"]
    return Outcome(
        status=recorded["status"],
        error=recorded["error"],
        took=timedelta(seconds=recorded["took"]),
        body=recorded["body"].encode("latin-1"),
        retry_after=None if waits is None else timedelta(seconds=waits),
    )


def _settings(bundle: Bundle, recorded: Record, served: Served) -> Settings:
    """The settings of the replay's server. Raises KeyError, TypeError and ValueError."""
    start, given = bundle.json(START), recorded["settings"]
    mode, limit = start["clock"]["mode"], given["rate_limit"]
    if mode not in {"live", "frozen"} or given["webhook_time"] not in {"wall", "virtual"}:
        raise ValueError("unknown mode")
    at = datetime.fromisoformat(start["clock"]["at"]).astimezone(UTC)
    shift = timedelta(seconds=float(start["clock"]["shift"]))
    return Settings(
        port=0,
        scenario=str(start["scenario"]),
        seed=int(recorded["workspace"]["seed"]),
        clock=ClockState(mode, at, shift),
        key=DEMO_KEY if recorded["local"] else new_key(),
        key_given=bool(given["key_given"]),
        rate_limit=None if limit is None else max(1, int(limit)),
        public_url=None if recorded["local"] else str(recorded["url"]),
        workspace_idle=None,
        webhook_time=given["webhook_time"],
        stateful=bool(given["stateful"]),
        project=served.project,
        contract=served.contract,
        scenarios=served.scenarios,
    )
