"""Changes what is invalid in a document, so that everything else can be served.

Each change is a Note with its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from copy import deepcopy
from itertools import islice, pairwise
from typing import Any, Final

from invoice_sandbox.openapi.load.model import (
    DOCUMENT,
    METHODS,
    OBJECTS,
    ONE_OF,
    SCHEMA,
    Node,
    Pointer,
    node,
    walk,
    word_for,
)
from invoice_sandbox.openapi.load.operations import NOT_SERVED, Draft, Note, subject
from invoice_sandbox.openapi.load.pointers import ContractError, dereference, followed
from invoice_sandbox.openapi.load.repair import ANY_CONTENT, BEARER
from invoice_sandbox.openapi.load.validate import Invalid


def take_out(draft: Draft, found: Iterable[Invalid]) -> bool:
    """Change a document so that it can be served without what was ``found``, with a note of each
    change; whether anything could be done.

    A value of another type is read as the type that it should have, if it plainly means a value of
    it; null as if it were not there. What has to be there and can be taken for granted is added. A
    member that cannot be there, and what is for people only, is left out. Of a schema nothing is
    checked. A header is left out, and a response that the operation can do without. Otherwise the
    operation, or the component, is left out, or the member itself.
    """
    notes = list[Note]()
    for wrong in sorted(found, key=_indexes)[::-1]:  # the last item of a list first
        around = list(_around(node(draft.document), wrong.pointer))
        pointers = [one.pointer for one in around]
        is_done = any(note.pointer in pointers for note in notes)
        if len(around) > len(wrong.pointer) and not is_done:
            notes += _without(draft, around, wrong)
    draft.add(notes)
    return bool(notes)


def _indexes(wrong: Invalid) -> list[int]:
    return [step if isinstance(step, int) else -1 for step in wrong.pointer]


def _without(draft: Draft, around: list[Node], wrong: Invalid) -> Iterator[Note]:
    """Leave out, or replace, the smallest part that can be; ``around`` leads to the place."""
    place = around[-1]
    slips = list(_corrected(around))
    if slips:
        yield from slips
        return
    default = _DEFAULTS.get((place.type, wrong.missing))
    if default is not None:
        place.value[wrong.missing] = deepcopy(default)
        text = f"'{wrong.missing}' is missing, and taken as {json.dumps(default)}"
        yield Note(place.pointer, text)
        return
    meant = _meant(around, wrong.types)
    if meant is not None:
        yield _replaced(draft, place, meant, f"read as {_shown(meant)}: {wrong.text}")
        return
    if wrong.is_extra or _is_optional(around, wrong):
        done = f"operation {NOT_SERVED}" if place.type == "operation" else "is ignored: "
        yield _left_out(draft, place, f"{_name(place)}this {done}{wrong.text}")
        return
    unknown = _unknown_member(around)
    if unknown is not None:
        yield _left_out(draft, unknown, f"{_name(unknown)}this is ignored: {wrong.text}")
        return
    yield from islice(_around_it(draft, around, wrong), 1)


def _around_it(draft: Draft, around: list[Node], wrong: Invalid) -> Iterator[Note]:
    """The same for each part around the place, the smallest first: one is enough."""
    alternatives = _alternatives(draft.document)
    for above, here in reversed([*pairwise((node(None), *around))]):
        if above.type == SCHEMA and _is_independent(above.value, here):
            yield _without_keyword(draft, above, here, wrong)
        elif _may_be_anything(above, here) and here.value != {}:
            word = word_for(here.type.strip("[]"))
            draft.loosen(here.pointer)
            yield _replaced(draft, here, {}, f"this {word} is not checked: {wrong.text}")
        elif here.type == "requestBody" and here.value != _ANYTHING:
            text = f"this requestBody is not checked: {wrong.text}"
            yield _replaced(draft, here, _ANYTHING, text)
        elif here.type == "securityScheme" and not _is_of_connections(here.value):
            text = f"this securityScheme is read as HTTP bearer: {wrong.text}"
            yield _replaced(draft, here, BEARER, text)
        elif here.type == "[{[scope]}]" and alternatives:
            text = f"any declared security scheme is required: {wrong.text}"
            yield _replaced(draft, here, alternatives, text)
        elif _is_left_out_alone(here, above):
            word = "this parameter" if here.type == "parameter" else "this"
            yield _left_out(draft, here, f"{_name(here)}{word} is ignored: {wrong.text}")
        elif here.type in {"operation", "pathItem"} or _is_component(here):
            word = word_for(here.type)
            done = "is ignored: " if word == "part" else f"{word} {NOT_SERVED}"
            yield _left_out(draft, here, f"{_name(here)}this {done}{wrong.text}")
    if around[-1].pointer:
        yield _left_out(draft, around[-1], f"this is ignored: {wrong.text}")


def _without_keyword(draft: Draft, schema: Node, here: Node, wrong: Invalid) -> Note:
    if here.pointer[-1] not in _ANNOTATIONS:
        draft.loosen(schema.pointer)
    return _left_out(draft, here, f"this schema is read without '{here.pointer[-1]}': {wrong.text}")


def _may_be_anything(above: Node, here: Node) -> bool:
    """Whether a schema is or has to be there, which in a schema may be a list of them, or the only
    media type."""
    is_list = here.type == "[schema]" and above.type != SCHEMA
    return here.type == SCHEMA or is_list or (here.type == "mediaType" and len(above.value) == 1)


def _unknown_member(around: Sequence[Node]) -> Node | None:
    """The member that OpenAPI does not know around a reference, if there is one."""
    place = around[-1].value
    if not isinstance(place, dict) or "$ref" not in place:
        return None
    inside = (here for above, here in pairwise(around) if above.type in OBJECTS)
    return next((here for here in inside if here.type == "other"), None)


_ANYTHING: Final[Mapping[str, Any]] = {"content": ANY_CONTENT}
"""A requestBody that may be missing, or have any content."""
_EMPTY: Final[Mapping[str, Any]] = {"default": {"description": ""}}
"""Responses of which nothing is known."""
_DEFAULTS: Final[Mapping[tuple[str, str], Any]] = {
    (DOCUMENT, "info"): {"title": "Untitled", "version": "0"},
    (DOCUMENT, "paths"): {},
    ("info", "title"): "Untitled",
    ("info", "version"): "0",
    ("operation", "responses"): _EMPTY,
    ("<response>", "default"): _EMPTY["default"],
    ("response", "description"): "",
    ("requestBody", "content"): ANY_CONTENT,
}
"""What stands for a member that has to be there, by the type of its object."""


def _is_independent(schema: Any, here: Node) -> bool:
    """Whether a schema without this keyword of its own allows all that it allowed, as no other of
    its keywords depends on it."""
    is_alone = here.type != SCHEMA and here.pointer[-1] in _ALONE
    return is_alone and not any(str(one).startswith("unevaluated") for one in schema)


_ALONE: Final = frozenset(
    {
        *("type", "enum", "format", "pattern", "required", "discriminator", "xml", "items"),
        *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf"),
        *("maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxContains"),
        *("maxProperties", "minProperties", "dependentRequired", "default", "examples"),
        *("readOnly", "writeOnly", "contentEncoding", "contentMediaType"),
    }
)
"""Keywords that others do not need to have: ``additionalProperties`` needs ``properties``."""


_ANNOTATIONS: Final = frozenset(
    {
        *("discriminator", "xml", "default", "examples", "readOnly", "writeOnly"),
        *("contentEncoding", "contentMediaType"),
    }
)
"""Those of them without which a schema allows no more."""


def _is_dispensable(above: Node, here: Node) -> bool:
    """Whether an operation can do without a response: not without its only one, or its only
    success."""
    others = [str(one) for one in above.value if one != here.pointer[-1]]
    is_error = str(here.pointer[-1]).startswith(("4", "5"))
    return any(is_error or one.startswith(("2", "3")) for one in others)


def _corrected(around: list[Node]) -> Iterator[Note]:
    """Add what a parameter, a server or a security scheme around the place lacks."""
    for here in around:
        correct = _CORRECTIONS.get(here.type)
        if correct is not None and isinstance(here.value, dict) and "$ref" not in here.value:
            yield from (Note(here.pointer, text) for text in correct(here.value))


def _completed(value: dict[str, Any]) -> Iterator[str]:
    """Add what a parameter or header has to have and can be taken for granted; what was added."""
    place = str(value.get("in", "header")).lower()
    if place in _PLACES and value.get("in", place) != place:
        yield f"{value.get('name')}: 'in: {value['in']}' is read as '{place}'"
        value["in"] = place
    if value.get("in") == "path" and value.get("required") is not True:
        value["required"] = True
        yield f"{value.get('name')}: a parameter in the path must have 'required: true', read so"
    if place in _PLACES and not {"schema", "content"} & value.keys():
        value["schema"] = {}
        yield f"{value.get('name', 'this header')}: it has no 'schema', and is not checked"


_PLACES: Final = ("path", "query", "header", "cookie")


def _with_variables(server: dict[str, Any]) -> Iterator[str]:
    """Take the first value of its ``enum`` for a variable without a default, and leave out a
    variable without one that is no part of the URL; what was done."""
    found = server.get("variables")
    variables = found if isinstance(found, dict) else {}
    for name, value in [*variables.items()]:
        variable = value if isinstance(value, dict) else {}
        first = next(iter(_list(variable.get("enum"))), None)
        if variable.get("default") is None and f"{{{name}}}" not in str(server.get("url")):
            del variables[name]
            yield f"{name}: this variable is no part of the URL, and ignored"
        elif variable.get("default") is None and isinstance(first, str):
            variable["default"] = first
            yield f"{name}: 'default' is missing, and taken as {json.dumps(first)}"


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _with_its_type(scheme: dict[str, Any]) -> Iterator[str]:
    """Write a security scheme as OpenAPI has it, where that is plain; what was changed."""
    before = dict(scheme)
    named = str(scheme.get("type", "")).lower()
    shown = next((type_ for member, type_ in _SHOWS_TYPE.items() if member in scheme), None)
    type_ = _TYPES.get(named, shown if named in {"", "none"} else None)
    if type_ is not None:
        scheme["type"] = type_
    if named in {"basic", "bearer"}:
        scheme["scheme"] = named
    place = str(scheme.get("in", "header")).lower()
    if type_ == "apiKey" and place in {"header", "query", "cookie"}:
        scheme["in"] = place
    for member, value in _TAKEN.get(type_ or "", {}).items():
        scheme.setdefault(member, deepcopy(value))
    for member in [one for one in scheme if before.get(one) != scheme[one]]:
        yield f"this securityScheme is read with '{member}' as {json.dumps(scheme[member])}"


def _alternatives(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Security requirements that each security scheme of a document satisfies alone."""
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    return [{name: []} for name in schemes] if isinstance(schemes, dict) else []


