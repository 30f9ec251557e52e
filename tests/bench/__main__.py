"""``python -m tests.bench``: the sandbox beside other servers, on this machine.

Nothing here passes or fails by how fast it was: a machine that is busy proves nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from tests.bench import page
from tests.bench.measure import memories, rates, starts
from tests.bench.servers import CONTRACT, commands, installed_prism
from tests.interop.node import UnavailableError

_REQUESTS: Final = 1_000_000
_FEW_REQUESTS: Final = 2_000
"""Requests before memory is measured again: of a whole run, and of a shorter one."""

_STARTS: Final = 5


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="For each row and server.")
@click.option("--requests", type=int, help="Requests before memory is measured again.")
def main(seconds: float, requests: int | None) -> None:
    """Measure, print the tables, and write them to docs/performance.md after a whole run."""
    prism = _prism()
    with TemporaryDirectory() as name:
        folder = Path(name)
        servers = commands(folder, prism)
        _write_contract(folder)
        is_whole = seconds >= page.WHOLE
        rows = rates(servers, seconds)
        memory = memories(servers, requests or (_REQUESTS if is_whole else _FEW_REQUESTS))
        started = {name: one.start for name, one in memory.items()}
        results = page.Results(rows, starts(servers, _STARTS) if is_whole else started, memory)
    text = page.markdown(results)
    click.echo(text)
    if is_whole and prism is not None:
        page.write(text)
        click.echo(f"written to docs/{page.PAGE.name}")


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
