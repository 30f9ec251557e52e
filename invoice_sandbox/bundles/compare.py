"""Compares two recordings of the same inputs: what happened, and what happens again."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.http.admit import ANONYMOUS
from invoice_sandbox.runtime.recording import RANDOM, without_random
from invoice_sandbox.state import Record

_MISSING: Final = object()
_MAX_SHOWN: Final = 200
_BEFORE: Final = 60
"""Characters that are shown, and of them those before the first that differs in a long text."""


@dataclass(frozen=True)
class Difference:
    """The first difference: where it is, and the values as text. ``request`` is the number of the
    input among all, from 1, and its first line; None: it is in what is left at the end. ``case`` is
    that of an acceptance run."""

    request: str | None
    member: str
    expected: str
    actual: str
    case: str = ""


def first_difference(recorded: Record, again: Record) -> Difference | None:
    """The first difference between two recordings; None: they are the same.

    Random secrets, durations, and times in webhook signatures are not compared. What is left at the
    end is compared if all bodies are known.
    """
    for index, (one, other) in enumerate(_pairs(recorded["inputs"], again["inputs"])):
        where = f"{index + 1} ({one['request']['method']} {one['request']['target']})"
        found = next(_in_input(one, other), None)
        if found is not None:
            return Difference(where, *found)
    if not compares_end(recorded):
        return None
    for part in ("deliveries", "end"):
        found = next(_differences(recorded[part], again[part], f"/{part}"), None)
        if found is not None:
            return Difference(None, *found)
    return None


def compares_end(recorded: Record) -> bool:
    """Whether what is left is compared: all bodies are known."""
    return not any(map(has_hidden_body, recorded["inputs"]))


def has_hidden_body(one: Record) -> bool:
    """Whether the body of an input is not in the bundle: it is no JSON, and may hold secrets. The
    replay sends spaces, and compares the status of the response only."""
    return "bodyBytes" in one["request"]


def _pairs(inputs: list[Record], others: list[Record]) -> Iterator[tuple[Record, Record]]:
    """Each input with the same one of the other recording: requests that overlap may end in any
    order. After a reset, numbers begin again."""
    by_number: defaultdict[int, deque[Record]] = defaultdict(deque)
    for one in others:
        by_number[one["number"]].append(one)
    for one in inputs:
        same = by_number[one["number"]]
        yield one, same.popleft() if same else {}


Found = tuple[str, str, str]


def _in_input(one: Record, other: Record) -> Iterator[Found]:
    """The differences between the responses to one input."""
    yield from _differences(one["status"], other.get("status"), "/status")
    if has_hidden_body(one):
        return
    response, other_response = one["response"], other.get("response") or {}
    headers, others = (_headers(found) for found in (response, other_response))
    yield from _differences(headers, others, "/headers")
    body, other_body = response.get("body"), other_response.get("body")
    values = [_json(text) for text in (body, other_body)]
    digests = [found.get("bodyDigest") for found in (response, other_response)]
    if digests[0] is not None and digests[0] == digests[1]:
        return
    if _MISSING in values:  # no JSON, or the beginning of a long one
        values = [None if text is None else without_random(text) for text in (body, other_body)]
        if None not in values:
            values = _where_they_differ(values[0], values[1])
    yield from _differences(values[0], values[1], "/body")
    if digests[0] is not None:
        yield from _differences(digests[0], digests[1], "/bodyDigest")


def _headers(response: Record) -> list[list[str]]:
    """The headers, without what is left of the window of callers without a key: it also counts
    requests that no recording has."""
    given = response.get("headers", ())
    return [one for one in given if not one[1].startswith(f'"{ANONYMOUS}";r=')]


def _where_they_differ(one: str, other: str) -> list[str]:
    """Two texts from shortly before the first character that differs."""
    pairs = enumerate(zip(one, other, strict=False))
    shorter = len(min(one, other, key=len))
    same = next((place for place, pair in pairs if pair[0] != pair[1]), shorter)
    return [text[max(0, same - _BEFORE) :] for text in (one, other)]


def _json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return _MISSING


def _differences(one: Any, other: Any, pointer: str) -> Iterator[Found]:
    """The differences of two JSON values, in the order of the first."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in [*one, *(name for name in other if name not in one)]:
            if name not in RANDOM:
                place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
                values = one.get(name, _MISSING), other.get(name, _MISSING)
                yield from _differences(*values, place)
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            pair = [items[index] if index < len(items) else _MISSING for items in (one, other)]
            yield from _differences(pair[0], pair[1], f"{pointer}/{index}")
    elif one is not other and not _is_equal(one, other):
        yield pointer, _shown(one), _shown(other)


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, which has one type of number."""
    types = [float if type(value) is int else type(value) for value in (one, other)]
    return types[0] is types[1] and bool(one == other)


def _shown(value: Any) -> str:
    text = "missing" if value is _MISSING else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
