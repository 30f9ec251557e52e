"""Is a document an OpenAPI 3.1 description at all?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from invoice_sandbox.contract.documents import DocumentError, place_of, pointer_text


def check_openapi(document: Any, file: Path) -> None:
    """Raise DocumentError, with line and column, unless ``document`` is valid OpenAPI 3.1.

    Nothing is fetched: a reference to another document is an error.
    """
    from jsonschema_path import SchemaPath
    from openapi_spec_validator import OpenAPIV31SpecValidator
    from referencing.exceptions import Unresolvable

    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3.1."):
        raise DocumentError(
            str(file), "not an OpenAPI 3.1 document", "it must say 'openapi: 3.1.0'"
        )

    try:
        offline = SchemaPath.from_dict(document, handlers={"<all_urls>": _refuse_to_fetch})
        for error in OpenAPIV31SpecValidator(offline).iter_errors():
            pointer = list(error.absolute_path)
            where = pointer_text(pointer)
            raise DocumentError(
                place_of(file, pointer), f"{where}: {error.message.splitlines()[0]}"
            )
    except Unresolvable as error:
        raise DocumentError(str(file), f"the reference '{error.ref}' names nothing here") from None


def _refuse_to_fetch(uri: str) -> Any:
    raise LookupError(uri)
