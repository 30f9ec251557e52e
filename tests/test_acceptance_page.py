"""The HTML report of an acceptance run: complete, by itself, and usable by everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.page import as_html, timeline
from invoice_sandbox.acceptance.reports import Subject
from invoice_sandbox.acceptance.runner import CheckReport, RunReport
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict
from invoice_sandbox.conformance.plan import Check, Plan
from invoice_sandbox.conformance.rules import Outcome, Result
from tests.browser import browsing
from tests.support import PATIENCE, Running
from tests.test_acceptance_command import CLIENT, run

pytestmark = pytest.mark.process

AT = "2026-11-21T09:30:00Z"
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
    with browsing() as browser:
        yield browser


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1200, "light")])
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


def test_the_report_shows_the_payloads_of_deliveries(report: Path) -> None:
    text = unescape(report.read_text())
    assert '"type": "offer.received"' in text
    assert "webhook-signature: [redacted " in text


def test_a_report_has_the_colours_of_the_console(server: Running, report: Path) -> None:
    with server.client() as client:
        tokens = client.get("/console/static/tokens.css").text
    assert "--bad: " in tokens
    assert tokens.strip() in report.read_text()


def test_an_altered_delivery_shows_what_was_sent() -> None:
    sent = {"url": "http://x", "bodySize": 2, "bodyDigest": "sha256:0", "headers": {}}
    attempt = {"attempt": 1, "at": AT, "variation": "patch", "responseStatus": 200, "error": None}
    attempt["response"] = {"body": ""}
    attempts = [{**attempt, "request": {**sent, "payload": {"id": 2}}}]
    attempts.append({**attempt, "attempt": 2, "variation": None, "request": sent})
    delivery = {"id": "dlv", "eventType": "e", "payload": {"id": 1}, "attempts": attempts}
    case = CaseReport("", CaseVerdict(Verdict.PASS, ""), deliveries=[delivery])
    bodies = [one.sent_body or "" for one in timeline(case)]
    assert [body.rpartition("\n\n")[2] for body in bodies] == ['{\n  "id": 2\n}', '{\n  "id": 1\n}']


def long_case(number: int, body: str | None = None) -> CaseReport:
    """A case of so many requests, with the one before the last as evidence."""
    message: dict[str, Any] = {"headers": [["content-type", "application/json"]], "body": body}
    entry = {"at": AT, "method": "GET", "path": "/", "status": 200, "why": {}}
    entry |= {"request": message, "response": message}
    requests = [{**entry, "requestId": f"req_{place}"} for place in range(number)]
    evidence = ({"requestId": f"req_{number - 2}", "line": "GET /: 200", "at": AT},)
    result = Result({}, Outcome.BROKEN, "", "", evidence)
    verdict = CaseVerdict(Verdict.FAIL, "", result, (result,))
    return CaseReport("", verdict, requests=requests)


def test_a_long_timeline_has_every_request_and_not_every_body() -> None:
    entries = timeline(long_case(300, "x" * 1000))
    assert [one.id for one in entries] == [f"req_{number}" for number in range(300)]
    whole = [one.id for one in entries if one.sent_body == one.received_body == "x" * 1000]
    assert whole == [*(f"req_{number}" for number in range(200)), "req_298"]
    short = f"{'x' * 500}\n... the bundle has the rest"
    assert (entries[200].sent_body, entries[200].received_body) == (short, short)


def test_every_request_of_a_long_report_is_one_click_away(browser: Browser, tmp_path: Path) -> None:
    """Evidence in a folded group, too. A page on paper ends with the first group."""
    check = Check("retries", "must", "It works.", "Errors", ())
    reports = [CheckReport(check, [long_case(3000)])]
    run = RunReport(Plan("plan", "It orders.", (check,)), reports, is_complete=True)
    file = tmp_path / "report.html"
    file.write_text(as_html(run, Subject("0.1.0", "sha256:0", ())))
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(file.as_uri())
        assert page.locator("details[id^=req_]").count() == 3000
        assert page.locator("#req_199").is_visible()
        assert not page.locator("#req_200").is_visible()
        page.get_by_text(re.compile("^201 to 400, from")).click()
        assert page.locator("ol:has(#req_399)").get_attribute("start") == "201"
        page.locator("#req_399 summary").click()
        assert page.locator("#req_399 pre").first.is_visible()
        page.get_by_role("link", name="GET /: 200").click()
        assert page.locator("#req_2998 summary").is_visible()
        page.emulate_media(media="print")
        assert page.locator("#req_199").evaluate("it => it.checkVisibility()")
        assert not page.locator("#req_400").evaluate("it => it.checkVisibility()")


def test_the_report_quotes_what_a_client_printed(report: Path) -> None:
    text = report.read_text()
    assert HOSTILE not in text
    assert "&lt;script&gt;alert(1)" in text
