"""The contracts of a project, its own and the control contract, and what has no effect in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.openapi.load.bundling import bundle
from invoice_sandbox.openapi.load.documents import (
    Places,
    load_document,
    place_of,
    pointer_text,
)
from invoice_sandbox.openapi.load.invalid import take_out, tolerate
from invoice_sandbox.openapi.load.limitations import limitations, summarized
from invoice_sandbox.openapi.load.merge import merged_parts, with_vocabularies
from invoice_sandbox.openapi.load.model import Pointer
from invoice_sandbox.openapi.load.openapi_30 import as_31
from invoice_sandbox.openapi.load.operations import (
    Draft,
    Note,
    served_base_path,
    subject,
    without_names,
)
from invoice_sandbox.openapi.load.overlay import OverlayError, apply_overlay
from invoice_sandbox.openapi.load.reading import ReadContract, read_contract
from invoice_sandbox.openapi.load.text import DocumentError, place_of_step
from invoice_sandbox.openapi.load.validate import check_openapi, check_version
from invoice_sandbox.openapi.operation import Contract, UncompilableError, compile_contract
from invoice_sandbox.openapi.responses import (
    NoResponseError,
    contract_response,
)
from invoice_sandbox.openapi.schema.file_schema import check_form
from invoice_sandbox.openapi.security import BEARER, key_schemes
from invoice_sandbox.project.code import operation_names
from invoice_sandbox.project.conventions import FILE as CONVENTIONS_FILE
from invoice_sandbox.project.conventions import Conventions

_CONTROL: Final = Path(__file__).parents[1] / "control" / "openapi.yaml"
_PART: Final = Path(__file__).with_name("sandbox.schema.json")
_SUBJECT: Final = "x-subject"
_FOR_TOOLS: Final = "x-project"
"""The member of the control contract that ``control.client`` reads as ``ServedProject``."""

SCENARIOS: Final = "scenarios"
"""The vocabulary of the names of scenarios."""


def base_document(folder: Path) -> dict[str, Any]:
    """The published contract of a project, as one document, checked as OpenAPI and made 3.1."""
    return read_contract(folder / "openapi" / "openapi.yaml", folders=[folder]).document


def _published(folder: Path) -> ReadContract:
    """The same without what cannot be served, for a project without an overlay."""
    file = folder / "openapi" / "openapi.yaml"
    return compiled(read_contract(file, folders=[folder], whole=False))[0]


def left_out(folder: Path) -> Mapping[tuple[str, str], str]:
    """Why operations of a project's contract are not served: see ReadContract."""
    return _published(folder).left_out if overlay_document(folder) is None else {}


def overlay_document(folder: Path) -> dict[str, Any] | None:
    """The overlay of a project, or None when it makes no assumptions."""
    file = folder / "openapi" / "overlay.yaml"
    if not file.exists():
        return None
    document = load_document(file)
    if not isinstance(document, dict):
        raise DocumentError(str(file), "an overlay is an object with 'overlay' and 'actions'")
    return document


def merged_document(folder: Path) -> dict[str, Any]:
    """The served contract: published document plus overlay, checked again as a whole."""
    overlay = overlay_document(folder)
    if overlay is None:
        return _published(folder).document
    published, file = (folder / "openapi" / name for name in ("openapi.yaml", "overlay.yaml"))
    document = load_document(published)
    check_version(document, published)
    whole = bundle(document, published)
    try:
        merged = apply_overlay(whole.document, overlay)
    except OverlayError as error:
        pointer = () if error.action is None else ("actions", error.action)
        raise DocumentError(place_of(file, pointer), str(error)) from None
    try:
        check_openapi(merged, file)
    except DocumentError:
        base_document(folder)  # an error of the published contract is reported there
        raise
    return as_31(merged)


def compile_apart(document: dict[str, Any]) -> Contract:
    """The compiled contract, below a base path that the sandbox does not need itself. Raises
    ContractError."""
    contract = compile_contract(document)
    at = served_base_path(document)
    return contract if at == contract.base_path else replace(contract, base_path=at)


def compiled(read: ReadContract) -> tuple[ReadContract, Contract]:
    """What was read, and its compiled contract: a schema that cannot be compiled is not checked.
    Raises ContractError."""
    try:
        return read, compile_apart(read.document)
    except UncompilableError as error:
        draft = Draft(deepcopy(read.document))
        if not take_out(draft, error.found):
            raise
    tolerate(draft)
    notes = tuple(read.as_written(draft.notes))
    limits, repairs = (*read.limits, *notes), (*read.repairs, *notes)

    def as_written(notes: Iterable[Note]) -> list[Note]:
        return read.as_written(draft.as_written(notes))

    return compiled(ReadContract(draft.document, read.place, limits, repairs, as_written))


def control_names(folder: Path) -> dict[str, str]:
    """Handler function name to operationId, for the project's own control operations."""
    file = folder / "openapi" / "sandbox.yaml"
    return operation_names(load_document(file)) if file.exists() else {}


