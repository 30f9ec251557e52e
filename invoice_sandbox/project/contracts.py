"""The contracts of a project, its own and the control contract, and what has no effect in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.openapi.load.documents import Note, Places, load_document, place_of
from invoice_sandbox.openapi.load.merge import merged_parts, with_vocabularies
from invoice_sandbox.openapi.load.openapi_30 import as_31
from invoice_sandbox.openapi.load.operations import served_base_path
from invoice_sandbox.openapi.load.overlay import overlay_problems
from invoice_sandbox.openapi.load.reading import (
    ReadContract,
    check_openapi,
    read_as_written,
    read_contract,
)
from invoice_sandbox.openapi.load.text import DocumentError, reject_all
from invoice_sandbox.openapi.operation import Contract, UncompilableError, compile_contract
from invoice_sandbox.openapi.responses import NoResponseError, contract_response
from invoice_sandbox.openapi.schema.file_schema import FileSchema, reject_problems
from invoice_sandbox.openapi.security import BEARER, key_schemes
from invoice_sandbox.project.code import operation_names
from invoice_sandbox.project.conventions import FILE as CONVENTIONS_FILE
from invoice_sandbox.project.conventions import Conventions

_CONTROL: Final = Path(__file__).parents[1] / "control" / "openapi.yaml"
_PART: Final = Path(__file__).with_name("sandbox.schema.json")
_OVERLAY: Final = Path(__file__).with_name("overlay.schema.json")
_SUBJECT: Final = "x-subject"
_FOR_TOOLS: Final = "x-project"
"""The member of the control contract that ``control.client`` reads as ``ServedProject``."""

SCENARIOS: Final = "scenarios"
"""The vocabulary of the names of scenarios."""


def base_document(folder: Path) -> dict[str, Any]:
    """Return the published contract of a project, as one document, checked as OpenAPI and made
    3.1."""
    return read_contract(_published(folder), folder).document


def _published(folder: Path) -> Path:
    return folder / "openapi" / "openapi.yaml"


def overlay_document(folder: Path) -> dict[str, Any] | None:
    """Return the overlay of a project, or None when it makes no assumptions."""
    file = folder / "openapi" / "overlay.yaml"
    if not file.exists():
        return None
    document: dict[str, Any] = load_document(file)
    reject_problems(file, FileSchema.read(_OVERLAY).problems(document))
    return document


def merged_document(folder: Path) -> dict[str, Any]:
    """Return the served contract: published document plus overlay, checked again as a whole."""
    return read_project(folder).document


def read_project(folder: Path) -> ReadContract:
    """Return the served contract of a project, with its warnings. Raises DocumentError."""
    overlay = overlay_document(folder)
    if overlay is None:
        return read_contract(_published(folder), folder)
    read = read_as_written(_published(folder), folder)
    file = folder / "openapi" / "overlay.yaml"
    reject_all(file, merge_errors(folder, read.document))
    check_openapi(read.document, file, partial(place_of, file))
    return replace(read, document=as_31(read.document))


def merge_errors(folder: Path, document: dict[str, Any]) -> list[DocumentError]:
    """Merge the overlay of a project into ``document``; return the actions that do not fit."""
    file = folder / "openapi" / "overlay.yaml"
    overlay, places = overlay_document(folder) or {"actions": []}, Places()
    return [
        DocumentError(places.of(file, ("actions", error.action)), str(error))
        for error in overlay_problems(document, overlay)
    ]


def compile_apart(read: ReadContract) -> Contract:
    """Return the compiled contract, below a base path that the sandbox does not need itself.

    Raises ContractError, or DocumentError with the places of schemas that cannot be compiled.
    """
    try:
        contract = compile_contract(read.document)
    except UncompilableError as error:
        reject_all(read.place(()), (invalid.error(read.place) for invalid in error.places))
        raise
    return replace(contract, base_path=served_base_path(read.document))


def control_names(folder: Path) -> dict[str, str]:
    """Return handler function name to operationId, for the project's own control operations."""
    file = folder / "openapi" / "sandbox.yaml"
    return operation_names(load_document(file)) if file.exists() else {}


