"""Is a document an OpenAPI description at all, 3.0 or 3.1?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final
from warnings import catch_warnings, simplefilter

import jsonschema_rs

from invoice_sandbox.openapi.load.conformity import conforms, meta_schema_31, official_form
from invoice_sandbox.openapi.load.documents import Places, pointer_text
from invoice_sandbox.openapi.load.model import SECTIONS, Node, Pointer, node, walk
from invoice_sandbox.openapi.load.operations import (
    base_path,
    parameter_key,
    path_names,
    without_names,
)
from invoice_sandbox.openapi.load.pointers import (
    ContractError,
    dereference,
    followed,
    identified,
)
from invoice_sandbox.openapi.load.text import DocumentError

_OFFICIAL: Final = "https://json-schema.org/draft/"
DRAFT_2020_12: Final = "https://json-schema.org/draft/2020-12/schema"
OAS_DIALECT: Final = "https://spec.openapis.org/oas/3.1/dialect/"
DIALECTS: Final[Mapping[str, tuple[type[Any], int]]] = {
    DRAFT_2020_12: (jsonschema_rs.Draft202012Validator, jsonschema_rs.Draft202012),
    "https://json-schema.org/draft/2019-09/schema": (
        jsonschema_rs.Draft201909Validator,
        jsonschema_rs.Draft201909,
    ),
    "http://json-schema.org/draft-07/schema": (
        jsonschema_rs.Draft7Validator,
        jsonschema_rs.Draft7,
    ),
    "http://json-schema.org/draft-06/schema": (
        jsonschema_rs.Draft6Validator,
        jsonschema_rs.Draft6,
    ),
    "http://json-schema.org/draft-04/schema": (
        jsonschema_rs.Draft4Validator,
        jsonschema_rs.Draft4,
    ),
}
"""The known dialects of JSON Schema by their official URIs: how the library names them."""

_NOT: Final = "not an OpenAPI document"
_MOST: Final = 1000
"""How many problems of a document are looked for."""

_MAX_MESSAGE_LENGTH: Final = 240
"""Letters of a message: the validator puts whole objects into some."""


_VERSION: Final = re.compile(r"v?3(?:\.(?P<minor>[01])(?:\.[\dx*]+)?)?")


def meant_version(version: Any) -> str | None:
    """What is meant by a version that is not written in full, or with a ``v``; None: nothing."""
    found = _VERSION.fullmatch(str(version).strip())
    if found is None:
        return None
    return "3.1.0" if found["minor"] == "1" else "3.0.3"


def check_version(document: Any, file: Path) -> None:
    """Raise DocumentError, with what to do, unless ``document`` says it is OpenAPI 3.0 or 3.1."""
    problem, advice = _NOT, "it must have 'openapi: 3.1.0' or 'openapi: 3.0.3'"
    members = document if isinstance(document, Mapping) else {}
    version = members.get("openapi")
    if isinstance(version, str) and version.startswith(("3.0.", "3.1.")):
        return
    meant = meant_version(version)
    if meant is not None:
        problem = "the version in 'openapi' must be text of three numbers"
        advice = f"write openapi: '{meant}'"
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


@dataclass(frozen=True)
class Invalid:
    """A place of a document that OpenAPI does not allow, and why not.

    ``is_extra``: it is a member that the object around it cannot have. ``types``: it is none of
    these. ``missing`` is the member that an object has to have.
    """

    pointer: Pointer
    text: str
    is_extra: bool = False
    types: Sequence[str] = ()
    missing: str = ""


def dialect(uri: Any) -> str | None:
    """The official URI of a known dialect, or None. The OpenAPI dialect only adds annotations."""
    known = str(uri).removesuffix("#")
    if known.startswith(OAS_DIALECT):
        return DRAFT_2020_12
    return known if known in DIALECTS else None


def check_openapi(document: Any, file: Path, place: Callable[[Pointer], str] | None = None) -> None:
    """Raise DocumentError, with line and column, unless ``document`` is valid OpenAPI 3.0 or 3.1.

    ``place`` locates a pointer that is not in ``file``. Nothing is fetched: a reference to
    another document is an error. Invalid defaults (annotations, JSON Schema Validation 9.2) and
    undeclared ``required`` names are not errors.
    """
    for found in (*invalid_places(document, file), *unusual_names(document)):
        raise not_valid(found, place or partial(Places().of, file))


def not_valid(found: Invalid, place: Callable[[Pointer], str]) -> DocumentError:
    """The error that a document is not valid OpenAPI at a place."""
    pointer = found.pointer[:-1] if found.is_extra else found.pointer
    problem = f"{pointer_text(pointer)}: {found.text}".removeprefix(": ")
    return DocumentError(place(pointer), problem)


def invalid_places(document: Any, file: Path) -> list[Invalid]:
    """Where ``document`` is not valid OpenAPI: one kind of problem at a time, the first 1000.

    Raises DocumentError for what has no place.
    """
    from referencing.exceptions import Unresolvable

    check_version(document, file)
    try:
        found = [] if conforms(document) else _problems(document)
        return found or list(_unusable(document))
    except Unresolvable as error:
        raise DocumentError(str(file), f"cannot resolve reference '{error.ref}'") from None
    except RecursionError:
        raise DocumentError(str(file), "nested too deeply") from None


def _problems(document: dict[str, Any]) -> list[Invalid]:
    """The same for a document that does not conform. The validator compiles patterns as those of
    Python, whose warnings mean nothing here."""
    with catch_warnings():
        simplefilter("ignore", FutureWarning)
        return list(islice(_invalid(document), _MOST))


def misplaced_components(document: Mapping[str, Any]) -> Iterator[Invalid]:
    """Where the components, or a section of them, are no object, which nothing can be added to."""
    components = document.get("components", {})
    sections = components if isinstance(components, dict) else {}
    places: dict[Pointer, Any] = {("components",): components}
    places |= {("components", one): sections.get(one, {}) for one in SECTIONS.values()}
    for pointer, value in places.items():
        if not isinstance(value, dict):
            text = f'{json.dumps(value, default=str)} is not of type "object"'
            yield Invalid(pointer, _short(text), types=("object",))


def unusual_names(document: Mapping[str, Any]) -> Iterator[Invalid]:
    """The components of a valid document whose names OpenAPI does not allow."""
    components = document.get("components", {})
    for section in [one for one in components if not one.startswith("x-")]:
        for name in [one for one in components[section] if not _NAME.fullmatch(one)]:
            text = "the name of a component can have letters, digits, '.', '-' and '_' only"
            yield Invalid(("components", section, name), text)


_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def _unusable(document: dict[str, Any]) -> Iterator[Invalid]:
    """What has the form of OpenAPI, and no request can be served by: paths, and the first
    server."""
    for path in document.get("paths", {}):
        if set("{}") & set(without_names(path).replace("{}", "")) or "" in path_names(path):
            text = "its braces are not in pairs, each around a name"
            yield Invalid(("paths", path), text)
        elif any(one.startswith(("?", "&")) for one in path_names(path)):
            text = "it has a query, and there is another path without it"
            yield Invalid(("paths", path), text)
    try:
        base_path(document)
    except ValueError as error:
        yield Invalid(("servers", 0), str(error))


def _readable(document: Any) -> Any:
    is_30 = document["openapi"].startswith("3.0.")
    keys = _MISJUDGED if is_30 else (*_MISJUDGED, "items")
    return _pointers_only(node(document), {DRAFT_2020_12, *identified(document)}, keys)


def _invalid(document: dict[str, Any]) -> Iterator[Invalid]:
    from jsonschema_path import SchemaPath
    from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator
    from openapi_spec_validator.validation.exceptions import DuplicateOperationIDError

    schemas = list(_invalid_schemas(document))
    if schemas:  # over which the validator stumbles
        yield from schemas
        return
    surplus = [*_surplus_parameters(document), *_surplus_tags(document)]
    document = _readable(document)
    if surplus:  # which the validator reports without a place
        known = {one.pointer for one in surplus}
        others = [one for one in _in_form(document) if one.pointer not in known]
        yield from sorted([*surplus, *others], key=lambda one: _position(document, one.pointer))
        return
    is_30 = document["openapi"].startswith("3.0.")
    validator = OpenAPIV30SpecValidator if is_30 else OpenAPIV31SpecValidator
    offline = SchemaPath.from_dict(document, handlers=_Offline())
    for error in _with_any_names(validator, official_form(document))(offline).iter_errors():
        if error.instance is document:
            yield from _in_form(document)
            return
        if not _is_opinion(error):
            found = _in_operation(document, error.message) or _in_schema(document, error)
            pointer, text = found or (tuple(error.absolute_path), error.message)
            is_name = isinstance(error, DuplicateOperationIDError)
            pointer = (*pointer, "operationId") if is_name else pointer
            yield Invalid(pointer, _short(text), is_extra=is_name)


def _position(document: Any, pointer: Pointer) -> list[int]:
    """Sorts places in the order of the document."""
    found, here = list[int](), document
    for step in pointer:
        keys: list[Any] = list(here) if isinstance(here, dict) else [*range(len(here))]
        found.append(keys.index(step) if step in keys else len(keys))
        here = here[step] if step in keys else ()
    return found


def _surplus_parameters(document: dict[str, Any]) -> Iterator[Invalid]:
    """Every parameter of a list that has one of the same name and location before it, or that is in
    the path by its own account and no part of it."""
    for here in walk(node(document)):
        if here.type != "[parameter]" or not isinstance(here.value, list):
            continue
        is_of_path = here.pointer[0] == "paths" and len(here.pointer) <= _LIST_OF_OPERATION
        names = path_names(str(here.pointer[1])) if is_of_path else None
        seen = set[tuple[str, str]]()
        for index, declared in enumerate(here.value):
            with suppress(ContractError):  # of a reference that names nothing
                one = dereference(document, declared)
                if not isinstance(one, Mapping) or not {"name", "in"} <= one.keys():
                    continue
                key, name, place = parameter_key(one), str(one.get("name")), str(one.get("in"))
                text = f"parameter '{name}' in {place} is declared twice" if key in seen else ""
                if names is not None and place == "path" and name not in names:
                    text = f"parameter '{name}' is no part of the path"
                if text:
                    yield Invalid((*here.pointer, index), _short(text), is_extra=True)
                seen.add(key)


def _surplus_tags(document: Mapping[str, Any]) -> Iterator[Invalid]:
    """Every tag of a document that has the name of one before it."""
    seen, tags = set[str](), document.get("tags")
    for index, tag in enumerate(tags if isinstance(tags, list) else ()):
        name = tag.get("name") if isinstance(tag, Mapping) else None
        if isinstance(name, str) and name in seen:
            text = f"tag '{name}' is declared twice"
            yield Invalid(("tags", index), _short(text), is_extra=True)
        seen.add(str(name))


_LIST_OF_OPERATION: Final = 4
"""The length of the pointer to the parameters of an operation; that of a path's is shorter."""


