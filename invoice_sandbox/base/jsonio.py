"""JSON reader and writer that keep every digit of a number.

Amounts are compared, hashed and returned as the decimal text of the request, so every number that
is not a 64-bit integer is a `decimal.Decimal`.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from struct import Struct
from typing import Any, Final

import orjson

MAX_DEPTH: Final = 256
"""The deepest nesting that is read."""

MAX_SENT_DEPTH: Final = 240
"""The deepest nesting in a request: what is stored or shown of it has more levels around it, and
the schema validator reads 255."""

_INT64_DIGITS: Final = 18
_FOLD_EVERY: Final = 100
_BEYOND_ORJSON: Final = ("Recursion limit", "Integer exceeds")
_OPENING: Final = frozenset(b"{[")
_CLOSING: Final = frozenset(b"}]")


class JsonError(ValueError):
    """The bytes are not valid JSON; the message gives the reason."""


def loads(raw: bytes, most: int = MAX_DEPTH) -> Any:
    """The value of ``raw``: str, int, Decimal, bool, None, list or dict.

    Raises JsonError for invalid UTF-8, anything RFC 8259 does not allow (``NaN`` included), more
    than ``most`` levels, a number that no double can hold, and a lone surrogate.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"it is not valid UTF-8 at byte {error.start}") from None
    if _may_be_deep(raw, most) and _depth(raw) > most:
        raise JsonError(f"it is nested more than {most} levels deep")
    try:
        value = _decoder(raw).decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise JsonError(f"it is not valid JSON at {where}") from None
    if "\\u" in text:
        _reject_lone_surrogates(value)
    return value


def dumps(value: Any) -> bytes:
    """``value`` as compact UTF-8 JSON; a Decimal keeps its digits."""
    return _written(value, 0)


def merge_patch(value: Any, patch: Any) -> Any:
    """``value`` changed by a JSON Merge Patch (RFC 7396); null removes a member."""
    if not isinstance(patch, Mapping):
        return patch
    members = dict(value) if isinstance(value, Mapping) else {}
    for name, one in patch.items():
        if one is None:
            members.pop(name, None)
        else:
            members[name] = merge_patch(members.get(name), one)
    return members


Packed = bytes | str
"""A JSON value as text; as ``str`` if its numbers have digits that only a Decimal keeps."""


def packed(value: Any) -> Packed:
    """A JSON value as text for ``unpacked``."""
    try:
        return bytes(memoryview(orjson.dumps(value)))  # as ``fitted`` does, without another call
    except orjson.JSONEncodeError:
        return _exact(value).decode()


def _exact(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=_marked)
    except orjson.JSONEncodeError:
        return orjson.dumps(_folded(value, _marked), default=_marked)


def fitted(text: bytes) -> bytes:
    """The same bytes without the kilobytes of buffer that orjson leaves behind them."""
    return bytes(memoryview(text))


def unpacked(text: Packed) -> Any:
    """A new value like the one that was packed, with lists for tuples and dicts for mappings."""
    return _PACKED.raw_decode(text)[0] if isinstance(text, str) else orjson.loads(text)


def _marked(number: Any) -> orjson.Fragment:
    """A Decimal with an ``E``, which neither an int nor a float has. It keeps its exponent."""
    if not isinstance(number, Decimal) or not number.is_finite():
        raise TypeError(f"{type(number).__name__} is not a JSON value")
    text = str(number)
    return orjson.Fragment(text if "E" in text else f"{text}E0")


def _decimal_or_float(digits: str) -> Decimal | float:
    return Decimal(digits) if "E" in digits else float(digits)


_PACKED: Final = json.JSONDecoder(parse_float=_decimal_or_float)


def _folded(value: Any, default: Callable[[Any], Any], depth: int = 0) -> Any:
    """The value without what orjson cannot write: integers beyond 64 bits, and levels deeper than
    254. What else it does not know is left to ``default``."""
    if isinstance(value, Mapping):
        folded: Any = {key: _folded(one, default, depth + 1) for key, one in value.items()}
    elif isinstance(value, list | tuple):
        folded = [_folded(one, default, depth + 1) for one in value]
    elif isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return orjson.Fragment(str(value))
    else:
        return value
    is_deep = depth and depth % _FOLD_EVERY == 0
    return orjson.Fragment(orjson.dumps(folded, default=default)) if is_deep else folded


def dumps_pretty(value: Any) -> bytes:
    """``value`` as indented UTF-8 JSON with a final newline."""
    return _written(value, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _written(value: Any, options: int) -> bytes:
    try:
        return orjson.dumps(value, default=_raw_number, option=options)
    except orjson.JSONEncodeError as error:
        if not str(error).startswith(_BEYOND_ORJSON):
            raise
        return orjson.dumps(_folded(value, _raw_number), default=_raw_number, option=options)


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _INT64_DIGITS else _decimal(digits)


def _decimal(digits: str) -> Decimal:
    if math.isinf(float(digits)):
        raise JsonError(f"the number {digits[:20]} is larger than any double")
    try:
        return Decimal(digits)
    except InvalidOperation:  # the exponent is too small for Decimal, so the value is zero
        return Decimal(0)


def _constant(name: str) -> Any:
    raise JsonError(f"{name} is not a JSON value")


_DECODER: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=_decimal, parse_constant=_constant
)
_OF_SHORT_INTEGERS: Final = json.JSONDecoder(parse_float=_decimal, parse_constant=_constant)
"""Reads integers three times as fast."""

