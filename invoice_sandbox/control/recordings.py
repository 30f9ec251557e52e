"""The control function of recordings, which bundles are made of."""

from __future__ import annotations

from typing import Any, Final

from invoice_sandbox import __version__
from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.control.acceptance import BUNDLES
from invoice_sandbox.runtime.agenda import STEPS_LOG
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.runtime.journal import REQUESTS_LOG, JournalEntry
from invoice_sandbox.runtime.recording import NamedSecrets, named_secrets
from invoice_sandbox.runtime.workspaces import BEGINNING
from invoice_sandbox.scenarios.faults import shown_fault
from invoice_sandbox.state import OUTCOMES_LOG, USERS, Contents, Record, Snapshot, Workspace
from invoice_sandbox.webhooks.outbox import DELIVERIES, published_delivery

_INTERNAL: Final = frozenset({USERS, "api_key_digests", "inbox", BUNDLES})
"""Collections that hold nothing but what is secret, in the project, or a bundle itself."""


def get_recording(call: ControlCall) -> Record:
    """The journal, steps and content of the workspace, with a name for each secret."""
    engine, workspace = call.engine, call.workspace
    secrets = named_secrets(engine, workspace)
    log = engine.store.log(workspace.id, REQUESTS_LOG)
    outcomes = engine.store.log(workspace.id, OUTCOMES_LOG)
    steps = engine.store.log(workspace.id, STEPS_LOG)
    journal = [secrets.recorded(entry) for entry in log.entries]
    is_whole = all(isinstance(entry, JournalEntry) for entry in log.entries)
    taken = _beginning(engine, workspace)
    start = engine.store.contents(workspace.id, BEGINNING)
    end = engine.store.contents(workspace.id)
    deliveries = (end.records or {}).get(DELIVERIES, ())
    recording = {
        "version": __version__,
        "url": engine.url,
        "local": engine.local,
        "workspace": {"id": workspace.id, "seed": workspace.seed},
        "settings": dict(engine.conditions),
        "createdAt": (taken.taken_at - taken.clock.shift).isoformat(),
        "isComplete": is_whole and not (log.dropped or outcomes.dropped),
        "dropped": log.dropped,
        "start": _shown(start, taken.clock, secrets),
        "end": _shown(end, end.workspace.clock, secrets),
        "scenarios": _scenarios(engine, end),
        "journal": journal,
        "steps": [secrets.redacted(entry) for entry in steps.entries],
        "deliveries": [secrets.redacted(published_delivery(delivery)) for delivery in deliveries],
        "outcomes": [secrets.redacted(entry) for entry in outcomes.entries],
    }
    masked: Record = jsonio.loads(secrets.masked(jsonio.dumps(recording).decode()).encode())
    return masked


def _beginning(engine: Engine, workspace: Workspace) -> Snapshot:
    snapshots = engine.store.snapshots(workspace.id)
    return next(snapshot for snapshot in snapshots if snapshot.id == BEGINNING)


def _shown(contents: Contents, clock: ClockState, secrets: NamedSecrets) -> Record:
    """Return the content of a workspace, without secrets. ``records`` None: they are too many."""
    return {
        "scenario": contents.workspace.scenario,
        "faults": [secrets.redacted(shown_fault(fault)) for fault in contents.workspace.faults],
        "clock": {
            "mode": clock.mode,
            "at": clock.at.isoformat(),
            "shift": clock.shift.total_seconds(),
        },
        "records": None
        if contents.records is None
        else {
            name: secrets.redacted(records)
            for name, records in contents.records.items()
            if records and name not in _INTERNAL
        },
    }


def _scenarios(engine: Engine, end: Contents) -> dict[str, Any]:
    """The files of the scenarios in use, as they were read."""
    names = {end.workspace.scenario, *end.workspace.named, engine.workspaces.scenario}
    known = engine.project.scenarios
    return {name: known[name].document for name in sorted(names) if name in known}
