"""The main tasks in the console, in a browser, each with at most three clicks from the overview."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.browser import browsing
from tests.console.workspace import filled
from tests.receivers import Receiver, receiving, response
from tests.scenario_run import data, register, status, until
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.process

MILLISECONDS = PATIENCE * 1000
expect.set_options(timeout=MILLISECONDS)
MOST = 3
"""Clicks of a task."""


@dataclass
class Visit:
    """A page that is at the overview, and the clicks so far."""

    page: Page
    clicks: int = 0

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name).first)

    def press(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=True).first)

    @property
    def effect(self) -> Locator:
        return self.page.get_by_label("Result")


@pytest.fixture(scope="module")
def mine() -> Iterator[Receiver]:
    """The receiver of someone who tries the sandbox."""
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def running(mine: Receiver) -> Iterator[Running]:
    """A server in which a webhook failed, a request was rejected, and invoices have offers."""
    _ = mine  # the loop of the browser comes after all others
    settings = replace(FROZEN, scenario="auto-progress")
    with (
        receiving(response(503)) as failing,
        serving(settings, real_time=True) as running,
        running.client() as api,
    ):
        filled(api, failing.url)
        yield running


@pytest.fixture(scope="module")
def browser(running: Running) -> Iterator[Browser]:
    _ = running
    with browsing("--disable-quic") as browser:
        yield browser


@pytest.fixture
def api(running: Running) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


@contextmanager
def task(browser: Browser, running: Running, name: str) -> Iterator[Visit]:
    """Play a task, and print its clicks."""
    permissions = ["clipboard-read", "clipboard-write"]
    with browser.new_context(base_url=running.url, permissions=permissions) as context:
        page = context.new_page()
        page.set_default_timeout(MILLISECONDS)
        page.goto("/console")
        visit = Visit(page)
        yield visit
    sys.stdout.write(f"{name}: {visit.clicks} clicks\n")
    assert visit.clicks <= MOST, name


def test_find_why_a_webhook_failed(browser: Browser, running: Running) -> None:
    with task(browser, running, "find why a webhook failed") as visit:
        deliveries = visit.page.locator("section", has_text="Failed deliveries").locator("li")
        visit.click(deliveries.filter(has_text="503").get_by_role("link").first)
        expect(visit.page.get_by_text("Your receiver failed with 503.")).to_be_visible()


def test_find_why_an_invoice_is_stuck(
    browser: Browser, running: Running, api: httpx.Client
) -> None:
    invoice = register(api, "manual", invoiceNumber="STUCK")
    with task(browser, running, "find why an invoice is stuck") as visit:
        visit.link("Invoices")
        visit.link(invoice["invoiceNumber"])
        why = visit.page.locator("#why")
        expect(why).to_contain_text("Why is it Registered")
        expect(why.get_by_role("button", name="start-verification")).to_be_visible()


def test_make_an_offer_expire(browser: Browser, running: Running, api: httpx.Client) -> None:
    invoice = register(api, invoiceNumber="EXPIRES")
    data(api.post("/sandbox/clock/advance", json={"by": "PT10S"}))
    assert status(api, invoice) == "Offered"
    with task(browser, running, "make an offer expire") as visit:
        visit.link("Invoices")
        visit.link(invoice["invoiceNumber"])
        visit.press("expire-offers")
        expect(visit.effect).to_contain_text("done")
    assert status(api, invoice) != "Offered"


def test_reproduce_a_429(browser: Browser, running: Running, api: httpx.Client) -> None:
    with task(browser, running, "reproduce a 429") as visit:
        visit.link("Scenario and clock")
        visit.press("429 once")
        expect(visit.effect).to_contain_text("done")
    assert [api.get("/api/offers").status_code for _ in range(2)] == [429, 200]


def test_send_a_test_webhook_to_my_own_receiver(
    browser: Browser, running: Running, mine: Receiver
) -> None:
    with task(browser, running, "send a test webhook") as visit:
        visit.link("Webhooks")
        visit.page.get_by_label("URL").fill(mine.url)
        visit.press("Add endpoint")
        expect(visit.effect).to_contain_text("whsec_")
        row = visit.page.get_by_role("row").filter(has_text=mine.url)
        visit.click(row.get_by_role("button", name="send test"))
        expect(visit.effect).to_contain_text("Your receiver accepted it.")
        until(lambda: mine.kinds() == ["invoice.verified"], "the test arrives")


def test_create_a_scoped_key(browser: Browser, running: Running) -> None:
    with task(browser, running, "create a scoped key") as visit:
        visit.link("Create")
        visit.link("Create an API key")
        visit.press("Create an API key")
        secret = visit.effect.locator("pre").first.text_content() or ""
    with running.client(secret) as scoped:
        assert scoped.get("/api/invoices").status_code == 200
        assert scoped.get("/api/offers").status_code == 403


def test_compare_two_runs(browser: Browser, running: Running, api: httpx.Client) -> None:
    other = data(api.post("/sandbox/workspaces", json={}), 201)
    with running.client(other["key"]) as client:
        client.get("/api/partners")
    with task(browser, running, "compare two runs") as visit:
        visit.page.request.post("/console/sign-in", form={"key": other["key"]})
        visit.page.request.post("/console/sign-in", form={"key": DEMO_KEY})
        visit.page.reload()
        visit.link("Compare")
        visit.press("Compare")
        expect(visit.page.get_by_text("exchanges differ. Not equal:")).to_be_visible()


def test_copy_the_wrong_request_as_curl(browser: Browser, running: Running) -> None:
    with task(browser, running, "copy the wrong request as curl") as visit:
        errors = visit.page.locator("section", has_text="by operation and reason").get_by_role(
            "row"
        )
        visit.click(errors.filter(has_text="/sellerId").get_by_role("link"))
        visit.click(visit.page.locator(".requests a").first)
        visit.click(visit.page.locator(".copy button").first)
        expect(visit.page.get_by_role("button", name="Copied")).to_be_visible()
        copied = visit.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("curl -X POST http")
    assert '"invoiceNumber"' in copied
