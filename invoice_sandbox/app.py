"""The composition root: every collaborator is made here and handed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from invoice_sandbox.agenda import Agenda, RunStep
from invoice_sandbox.clock import SystemWall, Wall
from invoice_sandbox.connexion_31 import Router
from invoice_sandbox.contract.answers import NoAnswerError, contract_answer
from invoice_sandbox.contract.operations import Contract, Operation
from invoice_sandbox.credentials import DEMO_KEY
from invoice_sandbox.handling import Origin, Step
from invoice_sandbox.pages import DOCS, docs_app
from invoice_sandbox.pipeline import Exchange, Proceed, Receive, Scope, Send, compose
from invoice_sandbox.pipeline.access import authenticate, check_scope, guard_sessions
from invoice_sandbox.pipeline.answering import Surroundings, answer, note_refusals
from invoice_sandbox.pipeline.documents import serve_documents
from invoice_sandbox.pipeline.envelope import envelope
from invoice_sandbox.pipeline.origin import LOOPBACK_NAMES, guard_origin
from invoice_sandbox.pipeline.pages import ASGIApplication, serve_pages
from invoice_sandbox.pipeline.reading import ClientGoneError, read_body
from invoice_sandbox.pipeline.routing import route
from invoice_sandbox.pipeline.validation import check_request
from invoice_sandbox.project import (
    Project,
    ProjectError,
    default_project,
    load_contract_alone,
    load_project,
)
from invoice_sandbox.rate_limit import RateLimiter
from invoice_sandbox.settings import Settings, check_scenario
from invoice_sandbox.store import ScheduledStep, Store, Transaction, Workspace
from invoice_sandbox.store.memory import MemoryStore
from invoice_sandbox.workspaces import create_workspace


@dataclass(frozen=True)
class Sandbox:
    """A sandbox ready to be served: an ASGI application and what stands behind it."""

    proceed: Proceed
    store: Store
    project: Project
    wall: Wall
    workspace: Workspace
    agenda: Agenda

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry: HTTP requests, and the server's start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await _answer(self.proceed, scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                self.agenda.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def new_workspace(self, key: str, seed: int | None = None) -> Workspace:
        """Add another workspace, on the first one's clock, that ``key`` opens."""
        return await create_workspace(
            self.store,
            self.project,
            self.wall,
            key=key,
            seed=seed,
            clock=self.workspace.clock,
            scenario=self.workspace.scenario,
        )


async def create_app(settings: Settings, *, url: str, wall: Wall | None = None) -> Sandbox:
    """Compile the contract, fill the first workspace, and lay out the way of a request.

    ``url`` is the address that clients reach the sandbox by. Raises ProjectError, SettingError.
    """
    project = _load(settings)
    if project.scenarios or settings.scenario != "manual":
        check_scenario(settings.scenario, project.scenarios)
    wall = wall or SystemWall()
    store = MemoryStore()
    workspace = await create_workspace(
        store,
        project,
        wall,
        key=settings.key,
        seed=settings.seed,
        clock=settings.clock,
        scenario=settings.scenario,
    )
    agenda = Agenda(store, wall, _step_runner(project))
    around = Surroundings(store, wall, agenda, project, workspace.id, url, settings.on_loopback)
    limiter = RateLimiter(settings.rate_limit, wall) if settings.rate_limit else None
    proceed = compose(
        [
            envelope(wall, project.contract.version, url),
            guard_origin(_hosts(settings, url)),
            serve_documents(_documents(project), url),
            serve_pages(DOCS, lambda: _docs(project, settings, url)),
            route(Router(_contracts(project), _resolver(project))),
            read_body,
            authenticate(store, wall, limiter, limited=project.contract),
            note_refusals(around),
            guard_sessions(url),
            check_scope,
            check_request,
            answer(around),
        ]
    )
    return Sandbox(proceed, store, project, wall, workspace, agenda)


def _documents(project: Project) -> dict[str, Contract]:
    """Where which contract is served: ours at the root, the levers where they live."""
    documents = {"": project.contract}
    if project.levers is not None:
        documents[project.levers.base_path] = project.levers
    return documents


def _contracts(project: Project) -> list[Contract]:
    return [project.contract] if project.levers is None else [project.contract, project.levers]


def _docs(project: Project, settings: Settings, url: str) -> ASGIApplication:
    is_demo = settings.on_loopback and settings.key == DEMO_KEY
    contracts = [
        (str(contract.document["info"]["title"]), f"{prefix}/openapi.json")
        for prefix, contract in _documents(project).items()
    ]
    return docs_app(contracts, DEMO_KEY if is_demo else None, url)


def _step_runner(project: Project) -> RunStep:
    """How a scheduled step is done: by the project's action of its name."""

    async def run(state: Transaction, workspace: Workspace, step: ScheduledStep) -> None:
        await project.actions[step.action](
            Step(
                state=state,
                workspace=workspace,
                now=step.due,
                origin=Origin("system", None),
                contract=project.contract,
                lifecycle=project.lifecycle,
                arguments=step.arguments,
            )
        )

    return run


def _load(settings: Settings) -> Project:
    if settings.contract:
        project = load_contract_alone(settings.contract)
    else:
        project = load_project(settings.project or default_project())
    for operation in project.contract.operations.values():
        if operation.id not in project.handlers:
            _check_answer(project.contract, operation)
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


def _hosts(settings: Settings, url: str) -> frozenset[str] | None:
    """The hosts to answer for. Beyond loopback there is no public key to protect: any."""
    if not settings.on_loopback:
        return None
    public = urlsplit(url).hostname
    return LOOPBACK_NAMES | {settings.host} | ({public} if public else set())


async def _answer(proceed: Proceed, scope: Scope, receive: Receive, send: Send) -> None:
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
    )
    try:
        reply = await proceed(Exchange(scope, receive, headers))
    except ClientGoneError:
        return
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers]
    if reply.body:
        raw.append((b"content-type", reply.media_type.encode("latin-1")))
    if reply.status not in {204, 304}:
        raw.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})
    body = b"" if scope["method"] == "HEAD" else reply.body
    await send({"type": "http.response.body", "body": body})
