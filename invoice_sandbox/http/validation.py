"""Is the request what the contract asks for? Parameters first, then the body."""

from __future__ import annotations

from collections.abc import Iterator
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_plus, unquote_to_bytes

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.http import Exchange, Proceed, Reply
from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.message.bodies import RequestBody
from invoice_sandbox.openapi.message.forms import FormError
from invoice_sandbox.openapi.message.media_types import MediaType, is_json, is_text, parse
from invoice_sandbox.openapi.message.parameters import Parameter
from invoice_sandbox.openapi.message.styles import Given, Pair
from invoice_sandbox.openapi.message.texts import read_text
from invoice_sandbox.openapi.operation import Operation, path_names
from invoice_sandbox.openapi.schema.compile import Checker

_BODY: Final = "the body"
_UTF_8: Final = frozenset({"", "utf-8", "utf8"})


async def check_request(exchange: Exchange, proceed: Proceed) -> Reply:
    """Fill in the checked parameters and body. Raises ApiError 400 or 415."""
    _, operation = exchange.routed
    _check_parameters(exchange, operation)
    if operation.body is not None:
        _check_body(exchange, operation.body)
    return await proceed(exchange)


def _check_parameters(exchange: Exchange, operation: Operation) -> None:
    given = {
        location: Given(list(_SOURCES[location](exchange, operation)))
        for location in {parameter.location for parameter in operation.parameters}
    }
    problems = []
    for parameter in operation.parameters:
        found = parameter.find(given[parameter.location])
        if found is None:
            if parameter.required:
                problems.append(f"{parameter.name} is required")
        elif found.problem is not None:
            problems.append(found.problem)
        else:
            _keep(exchange, parameter, found.value)
    if problems:
        raise reject("bad_parameter", problems=_first_and_count(problems[0], len(problems)))


def _keep(exchange: Exchange, parameter: Parameter, value: Any) -> None:
    if parameter.location == "path":
        exchange.path[parameter.name] = value
    elif parameter.location == "query":
        exchange.query[parameter.name] = value


def _path(exchange: Exchange, operation: Operation) -> Iterator[Pair]:
    """The texts in the path: decoded, but for those in which delimiters are looked for first."""
    if operation.raw_path is None:
        yield from exchange.path_texts.items()
        return
    raw = exchange.scope.get("raw_path") or quote(exchange.scope["path"]).encode()
    match = operation.raw_path.fullmatch(raw.decode("latin-1"))
    texts = match.groups() if match else map(quote, exchange.path_texts.values())
    as_sent = {parameter.name for parameter in operation.parameters if parameter.in_raw_path}
    for name, text in zip(path_names(operation.path), texts, strict=False):
        yield name, text if name in as_sent else unquote(text)


def _query(exchange: Exchange, _: Operation) -> Iterator[Pair]:
    """The pairs in the query: names decoded, values as they were sent."""
    try:
        text = exchange.scope["query_string"].decode("ascii")
        if "%" in text:
            unquote_to_bytes(text).decode()
    except ValueError:
        raise reject("bad_parameter", problems="the query string is not valid UTF-8") from None
    for pair in text.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            yield unquote_plus(name), value


def _headers(exchange: Exchange, operation: Operation) -> Iterator[Pair]:
    """The headers, under the names that the operation gives them."""
    names = {one.name.lower(): one.name for one in operation.parameters if one.location == "header"}
    for name, text in exchange.headers:
        if name in names:
            yield names[name], text


def _cookies(exchange: Exchange, operation: Operation) -> Iterator[Pair]:
    """The cookies; those that an exploded list or object consists of each for itself."""
    header = "; ".join(exchange.header_values("cookie"))
    if any(one.location == "cookie" and one.in_many for one in operation.parameters):
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


_SOURCES: Final = {"path": _path, "query": _query, "header": _headers, "cookie": _cookies}


def _check_body(exchange: Exchange, body: RequestBody) -> None:
    content_type = exchange.header("content-type") or ""
    given = parse(content_type)
    if given.charset not in _UTF_8:
        given = MediaType("")
    exchange.media_type = given.name
    declared = body.declared_for(given)
    is_empty_file = declared is not None and not is_json(given.name)
    if not exchange.raw_body and not is_empty_file:
        if body.required:
            raise reject("missing_body", declared=" or ".join(body.checkers))
        return
    if declared is None:
        raise _unsupported(body)
    checker = body.checkers[declared]
    if is_json(given.name):
        exchange.body = _json(exchange.raw_body)
    elif (declared, given.name) in body.forms:
        exchange.body = _form(exchange, body, declared, content_type)
    elif is_text(given.name) and declared in body.texts:
        exchange.body = read_text(_text(exchange.raw_body), body.texts[declared].types)
    else:
        exchange.body = exchange.raw_body
        return
    _check_value(exchange, checker, declared)


def _json(raw: bytes) -> Any:
    try:
        return jsonio.loads(raw)
    except jsonio.JsonError as error:
        raise reject("malformed_json", reason=str(error)) from None


def _form(exchange: Exchange, body: RequestBody, declared: str, content_type: str) -> Any:
    form = body.forms[declared, exchange.media_type]
    try:
        return form.read(exchange.raw_body, content_type)
    except FormError as error:
        raise reject("schema_violated", problems=str(error)) from None


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise reject("schema_violated", problems=f"{_BODY} is not valid UTF-8") from None


def _check_value(exchange: Exchange, checker: Checker, declared: str) -> None:
    if not checker.is_valid(exchange.body):
        problem, count = checker.first_problem(exchange.body)
        exchange.why["schemaPath"] = _in_contract(exchange, problem.schema_path, declared)
        raise reject("schema_violated", problems=_first_and_count(problem.sentence(_BODY), count))


def _in_contract(exchange: Exchange, schema_path: str, declared: str) -> str:
    """A pointer into the contract: what is no component stands in the operation itself."""
    if schema_path.startswith("/components/"):
        return schema_path
    _, operation = exchange.routed
    place = ["paths", operation.path, operation.method.lower()]
    return pointer_text([*place, "requestBody", "content", declared, "schema"]) + schema_path


def _unsupported(body: RequestBody) -> ApiError:
    if any(is_json(media_type) for media_type in body.checkers):
        return reject("not_json")
    return reject("media_type", declared=", ".join(body.checkers))


def _first_and_count(first: str, count: int) -> str:
    others = count - 1
    if not others:
        return first
    return f"{first} (and {others} more {'problem' if others == 1 else 'problems'})"
