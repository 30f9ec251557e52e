"""Compares what a bundle recorded with what a replay gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from os.path import commonprefix
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
"""These, and members that have an instant in them."""

_IN_TEXT: Final = re.compile(rf'"({"|".join(sorted(_REAL))})":("[^"]*"?|[0-9.]+|null)')
_SECRET: Final = re.compile(r"\[redacted [^\[\]]*\]")
_WINDOW: Final = re.compile(r'^("anonymous";r=).*|(;t=)[0-9]+$')
"""The rest of a rate window: callers without a key share one with requests of no bundle, and
its end is real time."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_ULID: Final = re.compile(r"(?<![0-9A-Z])[0-9A-HJKMNP-TV-Z]{26}(?![0-9A-Z])")


@dataclass(frozen=True)
class Difference:
    """A place where two runs differ, and the values as text. ``request`` is the number of the
    request in the bundle, from 1, and its first line; None: it is in what is left at the end.
    ``case`` is that of an acceptance run."""

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

    def of_request(self, place: str, recorded: Record, replayed: Record) -> Iterator[Difference]:
        """Yield the differences of two responses to a request."""
        entries = (recorded, replayed)
        for entry in entries:
            if not entry.get("number"):  # the id of a request of an unknown caller is random
                self._random_ids.update(_ULID.findall(entry.get("requestId", "")))
        expected, actual = (self.plain(response_of(entry)) for entry in entries)
        found = [*differences(expected, actual, "")]
        if not found:  # but maybe the order of members, or how a number is written
            expected, actual = (
                self.plain(entry.get("response", {}).get("body")) for entry in entries
            )
            found = [*differences(expected, actual, "/body")]
        for member, expected, actual in found:
            yield Difference(place, member, expected, actual)

    def of_end(self, recorded: Record, replayed: Record) -> Iterator[Difference]:
        """Yield the differences in what is left."""
        for difference in differences(self.plain(recorded), self.plain(replayed), ""):
            yield Difference(None, *difference)

    def plain(self, value: Any) -> Any:
        """The value without what differs in every run."""
        if isinstance(value, Mapping):
            left_out = _TIMED if self._without_times else _REAL
            return {
                name: self.plain(member) for name, member in value.items() if name not in left_out
            }
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if not isinstance(value, str):
            return value
        text = _SECRET.sub("[redacted]", _IN_TEXT.sub(r'"\1":0', value))
        text = _ULID.sub(self._plain_id, text)
        return _INSTANT.sub("[instant]", text) if self._without_times else text

    def _plain_id(self, match: re.Match[str]) -> str:
        return "[id]" if self._without_times or match[0] in self._random_ids else match[0]


def response_of(entry: Record) -> Record:
    """The response of an entry: its status, its headers by lower-case name, its body as JSON."""
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


def differences(expected: Any, actual: Any, pointer: str) -> Iterator[tuple[str, str, str]]:
    """Yield the differences of two JSON values, in the order of the first."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name in dict.fromkeys((*expected, *actual)):
            place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from differences(expected.get(name, _MISSING), actual.get(name, _MISSING), place)
    elif isinstance(expected, list) and isinstance(actual, list):
        pairs = zip_longest(expected, actual, fillvalue=_MISSING)
        for index, (first, second) in enumerate(pairs):
            yield from differences(first, second, f"{pointer}/{index}")
    elif expected is not actual and not _is_equal(expected, actual):
        if isinstance(expected, str) and isinstance(actual, str):
            start = _start_of_difference(expected, actual)
            expected, actual = expected[start:], actual[start:]
        yield pointer, _shown(expected), _shown(actual)


def _start_of_difference(expected: str, actual: str) -> int:
    """Return where to begin to show two texts: long ones shortly before they differ."""
    if max(len(expected), len(actual)) <= _MAX_SHOWN:
        return 0
    same = commonprefix([expected, actual])  # noqa: RUF071 - not of paths
    return max(0, len(same) - _BEFORE)


def _is_equal(expected: Any, actual: Any) -> bool:
    """True if two values are the same in JSON, which has one type of number."""
    types = [float if type(value) is int else type(value) for value in (expected, actual)]
    return types[0] is types[1] and bool(expected == actual)


def _shown(value: Any) -> str:
    text = "missing" if value is _MISSING else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
