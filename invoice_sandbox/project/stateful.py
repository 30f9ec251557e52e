"""State without code: the handlers of a collection, whose records are kept in ``call.state``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ERRORS, reject
from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.load.operations import path_names
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import NoResponseError, allowed_headers
from invoice_sandbox.openapi.schema.compile import SchemaError
from invoice_sandbox.openapi.schema.generate import CannotGenerate, generate
from invoice_sandbox.project.representation import View, is_valid, members, view_of
from invoice_sandbox.project.response import Response
from invoice_sandbox.state import Transaction, Workspace

CREATE, LIST, GET, REPLACE, CHANGE, DELETE, SHOW = ROLES = (
    *("create", "list", "get", "replace", "change", "delete", "show"),
)
"""The roles that an operation may have in a collection."""
_PARAMETER: Final = re.compile(r"\{[^}]*\}")
_MAX_LISTED: Final = 1000
_OF_PAGES: Final = frozenset({"limit", "offset", "cursor"})
"""Query parameters that ask for a page."""
_MAX_DIGITS: Final = 15
_CONFLICT: Final = ERRORS["conflict"]
_KNOWN: Final = "There is already a record with this id"
_ADVICE: Final = "Send another one, or change the record."
_SAMPLES: Final = 5
_EXAMPLE: Final = "the response is the example of the document, as it cannot have the record"
_NOT_KEPT: Final = "nothing was kept: the body is a list, or the responses cannot have it"


class _Call(Protocol):
    """The attributes of a Call of the handler API that a collection reads."""

    state: Transaction
    workspace: Workspace
    contract: Contract
    operation: Operation
    base_url: str
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any

    @property
    def timestamp(self) -> str: ...


CollectionHandler = Callable[[Any], Response]


@dataclass(frozen=True)
class Collection:
    """The operations of a collection, by operationId, each with its role.

    ``base`` is the path of an item without its last parameter, ``identity`` the member of a record
    with its id, ``record`` the member of bodies that has the record, empty if it is the body.
    """

    base: str
    identity: str
    record: str
    operations: Mapping[str, str]

    def __str__(self) -> str:
        """``/tickets by 'id': create, list, get``."""
        return f"{self.base} by '{self.identity}': {', '.join(dict.fromkeys(self.roles))}"

    @property
    def roles(self) -> Iterator[str]:
        """The roles of its operations, in a fixed order."""
        return iter(sorted(self.operations.values(), key=ROLES.index))

    def handlers(self) -> dict[str, CollectionHandler]:
        """Return the handler of each of its operations."""
        return {name: getattr(self, role) for name, role in self.operations.items()}

    def create(self, call: _Call) -> Response:
        """Keep the body as a record, with an id unless it has one."""
        if isinstance(call.body, list):
            return self._not_kept(call)
        name, sent = self._name(call), self._sent(call)
        number = call.state.next_number(name)
        while call.state.get(name, str(number)) is not None:
            number = call.state.next_number(name)
        for key in self._ids(call, sent, number):
            if call.state.get(name, str(key)) is not None:
                if key != sent.get(self.identity):
                    continue
                if call.operation.response_for(_CONFLICT.status) is not None:
                    raise reject(_CONFLICT, problem=_KNOWN, advice=_ADVICE)
            found = self._kept(call, {**sent, self.identity: key})
            if found is not None:
                return found
        return self._not_kept(call)

    def list(self, call: _Call) -> Response:
        """Return the records that match the query, the oldest first."""
        view = self._view(call)
        names = (view.part.members if view.part else {}).keys() - _OF_PAGES
        wanted = {name: value for name, value in call.query.items() if name in names}
        every = (call.state.page(self._name(call), oldest_first=True)).records
        records = [record for record in every if _matches(record, wanted)]
        start, end = _page(call.query)
        shown = [view.shown(record, self.identity, call.timestamp) for record in records[start:end]]
        body = view.body([record for record in shown if record is not None])
        following = end if end < len(records) else None
        return self._response(call, view, _with_page(view, body, following, len(records)))

    def get(self, call: _Call) -> Response:
        """Return the record."""
        return self._shown(call, self._found(call))

    show = get

    def replace(self, call: _Call) -> Response:
        """Replace the record by the body. Members that nobody sends stay."""
        before = self._found(call)
        part = self._view(call, self._get(call)).part
        names = before.keys() & (part.of_server if part else ())
        unsent = {name: before[name] for name in names}
        return self._changed(call, before, unsent | self._sent(call))

    def change(self, call: _Call) -> Response:
        """Merge the body into the record (RFC 7396). A null stays where the response allows it."""
        before, sent = self._found(call), self._sent(call)
        nulls = {name: None for name, value in sent.items() if value is None}
        return self._changed(call, before, {**jsonio.merge_patch(before, sent), **nulls})

    def delete(self, call: _Call) -> Response:
        """Delete the record."""
        record = self._found(call)
        call.state.delete(self._name(call), self._key(call))
        return self._shown(call, record)

    def _changed(
        self, call: _Call, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> Response:
        """Keep the record as it is now, with the id that it had."""
        kept = self._kept(call, {**after, self.identity: before[self.identity]})
        return kept or self._not_kept(call)

    def _not_kept(self, call: _Call) -> Response:
        return self._response(call, self._view(call), None, hints=(_NOT_KEPT,))

    def _kept(self, call: _Call, record: Mapping[str, Any]) -> Response | None:
        """Keep the record with the other members of its responses; None if they cannot have it."""
        for operation in dict.fromkeys((call.operation.id, self._get(call).id)):
            view = self._view(call, call.contract.operations[operation])
            shown = view.kept(record, self.identity, call.timestamp)
            if shown is None:
                return None
            record = shown
        key = str(record[self.identity])
        call.state.put(self._name(call), key, record)
        url = f"{call.base_url}{call.contract.base_path}{self._name(call)}/{quote(key, safe='')}"
        return self._shown(call, record, {"location": url})

    def _shown(
        self, call: _Call, record: Mapping[str, Any], headers: Mapping[str, Any] | None = None
    ) -> Response:
        """Return the response with the record, if it can have it."""
        view = self._view(call)
        shown = view.shown(record, self.identity, call.timestamp)
        return self._response(call, view, None if shown is None else view.body(shown), headers)

    def _response(
        self,
        call: _Call,
        view: View,
        body: Any,
        headers: Mapping[str, Any] | None = None,
        hints: tuple[str, ...] = (),
    ) -> Response:
        """Return the body, or that of the example if there is none."""
        example = view.example
        allowed = allowed_headers(call.contract, call.operation, example.status, headers or {})
        shown = {name: text for name, text in example.headers if name.lower() != "link"}
        if body is None:
            body = example.body
            hints = hints or (() if view.part is None else (_EXAMPLE,))
        sent = (*(shown | dict(allowed)).items(),)
        return Response(body, sent, example.status, True, hints, example.media_type or None)

    def _view(self, call: _Call, operation: Operation | None = None) -> View:
        """Return how the operation of a call, or another one, shows records. Raises ApiError for
        one without a response."""
        operation = operation or call.operation
        is_list = self.operations[operation.id] == LIST
        own = (operation, self.identity, self.record, call.workspace.seed)
        try:
            return view_of(call.contract, *own, is_list=is_list)
        except NoResponseError as error:
            raise reject("no_usable_response", problem=str(error)) from None

    def _get(self, call: _Call) -> Operation:
        """Return the operation that shows a record."""
        names = (name for name, role in self.operations.items() if role == GET)
        return call.contract.operations[next(names)]

    def _sent(self, call: _Call) -> dict[str, Any]:
        """Return the record in the body of a request."""
        inner = members(call.body).get(self.record) if self.record else None
        return dict(members(call.body if inner is None else inner))

    def _ids(self, call: _Call, sent: Mapping[str, Any], number: int) -> Iterator[Any]:
        """Ids of a new record that its path can have, the best first: the one that was sent, a
        UUID, a number, and those that are generated for the schema."""
        get = self._get(call)
        unique = f"{call.workspace.token}{self._name(call)}/{number}"
        usual = (sent.get(self.identity), str(uuid5(NAMESPACE_URL, unique)), number, str(number))
        in_path = (
            parameter for parameter in get.parameters if parameter.name == self._parameter(get)
        )
        checker = next(
            (parameter.checker for parameter in in_path if parameter.location == "path"), None
        )
        for key in (*usual, *self._generated(call, get, number)):
            is_usual = type(key) in {str, int} and key
            if is_usual and (is_valid(checker, key) or is_valid(checker, str(key))):
                yield key

    def _generated(self, call: _Call, get: Operation, number: int) -> Iterator[Any]:
        """Yield values for the schema of the id, if there are any."""
        part = self._view(call, get).part
        schema = part.shape.member(self.identity).schema if part else True
        with suppress(CannotGenerate, SchemaError):
            for attempt in range(_SAMPLES):
                seed = f"{call.workspace.seed}/{number}/{attempt}"
                yield generate(call.contract.schemas, schema, seed, dynamic=True)

    def _parameter(self, operation: Operation) -> str | None:
        """Return the parameter of an operation's path that has the id of a record."""
        names, position = path_names(operation.path), self.base.count("{")
        return names[position] if len(names) > position else None

    def _key(self, call: _Call) -> str:
        """Return the id of the record: in the path, or in the body if the path has none."""
        name = self._parameter(call.operation)
        return str(self._sent(call).get(self.identity) if name is None else call.path[name])

    def _name(self, call: _Call) -> str:
        """Return the name of the collection in the state: its path with the parameters of a call,
        percent-encoded, by their position."""
        values = (quote(str(call.path[name]), safe="") for name in path_names(call.operation.path))
        return _PARAMETER.sub(lambda _: next(values), self.base).rstrip("/")

    def _found(self, call: _Call) -> dict[str, Any]:
        """Return what is kept. Raises ApiError 404."""
        kept = call.state.get(self._name(call), self._key(call))
        if kept is not None:
            return kept
        member = self._parameter(call.operation) or self.identity
        raise reject("unknown_record", member=member, value=self._key(call))


