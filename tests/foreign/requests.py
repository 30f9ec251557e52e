"""A valid request for an operation, with no more in it than its contract requires."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from invoice_sandbox.openapi.load.operations import parameter_key
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.openapi.schema.compile import Problem, RequestResponseSchemas
from invoice_sandbox.openapi.schema.generate import CannotGenerate, generate

CREDENTIAL: Final = "a-credential"
_UNRESERVED: Final = "-._~"
_FRAMING: Final = {"accept", "authorization", "content-length", "content-type", "host"}


class NoRequestError(Exception):
    """No valid request can be made; the message says for which part."""


@dataclass
class Request:
    """What is sent: the path is encoded, ``query`` are pairs that are not."""

    method: str
    path: str
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    files: list[tuple[str, Any]] | None = None

    @property
    def target(self) -> str:
        """Path and query."""
        return self.path + (f"?{urlencode(self.query, quote_via=quote)}" if self.query else "")


@dataclass(frozen=True)
class Maker:
    """Makes requests for the operations of a served document, whose schemas are ``schemas``."""

    document: Mapping[str, Any]
    base_path: str
    schemas: RequestResponseSchemas

    def request(self, path: str, method: str, raw: Mapping[str, Any]) -> Request:
        """A valid request. Raises NoRequestError."""
        if "#" in path or "?" in path:
            raise NoRequestError("no request has this path")
        made = Request(method.upper(), path)
        for one in self.parameters(path, raw):
            if one.get("required") or one["in"] == "path":
                self._add(made, one)
        made.path = quote(self.base_path, safe="/:@!$&'()*+,;=") + made.path
        self._authenticate(made, raw)
        if "requestBody" in raw:
            self._fill(made, self.named(raw["requestBody"]))
        return made

    def parameters(self, path: str, raw: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """The parameters of an operation, with those of its path."""
        item = self.named(self.document["paths"][path])
        declared = [self.named(one) for one in (*item.get("parameters", []), *_parameters(raw))]
        return {parameter_key(one): one for one in declared}.values()

    def named(self, value: Any) -> Any:
        """``value``, or what its reference names."""
        while isinstance(value, Mapping) and isinstance(value.get("$ref"), str):
            value = at_pointer(self.document, value["$ref"][1:])
        return value

    def _add(self, made: Request, one: Mapping[str, Any]) -> None:
        name, value = one["name"], self._value(one)
        if "content" in one:
            value, one = json.dumps(value), {**one, "style": "form"}
        if one["in"] == "path":
            text = _in_path(one, value)
            made.path = made.path.replace("{" + name + "}", text)
        elif one["in"] == "query":
            made.query += _in_query(one, value)
        elif one["in"] == "cookie":
            made.cookies |= dict(_in_query({**one, "explode": False}, value))
        elif name.lower() not in _FRAMING:
            made.headers[name] = _simple(value, explode=bool(one.get("explode", False)))

    def _value(self, one: Mapping[str, Any]) -> Any:
        holder = next(iter(one["content"].values())) if "content" in one else one
        schema = holder.get("schema", {"type": "string"})

        def problems(value: Any) -> Sequence[Problem]:
            checker = self.schemas.request.compile(schema, one["name"])
            is_sent = value != [] and (one["in"] == "query" or value != "")
            return checker.problems(value) if is_sent else [Problem("", "is not sent", "")]

        return self._made(schema, f"parameter {one['name']}", problems)

    def _fill(self, made: Request, body: Mapping[str, Any]) -> None:
        media_type = min(body["content"], key=lambda one: "json" not in one.lower())
        media = body["content"][media_type]
        schema = media.get("schema", True)
        plain = media_type.replace("*/*", "application/json").replace("/*", "/plain")
        made.headers["content-type"] = plain
        if "json" in plain:
            value = self._body(media)
            made.content = json.dumps(value).encode()
        elif plain.startswith(("application/x-www-form-urlencoded", "multipart/form-data")):
            value = self._body(media)
            if not isinstance(value, Mapping):
                raise NoRequestError("a form that is no object")
            pairs = list(_pairs(value, media.get("encoding", {})))
            if plain.startswith("multipart"):
                del made.headers["content-type"]
                made.files = [(name, (None, text)) for name, text in pairs or [("a", "b")]]
            else:
                made.content = urlencode(pairs).encode()
        elif plain.startswith("text/") and isinstance(schema, Mapping):
            value = self._body(media)
            made.content = str(value).encode()
        else:
            made.content = b"x"

    def _body(self, media: Mapping[str, Any]) -> Any:
        schema = media.get("schema", True)
        checker = self.schemas.request.compile(schema, "body")
        shown = [self.named(one).get("value") for one in media.get("examples", {}).values()]
        for example in (*shown, media.get("example")):
            if example is not None and checker.is_valid(example):
                return example
        return self._made(schema, "body", checker.problems)

    def _made(self, schema: Any, what: str, problems: Callable[[Any], Sequence[Problem]]) -> Any:
        try:
            return generate(self.schemas.request, schema, what, problems=problems)
        except CannotGenerate as error:
            raise NoRequestError(f"{what}: {error}") from None

    def _authenticate(self, made: Request, raw: Mapping[str, Any]) -> None:
        requirements = raw.get("security", self.document.get("security", []))
        schemes = self.document.get("components", {}).get("securitySchemes", {})
        for name in requirements[0] if requirements else ():
            scheme = self.named(schemes.get(name, {}))
            if scheme.get("type") != "apiKey":
                word = scheme.get("scheme", "bearer").capitalize()
                value = "Basic YTpi" if word == "Basic" else f"{word} {CREDENTIAL}"
                if made.headers.setdefault("Authorization", value) != value:
                    raise NoRequestError("two schemes want the header Authorization")
            elif scheme["in"] == "header":
                made.headers[scheme["name"]] = CREDENTIAL
            elif scheme["in"] == "query" and scheme["name"] not in dict(made.query):
                made.query.append((scheme["name"], CREDENTIAL))
            elif scheme["in"] == "cookie":
                made.cookies[scheme["name"]] = CREDENTIAL


def _parameters(raw: Mapping[str, Any]) -> list[Any]:
    return list(raw.get("parameters", []))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _flat(value: Any, *, explode: bool) -> list[str]:
    if isinstance(value, Mapping):
        between = "=" if explode else ","
        return [f"{name}{between}{_text(one)}" for name, one in value.items()]
    return [_text(one) for one in value] if isinstance(value, list) else [_text(value)]


def _simple(value: Any, *, explode: bool) -> str:
    return ",".join(_flat(value, explode=explode))


def _in_path(one: Mapping[str, Any], value: Any) -> str:
    style, explode, name = one.get("style", "simple"), bool(one.get("explode")), one["name"]
    if style == "simple" or not isinstance(value, list | dict):
        start = {"label": ".", "matrix": f";{name}="}.get(style, "")
        safe = ",=" if isinstance(value, list | dict) else ""
        return start + quote(_simple(value, explode=explode), safe=_UNRESERVED + safe)
    parts = [quote(part, safe=_UNRESERVED + "=,") for part in _flat(value, explode=explode)]
    if style == "label":
        return "." + ("." if explode else ",").join(parts)
    if not explode:
        return f";{name}=" + ",".join(parts)
    return "".join(f";{part}" if isinstance(value, dict) else f";{name}={part}" for part in parts)


def _in_query(one: Mapping[str, Any], value: Any) -> list[tuple[str, str]]:
    style = one.get("style", "form")
    explode = bool(one.get("explode", style == "form"))
    if style == "deepObject" and isinstance(value, list | Mapping):
        return [(f"{one['name']}{inner}", text) for inner, text in _deep(value)]
    delimiter = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(style, ",")
    if isinstance(value, list):
        if explode:
            return [(one["name"], _text(item)) for item in value]
        return [(one["name"], delimiter.join(map(_text, value)))]
    if isinstance(value, Mapping):
        if explode:
            return [(name, _text(item)) for name, item in value.items()]
        words = [word for name, item in value.items() for word in (name, _text(item))]
        return [(one["name"], delimiter.join(words))]
    return [(one["name"], _text(value))]


def _deep(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from ((f"[{name}]{inner}", text) for inner, text in _deep(one))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from ((f"[{index}]{inner}", text) for inner, text in _deep(one))
    else:
        yield "", _text(value)


def _pairs(
    body: Mapping[str, Any], encoding: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    for name, value in body.items():
        encoded = encoding.get(name, {})
        if "style" in encoded:
            yield from _in_query({**encoded, "name": name}, value)
            continue
        for one in value if isinstance(value, list) else [value]:
            yield name, _text(one)
