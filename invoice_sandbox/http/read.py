"""Reading: the body in bytes, then the parameters and the body as the contract declares them.

The order of checks is path, declared length of the body, credentials. A body is received after
admission, and not at all if the contract declares none.
"""

from __future__ import annotations

from asyncio import get_running_loop, timeout, wait_for
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from itertools import islice
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote_plus, unquote_to_bytes

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError, InputProblem, InputProblems, reject, reject_inputs
from invoice_sandbox.http.request import ClientGoneError, Inputs, Request
from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.message.bodies import Form, RequestBody
from invoice_sandbox.openapi.message.coercion import MAX_UNDECLARED, Shape, advice, read_text
from invoice_sandbox.openapi.message.media_types import (
    MULTIPART,
    MediaType,
    is_json,
    is_text,
    parse,
)
from invoice_sandbox.openapi.message.multipart import FormError
from invoice_sandbox.openapi.message.parameters import Parameter
from invoice_sandbox.openapi.message.styles import Given, Pair
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.schema.compile import MAX_PROBLEMS
from invoice_sandbox.openapi.schema.problems import Problem, short_name

BODIES_IN_FLIGHT: Final = 64 * 1024 * 1024
BODIES_OF_AN_ADDRESS: Final = 48 * 1024 * 1024
BODIES_OF_A_WORKSPACE: Final = 16 * 1024 * 1024
"""Bytes of bodies that are being received or handled at a time."""

MAX_PARSED: Final = 2 * 1024 * 1024
"""Bytes of a body that is parsed in one piece, while others wait."""

MAX_DRAINED_BYTES: Final = 1024 * 1024
_DRAIN_TIMEOUT: Final = 0.25
"""Limits of a too large body that is read and dropped: bytes, and seconds between parts."""

MAX_PAUSE: Final = 30
MAX_SECONDS: Final = 300
"""Seconds that the server waits for a part of a body, and for all of it."""


def too_slow(seconds: float) -> ApiError:
    """408: the client took more than ``seconds`` for its request. The connection ends with it."""
    return reject("too_slow", ("Connection", "close"), seconds=f"{seconds:g}")


def check_length(request: Request) -> bool:
    """Return False for a body that declares a length beyond the limit."""
    body, declared = request.target.operation.body, request.header("content-length")
    if body is None or declared is None or not declared.isdigit():
        return True
    return int(declared) <= body.limit


async def reject_length(request: Request) -> ApiError:
    """Return the error of a body that declares a length beyond the limit."""
    body = request.target.operation.body
    return await _too_large(request, 0 if body is None else body.limit)


async def receive_body(in_flight: Counter[str], request: Request) -> None:
    """Receive the whole body, whether it comes with a length or in chunks.

    Bodies share a number of bytes, which are counted ``in_flight`` until ``forget_body``.
    Raises ApiError 408, 413 and 503, ClientGoneError.
    """
    declared = request.target.operation.body
    limit = declared.limit if declared is not None else 0
    parts, most, clock = [], _most(request), get_running_loop().time
    request.shares = tuple(most)
    end = clock() + MAX_SECONDS
    try:
        async with timeout(MAX_PAUSE) as pause:
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                part, more = message.get("body", b""), message.get("more_body", False)
                if request.held + len(part) > limit:
                    raise await _too_large(request, limit)
                if any(in_flight[name] + len(part) > bytes_ for name, bytes_ in most.items()):
                    raise reject("busy", ("Retry-After", "1"))
                for name in most:
                    in_flight[name] += len(part)
                request.held += len(part)
                parts.append(part)
                if more:
                    pause.reschedule(min(clock() + MAX_PAUSE, end))
    except TimeoutError:
        raise too_slow(MAX_SECONDS if clock() >= end else MAX_PAUSE) from None
    request.content = b"".join(parts)


def forget_body(in_flight: Counter[str], request: Request) -> None:
    """Give back the bytes that a body took."""
    for name in request.shares:
        in_flight[name] -= request.held
        if not in_flight[name]:
            del in_flight[name]


def _most(request: Request) -> dict[str, int]:
    """Return the most bytes in flight of all, and of those with the same address or workspace."""
    most = {"all": BODIES_IN_FLIGHT, f"address {request.address}": BODIES_OF_AN_ADDRESS}
    if request.workspace is not None:
        most[f"workspace {request.workspace.id}"] = BODIES_OF_A_WORKSPACE
    return most


async def _too_large(request: Request, limit: int) -> ApiError:
    """The error, once what the client is still sending was read, within bounds.

    Otherwise the connection would be reset while it sends, and it would never read why. A client
    that waits for permission to send (``Expect``) gets the error at once.
    """
    ignored = 0
    with suppress(TimeoutError):
        while ignored < MAX_DRAINED_BYTES and not request.header("expect"):
            message = await wait_for(request.receive(), _DRAIN_TIMEOUT)
            ignored += len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                break
    return reject("too_large", limit=limit)


