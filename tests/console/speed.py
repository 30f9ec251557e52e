"""How fast the console is: an entry of the journal on the page, and a list of 100,000 invoices.

Nothing here passes or fails: a machine that is busy proves nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.bench.growth import Client
from tests.support import FROZEN, Running, serving
from tests.test_console_page import BROWSER

ENTRIES: Final = 30
_LOADS: Final = 9
_WATCH: Final = """
window.seen = {};
new MutationObserver(() => {
  for (const [text] of document.body.textContent.matchAll(/on-the-page-\\d+-/g))
    window.seen[text] ??= Date.now();
}).observe(document.body, {childList: true, subtree: true});
"""
_SEEN: Final = "(text) => until(() => window.seen[text])"
_PAINT: Final = """() => until(() => {
  const loading = performance.getEntriesByType('navigation')[0];
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return paint && [loading.responseStart - loading.requestStart, paint.startTime];
})"""
_UNTIL: Final = """
window.until = (found) => new Promise((done) => {
  const look = () => (found() ? done(found()) : setTimeout(look, 2));
  look();
});
0;
"""


@dataclass(frozen=True)
class Speed:
    """Milliseconds: of an entry until it is on the page, from the request to its sight, in the
    order of size; and medians for the list: the server's own time, and the first paint after it."""

    invoices: int
    entries: tuple[float, ...]
    server: float
    paint: float

    def lines(self) -> list[str]:
        """The results in words."""
        middle, slowest = statistics.median(self.entries), self.entries[-1]
        times = f"median {middle:.0f} ms, slowest {slowest:.0f} ms of {len(self.entries)}"
        painted = f"server {self.server:.0f} ms, first paint {self.paint:.0f} ms after that"
        return [
            f"entry of a full journal on the page: {times}",
            f"list of {self.invoices:,} invoices: {painted}",
        ]


def measure(invoices: int) -> Speed:
    """The speed of a server with so many invoices and a full journal, in this process."""
    with serving(replace(FROZEN, max_state=10**5), real_time=True) as running:
        _fill(running, invoices)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=BROWSER)
            try:
                server, paint = _list(browser, running)
                return Speed(invoices, tuple(sorted(_entries(browser, running))), server, paint)
            finally:
                browser.close()


def _fill(running: Running, invoices: int) -> None:
    client = Client(running.sandbox)

    async def work() -> None:
        await client.grow(invoices)
        await client.fill_journal()

    asyncio.run_coroutine_threadsafe(work(), running.loop).result()


def _page(browser: Browser, running: Running, path: str) -> Page:
    page = browser.new_page(base_url=running.url)
    page.goto(path)
    page.evaluate(_UNTIL)
    return page


def _list(browser: Browser, running: Running) -> tuple[float, float]:
    """Medians of the server's time, and of the time from its response to the first paint."""
    found = []
    for _ in range(_LOADS):
        page = _page(browser, running, "/console/records/invoices")
        server, painted = page.evaluate(_PAINT)
        found.append((server, painted - server))
        page.close()
    return statistics.median(one for one, _ in found), statistics.median(one for _, one in found)


def _entries(browser: Browser, running: Running) -> list[float]:
    page = _page(browser, running, "/console/requests")
    page.evaluate(_WATCH)
    taken = []
    with running.client() as api:
        for number in range(ENTRIES):
            text = f"on-the-page-{number}-"
            began = time.time()
            api.get(f"/api/invoices/{text}")
            seen: Any = page.evaluate(_SEEN, text)
            taken.append(seen - began * 1000)
            page.wait_for_timeout(37 * (number % 7))  # at every moment between two looks
    page.close()
    return taken
