"""What Connexion resolves: the path, method and function of every operation.

Connexion cannot read OpenAPI 3.1 and checks bodies as JSON Schema Draft 4 (spec-first/connexion
issue 1396), so it is asked once for each document, at start. This is all that uses it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

with warnings.catch_warnings():
    # What Connexion imports is deprecated in Starlette and jsonschema, which we cannot fix here.
    warnings.simplefilter("ignore")
    from connexion.middleware.abstract import AbstractRoutingAPI
    from connexion.resolver import Resolver
    from connexion.spec import OpenAPISpecification

Resolved = tuple[str, str, str, Any]
"""Path, method, operationId and function of an operation."""


class _Specification(OpenAPISpecification):  # type: ignore[misc]  # Connexion ships no types
    """A document that has been validated already."""

    @classmethod
    def _validate_spec(cls, spec: Any) -> None:
        """Connexion would ask for 3.0 here."""


class _Routes(AbstractRoutingAPI):  # type: ignore[misc]  # Connexion ships no types
    """Keeps what Connexion would register on a web framework."""

    def __init__(
        self, document: Mapping[str, Any], base_path: str, resolve: Callable[[str], Any]
    ) -> None:
        self.operations: list[Resolved] = []
        super().__init__(_Specification(document), base_path=base_path, resolver=Resolver(resolve))

    def make_operation(self, operation: Any) -> Any:
        """Connexion's own operation, which knows the function that was resolved."""
        return operation

    @staticmethod
    def _framework_path_and_name(operation: Any, path: str) -> tuple[str, str]:
        return path, operation.operation_id

    def _add_operation_internal(
        self, method: str, path: str, operation: Any, name: str | None = None
    ) -> None:
        self.operations.append((path, method.upper(), str(name), operation.function))


def resolved(
    document: Mapping[str, Any], base_path: str, resolve: Callable[[str], Any]
) -> list[Resolved]:
    """Every operation of a document whose paths start with ``base_path``.

    ``resolve`` returns the function of an operationId.
    """
    return _Routes(document, base_path, resolve).operations
