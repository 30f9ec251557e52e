"""Whether the sessions of docs/clients.md that need Node.js print what the page shows."""

from __future__ import annotations

from functools import partial

from tests.clients.page import PAGE, PROXY, TYPESCRIPT, played, section
from tests.interop.checks import Check


def checks() -> list[Check]:
    """A check for each session."""
    return [
        Check(
            f"The session '{heading}' of docs/clients.md prints what the page shows.",
            partial(_prints_what_it_shows, heading),
        )
        for heading in (TYPESCRIPT, PROXY)
    ]


def _prints_what_it_shows(heading: str) -> str:
    part = section(PAGE.read_text(), heading)
    assert played(part) == part, "run python -m tests.clients.page"
    return "as shown"
