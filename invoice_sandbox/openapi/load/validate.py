"""Validates OpenAPI documents: every place that is wrong, and what is wrong there.

The rules are those of openapi-spec-validator, with its schemas; the checks are ours, because it
reports a part of the errors, many of them without a place, and takes 8 s for a document of 13 MB.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from invoice_sandbox.openapi.load.documents import Note, place_of
from invoice_sandbox.openapi.load.model import Node, Pointer, node, walk
from invoice_sandbox.openapi.load.operations import (
    base_path,
    operations_of,
    parameter_key,
    path_names,
    without_names,
)
from invoice_sandbox.openapi.load.pointers import ContractError, dereference, located
from invoice_sandbox.openapi.load.text import DocumentError

DRAFT_2020_12: Final = "https://json-schema.org/draft/2020-12/schema"
_OAS_DIALECTS: Final = tuple(f"https://spec.openapis.org/oas/3.{n}/dialect/" for n in (1, 2))

_NOT: Final = "not an OpenAPI document"
_MAX_MESSAGE_LENGTH: Final = 240
"""Letters of a message: the validator puts whole objects into some."""

_VERSION: Final = re.compile(r"v?3(?:\.(?P<minor>[012])(?:\.[\dx*]+)?)?")


def check_version(document: Any, file: Path) -> None:
    """Raise DocumentError, with what to do, unless ``document`` says it is OpenAPI 3.0 to 3.2."""
    problem, advice = _NOT, "it must have 'openapi: 3.1.0' or 'openapi: 3.0.3'"
    members = document if isinstance(document, Mapping) else {}
    version = members.get("openapi")
    if isinstance(version, str) and version.startswith(("3.0.", "3.1.", "3.2.")):
        return
    meant = _VERSION.fullmatch(str(version).strip())
    if meant is not None:
        problem = "the version in 'openapi' must be text of three numbers"
        minor = meant["minor"] or "0"
        advice = f"write openapi: '3.{minor}.{3 if minor == '0' else 0}'"
    elif version is not None:
        problem = f"OpenAPI {version} is not served"
        advice = "3.0 to 3.2 are: a document that uses nothing newer may have 'openapi: 3.2.0'"
    elif "swagger" in members:
        problem = f"Swagger {members['swagger']} is not served"
        advice = "convert it to OpenAPI 3, as 'npx swagger2openapi FILE' or editor.swagger.io do"
    elif "asyncapi" in members:
        problem, advice = "AsyncAPI describes messages, not HTTP", "serve an OpenAPI document"
    place = place_of(file, ("openapi",)) if members else str(file)
    raise DocumentError(place, problem, advice)


def is_supported(uri: Any) -> bool:
    """True for JSON Schema 2020-12 and for the dialect of OpenAPI, which adds annotations."""
    known = str(uri).removesuffix("#")
    return known.startswith(_OAS_DIALECTS) or known == DRAFT_2020_12


def invalid_places(document: dict[str, Any]) -> Iterator[Note]:
    """Yield every place where ``document`` is not valid OpenAPI 3.1 or 3.2.

    Nothing is fetched. Undeclared names in ``required`` are not errors, nor are invalid defaults,
    which are annotations (JSON Schema Validation 9.2).
    """
    yield from _in_form(document)
    yield from _in_schemas(document)
    yield from _in_parameters(document)
    yield from _in_paths(document)
    with suppress(LookupError, TypeError, AttributeError):  # reported above
        try:
            base_path(document)
        except ValueError as error:
            yield Note(("servers", 0), str(error))


def _in_form(document: dict[str, Any]) -> Iterator[Note]:
    """Yield where the document does not have the form of OpenAPI."""
    version = "v3.2" if document["openapi"].startswith("3.2.") else "v3.1"
    for error in _form(version).iter_errors(document):
        yield from _as_invalid((), error)


@cache
def _form(version: str) -> Any:
    """Return the official schema without three rules that OpenAPI 3.0 does not have: components
    have any names, and a link has a server and any parameters."""
    schema = _official_schema(version)
    components, link = schema["$defs"]["components"], schema["$defs"]["link"]
    components = {key: part for key, part in components.items() if key != "patternProperties"}
    link = {**link, "properties": {**link["properties"], "parameters": True, "server": True}}
    definitions = {**schema["$defs"], "components": components, "link": link}
    return jsonschema_rs.validator_for(_closed({**schema, "$defs": definitions}))


def _closed(schema: Any) -> Any:
    """Return the schema with ``additionalProperties`` for ``unevaluatedProperties``: a member with
    an error in it is not evaluated, and would be reported once more."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy = {key: _closed(part) for key, part in schema.items()}
    if copy.pop("unevaluatedProperties", True) is False:
        names = dict.fromkeys(_declared_names(schema), True)
        copy["properties"] = names | copy.get("properties", {})
        copy["patternProperties"] = {"^x-": True} | copy.get("patternProperties", {})
        copy["additionalProperties"] = False
    return copy


def _declared_names(schema: Any) -> Iterator[str]:
    """Yield the names of members that a schema, or a part of it, declares."""
    if isinstance(schema, list):
        for part in schema:
            yield from _declared_names(part)
    if not isinstance(schema, Mapping):
        return
    yield from ("example", "examples") if schema.get("$ref") == "#/$defs/examples" else ()
    for key, part in schema.items():
        yield from part if key == "properties" else _declared_names(part)


