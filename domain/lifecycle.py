"""Moving a record along its lifecycle: the new status, one audit event, one domain event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from invoice_sandbox.project.api import Context, IllegalMove, Record, reject

from .audit import audit


async def move(
    context: Context,
    machine: str,
    kind: str,
    record: Record,
    trigger: str,
    *,
    present: Callable[[Record], Record] = lambda record: record,
    subject: str | None = None,
    **metadata: Any,
) -> Record:
    """The record after ``trigger``, stored. Raises ApiError 409 naming the legal triggers.

    ``machine`` is a machine of the lifecycle, ``kind`` where its records are stored, ``subject``
    the id of the invoice whose story it belongs to, if that is not the record's own.
    """
    moved, event = await shift(context, machine, kind, record, trigger, **metadata)
    if event is not None:
        await context.emit(event, present(moved), subject)
    return moved


async def shift(
    context: Context, machine: str, kind: str, record: Record, trigger: str, **metadata: Any
) -> tuple[Record, str | None]:
    """Like ``move``, but the kind of event is answered instead of being told."""
    step = _step(context, machine, record, trigger)
    moved = {**record, "status": step.to, "previousStatus": record["status"]}
    await context.state.put(kind, record["id"], moved)
    context.moved(machine, step)
    action = step.event or f"{machine.replace('-', '_')}.{trigger.replace('-', '_')}"
    target = (machine.replace("-", "_"), record["id"])
    await audit(context, action, target, **{"from": record["status"], "to": step.to, **metadata})
    return moved, step.event


def check_move(context: Context, machine: str, record: Record, trigger: str) -> None:
    """Nothing, if ``trigger`` is possible. Raises ApiError 409 naming the legal triggers."""
    _step(context, machine, record, trigger)


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
