"""A contract that is spread over files, as one document: every reference is to a place within it.

What a reference to another file names becomes a component, or stands where the reference stood if
OpenAPI has no components of its type. Where everything came from is remembered, so that a message
about the bundle names the file, line and column that a person can look at.

The library ``referencing`` finds values without their places. ``bundle`` of jsonschema-rs follows
references of schemas only, not those of responses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urldefrag, urlsplit

from invoice_sandbox.openapi.load.documents import Note, Places, load_document, pointer_text
from invoice_sandbox.openapi.load.model import (
    BESIDE_REFERENCE,
    DATA,
    DOCUMENT,
    FILE,
    OBJECTS,
    SCHEMA,
    SECTIONS,
    Node,
    Pointer,
    address,
    node,
    walk,
)
from invoice_sandbox.openapi.load.operations import numbered
from invoice_sandbox.openapi.load.pointers import (
    at_pointer,
    identified_nodes,
    named,
    node_at,
    steps_of,
)
from invoice_sandbox.openapi.load.text import DocumentError

_META: Final = "https://json-schema.org/draft/"
_USER: Final = re.compile(r"://[^/@]*@")
_FILE: Final = re.compile(r"[^#]*\.(?:ya?ml|json)(?:#.*)?|[^#]+#/.*")
_COMPONENT: Final = re.compile("#/components/(?!x-)[^/]*/[^/]*")
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Target:
    """A place in a file."""

    file: Path
    pointer: Pointer = ()


@dataclass(frozen=True)
class Bundle:
    """``document`` refers to nothing outside itself; ``file`` is where it starts.

    ``origins`` has every place that was filled in from elsewhere, and where that is. ``errors`` are
    the references that lead nowhere.
    """

    document: dict[str, Any]
    file: Path
    origins: Mapping[tuple[str, ...], Target] = field(default_factory=dict)
    places: Places = field(default_factory=Places)
    errors: tuple[DocumentError, ...] = ()

    def place(self, pointer: Pointer) -> str:
        """Return ``file:line:column`` of a place in the bundle, or of its closest ancestor."""
        steps = tuple(map(str, pointer))
        for length in range(len(steps), 0, -1):
            if steps[:length] in self.origins:
                origin = self.origins[steps[:length]]
                return self.places.of(origin.file, (*origin.pointer, *pointer[length:]))
        return self.places.of(self.file, pointer)


def bundle(document: dict[str, Any], file: Path, folder: Path | None = None) -> Bundle:
    """Return the ``document`` of ``file``, with everything that it refers to.

    Files are read in the ``folder``, by default that of ``file``. A reference that leads nowhere
    stays as it is, and is one of the errors.
    """
    whole, references = Bundle(document, file), _references(document)
    if not _is_self_contained(document, references):
        whole = _Bundler(_Files(file, document, folder or file.parent)).bundled()
        references = _references(whole.document)
    lost = _lost(whole.document, references)
    errors = [DocumentError(whole.place(note.pointer), note.text) for note in lost]
    return replace(whole, errors=(*whole.errors, *errors))


def lost_references(document: Mapping[str, Any]) -> Iterator[Note]:
    """Yield where a reference within the document leads nowhere, and why."""
    return _lost(document, _references(document))


def _references(document: Any) -> list[Node]:
    """Return everything that has a ``$ref`` or ``$dynamicRef``."""
    objects = [here for here in walk(node(document)) if isinstance(here.value, dict)]
    return [here for here in objects if "$ref" in here.value or "$dynamicRef" in here.value]


def _lost(document: Mapping[str, Any], references: Sequence[Node]) -> Iterator[Note]:
    start = node(document)

    @cache
    def at_reference(reference: str) -> Node | None:
        return node_at(start, steps_of(reference[1:]))

    for here in references:
        if here.type in OBJECTS and not isinstance(here.value.get("$ref", ""), str):
            yield Note((*here.pointer, "$ref"), "a reference is text")
        reference = here.reference
        if reference is None or here.base or not reference.startswith("#/"):
            continue
        target = at_reference(reference)
        if target is None or target.value is None:
            yield Note(here.pointer, f"cannot resolve reference '{reference}'")
        elif here.type != "other" and target.type not in {here.type, DATA, "other"}:
            yield Note(here.pointer, f"the reference '{reference}' names an object of another type")
        elif _is_circle(here, at_reference):
            yield Note(here.pointer, f"the reference '{reference}' leads back to itself")


def _is_circle(here: Node, at_reference: Callable[[str], Node | None]) -> bool:
    seen, there = set[str](), here
    while there.reference is not None and there.reference not in seen:
        seen.add(there.reference)
        there = at_reference(there.reference) or node(None)
        if there.value is here.value:
            return True
    return False


def _is_self_contained(document: Mapping[str, Any], nodes: Sequence[Node]) -> bool:
    """True if there is nothing to do: every reference is to a component that is there."""
    references = {here.reference for here in nodes if here.reference is not None}
    return all(
        _COMPONENT.fullmatch(reference) and at_pointer(document, reference[1:]) is not None
        for reference in references
    )


class _LostError(Exception):
    """A reference that leads nowhere; the message is a clause such as 'there is no file', or
    nothing."""


class _Files:
    """The files of a contract: first its own, then those that references lead to."""

    def __init__(self, file: Path, document: dict[str, Any], folder: Path) -> None:
        """``document`` is that of ``file``. Files are read in the ``folder``."""
        self.root = Path(os.path.normpath(file))
        self.contents: dict[Path, Any] = {self.root: document}
        self.places = Places()
        self._folder = folder
        self._nodes: dict[Path, dict[str, Node]] = {}
        self._values: dict[Path, dict[str, Any]] = {}

    def target(self, reference: str, file: Path, here: Node) -> Target | None:
        """Return the place that ``reference``, at ``here`` in ``file``, names.

        None: it stays as it is, by an address or an anchor that is in the bundle already. Raises
        DocumentError.
        """
        try:
            if here.type == SCHEMA and self._is_identified(reference, file, here):
                return None
            return self._target(address(reference, here.base), file)
        except (_LostError, ValueError, RecursionError) as error:  # ValueError: not an address
            place = self.places.of(file, (*here.pointer, "$ref"))
            problem = f"cannot resolve reference '{_USER.sub('://', reference)}'"
            reason = f": {error}" if str(error) else ""
            raise DocumentError(place, problem + reason) from None

    def _is_identified(self, reference: str, file: Path, here: Node) -> bool:
        resource, fragment = urldefrag(address(reference, here.base))
        is_anchor = file == self.root and fragment != "" and not fragment.startswith("/")
        files = [file, self.root] if resource else [file] if is_anchor else []
        return resource.startswith(_META) or any(
            named(reference, here.base, self._identified(each)) is not None for each in files
        )

    def _identified(self, file: Path) -> Mapping[str, Any]:
        if file not in self._values:
            nodes = self._nodes_of(file)
            self._values[file] = {name: here.value for name, here in nodes.items()}
        return self._values[file]

    def _nodes_of(self, file: Path) -> Mapping[str, Node]:
        """Return what a file gives an identifier."""
        if file not in self._nodes:
            type_ = DOCUMENT if file == self.root else FILE
            self._nodes[file] = dict(identified_nodes(self.contents[file], type_))
        return self._nodes[file]

    def _target(self, whole: str, file: Path) -> Target:
        resource, fragment = urldefrag(whole)
        file = self._read(resource, file) if resource else file
        found: Node | None = node(self.contents[file], "other")
        if fragment.startswith("/") and found is not None:
            found = node_at(found, steps_of(fragment))
        elif fragment:
            found = self._nodes_of(file).get(f"#{unquote(fragment)}")
        if found is None:
            raise _LostError
        if file == self.root and not found.pointer:
            raise _LostError("that is the document itself")
        return Target(file, found.pointer)

    def _read(self, resource: str, file: Path) -> Path:
        """Return the path of the file that is named in ``file``. Raises DocumentError."""
        parts = urlsplit(resource)
        if parts.scheme in {"http", "https"}:
            raise _LostError("references are not fetched over the network")
        if parts.scheme or parts.netloc:
            raise _LostError
        path = Path(os.path.normpath(file.parent / unquote(parts.path)))
        if path not in self.contents:
            self._check_path(path)
            self.contents[path] = load_document(path)
        return path

    def _check_path(self, path: Path) -> None:
        """Raise _LostError unless a file, wherever links lead, is in the folder."""
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise _LostError(f"{path} is outside of the folder of the contract")
        try:
            is_file = path.is_file()
        except OSError as error:  # of a name that no file can have
            raise _LostError(str(error.strerror).lower()) from None
        if not is_file:
            folder = "; that is a folder" if path.is_dir() else ""
            raise _LostError(f"there is no file {path}{folder}")


class _Bundler:
    """Copies a document, and all that it refers to, into one."""

    def __init__(self, files: _Files) -> None:
        self._files = files
        self._root = files.root
        self._errors: dict[str, DocumentError] = {}
        self._names: dict[tuple[str, Target], str] = {}
        self._taken: dict[str, set[str]] = {}
        self._waiting: list[tuple[str, str, Target]] = []
        self._inlining: list[Target] = []
        self._origins: dict[tuple[str, ...], Target] = {}

    def bundled(self) -> Bundle:
        """Return everything in one document. Raises DocumentError."""
        self._claim_names()
        document = self._copy(node(self._files.contents[self._root]), self._root, ())
        while self._waiting:
            type_, name, target = self._waiting.pop(0)
            place = ("components", SECTIONS[type_], name)
            components = _object_at(document, "components")
            _object_at(components, SECTIONS[type_])[name] = self._filled_in(type_, target, place)
        errors = tuple(self._errors.values())
        return Bundle(document, self._root, self._origins, self._files.places, errors)

    def _claim_names(self) -> None:
        """Let a component that is only a reference to a file give its name to what is there."""
        components = self._files.contents[self._root].get("components")
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
                if target is not None and target.file != self._root:
                    self._names.setdefault((section, target), name)

    def _copy(self, here: Node, file: Path, out: Pointer) -> Any:
        """Return a copy of what stands in ``file``, for the place ``out`` of the bundle."""
        if here.reference is not None:
            return self._referred(here, here.reference, file, out)
        copy = self._members(here, file, out)
        if here.is_schema and isinstance(copy.get("discriminator"), dict):
            copy["discriminator"] = self._mapped(here, copy["discriminator"], file)
        return copy

    def _target(self, reference: str, file: Path, here: Node) -> Target | None:
        """Return what a reference names; None: it stays as it is."""
        try:
            return self._files.target(reference, file, here)
        except DocumentError as error:
            self._errors[str(error)] = error
            return None

    def _members(self, here: Node, file: Path, out: Pointer) -> Any:
        return here.copy(lambda child: self._copy(child, file, (*out, child.pointer[-1])))

    def _referred(self, here: Node, reference: str, file: Path, out: Pointer) -> Any:
        """Return a reference within the bundle, or what it names if that cannot be a component."""
        beside = {key: child for key, child in here.value.items() if key != "$ref"}
        beside = self._members(Node(beside, here.type, here.pointer, here.base), file, out)
        target = self._target(reference, file, here)
        if target is not None:
            reference = self._reference_to(here.type, target)
        if target is not None and reference in {"", _reference(out)}:
            content = self._filled_in(here.type, target, out)
            is_part = not reference and isinstance(content, dict)
            return {**content, **beside} if is_part else content
        return {"$ref": reference, **beside}

    def _reference_to(self, type_: str, target: Target) -> str:
        """Return the reference within the bundle; nothing if it cannot be a component."""
        if target.file == self._root and self._may_stay(target.pointer, type_):
            return _reference(target.pointer)
        if type_ not in SECTIONS:
            return ""
        return _reference(("components", SECTIONS[type_], self._name(type_, target)))

    def _may_stay(self, pointer: Pointer, type_: str) -> bool:
        """True if a reference to an object of that type may lead to that place of the document.

        What is in an extension may not stay there, where references have no effect.
        """
        if type_ == SCHEMA:  # a component of another type is reported
            is_component = len(pointer) == 3 and pointer[0] == "components"
            return is_component and pointer[1] in SECTIONS.values()
        place = node_at(node(self._files.contents[self._root]), pointer)
        is_data = place is None or place.type == DATA
        return not is_data and (type_ in SECTIONS or type_ in {"pathItem", "other"})

    def _filled_in(self, type_: str, target: Target, out: Pointer) -> Any:
        """Return a copy of what ``target`` names, at the place ``out`` of the bundle."""
        if target in self._inlining:
            place = self._files.places.of(target.file, target.pointer)
            error = DocumentError(place, "self-referencing value", "make it a component")
            self._errors[str(error)] = error
            return {"$ref": _reference(out)}
        self._inlining.append(target)
        self._origins[tuple(map(str, out))] = target
        content = self._files.contents[target.file]
        for step in target.pointer:
            content = content[step]
        copy = self._copy(node(content, type_, target.pointer), target.file, out)
        self._inlining.pop()
        return copy

    def _name(self, type_: str, target: Target) -> str:
        """Return the name of the component that ``target`` becomes."""
        section = SECTIONS[type_]
        key = (section, target)
        if key not in self._names:
            name = numbered(_plain_name(target), self._taken[section])
            self._taken[section].add(name)
            self._names[key] = name
            self._waiting.append((type_, name, target))
        return self._names[key]

    def _mapped(self, here: Node, discriminator: dict[str, Any], file: Path) -> dict[str, Any]:
        """Return a discriminator whose mapping names components of the bundle."""
        mapping = discriminator.get("mapping")
        if not isinstance(mapping, dict):
            return discriminator
        names = {word: self._mapped_to(here, value, file) for word, value in mapping.items()}
        return {**discriminator, "mapping": names}

    def _mapped_to(self, here: Node, value: Any, file: Path) -> Any:
        """Return ``#/components/schemas/cat`` for ``cat.yaml``; a name stays."""
        is_outside = isinstance(value, str) and file != self._root and value.startswith("#")
        if not is_outside and not (isinstance(value, str) and _FILE.fullmatch(value)):
            return value
        at = Node({"$ref": value}, SCHEMA, (*here.pointer, "discriminator"), here.base)
        try:
            target = self._files.target(value, file, at)
        except DocumentError:
            return value  # which is a warning
        return value if target is None else self._reference_to(SCHEMA, target)


def _object_at(around: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object with that name, which is made; what is not an object stays, and is an error
    of the document."""
    found = around.setdefault(name, {})
    return found if isinstance(found, dict) else {}


def _reference(pointer: Pointer) -> str:
    return "#" + quote(pointer_text(pointer), safe="/~!$&'()*+,;=:@")


def _plain_name(target: Target) -> str:
    last = target.pointer[-1] if target.pointer else target.file.stem
    return _UNNAMEABLE.sub("_", str(last)).strip("_") or "Component"