def _with_any_names(validator: Any, form: dict[str, Any]) -> Any:
    """A validator of openapi-spec-validator with its ``form`` of documents. By itself, it reads
    paths as format strings of Python: as if the name in ``/users/{id:int}`` was ``id``. Schemas of
    3.1 have been compared with their dialects, of which it does not say where they are."""
    from openapi_spec_validator.schemas.backend import get_validator_for
    from openapi_spec_validator.validation.keywords import (
        OpenAPIV31SchemaValidator,
        OperationValidator,
    )

    class Operation(OperationValidator):
        def _get_path_params_from_url(self, url: str) -> Iterator[str]:
            return filter(None, path_names(url))

    class Schema(OpenAPIV31SchemaValidator):
        def _validate_schema_meta(self, schema: Any, schema_value: Any) -> None:
            _ = schema, schema_value

    keywords = {**validator.keyword_validators, "operation": Operation}
    if keywords["schema"] is OpenAPIV31SchemaValidator:
        keywords["schema"] = Schema
    members = {"keyword_validators": keywords, "schema_validator": get_validator_for(form)}
    return type(validator.__name__, (validator,), members)


def _invalid_schemas(document: dict[str, Any]) -> Iterator[Invalid]:
    """Where schemas of an OpenAPI 3.1 document are not what their dialects allow."""
    if document["openapi"].startswith("3.1."):
        usual = document.get("jsonSchemaDialect", DRAFT_2020_12)
        known = cache(lambda: identified(document))
        for here in _outermost_schemas(node(document)):
            own = [one for one in walk(here) if one is not here and _is_of_its_own(one)]
            for one in (here, *own):
                named = meant_dialect(one.value.get("$schema", usual), known)
                yield from _in_schema_of(one, dialect(named), own)


