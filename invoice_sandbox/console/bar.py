"""The bar at the bottom of every page: clock, next step, named instants, scenario and faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flask import g, render_template

from invoice_sandbox.console.common import client, contents, pages
from invoice_sandbox.webhooks.outbox import DELIVER

_ADVANCE: Final = "/sandbox/clock/advance"
_RETRY: Final = "next attempt"
_MANY: Final = 10
"""Steps of an instant that are not tried out: that would take too long for every page."""


@dataclass(frozen=True)
class Bar:
    """The contents of the bar. ``due`` is the next instant at which something happens, ``preview``
    what that is; ``instants`` are the ones to go to, by name."""

    due: str | None
    preview: str
    instants: Mapping[str, str]
    count: int
    scenario: str
    faults: int


@pages.get("/bar")
def bar_page() -> str:
    """The bar alone, for a page on which nothing else has changed."""
    return render_template("bar.html")


def bar() -> Bar | None:
    """The bar for the visitor; None for one who may not look at the workspace."""
    agenda = client().get("/sandbox/agenda", {"deliveries": "false", "limit": _MANY})
    if not agenda.is_success or "clock" not in g or not g.clock.is_success:
        return None
    due = g.clock.data["nextDue"]
    faults = client().get("/sandbox/faults").rows
    return Bar(
        due,
        _preview(due, agenda.data["due"]) if due else "",
        named_instants(agenda.data["next"]),
        agenda.data["count"]["due"],
        agenda.data["scenario"],
        sum(fault["count"] != 0 for fault in faults),
    )


def named_instants(following: Mapping[str, str]) -> dict[str, str]:
    """The instants that have a name, by it, in order; ``following`` has the next one of each
    action."""
    names = {**contents().engine.project.conventions.instants, DELIVER: _RETRY}
    known = sorted((at, names[action]) for action, at in following.items() if action in names)
    return {name: at for at, name in known}


def _preview(due: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """The next thing to happen, in words; only the names of the ``steps`` where many run at once,
    or for a visitor who may not move the clock."""
    next_ = [step for step in steps if step["at"] == due]
    if len(next_) == _MANY:
        return f"{', '.join(dict.fromkeys(step['do'] for step in next_))} and more"
    found = client().preview(_ADVANCE, {"to": due, "dryRun": True})
    if not found.is_success:
        return ", ".join(step["do"] for step in next_)
    names = Counter(step["do"] for step in found.data["happened"])
    events = dict.fromkeys(event for step in found.data["happened"] for event in step["events"])
    parts = [name if count == 1 else f"{count} times {name}" for name, count in names.items()]
    parts += [f"records {', '.join(events)}"] if events else []
    return "; ".join([*parts, *_webhooks(found.data.get("pending", ()))])


def _webhooks(pending: Any) -> list[str]:
    if not pending:
        return []
    return [
        "webhooks to 1 receiver" if len(pending) == 1 else f"webhooks to {len(pending)} receivers"
    ]
