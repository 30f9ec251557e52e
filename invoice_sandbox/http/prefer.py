"""``Prefer`` (RFC 7240), as Prism spells it, and ``Accept``.

``code=404`` asks for the declared response of that status, ``example=NAME`` for the named example,
and ``dynamic=true`` for a response generated from the schema instead of an example. The operation
is not carried out then. Other preferences are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from msgspec import structs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.http.request import PREFER, Reply, Request, printable
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.openapi.responses import (
    WITHOUT_BODY,
    Choice,
    ContractResponse,
    NoResponseError,
    NotAcceptableError,
    NotOfferedError,
    contract_response,
)
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Workspace

_MEMBER: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_STATUS: Final = re.compile(r"[1-5][0-9]{2}", re.ASCII)


def preferred(engine: Engine, request: Request) -> Reply | None:
    """Return the response that the client prefers, from the contract, to a valid request.

    None: it does not prefer any. The control API has no preferences. Raises ApiError 400, 406 and
    501.
    """
    if request.target.is_control or PREFER not in request.head.first:
        return None
    found = _supported(_preferences(request.header_values(PREFER)))
    if not found:
        return None
    applied = ", ".join(f"{name}={value}" for name, value in found.items())
    request.why["preferred"] = applied
    workspace = request.workspace or engine.default_workspace()
    choice = _choice(found, tuple(request.target.operation.responses))
    reply = from_contract(request, workspace, choice)
    header = ("Preference-Applied", printable(applied))
    return structs.replace(reply, headers=(*reply.headers, header))


def _choice(preferred: dict[str, str], declared: tuple[str, ...]) -> Choice:
    return Choice(
        status=_status(preferred["code"], declared) if "code" in preferred else None,
        example=preferred.get("example"),
        dynamic="dynamic" in preferred,
    )


def from_contract(
    request: Request,
    workspace: Workspace,
    choice: Choice,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Reply:
    """The response that the contract shows for the operation, in a media type that is accepted.

    ``headers`` are added to those of the contract, or replace them.
    Raises ApiError 400 for a preference that the contract cannot meet, 406, and 501 when it shows
    no response.
    """
    accept, endpoint = request.accept or None, request.target
    try:
        given = contract_response(
            endpoint.contract, endpoint.operation, workspace.seed, replace(choice, accept=accept)
        )
    except NotOfferedError as error:
        raise _not_offered(error.problem, error.known) from None
    except NotAcceptableError as error:
        raise reject("not_acceptable", declared=", ".join(error.declared)) from None
    except NoResponseError as error:
        raise reject("no_usable_response", problem=str(error)) from None
    if given.hints:
        why = request.why
        why["hints"] = [*why.get("hints", ()), *given.hints]
    names = {name.lower() for name in headers}
    shown = (header for header in given.headers if header[0].lower() not in names)
    return reply_of(replace(given, headers=(*shown, *headers.items())), request)


def reply_of(given: ContractResponse, request: Request) -> Reply:
    """The response as it goes out, without headers that the server itself sets."""
    taken = {name.lower() for name, _ in request.headers}
    headers = tuple(
        header for header in given.headers if header[0].lower() not in taken | _SET_BY_EDGE
    )
    if not given.media_type or given.status in WITHOUT_BODY:
        return Reply(given.status, headers=headers)
    body = jsonio.dumps(given.body) if is_json(given.media_type) else given.body.encode()
    return Reply(given.status, body, given.media_type, headers)


_SET_BY_EDGE: Final = frozenset({"x-request-id", "x-contract-version"})


def _preferences(values: list[str]) -> dict[str, str]:
    """Preferences by name, the first of each name; parameters of a preference are left out."""
    found: dict[str, str] = {}
    for member in (found for value in values for found in _MEMBER.findall(value)):
        name, _, rest = member.partition("=")
        name, parameter, _ = name.partition(";")
        found.setdefault(name.strip().lower(), "" if parameter else _word(rest.strip()))
    return found


def _word(text: str) -> str:
    quoted = _QUOTED.match(text)
    if quoted:
        return re.sub(r"\\(.)", r"\1", quoted[1])
    return text.partition(";")[0].strip()


def _supported(preferences: dict[str, str]) -> dict[str, str]:
    """Return the preferences about the response; ``dynamic=false`` is the default."""
    supported = {name: preferences[name] for name in ("code", "example") if preferences.get(name)}
    if preferences.get("dynamic", "false").lower() in {"true", ""}:
        supported["dynamic"] = "true"
    return supported


def _status(text: str, declared: tuple[str, ...]) -> int:
    if not _STATUS.fullmatch(text):
        raise _not_offered("the preferred code is not an HTTP status", declared)
    return int(text)


def _not_offered(problem: str, known: tuple[str, ...]) -> ApiError:
    listed = f"Declared: {', '.join(known)}." if known else "None is declared."
    return reject("bad_preference", problem=problem, known=listed)