def _is_of_patterns(error: jsonschema_rs.ValidationError) -> bool:
    """True if a pattern is not one of ECMA-262: one that cannot be used is a warning."""
    kind = error.kind
    return isinstance(kind, jsonschema_rs.ValidationErrorKind.Format) and kind.format == "regex"


def _in_schemas(document: dict[str, Any]) -> Iterator[Note]:
    """Yield where schemas are not JSON Schema 2020-12."""
    form = _meta_schema()
    for here in outermost_schemas(node(document)):
        for error in () if form.is_valid(here.value) else form.iter_errors(here.value):
            yield from () if _is_of_patterns(error) else _as_invalid(here.pointer, error)


@cache
def _meta_schema() -> Any:
    """Return what schemas are compared with: 2020-12 and what OpenAPI adds."""
    folder = _files_of("openapi_schema_validator") / "schemas" / "oas3.1"
    schema, added = (
        json.loads((folder / name).read_bytes())
        for name in ("metaschema.json", "vocabularies/base")
    )
    registry = jsonschema_rs.Registry([(added["$id"], added)])
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, registry=registry)


def _official_schema(version: str) -> dict[str, Any]:
    folder = _files_of("openapi_spec_validator") / "resources" / "schemas"
    schema: dict[str, Any] = json.loads((folder / version / "schema.json").read_bytes())
    return schema


def _files_of(package: str) -> Path:
    """Return the folder of a package that is not imported: these two need a sixth of a start.

    The packages do not promise these files, so ``pyproject.toml`` allows only versions that were
    tried with it.
    """
    found = find_spec(package)
    assert found is not None  # noqa: S101  it is installed with the sandbox
    return Path(str(found.origin)).parent


def outermost_schemas(here: Node) -> Iterator[Node]:
    """Yield the schemas at or below a place that are not in another schema."""
    if here.is_schema:
        yield here
        return
    for child in here.containers():
        yield from outermost_schemas(child)


def _in_parameters(document: dict[str, Any]) -> Iterator[Note]:
    """Yield the parameters that are twice in a list."""
    for here in walk(node(document)):
        if here.type != "[parameter]" or not isinstance(here.value, list):
            continue
        seen = set[tuple[str, str]]()
        for index, declared in enumerate(here.value):
            parameter = _named(document, declared)
            if "name" in parameter and parameter_key(parameter) in seen:
                text = f"parameter '{parameter['name']}' in {parameter['in']} is declared twice"
                yield Note((*here.pointer, index), _short(text))
            seen.add(parameter_key(parameter))


def _named(document: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """Return an object, or the one that its reference names; an empty one if there is none."""
    with suppress(ContractError):
        found = dereference(document, value)
        return found if isinstance(found, Mapping) else {}
    return {}


def _in_paths(document: dict[str, Any]) -> Iterator[Note]:
    """Yield the paths that are not templates, and the operations with wrong parameters in their
    paths or with the operationId of another."""
    names = Counter[str]()
    paths = document.get("paths")
    for path, declared in paths.items() if isinstance(paths, Mapping) else ():
        if path.startswith("x-"):
            continue
        if set("{}") & set(without_names(path).replace("{}", "")) or "" in path_names(path):
            yield Note(("paths", path), "its braces are not in pairs, each around a name")
            continue
        item = _named(document, declared)
        with suppress(ContractError):
            place, _ = located(document, ("paths", path), declared)
            for steps, operation in operations_of(item):
                text = _wrong_in_path(document, path, item, operation)
                if text:
                    yield Note((*place, *steps), text)
                name = operation.get("operationId")
                names.update([name] if isinstance(name, str) else ())
                if isinstance(name, str) and names[name] > 1:
                    at = (*place, *steps, "operationId")
                    yield Note(at, f"'{name}' is the operationId of another operation")


def _wrong_in_path(
    document: Mapping[str, Any], path: str, item: Mapping[str, Any], operation: Mapping[str, Any]
) -> str:
    """Return what is wrong with the parameters that are parts of a path, or nothing."""
    declared = set[str]()
    for holder in (item, operation):
        written = holder.get("parameters")
        parameters = map(partial(_named, document), written if isinstance(written, list) else ())
        declared |= {str(row.get("name")) for row in parameters if row.get("in") == "path"}
    missing, surplus = set(path_names(path)) - declared, declared - set(path_names(path))
    if missing:
        return f"no parameter is declared for {{{min(missing)}}} of the path"
    return f"parameter '{min(surplus)}' is not a part of the path" if surplus else ""


def _short(text: object) -> str:
    return str(text).splitlines()[0][:_MAX_MESSAGE_LENGTH]


def _as_invalid(start: Pointer, error: jsonschema_rs.ValidationError) -> Iterator[Note]:
    """Yield what an error reports of places below ``start``: of each unexpected member."""
    pointer, text = (*start, *error.instance_path), _short(error.message)
    unexpected = getattr(error.kind, "unexpected", ())
    for name in unexpected:
        own = f"the member '{name}' is unexpected"
        yield Note((*pointer, name), "a path begins with '/'" if pointer == ("paths",) else own)
    if not unexpected:
        yield Note(pointer, text)
