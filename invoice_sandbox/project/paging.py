"""The page of a list that a query asks for, and what a response says of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.fitting import at_steps, is_valid, members, placed

_LIMITS: Final = ("limit", "per_page", "page_size", "size", "max_results")
_RECORDS: Final = ("starting_after", "start_after")
"""Parameters with the id of the last record of the page before."""
_TOKENS: Final = ("cursor", "page_cursor", "page_token", "next_page_token", "next_token")
_MORE_TOKENS: Final = ("pagination_token", "continuation_token", "after", "page_after", "marker")
_NUMBERS: Final = ("page", "page_number")
_OFFSETS: Final = ("offset", "skip", "page_offset")
_POSITIONS: Final = (*_TOKENS, *_MORE_TOKENS, *_RECORDS, *_OFFSETS, *_NUMBERS)
"""Parameters that say where a page begins; the first one of a query applies."""
_COUNTS: Final = frozenset({"total", "count", "total_count", "total_items", "total_results"})
_PAGES: Final = frozenset({"total_pages", "page_count", "last_page"})
_PAGE: Final = frozenset({"page", "current_page", "page_number"})
_MORE: Final = frozenset({"has_more", "has_next", "has_next_page", "is_truncated", "more"})
_LAST: Final = frozenset({"is_last", "is_last_page"})
_CURSORS: Final = frozenset({"cursor", "end_cursor", "after", "continuation_token"})
_OBJECTS: Final = frozenset(
    {"page", "paging", "pagination", "meta", "metadata", "cursor", "cursors", "links", "info"}
)
"""Words in the names of objects about a page."""
_MOST_DIGITS: Final = 18
_ABSENT: Final = object()


@dataclass(frozen=True)
class Page:
    """Records ``start`` to ``start + limit`` of ``total``. ``following`` has the value for the next
    page of each parameter that can ask for it, the one to use first; empty: there is no such page.
    ``url`` is that of the next page, or empty."""

    total: int
    start: int
    limit: int
    following: Mapping[str, Any]
    url: str

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
        is_next = bool(at) and _plain(at[-1]).startswith("next")
        for name in names:
            place, plain = (*at, name), _plain(name)
            if name == besides:
                continue
            is_object = isinstance(names[name], Mapping)
            is_cursor = is_next or plain.startswith("next") or plain in _CURSORS
            values: Iterable[Any] = ()
            if is_object and is_cursor and not self.following and plain not in _OBJECTS:
                values = (None, _ABSENT)
            elif not is_object:
                values = self._values(plain, shown.get(name), is_cursor=is_cursor)
            before = body
            body = _first_valid(body, place, values, checker)
            is_paging = is_cursor or _OBJECTS.intersection(plain.split("_"))
            if body is before and is_object and is_paging and len(at) < 3:
                body = self._filled(body, declared, place, checker)
        return body

    def _values(self, plain: str, shown: Any, *, is_cursor: bool) -> Iterator[Any]:
        """Values of a member, the best first; none for a member that is not about the page."""
        is_more = 0 < self.limit < self.total - self.start
        size = max(self.limit, 1)
        if plain in _COUNTS:
            yield self.total
        elif plain in _PAGES:
            yield -(-self.total // size)
        elif plain in _PAGE:
            yield self.start // size + 1
        elif plain in _MORE:
            yield is_more
        elif plain in _LAST:
            yield not is_more
        elif is_cursor and not self.following:
            yield from (None, _ABSENT, "")
        elif is_cursor and (_is_address(shown) or plain.endswith(("url", "uri", "link", "href"))):
            yield self.url
        elif is_cursor:
            wanted = plain.removeprefix("next_")
            named = (one for one in self.following if _plain(one).endswith(wanted))
            value = self.following[next(named, next(iter(self.following)))]
            yield from (value, str(value))


def page_of(
    operation: Operation, query: Mapping[str, Any], keys: Sequence[str], address: str
) -> Page:
    """The page that a query asks for. ``keys`` are the ids of all records in their order,
    ``address`` is the URL of the list. A position that no page has is the end of the list."""
    declared = {one.name: one.checker for one in operation.parameters if one.location == "query"}
    given = dict(_given(query))
    limits = (given[one] for one in _LIMITS if given.get(one, "").isdecimal())
    limit = _whole(next(limits, str(len(keys))))
    dates = {_plain(name) for name, checker in declared.items() if _is_date(checker)}
    used = next((one for one in _POSITIONS if given.get(one) and one not in dates), None)
    start = 0 if used is None else _start(used, given[used], limit, keys)
    if not 0 < limit < len(keys) - start:
        return Page(len(keys), start, limit, {}, "")
    following = {}
    for kind in (used, *_POSITIONS):
        for name, checker in declared.items():
            if _plain(name) == kind:
                values = _next(kind, start, limit, keys)
                found = [one for one in values if is_valid(checker, one)]
                following.update({name: found[0]} if found else {})
    if not following:
        return Page(len(keys), start, limit, {}, "")
    name = next(iter(following))
    text = urlencode({**query, name: following[name]}, doseq=True)
    return Page(len(keys), start, limit, following, f"{address}?{text}")


def _given(query: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The parameters as text; the member ``size`` of an object ``page`` is ``page_size``."""
    for name, value in query.items():
        if isinstance(value, Mapping) and not above:
            yield from _given(value, f"{_plain(name)}_")
        elif value is not None:
            yield f"{above}{_plain(name)}", str(value)


def _is_date(checker: Checker | None) -> bool:
    """Whether a parameter such as ``after`` takes a date, so that it is a filter."""
    dates = ("2026-01-01T00:00:00Z", "2026-01-01")
    return checker is not None and any(
        checker.is_valid(one) and not checker.is_valid("1") for one in dates
    )


def _start(kind: str, text: str, limit: int, keys: Sequence[str]) -> int:
    """How many records come before the page."""
    if kind not in _RECORDS and text.isdecimal():
        number = _whole(text)
        return max(number - 1, 0) * limit if kind in _NUMBERS else number
    return keys.index(text) + 1 if text in keys else len(keys)


def _next(kind: str, start: int, limit: int, keys: Sequence[str]) -> Iterator[Any]:
    """Values of a parameter for the next page, the best first."""
    number = start // limit + 2 if kind in _NUMBERS else start + limit
    if kind not in _RECORDS:
        yield from (number, str(number))
    if kind not in _NUMBERS:
        yield keys[start + limit - 1]


def _whole(digits: str) -> int:
    return int(digits[:_MOST_DIGITS])


def _plain(name: str) -> str:
    """``nextPageToken`` as ``next_page_token``, ``page[size]`` as ``page_size``."""
    return snake_case(name).strip("_")


def _is_address(shown: Any) -> bool:
    return isinstance(shown, str) and ("://" in shown or shown.startswith("/"))


def _first_valid(
    body: Any, place: Sequence[str], values: Iterable[Any], checker: Checker | None
) -> Any:
    """The body with the first of these values that its schema allows; else as it was."""
    for value in values:
        changed = _without(body, place) if value is _ABSENT else placed(body, place, value)
        if is_valid(checker, changed):
            return changed
    return body


def _without(body: Any, place: Sequence[str]) -> Any:
    *above, last = place
    kept = {name: one for name, one in members(at_steps(body, above)).items() if name != last}
    return placed(body, above, kept)
