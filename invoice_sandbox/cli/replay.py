"""``invoice-sandbox replay`` with a bundle; with the id of a delivery it is an operation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.bundles.environment import Served
from invoice_sandbox.cli.options import FAILED, print_reply
from invoice_sandbox.cli.output import plain
from invoice_sandbox.control.client import Reply
from invoice_sandbox.replay import Replayed, replay


def replay_bundle(file: Path, served: Served) -> None:
    """Replay a bundle, print what came of it, and end with status 1 if it is different.

    Raises UserError for a file that is no usable bundle.
    """
    found = replay(read_bundle(file), served)
    data = {"same": found.difference is None, **asdict(found)}
    print_reply(Reply(data, {}), lambda _: click.echo("\n".join(map(plain, _lines(file, found)))))
    sys.exit(0 if found.difference is None else FAILED)


def _lines(file: Path, found: Replayed) -> Iterator[str]:
    yield from (f"note: {one}" for one in found.notes)
    difference = found.difference
    if difference is None:
        yield f"{file}: same: {found.requests} requests{' and what they left' * found.with_end}"
        return
    place = difference.request or "what is left at the end"
    yield f"{file}: different: {difference.case and f'{difference.case}: '}{place}"
    yield f"  member:   {difference.member}"
    yield f"  expected: {difference.expected}"
    yield f"  actual:   {difference.actual}"