def _is_of_its_own(here: Node) -> bool:
    """Whether a part of a schema may have another dialect: it needs an address (JSON Schema Core
    8.1.1)."""
    return here.is_schema and "$schema" in here.value and not _IDS.isdisjoint(here.value)


_IDS: Final = frozenset({"$id", "id"})


def meant_dialect(uri: Any, known: Callable[[], Mapping[str, Any]]) -> Any:
    """The dialect that a schema names: that of the meta-schema if it is ``known`` there."""
    if dialect(uri) is None and str(uri) in known():
        return known()[str(uri)].get("$schema", DRAFT_2020_12)
    return uri


def _outermost_schemas(here: Node) -> Iterator[Node]:
    if here.is_schema:
        yield here
        return
    for child in here.containers():
        yield from _outermost_schemas(child)


def _in_schema_of(here: Node, official: str | None, own: Sequence[Node]) -> Iterator[Invalid]:
    """Where a schema is not what a dialect allows, but for its parts with one of their own."""
    form = None if official is None else _form_of(official)
    if form is None or form.is_valid(here.value):
        return
    start = len(here.pointer) + 1
    others = {one.pointer for one in own if len(one.pointer) >= start}
    for error in form.iter_errors(here.value):
        for found in _as_invalid(here, error):
            ends = range(start, len(found.pointer) + 1)
            if others.isdisjoint(found.pointer[:end] for end in ends):
                yield found


