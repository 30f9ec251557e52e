"""Changes a document where it would keep everything else from being served.

Each change is a Note with its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from itertools import islice, pairwise
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs

from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.load.model import (
    DOCUMENT,
    METHODS,
    OBJECTS,
    SCHEMA,
    Node,
    Pointer,
    members_of,
    node,
    operations,
    walk,
    word_for,
)
from invoice_sandbox.openapi.load.operations import (
    Note,
    named_operations,
    operation_id,
    path_names,
    subject,
)
from invoice_sandbox.openapi.load.pointers import (
    ContractError,
    dereference,
    followed,
    identified,
    steps_of,
)
from invoice_sandbox.openapi.load.validate import (
    DRAFT_2020_12,
    Invalid,
    dialect,
    meant_version,
)


def whole_version(document: Any) -> Iterator[Note]:
    """Write the version of OpenAPI in full."""
    if not isinstance(document, dict):
        return
    for written in [one for one in document if str(one).lower() == "openapi"][:1]:
        if written != "openapi":
            document["openapi"] = document.pop(written)
            yield Note((written,), f"{written} is read as 'openapi'")
    version = document.get("openapi")
    meant = meant_version(version)
    is_whole = isinstance(version, str) and re.fullmatch(r"3\.\d+\.\d+", version)
    if meant is not None and not is_whole:
        document["openapi"] = meant
        yield Note(("openapi",), f"{version} is read as OpenAPI {document['openapi']}")


def correct_names(start: Node, *, is_30: bool) -> Iterator[Note]:
    """Change a document or a part of it: a name in capitals or small letters becomes the one that
    is meant, so that what is below it is read as what it is.

    A schema may have a member of any name, but for OpenAPI 3.0.
    """
    for here in walk(start):  # which looks at the members of an object after this
        names = _names(here.type) if is_30 or here.type != SCHEMA else {}
        if not names or not isinstance(here.value, dict) or _is_only_a_reference(here):
            continue
        for written in list(here.value):
            meant = names.get(str(written).lower())
            if meant is not None and meant not in here.value:
                here.value[meant] = here.value.pop(written)
                yield Note((*here.pointer, written), f"{written} is read as '{meant}'")


@cache
def _names(type_: str) -> Mapping[str, str]:
    """The names that the objects of a type know, by the same in small letters."""
    statuses = ("1XX", "2XX", "3XX", "4XX", "5XX", "default")
    known = statuses if type_ == "<response>" else members_of(type_)
    return {one.lower(): one for one in known}


def _is_only_a_reference(here: Node) -> bool:
    return here.reference is not None and here.type != "pathItem"


def repair(document: dict[str, Any]) -> tuple[Note, ...]:
    """Change ``document`` where it would keep everything else from being served; what, and where.

    A duplicate name in ``required`` or value in ``enum`` is removed. A pattern that is no regular
    expression as ECMA-262 and Rust have them is left out, and so is a dialect that is not known. A
    security scheme that is declared nowhere is not required. The names of operations without an
    operationId that are numbered are noted, too. A reference is written as a URI. Extensions among
    paths or responses, which mean nothing here, are left out unnoted. Blanks around a path mean
    nothing.
    """
    schemas, extensible, notes = list[Node](), list[Node](), [*_without_blanks(document)]
    for here in walk(node(document)):  # which looks at the members of an object after this
        if here.type == "pathItem" and here.reference is not None:
            notes += _with_its_own(document, here)
        if here.is_schema:
            schemas.append(here)
        elif here.type[0] == "<":
            extensible.append(here)
        elif here.type in _SENT:
            notes += _repair_sent(here)
        if here.reference is not None:
            notes += _repair_reference(here, here.reference)
    for here in extensible:
        for name in [one for one in _keys(here.value) if str(one).startswith("x-")]:
            del here.value[name]
    notes += [
        Note((*here.pointer, *place), text)
        for here in schemas
        for place, text in _repair_schema(here.value)
    ]
    return (
        *notes,
        *_repair_identifiers(schemas),
        *_repair_dialects(document, schemas),
        *_repair_security(document),
        *_numbered_names(document),
    )


def _without_blanks(document: dict[str, Any]) -> Iterator[Note]:
    """Write each path without the blanks around it, also in references, unless there is such a
    path."""
    paths: Any = document.get("paths")
    meant: dict[str, str] = {}
    for path in _keys(paths):
        plain = path.strip()
        if plain == path or not plain.startswith("/"):
            continue
        if plain in paths or plain in meant.values():
            text = f"the blanks around {path!r} are part of it: there is another path {plain!r}"
        else:
            meant[path] = plain
            text = f"{path!r} is read as {plain!r}"
        yield Note(("paths", path), text)
    if not meant:
        return
    renamed = [(meant.get(path, path), item) for path, item in paths.items()]
    paths.clear()
    paths.update(renamed)
    for here in walk(node(document)):
        if here.reference is not None and here.reference.startswith("#/paths/"):
            first, path, *steps = steps_of(here.reference[1:])
            if path in meant:
                pointer = pointer_text([first, meant[path], *steps])
                here.value["$ref"] = "#" + quote(pointer, safe=_IN_FRAGMENT)


def _with_its_own(document: dict[str, Any], here: Node) -> Iterator[Note]:
    """Put what a path item refers to beside what it has itself, if that is anything."""
    own = {key: value for key, value in here.value.items() if key != "$ref"}
    with suppress(ContractError):  # of a reference that finds nothing
        named = dereference(document, here.value)
        if own and isinstance(named, dict):
            del here.value["$ref"]
            here.value.update({**deepcopy(named), **own})
            for key in [one for one in own if one in named]:
                place = (*here.pointer, key)
                text = "this counts, and not what the $ref beside it names"
                yield Note(place, f"{subject(place)}: {text}")


_SENT: Final = frozenset({"{header}", "{mediaType}", "securityScheme", "server"})
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What the name of a header or of a cookie can be (RFC 9110, section 5.6.2)."""
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f]+")


