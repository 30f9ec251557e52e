"""The page of a list that a query asks for, and what a response says of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.declared import keywords_at, outline
from invoice_sandbox.project.fitting import ABSENT, at_steps, first_valid, members, placed, without

_LIMITS: Final = ("limit", "per_page", "page_size", "size", "max_results")
_RECORDS: Final = ("starting_after", "start_after")
"""Parameters with the id of the last record of the page before."""
_TOKENS: Final = ("cursor", "page_cursor", "page_token", "next_page_token", "next_token")
_MORE_TOKENS: Final = ("pagination_token", "continuation_token", "after", "page_after", "marker")
_NUMBERS: Final = ("page", "page_number")
_OFFSETS: Final = ("offset", "skip", "page_offset")
_POSITIONS: Final = (*_TOKENS, *_MORE_TOKENS, *_RECORDS, *_OFFSETS, *_NUMBERS)
"""Parameters that say where a page begins; the first one of a query applies."""
_COUNTS: Final = frozenset(
    {"total", "count", "total_count", "total_items", "total_results", "total_elements"}
)
_PAGES: Final = frozenset({"total_pages", "page_count", "last_page"})
_PAGE: Final = frozenset({"page", "current_page", "page_number"})
_MORE: Final = frozenset({"has_more", "has_next", "has_next_page", "is_truncated", "more"})
_LESS: Final = frozenset({"has_previous", "has_prev", "has_previous_page", "has_prev_page"})
_LAST: Final = frozenset({"is_last", "is_last_page"})
_CURSORS: Final = frozenset({"cursor", "end_cursor", "after", "continuation_token"})
_OBJECTS: Final = frozenset(
    {"page", "paging", "pagination", "meta", "metadata", "cursor", "cursors", "links", "info"}
)
"""Words in the names of objects about a page."""
_RELATIONS: Final = ("prev", "next", "last", "first")
"""Other pages, as a ``Link`` header calls them (RFC 8288)."""
_MOST_DIGITS: Final = 18


@dataclass(frozen=True)
class Page:
    """Records ``start`` to ``start + limit`` of ``total``. Pages count from ``first``.

    ``positions`` has the parameters that ask for other pages, those to use first in front, and
    ``urls`` the addresses of these pages. Both are by relation: ``next`` and ``prev``, if there are
    such pages, ``first``, ``last``, and ``end`` for the empty page behind the last one.
    """

    total: int
    start: int
    limit: int
    first: int = 1
    positions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    urls: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_only(self) -> bool:
        """Whether no other page has a record."""
        return self.urls.keys().isdisjoint({"next", "prev"})

    @property
    def link(self) -> str:
        """The ``Link`` header with the other pages."""
        found = ((one, self.urls[one]) for one in _RELATIONS if one in self.urls)
        return ", ".join(f'<{url}>; rel="{one}"' for one, url in found)

    def described(
        self, body: Any, declared: Any, steps: Sequence[str], checker: Checker | None
    ) -> Any:
        """``body`` with what it says of the page, where the schema allows that: in the objects that
        lead to the list at ``steps``, and in objects beside it. ``declared`` is the outline of the
        schema."""
        for depth, one in enumerate(steps):
            body = self._filled(body, declared, steps[:depth], checker, one)
        return body

    def _filled(
        self,
        body: Any,
        declared: Any,
        at: Sequence[str],
        checker: Checker | None,
        besides: str = "",
    ) -> Any:
        shown = members(at_steps(body, at))
        names = {**members(at_steps(declared, at)), **shown}
        above = _relation(_plain(at[-1])) if at else ""
        for name in names:
            place, plain = (*at, name), _plain(name)
            if name == besides:
                continue
            is_object = isinstance(names[name], Mapping)
            other = above or _relation(plain) or ("next" if plain in _CURSORS else "")
            values: Iterable[Any] = ()
            if is_object and other and other not in self.positions and plain not in _OBJECTS:
                values = (None, ABSENT)
            elif not is_object:
                values = self._values(plain, shown.get(name), other)
            before = body
            body = first_valid(checker, body, place, values)
            is_paging = other or _OBJECTS.intersection(plain.split("_"))
            if body is before and is_object and is_paging and len(at) < 3:
                body = self._filled(body, declared, place, checker)
        return body

    def _values(self, plain: str, shown: Any, other: str) -> Iterator[Any]:
        """Values of a member, the best first; none for a member that is not about the page.
        ``other`` is the relation of the page that it leads to, if it does."""
        is_more = 0 < self.limit < self.total - self.start
        size = max(self.limit, 1)
        facts = (
            (_COUNTS, self.total),
            (_PAGES, -(-self.total // size)),
            (_PAGE, self.start // size + self.first),
            (_MORE, is_more),
            (_LESS, self.start > 0),
            (_LAST, not is_more),
        )
        fact = next((one for names, one in facts if plain in names), None)
        if fact is not None:
            yield fact
        elif plain in {"first", "last"}:
            if _is_address(shown) and plain in self.urls:
                yield self.urls[plain]
        elif other:
            is_address = _is_address(shown) or plain.endswith(("url", "uri", "link", "href"))
            if not (self.urls if is_address else self.positions).get(other):
                yield from (None, ABSENT, "")
                other = "end" if other == "next" else "first"
            if is_address:
                yield from (self.urls[one] for one in (other,) if one in self.urls)
            else:
                yield from self._cursors(plain, self.positions.get(other, {}))

    def _cursors(self, plain: str, found: Mapping[str, Any]) -> Iterator[Any]:
        """The value of a position for a member, which may be called like its parameter."""
        wanted = re.sub("^(next|previous|prev)_", "", plain)
        named = (one for one in found if _plain(one).endswith(wanted))
        for name in (*named, *found)[:1]:
            yield from (found[name], str(found[name]))


@dataclass(frozen=True)
class _Input:
    """A query parameter, or a member of one that is an object. ``kind`` is its name as words."""

    kind: str
    name: str
    inner: tuple[str, ...]
    checker: Checker
    default: str

    def value(self, query: Mapping[str, Any], wanted: Iterable[Any]) -> Any:
        """The first of these values that the parameter can have, or None."""
        around = query.get(self.name)
        allowed = (one for one in wanted if self.checker.is_valid(placed(around, self.inner, one)))
        return next(allowed, None)


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
    every = [*_inputs(contract.document, operation)]
    given, usual = dict(_given(query)), {one.kind: one.default for one in every}
    ways = sorted(
        (one for one in every if one.kind in _POSITIONS and not _is_date(one.checker)),
        key=lambda one: _POSITIONS.index(one.kind),
    )
    sizes = (_size(given), _size(usual) or None, len(keys))
    limit = next(one for one in sizes if one is not None)
    limit = limit if most is None else min(limit, most)
    first = 0 if any(usual.get(one) == "0" for one in _NUMBERS) else 1
    used = next((one for one in ways if given.get(one.kind)), None)
    start = 0 if used is None else _start(used.kind, given[used.kind], limit, keys, first)
    ways = ways if used is None else [used, *(one for one in ways if one != used)]
    positions, urls = dict[str, Mapping[str, Any]](), dict[str, str]()
    for other, at in _starts(start, limit, len(keys)):
        wanted = ((one, _values_at(one.kind, at, limit, keys, first)) for one in ways)
        tried = {one: one.value(query, values) for one, values in wanted}
        found = {one: value for one, value in tried.items() if value is not None}
        if found or (ways and not at):
            urls[other] = f"{address}?{urlencode([*_texts(_at(query, ways, found))])}".rstrip("?")
            positions[other] = {one.kind: value for one, value in found.items()}
    return Page(len(keys), start, limit, first, positions, urls)


def _at(
    query: Mapping[str, Any], ways: Iterable[_Input], found: Mapping[_Input, Any]
) -> Mapping[str, Any]:
    """The query with the first of the positions that were found, and no other."""
    for one in ways:
        query = without(query, (one.name, *one.inner))
    for one, value in [*found.items()][:1]:
        query = placed(query, (one.name, *one.inner), value)
    return query


def _inputs(document: Mapping[str, Any], operation: Operation) -> Iterator[_Input]:
    """The query parameters, and the members of those that are objects."""
    for one in operation.parameters:
        if one.location == "query":
            schema = at_pointer(document, one.schema_pointer)
            inside = members(outline(document, schema, 1))
            places: list[tuple[str, ...]] = [(name,) for name in inside] or [()]
            for inner in places:
                kind = _plain("_".join((one.name, *inner)))
                default = next(iter(keywords_at(document, schema, inner, "default")), "")
                yield _Input(kind, one.name, inner, one.checker, str(default))


def _given(query: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The parameters as text; the member ``size`` of an object ``page`` is ``page_size``."""
    for name, value in query.items():
        if isinstance(value, Mapping) and not above:
            yield from _given(value, f"{_plain(name)}_")
        elif value is not None:
            yield f"{above}{_plain(name)}", str(value)