@cache
def _form_of(official: str) -> Any:
    """What the schemas of a dialect are compared with; those of 2020-12 may have what OpenAPI
    adds."""
    if official == DRAFT_2020_12:
        return meta_schema_31()
    return DIALECTS[official][0]({"$ref": official}, validate_formats=True)


def _short(text: str) -> str:
    return text.splitlines()[0][:_MAX_MESSAGE_LENGTH]


def _in_form(document: dict[str, Any]) -> Iterator[Invalid]:
    """Where exactly the document does not have the form of OpenAPI.

    Its schema has "this or a reference" in many places; the validator reports no more than that.
    """
    errors = jsonschema_rs.validator_for(official_form(document)).iter_errors(document)
    for found in _causes([one for error in errors for one in _innermost(error)]):
        yield from _as_invalid(node(document), found)


def _as_invalid(start: Node, found: jsonschema_rs.ValidationError) -> Iterator[Invalid]:
    """What an error says of places below ``start``."""
    steps = _with_empty_names(start.value, found.instance_path, found.instance)
    pointer, text = (*start.pointer, *(steps or found.instance_path)), _short(found.message)
    extra = getattr(found.kind, "unexpected", None) or _equal_items(found)
    if _has_both_examples(found):
        extra, text = ("example",), "'example' cannot be beside 'examples'"
    text = "a path begins with '/'" if extra and pointer == ("paths",) else text
    text = "an item before it is equal" if isinstance(found.instance, list) and extra else text
    for one in extra:
        before, _, names = text.partition(" ('")
        own = f"{before} ('{one}' was unexpected)" if names.endswith(_SEVERAL) else text
        yield Invalid((*pointer, one), _short(own), is_extra=True)
    if not extra:
        types = tuple(getattr(found.kind, "types", ()))
        yield Invalid(pointer, text, types=types, missing=_missing(found))


_SEVERAL: Final = "' were unexpected)"


def _with_empty_names(value: Any, path: Sequence[str | int], end: Any) -> Pointer | None:
    """The steps from a value to another one, whose ``path`` lacks the empty names; None: they lead
    to others only."""
    if not path and value == end:
        return ()
    ways = [(one, path[1:]) for one in path[:1]]
    if isinstance(value, dict):
        ways = [*((str(one), rest) for one, rest in ways), ("", path)]
    for step, rest in ways:
        with suppress(LookupError, TypeError):  # of a way that leads nowhere
            found = _with_empty_names(value[step], rest, end)
            if found is not None:
                return (step, *found)
    return None


def _equal_items(error: jsonschema_rs.ValidationError) -> list[int]:
    """The items of a list that may have no equal ones which equal one before them."""
    if not isinstance(error.kind, jsonschema_rs.ValidationErrorKind.UniqueItems):
        return []
    found = error.instance if isinstance(error.instance, list) else []
    items = [json.dumps(one, sort_keys=True) for one in found]
    return [index for index, one in enumerate(items) if one in items[:index]]


def _has_both_examples(error: jsonschema_rs.ValidationError) -> bool:
    """Whether it has ``example`` and ``examples``, which OpenAPI 3.0 does not allow."""
    is_not = isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Not)
    return is_not and isinstance(error.instance, dict) and error.instance.keys() >= _EXAMPLES


_EXAMPLES: Final = frozenset({"example", "examples"})


def _causes(errors: Sequence[jsonschema_rs.ValidationError]) -> Iterator[Any]:
    """The errors without those that others lead to: of an object with an error in it, or that
    lacks a member, members are unevaluated (JSON Schema Core 11.3) that it may have; what lacks a
    member may be several things; what has the wrong type is wrong otherwise, too."""
    unevaluated = jsonschema_rs.ValidationErrorKind.UnevaluatedProperties
    mistyped = jsonschema_rs.ValidationErrorKind.Type
    several = jsonschema_rs.ValidationErrorKind.OneOfMultipleValid
    lacks = {tuple(one.instance_path) for one in errors if _missing(one)}
    around, of_wrong_type = set[Pointer](), set[Pointer]()
    for error in errors:
        path = tuple(error.instance_path)
        inside = len(path) + (not isinstance(error.kind, unevaluated))
        around |= {path[:length] for length in range(inside)}
        of_wrong_type |= {path} if isinstance(error.kind, mistyped) else set()
    for error in errors:
        path, kind = tuple(error.instance_path), error.kind
        is_result = isinstance(kind, unevaluated) and path in around
        is_result |= isinstance(kind, several) and path in lacks
        if not is_result and (isinstance(kind, mistyped) or path not in of_wrong_type):
            yield error


