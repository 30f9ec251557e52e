"""What the lever commands do: ask a running sandbox, then print its answer for people or scripts.

A command names a lever and a function that shows its data; ``pull`` does the rest. What is asked
and what a member may hold is the server's to check, so its message is what the user reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from shutil import get_terminal_size
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.control.client import DEFAULT_URL
from invoice_sandbox.settings import is_loopback

NOTHING: Final = "-"
"""How an absent value is shown."""

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 60.0
_INTERRUPTED: Final = 130
_ANY_WIDTH: Final = 100_000
MOST_REQUESTS: Final = 1000
"""As many as the journal shows at once."""


Data = Any
Row = Mapping[str, Any]
Cells = Mapping[str, Callable[[Row], Any]]
"""The columns of a table: their titles, and what each shows of a row."""


@dataclass(frozen=True)
class Connection:
    """Which sandbox is asked, with which key, and whether the answer is printed for scripts."""

    url: str
    key: str = field(repr=False)
    as_json: bool = False
    patience: float = _ANSWER_SECONDS
    """Seconds to wait for an answer."""


class Answer(NamedTuple):
    """The data of an answer, and its headers."""

    data: Data
    headers: Mapping[str, str]


def checked_url(url: str) -> str:
    """The address of a server, without a final slash. Raises click.BadParameter.

    The message does not repeat the address, which may hold a password.
    """
    try:
        parts = urlsplit(url)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not url.isprintable() or " " in url:
        raise click.BadParameter(f"an address looks like {DEFAULT_URL}")
    if "@" in parts.netloc:
        raise click.BadParameter(
            "an address holds no user name or password; the key goes into --key"
        )
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise click.BadParameter(f"the address ends after host and port, as {DEFAULT_URL} does")
    return f"{parts.scheme}://{parts.netloc}"


def checked_key(key: str) -> str:
    """A key that a header can carry. Raises click.BadParameter, which does not repeat the key."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise click.BadParameter("a key holds letters, digits and underscores only")
    return key


def path(template: str, **names: str) -> str:
    """The path of a lever, with identifiers put in, whatever they hold."""
    return template.format(**{key: quote(name, "", None, "replace") for key, name in names.items()})


def given(members: Row) -> dict[str, Any]:
    """The members that were given."""
    return {name: value for name, value in members.items() if value is not None}


def pull(
    connection: Connection,
    method: str,
    lever: str,
    body: Row | None = None,
    *,
    show: Callable[[Data], None],
) -> None:
    """Ask a lever and print its data: as JSON, or by ``show``. Raises click.ClickException."""
    print_data(connection, ask(connection, method, lever, body).data, show)


def ask(
    connection: Connection,
    method: str,
    lever: str,
    body: Row | None = None,
    *,
    below: str = "/sandbox",
) -> Answer:
    """What a lever answers, or an operation ``below`` another path.

    Raises click.ClickException with the server's message, or with what to do when no sandbox
    answers; ends the process quietly when it is interrupted meanwhile.
    """
    try:
        import httpx

        try:
            reply = httpx.request(
                method,
                f"{connection.url}{below}{lever}",
                headers=headers_of(connection, body),
                content=None if body is None else json.dumps(body),
                timeout=httpx.Timeout(connection.patience, connect=_CONNECT_SECONDS),
                trust_env=may_need_proxy(connection.url),
            )
        except httpx.ReadTimeout:
            raise nobody(connection, f" within {connection.patience:g} seconds") from None
        except (httpx.RequestError, httpx.InvalidURL):
            raise nobody(connection) from None
        return Answer(data_of(connection, reply.is_success, reply.content), reply.headers)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def headers_of(connection: Connection, body: Row | None) -> dict[str, str]:
    headers = {
        "Authorization": f"Bearer {connection.key}",
        "Accept": "application/json",
        "X-Sandbox-Coverage": "off",
    }
    return headers if body is None else headers | {"Content-Type": "application/json"}


