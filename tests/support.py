"""A real server on a real port for tests, with time in the test's hand."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

import httpx

from invoice_sandbox import app
from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.ids import key_digest, new_key
from invoice_sandbox.project.users import with_users
from invoice_sandbox.runtime.workspaces import WorkspaceOptions
from invoice_sandbox.server.serving import listen, make_server
from invoice_sandbox.settings import Postgresql, Settings
from invoice_sandbox.state import Log, Record, Store, Transaction
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.state.memory import MemoryStore, Space
from invoice_sandbox.webhooks.sender import RECEIVER_SECONDS
from tests.connections import Connections

T = TypeVar("T")

PATIENCE = 60.0
"""Real seconds after which a test takes what it waits for to have hung.

No test is to fail on a machine that stalls for several seconds, at whatever moment."""

LONG_PATIENCE = 10 * PATIENCE
"""The same of a run of other tests, of a fuzz run, or of a session of many commands."""

PATIENT = 3600
"""Seconds between two requests, for clients that may stall and still use their connection."""

CONVENTIONS = (Path(__file__).parents[1] / "conventions.yaml").read_text().split("webhooks:")[0]
"""Those of the shipped project, for projects of tests that reply in its envelope.

Without its webhook operations: such a project has others."""

OPTIONAL = "optional:"
"""Reasons of tests that may be skipped also in CI begin so: the project does not install what they
need."""

STORE = "INVOICE_SANDBOX_TEST_STORE"
"""The variable that lets all servers of tests keep their state in a file each (``sqlite``), or in a
database each (``postgresql``). They have the demo users all the same."""

FROZEN = Settings(
    port=0,
    seed=7,
    clock=ClockState("frozen"),
    scenario="manual",
    rate_limit=None,
    max_workspaces=10_000,
)
"""What most tests serve: a known seed, a clock that stands still, nothing by itself, no limit."""


@contextmanager
def little_work(seconds: float = 10) -> Iterator[None]:
    """The block must not need more CPU time, which stands still while the machine stalls."""
    before = time.process_time()
    yield
    assert time.process_time() - before < seconds


@dataclass
class ManualSystemClock:
    """Real time that only moves when a test says so."""

    instant: datetime = field(default=datetime(2026, 11, 23, 9, 30, tzinfo=UTC))
    seconds: float = 1000.0

    def now(self) -> datetime:
        """The instant that the test chose."""
        return self.instant

    def calendar(self) -> datetime:
        """The same."""
        return self.instant

    def monotonic(self) -> float:
        """Seconds that the test moves."""
        return self.seconds

    is_running: threading.Event = field(default_factory=threading.Event)
    sleepers: int = 0

    def __post_init__(self) -> None:
        self.is_running.set()

    async def sleep(self, seconds: float) -> None:
        """Wait for no time at all, unless a test holds the clock: then until it runs again.

        The monotonic seconds and the number of sleepers show that somebody waited."""
        self.seconds += seconds
        self.sleepers += 1
        while not self.is_running.is_set():  # noqa: ASYNC110  it is set in another thread
            await asyncio.sleep(0.005)

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
        self.instant += timedelta(seconds=seconds)


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose time can be put forward: uvicorn looks every 0.1 s whether it is to stop."""

    _skipped = 0.0

    def time(self) -> float:
        """Seconds, with those that were skipped."""
        return super().time() + self._skipped

    def skip(self) -> None:
        """Let what waits for 0.1 s wait no longer."""
        self._skipped += 0.1


