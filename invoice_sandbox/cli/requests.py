"""``invoice-sandbox requests`` and ``coverage``: the journal, and what it has of the contract."""

from __future__ import annotations

import sys
from contextlib import suppress
from http import HTTPMethod
from math import isnan
from typing import Any, Final

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.coverage import lines, shortfall
from invoice_sandbox.cli.options import (
    FAILED,
    client,
    passed,
    print_data,
    print_row,
    wants_json,
    with_connection,
    with_query,
)
from invoice_sandbox.cli.output import Row, Table, plain, print_json, print_lines, print_table

_USUAL_LIMIT: Final = 20
_REQUESTS: Final = Table(
    {
        **{name: name for name in ("at", "method", "path", "status", "operation")},
        "fault": "why.fault",
        "request": "requestId",
    },
    empty="No requests.",
)


@click.command()
@click.option(
    "--show",
    metavar="REQUEST_ID",
    help="Show one request in full: headers, bodies, and why it got its response. It may be one "
    "to the control API that changed the workspace, since the server started.",
)
@click.option("--follow", "-f", is_flag=True, help="Print new requests until Ctrl-C.")
@click.option("--operation", metavar="ID", help="Only requests to this operation.")
@click.option(
    "--method",
    type=click.Choice([str(method) for method in HTTPMethod], case_sensitive=False),
    help="Only requests with this method.",
)
@click.option(
    "--status", metavar="N", type=click.IntRange(100, 599), help="Only requests with this status."
)
@click.option(
    "--fault/--no-fault",
    default=None,
    help="Only requests with an injected fault, or only requests without one.",
)
@click.option(
    "--failed/--succeeded",
    default=None,
    help="Only requests with a status of 400 or more or without a response, or only the others.",
)
@click.option(
    "--text",
    metavar="TEXT",
    help="Only requests with this text in the path or a body, as the journal shows them.",
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), help="Maximum number of requests."
)
@with_connection
def requests(show: str | None, follow: bool, limit: int | None, **filters: Any) -> None:
    """List requests and responses.

    Prints the newest requests first, 20 of them unless --limit is passed. --show prints one of them
    in full, --follow new ones as they come.

    \b
    invoice-sandbox requests --status 400
    invoice-sandbox requests --operation createInvoice --method POST --limit 5
    invoice-sandbox requests --show req_sandbox_01M7YQ1WE00CMTVAXC8FJJVNF7
    """
    query = passed(**filters)
    if show is not None and (follow or limit is not None or query):
        raise click.UsageError("--show takes the id of one request; leave out other options")
    if follow and limit is not None:
        raise click.UsageError("--follow prints all new requests; leave out --limit")
    if show is not None:
        print_data(_request(show), _show_request)
    elif follow:
        with suppress(KeyboardInterrupt):
            _follow(query)
    else:
        _list(query, limit or _USUAL_LIMIT)


def _list(query: Row, limit: int) -> None:
    reply = client().send("GET", with_query("/sandbox/requests", {**query, "limit": limit}))
    if wants_json():
        print_json(reply.data)
        return
    print_table(_REQUESTS, reply.data)
    total = int(reply.headers.get("x-total-count", 0))
    dropped = int(reply.headers.get("x-journal-dropped", 0))
    if total > len(reply.data):
        click.echo(f"{len(reply.data)} of {total}; --limit shows more.")
    if dropped:
        click.echo(f"The journal has dropped {dropped} older requests.")


def _follow(query: Row) -> None:
    """Print requests as they come, until the server stops."""
    for event in client().events(with_query("/sandbox/requests/stream", query)):
        if event.name == "request":
            print_row(event.data, lambda entry: print_lines(_REQUESTS.cells(entry)))
        elif event.name == "dropped":
            count = event.data["count"]
            click.echo(f"The journal has dropped {count} requests.", err=True)
    raise click.ClickException("the server has stopped, or the workspace was deleted")


def _request(request_id: str) -> Row:
    """One request, which must be in the journal."""
    entries: list[Row] = client().ask("GET", with_query("/requests", {"id": request_id}))
    if not entries:
        raise click.ClickException(f"no request '{request_id}' in the journal of this workspace")
    return entries[0]


def _show_request(entry: Row) -> None:
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
            for problem in value:
                click.echo(
                    f"    {plain(problem['pointer'] or 'the body')}: {plain(problem['problem'])}"
                )
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


@click.command()
@click.option(
    "--fail-under",
    "least",
    metavar="PERCENT",
    type=click.FloatRange(0, 100),
    default=0,
    help="Exit with status 1 if the coverage is below PERCENT.",
)
@with_connection
def coverage(least: float) -> None:
    """Show the coverage of the contract.

    It counts the operations that were called and the declared statuses that they returned, in the
    workspace of the key and in those created from it.

    \b
    invoice-sandbox coverage
    invoice-sandbox coverage --fail-under 80
    """
    if isnan(least):
        raise click.BadParameter("'nan' is not a percentage", param_hint="--fail-under")
    report = client().ask("GET", "/coverage")
    print_data(report, _show_coverage)
    missing = shortfall(report, least)
    if missing:
        click.echo(missing, err=True)
        sys.exit(FAILED)


def _show_coverage(report: Row) -> None:
    for line in lines(report):
        click.echo(plain(line))
