"""Moves of a record along its lifecycle: a new status, one audit event, one domain event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from invoice_sandbox.project.api import Context, IllegalMove, Move, Record, conflict

from .audit import audit

FUNDED: Final = frozenset(
    {
        *("PartiallyFunded", "Funded", "PartiallyPaid", "Overdue", "Defaulted"),
        *("Recourse", "Repurchased", "WrittenOff", "Paid", "Settled"),
    }
)
"""The statuses of an invoice that only a funded invoice reaches."""


class Guard(NamedTuple):
    """A condition of a trigger beyond the status; ``otherwise`` says what is wrong without it."""

    holds: Callable[[Mapping[str, Any]], bool]
    otherwise: str


def is_funded(invoice: Mapping[str, Any]) -> bool:
    """True if an advance was ever paid out. A dispute does not change that."""
    return undisputed_status(invoice) in FUNDED


def is_fully_funded(invoice: Mapping[str, Any]) -> bool:
    """True if the whole advance was paid out, as far as the status shows."""
    return is_funded(invoice) and undisputed_status(invoice) != "PartiallyFunded"


def is_financed(invoice: Mapping[str, Any]) -> bool:
    """True if an offer was accepted or an advance was ever paid out."""
    return is_funded(invoice) or undisputed_status(invoice) == "OfferAccepted"


def undisputed_status(invoice: Mapping[str, Any]) -> str | None:
    """Return the status, or that before the dispute."""
    disputed = invoice["status"] == "Disputed"
    return invoice.get("previousStatus") if disputed else invoice["status"]


def _may_write_off(invoice: Mapping[str, Any]) -> bool:
    return invoice["status"] == "Recourse" or invoice.get("recourse") == "NonRecourse"


GUARDS: Final[Mapping[str, Guard]] = {
    "uphold-dispute-before-funding": Guard(lambda invoice: not is_funded(invoice), "was funded"),
    "uphold-dispute-after-funding": Guard(is_funded, "was not funded"),
    "return-payment": Guard(
        lambda invoice: invoice.get("hasPayments", False), "has no payment to return"
    ),
    "write-off": Guard(_may_write_off, "was sold with recourse"),
    "invoke-recourse": Guard(
        lambda invoice: invoice.get("recourse") != "NonRecourse", "was sold without recourse"
    ),
}
"""By trigger of an invoice. ``recourse`` of its record is that of the accepted offer, or full
recourse after a dispute that the debtor won; ``hasPayments`` is set by payments."""


def move_record(
    context: Context,
    machine: str,
    collection: str,
    record: Record,
    trigger: str,
    *,
    view: Callable[[Record], Record] = lambda record: record,
    subject: str | None = None,
    **metadata: Any,
) -> Record:
    """Apply ``trigger`` and emit its event, if it has one. Raises ApiError 409.

    ``view`` makes the data of the event; ``subject`` is the id of the invoice whose scenario the
    event belongs to, by default the id of the record.
    """
    moved, event_type = apply_trigger(context, machine, collection, record, trigger, **metadata)
    if event_type is not None:
        context.emit(event_type, view(moved), subject)
    return moved


def apply_trigger(
    context: Context,
    machine: str,
    collection: str,
    record: Record,
    trigger: str,
    *,
    derive: Callable[[Record], Record] = lambda record: record,
    audited: bool = True,
    **metadata: Any,
) -> tuple[Record, str | None]:
    """Store the record with its new status, audit the move, and return the type of event to emit.

    ``machine`` is a machine of the lifecycle, ``collection`` where its records are stored.
    ``derive`` returns the moved record with the members that follow from its status. A move that is
    not ``audited`` here is one that the caller audits. Raises ApiError 409 with the legal triggers.
    """
    step = _step(context, machine, record, trigger)
    moved = derive({**record, "status": step.to, "previousStatus": record["status"]})
    context.state.put(collection, record["id"], moved)
    action = step.event or f"{machine.replace('-', '_')}.{trigger.replace('-', '_')}"
    target = (machine.replace("-", "_"), record["id"])
    if audited:
        audit(context, action, target, **{"from": record["status"], "to": step.to, **metadata})
    return moved, step.event


def check_trigger(context: Context, machine: str, record: Record, trigger: str) -> None:
    """Raise ApiError 409 with the legal triggers unless ``trigger`` is one of them."""
    _step(context, machine, record, trigger)


def allows_trigger(context: Context, machine: str, record: Record, trigger: str) -> bool:
    """True if a record allows ``trigger``."""
    return trigger in legal_triggers(context, machine, record)


def unfinished_statuses(context: Context, machine: str) -> tuple[str, ...]:
    """Return the statuses of a machine that are not end states."""
    states = context.lifecycle.machines[machine]
    return tuple(state for state in states.states if state not in states.terminal)


def legal_triggers(context: Context, machine: str, record: Record) -> tuple[str, ...]:
    """Return the triggers that a record allows, in the order of the lifecycle."""
    legal = context.lifecycle.machines[machine].legal[record["status"]]
    return tuple(name for name in legal if name not in GUARDS or GUARDS[name].holds(record))


def _step(context: Context, machine: str, record: Record, trigger: str) -> Move:
    states, legal = context.lifecycle.machines[machine], legal_triggers(context, machine, record)
    status, because = record["status"], ""
    if trigger in legal:
        with suppress(IllegalMove):
            return states.step(status, trigger, record.get("previousStatus"))
    elif trigger in states.legal[status]:
        because = f" and {GUARDS[trigger].otherwise}"
    possible = tuple(other for other in legal if other != trigger)
    raise conflict(
        f"{record['id']} is {status}{because}, so '{trigger}' is not possible",
        f"Possible now: {', '.join(possible) or 'none, this is an end state'}.",
        legal=possible,
    )
