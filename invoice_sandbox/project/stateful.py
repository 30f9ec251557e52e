"""State without code: the collections that a document implies, as handlers on ``call.state``.

A POST on a path and operations on the path with one more parameter are a collection.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Protocol
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ERRORS, reject
from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.load.pointers import dereference
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import (
    ContractResponse,
    NoResponseError,
    contract_response,
    is_json,
)
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.openapi.schema.sample import CannotGenerate, generate
from invoice_sandbox.project.declared import outline, schemas_at
from invoice_sandbox.project.fitting import at_steps, fitted, placed
from invoice_sandbox.project.paging import Page, page_of
from invoice_sandbox.project.response import Response
from invoice_sandbox.state import Transaction, Workspace

_PARAMETER: Final = re.compile(r"\{([^}]+)\}")
_NAMES: Final = frozenset({"slug", "name", "key", "login", "handle"})
"""Last words of members whose values people read: they are made of what was posted."""
_TITLES: Final = ("name", "title", "displayName", "display_name")
_ENVELOPES: Final = ("data", "result", "item", "record", "resource", "payload", "response")
_ABSENT_STATUSES: Final = (404, 410, 400)
"""What documents declare for an item that does not exist, the closest first."""
_OF_AN_ADDRESS: Final = frozenset({"link", "location"})
"""Response headers with URLs, which an example has for other servers."""


class _Call(Protocol):
    """What a collection reads of a Call of the handler API, which has collections itself."""

    @property
    def state(self) -> Transaction: ...

    @property
    def workspace(self) -> Workspace: ...

    @property
    def contract(self) -> Contract: ...

    @property
    def url(self) -> str: ...

    @property
    def base_url(self) -> str: ...

    @property
    def path(self) -> Mapping[str, Any]: ...

    @property
    def query(self) -> Mapping[str, Any]: ...

    @property
    def body(self) -> Any: ...


Handler = Callable[[Any], Awaitable[Response]]


@dataclass(frozen=True)
class Collection:
    """What is posted to ``path``. ``operations`` are the ids of its operations by what they do:
    create, page, get, replace, change, delete. ``identity`` is the member with a record's id,
    ``parameter`` the parameter of its path. ``within`` are the members of a body that lead to the
    record, such as ``("data",)``; empty: the body is the record.

    A record is kept as a whole body, with what is beside it.
    """

    path: str
    parameter: str
    identity: str
    operations: Mapping[str, str]
    within: Sequence[str] = ()

    def handlers(self) -> dict[str, Handler]:
        """The handler of each of its operations."""
        return {name: getattr(self, what) for what, name in self.operations.items()}

    def __str__(self) -> str:
        """For people: the path, the member with the id, and what is done by which operation."""
        done = ", ".join(f"{name} ({what})" for what, name in self.operations.items())
        return f"{self.path}: records by '{'.'.join((*self.within, self.identity))}': {done}"

    async def create(self, call: _Call) -> Response:
        """Keep the body, with an id if it has none."""
        name, view = self.name(call), self._view(call.contract, "create", call.workspace.seed)
        number = await call.state.next_number(name)
        while await call.state.get(name, str(number)) is not None:
            number = await call.state.next_number(name)
        sent = self._in_place(call.body)
        unique = str(uuid5(NAMESPACE_URL, f"{call.workspace.token}{name}/{number}"))
        for key in self._keys(view, sent, number, unique):
            is_sent = at_steps(sent, (*self.within, self.identity)) == key
            if not is_sent and await call.state.get(name, str(key)) is not None:
                continue
            found = view.created(sent, key, number, unique)
            if found is not None:
                kept, body = found
                await call.state.put(name, str(key), kept)
                at = f"{call.base_url}{call.url.rstrip('/')}/{quote(str(key), safe='')}"
                return _response(view.example, body, {"location": at})
        return _response(view.example)

    async def get(self, call: _Call) -> Response:
        """The record."""
        view, kept = await self._found(call, "get")
        body = None if kept is None else view.shown(kept)
        return _response(view.example, body)

    async def replace(self, call: _Call) -> Response:
        """The body instead of the record."""
        view, kept = await self._found(call, "replace")
        return await self._changed(call, view, kept, self._in_place(call.body))

    async def change(self, call: _Call) -> Response:
        """The record with the members of the body; null removes one (RFC 7396)."""
        view, kept = await self._found(call, "change")
        after = jsonio.merge_patch(kept or {}, self._in_place(call.body))
        return await self._changed(call, view, kept, after)

    async def delete(self, call: _Call) -> Response:
        """The record is gone."""
        view, kept = await self._found(call, "delete")
        await call.state.delete(self.name(call), self._key(call))
        return _response(view.example, None if kept is None else view.gone(kept))

    async def page(self, call: _Call) -> Response:
        """The records, the first one posted first, in the document's paging."""
        view = self._view(call.contract, "page", call.workspace.seed)
        newest_first = await call.state.page(self.name(call))
        records = [*reversed(newest_first.records)]
        steps = (*self.within, self.identity)
        keys = [str(at_steps(one, steps)) for one in records]
        page = page_of(view.operation, call.query, keys, f"{call.base_url}{call.url}")
        body = view.listed(records[page.start :][: page.limit], page)
        if body is None or not page.url:
            return _response(view.example, body)
        return _response(view.example, body, {"link": f'<{page.url}>; rel="next"'})

    def name(self, call: _Call) -> str:
        """The name of the collection in the state: one for each record that it belongs to."""
        return _PARAMETER.sub(lambda found: str(call.path.get(found[1])), self.path)

    def place(self, contract: Contract) -> tuple[str, ...]:
        """What ``within`` is by the responses of its operations."""
        known = (what for what in _WITH_RECORD if what in self.operations)
        places = (self._view(contract, what, TRIAL).own_place for what in known)
        return next((one for one in places if one is not None), ())

    def first(self, contract: Contract) -> dict[str, Any]:
        """A record of a generated body, as it is kept.

        Raises NoResponseError if no client would know its id.
        """
        view = self._view(contract, "create", TRIAL)
        schema = _request_schema(contract, view.operation)
        sent = self._in_place(_generated(contract, schema, TRIAL))
        declared = self._in_place(outline(contract.document, schema))
        is_sent = self.identity in members(at_steps(declared, self.within))
        for key in self._keys(view, sent, 1, str(uuid5(NAMESPACE_URL, self.path))):
            found = view.created(sent, key, 1, "")
            is_known = is_sent or view.own_place is not None or not view.example.body
            if found is not None and is_known:
                return found[0]
        raise NoResponseError(f"its response has no '{self.identity}' that can be new")

    def lacks(self, contract: Contract, what: str, kept: Mapping[str, Any]) -> str:
        """Why an operation cannot show a record; empty if it can."""
        view = self._view(contract, what, TRIAL)
        if what == "page":
            is_shown = view.listed([kept], Page(1, 0, 1, {}, "")) is not None
        else:
            is_shown = view.own_place is not None and view.shown(kept) is not None
        if is_shown or what in {"create", "delete"} or not view.example.body:
            return ""
        return f"its response cannot have a record with '{self.identity}'"

    def _keys(self, view: _View, sent: Any, number: int, unique: str) -> Iterator[Any]:
        """Ids for a record, the best first: what was sent, a name, something unique, a number."""
        record = members(at_steps(sent, self.within))
        wanted = [record[self.identity]] if self.identity in record else []
        if _NAMES.intersection(words(self.identity)[-1:]):
            titles = (_slug(record[one]) for one in _TITLES if isinstance(record.get(one), str))
            noun = _singular(self.path.rpartition("/")[2])
            title = next(filter(None, titles), None)
            wanted += [title, f"{title}-{number}"] if title else [f"{noun}-{number}"]
        yield from (one for one in (*wanted, unique, number, str(number)) if view.may_have(one))
        sampled = view.sampled(number)
        if view.may_have(sampled):
            yield sampled

    def _in_place(self, body: Any) -> dict[str, Any]:
        """What was sent, with the record where bodies of the collection have it."""
        sent = dict(members(body))
        has_place = isinstance(at_steps(sent, self.within), Mapping)
        return sent if has_place else _nested(self.within, sent)

    async def _changed(
        self, call: _Call, view: _View, kept: Mapping[str, Any] | None, after: Mapping[str, Any]
    ) -> Response:
        if kept is None:
            return _response(view.example)
        steps = (*self.within, self.identity)
        record = placed(after, steps, at_steps(kept, steps))
        body = view.shown(record)
        if body is None and view.example.body is not None:
            return _response(view.example)
        await call.state.put(self.name(call), self._key(call), view.kept(record, body))
        return _response(view.example, body)

    async def _found(self, call: _Call, what: str) -> tuple[_View, dict[str, Any] | None]:
        """The record; None if there is none, and the operation has no error for that.

        Raises ApiError 404, or the closest one that the operation declares.
        """
        view = self._view(call.contract, what, call.workspace.seed)
        kept = await call.state.get(self.name(call), self._key(call))
        if kept is not None:
            return view, kept
        declared = (one for one in _ABSENT_STATUSES if view.operation.response_for(one) is not None)
        status = next(declared, None)
        if status is None:
            return view, None
        error = replace(ERRORS["unknown_resource"], status=status)
        raise reject(error, kind="record", member=self.parameter, value=self._key(call))

    def _view(self, contract: Contract, what: str, seed: int | str) -> _View:
        operation = contract.operations[self.operations[what]]
        return _View(contract, self, operation, contract_response(contract, operation, seed), seed)

    def _key(self, call: _Call) -> str:
        return str(call.path[self.parameter])


