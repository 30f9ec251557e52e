"""A request, from its route to its journal entry. Start reading here.

Connexion has found what a request is for (``routing``) and hands it to ``asgi``, which waits for
whatever has to be waited for, and calls ``respond``. Nothing in here waits: a response is made in
one go, in one transaction, or it is a Later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.http import idempotency
from invoice_sandbox.http.admit import admit
from invoice_sandbox.http.call import (
    ContractViolationError,
    call_of,
    check_error,
    checked,
    control_call_of,
    do_steps,
    explain,
    explain_scenario,
    note_use,
    workspace_of,
)
from invoice_sandbox.http.declared_errors import error_reply
from invoice_sandbox.http.endpoint import Endpoint
from invoice_sandbox.http.faults import Outcome, after, before, choose_fault, named_scenario
from invoice_sandbox.http.idempotency import IdempotencyKey
from invoice_sandbox.http.journaling import FAILURE, recorded
from invoice_sandbox.http.prefer import from_contract, preferred
from invoice_sandbox.http.read import read, receive_body
from invoice_sandbox.http.request import Inputs, Reply, Request, ensure_id
from invoice_sandbox.openapi.responses import USUAL
from invoice_sandbox.project.api import Call, DeliverThenRespond, Handler, Response, WorkThenRespond
from invoice_sandbox.project.code import place_of_error
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Fault, NoWorkspaceError, Transaction

log = logging.getLogger("invoice_sandbox")


def respond(engine: Engine, request: Request, go_on: Callable[[], Outcome]) -> Reply | Later:
    """Return the response to a request, recorded in the journal; or what has to be waited for.

    Whatever goes wrong is an error in the format of the operation, or of the project.
    """
    try:
        outcome = go_on()
    except ApiError as error:
        outcome = error
    except NoWorkspaceError:  # it was deleted meanwhile
        outcome = reject("bad_credential")
    except Exception as error:
        outcome = internal_error(engine, request, error)
    if isinstance(outcome, Later):
        return outcome
    if isinstance(outcome, ApiError):
        with suppress(ApiError, NoWorkspaceError):
            _report_forbidden(engine, request, outcome)
        outcome = error_reply(engine, request, outcome)
    return recorded(engine, request, outcome)


def admitted(engine: Engine, request: Request) -> Outcome:
    """Admit the caller of a routed request, and carry it out, once its body is there."""
    admit(engine, request)
    ensure_id(request, engine.project.conventions.request_id_prefix)
    if request.target.operation.body is None:
        return carry_out(engine, request)
    receive = partial(receive_body, engine.bodies_in_flight, request)
    return Later(receive, lambda _: carry_out(engine, request))


def carry_out(engine: Engine, request: Request, *, with_faults: bool = True) -> Outcome:
    """Carry out an admitted request in one transaction: due steps, fault, and what it asks for."""
    if request.target.is_control_function:
        return _control(engine, request)
    named_scenario(engine, request)
    workspace, request.begun = workspace_of(engine, request), engine.system_clock.now()
    with engine.store.transaction(workspace.id) as state:
        done = engine.agenda.run_due(state, real=request.begun)
        if done and engine.agenda.must_wait(state, done):
            again = partial(carry_out, engine, request, with_faults=with_faults)
            catch_up = partial(engine.agenda.catch_up, workspace.id)
            outcome: Outcome = Later(catch_up, lambda _: again())
        else:
            fault = choose_fault(request, state) if with_faults else None
            outcome = _with_fault(engine, request, state, fault)
            done += engine.agenda.run_due(state, real=request.begun)
    engine.agenda.settle(state, done)
    return outcome


def _with_fault(
    engine: Engine, request: Request, state: Transaction, fault: Fault | None
) -> Outcome:
    """Respond to a request, or do what a fault does before it, or instead."""
    again = partial(carry_out, engine, request, with_faults=False)
    try:
        outcome = before(engine, request, fault, again)
        if outcome is None:
            outcome = after(engine, request, fault, _response(engine, request, state))
    except ApiError as error:  # of the response that stands for another one
        return error
    return outcome


def _response(engine: Engine, request: Request, state: Transaction) -> Outcome:
    """Read a request; return its kept response, the preferred one, or that of its handler."""
    try:
        inputs = read(request)
        call = call_of(engine, request, inputs, state)
        key = idempotency.key_of(request, inputs)
        earlier = idempotency.kept(request, call, key) or preferred(engine, request)
        handler = request.target.function
        if handler is None:
            return earlier or from_contract(request, call.workspace, USUAL)
    except ApiError as error:
        return error
    if earlier is not None:
        return earlier
    note_use(engine, state, request, call.now)
    outcome = _handled(engine, request, call, handler)
    if isinstance(outcome, Later):
        return _reserved(engine, request, call, key, outcome)
    idempotency.keep(call, key, outcome)
    return outcome


def _handled(engine: Engine, request: Request, call: Call, handler: Handler) -> Outcome:
    """Return what a handler responds, checked. What it changed is undone if it raises an error."""
    try:
        with call.state.attempt():
            if not request.target.is_control:
                do_steps(engine, call)
            result = handler(call)
            if isinstance(result, ApiError):
                check_error(call.operation, result)
                return result
            if isinstance(result, DeliverThenRespond):
                work = partial(engine.agenda.finish, call.workspace.id, result.lane)
                return Later(work, lambda _: result.then)
            if isinstance(result, WorkThenRespond):
                return Later(result.work, lambda found: partial(_with, result.then, found))
            given = result if isinstance(result, Response) else Response(result)
            explain(request, call, given)
            return checked(request.target, given)
    except ApiError as error:
        check_error(call.operation, error)
        explain_scenario(request, call, {})
        if "legal" in error.values:
            request.why["next"] = error.values["legal"]
        return error


def _with(then: Callable[[Call, Any], Any], result: Any, call: Call) -> Any:
    return then(call, result)


def _reserved(
    engine: Engine, request: Request, call: Call, key: IdempotencyKey | None, later: Later
) -> Later:
    """Return what a handler waits for, and then its second half, in a transaction of its own.

    Meanwhile the same request is rejected.
    """
    workspace_id, inputs = call.workspace.id, Inputs(call.path, call.query, call.body)
    inputs = replace(inputs, media_type=call.media_type)
    idempotency.reserve(call, key)

    def complete(result: Any) -> Outcome:
        try:
            return second_half(result)
        except BaseException:
            undo()
            raise

    def second_half(result: Any) -> Outcome:
        with engine.store.transaction(workspace_id) as state:
            request.begun = engine.system_clock.now()
            again = call_of(engine, request, inputs, state)
            outcome = _handled(engine, request, again, later.then(result))
            if isinstance(outcome, Later):
                raise TypeError("a handler that responds later cannot ask for more")
            idempotency.keep(again, key, outcome)
            done = engine.agenda.run_due(state)
        engine.agenda.settle(state, done)
        return outcome

    def undo() -> None:
        gone = suppress(ApiError, NoWorkspaceError)
        with gone, engine.store.transaction(workspace_id) as state:
            idempotency.release(state, key)

    return Later(later.work, complete, undo)


def _control(engine: Engine, request: Request) -> Outcome:
    """Return what a function of the control API responds. Raises ApiError."""
    endpoint, inputs = request.target, read(request)
    assert endpoint.function is not None  # noqa: S101  it is one of the control API
    return _checked(endpoint, partial(endpoint.function, control_call_of(engine, request, inputs)))


def _checked(endpoint: Endpoint, function: Callable[[], Any]) -> Outcome:
    """Return what a function returns, checked; or what it waits for."""
    try:
        result = function()
    except ApiError as error:
        check_error(endpoint.operation, error)
        return error
    if isinstance(result, Later):
        then = partial(_checked_then, endpoint, result.then)
        return Later(result.work, then, result.undo)
    return checked(endpoint, result)


def _checked_then(endpoint: Endpoint, then: Callable[[Any], Any], found: Any) -> Outcome:
    return _checked(endpoint, partial(then, found))


def _report_forbidden(engine: Engine, request: Request, error: ApiError) -> None:
    """Call the project's hook for a known caller that may not do what it asks for (403)."""
    hook, workspace = engine.project.hooks.on_forbidden, request.workspace
    if hook is None or error.status != HTTPStatus.FORBIDDEN or workspace is None:
        return
    with engine.store.transaction(workspace.id) as state:
        hook(call_of(engine, request, Inputs({}, {}), state), error)


def internal_error(engine: Engine, request: Request, error: Exception) -> ApiError:
    """Return the error of what must not happen; the log and the journal have the reason.

    That is the part of the contract, or the type of an exception and where it was raised. Its
    message may have values of the request.
    """
    ensure_id(request, engine.project.conventions.request_id_prefix)
    log.error("%s: no response could be given", request.id, exc_info=error)
    if isinstance(error, ContractViolationError):
        reason = f"the response is not what the contract declares: {error}"
    else:
        place = place_of_error(error) or "no place in the project"
        reason = f"{type(error).__name__} at {place}"
    request.why[FAILURE] = reason
    return reject("internal_error")
