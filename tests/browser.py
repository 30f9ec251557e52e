"""The browser of the tests: an installed one, or that of ``make browser``.

``python -m tests.browser`` prints the installed one, with status 1 if there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from invoice_sandbox.cli.doctor import browser as installed

NEEDED = "needs a browser: make browser"


@contextmanager
def browsing(*arguments: str) -> Iterator[Browser]:
    """Headless Chromium. A test without one is skipped. Its driver keeps a loop running, so that
    what the test serves must be there before."""
    program = installed()
    with sync_playwright() as playwright:
        if program is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip(NEEDED)
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


if __name__ == "__main__":
    program = installed()
    sys.stdout.write(f"The tests of the pages use {program or 'the browser of Playwright'}\n")
    sys.exit(program is None)
