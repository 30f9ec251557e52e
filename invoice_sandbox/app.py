"""The composition root: every collaborator is created here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from invoice_sandbox.base.clock import OperatingSystemClock, SystemClock
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.rate_limits import RateLimiter
from invoice_sandbox.base.threads import Threads
from invoice_sandbox.console.page import Console
from invoice_sandbox.control.functions import ControlFunction, control_functions
from invoice_sandbox.http.admit import request_limits
from invoice_sandbox.http.asgi import Leaf
from invoice_sandbox.http.credentials import is_local
from invoice_sandbox.http.endpoint import endpoint_of
from invoice_sandbox.http.pages import help_pages, pages, start_page
from invoice_sandbox.http.prefer import from_contract
from invoice_sandbox.http.request import Receive, Request, Scope
from invoice_sandbox.http.request import Send as ASGISend
from invoice_sandbox.http.routing import Page, Routing
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import NoResponseError, contract_response
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.contracts import SCENARIOS
from invoice_sandbox.project.loader import Project, default_project, load_contract, load_project
from invoice_sandbox.project.users import with_users
from invoice_sandbox.runtime.agenda import Agenda
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.runtime.journal import Journal
from invoice_sandbox.runtime.step_runner import drop_reporter, step_runner
from invoice_sandbox.runtime.workspaces import WorkspaceOptions, Workspaces
from invoice_sandbox.settings import (
    RECORDED,
    DurableFile,
    Postgresql,
    SettingError,
    Settings,
    check_scenario,
)
from invoice_sandbox.state import MEBIBYTE, USERS, Capacity, Store, StoreError, Workspace
from invoice_sandbox.state.credentials import DEMO_KEY, KEYS
from invoice_sandbox.state.memory import Indexes, MemoryStore
from invoice_sandbox.state.passwords import Passwords
from invoice_sandbox.state.sql_store import open_store
from invoice_sandbox.webhooks.endpoints import ENDPOINTS
from invoice_sandbox.webhooks.lanes import SIDE_BY_SIDE, SLOW_SIDE_BY_SIDE, Lanes, Send
from invoice_sandbox.webhooks.listeners import Listeners
from invoice_sandbox.webhooks.outbox import DELIVERIES
from invoice_sandbox.webhooks.outbox import INDEXES as WEBHOOK_INDEXES
from invoice_sandbox.webhooks.sender import RECEIVER_SECONDS, Sender

if TYPE_CHECKING:
    import httpx2

    from invoice_sandbox.http.metrics import Metrics

__all__ = ["Sandbox", "create_app"]

_SECONDS_TO_FINISH: Final = 3
"""Time for deliveries under way when the server is stopped."""

log = logging.getLogger("invoice_sandbox")


async def create_app(
    settings: Settings,
    *,
    url: str,
    system_clock: SystemClock | None = None,
    sending: Callable[[Send], Send] | None = None,
) -> Sandbox:
    """Compile the contracts, fill the first workspace, and put the pipeline together.

    ``url`` is the address that clients reach the sandbox by. ``sending`` makes what delivers
    webhooks of what sends them. Raises ProjectError, SettingError.
    """
    inside = _Inside()
    metrics = _metrics(settings)
    around = [wrap for wrap in (sending, metrics and metrics.sending) if wrap]
    engine = await _engine(settings, url, system_clock, inside, around)
    inside.app = Sandbox(_routing(engine, settings, inside, metrics), engine)
    return inside.app


def _metrics(settings: Settings) -> Metrics | None:
    if not settings.metrics:
        return None
    from invoice_sandbox.http.metrics import Metrics  # imports prometheus_client

    return Metrics()


def _routing(
    engine: Engine,
    settings: Settings,
    inside: _Inside,
    metrics: Metrics | None,
) -> Routing:
    """Routing by Connexion to the leaf, which responds."""
    project = engine.project
    demo_key = partial(_demo_key, engine, settings)
    console = Console.of(engine, inside, demo_key)
    note = metrics.note if metrics else None
    routing = Routing(
        Leaf(engine, _hosts(settings, engine.url), settings.allow_origin, note), engine.public_path
    )
    routing.add_pages([*_pages(engine, settings), *console.pages()])
    for contract in (project.control, project.contract):
        is_control = contract is project.control
        functions = control_functions(contract) if is_control else {}
        routing.add_contract(
            contract,
            partial(_function, project, functions),
            partial(
                endpoint_of,
                conventions=project.conventions_of(contract),
                handlers=project.handlers,
                functions=functions,
                is_control=is_control,
            ),
        )
    routing.add_pages(
        [
            *([metrics.page(engine)] if metrics else []),
            start_page(engine.public_path),
            help_pages(),
        ]
    )
    return routing


def _function(
    project: Project, functions: Mapping[str, ControlFunction], operation_id: str
) -> Callable[..., Any]:
    """Return what carries out an operation: a function of the control API, a handler of the
    project, or what the contract shows."""
    function = functions.get(operation_id) or project.handlers.get(operation_id)
    return function or from_contract


@dataclass(frozen=True)
class Sandbox:
    """A sandbox ready to be served: an ASGI application, and the engine that it works with."""

    routing: Routing
    engine: Engine

    async def __call__(self, scope: Scope, receive: Receive, send: ASGISend) -> None:
        """The ASGI entry: HTTP requests, and the server's start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self.routing(scope, receive, send)

    async def _live(self, receive: Receive, send: ASGISend) -> None:
        while True:
            try:
                message = await receive()
            except asyncio.CancelledError:  # a second signal: the server ends without it
                return
            if message["type"] == "lifespan.shutdown":
                await self._close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _close(self) -> None:
        self.engine.end_streams()
        await self.engine.agenda.close(_SECONDS_TO_FINISH)
        await self.engine.sender.close()
        self.engine.threads.close()
        self.engine.store.close()


