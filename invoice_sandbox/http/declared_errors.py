"""Errors in the format that the operation declares.

A client that was generated from the document reads the errors of the document. An error is sent in
the first format of the project's conventions that the operation declares for its status. Where it
declares another one, or has an example and the project has no format of its own, the response is
the one that the document shows for the status, and the header ``X-Sandbox-Error`` names the
problem.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from msgspec import structs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.http.endpoint import Endpoint
from invoice_sandbox.http.prefer import from_contract
from invoice_sandbox.http.request import Reply, Request, ensure_id, printable
from invoice_sandbox.openapi.load.operations import named_examples
from invoice_sandbox.openapi.message.coercion import Shape
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.responses import Choice
from invoice_sandbox.project.representation import is_valid, members
from invoice_sandbox.runtime.engine import Engine

REASON: Final = "X-Sandbox-Error"
_MAX_REASON_LENGTH: Final = 1024
_INSTEAD: Final = {400: 422}
"""The statuses that documents declare for an invalid request, besides 400."""
_LOGGED: Final = frozenset({401, 429})
"""Errors whose message is the reason in the journal and the log."""


def error_reply(engine: Engine, request: Request, error: ApiError) -> Reply:
    """The response to an error, in the format of the operation or of the project."""
    endpoint, project = request.endpoint, engine.project
    below = f"{project.control.base_path}/"
    is_control = request.path.startswith(below) if endpoint is None else endpoint.is_control
    conventions = project.control_conventions if is_control else project.conventions
    url = engine.url + (project.control.base_path if is_control else "")
    ensure_id(request, project.conventions.request_id_prefix)
    message = conventions.message(error, url)
    request.error = error.type.name
    if error.status in _LOGGED or error is request.invalid:
        request.why["reason"] = message
    if endpoint is not None:
        status = declared_status(endpoint.operation, error.status)
        if status is not None:
            for media_type, body in conventions.error_bodies(error, message, request.id, status):
                if _is_declared(endpoint, status, media_type, body) and (
                    conventions.has_own_errors or not _has_example(endpoint, status, media_type)
                ):
                    return Reply(status, jsonio.dumps(body), media_type, error.headers)
            shown = _shown(engine, request, status)
            if shown is not None:
                reason = printable(message)[:_MAX_REASON_LENGTH]
                return structs.replace(
                    shown, headers=(*shown.headers, *error.headers, (REASON, reason))
                )
    media_type, body = next(conventions.error_bodies(error, message, request.id))
    return Reply(error.status, jsonio.dumps(body), media_type, error.headers)


def _shown(engine: Engine, request: Request, status: int) -> Reply | None:
    """The response that the document shows for a status, if it has a usable one."""
    workspace = request.workspace or engine.default_workspace()
    try:
        return from_contract(request, workspace, Choice(status))
    except ApiError:
        return None


def declared_status(operation: Operation, status: int) -> int | None:
    """The status to respond with, if it is declared, maybe by a range or ``default``."""
    instead = _INSTEAD.get(status)
    exact = (str(status), f"{status // 100}XX")
    if instead is not None and str(instead) in operation.responses:
        return status if any(key in operation.responses for key in exact) else instead
    return status if operation.response_for(status) is not None else None


def _is_declared(endpoint: Endpoint, status: int, media_type: str, body: Any) -> bool:
    """True if the operation declares this body: that its schema allows it is not enough, if the
    schema declares other members only."""
    response = endpoint.operation.response_for(status)
    declared = response.declared_for(media_type) if response else None
    if response is None or declared is None:
        return False
    names = _names_declared(endpoint, status, declared)
    return is_valid(response.content[declared], body) and (
        not names or not names.isdisjoint(members(body))
    )


@lru_cache(maxsize=256)
def _names_declared(endpoint: Endpoint, status: int, media_type: str) -> frozenset[str]:
    """Return the members that the schema of a response has."""
    response = endpoint.operation.response_for(status)
    schema = response.media[media_type].get("schema", True) if response else True
    return frozenset(Shape(schema, endpoint.contract.schemas).members)


def _has_example(endpoint: Endpoint, status: int, media_type: str) -> bool:
    """True if the document has an example of the response that its schema allows."""
    response = endpoint.operation.response_for(status)
    declared = response.declared_for(media_type) if response else None
    if response is None or declared is None:
        return False
    media, checker = response.media[declared], response.content[declared]
    named = (one for _, one in named_examples(endpoint.contract.document, media))
    alone = [media["example"]] if "example" in media else []
    return any(is_valid(checker, example) for example in (*named, *alone))
