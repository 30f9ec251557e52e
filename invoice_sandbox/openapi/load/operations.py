"""The operations of a document: their names, where they are served, and notes about them."""

from __future__ import annotations

import re
from bisect import bisect, insort
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any, Final, cast
from urllib.parse import urljoin, urlsplit

from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.load.model import FILE, METHODS, Pointer
from invoice_sandbox.openapi.load.pointers import dereference


@dataclass(frozen=True)
class Note:
    """Something in a document that is not served as declared, or that OpenAPI does not define.

    ``pointer`` are the steps to its place, ``text`` is a clause for people.
    """

    pointer: Pointer
    text: str


class Draft:
    """A ``document`` that is being changed, and ``notes`` of its changes.

    A pointer in a note is that of the document as it was at first, also where items of lists have
    been left out since.
    """

    def __init__(self, document: dict[str, Any], lost: Iterable[Pointer] = ()) -> None:
        self.document = document
        self.notes: list[Note] = []
        self._loosened: list[Pointer] = []
        self._lost: dict[Pointer, list[int]] = {}
        self._leaving = list(lost)
        self.add(())

    def leave_out(self, pointer: Pointer) -> None:
        """Leave out an item of a list or a member of an object. The places of other items are
        still counted as they were, until the notes of these changes are added."""
        around = self._at(pointer[:-1])
        del around[pointer[-1]]
        if isinstance(around, list):
            self._leaving.append(pointer)

    def replace(self, pointer: Pointer, value: Any) -> None:
        """Put a copy of ``value`` there."""
        self._at(pointer[:-1])[pointer[-1]] = deepcopy(value)

    def loosen(self, pointer: Pointer) -> None:
        """Note that a schema allows more than it was written to allow."""
        self._loosened.append(self.first(pointer))

    def loosened(self) -> list[Any]:
        """The schemas that allow more, as far as they are still there; the next time only those
        that were noted since."""
        places, self._loosened = [self.now(one) for one in self._loosened], []
        found = list[Any]()
        for place in [one for one in places if one is not None]:
            with suppress(LookupError, TypeError):
                found.append(self._at(place))
        return found

    def _at(self, pointer: Pointer) -> Any:
        return reduce(getitem, pointer, cast("Any", self.document))

    def add(self, notes: Iterable[Note]) -> None:
        """Add the notes of changes, at places as they were before these."""
        self.notes += self.as_written(notes)
        for *around, index in [self.first(one) for one in self._leaving]:
            insort(self._lost.setdefault(tuple(around), []), int(index))
        self._leaving = []

    def as_written(self, notes: Iterable[Note]) -> list[Note]:
        """The notes, at the places that theirs had at first."""
        return [Note(self.first(one.pointer), one.text) for one in notes]

    def lost(self) -> list[Pointer]:
        """The places of the items that were left out, as a draft can be made with."""
        return [(*around, index) for around, some in self._lost.items() for index in some]

    def now(self, pointer: Pointer) -> Pointer | None:
        """Where the place is now that was at ``pointer`` at first; None if it was left out."""
        found = list[str | int]()
        for length, step in enumerate(pointer):
            lost = self._lost.get(pointer[:length], ())
            if step in lost:
                return None
            found.append(step - bisect(lost, step) if lost and isinstance(step, int) else step)
        return tuple(found)

    def first(self, pointer: Pointer) -> Pointer:
        """Where the place was at first that is at ``pointer`` now."""
        found: Pointer = ()
        for step in pointer:
            first = step
            for lost in self._lost.get(found, ()):  # in order
                first = first + 1 if isinstance(first, int) and lost <= first else first
            found = (*found, first)
        return found


NOT_SERVED: Final = "is not served: "
"""What a note says of an operation, a path or a component before the reason."""


def base_path(document: Mapping[str, Any]) -> str:
    """The path of the first server, its variables at their defaults, without a final slash.

    A relative address (``v1``, ``./v1``) starts from where the document is served: the root. What
    an address begins with that is no variable (``{baseUrl}/v1``, ``{scheme}://host``,
    ``${URL}/v1``, ``{{url}}/v1``) has no path.
    """
    url = _UNKNOWN_ORIGIN.sub("http://", server_url(document))
    path = urlsplit(urljoin("http://sandbox.invalid/", url)).path
    return "/".join(["", *(step for step in path.split("/") if step)])


