"""From the file of a contract to the one document that is served, which is OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.openapi.load.bundling import bundle
from invoice_sandbox.openapi.load.documents import DocumentError, load_document, place_of
from invoice_sandbox.openapi.load.effort import check_effort
from invoice_sandbox.openapi.load.fetching import Fetch, never
from invoice_sandbox.openapi.load.limitations import limitations, repair
from invoice_sandbox.openapi.load.model import Pointer
from invoice_sandbox.openapi.load.openapi_30 import as_31
from invoice_sandbox.openapi.load.operations import Note
from invoice_sandbox.openapi.load.references import ContractError
from invoice_sandbox.openapi.load.validate import check_openapi, check_version

_MAX_MESSAGE_LENGTH: Final = 200


@dataclass(frozen=True)
class ReadContract:
    """``document`` is valid OpenAPI 3.1 and refers to nothing outside itself.

    ``place`` gives file, line and column of a place in it; ``limits`` is what has no effect here.
    """

    document: dict[str, Any]
    place: Callable[[Pointer], str]
    limits: tuple[Note, ...]


def read_contract(file: Path, fetch: Fetch = never, folders: Sequence[Path] = ()) -> ReadContract:
    """The document of ``file``, OpenAPI 3.0 or 3.1, with everything that it refers to.

    ``fetch`` gets what lies beyond this machine; files of it are read in the folder of ``file`` and
    in ``folders``. Raises DocumentError, with a place.
    """
    try:
        return _read(file, fetch, folders)
    except RecursionError:
        raise DocumentError(
            str(file), "nested too deeply, or a reference leads into itself"
        ) from None
    except (ValueError, OSError) as error:  # an address or a text that nobody can read
        if isinstance(error, ContractError):
            raise
        problem = str(error).splitlines()[0][:_MAX_MESSAGE_LENGTH]
        raise DocumentError(str(file), f"cannot be read: {problem}") from None


def _read(file: Path, fetch: Fetch, folders: Sequence[Path]) -> ReadContract:
    document = load_document(file)
    check_version(document, file)
    check_effort(document, partial(place_of, file))
    whole = bundle(document, file, fetch, folders)
    repaired = repair(whole.document)
    check_openapi(whole.document, file, whole.place)
    notes = (*repaired, *limitations(whole.document))
    return ReadContract(as_31(whole.document), whole.place, notes)