def _is_of_connections(scheme: Any) -> bool:
    """Whether it is of the type that OpenAPI 3.0 does not have, and that is not checked here."""
    return isinstance(scheme, dict) and scheme.get("type") == "mutualTLS"


_TYPES: Final = {
    **{one.lower(): one for one in ("apiKey", "http", "oauth2", "openIdConnect", "mutualTLS")},
    **dict.fromkeys(("basic", "bearer"), "http"),
}
"""Types of security schemes, also of Swagger 2, by their names in small letters."""

_SHOWS_TYPE: Final = {
    "flows": "oauth2",
    "openIdConnectUrl": "openIdConnect",
    "scheme": "http",
    "name": "apiKey",
}
"""The type of a security scheme without one, by a member that only this type has."""

_TAKEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "http": {"scheme": "bearer"},
    "oauth2": {"flows": {}},
}
"""Members that a security scheme of a type has to have, with what stands for them."""

_CORRECTIONS: Final[Mapping[str, Callable[[dict[str, Any]], Iterator[str]]]] = {
    "parameter": _completed,
    "header": _completed,
    "server": _with_variables,
    "securityScheme": _with_its_type,
}
"""By the type of an object: change it to what is plainly meant, and say what was changed."""


def _meant(around: Sequence[Node], types: Sequence[str]) -> Any:
    """The value of one of these types that the last value, of another one, plainly means, or
    None."""
    here = around[-1]
    match here.value:
        case str() if "boolean" in types or here.type == SCHEMA:
            return _BOOLEANS.get(here.value.lower())
        case [] if here.type[0] in "{<" and here.type != "{[scope]}":
            is_of_request = here.type == "{mediaType}" and around[-2].type == "requestBody"
            return deepcopy(ANY_CONTENT) if is_of_request else {}
    return None if any(one.type == SCHEMA for one in around) else _of_type(around, types)


