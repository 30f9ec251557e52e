"""A contract that is spread over files, as one document: every reference is to a place within it.

What a reference to another file names becomes a component, or stands where the reference stood if
OpenAPI has no components of its kind. Where everything came from is remembered, so that a message
about the bundle names the file, line and column that a person can look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from invoice_sandbox.openapi.load._bundler import Bundler
from invoice_sandbox.openapi.load.documents import DocumentError, Places
from invoice_sandbox.openapi.load.fetching import Fetch, never
from invoice_sandbox.openapi.load.identifiers import at_pointer
from invoice_sandbox.openapi.load.model import SECTIONS, Pointer, is_reference


@dataclass(frozen=True)
class Bundle:
    """``document`` refers to nothing outside itself; ``file`` is where it starts.

    ``origins`` says of every place that was filled in from elsewhere which file that is, and which
    pointer within it.
    """

    document: dict[str, Any]
    file: Path
    origins: Mapping[tuple[str, ...], tuple[str, Pointer]] = field(default_factory=dict)
    places: Places = field(default_factory=Places)

    def place(self, pointer: Pointer) -> str:
        """``file:line:column`` of a place in the bundle, or of its nearest ancestor."""
        steps = tuple(map(str, pointer))
        for length in range(len(steps), 0, -1):
            if steps[:length] in self.origins:
                name, start = self.origins[steps[:length]]
                return self.places.of(name, (*start, *pointer[length:]))
        return self.places.of(self.file, pointer)


def bundle(document: dict[str, Any], file: Path, fetch: Fetch = never) -> Bundle:
    """The ``document`` of ``file``, with everything that it refers to.

    ``fetch`` gets what lies beyond this machine. Raises DocumentError, with the place of the
    reference, when one names nothing.
    """
    whole = Bundle(document, file)
    if not _stands_alone(document):
        copy, origins, places = Bundler(file, document, fetch).bundled()
        whole = Bundle(copy, file, origins, places)
    _refuse_circles(whole)
    return whole


def _refuse_circles(whole: Bundle) -> None:
    """Raise DocumentError for a component that is a reference to a reference ... to itself."""
    components = whole.document.get("components")
    for kind, section in SECTIONS.items():
        entries = components.get(section) if isinstance(components, dict) else None
        for name, value in entries.items() if isinstance(entries, dict) else ():
            if _leads_to_itself(whole.document, kind, value):
                problem = f"the reference '{value['$ref']}' leads back to itself"
                raise DocumentError(whole.place(("components", section, name)), problem)


def _leads_to_itself(document: Mapping[str, Any], kind: str, value: Any) -> bool:
    seen: set[str] = set()
    while is_reference(value, kind) and value["$ref"] not in seen:
        seen.add(value["$ref"])
        local = value["$ref"].startswith("#/")
        value = at_pointer(document, value["$ref"][1:]) if local else None
    return is_reference(value, kind)


def _stands_alone(document: Mapping[str, Any]) -> bool:
    """Whether there is nothing to do: every reference is to a component that is there."""
    references = set(_references(document))
    return all(
        one.startswith("#/components/")
        and one.count("/") == 3
        and at_pointer(document, one[1:]) is not None
        for one in references
    )


def _references(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                yield reference
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
