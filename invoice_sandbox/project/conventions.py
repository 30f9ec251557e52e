"""The conventions of a project: what its API does the same way in every operation.

A project writes those that differ from the plain ones into ``conventions.yaml``. Bodies are
templates: JSON in which a string such as ``"{data}"`` stands for a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal

from invoice_sandbox.base.errors import CODES, ERRORS, ApiError, ErrorType, code_for
from invoice_sandbox.base.ids import KEY_PREFIX, REQUEST_PREFIX
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.message.media_types import JSON, PROBLEM_JSON
from invoice_sandbox.openapi.operation import Contract
from invoice_sandbox.openapi.schema.file_schema import FileProblem, FileSchema, reject_problems
from invoice_sandbox.project.inference import named
from invoice_sandbox.project.stateful import Collection
from invoice_sandbox.state import Instant

FILE: Final = "conventions.yaml"
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_SCHEMA: Final = Path(__file__).with_name("conventions.schema.json")


@dataclass(frozen=True)
class ErrorFormat:
    """The media type of an error response and the template of its body."""

    media_type: str
    body: Any


ENVELOPE: Final = {"data": "{data}", "mode": "{mode}"}
"""The template of successful responses of the control API."""

JSON_ERROR: Final = ErrorFormat(
    JSON,
    {
        "error": {"code": "{code}", "message": "{message}", "requestId": "{requestId}"},
        "mode": "{mode}",
    },
)
PROBLEM: Final = ErrorFormat(
    PROBLEM_JSON,
    {"type": "about:blank", "title": "{title}", "status": "{status}", "detail": "{message}"},
)
"""Problem details (RFC 9457)."""


@dataclass(frozen=True)
class Conventions:
    """Choices that apply to every operation of a project; the defaults are the plain conventions.

    - ``mode`` marks bodies as those of a sandbox.
    - ``envelope`` is the template of the body of a successful response of a handler.
    - ``event`` is the template of the body of a webhook.
    - ``error_formats``: an error is sent in the first format that the operation declares for its
      status. Without one the response is the one that the document shows for the status; for a
      status that is not declared it is the first format.
    - ``codes`` are the codes of errors by status, ``texts`` error types that replace those of the
      engine, by name.
    - ``access``: ``any`` accepts every credential of a declared kind, unless the server was started
      with ``--key``; ``keys`` accepts those that the sandbox has issued.
    - ``request_id_prefix`` and ``event_id_prefix`` begin the ids that the engine makes.
    - ``limit_parameter`` and ``cursor_parameter`` are the query parameters of a page,
      ``page_size`` is the number of records when no limit was sent.
    - ``indexes`` are the fields of each collection that conditions use: looking them up takes as
      long among many records as among few.
    - ``request_id_header``, ``version_header`` and ``total_header`` are names of response headers.
    - ``register_operation`` is the operation that registers a webhook endpoint, and
      ``deliveries_operation`` the one that lists endpoints and deliveries: tools use them.
    - ``subject_members`` are the members of an event's data that have the ids of the records it is
      about: each is an id or a list of ids.
    - ``key_prefix`` begins the API keys that the sandbox issues.
    - ``collections`` keep what is posted, without handlers.
    - ``records`` are the records that the console shows, as the file describes them, ``sign_in`` is
      the operation that opens a session for a visitor of the console, with the fields of its form,
      ``instants`` the names of what actions do at an instant that one may want to go to.
    """

    mode: str = "sandbox"
    envelope: Any = "{data}"
    event: Any = "{data}"
    error_formats: tuple[ErrorFormat, ...] = (JSON_ERROR, PROBLEM)
    codes: Mapping[int, str] = field(default_factory=lambda: CODES)
    texts: Mapping[str, ErrorType] = field(default_factory=dict)
    access: Literal["any", "keys"] = "any"
    request_id_prefix: str = REQUEST_PREFIX
    event_id_prefix: str = "evt_sandbox"
    key_prefix: str = KEY_PREFIX
    limit_parameter: str = "limit"
    cursor_parameter: str = "cursor"
    page_size: int = 1000
    request_id_header: str = "X-Request-Id"
    version_header: str = "X-Contract-Version"
    total_header: str = "X-Total-Count"
    indexes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    register_operation: str | None = None
    deliveries_operation: str | None = None
    subject_members: Sequence[str] = ("id",)
    records: Sequence[Mapping[str, Any]] = ()
    sign_in: Mapping[str, Any] | None = None
    instants: Mapping[str, str] = field(default_factory=dict)
    collections: tuple[Collection, ...] = ()

    @cached_property
    def has_own_errors(self) -> bool:
        """True if the project has a format of errors that is not one of the engine's."""
        return any(item is not JSON_ERROR and item is not PROBLEM for item in self.error_formats)

    def success_body(self, data: Any) -> Any:
        """Return the body of a successful response with ``data``."""
        return fill(self.envelope, {"data": data, "mode": self.mode})

    def event_body(self, event_id: str, type_: str, at: str, data: Mapping[str, Any]) -> Any:
        """Return the body of a webhook about an event that happened ``at`` (RFC 3339)."""
        values = {"id": event_id, "type": type_, "timestamp": at, "data": dict(data)}
        return fill(self.event, {**values, "mode": self.mode})

    def subjects(self, data: Mapping[str, Any]) -> list[str]:
        """Return the ids of the records that an event with ``data`` is about."""
        found: dict[str, None] = {}
        for name in self.subject_members:
            value = data.get(name)
            for subject in value if isinstance(value, list) else (value,):
                if isinstance(subject, str):
                    found[subject] = None
        return list(found)

    def message(self, error: ApiError, base_url: str = "") -> str:
        """Return what is wrong and what to do, in the words of this project."""
        return self._worded(error).message(base_url)

    def code(self, error: ApiError) -> str:
        """Return the code of the error in this project."""
        return error.type.code or code_for(error.type.code_status or error.status, self.codes)

    def error_bodies(
        self, error: ApiError, message: str, request_id: str, status: int | None = None
    ) -> Iterator[tuple[str, Any]]:
        """Yield ``media type, body`` of the error in every format, in the order of preference.

        ``message`` is that of the error, ``status`` that of the response, if it is another.
        """
        status = status or error.status
        values = {
            "code": self.code(error),
            "message": message,
            "title": _PHRASES.get(status, "Error"),
            "status": status,
            "requestId": request_id,
            "mode": self.mode,
        }
        return ((item.media_type, fill(item.body, values)) for item in self.error_formats)

    def for_control(self) -> Conventions:
        """Return the conventions of the control API in this project."""
        return replace(self, envelope=ENVELOPE, error_formats=(JSON_ERROR,), access="keys")

    def _worded(self, error: ApiError) -> ApiError:
        own = self.texts.get(error.type.name)
        return error if own is None else ApiError(own, error.values, error.headers)


