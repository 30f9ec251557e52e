"""The composition root: every collaborator is made here and handed on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from invoice_sandbox.agenda import Agenda, RunStep, SkippedStep, step_summary
from invoice_sandbox.clock import SystemWall, Wall
from invoice_sandbox.connexion_31 import Router
from invoice_sandbox.contract.answers import NoAnswerError, contract_answer
from invoice_sandbox.contract.fetching import Fetcher, never
from invoice_sandbox.contract.operations import Contract, Operation
from invoice_sandbox.coverage import touches
from invoice_sandbox.coverage.recording import mark_of
from invoice_sandbox.coverage.touches import Coverage, Touch
from invoice_sandbox.credentials import DEMO_KEY
from invoice_sandbox.engine import Engine
from invoice_sandbox.errors import ApiError
from invoice_sandbox.handling import Origin, Step
from invoice_sandbox.pages import DOCS, docs_app
from invoice_sandbox.pipeline import Exchange, Proceed, Receive, Scope, Send, compose
from invoice_sandbox.pipeline.access import Door, authenticate, check_scope, guard_sessions
from invoice_sandbox.pipeline.answering import LAST_STEPS, answer, note_refusals, pull_levers
from invoice_sandbox.pipeline.covering import cover
from invoice_sandbox.pipeline.delivery import deliver
from invoice_sandbox.pipeline.documents import Words, serve_documents
from invoice_sandbox.pipeline.envelope import envelope
from invoice_sandbox.pipeline.faults import inject_faults
from invoice_sandbox.pipeline.journal import journal
from invoice_sandbox.pipeline.origin import LOOPBACK_NAMES, guard_origin
from invoice_sandbox.pipeline.own_words import refuse_in_own_words
from invoice_sandbox.pipeline.pages import ASGIApplication, serve_pages
from invoice_sandbox.pipeline.preferring import prefer
from invoice_sandbox.pipeline.reading import ClientGoneError, read_body
from invoice_sandbox.pipeline.routing import route
from invoice_sandbox.pipeline.scenario import choose_scenario
from invoice_sandbox.pipeline.validation import check_request
from invoice_sandbox.project import (
    SCENARIOS,
    Project,
    ProjectError,
    default_project,
    load_contract_alone,
    load_project,
)
from invoice_sandbox.rate_limit import RateLimiter
from invoice_sandbox.scenarios.stories import stories_of
from invoice_sandbox.settings import Settings, check_scenario
from invoice_sandbox.store import ScheduledStep, Transaction, Workspace
from invoice_sandbox.store.memory import MemoryStore
from invoice_sandbox.webhooks.attempts import CLOSE_ENDPOINT
from invoice_sandbox.webhooks.connecting import guarded_transport
from invoice_sandbox.webhooks.endpoints import ENDPOINTS
from invoice_sandbox.webhooks.lanes import SIDE_BY_SIDE, SLOW_SIDE_BY_SIDE, Lanes
from invoice_sandbox.webhooks.listeners import Listeners
from invoice_sandbox.webhooks.sender import Sender
from invoice_sandbox.workspaces import Wish, Workspaces

log = logging.getLogger("invoice_sandbox")

_SECONDS_TO_FINISH: Final = 5
"""For what is being sent when the server is stopped."""


@dataclass(frozen=True)
class Sandbox:
    """A sandbox ready to be served: an ASGI application and what stands behind it."""

    proceed: Proceed
    engine: Engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry: HTTP requests, and the server's start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        )
        exchange = Exchange(scope, receive, headers)
        try:
            reply = await self.proceed(exchange)
        except ClientGoneError:
            return
        await deliver(exchange, reply, send, self.engine.wall)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.engine.agenda.close(_SECONDS_TO_FINISH)
                await self.engine.sender.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


async def create_app(settings: Settings, *, url: str, wall: Wall | None = None) -> Sandbox:
    """Compile the contract, fill the first workspace, and lay out the way of a request.

    ``url`` is the address that clients reach the sandbox by. Raises ProjectError, SettingError.
    """
    inside = _Inside()
    engine = await _engine(settings, url, wall or SystemWall(), inside)
    project, wall = engine.project, engine.wall
    router = Router([project.contract, project.levers], _resolver(project))
    limiter = RateLimiter(settings.rate_limit, wall) if settings.rate_limit else None
    proceed = compose(
        [
            journal(engine),
            cover(engine, router),
            envelope(wall, project.contract.version, url),
            refuse_in_own_words(engine, alone=settings.contract is not None),
            guard_origin(_hosts(settings, url)),
            serve_documents(_documents(project), url, _words(project)),
            serve_pages(DOCS, lambda: _docs(project, settings, url)),
            route(router),
            read_body,
            authenticate(engine, limiter, _door(settings)),
            note_refusals(engine),
            guard_sessions(url),
            check_scope,
            choose_scenario(engine),
            inject_faults(engine),
            check_request,
            prefer(engine),
            pull_levers(engine),
            answer(engine),
        ]
    )
    inside.app = Sandbox(proceed, engine)
    return inside.app


class _Inside:
    """The sandbox as its own client: what it sends to its own addresses needs no network."""

    app: Sandbox

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


async def _engine(settings: Settings, url: str, wall: Wall, inside: _Inside) -> Engine:
    """Everything that lasts longer than a request, with the first workspace in it."""
    project = _load(settings)
    scenario = settings.scenario or project.default_scenario
    check_scenario(scenario, project.scenarios)
    store = MemoryStore()
    workspaces = Workspaces(
        store,
        project,
        wall,
        most=settings.max_workspaces,
        idle=settings.workspace_idle,
        clock=settings.clock,
        scenario=scenario,
    )
    sender = Sender(
        wall,
        guarded_transport(local=settings.on_loopback, connections=SIDE_BY_SIDE + SLOW_SIDE_BY_SIDE),
        httpx.ASGITransport(inside, raise_app_exceptions=False),
        url,
        settings.webhook_timeout,
    )
    lanes = Lanes(store, wall, sender.send, virtual_time=settings.webhook_time == "virtual")
    first = await workspaces.create(settings.key, Wish(settings.seed))
    coverage = Coverage(settings.coverage, mark_of(project) if settings.coverage else "")
    return Engine(
        project=project,
        store=store,
        wall=wall,
        agenda=Agenda(store, wall, _step_runner(project, coverage), lanes),
        sender=sender,
        listeners=Listeners(wall, settings.webhook_timeout),
        workspaces=workspaces,
        coverage=coverage,
        first_workspace=first.id,
        url=url,
        local=settings.on_loopback,
        virtual_webhook_time=settings.webhook_time == "virtual",
    )


def _documents(project: Project) -> dict[str, Contract]:
    """Where which contract is served: ours at the root, the levers where they live."""
    return {"": project.contract, project.levers.base_path: project.levers}


def _words(project: Project) -> Words:
    """What may change in the documents: the names of the scenarios."""
    return lambda: {SCENARIOS: tuple(project.scenarios)}


def _docs(project: Project, settings: Settings, url: str) -> ASGIApplication:
    is_demo = settings.on_loopback and settings.key == DEMO_KEY and settings.contract is None
    contracts = [
        (str(contract.document["info"]["title"]), f"{prefix}/openapi.json")
        for prefix, contract in _documents(project).items()
    ]
    return docs_app(contracts, DEMO_KEY if is_demo else None, url)


def _step_runner(project: Project, coverage: Coverage) -> RunStep:
    """How a scheduled step is done: by the project's action of its name."""

    async def run(state: Transaction, workspace: Workspace, scheduled: ScheduledStep) -> list[str]:
        step = Step(
            state=state,
            workspace=workspace,
            now=scheduled.due,
            origin=Origin("system", None),
            contract=project.contract,
            lifecycle=project.lifecycle,
            stories=stories_of(project.scenarios, workspace),
            arguments=scheduled.arguments,
        )
        try:
            if scheduled.action == CLOSE_ENDPOINT:
                await _tell_of_endpoint(project, step)
            else:
                await project.actions[scheduled.action].do(step, scheduled.arguments)
        except ApiError as refusal:
            raise SkippedStep(refusal.message()) from None
        await _remember(state, scheduled)
        coverage.note(workspace, [*_step_of_story(scheduled), *step.touched])
        return step.emitted

    return run


