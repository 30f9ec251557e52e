"""The console in a real browser: live, on a phone, in the dark, by keyboard, without JavaScript."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.scenario_run import data, register_new
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.test_console import VIEWS

pytestmark = pytest.mark.process

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
MILLISECONDS = PATIENCE * 1000


@pytest.fixture(scope="module")
def lively() -> Iterator[Running]:
    """A server whose workspace has an invoice with an offer, a delivery and an error."""
    with serving(replace(FROZEN, scenario="auto-progress"), real_time=True) as running:
        with running.client() as api:
            url = data(api.get("/sandbox/inbox"))["url"]
            data(api.post("/api/webhooks", json={"url": url, "events": ["offer.received"]}), 201)
            register_new(api, invoiceNumber="<script>alert(1)</script>\u202e" + "W" * 500)
            api.post("/api/invoices", json={"invoiceNumber": 7})
            api.post("/sandbox/clock/advance", json={"by": "PT1H"})
        yield running


@pytest.fixture(scope="module")
def browser(lively: Running) -> Iterator[Browser]:
    """Headless Chromium. Its driver keeps a loop running: the server must be there before."""
    _ = lively
    if BROWSER is None:
        pytest.skip("neither chromium nor google-chrome is on PATH; see .ci/install-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--disable-quic"])
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Browser, running: Running, **options: Any) -> Iterator[Page]:
    """A page that must ask no other server, and log nothing."""
    wrong: list[str] = []
    with browser.new_context(base_url=running.url, **options) as context:
        page = context.new_page()
        page.set_default_timeout(MILLISECONDS)
        page.on("request", lambda it: wrong.extend(_elsewhere(it.url, running)))
        page.on("console", lambda it: wrong.append(it.text))
        page.on("pageerror", lambda it: wrong.append(it.message))
        page.on("dialog", lambda it: wrong.append(it.message))
        yield page
        assert wrong == []


def _elsewhere(url: str, running: Running) -> list[str]:
    return [] if url.startswith(running.url) else [url]


@pytest.fixture
def invoice(lively: Running) -> str:
    """The path of an invoice with an offer."""
    with lively.client() as api:
        [found] = data(api.get("/api/invoices", params={"status": "Offered", "limit": 1}))
    return f"/records/invoices/{found['id']}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_every_view_fits_and_is_accessible(
    browser: Browser, lively: Running, invoice: str, width: int, scheme: Any
) -> None:
    with lively.client() as api:
        request_id = data(api.get("/sandbox/requests", params={"status": 400}))[0]["requestId"]
    size = {"width": width, "height": 900}
    with visiting(browser, lively, viewport=size, color_scheme=scheme, bypass_csp=True) as page:
        for view in (*VIEWS, invoice, f"/requests/{request_id}"):
            page.goto(f"/console{view}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
            found = Axe().run(page).response["violations"]
            bad = [one for one in found if one["impact"] in {"serious", "critical"}]
            assert bad == [], (view, [(one["id"], one["nodes"][0]["html"]) for one in bad])


def test_what_happens_is_on_the_page_at_once(browser: Browser, lively: Running) -> None:
    with visiting(browser, lively) as page, lively.client() as api:
        with page.expect_response(lambda it: it.url.endswith("/console/events")):
            page.goto("/console/requests")
        api.get("/api/invoices/live-on-the-page")
        expect(page.get_by_text("GET /api/invoices/live-on-the-page")).to_be_visible(
            timeout=MILLISECONDS
        )


def test_the_clock_and_an_offer_obey_buttons(browser: Browser, lively: Running) -> None:
    with visiting(browser, lively) as page, lively.client() as api:
        made = register_new(api, invoiceNumber="BY-BUTTON")
        page.goto("/console/scenario")
        page.get_by_role("button", name="1 hour").click()
        expect(page.get_by_role("status")).to_contain_text("POST /sandbox/clock/advance")
        page.goto(f"/console/records/invoices/{made}")
        page.get_by_role("button", name="accept", exact=True).click()
        expect(page.get_by_role("status")).to_contain_text("200")
        assert data(api.get(f"/api/invoices/{made}"))["status"] == "OfferAccepted"


def test_the_keyboard_is_enough(browser: Browser, lively: Running) -> None:
    with visiting(browser, lively) as page:
        page.goto("/console")
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to content")).to_be_focused()
        for _ in range(2):
            page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Overview")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1, name="Invoices")).to_be_visible()


def test_no_script_is_needed(browser: Browser, lively: Running, invoice: str) -> None:
    with visiting(browser, lively, java_script_enabled=False) as page, lively.client() as api:
        for view in (*VIEWS, invoice):
            page.goto(f"/console{view}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.goto("/console/scenario")
        page.get_by_role("button", name="1 minute").click()
        expect(page.get_by_role("status")).to_contain_text("200")
        assert data(api.get("/sandbox/clock"))["mode"] == "frozen"
