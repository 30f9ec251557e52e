"""Commands of the control API that do more than their operation: ``replay`` and ``requests``."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPMethod
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from invoice_sandbox.cli import Command
from invoice_sandbox.cli.inputs import address
from invoice_sandbox.cli.options import FILE, FOLDER, OneOf, client, print_reply, print_row
from invoice_sandbox.cli.views import show_new_request, show_request
from invoice_sandbox.control.client import Reply

_BUNDLES: Final = """\
With FILE.zip: sends the requests of a bundle to a new workspace of a server in this process,
with the times that they read then, and prints the first difference. Opens no connection.
Status 0 when nothing differs, 1 when something does, 2 for a file that cannot be replayed.
"""


def with_bundles(deliveries: click.Command) -> click.Command:
    """The command ``replay`` for a bundle as well, which is no operation."""

    def run(
        project: Path | None, contract: Path | None, scenarios: Path | None, **values: Any
    ) -> None:
        file = Path(values["id"])
        if file.suffix == ".zip" or file.is_file():
            from invoice_sandbox.bundles.environment import Served  # imports the server
            from invoice_sandbox.cli.replay import replay_bundle

            replay_bundle(file, Served(project, contract, scenarios))
        else:
            deliveries.callback(**values)  # type: ignore[misc]  # see with_show

    target, *options = deliveries.params
    assert isinstance(target, click.Argument)  # noqa: S101 - the id in the path
    return Command(
        deliveries.name,
        params=[
            click.Argument(
                ["id"], metavar="ID|FILE.zip", type=target.type, callback=target.callback
            ),
            click.Option(["--project"], metavar="DIR", type=FOLDER, help="Project of the bundle."),
            click.Option(["--contract"], metavar="FILE", type=FILE, help="Contract of the bundle."),
            click.Option(
                ["--scenarios"], metavar="DIR", type=FOLDER, help="Scenarios of your own."
            ),
            *options,
        ],
        callback=run,
        help=(deliveries.help or "").replace("\n\n\b\n", f"\n\n{_BUNDLES}\n\b\n")
        + "\ninvoice-sandbox replay bug.zip",
        short_help="Replay a delivery, or a bundle.",
    )


def with_show(listing: click.Command) -> click.Command:
    """The command ``requests`` with the options ``--show`` and ``--follow``."""

    def run(show: str | None, *, follow: bool, **filters: Any) -> None:
        if show is not None and (follow or any(value is not None for value in filters.values())):
            raise click.UsageError("--show takes the id of one request; leave out other options")
        if follow and (filters["limit"] is not None or filters["id"] is not None):
            raise click.UsageError("--follow prints all new requests; leave out --limit and --id")
        if show is not None:
            _print_request(show)
        elif follow:
            passed = {name: value for name, value in filters.items() if value is not None}
            with suppress(KeyboardInterrupt):
                _follow(address("/sandbox/requests/stream", passed))
        else:
            if filters["id"] is not None:
                _request(filters["id"])
            listing.callback(**filters)  # type: ignore[misc]  # a command from the contract has one

    (method,) = (one for one in listing.params if one.name == "method")
    method.type = OneOf([str(one) for one in HTTPMethod], case_sensitive=False)
    help_text = "Show one request in full: headers, bodies, and why it got its response."
    options = (
        click.Option(["--show"], metavar="REQUEST_ID", help=help_text),
        click.Option(["--follow", "-f"], is_flag=True, help="Print new requests until Ctrl-C."),
    )
    return Command(
        listing.name,
        params=[*options, *listing.params],
        callback=run,
        help=listing.help,
        short_help=listing.short_help,
    )


def _follow(place: str) -> None:
    """Print requests as they come, until the server stops."""
    for event in client().events(place):
        if event.name == "request":
            print_row(event.data, show_new_request)
        else:
            count = event.data["count"]
            click.echo(f"The journal has dropped {count} requests.", err=True)
    raise click.ClickException("the server has stopped, or the workspace was deleted")


def _print_request(request_id: str) -> None:
    print_reply(_request(request_id), lambda one: show_request(one.data))


def _request(request_id: str) -> Reply:
    """One request, which must be in the journal."""
    reply = client().send("GET", f"/sandbox/requests?id={quote(request_id, safe='')}")
    if not reply.data:
        raise click.ClickException(f"no request '{request_id}' in the journal of this workspace")
    return reply._replace(data=reply.data[0])
