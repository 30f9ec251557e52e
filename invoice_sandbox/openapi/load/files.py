"""What a reference names: a place in a file, which is read when a reference leads there.

A bundle needs the place of what a reference names, follows the references that stand on the way of
a JSON Pointer, and leaves alone what an address within it names already. The library
``referencing`` (0.37) gives the value alone, and PointerToNowhere for a pointer that leads through
a reference. ``bundle`` of jsonschema-rs (0.60) follows references of schemas only, not those of
responses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from invoice_sandbox.openapi.load.documents import Places, load_document
from invoice_sandbox.openapi.load.model import (
    DOCUMENT,
    FILE,
    SCHEMA,
    Node,
    Pointer,
    address,
    node,
)
from invoice_sandbox.openapi.load.pointers import at_pointer, identified_nodes, steps_of
from invoice_sandbox.openapi.load.text import DocumentError

_META: Final = "https://json-schema.org/draft/"
_USER: Final = re.compile(r"://[^/@]*@")


class LostError(Exception):
    """A reference that leads nowhere; the message is a clause such as 'there is no file', or
    nothing."""


@dataclass(frozen=True)
class Target:
    """A place in a file, which has the URL ``address``."""

    address: str
    pointer: Pointer = ()

    def below(self, step: str | int) -> Target:
        return Target(self.address, (*self.pointer, step))


class Files:
    """The files of a contract by their addresses: first the one of ``root``, then what is read."""

    def __init__(self, file: Path, document: dict[str, Any], folder: Path) -> None:
        """``document`` is that of ``file``. Files are read in the ``folder``."""
        self._file = file
        self._folder = folder
        self.root = _canonical(file.absolute().as_uri())
        self.places = Places()
        self._contents: dict[str, Any] = {self.root: document}
        self._identified: dict[str, Mapping[str, Pointer]] = {}

    def target(self, reference: str, file: str, here: Node) -> Target | None:
        """What ``reference``, at ``here`` in ``file``, names; None: it stays as it is.

        That is what is within the bundle by ``$id`` or an anchor already. Raises DocumentError.
        """
        try:
            return self._target(reference, file, here)
        except (LostError, ValueError, RecursionError) as error:  # ValueError: it is no address
            place = self.places.of(self.shown(file), (*here.pointer, "$ref"))
            problem = f"cannot resolve reference '{_USER.sub('://', reference)}'"
            why = f": {error}" if str(error) else ""
            raise DocumentError(place, problem + why) from None

    def _target(self, reference: str, file: str, here: Node) -> Target | None:
        whole = address(reference, here.base)
        resource, fragment = urldefrag(whole)
        at = _canonical(urljoin(file, resource)) if resource else file
        is_anchor = fragment != "" and not fragment.startswith("/")
        is_known = (
            (here.base and resource in self._known(file))
            or (resource and resource in self._known(self.root))
            or (is_anchor and at == file == self.root)
        )
        if here.type == SCHEMA and resource.startswith(_META):
            return None
        if here.type == SCHEMA and is_known:
            self._check_identified(whole, file)
            return None
        start = self._known(file).get(resource) if resource else None
        start_at = self._read(at) if start is None else Target(file, start)
        found = self._found(start_at, fragment)
        if found == Target(self.root):
            raise LostError("that is the document itself")
        return found

    def _check_identified(self, whole: str, file: str) -> None:
        """Raise LostError unless an identifier and, below it, a JSON Pointer name something."""
        resource, fragment = urldefrag(whole)
        is_pointer = fragment.startswith("/")
        name = resource if is_pointer else whole.removesuffix("#")
        for one in (file, self.root):
            start = self._known(one).get(name)
            if start is not None:
                value = self.at(Target(one, start))
                if not is_pointer or at_pointer(value, fragment) is not None:
                    return
        raise LostError

    def _found(self, start: Target, fragment: str) -> Target:
        """The place that a fragment names, in whatever file references on the way lead to."""
        if fragment and not fragment.startswith("/"):
            pointer = self._known(start.address).get(f"#{unquote(fragment)}")
            if pointer is None:
                raise LostError
            return Target(start.address, pointer)
        for step in steps_of(fragment) if fragment else ():
            start = self._followed(start, step)
        return start

    def _followed(self, at: Target, step: str) -> Target:
        """One step of a JSON Pointer, behind the reference if one stands there."""
        value = self.at(at)
        standing = node(value, "other", at.pointer)
        if standing.reference is not None and step not in value:
            beyond = self.target(standing.reference, at.address, standing)
            if beyond is None:
                raise LostError
            at, value = beyond, self.at(beyond)
        if isinstance(value, dict) and step in value:
            return at.below(step)
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            return at.below(int(step))
        raise LostError

    def at(self, target: Target) -> Any:
        """The value at a place."""
        value = self._contents[target.address]
        for step in target.pointer:
            value = value[step]
        return value

    def content(self, file: str) -> Any:
        """All that is in a file."""
        return self._contents[file]

    def _known(self, file: str) -> Mapping[str, Pointer]:
        """What a file gives an identifier."""
        if file not in self._identified:
            type_ = DOCUMENT if file == self.root else FILE
            nodes = identified_nodes(self._contents[file], type_)
            self._identified[file] = {name: one.pointer for name, one in nodes}
        return self._identified[file]

    def _read(self, wanted: str) -> Target:
        """Return the file at ``wanted``. Raises LostError, DocumentError."""
        scheme = urlsplit(wanted).scheme
        if wanted in self._contents:
            return Target(wanted)
        if scheme in {"http", "https"}:
            raise LostError("references are not fetched over the network")
        if scheme != "file":
            raise LostError
        path = Path(self.shown(wanted))
        if not _is_inside(path, self._folder):
            raise LostError(f"{path} is outside of the folder of the contract")
        self._contents[wanted] = load_document(_existing(path))
        return Target(wanted)

    def shown(self, address: str) -> str:
        """A file as a person would name it, starting from how the contract was named."""
        parts = urlsplit(address)
        if parts.scheme != "file":
            return address
        if address == self.root:
            return str(self._file)
        relative = os.path.relpath(_local_path(parts.path), self._file.absolute().parent)
        return os.path.normpath(self._file.parent / relative)


def _existing(path: Path) -> Path:
    """Return the path of a file that is there. Raises LostError."""
    try:
        is_there = path.is_file()
    except OSError as error:  # of a name that no file can have
        raise LostError(str(error.strerror).lower()) from None
    if not is_there:
        folder = "; that is a folder" if path.is_dir() else ""
        raise LostError(f"there is no file {path}{folder}")
    return path


def _is_inside(path: Path, folder: Path) -> bool:
    """True if a file, wherever links lead, is in the folder."""
    return path.resolve().is_relative_to(folder.resolve())


def _canonical(address: str) -> str:
    """A file has one address, however it is written."""
    parts = urlsplit(address)
    if parts.scheme != "file":
        return address
    return Path(os.path.normpath(_local_path(parts.path))).as_uri()


def _local_path(path: str) -> str:
    from urllib.request import url2pathname  # brings an HTTP client with it

    return url2pathname(path)
