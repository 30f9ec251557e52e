"""What a client prefers to be answered: ``Prefer`` (RFC 7240), in Prism's words, and ``Accept``.

``code=404`` is the declared answer of that status, ``example=NAME`` the named example, and
``dynamic=true`` an answer made for the schema where else an example would be given. The operation
is not carried out then. Preferences of other names are somebody else's and ignored.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.http import Exchange, Layer, Proceed, Reply, printable
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.openapi.responses import (
    Choice,
    ContractAnswer,
    NoResponseError,
    NotAcceptableError,
    NotOfferedError,
    contract_response,
)
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Workspace

_HEADER: Final = "prefer"
_MEMBER: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_STATUS: Final = re.compile(r"[1-5][0-9]{2}", re.ASCII)
_WITHOUT_BODY: Final = frozenset({204, 205, 304})


def prefer(engine: Engine) -> Layer:
    """Answer from the contract what the client prefers; a request must be allowed and valid first.

    The levers know no preferences.
    """

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        contract, operation = exchange.routed
        if contract is engine.project.control or exchange.header(_HEADER) is None:
            return await proceed(exchange)
        wanted = _understood(_preferences(exchange.header_values(_HEADER)))
        if not wanted:
            return await proceed(exchange)
        exchange.why["preferred"] = applied = ", ".join(f"{name}={wanted[name]}" for name in wanted)
        workspace = exchange.workspace or await engine.default_workspace()
        choice = Choice(
            status=_status(wanted["code"], tuple(operation.responses))
            if "code" in wanted
            else None,
            example=wanted.get("example"),
            dynamic="dynamic" in wanted,
        )
        reply = from_contract(exchange, workspace, choice)
        header = ("Preference-Applied", printable(applied))
        return replace(reply, headers=(*reply.headers, header))

    return layer


def from_contract(exchange: Exchange, workspace: Workspace, choice: Choice) -> Reply:
    """The answer that the contract shows for the operation, in a media type that the client takes.

    Raises ApiError 400 for a preference that the contract cannot meet, 406, and 501 when it gives
    no answer.
    """
    contract, operation = exchange.routed
    accept = ", ".join(exchange.header_values("accept")) or None
    try:
        given = contract_response(
            contract, operation, workspace.seed, replace(choice, accept=accept)
        )
    except NotOfferedError as error:
        raise _not_offered(error.problem, error.known) from None
    except NotAcceptableError as error:
        raise reject("not_acceptable", declared=", ".join(error.declared)) from None
    except NoResponseError as error:
        raise reject("no_answer", problem=str(error)) from None
    return _reply(given, {name.lower() for name, _ in exchange.reply_headers})


def _reply(given: ContractAnswer, taken: set[str]) -> Reply:
    """The answer as it goes out; what the server itself says in a header is said once."""
    headers = tuple(one for one in given.headers if one[0].lower() not in taken | _SAID_ALREADY)
    if not given.media_type or given.status in _WITHOUT_BODY:
        return Reply(given.status, headers=headers)
    body = jsonio.dumps(given.body) if is_json(given.media_type) else given.body.encode()
    return Reply(given.status, body, given.media_type, headers)


_SAID_ALREADY: Final = frozenset({"x-request-id", "x-contract-version"})


def _preferences(values: list[str]) -> dict[str, str]:
    """Preferences by name, the first of each name; parameters of a preference are left out."""
    found: dict[str, str] = {}
    for member in (one for value in values for one in _MEMBER.findall(value)):
        name, _, rest = member.partition("=")
        name, parameter, _ = name.partition(";")
        found.setdefault(name.strip().lower(), "" if parameter else _word(rest.strip()))
    return found


def _word(text: str) -> str:
    quoted = _QUOTED.match(text)
    if quoted:
        return re.sub(r"\\(.)", r"\1", quoted[1])
    return text.partition(";")[0].strip()


def _understood(preferences: dict[str, str]) -> dict[str, str]:
    """Those that say something about the answer; ``dynamic=false`` says what is so anyway."""
    wanted = {name: preferences[name] for name in ("code", "example") if preferences.get(name)}
    if preferences.get("dynamic", "false").lower() in {"true", ""}:
        wanted["dynamic"] = "true"
    return wanted


def _status(text: str, declared: tuple[str, ...]) -> int:
    if not _STATUS.fullmatch(text):
        raise _not_offered("the preferred code is not an HTTP status", declared)
    return int(text)


def _not_offered(problem: str, known: tuple[str, ...]) -> ApiError:
    listed = f"Declared: {', '.join(known)}." if known else "None is declared."
    return reject("bad_preference", problem=problem, known=listed)
