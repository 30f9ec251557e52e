"""Run every attack; print a table. Status 1 if one broke something.

CPU time and memory of the server and the stall of another connection have bounds. Of the stall it
is the median of the worst ones of several runs, each in a workspace of its own.
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
    table = Table("attack", "tried", "broke", "worst stall, ms", "CPU, s", "memory, MiB")
    found = list(results(parser.parse_args().runs))
    for one in found:
        row = (one.name, str(one.tried), one.broke or "-", one.stall)
        table.add_row(*row, f"{one.seconds:.2f}", one.memory)
    Console(width=140).print(table)
    return int(any(one.broke for one in found))


if __name__ == "__main__":
    sys.exit(main())