def server_url(document: Mapping[str, Any]) -> str:
    """The URL of the first server, its variables at their defaults."""
    servers = document.get("servers") or [{"url": "/"}]
    url: str = servers[0]["url"]
    for name, variable in servers[0].get("variables", {}).items():
        url = url.replace("{" + name + "}", str(variable["default"]))
    return url


ORIGIN: Final = r"^(?:\$?\{[^{}/]*\}|\{\{[^{}/]*\}\})"
"""What an address begins with that is no variable."""
_UNKNOWN_ORIGIN: Final = re.compile(f"{ORIGIN}(://)?")

DOCS: Final = "/docs"
CONSOLE: Final = "/console"
CONTROL: Final = "/sandbox"


def reserved_for(path: str) -> str:
    """What the sandbox itself has at a base path, or nothing."""
    if path == CONTROL:
        return "the control API"
    own = {DOCS: "the API documentation", CONSOLE: "the console"}
    return own.get("/".join(path.split("/")[:2]), "")


def served_base_path(document: Mapping[str, Any]) -> str:
    """The base path that the operations are served below: ``base_path``, or one below ``/api`` if
    the sandbox has pages of its own there."""
    path = base_path(document)
    return f"/api{path}" if reserved_for(path) else path


def raw_operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """``path, method, operation object`` for every operation, in document order.

    What is no object, as in a document that is not repaired yet, is none.
    """
    for path, item in document.get("paths", {}).items():
        resolved = dereference(document, item)
        for method in METHODS if isinstance(resolved, Mapping) else ():
            if isinstance(resolved.get(method), Mapping):
                yield path, method, resolved[method]


def subject(pointer: Pointer) -> str:
    """``GET /orders`` for a place in an operation, ``/orders`` for one in a path, the steps for one
    of another file, else nothing."""
    match pointer:
        case (str(first), _, *steps) if first == FILE:
            return pointer_text(steps) or "in this file"
        case ("paths", str() as path, str() as method, *_) if method in METHODS:
            return f"{method.upper()} {path}"
        case ("paths", str() as path, *_):
            return path
    return ""


def parameter_key(declared: Mapping[str, Any]) -> tuple[str, str]:
    """The location and the name of a parameter, which no two of an operation share; that of a
    header is the same in capitals and small letters (RFC 9110, section 5.1)."""
    location, name = str(declared.get("in")), str(declared.get("name"))
    return location, name.lower() if location == "header" else name


def path_names(path: str) -> list[str]:
    """The names of the parameters in a path, in their order."""
    return _TEMPLATE.findall(path)


def without_names(path: str) -> str:
    """``/orders/{id}`` as ``/orders/{}``: what is left is the same for paths that match alike."""
    return _TEMPLATE.sub("{}", path)


_TEMPLATE: Final = re.compile(r"\{([^}]*)\}")


def named_examples(
    document: Mapping[str, Any], holder: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The named examples of a Media Type, Parameter or Header Object that the document has."""
    for name, declared in holder.get("examples", {}).items():
        example = dereference(document, declared)
        if "value" in example:
            yield name, example["value"]


def operation_id(path: str, method: str, raw: Mapping[str, Any]) -> str:
    """The operationId as declared, else made of method and path: ``get_pets_id``."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", f"{method}{path}").strip("_")
    return str(raw.get("operationId", words))


def named_operations(
    document: Mapping[str, Any],
) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Path, method and object of every operation by its name, in document order.

    A made name that is taken gets a number: ``/a/b`` and ``/a_b`` make the same.
    """
    operations = list(raw_operations(document))
    taken = {str(raw["operationId"]) for _, _, raw in operations if "operationId" in raw}
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for path, method, raw in operations:
        made, number = operation_id(path, method, raw), 1
        name = made
        while "operationId" not in raw and name in taken:
            number += 1
            name = f"{made}_{number}"
        taken.add(name)
        found[name] = (path, method, raw)
    return found
