"""What the response of a list reports of its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.fitting import ABSENT, at_steps, first_valid, members

LIMITS: Final = (
    *("limit", "page_size", "per_page", "page_limit", "max_results", "items_per_page", "pagelen"),
    *("results_per_page", "perpage", "pagesize", "maxresults", "batch_size", "max_page_size"),
    "max_result_count",
)
COUNTS: Final = frozenset(
    {
        *("total", "count", "total_count", "total_items", "total_results", "total_elements"),
        *("total_records", "total_size", "items_total", "records_total", "total_entries"),
        *("item_count", "items_count", "record_count", "records_count", "entries_count"),
    }
)
_TOTALS: Final = frozenset(one for one in COUNTS if "total" in one)
_OF_PAGE: Final = frozenset({"count", "item_count", "items_count", "record_count"})
"""Members with the number of records of the page, if one of all records is beside them."""
_PAGES: Final = frozenset({"pages", "total_pages", "page_count", "pages_total", "last_page"})
NUMBERS: Final = ("page", "page_number", "page_num", "page_no", "pagenumber", "current_page", "p")
_PAGE: Final = frozenset({*NUMBERS, "page_index", "skip_pages", "number"})
_OFFSETS: Final = frozenset({"offset", "skip", "skip_count", "start_at", "start_index"})
_LEFT: Final = frozenset({"remaining", "remaining_item_count"})
MORE: Final = frozenset({"has_more", "has_next", "has_next_page", "is_truncated", "more"})
_LESS: Final = frozenset({"has_previous", "has_prev", "has_previous_page", "has_prev_page"})
_LAST: Final = frozenset({"last", "is_last", "is_last_page"})
_FIRST: Final = frozenset({"first", "is_first", "is_first_page"})
_EMPTY: Final = frozenset({"empty", "is_empty"})
_SHOWN: Final = frozenset({"number_of_elements", "current_item_count", "returned"})
_RANGE: Final = ("from", "to")
"""Members with the numbers of the first and the last record of a page, if both are there."""
_CURSORS: Final = frozenset(
    {"cursor", "end_cursor", "after", "after_cursor", "continuation_token", "continue"}
)
_TOKENS: Final = frozenset(
    {"page_token", "page_cursor", "pagination_token", "batch_token", "skip_token"}
    | {"marker", "bookmark"}
)
"""The same, unless there is a member with the next one: then these are what was asked for."""
OBJECTS: Final = frozenset(
    {
        *("page", "pages", "pageable", "paging", "pagination", "info"),
        *("meta", "metadata", "cursor", "cursors"),
    }
)
_LINKS: Final = frozenset({"link", "links"})
"""Words in the names of objects about a page, and of objects with URLs."""
_WHOLE: Final = re.compile("0|[1-9][0-9]{0,17}")
_OF_HEADERS: Final = re.compile("^(x_)?((wp|page|pagination|paging)_(?=total|next|prev))?")
"""What names of headers begin with."""
_URLS: Final = frozenset({"uri", "url", "iri", "uri-reference", "iri-reference"})
"""Formats of URLs."""
_NEIGHBOURS: Final = {"next_page": 1, "prev_page": -1, "previous_page": -1}
"""Headers with the number of another page, and how far that is away."""
_RELATIONS: Final = ("prev", "next", "last", "first")
"""Other pages, as a ``Link`` header calls them (RFC 8288)."""


@dataclass(frozen=True)
class Page:
    """Records ``start`` to ``start + limit`` of ``total``. Pages count from ``first``, records from
    ``origin``.

    ``asked`` has the value of each parameter of the page and its size, by its name as words.
    ``positions`` has the parameters that ask for other pages, those to use first in front, with
    their values, the best first, and ``urls`` the addresses of these pages. Both are by
    relation: ``next`` and ``prev``, if there are such pages, ``self``, ``first``, ``last``, and
    ``end`` for the empty page behind the last one.
    """

    total: int
    start: int
    limit: int
    first: int = 1
    origin: int = 0
    asked: Mapping[str, int] = field(default_factory=dict)
    positions: Mapping[str, Mapping[str, Callable[[], Iterator[Any]]]] = field(default_factory=dict)
    urls: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_only(self) -> bool:
        """Whether no other page has a record."""
        return self.urls.keys().isdisjoint({"next", "prev"})

    @property
    def shown(self) -> int:
        """How many records it has."""
        return max(min(self.limit, self.total - self.start), 0)

    def headers(self, declared: Iterable[str]) -> dict[str, Any]:
        """Those of the declared headers that are about the page, with their values by name in
        lower case; empty if there is none."""
        found = dict[str, Any]()
        for name in declared:
            own = _OF_HEADERS.sub("", plain(name))
            facts = [fact for names, fact in self._facts(of_this=True) if own in names]
            if facts:
                found[name.lower()] = facts[0]
            elif own in _NEIGHBOURS and self.urls.get(_relation(own)) and self._is_counted:
                found[name.lower()] = (
                    self.start // max(self.limit, 1) + self.first + _NEIGHBOURS[own]
                )
            elif _relation(own) in {"next", "prev"}:
                ways = self._ways(own, _relation(own), ("",), is_address=_is_address("", own))
                found[name.lower()] = next(ways, "")
        return {**found, "link": self.link}

    @property
    def _is_counted(self) -> bool:
        """Whether a parameter asks for a page by its number, or that of its first record."""
        asked = {plain(one) for ways in self.positions.values() for one in ways}
        return not asked.isdisjoint(_PAGE | _OFFSETS)

    @property
    def link(self) -> str:
        """The ``Link`` header with the other pages."""
        found = ((one, self.urls[one]) for one in _RELATIONS if one in self.urls)
        return ", ".join(f'<{url}>; rel="{one}"' for one, url in found)

    def described(
        self, body: Any, declared: Any, steps: Sequence[str], checker: Checker | None
    ) -> Any:
        """``body`` with what it reports of the page, where the schema allows that: in the objects
        that lead to the list at ``steps``, and in objects beside it. ``declared`` is the outline of
        the schema."""
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
        shown, outlined = (members(at_steps(one, at)) for one in (body, declared))
        names = {**outlined, **shown}
        has_range = {*map(_own_name, names)}.issuperset(_RANGE)
        above = _relation(plain(at[-1])) if at else ""
        has_next = "next" in map(_relation, map(_own_name, names))
        cursors = _CURSORS if has_next else _CURSORS | _TOKENS
        has_urls = any(_LINKS.intersection(plain(one).split("_")) for one in at)
        for name in sorted(names, key=_may_be_absent):  # after members that may be required
            place, own = (*at, name), _own_name(name)
            if name == besides:
                continue
            own = "total" if besides and own in _totals_of(plain(besides)) else own
            is_object, itself = isinstance(names[name], Mapping), _relation(own)
            other = above or itself or ("next" if own in cursors else "")
            values: Iterable[Any] = ()
            if is_object and other in {"next", "prev"} and other not in self.positions:
                values = () if own in OBJECTS else (None, ABSENT)
            elif not is_object:
                is_address = any(_is_address(one.get(name), own) for one in (shown, outlined))
                is_address = is_address or (has_urls and itself != "")
                facts = self._facts(of_this=not above, has_range=has_range)
                if own in _OF_PAGE and not _TOTALS.isdisjoint(map(_own_name, names)):
                    facts = iter([(_OF_PAGE, self.shown)])
                found = [fact for names, fact in facts if own in names and not is_address]
                nothing = (ABSENT, None, "") if has_urls else (None, ABSENT, "")
                values = self._ways(own, other, nothing, is_address=is_address)
                values = (*chain(*map(_spellings, found)), ABSENT) if found else values
            before = body
            body = first_valid(checker, body, place, values)
            is_paging = other or (OBJECTS | _LINKS).intersection(own.split("_"))
            if body is before and is_object and is_paging and len(at) < 3:
                body = self._filled(body, declared, place, checker)
        return body

    def _facts(
        self, *, of_this: bool, has_range: bool = False
    ) -> Iterator[tuple[Collection[str], Any]]:
        """Names of members, and their value: of any page, and of this one."""
        yield (*LIMITS, "size"), self.limit
        if of_this:
            is_more = 0 < self.limit < self.total - self.start
            size = max(self.limit, 1)
            yield from (
                (COUNTS, self.total),
                (_PAGES, -(-self.total // size)),
                (_PAGE, self.start // size + self.first),
                (_OFFSETS, self.start + self.origin),
                (_LEFT, max(self.total - self.start - self.limit, 0)),
                (MORE, is_more),
                (_LESS, self.start > 0),
                (_LAST, not is_more),
                (_FIRST, self.start == 0),
                (_EMPTY, not self.shown),
                (_SHOWN, self.shown),
                ({"start_cursor"}, str(self.start + 1) if self.shown else None),
            )
            if has_range:
                ends = (self.start + 1, self.start + self.shown) if self.shown else (None, None)
                yield from (({name}, end) for name, end in zip(_RANGE, ends, strict=True))
            yield from (({name}, value) for name, value in self.asked.items())

    def _ways(
        self, own: str, other: str, nothing: Iterable[Any], *, is_address: bool
    ) -> Iterator[Any]:
        """Values of a member that leads to the page with the relation ``other``, the best first;
        ``nothing`` are those if there is no such page."""
        is_way, absent = other in {"next", "prev"}, [*nothing]
        if is_way and not (self.urls if is_address else self.positions).get(other):
            yield from absent
            other = "end" if other == "next" else "first"
        if is_address and other in self.urls:
            yield self.urls[other]
        if is_way:
            yield from self._cursors(own, other)
            yield from absent

    def _cursors(self, own: str, other: str) -> Iterator[Any]:
        """The values of a position for a member, which may be called like its parameter."""
        found = self.positions.get(other, {})
        wanted = re.sub("^(next|previous|prev)_", "", own)
        named = (one for one in found if plain(one).endswith(wanted))
        for name in (*named, *found)[:1]:
            yield from chain.from_iterable(map(_spellings, found[name]()))


def _totals_of(name: str) -> Collection[str]:
    """How many records there are is called like this beside a list: ``articles_count``."""
    return {
        found
        for one in (name, name.removesuffix("s"))
        for found in (f"{one}_count", f"{one}_total", f"total_{one}")
    }


def _spellings(fact: Any) -> Iterator[Any]:
    """A value, and the same number as text, or as a number."""
    yield fact
    if isinstance(fact, str) and _WHOLE.fullmatch(fact):
        yield int(fact)
    if isinstance(fact, int) and not isinstance(fact, bool):
        yield str(fact)


def _may_be_absent(name: str) -> bool:
    """Whether a member leads to a page that there need not be."""
    return _relation(_own_name(name)) in {"next", "prev"}


def _own_name(name: str) -> str:
    """The name of a member as words, without a namespace: ``@odata.nextLink`` is ``next_link``."""
    return plain(re.split("[.:]", name)[-1])


def plain(name: str) -> str:
    """``nextPageToken`` as ``next_page_token``, ``page[size]`` as ``page_size``."""
    return snake_case(name).strip("_")


def _relation(own: str) -> str:
    """The page that a member with this name leads to."""
    if re.match("prev(ious)?(_|$)", own):
        return "prev"
    found = re.fullmatch("(first|last|self)(_page)?(_(url|uri|link|href))?", own)
    return "next" if own.startswith("next") else found[1] if found else ""


def _is_address(shown: Any, own: str) -> bool:
    """Whether a member is a URL, by its example, its format or its name."""
    is_url = isinstance(shown, str) and ("://" in shown or shown.startswith("/") or shown in _URLS)
    return is_url or own.endswith(("url", "uri", "link", "href"))