def may_need_proxy(url: str) -> bool:
    """Whether the environment's proxy is heeded; none reaches what listens on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or not is_loopback(parts.hostname or "")


def data_of(connection: Connection, success: bool, content: bytes) -> Data:
    try:
        answer = jsonio.loads(content)
    except jsonio.JsonError:
        answer = None
    match answer:
        case {"mode": str(), "data": data} if success:
            return data
        case {"mode": str(), "error": {"message": str(message)}} if not success:
            raise click.ClickException(plain(message).replace(connection.key, "[key]"))
    raise nobody(connection, ", but something else does")


def nobody(connection: Connection, detail: str = "") -> click.ClickException:
    advice = "start one with 'invoice-sandbox serve', or name its address with --url"
    return click.ClickException(f"no sandbox answers on {connection.url}{detail}; {advice}")


# --- for scripts and for people


def print_data(connection: Connection, data: Data, show: Callable[[Data], None]) -> None:
    """For scripts exactly the data, digit by digit as the server wrote it; else what it means."""
    if connection.as_json:
        click.echo(jsonio.dumps_pretty(data), nl=False)
    else:
        show(data)


def plain(value: Any) -> str:
    """A value as text that cannot steer a terminal."""
    match value:
        case None | "" | []:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(plain, value))
        case dict():
            return ", ".join(f"{name} {plain(one)}" for name, one in value.items())
    return "".join(
        letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1]
        for letter in str(value)
    )


def print_table(rows: Sequence[Row], columns: Cells, *, empty: str) -> None:
    """A table without the columns that say nothing. No cell is ever cut: in a terminal prose is
    folded, while identifiers stay whole even where they do not fit; beyond it there is room."""
    if not rows:
        click.echo(empty)
        return
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    texts = {title: [plain(cell(row)) for row in rows] for title, cell in columns.items()}
    telling = {title: cells for title, cells in texts.items() if set(cells) != {NOTHING}}
    for title, cells in telling.items():
        is_prose = any(" " in text for text in cells)
        table.add_column(title, overflow="fold", no_wrap=not is_prose)
    for row in zip(*telling.values(), strict=True):
        table.add_row(*map(Text, row))
    console = Console(width=_ANY_WIDTH)
    if sys.stdout.isatty():
        least = Measurement.get(console, console.options, table).minimum
        console.width = max(least, get_terminal_size().columns)
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def print_lines(*lines: Iterable[Any]) -> None:
    """Each line's values, two spaces apart."""
    for line in lines:
        click.echo("  ".join(map(plain, line)))


def _member(name: str) -> Callable[[Row], Any]:
    return lambda row: row.get(name)


def _columns(*names: str, **others: Callable[[Row], Any]) -> Cells:
    return {name: _member(name) for name in names} | others


def _doing(step: Row) -> str:
    """The action of a step, and what it was given: ``transition trigger=dispute``."""
    return " ".join([step["do"], *(f"{name}={value}" for name, value in step["with"].items())])


_DONE: Final = {
    **_columns("at", do=_doing),
    **_columns("outcome", "subject", "reason", "events"),
}


# --- one function per kind of data


def show_clock(clock: Row) -> None:
    """Where the clock stands, and when the next thing falls due."""
    print_lines([_clock(clock)])


def show_advance(advance: Row) -> None:
    """What happened on the way, a line for each step, then where the clock stands."""
    print_lines(*([cell(step) for cell in _DONE.values()] for step in advance["happened"]))
    show_clock(advance)


def show_agenda(agenda: Row) -> None:
    """What is due, and what was done."""
    due = {**_columns("at", do=_doing), **_columns("subject", "scenario")}
    print_table(agenda["due"], due, empty="Nothing is due.")
    click.echo()
    print_table(agenda["done"], _DONE, empty="Nothing was done by itself.")


def show_workspaces(workspaces: Sequence[Row]) -> None:
    """Workspaces, the one of the key marked."""
    columns = {
        "": _mark,
        **_columns("id", "scenario", "seed"),
        "clock": lambda row: row["clock"]["mode"],
        "now": lambda row: row["clock"]["now"],
        "kept idle for": lambda row: row["keptIdleFor"] or "ever",
    }
    print_table(workspaces, columns, empty="No workspaces.")


def show_workspace(workspace: Row) -> None:
    """One workspace on one line."""
    seed, scenario = f"seed {workspace['seed']}", f"scenario {workspace['scenario']}"
    print_lines([workspace["id"], scenario, seed, _clock(workspace["clock"])])


def show_new_workspace(workspace: Row) -> None:
    """The workspace, and its key in a line that can be pasted into a shell."""
    show_workspace(workspace)
    click.echo("Its key is shown only this once. To work in it:")
    click.echo(f"export INVOICE_SANDBOX_KEY={plain(workspace['key'])}")


def show_snapshots(snapshots: Sequence[Row]) -> None:
    """What can be gone back to."""
    columns = {"id": _member("id"), "taken at": _member("takenAt")}
    print_table(snapshots, columns, empty="No snapshots.")


def show_snapshot(snapshot: Row) -> None:
    """One snapshot, and how to go back to it."""
    print_lines([snapshot["id"], f"taken at {snapshot['takenAt']}"])


def show_scenarios(scenarios: Sequence[Row]) -> None:
    """Scenarios, the one in force marked."""
    columns = {
        "": _mark,
        **_columns("name", "purpose"),
        "steps": lambda row: str(len(row["steps"])),
    }
    print_table(scenarios, columns, empty="No scenarios.")


def show_scenario(scenario: Row) -> None:
    """The scenario in force and what it does."""
    print_lines([scenario["name"], scenario["purpose"]])
    print_lines(
        *([f"  {one['after']}", "after", one["on"], one["do"]] for one in scenario["steps"])
    )


