"""``make chaos`` tries every fault, and writes the table of ``docs/durability.md``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from tests.chaos.faults import TRIALS, run
from tests.chaos.judge import Outcome

_PAGE: Final = Path(__file__).parents[2] / "docs" / "durability.md"
_BEGIN, _END = "<!-- chaos -->\n", "<!-- end of chaos -->\n"
_PROBLEMS: Final = (Outcome.LOST, Outcome.DUPLICATED, Outcome.DISORDERED, Outcome.UNBALANCED)

_COLUMNS: Final = ("Fault", "Times", "Acknowledged writes", "Events", *_PROBLEMS, "Recovered after")
HEADER: Final = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"


def row(name: str, outcome: Outcome) -> str:
    """The outcome as the page shows it."""
    problems = " | ".join(str(len(outcome.problems[one])) for one in _PROBLEMS)
    counts = f"{outcome.times} | {outcome.acknowledged:,} | {outcome.events:,}"
    return f"| {name} | {counts} | {problems} | {outcome.slowest:.1f} s |\n"


def main() -> None:
    """Try every fault and print the table. Status 1 if anything was lost or repeated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1, help="of how often each fault is tried")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    chosen = parser.parse_args()
    table, problems = HEADER, list[str]()
    sys.stdout.write(HEADER)
    for trial in [one.of(chosen.share) for one in TRIALS if chosen.only in one.name]:
        outcome = run(trial, chosen.seed)
        table += row(trial.name, outcome)
        problems += outcome.found
        sys.stdout.write(row(trial.name, outcome) + "".join(f"{one}\n" for one in outcome.found))
        sys.stdout.flush()
    if chosen.page:
        before, _, rest = _PAGE.read_text().partition(_BEGIN)
        _PAGE.write_text(f"{before}{_BEGIN}{table}{_END}{rest.partition(_END)[2]}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