def webhook_place(folder: Path, kind: str) -> str:
    """Return the place of a webhook in an action of the overlay, else in the published contract."""
    overlay = overlay_document(folder.parent) or {"actions": []}
    for index, action in enumerate(overlay["actions"]):
        update = action.get("update")
        if isinstance(update, dict) and kind in update.get("webhooks", {}):
            pointer = ("actions", index, "update", "webhooks", kind)
            return place_of(folder / "overlay.yaml", pointer)
    return place_of(folder / "openapi.yaml", ("webhooks", kind))


def control_contract(
    subject: str | None,
    words: Mapping[str, Sequence[str]],
    part: Path | None = None,
    for_tools: Mapping[str, Any] | None = None,
) -> Contract:
    """Return the control contract merged with the project's additions.

    The names of scenarios, which may change, are inserted when it is served. Raises DocumentError.
    """
    document = _own_control_contract()
    part = part if part is not None and part.exists() else None
    if part is not None:
        own = load_document(part)
        reject_problems(part, FileSchema.read(_PART).problems(own))
        document = merged_parts(document, own, part)
    document = with_vocabularies(document, words, {SCENARIOS})
    document |= {_FOR_TOOLS: for_tools} if for_tools else {}
    choice = document["components"]["schemas"]["ScenarioChoice"]["properties"]
    described = choice.pop(_SUBJECT)
    choice |= {} if subject is None else {subject: described}
    if part is not None:  # the engine's own contract is validated by a test
        check_openapi(document, part, partial(place_of, part))
    return compile_contract(document)


@cache
def _own_control_contract() -> dict[str, Any]:
    """Return the control contract of the engine, which whoever adds to it copies."""
    document: dict[str, Any] = load_document(_CONTROL)
    return document


def members_for_tools(
    contract: Contract, conventions: Conventions, subject: str | None
) -> dict[str, Any]:
    """Return what commands and the pytest plugin need: paths of operations, the subject's member,
    and how operations expect a key unless as a bearer credential."""
    roles = {
        "register": conventions.register_operation,
        "deliveries": conventions.deliveries_operation,
    }
    paths = {
        role: contract.base_path + contract.operations[name].path
        for role, name in roles.items()
        if name is not None
    }
    schemes = key_schemes(
        (operation.security for operation in contract.operations.values()), contract.schemes
    )
    rows = [{"in": scheme.location, "name": scheme.name} for scheme in schemes]
    own = None if all(scheme.location == BEARER for scheme in schemes) else rows
    named = {"webhooks": paths or None, "subject": subject, "credentials": own}
    return {name: value for name, value in named.items() if value is not None}


def project_warnings(
    folder: Path, read: ReadContract, contract: Contract, handlers: Collection[str]
) -> Iterator[str]:
    """Yield what the contract and the conventions of a project folder leave without effect."""
    if not (folder / CONVENTIONS_FILE).exists():
        yield (
            f"{folder}: there is no {CONVENTIONS_FILE}, so bodies have no envelope "
            "and every credential is accepted (access: any)"
        )
    yield from contract_warnings(read, contract, handlers)


def contract_warnings(
    read: ReadContract, contract: Contract, handlers: Collection[str] = ()
) -> Iterator[str]:
    """Yield ``file:line:column: what has no effect``, for the first few places of each reason.

    ``handlers`` are the operations that do not need a response from the contract.
    """
    unanswerable = _unanswerable(contract, handlers)
    for note, more in _first_few([*read.warnings, *unanswerable]):
        rest = f" (and {more} more like this)" if more else ""
        yield f"{read.place(note.pointer)}: {note.text}{rest}"


_SHOWN: Final = 3


def _first_few(notes: Iterable[Note]) -> Iterator[tuple[Note, int]]:
    """Yield the first notes of each reason, which comes after the last colon, and with the last of
    them how many more there are."""
    groups: dict[str, list[Note]] = {}
    for note in notes:
        groups.setdefault(note.text.rpartition(": ")[2], []).append(note)
    for group in groups.values():
        *first, last = group[:_SHOWN]
        yield from ((note, 0) for note in first)
        yield last, len(group) - len(first) - 1


def _unanswerable(contract: Contract, handlers: Collection[str]) -> Iterator[Note]:
    """Yield the operations that neither a handler nor the contract has a valid response for."""
    for operation in contract.operations.values():
        if operation.id in handlers:
            continue
        try:
            contract_response(contract, operation, "start-up")
        except NoResponseError as error:
            place = ("paths", operation.path, operation.method.lower())
            yield Note(place, f"this operation returns 501: {error}")