def _missing(error: Any) -> str:
    """The member that an object has to have; the first if it is one of several."""
    branches = [one[0] for one in getattr(error.kind, "context", []) if one]
    return str(getattr((branches or [error])[0].kind, "property", ""))


def _innermost(error: Any) -> Iterator[Any]:
    """The errors that make one: those of the only alternative that the value can mean."""
    branches = [one for one in getattr(error.kind, "context", []) if one]
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.OneOfMultipleValid):
        branches = []  # what is wrong in the others is not what is wrong
    likely = [one for one in branches if not _is_a_reference(one)]
    if len(likely) > 1:
        likely = [one for one in likely if not _is_of_another_type(one, error)]
    if len(likely) != 1:
        yield error
        return
    for one in likely[0]:
        yield from _innermost(one)


def _is_a_reference(branch: Sequence[jsonschema_rs.ValidationError]) -> bool:
    kind = branch[0].kind
    required = jsonschema_rs.ValidationErrorKind.Required
    return isinstance(kind, required) and kind.property == "$ref"


def _is_of_another_type(branch: Sequence[jsonschema_rs.ValidationError], around: Any) -> bool:
    """Whether a branch is a value of another type, or an object of another ``type``, such as that
    of a security scheme."""
    own, mistyped = list(around.instance_path), jsonschema_rs.ValidationErrorKind.Type
    return any(
        list(one.instance_path) == [*own, "type"]
        or (list(one.instance_path) == own and isinstance(one.kind, mistyped))
        for one in branch
    )


def _is_opinion(error: Any) -> bool:
    """Whether the document is right and the validator is not: it reads patterns as Python does."""
    from openapi_spec_validator.validation.exceptions import ExtraParametersError

    is_pattern = error.validator == "format" and error.validator_value == "regex"
    return is_pattern or isinstance(error, ExtraParametersError)


def _in_operation(document: Mapping[str, Any], message: str) -> tuple[Pointer, str] | None:
    """Where an operation is that the validator names in its message only."""
    found = _OPERATION.fullmatch(message)
    if found is None:
        return None
    item = document["paths"].get(found["path"])
    *_, place = ("paths", found["path"]), *(place for place, _ in followed(document, item))
    is_there = found["method"] in (dereference(document, item) or {})
    return ((*place, found["method"]), message) if is_there else None


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


_OPERATION: Final = re.compile(
    r".* for '(?P<method>\w+)'(?: operation)? in '(?P<path>/.*)'"
    r" (?:is not unique|was not resolved)",
    re.DOTALL,
)


class _Offline(dict[str, Any]):
    """What gets the files of each URL scheme for jsonschema-path: nothing, of any scheme.

    Of a scheme that is not in its handlers, that library gets files by itself.
    """

    def __contains__(self, scheme: object) -> bool:
        return True

    def __missing__(self, scheme: str) -> Callable[[str], Any]:
        return self._reject

    @staticmethod
    def _reject(uri: str) -> Any:
        raise LookupError(uri)


def _pointers_only(here: Node, known: Container[str], keys: Sequence[str]) -> Any:
    """A copy that openapi-spec-validator can read, which supports neither ``$id`` nor anchors.

    References that need them are left out: whether they name anything is seen when the schemas
    are compiled. So are defaults, and lists of ``items``, which earlier dialects have.
    """
    copy = here.copy(lambda child: _pointers_only(child, known, keys))
    for key in keys if isinstance(copy, dict) and here.type[0] not in "{<" else ():
        if key in copy and _is_misjudged(key, copy[key], known, here):
            del copy[key]
    return copy


_MISJUDGED: Final = ("default", "$ref", "$dynamicRef")


def _is_misjudged(key: str, child: Any, known: Container[str], here: Node) -> bool:
    if key in {"default", "items"}:
        return here.is_schema and (key == "default" or isinstance(child, list))
    if not isinstance(child, str):
        return False
    return bool(here.base) or child in known or _resource(child) in known


def _resource(reference: str) -> str:
    """The address without its fragment. The meta-schemas of JSON Schema are known everywhere."""
    address, _, _ = reference.partition("#")
    return DRAFT_2020_12 if address.startswith(_OFFICIAL) else address or "#"
