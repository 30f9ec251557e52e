"""``python -m tests.keywords`` plays the suite and brings docs/keywords.md up to date.

Ends with 1 when a case is judged otherwise than the suite says.
"""

from __future__ import annotations

import sys

from tests.keywords.page import PAGE, played, with_generated


def main() -> int:
    """Play, write the page, and report what is wrong."""
    outcome = played()
    PAGE.write_text(with_generated(PAGE.read_text(), outcome))
    total = len(outcome.requests) + len(outcome.responses)
    sys.stdout.write("".join(f"{one}\n" for one in outcome.wrong))
    sys.stdout.write(f"{total} cases played, {len(outcome.wrong)} wrong\n")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
