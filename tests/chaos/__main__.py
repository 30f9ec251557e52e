"""``make chaos`` tries every fault, and writes the table of ``docs/durability.md``."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.chaos.faults import TRIALS, Trial, run
from tests.chaos.judge import Outcome

_PAGE: Final = Path(__file__).parents[2] / "docs" / "durability.md"
_SIDE_BY_SIDE: Final = 4
"""Trials, each with processes and a PostgreSQL of its own."""

_BEGIN, _END = "<!-- chaos -->\n", "<!-- end of chaos -->\n"
_PROBLEMS: Final = (Outcome.LOST, Outcome.DUPLICATED, Outcome.DISORDERED, Outcome.UNBALANCED)

_COLUMNS: Final = ("Fault", "Times", "Acknowledged writes", "Events", *_PROBLEMS, "Recovered after")
HEADER: Final = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"


def row(name: str, outcome: Outcome) -> str:
    """The outcome as the page shows it."""
    problems = " | ".join(str(len(outcome.problems[one])) for one in _PROBLEMS)
    counts = f"{outcome.times} | {outcome.acknowledged:,} | {outcome.events:,}"
    return f"| {name} | {counts} | {problems} | {outcome.slowest:.1f} s |\n"


def write(name: str, outcome: Outcome) -> None:
    """Write the row of a fault into the page, and leave those of the others."""
    before, _, rest = _PAGE.read_text().partition(_BEGIN)
    table, _, after = rest.partition(_END)
    rows = {one.split(" | ")[0][2:]: one for one in table.splitlines(keepends=True)[2:]}
    rows[name] = row(name, outcome)
    shown = "".join(rows[one.name] for one in TRIALS if one.name in rows)
    _PAGE.write_text(f"{before}{_BEGIN}{HEADER}{shown}{_END}{after}")


def main() -> None:
    """Try every fault, several side by side, and print the table. Status 1 if anything was lost or
    repeated, or a trial did not end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1, help="of how often each fault is tried")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    chosen = parser.parse_args()
    trials = [one.of(chosen.share) for one in TRIALS if chosen.only in one.name]
    outcomes = {one.name: Outcome() for one in trials}
    failed = False
    with ProcessPoolExecutor(_SIDE_BY_SIDE, multiprocessing.get_context("spawn")) as processes:
        begun = {
            processes.submit(run, part, chosen.seed + number): one
            for one in trials
            for number, part in enumerate(one.parts())
        }
        for part in as_completed(begun):
            trial = begun[part]
            outcome = outcomes[trial.name]
            try:
                outcome.add(part.result())
            except Exception:
                failed = True
                traceback.print_exc()
            _report(trial, outcome)
            if chosen.page:
                write(trial.name, outcome)
    sys.stdout.write(HEADER + "".join(row(name, one) for name, one in outcomes.items()))
    problems = [f"{name}: {one}\n" for name, found in outcomes.items() for one in found.found]
    sys.stdout.write("".join(problems))
    sys.exit(1 if failed or problems else 0)


def _report(trial: Trial, outcome: Outcome) -> None:
    """Print how far a trial is."""
    begin = f"{datetime.now(UTC):%H:%M:%S} {trial.name}: {outcome.times} of {trial.times}"
    sys.stdout.write(f"{begin}, {outcome.acknowledged:,} writes, {len(outcome.found)} problems\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
