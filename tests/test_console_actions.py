"""The actions of the console: their effect in a sentence, and what is shown once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from invoice_sandbox.console.actions import duration_of_words
from invoice_sandbox.console.scenario import PRESETS
from tests.receivers import deliveries, free_port, receiving, response, subscribe, trigger
from tests.scenario_run import data, register_new, until
from tests.test_console import act, api, key, status_of, visitor

pytestmark = pytest.mark.slow

__all__ = ["api", "key", "visitor"]  # fixtures


def panel(page: httpx.Response) -> tuple[str, str]:
    """The tone and the sentence of the effect of an action."""
    [found] = re.findall(
        r'class="notice effect (\w+)".*?<p><b>(.*?)</b>', page.text, flags=re.DOTALL
    )
    return found[0], unescape(found[1])


def test_a_rotated_secret_is_shown_once(visitor: httpx.Client, api: httpx.Client) -> None:
    with receiving() as receiver:
        endpoint = subscribe(api, receiver.url)
        page = act(visitor, "POST", f"/sandbox/webhooks/{endpoint['id']}/rotate-secret")
        assert panel(page)[0] == "good"
        [secret] = set(re.findall(r"whsec_[\w+/=]+", unescape(page.text)))
        trigger(api)
        until(lambda: bool(receiver.messages), "the message arrives")
        [message, *_] = receiver.messages
        sent_at = datetime.fromtimestamp(message.second, UTC)
        signature = Webhook(secret).sign(message.id, sent_at, message.body.decode())
        assert signature in message.signatures
    assert "set-cookie" not in page.headers
    assert secret not in visitor.get("/console/webhooks").text


def test_a_delivery_to_a_dead_receiver_is_no_success(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    url = f"http://127.0.0.1:{free_port()}/hooks"
    subscribe(api, url)
    trigger(api)
    [found] = deliveries(api)
    page = act(visitor, "POST", f"/sandbox/deliveries/{found['id']}/replay")
    assert status_of(page) == 200
    tone, text = panel(page)
    assert tone == "warn"
    assert f"Is your receiver running at {url}?" in text


def test_an_advance_shows_what_happened(visitor: httpx.Client, api: httpx.Client) -> None:
    with receiving(response(500)) as receiver:
        subscribe(api, receiver.url)
        api.put("/sandbox/scenario", json={"name": "happy-path"})
        register_new(api)
        page = act(visitor, "POST", "/sandbox/clock/advance", body='{"by": "PT2S"}')
    tone, text = panel(page)
    assert tone == "warn"
    assert text.startswith("Moved to 2026-11-23 09:30:02. 2 steps ran: 1 start-verification, ")
    assert re.search(r"\d deliver\w+ failed\.$", text)
    assert "times deliver: HTTP 500" in page.text


def test_a_test_webhook_that_nobody_gets_is_no_success(visitor: httpx.Client) -> None:
    page = act(visitor, "POST", "/api/webhooks/test", body='{"event": "invoice.verified"}')
    assert panel(page) == ("warn", "Nothing was sent: register an endpoint, or enable one.")


def test_what_was_typed_survives_a_rejection(visitor: httpx.Client) -> None:
    page = act(visitor, "POST", "/sandbox/clock/advance", **{"field.by": "soon & later"})
    assert panel(page)[0] == "bad"
    assert 'name="field.by" value="soon &amp; later" aria-invalid="true"' in page.text
    assert re.search(r'id="problem-1">[^<]*must look like', page.text)


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        (
            "PUT",
            "/sandbox/clock",
            {"mode": "frozen"},
            "The clock is frozen at 2026-11-23 09:30:00.",
        ),
        ("POST", "/sandbox/faults", {"kind": "error"}, "Inject a fault: done. flt_"),
        ("DELETE", "/sandbox/faults", {}, "Remove all faults: done."),
        (
            "PUT",
            "/sandbox/scenario",
            {"name": "manual"},
            "manual is the scenario of every new record.",
        ),
        ("POST", "/api/nowhere?a=b", {}, "No operation has this path"),
    ],
)
def test_every_action_has_a_sentence(
    visitor: httpx.Client, method: str, path: str, body: Mapping[str, Any], text: str
) -> None:
    page = act(visitor, method, path, **{f"field.{name}": value for name, value in body.items()})
    assert panel(page)[1].startswith(text)
    assert f"curl -X {method} " in page.text


def test_runs_are_ended_only_if_that_is_chosen(visitor: httpx.Client, api: httpx.Client) -> None:
    api.put("/sandbox/scenario", json={"name": "happy-path"})
    invoice = register_new(api)
    chosen = {"body": '{"name": "manual"}'}
    goes_on = panel(act(visitor, "PUT", "/sandbox/scenario", **chosen))[1]
    assert goes_on.endswith("record. 1 run goes on with another scenario.")
    ended = act(visitor, "PUT", "/sandbox/scenario", **chosen, **{"field.endRuns": "true"})
    assert panel(ended)[1].endswith("record. 4 steps were cancelled.")
    page = visitor.get(f"/console/records/invoices/{invoice}").text
    request_id = ended.text.split("/console/requests/")[1].split('"')[0]
    link = f'<a href="/console/requests/{request_id}">make-offer (cancelled: manual was chosen.'
    assert link in page


# What is asked, and undone


def press(visitor: httpx.Client, page: httpx.Response, button: str, start: str = "") -> Any:
    """Press a button of a page after ``start``."""
    after = page.text[page.text.index(start) :]
    form = next(item for item in after.split("<form")[1:] if f">{button}</button>" in item)
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form)
    return act(visitor, **{name: unescape(text) for name, text in fields})


def test_a_reset_is_asked_for_and_undone(visitor: httpx.Client, api: httpx.Client) -> None:
    invoice = register_new(api)
    asked = press(visitor, visitor.get("/console/scenario"), "Reset the workspace")
    assert 'role="alertdialog"' in asked.text
    assert "so that you can undo it" in asked.text
    assert api.get(f"/api/invoices/{invoice}").status_code == 200
    assert data(api.get("/sandbox/snapshots")) == []
    done = press(visitor, asked, "Yes")
    assert panel(done)[1].startswith("Reset the workspace: done.")
    assert api.get(f"/api/invoices/{invoice}").status_code == 404
    undone = press(visitor, done, "Undo")
    assert status_of(undone) == 200
    assert api.get(f"/api/invoices/{invoice}").status_code == 200


def test_a_deleted_endpoint_comes_back(visitor: httpx.Client, api: httpx.Client) -> None:
    subscribe(api, data(api.get("/sandbox/inbox"))["url"])
    asked = press(visitor, visitor.get("/console/webhooks"), "delete")
    done = press(visitor, asked, "Yes")
    assert data(api.get("/api/webhooks"))["endpoints"] == []
    press(visitor, done, "Undo")
    assert len(data(api.get("/api/webhooks"))["endpoints"]) == 1


def test_nothing_is_done_that_could_not_be_undone(visitor: httpx.Client, api: httpx.Client) -> None:
    invoice = register_new(api)
    for _ in range(50):
        api.post("/sandbox/snapshots")
    reset = act(visitor, "POST", "/sandbox/reset", ask="Reset?", undo="yes", confirmed="yes")
    assert panel(reset)[1].startswith("No snapshot could be taken, so nothing was done.")
    assert api.get(f"/api/invoices/{invoice}").status_code == 200
    page = visitor.get("/console/scenario")
    asked = press(visitor, page, "Delete", start="Restore</button>")
    assert "This cannot be undone." in asked.text
    press(visitor, asked, "Yes")
    assert len(data(api.get("/sandbox/snapshots"))) == 49


# Durations and faults


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("3 days", "P3D"),
        ("3d", "P3D"),
        ("1 hour, 30 min", "PT1H30M"),
        ("90 s", "PT1M30S"),
        ("2 D", "P2D"),
        ("P3D", None),
        ("soon", None),
        ("", None),
        ("d", None),
        ("1234567 s", None),
    ],
)
def test_a_duration_may_be_words(words: str, expected: str | None) -> None:
    assert duration_of_words(words) == expected


def test_the_clock_takes_words(visitor: httpx.Client, api: httpx.Client) -> None:
    before = data(api.get("/sandbox/clock"))["now"]
    page = act(visitor, "POST", "/sandbox/clock/advance", **{"field.by": "3 days"})
    assert panel(page)[0] == "good"
    assert data(api.get("/sandbox/clock"))["now"] > before


def test_a_preset_fault_takes_one_click(visitor: httpx.Client, api: httpx.Client) -> None:
    for label, _ in PRESETS:
        page = press(visitor, visitor.get("/console/scenario"), label)
        assert status_of(page) == 201, label
    assert len(data(api.get("/sandbox/faults"))) == len(PRESETS)
    assert [api.get("/api/partners").status_code for _ in range(3)] == [429, 503, 502]
