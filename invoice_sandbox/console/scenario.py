"""The page of the scenario and the clock, with agenda, faults and snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flask import render_template, request

from invoice_sandbox.console.common import client, contents, pages
from invoice_sandbox.console.deliveries import DELIVERIES
from invoice_sandbox.console.drawing import Chain, chain_of
from invoice_sandbox.console.topics import CHANGES, FAULTS, STEPS, WEBHOOKS

PRESETS: Final = (
    ("429 once", {"kind": "error", "status": 429, "count": 1}),
    ("503 once", {"kind": "status", "status": 503, "count": 1}),
    ("HTML 502", {"kind": "html", "status": 502, "count": 1}),
    ("Timeout after commit", {"kind": "latency", "delay": "PT60S", "when": "after", "count": 1}),
    ("Connection reset after commit", {"kind": "reset", "when": "after", "count": 1}),
    ("Broken JSON", {"kind": "malformed", "count": 1}),
)
"""Faults in one click, by label."""
_STEPS: Final = 100
_WAITING: Final = ("Pending", "Failed")


@pages.get("/scenario")
def scenario() -> str:
    """The clock, the agenda, scenarios, faults and snapshots.

    ``name`` in the address shows another scenario than the current one, ``about`` only the steps
    about the record of that id.
    ``find`` lists the scenarios with that text.
    """
    scenarios = client().get("/sandbox/scenarios")
    faults = client().get("/sandbox/faults")
    current = current_of(scenarios.rows)
    wanted, about = request.args.get("name", ""), request.args.get("about", "")
    subject = {"subject": about} if about else {}
    agenda = client().get("/sandbox/agenda", {**subject, "deliveries": "false", "limit": _STEPS})
    open_ = next((scenario for scenario in scenarios.rows if scenario["name"] == wanted), current)
    return render_template(
        "scenario.html",
        page="scenario",
        topics=(STEPS, WEBHOOKS, CHANGES, FAULTS),
        agenda=agenda,
        about=about,
        deliveries_due=client().get(DELIVERIES, {"status": _WAITING, "limit": 1}).total,
        scenarios=scenarios,
        current=current,
        open=open_,
        chain=_chain(open_["name"]) if open_ else None,
        notes=_notes(open_["name"]) if open_ else [],
        faults=faults,
        hits=_hits(faults.rows),
        snapshots=client().get("/sandbox/snapshots"),
        operations=sorted(contents().engine.project.contract.operations),
        fault_types=_fault_types(),
        groups=_groups(scenarios.rows, request.args.get("find", "")),
        presets=PRESETS,
    )


def current_of(scenarios: list[Any]) -> Mapping[str, Any] | None:
    """The scenario of the workspace."""
    return next((scenario for scenario in scenarios if scenario["current"]), None)


def _groups(scenarios: list[Any], wanted: str) -> dict[str, list[Any]]:
    """The scenarios by group; those with the text ``wanted`` in their description."""
    groups: dict[str, list[Any]] = {}
    for scenario in scenarios:
        texts = (scenario[name] or "" for name in ("name", "group", "purpose", "passes"))
        if wanted.casefold() in " ".join(texts).casefold():
            groups.setdefault(scenario["group"] or "Others", []).append(scenario)
    return groups


def _hits(faults: list[Any]) -> dict[str, list[Any]]:
    """The newest requests that met each fault."""
    if not faults:
        return {}
    rows = client().get("/sandbox/requests", {"fault": "true", "limit": 50}).rows
    found: dict[str, list[Any]] = {}
    for entry in rows:
        found.setdefault(str(entry["why"]["fault"]).partition(" ")[0], []).append(entry)
    return {name: entries[:5] for name, entries in found.items()}


def _fault_types() -> list[str]:
    """The types of faults that the control contract declares."""
    schemas = contents().engine.project.control.document["components"]["schemas"]
    types: list[str] = schemas["FaultKind"]["enum"]
    return types


def _chain(name: str) -> Chain | None:
    """The steps of a scenario, in the run in which the most of them are possible."""
    from invoice_sandbox.scenarios.descriptions import step_views
    from invoice_sandbox.scenarios.simulation import main_run

    project = contents().engine.project
    words = project.vocabulary
    return chain_of(step_views(main_run(project.scenarios[name], words.machine, words.actions)))


def _notes(name: str) -> list[tuple[str, tuple[str, ...]]]:
    from invoice_sandbox.scenarios.descriptions import notes

    return notes(contents().engine.project.scenarios[name])