class _Inside:
    """The sandbox as its own client: requests to its own address need no network."""

    app: Sandbox

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


async def _engine(
    settings: Settings,
    url: str,
    given_clock: SystemClock | None,
    inside: _Inside,
    around: Sequence[Callable[[Send], Send]],
) -> Engine:
    """Return everything that lasts longer than a request, with the first workspace in it."""
    project, passwords = with_users(
        _load(settings),
        local=settings.local,
        is_persistent=settings.store is not None,
    )
    scenario = settings.scenario or project.default_scenario
    check_scenario(scenario, project.scenarios)
    indexes = {**project.conventions.indexes, **WEBHOOK_INDEXES}
    capacity = Capacity(
        settings.max_state * MEBIBYTE, growing=frozenset({DELIVERIES, ENDPOINTS, KEYS})
    )
    store = _open_store(settings.store, indexes, capacity)
    system_clock = given_clock or OperatingSystemClock()
    workspaces = Workspaces(
        store,
        project,
        system_clock,
        most=settings.max_workspaces,
        idle=settings.workspace_idle,
        clock=settings.clock,
        scenario=scenario,
        local=settings.local,
    )
    sender = Sender(
        system_clock,
        partial(_network, settings),
        partial(_in_process, inside),
        url,
        RECEIVER_SECONDS,
    )
    send: Send = sender.send
    for sending in around:
        send = sending(send)
    first = await _first_workspace(workspaces, settings.key, WorkspaceOptions(settings.seed))
    threads = Threads(store.threads)
    virtual_time = settings.webhook_time == "virtual"
    listeners = Listeners(system_clock, RECEIVER_SECONDS)
    lanes = Lanes(
        store,
        system_clock,
        send,
        virtual_time=virtual_time,
        threads=threads,
        is_elsewhere=partial(listeners.is_elsewhere, url),
    )
    agenda = Agenda(
        store, system_clock, step_runner(project), lanes, drop_reporter(project), threads
    )
    agenda.resume()
    return Engine(
        project=project,
        store=store,
        journal=Journal(store, (project.contract, project.control), project.conventions.key_prefix),
        system_clock=system_clock,
        agenda=agenda,
        sender=sender,
        listeners=listeners,
        workspaces=workspaces,
        first_workspace=first.id,
        seed=first.seed,
        url=url,
        local=settings.local,
        webhook_networks=settings.allow_webhooks_to,
        hashing=Passwords(system_clock, with_public=_has_public_passwords(project)),
        passwords=passwords,
        conditions={name: getattr(settings, name) for name in RECORDED},
        virtual_webhook_time=virtual_time,
        limiter=RateLimiter(request_limits(settings.rate_limit), system_clock)
        if settings.rate_limit
        else None,
        key_given=settings.key_given,
        threads=threads,
        lacks_users=USERS in project.fixtures and _lacks_users(store, first),
    )