def _repair_sent(here: Node) -> Iterator[Note]:
    """Leave out headers and media types whose names no response can have; a security scheme with
    such a name is one of HTTP. What is around a name or an address means nothing."""
    if here.type in _SHORT and isinstance(here.value, dict):
        for member in _SHORT[here.type]:
            text = here.value.get(member)
            if isinstance(text, str) and text != text.strip():
                here.value[member] = text.strip()
                yield Note((*here.pointer, member), f"read as {json.dumps(text.strip())}")
    if here.type == "securityScheme" and isinstance(here.value, dict):
        named = here.value.get(_NAMES_OF_SCHEMES.get(str(here.value.get("type")), ""), "none")
        form = _PRINTABLE if here.value.get("in") == "query" else _TOKEN
        if isinstance(named, str) and not form.fullmatch(named):
            here.value.clear()
            here.value.update(_BEARER)
            text = f"this securityScheme is read as HTTP bearer: no request can have {named!r}"
            yield Note(here.pointer, text)
    elif here.type[0] == "{":
        is_of_headers = here.type == "{header}" and here.pointer[:-1] != ("components",)
        form = _TOKEN if is_of_headers else _PRINTABLE
        for name in [one for one in _keys(here.value) if not form.fullmatch(one)]:
            del here.value[name]
            yield Note(
                (*here.pointer, name), f"{name!r} is ignored: no response can have this name"
            )


_SHORT: Final = {"securityScheme": ("name", "scheme"), "server": ("url",)}
_NAMES_OF_SCHEMES: Final = {"apiKey": "name", "http": "scheme"}


def _repair_reference(here: Node, reference: str) -> Iterator[Note]:
    """Encode what no URI can have (RFC 3986, section 3.5), such as the space in a name."""
    if not reference.startswith("#/") or _FRAGMENT.fullmatch(reference, 1):
        return
    here.value["$ref"] = "#" + quote(_PERCENT.sub("%25", reference[1:]), safe=_IN_FRAGMENT)
    text = f"{reference[:80]}: this is no URI, and is read with its characters percent-encoded"
    yield Note((*here.pointer, "$ref"), text)


