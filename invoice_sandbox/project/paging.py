"""The page of a list that a query asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain
from typing import Any, Final

from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.openapi.message.parameters import Parameter, query_of
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.declared import keywords_at, outline
from invoice_sandbox.project.fitting import at_steps, members, placed, without
from invoice_sandbox.project.page import LIMITS, NUMBERS, OBJECTS, Page, plain
from invoice_sandbox.project.view import generated

_SIZES: Final = (*LIMITS, "size", "count", "take", "top", "rows", "first", "max")
_RECORDS: Final = ("starting_after", "start_after", "after_id", "since_id")
"""Parameters with the id of the last record of the page before."""
_TOKENS: Final = (
    "cursor",
    "page_cursor",
    "page_token",
    "next_page_token",
    "next_token",
    "next_page",
    "next_cursor",
    "start_cursor",
    "batch_token",
    "skip_token",
    "skiptoken",
    "continue",
)
_MORE_TOKENS: Final = (
    *(
        "pagination_token",
        "continuation_token",
        "after",
        "page_after",
        "marker",
        "bookmark",
        "next",
    ),
)
_NUMBERS: Final = {**dict.fromkeys(NUMBERS, 1), "page_index": 0, "skip_pages": 0}
"""Parameters with the number of a page, and of the first one if the document has no other."""
_ENDS: Final = {"start": "end", "from": "to"}
"""Parameters with the number of a record, unless the operation has the other one as well."""
_OFFSETS: Final = {
    **dict.fromkeys(("offset", "skip", "skip_count", "page_offset", "start_at", *_ENDS), 0),
    "start_index": 1,
}
"""Parameters with the number of a record, and that of the first one, as in SCIM (RFC 7644)."""
_POSITIONS: Final = (*_TOKENS, *_MORE_TOKENS, *_RECORDS, *_OFFSETS, *_NUMBERS)
"""Parameters that say where a page begins; the first one of a query applies."""
_KINDS: Final = frozenset({*_SIZES, *_POSITIONS})
_OPTIONS: Final = frozenset(
    {"filter", "filters", "option", "options", "query", "param", "params", "parameters"}
)
"""Words in the names of objects that may have the page among other things."""
_AMBIGUOUS: Final = frozenset(
    {*_SIZES} - {*LIMITS}
    | {*_ENDS, "start_at", "start_after", "after", "since_id", "marker", "bookmark"}
    | {"continue", "next", "p"}
)
"""What may be a filter in such an object: of these, only sizes count, beside another position."""
_MOST_DIGITS: Final = 18
_WIDEST: Final = 40
"""The length of the longest text that is a number with zeros in front."""


@dataclass(frozen=True)
class _Input:
    """A query parameter, or a member of one that is an object. ``kind`` is its name as words,
    ``base`` the number of the first page or record if this is a position. ``prefix`` is
    what may be in front of a position, always the same."""

    kind: str
    name: str
    inner: tuple[str, ...]
    checker: Checker
    default: str
    base: int
    prefix: Callable[[], str] = field(compare=False)

    def values(
        self, query: Mapping[str, Any], at: int, limit: int, keys: Sequence[str]
    ) -> Iterator[Any]:
        """The values that the parameter can have for the page that begins there."""
        around = query.get(self.name)
        for one in _values_at(self, at, limit, keys):
            if self.checker.is_valid(placed(around, self.inner, one)):
                yield one


def page_of(
    contract: Contract,
    operation: Operation,
    query: Mapping[str, Any],
    keys: Sequence[str],
    address: str,
    most: int | None = None,
) -> Page:
    """The page that a query asks for. ``keys`` are the ids of all records in their order,
    ``address`` is the URL of the list, ``most`` is how many records it can have. A position that no
    page has is the end of the list."""
    every = [*_inputs(contract, operation)]
    given, usual = dict(_given(query)), {one.kind: one.default for one in every}
    own = ((one.kind, at_steps(query, (one.name, *one.inner))) for one in every if one.inner)
    given |= {kind: str(value) for kind, value in own if value is not None}
    ways = sorted(
        (one for one in every if _is_position(one, usual)),
        key=lambda one: _POSITIONS.index(one.kind),
    )
    usual_size = (_size(usual) or None) if ways else None  # a rest that nobody can ask for is shown
    sizes = (_size(given), usual_size, len(keys))
    limit = next(one for one in sizes if one is not None)
    limit = limit if most is None else min(limit, most)
    used = next((one for one in ways if given.get(one.kind)), None)
    start = 0 if used is None else _start(used, given[used.kind], limit, keys)
    ways = ways if used is None else [used, *(one for one in ways if one != used)]

    def url_of(asked: Mapping[str, Any]) -> str:
        return f"{address}?{query_of(operation.parameters, asked)}".rstrip("?")

    positions, urls = dict[str, Mapping[str, Callable[[], Iterator[Any]]]](), dict[str, str]()
    for other, at in _starts(start, limit, len(keys)):
        tried = {one: partial(one.values, query, at, limit, keys) for one in ways}
        best = {one: next(values(), None) for one, values in tried.items()}
        found = {one: value for one, value in best.items() if value is not None}
        if found or (ways and not at):
            urls[other] = url_of(_at(query, ways, found))
            first_of_kind = {one.kind: one for one in reversed(found)}
            positions[other] = {one.kind: tried[first_of_kind[one.kind]] for one in found}
    urls["self"] = url_of(query)
    first, origin = (
        next((one.base for one in ways if one.kind in kinds), 1 - at)
        for at, kinds in enumerate((_NUMBERS, _OFFSETS))
    )
    asked = {one.kind: limit for one in every if one.kind in _SIZES}
    asked |= {one.kind: start + one.base for one in ways if one.kind in _OFFSETS}
    return Page(len(keys), start, limit, first, origin, asked, positions, urls)


def _at(
    query: Mapping[str, Any], ways: Iterable[_Input], found: Mapping[_Input, Any]
) -> Mapping[str, Any]:
    """The query with the first of the positions that were found, and no other."""
    for one in ways:
        query = without(query, (one.name, *one.inner))
    for one, value in [*found.items()][:1]:
        query = placed(query, (one.name, *one.inner), value)
    return query


def _inputs(contract: Contract, operation: Operation) -> Iterator[_Input]:
    """The query parameters, and the members of those that are objects."""
    document = contract.document
    for one in operation.parameters:
        if one.location == "query":
            schema = at_pointer(document, one.schema_pointer)
            inside = members(outline(document, schema, 1))
            places: list[tuple[str, ...]] = [(name,) for name in inside] or [()]
            able = _kinds_inside(one, inside)
            for inner in places:
                whole, own = _kind("_".join((one.name, *inner))), plain("_".join(inner))
                kind = own if whole not in _KINDS and own in able else whole
                bounds = ("default", "minimum")
                known = [keywords_at(document, schema, inner, keyword) for keyword in bounds]
                base = {**_OFFSETS, **_NUMBERS}.get(kind, 0)
                base = next((value for value in chain(*known) if str(value) in {"0", "1"}), base)
                default = str(next(iter(known[0]), ""))
                prefix = cache(partial(_generated_text, contract, schema, inner))
                yield _Input(*(kind, one.name, inner, one.checker, default, int(base), prefix))


def _kinds_inside(one: Parameter, inside: Iterable[str]) -> frozenset[str]:
    """What members of a parameter that is an object may be called to be about the page, without its
    name in front."""
    about = {*plain(one.name).split("_")}
    if one.members != () or not about.isdisjoint(OBJECTS):
        return _KINDS
    if about.isdisjoint(_OPTIONS):
        return frozenset()
    known = _KINDS - _AMBIGUOUS
    has_position = not known.intersection(_POSITIONS).isdisjoint(map(plain, inside))
    return known.union(_SIZES) if has_position else known


def _generated_text(contract: Contract, schema: Any, inner: Sequence[str]) -> str:
    """A text that is generated for a parameter, or for a member of it; empty if that is a number,
    or cannot be made."""
    value = at_steps(generated(contract, schema, ""), inner)
    return value if isinstance(value, str) and not value.isdecimal() else ""


def _given(query: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The parameters as text; the member ``size`` of an object ``page`` is ``page_size``."""
    for name, value in query.items():
        if isinstance(value, Mapping) and not above:
            yield from _given(value, f"{plain(name)}_")
        elif value is not None:
            yield _kind(f"{above}{name}"), str(value)


