"""``python -m tests.acceptance.search``: which rare faults ``acceptance explore`` finds."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final

import click

FAULTS: Final = (
    "acts-again-on-a-copy-with-two-signatures",
    "acts-again-on-a-copy-after-another-event",
    "acts-again-on-a-copy-after-a-forgery",
    "acts-again-on-a-copy-after-a-restart",
    "drops-an-event-whose-read-fails",
    "drops-an-event-when-it-must-wait",
    "gives-up-after-a-reset-of-a-later-request",
    "goes-back-to-the-revoked-key",
    "loses-an-event-that-comes-during-another",
    "loses-the-first-event-after-a-restart",
    "new-key-after-a-503-of-a-later-request",
    "new-key-after-a-reset-of-a-later-request",
    "reads-no-further-after-two-resets",
    "registers-again-after-a-broken-read",
)
MOST_MOVES: Final = 6
_DECLARED: Final = "webhooks,idempotency"
_FEWEST: Final = 0.84
"""Of 14 faults, 12 must be found; of twelve, ten."""


@dataclass(frozen=True)
class Finding:
    """What a search found: the seconds that it took, the moves, and if the case fails again."""

    fault: str
    seconds: float
    moves: Sequence[str] | None
    replays: bool

    @property
    def is_good(self) -> bool:
        """Whether the fault was found with few moves, and its case fails again."""
        return self.moves is not None and len(self.moves) <= MOST_MOVES and self.replays


def search(fault: str, minutes: float, seed: int) -> Finding:
    """Search for the fault, and run the case that was found again."""
    words = [sys.executable, "-S", "-E", "-m", "tests.acceptance.rare", "--fault", fault]
    with TemporaryDirectory() as folder:
        found, again = Path(folder) / "found", Path(folder) / "again"
        began = monotonic()
        limits = ["--minutes", str(minutes), "--seed", str(seed)]
        result = _acceptance("explore", words, found, *limits)
        seconds = monotonic() - began
        moves = re.search(r"moves: (.*)", result.stdout)
        if result.returncode != 1 or moves is None:
            return Finding(fault, seconds, None, replays=False)
        replayed = _acceptance("run", words, again, "--case", str(found / "case.yaml"))
        listed = [name for name in moves[1].split(", ") if name != "none"]
        return Finding(fault, seconds, listed, replays=replayed.returncode == 1)


def _acceptance(
    command: str, client: Sequence[str], out: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    fixed = ["--exec", shlex.join(client), "--out", str(out), "--declare", _DECLARED]
    return subprocess.run(
        [sys.executable, "-m", "invoice_sandbox", "acceptance", command, *fixed, *words],
        capture_output=True,
        text=True,
        check=False,
    )


@click.command()
@click.option("--only", metavar="NAME", multiple=True, help="Only this fault. Repeatable.")
@click.option("--minutes", default=5.0, show_default=True, help="The longest search.")
@click.option("--seed", default=1, show_default=True)
@click.option("--side-by-side", default=2, show_default=True, help="Searches at a time.")
def main(only: tuple[str, ...], minutes: float, seed: int, side_by_side: int) -> None:
    """Status 1 when too few faults are found with few moves, or a case does not fail again."""
    faults = only or FAULTS
    findings = []
    with ThreadPoolExecutor(side_by_side) as pool:
        for found in pool.map(lambda fault: search(fault, minutes, seed), faults):
            moves = "not found" if found.moves is None else ", ".join(found.moves) or "no move"
            replays = "" if found.moves is None or found.replays else ", does not fail again"
            click.echo(f"{found.seconds:5.0f} s  {found.fault}: {moves}{replays}")
            findings.append(found)
    good = sum(found.is_good for found in findings)
    click.echo(f"{good} of {len(faults)} found within {minutes:g} minutes, seed {seed}")
    sys.exit(0 if good >= _FEWEST * len(faults) else 1)


if __name__ == "__main__":
    main()
