"""The collections that a document implies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import takewhile
from typing import Any, Final

from invoice_sandbox.openapi.load.limitations import OWN_PAGES, hidden_paths
from invoice_sandbox.openapi.load.operations import path_names, without_names
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import NoResponseError, is_json
from invoice_sandbox.project.declared import outline
from invoice_sandbox.project.fitting import members
from invoice_sandbox.project.naming import is_envelope, is_new_id, nouns, words
from invoice_sandbox.project.page import COUNTS, MORE, plain
from invoice_sandbox.project.shape import TRIAL, given_example, request_schema
from invoice_sandbox.project.stateful import Collection, Handler
from invoice_sandbox.project.view import response_schema

_ITEM: Final = re.compile(r"(.*)/(\{[^}]*\})(\.\w+|/)?")
"""The path of an item: that of its collection, its parameter, and what it ends with."""
_IN_BRACKETS: Final = re.compile(r"(.*[^/])\([^()/]*\{\}[^()/]*\)")
_PARAMETER: Final = re.compile(r"\{[^}]+\}")
_Paths = Mapping[str, Mapping[str, Operation]]
"""Operations by method, by their path without the names of parameters: ``/users/{}``, as paths may
have other names for the same."""
_LISTED: Final = {"GET", "POST"}
_NOTHING: Final = "no path with POST has a path with one more parameter below it, or a list"
_ON_ITEM: Final = {"GET": "get", "PUT": "replace", "PATCH": "change", "DELETE": "delete"}

_MOST_ENVELOPES: Final = 2
"""How deep in a response a record may be."""
_ABOUT: Final = ("metadata", "meta", "sys")
"""Members of a record with an object about it, which may have its id."""


@dataclass(frozen=True)
class Inferred:
    """The collections of a document, and why operations that look like one are left out."""

    collections: tuple[Collection, ...] = ()
    left_out: tuple[str, ...] = ()

    def handlers(self) -> Iterator[tuple[str, Handler]]:
        """The handler of each operation of the collections, by its id."""
        for one in self.collections:
            yield from one.handlers().items()

    def lines(self) -> Iterator[str]:
        """For people: each collection, then what is left out."""
        yield from (f"Stateful {one}" for one in self.collections)
        yield from (f"Not stateful: {one}" for one in self.left_out)


def inferred(contract: Contract) -> Inferred:
    """The collections of a document. What is posted to one of them can be read back: each was
    tried with a generated body, once for a document."""
    paths, hidden = _served_paths(contract)
    collections, left_out, seen = list[Collection](), list[str](), set[str]()
    free = {path: {**on_all} for path, on_all in paths.items()}
    lists = [path for path in paths if _is_list_above(contract, paths, path)]
    for path in paths:
        kept_there, reasons = ([], []) if path in lists else _with_items(contract, free, path, seen)
        collections += kept_there
        left_out += reasons
        for used in _operations(contract, kept_there):
            free[without_names(used.path)].pop(used.method, None)
    left_out += _above_lists(paths, lists)
    ids = [*dict.fromkeys(("id", *(one.identity for one in collections)))]
    for path, on_all in free.items():
        if _ITEM.fullmatch(path) or path.rstrip("/") in seen or not on_all.keys() >= _LISTED:
            continue
        if path not in {without_names(one.path) for one in collections}:
            found, reasons = _list_alone(contract, on_all, ids)
            collections += [found] if found else []
            left_out += reasons
    left_out += [*_in_brackets(paths), *_of_all_parents(contract, paths, collections)]
    left_out += [*hidden, *_below_changes(contract, paths, collections)]
    left_out += [*_of_all_records(paths, collections), *_apart(paths, collections)]
    kept_lines = tuple(f"{it.method} {it.path}: " for it in _operations(contract, collections))
    first = dict[str, str]()
    for line in left_out:
        first.setdefault(line.partition(": ")[0], line)
    left_out = [line for line in first.values() if not line.startswith(kept_lines)]
    if not collections and not left_out:
        left_out.append(_NOTHING)
    single = _singletons(paths, {without_names(one.path) for one in collections})
    return Inferred(tuple(_with_parents(contract, collections)), (*left_out, *single))


def _served_paths(contract: Contract) -> tuple[_Paths, list[str]]:
    """The operations by method, by path, and a line for each path whose GET leads to a page of the
    sandbox, so that nothing could be read back there."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in contract.operations.values():
        known = paths.setdefault(without_names(operation.path), {})
        known.setdefault(operation.method, operation)
    hidden = {without_names(one) for one in hidden_paths(contract.document)}
    first = (next(iter(on_all.values())) for path, on_all in paths.items() if path in hidden)
    left_out = [f"{one.method} {one.path}: {OWN_PAGES}" for one in first]
    return {path: on_all for path, on_all in paths.items() if path not in hidden}, left_out


