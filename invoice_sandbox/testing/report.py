"""The journal of a workspace in a few lines, for a failed test."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from invoice_sandbox.control.client import ControlClient, SandboxError
from invoice_sandbox.testing.workspace import InvoiceSandbox

_MAX_LINES: Final = 20
_MAX_RECORDS: Final = 5
_MAX_NAME: Final = 150
_MAX_CHARACTERS: Final = 240
_SHOWN_ELSEWHERE: Final = frozenset({"operation", "scenario", "clock", "problems", "failure"})
_ERRORS: Final = 400


class Used(NamedTuple):
    """The workspace of a test, and its server."""

    sandbox: InvoiceSandbox
    server: ControlClient


def server_log(used: Used) -> str:
    """Return the log of the server about the workspace and the requests to it; empty unless the
    server was started for the run."""
    from invoice_sandbox.testing.server import StartedServer

    if not isinstance(used.server, StartedServer):
        return ""
    try:
        about = {used.sandbox.id, *(request["requestId"] for request in used.sandbox.requests)}
    except SandboxError:
        return ""
    found = [record for record in used.server.log() if any(name in record for name in about)]
    return "\n".join(found[-_MAX_RECORDS:])


def journal(used: Used) -> str:
    """Return the last requests to the workspace, their responses, and why."""
    sandbox = used.sandbox
    try:
        clock, entries, deliveries = sandbox.clock, sandbox.requests, sandbox.deliveries
    except SandboxError as error:
        return f"The journal of {sandbox.id} cannot be read: {error}"
    lines = [f"{sandbox.id} on {sandbox.url}, clock {clock['mode']} at {clock['now']}"]
    left_out = len(entries) - _MAX_LINES
    if left_out > 0:
        lines.append(f"({left_out} earlier requests are left out)")
    lines += [_line(entry) for entry in entries[-_MAX_LINES:]]
    if not entries:
        lines.append("There were no requests to the API.")
    lines += [_failure(row) for row in deliveries if _has_failed(row)][-_MAX_LINES:]
    return "\n".join(lines)


def bundle(sandbox: InvoiceSandbox, folder: Path | None, test: str) -> str:
    """Return where the bundle of the workspace is; without a folder, how to get one."""
    if folder is None:
        return "Run again with --sandbox-bundles DIR to keep all of this in one file."
    file = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', test)[-_MAX_NAME:].strip('.-')}.zip"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        about = sandbox.save_bundle(file)
    except (SandboxError, OSError) as error:
        return f"{file} cannot be written: {error}"
    again = "invoice-sandbox replay" if about["replayable"] else "invoice-sandbox acceptance judge"
    return f"All of it is in {file}; see '{again} {file.name}'."


def _has_failed(row: Mapping[str, Any]) -> bool:
    """True if the last attempt of a delivery was not successful."""
    return bool(row["attempts"]) and row["status"] != "Delivered"


def _failure(row: Mapping[str, Any]) -> str:
    """``delivery dlv_1 of order.paid to whe_1 Failed: 500``."""
    last, count = row["attempts"][-1], len(row["attempts"])
    cause = last["responseStatus"] or last["error"]
    times = f" after {count} attempts" if count > 1 else ""
    line = f"delivery {row['id']} of {row['eventType']} to {row['endpointId']} {row['status']}"
    return f"{line}{times}: {cause}"


def _line(entry: Mapping[str, Any]) -> str:
    """``POST /api/invoices 400 createInvoice (auto-progress): debtorId is required``."""
    why = entry["why"]
    operation, scenario = why.get("operation", "no operation"), why.get("scenario")
    within = f" ({scenario})" if scenario else ""
    status = entry["status"] or "reset"
    line = f"{entry['method']} {entry['path']} {status} {operation}{within}"
    message = _message(entry) if (entry["status"] or 0) >= _ERRORS else None
    message = why.get("failure", message)
    shown = {name: value for name, value in why.items() if name not in _SHOWN_ELSEWHERE}
    notes = [_text(name, value) for name, value in shown.items() if value != message]
    if message:
        notes.insert(0, message)
    text = f"{line}: {'; '.join(notes)}" if notes else line
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def _text(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = json.dumps(value)
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return name if value is True else f"{name} {value}"


def _message(entry: Mapping[str, Any]) -> str | None:
    try:
        error = json.loads(entry["response"]["body"])["error"]
        return str(error["message"])
    except (ValueError, LookupError, TypeError):
        return None
