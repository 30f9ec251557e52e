"""Is a document an OpenAPI 3.1 description at all?"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.contract.documents import DocumentError, place_of, pointer_text
from invoice_sandbox.contract.identifiers import Place, identified

_OFFICIAL: Final = "https://json-schema.org/draft/"
_META: Final = _OFFICIAL + "2020-12/schema"


def check_openapi(document: Any, file: Path) -> None:
    """Raise DocumentError, with line and column, unless ``document`` is valid OpenAPI 3.1.

    Nothing is fetched: a reference to another document is an error. A schema whose ``default`` is
    not valid is none: it is an annotation (JSON Schema Validation 9.2).
    """
    from jsonschema_path import SchemaPath
    from openapi_spec_validator import OpenAPIV31SpecValidator
    from referencing.exceptions import Unresolvable

    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3.1."):
        raise DocumentError(
            str(file), "not an OpenAPI 3.1 document", "it must say 'openapi: 3.1.0'"
        )

    try:
        readable = _pointers_only(document, {_META, *identified(document)}, Place())
        offline = SchemaPath.from_dict(readable, handlers={"<all_urls>": _refuse_to_fetch})
        for error in OpenAPIV31SpecValidator(offline).iter_errors():
            pointer = list(error.absolute_path)
            where = pointer_text(pointer)
            raise DocumentError(
                place_of(file, pointer), f"{where}: {error.message.splitlines()[0]}"
            )
    except Unresolvable as error:
        raise DocumentError(str(file), f"the reference '{error.ref}' names nothing here") from None
    except RecursionError:
        raise DocumentError(str(file), "nested too deeply") from None


def _refuse_to_fetch(uri: str) -> Any:
    raise LookupError(uri)


def _pointers_only(value: Any, known: Container[str], place: Place) -> Any:
    """``value`` as openapi-spec-validator can read it, which knows neither ``$id`` nor anchors.

    References that need them are left out: whether they name anything is seen when the schemas
    are compiled. So are defaults.
    """
    if isinstance(value, list):
        return [_pointers_only(item, known, place.below("", item)) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: child if place.is_data(key) else _pointers_only(child, known, place.below(key, child))
        for key, child in value.items()
        if place.names or not _is_beyond(key, child, known, place)
    }


def _is_beyond(key: str, child: Any, known: Container[str], place: Place) -> bool:
    """Whether openapi-spec-validator would misjudge this keyword."""
    if key == "default":
        return place.in_schema
    if not isinstance(child, str):
        return False
    if key == "$schema":
        return child in known
    return key in {"$ref", "$dynamicRef"} and (
        bool(place.base) or child in known or _resource(child) in known
    )


def _resource(reference: str) -> str:
    """The address without its fragment. The meta-schemas of JSON Schema are known everywhere."""
    address, _, _ = reference.partition("#")
    return _META if address.startswith(_OFFICIAL) else address or "#"
