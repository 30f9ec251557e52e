"""The HTML report of an acceptance run: complete, by itself, and usable by everybody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright

from tests.support import PATIENCE, Running
from tests.test_acceptance_command import CLIENT, run

pytestmark = pytest.mark.process

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def report(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a client that fails, and prints markup."""
    out = tmp_path_factory.mktemp("report")
    words = ["--declare", "webhooks"]
    for name in ("validation-errors", "webhook-order", "scope-missing", "idempotent-retry"):
        words += ["--only", name]
    command = f"sh -c \"echo '{HOSTILE}'; exec {CLIENT} --fault repeats-a-400\""
    result = run(server, out, *words, command=command)
    assert result.exit_code == 1, result.output
    return out / "report.html"


@pytest.fixture(scope="module")
def browser(report: Path) -> Iterator[Browser]:
    """Headless Chromium. Its driver keeps a loop running: the report must be there before."""
    _ = report
    if BROWSER is None:
        pytest.skip("neither chromium nor google-chrome is on PATH; see .ci/install-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER)
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_axe_finds_nothing_in_a_report_that_loads_nothing(
    browser: Browser, report: Path, scheme: str, width: int
) -> None:
    loaded: list[str] = []
    size = {"width": width, "height": 900}
    with browser.new_context(viewport=size, color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("request", lambda it: loaded.append(it.url))
        page.on("dialog", lambda it: loaded.append(it.message))
        page.goto(report.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
        assert loaded == [report.as_uri()]


def test_evidence_leads_to_its_entry(browser: Browser, report: Path) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(report.as_uri())
        page.locator("#validation-errors td a").first.click()
        assert page.locator(":target summary").first.is_visible()


def test_print_shows_what_is_folded_on_the_screen(browser: Browser, report: Path) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(report.as_uri())
        folded = page.locator("details:not([open]) details:not([open]) pre").first
        assert not folded.evaluate("it => it.checkVisibility()")
        page.emulate_media(media="print")
        assert folded.evaluate("it => it.checkVisibility()")


def test_the_keyboard_opens_an_entry(browser: Browser, report: Path) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(report.as_uri())
        page.locator("#validation-errors td a").first.focus()
        page.keyboard.press("Enter")
        entry = page.locator(":target")
        entry.locator("summary").focus()
        page.keyboard.press("Enter")
        assert entry.locator("pre").first.is_visible()


def test_the_report_quotes_what_a_client_printed(report: Path) -> None:
    text = report.read_text()
    assert HOSTILE not in text
    assert "&lt;script&gt;alert(1)" in text