def _texts(query: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parameters as a URL has them: ``page[size]`` for the member ``size`` of ``page``."""
    for name, value in query.items():
        if isinstance(value, Mapping):
            yield from _texts({f"{name}[{inner}]": one for inner, one in value.items()})
        elif isinstance(value, list):
            yield from (text for one in value for text in _texts({name: one}))
        elif value is not None:
            yield name, str(value).lower() if isinstance(value, bool) else str(value)


def _size(given: Mapping[str, str]) -> int | None:
    """How many records a page has, if that is given."""
    limits = (given[one] for one in _LIMITS if given.get(one, "").isdecimal())
    return next(map(_whole, limits), None)


def _is_date(checker: Checker) -> bool:
    """Whether a parameter such as ``after`` takes a date, so that it is a filter."""
    dates = ("2026-01-01T00:00:00Z", "2026-01-01")
    return any(checker.is_valid(one) and not checker.is_valid("1") for one in dates)


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


def _start(kind: str, text: str, limit: int, keys: Sequence[str], first: int) -> int:
    """How many records come before the page."""
    if kind not in _RECORDS and text.isdecimal():
        number = _whole(text)
        return max(number - first, 0) * limit if kind in _NUMBERS else number
    return keys.index(text) + 1 if text in keys else len(keys)


def _values_at(kind: str, at: int, limit: int, keys: Sequence[str], first: int) -> Iterator[Any]:
    """Values of a parameter for the page that begins there, the best first."""
    number = at // max(limit, 1) + first if kind in _NUMBERS else at
    if kind not in _RECORDS:
        yield from (number, str(number))
    if kind not in _NUMBERS and at and keys:
        key = keys[min(at, len(keys)) - 1]
        yield from (key, *([_whole(key)] if key.isdecimal() else []))


def _whole(digits: str) -> int:
    return int(digits[:_MOST_DIGITS])


def _plain(name: str) -> str:
    """``nextPageToken`` as ``next_page_token``, ``page[size]`` as ``page_size``."""
    return snake_case(name).strip("_")


def _relation(plain: str) -> str:
    """The page that a member with this name leads to."""
    if re.match("prev(ious)?(_|$)", plain):
        return "prev"
    return "next" if plain.startswith("next") else ""


def _is_address(shown: Any) -> bool:
    return isinstance(shown, str) and ("://" in shown or shown.startswith("/"))