def _operations(contract: Contract, collections: Iterable[Collection]) -> list[Operation]:
    """Their operations."""
    return [contract.operations[it] for one in collections for it in one.operations.values()]


def _below(paths: _Paths, path: str) -> list[str]:
    """The paths of items of what is posted to a path."""
    every = map(_ITEM.fullmatch, paths)
    return [found[0] for found in every if found and found[1] == path.rstrip("/")]


def _is_list_above(contract: Contract, paths: _Paths, path: str) -> bool:
    """Whether a path is none of an item, though it looks like one: what is posted to it is listed
    there, and has items below it, as ``/snippets/{workspace}`` has ``/snippets/{workspace}/{id}``.
    """
    on_all = paths[path]
    if not _ITEM.fullmatch(path) or not on_all.keys() >= _LISTED or not _below(paths, path):
        return False
    get = on_all["GET"]
    is_usable = not _bodies(contract, get)[0]
    return is_usable and Collection(get.path, "", "id", {"page": get.id}).is_list(contract)


def _above_lists(paths: _Paths, lists: Iterable[str]) -> Iterator[str]:
    """A line for each POST to a path whose items would be at a path with a list of others."""
    for path in lists:
        base = path[: path.rindex("/{")]
        for post in (paths.get(one, {}).get("POST") for one in (base, f"{base}/")):
            if post is not None:
                get = paths[path]["GET"]
                yield f"POST {post.path}: GET {get.path} is a list and no item of it"


def _below_changes(
    contract: Contract, paths: _Paths, collections: Sequence[Collection]
) -> Iterator[str]:
    """A line for each path below a POST that changes an item, so that it makes nothing there."""
    used = {one.id for one in _operations(contract, collections)}
    for one in collections:
        change = contract.operations.get(one.operations.get("change", ""))
        if change is None or change.method != "POST":
            continue
        for path in _below(paths, without_names(change.path)):
            first = next(iter(paths[path].values()))
            if used.isdisjoint(it.id for it in paths[path].values()):
                yield f"{first.method} {first.path}: POST {change.path} is a change"


def _makes_below(contract: Contract, paths: _Paths, path: str) -> bool:
    """Whether a POST on the path of an item makes one of the items below it: it responds as they
    do, and with 201 or not as the item itself."""
    post, below = paths[path]["POST"], [paths[one].get("GET") for one in _below(paths, path)]
    made = _shown(contract, post) if any(below) else None
    is_new = "201" in post.responses or made != _shown(contract, paths[path].get("GET"))
    return made is not None and is_new and made in (_shown(contract, one) for one in below)


