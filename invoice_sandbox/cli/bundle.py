"""``invoice-sandbox bundle``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.bundles.alignment import Row, Side, align
from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli.options import Commands, client, print_data, with_connection
from invoice_sandbox.cli.output import Table, print_table


@click.group(cls=Commands)
def bundle() -> None:
    """Write a workspace to one file, for a bug report."""


_DIFFERENCES: Final = Table(
    {"exchange": "exchange", "place": "place", "A": "first", "B": "second"}, "No difference."
)


@bundle.command()
@click.argument("first", metavar="A.zip", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("second", metavar="B.zip", type=click.Path(dir_okay=False, path_type=Path))
def compare(first: Path, second: Path) -> None:
    """Compare two bundles: all differences of exchanges, and whether contract, scenario, seed and
    clock are equal. Status 1 if an exchange differs.

    \b
    invoice-sandbox bundle compare before.zip after.zip
    """
    found = align(read_bundle(first), read_bundle(second))
    print_table(_DIFFERENCES, [line for row in found.rows for line in _lines(row)])
    click.echo(found.summary)
    if found.changed:
        raise click.exceptions.Exit(1)


def _lines(row: Row) -> Iterator[dict[str, str]]:
    title = f"{row.case} {row.title}".strip()
    if row.first is None or row.second is None:
        yield {"exchange": title, "first": _there(row.first), "second": _there(row.second)}
    for place, first, second in row.differences:
        yield {"exchange": title, "place": place, "first": first, "second": second}


def _there(side: Side | None) -> str:
    return "" if side is None else str(side.status or "reset")


@bundle.command()
@click.argument("file", metavar="FILE.zip", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@with_connection
def save(file: Path, force: bool) -> None:
    """Write the workspace to FILE.zip.

    It has the contract, the scenario, every request and response, deliveries, clock steps, and the
    content at the beginning and now. Secrets are left out.

    \b
    invoice-sandbox bundle save bug.zip
    invoice-sandbox replay bug.zip
    """
    if file.suffix != ".zip":
        raise UserError(f"{file}: the name of a bundle ends in .zip")
    if file.exists() and not force:
        raise UserError(f"{file}: the file exists; choose another name, or replace it with --force")
    about = save_bundle(client(), file)
    text = f"{file}: {about['requests']} requests, version {about['version']}"
    if not about["replayable"]:
        text += f"; it cannot be replayed: {about['reason']}"
    print_data(dict(about), lambda _: click.echo(text))
