"""``python -m tests.console.check``: axe on every view and state of the console.

At three widths, light and dark, with everything open, with the panel of an action and with a
question. Prints each violation; the status is 1 if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser import browsing
from tests.console.shots import open_page, views
from tests.console.workspace import shown

WIDTHS: Final = (390, 1024, 1440)
SCHEMES: Final = ("light", "dark")
MORE: Final = ("/requests", "/bundle", "/new", "/new/createApiKey", "/compare", "/nowhere")
"""Addresses of views beside those that have a picture."""

STATES: Final = {"panel": "+1 minute", "question": "Reset the workspace"}
"""The buttons of the page of the clock that lead to each state."""

_OPEN: Final = "document.querySelectorAll('details').forEach((it) => (it.open = true))"


def violations(page: Page) -> list[str]:
    """The findings of axe, and a page that is wider than its window."""
    found: Any = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    wrong = [f"{item['id']}: {item['nodes'][0]['html'][:120]}" for item in found]
    width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [*wrong, *([f"{width} px too wide"] if width > 0 else [])]


def check() -> Iterator[str]:
    """Yield each violation with its place."""
    with shown() as (running, ids), browsing() as browser:
        addresses = [*views(ids).values(), *MORE]
        for width in WIDTHS:
            for scheme in SCHEMES:
                with open_page(browser, running, (width, 900), scheme, bypass_csp=True) as page:
                    for address in addresses:
                        page.goto(f"/console{address}")
                        page.evaluate(_OPEN)
                        for wrong in violations(page):
                            yield f"{address or '/'} {width} {scheme}: {wrong}"
                    for state, button in STATES.items():
                        page.goto("/console/scenario")
                        page.get_by_role("button", name=button, exact=True).first.click()
                        page.locator("#result .effect").wait_for()
                        for wrong in violations(page):
                            yield f"{state} {width} {scheme}: {wrong}"


if __name__ == "__main__":
    found = list(check())
    sys.stdout.write("\n".join([*found, f"{len(found)} violations"]) + "\n")
    sys.exit(bool(found))
