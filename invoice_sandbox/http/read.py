"""Stage 5, read: the body in bytes, then the parameters and the body as the contract declares them.

Routing calls ``check_length``, because the order of checks is path, body size, credentials. A body
is received after admission, and not at all if the contract declares none.
"""

from __future__ import annotations

from asyncio import timeout, wait_for
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http.cookies import CookieError, SimpleCookie
from itertools import islice
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote_plus, unquote_to_bytes

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import (
    ApiError,
    InputProblem,
    InputProblems,
    reject,
    reject_inputs,
)
from invoice_sandbox.http import idempotency
from invoice_sandbox.http.pipeline import (
    AdmittedRequest,
    ClientGoneError,
    ParsedRequest,
    Read,
    Request,
    client_address,
)
from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.message.bodies import Form, RequestBody
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
from invoice_sandbox.openapi.message.texts import MAX_UNDECLARED, Shape, advice, read_text
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.schema.compile import MAX_PROBLEMS
from invoice_sandbox.openapi.schema.problems import Problem, short_name
from invoice_sandbox.scenarios.script import Scenario

BODIES_IN_FLIGHT: Final = 64 * 1024 * 1024
BODIES_OF_AN_ADDRESS: Final = 48 * 1024 * 1024
BODIES_OF_A_WORKSPACE: Final = 16 * 1024 * 1024
"""Bytes of bodies that are being received or handled at a time."""

MAX_PARSED: Final = 2 * 1024 * 1024
"""Bytes of a body that is parsed in one piece, while others wait."""

MAX_DRAINED_BYTES: Final = 1024 * 1024
_DRAIN_TIMEOUT: Final = 0.25
"""How much of a body that is too large is read and dropped: bytes, and seconds between parts."""

MAX_PAUSE: Final = 30
MAX_SECONDS: Final = 300
"""Seconds that the server waits for a part of a body, and for all of it."""


def too_slow(seconds: float) -> ApiError:
    """408: the client took more than ``seconds`` for its request. The connection ends with it."""
    return reject("too_slow", ("Connection", "close"), seconds=f"{seconds:g}")


async def check_length(request: Request, body: RequestBody) -> None:
    """Raise ApiError 413 for a body that declares a length beyond the limit."""
    declared = request.header("content-length")
    if declared is not None and declared.isdigit() and int(declared) > body.limit:
        raise await _too_large(request, body.limit)


class Bodies:
    """Receives the bodies of requests. They share a number of bytes, until the responses are
    ready."""

    def __init__(self) -> None:
        self._in_flight: Counter[str] = Counter()

    async def __call__(self, admitted: AdmittedRequest) -> None:
        """Receive the whole body, whether it comes with a length or in chunks.

        Raises ApiError 408, 413 and 503.
        """
        request, declared = admitted.request, admitted.endpoint.operation.body
        limit = declared.limit if declared is not None else 0
        body, shares = bytearray(), _shares(admitted)
        request.trace.release = lambda: self._add(shares, -len(body))
        try:
            async with timeout(MAX_SECONDS):
                async for part in _parts(request):
                    if len(body) + len(part) > limit:
                        raise await _too_large(request, limit)
                    self._check(shares, len(part))
                    self._add(shares, len(part))
                    body += part
        except TimeoutError:
            raise too_slow(MAX_SECONDS) from None
        request.trace.content = bytes(body)

    def _check(self, shares: Mapping[str, int], added: int) -> None:
        if any(self._in_flight[name] + added > most for name, most in shares.items()):
            raise reject("busy", ("Retry-After", "1"))

    def _add(self, shares: Iterable[str], count: int) -> None:
        for name in shares:
            self._in_flight[name] += count
            if not self._in_flight[name]:
                del self._in_flight[name]


def _shares(admitted: AdmittedRequest) -> dict[str, int]:
    """Return the most bytes in flight of all, and of those with the same address or workspace."""
    address = client_address(admitted.request.scope)
    shares = {"all": BODIES_IN_FLIGHT, f"address {address}": BODIES_OF_AN_ADDRESS}
    if admitted.workspace is not None:
        shares[f"workspace {admitted.workspace.id}"] = BODIES_OF_A_WORKSPACE
    return shares


async def _parts(request: Request) -> AsyncIterator[bytes]:
    """Return the parts of a body as they arrive. Raises ApiError 408, ClientGoneError."""
    more = True
    while more:
        try:
            async with timeout(MAX_PAUSE):
                message = await request.receive()
        except TimeoutError:
            raise too_slow(MAX_PAUSE) from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        yield message.get("body", b"")
        more = message.get("more_body", False)


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
_NO_BODY: Final = RequestBody(required=False, checkers={}, limit=0)
_UTF_8: Final = frozenset({"", "utf-8", "utf8"})


