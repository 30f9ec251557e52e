"""How fast the console is: an entry of the journal on the page, and a list of 100,000 invoices.

``tests/test_console_page.py`` compares the medians with what the console promises.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

import httpx
from playwright.sync_api import Page

from invoice_sandbox.state import Transaction
from tests.scenario_run import register_new, until
from tests.support import Running

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


def crowd(running: Running, api: httpx.Client, invoices: int) -> None:
    """Fill a workspace with copies of an invoice, which is many times faster than to register
    them."""
    first = register_new(api)

    async def copy(state: Transaction) -> None:
        invoice = await state.get("invoices", first)
        assert invoice is not None
        for number in range(1, invoices):
            own = {"id": f"{first}_{number}", "invoiceNumber": f"COPY-{number}"}
            await state.put("invoices", own["id"], {**invoice, **own})

    running.in_transaction(copy, api)
    until(lambda: api.get("/sandbox/clock").is_success, "all copies are kept")


def paint(page: Page, path: str) -> tuple[float, float]:
    """Medians of the server's time, and of the time from its response to the first paint."""
    found = []
    for _ in range(_LOADS):
        page.goto(path)
        page.evaluate(_UNTIL)
        server, painted = page.evaluate(_PAINT)
        found.append((server, painted - server))
    return statistics.median(one for one, _ in found), statistics.median(one for _, one in found)


def times_of_entries(page: Page, api: httpx.Client, entries: int) -> list[float]:
    """The time from each of so many requests until it is on the page of requests."""
    with page.expect_response(lambda it: "/console/events?" in it.url):
        page.goto("/console/requests")
    page.evaluate(_UNTIL)
    page.evaluate(_WATCH)
    taken = []
    for number in range(entries):
        text = f"on-the-page-{number}-"
        began = time.time()
        api.get(f"/api/invoices/{text}")
        seen: Any = page.evaluate(_SEEN, text)
        taken.append(seen - began * 1000)
        page.wait_for_timeout(37 * (number % 7))  # at every moment between two looks
    return taken
