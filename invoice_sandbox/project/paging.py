"""The page of a list that a query asks for, and what its response reports of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.declared import is_valid, members

_SIZES: Final = ("limit", "per_page", "page_size")
_STARTS: Final = ("offset", "skip", "cursor")
_PAGES: Final = ("page", "page_number")
PARAMETERS: Final = frozenset((*_SIZES, *_STARTS, *_PAGES))
"""Names of query parameters that ask for a page, as words."""
_MOST_DIGITS: Final = 15
_USUAL_SIZE: Final = 20
_MAX_SIZE: Final = 1000


@dataclass(frozen=True)
class ListPage:
    """Records ``start`` to ``start + size`` of ``total``; ``next_query`` asks for the next page."""

    start: int
    size: int
    total: int
    next_query: tuple[str, int] | None = None

    def described(self, body: Any, checker: Checker | None, place: str) -> Any:
        """Return the body with what it reports of the page beside the list, where the schema
        allows that."""
        for name in [one for one in members(body) if place and one != place]:
            changed = ({**body, name: value} for value in self._values(snake_case(name)))
            body = next((one for one in changed if is_valid(checker, one)), body)
        return body

    def _values(self, name: str) -> Iterator[Any]:
        """The values of a member with this name."""
        if name in {"total", "total_count", "total_items", "count"}:
            yield self.total
        elif name in {"has_more", "has_next", "more"}:
            yield self.next_query is not None
        elif name.startswith("next"):
            position = None if self.next_query is None else self.next_query[1]
            yield from (None, "") if position is None else (str(position), position)


def list_page(query: Mapping[str, Any], declared: Mapping[str, Any], total: int) -> ListPage:
    """Return the page of ``total`` records that a query asks for. ``declared`` has the default of
    each query parameter, by its name."""
    names = {snake_case(name): name for name in declared}
    given = {**{name: one for name, one in declared.items() if one is not None}, **query}
    start, number = (_number(given, names, wanted) for wanted in (_STARTS, _PAGES))
    size = _number(given, names, _SIZES)
    if size is None:
        size = total if start is None and number is None else _USUAL_SIZE
    size = min(max(size, 1), _MAX_SIZE)
    start = (start or 0) if number is None else max(number - 1, 0) * size
    way = next((name for name in (*_STARTS, *_PAGES) if name in names), None)
    end = start + size
    if way is None or end >= total:
        return ListPage(start, size, total)
    return ListPage(start, size, total, (names[way], end if way in _STARTS else end // size + 1))


def _number(
    given: Mapping[str, Any], names: Mapping[str, str], wanted: Iterable[str]
) -> int | None:
    """Return the first of the wanted parameters that has a number."""
    texts = (str(given[names[name]]) for name in wanted if names.get(name) in given)
    whole = (text for text in texts if text.isascii() and text.isdigit())
    return next((int(text[:_MOST_DIGITS]) for text in whole), None)