def _page(query: Mapping[str, Any]) -> tuple[int, int]:
    """Return the positions of the first record of a page and of the one after its last."""
    start = _number(query.get("offset")) or _number(query.get("cursor"))
    return start, start + min(_number(query.get("limit")) or _MAX_LISTED, _MAX_LISTED)


def _number(value: Any) -> int:
    """Return the number that a query parameter has, else 0."""
    text = str(value)[:_MAX_DIGITS]
    return int(text) if text.isascii() and text.isdigit() else 0


def _with_page(view: View, body: Any, following: int | None, total: int) -> Any:
    """Return the body of a list with its total and the position of the next record, where the
    schema has members for them. Without them a client might read the example's pages forever."""
    for name in (name for name in members(body) if view.place and name != view.place):
        word = snake_case(name)
        values: tuple[Any, ...] = (following, "" if following is None else str(following))
        if word in {"total", "total_count", "count"}:
            values = (total,)
        elif word in {"has_more", "has_next"}:
            values = (following is not None,)
        elif not word.startswith("next"):
            continue
        bodies = ({**body, name: value} for value in values)
        body = next((filled for filled in bodies if is_valid(view.checker, filled)), body)
    return body


def _matches(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True if each member has the value of its filter, or one of its values."""
    several = {
        name: value if isinstance(value, list) else [value] for name, value in wanted.items()
    }
    return all(str(record.get(name)) in map(str, values) for name, values in several.items())
