"""The records of a collection as the response of one operation shows them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from typing import Any, Final

from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import ContractResponse
from invoice_sandbox.openapi.schema.annotations import OF_THE_SERVER
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.openapi.schema.sample import CannotGenerate, generate
from invoice_sandbox.project.declared import (
    Foreign,
    items_of,
    keywords_at,
    marked_at,
    outline,
    required_at,
    schemas_at,
)
from invoice_sandbox.project.fitting import (
    agreement,
    at_steps,
    containers_like,
    different,
    fitted,
    is_valid,
    members,
    placed,
    with_own_ids,
    without,
    without_foreign,
)
from invoice_sandbox.project.naming import (
    IDS,
    as_ids,
    is_envelope,
    is_new_id,
    is_text,
    nouns,
    place_of,
    words,
)

_MOST_CHECKERS: Final = 64
_OF_CREATION: Final = frozenset({"created", "creation"})
_OF_CHANGES: Final = frozenset({"updated", "modified"})
"""Words in the names of members with an instant that the server sets."""


@dataclass(frozen=True)
class View:
    """``within`` are the members of a kept body that lead to the record, ``identity`` the members
    of a record that lead to its id, ``names`` are words that a member with the record may be called
    by, ``posted`` the members that a client may post. ``example`` is the response of the operation
    without any record. If that has a list of the one record, ``example`` is its item, ``in_list``
    are the members that lead to the list, and ``around`` is the whole response.
    """

    contract: Contract
    operation: Operation
    within: tuple[str, ...]
    identity: tuple[str, ...]
    names: Sequence[str]
    example: ContractResponse
    seed: int | str
    posted: frozenset[str] = frozenset()
    in_list: tuple[str, ...] | None = None
    around: Any = None

    @cached_property
    def checker(self) -> Checker | None:
        """That of the schema of the response, or of the item of its list, if it has one."""
        status, media_type = self.example.status, self.example.media_type
        if self.in_list is not None:
            return _checker_of_item(self.contract, self.operation, status, media_type, self.in_list)
        response = self.operation.response_for(status)
        declared = response.declared_for(media_type) if response else None
        return response.content[declared] if response and declared else None

    def _item_schema(self, steps: Sequence[str]) -> Any:
        """The schema of the items of the list that these members of the response lead to."""
        whole = response_schema(self.operation, self.example)
        return _schema_of_item(self.contract, whole, steps)

    def whole(self, body: Any) -> Any:
        """The response with this body, or with a list of it."""
        is_item = self.in_list is not None and body is not None
        return placed(self.around, self.in_list or (), [body]) if is_item else body

    @cached_property
    def own_place(self) -> tuple[str, ...] | None:
        """Where the response has the record, if it has its id: where that is the least deep, as an
        example may lack the id and have that of something else inside. What is posted may be in an
        envelope beside the id."""
        found, bodies = self._id_holder, (self.declared, self.example.body)
        if found is None or any(
            self.posted & members(at_steps(one, found)).keys() for one in bodies
        ):
            return found
        inside = {
            name
            for body in bodies
            for name, one in members(at_steps(body, found)).items()
            if is_envelope(name, self.names) and self.posted & members(one).keys()
        }
        return (*found, *inside) if len(inside) == 1 else found

    @cached_property
    def _id_holder(self) -> tuple[str, ...] | None:
        """Where the response has the id of the record, if it does."""
        return self._place_in(self.example.body, self.declared)

    def _place_in(self, *values: Any) -> tuple[str, ...] | None:
        found = (place_of(one, self.identity, self.names) for one in values)
        return min((one for one in found if one is not None), key=len, default=None)

    @property
    def place(self) -> tuple[str, ...]:
        """Where the response has the record, or would have it."""
        is_there = isinstance(at_steps(self.example.body, self.within), Mapping)
        own = self.own_place
        return own if own is not None else self.within if is_there else ()

    def may_have(self, key: Any) -> bool:
        """Whether the response can have this id."""
        if (
            isinstance(key, bool)
            or not isinstance(key, str | int | float | Decimal)
            or not str(key)
        ):
            return False
        steps, body = self.id_place, self._alone
        if steps is None or body is None:
            return True
        if self.is_note:
            return self.noted(key) is not None
        inside = (*self.place, *self.identity)
        is_twice = steps != inside and inside[-1] in members(at_steps(self.declared, inside[:-1]))
        whole = placed(body, steps, key)
        every = [placed(whole, inside, one) for one in as_ids(key)] if is_twice else [whole]
        return any(is_valid(self.checker, one) for one in every)

    @cached_property
    def id_place(self) -> tuple[str, ...] | None:
        """Where the response has the id of the record. Without the record it may be the id itself,
        or have it in a member such as ``thingId`` or ``data``."""
        if self._id_holder is not None:
            return *self._id_holder, *self.identity
        if is_text(self.example.body) and not self._may_be_record:
            return ()
        names = self._like_id(self.example.body, IDS)
        return next(((one,) for one in names), None)

    def _like_id(self, value: Any, others: Container[str] = ("id",)) -> Iterator[str]:
        """The members of an object that may have the id of the record by another name."""
        own = [*self.names, *words(self.identity[-1])]
        texts = (name for name, one in members(value).items() if is_text(one))
        return (one for one in texts if words(one) == own or one in others or is_new_id(one))

    @cached_property
    def _may_be_record(self) -> bool:
        """Whether the response is anything, so that it may be a record."""
        is_open = self.example.body is not None and not members(self.declared)
        return is_open and is_valid(self.checker, {self.identity[0]: None})

    @cached_property
    def is_part(self) -> bool:
        """Whether the response has members of the record, but not its id."""
        shown = members(at_steps(self.declared, self.place)).keys()
        return self.own_place is None and not self._may_be_record and bool(self.posted & shown)

    @property
    def is_note(self) -> bool:
        """Whether the response is something else than a record, such as a message or its id."""
        has_record = self.own_place is not None or self.is_part or self._may_be_record
        return self.example.body is not None and not has_record

    def noted(self, key: Any) -> Any:
        """The response that has no record, with the id if it has a place for that; None if that
        cannot be this id, not even as text."""
        body, steps = self.example.body, self.id_place
        if steps is None:
            return body
        able = (placed(body, steps, one) for one in (key, str(key)))
        return next((one for one in able if is_valid(self.checker, one)), None)

    def created(
        self, sent: Mapping[str, Any], key: Any, number: int, unique: str
    ) -> tuple[dict[str, Any], Any] | None:
        """What is kept of a body with that id, and the body of the response; a member ``id`` is new
        as well."""
        within, identity = self.within, self.identity
        record = placed(sent, (*within, *identity), key)
        shown = at_steps(self.example.body, (*self.place, "id"))
        if "id" not in members(at_steps(record, within)) and shown is not None:
            fresh = number if isinstance(shown, int) else unique
            record = placed(record, (*within, "id"), fresh)
        if self.example.body is None:
            return record, None
        if self.is_note:
            return record, self.noted(key)
        body = self.shown(record)
        return None if body is None else (self.kept(record, body), body)

    def shown(self, record: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> Any:
        """The body with the record: with the members of the example that are required or
        readOnly, without those that it cannot have. None if it cannot have the id. ``before`` is
        what the record was: its members come before those of the example, and one that it did not
        have is not taken from the example unless the record needs it."""
        example, place = self._alone, self.place
        if self._may_be_record and not isinstance(example, Mapping):
            return record
        if not isinstance(example, Mapping):
            return None
        own, key = self._placed(record), at_steps(record, (*self.within, *self.identity))
        example = self._alternative(example, own)
        body = self._over_example(example, own, key, record, before)
        record_sent, declared = (members(at_steps(one, place)) for one in (own, self.declared))
        sent = {name: one for name, one in record_sent.items() if name in declared}
        if body is None or agreement(sent, at_steps(body, place)) >= agreement(sent):
            return self._with_own_ids(body, sent)
        again = self._over_example(example, own, key, record, before, self._parts(own))
        bodies = [one for one in (body, again) if one is not None]
        best = max(bodies, key=lambda one: agreement(sent, at_steps(one, place)))
        return self._with_own_ids(best, sent)

    def _with_own_ids(self, body: Any, sent: Mapping[str, Any]) -> Any:
        """The body in which the items of a list in the record have different ids, where none was
        sent."""
        record = members(at_steps(body, self.place))
        for name, items in sent.items():
            shown = record.get(name)
            if isinstance(items, list) and isinstance(shown, list) and len(items) == len(shown):
                changed = placed(body, (*self.place, name), with_own_ids(shown, items))
                body = changed if is_valid(self.checker, changed) else body
        return body

    def _over_example(
        self,
        example: Any,
        own: Mapping[str, Any],
        key: Any,
        record: Mapping[str, Any],
        before: Mapping[str, Any] | None,
        parts: Mapping[str, Any] | None = None,
    ) -> Any:
        """``parts`` are members with objects and lists that the record gets what it lacks from,
        where neither the example nor what it was has any."""
        place = self.place
        was = None if before is None else self._placed(before)
        known = example if was is None else _over(example, was, place)
        record_known, wanted = members(at_steps(known, place)), self.needed(record)
        needed = {name: one for name, one in record_known.items() if name in wanted}
        around = placed(known, place, needed)
        filled, last = _over(around, own, place), _over(example, own, place)
        if was is not None:
            last = _over(around, was, place)
            new = members(at_steps(own, place)).keys() - members(at_steps(was, place)).keys()
            absent = new - wanted
            left = {name: one for name, one in record_known.items() if name not in absent}
            known = placed(known, place, left)
        if parts:
            left = {name: one for name, one in members(at_steps(known, place)).items() if one}
            known = placed(known, place, {**members(at_steps(known, place)), **parts, **left})
        steps = self.id_place
        for one in (filled, last, known if steps is None else placed(known, steps, key)):
            body = fitted(self.checker, one, known)
            has_key = body is not None and str(at_steps(body, steps or ())) == str(key)
            if has_key or (body is not None and self.own_place is None):
                return body
        return None

    def _alternative(self, example: Any, own: Mapping[str, Any]) -> Any:
        """The example, or one that is generated for what the record has of the constants by which
        alternatives differ, such as ``type``."""
        record, shown = (members(at_steps(one, self.place)) for one in (own, example))
        given = {
            name: one for name, one in record.items() if is_text(one) and shown.get(name) != one
        }
        fixed = {name: one for name, one in given.items() if one in self._constants(name)}
        schemas = schemas_at(self.contract.document, self.schema, self.place) if fixed else []
        if not schemas:
            return example
        constants = {name: {"const": one} for name, one in fixed.items()}
        like = {"type": "object", "required": [*fixed], "properties": constants}
        made = generated(self.contract, {"allOf": [schemas[0], like]}, str(self.seed))
        changed = placed(example, self.place, made)
        return changed if members(made) and is_valid(self.checker, changed) else example

    def _parts(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Members with generated objects and lists, as far as they are declared, where the record
        has some: the example of the document may have none, and so nothing that they lack."""
        record, declared = at_steps(own, self.place), at_steps(self.declared, self.place)
        like = containers_like(record, declared)
        schemas = schemas_at(self.contract.document, self.schema, self.place) if like else []
        parts = dict[str, Any]()
        for name, part in like["properties"].items() if schemas else ():
            one = {"type": "object", "required": [name], "properties": {name: part}}
            fits = partial(self._may_have_part, name)
            made = generated(self.contract, {"allOf": [schemas[0], one]}, str(self.seed), fits)
            parts |= {name: made[name]} if made else {}
        return parts

    def _may_have_part(self, name: str, record: Mapping[str, Any]) -> bool:
        return is_valid(self.checker, placed(self._alone, (*self.place, name), record[name]))

    def _constants(self, name: str) -> list[Any]:
        """The values by which alternatives of the record differ in this member."""
        found = self._keywords("const", name)
        found += [one for few in self._keywords("enum", name) if len(few) == 1 for one in few]
        return found if len(found) > 1 else []

    @cached_property
    def _alone(self) -> Any:
        """The example without others beside its record, where the schema allows that: without
        ``droplets`` beside ``droplet``, whose example may be the first of them. Without a record,
        it gets one that is generated."""
        example = self.example.body
        name, own = (self.place[0], nouns(self.place[0])) if self.place else ("", [])
        others = [one for one in members(example) if one != name and nouns(one) == own]
        alone = {one: value for one, value in members(example).items() if one not in others}
        first = next((at_steps(example, (one, "0")) for one in others), None)
        alone = alone if name in alone else {**alone, name: first}
        found = alone if others and is_valid(self.checker, alone) else example
        if not self.own_place or isinstance(at_steps(found, self.own_place), Mapping):
            return found
        schemas = schemas_at(self.contract.document, self.schema, self.own_place)
        record = generated(self.contract, schemas[0], str(self.seed)) if schemas else None
        return placed(found, self.own_place, record) if record else found

    def with_instants(
        self,
        record: Mapping[str, Any],
        sent: Mapping[str, Any],
        now: str,
        before: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """A kept body with the instants that the server sets: of its creation and of its last
        change. What was sent goes before, unless the member is readOnly. ``before`` is what the
        body was, if it is not new."""
        given, was = (members(at_steps(one, self.within)) for one in (sent, before))
        wanted = _OF_CREATION | _OF_CHANGES if before is None else _OF_CHANGES
        needed = self.needed(record)
        for name in members(at_steps(self.declared, self.place)):
            is_given, own = name in given, {*words(name)}
            if name not in needed or (is_given and name not in self.of_the_server):
                continue
            is_set = not own.isdisjoint(wanted)
            is_again = is_given and name in was and not own.isdisjoint(_OF_CREATION)
            if (is_set or is_again) and "date-time" in self._keywords("format", name):
                record = placed(record, (*self.within, name), now if is_set else was[name])
        return record

    def needed(self, record: Mapping[str, Any]) -> frozenset[str]:
        """The members of a kept body's record that it has though nobody sent them."""
        known = members(at_steps(record, self.within)).keys()
        required = required_at(self.contract.document, self.schema, self.place, known)
        return required | self.of_the_server

    @cached_property
    def of_the_server(self) -> frozenset[str]:
        """Its readOnly members."""
        return marked_at(self.contract.document, self.schema, self.place, OF_THE_SERVER)

    def _keywords(self, keyword: str, name: str) -> list[Any]:
        """The values of a keyword in the schemas of a member of the record."""
        return keywords_at(self.contract.document, self.schema, (*self.place, name), keyword)

    def changed(self, sent: Mapping[str, Any], body: Any) -> list[str]:
        """The members of what was sent that a body should have and has not, or not as they were
        sent, as JSON Pointers."""
        if body is None or self.own_place is None:
            return []
        return [*different(sent, self.kept({}, body), self.kept({}, self.declared))]

    def _placed(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """A kept body with the record, and with its id, where the response has them."""
        inside: Mapping[str, Any] = record
        if self.place != self.within:
            inside = placed({}, self.place, at_steps(record, self.within))
        own = (*self.place, *self.identity)
        if self.id_place == own or self._may_be_record:
            return inside
        key = at_steps(record, (*self.within, *self.identity))
        if own[-1] in members(at_steps(self.declared, own[:-1])):  # it may be a number here
            shown = at_steps(self.example.body, own)
            alike = (one for one in as_ids(key) if type(one) is type(shown))
            inside = placed(inside, own, next(alike, key))
        else:
            inside = without(inside, own)
        return placed(inside, self.id_place, key) if self.id_place else inside

    def gone(self, record: Mapping[str, Any]) -> Any:
        """The body of a deletion: the example with the id and ``deleted`` as true, or the record.
        None if it can have neither."""
        example = self.example.body
        if not isinstance(example, Mapping):
            return None
        marks = {
            (*steps, "deleted")
            for steps in ((), self.place)
            for one in (example, self.declared)
            if "deleted" in members(at_steps(one, steps))
        }
        if not marks:
            return self.shown(record) if self.own_place is not None else None
        key, body = at_steps(record, (*self.within, *self.identity)), example
        if self.own_place is not None:
            body = self.shown(record) or body
        elif self.is_note:
            body = self.noted(key) or body
        for steps in sorted(marks):
            marked = placed(body, steps, True)
            body = marked if is_valid(self.checker, marked) else body
        return body if is_valid(self.checker, body) else None

    @property
    def record_schemas(self) -> list[Any]:
        """The schemas of the record in the response."""
        return schemas_at(self.contract.document, self.schema, self.place)

    def with_own(self, body: Any, record: Foreign, top: Foreign) -> Any:
        """The body without members of the record, and at the top, that are foreign."""
        own = at_steps(body, self.place)
        shown = without_foreign(body, top)
        if own is not None:
            shown = placed(shown, self.place, without_foreign(own, record))
        return shown if shown == body or is_valid(self.checker, shown) else body

    def kept(
        self, record: Mapping[str, Any], body: Any, *, is_last: bool = False
    ) -> dict[str, Any]:
        """The record as it was shown, in this order, with what the response does not declare. A
        response without the id changes nothing that was posted, unless it ``is_last``."""
        if body is None:
            return dict(record)
        shown, declared = (members(at_steps(one, self.place)) for one in (body, self.declared))
        for name in declared.keys() - shown.keys() - {self.identity[0]}:
            record = without(record, (*self.within, name))
        if self.is_part and self.id_place:  # it has the id by another name
            body = without(body, self.id_place)
        same = self.place == self.within
        own = body if same else placed({}, self.within, at_steps(body, self.place))
        ordered = _over(own, record, self.within)
        kept = ordered if self.is_part and not is_last else _over(ordered, own, self.within)
        steps = (*self.within, *self.identity)
        key = at_steps(record, steps)
        return kept if key is None else {**members(placed(kept, steps, key))}

    def sampled(self, seed: str) -> Any:
        """An id that is generated for the schema."""
        steps = (*self.place, *self.identity)
        schemas = schemas_at(self.contract.document, self.schema, steps)
        return generated(self.contract, schemas[0], f"{self.seed}/{seed}") if schemas else None

    @property
    def required_headers(self) -> frozenset[str]:
        """The headers that the response has to have, in lower case."""
        response = self.operation.response_for(self.example.status)
        declared = response.headers.items() if response else ()
        return frozenset(name.lower() for name, one in declared if one.get("required", False))

    @cached_property
    def schema(self) -> Any:
        """The schema of the response, or of the item of its list."""
        if self.in_list is not None:
            return self._item_schema(self.in_list)
        return response_schema(self.operation, self.example)

    @cached_property
    def declared(self) -> Any:
        """The members that the schema declares."""
        return outline(self.contract.document, self.schema)


@lru_cache(maxsize=_MOST_CHECKERS)
def _checker_of_item(
    contract: Contract, operation: Operation, status: int, media_type: str, steps: Sequence[str]
) -> Checker:
    whole = response_schema(operation, ContractResponse(status, media_type))
    return contract.schemas.compile(_schema_of_item(contract, whole, steps), operation.id)


def _schema_of_item(contract: Contract, whole: Any, steps: Sequence[str]) -> Any:
    """The schema of the items of the list that these members lead to; None if it has none."""
    lists = schemas_at(contract.document, whole, steps)
    return next((items_of(contract.document, one) for one in lists), None)


def response_schema(operation: Operation, example: ContractResponse) -> Any:
    """The schema of a response; true if it has none."""
    response = operation.response_for(example.status)
    declared = response.declared_for(example.media_type) if response else None
    return response.media[declared].get("schema", True) if response and declared else True


def generated(
    contract: Contract, schema: Any, seed: str, fits: Callable[[Any], bool] = lambda _: True
) -> Any:
    """A value that is generated for a schema and ``fits``, or None."""
    view = contract.schemas.generation_view
    try:
        return generate(view.read(schema), resolve=view.at, is_valid=fits, seed=seed, invent=True)
    except CannotGenerate:
        return None


def _over(below: Any, above: Any, within: Sequence[str]) -> dict[str, Any]:
    """The members of ``above`` over those of ``below``, in the record and around it."""
    merged = {**members(below), **members(above)}
    if within:
        first, rest = within[0], within[1:]
        merged[first] = _over(members(below).get(first), members(above).get(first), rest)
    return merged
