"""From the file of a contract to the one document that is served, which is OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.openapi.load.bundling import Bundle, Origins, bundle, lost_references
from invoice_sandbox.openapi.load.documents import (
    load_document,
    place_of,
    read_text,
    readable_document,
)
from invoice_sandbox.openapi.load.effort import check_effort
from invoice_sandbox.openapi.load.fetching import Fetch, never
from invoice_sandbox.openapi.load.files import UnreadableError
from invoice_sandbox.openapi.load.invalid import last_words, of_references, take_out, tolerate
from invoice_sandbox.openapi.load.limitations import NO_ITEMS, limitations
from invoice_sandbox.openapi.load.model import FILE, METHODS, Node, Pointer, node
from invoice_sandbox.openapi.load.openapi_30 import as_31
from invoice_sandbox.openapi.load.operations import Draft, Note
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.load.repair import (
    correct,
    declare,
    numbered_names,
    plain_paths,
    repair,
    whole_version,
    without_impossible,
)
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.load.validate import (
    Invalid,
    check_openapi,
    check_version,
    invalid_places,
    misplaced_components,
    not_valid,
    unusual_names,
)

_MAX_MESSAGE_LENGTH: Final = 200
_MOST_ROUNDS: Final = 100
"""How often a document is validated: an error may show the next one."""


@dataclass(frozen=True)
class ReadContract:
    """``document`` is valid OpenAPI 3.1 and refers to nothing outside itself.

    ``place`` gives file, line and column of the place of a note; ``limits`` is what has no effect
    here, ``repairs`` what had to be changed first. ``as_written`` are notes about the document,
    with places as it was read.
    """

    document: dict[str, Any]
    place: Callable[[Pointer], str]
    limits: tuple[Note, ...]
    repairs: tuple[Note, ...] = ()
    as_written: Callable[[Iterable[Note]], list[Note]] = list

    @property
    def left_out(self) -> dict[tuple[str, str], str]:
        """Why operations are not served, by path and method; every method of a path without any."""
        paths: dict[str, Any] = self.document.get("paths", {})
        found: dict[tuple[str, str], str] = {}
        for note in self.repairs:
            match note.pointer:
                case ("paths", str() as path) if path not in paths:
                    found |= {(path, one.upper()): note.text for one in METHODS}
                case ("paths", str() as path, method) if method in METHODS:
                    if method not in (paths.get(path) or {}):
                        found[path, str(method).upper()] = note.text
                case ("paths", str() as path, str()) if not paths.get(path):
                    every = {(path, one.upper()): note.text for one in METHODS}
                    found = every | found
        return found


def read_contract(
    file: Path, fetch: Fetch = never, folders: Sequence[Path] = (), *, whole: bool = True
) -> ReadContract:
    """The document of ``file``, OpenAPI 3.0 or 3.1, with everything that it refers to.

    ``fetch`` gets what lies beyond this machine; files of it are read in the folder of ``file`` and
    in ``folders``. Unless it has to be ``whole``, it is without what is not valid OpenAPI, which
    its ``repairs`` name. Raises DocumentError, with a place.
    """
    try:
        return _read(file, fetch, folders, whole=whole)
    except RecursionError:
        raise DocumentError(
            str(file), "nested too deeply, or a reference leads into itself"
        ) from None
    except (ValueError, OSError) as error:  # an address or a text that nobody can read
        if isinstance(error, ContractError):
            raise
        problem = str(error).splitlines()[0][:_MAX_MESSAGE_LENGTH]
        raise DocumentError(str(file), f"cannot be read: {problem}") from None


def _read(file: Path, fetch: Fetch, folders: Sequence[Path], *, whole: bool) -> ReadContract:
    if not whole:
        return _read_what_can_be_served(file, fetch, folders)
    document = load_document(file)
    _check(document, file)
    for found in misplaced_components(document):
        raise not_valid(found, partial(place_of, file))
    renamed, lines = plain_paths(document)
    bundled = _as_written(bundle(document, file, fetch, folders), renamed)
    draft = Draft(bundled.document)
    draft.add(lines)
    repair(draft)
    check_openapi(bundled.document, file, bundled.place)
    draft.add(numbered_names(bundled.document))
    return _as_read(bundled, draft, draft.notes)


def _read_what_can_be_served(file: Path, fetch: Fetch, folders: Sequence[Path]) -> ReadContract:
    text = read_text(file)
    (document, faults), wrong = readable_document(str(file), text), list[Invalid]()
    notes = [*(Note(*one) for one in faults), *whole_version(document)]
    _check(document, file)
    names = list[Note]()

    def prepare(here: Node) -> None:
        names.extend(correct(here, is_30=document["openapi"].startswith("3.0.")))

    def unresolved(at: Pointer, error: DocumentError) -> None:
        problem = str(error) if isinstance(error, UnreadableError) else error.clause
        wrong.append(Invalid(at, problem))

    def parse(name: str, text: str) -> Any:
        content, faults = readable_document(name, text)
        notes.extend(Note((FILE, name, *at), text) for at, text in faults)
        return content

    prepare(node(document))
    if names:  # what is below them is validated only now
        _check(document, file)
    early = Draft(document)
    take_out(early, misplaced_components(document))
    renamed, lines = plain_paths(document)
    notes += [*early.notes, *lines]
    bundled = bundle(document, file, fetch, folders, unresolved, prepare, parse)
    bundled = _with_faults(_as_written(bundled, renamed), notes)
    draft = Draft(bundled.document)
    draft.add(names)
    return _as_read(bundled, draft, (*notes, *_rest(bundled, draft, wrong)))


def _as_written(bundled: Bundle, renamed: Mapping[str, str]) -> Bundle:
    """With the places of paths that are written otherwise in the file."""
    paths: Origins = {("paths", path): ("", ("paths", old)) for path, old in renamed.items()}
    return replace(bundled, origins={**paths, **bundled.origins})


def _with_faults(bundled: Bundle, notes: Sequence[Note]) -> Bundle:
    """With the places of what other files have that is read otherwise than it is written."""
    names = {str(one.pointer[1]) for one in notes if one.pointer[:1] == (FILE,)}
    files: Origins = {(FILE, name): (name, ()) for name in names}
    return replace(bundled, origins={**bundled.origins, **files})


def _check(document: Any, file: Path) -> None:
    """Raise DocumentError if it is no OpenAPI, or too much work to validate what it describes."""
    check_version(document, file)
    check_effort(document, partial(place_of, file))


def _as_read(bundled: Bundle, draft: Draft, repairs: Iterable[Note]) -> ReadContract:
    notes, repaired = draft.as_written(limitations(bundled.document)), tuple(repairs)
    document, left_out = as_31(bundled.document), {one.pointer for one in repaired}
    known = [
        one for one in notes if one.text != NO_ITEMS or (*one.pointer, "items") not in left_out
    ]
    limits = (*repaired, *known)
    return ReadContract(document, bundled.place, limits, repaired, draft.as_written)


def _rest(bundled: Bundle, draft: Draft, wrong: Sequence[Invalid]) -> tuple[Note, ...]:
    """Change the document so that it is valid OpenAPI; what, and where.

    Raises DocumentError if that cannot be done.
    """
    document, is_changed, found = draft.document, take_out(draft, wrong), list[Invalid]()
    for _ in range(_MOST_ROUNDS):
        found = [Invalid(*one) for one in lost_references(document)] if is_changed else []
        if not found:
            repair(draft)
            draft.add(declare(document))
            found = invalid_places(document, bundled.file)
        if not found:
            tolerate(draft)
            draft.add(Note(one.pointer, one.text) for one in unusual_names(document))
            without_impossible(draft)
            draft.add(numbered_names(document))
            notes = last_words(draft)
            return tuple(dict.fromkeys([*notes, *of_references(document, notes)]))
        if not take_out(draft, found):
            break
        is_changed = True
    first = replace(found[0], pointer=draft.first(found[0].pointer))
    raise not_valid(first, bundled.place)
