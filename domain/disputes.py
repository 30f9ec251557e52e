"""Disputes: a dispute suspends the scenario of its invoice.

The steps that fall due meanwhile are skipped, and done in their order when the seller has won, so
that the invoice goes on as its dates say. By analogy with article 27 of FCI's General Rules for
International Factoring, where a dispute suspends the approval of the debt.
"""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import Context, Record, Step

from .invoices import INVOICES

_SUSPENDED: Final = "suspended_steps"
"""The steps that each disputed invoice waits for, by its id."""


def suspend(step: Step, action: str) -> None:
    """Keep a step of a scenario that was skipped, if its invoice is disputed."""
    invoice = step.state.get(INVOICES, str(step.arguments.get("subject")))
    if invoice is None or invoice["status"] != "Disputed":
        return
    kept = {
        "action": action,
        "arguments": dict(step.arguments),
        "scenario": step.scenario,
        "place": step.place,
    }
    steps = [*_suspended(step, invoice["id"]), kept]
    step.state.put(_SUSPENDED, invoice["id"], {"steps": steps})


def resume(context: Context, invoice_id: str) -> None:
    """Let the suspended steps of an invoice run now, unless it has another scenario by now."""
    scenario = context.scenarios.for_record(context.state, invoice_id)
    for one in _suspended(context, invoice_id):
        if one["scenario"] == scenario.name:
            context.state.schedule(context.now, **one)
    context.state.put(_SUSPENDED, invoice_id, {"steps": []})


def _suspended(context: Context, invoice_id: str) -> list[Record]:
    stored = context.state.get(_SUSPENDED, invoice_id)
    return [] if stored is None else stored["steps"]
