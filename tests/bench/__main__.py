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
from tests.bench.servers import commands, prism
from tests.interop.node import UnavailableError

_WHOLE: Final = 2.0
"""Seconds a row from which a run says enough to be written to the page."""

_REQUESTS_A_SECOND: Final = 10_000
_STARTS: Final = 5


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="For each row and server.")
@click.option("--requests", type=int, help="Requests before memory is measured again.")
def main(seconds: float, requests: int | None) -> None:
    """Measure, print the tables, and write them to docs/performance.md after a whole run."""
    program = _prism()
    with TemporaryDirectory() as folder:
        contract = Path(folder) / "contract.yaml"
        contract.write_text(_contract())
        servers = commands(contract, program)
        is_whole = seconds >= _WHOLE
        rows = rates(servers, seconds)
        memory = memories(servers, requests or int(seconds * _REQUESTS_A_SECOND))
        started = {name: one.start for name, one in memory.items()}
        results = page.Results(rows, starts(servers, _STARTS) if is_whole else started, memory)
    text = page.markdown(results)
    click.echo(text)
    if is_whole and program is not None:
        page.write(text)
        click.echo(f"written to docs/{page.PAGE.name}")


def _prism() -> Path | None:
    try:
        return prism()
    except UnavailableError as error:
        click.echo(f"without Prism: {error}")
        return None


def _contract() -> str:
    command = [sys.executable, "-m", "invoice_sandbox", "contract"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