_BODY: Final = "the body"
_UTF_8: Final = frozenset({"", "utf-8", "utf8"})


class _Wrong(NamedTuple):
    """A parameter with a problem, and what that is about."""

    parameter: Parameter
    problem: InputProblem
    label: str


@dataclass(frozen=True)
class _BodyType:
    """The reading of a body. ``declared`` is the media type, or range, that it falls under."""

    name: str
    declared: str | None
    format: Literal["json", "form", "text", "bytes"]


def read(request: Request) -> Inputs:
    """Return the parameters and the body of a request. Raises ApiError 400 and 415."""
    endpoint = request.target
    reading, declared = endpoint.reading, endpoint.operation.body
    path, query = _parameters(request)
    if "query" not in reading.locations and request.scope["query_string"]:
        with suppress(ApiError):  # one that nobody reads may be anything
            _explain_query(request, [name for name, _ in _pairs(request)])
    if declared is None:
        return Inputs(path, query)
    return Inputs(path, query, *_body(request, declared))


def _explain_query(request: Request, names: Iterable[str]) -> None:
    """Name the first query parameters that the operation does not declare."""
    endpoint = request.target
    declared, schemes = endpoint.reading.query or (), endpoint.contract.schemes.values()
    known = {*declared, *(scheme.name for scheme in schemes if scheme.location == "query")}
    unknown = (name for name in dict.fromkeys(names) if name.partition("[")[0] not in known)
    hints = [
        _hint("query parameter", name, advice(name, tuple(sorted(declared))))
        for name in islice(unknown, MAX_UNDECLARED)
    ]
    if hints:
        request.why["hints"] = hints


