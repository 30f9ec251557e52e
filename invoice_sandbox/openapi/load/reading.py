"""From the file of a contract to the one document that is served: OpenAPI 3.1, or 3.2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invoice_sandbox.openapi.load.bundling import bundle, lost_references
from invoice_sandbox.openapi.load.documents import Note, load_document
from invoice_sandbox.openapi.load.model import Pointer
from invoice_sandbox.openapi.load.openapi_30 import as_31
from invoice_sandbox.openapi.load.openapi_32 import with_local_references
from invoice_sandbox.openapi.load.repairs import repair, repair_valid
from invoice_sandbox.openapi.load.text import DocumentError, reject_all
from invoice_sandbox.openapi.load.validate import check_version, invalid_places

_MAX_MESSAGE_LENGTH = 200


@dataclass(frozen=True)
class ReadContract:
    """``document`` is valid OpenAPI and refers to nothing outside itself.

    ``place`` returns file, line and column of a place in it; ``warnings`` are about what was
    repaired, or is served otherwise than declared.
    """

    document: dict[str, Any]
    place: Callable[[Pointer], str]
    warnings: tuple[Note, ...] = ()


def read_contract(file: Path, folder: Path | None = None) -> ReadContract:
    """Return the document of ``file``, OpenAPI 3.0 to 3.2, with everything that it refers to.

    OpenAPI 3.0 becomes 3.1.
    Files are read in the ``folder``, by default that of ``file``. Raises DocumentError, with every
    place that is wrong.
    """
    return _read(file, folder, as_31)


def read_as_written(file: Path, folder: Path | None = None) -> ReadContract:
    """Return the same in the version that it is written in."""
    return _read(file, folder, lambda document: document)


def _read(
    file: Path, folder: Path | None, version: Callable[[dict[str, Any]], dict[str, Any]]
) -> ReadContract:
    try:
        document = load_document(file)
        check_version(document, file)
        with_local_references(document)
        bundled = bundle(document, file, folder)
        repairs = list(repair(bundled.document))
        document = version(bundled.document)
        invalid = [note.error(bundled.place) for note in invalid_places(as_31(document))]
        reject_all(file, [*bundled.errors, *invalid])
        repairs += repair_valid(document)
        return ReadContract(document, bundled.place, tuple(repairs))
    except RecursionError:
        problem = "nested too deeply, or a reference leads into itself"
        raise DocumentError(str(file), problem) from None
    except ValueError as error:  # an address that nobody can read
        if isinstance(error, DocumentError):
            raise
        problem = str(error).splitlines()[0][:_MAX_MESSAGE_LENGTH]
        raise DocumentError(str(file), f"cannot be read: {problem}") from None


def check_openapi(document: dict[str, Any], file: Path, place: Callable[[Pointer], str]) -> None:
    """Raise DocumentError, with every place that is wrong, unless ``document`` is valid OpenAPI."""
    check_version(document, file)
    notes = [*lost_references(document), *invalid_places(as_31(document))]
    reject_all(file, [note.error(place) for note in notes])