def _of_type(around: Sequence[Node], types: Sequence[str]) -> Any:
    """The same where no schema is around."""
    here = around[-1]
    match here.value:
        case None if len(around) > 1 and around[-2].type in _NAMED_ONLY:
            return deepcopy(_NAMED_ONLY[around[-2].type])
        case list() if here.type == "{example}":
            return {str(number): _as_example(one) for number, one in enumerate(here.value, 1)}
        case dict() if here.type == "<response>" and not here.value:
            return deepcopy(_EMPTY)
        case str() if here.type == "server":
            return {"url": here.value}
        case str() if here.type == "{[scope]}":
            return {here.value: []}
        case bool() | int() | float() | dict() if here.type == "[scope]":
            return []
        case str() | dict() if "array" in types:
            return [here.value]
        case bool() | int() | float() if "string" in types:
            return json.dumps(here.value)
    return None


def _as_example(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) and "value" in value else {"value": value}


def _shown(value: Any) -> str:
    """JSON, if that is not long."""
    text = json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


_MOST_SHOWN: Final = 80


_NAMED_ONLY: Final[Mapping[str, Any]] = {
    "<response>": {},
    "{header}": {},
    "{mediaType}": {},
    "{[scope]}": [],
}
"""Maps in which null stands for a value of which no more than the name is known."""

