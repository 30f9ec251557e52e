"""The members that a schema declares, a few levels deep, whatever an example shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final

from invoice_sandbox.openapi.load.pointers import ContractError, dereference
from invoice_sandbox.openapi.schema.annotations import OF_THE_CLIENT, Mark
from invoice_sandbox.openapi.schema.canonical import matches

_DEEPEST: Final = 8
_LEVELS_OF_FOREIGN: Final = 3
_MOST: Final = 100
_PARTS: Final = ("allOf", "oneOf", "anyOf")

Document = Mapping[str, Any]


def outline(document: Document, schema: Any, levels: int = 3) -> Any:
    """A value with every declared member: an object, a list with one item, or the format of a
    value, ``""`` without one."""
    return _outline(_Same(document), (_Same(_named(document, schema)),), levels)


def schemas_at(document: Document, schema: Any, steps: Sequence[str]) -> list[Any]:
    """The schemas of the member that these names lead to."""
    found = [schema]
    for one in steps:
        found = _members(document, found).get(one, [])
    return found


Foreign = Mapping[str, Any]
"""Members that a response does not show, with None; and those in others of its members, by name."""


def foreign(
    document: Document,
    own: Sequence[Any],
    others: Sequence[Sequence[Any]],
    sent: Sequence[Any] = (),
    key: str = "",
    levels: int = _LEVELS_OF_FOREIGN,
) -> Foreign:
    """The members that the ``own`` schemas of a response do not declare, if they declare any, but
    those of ``others`` do; also what only requests declare, which are ``sent``, if a response
    declares anything that they have, but for the ``key``. Those of a list are in its items."""
    parts = [[*_objects(document, one)] for one in (own, sent, *others)]
    names, posted, *rest = map(_names_of, parts)
    declared = names.union(*rest)
    is_shown = not declared.isdisjoint(posted - {key})
    every = declared | posted if is_shown else declared
    found: dict[str, Any] = dict.fromkeys(every - names) if names else {}
    members = [*map(_members_of, parts)]
    for name in members[0] if levels else ():
        inner, inner_sent, *inner_rest = (one.get(name, []) for one in members)
        below = foreign(document, inner, inner_rest, inner_sent, levels=levels - 1)
        found |= {name: below} if below else {}
    return found


def _objects(
    document: Document, schemas: Sequence[Any], levels: int = _LEVELS_OF_FOREIGN
) -> Iterator[Mapping[str, Any]]:
    """The parts of schemas of an object, or of the items of a list."""
    parts = [*_every(document, schemas)]
    items = [part["items"] for part in parts if "items" in part]
    yield from _objects(document, items, levels - 1) if items and levels else parts


def _names_of(parts: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The members that the parts of a schema declare by their names; none if they declare others,
    too, by a pattern or a schema for all."""
    is_open = any("patternProperties" in part for part in parts)
    is_open |= any(isinstance(part.get(one), Mapping) for part in parts for one in _OTHERS)
    return frozenset() if is_open else frozenset(_members_of(parts))


def items_of(document: Document, schema: Any) -> Any:
    """The schema of the items of a list; None if it has none."""
    return next((part["items"] for part in _parts(document, schema) if "items" in part), None)


def files_of(document: Document, schema: Any) -> frozenset[str]:
    """The members of a form that are files, or lists of files."""
    return frozenset(
        name
        for name, declared in _members(document, [schema]).items()
        if any(_is_file(part) or _is_file(part.get("items")) for part in _every(document, declared))
    )


