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
INPUTS: Final = "inputs.ndjson"
JOURNAL: Final = "journal.ndjson"
OUTCOMES: Final = "outcomes.ndjson"
RECORDING: Final = "recording.json"

_CLOCK_STEPS: Final = frozenset({"setClock", "advanceClock"})
_LINES: Final = {"inputs": INPUTS, "journal": JOURNAL, "outcomes": OUTCOMES}
_DOCUMENTS: Final = {"start": START, "end": END, "deliveries": DELIVERIES}
_INCOMPLETE: Final = (
    "the beginning of the recording is gone: after 5,000 requests, 8 MiB of them, or a restart; "
    "the bundle of a new workspace replays"
)


def bundle_of(
    recording: Mapping[str, Any], contract: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the manifest says about a workspace, and the parts."""
    return about(recording), {CONTRACT: contract_part(contract), **parts_of(recording)}


def contract_part(contract: Mapping[str, Any]) -> bytes:
    """The contract in one line: some are large."""
    return _lines([contract])


def save_bundle(control: ControlClient, file: Path) -> Mapping[str, Any]:
    """Write the bundle of a workspace, and return what its manifest says about it.

    Raises SandboxError and OSError.
    """
    recording, contract = control.ask("GET", "/recording"), control.whole("GET", "/openapi.json")
    described, parts = bundle_of(recording, contract)
    write_bundle(file, described, parts)
    return described


def about(recording: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says about a recording."""
    complete = bool(recording["isComplete"])
    return {
        "version": recording["version"],
        "seed": recording["workspace"]["seed"],
        "scenario": recording["end"]["scenario"],
        "clock": recording["start"]["clock"]["mode"],
        "requests": len(recording["inputs"]),
        "journalDropped": recording["dropped"],
        "replayable": complete,
        **({} if complete else {"reason": _INCOMPLETE}),
    }


def parts_of(recording: Mapping[str, Any]) -> dict[str, bytes]:
    """The parts of a recording; the contract is another one."""
    others = {
        name: value
        for name, value in recording.items()
        if name not in _LINES and name not in _DOCUMENTS and name != "scenarios"
    }
    parts = {RECORDING: as_json(others)}
    parts |= {file: _lines(recording[name]) for name, file in _LINES.items()}
    parts |= {file: as_json(recording[name]) for name, file in _DOCUMENTS.items()}
    for name, document in recording["scenarios"].items():
        parts[f"scenarios/{name}.json"] = as_json(document)
    steps = [one for one in recording["inputs"] if one["operation"] in _CLOCK_STEPS]
    parts["clock.ndjson"] = _lines(
        {"at": one["at"], "operation": one["operation"], "body": one["request"]["body"]}
        for one in steps
    )
    har = as_har(recording["journal"], recording["url"], recording["version"])
    return {**parts, "journal.har": as_json(har)}


def _lines(values: Iterable[Any]) -> bytes:
    dumped = [json.dumps(one, ensure_ascii=False, default=number) for one in values]
    return "".join(f"{line}\n" for line in dumped).encode()
