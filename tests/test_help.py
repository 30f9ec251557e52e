"""``/help``: the documentation as a site, offline, below any public path."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser

from invoice_sandbox.base.errors import ERRORS
from invoice_sandbox.http import pages
from tests.browser import browsing
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.test_docs import DOCS
from tests.toy import contract, serving_contract

ROOT = Path(__file__).parents[1]
EXPLAIN = {"X-Sandbox-Explain": "1"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout, made as ``make docs`` makes it."""
    folder = tmp_path_factory.mktemp("site") / "help"
    done = subprocess.run(
        [sys.executable, "hatch_build.py", folder],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def helped(site: Path) -> Iterator[Running]:
    """A server with that site, below a path as a proxy has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "help_folder", lambda: site)
        with serving(FROZEN) as running:
            yield running


@pytest.fixture
def anyone(helped: Running) -> Iterator[httpx.Client]:
    """A client without a key."""
    with helped.client(None) as client:
        yield client


def test_every_page_of_the_docs_is_served(anyone: httpx.Client) -> None:
    names = {file.relative_to(DOCS).with_suffix(".html") for file in DOCS.rglob("*.md")}
    for name in {str(item).replace("README", "index") for item in names} | {"start.html", ""}:
        page = anyone.get(f"/help/{name}")
        assert page.status_code == 200, name
        assert page.headers["content-type"].startswith("text/html")


def test_every_error_of_the_engine_has_its_place_on_the_page(anyone: httpx.Client) -> None:
    page = anyone.get("/help/errors.html").text
    assert [name for name in ERRORS if f'id="{name}"' not in page] == []


def test_the_address_without_a_slash_leads_there_below_any_path(anyone: httpx.Client) -> None:
    response = anyone.get("/help")
    assert (response.status_code, response.headers["location"]) == (308, "help/")


def test_a_page_and_all_it_needs_come_from_here(anyone: httpx.Client) -> None:
    for name in ("index.html", "internals/architecture.html"):
        page = anyone.get(f"/help/{name}")
        assets = re.findall(r'(?:src|<link[^>]* href)="([^"]+)"', page.text)
        assert len(assets) > 4
        for path in assets:
            assert anyone.get(page.url.join(path)).status_code == 200, path


def test_pages_have_the_policy_of_all_pages_and_nothing_that_it_forbids(
    anyone: httpx.Client, site: Path
) -> None:
    ours = anyone.get("/docs").headers["content-security-policy"]
    assert anyone.get("/help/").headers["content-security-policy"] == ours
    for file in site.rglob("*.html"):
        inline = r"<script(?![^>]* (?:src=|type=\"application/json))|<style| style=\"| on\w+=\""
        assert re.findall(inline, file.read_text()) == [], file.name


@pytest.mark.parametrize(
    "path", ["/help/nothing", "/help/..%2f__init__.py", "/help/../app.py", "/help/assets/"]
)
def test_what_is_not_there_is_rejected_in_the_envelope(anyone: httpx.Client, path: str) -> None:
    response = anyone.get(path)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "resource_not_found")


def test_a_checkout_without_the_site_names_the_command(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "help_folder", lambda: tmp_path / "nothing")
        with serving(FROZEN) as running, running.client(None) as anyone:
            page = anyone.get("/help/errors.html")
    assert page.status_code == 200
    assert "make docs" in page.text


def test_an_operation_of_the_document_comes_first(tmp_path: Path) -> None:
    own = {"get": {"operationId": "help", "responses": {"204": {"description": "here"}}}}
    document = contract({}) | {"paths": {"/help": own}}
    with serving_contract(tmp_path, document) as client:
        assert client.get("/help").status_code == 204


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/invoices/inv_1", "unknown_resource"),
        ("/api/invoices?limit=x", "bad_parameter"),
        ("/api/nothing", "unknown_path"),
        ("/sandbox/requests?status=x", "bad_parameter"),
    ],
)
def test_the_explanation_of_an_error_leads_to_its_place(
    client: httpx.Client, path: str, name: str
) -> None:
    explained = client.get(path, headers=EXPLAIN).headers["x-sandbox-explain"]
    assert explained.endswith(f'help="/help/errors.html#{name}"')


def test_a_success_leads_nowhere(client: httpx.Client) -> None:
    assert "help=" not in client.get("/api/invoices", headers=EXPLAIN).headers["x-sandbox-explain"]


def test_the_link_has_the_path_of_the_public_url() -> None:
    public = replace(FROZEN, public_url="https://tools.example/mock")
    with serving(public) as running:
        url = f"http://127.0.0.1:{running.port}/mock/api/nothing"
        response = httpx.get(url, headers=EXPLAIN, timeout=PATIENCE)
    assert 'help="/mock/help/errors.html#unknown_path"' in response.headers["x-sandbox-explain"]


# In a browser


@pytest.fixture(scope="module")
def browser(helped: Running) -> Iterator[Browser]:
    """Headless Chromium, once the server is there."""
    _ = helped
    with browsing("--disable-quic") as browser:
        yield browser


@pytest.mark.process
def test_the_search_finds_a_page_and_nothing_is_loaded_from_elsewhere(
    browser: Browser, helped: Running
) -> None:
    wrong: list[str] = []
    with browser.new_context(base_url=helped.url) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on(
            "console", lambda entry: wrong.append(entry.text) if entry.type == "error" else None
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(helped.url) else wrong.append(asked.url),
        )
        page.goto("/help/")
        page.locator(".md-search__button").click()
        page.locator("input:visible").fill("rotation")
        page.locator("a", has_text="Secret rotation").first.click()
        page.wait_for_url("**/webhook-receivers.html*")
    assert wrong == []
