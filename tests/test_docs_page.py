"""``/docs`` shows the contracts offline, and "try it out" works in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page

from invoice_sandbox.base.ids import new_key
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.browser import browsing
from tests.cases import in_turn
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.toy import contract, serving_contract

PAGES = ["/docs", "/docs/", "/docs/index.html"]
ASSETS = {
    "/docs/swagger-ui.css": "text/css",
    "/docs/swagger-ui-bundle.js": "text/javascript",
    "/docs/swagger-ui-standalone-preset.js": "text/javascript",
    "/docs/static/docs.css": "text/css",
    "/docs/static/docs.js": "text/javascript",
    "/docs/static/icon.svg": "image/svg+xml",
}


@pytest.fixture
def anyone(server: Running) -> Iterator[httpx.Client]:
    """A client without a key."""
    with server.client(None) as client:
        yield client


@pytest.fixture(scope="module")
def private_server() -> Iterator[Running]:
    """A server with a key that is not the demo key."""
    with serving(replace(FROZEN, key=new_key())) as running:
        yield running


def referenced(response: httpx.Response) -> set[httpx.URL]:
    """Every address that a page loads something from."""
    return {
        response.url.join(path)
        for path in re.findall(r'(?:src|href)="([^"]+)"', response.text)
        if path
    }


def test_the_root_leads_to_the_console(anyone: httpx.Client) -> None:
    response = anyone.get("/")
    assert (response.status_code, response.headers["location"]) == (307, "/console")


def test_an_operation_at_the_root_stays_one(tmp_path: Path) -> None:
    root = {"get": {"operationId": "root", "responses": {"204": {"description": "here"}}}}
    document = contract({}) | {"paths": {"/": root}}
    with serving_contract(tmp_path, document) as client:
        assert client.get("/").status_code == 204


@pytest.mark.parametrize("path", PAGES)
def test_the_page_and_all_it_needs_are_served_from_here(
    server: Running, anyone: httpx.Client, path: str
) -> None:
    page = anyone.get(path)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<title>Invoice Liquidity Sandbox API</title>" in page.text
    assert {url.path for url in referenced(page)} == {*ASSETS, "/openapi.json"}
    elsewhere = re.sub(re.escape(server.url) + r"(?=[/\"])", "", page.text)
    assert re.findall(r"(?:\w+:)?//[\w.\[]", elsewhere) == []
    for url in referenced(page):
        assert anyone.get(url).status_code == 200


@pytest.mark.parametrize("path", PAGES)
def test_the_page_may_use_this_server_only_and_is_not_kept(anyone: httpx.Client, path: str) -> None:
    headers = anyone.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy.pop("img-src") == "'self' data: blob:"
    assert set(policy.values()) == {"'self'", "'none'"}
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert headers["x-request-id"].startswith("req_sandbox_")
    assert len(headers.get_list("date")) == 1


def test_there_is_no_script_and_no_style_inside_the_page(anyone: httpx.Client) -> None:
    page = anyone.get("/docs").text
    assert re.findall(r"<script(?![^>]* src=)|<style| style=| on\w+=", page) == []


@in_turn(("path", "media_type"), ASSETS.items(), ids=ASSETS)
def test_assets_are_kept_as_long_as_they_cannot_change(
    anyone: httpx.Client, path: str, media_type: str
) -> None:
    plain, versioned = anyone.get(path), anyone.get(path, params={"v": "1"})
    assert plain.headers["content-type"].partition(";")[0] == media_type
    assert plain.headers["cache-control"] == "no-cache"
    assert versioned.headers["cache-control"] == "public, max-age=31536000, immutable"
    unchanged = anyone.get(path, headers={"If-None-Match": plain.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert "content-length" not in unchanged.headers


@in_turn("path", [*PAGES, *ASSETS])
def test_head_responds_as_get_without_the_body(anyone: httpx.Client, path: str) -> None:
    head, get = anyone.head(path), anyone.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length", "cache-control", "content-security-policy"):
        assert head.headers[name] == get.headers[name]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_pages_are_only_read(anyone: httpx.Client, method: str) -> None:
    response = anyone.request(method, "/docs")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert response.json()["error"]["code"] == "invalid_request"
    options = anyone.options("/docs")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize(
    "path", ["/docs/nothing", "/docs/..%2f__init__.py", "/docs/static/", "/docsx"]
)
def test_what_is_not_there_is_rejected_in_the_envelope(anyone: httpx.Client, path: str) -> None:
    response = anyone.get(path)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "resource_not_found")


@pytest.mark.parametrize("path", ["/docs", "/docs/swagger-ui.css"])
def test_pages_are_not_served_under_another_host(anyone: httpx.Client, path: str) -> None:
    assert anyone.get(path, headers={"Host": "rebound.example"}).status_code == 421


def test_the_demo_key_is_shown_only_where_it_works(
    anyone: httpx.Client, private_server: Running
) -> None:
    assert f"<code>{DEMO_KEY}</code>" in anyone.get("/docs").text
    with private_server.client(None) as client:
        page = client.get("/docs").text
    assert re.findall("demo key|ilk_sandbox_", page) == []
    forwarded = anyone.get("/docs", headers={"X-Forwarded-For": "192.0.2.1"}).text
    assert re.findall("demo key|ilk_sandbox_", forwarded) == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    with browsing("--disable-quic") as browser:
        yield browser


@contextmanager
def visiting(browser: Browser, url: str) -> Iterator[Page]:
    """The page at ``url``, which must ask no other server and log no error."""
    wrong: list[str] = []
    origin = str(httpx.URL(url).copy_with(raw_path=b"/"))
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("request", lambda it: None if it.url.startswith(origin) else wrong.append(it.url))
        page.on("console", lambda it: wrong.append(it.text) if it.type == "error" else None)
        page.on("pageerror", lambda it: wrong.append(it.message))
        page.goto(url)
        yield page
        assert wrong == []


def executed(page: Page, tag: str, operation_id: str) -> Locator:
    """The block of an operation after it was opened and its "Execute" pressed."""
    block = page.locator(f"#operations-{tag}-{operation_id}")
    block.locator(".opblock-summary-control").click()
    block.locator("button.execute").click()
    block.locator(".live-responses-table").wait_for()
    return block


def status(block: Locator) -> str:
    """The status that an executed operation shows."""
    return (
        block.locator(".live-responses-table .response .response-col_status")
        .inner_text()
        .split()[0]
    )


@pytest.mark.process
def test_operations_can_be_tried_out_at_once_and_each_invoice_is_no_duplicate(
    browser: Browser, server: Running
) -> None:
    sent: list[str] = []
    for _ in range(2):
        with visiting(browser, f"{server.url}/docs") as page:
            if not sent:
                block = executed(page, "invoices", "listInvoices")
                assert status(block) == "200"
                command = block.locator(".curl-command").inner_text()
                assert f"Authorization: Bearer {DEMO_KEY}" in command
                assert (
                    '"mode": "sandbox_mock"' in block.locator(".live-responses-table").inner_text()
                )
            block = page.locator("#operations-invoices-createInvoice")
            block.locator(".opblock-summary-control").click()
            block.locator(".opblock-section-request-body .examples-select-element").select_option(
                "complete"
            )
            for _ in range(2 - bool(sent)):
                with page.expect_response("**/api/invoices") as response:
                    block.locator("button.execute").click()
                invoice = response.value.json()["data"]
                assert invoice["status"] == "Registered"
                sent.append(invoice["invoiceNumber"])
                block.locator(".curl-command", has_text=sent[-1]).wait_for()
    assert len(set(sent)) == len(sent) == 3


@pytest.mark.process
def test_every_operation_is_shown_and_what_is_ours_is_marked(
    browser: Browser, server: Running
) -> None:
    scope = "Partners record offers and sellers only read them, so writing has a scope of its own."
    paging = "Paging by cursor is common and stays stable while records are added."
    project = server.sandbox.engine.project
    contracts = [project.contract, *([project.control] if project.control else [])]
    with visiting(browser, f"{server.url}/docs") as page:
        for operation_id, shown in (("createOffer", scope), ("listOffers", paging)):
            block = page.locator(f"#operations-offers-{operation_id}")
            block.locator(".opblock-summary-control").click()
            block.locator(".opblock-section").first.wait_for()
            assert "x-assumption" in block.inner_text()
            assert shown in block.inner_text()
            assert "headers/X-Request-Id" in block.locator(".responses-wrapper").inner_text()
        body = page.locator("#operations-offers-createOffer .opblock-section-request-body")
        body.locator(".tablinks", has_text="Schema").click()
        body.locator(".json-schema-2020-12-expand-deep-button").nth(1).click()
        body.get_by_text("x-assumption").first.wait_for()
        choice = page.locator(".topbar select")
        assert choice.locator("option").count() == len(contracts)
        for index, contract in enumerate(contracts):
            choice.select_option(index=index)
            title = contract.document["info"]["title"]
            page.locator(".info .title", has_text=title).wait_for()
            shown_count = len(contract.operations) + len(contract.document.get("webhooks", {}))
            page.locator(".opblock").nth(shown_count - 1).wait_for()
            assert page.locator(".opblock").count() == shown_count
            assert page.locator(".errors-wrapper").count() == 0


def test_others_do_not_wait_while_the_document_is_written_as_yaml() -> None:
    with serving() as running, running.client() as client, ThreadPoolExecutor(1) as reader:
        written = reader.submit(httpx.get, f"{running.url}/openapi.yaml", timeout=PATIENCE)
        began, waits = time.monotonic(), [0.0]
        while not written.done():
            asked = time.monotonic()
            assert client.get("/api/health").is_success
            waits.append(time.monotonic() - asked)
        assert written.result().status_code == 200
        assert max(waits) < (time.monotonic() - began) / 2
