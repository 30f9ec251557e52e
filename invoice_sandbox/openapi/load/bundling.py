"""A contract that is spread over files, as one document: every reference is to a place within it.

What a reference to another file names becomes a component, or stands where the reference stood if
OpenAPI has no components of its type. Where everything came from is remembered, so that a message
about the bundle names the file, line and column that a person can look at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from invoice_sandbox.openapi.load.documents import Places, pointer_text
from invoice_sandbox.openapi.load.files import Files, Target
from invoice_sandbox.openapi.load.model import (
    BESIDE_REFERENCE,
    DATA,
    OBJECTS,
    SCHEMA,
    SECTIONS,
    Node,
    Pointer,
    node,
    walk,
)
from invoice_sandbox.openapi.load.pointers import at_pointer, node_at, steps_of
from invoice_sandbox.openapi.load.text import DocumentError

Origins = Mapping[tuple[str, ...], tuple[str, Pointer]]
"""Where a place of the bundle came from: the file, and the pointer within it."""

_FILE: Final = re.compile(r"[^#]*\.(?:ya?ml|json)(?:#.*)?|[^#]+#/.*")

_COMPONENT: Final = re.compile("#/components/(?!x-)[^/]*/[^/]*")
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Bundle:
    """``document`` refers to nothing outside itself; ``file`` is where it starts.

    ``origins`` has every place that was filled in from elsewhere, with the file that it came from,
    and the pointer within it. ``errors`` are the references that lead nowhere.
    """

    document: dict[str, Any]
    file: Path
    origins: Origins = field(default_factory=dict)
    places: Places = field(default_factory=Places)
    errors: tuple[DocumentError, ...] = ()

    def place(self, pointer: Pointer) -> str:
        """``file:line:column`` of a place in the bundle, or of its closest ancestor."""
        steps = tuple(map(str, pointer))
        for length in range(len(steps), 0, -1):
            if steps[:length] in self.origins:
                name, start = self.origins[steps[:length]]
                return self.places.of(name, (*start, *pointer[length:]))
        return self.places.of(self.file, pointer)


def bundle(document: dict[str, Any], file: Path, folder: Path | None = None) -> Bundle:
    """Return the ``document`` of ``file``, with everything that it refers to.

    Files are read in the ``folder``, by default that of ``file``. A reference that leads nowhere
    stays as it is, and is one of the errors.
    """
    whole, found = Bundle(document, file), _references(document)
    if not _is_self_contained(document, found):
        files = Files(file, document, folder or file.parent)
        whole = _Bundler(file, files).bundled()
        found = _references(whole.document)
    lost = [DocumentError(whole.place(at), text) for at, text in _lost(whole.document, found)]
    return replace(whole, errors=(*whole.errors, *lost))


def lost_references(document: Mapping[str, Any]) -> Iterator[tuple[Pointer, str]]:
    """Yield where a reference within the document leads nowhere, and why."""
    return _lost(document, _references(document))


def _references(document: Any) -> list[Node]:
    """Everything that has a ``$ref`` or ``$dynamicRef``."""
    every = [one for one in walk(node(document)) if isinstance(one.value, dict)]
    return [one for one in every if "$ref" in one.value or "$dynamicRef" in one.value]


def _lost(document: Mapping[str, Any], references: Sequence[Node]) -> Iterator[tuple[Pointer, str]]:
    start = node(document)

    @cache
    def named(reference: str) -> Node | None:
        return node_at(start, steps_of(reference[1:]))

    for here in references:
        if here.type in OBJECTS and not isinstance(here.value.get("$ref", ""), str):
            yield (*here.pointer, "$ref"), "a reference is text"
        reference = here.reference
        if reference is None or here.base or not reference.startswith("#/"):
            continue
        target = named(reference)
        if target is None or target.value is None:
            yield here.pointer, f"cannot resolve reference '{reference}'"
        elif here.type != "other" and target.type not in {here.type, DATA, "other"}:
            yield here.pointer, f"the reference '{reference}' names an object of another type"
        elif _is_circle(here, named):
            yield here.pointer, f"the reference '{reference}' leads back to itself"


def _is_circle(here: Node, named: Callable[[str], Node | None]) -> bool:
    seen, there = set[str](), here
    while there.reference is not None and there.reference not in seen:
        seen.add(there.reference)
        there = named(there.reference) or node(None)
        if there.value is here.value:
            return True
    return False


def _is_self_contained(document: Mapping[str, Any], found: Sequence[Node]) -> bool:
    """Whether there is nothing to do: every reference is to a component that is there."""
    references = {here.reference for here in found} - {None}
    return all(
        _COMPONENT.fullmatch(one) and at_pointer(document, one[1:]) is not None
        for one in references
        if one is not None
    )


class _Bundler:
    """Copies a document, and all that it refers to, into one."""

    def __init__(self, file: Path, files: Files) -> None:
        """``files`` has the document of ``file``, and reads the others."""
        self._file = file
        self._files = files
        self._errors: dict[str, DocumentError] = {}
        self._root = self._files.root
        self._names: dict[tuple[str, Target], str] = {}
        self._taken: dict[str, set[str]] = {}
        self._waiting: list[tuple[str, str, Target]] = []
        self._inlining: list[Target] = []
        self._origins: dict[tuple[str, ...], tuple[str, Pointer]] = {}

    def bundled(self) -> Bundle:
        """Everything in one document. Raises DocumentError."""
        self._claim_names()
        document = self._copy(node(self._files.content(self._root)), self._root, ())
        while self._waiting:
            type_, name, target = self._waiting.pop(0)
            at = ("components", SECTIONS[type_], name)
            components = _object_at(document, "components")
            _object_at(components, SECTIONS[type_])[name] = self._filled_in(type_, target, at)
        errors = tuple(self._errors.values())
        return Bundle(document, self._file, self._origins, self._files.places, errors)

    def _claim_names(self) -> None:
        """A component that adds nothing to a reference to a file gives its name to what is
        there."""
        document = node(self._files.content(self._root))
        components = document.value.get("components")
        for type_, section in SECTIONS.items():
            entries = components.get(section) if isinstance(components, dict) else None
            entries = entries if isinstance(entries, dict) else {}
            self._taken[section] = set(entries)
            for name, value in entries.items():
                here = node(value, type_, ("components", section, name))
                if here.reference is None or here.reference.startswith("#"):
                    continue
                if any(key not in BESIDE_REFERENCE and key[:2] != "x-" for key in value):
                    continue
                target = self._target(here.reference, self._root, here)
                if target is not None and target.address != self._root:
                    self._names.setdefault((section, target), name)

    def _copy(self, here: Node, file: str, out: Pointer) -> Any:
        """A copy of what stands in ``file``, for the place ``out`` of the bundle."""
        if here.reference is not None:
            return self._referred(here, here.reference, file, out)
        copy = self._members(here, file, out)
        if here.is_schema and isinstance(copy.get("discriminator"), dict):
            copy["discriminator"] = self._mapped(here, copy["discriminator"], file)
        return copy

    def _target(self, reference: str, file: str, here: Node) -> Target | None:
        """Return what a reference names; None: it stays as it is."""
        try:
            return self._files.target(reference, file, here)
        except DocumentError as error:
            self._errors[str(error)] = error
            return None

    def _members(self, here: Node, file: str, out: Pointer) -> Any:
        return here.copy(lambda child: self._copy(child, file, (*out, child.pointer[-1])))

    def _referred(self, here: Node, reference: str, file: str, out: Pointer) -> Any:
        """A reference within the bundle, or what it names if that cannot be a component."""
        beside = {key: child for key, child in here.value.items() if key != "$ref"}
        beside = self._members(Node(beside, here.type, here.pointer, here.base), file, out)
        target = self._target(reference, file, here)
        if target is None:
            return {"$ref": reference, **beside}
        if target.address == self._root and self._may_stay(target.pointer, here.type):
            return {"$ref": _reference(target.pointer), **beside}
        if here.type not in SECTIONS:
            content = self._filled_in(here.type, target, out)
            return {**content, **beside} if isinstance(content, dict) else content
        name = self._name(here.type, target)
        if out == ("components", SECTIONS[here.type], name):
            return self._filled_in(here.type, target, out)
        return {"$ref": _reference(("components", SECTIONS[here.type], name)), **beside}

    def _may_stay(self, pointer: Pointer, type_: str) -> bool:
        """Whether a reference to an object of that type may lead to that place of the document.

        What is in an extension may not stay there, where references have no effect.
        """
        if type_ == SCHEMA:  # a component of another type is reported
            is_component = len(pointer) == 3 and pointer[0] == "components"
            return is_component and pointer[1] in SECTIONS.values()
        place = node_at(node(self._files.content(self._root)), pointer)
        is_data = place is None or place.type == DATA
        return not is_data and (type_ in SECTIONS or type_ in {"pathItem", "other"})

    def _filled_in(self, type_: str, target: Target, out: Pointer) -> Any:
        """A copy of what ``target`` names, at the place ``out`` of the bundle."""
        if target in self._inlining:
            place = self._files.places.of(self._files.shown(target.address), target.pointer)
            error = DocumentError(place, "self-referencing value", "make it a component")
            self._errors[str(error)] = error
            return {"$ref": _reference(out)}
        self._inlining.append(target)
        self._origins[tuple(map(str, out))] = (self._files.shown(target.address), target.pointer)
        content = self._files.at(target)
        copy = self._copy(node(content, type_, target.pointer), target.address, out)
        self._inlining.pop()
        return copy

    def _name(self, type_: str, target: Target) -> str:
        """The name of the component that ``target`` becomes, now or when first asked for."""
        section = SECTIONS[type_]
        key = (section, target)
        if key not in self._names:
            taken = self._taken[section]
            name = plain = _plain_name(target)
            number = 1
            while name in taken:
                number += 1
                name = f"{plain}_{number}"
            taken.add(name)
            self._names[key] = name
            self._waiting.append((type_, name, target))
        return self._names[key]

    def _mapped(self, here: Node, discriminator: dict[str, Any], file: str) -> dict[str, Any]:
        """A discriminator whose mapping names components of the bundle."""
        mapping = discriminator.get("mapping")
        if not isinstance(mapping, dict):
            return discriminator
        return {
            **discriminator,
            "mapping": {word: self._meant(here, meant, file) for word, meant in mapping.items()},
        }

    def _meant(self, here: Node, meant: Any, file: str) -> Any:
        """A mapping names a component of its own file, or is a reference."""
        if not isinstance(meant, str):
            return meant
        own = f"#/components/schemas/{quote(meant, safe='')}"
        if file != self._root and at_pointer(self._files.content(file), own[1:]):
            meant = own
        elif (file == self._root and meant.startswith("#")) or not (
            meant.startswith("#") or _FILE.fullmatch(meant)
        ):
            return meant
        at = Node({"$ref": meant}, SCHEMA, (*here.pointer, "discriminator"), here.base)
        try:
            target = self._files.target(meant, file, at)
        except DocumentError:
            return meant  # which is a warning
        if target is None or target.address == self._root:
            return self._referred(at, meant, file, ())["$ref"]
        return _reference(("components", SECTIONS[SCHEMA], self._name(SCHEMA, target)))


def _object_at(around: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object with that name, which is made; what is no object stays, and is an error
    of the document."""
    found = around.setdefault(name, {})
    return found if isinstance(found, dict) else {}


def _reference(pointer: Pointer) -> str:
    return "#" + quote(pointer_text(pointer), safe="/~!$&'()*+,;=:@")


def _plain_name(target: Target) -> str:
    last = target.pointer[-1] if target.pointer else Path(urlsplit(target.address).path).stem
    return _UNNAMEABLE.sub("_", unquote(str(last))).strip("_") or "Component"
