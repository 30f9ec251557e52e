"""The bar of every page, the lanes of an invoice, and why it has its status."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from tests.scenario_run import advance, data, move, register_new
from tests.test_console import VIEWS, act, api, key, visitor
from tests.test_console_lists import CLOSED
from tests.test_console_views import buttons, text_of

pytestmark = pytest.mark.slow

__all__ = ["api", "key", "visitor"]  # fixtures


def part(page: httpx.Response, tag: str) -> str:
    """The text of the first element with a tag and attributes."""
    name = tag.partition(" ")[0]
    [found] = re.findall(rf"<{tag}.*?</{name}>", page.text, re.DOTALL)[:1]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", found))).strip()


def lane(page: httpx.Response, title: str) -> list[str]:
    """The marks of a lane; those that did not happen begin with a dash, coming ones with a +."""
    [row] = re.findall(rf'<th scope="row">{re.escape(title)}</th>(.*?)</tr>', page.text, re.DOTALL)
    marks = re.findall(r'class="mark ([^"]*)"[^>]*>(<s>)?(.*?)<', row)
    return [("+" * ("ahead" in kind) + "-" * bool(struck)) + text for kind, struck, text in marks]


def test_every_page_has_the_clock_and_what_comes_next(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    api.put("/sandbox/scenario", json={"name": "auto-progress"})
    invoice = register_new(api)
    api.post("/sandbox/faults", json={"kind": "status", "status": 503, "count": 2})
    seen = data(api.get("/sandbox/agenda"))
    for view in (*VIEWS, f"/records/invoices/{invoice}", "/bar"):
        if view == "/sign-in":
            continue
        bar = part(visitor.get(f"/console{view}"), 'footer id="bar"')
        for text in (
            "2026-11-23 09:30:00 frozen",
            "09:30:01 : start-verification; records invoice.verification_started",
            "Scenario auto-progress",
            "1 fault active",
            "To due date (2027-01-",
        ):
            assert text in bar, view
    assert data(api.get("/sandbox/agenda")) == seen
    due = seen["due"][0]["at"]
    assert f'POST /sandbox/clock/advance {{"to":"{due}"}}' in buttons(visitor.get("/console/bar"))


def test_an_invoice_is_shown_in_lanes(visitor: httpx.Client, api: httpx.Client) -> None:
    url = data(api.get("/sandbox/inbox"))["url"]
    for item in (url, CLOSED):
        data(api.post("/api/webhooks", json={"url": item, "events": ["invoice.*"]}), 201)
    api.put("/sandbox/scenario", json={"name": "full-lifecycle"})
    invoice = register_new(api)
    advance(api, "PT2S")
    api.put("/sandbox/scenario", json={"name": "manual", "endRuns": True})
    page = visitor.get(f"/console/records/invoices/{invoice}")
    assert lane(page, "Your client") == ["POST /invoices 201"]
    assert lane(page, "Status") == ["Registered", "VerificationPending", "Verified"]
    steps = lane(page, "Scenario steps")
    assert steps[:3] == ["start-verification", "finish-verification", "-request-financing"]
    assert "registered 200" in lane(page, "Inbox")
    assert [item for item in lane(page, "127.0.0.1:9") if item.startswith("+")]
    assert lane(page, "Ledger") == []
    assert "now 09:30:02" in text_of(page)


def test_a_mark_shows_what_led_to_it(visitor: httpx.Client, api: httpx.Client) -> None:
    data(api.post("/api/webhooks", json={"url": CLOSED, "events": ["invoice.verified"]}), 201)
    api.put("/sandbox/scenario", json={"name": "auto-progress"})
    invoice = register_new(api)
    advance(api, "PT2S")
    path = f"/console/records/invoices/{invoice}"
    [link] = re.findall(r'href="(\?mark=dlv_[^"#]*?\.1)#chosen"', visitor.get(path).text)
    chosen = part(visitor.get(path + link), 'div id="chosen"')
    chain = "step finish-verification → event invoice.verified → delivery to 127.0.0.1:9 → response"
    assert chain in chosen


def test_a_sentence_shows_why_and_its_button_continues(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    api.put("/sandbox/scenario", json={"name": "full-lifecycle"})
    invoice = register_new(api)
    path = f"/console/records/invoices/{invoice}"
    page = visitor.get(path)
    why = part(page, 'section class="card you" id="why"')
    assert why.startswith("Why is it Registered, and not VerificationPending? Its scenario full-")
    assert "goes on with start-verification at 2026-11-23 09:30:01. The clock is frozen." in why
    advance(api, "PT2S")
    ended = api.put("/sandbox/scenario", json={"name": "manual", "endRuns": True})
    page = visitor.get(path)
    why = part(page, 'section class="card you" id="why"')
    assert why.startswith("Why is it Verified, and not FinancingRequested?")
    assert "Its scenario full-lifecycle was ended" in why
    assert ended.headers["x-request-id"] in page.text
    body = f'{{"name":"full-lifecycle","invoiceId":"{invoice}"}}'
    assert f"PUT /sandbox/scenario {body}" in buttons(page)
    assert data(api.get("/sandbox/agenda", params={"subject": invoice}))["count"]["due"] <= 1
    act(visitor, "PUT", "/sandbox/scenario", body=body)
    due = data(api.get("/sandbox/agenda", params={"subject": invoice}))["due"]
    assert "request-financing" in {step["do"] for step in due}
    assert ">full-lifecycle</a>" in visitor.get(path).text


def test_an_invoice_that_waits_for_a_client_and_one_that_is_over_show_it(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    invoice = register_new(api)
    path = f"/console/records/invoices/{invoice}"
    why = part(visitor.get(path), 'section class="card you" id="why"')
    assert why.startswith("Why is it Registered? Nothing is scheduled for it")
    assert "start-verification" in why
    move(api, invoice, "withdraw")
    assert "It is Withdrawn This is the end" in part(
        visitor.get(path), 'section class="card you" id="why"'
    )


def test_what_concerns_only_the_bar_is_an_event_of_its_own(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    with visitor.stream("GET", "/console/events?topics=inv_sandbox_other") as stream:
        parts = stream.iter_text()
        assert next(parts) == ": connected\n\n"
        register_new(api)
        assert "event: bar\n" in next(part for part in parts if "event" in part)