@dataclass(frozen=True)
class _View:
    """The records of a collection as the response of one operation shows them."""

    contract: Contract
    collection: Collection
    operation: Operation
    example: ContractResponse
    seed: int | str

    @property
    def checker(self) -> Checker | None:
        declared = self.operation.response_for(self.example.status)
        return declared.content.get(self.example.media_type) if declared else None

    @cached_property
    def own_place(self) -> tuple[str, ...] | None:
        """Where the response has the record, if it has its id."""
        identity, names = self.collection.identity, nouns(self.collection.path)
        found = _place(self.example.body, identity, names)
        declared = outline(self.contract.document, self.schema)
        return found if found is not None else _place(declared, identity, names)

    @property
    def place(self) -> tuple[str, ...]:
        """Where the response has the record, or would have it."""
        within = (*self.collection.within,)
        is_there = isinstance(at_steps(self.example.body, within), Mapping)
        own = self.own_place
        return own if own is not None else within if is_there else ()

    def may_have(self, key: Any) -> bool:
        """Whether the response and the path of an item can have this id."""
        if isinstance(key, bool) or not isinstance(key, str | int) or not str(key):
            return False
        steps = (*self.place, self.collection.identity)
        is_shown = self.own_place is not None and self.example.body is not None
        is_fine = not is_shown or _is_valid(self.checker, placed(self.example.body, steps, key))
        return is_fine and "/" not in str(key) and self._is_in_path(key)

    def created(
        self, sent: Mapping[str, Any], key: Any, number: int, unique: str
    ) -> tuple[dict[str, Any], Any] | None:
        """What is kept of a body with that id, and the body of the response; a member ``id`` is new
        as well."""
        within, identity = self.collection.within, self.collection.identity
        record = placed(sent, (*within, identity), key)
        shown = at_steps(self.example.body, (*self.place, "id"))
        if "id" not in members(at_steps(record, within)) and shown is not None:
            fresh = number if isinstance(shown, int) else unique
            record = placed(record, (*within, "id"), fresh)
        if self.example.body is None:
            return record, None
        body = self.shown(record)
        return None if body is None else (self.kept(record, body), body)

    def shown(self, record: Mapping[str, Any]) -> Any:
        """The body with the record: with members of the example where it needs them, without those
        that it cannot have. None if it cannot have the id."""
        example, place = self.example.body, self.place
        if not isinstance(example, Mapping):
            return None
        within, steps = self.collection.within, (*place, self.collection.identity)
        own = record if place == (*within,) else _nested(place, at_steps(record, within))
        around = _over(example, own, place)
        alone = placed(around, place, at_steps(own, place)) if place else own
        for one in (alone, around):
            if _is_valid(self.checker, one):
                return one
        key = at_steps(own, steps)
        for one in (around, placed(example, steps, key)):
            body = fitted(self.checker, one, example)
            if body is not None and (self.own_place is None or at_steps(body, steps) == key):
                return body
        return None

    def gone(self, record: Mapping[str, Any]) -> Any:
        """The body of a deletion: the example with the id and ``deleted`` as true, or the record.
        None if it can have neither."""
        example = self.example.body
        if not isinstance(example, Mapping):
            return None
        declared = outline(self.contract.document, self.schema)
        within, identity = self.collection.within, self.collection.identity
        marks = {
            (*steps, "deleted")
            for steps in ((), self.place)
            for one in (example, declared)
            if "deleted" in members(at_steps(one, steps))
        }
        if not marks:
            return self.shown(record) if self.own_place is not None else None
        body: Any = example
        if self.own_place is not None:
            key = at_steps(record, (*within, identity))
            body = placed(body, (*self.own_place, identity), key)
        for steps in sorted(marks):
            marked = placed(body, steps, True)
            body = marked if _is_valid(self.checker, marked) else body
        return body if _is_valid(self.checker, body) else None

    def kept(self, record: Mapping[str, Any], body: Any) -> dict[str, Any]:
        """The record as it was shown, with what the response does not have."""
        if body is None:
            return dict(record)
        within = (*self.collection.within,)
        same = self.place == within
        return _over(record, body if same else _nested(within, at_steps(body, self.place)), within)

    def listed(self, kept: Sequence[Any], page: Page) -> Any:
        """The body with these records in its list; None if it cannot have them."""
        example = self.example.body
        declared = outline(self.contract.document, self.schema)
        steps = _list_place(example)
        if steps is None:
            steps = _list_place(declared)
        if steps is None or example is None:
            return None
        whole = page.described(example, declared, steps, self.checker)
        records = [at_steps(one, self.collection.within) for one in kept]
        body = placed(whole, steps, records)
        if _is_valid(self.checker, body):
            return body
        shown = [self._item(whole, steps, one) for one in records]
        body = placed(whole, steps, shown)
        return body if _is_valid(self.checker, body) and None not in shown else None

    def _item(self, whole: Any, steps: Sequence[str], record: Any) -> Any:
        """A record as an item of the list; None if it cannot be one."""
        examples = at_steps(self.example.body, steps)
        filled = {**members(examples[0] if examples else {}), **record}
        body = fitted(self.checker, placed(whole, steps, [filled]), self.example.body)
        items = at_steps(body, steps)
        item = items[0] if isinstance(items, list) and items else None
        identity = self.collection.identity
        return item if members(item).get(identity) in {record[identity], None} else None

    def sampled(self, number: int) -> Any:
        """An id that is generated for the schema."""
        steps = (*self.place, self.collection.identity)
        schemas = schemas_at(self.contract.document, self.schema, steps)
        return _generated(self.contract, schemas[0], f"{self.seed}/{number}") if schemas else None

    @cached_property
    def schema(self) -> Any:
        """The schema of the response."""
        return response_schema(self.operation, self.example)

    def _is_in_path(self, key: Any) -> bool:
        every = self.collection.operations.items()
        items = [name for what, name in every if what not in {"create", "page"}]
        return all(
            _is_valid(one.checker, key) or _is_valid(one.checker, str(key))
            for name in items
            for one in self.contract.operations[name].parameters
            if (one.location, one.name) == ("path", self.collection.parameter)
        )