def compile_reading(handlers: Collection[str], operation: Operation) -> Read:
    """What reads the requests of one operation. It raises ApiError 400 and 415.

    An ``Idempotency-Key`` is honoured for a POST of a known caller, if one of the ``handlers``
    carries it out. A public operation, such as to log in, is carried out every time.
    """
    is_post = operation.method == "POST" and not operation.security.optional
    plan = _Reading(
        operation=operation,
        body_type=partial(_body_type, operation.body or _NO_BODY),
        locations=tuple(dict.fromkeys(one.location for one in operation.parameters)),
        place=["paths", operation.path, operation.method.lower(), "requestBody", "content"],
        headers={one.name.lower(): one.name for one in operation.parameters if _is_header(one)},
        query=_query_names(operation),
        has_cookie_lists=any(
            one.location == "cookie" and one.in_many for one in operation.parameters
        ),
        is_idempotent=is_post and operation.id in handlers,
    )
    return plan.read


def _query_names(operation: Operation) -> frozenset[str] | None:
    """The names of its query parameters; None: any name may be one."""
    in_query = [one for one in operation.parameters if one.location == "query"]
    names: list[str] = []
    for one in in_query:
        if one.members is None:
            return None
        names += [one.name, *one.members]
    return frozenset(names)


def _is_header(parameter: Parameter) -> bool:
    return parameter.location == "header"


class _Wrong(NamedTuple):
    """A parameter with a problem, and what that is about."""

    parameter: Parameter
    problem: InputProblem
    label: str


@dataclass(frozen=True)
class _BodyType:
    """How a body is read. ``declared`` is the media type, or range, that it falls under."""

    name: str
    declared: str | None
    format: Literal["json", "form", "text", "bytes"]


@dataclass(frozen=True)
class _Body:
    """The value of a body, as its media type is read."""

    value: Any = None
    media_type: str = ""


_NOTHING: Final = _Body()


@dataclass(frozen=True)
class _Reading:
    """How the requests of one operation are read; ``headers`` are those that it declares, ``query``
    the names of its query parameters (None: any)."""

    operation: Operation
    body_type: Callable[[str], _BodyType]
    locations: tuple[str, ...]
    place: list[str]
    headers: Mapping[str, str]
    query: frozenset[str] | None
    has_cookie_lists: bool
    is_idempotent: bool

    def read(self, admitted: AdmittedRequest, scenario: Scenario | None) -> ParsedRequest:
        """The request with its parameters and body, if the contract allows them."""
        path, query = self._parameters(admitted)
        if "query" not in self.locations and admitted.request.scope["query_string"]:
            with suppress(ApiError):  # one that nobody reads may be anything
                self._explain_query(admitted, [name for name, _ in _pairs(admitted)])
        declared = self.operation.body
        body = _NOTHING if declared is None else self._body(admitted, declared)
        key, caller = None, admitted.credential if self.is_idempotent else None
        if caller is not None and admitted.request.header(idempotency.HEADER) is not None:
            key = idempotency.key_of(admitted, caller, body.value, body.media_type)
        return ParsedRequest(
            request=admitted.request,
            endpoint=admitted.endpoint,
            path_texts=admitted.path_texts,
            credential=admitted.credential,
            workspace=admitted.workspace,
            scenario=scenario,
            path=path,
            query=query,
            body=body.value,
            media_type=body.media_type,
            idempotency=key,
        )

    def _explain_query(self, admitted: AdmittedRequest, names: Iterable[str]) -> None:
        """Name the first query parameters that the operation does not declare."""
        declared, schemes = self.query or (), admitted.endpoint.contract.schemes.values()
        known = {*declared, *(one.name for one in schemes if one.location == "query")}
        unknown = (one for one in dict.fromkeys(names) if one.partition("[")[0] not in known)
        hints = [
            _hint("query parameter", name, advice(name, tuple(sorted(declared))))
            for name in islice(unknown, MAX_UNDECLARED)
        ]
        if hints:
            admitted.request.trace.why["hints"] = hints

    def _parameters(self, admitted: AdmittedRequest) -> tuple[dict[str, Any], dict[str, Any]]:
        """Those of the path and of the query. Raises ApiError 400."""
        given = {one: Given(list(_SOURCES[one](self, admitted))) for one in self.locations}
        sent = given["query"].texts if "query" in given else {}
        if self.query is not None and sent.keys() - self.query:
            self._explain_query(admitted, sent)
        values: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "cookie": {}}
        missing: list[_Wrong] = []
        problems: list[_Wrong] = []
        for parameter in self.operation.parameters:
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
            wrong = missing + problems
            why = admitted.request.trace.why
            if wrong[0].parameter.schema_pointer:
                why["schemaPath"] = wrong[0].parameter.schema_pointer
            del wrong[MAX_PROBLEMS:]
            why["problems"] = [
                {"pointer": "", "problem": f"{one.label} {one.problem.text}"} for one in wrong
            ]
            count = len(missing) + len(problems)
            inputs = InputProblems(tuple(one.problem for one in wrong), count)
            raise reject_inputs("bad_parameter", inputs, [one.label for one in wrong])
        return values["path"], values["query"]

    def _body(self, admitted: AdmittedRequest, body: RequestBody) -> _Body:
        content, content_type = admitted.content, admitted.request.header("content-type") or ""
        given = self.body_type(content_type)
        is_named = bool(content_type) and given.declared is not None
        is_empty_file = is_named and given.format != "json"
        if not content and not is_empty_file:
            if body.required:
                raise reject("missing_body", declared=" or ".join(body.checkers))
            return _Body(None, given.name)
        if given.declared is None:
            raise _unsupported(body)
        if given.format == "bytes":
            return _Body(content, given.name)
        if len(content) > MAX_PARSED and given.name != MULTIPART:
            raise reject("too_large", limit=MAX_PARSED)
        if given.format == "json":
            value = _json(content, admitted.request.header("content-encoding"))
            admitted.request.trace.is_json = True
        elif given.format == "form":
            value = _form(body.forms[given.declared, given.name], content, content_type)
        else:
            value = read_text(_text(content), body.texts[given.declared].types)
        self._check(admitted.request, value, body, given.declared)
        return _Body(value, given.name)

    def _check(self, request: Request, value: Any, body: RequestBody, declared: str) -> None:
        why, checker, shape = request.trace.why, body.checkers[declared], body.texts.get(declared)
        hints: list[str] = []
        if shape is not None and not _is_declared(value, shape):
            undeclared = shape.undeclared(value)
            hints = [_hint("member", name, text) for name, text in undeclared.items()]
            why.update({"hints": [*why.get("hints", ()), *hints]} if hints else {})
        if checker.is_valid(value):
            return
        found, count = checker.explain(value)
        problems = [replace(one, typed="") if self._is_secret(one) else one for one in found]
        why["schemaPath"] = self._in_contract(problems[0].schema_path, declared)
        why["problems"] = [{"pointer": one.pointer, "problem": one.clause} for one in problems]
        hint = next(iter(hints), "")
        listed = (
            InputProblem(hint, is_sentence=True)
            if hint and one.is_undeclared and not one.member
            else InputProblem(one.text, one.is_missing)
            for one in problems
        )
        labels = [one.label(_BODY) for one in problems]
        raise reject_inputs("schema_violated", InputProblems(tuple(listed), count), labels)

    def _is_secret(self, problem: Problem) -> bool:
        names = {short_name(name) for name in self.operation.secrets}
        steps = [
            step.replace("~1", "/").replace("~0", "~") for step in problem.pointer.split("/")[1:]
        ]
        return self.operation.is_secret or not names.isdisjoint(steps)

    def _in_contract(self, schema_path: str, declared: str) -> str:
        """A pointer into the contract: a schema that is no component is in the operation itself."""
        if schema_path.startswith("/components/"):
            return schema_path
        return pointer_text([*self.place, declared, "schema"]) + schema_path


