"""One compiled record per operation: everything a request needs, worked out at start-up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urldefrag, urlsplit

from invoice_sandbox.contract.identifiers import Place, address, at_pointer, named
from invoice_sandbox.contract.parameters import Parameter, compile_parameter
from invoice_sandbox.contract.schemas import (
    COMPONENTS,
    BothWays,
    Checker,
    SchemaError,
    Schemas,
    both_ways,
)
from invoice_sandbox.contract.webhooks import PUBLISHED, WebhookEvent

BODY_LIMIT: Final = 256 * 1024
_JSON: Final = "application/json"

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class ContractError(ValueError):
    """A contract that cannot be served; the message says which place and why."""


@dataclass(frozen=True)
class Scheme:
    """A way of sending a credential: ``location`` is bearer, header, cookie or query."""

    location: str
    name: str


@dataclass(frozen=True)
class Alternative:
    """One entry of ``security``: the scheme and the scopes that it must bring."""

    scheme: str
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class Security:
    """Who may call. ``optional`` when the contract also allows no credential at all."""

    alternatives: tuple[Alternative, ...]
    optional: bool

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the first alternative; the same for every scheme of an operation."""
        return self.alternatives[0].scopes if self.alternatives else ()


@dataclass(frozen=True)
class RequestBody:
    """``checkers`` by media type, ``required`` as declared, ``limit`` in bytes.

    The limit is BODY_LIMIT unless the request body says otherwise in ``x-max-bytes``.
    """

    required: bool
    checkers: Mapping[str, Checker]
    limit: int


@dataclass(frozen=True)
class Response:
    """One declared answer: its media types, each with the checker of its schema, if any."""

    content: Mapping[str, Checker | None]
    media: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Operation:
    """One operation of the contract, ready to serve.

    ``secrets`` are the names of members that its schemas declare as ``format: password``;
    ``lifecycle`` is the machine that what it answers goes through (``x-lifecycle``).
    """

    id: str
    method: str
    path: str
    tag: str
    security: Security
    parameters: tuple[Parameter, ...]
    body: RequestBody | None
    responses: Mapping[str, Response]
    success: str
    secrets: frozenset[str] = frozenset()
    lifecycle: str | None = None

    def response_for(self, status: int) -> Response | None:
        """The declaration that covers ``status``: exact, else its range (``4XX``), else default."""
        for key in (str(status), f"{status // 100}XX", "default"):
            if key in self.responses:
                return self.responses[key]
        return None


@dataclass(frozen=True)
class Contract:
    """A served OpenAPI document and its compiled operations, by operationId.

    ``webhooks`` are the events that it declares, by their kind.
    """

    document: Mapping[str, Any]
    base_path: str
    operations: Mapping[str, Operation]
    schemes: Mapping[str, Scheme]
    schemas: Schemas
    webhooks: Mapping[str, WebhookEvent] = field(default_factory=dict)

    @property
    def secret_parameters(self) -> frozenset[str]:
        """Names of query parameters that carry a secret: credentials and signatures."""
        schemes = {one.name for one in self.schemes.values() if one.location == "query"}
        return frozenset(schemes) | {
            parameter.name
            for operation in self.operations.values()
            for parameter in operation.parameters
            if parameter.secret and parameter.location == "query"
        }

    @property
    def version(self) -> str:
        """``info.version``."""
        return str(self.document["info"]["version"])


def compile_contract(document: dict[str, Any]) -> Contract:
    """The compiled form of a valid OpenAPI 3.1 ``document``.

    An operation without operationId gets one made of its method and path. Raises ContractError.
    """
    try:
        schemas = both_ways(document)
        schemes = {name: _scheme(raw) for name, raw in _component(document, "securitySchemes")}
        operations = {
            operation.id: operation
            for operation in (
                _operation(document, schemas, path, method, raw)
                for path, method, raw in raw_operations(document)
            )
        }
        webhooks = {
            kind: _webhook(document, schemas.answered, kind, dereference(document, item))
            for kind, item in document.get("webhooks", {}).items()
        }
    except SchemaError as error:
        raise ContractError(str(error)) from None
    return Contract(document, base_path(document), operations, schemes, schemas.answered, webhooks)


def raw_operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """``path, method, operation object`` for every operation, in document order."""
    for path, item in document.get("paths", {}).items():
        resolved = dereference(document, item)
        for method in METHODS:
            if method in resolved:
                yield path, method, resolved[method]


