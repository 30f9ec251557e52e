"""One compiled record per operation: everything a request needs, worked out at start-up."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.documents import Note, pointer_text
from invoice_sandbox.openapi.load.model import Pointer
from invoice_sandbox.openapi.load.operations import (
    base_path,
    named_operations,
    operations_of,
    parameter_key,
)
from invoice_sandbox.openapi.load.pointers import ContractError, dereference, located
from invoice_sandbox.openapi.message.bodies import RequestBody, compile_body
from invoice_sandbox.openapi.message.media_types import JSON, concrete, is_json, json_first
from invoice_sandbox.openapi.message.parameters import IGNORED_HEADERS, Parameter, compile_parameter
from invoice_sandbox.openapi.schema.annotations import Passwords
from invoice_sandbox.openapi.schema.compile import (
    Checker,
    SchemaError,
    Schemas,
    request_response_schemas,
)
from invoice_sandbox.openapi.schema.problems import Problem
from invoice_sandbox.openapi.security import Scheme, Security, compile_scheme, compile_security

PUBLISHED: Final = "x-published"
"""On an entry of ``webhooks``: whether the event is published; true by default."""


@dataclass(frozen=True)
class WebhookEvent:
    """A declared event: its type, whether it is published, the schema of its payload, and the
    payload that the contract shows for it; each of the two may be missing."""

    type: str
    published: bool
    checker: Checker | None = None
    example: Any = None

    def problems(self, payload: object) -> tuple[Problem, ...]:
        """Everything wrong with a payload, in the order of the schema; empty when it may be sent.

        Without a declared JSON payload, anything may be sent.
        """
        if self.checker is None or self.checker.is_valid(payload):
            return ()
        return self.checker.problems(payload)


@dataclass(frozen=True)
class DeclaredResponse:
    """One declared response: its media types, each with the checker of its schema, if any.

    ``headers`` are its Header Objects, by name.
    """

    content: Mapping[str, Checker | None]
    media: Mapping[str, Mapping[str, Any]]
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def json_type(self) -> str | None:
        """The JSON media type of a response, the first one; None if none is declared."""
        types = map(concrete, json_first(self.content))
        return next((media_type for media_type in types if is_json(media_type)), None)

    def declared_for(self, media_type: str) -> str | None:
        """Return the declared media type, or range such as ``*/*``, of a response in this one."""
        if media_type in self.content:
            return media_type
        return next(
            (declared for declared in self.content if concrete(declared) == media_type), None
        )


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation of the contract, ready to serve.

    ``secrets`` are the names of members that its schemas declare as ``format: password``,
    ``is_secret`` says that a body is one without a name;
    ``lifecycle`` is the machine that the records it returns go through (``x-lifecycle``).
    ``capability`` is the query parameter that is the credential of the address, and what it opens
    (``x-capability``).
    """

    id: str
    method: str
    path: str
    tag: str
    security: Security
    parameters: tuple[Parameter, ...]
    body: RequestBody | None
    responses: Mapping[str, DeclaredResponse]
    success: str
    secrets: frozenset[str] = frozenset()
    is_secret: bool = False
    lifecycle: str | None = None
    capability: tuple[str, str] | None = None

    def response_for(self, status: int) -> DeclaredResponse | None:
        """The declaration that covers ``status``: exact, else its range (``4XX``), else default."""
        for key in (str(status), f"{status // 100}XX", "default"):
            if key in self.responses:
                return self.responses[key]
        return None


@dataclass(frozen=True, eq=False)
class Contract:
    """A served OpenAPI document and its compiled operations, by operationId.

    ``webhooks`` are the events that it declares, by their type.
    """

    document: Mapping[str, Any]
    base_path: str
    operations: Mapping[str, Operation]
    schemes: Mapping[str, Scheme]
    schemas: Schemas
    webhooks: Mapping[str, WebhookEvent] = field(default_factory=dict)

    def secrets_in(self, location: str) -> frozenset[str]:
        """Return the names of the credentials and declared secrets in ``query`` or ``header``."""
        schemes = {scheme.name for scheme in self.schemes.values() if scheme.location == location}
        return frozenset(schemes) | {
            parameter.name
            for operation in self.operations.values()
            for parameter in operation.parameters
            if parameter.secret and parameter.location == location
        }

    @cached_property
    def version(self) -> str:
        """``info.version``."""
        return str(self.document["info"]["version"])


class UncompilableError(ContractError):
    """A contract with schemas that cannot be compiled; ``places`` are theirs."""

    def __init__(self, places: Sequence[Note]) -> None:
        super().__init__(f"{pointer_text(places[0].pointer)}: {places[0].text}")
        self.places = places


_MAX_COMPILED: Final = 8
_compiled: dict[str, Contract] = {}


def compile_contract(document: dict[str, Any]) -> Contract:
    """Return the compiled form of a valid OpenAPI 3.1 ``document``.

    A document that this process has compiled before is not compiled again. An operation without
    operationId gets one made of its method and path. Raises ContractError; if it is only for
    schemas, UncompilableError.
    """
    try:
        text = jsonio.dumps(document)
        own = marshal.loads(marshal.dumps(document))  # noqa: S302 - a copy, faster than deepcopy's
    except (TypeError, ValueError, RecursionError):  # what JSON cannot hold
        return _Compiler(document).contract()
    key = hashlib.sha256(text).hexdigest()
    if key not in _compiled:
        compiled = _Compiler(own).contract()
        while len(_compiled) >= _MAX_COMPILED:
            del _compiled[next(iter(_compiled))]
        _compiled[key] = compiled
    return _compiled[key]


class _Compiler:
    """Compiles the operations of one document."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Raises ContractError."""
        self._document = document
        self._of_requests, self._schemas = request_response_schemas(document)
        self._passwords = Passwords(self._schemas.identified)

    def contract(self) -> Contract:
        """Return the contract. Raises ContractError."""
        document, components = self._document, self._document.get("components", {})
        try:
            schemes = {
                name: compile_scheme(self._behind(raw))
                for name, raw in components.get("securitySchemes", {}).items()
            }
            operations = {
                name: self._operation(name, *declared)
                for name, declared in named_operations(document).items()
            }
            webhooks = {
                event: self._webhook(event, self._behind(item))
                for event, item in document.get("webhooks", {}).items()
            }
            invalid = [*self._schemas.check(document)]
        except SchemaError as error:
            raise ContractError(str(error)) from None
        if invalid:
            raise UncompilableError(invalid)
        at = base_path(document)
        return Contract(document, at, operations, schemes, self._schemas, webhooks)

    def _behind(self, raw: Any) -> Any:
        return dereference(self._document, raw)

    def _operation(self, name: str, path: str, method: str, raw: Mapping[str, Any]) -> Operation:
        responses = {
            status: self._response(response, f"{name} {status}")
            for status, response in raw.get("responses", {}).items()
        }
        success = next((status for status in responses if status.startswith("2")), None)
        parameters = [*self._raw_parameters(path, method, raw)]
        return Operation(
            id=name,
            method=method.upper(),
            path=path,
            tag=next(iter(raw.get("tags", [])), ""),
            security=compile_security(raw.get("security", self._document.get("security", []))),
            parameters=tuple(self._parameters(name, parameters)),
            body=self._body(name, raw),
            responses=responses,
            success=success or next(iter(responses), "default"),
            secrets=self._passwords.of(raw),
            is_secret=self._has_secret_body(raw),
            lifecycle=raw.get("x-lifecycle"),
            capability=_capability(row for _, row in parameters),
        )

    def _has_secret_body(self, raw: Mapping[str, Any]) -> bool:
        bodies = [("requestBody", raw.get("requestBody"))]
        bodies += [("response", response) for response in raw.get("responses", {}).values()]
        return any(self._passwords.is_secret(body, type_) for type_, body in bodies)

    def _raw_parameters(
        self, path: str, method: str, raw: Mapping[str, Any]
    ) -> Iterator[tuple[Pointer, Mapping[str, Any]]]:
        """Yield the parameters of an operation, those of its path first, and where they are."""
        document = self._document
        pointer, item = located(document, ("paths", path), document["paths"][path])
        steps = {steps[-1]: steps for steps, _ in operations_of(item)}[method]
        for place, holder in ((pointer, item), ((*pointer, *steps), raw)):
            for index, declared in enumerate(holder.get("parameters", [])):
                yield located(document, (*place, "parameters", index), declared)

    def _parameters(
        self, name: str, declared: Sequence[tuple[Pointer, Mapping[str, Any]]]
    ) -> Iterator[Parameter]:
        merged = {parameter_key(raw): (pointer, raw) for pointer, raw in declared}
        queries = {key for location, key in merged if location == "query"}
        for (location, key), (pointer, raw) in merged.items():
            if location == "header" and key in IGNORED_HEADERS:
                continue
            place = f"{name}, parameter {raw['name']}"
            yield replace(
                compile_parameter(raw, self._of_requests, place, queries - {key}),
                secret=self._passwords.is_secret(raw, "parameter"),
                schema_pointer=pointer_text((*pointer, *_steps_to_schema(raw))),
            )

    def _body(self, name: str, raw: Mapping[str, Any]) -> RequestBody | None:
        if "requestBody" not in raw:
            return None
        body = self._behind(raw["requestBody"])
        return compile_body(body, self._of_requests, f"{name}, request body")

    def _webhook(self, event: str, item: Mapping[str, Any]) -> WebhookEvent:
        raw, published = item.get("post", {}), bool(item.get(PUBLISHED, True))
        media = self._behind(raw.get("requestBody", {})).get("content", {}).get(JSON)
        if media is None:
            return WebhookEvent(event, published)
        checker = self._schemas.checker(media.get("schema", True), f"webhook {event}")
        return WebhookEvent(event, published, checker, media.get("example"))

    def _response(self, raw: Mapping[str, Any], place: str) -> DeclaredResponse:
        response = self._behind(raw)
        content = {name.lower(): media for name, media in response.get("content", {}).items()}
        headers = response.get("headers", {})
        return DeclaredResponse(
            content={
                media_type: self._schemas.checker(media["schema"], f"{place}, {media_type}")
                if "schema" in media
                else None
                for media_type, media in content.items()
            },
            media=content,
            headers={name: self._behind(header) for name, header in headers.items()},
        )


def _capability(parameters: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    declared = (raw for raw in parameters if raw["in"] == "query" and "x-capability" in raw)
    return next(((raw["name"], str(raw["x-capability"])) for raw in declared), None)


def _steps_to_schema(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members that lead to the schema of a parameter, else to its ``content``."""
    if "schema" in raw:
        return ("schema",)
    media_type, media = next(iter(raw["content"].items()))
    return ("content", media_type, "schema") if "schema" in media else ("content",)
