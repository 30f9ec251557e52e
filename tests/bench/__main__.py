"""``python -m tests.bench``: the sandbox beside other servers, on this machine.

Nothing here passes or fails by how fast it was: a machine that is busy proves nothing.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from tests.bench import page
from tests.bench.calls import calls_of_post
from tests.bench.measure import help_seconds, memory, rates, starts
from tests.bench.servers import CONTRACT, ON_SQLITE, OURS, commands, installed_prism
from tests.bench.stores import kills, many, postgresql
from tests.interop.node import UnavailableError

_REQUESTS: Final = 200_000
_INVOICES: Final = 1_000
_TIMES: Final = 5
"""Requests before memory is measured again, invoices of an advance, and starts."""

_PART: Final = 20
"""What a short run does of these."""


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="For each row and server.")
def main(seconds: float) -> None:
    """Measure and print the tables; a whole run writes them to docs/internals/performance.md."""
    prism = _prism()
    with TemporaryDirectory() as name:
        folder = Path(name)
        servers = commands(folder, prism)
        _write_contract(folder)
        is_whole = seconds >= page.WHOLE
        part = 1 if is_whole else _PART
        invoices, requests = _INVOICES // part, _REQUESTS // part
        found = rates(servers, seconds)
        del servers[ON_SQLITE]
        results = page.Results(
            rates=found,
            starts=starts(servers, _TIMES if is_whole else 1),
            help=help_seconds(_TIMES if is_whole else 1),
            memory=(*memory(servers[OURS], requests), requests),
            calls=asyncio.run(calls_of_post()),
            invoices=invoices,
            many=many(invoices),
            posts=postgresql(seconds),
            kills=kills(page.KILLS) if is_whole else None,
        )
    text = page.markdown(results)
    click.echo(text)
    if is_whole and prism is not None:
        page.write(text)
        click.echo(f"written to {page.PAGE.name}")


def _prism() -> Path | None:
    try:
        return installed_prism()
    except UnavailableError as error:
        click.echo(f"without Prism: {error}")
        return None


def _write_contract(folder: Path) -> None:
    command = [sys.executable, "-m", "invoice_sandbox", "contract"]
    contract = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (folder / CONTRACT).write_text(contract)


if __name__ == "__main__":
    main()
