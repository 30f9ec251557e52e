"""``python -m tests.bench``: the sandbox beside other servers, on this machine.

Nothing here passes or fails by how fast it was: a machine that is busy proves nothing.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from tests.bench import page
from tests.bench.measure import ROWS, memories, rates, starts
from tests.bench.servers import (
    CONTRACT,
    MOCKSERVER_STUBS,
    OURS,
    PRISM,
    WIREMOCK_STUBS,
    Command,
    commands,
    programs,
    running,
)
from tests.bench.stubs import responses, write_mockserver, write_wiremock

_REQUESTS: Final = 1_000_000
_FEW_REQUESTS: Final = 2_000
"""Requests before memory is measured again: of a whole run, and of a shorter one."""

_STARTS: Final = 5


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="For each row and server.")
@click.option("--requests", type=int, help="Requests before memory is measured again.")
def main(seconds: float, requests: int | None) -> None:
    """Measure, print the tables, and write them to docs/performance.md after a whole run."""
    installed, missing = programs()
    for reason in missing:
        click.echo(reason)
    with TemporaryDirectory() as name:
        folder = Path(name)
        servers = commands(folder, installed)
        _prepare(folder, servers)
        is_whole = seconds >= page.WHOLE
        rows = rates(servers, seconds)
        memory = memories(servers, requests or (_REQUESTS if is_whole else _FEW_REQUESTS))
        started = {name: one.start for name, one in memory.items()}
        results = page.Results(rows, starts(servers, _STARTS) if is_whole else started, memory)
    text = page.markdown(results)
    click.echo(text)
    if is_whole and PRISM in installed:
        page.write(text)
        click.echo(f"written to docs/{page.PAGE.name}")


def _prepare(folder: Path, servers: Mapping[str, Command]) -> None:
    """Write what the other servers read: the contract, and what the sandbox returns."""
    command = [sys.executable, "-m", "invoice_sandbox", "contract"]
    contract = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (folder / CONTRACT).write_text(contract)
    with running(servers[OURS]) as server:
        stubs = responses(server.port, ROWS.values())
    write_wiremock(stubs, folder / WIREMOCK_STUBS)
    write_mockserver(stubs, folder / MOCKSERVER_STUBS)


if __name__ == "__main__":
    main()
