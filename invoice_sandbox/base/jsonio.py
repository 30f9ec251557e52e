"""JSON reader and writer that keep every digit of a number.

Amounts are compared, hashed and returned as the decimal text of the request, so every number that
is not a 64-bit integer is a `decimal.Decimal`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
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
    if raw.count(b"[") + raw.count(b"{") > most and _depth(raw) > most:
        raise JsonError(f"it is nested more than {most} levels deep")
    try:
        value = _decoder(raw).decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise JsonError(f"it is not valid JSON at {where}") from None
    if "\\u" in text:
        _reject_lone_surrogates(value)
    return value


def parsed(text: str | None) -> Any:
    """Return the value of a JSON text; None for any other text, and for none."""
    try:
        return None if text is None else loads(text.encode(errors="replace"))
    except JsonError:
        return None


def dumps(value: Any) -> bytes:
    """``value`` as compact UTF-8 JSON; a Decimal keeps its digits."""
    try:
        return orjson.dumps(value, default=_raw_number)
    except orjson.JSONEncodeError as error:
        return _beyond_orjson(value, 0, error)


def merge_patch(value: Any, patch: Any) -> Any:
    """``value`` changed by a JSON Merge Patch (RFC 7396); null removes a member."""
    if not isinstance(patch, Mapping):
        return patch
    members = dict(value) if isinstance(value, Mapping) else {}
    for name, change in patch.items():
        if change is None:
            members.pop(name, None)
        else:
            members[name] = merge_patch(members.get(name), change)
    return members


Packed = bytes | str
"""A JSON value as text; as ``str`` if its numbers have digits that only a Decimal keeps."""


def packed(value: Any) -> Packed:
    """A JSON value as text for ``unpacked``."""
    try:
        return bytes(
            memoryview(orjson.dumps(value))
        )  # without the buffer that orjson leaves behind
    except orjson.JSONEncodeError:
        return packed_bytes(value)[0].decode()


def packed_bytes(value: Any) -> tuple[bytes, bool]:
    """A packed value in UTF-8, and whether its numbers have digits that only a Decimal keeps."""
    marked = _Marked()
    try:
        text = orjson.dumps(value, default=marked)
    except orjson.JSONEncodeError:
        return orjson.dumps(_folded(value, marked), default=marked), True
    return bytes(memoryview(text)), bool(marked)


def unpacked(text: Packed) -> Any:
    """A new value like the one that was packed, with lists for tuples and dicts for mappings."""
    return _decode_exact(text) if isinstance(text, str) else orjson.loads(text)


class _Marked(list[str]):
    """Writes a Decimal with an ``E``, which neither an int nor a float has, so that it keeps its
    exponent. Has what it wrote."""

    __slots__ = ()

    def __call__(self, number: Any) -> orjson.Fragment:
        if not isinstance(number, Decimal) or not number.is_finite():
            raise TypeError(f"{type(number).__name__} is not a JSON value")
        text = str(number)
        self.append(text if "E" in text else f"{text}E0")
        return orjson.Fragment(self[-1])


def _decimal_or_float(digits: str) -> Decimal | float:
    return Decimal(digits) if "E" in digits else float(digits)


_decode_exact: Final = msgspec.json.Decoder(float_hook=_decimal_or_float).decode


def _folded(value: Any, default: Callable[[Any], Any], depth: int = 0) -> Any:
    """The value without what orjson cannot write: integers beyond 64 bits, and levels deeper than
    254. What else it does not know is left to ``default``."""
    if isinstance(value, Mapping):
        folded: Any = {key: _folded(member, default, depth + 1) for key, member in value.items()}
    elif isinstance(value, list | tuple):
        folded = [_folded(item, default, depth + 1) for item in value]
    elif isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return orjson.Fragment(str(value))
    else:
        return value
    is_deep = depth and depth % _FOLD_EVERY == 0
    return orjson.Fragment(orjson.dumps(folded, default=default)) if is_deep else folded


def dumps_pretty(value: Any) -> bytes:
    """``value`` as indented UTF-8 JSON with a final newline."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    try:
        return orjson.dumps(value, default=_raw_number, option=options)
    except orjson.JSONEncodeError as error:
        return _beyond_orjson(value, options, error)


def _beyond_orjson(value: Any, options: int, error: orjson.JSONEncodeError) -> bytes:
    """Write a folded value. Raises ``error`` if folding does not help."""
    if not str(error).startswith(_BEYOND_ORJSON):
        raise error
    return orjson.dumps(_folded(value, _raw_number), default=_raw_number, option=options)


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _INT64_DIGITS else _decimal(digits)


def _decimal(digits: str) -> Decimal:
    if math.isinf(float(digits)):
        shown = digits if len(digits) <= _INT64_DIGITS else f"{digits[:_INT64_DIGITS]}..."
        raise JsonError(f"the number {shown} is larger than any double")
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


def _raw_number(value: Any) -> orjson.Fragment:
    if isinstance(value, Decimal) and value.is_finite():
        return orjson.Fragment(str(value))
    raise TypeError(f"{type(value).__name__} is not a JSON value")


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