ABSENT: Final = object()
"""The value of a member that a body does not have."""


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Return the template with each string ``"{name}"`` replaced by the value of that name."""
    if isinstance(template, str):
        return values.get(template[1:-1], template) if template[:1] == "{" else template
    if isinstance(template, dict):
        filled = {}
        for name, member in template.items():
            if type(member) is str:
                value = values.get(member[1:-1], member) if member[:1] == "{" else member
            else:
                value = fill(member, values)
            if value is not ABSENT:
                filled[name] = value
        return filled
    if isinstance(template, list):
        return [fill(item, values) for item in template]
    return template


def plain_conventions(contract: Contract) -> Conventions:
    """Return the conventions of a document without a project: errors are in the format it declares.

    Problem details come first where the document declares them for any error.
    """
    declared = (
        media_type
        for operation in contract.operations.values()
        for status, response in operation.responses.items()
        if not status.startswith(("1", "2", "3"))
        for media_type in response.content
    )
    if PROBLEM_JSON in declared:
        return Conventions(error_formats=(PROBLEM, JSON_ERROR))
    return Conventions()


def load_conventions(folder: Path, contract: Contract) -> Conventions:
    """Return the plain conventions with what ``conventions.yaml`` in ``folder`` changes.

    Raises DocumentError with all problems in the file and their places.
    """
    plain = plain_conventions(contract)
    file = folder / FILE
    if not file.exists():
        return plain
    document = load_document(file)
    schema = FileSchema.read(_SCHEMA, {"operation": contract.operations, "error": ERRORS})
    reject_problems(file, schema.problems(document) or _collection_problems(document, contract))
    collections = tuple(named(contract, row) for row in document.get("collections", ()))
    return replace(plain, **dict(_members(document)), collections=collections)


_SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "ids": {"request": "request_id_prefix", "event": "event_id_prefix", "key": "key_prefix"},
    "paging": {"limit": "limit_parameter", "cursor": "cursor_parameter", "size": "page_size"},
    "headers": {
        "requestId": "request_id_header",
        "contractVersion": "version_header",
        "totalCount": "total_header",
    },
    "webhooks": {
        "register": "register_operation",
        "deliveries": "deliveries_operation",
        "subjects": "subject_members",
    },
}
"""Members of the sections of the file, and the fields of ``Conventions`` that they set."""


def _indexed(field: Any) -> str:
    return field if isinstance(field, str) else Instant(field["instant"])


def _members(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("mode", "envelope", "event", "access"):
        if name in document:
            yield name, document[name]
    indexes = document.get("indexes", {})
    yield "indexes", {name: tuple(map(_indexed, fields)) for name, fields in indexes.items()}
    for section, fields in _SECTIONS.items():
        for name, value in document.get(section, {}).items():
            yield fields[name], value
    console = document.get("console", {})
    yield from (("records", console.get("records", ())), ("sign_in", console.get("signIn")))
    yield "instants", console.get("instants", {})
    errors = document.get("errors", {})
    if "formats" in errors:
        yield (
            "error_formats",
            tuple(ErrorFormat(row["mediaType"], row["body"]) for row in errors["formats"]),
        )
    if "codes" in errors:
        yield "codes", {**CODES, **{int(status): code for status, code in errors["codes"].items()}}
    if "texts" in errors:
        yield (
            "texts",
            {name: replace(ERRORS[name], **changed) for name, changed in errors["texts"].items()},
        )


def _collection_problems(document: Mapping[str, Any], contract: Contract) -> Iterator[FileProblem]:
    """Yield collections whose paths do not belong together."""
    for index, row in enumerate(document.get("collections", ())):
        try:
            named(contract, row)
        except ValueError as error:
            yield FileProblem(("collections", index), str(error))
