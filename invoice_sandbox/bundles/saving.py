"""Makes a bundle of the recording of a workspace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.bundles.archive import as_json, number, write_bundle
from invoice_sandbox.bundles.har import as_har
from invoice_sandbox.control.client import ControlClient

CONTRACT: Final = "contract.json"
DELIVERIES: Final = "deliveries.json"
END: Final = "end.json"
START: Final = "start.json"
JOURNAL: Final = "journal.ndjson"
OUTCOMES: Final = "outcomes.ndjson"
RECORDING: Final = "recording.json"
STEPS: Final = "steps.ndjson"

_LINES: Final = {"journal": JOURNAL, "outcomes": OUTCOMES, "steps": STEPS}
_DOCUMENTS: Final = {"start": START, "end": END, "deliveries": DELIVERIES}
_INCOMPLETE: Final = (
    "its beginning is gone: after 1,000 requests, 4 MiB of them, or a restart; "
    "the bundle of a new workspace replays"
)


def save_bundle(control: ControlClient, file: Path) -> Mapping[str, Any]:
    """Write the bundle of a workspace, and return what its manifest says about it.

    Raises SandboxError and OSError.
    """
    recording, contract = control.ask("GET", "/recording"), control.whole("GET", "/openapi.json")
    described, parts = bundle_of(recording, contract)
    write_bundle(file, described, parts)
    return described


def bundle_of(
    recording: Mapping[str, Any], contract: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what the manifest says about a workspace, and the parts."""
    return about(recording), {CONTRACT: contract_part(contract), **parts_of(recording)}


def contract_part(contract: Mapping[str, Any]) -> bytes:
    """Return the contract in one line: some are large."""
    return _lines([contract])


def about(recording: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the manifest says about a recording."""
    complete = bool(recording["isComplete"])
    return {
        "version": recording["version"],
        "seed": recording["workspace"]["seed"],
        "scenario": recording["end"]["scenario"],
        "clock": recording["start"]["clock"]["mode"],
        "requests": len(recording["journal"]),
        "journalDropped": recording["dropped"],
        "replayable": complete,
        **({} if complete else {"reason": _INCOMPLETE}),
    }


def parts_of(recording: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the parts of a recording; the contract is another one."""
    apart = {*_LINES, *_DOCUMENTS, "scenarios"}
    others = {name: value for name, value in recording.items() if name not in apart}
    parts = {RECORDING: as_json(others)}
    parts |= {file: _lines(recording[name]) for name, file in _LINES.items()}
    parts |= {file: as_json(recording[name]) for name, file in _DOCUMENTS.items()}
    for name, document in recording["scenarios"].items():
        parts[f"scenarios/{name}.json"] = as_json(document)
    har = as_har(recording["journal"], recording["url"], recording["version"])
    return {**parts, "journal.har": as_json(har)}


def listed_entries(journal: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the entries of a bundle that ``GET /sandbox/requests`` shows."""
    return [entry for entry in journal if entry["isListed"]]


def _lines(values: Iterable[Any]) -> bytes:
    dumped = [json.dumps(value, ensure_ascii=False, default=number) for value in values]
    return "".join(f"{line}\n" for line in dumped).encode()