def _kind(name: str) -> str:
    """A name as words, without that of an object that it is flattened from:
    ``pagination[pageSize]`` is ``page_size``."""
    whole = plain(name)
    first, _, rest = whole.partition("_")
    return rest if whole not in _KINDS and first in OBJECTS and rest in _KINDS else whole


def _size(given: Mapping[str, str]) -> int | None:
    """How many records a page has, if that is given."""
    limits = (given[one] for one in _SIZES if given.get(one, "").isdecimal())
    return next(map(_whole, limits), None)


def _is_position(one: _Input, others: Collection[str]) -> bool:
    """Whether a parameter says where a page begins. One such as ``after`` that takes a date is a
    filter, and so is ``from`` if it takes no number, or is beside ``to``, and ``start`` beside
    ``end``."""
    dates = ("2026-01-01T00:00:00Z", "2026-01-01")
    if one.kind not in _POSITIONS or _ENDS.get(one.kind, "") in others:
        return False
    checker = one.checker
    if one.kind == "from":
        return checker.is_valid(1)
    is_date = any(map(checker.is_valid, dates))
    return not is_date or any(map(checker.is_valid, _padded(1)))


def _starts(start: int, limit: int, total: int) -> Iterator[tuple[str, int]]:
    """Where other pages begin, by their relation to the one at ``start``."""
    size = max(limit, 1)
    rest = start % size if start < total else 0
    last = rest + max(total - 1 - rest, 0) // size * size
    if 0 < limit < total - start:
        yield "next", start + limit
    if limit and start and total:
        yield "prev", max(start - limit, 0) if start < total else last
    yield from (("last", last), ("first", 0), ("end", -(-total // size) * size))


def _start(used: _Input, text: str, limit: int, keys: Sequence[str]) -> int:
    """How many records come before the page."""
    digits = text
    if text not in keys and not text.isdecimal():
        digits = text.removeprefix(used.prefix())
    if used.kind not in _RECORDS and digits.isdecimal():
        number = max(_whole(digits) - used.base, 0)
        return number * limit if used.kind in _NUMBERS else number
    return keys.index(text) + 1 if text in keys else len(keys)


def _values_at(way: _Input, at: int, limit: int, keys: Sequence[str]) -> Iterator[Any]:
    """Values of a parameter for the page that begins there, the best first."""
    number = (at // max(limit, 1) if way.kind in _NUMBERS else at) + way.base
    if way.kind not in _RECORDS:
        yield from (number, *_padded(number))
    if way.kind not in _NUMBERS and at and keys:
        key = keys[min(at, len(keys)) - 1]
        yield from (key, *([_whole(key)] if key.isdecimal() else []))
    if way.kind not in _RECORDS:
        yield f"{way.prefix()}{number}"


def _padded(number: int) -> Iterator[str]:
    """A number as text, and with zeros in front, for parameters that want longer texts."""
    return (str(number).zfill(width) for width in range(len(str(number)), _WIDEST + 1))


def _whole(digits: str) -> int:
    return int(digits.lstrip("0")[:_MOST_DIGITS] or "0")