_IN_FRAGMENT: Final = "/?:@!$&'()*+,;=~%"
_FRAGMENT: Final = re.compile(
    rf"(?:[a-zA-Z0-9_.{re.escape(_IN_FRAGMENT[:-1])}-]|%[0-9A-Fa-f]{{2}})*"
)
_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _repair_schema(schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    required = schema.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        once = list(dict.fromkeys(required))
        if once != required:
            schema["required"] = once
            yield ("required",), "duplicate names in 'required' are ignored"
    values = schema.get("enum")
    if isinstance(values, list):
        different = list(
            {json.dumps(one, sort_keys=True, default=str): one for one in values}.values()
        )
        if len(different) < len(values):
            schema["enum"] = different
            yield ("enum",), "duplicate values in 'enum' are ignored"
    if isinstance(schema.get("$id"), str) and not _is_address(schema["$id"]):
        del schema["$id"]
        yield ("$id",), "this is no URI reference, and is ignored"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _is_pattern(pattern):
        del schema["pattern"]
        yield ("pattern",), "this pattern cannot be compiled, and is not checked"
    patterns = schema.get("patternProperties")
    for wrong in [one for one in _keys(patterns) if not _is_pattern(one)]:
        del schema["patternProperties"][wrong]
        yield (
            ("patternProperties", wrong),
            "this pattern cannot be compiled, and is not checked",
        )


def _repair_identifiers(schemas: Sequence[Node]) -> Iterator[Note]:
    """The first of several schemas with one address keeps it."""
    seen = set[str]()
    for here in schemas:
        own = here.value.get("$id")
        if not isinstance(own, str) or own.startswith("#"):
            continue
        if here.base in seen:
            del here.value["$id"]
            text = f"{own[:80]}: another schema has this $id; it is ignored here"
            yield Note((*here.pointer, "$id"), text)
        seen.add(here.base)


def _repair_dialects(document: dict[str, Any], schemas: Sequence[Node]) -> Iterator[Note]:
    if not str(document.get("openapi")).startswith("3.1."):
        return  # where a schema has no dialect
    naming = [(one, "$schema") for one in schemas if "$schema" in one.value]
    own = identified(document) if naming else {}
    for here, member in ((node(document), "jsonSchemaDialect"), *naming):
        named = str(here.value.get(member, DRAFT_2020_12))
        meant = own[named].get("$schema", DRAFT_2020_12) if named in own else named
        if dialect(meant) is None:
            del here.value[member]
            text = f"the dialect '{meant}' is not known: read as JSON Schema 2020-12"
            yield Note((*here.pointer, member), text)


def _keys(value: Any) -> Collection[str]:
    return value.keys() if isinstance(value, dict) else ()


def _is_address(text: str) -> bool:
    form = jsonschema_rs.validator_for({"format": "uri-reference"}, validate_formats=True)
    return form.is_valid(text)


@cache
def _is_pattern(text: str) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text})
    except ValueError:
        return False
    return True


def _repair_security(document: dict[str, Any]) -> Iterator[Note]:
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else {}
    declared = schemes if isinstance(schemes, dict) else {}
    for here in (node(document), *operations(document)):
        has_security = isinstance(here.value, dict)
        wanted = here.value.get("security") if has_security else None
        wanted = wanted if isinstance(wanted, list) else []
        lost = list[Any]()
        for index, requirement in enumerate(wanted):
            for name in [one for one in _keys(requirement) if one not in declared]:
                del requirement[name]
                lost += [] if requirement else [requirement]
                place = (*here.pointer, "security", index, name)
                yield Note(place, f"{name}: this security scheme is not declared and not checked")
        if len(wanted) > len(lost) > 0:  # the other alternatives stay required
            wanted[:] = [one for one in wanted if all(one is not other for other in lost)]


def _numbered_names(document: dict[str, Any]) -> Iterator[Note]:
    if not isinstance(document.get("paths"), dict):
        return
    for name, (path, method, raw) in named_operations(document).items():
        if name != operation_id(path, method, raw):
            yield Note(("paths", path, method), f"without operationId: it is called {name} here")


