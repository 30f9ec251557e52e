"""Records as bytes. Each is compressed with a dictionary of earlier records like it.

Nothing can modify the bytes, and no garbage collector visits them; whoever reads a record gets a
new dict.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from invoice_sandbox.base.jsonio import packed, unpacked
from invoice_sandbox.state import Record

Stored = bytes
"""A record."""

_HEAD: Final = Struct("<IHB")
"""The bytes of its text, the number of the dictionary (0: the text is not compressed), and whether
its numbers have digits that only a Decimal keeps."""

_FIRST: Final = 128
"""Records after which there is a dictionary: it takes more than a small collection."""

_SAMPLED: Final = 16
"""Records before that from which it is made."""

_LONGEST: Final = 8 * 1024
_DICTIONARY: Final = 8 * 1024 - 262
"""Bytes of a dictionary: what zlib sees through a window of that many bits."""

_WINDOW_BITS: Final = -13
"""Negative, as the texts need neither zlib's header nor its checksum."""

_MEMORY_LEVEL: Final = 4
_WELL: Final = 6
"""A text gets this many times shorter with a dictionary that has texts like it."""

_SEEN: Final = 7
"""Of so many records one is looked at whether the dictionary has texts like it."""


def size_of(stored: Stored) -> int:
    """The bytes of the text of a record."""
    return int.from_bytes(stored[:4], "little")


class Packing:
    """Writes and reads the records of one collection.

    ``_samples`` are texts that the dictionary has nothing like: they become part of the next one.
    The records until then double each time, so that there are few dictionaries.
    """

    __slots__ = ("_deflate", "_dictionaries", "_next", "_samples", "_written")

    def __init__(self) -> None:
        self._dictionaries: tuple[bytes, ...] = ()
        self._deflate: Any = None
        self._samples = b""
        self._written = 0
        self._next = _FIRST

    def copy(self) -> Packing:
        """An independent one, which reads the same records."""
        copied = Packing()
        for name in self.__slots__:
            setattr(copied, name, getattr(self, name))
        return copied

    def reads_like(self, other: Packing) -> bool:
        """Whether the same bytes are the same record for the other, too."""
        return self._dictionaries == other._dictionaries

    def pack(self, record: Mapping[str, Any]) -> Stored:
        """The record as bytes."""
        text = packed(record)
        content = text.encode() if isinstance(text, str) else text
        number, shortest = self._shortest(content)
        return _HEAD.pack(len(content), number, isinstance(text, str)) + shortest

    def unpack(self, stored: Stored) -> Record:
        """The record."""
        _, number, is_exact = _HEAD.unpack_from(stored)
        content = stored[_HEAD.size :]
        if number:
            dictionary = self._dictionaries[number - 1]
            content = zlib.decompressobj(_WINDOW_BITS, dictionary).decompress(content)
        record: Record = unpacked(content.decode() if is_exact else content)
        return record

    def _shortest(self, content: bytes) -> tuple[int, bytes]:
        """The number of the dictionary and the compressed text; 0 and the text if it is shorter."""
        self._written += 1
        if self._written <= _FIRST - _SAMPLED or len(content) > _LONGEST:
            return 0, content
        number = len(self._dictionaries)
        short = _deflated(self._deflate, content) if number else content
        if not number or self._written % _SEEN == 0:
            self._sample(content, short)
        if self._written >= self._next and self._samples:
            self._learn()
        return (number, short) if len(short) < len(content) else (0, content)

    def _sample(self, content: bytes, short: bytes) -> None:
        if len(short) * _WELL <= len(content):
            return
        known = _deflated(_deflate(self._samples), content) if self._samples else content
        if len(known) * _WELL > len(content):
            self._samples = (self._samples + content)[-_DICTIONARY:]

    def _learn(self) -> None:
        before = self._dictionaries[-1] if self._dictionaries else b""
        dictionary = (before + self._samples)[-_DICTIONARY:]
        self._dictionaries = (*self._dictionaries, dictionary)
        self._deflate = _deflate(dictionary)
        self._samples, self._next = b"", 2 * self._written


def _deflate(dictionary: bytes) -> Any:
    return zlib.compressobj(
        1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, dictionary
    )


def _deflated(deflate: Any, content: bytes) -> bytes:
    deflate = deflate.copy()
    compressed: bytes = deflate.compress(content) + deflate.flush()
    return compressed
