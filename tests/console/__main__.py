"""``python -m tests.console``: pictures of the console, and how fast it is."""

from __future__ import annotations

import sys

import click

from tests.console.shots import take_all
from tests.console.speed import measure


@click.command()
@click.option("--invoices", type=click.IntRange(1), default=100_000, help="Of the list measured.")
@click.option("--pictures/--no-pictures", default=True, help="Write docs/pictures/console.")
def main(invoices: int, *, pictures: bool) -> None:
    """Write the pictures, then print the measurements."""
    lines = [*(take_all() if pictures else ()), *measure(invoices).lines()]
    sys.stdout.write("\n".join(lines) + "\n")


main()
