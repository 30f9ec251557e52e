"""How files become one document: what each reference names, and where it goes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from invoice_sandbox.openapi.load.documents import (
    DocumentError,
    Places,
    load_document,
    parse_text,
    pointer_text,
)
from invoice_sandbox.openapi.load.fetching import Fetch, FetchError, never
from invoice_sandbox.openapi.load.identifiers import address as full_address
from invoice_sandbox.openapi.load.identifiers import at_pointer, identified
from invoice_sandbox.openapi.load.model import (
    DATA,
    SCHEMA,
    SECTIONS,
    Pointer,
    is_reference,
    kind_below,
)

_META: Final = "https://json-schema.org/draft/"
_FILE: Final = re.compile(r"[^#]*\.(?:ya?ml|json)(?:#.*)?|[^#]+#/.*")
_USER: Final = re.compile(r"://[^/@]*@")
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._-]+")

Origins = dict[tuple[str, ...], tuple[str, Pointer]]
"""Where a place of the bundle came from: the file, and the pointer within it."""


@dataclass(frozen=True)
class _Here:
    """A place in a file: ``address`` is the file's URL, ``base`` the address that a schema around
    it gives itself by ``$id``."""

    address: str
    pointer: Pointer = ()
    base: str = ""

    def below(self, step: str | int) -> _Here:
        return _Here(self.address, (*self.pointer, step), self.base)


class Bundler:
    """Copies a document, and all that it refers to, into one."""

    def __init__(self, file: Path, document: dict[str, Any], fetch: Fetch) -> None:
        """``document`` is that of ``file``; ``fetch`` gets what lies beyond this machine."""
        self._file = file
        self._root = _canonical(file.absolute().as_uri())
        self._fetch = fetch
        self._files: dict[str, Any] = {self._root: document}
        self._ids: dict[str, dict[str, Any]] = {}
        self._names: dict[tuple[str, str, Pointer], str] = {}
        self._taken: dict[str, set[str]] = {}
        self._waiting: list[tuple[str, str, _Here]] = []
        self._inlining: list[_Here] = []
        self._origins: Origins = {}
        self._places = Places()

    def bundled(self) -> tuple[dict[str, Any], Origins, Places]:
        """Everything in one document, and where it came from. Raises DocumentError."""
        self._claim()
        document = self._copy(self._files[self._root], "document", _Here(self._root), ())
        while self._waiting:
            kind, name, target = self._waiting.pop(0)
            section = SECTIONS[kind]
            components = document.setdefault("components", {}).setdefault(section, {})
            out = ("components", section, name)
            components[name] = self._filled_in(kind, target, out)
        return document, self._origins, self._places

    def _claim(self) -> None:
        """A component that is nothing but a reference to a file gives its name to what is there."""
        components = self._files[self._root].get("components")
        for kind, section in SECTIONS.items():
            entries = components.get(section) if isinstance(components, dict) else None
            entries = entries if isinstance(entries, dict) else {}
            self._taken[section] = set(entries)
            for name, value in entries.items():
                is_plain = is_reference(value, kind) and "$id" not in value
                if is_plain and not value["$ref"].startswith("#"):
                    here = _Here(self._root, ("components", section, name))
                    target = self._target(value["$ref"], here)
                    if target is not None and target.address != self._root:
                        key = (section, target.address, target.pointer)
                        self._names.setdefault(key, name)

    def _copy(self, value: Any, kind: str, here: _Here, out: Pointer) -> Any:
        if kind == DATA:
            return value
        if isinstance(value, list):
            return [
                self._copy(item, kind_below(kind, index, item), here.below(index), (*out, index))
                for index, item in enumerate(value)
            ]
        if not isinstance(value, dict):
            return value
        if kind == SCHEMA and isinstance(value.get("$id"), str):
            base = urldefrag(full_address(value["$id"], here.base)).url
            here = _Here(here.address, here.pointer, base)
        if is_reference(value, kind):
            return self._referred(value, kind, here, out)
        copy = self._members(value, kind, here, out)
        if kind == SCHEMA and isinstance(copy.get("discriminator"), dict):
            copy["discriminator"] = self._mapped(copy["discriminator"], here)
        return copy

    def _members(
        self, value: dict[str, Any], kind: str, here: _Here, out: Pointer
    ) -> dict[str, Any]:
        return {
            key: self._copy(child, kind_below(kind, key, child), here.below(key), (*out, key))
            for key, child in value.items()
        }

    def _referred(self, value: dict[str, Any], kind: str, here: _Here, out: Pointer) -> Any:
        """A reference within the bundle, or what it names if that cannot be a component."""
        beside = {key: child for key, child in value.items() if key != "$ref"}
        beside = self._members(beside, kind, here, out)
        target = self._target(value["$ref"], here)
        if target is None:
            return {"$ref": value["$ref"], **beside}
        if target.address == self._root and _may_stay(target.pointer, kind):
            return {"$ref": _reference(target.pointer), **beside}
        if kind not in SECTIONS:
            content = self._filled_in(kind, target, out)
            return {**content, **beside} if isinstance(content, dict) else content
        name = self._name(kind, target)
        if out == ("components", SECTIONS[kind], name):
            return self._filled_in(kind, target, out)
        return {"$ref": _reference(("components", SECTIONS[kind], name)), **beside}

    def _filled_in(self, kind: str, target: _Here, out: Pointer) -> Any:
        """A copy of what ``target`` names, at the place ``out`` of the bundle."""
        if target in self._inlining:
            name = self._shown(target.address)
            place = self._places.of(name, target.pointer)
            raise DocumentError(place, "what stands here refers to itself", "make it a component")
        self._inlining.append(target)
        self._origins[tuple(map(str, out))] = (self._shown(target.address), target.pointer)
        copy = self._copy(self._at(target), kind, target, out)
        self._inlining.pop()
        return copy

    def _name(self, kind: str, target: _Here) -> str:
        """The name of the component that ``target`` becomes, now or when first asked for."""
        section = SECTIONS[kind]
        key = (section, target.address, target.pointer)
        if key not in self._names:
            taken = self._taken[section]
            name = plain = _plain_name(target)
            number = 1
            while name in taken:
                number += 1
                name = f"{plain}_{number}"
            taken.add(name)
            self._names[key] = name
            self._waiting.append((kind, name, target))
        return self._names[key]

    def _mapped(self, discriminator: dict[str, Any], here: _Here) -> dict[str, Any]:
        """A discriminator whose mapping names components of the bundle."""
        mapping = discriminator.get("mapping")
        if not isinstance(mapping, dict):
            return discriminator
        return {
            **discriminator,
            "mapping": {word: self._meant(meant, here) for word, meant in mapping.items()},
        }

    def _meant(self, meant: Any, here: _Here) -> Any:
        """A mapping names a component of its own file, or is a reference."""
        if not isinstance(meant, str):
            return meant
        own = f"#/components/schemas/{quote(meant, safe='')}"
        if here.address != self._root and at_pointer(self._files[here.address], own[1:]):
            meant = own
        elif (here.address == self._root and meant.startswith("#")) or not (
            meant.startswith("#") or _FILE.fullmatch(meant)
        ):
            return meant
        copy = self._referred({"$ref": meant}, SCHEMA, here.below("discriminator"), ())
        return copy["$ref"]

    def _target(self, reference: str, here: _Here) -> _Here | None:
        """What ``reference``, which stands at ``here``, names; None: it stays as it is.

        That is what is within the bundle by ``$id`` or an anchor already. Raises DocumentError.
        """
        resource, fragment = urldefrag(full_address(reference, here.base))
        if here.base and resource in self._known(here.address):
            return None
        if resource.startswith(_META):
            return None
        if resource and resource in self._known(self._root):
            return None
        address = _canonical(urljoin(here.address, resource)) if resource else here.address
        if resource and resource in self._known(here.address):
            start = _pointer_of(self._files[here.address], self._known(here.address)[resource])
            return self._found(_Here(here.address, start), fragment, reference, here)
        if address == self._root and not fragment.startswith("/"):
            return self._anchored(fragment, reference, here)
        self._read(address, reference, here)
        return self._found(_Here(address), fragment, reference, here)

    def _anchored(self, fragment: str, reference: str, here: _Here) -> _Here | None:
        """An anchor of the document itself stays, as seen from itself."""
        if fragment and here.address == self._root:
            return None
        return self._found(_Here(self._root), fragment, reference, here)

    def _found(self, start: _Here, fragment: str, reference: str, here: _Here) -> _Here:
        """The place that a fragment names, in whatever file references on the way lead to."""
        document = self._files[start.address]
        if fragment and not fragment.startswith("/"):
            value = self._known(start.address).get(f"#{unquote(fragment)}")
            if value is None:
                raise self._nothing(reference, here)
            return _Here(start.address, _pointer_of(document, value))
        steps = [unquote(one).replace("~1", "/").replace("~0", "~") for one in fragment.split("/")]
        found = start
        for index, step in enumerate(steps[1:]):
            value = self._at(found)
            if isinstance(value, dict) and step not in value and is_reference(value, "other"):
                if index > len(steps) + 50:
                    raise self._nothing(reference, here)
                beyond = self._target(value["$ref"], found)
                if beyond is None:
                    raise self._nothing(reference, here)
                found, value = beyond, self._at(beyond)
            if isinstance(value, dict) and step in value:
                found = found.below(step)
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                found = found.below(int(step))
            else:
                raise self._nothing(reference, here)
        return found

    def _at(self, target: _Here) -> Any:
        value = self._files[target.address]
        for step in target.pointer:
            value = value[step]
        return value

    def _known(self, address: str) -> dict[str, Any]:
        """What a file gives an identifier."""
        if address not in self._ids:
            document = self._files[address]
            self._ids[address] = identified({SCHEMA: document})
            del self._ids[address][""]
        return self._ids[address]

    def _read(self, address: str, reference: str, here: _Here) -> None:
        """Have the file at ``address`` among the files. Raises DocumentError."""
        if address in self._files:
            return
        scheme = urlsplit(address).scheme
        if scheme == "file" and urlsplit(here.address).scheme == "file":
            file = Path(self._shown(address))
            if not file.is_file():
                raise self._nothing(reference, here, f"there is no file {file}")
            self._files[address] = load_document(file)
            return
        if scheme not in {"http", "https"}:
            raise self._nothing(reference, here)
        try:
            text = self._fetch(address)
        except FetchError as error:
            advice = "serve --allow-remote-refs has them fetched" if self._fetch is never else ""
            raise self._nothing(reference, here, str(error), advice) from None
        self._places.know(address, text)
        self._files[address] = parse_text(text, address)

    def _nothing(
        self, reference: str, here: _Here, why: str = "", advice: str = ""
    ) -> DocumentError:
        place = self._places.of(self._shown(here.address), (*here.pointer, "$ref"))
        shown = _USER.sub("://", reference)
        problem = f"the reference '{shown}' names nothing here"
        return DocumentError(place, problem + (f": {why}" if why else ""), advice)

    def _shown(self, address: str) -> str:
        """A file as a person would name it, starting from how the contract was named."""
        parts = urlsplit(address)
        if parts.scheme != "file":
            return address
        if address == self._root:
            return str(self._file)
        relative = os.path.relpath(url2pathname(parts.path), self._file.absolute().parent)
        return os.path.normpath(self._file.parent / relative)


def _may_stay(pointer: Pointer, kind: str) -> bool:
    """Whether others can follow a reference of that kind to that place of the document itself."""
    if kind == SCHEMA:
        return len(pointer) == 3 and pointer[:2] == ("components", SECTIONS[kind])
    return kind in SECTIONS or kind == "pathItem"


def _canonical(address: str) -> str:
    """A file has one address, however it is written."""
    parts = urlsplit(address)
    if parts.scheme != "file":
        return address
    return Path(os.path.normpath(url2pathname(parts.path))).as_uri()


def _reference(pointer: Pointer) -> str:
    return "#" + quote(pointer_text(pointer), safe="/~!$&'()*+,;=:@")


def _plain_name(target: _Here) -> str:
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