def _has_public_passwords(project: Project) -> bool:
    return any("password" in user for user in project.fixtures.get(USERS, ()))


def _lacks_users(store: Store, workspace: Workspace) -> bool:
    """True if a workspace has no users."""
    with store.transaction(workspace.id) as state:
        return state.count(USERS) == 0


def _open_store(
    place: Path | DurableFile | Postgresql | None, indexes: Indexes, capacity: Capacity
) -> Store:
    """The store with what it kept. Raises SettingError for a place that cannot be used."""
    if place is None:
        return MemoryStore(indexes, capacity)
    try:
        if isinstance(place, DurableFile):
            return open_store(place.path, indexes, capacity, full=True)
        return open_store(place.dsn if isinstance(place, Postgresql) else place, indexes, capacity)
    except StoreError as error:
        raise SettingError(f"--store: {error}") from None


async def _first_workspace(
    workspaces: Workspaces, key: str, options: WorkspaceOptions
) -> Workspace:
    """The first workspace, kept before anybody gets its key. Raises SettingError."""
    try:
        with workspaces.store.alone():
            first = workspaces.first(key, options)
    except ApiError:
        workspaces.store.close()
        raise SettingError("--store: it cannot be written; see the log") from None
    except BaseException:
        workspaces.store.close()
        raise
    return first


def _network(settings: Settings) -> httpx2.AsyncBaseTransport:
    from invoice_sandbox.webhooks.transport import guarded_transport  # imports httpx2

    return guarded_transport(
        local=settings.local,
        opened=settings.allow_webhooks_to,
        connections=SIDE_BY_SIDE + SLOW_SIDE_BY_SIDE,
        proxy=settings.webhook_proxy,
    )


def _in_process(inside: _Inside) -> httpx2.AsyncBaseTransport:
    import httpx2

    return httpx2.ASGITransport(inside, raise_app_exceptions=False)


def _pages(engine: Engine, settings: Settings) -> list[Page]:
    """The contracts as documents, ours at the root, and the page that shows them."""
    project = engine.project
    return pages(
        {"": project.contract, project.control.base_path: project.control},
        engine.url,
        lambda: {SCENARIOS: tuple(project.scenarios)},
        partial(_key_of_page, engine, settings),
    )


def _demo_key(engine: Engine, settings: Settings, request: Request) -> str | None:
    """The demo key, for a request to the control API that it is valid for."""
    return DEMO_KEY if settings.key == DEMO_KEY and is_local(engine, request) else None


def _key_of_page(engine: Engine, settings: Settings, request: Request) -> str | None:
    """The demo key for a page that sends requests to the API, if that has keys of its own."""
    has_keys = engine.project.conventions.access == "keys"
    return _demo_key(engine, settings, request) if has_keys else None


def _load(settings: Settings) -> Project:
    if settings.contract:
        project = load_contract(settings.contract, settings.scenarios, stateful=settings.stateful)
        return _with_warnings(project, strict=settings.strict)
    project = load_project(settings.project or default_project(), settings.scenarios)
    if settings.project is not None:
        return _with_warnings(project, strict=settings.strict)
    for operation in project.contract.operations.values():
        if operation.id not in project.handlers:
            _check_response(project.contract, operation)
    return project


def _with_warnings(project: Project, *, strict: bool) -> Project:
    """The project, after its warnings have been logged: what of its contract is not supported.

    Raises ProjectError with all of them if the settings are ``strict``.
    """
    if strict and project.warnings:
        lines = "\n".join(project.warnings)
        count = len(project.warnings)
        raise ProjectError(f"--strict: {count} warning{'s'[: count > 1]}\n{lines}")
    for line in project.warnings:
        log.warning(line)
    return project


def _check_response(contract: Contract, operation: Operation) -> None:
    """Raise ProjectError at start, not at the first request, if the contract shows no response."""
    try:
        contract_response(contract, operation, "start-up")
    except NoResponseError as error:
        raise ProjectError(str(error)) from None


def _hosts(settings: Settings, url: str) -> frozenset[str] | None:
    """The hosts that requests may name besides loopback.

    Beyond loopback any: there is no public key to protect.
    """
    if not settings.on_loopback:
        return None
    public = urlsplit(url).hostname
    return frozenset({settings.host}) | ({public} if public else set())