def _with_items(
    contract: Contract, paths: _Paths, path: str, seen: set[str]
) -> tuple[list[Collection], list[str]]:
    """The collections whose items have this path, and why there are none. ``seen`` are what paths
    of items begin with that are known, and gets its own."""
    parts, on_item = _ITEM.fullmatch(path), paths[path]
    if parts is None or parts[1] in seen or not on_item:
        return [], []
    base, extension, item = parts[1], parts[3] or "", _path_of(on_item)
    own_base = item[: item.rindex("/{")]
    ends = dict.fromkeys((extension, "/", "") if extension in {"", "/"} else (extension,))
    known = [base + end for end in ends if base + end in paths] or [base + extension]
    above = next((one for one in known if "POST" in paths.get(one, {})), known[0])
    on_all = paths.get(above, {})
    is_put = "PUT" in on_item and ("GET" in on_item or "GET" in on_all)
    elsewhere = [] if "POST" in on_all else _elsewhere(contract, paths, own_base + extension, path)
    if not ("POST" in on_all or is_put or elsewhere):
        return [], []
    if not elsewhere and on_item.keys() == {"GET"} and "POST" in on_all:
        filtered = _filtered(contract, on_item["GET"], on_all["POST"])
        if filtered:
            return [], [filtered]
    seen.add(base)
    wanted = {what: on_item.get(method) for method, what in _ON_ITEM.items()}
    unused = _unused_post(on_item)
    if "POST" in on_item and not unused and not _makes_below(contract, paths, path):
        wanted["change"] = on_item["POST"]
    main = _path_of(on_all) if on_all else own_base + extension
    one = Collection(main, path_names(item)[-1], "id", {}, extension=extension)
    every, reasons = list[Collection](), list[str]()
    for at in elsewhere:
        made = {"create": paths[at]["POST"], "page": paths[at].get("GET")}
        others = {} if every else {"every": on_all.get("GET"), **wanted}
        moved = replace(one, path=_path_of(paths[at]), items=own_base)
        found, why = _collection(contract, moved, {**made, **others})
        every += [found] if found else []
        reasons += why if found else []
    if not every:
        wanted["replace"] = wanted["replace"] or on_all.get("PUT")
        made = {"create": on_all.get("POST"), "page": on_all.get("GET")}
        found, reasons = _collection(contract, one, {**made, **wanted})
        every += [found] if found else []
    return every, [*reasons, *([f"POST {item}: {unused}"] if every and unused else [])]


def _filtered(contract: Contract, get: Operation, post: Operation) -> str:
    """Why the records that GET lists are not known by the last parameter of its path, if that is a
    member that is posted, and they have another id or are counted; else nothing:
    ``/comments/{postId}``."""
    reason, bodies = _bodies(contract, get)
    items = [] if reason else _listed(bodies)
    parameter = words(path_names(get.path)[-1])
    sent = members(outline(contract.document, request_schema(contract, post)))
    names = {name for name in sent if words(name) == parameter}
    beside = {plain(name) for body in bodies for name in members(body)}
    is_page = not beside.isdisjoint(COUNTS | MORE)
    like = [it for it in items if names & members(it).keys()]
    if not any(is_page or "id" in members(it) for it in like) or "id" in names:
        return ""
    return f"GET {get.path}: it lists the records by '{min(names)}', which is not their id"


def _path_of(operations: Mapping[str, Operation]) -> str:
    """Their path: of several that differ in names of parameters only, the first one."""
    return next(iter(operations.values())).path


def _elsewhere(contract: Contract, paths: _Paths, base: str, item: str) -> list[str]:
    """The paths with POST whose items have paths below ``base``, without what they belong to:
    ``/articles/{articleId}/comments`` of ``/comments/{id}``. Both respond with the same schema."""
    end, names = f"/{base.rpartition('/')[2]}", {*path_names(base)}
    like = [
        path
        for path, operations in paths.items()
        if path.endswith(end)
        and "POST" in operations
        and {*path_names(operations["POST"].path)} > names
    ]
    shown = _shown(contract, paths[item].get("GET")) if like else None
    if shown is None:
        return []
    known = {one.rpartition("/")[0] for one in paths if _ITEM.fullmatch(one)}
    return [
        path
        for path in like
        if path not in known and _shown(contract, paths[path]["POST"]) == shown
    ]


def _shown(contract: Contract, operation: Operation | None) -> Any:
    """The schema of the JSON that an operation responds with, if it declares members; otherwise the
    names of those of its example, if there are any."""
    reason, bodies = ("", ()) if operation is None else _bodies(contract, operation)
    if operation is None or reason:
        return None
    if not members(bodies[1]):
        return {*members(bodies[0])} or None
    return response_schema(operation, given_example(contract, operation, TRIAL))


