"""``invoice-sandbox db``: the database of ``serve --store postgresql://...``."""

from __future__ import annotations

import click

from invoice_sandbox.cli.options import Commands
from invoice_sandbox.settings import (
    ENVIRONMENT_PREFIX,
    Postgresql,
    SettingError,
    read_settings,
)


@click.group(cls=Commands)
def db() -> None:
    """Prepare a PostgreSQL database."""


@db.command("upgrade")
@click.option(
    "--store", metavar="URL", envvar=f"{ENVIRONMENT_PREFIX}_STORE", help="postgresql://..."
)
def upgrade_command(store: str | None) -> None:
    """Create the tables, or bring them to the version that this server uses.

    'serve' does the same when it starts. Use this where the server's user may not create tables.
    """
    place = read_settings({"store": store}).store
    if not isinstance(place, Postgresql):
        raise SettingError("--store: only a database as 'postgresql://...' can be upgraded")
    from invoice_sandbox.state.rows import StoreError
    from invoice_sandbox.state.upgrade import upgrade

    try:
        before, now = upgrade(place.dsn)
    except StoreError as error:
        raise SettingError(f"--store: {error}") from None
    click.echo(f"Schema {now}" if before == now else f"Schema {now}, before: {before or 'none'}")
