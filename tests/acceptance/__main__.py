"""``python -m tests.acceptance``: all clients through all checks, and docs/acceptance.md."""

from __future__ import annotations

import sys

from tests.acceptance.page import PAGE, with_results, with_tables
from tests.acceptance.selftest import FAULTY, REFERENCES, judge, judging, problems


def main() -> None:
    """Write the page; status 1 for a false FAIL or a missed fault."""
    clients = [*REFERENCES, *FAULTY]
    with judging() as (plan, control):
        reports = judge(clients, plan, control)
    page = with_results(with_tables(PAGE.read_text(), plan), plan, clients, reports)
    PAGE.write_text(page)
    wrong = [line for one in clients for line in problems(one, reports[one.name])]
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