def _list_alone(
    contract: Contract, on_all: Mapping[str, Operation], ids: Iterable[str]
) -> tuple[Collection | None, list[str]]:
    """The collection of what is posted to a list whose items have no path, if there is one, and
    why there is none. ``ids`` are members that may have the id of a record."""
    wanted = {"create": on_all["POST"], "page": on_all["GET"]}
    if any(_bodies(contract, it)[0] for it in wanted.values()):
        return None, []
    one = Collection(_path_of(on_all), "", "id", {"page": wanted["page"].id})
    if not one.is_list(contract):
        return None, []
    known = (replace(one, identity=name) for name in ids)
    return _collection(contract, next((it for it in known if it.has_list(contract)), one), wanted)


def _with_parents(contract: Contract, collections: Sequence[Collection]) -> Iterator[Collection]:
    """The collections, with the items of others that their records belong to. Those of which the
    document only has a PUT that changes them may be there without it."""
    known = {without_names(one.item_base) for one in collections if one.makes_records(contract)}
    for one in collections:
        ends = [found.end() for found in _PARAMETER.finditer(one.base)]
        above = (one.base[:end] for end in reversed(ends) if end < len(one.base))
        parents = (it for it in above if without_names(it).removesuffix("/{}") in known)
        yield replace(one, parent=next(parents, ""))


def _in_brackets(paths: _Paths) -> Iterator[str]:
    """A line for each path of items as OData has them: ``/products({id})`` of ``/products``."""
    for path, operations in paths.items():
        parts = _IN_BRACKETS.fullmatch(path)
        if parts and "POST" in paths.get(parts[1], {}):
            first = next(iter(operations.values()))
            yield f"{first.method} {first.path}: items of OData are not inferred"


def _of_all_parents(
    contract: Contract, paths: _Paths, collections: Sequence[Collection]
) -> Iterator[str]:
    """A line for each list at ``/comments`` of what is kept for each article."""
    used = {name for one in collections for name in one.operations.values()}
    for path, operations in paths.items():
        get, end = operations.get("GET"), f"/{path.rpartition('/')[2]}"
        if get is None or get.id in used or _ITEM.fullmatch(path):
            continue
        like = (one for one in collections if one.base.endswith(end))
        below = [one for one in like if {*path_names(one.base)} > {*path_names(get.path)}]
        items = [members(it) for it in _listed(_bodies(contract, get)[1])] if below else []
        if any(one.key[0] in it for one in below for it in items):
            yield f"GET {get.path}: the records of {below[0].path} are kept for each parent"


def _of_all_records(paths: _Paths, collections: Sequence[Collection]) -> Iterator[str]:
    """A line for each operation that could change or delete a collection as a whole."""
    for path in dict.fromkeys(without_names(one.path) for one in collections):
        for method, operation in paths.get(path, {}).items():
            if method in {"PUT", "PATCH", "DELETE"}:
                yield f"{method} {operation.path}: it is not about one record"


def _apart(paths: _Paths, collections: Sequence[Collection]) -> Iterator[str]:
    """A line for each path of items that are called like those of a collection without such a path,
    and show another schema: ``/meetings/{id}`` of ``/users/{userId}/meetings``."""
    alone = [one for one in collections if not (one.parameter or one.items)]
    for path, on_item in paths.items():
        parts, first = _ITEM.fullmatch(path), next(iter(on_item.values()), None)
        if parts is None or first is None:
            continue
        end, names = f"/{parts[1].rpartition('/')[2]}", {*path_names(parts[1])}
        like = (it for it in alone if it.base.endswith(end) and {*path_names(it.base)} > names)
        for one in [*like][:1]:
            yield f"{first.method} {first.path}: it does not show what POST {one.path} does"


def _singletons(paths: _Paths, collections: Set[str]) -> Iterator[str]:
    """A line about paths whose GET shows what their own PUT or PATCH changes, if there are any."""
    found = [
        f"{method} {operations[method].path}"
        for path, operations in paths.items()
        for method in ("PUT", "PATCH")
        if method in operations and "GET" in operations
        if path not in collections and not _ITEM.fullmatch(path)
    ]
    if found:
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"{found[0]}{others}: the last segment of the path is no id"


