"""A contract that is spread over files, as one document: every reference is to a place within it.

What a reference to another file names becomes a component, or stands where the reference stood if
OpenAPI has no components of its type. Where everything came from is remembered, so that a message
about the bundle names the file, line and column that a person can look at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from invoice_sandbox.openapi.load.documents import (
    DocumentError,
    Places,
    load_document,
    parse_text,
    pointer_text,
)
from invoice_sandbox.openapi.load.fetching import Fetch, FetchError, never
from invoice_sandbox.openapi.load.model import (
    DOCUMENT,
    FILE,
    SCHEMA,
    SECTIONS,
    Node,
    Pointer,
    address,
    node,
    walk,
)
from invoice_sandbox.openapi.load.references import at_pointer, identified, steps_of

Origins = Mapping[tuple[str, ...], tuple[str, Pointer]]
"""Where a place of the bundle came from: the file, and the pointer within it."""

_META: Final = "https://json-schema.org/draft/"
_FILE: Final = re.compile(r"[^#]*\.(?:ya?ml|json)(?:#.*)?|[^#]+#/.*")
_USER: Final = re.compile(r"://[^/@]*@")
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Bundle:
    """``document`` refers to nothing outside itself; ``file`` is where it starts.

    ``origins`` has every place that was filled in from elsewhere, with the file that it came from
    and the pointer within it.
    """

    document: dict[str, Any]
    file: Path
    origins: Origins = field(default_factory=dict)
    places: Places = field(default_factory=Places)

    def place(self, pointer: Pointer) -> str:
        """``file:line:column`` of a place in the bundle, or of its closest ancestor."""
        steps = tuple(map(str, pointer))
        for length in range(len(steps), 0, -1):
            if steps[:length] in self.origins:
                name, start = self.origins[steps[:length]]
                return self.places.of(name, (*start, *pointer[length:]))
        return self.places.of(self.file, pointer)


def bundle(document: dict[str, Any], file: Path, fetch: Fetch = never) -> Bundle:
    """The ``document`` of ``file``, with everything that it refers to.

    ``fetch`` gets what lies beyond this machine. Raises DocumentError, with the place of the
    reference that cannot be resolved.
    """
    whole = Bundle(document, file)
    if not _is_self_contained(document):
        whole = _Bundler(file, document, fetch).bundled()
    _reject_circles(whole)
    return whole


def _reject_circles(whole: Bundle) -> None:
    """Raise DocumentError for a component that is a reference to a reference ... to itself."""
    for here in walk(node(whole.document)):
        if len(here.pointer) == 3 and here.pointer[0] == "components" and _is_circle(whole, here):
            problem = f"the reference '{here.reference}' leads back to itself"
            raise DocumentError(whole.place(here.pointer), problem)


def _is_circle(whole: Bundle, here: Node) -> bool:
    seen = set[str]()
    while here.reference is not None and here.reference not in seen:
        seen.add(here.reference)
        local = here.reference.startswith("#/")
        value = at_pointer(whole.document, here.reference[1:]) if local else None
        here = node(value, here.type)
    return here.reference is not None


def _is_self_contained(document: Mapping[str, Any]) -> bool:
    """Whether there is nothing to do: every reference is to a component that is there."""
    references = {here.reference for here in walk(node(document))} - {None}
    return all(
        one.startswith("#/components/")
        and one.count("/") == 3
        and at_pointer(document, one[1:]) is not None
        for one in references
        if one is not None
    )


@dataclass(frozen=True)
class _Place:
    """A place in a file, which has the URL ``address``."""

    address: str
    pointer: Pointer = ()

    def below(self, step: str | int) -> _Place:
        return _Place(self.address, (*self.pointer, step))


class _Bundler:
    """Copies a document, and all that it refers to, into one."""

    def __init__(self, file: Path, document: dict[str, Any], fetch: Fetch) -> None:
        """``document`` is that of ``file``; ``fetch`` gets what lies beyond this machine."""
        self._file = file
        self._root = _canonical(file.absolute().as_uri())
        self._fetch = fetch
        self._files: dict[str, Any] = {self._root: document}
        self._ids: dict[str, dict[str, Any]] = {}
        self._names: dict[tuple[str, _Place], str] = {}
        self._taken: dict[str, set[str]] = {}
        self._waiting: list[tuple[str, str, _Place]] = []
        self._inlining: list[_Place] = []
        self._origins: dict[tuple[str, ...], tuple[str, Pointer]] = {}
        self._places = Places()

    def bundled(self) -> Bundle:
        """Everything in one document. Raises DocumentError."""
        self._claim_names()
        document = self._copy(node(self._files[self._root]), self._root, ())
        while self._waiting:
            type_, name, target = self._waiting.pop(0)
            section = SECTIONS[type_]
            components = document.setdefault("components", {}).setdefault(section, {})
            components[name] = self._filled_in(type_, target, ("components", section, name))
        return Bundle(document, self._file, self._origins, self._places)

    def _claim_names(self) -> None:
        """A component that is nothing but a reference to a file gives its name to what is there."""
        document = node(self._files[self._root])
        components = document.value.get("components")
        for type_, section in SECTIONS.items():
            entries = components.get(section) if isinstance(components, dict) else None
            entries = entries if isinstance(entries, dict) else {}
            self._taken[section] = set(entries)
            for name, value in entries.items():
                here = node(value, type_, ("components", section, name))
                if here.reference is None or here.reference.startswith("#") or "$id" in value:
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

    def _members(self, here: Node, file: str, out: Pointer) -> Any:
        return here.copy(lambda child: self._copy(child, file, (*out, child.pointer[-1])))

    def _referred(self, here: Node, reference: str, file: str, out: Pointer) -> Any:
        """A reference within the bundle, or what it names if that cannot be a component."""
        beside = {key: child for key, child in here.value.items() if key != "$ref"}
        beside = self._members(Node(beside, here.type, here.pointer, here.base), file, out)
        target = self._target(reference, file, here)
        if target is None:
            return {"$ref": reference, **beside}
        if target.address == self._root and _may_stay(target.pointer, here.type):
            return {"$ref": _reference(target.pointer), **beside}
        if here.type not in SECTIONS:
            content = self._filled_in(here.type, target, out)
            return {**content, **beside} if isinstance(content, dict) else content
        name = self._name(here.type, target)
        if out == ("components", SECTIONS[here.type], name):
            return self._filled_in(here.type, target, out)
        return {"$ref": _reference(("components", SECTIONS[here.type], name)), **beside}

    def _filled_in(self, type_: str, target: _Place, out: Pointer) -> Any:
        """A copy of what ``target`` names, at the place ``out`` of the bundle."""
        if target in self._inlining:
            place = self._places.of(self._shown(target.address), target.pointer)
            raise DocumentError(place, "self-referencing value", "make it a component")
        self._inlining.append(target)
        self._origins[tuple(map(str, out))] = (self._shown(target.address), target.pointer)
        copy = self._copy(node(self._at(target), type_, target.pointer), target.address, out)
        self._inlining.pop()
        return copy

    def _name(self, type_: str, target: _Place) -> str:
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
        if file != self._root and at_pointer(self._files[file], own[1:]):
            meant = own
        elif (file == self._root and meant.startswith("#")) or not (
            meant.startswith("#") or _FILE.fullmatch(meant)
        ):
            return meant
        at = Node({"$ref": meant}, SCHEMA, (*here.pointer, "discriminator"), here.base)
        return self._referred(at, meant, file, ())["$ref"]

    def _target(self, reference: str, file: str, here: Node) -> _Place | None:
        """What ``reference``, at ``here`` in ``file``, names; None: it stays as it is.

        That is what is within the bundle by ``$id`` or an anchor already. Raises DocumentError.
        """
        resource, fragment = urldefrag(address(reference, here.base))
        if (here.base and resource in self._known(file)) or resource.startswith(_META):
            return None
        if resource and resource in self._known(self._root):
            return None
        if resource and resource in self._known(file):
            start = _pointer_of(self._files[file], self._known(file)[resource])
            return self._found(_Place(file, start), fragment, reference, file, here)
        at = _canonical(urljoin(file, resource)) if resource else file
        if at == self._root and not fragment.startswith("/"):
            if fragment and file == self._root:
                return None  # an anchor of the document itself stays, as seen from itself
            return self._found(_Place(at), fragment, reference, file, here)
        self._read(at, reference, file, here)
        return self._found(_Place(at), fragment, reference, file, here)

    def _found(self, start: _Place, fragment: str, reference: str, file: str, here: Node) -> _Place:
        """The place that a fragment names, in whatever file references on the way lead to."""
        if fragment and not fragment.startswith("/"):
            value = self._known(start.address).get(f"#{unquote(fragment)}")
            if value is None:
                raise self._nothing(reference, file, here)
            return _Place(start.address, _pointer_of(self._files[start.address], value))
        found = start
        for step in steps_of(fragment) if fragment else ():
            below = self._followed(found, step)
            if below is None:
                raise self._nothing(reference, file, here)
            found = below
        return found

    def _followed(self, at: _Place, step: str) -> _Place | None:
        """One step of a JSON Pointer, behind the reference if one stands there."""
        value = self._at(at)
        standing = node(value, "other", at.pointer)
        if standing.reference is not None and step not in value:
            beyond = self._target(standing.reference, at.address, standing)
            if beyond is None:
                return None
            at, value = beyond, self._at(beyond)
        if isinstance(value, dict) and step in value:
            return at.below(step)
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            return at.below(int(step))
        return None

    def _at(self, target: _Place) -> Any:
        value = self._files[target.address]
        for step in target.pointer:
            value = value[step]
        return value

    def _known(self, file: str) -> dict[str, Any]:
        """What a file gives an identifier."""
        if file not in self._ids:
            content = self._files[file]
            self._ids[file] = identified(content, DOCUMENT if file == self._root else FILE)
            del self._ids[file][""]
        return self._ids[file]

    def _read(self, wanted: str, reference: str, file: str, here: Node) -> None:
        """Load the file at ``wanted`` if it is not loaded. Raises DocumentError."""
        if wanted in self._files:
            return
        scheme = urlsplit(wanted).scheme
        if scheme == "file" and urlsplit(file).scheme == "file":
            path = Path(self._shown(wanted))
            if not path.is_file():
                raise self._nothing(reference, file, here, f"there is no file {path}")
            self._files[wanted] = load_document(path)
            return
        if scheme not in {"http", "https"}:
            raise self._nothing(reference, file, here)
        try:
            text = self._fetch(wanted)
        except FetchError as error:
            advice = "serve --allow-remote-refs has them fetched" if self._fetch is never else ""
            raise self._nothing(reference, file, here, str(error), advice) from None
        self._places.know(wanted, text)
        self._files[wanted] = parse_text(text, wanted)

    def _nothing(
        self, reference: str, file: str, here: Node, why: str = "", advice: str = ""
    ) -> DocumentError:
        place = self._places.of(self._shown(file), (*here.pointer, "$ref"))
        problem = f"cannot resolve reference '{_USER.sub('://', reference)}'"
        return DocumentError(place, problem + (f": {why}" if why else ""), advice)

    def _shown(self, address: str) -> str:
        """A file as a person would name it, starting from how the contract was named."""
        parts = urlsplit(address)
        if parts.scheme != "file":
            return address
        if address == self._root:
            return str(self._file)
        relative = os.path.relpath(_local_path(parts.path), self._file.absolute().parent)
        return os.path.normpath(self._file.parent / relative)


def _may_stay(pointer: Pointer, type_: str) -> bool:
    """Whether a reference to an object of that type may lead to that place of the document."""
    if type_ == SCHEMA:
        return len(pointer) == 3 and pointer[:2] == ("components", SECTIONS[type_])
    return type_ in SECTIONS or type_ == "pathItem"


def _canonical(address: str) -> str:
    """A file has one address, however it is written."""
    parts = urlsplit(address)
    if parts.scheme != "file":
        return address
    return Path(os.path.normpath(_local_path(parts.path))).as_uri()


def _reference(pointer: Pointer) -> str:
    return "#" + quote(pointer_text(pointer), safe="/~!$&'()*+,;=:@")


def _plain_name(target: _Place) -> str:
    last = target.pointer[-1] if target.pointer else Path(urlsplit(target.address).path).stem
    return _UNNAMEABLE.sub("_", unquote(str(last))).strip("_") or "Component"


def _pointer_of(document: Any, wanted: Any) -> Pointer:
    """Where in ``document`` the object ``wanted`` is."""
    waiting: list[tuple[Pointer, Any]] = [((), document)]
    while waiting:
        pointer, value = waiting.pop()
        if value is wanted:
            return pointer
        if isinstance(value, dict):
            waiting += [((*pointer, key), child) for key, child in value.items()]
        elif isinstance(value, list):
            waiting += [((*pointer, index), child) for index, child in enumerate(value)]
    raise LookupError(wanted)


def _local_path(path: str) -> str:
    from urllib.request import url2pathname  # brings an HTTP client with it

    return url2pathname(path)
