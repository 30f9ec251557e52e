"""Changes a document where it would keep everything else from being served.

Each change is a Note with its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from itertools import chain
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs

from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.load.model import (
    METHODS,
    SCHEMA,
    Node,
    Pointer,
    names_of,
    node,
    operations,
    walk,
)
from invoice_sandbox.openapi.load.operations import (
    Draft,
    Note,
    named_operations,
    operation_id,
    path_names,
    subject,
)
from invoice_sandbox.openapi.load.pointers import (
    ContractError,
    dereference,
    identified,
    steps_of,
)
from invoice_sandbox.openapi.load.validate import (
    DRAFT_2020_12,
    dialect,
    meant_dialect,
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


def correct(start: Node, *, is_30: bool) -> Iterator[Note]:
    """Change a document or a part of it, so that what is below a place is read as what it is: a
    name in capitals or small letters becomes the one that is meant, and a reference to a schema
    where there must be an object that has a schema is its schema. OpenAPI 3.0 has the types of 3.1
    with null, and no addresses of schemas. What is deep in a value that has no place, and is
    ignored, is left out unnoted.

    A schema may have a member of any name, but for OpenAPI 3.0.
    """
    for here in walk(start):  # which looks at the members of an object after this
        if here.type == "other" and len(here.pointer) > _MOST_STEPS:
            here.value.clear()
        if here.type in _WITH_SCHEMA and isinstance(here.value, dict):
            yield from _with_schema(here)
        if is_30 and here.is_schema and isinstance(here.value, dict):
            yield from _as_of_30(here)
        if here.type in {"operation", "pathItem"} and isinstance(here.value, dict):
            yield from _with_list(here)
        names = _names(here.type) if is_30 or here.type != SCHEMA else {}
        if not names or not isinstance(here.value, dict) or _is_only_a_reference(here):
            continue
        for written in list(here.value):
            meant = names.get(str(written).lower())
            if meant is not None and meant not in here.value:
                here.value[meant] = here.value.pop(written)
                yield Note((*here.pointer, written), f"{written} is read as '{meant}'")


def _with_schema(here: Node) -> Iterator[Note]:
    reference = here.value.get("$ref")
    if not isinstance(reference, str) or not _TO_SCHEMA.search(reference):
        return
    media = {"schema": {"$ref": here.value.pop("$ref")}}
    here.value.update(
        media if here.type == "mediaType" else {"content": {"application/json": media}}
    )
    if here.type == "response":
        here.value.setdefault("description", "")
    yield Note(here.pointer, f"{reference[:80]} is read as the schema of its JSON")


def _with_list(here: Node) -> Iterator[Note]:
    """Make a list of the one parameter that is there instead of it. What refers to a file may be a
    list there."""
    one = here.value.get("parameters")
    names = one.keys() if isinstance(one, dict) else frozenset[str]()
    if names & {"name", "in"} or (names and str(one.get("$ref")).startswith("#")):
        here.value["parameters"] = [one]
        yield Note((*here.pointer, "parameters"), "read as a list of this one parameter")


def _as_of_30(here: Node) -> Iterator[Note]:
    """Write the types that a schema has as in OpenAPI 3.1 as those of 3.0; leave out its
    address."""
    if isinstance(here.value.get("$id"), str):
        del here.value["$id"]
        yield Note((*here.pointer, "$id"), "'$id' is ignored in OpenAPI 3.0")
    types = here.value.get("type")
    if types in ("null", ["null"]):
        del here.value["type"]
        here.value.setdefault("enum", [None])
        yield Note((*here.pointer, "type"), "this type of OpenAPI 3.1 is read as null")
    elif isinstance(types, list) and "null" in types and len(types) == _ONE_BESIDE_NULL:
        here.value["type"] = next(one for one in types if one != "null")
        here.value["nullable"] = True
        yield Note((*here.pointer, "type"), "these types of OpenAPI 3.1 are read as 'nullable'")


_MOST_STEPS: Final = 64
"""The most steps to a value that is no object of OpenAPI: what is deeper means nothing."""

_ONE_BESIDE_NULL: Final = 2
_WITH_SCHEMA: Final = frozenset({"response", "requestBody", "mediaType"})
_TO_SCHEMA: Final = re.compile("#/components/schemas/[^/]+$")


@cache
def _names(type_: str) -> Mapping[str, str]:
    """The names that the objects of a type know, by the same in small letters; of media types
    that of any, by its short form."""
    statuses = ("1XX", "2XX", "3XX", "4XX", "5XX", "default")
    known = statuses if type_ == "<response>" else names_of(type_)
    return {"*": "*/*"} if type_ == "{mediaType}" else {one.lower(): one for one in known}


def _is_only_a_reference(here: Node) -> bool:
    return here.reference is not None and here.type != "pathItem"


def repair(draft: Draft) -> None:
    """Change a document where it would keep everything else from being served, with notes.

    A duplicate name in ``required`` or value in ``enum`` is removed. A pattern that is no regular
    expression as ECMA-262 and Rust have them is left out, and so is a dialect that is not known. A
    security scheme that is declared nowhere is not required. A reference is written as a URI.
    Extensions among paths or responses, which mean nothing here, are left out unnoted.
    """
    document, schemas, extensible, notes = draft.document, list[Node](), list[Node](), list[Note]()
    for here in walk(node(document)):  # which looks at the members of an object after this
        if here.type == "pathItem" and here.reference is not None:
            notes += _with_its_own(document, here)
        if here.is_schema:
            schemas.append(here)
        elif here.type[0] == "<":
            extensible.append(here)
        elif here.type in _SENT:
            notes += _repair_sent(here)
        elif here.type == "requestBody" and _keys(here.value) and here.value.get("content") == {}:
            here.value.update({"content": deepcopy(ANY_CONTENT), "required": False})
            notes.append(Note(here.pointer, "'content' is empty: this requestBody is not checked"))
        if here.reference is not None:
            notes += _repair_reference(here, here.reference)
    for here in extensible:
        for name in [one for one in _keys(here.value) if str(one).startswith("x-")]:
            del here.value[name]
    notes += [
        *_repair_schemas(draft, schemas),
        *_repair_identifiers(schemas),
        *_repair_dialects(document, schemas),
        *_repair_security(draft),
    ]
    draft.add(notes)


def plain_paths(document: dict[str, Any]) -> tuple[dict[str, str], list[Note]]:
    """Write each path without the blanks around it, and with a slash at its beginning, also in
    references, unless there is such a path. A query in it is that of its operations.

    Return how these paths were written before, by what they are now; and what has changed."""
    paths: Any = document.get("paths")
    meant, notes = dict[str, str](), list[Note]()
    for path in [one for one in _keys(paths) if isinstance(one, str)]:
        plain = _plain(path, paths[path])
        if plain in (path, None):
            continue
        if plain not in paths and plain not in meant.values():
            meant[path] = plain
            notes.append(Note(("paths", plain), f"{path!r} is read as {plain!r}"))
            _move_to_query(paths[path], _query_names(path))
        elif path.startswith("/") and "?" not in path:
            text = f"the blanks around {path!r} are part of it: there is another path {plain!r}"
            notes.append(Note(("paths", path), text))
    if not meant:
        return {}, notes
    renamed = [(meant.get(path, path), item) for path, item in paths.items()]
    paths.clear()
    paths.update(renamed)
    for here in walk(node(document)):
        if here.reference is not None and here.reference.startswith("#/paths/"):
            first, path, *steps = steps_of(here.reference[1:])
            if path in meant:
                pointer = pointer_text([first, meant[path], *steps])
                here.value["$ref"] = "#" + quote(pointer, safe=_IN_FRAGMENT)
    return {plain: path for path, plain in meant.items()}, notes


def _plain(path: str, item: Any) -> str | None:
    """What a member of ``paths`` is the path of: None if it has to begin with a slash, does not,
    and does not look like a path."""
    plain = _OPTIONAL.sub(r"{\1}", _QUERY.sub("", path)).strip().partition("?")[0]
    if plain.startswith("/"):
        return plain
    is_item = isinstance(item, dict) and not item.keys().isdisjoint({"$ref", *METHODS})
    is_other = plain.startswith("x-") or "://" in plain
    return f"/{plain}" if is_item and not is_other else None


_QUERY: Final = re.compile(r"\{[?&]([^{}]*)\}")
"""A query as a URI template has it: ``{?state,limit}`` (RFC 6570, sections 3.2.8 and 3.2.9)."""


_OPTIONAL: Final = re.compile(r"\{([^{}/]*[^{}/?])\?\}")
"""A parameter that may be missing, as frameworks have them: ``{id?}``."""


def _query_names(path: str) -> list[str]:
    """The names of the parameters in the query of a path: ``?state={state}`` or ``{?state}``."""
    listed = ",".join(_QUERY.findall(path)).split(",")
    names = [one.strip().rstrip("*").partition(":")[0] for one in listed]
    return [*path_names(_OPTIONAL.sub("", _QUERY.sub("", path)).partition("?")[2]), *names]


def _move_to_query(item: Any, names: Collection[str]) -> None:
    """Declare those of the parameters of a path item that are parts of its path as parts of the
    query."""
    holders = [item, *item.values()] if isinstance(item, dict) else []
    lists = [one.get("parameters") for one in holders if isinstance(one, dict)]
    for one in chain.from_iterable(found for found in lists if isinstance(found, list)):
        if isinstance(one, dict) and one.get("in") == "path" and one.get("name") in names:
            one["in"] = "query"


def _with_its_own(document: dict[str, Any], here: Node) -> Iterator[Note]:
    """Put what a path item refers to beside what it has itself, if that is anything, and in a path
    if it is a component: what is wrong with it depends on the path."""
    own = {key: value for key, value in here.value.items() if key != "$ref"}
    is_component = here.pointer[0] == "paths" and str(here.reference).startswith(_PATH_ITEMS)
    with suppress(ContractError):  # of a reference that finds nothing
        named = dereference(document, here.value)
        if (own or is_component) and isinstance(named, dict):
            del here.value["$ref"]
            here.value.update({**deepcopy(named), **own})
            for key in [one for one in own if one in named]:
                place = (*here.pointer, key)
                text = "this counts, and not what the $ref beside it names"
                yield Note(place, f"{subject(place)}: {text}")


_PATH_ITEMS: Final = "#/components/pathItems/"

ANY_CONTENT: Final[Mapping[str, Any]] = {"*/*": {}}
"""The content that stands for one that cannot be read."""

BEARER: Final = {"type": "http", "scheme": "bearer"}
"""The security scheme that stands for one that cannot be read."""

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
            plain = text.strip() if isinstance(text, str) else text
            if here.type == "server" and isinstance(plain, str) and _HOST.fullmatch(plain):
                plain = f"http://{plain}"
            if plain != text:
                here.value[member] = plain
                yield Note((*here.pointer, member), f"read as {json.dumps(plain)}")
    if here.type == "securityScheme" and isinstance(here.value, dict):
        named = here.value.get(_NAMES_OF_SCHEMES.get(str(here.value.get("type")), ""), "none")
        form = _PRINTABLE if here.value.get("in") == "query" else _TOKEN
        if isinstance(named, str) and not form.fullmatch(named):
            here.value.clear()
            here.value.update(BEARER)
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


def without_impossible(draft: Draft) -> None:
    """Leave out of a valid document the parameters whose names no request can have."""
    document, notes = draft.document, list[Note]()
    for here in [one for one in walk(node(document)) if one.type == "[parameter]"]:
        for index, declared in reversed([*enumerate(here.value)]):
            one = dereference(document, declared)
            place, name = one["in"], one["name"]
            if place in _FORMS and not _FORMS[place].fullmatch(name):
                draft.leave_out((*here.pointer, index))
                text = f"this parameter is ignored: no {place} can have the name {name!r}"
                named = f"{subject(here.pointer)}: {text}".removeprefix(": ")
                notes.append(Note((*here.pointer, index), named))
    draft.add(notes)


_FORMS: Final = {
    "header": _TOKEN,
    "cookie": re.compile(rf"(?:{_TOKEN.pattern}|:)+"),
}
"""What the name of a parameter can be, by its location."""

_HOST: Final = re.compile(
    r"(?:localhost|\d+(?:\.\d+){3}|(?:[\w-]+\.)+[a-z]{2,}|[\w-]+(?=:\d))(?::\d+)?(?:/.*)?",
    re.IGNORECASE,
)
"""An address without its scheme: ``localhost:8080/v1``."""
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


def _repair_schemas(draft: Draft, schemas: Sequence[Node]) -> Iterator[Note]:
    for here in schemas:
        for place, text in _repair_schema(here.value):
            if place[0] in _LOOSENING:
                draft.loosen(here.pointer)
            yield Note((*here.pointer, *place), text)


_LOOSENING: Final = frozenset({"pattern", "patternProperties", "allOf", "anyOf", "oneOf"})
"""Keywords without which a schema allows more."""


def _repair_schema(schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    yield from _repair_lists(schema)
    for name, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(name), bool) and limit not in schema:
            del schema[name]
            yield (name,), f"'{name}' has no effect without '{limit}', and is ignored"
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


def _repair_lists(schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The same for lists, which OpenAPI 3.0 allows to be empty, and JSON Schema does not."""
    required = schema.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        once = list(dict.fromkeys(required))
        if once != required:
            schema["required"] = once
            yield ("required",), "duplicate names in 'required' are ignored"
    for name in ("allOf", "anyOf", "oneOf"):
        if schema.get(name) == []:
            del schema[name]
            yield (name,), f"this '{name}' is empty, and is ignored"
    values = schema.get("enum")
    if isinstance(values, list):
        different = list(
            {json.dumps(one, sort_keys=True, default=str): one for one in values}.values()
        )
        if len(different) < len(values):
            schema["enum"] = different
            yield ("enum",), "duplicate values in 'enum' are ignored"


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
    known = cache(lambda: identified(document))
    for here, member in ((node(document), "jsonSchemaDialect"), *naming):
        meant = meant_dialect(here.value.get(member, DRAFT_2020_12), known)
        if dialect(meant) is None:
            del here.value[member]
            shown = meant if isinstance(meant, str) else json.dumps(meant)
            text = f"the dialect '{shown}' is not known: read as JSON Schema 2020-12"
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


