"""Compares what a bundle recorded with what a replay gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.state import Record

_MISSING: Final = object()
_MAX_SHOWN: Final = 200
_BEFORE: Final = 60
"""Characters that are shown, and of them those before the first that differs in a long text."""

_REAL: Final = frozenset(
    ("durationMs", "keptIdleFor", "last4", "lastUsedAt", "webhook-signature", "webhook-timestamp")
)
"""Members with real time, those that derive from random secrets, and the last use of a key, which
may be by a request that is in no journal. They are not compared."""

_TIMED: Final = _REAL | {"bodyDigest"}
"""Those that have an instant in them, too."""

_IN_TEXT: Final = re.compile(rf'"({"|".join(sorted(_REAL))})":("[^"]*"?|[0-9.]+|null)')
_SECRET: Final = re.compile(r"\[redacted [^\[\]]*\]")
_WINDOW: Final = re.compile(r'^("anonymous";r=).*|(;t=)[0-9]+$')
"""What is left of a rate window: callers without a key share one with requests of no bundle, and
its end is real time."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_ULID: Final = re.compile(r"(?<![0-9A-Z])[0-9A-HJKMNP-TV-Z]{26}(?![0-9A-Z])")


@dataclass(frozen=True)
class Difference:
    """Where two runs differ, and the values as text. ``request`` is the number of the request in
    the bundle, from 1, and its first line; None: it is in what is left at the end. ``case`` is that
    of an acceptance run."""

    request: str | None
    member: str
    expected: str
    actual: str
    case: str = ""


class Comparison:
    """Compares two runs. On a live clock ``without_times``: instants, and ids that have one in
    them, differ by the milliseconds that a request took."""

    def __init__(self, *, without_times: bool) -> None:
        self._without_times = without_times
        self._random_ids: set[str] = set()

    def of_request(self, place: str, one: Record, other: Record) -> Iterator[Difference]:
        """Return the differences of two responses to a request."""
        for entry in (one, other):
            if not entry.get("number"):  # the id of a request of an unknown caller is random
                self._random_ids.update(_ULID.findall(entry.get("requestId", "")))
        found = [*_differences(self._plain(_response(one)), self._plain(_response(other)), "")]
        texts = [self._plain(entry.get("response", {}).get("body")) for entry in (one, other)]
        if not found:  # but maybe the order of members, or how a number is written
            found = [*_differences(texts[0], texts[1], "/body")]
        for member, expected, actual in found:
            yield Difference(place, member, expected, actual)

    def of_end(self, one: Record, other: Record) -> Iterator[Difference]:
        """Return the differences in what is left."""
        for member, expected, actual in _differences(self._plain(one), self._plain(other), ""):
            yield Difference(None, member, expected, actual)

    def _plain(self, value: Any) -> Any:
        """The value without what differs in every run."""
        if isinstance(value, Mapping):
            left_out = _TIMED if self._without_times else _REAL
            return {name: self._plain(one) for name, one in value.items() if name not in left_out}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if not isinstance(value, str):
            return value
        text = _SECRET.sub("[redacted]", _IN_TEXT.sub(r'"\1":0', value))
        text = _ULID.sub(self._plain_id, text)
        return _INSTANT.sub("[instant]", text) if self._without_times else text

    def _plain_id(self, match: re.Match[str]) -> str:
        return "[id]" if self._without_times or match[0] in self._random_ids else match[0]


def _response(entry: Record) -> Record:
    response = entry.get("response", {})
    headers: dict[str, list[str]] = {}
    for name, value in response.get("headers", ()):
        headers.setdefault(name.lower(), []).append(_WINDOW.sub(r"\1\2", value))
    return {
        "status": entry.get("status"),
        "headers": {name: ", ".join(values) for name, values in headers.items()},
        "body": _parsed(response.get("body")),
    }


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or the beginning of a long one
        return text


def _differences(one: Any, other: Any, pointer: str) -> Iterator[tuple[str, str, str]]:
    """The differences of two JSON values, in the order of the first."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in [*one, *(name for name in other if name not in one)]:
            place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from _differences(one.get(name, _MISSING), other.get(name, _MISSING), place)
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            pair = [items[index] if index < len(items) else _MISSING for items in (one, other)]
            yield from _differences(pair[0], pair[1], f"{pointer}/{index}")
    elif one is not other and not _is_equal(one, other):
        if isinstance(one, str) and isinstance(other, str):
            one, other = _where_they_differ(one, other)
        yield pointer, _shown(one), _shown(other)


def _where_they_differ(one: str, other: str) -> tuple[str, str]:
    """Two texts, long ones from shortly before the first character that differs."""
    if max(len(one), len(other)) <= _MAX_SHOWN:
        return one, other
    pairs = enumerate(zip(one, other, strict=False))
    shorter = min(len(one), len(other))
    same = next((place for place, pair in pairs if pair[0] != pair[1]), shorter)
    begin = max(0, same - _BEFORE)
    return one[begin:], other[begin:]


def _is_equal(one: Any, other: Any) -> bool:
    """True if two values are the same in JSON, which has one type of number."""
    types = [float if type(value) is int else type(value) for value in (one, other)]
    return types[0] is types[1] and bool(one == other)


def _shown(value: Any) -> str:
    text = "missing" if value is _MISSING else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
