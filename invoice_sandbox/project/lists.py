"""The records of a collection as a response with a list of them shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from invoice_sandbox.project.declared import Foreign, keywords_at, schemas_at
from invoice_sandbox.project.fitting import (
    at_steps,
    fitted,
    is_valid,
    members,
    placed,
    without_foreign,
)
from invoice_sandbox.project.naming import LISTS, lists_in, singular, words
from invoice_sandbox.project.page import COUNTS, MORE, Page, plain
from invoice_sandbox.project.view import View


@dataclass(frozen=True)
class ListView(View):
    """The same for the lists that a response is or has, of which one may have records."""

    @property
    def of_item(self) -> ListView:
        """The same if the response is, or has, a list that may have the record as its one item: one
        that is no page, with a count of all records beside it."""
        body = self.example.body
        around = (self.list_place or ())[:-1]
        every = (members(at_steps(one, around)) for one in (body, self.declared))
        beside = {plain(name) for one in every for name in one}
        is_page = not beside.isdisjoint(COUNTS | MORE)
        has_list = self.own_place is None and self.is_list_with_id and not is_page
        steps = () if isinstance(body, list) else self.list_place if has_list else None
        if steps is None:
            return self
        first, item = at_steps(body, (*steps, "0")), self._item_schema(steps)
        whole = placed(body, steps, [first])
        if not members(first) or not item or not is_valid(self.checker, whole):
            return self
        example = replace(self.example, body=first)
        return replace(self, example=example, in_list=(*steps,), around=whole)

    def listed(self, kept: Sequence[Any], page: Page) -> Any:
        """The body with these records in its list; None if it cannot have them."""
        example = self.example.body
        steps = self.list_place
        if steps is None or example is None:
            return None
        whole = page.described(example, self.declared, steps, self.checker)
        records = [
            self._in_item(at_steps(one, self.within), page.start + number)
            for number, one in enumerate(kept, 1)
        ]
        body = placed(whole, steps, records)
        if is_valid(self.checker, body):
            return body
        shown = [self._item(whole, steps, one) for one in records]
        body = placed(whole, steps, shown)
        return body if is_valid(self.checker, body) and None not in shown else None

    @property
    def item_schemas(self) -> list[Any]:
        """The schemas of the record in the items of its list."""
        item = self._item_schema(self.list_place or ())
        return schemas_at(self.contract.document, item, self.item_place)

    def with_own_items(self, body: Any, record: Foreign) -> Any:
        """The body without members of the records in its list that are foreign."""
        items = at_steps(body, self.list_place or ())
        if not record or not isinstance(items, list):
            return body
        owns = (at_steps(one, self.item_place) for one in items)
        left = [
            placed(one, self.item_place, without_foreign(own, record))
            for one, own in zip(items, owns, strict=True)
        ]
        shown = placed(body, self.list_place or (), left)
        return shown if is_valid(self.checker, shown) else body

    def _in_item(self, record: Any, number: int) -> Any:
        """A record where items of the list have it, with its id by the name that they have for it.
        The cursor beside it leads to what follows."""
        if self._other_id:
            record = {**members(record), self._other_id: at_steps(record, self.identity)}
        item = placed({}, self.item_place, record)
        has_cursor = self.item_place and "cursor" in members(self._items(self.declared))
        return {**item, "cursor": str(number)} if has_cursor else item

    @cached_property
    def _other_id(self) -> str:
        """The member that items have the id in, if they have none with its usual name."""
        items = (self._items(one) for one in (self.example.body, self.declared))
        levels = [at_steps(one, self.item_place) for one in items]
        if any(self.identity[0] in members(one) for one in levels):
            return ""
        return next((name for one in levels for name in self._like_id(one)), "")

    @cached_property
    def item_place(self) -> tuple[str, ...]:
        """Where items of the list have the record, such as ``("node",)``."""
        place = self._place_in(*map(self._items, (self.example.body, self.declared)))
        return () if place is None else place

    def _items(self, body: Any) -> Any:
        """The first item of the list in a body, or None."""
        found = at_steps(body, self.list_place or ())
        return found[0] if isinstance(found, list) and found else None

    def _item(self, whole: Any, steps: Sequence[str], record: Any) -> Any:
        """An item of the list as its schema allows it, which may be the id alone, or ``{}`` if it
        can have nothing of the record; None if there can be none."""
        examples, identity = at_steps(self.example.body, steps), (*self.item_place, *self.identity)
        key = at_steps(record, identity)
        own = members(at_steps(record, self.item_place))
        filled = {**members(examples[0] if examples else {}), **record}
        for one in (record, filled):
            body = fitted(self.checker, placed(whole, steps, [one]), self.example.body)
            items = at_steps(body, steps)
            item = items[0] if isinstance(items, list) and items else None
            shown = members(at_steps(item, self.item_place))
            if str(at_steps(shown, self.identity)) == str(key):
                return item
            is_part = any(name in own and own[name] == value for name, value in shown.items())
            if at_steps(shown, self.identity) is None and is_part:
                return item
        others: tuple[Any, ...] = (key, {})
        able = (one for one in others if is_valid(self.checker, placed(whole, steps, [one])))
        return next(able, None)

    def lists(self, record: Mapping[str, Any]) -> bool:
        """Whether an item of its list can have something of a record."""
        return self._items(self.listed([record], Page(1, 0, 1))) not in (None, {})

    @cached_property
    def list_place(self) -> tuple[str, ...] | None:
        """Where the response has its list, if it has one: the one that is most like the records of
        the collection."""
        found = self._all_lists
        return max(found, key=lambda place: self._likeness(place, found[place]), default=None)

    @property
    def is_list(self) -> bool:
        """Whether the list is the response itself, or called like the records or as lists are."""
        place = self.list_place
        return place is not None and bool(self._likeness(place, self._all_lists[place])[1])

    @property
    def is_list_with_id(self) -> bool:
        """Whether its items have the member with the id as well."""
        place = self.list_place
        return place is not None and self.is_list and self.identity[0] in self._all_lists[place]

    @cached_property
    def _all_lists(self) -> dict[tuple[str, ...], dict[str, Any]]:
        """The members of the items of each list, by the members that lead to it."""
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for place, items in chain.from_iterable(map(lists_in, (self.example.body, self.declared))):
            found.setdefault(place, {}).update(members(items[0] if items else None))
        return found

    def _likeness(self, place: Sequence[str], declared: Mapping[str, Any]) -> tuple[int, ...]:
        """How much a list there, whose items have these members, is like that of the records: its
        items may have an id, its name, they have an id, it is not deep."""
        named = {*map(singular, words(place[-1]))} if place else {*self.names}
        inside = members(declared.get("node"))
        has_id = self.identity[0] in {**inside, **declared}
        by_name = 2 * bool(named & {*self.names}) or bool(named & LISTS)
        return has_id or not declared, by_name, has_id, -len(place)

    @property
    def header_names(self) -> Sequence[str]:
        """The headers that the response declares."""
        response = self.operation.response_for(self.example.status)
        return [*response.headers] if response else []

    @property
    def most_items(self) -> int | None:
        """How many records its list can have; None: any number."""
        steps = self.list_place or ()
        return min(
            keywords_at(self.contract.document, self.schema, steps, "maxItems"), default=None
        )