_BOOLEANS: Final = dict.fromkeys(("true", "yes", "on"), True) | dict.fromkeys(
    ("false", "no", "off"), False
)
"""What texts mean: YAML 1.1 has all of them as booleans, YAML 1.2 the first ones."""


def _is_component(here: Node) -> bool:
    return len(here.pointer) == _COMPONENT and here.pointer[0] not in {"servers", "security"}


def _name(here: Node) -> str:
    """``GET /orders: `` for an operation, ``/orders: `` for a path and its other members."""
    match here.type, here.pointer:
        case "parameter", _:
            return f"{subject(here.pointer)}: ".removeprefix(": ")
        case "operation", (*_, path, method):
            return f"{str(method).upper()} {path}: "
        case "other", ("paths", path, str() as method) if _is_like_an_operation(method, here):
            return f"{method.upper()} {path}: "
        case "pathItem", (*_, path):
            return f"{path}: " if path else "'': "
        case _, ("paths", path, _):
            return f"{path}: "
    return ""


def _is_like_an_operation(name: str, here: Node) -> bool:
    """Whether a member of a path may be that of a method of another version of OpenAPI."""
    return isinstance(here.value, dict) and name.isalpha() and name not in _FOR_PEOPLE


def _is_left_out_alone(here: Node, above: Node) -> bool:
    """Whether a member of a map, or an item of a list, can be left out and the others kept."""
    if _is_component(here) or here.type in _NEEDED or above.type[0] not in "{[<":
        return here.type in _UNUSED
    if above.type == "<response>":
        return _is_dispensable(above, here)
    return above.type not in _NEVER_EMPTY or len(above.value) > 1


_UNUSED: Final = frozenset(
    {"link", "callback", "example"}
    | {"{link}", "{callback}", "{example}", "{header}", "{encoding}"}
)
"""What a response or request can do without, wherever it is."""
_NEEDED: Final = frozenset({"operation", "pathItem", "variable", SCHEMA})
"""What cannot be left out of a map or list without a change to what the rest means."""
_NEVER_EMPTY: Final = frozenset({"{mediaType}", "[{[scope]}]"})
"""Maps and lists that mean something else, or nothing, when they are empty."""
_COMPONENT: Final = 3
"""The length of the pointer to a component."""


def _around(here: Node, pointer: Pointer) -> Iterator[Node]:
    """Every value on the way to a place, as far as there is one."""
    yield here
    for step in pointer:
        children = {str(key): child for key, child in here.children()}
        if str(step) not in children:
            return
        here = children[str(step)]
        yield here


