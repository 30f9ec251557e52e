"""What a document shows of a collection: where operations have the record, and its id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha512
from itertools import chain
from typing import Any, Final
from unicodedata import combining, normalize
from uuid import NAMESPACE_URL, uuid5

from invoice_sandbox.openapi.load.operations import path_names
from invoice_sandbox.openapi.load.pointers import at_pointer, dereference
from invoice_sandbox.openapi.message.parameters import Parameter
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import (
    WITHOUT_BODY,
    Choice,
    ContractResponse,
    NoResponseError,
    allowed_headers,
    contract_response,
    is_json,
    json_type,
)
from invoice_sandbox.openapi.schema.annotations import OF_THE_CLIENT
from invoice_sandbox.project.declared import (
    WriteOnly,
    files_of,
    keywords_at,
    outline,
    schemas_at,
)
from invoice_sandbox.project.fitting import at_steps, members, placed
from invoice_sandbox.project.lists import ListView
from invoice_sandbox.project.naming import (
    as_ids,
    is_envelope,
    is_text,
    nouns,
    plain_id,
    singular,
    words,
)
from invoice_sandbox.project.view import View, generated

_NO_UUID: Final = "00000000-0000-0000-0000-000000000000"
_NAMES: Final = frozenset({"slug", "name", "key", "login", "handle"})
"""Last words of members whose values people read: they are made of what was posted."""
_TITLES: Final = ("name", "title", "displayName", "display_name")
_USUAL_LETTERS: Final = 24
_MOST_LETTERS: Final = 64
"""Letters of an id that is a text of any length: by default, and at most."""
_MOST_SAMPLES: Final = 8
"""How many ids are generated for a schema."""
_MOST_EXAMPLES: Final = 64
"""How many responses of contracts are kept for the next request."""


@dataclass(frozen=True)
class Shape:
    """A collection: what is posted to ``path``.

    ``operations`` are the ids of its operations by what they do: create, page, get, replace,
    change, delete, and every: a list of the records of all parents. ``identity`` is the
    member with a record's id, ``parameter`` the parameter of its path, for which operations may
    have other names; empty: records are in the list only. ``within`` are the members of a body that
    lead to the record, such as ``("data",)``; empty: the body is the record.
    ``below`` are the members of the record that lead to the object with its id, such as
    ``("metadata",)``; empty: the record has it.
    ``extension`` is what paths of items end with, such as ``.json`` or a slash. ``parent`` is the
    path of the items of another collection that the records belong to, such as ``/pets/{petId}``,
    with the names that parameters have in ``path``; empty: they belong to none.
    ``items`` is what paths of its items begin with if that is not ``path``: ``/comments`` of what
    is posted to ``/articles/{articleId}/comments``.
    ``wrapped`` is the member of a request that has the record, by what the operation does, where it
    is not as in ``within``: ``{"create": "group"}`` if ``{"group": {...}}`` is posted and the
    response is the group.
    """

    path: str
    parameter: str
    identity: str
    operations: Mapping[str, str]
    within: Sequence[str] = ()
    below: Sequence[str] = ()
    extension: str = ""
    parent: str = ""
    items: str = ""
    wrapped: Mapping[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        """Its path, without what paths of items end with."""
        return self.path.removesuffix(self.extension).rstrip("/")

    @property
    def item_base(self) -> str:
        """What paths of its items begin with."""
        return self.items or self.base

    @property
    def creator(self) -> str:
        """What makes records: POST, otherwise PUT."""
        return "create" if "create" in self.operations else "replace"

    @property
    def key(self) -> tuple[str, ...]:
        """The members of a record that lead to its id."""
        return *self.below, self.identity

    def makes_records(self, contract: Contract) -> bool:
        """Whether its items have paths, and none is there that was not made here."""
        if not self.parameter:
            return False
        responses = contract.operations[self.operations[self.creator]].responses
        return self.creator == "create" or "201" in responses

    def parameter_of(self, operation: Operation) -> str:
        """The parameter with a record's id in the path of an operation, which may call it as no
        other does; empty: the path has none."""
        names = path_names(operation.path)[len(path_names(self.item_base)) :]
        return names[0] if names else ""

    def __str__(self) -> str:
        """For people: the path, the member with the id, and what is done by which operation."""
        done = ", ".join(f"{name} ({what})" for what, name in self.operations.items())
        return f"{self.path}: records by '{'.'.join((*self.within, *self.key))}': {done}"

    def place(self, contract: Contract) -> tuple[str, ...]:
        """What ``within`` is by the responses of its operations."""
        places = (one.own_place for one in self.views(contract, TRIAL))
        return next((one for one in places if one is not None), ())

    def wrappers(self, contract: Contract) -> dict[str, str]:
        """What ``wrapped`` is by the requests of its operations: a member with an object that has
        members of the record, is alone or called like the record or as envelopes are. A request
        that has members of the record itself has none."""
        views = self.views(contract, TRIAL)
        places = [(view, view.own_place) for view in views if view.own_place is not None]
        shown = {one for view, at in places for one in members(at_steps(view.declared, at))}
        found = dict[str, str]()
        for what in [one for one in _WITH_BODY if one in self.operations]:
            operation = contract.operations[self.operations[what]]
            declared = members(_taken(contract, operation))
            has_place = bool(self.within) and isinstance(at_steps(declared, self.within), Mapping)
            if has_place or not shown.isdisjoint(declared):
                continue
            like = (name for name, one in declared.items() if not shown.isdisjoint(members(one)))
            names = [one for one in like if len(declared) == 1 or is_envelope(one, views[0].names)]
            found |= {what: names[0]} if names else {}
        return found

    def first(self, contract: Contract) -> dict[str, Any]:
        """A record of a generated body, as it is kept.

        Raises NoResponseError if no client would know its id.
        """
        view = self.view(contract, self.creator, TRIAL, is_new=True)
        schema = request_schema(contract, view.operation)
        sent = self.in_place(generated(contract, schema, TRIAL), self.creator)
        declared = self.in_place(_taken(contract, view.operation), self.creator)
        is_sent = at_steps(declared, (*self.within, *self.key)) is not None
        unique = str(uuid5(NAMESPACE_URL, self.path))
        is_put = self.creator == "replace"
        keys = self._asked(view) if is_put else self.ids(view, sent, 1, unique)
        created = (view.created(sent, key, 1, "") for key in keys)
        found = next((one for one in created if one is not None), None)
        if found is not None:
            kept, body = found
            if is_sent or view.own_place is not None or self._is_found(view, body):
                return kept
        name = ".".join(self.key)
        if not view.example.body:
            raise NoResponseError(f"no response shows the '{name}' of a new record")
        raise NoResponseError(f"its response has no '{name}' that can be new")

    def _is_found(self, view: View, body: Any) -> bool:
        """Whether a client finds the id of a record if POST declares no member: in the body, in a
        ``Location``, or in the list."""
        if view.own_place is None and view.example.body is not None and view.id_place is not None:
            return True
        if self.creator == "replace":
            return True
        wanted = {"location": f"http://localhost{self.item_base}/1"}
        headers = allowed_headers(view.contract, view.operation, view.example.status, wanted)
        if at_steps(body, (*view.place, *self.key)) is not None or any(headers):
            return True
        if "page" not in self.operations:
            return False
        if view.is_note or view.is_part:
            return self.has_list(view.contract)
        return self.view(view.contract, "page", TRIAL).list_place is not None

    def is_list(self, contract: Contract) -> bool:
        """Whether its page is a list of what is posted."""
        return self.view(contract, "page", TRIAL).is_list

    def has_list(self, contract: Contract) -> bool:
        """The same, and its items have the member with the id."""
        return self.view(contract, "page", TRIAL).is_list_with_id

    def lacks(self, contract: Contract, what: str, kept: Mapping[str, Any]) -> str:
        """Why an operation cannot show a record; empty if it can."""
        view = self.view(contract, what, TRIAL)
        name = ".".join(self.key)
        if what == "replace" and not self.parameter_of(view.operation):
            declared = _taken(contract, view.operation)
            if at_steps(self.in_place(declared, what), (*self.within, *self.key)) is None:
                return f"its path has no id, and its body no '{name}'"
        if what in {"page", "every"}:
            is_shown = view.lists(kept) and (bool(self.parameter) or view.is_list_with_id)
            is_shown = is_shown or view.example.body is None
        else:
            has_record = view.own_place is not None or view.is_part
            is_shown = has_record and view.shown(kept) is not None
            is_shown = is_shown or not view.example.body or (what != "get" and view.is_note)
        if is_shown or what in {self.creator, "delete"}:
            return ""
        return f"its response cannot have a record with '{name}'"

    def ids(self, view: View, sent: Any, number: int, unique: str) -> Iterator[Any]:
        """Ids for a record, the best first: what was sent, a name, something unique, a number."""
        record = members(at_steps(sent, self.within))
        posted = plain_id(at_steps(record, self.key))
        wanted = [] if _is_none(posted) else [*as_ids(posted)] if is_text(posted) else [posted]
        if _NAMES.intersection(words(self.identity)[-1:]):
            titles = (_slug(record[one]) for one in _TITLES if isinstance(record.get(one), str))
            noun = singular(self.base.rpartition("/")[2])
            title = next(filter(None, titles), None)
            wanted += [title, f"{title}-{number}"] if title else [f"{noun}-{number}"]
        showing = self.showing(view.contract, view)
        shown = showing[0]
        lists = self._only_lists(view.contract, showing)
        others = self._others(shown, unique, number)
        for one in chain(wanted, (unique, number, str(number)), others):
            is_able = all(any(map(each.may_have, as_ids(one))) for each in showing)
            is_able &= all(it.lists(placed({}, (*self.within, *self.key), one)) for it in lists)
            if view.may_have(one) and is_able and self.is_in_path(view.contract, one):
                yield one

    def _others(self, shown: View, unique: str, number: int) -> Iterator[Any]:
        """Ids for schemas that do not allow the usual ones, which most do."""
        bounds = self._bounds(shown.contract, shown)
        yield from _new(f"{unique}/{number}", bounds, self._samples(shown, number))

    def _bounds(self, contract: Contract, shown: View) -> tuple[int, int]:
        """How long the text of an id is at least and at most, by a response and by its paths."""
        document, place = contract.document, (*shown.place, *shown.identity)
        paths = (at_pointer(document, one.schema_pointer) for one in self._in_paths(contract))
        schemas = [(shown.schema, place), *((one, ()) for one in paths)]
        least, most = (
            [it for schema, at in schemas for it in keywords_at(document, schema, at, keyword)]
            for keyword in ("minLength", "maxLength")
        )
        return max(least, default=0), min(most, default=_MOST_LETTERS)

    def _samples(self, shown: View, number: int) -> Iterator[Any]:
        """Ids that are generated for the schemas of a response and of the paths of items."""
        contract = shown.contract
        pointers = dict.fromkeys(one.schema_pointer for one in self._in_paths(contract))
        schemas = [at_pointer(contract.document, one) for one in pointers]
        for attempt in range(_MOST_SAMPLES):
            seed = f"{number}/{attempt}" if attempt else str(number)
            yield shown.sampled(seed)
            yield from (generated(contract, one, f"{shown.seed}/{seed}") for one in schemas)

    def _in_paths(self, contract: Contract) -> Iterator[Parameter]:
        """The parameter with the id of a record of each operation on its path."""
        items = [name for what, name in self.operations.items() if what not in {"create", "page"}]
        for operation in map(contract.operations.__getitem__, items):
            for one in operation.parameters:
                if (one.location, one.name) == ("path", self.parameter_of(operation)):
                    yield one

    def _only_lists(self, contract: Contract, showing: Sequence[View]) -> list[ListView]:
        """The lists that show the id of a record, if no other response does."""
        if "page" not in self.operations or any(one.id_place is not None for one in showing):
            return []
        page = self.view(contract, "page", TRIAL)
        return [page] if page.is_list_with_id else []

    def _asked(self, view: View) -> Iterator[Any]:
        """An id that the path may have, as the response may have it."""
        for one in view.operation.parameters:
            if (one.location, one.name) == ("path", self.parameter_of(view.operation)):
                schema = at_pointer(view.contract.document, one.schema_pointer)
                yield from filter(view.may_have, as_ids(generated(view.contract, schema, TRIAL)))

    def has_type(self, contract: Contract, kept: Mapping[str, Any]) -> bool:
        """Whether the id of a record is of the type that the path has, not a number as text."""
        key = at_steps(kept, (*self.within, *self.key))
        return self.is_in_path(contract, key, (key, str(key)))

    def is_in_path(self, contract: Contract, key: Any, values: Sequence[Any] = ()) -> bool:
        """Whether the path of an item can have this id, as one of these values."""
        values = values or (*as_ids(key),)
        parameters = self._in_paths(contract)
        return all(any(map(one.checker.is_valid, values)) for one in parameters)

    def in_place(self, body: Any, what: str) -> dict[str, Any]:
        """What was sent to do that, with the record where bodies of the collection have it."""
        sent, place = dict(members(body)), self.place_of(body, what)
        if place == (*self.within,):
            return sent
        record = sent.pop(*place) if place else sent
        around = sent if place and self.within else {}
        return {**members(placed(around, self.within, record))}

    def place_of(self, body: Any, what: str) -> tuple[str, ...]:
        """Where what was sent to do that has the record."""
        places = ((self.wrapped.get(what, ""),), (*self.within,))
        return next((one for one in places if isinstance(at_steps(body, one), Mapping)), ())

    def posted_schemas(self, contract: Contract) -> Iterator[list[Any]]:
        """The schemas of the record in the requests of each of its operations."""
        for what in [one for one in _WITH_BODY if one in self.operations]:
            operation = contract.operations[self.operations[what]]
            for media in content_of(contract, operation).values():
                schema = media.get("schema", True)
                sent = outline(contract.document, schema)
                if not isinstance(sent, list):  # as a JSON Patch is
                    yield schemas_at(contract.document, schema, self.place_of(sent, what))

    def _posted(self, contract: Contract) -> frozenset[str]:
        """The members of a record that its creation takes, without its id."""
        if self.creator not in self.operations:
            return frozenset()
        operation = contract.operations[self.operations[self.creator]]
        sent = self.in_place(_taken(contract, operation), self.creator)
        return frozenset(members(at_steps(sent, self.within)).keys() - {self.key[0]})

    def view(
        self,
        contract: Contract,
        what: str,
        seed: int | str,
        accept: str = "",
        *,
        is_new: bool = False,
    ) -> ListView:
        operation = contract.operations[self.operations[what]]
        status = _status(operation, what, is_new=is_new)
        media_type = _preferred_type(operation, status, accept)
        example = given_example(contract, operation, seed, status, media_type)
        if example.status in WITHOUT_BODY:
            example = replace(example, body=None, media_type="")
        within, names = (*self.within,), nouns(self.base)
        posted = self._posted(contract)
        view = ListView(contract, operation, within, self.key, names, example, seed, posted)
        if what not in {"page", "every"}:
            view = view.of_item
            example = view.example
        if not has_write_only(contract):
            return view
        shown = WriteOnly(contract.document).removed(example.body, [view.schema])
        return replace(view, example=replace(example, body=shown))

    def views(self, contract: Contract, seed: int | str, accept: str = "") -> list[View]:
        """Those of its operations that may have the record."""
        known = (what for what in _WITH_RECORD if what in self.operations)
        return [self.view(contract, what, seed, accept) for what in known]

    def showing(self, contract: Contract, view: View, accept: str = "") -> list[View]:
        """The views that have the record: the given one first, then those of other operations."""
        views = [view, *self.views(contract, view.seed, accept)]
        parts = [one for one in views if one.is_part]
        return [one for one in views if one.own_place is not None] or parts or [view]


_WITH_BODY: Final = ("create", "replace", "change")
_WITH_RECORD: Final = ("create", "get", "replace", "change")
TRIAL: Final = "stateful"
"""The seed of responses before there is a workspace."""


def request_schema(contract: Contract, operation: Operation) -> Any:
    """The schema of the JSON that an operation takes; false if it takes none."""
    content = content_of(contract, operation)
    media = next((one for name, one in content.items() if is_json(name)), {"schema": False})
    return media.get("schema", True)


@lru_cache(maxsize=_MOST_EXAMPLES)
def _taken(contract: Contract, operation: Operation) -> Any:
    """The outline of the JSON that an operation takes."""
    return outline(contract.document, request_schema(contract, operation))


def content_of(contract: Contract, operation: Operation) -> Mapping[str, Any]:
    """The Media Type Objects of what an operation takes, by media type."""
    item = dereference(contract.document, contract.document["paths"][operation.path])
    raw = item[operation.method.lower()].get("requestBody", {})
    content: Mapping[str, Any] = dereference(contract.document, raw).get("content", {})
    return content


@lru_cache(maxsize=_MOST_EXAMPLES)
def uploaded(contract: Contract, operation: Operation) -> frozenset[str]:
    """The members of the forms that an operation takes that are files."""
    forms = content_of(contract, operation).items()
    schemas = [one.get("schema") for name, one in forms if name.startswith("multipart/")]
    return frozenset[str]().union(*(files_of(contract.document, one) for one in schemas))


def has_write_only(contract: Contract) -> bool:
    """Whether a member of any schema is ``writeOnly``."""
    return contract.schemas.not_required == OF_THE_CLIENT


def _new(unique: str, bounds: tuple[int, int], samples: Iterable[Any]) -> Iterator[Any]:
    """Values for an id that schemas may allow where they do not allow the usual ones: a text as
    long as it has to be, and ``samples``, first with more letters at the end."""
    letters = sha512(unique.encode()).hexdigest()
    length = max(bounds[0], min(_USUAL_LETTERS, bounds[1]))
    yield (letters * (length // len(letters) + 1))[:length]
    for one in samples:
        if isinstance(one, str):
            yield one + letters[:_USUAL_LETTERS]
        yield one


def _is_none(key: Any) -> bool:
    """Whether an id that was posted means that there is none yet, as clients of ASP.NET do it."""
    return key in {None, 0, "", _NO_UUID} if isinstance(key, str | int | None) else False


def _slug(text: str) -> str:
    """``Café Lunch!`` as ``cafe-lunch``."""
    plain = "".join(one for one in normalize("NFKD", text.lower()) if not combining(one))
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64]


@lru_cache(maxsize=_MOST_EXAMPLES)
def given_example(
    contract: Contract,
    operation: Operation,
    seed: int | str,
    status: int | None = None,
    media_type: str | None = None,
) -> ContractResponse:
    """The response of an operation by its contract, without any record; in a media type that it
    declares, if one is given. Raises NoResponseError."""
    return contract_response(contract, operation, seed, Choice(status, accept=media_type))


def _preferred_type(operation: Operation, status: int | None, accept: str) -> str | None:
    """The JSON media type that an ``Accept`` header chooses, if it is not the usual one."""
    key = operation.success
    response = operation.responses.get(key) if status is None else operation.response_for(status)
    if response is None or len(response.content) == 1 or not accept:
        return None
    found = json_type(response, accept)
    return None if found == json_type(response) else found


def _status(operation: Operation, what: str, *, is_new: bool) -> int | None:
    """The status of a success if it is not the first one that is declared: PUT makes a record with
    201, and changes one with another status."""
    if what != "replace" or "201" not in operation.responses:
        return None
    others = (one for one in operation.responses if one.isdigit() and one.startswith("2"))
    return 201 if is_new else next((int(one) for one in others if one != "201"), None)
