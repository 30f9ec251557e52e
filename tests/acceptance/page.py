"""The generated parts of the pages about acceptance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from invoice_sandbox.acceptance.runner import RunReport
from invoice_sandbox.conformance.plan import Case, Plan
from tests.acceptance.selftest import verdicts

PAGE: Final = Path(__file__).parents[2] / "docs" / "acceptance.md"
SELFTEST_PAGE: Final = PAGE.parent / "internals" / "acceptance-selftest.md"
POWER_PAGE: Final = SELFTEST_PAGE.with_name("acceptance-power.md")
PLAN_PAGE: Final = SELFTEST_PAGE.with_name("acceptance-plan.md")


def with_tables(page: str, plan: Plan) -> str:
    """The page with what the plan says."""
    checks = [
        (
            f"`{one.id}`",
            one.proves,
            ", ".join(_needs(one.cases)),
        )
        for one in plan.checks
    ]
    page = with_part(page, "tasks", table(("Task", "What the client does"), _rows(plan.tasks)))
    rules = "".join(f"- {rule['that']}\n" for rule in plan.invariants.values())
    page = with_part(page, "invariants", rules)
    rows = _rows(plan.capabilities)
    page = with_part(page, "capabilities", table(("Capability", "Meaning"), rows))
    return with_part(page, "checks", table(("Check", "What a client shows", "Needs"), checks))


def with_verdicts(page: str, plan: Plan, reports: Mapping[str, RunReport]) -> str:
    """The page with the verdicts on clients; a check is its number in the plan."""
    ids = [one.id for one in plan.checks]
    heads = [
        "Client",
        *(f"[{number}](../acceptance.md#checks)" for number in range(1, len(ids) + 1)),
    ]
    rows = [[name, *verdicts(ids, report)] for name, report in reports.items()]
    return with_part(page, "selftest", table(heads, rows))


def _needs(cases: Sequence[Case]) -> Iterable[str]:
    """The capabilities that cases need, and how many of them, if not all."""
    for name, number in Counter(case.when for case in cases if case.when).items():
        some = "" if number == len(cases) else f" for {number} of {len(cases)} cases"
        yield f"`{name}`{some}"


def _rows(words: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", text.strip()) for name, text in words.items()]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("|  |", "| |")


def with_part(page: str, name: str, text: str) -> str:
    """The page with another text between the two comments of that name."""
    pattern = re.compile(f"(<!-- generated: {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    assert pattern.search(page), name
    return pattern.sub(lambda match: f"{match[1]}{text}{match[2]}", page)