def _repair_security(draft: Draft) -> Iterator[Note]:
    document = draft.document
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else {}
    declared = schemes if isinstance(schemes, dict) else {}
    for here in (node(document), *operations(document)):
        has_security = isinstance(here.value, dict)
        wanted = here.value.get("security") if has_security else None
        wanted = wanted if isinstance(wanted, list) else []
        lost = list[int]()
        for index, requirement in enumerate(wanted):
            for name in [one for one in _keys(requirement) if one not in declared]:
                del requirement[name]
                lost += [] if requirement else [index]
                place = (*here.pointer, "security", index, name)
                yield Note(place, f"{name}: this security scheme is not declared and not checked")
        if len(wanted) > len(lost):  # the other alternatives stay required
            for index in reversed(lost):
                draft.leave_out((*here.pointer, "security", index))


def numbered_names(document: dict[str, Any]) -> Iterator[Note]:
    """Notes of the operations of a valid document without an operationId whose names here have a
    number."""
    for name, (path, method, raw) in named_operations(document).items():
        if name != operation_id(path, method, raw):
            yield Note(("paths", path, method), f"without operationId: it is called {name} here")


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


_OF_A_PATH: Final = 3
"""The length of the pointer to an operation of a path, and of no callback."""


def _undeclared(document: dict[str, Any], here: Node) -> list[str]:
    """The names in the path of an operation that neither it nor its path declares."""
    if here.pointer[0] != "paths" or len(here.pointer) != _OF_A_PATH:
        return []
    if not isinstance(here.value.get("parameters", []), list):
        return []
    every = (dereference(document, one) for _, one in _parameters_of(document, here))
    found = [one for one in every if isinstance(one, dict)]
    names = {str(one.get("name")) for one in found if one.get("in") == "path"}
    parts = dict.fromkeys(path_names(str(here.pointer[1])))
    return [one for one in parts if one and one not in names]


def _parameters_of(document: dict[str, Any], here: Node) -> Iterator[tuple[Pointer, Any]]:
    """The parameters of an operation and of its path, with their places."""
    for place in (here.pointer, here.pointer[:-1]):
        around = here.value if place == here.pointer else document["paths"][place[1]]
        found = around.get("parameters")
        for index, one in enumerate(found if isinstance(found, list) else ()):
            if isinstance(one, dict):
                yield (*place, "parameters", index), one


def _respelled(document: dict[str, Any], here: Node) -> Iterator[Note]:
    """Give a parameter the name that its path has in other letters: ``order_id``, ``orderId``."""
    for missing in _undeclared(document, here):
        for place, one in _parameters_of(document, here):
            written = str(one.get("name"))
            is_of_path = one.get("in") == "path" and written not in path_names(str(here.pointer[1]))
            if is_of_path and _letters(written) == _letters(missing):
                one["name"] = missing
                yield Note(place, f"parameter '{written}' is read as '{missing}'")


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()