def _is_optional(around: Sequence[Node], wrong: Invalid) -> bool:
    """Whether the last place is null, as if it were not there, or is for people: it changes nothing
    that is served."""
    members = [(one.type, below.pointer[-1]) for one, below in pairwise(around)]
    if wrong.types and around[-1].value is None and members[-1][0] in OBJECTS:
        return True
    return any(
        type_ == "info"
        or (type_ in OBJECTS and member in _FOR_PEOPLE)
        or (type_, member) == ("variable", "enum")
        for type_, member in members
    )


_FOR_PEOPLE: Final = frozenset(
    {"summary", "description", "title", "deprecated", "tags", "externalDocs", "$comment"}
)


def _left_out(draft: Draft, here: Node, text: str) -> Note:
    """Leave out what is there; if something has to be, what can be taken for granted stands for
    it."""
    *_, above = _around(node(draft.document), here.pointer[:-1])
    default = _DEFAULTS.get((above.type, str(here.pointer[-1])))
    if default is not None and here.value is not None:
        return _replaced(draft, here, default, text)
    draft.leave_out(here.pointer)
    return Note(here.pointer, text)


def _replaced(draft: Draft, here: Node, value: Any, text: str) -> Note:
    draft.replace(here.pointer, value)
    return Note(here.pointer, text)


def tolerate(draft: Draft) -> None:
    """Change schemas that would reject what was valid, as a part of them allows more now, however
    deep: of alternatives a value may satisfy several, and what is negated, or a condition, is not
    checked."""
    loosened = draft.loosened()
    loose = _with_what_needs_them(draft.document, loosened) if loosened else frozenset[int]()
    for here in walk(node(draft.document)) if loosened else ():
        if not here.is_schema or id(here.value) not in loose:
            continue
        for name in [one for one in ("not", "if") if id(here.value.get(one)) in loose]:
            del here.value[name]
        alternatives = here.value.get("oneOf")
        if isinstance(alternatives, list) and not loose.isdisjoint(map(id, alternatives)):
            of_any = {"anyOf": here.value.pop("oneOf"), ONE_OF: True}
            others = here.value.get("allOf", [])
            here.value.update({"allOf": [*others, of_any]} if "anyOf" in here.value else of_any)


def _with_what_needs_them(document: Mapping[str, Any], schemas: Iterable[Any]) -> Set[int]:
    """The identities of these schemas, and of all that they are a part of, or that refer to such a
    schema."""
    around = dict[int, list[int]]()
    for here in walk(node(document)):
        if here.type in _OF_SCHEMAS:
            for child in here.containers():
                around.setdefault(id(child.value), []).append(id(here.value))
            if here.reference is not None:
                with suppress(ContractError):
                    named = dereference(document, here.value)
                    around.setdefault(id(named), []).append(id(here.value))
    found, waiting = set[int](), [id(one) for one in schemas]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += around.get(one, ())
    return found


_OF_SCHEMAS: Final = frozenset({SCHEMA, f"[{SCHEMA}]", f"{{{SCHEMA}}}"})


def last_words(draft: Draft) -> list[Note]:
    """The notes without those about a place of which nothing is left, and a later note says so."""
    gone, around = set[Pointer](), set[Pointer]()
    found: list[Note] = []
    for note in reversed(draft.notes):
        above = [note.pointer[:length] for length in range(len(note.pointer) + 1)]
        if not _is_anything(draft, note.pointer):
            if note.pointer in around or not gone.isdisjoint(above):
                continue
            gone.add(note.pointer)
            around.update(above)
        found.append(note)
    return found[::-1]


def of_references(document: Mapping[str, Any], notes: Sequence[Note]) -> Iterator[Note]:
    """What ``notes`` say of an operation that is left out, for each path that refers to its path
    item."""
    texts = {one.pointer: one.text.partition(": ")[2] for one in notes}
    for path, item in document.get("paths", {}).items():
        for place, referred in [*followed(document, item)][-1:]:
            for method in METHODS:
                if method not in referred and (*place, method) in texts:
                    text = f"{method.upper()} {path}: {texts[*place, method]}"
                    yield Note(("paths", path, method), text)


def _is_anything(draft: Draft, pointer: Pointer) -> bool:
    now = draft.now(pointer)
    places = [] if now is None else [*_around(node(draft.document), now)]
    return len(places) > len(pointer) and places[-1].value != []
