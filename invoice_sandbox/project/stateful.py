"""State without code: the collections that a document implies, as handlers on ``call.state``.

A POST on a path and operations on the path with one more parameter are a collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from invoice_sandbox.base.errors import reject
from invoice_sandbox.openapi.operation import Contract, Operation, path_names
from invoice_sandbox.openapi.responses import (
    ContractResponse,
    NoResponseError,
    contract_response,
    is_json,
)
from invoice_sandbox.project.api import Call, Handler, Response

_PARAMETER: Final = re.compile(r"\{([^}]+)\}")
_LIMITS: Final = ("limit", "per_page", "perPage", "page_size", "pageSize", "size")
_POSITIONS: Final = ("offset", "skip", "page", "cursor")
_COUNTS: Final = ("total", "count", "total_count", "totalCount")


@dataclass(frozen=True)
class Collection:
    """What is posted to ``path``. ``operations`` are the ids of its operations by what they do:
    create, page, get, replace, change, delete. ``identity`` is the member with a record's id,
    ``parameter`` the parameter of its path."""

    path: str
    parameter: str
    identity: str
    operations: Mapping[str, str]

    def handlers(self) -> dict[str, Handler]:
        """The handler of each of its operations."""
        return {name: getattr(self, what) for what, name in self.operations.items()}

    def __str__(self) -> str:
        """For people: the path, the member with the id, and what is done by which operation."""
        done = ", ".join(f"{name} ({what})" for what, name in self.operations.items())
        return f"{self.path}: records by '{self.identity}': {done}"

    async def create(self, call: Call) -> Any:
        """Keep the body, with an id if it has none."""
        sent = dict(call.body) if isinstance(call.body, Mapping) else {}
        number = await call.state.next_number(self._name(call))
        unique = str(uuid5(NAMESPACE_URL, f"{call.workspace.token}{self._name(call)}/{number}"))
        given = [sent[self.identity]] if self.identity in sent else []
        for key in (*given, unique, number, str(number)):
            found = self._shown(call, "create", {**sent, self.identity: key})
            if found is not None:
                record, response = found
                await call.state.put(self._name(call), str(key), record)
                return response
        return _response(self._example(call, "create"))

    async def get(self, call: Call) -> Any:
        """The record."""
        record = await self._record(call)
        return self._sent(call, "get", record)

    async def replace(self, call: Call) -> Any:
        """The body instead of the record."""
        record = await self._record(call)
        return await self._changed(call, "replace", {self.identity: record.get(self.identity)})

    async def change(self, call: Call) -> Any:
        """The record with the members of the body; null removes one (RFC 7396)."""
        record = await self._record(call)
        return await self._changed(call, "change", record)

    async def delete(self, call: Call) -> Any:
        """The record is gone."""
        await self._record(call)
        await call.state.delete(self._name(call), self._key(call))
        return _response(self._example(call, "delete"))

    async def page(self, call: Call) -> Any:
        """The records, the first one posted first, in the document's paging."""
        newest_first = await call.state.page(self._name(call))
        records = [*reversed(newest_first.records)]
        limit = _number(call.query, _LIMITS, len(records))
        shown = records[_start(call.query, limit) :][:limit]
        return self._listed(call, shown, len(records))

    def _listed(self, call: Call, shown: list[Any], total: int) -> Response:
        example = self._example(call, "page")
        whole: Any = shown
        if isinstance(example.body, Mapping):
            counts = {one: total for one in _COUNTS if isinstance(example.body.get(one), int)}
            lists = [name for name, one in example.body.items() if isinstance(one, list)]
            whole = {**example.body, **counts, **dict.fromkeys(lists[:1], shown)}
        is_valid = _is_valid(self._operation(call, "page"), example, whole)
        return _response(example, whole) if is_valid else _response(example)

    async def _changed(self, call: Call, what: str, before: Mapping[str, Any]) -> Response:
        sent = dict(call.body) if isinstance(call.body, Mapping) else {}
        removed = [name for name, value in sent.items() if value is None and what == "change"]
        after = {**before, **sent, self.identity: before.get(self.identity)}
        record = {name: value for name, value in after.items() if name not in removed}
        found = self._shown(call, what, record)
        if found is None:
            return _response(self._example(call, what))
        await call.state.put(self._name(call), self._key(call), found[0])
        return found[1]

    async def _record(self, call: Call) -> dict[str, Any]:
        """Raises ApiError 404."""
        record = await call.state.get(self._name(call), self._key(call))
        if record is None:
            raise reject(
                "unknown_resource", kind="record", member=self.parameter, value=self._key(call)
            )
        return record

    def _sent(self, call: Call, what: str, record: Mapping[str, Any]) -> Response:
        found = self._shown(call, what, record)
        return found[1] if found else _response(self._example(call, what))

    def _shown(
        self, call: Call, what: str, record: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Response] | None:
        """The record as the operation shows it, with members of the example if it needs them, and
        the response; None if the contract does not allow it."""
        example, operation = self._example(call, what), self._operation(call, what)
        if example.body is None:
            return dict(record), _response(example)
        wrapper = _wrapper(example.body, self.identity)
        shown = example.body if wrapper is None else example.body[wrapper]
        for one in (dict(record), {**_members(shown), **record}):
            whole = one if wrapper is None else {**example.body, wrapper: one}
            if _is_valid(operation, example, whole):
                return one, _response(example, whole)
        return None

    def _operation(self, call: Call, what: str) -> Operation:
        return call.contract.operations[self.operations[what]]

    def _example(self, call: Call, what: str) -> ContractResponse:
        return contract_response(call.contract, self._operation(call, what), call.workspace.seed)

    def _name(self, call: Call) -> str:
        """The name of the collection in the state: one for each record that it belongs to."""
        return _PARAMETER.sub(lambda found: str(call.path.get(found[1])), self.path)

    def _key(self, call: Call) -> str:
        return str(call.path[self.parameter])


