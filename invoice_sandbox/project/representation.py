"""Kept records in responses: by the example of the document, with their members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final

from invoice_sandbox.openapi.load.operations import named_examples
from invoice_sandbox.openapi.load.pointers import steps_of
from invoice_sandbox.openapi.message.coercion import Shape
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import (
    WITHOUT_BODY,
    Choice,
    ContractResponse,
    contract_response,
)
from invoice_sandbox.openapi.schema.compile import Checker

ABSENT: Final = object()
"""The value of a member that is not there."""
_VIEWS: Final = 256


def members(value: Any) -> Mapping[str, Any]:
    """Return the members of an object; none of anything else."""
    return value if isinstance(value, Mapping) else {}


def is_valid(checker: Checker | None, value: Any) -> bool:
    """True if the schema allows the value; without a schema every value is allowed."""
    return checker is None or checker.is_valid(value)


@dataclass(frozen=True)
class Part:
    """A part of a body: the members that its schema declares, and the value of an example."""

    shape: Shape
    example: Any = ABSENT

    @cached_property
    def members(self) -> dict[str, Part]:
        """Its members: those that are declared, required, or in the example."""
        shown = members(self.example)
        return {
            name: Part(self.shape.member(name), shown.get(name, ABSENT))
            for name in (*self.shape.members, *self.shape.required, *shown)
        }

    @cached_property
    def item(self) -> Part | None:
        """An item of the list that it is; None if it is not a list."""
        shown = self.example if isinstance(self.example, list) else None
        if shown is None and "array" not in self.shape.types:
            return None
        return Part(self.shape.item(0), (shown or [ABSENT])[0])

    @cached_property
    def of_server(self) -> frozenset[str]:
        """The names of the members that a record has though nobody sent them."""
        shape = self.shape
        return (frozenset(shape.required) | shape.marked("readOnly")) - shape.marked("writeOnly")

    def initial(self, now: str) -> Any:
        """Return the value of a member that nobody sent, or ABSENT."""
        choices = self.shape.keyword("enum") or [self.example]
        is_instant = self.shape.keyword("format") == "date-time"
        return self.shape.keyword("default", now if is_instant else choices[0])


def represented(part: Part, value: Any, now: str) -> Any:
    """Return the value as a response shows it, at any depth.

    It lacks members that are ``writeOnly``, and those that the schema does not declare though it
    declares others; it has those of the server that nobody sent.
    """
    if isinstance(value, list) and part.item is not None:
        return [represented(part.item, item, now) for item in value]
    if not isinstance(value, Mapping):
        return value
    names = (part.shape.members or value).keys() - part.shape.marked("writeOnly")
    shown = {
        name: represented(part.members[name], member, now) if name in part.members else member
        for name, member in value.items()
        if name in names
    }
    missing = {name: part.members[name].initial(now) for name in part.of_server - shown.keys()}
    shown |= {name: member for name, member in missing.items() if member is not ABSENT}
    return {name: shown[name] for name in (*part.members, *shown) if name in shown}


@dataclass(frozen=True)
class View:
    """The place of records in a response: as the body, or in the member ``place`` of it.

    ``part`` is a record, or an item if the response is a list; None if it has no record.
    """

    example: ContractResponse
    checker: Checker | None
    place: str = ""
    part: Part | None = None
    of_part: Checker | None = None

    def shown(self, record: Mapping[str, Any], identity: str, now: str) -> Any:
        """Return the record as the response has it; None if it cannot have it."""
        if self.part is None:
            return None
        own = self._allowed(represented(self.part, record, now))
        for shown in (own, {**members(self.part.example), **own}):
            if is_valid(self.of_part, shown) and shown.get(identity) == record[identity]:
                return shown
        return None

    def _allowed(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record without the members that its schema does not allow."""
        problems = () if self.of_part is None else self.of_part.problems(record)
        wrong = {
            next(iter((*steps_of(problem.pointer), problem.undeclared))) for problem in problems
        }
        return {name: value for name, value in record.items() if name not in wrong}

    def kept(self, record: Mapping[str, Any], identity: str, now: str) -> dict[str, Any] | None:
        """Return the record with what this response shows of it, and what it has no member for;
        None if it cannot have the record."""
        shown = self.shown(record, identity, now)
        if shown is None or self.part is None:
            return None if self.part else {**record}
        others = (
            (name, member) for name, member in record.items() if name not in self.part.shape.members
        )
        return {**dict(others), **shown}

    def body(self, shown: Any) -> Any:
        """Return the body with a record or a list at its place; None if that is not allowed."""
        whole = {**members(self.example.body), self.place: shown} if self.place else shown
        return whole if is_valid(self.checker, whole) else None


@lru_cache(maxsize=_VIEWS)
def view_of(
    contract: Contract,
    operation: Operation,
    identity: str,
    record: str,
    seed: int,
    *,
    is_list: bool = False,
) -> View:
    """Return how an operation shows records. Raises NoResponseError."""
    example = contract_response(contract, operation, seed, Choice())
    response = operation.response_for(example.status)
    declared = response.declared_for(example.media_type) if response else None
    if response is None or declared is None or example.status in WITHOUT_BODY:
        return View(replace(example, body=None, media_type=""), None)
    schema = response.media[declared].get("schema", True)
    whole, checker = Part(Shape(schema, contract.schemas), example.body), response.content[declared]
    found = list_in(whole, [identity]) if is_list else record_in(whole, [identity], record)
    if found is None:
        return View(example, checker)
    place, _, part = found
    of_part = contract.schemas.compile(part.shape.schema, operation.id)
    return View(example, checker, place, part, of_part)


Found = tuple[str, str, Part]
"""The member of a body that has a record, empty if it is the body, the name of the id, and it."""


def record_in(body: Part, names: Sequence[str], record: str = "") -> Found | None:
    """Return the record of a body: the body, or the one member that has an id.

    ``names`` are names that the id may have, ``record`` is the member that is preferred.
    """
    at_top = _name_in(body, names)
    inner = [(name, _name_in(member, names), member) for name, member in body.members.items()]
    with_id = [
        (place, identity, member) for place, identity, member in inner if identity is not None
    ]
    named = [found for found in with_id if found[0] == record]
    if named or at_top is None:
        return next(iter(named), with_id[0] if len(with_id) == 1 else None)
    return "", at_top, body


def list_in(body: Part, names: Sequence[str]) -> Found | None:
    """Return an item of the first list of a body whose items have an id, as ``record_in``."""
    for place, part in (("", body), *body.members.items()):
        identity = None if part.item is None else _name_in(part.item, names)
        if identity is not None and part.item is not None:
            return place, identity, part.item
    return None


def _name_in(part: Part, names: Iterable[str]) -> str | None:
    """Return the first of these names that a member has which is not an object itself."""
    return next(
        (name for name in names if name in part.members and not part.members[name].members), None
    )


def response_part(contract: Contract, operation: Operation) -> Part | None:
    """Return the JSON of a success, as it is declared; None if it is not JSON."""
    response = operation.responses.get(operation.success)
    name = None if response is None else response.json_type
    declared = None if response is None or name is None else response.declared_for(name)
    if response is None or declared is None or not is_success(operation.success):
        return None
    media = response.media[declared]
    shown = (value for _, value in named_examples(contract.document, media))
    example = media.get("example", next(shown, ABSENT))
    return Part(Shape(media.get("schema", True), contract.schemas), example)


def is_success(key: str) -> bool:
    """True if a response with this key may be one of a success: ``201``, ``2XX`` or ``default``."""
    return key.startswith("2") or key == "default"