def webhook_place(folder: Path, kind: str) -> str:
    """Where a webhook is declared: by an action of the overlay, else in the published contract."""
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
    """The control contract merged with the project's additions.

    The names of scenarios, which may change, are inserted when it is served. Raises DocumentError.
    """
    document: dict[str, Any] = load_document(_CONTROL)
    part = part if part is not None and part.exists() else None
    if part is not None:
        own = load_document(part)
        check_form(own, part, _PART)
        document = merged_parts(document, own, part)
    document = with_vocabularies(document, words, {SCENARIOS})
    document |= {_FOR_TOOLS: for_tools} if for_tools else {}
    choice = document["components"]["schemas"]["ScenarioChoice"]["properties"]
    described = choice.pop(_SUBJECT)
    choice |= {} if subject is None else {subject: described}
    if part is not None:
        check_openapi(document, part)  # the engine's own contract is validated by a test
    return compile_contract(document)


def members_for_tools(
    contract: Contract, conventions: Conventions, subject: str | None
) -> dict[str, Any]:
    """What commands and the pytest plugin need: paths of operations, the member of a subject, and
    how operations expect a key unless as a bearer credential."""
    roles = {
        "register": conventions.register_operation,
        "deliveries": conventions.deliveries_operation,
    }
    paths = {
        role: contract.base_path + contract.operations[name].path
        for role, name in roles.items()
        if name is not None
    }
    schemes = key_schemes((one.security for one in contract.operations.values()), contract.schemes)
    rows = [{"in": one.location, "name": one.name} for one in schemes]
    own = None if all(one.location == BEARER for one in schemes) else rows
    named = {"webhooks": paths or None, "subject": subject, "credentials": own}
    return {name: value for name, value in named.items() if value is not None}


def shadowed(contract: Contract, control: Contract) -> Iterator[Note]:
    """Operations shadowed by the control API."""
    control_routes = {
        (one.method, without_names(control.base_path + one.path))
        for one in control.operations.values()
    }
    for one in contract.operations.values():
        if (one.method, without_names(contract.base_path + one.path)) in control_routes:
            place = ("paths", one.path, one.method.lower())
            yield Note(place, "this path is shadowed by the control API")


def _without_conventions(folder: Path) -> Iterator[str]:
    if not (folder / CONVENTIONS_FILE).exists():
        yield (
            f"{folder}: there is no {CONVENTIONS_FILE}, so bodies have no envelope "
            "and every credential is accepted (access: any)"
        )


def project_warnings(folder: Path, contract: Contract, handlers: Collection[str]) -> Iterator[str]:
    """What the contract and the conventions of a project folder leave without effect."""
    yield from _without_conventions(folder)
    file, places = folder / "openapi" / "openapi.yaml", Places()
    document = dict(contract.document)
    repairs = _published(folder).repairs if overlay_document(folder) is None else ()
    notes = (*repairs, *limitations(document))
    read = ReadContract(document, lambda one: places.of(file, one), notes)
    yield from contract_warnings(read, contract, handlers)


def contract_warnings(
    read: ReadContract, contract: Contract, handlers: Collection[str] = (), *, every: bool = False
) -> Iterator[str]:
    """``file:line:column: what has no effect``, for each place, or the first few of each kind, in
    the order of the places.

    ``handlers`` are the operations that do not need a response from the contract.
    """
    notes = [*read.limits, *read.as_written([*contract.notes, *_unanswerable(contract, handlers)])]
    shown = [(one.pointer, one.text) for one in notes] if every else summarized(notes)
    lines = [_located(read.place(pointer), pointer, text) for pointer, text in shown]
    return (f"{place}: {text}" for place, text in sorted(lines, key=_position))


def _located(place: str, pointer: Pointer, text: str) -> tuple[str, str]:
    """Place and text, which names the operation or component if the place is in the first line:
    nobody finds a place in a document of one line."""
    named = pointer[:-1] if pointer and place_of_step(pointer[-1]) else pointer
    name = subject(named) or pointer_text(named[:_COMPONENT])
    is_plain = _FIRST_LINE.search(place) is None or text.startswith(name)
    return place, text if is_plain else f"{name}: {text}"


_FIRST_LINE: Final = re.compile(r":1:\d+$")
_COMPONENT: Final = 3
"""The length of the pointer to a component."""


def _position(line: tuple[str, str]) -> tuple[str, list[int], str]:
    """Sorts places ``file:line:column`` by their numbers."""
    place, text = line
    file, *numbers = re.split(r":(?=\d+(?::\d+)?$)", place)
    return file, [int(one) for one in numbers], text


def _unanswerable(contract: Contract, handlers: Collection[str]) -> Iterator[Note]:
    """The operations that neither a handler nor the contract has a valid response for."""
    for operation in contract.operations.values():
        if operation.id in handlers:
            continue
        try:
            contract_response(contract, operation, "start-up")
        except NoResponseError as error:
            place = ("paths", operation.path, operation.method.lower())
            yield Note(place, f"this operation returns 501: {error}")
