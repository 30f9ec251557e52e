"""Run every attack of ``costs``; print a table. Status 1 if one broke something.

``--bounded``: an attack that breaks nothing in its first run is not repeated.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from tests.attack.costs import ATTACKS, cost


def main() -> int:
    """Print the table; return 1 if an attack broke something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how often each attack is run")
    parser.add_argument("--bounded", action="store_true", help="repeat only what broke something")
    options = parser.parse_args()
    table = Table("attack", "sent", "broke", "others waited, ms", "CPU, s", "memory, MiB")
    has_broken = False
    for attack in ATTACKS:
        result = cost(attack, 1 if options.bounded else options.runs)
        if options.bounded and result.broke:
            result = cost(attack, options.runs)
        has_broken |= bool(result.broke)
        numbers = f"{result.stall:.0f}", f"{result.seconds:.2f}", f"{result.mebibytes:.0f}"
        table.add_row(result.name, str(result.sent), result.broke or "-", *numbers)
        sys.stderr.write(f"{result.name}: {result.broke or 'broke nothing'}\n")
    Console(width=120).print(table)
    return int(has_broken)


if __name__ == "__main__":
    sys.exit(main())