def show_faults(faults: Sequence[Row]) -> None:
    """Faults in the order in which they are tried."""
    columns = {
        **_columns("id", "kind"),
        "operation": lambda row: row["operation"] or "every",
        **_columns("status", "delay"),
        "up to": _member("upTo"),
        "when": _member("when"),
        "left": lambda row: "forever" if row["count"] is None else row["count"],
        **_columns("probability", "fired"),
    }
    print_table(faults, columns, empty="No faults.")


def show_deleted(deleted: Row) -> None:
    """What is gone."""
    print_lines([deleted["id"], "deleted"])


def _clock(clock: Row) -> str:
    due = clock["nextDue"]
    return f"{clock['mode']} at {clock['now']}, " + (f"next due {due}" if due else "nothing due")


def _mark(row: Row) -> str:
    return "*" if row["current"] else " "


# --- events


def trigger(connection: Connection, kind: str, invoice_id: str | None) -> None:
    """Record an event, wait until it was delivered, and show both. Raises click.ClickException."""
    event = ask(connection, "POST", "/events", given({"type": kind, "invoiceId": invoice_id})).data
    ask(connection, "POST", "/clock/advance", {"by": "PT0S"})
    deliveries = ask(connection, "GET", "/webhooks", below="/api").data["deliveries"]
    theirs = [row for row in reversed(deliveries) if row["eventId"] == event["id"]]
    print_data(connection, {"event": event, "deliveries": theirs}, _show_triggered)


def _show_triggered(triggered: Row) -> None:
    event = triggered["event"]
    print_lines([event["id"], event["type"], event["data"].get("id")])
    columns = {
        "delivery": _member("id"),
        "endpoint": _member("endpointId"),
        **_columns("status"),
        "answer": _last_answer,
        "next attempt": _member("nextAttemptAt"),
    }
    click.echo()
    print_table(triggered["deliveries"], columns, empty="No endpoint subscribes to it.")


def show_inbox(inbox: Row) -> None:
    """The address of the built-in receiver, then what it received."""
    click.echo(plain(inbox["url"]))
    columns = {
        "received at": _member("receivedAt"),
        "type": _event_type,
        "webhook-id": lambda row: row["headers"].get("webhook-id"),
        **_columns("verified", "duplicate", "problem"),
    }
    print_table(inbox["messages"], columns, empty="No webhooks yet.")


def _event_type(message: Row) -> Any:
    try:
        event = jsonio.loads(message["body"].encode(errors="replace"))
    except jsonio.JsonError:
        return None
    return event.get("type") if isinstance(event, dict) else None


def _last_answer(delivery: Row) -> Any:
    if not delivery["attempts"]:
        return None
    last = delivery["attempts"][-1]
    return last["responseStatus"] or last["error"]


# --- the journal


def show_requests(connection: Connection, filters: Row) -> None:
    """The requests of the journal that match, newest first, and how many there are in all."""
    query = urlencode({name: _in_query(value) for name, value in filters.items()}, errors="replace")
    answer = ask(connection, "GET", f"/requests?{query}")

    def show(requests: Sequence[Row]) -> None:
        columns = {
            **_columns("at", "method", "path", "status", "operation"),
            "fault": lambda row: row["why"].get("fault"),
            "request": _member("requestId"),
        }
        print_table(requests, columns, empty="No requests.")
        total = int(answer.headers.get("X-Total-Count", 0))
        dropped = int(answer.headers.get("X-Journal-Dropped", 0))
        if total > len(requests):
            click.echo(f"{len(requests)} of {total}; --limit shows more.")
        if dropped:
            click.echo(f"The journal no longer holds {dropped} older ones.")

    print_data(connection, answer.data, show)


def show_request(connection: Connection, request_id: str) -> None:
    """One request in full. Raises click.ClickException when the journal does not hold it."""
    entries = ask(connection, "GET", f"/requests?limit={MOST_REQUESTS}").data
    entry = next((one for one in entries if one["requestId"] == request_id), None)
    if entry is None:
        raise click.ClickException("the journal of this workspace holds no request of this id")
    print_data(connection, entry, _show_entry)


def _in_query(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _show_entry(entry: Row) -> None:
    print_lines([entry["requestId"], entry["at"], f"{entry['durationMs']} ms"])
    print_lines([entry["method"], entry["path"], entry["status"] or "connection reset"])
    for name in ("request", "response"):
        click.secho(f"\n{name.capitalize()}", bold=True)
        _show_message(entry[name])
    click.secho("\nWhy", bold=True)
    for name, value in entry["why"].items():
        click.echo(f"  {plain(name)}: {plain(value)}")


def _show_message(message: Row) -> None:
    for name, value in message["headers"]:
        click.echo(f"  {plain(name)}: {plain(value)}")
    body, length = message["body"], message.get("bodyBytes")
    if body is not None:
        click.echo()
        for line in plain(_indented(body)).splitlines():
            click.echo(f"  {line}")
    if length is not None:
        click.echo(f"  ({length} bytes, not all of them shown)")


def _indented(body: str) -> str:
    try:
        return jsonio.dumps_pretty(jsonio.loads(body.encode(errors="replace"))).decode()
    except jsonio.JsonError:
        return body
