"""Run every attack; print a table. Status 1 if one broke something.

CPU time and memory of the server and the stall of another connection have bounds. Of the stall it
is the median of the worst ones of several runs, each in a workspace of its own. ``--bounded``: an
attack that breaks nothing in its first run is not repeated.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from tests.attack.runs import results


def main() -> int:
    """Print the table; 1 if an attack broke something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how often each attack is run")
    parser.add_argument("--bounded", action="store_true", help="repeat only what broke something")
    options = parser.parse_args()
    table = Table("attack", "tried", "broke", "worst stall, ms", "CPU, s", "memory, MiB")
    found = []
    for one in results(options.runs, is_bounded=options.bounded):
        found.append(one)
        row = (one.name, str(one.tried), one.broke or "-", one.stall)
        table.add_row(*row, f"{one.seconds:.2f}", one.memory)
        sys.stderr.write(f"{one.name}: {one.broke or 'broke nothing'}\n")
    Console(width=140).print(table)
    return int(any(one.broke for one in found))


if __name__ == "__main__":
    sys.exit(main())