def operation_id(path: str, method: str, raw: Mapping[str, Any]) -> str:
    """The operationId as declared, else made of method and path: ``get_invoices_id``."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", f"{method}{path}").strip("_")
    return str(raw.get("operationId", words))


def base_path(document: Mapping[str, Any]) -> str:
    """The path of the first server, its variables at their defaults, without a final slash."""
    servers = document.get("servers") or [{"url": "/"}]
    url = servers[0]["url"]
    for name, variable in servers[0].get("variables", {}).items():
        url = url.replace("{" + name + "}", str(variable["default"]))
    return str(urlsplit(url).path).rstrip("/")


def dereference(document: Mapping[str, Any], value: Any) -> Any:
    """``value``, or what its local ``$ref`` names. Raises ContractError for any other reference."""
    seen: set[str] = set()
    while isinstance(value, Mapping) and isinstance(value.get("$ref"), str):
        reference = value["$ref"]
        if not reference.startswith("#/") or reference in seen:
            raise ContractError(f"{reference}: only references within the document are followed")
        seen.add(reference)
        value = at_pointer(document, reference[1:])
        if value is None:
            raise ContractError(f"{reference} names nothing in the document")
    return value


def _component(document: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
    components = document.get("components", {}).get(kind, {})
    return [(name, dereference(document, raw)) for name, raw in components.items()]


def _scheme(raw: Mapping[str, Any]) -> Scheme:
    if raw["type"] == "apiKey":
        return Scheme(raw["in"], raw["name"].lower() if raw["in"] == "header" else raw["name"])
    return Scheme("bearer", "authorization")


def _operation(
    document: Mapping[str, Any], schemas: BothWays, path: str, method: str, raw: Mapping[str, Any]
) -> Operation:
    name = operation_id(path, method, raw)
    responses = {
        status: _response(document, schemas.answered, response, f"{name} {status}")
        for status, response in raw.get("responses", {}).items()
    }
    success = next((status for status in responses if status.startswith("2")), None)
    if success is None:
        success = next(iter(responses), "default")
    return Operation(
        id=name,
        method=method.upper(),
        path=path,
        tag=next(iter(raw.get("tags", [])), ""),
        security=_security(name, raw.get("security", document.get("security", []))),
        parameters=_parameters(document, schemas.sent, path, name, raw),
        body=_body(document, schemas.sent, name, raw),
        responses=responses,
        success=success,
        secrets=frozenset(_secrets(schemas.answered, raw)),
        lifecycle=raw.get("x-lifecycle"),
    )


def _secrets(schemas: Schemas, raw: Mapping[str, Any]) -> Iterator[str]:
    """Names of members, of bodies and answers, whose schema has ``format: password``."""
    waiting: list[tuple[Any, Place]] = [
        (raw[key], Place().below(key, raw[key]))
        for key in ("requestBody", "responses")
        if key in raw
    ]
    seen = set[tuple[int, Place]]()
    while waiting:
        value, place = waiting.pop()
        if (id(value), place) in seen:
            continue
        seen.add((id(value), place))
        if isinstance(value, list):
            waiting += [(item, place.below("", item)) for item in value]
        if not isinstance(value, Mapping):
            continue
        if isinstance(value.get("$ref"), str) and not place.names:
            waiting.append(_referred(schemas, value["$ref"], place))
        properties = value.get("properties")
        for name, schema in properties.items() if isinstance(properties, Mapping) else ():
            if isinstance(schema, Mapping) and schema.get("format") == "password":
                yield name
        waiting += [
            (child, place.below(key, child))
            for key, child in value.items()
            if not place.is_data(key)
        ]


def _referred(schemas: Schemas, reference: str, place: Place) -> tuple[Any, Place]:
    """What a reference names, and its place; None if that is in no document."""
    base = "" if reference.startswith(COMPONENTS) else place.base
    found = named(reference, base, schemas.identified)
    if found is None and reference.startswith("#/"):
        raise ContractError(f"{reference} names nothing in the document")
    return found, Place(urldefrag(address(reference, base)).url, in_schema=True).below("", found)


def _security(name: str, requirements: Sequence[Mapping[str, Sequence[str]]]) -> Security:
    if any(len(requirement) > 1 for requirement in requirements):
        raise ContractError(f"{name}: security that asks for two schemes at once is not supported")
    return Security(
        alternatives=tuple(
            Alternative(scheme, tuple(scopes))
            for requirement in requirements
            for scheme, scopes in requirement.items()
        ),
        optional=not requirements or {} in requirements,
    )


def _parameters(
    document: Mapping[str, Any],
    schemas: Schemas,
    path: str,
    name: str,
    raw: Mapping[str, Any],
) -> tuple[Parameter, ...]:
    shared = dereference(document, document["paths"][path]).get("parameters", [])
    merged: dict[tuple[str, str], Mapping[str, Any]] = {}
    for declared in [*shared, *raw.get("parameters", [])]:
        parameter = dereference(document, declared)
        merged[parameter["in"], parameter["name"]] = parameter
    return tuple(
        compile_parameter(parameter, schemas, f"{name}, parameter {parameter['name']}")
        for parameter in merged.values()
    )


def _body(
    document: Mapping[str, Any], schemas: Schemas, name: str, raw: Mapping[str, Any]
) -> RequestBody | None:
    if "requestBody" not in raw:
        return None
    body = dereference(document, raw["requestBody"])
    checkers = {
        media_type.lower(): schemas.compile(media.get("schema", True), f"{name}, request body")
        for media_type, media in body["content"].items()
    }
    limit = int(body.get("x-max-bytes", BODY_LIMIT))
    return RequestBody(bool(body.get("required", False)), checkers, limit)


def _webhook(
    document: Mapping[str, Any], schemas: Schemas, kind: str, item: Mapping[str, Any]
) -> WebhookEvent:
    raw, published = item.get("post", {}), bool(item.get(PUBLISHED, True))
    body = _body(document, schemas, f"webhook {kind}", raw)
    if body is None or _JSON not in body.checkers:
        return WebhookEvent(kind, published)
    media = dereference(document, raw["requestBody"])["content"].get(_JSON, {})
    return WebhookEvent(kind, published, body.checkers[_JSON], media.get("example"))


def _response(
    document: Mapping[str, Any], schemas: Schemas, raw: Mapping[str, Any], place: str
) -> Response:
    content = dereference(document, raw).get("content", {})
    return Response(
        content={
            media_type.lower(): schemas.compile(media["schema"], f"{place}, {media_type}")
            if "schema" in media
            else None
            for media_type, media in content.items()
        },
        media={media_type.lower(): media for media_type, media in content.items()},
    )