def _parameters(request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return those of the path and of the query. Raises ApiError 400."""
    endpoint = request.target
    operation, reading = endpoint.operation, endpoint.reading
    given = {name: Given(list(_sent(request, name))) for name in reading.locations}
    sent = given["query"].texts if "query" in given else {}
    if reading.query is not None and sent.keys() - reading.query:
        _explain_query(request, sent)
    values: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "cookie": {}}
    missing: list[_Wrong] = []
    problems: list[_Wrong] = []
    for parameter in operation.parameters:
        source = given[parameter.location]
        found = parameter.find(source) if source.pairs else None
        if found is None:
            if parameter.required:
                lack = InputProblem("is required", is_missing=True)
                missing.append(_Wrong(parameter, lack, parameter.name))
        elif found.problem is not None:
            problems.append(_Wrong(parameter, found.problem, found.label))
        else:
            values[parameter.location][parameter.name] = found.value
    if missing or problems:
        raise _bad_parameters(request, missing + problems)
    return values["path"], values["query"]


def _bad_parameters(request: Request, wrong: list[_Wrong]) -> ApiError:
    if wrong[0].parameter.schema_pointer:
        request.why["schemaPath"] = wrong[0].parameter.schema_pointer
    count = len(wrong)
    del wrong[MAX_PROBLEMS:]
    request.why["problems"] = [
        {"pointer": "", "problem": f"{found.label} {found.problem.text}"} for found in wrong
    ]
    inputs = InputProblems(tuple(found.problem for found in wrong), count)
    return reject_inputs("bad_parameter", inputs, [found.label for found in wrong])


def _body(request: Request, body: RequestBody) -> tuple[Any, str]:
    """Return the value of a body, and its media type."""
    content, content_type = request.content, request.header("content-type") or ""
    given = _body_type(body, content_type)
    is_named = bool(content_type) and given.declared is not None
    is_empty_file = is_named and given.format != "json"
    if not content and not is_empty_file:
        if body.required:
            raise reject("missing_body", declared=" or ".join(body.checkers))
        return None, given.name
    if given.declared is None:
        raise _unsupported(body)
    if given.format == "bytes":
        return content, given.name
    if len(content) > MAX_PARSED and given.name != MULTIPART:
        raise reject("too_large", limit=MAX_PARSED)
    if given.format == "json":
        value = _json(content, request.header("content-encoding"))
        request.is_json = True
    elif given.format == "form":
        value = _form(body.forms[given.declared, given.name], content, content_type)
    else:
        value = read_text(_text(content), body.texts[given.declared].types)
    _check(request, value, body, given.declared)
    return value, given.name


def _check(request: Request, value: Any, body: RequestBody, declared: str) -> None:
    why, checker, shape = request.why, body.checkers[declared], body.texts.get(declared)
    hints: list[str] = []
    if shape is not None and not _is_declared(value, shape):
        undeclared = shape.undeclared(value)
        hints = [_hint("member", name, text) for name, text in undeclared.items()]
        why.update({"hints": [*why.get("hints", ()), *hints]} if hints else {})
    if checker.is_valid(value):
        return
    operation = request.target.operation
    found, count = checker.explain(value)
    problems = [
        replace(problem, typed="") if _is_secret(operation, problem) else problem
        for problem in found
    ]
    why["schemaPath"] = _in_contract(operation, problems[0].schema_path, declared)
    why["problems"] = [
        {"pointer": problem.pointer, "problem": problem.clause} for problem in problems
    ]
    hint = next(iter(hints), "")
    listed = [
        InputProblem(hint, is_sentence=True)
        if hint and problem.is_undeclared and not problem.member
        else InputProblem(problem.text, problem.is_missing)
        for problem in problems
    ]
    labels = [problem.label(_BODY) for problem in problems]
    is_named = any(problem.is_sentence for problem in listed)
    if hint and not is_named and listed[0].is_missing:  # it may be what is missing, misspelt
        listed, labels, count = (
            [*listed, InputProblem(hint, is_sentence=True)],
            [*labels, ""],
            count + 1,
        )
    raise reject_inputs("schema_violated", InputProblems(tuple(listed), count), labels)


def _is_secret(operation: Operation, problem: Problem) -> bool:
    names = {short_name(name) for name in operation.secrets}
    steps = [step.replace("~1", "/").replace("~0", "~") for step in problem.pointer.split("/")[1:]]
    return operation.is_secret or not names.isdisjoint(steps)


def _in_contract(operation: Operation, schema_path: str, declared: str) -> str:
    """Return a pointer into the contract: a schema that is no component is in the operation."""
    if schema_path.startswith("/components/"):
        return schema_path
    place = ["paths", operation.path, operation.method.lower(), "requestBody", "content"]
    return pointer_text([*place, declared, "schema"]) + schema_path


def _body_type(body: RequestBody, content_type: str) -> _BodyType:
    """Return how a body of this ``Content-Type`` is read; not as text unless in UTF-8."""
    given = parse(content_type)
    if given.charset not in _UTF_8:
        given = MediaType("")
    declared = body.declared_for(given)
    if is_json(given.name):
        return _BodyType(given.name, declared, "json")
    if (declared, given.name) in body.forms:
        return _BodyType(given.name, declared, "form")
    is_read = is_text(given.name) and declared in body.texts
    return _BodyType(given.name, declared, "text" if is_read else "bytes")


def _sent(request: Request, location: str) -> Iterable[Pair]:
    """Return what was sent in a location: names decoded, values of the query as they were sent."""
    if location == "path":
        return request.path_texts.items()
    if location == "query":
        return _pairs(request) if request.scope["query_string"] else ()
    return _headers(request) if location == "header" else _cookies(request)


def _pairs(request: Request) -> Iterator[Pair]:
    try:
        text = request.scope["query_string"].decode("ascii")
        if "%" in text:
            unquote_to_bytes(text).decode()
    except ValueError:
        raise reject("bad_parameter", problems="the query string is not valid UTF-8") from None
    for pair in text.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            yield unquote_plus(name), value


def _headers(request: Request) -> Iterator[Pair]:
    """Return the headers, under the names that the operation gives them."""
    names = request.target.reading.headers
    for name, text in request.head.headers:
        if name in names:
            yield names[name], text


def _cookies(request: Request) -> Iterator[Pair]:
    """Return the cookies; an exploded list or object consists of several."""
    header = "; ".join(request.header_values("cookie"))
    if request.target.reading.has_cookie_lists:
        for pair in header.replace("&", ";").split(";"):
            name, _, text = pair.strip().partition("=")
            yield name, text
        return
    try:
        cookies = SimpleCookie(header)
    except CookieError:
        return
    for name, morsel in cookies.items():
        yield name, morsel.value


def _json(raw: bytes, encoding: str | None) -> Any:
    try:
        return jsonio.loads(raw, jsonio.MAX_SENT_DEPTH)
    except jsonio.JsonError as error:
        is_encoded = (encoding or _IDENTITY).strip().lower() != _IDENTITY
        cause = ", and Content-Encoding is not decoded here" if is_encoded else ""
        raise reject("malformed_json", reason=f"{error}{cause}") from None


_IDENTITY: Final = "identity"
"""The Content-Encoding of what is not encoded."""


def _form(form: Form, content: bytes, content_type: str) -> Any:
    try:
        return form.read(content, content_type)
    except FormError as error:
        raise reject("schema_violated", problems=str(error)) from None


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise reject("schema_violated", problems=f"{_BODY} is not valid UTF-8") from None


def _unsupported(body: RequestBody) -> ApiError:
    if all(map(is_json, body.checkers)):
        ways = [f"'Content-Type: {media_type}'" for media_type in body.checkers]
        return reject("not_json", ways=" or ".join(ways))
    return reject("media_type", declared=", ".join(body.checkers))


def _is_declared(value: Any, shape: Shape) -> bool:
    """True if it can be seen at once that an object has no undeclared member."""
    return (
        isinstance(value, dict)
        and value.keys() <= shape.members.keys()
        and _CONTAINERS.isdisjoint(map(type, value.values()))
    )


_CONTAINERS: Final[frozenset[type]] = frozenset({dict, list})


def _hint(what: str, name: str, text: str) -> str:
    hint = f"undeclared {what} '{short_name(name)}'"
    return f"{hint} ({text})" if text else hint