_WITH_RECORD: Final = ("create", "get", "replace", "change")
TRIAL: Final = "stateful"
"""The seed of responses before there is a workspace."""


def response_schema(operation: Operation, example: ContractResponse) -> Any:
    """The schema of a response; true if it has none."""
    declared = operation.response_for(example.status)
    media = declared.media.get(example.media_type, {}) if declared else {}
    return media.get("schema", True)


def _request_schema(contract: Contract, operation: Operation) -> Any:
    """The schema of the JSON that an operation takes; false if it takes none."""
    item = dereference(contract.document, contract.document["paths"][operation.path])
    raw = item[operation.method.lower()].get("requestBody", {})
    content = dereference(contract.document, raw).get("content", {})
    media = next((one for name, one in content.items() if is_json(name)), {"schema": False})
    return media.get("schema", True)


def _generated(contract: Contract, schema: Any, seed: str) -> Any:
    """A value that is generated for a schema, or None."""
    view = contract.schemas.generation_view
    try:
        return generate(
            view.read(schema), resolve=view.at, is_valid=lambda _: True, seed=seed, invent=True
        )
    except CannotGenerate:
        return None


def words(name: str) -> list[str]:
    return [one for one in snake_case(name).split("_") if one]


def nouns(path: str) -> list[str]:
    return [*map(_singular, words(path.rpartition("/")[2]))]


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def _slug(text: str) -> str:
    """``Justice League!`` as ``justice-league``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64]


def _place(body: Any, identity: str, names: Sequence[str]) -> tuple[str, ...] | None:
    """The members of a response that lead to the record, at most two; None if it has no record.

    They are called like the collection, have a name that envelopes have, or are alone.
    """
    levels: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), members(body))]
    for _ in range(3):
        found = [place for place, one in levels if identity in one]
        if found:
            return found[0] if len(found) == 1 else None
        levels = [
            ((*place, name), inner)
            for place, one in levels
            for name, inner in one.items()
            if isinstance(inner, Mapping)
            and (len(one) == 1 or {*map(_singular, words(name))} & {*names, *_ENVELOPES})
        ]
    return None


def _list_place(body: Any) -> tuple[str, ...] | None:
    """The members that lead to the list of a response."""
    levels: list[tuple[tuple[str, ...], Any]] = [((), body)]
    for _ in range(3):
        found = next((place for place, one in levels if isinstance(one, list)), None)
        if found is not None:
            return found
        levels = [
            ((*place, name), inner) for place, one in levels for name, inner in members(one).items()
        ]
    return None


def members(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _nested(steps: Sequence[str], value: Any) -> Any:
    for one in reversed(steps):
        value = {one: value}
    return value


def _over(below: Any, above: Any, within: Sequence[str]) -> dict[str, Any]:
    """The members of ``above`` over those of ``below``, in the record and around it."""
    merged = {**members(below), **members(above)}
    if within:
        first, rest = within[0], within[1:]
        merged[first] = _over(members(below).get(first), members(above).get(first), rest)
    return merged


def _is_valid(checker: Checker | None, value: Any) -> bool:
    return checker is None or checker.is_valid(value)


def _response(
    example: ContractResponse, body: Any = None, own: Mapping[str, str] | None = None
) -> Response:
    """The body, or that of the example. Headers with URLs are those of ``own`` only."""
    given = own or {}
    headers = (
        (name, given.get(name.lower(), value))
        for name, value in example.headers
        if name.lower() in given or name.lower() not in _OF_AN_ADDRESS
    )
    return Response(example.body if body is None else body, (*headers,), example.status, bare=True)
