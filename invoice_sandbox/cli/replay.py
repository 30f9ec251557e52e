"""``invoice-sandbox replay`` with a bundle; with the id of a delivery it is an operation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.bundles.compare import Difference
from invoice_sandbox.cli.options import FAILED, print_data
from invoice_sandbox.cli.output import plain
from invoice_sandbox.replay import Replayed, Served, replay

__all__ = ["Served", "replay_bundle"]


def replay_bundle(file: Path, served: Served) -> None:
    """Replay a bundle, print what came of it, and end with status 1 if anything differs.

    Raises UserError for a file that is not a usable bundle.
    """
    replayed = replay(read_bundle(file), served)
    data = {"same": not replayed.differences, **asdict(replayed)}
    lines = map(plain, _lines(file, replayed))
    print_data(data, lambda _: click.echo("\n".join(lines)))
    sys.exit(FAILED if replayed.differences else 0)


def _lines(file: Path, replayed: Replayed) -> Iterator[str]:
    yield from (f"note: {note}" for note in replayed.notes)
    place = None
    for difference in replayed.differences:
        if place != _place(difference):
            place = _place(difference)
            yield place
        yield f"  {difference.member}: expected {difference.expected}, actual {difference.actual}"
    count = len(replayed.differences)
    verdict = f"{count} differences in" if count else "same:"
    yield f"{file}: {verdict} {replayed.requests} requests and what they left"


def _place(difference: Difference) -> str:
    place = f"request {difference.request}" if difference.request else "what is left at the end"
    return f"{difference.case}: {place}" if difference.case else place
