"""Stage 4, inject: a scenario for one request, and faults before or after it is carried out.

The contract is not consulted for an injected response.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from msgspec import structs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError, ErrorType
from invoice_sandbox.http.pipeline import (
    SCENARIO,
    AdmittedRequest,
    CarryOut,
    InjectedFault,
    Reply,
    Request,
)
from invoice_sandbox.http.prefer import from_contract, reply_of
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.responses import WITHOUT_BODY, Choice, given_response
from invoice_sandbox.project.conventions import Conventions
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.scenarios.faults import REPLACE_RESPONSE, delay_seconds, select_fault
from invoice_sandbox.scenarios.library import faults_of
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.state import Fault, Workspace

_CHALLENGE: Final = (("WWW-Authenticate", 'Bearer realm="sandbox"'),)
_HTML: Final = "<!doctype html><title>{status}</title><h1>Error {status}</h1><p>{text}</p>\n"
"""What a gateway returns that is no part of the API."""

_INJECTED: Final = "The fault {id} injected this response"
_ADVICE: Final = "Remove it, or wait and try again."


class Inject:
    """Finds the scenario that a request names, and injects the first fault that matches it.

    The pipeline calls it for the project's operations only: the control API has neither of both.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, admitted: AdmittedRequest, proceed: CarryOut) -> Reply:
        """The injected response, or that of the stages behind. Raises ApiError 400."""
        is_named, workspace = SCENARIO in admitted.request.head.first, admitted.workspace
        scenario = self._named(admitted) if is_named else None
        if workspace is None or not (workspace.faults or scenario):
            return await proceed(admitted, scenario)
        fault = self._select(workspace, admitted.endpoint.operation, scenario)
        if fault is None:
            return await proceed(admitted, scenario)
        admitted.request.trace.why["fault"] = f"{fault.id} {fault.kind}"
        injection = _Injection(self._engine, admitted, fault, workspace)
        inject = injection.after if fault.when == "after" else injection.before
        return await inject(lambda: proceed(admitted, scenario))

    def _named(self, admitted: AdmittedRequest) -> Scenario:
        name = admitted.request.head.first[SCENARIO]
        scenario = self._engine.project.scenario(name, "X-Sandbox-Scenario")
        admitted.request.trace.scenario = scenario
        return scenario

    def _select(
        self, workspace: Workspace, operation: Operation, named: Scenario | None
    ) -> Fault | None:
        """The fault to inject. A scenario adds its faults when it is named for the first time."""
        with self._engine.store.transaction(workspace.id) as state:
            current = state.workspace()
            if named is not None and named.name not in {current.scenario, *current.named}:
                faults = (*current.faults, *faults_of(named, only_named=True))
                current = replace(current, faults=faults, named=(*current.named, named.name))
                state.change_workspace(current)
            selected = select_fault(current, operation, named.name if named else None)
            if selected.faults != current.faults:
                state.change_workspace(replace(current, faults=selected.faults))
        return selected.fault


@dataclass(frozen=True)
class _Injection:
    """One fault in one request."""

    engine: Engine
    admitted: AdmittedRequest
    fault: Fault
    workspace: Workspace

    async def before(self, proceed: Callable[[], Awaitable[Reply]]) -> Reply:
        """Take effect before the request is carried out, or instead."""
        if self.fault.kind == "latency":
            await self._delay()
            return await proceed()
        if self.fault.kind in REPLACE_RESPONSE:
            return self._replacement()
        self._alter()
        return Reply(503)  # a reset: nothing of it is sent

    async def after(self, proceed: Callable[[], Awaitable[Reply]]) -> Reply:
        """Take effect on the response, whether it is a success or an error."""
        if self.fault.patch is not None:
            return _patched(await proceed(), self.fault.patch)
        if self.fault.kind not in REPLACE_RESPONSE and self.fault.kind != "latency":
            self._alter()
            return await proceed()
        try:
            reply = await proceed()
        except ApiError:
            if self.fault.kind != "latency":
                return self._replacement()
            await self._delay()
            raise
        if self.fault.kind != "latency":
            return self._replacement()
        await self._delay()
        return reply

    def _replacement(self) -> Reply:
        request = self.admitted.request
        if self.fault.kind == "response":
            return _stubbed(self.admitted, self.fault, self.workspace)
        return _injected(self.engine.project.conventions, request, self.fault)

    def _alter(self) -> None:
        seconds = delay_seconds(self.workspace, self.fault)
        self.admitted.request.trace.injected_fault = InjectedFault(self.fault.kind, seconds)

    async def _delay(self) -> None:
        seconds = delay_seconds(self.workspace, self.fault)
        await self.engine.system_clock.sleep(seconds)


def _patched(reply: Reply, patch: Mapping[str, Any]) -> Reply:
    """The response with ``patch`` merged into its JSON object; other bodies are not changed."""
    if not reply.body or not is_json(reply.media_type.partition(";")[0]):
        return reply
    return structs.replace(
        reply, body=jsonio.dumps(jsonio.merge_patch(jsonio.loads(reply.body), patch))
    )


def _stubbed(admitted: AdmittedRequest, fault: Fault, workspace: Workspace) -> Reply:
    """The response that the fault was given, else that of the contract."""
    request, endpoint = admitted.request, admitted.endpoint
    stub = jsonio.loads(fault.stub.encode()) if fault.stub else {}
    headers = stub.get("headers", {})
    if "body" in stub:
        given = given_response(
            endpoint.contract,
            endpoint.operation,
            workspace.seed,
            fault.status,
            stub["body"],
            headers,
        )
        return reply_of(given, request)
    return from_contract(request, endpoint, workspace, Choice(fault.status), headers)


def _injected(conventions: Conventions, request: Request, fault: Fault) -> Reply:
    status = fault.status or 503
    headers = _CHALLENGE if status == HTTPStatus.UNAUTHORIZED else ()
    if fault.retry_after is not None:
        headers = (*headers, ("Retry-After", str(math.ceil(fault.retry_after))))
    if status in WITHOUT_BODY:
        return Reply(status)
    if fault.kind == "html":
        text = _HTML.format(status=status, text=_INJECTED.format(id=fault.id))
        return Reply(status, text.encode(), "text/html; charset=utf-8", headers)
    if status < 400:
        return Reply(status, jsonio.dumps(conventions.success_body({})), headers=headers)
    error = ApiError(ErrorType("injected", status, _INJECTED, _ADVICE), {"id": fault.id})
    media_type, body = next(conventions.error_bodies(error, request.trace.request_id))
    return Reply(status, jsonio.dumps(body), media_type, headers)
