"""What a document declares and the sandbox does not do, each with its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import groupby
from typing import Any, Final
from urllib.parse import unquote

from invoice_sandbox.openapi.load.model import (
    BESIDE_REFERENCE,
    DOCUMENT,
    SCHEMA,
    SECTIONS,
    Node,
    Pointer,
    names_of,
    node,
    walk,
)
from invoice_sandbox.openapi.load.operations import (
    NOT_SERVED,
    ORIGIN,
    Note,
    base_path,
    path_names,
    raw_operations,
    reserved_for,
    served_base_path,
    server_url,
    without_names,
)
from invoice_sandbox.openapi.load.pointers import (
    ContractError,
    at_pointer,
    dereference,
    identified,
    named,
)

BASE_PATH: Final[Pointer] = ("servers", 0, "url")
"""The place that the base path comes from."""

OWN_PAGES: Final = "the sandbox has pages of its own at this path"
"""What is noted of a path whose GET is that of a page of the sandbox."""

NO_ITEMS: Final = "'items' is missing: items of every type are allowed"
"""What is noted of a list of OpenAPI 3.0, unless its items were left out."""

_SHOWN: Final = 3
_OWN_PAGES: Final = re.compile(
    r"/(?:openapi\.(?:json|yaml)|(?:docs|console)(?:/.*)?|sandbox/openapi\..*)"
)


def limitations(document: Mapping[str, Any]) -> tuple[Note, ...]:
    """Everything in ``document`` that has no effect here, in order of its text."""
    known = cache(lambda: identified(document))
    found = [one for here in walk(node(document)) for one in _limitations(document, here, known)]
    return tuple(sorted(found, key=lambda one: one.text))


def summarized(found: Iterable[Note]) -> Iterator[tuple[Pointer, str]]:
    """Places and lines for a person: of equal notes the first few, and how many more there are;
    all of what is not served.

    Equal are texts that differ only in names: they say the same of what is done, and why.
    """
    for _, group in groupby(sorted(found, key=_without_names), key=_without_names):
        same = list(group)
        shown = len(same) if NOT_SERVED in same[0].text else _SHOWN
        more = len(same) - shown
        places = "place" if more == 1 else "places"
        last = f" (and {more} more {places} like this)" if more > 0 else ""
        for index, one in enumerate(same[:shown], 1):
            yield one.pointer, one.text + (last if index == shown else "")


def _without_names(note: Note) -> tuple[str, str]:
    *clauses, last = note.text.split(": ")
    return next((one for one in clauses if one.startswith(_DONE)), ""), last


_DONE: Final = ("this ", "read as ", "any ", "'")
"""How the clause begins that says what is done, between a name and the reason."""


Known = Callable[[], Mapping[str, Any]]
"""What gives the schemas with an identifier, by it."""


def _limitations(document: Mapping[str, Any], here: Node, known: Known) -> Iterator[Note]:
    pointer, value = here.pointer, here.value
    if not isinstance(value, Mapping):
        return
    for member, text in _WITHOUT_EFFECT.get(here.type, {}).items():
        if value.get(member):
            yield Note((*pointer, member), text)
    if here.type == "securityScheme" and value.get("type") == "mutualTLS":
        yield Note(pointer, "client certificates are not checked; the scheme always passes")
    if "$ref" in value and len(value) > 1:
        yield from _beside_reference(document, here)
    if here.is_schema:
        yield from _of_schema(str(document["openapi"]), pointer, value)
        yield from _of_mapping(document, here, known)
        yield from _misspelt(str(document["openapi"]), pointer, value)
    yield from _of_example(here)
    if here.type == DOCUMENT:
        yield from _at_another_place(value)
        yield from _without_operations(value)
    if here.type == "<pathItem>" and pointer == ("paths",):
        yield from _hidden(document, value)


def _at_another_place(document: Mapping[str, Any]) -> Iterator[Note]:
    """Where operations begin, if that is not plain from the first server."""
    path, at = base_path(document), served_base_path(document)
    unknown = [*_ORIGIN.findall(server_url(document)), *_TEMPLATE.findall(at)]
    reasons = [f"{name} is not declared" for name in unknown]
    if at != path:
        reasons.append(f"{path} is reserved for {reserved_for(path)}")
    for reason in reasons:
        text = f"{reason}: operations begin with {at or '/'}; --base-path changes it"
        yield Note(BASE_PATH, text)


def _without_operations(document: Mapping[str, Any]) -> Iterator[Note]:
    if "paths" not in document:
        yield Note((), "there are no paths: no operation is served")
    elif not any(raw_operations(document)):
        yield Note(("paths",), "no operation is served")


_ORIGIN: Final = re.compile(f"{ORIGIN}(?!://)")
_TEMPLATE: Final = re.compile(r"\{[^/]*?\}")


def _of_schema(version: str, pointer: Pointer, schema: Mapping[str, Any]) -> Iterator[Note]:
    """Where ``nullable`` allows nothing, or ``items`` is missing (OpenAPI 3.0.3)."""
    is_30 = version.startswith("3.0.")
    if is_30 and schema.get("type") == "array" and not schema.keys() & {"items", "$ref"}:
        yield Note(pointer, NO_ITEMS)
    if schema.get("nullable", False) is False or (is_30 and schema["nullable"] is not True):
        return
    place = (*pointer, "nullable")
    if not is_30:
        yield Note(place, "'nullable' has no effect in OpenAPI 3.1, which has the type 'null'")
    elif "type" not in schema or "$ref" in schema:
        yield Note(place, "'nullable' has an effect beside 'type' only")
    elif None not in schema.get("enum", [None]):
        yield Note(place, "'nullable' has no effect: 'enum' does not list null")


def _of_mapping(document: Mapping[str, Any], here: Node, known: Known) -> Iterator[Note]:
    """Where a discriminator names no schema."""
    discriminator = here.value.get("discriminator")
    mapping = discriminator.get("mapping") if isinstance(discriminator, Mapping) else None
    schemas = document.get("components", {}).get("schemas", {})
    for name, target in mapping.items() if isinstance(mapping, Mapping) else ():
        if not isinstance(target, str) or target in schemas:
            continue
        is_there = target.startswith("#/") and at_pointer(document, target[1:]) is not None
        if not is_there and named(target, here.base, known()) is None:
            place = (*here.pointer, "discriminator", "mapping", name)
            yield Note(place, f"'{target}' is no schema: this name has no effect")


def _beside_reference(document: Mapping[str, Any], here: Node) -> Iterator[Note]:
    """What stands beside a reference, where OpenAPI 3.0 ignores it (Reference Object), and would
    change anything."""
    is_30 = str(document["openapi"]).startswith("3.0.")
    if not is_30 or here.reference is None or here.type not in SECTIONS:
        return
    named: Any = None
    with suppress(ContractError):  # of a reference that names nothing
        named = dereference(document, here.value)
    known = named.items() if isinstance(named, Mapping) else ()
    for key, value in here.value.items():
        is_without_effect = key in _BESIDE_REFERENCE or key.startswith("x-")
        if not is_without_effect and (key, value) not in known:
            text = f"'{key[:80]}' is ignored beside '$ref' in OpenAPI 3.0"
            yield Note((*here.pointer, key), text)


_BESIDE_REFERENCE: Final = BESIDE_REFERENCE | {"nullable"}
"""What changes nothing there, or is reported anyway."""


def _of_example(here: Node) -> Iterator[Note]:
    pointer, value = here.pointer, here.value
    if here.type in _WITH_EXAMPLES and {"example", "examples"} <= value.keys():
        yield Note((*pointer, "example"), "'example' is ignored beside 'examples'")
    shown = "value" if here.type == "example" else "example"
    if _is_reference(value.get(shown)) and here.type != "{schema}":
        yield Note((*pointer, shown), _DATA)


_WITH_EXAMPLES: Final = frozenset({"mediaType", "parameter", "header"})


def _misspelt(version: str, pointer: Pointer, schema: Mapping[str, Any]) -> Iterator[Note]:
    """Where a keyword is in other letters; that of OpenAPI 3.0 is read as what it means."""
    for name in schema if not version.startswith("3.0.") else ():
        meant = _KEYWORDS.get(str(name).lower(), name)
        if meant != name and name not in _KEYWORDS.values():
            yield Note((*pointer, name), f"'{name}' is no keyword, and ignored: '{meant}' is one")


_KEYWORDS: Final = {one.lower(): one for one in names_of(SCHEMA)}


def hidden_paths(document: Mapping[str, Any]) -> frozenset[str]:
    """The paths at which the sandbox has pages of its own."""
    base, paths = served_base_path(document), document.get("paths", {})
    return frozenset(one for one in paths if _OWN_PAGES.fullmatch(base + one))


def _hidden(document: Mapping[str, Any], paths: Mapping[str, Any]) -> Iterator[Note]:
    seen, hidden = dict[tuple[str, ...], str](), hidden_paths(document)
    for path in paths:
        plain = without_names(path)
        segments = tuple(map(unquote, plain.split("/")))
        for name, number in Counter(path_names(path)).items():
            if number > 1:
                text = f"{name}: this parameter is in the path {number} times; the last one counts"
                yield Note(("paths", path), text)
        if path in hidden:
            yield Note(("paths", path), OWN_PAGES)
        elif "#" in path or "?" in path:
            yield Note(
                ("paths", path), "only a percent-encoded request reaches it: '#' and '?' end a path"
            )
        elif segments in seen:
            what = "parameter names" if plain == seen[segments] else "percent-encoding"
            yield Note(("paths", path), f"duplicates another path except for {what}")
        seen.setdefault(segments, plain)


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and list(value) == ["$ref"]


_SERVERS: Final = "every operation is served below the first server of the document, not here"
_DATA: Final = "a '$ref' in an example is data, and is not followed"
_WITHOUT_EFFECT: Final[Mapping[str, Mapping[str, str]]] = {
    "pathItem": {"servers": _SERVERS},
    "operation": {"servers": _SERVERS, "callbacks": "callbacks are not called"},
    "example": {"externalValue": "'externalValue' is not read: this example is not used"},
}