def take_out(document: dict[str, Any], found: Sequence[Invalid]) -> list[Note]:
    """Change ``document`` so that it can be served without what was ``found``; what, and where.

    A value of another type is read as the type that it should have, if it plainly means a value of
    it; null as if it were not there. What has to be there and can be taken for granted is added. A
    member that cannot be there, and what is for people only, is left out. Of a schema nothing is
    checked. A header is left out, and a response that the operation can do without. Otherwise the
    operation, or the component, is left out, or the member itself. Empty: nothing could be done.
    """
    notes: list[Note] = []
    for wrong in reversed(found):  # the last item of a list first
        around = list(_around(node(document), wrong.pointer))
        pointers = [one.pointer for one in around]
        is_done = any(note.pointer in pointers for note in notes)
        if len(around) > len(wrong.pointer) and not is_done:
            notes += _without(document, around, wrong)
    return notes


def _without(document: dict[str, Any], around: list[Node], wrong: Invalid) -> Iterator[Note]:
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
    meant = None if any(one.type == SCHEMA for one in around) else _meant(around, wrong.types)
    if meant is not None:
        _parent(document, place)[place.pointer[-1]] = meant
        yield Note(place.pointer, f"read as {json.dumps(meant)}: {wrong.text}")
        return
    if wrong.is_extra or _is_optional(around, wrong):
        yield _left_out(document, place, f"{_name(place)}this is ignored: {wrong.text}")
        return
    yield from islice(_around_it(document, around, wrong), 1)


def _around_it(document: dict[str, Any], around: list[Node], wrong: Invalid) -> Iterator[Note]:
    """The same for each part around the place, the smallest first: one is enough."""
    for above, here in reversed([*pairwise((node(None), *around))]):
        if above.type == SCHEMA and _is_independent(above.value, here):
            text = f"this schema is read without '{here.pointer[-1]}': {wrong.text}"
            yield _left_out(document, here, text)
        elif here.type == SCHEMA and here.value != {}:
            _parent(document, here)[here.pointer[-1]] = {}
            yield Note(here.pointer, f"this schema is not checked: {wrong.text}")
        elif here.type == "securityScheme" and not _is_of_connections(here.value):
            _parent(document, here)[here.pointer[-1]] = dict(_BEARER)
            yield Note(here.pointer, f"this securityScheme is read as HTTP bearer: {wrong.text}")
        elif here.type == "[{[scope]}]" and _alternatives(document):
            _parent(document, here)[here.pointer[-1]] = _alternatives(document)
            yield Note(here.pointer, f"any declared security scheme is required: {wrong.text}")
        elif _is_left_out_alone(here, above):
            word = "this parameter" if here.type == "parameter" else "this"
            yield _left_out(document, here, f"{_name(here)}{word} is ignored: {wrong.text}")
        elif here.type in {"operation", "pathItem"} or _is_component(here):
            text = f"this {word_for(here.type)} is not served: {wrong.text}"
            yield _left_out(document, here, f"{_name(here)}{text}")
    if around[-1].pointer:
        yield _left_out(document, around[-1], f"this is ignored: {wrong.text}")