def _body_type(body: RequestBody, content_type: str) -> _BodyType:
    """How a body of this ``Content-Type`` is read; in another charset than UTF-8 not at all."""
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


def _path(_: _Reading, admitted: AdmittedRequest) -> Iterable[Pair]:
    return admitted.path_texts.items()


def _query(_: _Reading, admitted: AdmittedRequest) -> Iterable[Pair]:
    """The pairs in the query: names decoded, values as they were sent."""
    if not admitted.request.scope["query_string"]:
        return ()
    return _pairs(admitted)


def _pairs(admitted: AdmittedRequest) -> Iterator[Pair]:
    try:
        text = admitted.request.scope["query_string"].decode("ascii")
        if "%" in text:
            unquote_to_bytes(text).decode()
    except ValueError:
        raise reject("bad_parameter", problems="the query string is not valid UTF-8") from None
    for pair in text.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            yield unquote_plus(name), value


def _headers(plan: _Reading, admitted: AdmittedRequest) -> Iterator[Pair]:
    """The headers, under the names that the operation gives them."""
    for name, text in admitted.request.head.headers:
        if name in plan.headers:
            yield plan.headers[name], text


def _cookies(plan: _Reading, admitted: AdmittedRequest) -> Iterator[Pair]:
    """The cookies; an exploded list or object consists of several."""
    header = "; ".join(admitted.request.header_values("cookie"))
    if plan.has_cookie_lists:
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


_SOURCES: Final[Mapping[str, Callable[[_Reading, AdmittedRequest], Iterable[Pair]]]] = {
    "path": _path,
    "query": _query,
    "header": _headers,
    "cookie": _cookies,
}


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
    """Whether it can be seen at once that an object has no undeclared member."""
    return (
        isinstance(value, dict)
        and value.keys() <= shape.members.keys()
        and _CONTAINERS.isdisjoint(map(type, value.values()))
    )


_CONTAINERS: Final[frozenset[type]] = frozenset({dict, list})


def _hint(what: str, name: str, text: str) -> str:
    hint = f"undeclared {what} '{short_name(name)}'"
    return f"{hint} ({text})" if text else hint
