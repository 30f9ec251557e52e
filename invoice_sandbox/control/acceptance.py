"""Control functions of acceptance runs: what a run reports, and what its client reports.

The command that runs the checks writes here; people, the console and clients read.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.base.errors import conflict, existing
from invoice_sandbox.base.ids import resource_id
from invoice_sandbox.runtime.control_call import ControlCall, Raw
from invoice_sandbox.runtime.redaction import REDACTED
from invoice_sandbox.state import Record, Transaction
from invoice_sandbox.state.credentials import CONTROL, allows

MAX_RUNS: Final = 20
"""The number of runs that a workspace keeps."""

BUNDLES: Final = "acceptance_bundles"
"""The collection of bundles, by the id of their run."""

_RUNS: Final = "acceptance_runs"
_PREFIX: Final = "acr_sandbox"


def list_acceptance_runs(call: ControlCall) -> list[Record]:
    """The runs of the workspace, newest first."""
    with call.engine.store.transaction(call.workspace.id) as state:
        return [_shown(call, run) for run in state.page(_RUNS).records]


def create_acceptance_run(call: ControlCall) -> Record:
    """Keep a new run; the oldest are dropped."""
    with call.engine.store.transaction(call.workspace.id) as state:
        number = state.next_number(_RUNS)
        run = {
            "id": resource_id(_PREFIX, call.workspace.token, number),
            "startedAt": instant_text(call.engine.system_clock.now()),
            "reported": None,
            "report": None,
            "hasBundle": False,
            **call.body,
        }
        state.put(_RUNS, run["id"], run)
        for old in state.page(_RUNS).records[MAX_RUNS:]:
            state.delete(_RUNS, old["id"])
            state.delete(BUNDLES, old["id"])
    return _shown(call, run)


def get_acceptance_run(call: ControlCall) -> Record:
    """A run. Raises ApiError 404."""
    with call.engine.store.transaction(call.workspace.id) as state:
        return _shown(call, _named(state, call))


def update_acceptance_run(call: ControlCall) -> Record:
    """Keep the progress of a run. Raises ApiError 404."""
    with call.engine.store.transaction(call.workspace.id) as state:
        run = {**_named(state, call), **call.body}
        state.put(_RUNS, run["id"], run)
    return _shown(call, run)


def report_acceptance_task(call: ControlCall) -> Record:
    """Keep what the client reports. Raises ApiError 404, and 409 for a task that is not current and
    for ready without webhooks."""
    with call.engine.store.transaction(call.workspace.id) as state:
        run = _named(state, call)
        waiting, reported = run["waitingFor"] or {}, call.body["task"]
        if waiting.get("task") != reported:
            current = f"task {waiting['task']}" if waiting else "no task now"
            raise conflict(
                f"The run waits for {current}, not for task {reported}",
                "GET /sandbox/acceptance/runs/{id} shows what it waits for.",
            )
        if call.body["state"] == "ready" and not waiting.get("webhooks", True):
            raise conflict(
                f"The client receives no webhooks in task {reported}, so it is never ready",
                "It begins with the first request; report 'done' at its end.",
            )
        run["reported"] = {"task": reported, "state": call.body["state"]}
        state.put(_RUNS, run["id"], run)
    return _shown(call, run)


def get_acceptance_report(call: ControlCall) -> Record:
    """The report of a run. Raises ApiError 404 for no run, and for one without a report."""
    with call.engine.store.transaction(call.workspace.id) as state:
        report: Record | None = _named(state, call)["report"]
    return existing(report, "report yet of a run")


def keep_acceptance_bundle(call: ControlCall) -> Record:
    """Keep the bundle of a run. Raises ApiError 404."""
    with call.engine.store.transaction(call.workspace.id) as state:
        run = {**_named(state, call), "hasBundle": True}
        state.put(_RUNS, run["id"], run)
        state.put(BUNDLES, run["id"], {"zip": base64.b64encode(call.raw_body).decode()})
    return _shown(call, run)


def get_acceptance_bundle(call: ControlCall) -> Raw:
    """The bundle of a run. Raises ApiError 404 for no run, and for one without a bundle."""
    with call.engine.store.transaction(call.workspace.id) as state:
        run = _named(state, call)
        bundle = existing(state.get(BUNDLES, run["id"]), "bundle yet of a run")
    return Raw(200, "application/octet-stream", base64.b64decode(bundle["zip"]))


def _named(state: Transaction, call: ControlCall) -> dict[str, Any]:
    run_id = call.path["id"]
    return dict(existing(state.get(_RUNS, run_id), "acceptance run", run_id))


def _shown(call: ControlCall, run: Record) -> Record:
    """A run without its report, for a caller who only looks without the secrets of the client."""
    shown = {name: value for name, value in run.items() if name != "report"}
    if shown["waitingFor"] is not None and not allows(call.credential.scopes, CONTROL):
        hidden = dict.fromkeys(shown["waitingFor"]["environment"], REDACTED)
        shown["waitingFor"] = {**shown["waitingFor"], "environment": hidden}
    return {**shown, "hasReport": run["report"] is not None}
