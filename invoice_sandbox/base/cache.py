"""JSON values that take long to make, kept for the next process in the user's cache folder.

An entry is named by the hash of all that its value is made of, so that a change gives another
entry. It is used only if it is complete, in a folder that nobody else can write. An entry that
cannot be read or written costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

Value = TypeVar("Value")

MOST: Final = 1000
"""When there are more entries, the older half of them is deleted."""

_TOO_LARGE: Final = "Integer exceeds"
_LARGE: Final = b"+"
_OTHERS_MAY_WRITE: Final = 0o022


@dataclass(frozen=True)
class Entry:
    """The place of one value; ``file`` is None where nothing can be kept."""

    file: Path | None

    def read(self) -> Any:
        """The value, or None if there is none that is complete."""
        if self.file is None:
            return None
        try:
            digest, _, text = self.file.read_bytes().partition(b"\n")
        except OSError:
            return None
        if digest.rstrip(_LARGE) != _digest(text).encode():
            return None
        return json.loads(text) if digest.endswith(_LARGE) else orjson.loads(text)

    def write(self, value: Any) -> None:
        """Keep a value: text, numbers, lists and objects. Others are not kept.

        The file is complete from its first moment, whoever else writes it at the same time.
        """
        if self.file is None:
            return
        with suppress(TypeError, OSError):  # orjson's error is a TypeError
            text, mark = _json(value)
            _write(self.file, _digest(text).encode() + mark + b"\n" + text)


def kept(make: Callable[[], Value], kind: str, *inputs: Any) -> Value:
    """The value that ``make`` returns, which is made once for the same ``inputs`` and software."""
    place = entry(kind, software(), *inputs)
    found: Value | None = place.read()
    if found is None:
        found = make()
        place.write(found)
    return found


def entry(kind: str, *inputs: Any) -> Entry:
    """The entry of the value of this kind that is made of ``inputs``, which are JSON values."""
    folder = _folder(os.environ.get("XDG_CACHE_HOME", ""))
    content = content_of(inputs)
    return Entry(folder / f"{kind}-{content}" if folder is not None and content else None)


def content_of(value: Any) -> str:
    """A hash of a JSON value; empty if it is none."""
    try:
        return _digest(_json(value)[0])
    except TypeError:
        return ""


def _json(value: Any) -> tuple[bytes, bytes]:
    """A value as JSON, and the mark of one that has an integer of more than 64 bits, which orjson
    neither writes nor reads as it is. Raises TypeError."""
    try:
        return orjson.dumps(value), b""
    except TypeError as error:
        if not str(error).startswith(_TOO_LARGE):
            raise
    try:
        return json.dumps(value).encode(), _LARGE
    except (ValueError, RecursionError) as error:
        raise TypeError(str(error)) from None


@cache
def software() -> str:
    """What identifies the code that runs: Python, this package's files, and every distribution.

    It is an input of each value that another version might make differently.
    """
    package = str(Path(__file__).parents[1])
    return content_of([sys.version, sorted(_stamps(package)), sorted(set(_distributions()))])


def _stamps(folder: str) -> Iterator[str]:
    with os.scandir(folder) as found:
        for one in found:
            if one.is_dir():
                yield from _stamps(one.path) if one.name != "__pycache__" else ()
            else:
                stat = one.stat()
                yield f"{one.path} {stat.st_size} {stat.st_mtime_ns}"


def _distributions() -> Iterator[str]:
    """Names with versions, such as ``pyyaml-6.0.2.dist-info``."""
    for folder in sys.path:
        with suppress(OSError):
            yield from (one.name for one in Path(folder).glob("*-info"))


@lru_cache(maxsize=8)
def _folder(home: str) -> Path | None:
    """The folder of the entries, if it can be made and is this user's own.

    A relative home is ignored (XDG Base Directory Specification).
    """
    try:
        parent = Path(home) if Path(home).is_absolute() else Path("~/.cache").expanduser()
        folder = parent / "invoice-liquidity-sandbox" / "made"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = folder.stat()
    except (OSError, RuntimeError):  # the user has no home
        return None
    is_own = not hasattr(os, "getuid") or stat.st_uid == os.getuid()
    return folder if is_own and not stat.st_mode & _OTHERS_MAY_WRITE else None


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _write(file: Path, content: bytes) -> None:
    import tempfile

    handle, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
        Path(name).replace(file)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
    _delete_old(file.parent)


def _delete_old(folder: Path) -> None:
    entries = list(folder.iterdir())
    if len(entries) > MOST:
        for one in sorted(entries, key=_written_at)[: len(entries) // 2]:
            with suppress(OSError):  # another process has deleted it
                one.unlink()


def _written_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