def _every(document: Document, schemas: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    return chain.from_iterable(_parts(document, one) for one in schemas)


def _is_file(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (
        schema.get("format") == "binary" or "contentMediaType" in schema
    )


def keywords_at(document: Document, schema: Any, steps: Sequence[str], keyword: str) -> list[Any]:
    """The values of a keyword in the schemas of the member that these names lead to."""
    found = schemas_at(document, schema, steps)
    parts = (part for one in found for part in _parts(document, one))
    return [part[keyword] for part in parts if keyword in part]


def required_at(
    document: Document, schema: Any, steps: Sequence[str], known: Set[str] = frozenset()
) -> frozenset[str]:
    """The members that the object that these names lead to has to have. Of alternatives, those
    count that declare most of the ``known`` members: it is one of them."""
    parts = [
        part for one in schemas_at(document, schema, steps) for part in _like(document, one, known)
    ]
    lists = (part.get("required") for part in parts)
    return frozenset(name for one in lists if isinstance(one, list) for name in one)


def marked_at(document: Document, schema: Any, steps: Sequence[str], mark: Mark) -> frozenset[str]:
    """The members with ``mark`` of the object that these names lead to."""
    return _marked(document, schemas_at(document, schema, steps), mark)


class WriteOnly:
    """Removes what schemas of a document declare as ``writeOnly``, such as passwords."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._known: dict[tuple[int, ...], _Inside] = {}

    def removed(self, value: Any, schemas: Sequence[Any], shown: Sequence[Any] = ()) -> Any:
        """``value`` without the members that one of its ``schemas`` declares so, at any depth,
        unless those of a response, ``shown``, declare them."""
        if not schemas or not isinstance(value, Mapping | list):
            return value
        inside, other = self._inside(schemas, value), self._inside(shown, value)
        if isinstance(value, list):
            own, shown = ([*one.each, *one.items] for one in (inside, other))
            is_hidden = self._is_hidden(inside.each) and not shown
            return [self.removed(one, own, shown) for one in value if not is_hidden]
        return {
            name: self.removed(one, inside.of(name), other.of(name))
            for name, one in value.items()
            if other.named(name)
            or (other.others and not inside.named(name))
            or not self._is_hidden(inside.of(name))
        }

    def _is_hidden(self, schemas: Sequence[Any]) -> bool:
        return any(_has_mark(self._document, one, OF_THE_CLIENT) for one in schemas)

    def _inside(self, schemas: Sequence[Any], value: Any) -> _Inside:
        """``value`` is one that the schemas allow: of alternatives, those count that it can be."""
        like = (_parts_like(self._document, one, value) for one in schemas)
        parts = [*islice(chain.from_iterable(like), _MOST)]
        key = (*map(id, parts),)
        if key not in self._known:
            patterns = [part.get("patternProperties", {}) for part in parts]
            self._known[key] = _Inside(
                _members_of(parts),
                [(name, one) for some in patterns for name, one in some.items()],
                [part[one] for part in parts for one in _OTHERS if one in part],
                [part[one] for part in parts for one in _EACH if one in part],
                [one for part in parts for one in part.get("prefixItems", ())]
                + [part["contains"] for part in parts if "contains" in part],
            )
        return self._known[key]


_OTHERS: Final = ("additionalProperties", "unevaluatedProperties")
"""Keywords with the schema of other members."""
_EACH: Final = ("items", "unevaluatedItems")
"""Keywords with the schema of all items, or of those without another."""
_CONDITIONAL: Final = ("then", "else")
"""Keywords with a schema that some values satisfy."""


@dataclass(frozen=True)
class _Inside:
    """The schemas of ``members``, of those whose names have ``patterns``, of those with ``others``
    names, of ``each`` item, and of single ``items``."""

    members: Mapping[str, Sequence[Any]]
    patterns: Sequence[tuple[str, Any]]
    others: Sequence[Any]
    each: Sequence[Any]
    items: Sequence[Any]

    def named(self, name: str) -> Sequence[Any]:
        """The schemas of the member with this name, if it is declared."""
        like = [one for pattern, one in self.patterns if matches(pattern, name)]
        return [*self.members.get(name, ()), *like]

    def of(self, name: str) -> Sequence[Any]:
        """The schemas of the member with this name."""
        return self.named(name) or self.others


@dataclass(frozen=True, eq=False)
class _Same:
    """A part of a document, which equals itself only: parts are large, and the same ones often."""

    value: Any

    def __eq__(self, other: object) -> bool:
        """Whether it is the very same part."""
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        """That of an object."""
        return id(self.value)


@lru_cache(maxsize=4096)
def _outline(
    document: _Same, schemas: Sequence[_Same], levels: int, *, in_list: bool = False
) -> Any:
    """``schemas`` are no references, so that several references to one are outlined once. A list
    takes no level, unless it is ``in_list``: a list of itself has an end."""

    def below(these: Sequence[Any], levels: int, *, in_list: bool = False) -> Any:
        named = (*(_Same(_named(document.value, one)) for one in these),)
        return _outline(document, named, levels, in_list=in_list)

    values = [one.value for one in schemas]
    members = _members(document.value, values) if levels else {}
    if members:
        return {name: below(one, levels - 1) for name, one in members.items()}
    parts = [part for one in values for part in _parts(document.value, one)]
    items = [part["items"] for part in parts if "items" in part]
    if items and levels:
        return [below(items, levels - in_list, in_list=True)]
    return next((part["format"] for part in parts if isinstance(part.get("format"), str)), "")


def _named(document: Document, schema: Any) -> Any:
    """What a schema refers to; itself, if it refers to nothing that there is."""
    with suppress(ContractError):
        return dereference(document, schema)
    return schema


def _members(document: Document, schemas: Sequence[Any]) -> dict[str, list[Any]]:
    return _members_of(_every(document, schemas))


def _members_of(parts: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in parts:
        for name, one in part.get("properties", {}).items():
            found.setdefault(name, []).append(one)
    return found


def _marked(document: Document, schemas: Sequence[Any], mark: Mark) -> frozenset[str]:
    return frozenset(
        name
        for name, declared in _members(document, schemas).items()
        if any(_has_mark(document, one, mark) for one in declared)
    )


def _has_mark(document: Document, schema: Any, mark: Mark, levels: int = _DEEPEST) -> bool:
    """Whether the schema, what it refers to, or what holds for all of its values has the mark, or
    for all but null."""
    if isinstance(schema, Mapping) and schema.get(mark) is True:
        return True
    parts = [*_parts(document, schema, _PARTS[:1])]
    lists = [part[keyword] for part in parts for keyword in _PARTS[1:] if keyword in part]
    every = [[one for one in few if not _is_null(_named(document, one))] for few in lists]
    return any(part.get(mark) is True for part in parts) or any(
        few and levels and all(_has_mark(document, one, mark, levels - 1) for one in few)
        for few in every
    )


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") in ("null", ["null"])


def _like(document: Document, schema: Any, known: Set[str]) -> list[Mapping[str, Any]]:
    """The parts of a schema without those alternatives that declare fewer known members."""
    found = [*_parts(document, schema, _PARTS[:1])]
    for keyword in _PARTS[1:]:
        for part in found[:]:
            every = [one for one in part.get(keyword, []) if isinstance(one, Mapping)]
            likeness = [len(known & _members(document, [one]).keys()) for one in every]
            for one, how_like in zip(every, likeness, strict=True):
                if how_like == max(likeness):
                    found += _parts(document, one)
    return found


def _parts_like(document: Document, schema: Any, value: Any) -> Iterator[Mapping[str, Any]]:
    """The parts of a schema without those alternatives whose constants are not those of the value,
    unless that is true of all; of one that is its own alternative, without end."""
    own = [*_parts(document, schema, _PARTS[:1])]
    yield from own
    for part in own:
        for one in (*map(part.get, _CONDITIONAL), *part.get("dependentSchemas", {}).values()):
            yield from _parts_like(document, one, value)
    for every in [part[keyword] for part in own for keyword in _PARTS[1:] if keyword in part]:
        like = [one for one in every if not _is_another(document, one, value)] or every
        for one in like:
            yield from _parts_like(document, one, value)


def _is_another(document: Document, schema: Any, value: Any) -> bool:
    """Whether a member of the value is none of the constants that a schema has for it."""
    declared = _members_of(_parts(document, schema, _PARTS[:1]))
    return isinstance(value, Mapping) and any(
        value[name] not in (part["enum"] if "enum" in part else [part["const"]])
        for name, schemas in declared.items()
        if name in value
        for part in chain.from_iterable(_parts(document, one, _PARTS[:1]) for one in schemas)
        if "const" in part or "enum" in part
    )


def _parts(
    document: Document, schema: Any, keywords: Sequence[str] = _PARTS
) -> Iterator[Mapping[str, Any]]:
    """The schema and what it is composed of, up to a number that no usual schema reaches."""
    return islice(_all_parts(document, schema, keywords, 0), _MOST)


def _all_parts(
    document: Document, schema: Any, keywords: Sequence[str], depth: int
) -> Iterator[Mapping[str, Any]]:
    try:
        found = dereference(document, schema)
    except ContractError:
        return
    if not isinstance(found, Mapping) or depth > _DEEPEST:
        return
    yield found
    for keyword in keywords:
        for one in found.get(keyword, []):
            yield from _all_parts(document, one, keywords, depth + 1)
