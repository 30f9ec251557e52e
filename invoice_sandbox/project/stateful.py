"""State without code: the collections that a document implies, as handlers on ``call.state``.

A POST on a path and operations on the path with one more parameter are a collection.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Final, Protocol
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ERRORS, reject
from invoice_sandbox.openapi.load.operations import path_names, without_names
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import allowed_headers
from invoice_sandbox.openapi.schema.problems import short_name
from invoice_sandbox.project.declared import Foreign, WriteOnly, foreign, schemas_at
from invoice_sandbox.project.fitting import at_steps, is_valid, members, placed
from invoice_sandbox.project.lists import ListView
from invoice_sandbox.project.naming import as_ids, named_like, nouns, plain_id, words
from invoice_sandbox.project.paging import page_of
from invoice_sandbox.project.response import Response
from invoice_sandbox.project.shape import Shape, content_of, has_write_only, uploaded
from invoice_sandbox.project.view import View
from invoice_sandbox.state import Transaction, Workspace

_PARAMETER: Final = re.compile(r"\{([^}]+)\}")
_BELOW: Final = "collections below {}"
"""The collection of the names of those whose records belong to an item, by the item."""
_ABSENT_STATUSES: Final = (404, 410, 400)
"""What documents declare for an item that does not exist, the closest first."""
_CONFLICT_STATUSES: Final = (409, 422)
"""The same for an id that a record has already."""
_EXAMPLE: Final = "the response is the example of the document, not what is kept"
_NOT_KEPT: Final = "nothing was kept: the response cannot have the record"
_SEVERAL: Final = "nothing was kept: a list was posted"
_MOST_NAMED: Final = 5
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
    def operation(self) -> Operation: ...

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

    @property
    def accept(self) -> str: ...

    @property
    def timestamp(self) -> str: ...


Handler = Callable[[Any], Awaitable[Response]]


@dataclass(frozen=True)
class Collection(Shape):
    """The handlers of the operations of a collection, on ``call.state``.

    A record is kept as a whole body, with what is beside it.
    """

    def handlers(self) -> dict[str, Handler]:
        """The handler of each of its operations."""
        return {name: getattr(self, what) for what, name in self.operations.items()}

    async def create(self, call: _Call) -> Response:
        """Keep the body, with an id if it has none."""
        name, view = self.name(call), self._view_of(call, "create")
        if isinstance(call.body, list):
            return _response(view, hints=(_SEVERAL,))
        await self._check_parent(call, view)
        number, step = await call.state.next_number(name), 1
        while await call.state.get(name, str(number)) is not None:
            number, step = number + step, 2 * step  # few lookups, however many ids were posted
        sent = self._sent(call, view, "create", call.body)
        unique = str(uuid5(NAMESPACE_URL, f"{call.workspace.token}{name}/{number}"))
        for key in self.ids(view, sent, number, unique):
            is_sent = str(plain_id(at_steps(sent, (*self.within, *self.key)))) == str(key)
            if await call.state.get(name, str(key)) is not None:
                if not is_sent:
                    continue
                self._reject_known(view)
            base = call.url.removesuffix(self.extension).rstrip("/")
            base = f"{call.contract.base_path}{name}" if self.items else base
            at = f"{call.base_url}{base}/{_as_segment(key)}{self.extension}"
            at = at if self.parameter else ""
            found = await self._created(call, view, sent, key, number, unique, at)
            if found is not None:
                if self.items:
                    listed = _in_path(self.base, call)
                    await call.state.put(listed, str(key), {"key": str(key)})
                    await self._note_below_parent(call, listed, ("key",))
                return found
        return _response(view, hints=(_NOT_KEPT,))

    async def get(self, call: _Call) -> Response:
        """The record."""
        view, kept = await self._found(call, "get")
        return _response(view, self._own(call, view, view.shown(kept)))

    async def replace(self, call: _Call) -> Response:
        """The body instead of the record; a new one if the operation declares 201, or if there is
        no POST. Without the id in the path it is that of the body, which has to be known."""
        declared = call.contract.operations[self.operations["replace"]].responses
        is_new = await call.state.get(self.name(call), self._key(call)) is None
        if (
            is_new
            and self.parameter_of(call.operation)
            and ("201" in declared or self.creator == "replace")
        ):
            return await self._put_new(call)
        view, kept = await self._found(call, "replace")
        sent = self._sent(call, view, "replace", call.body)
        return await self._changed(call, view, kept, sent, sent)

    async def change(self, call: _Call) -> Response:
        """The record with the members of the body, of a PATCH or of a POST; null removes one (RFC
        7396), or is its value where the response can have it. A list is a JSON Patch (RFC 6902)."""
        view, kept = await self._found(call, "change")
        if isinstance(call.body, list):
            after, sent = self._patched(call, view, kept)
            return await self._changed(call, view, kept, after, sent)
        sent = self._sent(call, view, "change", call.body)
        merged = jsonio.merge_patch(kept, sent)
        after = {**members(at_steps(merged, self.within))}
        own = members(at_steps(sent, self.within))
        nulls = {name: None for name, one in own.items() if one is None}
        if nulls:
            showing, *_ = self.showing(call.contract, view, call.accept)
            body = showing.shown(placed(merged, self.within, {**after, **nulls}), kept)
            can_have = members(at_steps(body, showing.place))
            after |= {name: None for name in nulls if can_have.get(name, name) is None}
        return await self._changed(call, view, kept, placed(merged, self.within, after), sent)

    async def delete(self, call: _Call) -> Response:
        """The record is gone."""
        view, kept = await self._found(call, "delete")
        await call.state.delete(self.name(call), self._key(call))
        await _delete_below(call.state, f"{self.name(call)}/{_as_segment(self._key(call))}")
        body = self._own(call, view, view.gone(kept))
        return _response(view, view.example.body if body is None else body)

    async def page(self, call: _Call) -> Response:
        """The records, the first one posted first, in the document's paging."""
        view = self._view_of(call, "page")
        await self._check_parent(call, view)
        page = await call.state.page(_in_path(self.base, call), oldest_first=True)
        found: list[Any] = [*page.records]
        if self.items:
            found = [await call.state.get(self.name(call), one["key"]) for one in found]
        return self._listed(call, view, [one for one in found if one is not None])

    async def every(self, call: _Call) -> Response:
        """The records of all parents, in the document's paging."""
        view = self._view_of(call, "every")
        page = await call.state.page(self.name(call), oldest_first=True)
        return self._listed(call, view, page.records)

    def _listed(
        self, call: _Call, view: ListView, records: Sequence[Mapping[str, Any]]
    ) -> Response:
        steps = (*self.within, *self.key)
        keys = [str(at_steps(one, steps)) for one in records]
        address = f"{call.base_url}{call.url}"
        page = page_of(call.contract, view.operation, call.query, keys, address, view.most_items)
        body = view.listed(records[page.start :][: page.limit], page)
        record, _ = self._foreign(call, view, in_list=True)
        body = view.with_own_items(body, record)
        own = page.headers(view.header_names) if body is not None else {}
        if page.is_only and "link" not in view.required_headers:
            own["link"] = ""
        return _response(view, body, own)

    def name(self, call: _Call) -> str:
        """The name of the collection in the state: one for each record that it belongs to, unless
        its items have paths without that."""
        return _in_path(self.item_base, call)

    def _sent(self, call: _Call, view: View, what: str, body: Any) -> dict[str, Any]:
        """A body in its place, without files that no response declares, and without what a request
        of the collection declares as ``writeOnly``, unless a response that shows the record
        declares it otherwise: the first one that declares it, of the operation's own and those of
        others. Members have the names of the response, if these are the same words:
        ``FriendlyName`` is its ``friendly_name``."""
        if files := uploaded(call.contract, view.operation).intersection(members(body)):
            every = self.showing(call.contract, view, call.accept)
            shown_files = (members(at_steps(one.declared, one.place)) for one in every)
            left_out = files.difference(*shown_files)
            body = {name: one for name, one in body.items() if name not in left_out}
        if not has_write_only(call.contract):
            return self._named_as_shown(call, view, self.in_place(body, what))
        secret = WriteOnly(call.contract.document)
        content = content_of(call.contract, view.operation).values()
        schemas = [one.get("schema", True) for one in content]
        showing = self.showing(call.contract, view, call.accept)
        document = call.contract.document
        shown = [schemas_at(document, one.schema, one.place) for one in showing]
        around = [*chain.from_iterable(shown)]
        for step in reversed(self.place_of(body, what)):
            around = [{"properties": {step: {"allOf": around}}}]
        sent = self.in_place(secret.removed(body, schemas, around), what)
        record = at_steps(sent, self.within)
        for schemas in self.posted_schemas(call.contract):
            record = secret.removed(record, schemas, [*chain.from_iterable(shown)])
        for index, schemas in enumerate(shown):
            record = secret.removed(record, schemas, [*chain.from_iterable(shown[:index])])
        sent = {**members(placed(sent, self.within, record))}
        return self._named_as_shown(call, view, sent)

    def _named_as_shown(self, call: _Call, view: View, sent: dict[str, Any]) -> dict[str, Any]:
        """What was sent, with the names that responses have for the members of the record."""
        views = self.showing(call.contract, view, call.accept)
        declared = [at_steps(one.declared, one.place) for one in views]
        renamed = named_like(members(at_steps(sent, self.within)), declared)
        return {**members(placed(sent, self.within, renamed))}

    def _patched(
        self, call: _Call, view: View, kept: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The body after a JSON Patch of the record, or of the response that has it; and what is
        new in it. Raises ApiError 409, 422 or 400 if it does not apply."""
        record, place = members(at_steps(kept, self.within)), view.place
        paths = (str(members(one).get("path")).split("/")[1:2] for one in call.body)
        place = () if place and [place[0]] not in paths else place
        try:
            patched = jsonio.json_patch(placed({}, place, record), call.body)
            if not isinstance(at_steps(patched, place), Mapping):
                raise jsonio.PatchError("the record is no object then")
        except jsonio.PatchError as error:
            status = _first_declared(view.operation, (*_CONFLICT_STATUSES, 400)) or 400
            rejected = replace(ERRORS["patch_does_not_apply"], status=status)
            raise reject(rejected, problem=str(error)) from None
        now = members(at_steps(patched, place))
        new = {name: one for name, one in now.items() if name not in record or record[name] != one}
        sent = self._sent(call, view, "change", placed({}, self.within, new))
        same = {name: one for name, one in record.items() if name in now}
        after = {**same, **members(at_steps(sent, self.within))}
        return placed(kept, self.within, after), sent

    def _reject_known(self, view: View) -> None:
        """Raises ApiError 409, or the closest one that the operation declares, if it has one."""
        status = _first_declared(view.operation, _CONFLICT_STATUSES)
        if status is not None:
            problem = f"There is already a record with this {self.identity}"
            advice = "Send another one, or change the record."
            error = replace(ERRORS["conflict"], status=status)
            raise reject(error, problem=problem, advice=advice)

    async def _changed(
        self,
        call: _Call,
        view: ListView,
        kept: Mapping[str, Any],
        after: Mapping[str, Any],
        sent: Mapping[str, Any],
    ) -> Response:
        steps = (*self.within, *self.key)
        showing, *_ = self.showing(call.contract, view, call.accept)
        after = showing.with_instants(after, sent, call.timestamp, kept)
        after = self._of_parents(call, showing, after, kept)
        record = placed(after, steps, at_steps(kept, steps))
        is_note = view.is_note
        body = view.noted(at_steps(kept, steps)) if is_note else view.shown(record, kept)
        if body is None and view.example.body is not None and not is_note:
            return _response(view, hints=(_NOT_KEPT,))
        after = dict(record) if is_note else view.kept(record, body)
        record = self._completed(call, view, after, sent, kept)
        await call.state.put(self.name(call), self._key(call), record)
        hints = _hints(view.changed(sent, body))
        return _response(view, self._own(call, view, body), hints=hints)

    async def _found(self, call: _Call, what: str) -> tuple[ListView, dict[str, Any]]:
        """The record. Raises ApiError 404, or the closest one that the operation declares."""
        view = self._view_of(call, what)
        kept = await call.state.get(self.name(call), self._key(call))
        if kept is not None:
            return view, kept
        error = ERRORS["unknown_record"]
        status = _first_declared(view.operation, _ABSENT_STATUSES)
        error = error if status is None else replace(error, status=status)
        name = self.parameter_of(call.operation) or self.parameter
        raise reject(error, member=name, value=self._key(call))

    async def _check_parent(self, call: _Call, view: View) -> None:
        """Raises ApiError 404 or 410 if that is declared and what the records belong to is not
        there."""
        above = self.parent.rpartition("/")[0]
        status = _first_declared(view.operation, _ABSENT_STATUSES[:2])
        if status is None or not self.parent:
            return
        parameter = _names_of(self.parent, call.operation.path)[-1]
        key = str(plain_id(call.path[parameter]))
        if await call.state.get(_in_path(above, call), key) is None:
            error = replace(ERRORS["unknown_record"], status=status)
            raise reject(error, member=parameter, value=key)

    def _of_parents(
        self,
        call: _Call,
        view: View,
        new: Mapping[str, Any],
        kept: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """The body with the ids that its path has in front, in members with their names:
        ``ticketId`` or ``ticket_id`` of ``/tickets/{id}/comments``. What was sent goes before. If
        the path of the item has no such ids, they are those that were ``kept``."""
        declared = members(at_steps(view.declared, view.place))
        taken = {"id", self.identity, *members(at_steps(new, self.within))}
        by_words = {(*words(one),): one for one in reversed([*declared]) if one not in taken}
        is_posted = without_names(call.operation.path) == without_names(self.path)
        names = _names_of(self.base, call.operation.path)
        for found, own_name in zip(_PARAMETER.finditer(self.base), names, strict=True):
            parts = words(found[1])
            noun = nouns(self.base[: found.start()].rstrip("/"))
            ways = ((*parts,), (*noun, *parts), (*noun, *parts[-1:]), (*parts, "id"))
            name = next((by_words[one] for one in ways if one in by_words), None)
            if name is None:
                continue
            has_path = is_posted or not self.items
            value = call.path[own_name] if has_path else at_steps(kept, (*self.within, name))
            for one in () if value is None else as_ids(value):
                shown = view.example.body
                if is_valid(view.checker, placed(shown, (*view.place, name), one)):
                    new = placed(new, (*self.within, name), one)
                    break
        return new

    async def _put_new(self, call: _Call) -> Response:
        """A record with the id that the path has."""
        view = self._view_of(call, "replace", is_new=True)
        if not self.items:
            await self._check_parent(call, view)
        sent = self._sent(call, view, "replace", call.body)
        key = plain_id(call.path[self.parameter_of(call.operation)])
        number = await call.state.next_number(self.name(call))
        unique = str(uuid5(NAMESPACE_URL, f"{call.workspace.token}{self.name(call)}/{number}"))
        at = f"{call.base_url}{call.url}"
        for one in filter(view.may_have, as_ids(key)):
            found = await self._created(call, view, sent, one, number, unique, at)
            if found is not None:
                return found
        return _response(view, hints=(_NOT_KEPT,))

    async def _created(
        self,
        call: _Call,
        view: ListView,
        sent: Mapping[str, Any],
        key: Any,
        number: int,
        unique: str,
        at: str,
    ) -> Response | None:
        """Keep a new record with this id, whose URL is ``at``, empty if it has none; None if no
        response can have it."""
        showing, *_ = self.showing(call.contract, view, call.accept)
        new = showing.with_instants(sent, sent, call.timestamp)
        found = view.created(self._of_parents(call, showing, new), key, number, unique)
        if found is None:
            return None
        kept, body = found
        kept = self._completed(call, view, kept, sent)
        name = self.name(call)
        await call.state.put(name, str(key), kept)
        if not self.items:
            await self._note_below_parent(call, name, (*self.within, *self.key))
        hints = _hints(view.changed(sent, body))
        return _response(view, self._own(call, view, body), {"location": at}, hints)

    async def _note_below_parent(self, call: _Call, name: str, steps: Sequence[str]) -> None:
        """Note what is deleted with the record that this belongs to: the records of ``name``, whose
        ids are where ``steps`` lead."""
        if self.parent:
            above = _BELOW.format(_in_path(self.parent, call))
            noted = {"name": name, "items": self.name(call), "steps": [*steps]}
            await call.state.put(above, name, noted)

    def _view_of(self, call: _Call, what: str, *, is_new: bool = False) -> ListView:
        """That of an operation, in the media type that a client gets."""
        return self.view(call.contract, what, call.workspace.seed, call.accept, is_new=is_new)

    def _completed(
        self,
        call: _Call,
        view: View,
        kept: dict[str, Any],
        sent: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The record with what GET of it shows besides, so that all operations show the same.
        ``before`` is what it was, if it is not new."""
        if "get" not in self.operations:
            return kept
        other = self._view_of(call, "get")
        if other.schema == view.schema or (other.own_place is None and not other.is_part):
            return kept
        record = other.with_instants(kept, sent, call.timestamp, before)
        body = other.shown(record, before)
        return kept if body is None else other.kept(record, body, is_last=True)

    def _own(self, call: _Call, view: ListView, body: Any) -> Any:
        """The body without what other responses alone declare."""
        return view.with_own(body, *self._foreign(call, view))

    def _foreign(
        self, call: _Call, view: ListView, *, in_list: bool = False
    ) -> tuple[Foreign, Foreign]:
        """Members of the record, and at the top, that other responses declare and this one does
        not: what POST alone shows, such as a secret, is in no other response. Nor is what only
        requests declare, if a response declares anything else that is posted."""
        response = (view.operation.id, view.example.status, view.example.media_type)
        if response not in self._foreign_members:
            document, views = call.contract.document, self.views(call.contract, view.seed)
            sent = [*chain.from_iterable(self.posted_schemas(call.contract))]
            own = view.item_schemas if in_list else view.record_schemas
            others = [one.record_schemas for one in views]
            record = foreign(document, own, others, sent, self.key[0])
            above = [[one.schema] for one in views]
            top = {} if in_list else foreign(document, [view.schema], above, levels=0)
            self._foreign_members[response] = record, top
        return self._foreign_members[response]

    @cached_property
    def _foreign_members(self) -> dict[tuple[str, int, str], tuple[Foreign, Foreign]]:
        """What was found, by operation, status and media type: these are in the document."""
        return {}

    def _key(self, call: _Call) -> str:
        """The id in the path, or in the body if the path has none."""
        if name := self.parameter_of(call.operation):
            return str(plain_id(call.path[name]))
        found = at_steps(self.in_place(call.body, "replace"), (*self.within, *self.key))
        return "" if found is None else str(plain_id(found))


def _in_path(path: str, call: _Call) -> str:
    """A path with the parameters of a call, percent-encoded."""
    names = iter(_names_of(path, call.operation.path))
    return _PARAMETER.sub(lambda _: _as_segment(call.path.get(next(names))), path)


def _as_segment(value: Any) -> str:
    """A parameter in the path of a URL."""
    return quote(str(plain_id(value)), safe="")


@lru_cache
def _names_of(path: str, own: str) -> tuple[str, ...]:
    """What the parameters of a path are called in that of an operation, which may begin with the
    same path under other names: ``/users/{id}/orders`` and ``/users/{userId}/orders/{id}``."""
    begin = path[: path.rfind("}") + 1]
    is_same = without_names(own).startswith(without_names(begin))
    names = path_names(path)
    return (*path_names(own)[: len(names)],) if is_same else (*names,)


async def _delete_below(state: Transaction, item: str) -> None:
    """Delete the records that belong to an item, and those that belong to them."""
    above = _BELOW.format(item)
    for one in (await state.page(above)).records:
        for record in (await state.page(one["name"])).records:
            key = str(at_steps(record, one["steps"]))
            for name in dict.fromkeys((one["name"], one["items"])):
                await state.delete(name, key)
            await _delete_below(state, f"{one['items']}/{_as_segment(key)}")
        await state.delete(above, one["name"])


def _first_declared(operation: Operation, statuses: Sequence[int]) -> int | None:
    return next((one for one in statuses if operation.response_for(one) is not None), None)


def _hints(changed: Sequence[str]) -> tuple[str, ...]:
    """What is reported about members that are not kept as they were sent."""
    if not changed:
        return ()
    shown = ", ".join(f"'{short_name(one)}'" for one in changed[:_MOST_NAMED])
    return (f"the response cannot have {shown} as sent, so it has other values",)


def _response(
    view: View,
    body: Any = None,
    own: Mapping[str, Any] | None = None,
    hints: tuple[str, ...] = (),
) -> Response:
    """The body, or that of the example. Headers with URLs are those of ``own``, unless the contract
    requires one: an example has URLs of other servers. Others of ``own`` are as there, too."""
    example, own = view.example, own or {}
    wanted = {name: one for name, one in own.items() if one not in ("", None)}
    left_out = (_OF_AN_ADDRESS | own.keys()) - view.required_headers
    headers = {name: one for name, one in example.headers if name.lower() not in left_out}
    headers |= allowed_headers(view.contract, view.operation, example.status, wanted)
    if body is not None and has_write_only(view.contract):
        body = WriteOnly(view.contract.document).removed(body, [view.schema])
    if body is None and example.body is not None:
        body, hints = example.body, (*hints, _EXAMPLE)
    sent = (*headers.items(),)
    return Response(view.whole(body), sent, example.status, True, hints, example.media_type or None)