def _step_of_story(scheduled: ScheduledStep) -> list[Touch]:
    if scheduled.scenario is None or scheduled.place is None:
        return []
    return [touches.step(scheduled.scenario, scheduled.place)]


async def _tell_of_endpoint(project: Project, step: Step) -> None:
    """The project hears of an endpoint that was disabled."""
    endpoint = await step.state.get(ENDPOINTS, step.subject)
    if endpoint is not None and project.hooks.note_disabled_endpoint is not None:
        await project.hooks.note_disabled_endpoint(step, endpoint)


async def _remember(state: Transaction, scheduled: ScheduledStep) -> None:
    """What a step was about can tell later which step moved it last."""
    told = step_summary(scheduled)
    subject = told.pop("subject")
    if subject is not None:
        await state.put(LAST_STEPS, subject, told)


def _load(settings: Settings) -> Project:
    if settings.contract:
        fetch = Fetcher() if settings.allow_remote_refs else never
        project = load_contract_alone(settings.contract, settings.scenarios, fetch=fetch)
        return _with_warnings(project)
    project = load_project(settings.project or default_project(), settings.scenarios)
    if settings.project is not None:
        return _with_warnings(project)
    for operation in project.contract.operations.values():
        if operation.id not in project.handlers:
            _check_answer(project.contract, operation)
    return project


def _with_warnings(project: Project) -> Project:
    """Say what its contract says and is not done; whoever wrote it may not know."""
    for line in project.warnings:
        log.warning(line)
    return project


def _check_answer(contract: Contract, operation: Operation) -> None:
    """Say at start-up, not at the first request, that the contract gives no answer."""
    try:
        contract_answer(contract, operation, "start-up")
    except NoAnswerError as error:
        raise ProjectError(str(error)) from None


def _resolver(project: Project) -> Any:
    """What Connexion resolves an operationId to: its handler, or the answer from the contract."""
    handlers: Mapping[str, Any] = project.handlers
    return lambda operation_id: handlers.get(operation_id, contract_answer)


def _door(settings: Settings) -> Door:
    """A document that is served alone knows no keys, unless one was given to the server."""
    alone = settings.contract is not None
    return Door(alone=alone, anyone=alone and not settings.key_given)


def _hosts(settings: Settings, url: str) -> frozenset[str] | None:
    """The hosts to answer for. Beyond loopback there is no public key to protect: any."""
    if not settings.on_loopback:
        return None
    public = urlsplit(url).hostname
    return LOOPBACK_NAMES | {settings.host} | ({public} if public else set())
