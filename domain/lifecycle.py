"""Moves of a record along its lifecycle: a new status, one audit event, one domain event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from invoice_sandbox.project.api import Context, IllegalMove, Record, reject

from .audit import audit


async def move_record(
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
    moved, event_type = await apply_trigger(
        context, machine, collection, record, trigger, **metadata
    )
    if event_type is not None:
        await context.emit(event_type, view(moved), subject)
    return moved


async def apply_trigger(
    context: Context, machine: str, collection: str, record: Record, trigger: str, **metadata: Any
) -> tuple[Record, str | None]:
    """Store the record with its new status, audit the move, and return the type of event to emit.

    ``machine`` is a machine of the lifecycle, ``collection`` where its records are stored. Raises
    ApiError 409 with the legal triggers.
    """
    step = _step(context, machine, record, trigger)
    moved = {**record, "status": step.to, "previousStatus": record["status"]}
    await context.state.put(collection, record["id"], moved)
    context.moved(machine, step)
    action = step.event or f"{machine.replace('-', '_')}.{trigger.replace('-', '_')}"
    target = (machine.replace("-", "_"), record["id"])
    await audit(context, action, target, **{"from": record["status"], "to": step.to, **metadata})
    return moved, step.event


def check_trigger(context: Context, machine: str, record: Record, trigger: str) -> None:
    """Raise ApiError 409 with the legal triggers unless ``trigger`` is one of them."""
    _step(context, machine, record, trigger)


def allows_trigger(context: Context, machine: str, record: Record, trigger: str) -> bool:
    """Whether the status of a record allows ``trigger``."""
    return trigger in context.lifecycle.machines[machine].legal[record["status"]]


def unfinished_statuses(context: Context, machine: str) -> tuple[str, ...]:
    """The statuses of a machine that are not end states."""
    states = context.lifecycle.machines[machine]
    return tuple(one for one in states.states if one not in states.terminal)


def _step(context: Context, machine: str, record: Record, trigger: str) -> Any:
    try:
        return context.lifecycle.machines[machine].step(
            record["status"], trigger, record.get("previousStatus")
        )
    except IllegalMove as error:
        legal = ", ".join(error.legal) or "none, this is an end state"
        raise reject(
            "conflict",
            legal=error.legal,
            problem=f"{record['id']} is {record['status']}, so '{trigger}' is not possible",
            advice=f"Possible now: {legal}.",
        ) from None
