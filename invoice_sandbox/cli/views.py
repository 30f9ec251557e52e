"""How the results of control operations are shown to people.

``x-cli`` of the contract names a view for each command (``VIEWS``). Tables are data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.cli.output import Cell, Row, Table, plain, print_lines, print_table
from invoice_sandbox.control.client import Reply


def _action(step: Row) -> str:
    """The action of a step and its arguments: ``transition trigger=dispute``."""
    return " ".join([step["do"], *(f"{name}={value}" for name, value in step["with"].items())])


def _marker(row: Row) -> str:
    return "*" if row["current"] else " "


def event_type(message: Row) -> Any:
    """The type of the event that a message delivers; of an altered one what its body has."""
    if message.get("type") is not None:
        return message["type"]
    try:
        event = jsonio.loads(message["body"].encode(errors="replace"))
    except jsonio.JsonError:
        return None
    return event.get("type") if isinstance(event, dict) else None


_DUE: Final = Table(
    {"at": "at", "do": _action, "subject": "subject", "scenario": "scenario"},
    empty="Nothing is due.",
)
_DONE: Final = Table(
    {
        "at": "at",
        "do": _action,
        **{name: name for name in ("outcome", "subject", "reason", "events")},
    },
    empty="No step has run yet.",
)
_WORKSPACES: Final = Table(
    {
        "": _marker,
        **{name: name for name in ("id", "scenario", "seed")},
        "clock": "clock.mode",
        "now": "clock.now",
        "deleted after idle": lambda row: row["keptIdleFor"] or "never",
    },
    empty="No workspaces.",
)
_SNAPSHOTS: Final = Table({"id": "id", "taken at": "takenAt"}, empty="No snapshots.")
_SCENARIOS: Final = Table(
    {
        "": _marker,
        "name": "name",
        "purpose": "purpose",
        "steps": lambda row: str(len(row["steps"])),
    },
    empty="No scenarios.",
)
_FAULTS: Final = Table(
    {
        "id": "id",
        "kind": "kind",
        "operation": lambda row: row["operation"] or "every",
        "status": "status",
        "delay": "delay",
        "up to": "upTo",
        "when": "when",
        "left": lambda row: "forever" if row["count"] is None else row["count"],
        "probability": "probability",
        "fired": "fired",
    },
    empty="No faults.",
)
_REQUESTS: Final = Table(
    {
        **{name: name for name in ("at", "method", "path", "status", "operation")},
        "fault": "why.fault",
        "request": "requestId",
    },
    empty="No requests.",
)
_RUNS: Final = Table(
    {
        "run": "id",
        "started at": "startedAt",
        "plan": "plan",
        "state": "state",
        "verdict": "verdict",
        "waiting for you": lambda row: (row["waitingFor"] or {}).get("text"),
    },
    empty="No acceptance runs.",
)
_CHECKS: Final = Table(
    {"verdict": lambda row: row["verdict"] or row["state"], "check": "id", "summary": "summary"},
    empty="No checks.",
)
_INBOX: Final = Table(
    {
        "received at": "receivedAt",
        "type": event_type,
        "webhook-id": lambda row: row["headers"].get("webhook-id"),
        **{name: name for name in ("verified", "duplicate", "problem")},
    },
    empty="No webhooks yet.",
)


_USERS: Final = Table(
    {
        **{name: name for name in ("id", "email", "role", "status")},
        "bound to": lambda row: ", ".join(row[name] for name in row if name.endswith("Id")),
    },
    empty="No users. Add one with 'invoice-sandbox users add EMAIL --role ROLE'.",
)
_SESSIONS: Final = Table(
    {
        "id": "id",
        "user": "user.email",
        "role": "role",
        "began at": "createdAt",
        "ends": "expiresAt",
    },
    empty="No sessions.",
)


def _user(user: Row) -> None:
    print_lines(_USERS.cells(user))


def _session(session: Row) -> None:
    print_lines([session["id"], session["user"]["email"], "ended"])


def _clock_text(clock: Row) -> str:
    due = clock["nextDue"]
    return f"{clock['mode']} at {clock['now']}, " + (f"next due {due}" if due else "nothing due")


def _clock(clock: Row) -> None:
    print_lines([_clock_text(clock)])


def _advance(advance: Row) -> None:
    print_lines(*map(_DONE.cells, advance["happened"]))
    print_lines(*([*_DUE.cells(one), "pending"] for one in advance.get("pending", ())))
    _clock(advance)


def _agenda(agenda: Row) -> None:
    print_table(_DUE, agenda["due"])
    click.echo()
    print_table(_DONE, agenda["done"])


def _workspace(workspace: Row) -> None:
    seed = [f"seed {workspace['seed']}"] if "seed" in workspace else []
    shown = [workspace["id"], f"scenario {workspace['scenario']}", *seed]
    print_lines([*shown, _clock_text(workspace["clock"])])


def _new_workspace(workspace: Row) -> None:
    _workspace(workspace)
    click.echo("The key is shown only once. To use the workspace:")
    click.echo(f"export INVOICE_SANDBOX_KEY={plain(workspace['key'])}")


def _snapshot(snapshot: Row) -> None:
    print_lines([snapshot["id"], f"taken at {snapshot['takenAt']}"])


def _scenario(scenario: Row) -> None:
    print_lines([scenario["name"], scenario["purpose"]])
    for step in scenario["steps"]:
        print_lines([f"  {step['after']}", "after", step["on"], step["do"]])
    if scenario["dropped"]:
        click.echo(
            f"Steps of earlier scenarios that were due and are dropped: {scenario['dropped']}"
        )


def _fault(fault: Row) -> None:
    print_table(_FAULTS, [fault])


def _deleted(deleted: Row) -> None:
    print_lines([deleted["id"], "deleted"])


def _record(record: Row) -> None:
    print_lines([record["id"], record["status"]])


def _transitions(now: Row) -> None:
    print_lines([now["status"], "legal now:" if now["triggers"] else "no trigger is legal"])
    print_lines(*([f"  {one}"] for one in now["triggers"]))


def _delivery(row: Row) -> None:
    print_table(_TRIGGERED, [row])


def _inbox(inbox: Row) -> None:
    click.echo(plain(inbox["url"]))
    print_table(_INBOX, inbox["messages"])


def _acceptance_run(run: Row) -> None:
    print_lines([run["id"], run["plan"], run["state"], run["verdict"] or "no verdict yet"])
    print_table(_CHECKS, run["checks"])
    waiting, reported = run["waitingFor"], run["reported"] or {}
    if waiting is None:
        return
    click.echo()
    if reported.get("task") != waiting["task"]:
        show_task(run["id"], waiting)
        return
    click.echo(f"task {reported['task']} is reported as {reported['state']}")
    if reported["state"] == "ready":
        _show_how(run["id"], reported["task"], "done")


def show_task(run: str, task: Row) -> None:
    """What a run waits for, and how to report it."""
    until = f", until {task['deadline']}" if "deadline" in task else ""
    number = task["task"]
    print_lines([f"waiting for you: {task['text']} (task {number}, {task['check']}{until})"])
    for name, text in task["environment"].items():
        click.echo(f"  {plain(name)}={plain(text)}")
    state = "ready" if task.get("webhooks") else "done"
    _show_how(run, number, state)


def _show_how(run: str, number: int, state: str) -> None:
    click.echo(f"  when {state}: invoice-sandbox acceptance {state} {run} --task {number}")


def _acceptance_report(report: Row) -> None:
    click.echo(jsonio.dumps_pretty(report).decode(), nl=False)


def _requests(reply: Reply) -> None:
    empty = _NO_MATCH if _is_filtered() else _REQUESTS.empty
    print_table(replace(_REQUESTS, empty=empty), reply.data)
    total = int(reply.headers.get("x-total-count", 0))
    dropped = int(reply.headers.get("x-journal-dropped", 0))
    if total > len(reply.data):
        click.echo(f"{len(reply.data)} of {total}; --limit shows more.")
    if dropped:
        click.echo(f"The journal has dropped {dropped} older requests.")


_NO_MATCH: Final = "No request matches these options."


def _is_filtered() -> bool:
    """Whether the command has options that choose some of the requests."""
    passed = click.get_current_context().params.items()
    return any(name not in _NO_FILTERS and value is not None for name, value in passed)


_NO_FILTERS: Final = frozenset({"follow", "limit"})


def _data(show: Callable[[Any], None]) -> Callable[[Reply], None]:
    return lambda reply: show(reply.data)


def _rows(table: Table) -> Callable[[Reply], None]:
    return lambda reply: print_table(table, reply.data)


VIEWS: Final[Mapping[str, Callable[[Reply], None]]] = {
    "clock": _data(_clock),
    "advance": _data(_advance),
    "agenda": _data(_agenda),
    "workspaces": _rows(_WORKSPACES),
    "workspace": _data(_workspace),
    "new-workspace": _data(_new_workspace),
    "snapshots": _rows(_SNAPSHOTS),
    "snapshot": _data(_snapshot),
    "scenarios": _rows(_SCENARIOS),
    "scenario": _data(_scenario),
    "faults": _rows(_FAULTS),
    "fault": _data(_fault),
    "deleted": _data(_deleted),
    "record": _data(_record),
    "transitions": _data(_transitions),
    "delivery": _data(_delivery),
    "users": _rows(_USERS),
    "user": _data(_user),
    "sessions": _rows(_SESSIONS),
    "session": _data(_session),
    "requests": _requests,
    "inbox": _data(_inbox),
    "acceptance-runs": _rows(_RUNS),
    "acceptance-run": _data(_acceptance_run),
    "acceptance-report": _data(_acceptance_report),
}
"""The views by their names in ``x-cli``."""


def show_new_request(entry: Row) -> None:
    """One entry of the journal on one line."""
    print_lines(_REQUESTS.cells(entry))


def show_request(entry: Row) -> None:
    """One entry of the journal in full."""
    print_lines([entry["requestId"], entry["at"], f"{entry['durationMs']} ms"])
    print_lines([entry["method"], entry["path"], entry["status"] or "connection reset"])
    for name in ("request", "response"):
        click.secho(f"\n{name.capitalize()}", bold=True)
        _show_message(entry[name])
    click.secho("\nWhy", bold=True)
    for name, value in entry["why"].items():
        if name == "problems":
            click.echo("  problems:")
            for one in value:
                click.echo(f"    {plain(one['pointer'] or 'the body')}: {plain(one['problem'])}")
        else:
            text = jsonio.dumps(value).decode() if isinstance(value, dict) else value
            click.echo(f"  {plain(name)}: {plain(text)}")


def _show_message(message: Row) -> None:
    for name, value in message["headers"]:
        click.echo(f"  {plain(name)}: {plain(value)}")
    body, length = message["body"], message.get("bodyBytes")
    if body is not None:
        click.echo()
        for line in plain(_indented(body)).splitlines():
            click.echo(f"  {line}")
    if length is not None:
        click.echo(f"  (shortened; {length} bytes in all)")


def _indented(body: str) -> str:
    try:
        return jsonio.dumps_pretty(jsonio.loads(body.encode(errors="replace"))).decode()
    except jsonio.JsonError:
        return body


_TRIGGERED: Final = Table(
    {
        "delivery": "id",
        "endpoint": "endpointId",
        "status": "status",
        "response": lambda row: _last_response(row["attempts"]),
        "next attempt": "nextAttemptAt",
    },
    empty="No webhook endpoint subscribes to this event.",
)


_DELIVERIES: Final[Mapping[str, Cell]] = {
    "attempted at": "attemptedAt",
    "type": "eventType",
    "status": "status",
    "response": lambda row: _last_response(row["attempts"]),
    "attempts": lambda row: len(row["attempts"]),
    "next attempt": "nextAttemptAt",
    "endpoint": "endpointId",
    "delivery": "id",
}


def show_deliveries(rows: Sequence[Row], empty: str) -> None:
    """Deliveries in a table, or ``empty``."""
    print_table(Table(_DELIVERIES, empty), rows)


def show_triggered(triggered: Row) -> None:
    """An event and its deliveries, if they are known."""
    event, deliveries = triggered["event"], triggered["deliveries"]
    print_lines([event["id"], event["type"], event["data"].get("id")])
    click.echo()
    if deliveries is None:
        where = "'deliveries' of 'webhooks' in conventions.yaml"
        click.echo(f"Deliveries are not shown: no operation lists them ({where}).")
    else:
        print_table(_TRIGGERED, deliveries)


def _last_response(attempts: Sequence[Row]) -> Any:
    return (attempts[-1]["responseStatus"] or attempts[-1]["error"]) if attempts else None
