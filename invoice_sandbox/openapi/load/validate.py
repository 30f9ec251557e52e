"""Is a document an OpenAPI description at all, 3.0 or 3.1?"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from invoice_sandbox.base.cache import Entry, entry
from invoice_sandbox.openapi.load.documents import DocumentError, Places, pointer_text
from invoice_sandbox.openapi.load.model import Node, Pointer, node, walk
from invoice_sandbox.openapi.load.references import identified

_OFFICIAL: Final = "https://json-schema.org/draft/"
_META: Final = _OFFICIAL + "2020-12/schema"
_NOT: Final = "not an OpenAPI document"
_RULES: Final = 1
"""Raise it whenever this module accepts less: documents that passed are validated again."""

_MAX_MESSAGE_LENGTH: Final = 240
"""Letters of a message: the validator puts whole objects into some."""


def check_version(document: Any, file: Path) -> None:
    """Raise DocumentError, with what to do, unless ``document`` says it is OpenAPI 3.0 or 3.1."""
    problem, advice = _NOT, "it must have 'openapi: 3.1.0' or 'openapi: 3.0.3'"
    members = document if isinstance(document, Mapping) else {}
    version = members.get("openapi")
    if isinstance(version, str) and version.startswith(("3.0.", "3.1.")):
        return
    if isinstance(version, int | float):
        problem, advice = "the version in 'openapi' must be text", "write openapi: '3.1.0'"
    elif version is not None:
        problem = f"OpenAPI {version} is not served"
        advice = "3.0 and 3.1 are: a document that uses nothing newer may have 'openapi: 3.1.0'"
    elif "swagger" in members:
        problem = f"Swagger {members['swagger']} is not served"
        advice = "convert it to OpenAPI 3, as 'npx swagger2openapi FILE' or editor.swagger.io do"
    elif "asyncapi" in members:
        problem, advice = "AsyncAPI describes messages, not HTTP", "serve an OpenAPI document"
    place = Places().of(file, ("openapi",)) if members else str(file)
    raise DocumentError(place, problem, advice)


def check_openapi(document: Any, file: Path, place: Callable[[Pointer], str] | None = None) -> None:
    """Raise DocumentError, with line and column, unless ``document`` is valid OpenAPI 3.0 or 3.1.

    ``place`` locates a pointer that is not in ``file``. Nothing is fetched: a reference to
    another document is an error. Invalid defaults (annotations, JSON Schema Validation 9.2) and
    undeclared ``required`` names are not errors.
    """
    from referencing.exceptions import Unresolvable

    check_version(document, file)
    passed = _passed(document)
    if passed.read():
        return
    try:
        readable = _pointers_only(node(document), {_META, *identified(document)})
        found = _first_problem(readable)
    except Unresolvable as error:
        raise DocumentError(str(file), f"cannot resolve reference '{error.ref}'") from None
    except RecursionError:
        raise DocumentError(str(file), "nested too deeply") from None
    if found is not None:
        pointer, text = found
        where = Places().of(file, pointer) if place is None else place(pointer)
        raise DocumentError(where, f"{pointer_text(pointer)}: {text}".removeprefix(": "))
    passed.write(True)


def _passed(document: Any) -> Entry:
    """``True`` once this very document has passed, by this very validator, which is slow."""
    from importlib.metadata import version

    return entry("valid", version("openapi-spec-validator"), _RULES, document)


def _first_problem(document: dict[str, Any]) -> tuple[Pointer, str] | None:
    from jsonschema_path import SchemaPath
    from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator

    is_30 = document["openapi"].startswith("3.0.")
    validator = OpenAPIV30SpecValidator if is_30 else OpenAPIV31SpecValidator
    offline = SchemaPath.from_dict(document, handlers={"<all_urls>": _reject_fetching})
    for error in validator(offline).iter_errors():
        if not _is_opinion(error):
            found = _in_form(document, error) or _in_operation(document, error.message)
            found = found or _in_schema(document, error)
            pointer, text = found or (tuple(error.absolute_path), error.message)
            return pointer, text.splitlines()[0][:_MAX_MESSAGE_LENGTH]
    return None


def _in_form(document: dict[str, Any], error: Any) -> tuple[Pointer, str] | None:
    """Where exactly the document is not valid OpenAPI.

    Its schema has "this or a reference" in many places; the validator reports no more than that.
    """
    from openapi_spec_validator.schemas import schema_v30, schema_v31

    if error.instance is not document:
        return None
    form = schema_v30 if document["openapi"].startswith("3.0.") else schema_v31
    found: Any = next(jsonschema_rs.validator_for({**form}).iter_errors(document), None)
    while found is not None:
        branches = [one for one in getattr(found.kind, "context", []) if one]
        likely = [one[0] for one in branches if not _wants_reference(one[0])]
        if len(likely) != 1:
            return tuple(found.instance_path), found.message
        found = likely[0]
    return None


def _wants_reference(error: jsonschema_rs.ValidationError) -> bool:
    kind = error.kind
    return isinstance(kind, jsonschema_rs.ValidationErrorKind.Required) and kind.property == "$ref"


def _is_opinion(error: Any) -> bool:
    """Whether the document is right and the validator is not: it reads patterns as Python does."""
    from openapi_spec_validator.validation.exceptions import ExtraParametersError

    is_pattern = error.validator == "format" and error.validator_value == "regex"
    return is_pattern or isinstance(error, ExtraParametersError)


def _in_operation(document: Mapping[str, Any], message: str) -> tuple[Pointer, str] | None:
    """Where an operation is that the validator names in its message only."""
    found = _OPERATION.search(message)
    if found is None or found["method"] not in document["paths"].get(found["path"], {}):
        return None
    return ("paths", found["path"], found["method"]), message


def _in_schema(document: Mapping[str, Any], error: Any) -> tuple[Pointer, str] | None:
    """Where a schema is that the validator rejects: its path starts from the schema alone."""
    at = list(error.absolute_path)
    for here in walk(node(document)):
        if here.is_schema:
            inner = here.value
            try:
                for step in at:
                    inner = inner[step]
            except (LookupError, TypeError):
                continue
            if inner is error.instance:
                return (*here.pointer, *at), error.message
    return None


_OPERATION: Final = re.compile(r"for '(?P<method>\w+)'(?: operation)? in '(?P<path>/.*?)'")


def _reject_fetching(uri: str) -> Any:
    raise LookupError(uri)


def _pointers_only(here: Node, known: Container[str]) -> Any:
    """A copy that openapi-spec-validator can read, which supports neither ``$id`` nor anchors.

    References that need them are left out: whether they name anything is seen when the schemas
    are compiled. So are defaults.
    """
    copy = here.copy(lambda child: _pointers_only(child, known))
    for key in _MISJUDGED if isinstance(copy, dict) and here.type[0] not in "{<" else ():
        if key in copy and _is_misjudged(key, copy[key], known, here):
            del copy[key]
    return copy


_MISJUDGED: Final = ("default", "$schema", "$ref", "$dynamicRef")


def _is_misjudged(key: str, child: Any, known: Container[str], here: Node) -> bool:
    if key == "default":
        return here.is_schema
    if not isinstance(child, str):
        return False
    if key == "$schema":
        return child in known
    return bool(here.base) or child in known or _resource(child) in known


def _resource(reference: str) -> str:
    """The address without its fragment. The meta-schemas of JSON Schema are known everywhere."""
    address, _, _ = reference.partition("#")
    return _META if address.startswith(_OFFICIAL) else address or "#"
