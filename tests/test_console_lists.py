"""The lists of the console: totals, pages, filters, failures first, and ids that are links."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from tests.scenario_run import advance, data, move, register_new, verified
from tests.test_console import api, key, visitor
from tests.test_console_views import text_of

pytestmark = pytest.mark.slow

__all__ = ["api", "key", "visitor"]  # fixtures

CLOSED = "http://127.0.0.1:9/hooks"
"""A receiver that nobody runs."""


@pytest.fixture
def endpoints(api: httpx.Client) -> list[str]:
    """The ids of the inbox as an endpoint, and of one that nobody runs."""
    url = data(api.get("/sandbox/inbox"))["url"]
    made = [
        api.post("/api/webhooks", json={"url": item, "events": ["*"]}) for item in (url, CLOSED)
    ]
    return [data(item, 201)["id"] for item in made]


def rows(page: httpx.Response, kind: str) -> list[str]:
    """The ids of the rows of a table."""
    return re.findall(rf'<tr id="({kind}_\w+)"', page.text)


def test_deliveries_have_their_total_pages_and_filters(
    visitor: httpx.Client, api: httpx.Client, endpoints: list[str]
) -> None:
    ids = [register_new(api) for _ in range(27)]
    advance(api, "PT0S")
    page = visitor.get("/console/webhooks")
    assert "54. Show all · Failed 27 · Delivered 27" in text_of(page)
    first = rows(page, "dlv")
    older = re.search(r'rel="next" href="([^"#]+)', page.text)
    assert older
    last = rows(visitor.get(unescape(older[1])), "dlv")
    assert (len(first), len(last)) == (50, 4)
    assert sorted([*first, *last], reverse=True) == [*first, *last]
    failed = visitor.get("/console/webhooks", params={"status": "Failed"})
    assert len(rows(failed, "dlv")) == 27
    assert "127.0.0.1:9</a>" in failed.text
    about = visitor.get("/console/webhooks", params={"subject": ids[3], "endpointId": endpoints[0]})
    assert len(rows(about, "dlv")) == 1
    assert "No matching deliveries." in visitor.get("/console/webhooks?subject=nothing").text


@pytest.mark.usefixtures("endpoints")
def test_failures_come_first_on_the_overview(visitor: httpx.Client, api: httpx.Client) -> None:
    api.get("/api/invoices/unknown")
    register_new(api)
    advance(api, "PT0S")
    page = text_of(visitor.get("/console"))
    places = [page.index(item) for item in ("Errors", "Failed deliveries", "Your client, judged")]
    assert places == sorted(places)
    assert "1 Failed 1 Delivered" in page
    assert re.search(r"invoice.registered to 127.0.0.1:9 \w+ inv_sandbox_\w+", page), page


def test_an_id_is_a_link_to_its_object(
    visitor: httpx.Client, api: httpx.Client, endpoints: list[str]
) -> None:
    invoice = verified(api)["id"]
    move(api, invoice, "request-financing", "receive-offer")
    advance(api, "PT0S")
    [offer] = data(api.get("/api/offers", params={"invoiceId": invoice}))
    [request] = data(api.get("/sandbox/requests", params={"limit": 1}))
    page = visitor.get(f"/console/requests/{request['requestId']}")
    links = re.findall(r'href="(/console/find/[^"]+)"', page.text)
    record = f"/console/records/invoices/{invoice}"
    event = data(api.get("/sandbox/event-log", params={"subject": offer["id"]}))[0]["id"]
    places = {
        invoice: record,
        offer["id"]: f"{record}#{offer['id']}",
        event: f"/console/webhooks?eventId={event}",
        endpoints[1]: f"/console/webhooks?endpointId={endpoints[1]}",
        "inv_sandbox_aaaaaaaa_0001": "/console/requests?text=inv_sandbox_aaaaaaaa_0001",
    }
    assert {f"/console/find/{item}" for item in (invoice, offer["id"])} <= {*links}
    for name, place in places.items():
        assert visitor.get(f"/console/find/{name}").headers["location"] == place
    hostile = visitor.get("/console/requests?text=<b>inv_sandbox_aaaaaaaa_0001")
    assert "<b>inv" not in hostile.text


@pytest.mark.usefixtures("endpoints")
def test_a_delivery_leads_to_its_event_endpoint_and_cause(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    api.put("/sandbox/scenario", json={"name": "auto-progress"})
    invoice = register_new(api)
    advance(api, "PT1S")
    newest, *_, oldest = data(api.get("/sandbox/deliveries", params={"subject": invoice}))
    for delivery, cause in ((oldest, r"request <?req_sandbox_\w+"), (newest, "step start-\\w+")):
        page = visitor.get(f"/console/webhooks/{delivery['id']}")
        assert f'/find/{invoice}"' in page.text
        assert f"/find/{delivery['eventId']}" in page.text
        assert f"endpointId={delivery['endpointId']}" in page.text
        assert re.search(f"caused by {cause}", text_of(page))


def test_a_status_has_the_tone_of_the_lifecycle(visitor: httpx.Client, api: httpx.Client) -> None:
    invoice = register_new(api, invoiceNumber="A-77")
    move(api, invoice, "start-verification", "hold")
    assert '<span class="state wait">OnHold</span>' in visitor.get("/console/records/invoices").text
    page = visitor.get(f"/console/records/invoices/{invoice}").text
    assert '<span class="state wait">OnHold</span>' in page
    assert "<h1>A-77</h1>" in page


def test_the_requests_beside_one_and_the_next_error_are_links(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    for path in ("invoices/unknown", "partners", "partners", "offers"):
        api.get(f"/api/{path}")
    ids = [entry["requestId"] for entry in data(api.get("/sandbox/requests"))]
    page = visitor.get(f"/console/requests/{ids[1]}").text
    keys = dict(re.findall(r'href="/console/requests/(\w+)" data-key="(\w)"', page))
    assert keys == {ids[0]: "k", ids[2]: "j", ids[3]: "e"}
    first = visitor.get(f"/console/requests/{ids[3]}").text
    assert re.findall(r'data-key="(\w)"', first) == ["k"]
    errors = visitor.get("/console/requests", params={"failed": "true"})
    assert re.findall(r'<li id="(\w+)"', errors.text) == [ids[3]]