_LONG_INTEGER: Final = re.compile(rb"[0-9]{%d}" % _INT64_DIGITS)
_LONG_TEXT: Final = 8 * 1024
"""Bytes from which looking for a long integer first is worth it."""


def _decoder(raw: bytes) -> json.JSONDecoder:
    has_many = len(raw) >= _LONG_TEXT and not _LONG_INTEGER.search(raw)
    return _OF_SHORT_INTEGERS if has_many else _DECODER


class Written:
    """A value that is JSON text already, as ``to_json`` returns it."""

    __slots__ = ()

    def to_json(self) -> bytes:
        """The text."""
        raise NotImplementedError

    def plain(self) -> Any:
        """The value."""
        raise NotImplementedError


def _raw_number(value: Any) -> orjson.Fragment:
    if isinstance(value, Written):
        return orjson.Fragment(value.to_json())
    if isinstance(value, Decimal) and value.is_finite():
        return orjson.Fragment(str(value))
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _may_be_deep(raw: bytes, most: int) -> bool:
    return raw.count(b"[") + raw.count(b"{") > most


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    in_string = escaped = False
    for byte in raw:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif byte in _CLOSING:
            depth -= 1
    return deepest


def _reject_lone_surrogates(value: Any) -> None:
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise JsonError("a string contains half of a surrogate pair")
    elif isinstance(value, dict):
        for key, child in value.items():
            _reject_lone_surrogates(key)
            _reject_lone_surrogates(child)
    elif isinstance(value, list):
        for child in value:
            _reject_lone_surrogates(child)


Stored = bytes
"""A value: its text, or a head and its text, compressed or not. Nothing can modify it, and no
garbage collector visits it."""

_HEAD: Final = Struct("<BIHB")
"""A mark, the bytes of its text, the number of the dictionary (0: the text is not compressed), and
whether its numbers have digits that only a Decimal keeps."""

_MARK: Final = 0
"""The first byte of a head. No JSON text begins with it."""

_FIRST: Final = 128
"""Values after which there is a dictionary: it takes more than a few values."""

_SAMPLED: Final = 16
"""Values before that from which it is made."""

_LONGEST: Final = 8 * 1024
_DICTIONARY: Final = 4 * 1024 - 262
"""Bytes of a dictionary: what zlib sees through a window of that many bits."""

_WINDOW_BITS: Final = -12
"""Negative, as the texts need neither zlib's header nor its checksum."""

_MEMORY_LEVEL: Final = 3
_WELL: Final = 6
"""A text gets this many times shorter with a dictionary that has texts like it."""

_SEEN: Final = 7
"""Of so many values one is looked at whether the dictionary has texts like it."""


def size_of(stored: Stored) -> int:
    """The bytes of the text of a value."""
    return int.from_bytes(stored[1:5], "little") if stored[0] == _MARK else len(stored)


class Packing:
    """Compresses values that are like each other, such as the records of a collection.

    ``_samples`` are texts that the dictionary has nothing like: they become part of the next one.
    The values until then double each time, so that there are few dictionaries.
    """

    __slots__ = ("_deflate", "_dictionaries", "_next", "_samples", "_written")

    def __init__(self) -> None:
        self._dictionaries: tuple[bytes, ...] = ()
        self._deflate: Any = None
        self._samples = b""
        self._written = 0
        self._next = _FIRST

    def copy(self) -> Packing:
        """An independent one, which reads the same bytes."""
        copied = Packing()
        for name in self.__slots__:
            setattr(copied, name, getattr(self, name))
        return copied

    def reads_like(self, other: Packing) -> bool:
        """Whether the same bytes are the same value for the other, too."""
        return self._dictionaries == other._dictionaries

    def pack(self, value: Any) -> Stored:
        """The value as bytes."""
        text = packed(value)
        content = text.encode() if isinstance(text, str) else text
        number, shortest = self._shortest(content)
        if text is shortest:
            return shortest
        return _HEAD.pack(_MARK, len(content), number, isinstance(text, str)) + shortest

    def unpack(self, stored: Stored) -> Any:
        """A new value like the one that was packed, as ``unpacked`` returns it."""
        if stored[0] != _MARK:
            return orjson.loads(stored)
        _, _, number, is_exact = _HEAD.unpack_from(stored)
        content = stored[_HEAD.size :]
        if number:
            dictionary = self._dictionaries[number - 1]
            content = zlib.decompressobj(_WINDOW_BITS, dictionary).decompress(content)
        return unpacked(content.decode()) if is_exact else orjson.loads(content)

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
