"""Why a record has its status and not the next one: a sentence, and the button that continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.console.common import contents, request_page
from invoice_sandbox.console.records import Records

_STOPPED: Final = frozenset({"skipped", "failed"})

_Step = Mapping[str, Any]


@dataclass(frozen=True)
class Button:
    """A request that continues the record."""

    label: str
    method: str
    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Why:
    """A question, the reason, the request that caused it, and what continues, if anything."""

    question: str
    text: str
    link: str | None = None
    button: Button | None = None


def why_of(
    records: Records,
    record: Mapping[str, Any],
    agenda: Mapping[str, Any],
    legal: Sequence[str],
    mode: str,
) -> Why | None:
    """Why a record is where it is. ``agenda`` are its steps, ``legal`` the triggers that lead on,
    ``mode`` that of the clock. None: it has no state machine."""
    machine, status = records.machine, str(record.get("status"))
    if machine is None or status not in machine.states:
        return None
    if status in machine.terminal:
        return Why(f"It is {status}", "This is the end of its lifecycle.")
    due = next((step for step in agenda["due"] if step["scenario"]), None)
    last: _Step = next(iter(agenda["done"]), {"outcome": "none"})
    if due is not None:
        return _waits(records, status, due, mode)
    if last["outcome"] == "cancelled":
        return _ended(records, record, agenda["done"])
    if last["outcome"] in _STOPPED:
        text = f"Its step {last['do']} was {last['outcome']}: {last['reason']}"
        return Why(_question(records, status, last), text, button=_move(records, record, legal))
    names = " and ".join(agenda["scenarios"].get(str(record["id"]), ())) or "none"
    text = f"Nothing is scheduled for it: its scenario {names} has no further step. It waits for "
    text += "your client, or for one of the next steps below."
    return Why(f"Why is it {status}?", text, button=_move(records, record, legal))


def _waits(records: Records, status: str, due: _Step, mode: str) -> Why:
    at = due["at"].replace("T", " ").removesuffix("Z")
    clock = " The clock is frozen." if mode == "frozen" else ""
    text = f"Its scenario {due['scenario']} goes on with {due['do']} at {at}.{clock}"
    button = Button(f"Run {due['do']} now", "POST", "/sandbox/clock/advance", {"to": due["at"]})
    return Why(_question(records, status, due), text, button=button)


def _ended(records: Records, record: Mapping[str, Any], done: Sequence[_Step]) -> Why:
    """The reason of a record whose scenario was replaced."""
    cancelled = [step for step in done if step["outcome"] == "cancelled"]
    name, first = cancelled[0]["scenario"], cancelled[-1]
    steps = "1 step was" if len(cancelled) == 1 else f"{len(cancelled)} steps were"
    text = f"Its scenario {name} was ended; {steps} cancelled, such as {first['do']}. "
    text += str(first["reason"])
    member = contents().engine.project.subject_member
    body = {"name": name, str(member): record["id"]}
    button = Button(f"Continue {name} here", "PUT", "/sandbox/scenario", body) if member else None
    link = request_page(first["requestId"]) if first.get("requestId") else None
    return Why(_question(records, str(record["status"]), first), text, link, button)


def _move(records: Records, record: Mapping[str, Any], legal: Sequence[str]) -> Button | None:
    """The first transition to another status that clients cause."""
    moves = records.machine.transitions if records.machine else ()
    onward = {move.trigger for move in moves if move.from_ == record["status"] != move.to}
    by_clients = onward & set(records.machine.by_clients if records.machine else ())
    trigger = next((trigger for trigger in legal if trigger in by_clients), None)
    if records.transition is None or trigger is None:
        return None
    path = records.transition.path(str(record["id"]))
    return Button(trigger, records.transition.method, path, {"trigger": trigger})


def _question(records: Records, status: str, step: _Step) -> str:
    following = _following(records, status, step)
    return f"Why is it {status}, and not {following}?" if following else f"Why is it {status}?"


def _following(records: Records, status: str, step: _Step) -> str | None:
    """The status that a step would lead to; None: none, or it is not known."""
    action = contents().engine.project.vocabulary.actions.get(step["do"])
    triggers = {step["do"], step["with"].get("trigger"), *(action.triggers if action else ())}
    transitions = records.machine.transitions if records.machine else ()
    found = (move for move in transitions if move.from_ == status and move.trigger in triggers)
    return next(
        (move.to for move in found if records.machine and move.to in records.machine.states), None
    )