def _unused_post(on_item: Mapping[str, Operation]) -> str:
    """Why a POST on the path of an item does not change it; empty if it does, or there is none."""
    if "POST" not in on_item:
        return ""
    if "GET" not in on_item:
        return "it is no change of a record: the path has no GET"
    other = next((one for one in ("PATCH", "PUT") if one in on_item), None)
    return f"it is no change of a record: the path has {other} for that" if other else ""


def _collection(
    contract: Contract, one: Collection, declared: Mapping[str, Operation | None]
) -> tuple[Collection | None, list[str]]:
    """The collection of these operations, if there is one, and why some are left out."""
    wanted = {what: it for what, it in declared.items() if it is not None}
    reasons, bodies = dict[str, str](), dict[str, Sequence[Any]]()
    for what, operation in wanted.items():
        reason, bodies[what] = _bodies(contract, operation)
        reasons |= {what: reason} if reason else {}
    usable = {what: one for what, one in wanted.items() if what not in reasons}
    whole = replace(one, operations={what: it.id for what, it in usable.items()})
    if "create" in usable and _takes_several(contract, one, usable["create"], bodies):
        reasons["create"] = "it takes several records"
        usable.pop("create")
    creator = "create" if "create" in wanted else "replace"
    shown = [it for what in usable for it in bodies[what]]
    wanted_name = one.parameter or one.identity
    names = _identities(shown, one.base, wanted_name)
    sent = outline(contract.document, request_schema(contract, wanted[creator]))
    others = [it for what in usable if what not in {"page", "every"} for it in bodies[what]]
    called = (members(it).items() for it in others)
    like = [it for some in called for name, it in some if nouns(name) == nouns(one.base)]
    items = _listed(it for it in (*others, *like) if isinstance(it, list))
    if wanted_name not in names and any(wanted_name in members(it) for it in (*items, sent)):
        names = [wanted_name, *names]
    about = [
        ((place,), name)
        for place in _ABOUT
        for name in _identities([members(it).get(place) for it in shown], one.base, wanted_name)
    ]
    if not names and not about and creator in usable:
        names = _identities([*_listed(shown), sent], one.base, wanted_name)
        names = names or [name for it in shown for name in members(it) if is_new_id(name)]
    in_record: list[tuple[tuple[str, ...], str]] = [((), name) for name in names]
    is_called = wanted_name in {name for _, name in about} and wanted_name not in names
    places = [*about, *in_record] if is_called else [*in_record, *about]
    places = places or [((), "id")]
    every = [replace(whole, identity=name, below=below) for below, name in places]
    found, record, reason = _best(contract, every if creator in usable else [])
    reasons |= {creator: reason} if reason else {}
    if found is not None:
        lacking = ((what, found.lacks(contract, what, record)) for what in usable)
        reasons |= {what: reason for what, reason in lacking if reason}
    lines = [f"{it.method} {it.path}: {reasons[w]}" for w, it in wanted.items() if w in reasons]
    if found is None:
        return None, lines[:1]
    operations = {what: it for what, it in whole.operations.items() if what not in reasons}
    is_seen = not operations.keys().isdisjoint({"get", "page"})
    if not is_seen and (creator == "replace" or not wanted.keys().isdisjoint({"get", "page"})):
        return None, lines[:1]
    return (replace(found, operations=operations) if len(operations) > 1 else None), lines


def _takes_several(
    contract: Contract, one: Collection, create: Operation, bodies: Mapping[str, Sequence[Any]]
) -> bool:
    """Whether a list is posted, or an object of which one member is a list of records, and the
    others are none of a record's, or of which the only member is a list called like them; or one
    with a list called like a member of the record: ``emails`` of what has an ``email``."""
    sent = outline(contract.document, request_schema(contract, create))
    if isinstance(sent, list):
        return True
    lists = [name for name, each in members(sent).items() if isinstance(each, list)]
    if len(members(sent)) == len(lists) == 1 and nouns(lists[0]) == nouns(one.base):
        return True
    got = [members(body) for body in bodies.get("get", ())]
    known = [*got, *(inner for body in got if len(body) == 1 for inner in body.values())]
    records = [{*members(it)} for it in (*known, *_listed(bodies.get("page", ())))]
    known_names = {name for it in records for name in it}
    for name, each in members(sent).items():
        first = next(iter(each), None) if isinstance(each, list) else None
        item, is_called = {*members(first)}, nouns(name) == nouns(one.base)
        is_plain = len(item) > 1 or len(members(sent)) == 1
        whole = [it for it in records if it >= item and (is_called or is_plain)]
        like = [*whole, *(it for it in records if it == item)]
        if item and any(it.isdisjoint(members(sent)) for it in like):
            return True
        is_of_many = isinstance(first, str) and name not in known_names and nouns(name) != ["id"]
        if is_of_many and nouns(name) in map(words, known_names):
            return True
    return False


