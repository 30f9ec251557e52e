"""What a fuzzing run needs from an OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.openapi.load.model import METHODS
from invoice_sandbox.openapi.load.operations import raw_operations
from invoice_sandbox.openapi.load.pointers import dereference
from invoice_sandbox.openapi.security import (
    carried,
    compile_scheme,
    compile_security,
    key_schemes,
)

SETUP: Final = "x-fuzz-setup"
"""On an operation: the requests before the fuzzing, and which values of their responses to keep."""

UNREACHABLE: Final = "x-fuzz-unreachable"
"""On an operation: why no generated request can succeed."""

FORGETS: Final = "x-fuzz-forgets"
"""On an operation: why it may delete or restore earlier data."""


class DocumentError(UserError):
    """An extension that cannot be used; the message names the operation."""


@dataclass(frozen=True)
class Operation:
    """An operation as a verdict sees it.

    ``successes`` are the success statuses that it declares (``200``, ``2XX``). ``is_public`` is
    whether it needs no credential. ``linked_from`` are the operations whose responses link to it.
    """

    successes: frozenset[str]
    is_public: bool = False
    unreachable: str | None = None
    linked_from: frozenset[str] = frozenset()

    def declares(self, status: int) -> bool:
        """Whether ``status`` is a success of the operation."""
        known = {one.upper() for one in self.successes}
        return bool(known & {str(status), f"{status // 100}XX"})


Contract = Mapping[str, Operation]
"""By operationId, in the order of the document."""


@dataclass(frozen=True)
class Step:
    """A request that prepares a workspace, and JSON pointers into its response by the names of the
    parameters that get the values."""

    method: str
    path: str
    body: Any
    keep: Mapping[str, str]


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Path, method, name and raw form of every operation. Without an operationId the name is method
    and path, as in Schemathesis."""
    for path, method, raw in raw_operations(document):
        yield path, method, raw.get("operationId", f"{method.upper()} {path}"), raw


def contract_of(document: Mapping[str, Any]) -> Contract:
    """The operations of an OpenAPI document."""
    sources: dict[str, set[str]] = {}
    for _, _, name, raw in operations(document):
        for target in _linked(document, raw):
            sources.setdefault(target, set()).add(name)
    return {
        name: Operation(
            successes=frozenset(one for one in map(str, raw.get("responses", {})) if one[0] == "2"),
            is_public=_is_public(raw.get("security", document.get("security"))),
            unreachable=raw.get(UNREACHABLE),
            linked_from=frozenset(sources.get(name, ())),
        )
        for _, _, name, raw in operations(document)
    }


def credential_headers(document: Mapping[str, Any], key: str) -> dict[str, str]:
    """The headers that carry a key to the operations of a document."""
    raw = document.get("components", {}).get("securitySchemes", {})
    schemes = {name: compile_scheme(dereference(document, one)) for name, one in raw.items()}
    common = document.get("security", [])
    asked = (compile_security(one.get("security", common)) for *_, one in operations(document))
    return dict(carried(key_schemes(asked, schemes), key).headers)


def setup_of(name: str, raw: Mapping[str, Any]) -> list[Step]:
    """The steps of an operation's ``x-fuzz-setup``. Raises DocumentError."""
    wrong = DocumentError(
        f"{name}: {SETUP} is a list of objects with send ('POST /things'), body and keep "
        "(parameter to JSON pointer)"
    )
    steps = []
    for one in raw.get(SETUP, ()):
        if not isinstance(one, dict) or not {"send"} <= one.keys() <= {"send", "body", "keep"}:
            raise wrong
        method, _, path = str(one["send"]).partition(" ")
        if method.lower() not in METHODS or not path.startswith("/"):
            raise wrong
        steps.append(Step(method, path, one.get("body"), one.get("keep", {})))
    return steps


def _is_public(security: Any) -> bool:
    return not security or {} in security


def _linked(document: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    for response in raw.get("responses", {}).values():
        for link in dereference(document, response).get("links", {}).values():
            target = dereference(document, link).get("operationId")
            if target is not None:
                yield target
