"""Which members of bodies and answers are secrets: those declared as ``format: password``.

A schema that many operations refer to is looked through once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urldefrag

from invoice_sandbox.openapi.load.identifiers import Place, address, named
from invoice_sandbox.openapi.schema.compile import COMPONENTS, SchemaError

Reference = tuple[str, str]
"""A reference and the address that it starts from."""


class Passwords:
    """Finds the secrets of the operations of one document."""

    def __init__(self, identified: Mapping[str, Any]) -> None:
        """``identified`` are the document and its schemas by their addresses."""
        self._identified = identified
        self._seen: dict[Reference, tuple[set[str], set[Reference]]] = {}

    def of(self, operation: Mapping[str, Any]) -> frozenset[str]:
        """Names of members that are secret. Raises SchemaError for a reference to nothing."""
        names: set[str] = set()
        waiting: set[Reference] = set()
        for key in ("requestBody", "responses"):
            found, further = _looked_through(operation.get(key), Place().below(key, None))
            names |= found
            waiting |= further
        done: set[Reference] = set()
        while waiting:
            reference = waiting.pop()
            done.add(reference)
            found, further = self._behind(reference)
            names |= found
            waiting |= further - done
        return frozenset(names)

    def _behind(self, reference: Reference) -> tuple[set[str], set[Reference]]:
        if reference not in self._seen:
            self._seen[reference] = _looked_through(*self._named(*reference))
        return self._seen[reference]

    def _named(self, reference: str, base: str) -> tuple[Any, Place]:
        """What a reference names, and its place; None if that is in no document."""
        found = named(reference, base, self._identified)
        if found is None and reference.startswith("#/"):
            raise SchemaError(f"{reference} names nothing in the document")
        whole = urldefrag(address(reference, base)).url
        return found, Place(whole, in_schema=True).below("", found)


def _looked_through(value: Any, place: Place) -> tuple[set[str], set[Reference]]:
    """Secrets in ``value`` itself, and what it refers to."""
    names, references = set[str](), set[Reference]()
    waiting = [(value, place)]
    while waiting:
        value, place = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, place.below("", item)) for item in value]
        if not isinstance(value, Mapping):
            continue
        reference = value.get("$ref")
        if isinstance(reference, str) and not place.names:
            base = "" if reference.startswith(COMPONENTS) else place.base
            references.add((reference, base))
        properties = value.get("properties")
        for name, schema in properties.items() if isinstance(properties, Mapping) else ():
            if isinstance(schema, Mapping) and schema.get("format") == "password":
                names.add(name)
        waiting += [
            (child, place.below(key, child))
            for key, child in value.items()
            if not place.is_data(key)
        ]
    return names, references
