"""Whether the sessions of docs/clients.md, which need Node.js, print what the page shows."""

from __future__ import annotations

from tests.clients.page import PAGE, played
from tests.interop.checks import Check


def checks() -> list[Check]:
    """The check of the page."""
    return [
        Check(
            "The sessions of docs/clients.md, in its order, print what the page shows.",
            _prints_what_it_shows,
        )
    ]


def _prints_what_it_shows() -> str:
    page = PAGE.read_text()
    assert played(page) == page, "run python -m tests.clients.page"
    return "as shown"