_ON_ITEM: Final = {"GET": "get", "PUT": "replace", "PATCH": "change", "DELETE": "delete"}


def inferred(contract: Contract) -> Iterator[Collection]:
    """The collections of a document.

    An operation without a success in JSON (or without a body) is left out, and so is one on an
    item that declares no 404.
    """
    paths: dict[str, dict[str, Operation]] = {}
    for operation in contract.operations.values():
        paths.setdefault(operation.path, {})[operation.method] = operation
    seen = set[str]()
    for path, on_item in paths.items():
        base, _, last = path.rpartition("/")
        on_all = paths.get(base, {})
        if not _PARAMETER.fullmatch(last) or "POST" not in on_all or base in seen:
            continue
        seen.add(base)
        wanted = {"create": on_all["POST"], "page": on_all.get("GET")}
        wanted |= {what: on_item.get(method) for method, what in _ON_ITEM.items()}
        operations = {
            what: one.id
            for what, one in wanted.items()
            if one is not None and _can_be_kept(contract, one, what)
        }
        if "create" in operations and len(operations) > 1:
            (parameter,) = path_names(last)
            identity = _identity(contract, [*operations.values()], parameter)
            yield Collection(base, parameter, identity, operations)


def _can_be_kept(contract: Contract, operation: Operation, what: str) -> bool:
    try:
        given = contract_response(contract, operation, "stateful")
    except NoResponseError:
        return False
    is_declared = what in {"create", "page"} or operation.response_for(404) is not None
    is_declared = is_declared and given.status < HTTPStatus.BAD_REQUEST
    return is_declared and (given.body is None or is_json(given.media_type))


def _identity(contract: Contract, operations: list[str], parameter: str) -> str:
    """The member of a record with its id: it is called like the parameter, or ``id``."""
    for name in operations:
        body = contract_response(contract, contract.operations[name], "stateful").body
        wrapper = _wrapper(body, parameter)
        shown = body if wrapper is None else body[wrapper]
        if parameter in _members(shown):
            return parameter
    return "id"


def _wrapper(body: Any, identity: str) -> str | None:
    """The member of a response that holds the record, if it is not the response itself."""
    if identity in _members(body):
        return None
    inside = [name for name, one in _members(body).items() if identity in _members(one)]
    return inside[0] if len(inside) == 1 else None


def _members(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _start(query: Mapping[str, Any], limit: int) -> int:
    """How many records come before the page."""
    number = _number(query, _POSITIONS, 0)
    return max(number - 1, 0) * limit if "page" in query else number


def _number(query: Mapping[str, Any], names: Iterable[str], default: int) -> int:
    """The value of the first of these parameters that is a whole number."""
    found = (str(query[one]) for one in names if one in query)
    return next((int(one) for one in found if one.isdecimal()), default)


def _is_valid(operation: Operation, example: ContractResponse, body: Any) -> bool:
    declared = operation.response_for(example.status)
    checker = declared.content.get(example.media_type) if declared else None
    return checker is None or checker.is_valid(body)


def _response(example: ContractResponse, body: Any = None) -> Response:
    data = example.body if body is None else body
    return Response(data, example.headers, example.status, bare=True)