def _best(
    contract: Contract, candidates: Iterable[Collection]
) -> tuple[Collection | None, dict[str, Any], str]:
    """The first one that keeps a record with an id of the type that the path has, otherwise the
    first one that keeps a record; and this record. If there is none, the reason."""
    found, reason = list[tuple[Collection, dict[str, Any]]](), ""
    for one in candidates:
        try:
            found.append(_tried(contract, one))
        except NoResponseError as error:
            reason = reason or str(error)
            continue
        if found[-1][0].has_type(contract, found[-1][1]):
            return *found[-1], ""
    return (*found[0], "") if found else (None, {}, reason)


def _tried(contract: Contract, one: Collection) -> tuple[Collection, dict[str, Any]]:
    """The collection with its place in responses, and a record. Raises NoResponseError."""
    whole = replace(one, within=one.place(contract))
    whole = replace(whole, wrapped=whole.wrappers(contract))
    return whole, whole.first(contract)


def _bodies(contract: Contract, operation: Operation) -> tuple[str, Sequence[Any]]:
    """Why an operation cannot show a record, or nothing; the body of its response, and all that its
    schema declares."""
    try:
        given = given_example(contract, operation, TRIAL)
    except NoResponseError as error:
        return f"it returns 501 ({error})", ()
    if given.status >= HTTPStatus.BAD_REQUEST:
        return "it declares errors only", ()
    if given.body is not None and not is_json(given.media_type):
        return f"its response is {given.media_type}, not JSON", ()
    return "", (given.body, outline(contract.document, response_schema(operation, given)))


def _listed(bodies: Iterable[Any]) -> list[Any]:
    """The first items of the lists that bodies are, or have."""
    lists = [it for one in bodies for it in (one, *members(one).values())]
    return [one[0] for one in lists if isinstance(one, list) and one]


def _identities(bodies: Sequence[Any], base: str, parameter: str) -> list[str]:
    """The members that may have a record's id: called as the parameter, or like it, then ``id``.

    ``issue_number`` is ``number``, ``petId`` is ``id``, and of ``/consents/{id}`` it may be
    ``consentId``.
    """
    levels = last = [members(one) for one in bodies]
    for _ in range(_MOST_ENVELOPES):
        last = [
            members(one)
            for level in last
            for name, one in level.items()
            if len(level) == 1 or is_envelope(name, () if "id" in level else nouns(base))
        ]
        levels = [*levels, *last]
    found = dict.fromkeys(name for level in levels for name in level)
    parts = [*takewhile(lambda one: one != "or", words(parameter))]
    by_words = {(*words(name),): name for name in reversed(found)}
    wanted = [(*parts[start:],) for start in range(len(parts))]
    if parts == nouns(base):  # it is called like the record, and not like its id
        wanted, parts = [(*parts,), (*parts, "id")], ["id"]
    for every in (parts, [*nouns(base), *parts]):
        like = [one for one in by_words if one[-1:] == (*every[-1:],) and _is_among(one, every)]
        wanted += sorted(like, key=len, reverse=True)
    names = [by_words[one] for one in (*wanted, ("id",)) if one in by_words]
    if any(parameter in members(one) for one in bodies):
        return [parameter]
    return [*dict.fromkeys([parameter, *names] if parameter in found else names)]


def _is_among(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether ``some`` are among the others, in their order."""
    left = iter(others)
    return all(one in left for one in some)