@dataclass(frozen=True)
class Running:
    """A sandbox that responds on ``url``."""

    url: str
    sandbox: Sandbox
    system_clock: ManualSystemClock
    loop: asyncio.AbstractEventLoop
    port: int
    connections: Connections

    def client(self, key: str | None = DEMO_KEY) -> httpx.Client:
        """A client that sends ``key`` as a bearer credential, or none."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=PATIENCE, transport=self.connections
        )

    def new_workspace(self, seed: int | None = None) -> str:
        """The key of another workspace."""
        key, engine = new_key(), self.sandbox.engine
        options = WorkspaceOptions(seed, made_by=engine.first_workspace)
        self.call(engine.workspaces.create, key, options)
        return key

    # The store, for what no response shows. Tests have no other way to it.

    @property
    def store(self) -> Store:
        """The store of the server."""
        return self.sandbox.engine.store

    def in_transaction(
        self, work: Callable[[Transaction], T], client: httpx.Client | None = None
    ) -> T:
        """What ``work`` returns, in a transaction of the client's workspace (None: the first)."""
        key = None if client is None else client.headers["Authorization"].removeprefix("Bearer ")
        result: T = self.call(in_transaction, self.sandbox, work, key)
        return result

    def records(self, client: httpx.Client, collection: str) -> list[Record]:
        """The records of a collection in the client's workspace, the newest first."""

        def read(state: Transaction) -> list[Record]:
            return list((state.page(collection, limit=100_000)).records)

        return self.in_transaction(read, client)

    def log(self, name: str, workspace: str | None = None) -> Log:
        """A bounded log of a workspace (None: the first)."""
        return self.call(self.store.log, workspace or self.sandbox.engine.first_workspace, name)

    def space(self) -> Space:
        """All that the memory store keeps of the first workspace."""
        assert isinstance(self.store, MemoryStore)
        return self.store.space(self.sandbox.engine.first_workspace)

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function, called where the server runs."""

        async def called() -> T:
            return function(*arguments)

        result: T = self.run(called())
        return result

    def run(self, coroutine: Any) -> Any:
        """The result of a coroutine, run where the server runs."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)


def in_transaction(sandbox: Sandbox, work: Callable[[Transaction], T], key: str | None = None) -> T:
    """What ``work`` returns, in a transaction of the key's workspace (None: the first)."""
    engine, workspace = sandbox.engine, sandbox.engine.first_workspace
    if key is not None:
        credential = engine.store.credential(key_digest(key))
        assert credential is not None
        workspace = credential.workspace_id
    with engine.store.transaction(workspace) as state:
        return work(state)


def _new_store(folder: ExitStack) -> Path | Postgresql:
    if os.environ[STORE] == "postgresql":
        from tests.databases import new_database

        return Postgresql(new_database())
    return Path(folder.enter_context(TemporaryDirectory())) / "state.db"


def _in_memory_too(*given: Any, **options: Any) -> Any:
    """The users that a server has which keeps nothing."""
    return with_users(*given, **{**options, "is_persistent": False})


@contextmanager
def serving(
    settings: Settings = FROZEN,
    *,
    real_time: bool = False,
    at: datetime | None = None,
    receiver_seconds: float = RECEIVER_SECONDS,
) -> Iterator[Running]:
    """Serve ``settings`` in a thread of its own, from ready to stopped.

    With ``real_time`` its clock is that of a process of its own; ``at`` is the instant that the
    test's clock begins with; receivers of webhooks have ``receiver_seconds``.
    """
    system_clock = ManualSystemClock() if at is None else ManualSystemClock(at)
    clock = None if real_time else system_clock
    folder, users = ExitStack(), with_users
    if settings.store is None and os.environ.get(STORE, "memory") != "memory":
        settings = replace(settings, store=_new_store(folder))
        users = _in_memory_too
    folder.enter_context(patch.object(app, "RECEIVER_SECONDS", receiver_seconds))
    with folder, closing(_Loop()) as loop, listen(settings) as listener:
        port = listener.getsockname()[1]
        url = settings.url(port)
        with patch.object(app, "with_users", users), ThreadPoolExecutor(1) as creator:
            # not in this thread, in which the loop of a browser may be running
            created = create_app(settings, url=url, system_clock=clock)
            sandbox = creator.submit(loop.run_until_complete, created).result()
        ready = threading.Event()
        server = make_server(sandbox, ready.set, settings.trusted_proxy, PATIENT)
        serve = server.serve(sockets=[listener])
        thread = threading.Thread(target=loop.run_until_complete, args=(serve,))
        thread.start()
        try:
            assert ready.wait(PATIENCE), "the server did not become ready"
            with Connections().open() as connections:
                yield Running(url, sandbox, system_clock, loop, port, connections)
        finally:
            server.should_exit = True
            for _ in range(10):
                loop.call_soon_threadsafe(loop.skip)
                thread.join(0.005)
            thread.join(PATIENCE)
