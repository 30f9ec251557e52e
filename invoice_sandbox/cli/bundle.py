"""``invoice-sandbox bundle``."""

from __future__ import annotations

from pathlib import Path

import click

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli.options import Commands, client, print_data, with_connection


@click.group(cls=Commands)
def bundle() -> None:
    """Write a workspace to one file, for a bug report."""


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
