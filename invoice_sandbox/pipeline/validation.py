"""Is the request what the contract asks for? Parameters first, then the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl

from invoice_sandbox import jsonio
from invoice_sandbox.contract.answers import is_json
from invoice_sandbox.contract.documents import pointer_text
from invoice_sandbox.contract.operations import Operation, RequestBody
from invoice_sandbox.contract.parameters import Parameter
from invoice_sandbox.errors import ApiError, refuse
from invoice_sandbox.pipeline import Exchange, Proceed, Reply

_BODY: Final = "the body"


async def check_request(exchange: Exchange, proceed: Proceed) -> Reply:
    """Fill in the checked parameters and body. Raises ApiError 400 or 415."""
    _, operation = exchange.routed
    _check_parameters(exchange, operation)
    if operation.body is not None:
        _check_body(exchange, operation.body)
    return await proceed(exchange)


def _check_parameters(exchange: Exchange, operation: Operation) -> None:
    texts = _texts(exchange, operation)
    problems = []
    for parameter in operation.parameters:
        given = texts.get((parameter.location, _key(parameter)))
        if given is None:
            if parameter.required:
                problems.append(f"{parameter.name} is required")
            continue
        problem = parameter.problem(given)
        if problem:
            problems.append(problem)
        elif parameter.location in {"path", "query"}:
            values = exchange.path if parameter.location == "path" else exchange.query
            values[parameter.name] = parameter.value(given)
    if problems:
        raise refuse("bad_parameter", problems=_first_and_count(problems[0], len(problems)))


def _key(parameter: Parameter) -> str:
    return parameter.name.lower() if parameter.location == "header" else parameter.name


def _texts(exchange: Exchange, operation: Operation) -> Mapping[tuple[str, str], Sequence[str]]:
    """What the request gives for each declared place: (location, name) to texts."""
    wanted = {parameter.location for parameter in operation.parameters}
    texts: dict[tuple[str, str], list[str]] = {}
    if "path" in wanted:
        for name, text in exchange.path_texts.items():
            texts["path", name] = [text]
    if "query" in wanted:
        for name, text in _query(exchange):
            texts.setdefault(("query", name), []).append(text)
    if "header" in wanted:
        for name, text in exchange.headers:
            texts.setdefault(("header", name), []).append(text)
    if "cookie" in wanted:
        for name, text in _cookies(exchange):
            texts.setdefault(("cookie", name), []).append(text)
    return texts


def _query(exchange: Exchange) -> list[tuple[str, str]]:
    try:
        text = exchange.scope["query_string"].decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError:
        raise refuse("bad_parameter", problems="the query string is not valid UTF-8") from None


def _cookies(exchange: Exchange) -> list[tuple[str, str]]:
    try:
        cookies = SimpleCookie("; ".join(exchange.header_values("cookie")))
    except CookieError:
        return []
    return [(name, morsel.value) for name, morsel in cookies.items()]


def _check_body(exchange: Exchange, body: RequestBody) -> None:
    exchange.media_type = _media_type(exchange)
    is_empty_file = exchange.media_type in body.checkers and not is_json(exchange.media_type)
    if not exchange.raw_body and not is_empty_file:
        if body.required:
            raise refuse("missing_body", declared=" or ".join(body.checkers))
        return
    checker = body.checkers.get(exchange.media_type)
    if checker is None:
        raise _unsupported(body)
    if not is_json(exchange.media_type):
        exchange.body = exchange.raw_body
        return
    try:
        exchange.body = jsonio.loads(exchange.raw_body)
    except jsonio.JsonError as error:
        raise refuse("malformed_json", reason=str(error)) from None
    if not checker.is_valid(exchange.body):
        problem, count = checker.first_problem(exchange.body)
        exchange.why["schemaPath"] = _in_contract(exchange, problem.schema_path)
        raise refuse("schema_violated", problems=_first_and_count(problem.sentence(_BODY), count))


def _in_contract(exchange: Exchange, schema_path: str) -> str:
    """A pointer into the contract: what is no component stands in the operation itself."""
    if schema_path.startswith("/components/"):
        return schema_path
    _, operation = exchange.routed
    place = ["paths", operation.path, operation.method.lower()]
    place += ["requestBody", "content", exchange.media_type, "schema"]
    return pointer_text(place) + schema_path


def _unsupported(body: RequestBody) -> ApiError:
    if any(is_json(media_type) for media_type in body.checkers):
        return refuse("not_json")
    return refuse("media_type", declared=", ".join(body.checkers))


def _first_and_count(first: str, count: int) -> str:
    others = count - 1
    if not others:
        return first
    return f"{first} (and {others} more {'problem' if others == 1 else 'problems'})"


def _media_type(exchange: Exchange) -> str:
    """The media type of the body; empty when it is not UTF-8 by its own account."""
    kind, *parameters = (exchange.header("content-type") or "").lower().split(";")
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('" ') not in {"utf-8", "utf8"}:
            return ""
    return kind.strip()