_DEFAULTS: Final[Mapping[tuple[str, str], Any]] = {
    (DOCUMENT, "info"): {"title": "Untitled", "version": "0"},
    (DOCUMENT, "paths"): {},
    ("info", "title"): "Untitled",
    ("info", "version"): "0",
    ("response", "description"): "",
    ("requestBody", "content"): {"*/*": {}},
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
    if value.get("in") == "path" and value.get("required") is not True:
        value["required"] = True
        yield f"{value.get('name')}: a parameter in the path must have 'required: true', read so"
    is_known = value.get("in", "header") in ("path", "query", "header", "cookie")
    if is_known and not {"schema", "content"} & value.keys():
        value["schema"] = {}
        yield f"{value.get('name', 'this header')}: it has no 'schema', and is not checked"


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
    return [{name: []} for name in _keys(schemes)]


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

_BEARER: Final = {"type": "http", "scheme": "bearer"}
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
        case None if len(around) > 1 and around[-2].type in _NAMED_ONLY:
            return deepcopy(_NAMED_ONLY[around[-2].type])
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
        case str() if "boolean" in types:
            return _BOOLEANS.get(here.value.lower())
    return None


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
    """``GET /orders: `` for an operation, ``/orders: `` for a path."""
    match here.type, here.pointer:
        case _, ("paths", path, method) if here.type in {"operation", "other"}:
            return f"{str(method).upper()} {path}: "
        case "parameter", _:
            return f"{subject(here.pointer)}: ".removeprefix(": ")
        case "operation", (*_, path, method):
            return f"{str(method).upper()} {path}: "
        case "pathItem", (*_, path):
            return f"{path}: "
    return ""


def _is_left_out_alone(here: Node, above: Node) -> bool:
    """Whether a member of a map, or an item of a list, can be left out and the others kept."""
    if _is_component(here) or here.type in _NEEDED or above.type[0] not in "{[<":
        return here.type in _UNUSED
    if above.type == "<response>":
        return _is_dispensable(above, here)
    return above.type not in _NEVER_EMPTY or len(above.value) > 1


_UNUSED: Final = frozenset({"link", "callback", "example"})
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


def _left_out(document: dict[str, Any], here: Node, text: str) -> Note:
    del _parent(document, here)[here.pointer[-1]]
    return Note(here.pointer, text)


def _parent(document: Any, here: Node) -> Any:
    for step in here.pointer[:-1]:
        document = document[step]
    return document


def last_words(document: dict[str, Any], notes: Sequence[Note]) -> list[Note]:
    """The notes without those about a place of which nothing is left, and a later note says so."""
    gone, around = set[Pointer](), set[Pointer]()
    found: list[Note] = []
    for note in reversed(notes):
        above = [note.pointer[:length] for length in range(len(note.pointer) + 1)]
        if not _is_anything(document, note.pointer):
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


def _is_anything(document: dict[str, Any], pointer: Pointer) -> bool:
    places = list(_around(node(document), pointer))
    return len(places) > len(pointer) and places[-1].value != []


def declare(document: dict[str, Any]) -> Iterator[Note]:
    """Change operations that name no parameter for a part of their path, or the operationId of
    another: a string is declared for the part, and the second operationId is removed."""
    seen = set[str]()
    for here in operations(document):
        if not isinstance(here.value, dict):
            continue
        name = here.value.get("operationId")
        if isinstance(name, str) and name in seen:
            del here.value["operationId"]
            yield Note((*here.pointer, "operationId"), f"{name}: another operation has this name")
        seen.add(str(name))
        yield from _respelled(document, here)
        for missing in _undeclared(document, here):
            here.value.setdefault("parameters", []).append(
                {"name": missing, "in": "path", "required": True, "schema": {"type": "string"}}
            )
            yield Note(here.pointer, f"{missing}: no parameter of this name; it is any string")


def _undeclared(document: dict[str, Any], here: Node) -> list[str]:
    """The names in the path of an operation that neither it nor its path declares."""
    if here.pointer[0] != "paths" or len(here.pointer) != _COMPONENT:
        return []
    if not isinstance(here.value.get("parameters", []), list):
        return []
    every = (dereference(document, one) for one in _parameters_of(document, here))
    found = [one for one in every if isinstance(one, dict)]
    names = {str(one.get("name")) for one in found if one.get("in") == "path"}
    parts = dict.fromkeys(path_names(str(here.pointer[1])))
    return [one for one in parts if one and one not in names]


def _parameters_of(document: dict[str, Any], here: Node) -> Iterator[dict[str, Any]]:
    """The parameters of an operation and of its path."""
    for one in (here.value, document["paths"][here.pointer[1]]):
        yield from (it for it in _list(one.get("parameters")) if isinstance(it, dict))


def _respelled(document: dict[str, Any], here: Node) -> Iterator[Note]:
    """Give a parameter the name that its path has in other letters: ``order_id``, ``orderId``."""
    for missing in _undeclared(document, here):
        for one in _parameters_of(document, here):
            written = str(one.get("name"))
            is_of_path = one.get("in") == "path" and written not in path_names(str(here.pointer[1]))
            if is_of_path and _letters(written) == _letters(missing):
                one["name"] = missing
                yield Note(here.pointer, f"parameter '{written}' is read as '{missing}'")


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()
