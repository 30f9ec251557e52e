"""The console: what its pages show and do, for whom, and that looking changes nothing."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from invoice_sandbox.app import create_app
from invoice_sandbox.base.ids import new_key
from invoice_sandbox.console.page import LOGS
from invoice_sandbox.console.topics import (
    CHANGES,
    FAULTS,
    REQUESTS,
    STEPS,
    WEBHOOKS,
    concerns,
)
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.runtime import engine
from invoice_sandbox.runtime.agenda import ATTEMPTS_LOG
from invoice_sandbox.runtime.journal import REQUESTS_LOG
from invoice_sandbox.state import Log
from tests.cases import in_turn
from tests.scenario_run import data, register_new, until
from tests.support import FROZEN, Running, serving
from tests.toy import contract, serving_contract

pytestmark = pytest.mark.slow

VIEWS = [
    *("", "/records/invoices", "/requests", "/webhooks", "/scenario", "/acceptance", "/contract"),
    "/sign-in",
    "/new",
    "/bundle",
    "/compare",
]
SENT = {"/sandbox/%zz\u202e", "//evil.example/"}
"""Paths of forms that are sent to this server, which rejects them."""

HOSTILE = "<script>alert(1)</script>\u202e\"'>" + "x" * 64_000


@pytest.fixture
def key(server: Running) -> str:
    """The key of a new workspace."""
    return server.new_workspace()


@pytest.fixture
def visitor(server: Running, key: str) -> Iterator[httpx.Client]:
    """Someone who signed in with the key of a workspace."""
    with server.client(None) as client:
        response = client.post("/console/sign-in", data={"key": key})
        assert (response.status_code, response.headers["location"]) == (303, "/console")
        yield client


@pytest.fixture
def api(server: Running, key: str) -> Iterator[httpx.Client]:
    """A client of the API in the same workspace."""
    with server.client(key) as client:
        yield client


def act(visitor: httpx.Client, method: str, path: str, **fields: str) -> httpx.Response:
    """Press a button without JavaScript: the page that follows."""
    form = {"method": method, "path": path, "back": "/console/scenario", **fields}
    return visitor.post("/console/call", data=form)


def status_of(page: httpx.Response) -> int:
    """The status of the response to an action, which its page shows."""
    [found] = re.findall(r'<p class="soft"><span class="status s\d">(\d+)</span>', page.text)
    return int(found)


@in_turn("view", VIEWS)
def test_every_view_needs_this_server_only(visitor: httpx.Client, view: str) -> None:
    page = visitor.get(f"/console{view}")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("default-src 'self'; ")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert re.findall(r"<script(?![^>]* src=)|<style| style=| on\w+=", page.text) == []
    loaded = re.findall(r'(?:src|<link[^>]* href)="([^"]+)"', page.text)
    assert loaded
    for path in loaded:
        assert path.startswith("/console/static/")
        assert visitor.get(path).status_code == 200


def test_assets_are_small(visitor: httpx.Client) -> None:
    page = visitor.get("/console").text
    loaded = set(re.findall(r'(?:src|<link[^>]* href)="([^"]+)"', page))
    assert sum(len(visitor.get(path).content) for path in loaded) < 150 * 1024


def test_the_demo_key_needs_no_sign_in_where_it_is_valid(server: Running) -> None:
    with server.client(None) as client:
        assert "<h1>Overview</h1>" in client.get("/console").text
        forwarded = client.get("/console", headers={"X-Forwarded-For": "192.0.2.1"}).text
        assert "<h1>Sign in</h1>" in forwarded
    with serving(replace(FROZEN, key=new_key())) as private, private.client(None) as client:
        assert "<h1>Sign in</h1>" in client.get("/console").text
        assert client.get("/console/events").status_code == 401


def test_the_key_is_in_a_cookie_that_scripts_cannot_read(server: Running, key: str) -> None:
    with server.client(None) as client:
        cookie = client.post("/console/sign-in", data={"key": key}).headers["set-cookie"]
        assert {"HttpOnly", "Path=/console", "SameSite=Strict"} <= set(cookie.split("; "))
        page = client.get("/console").text
        assert key not in page
        assert f"(key …{key[-4:]})" in page
        client.post("/console/sign-out")
        assert "demo key" in client.get("/console").text


def test_an_unknown_key_shows_why(server: Running) -> None:
    with server.client(None) as client:
        client.post("/console/sign-in", data={"key": "ilk_sandbox_unknown"})
        page = client.get("/console").text
    assert "<h1>Sign in</h1>" in page
    assert 'role="alert"' in page


def test_a_key_that_may_not_use_the_control_api_shows_why(server: Running, key: str) -> None:
    with server.client(key) as api, server.client(None) as client:
        made = data(api.post("/api/developer/api-keys", json={"scopes": ["invoices:write"]}), 201)
        client.post("/console/sign-in", data={"key": made["secret"]})
        page = client.get("/console").text
        assert "<b>403</b>" in page
        assert "sandbox:read" in page


@in_turn(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}],
    ids=["fetch metadata", "origin"],
)
@in_turn("path", ["call", "sign-in", "sign-out"])
def test_a_page_of_another_site_cannot_act(
    visitor: httpx.Client, headers: dict[str, str], path: str
) -> None:
    form = {"method": "POST", "path": "/sandbox/reset", "key": "x"}
    response = visitor.post(f"/console/{path}", data=form, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "invalid_request")


def test_one_workspace_never_shows_another(server: Running, visitor: httpx.Client) -> None:
    with server.client(server.new_workspace()) as other:
        strange = register_new(other, invoiceNumber="OF-ANOTHER")
    for view in VIEWS:
        assert "OF-ANOTHER" not in visitor.get(f"/console{view}").text
    assert "OF-ANOTHER" not in visitor.get(f"/console/records/invoices/{strange}").text


def test_looking_changes_nothing(visitor: httpx.Client, api: httpx.Client) -> None:
    invoice = register_new(api)
    api.post("/sandbox/faults", json={"kind": "status", "count": 1})
    before = data(api.get("/sandbox/requests"))
    for view in (*VIEWS, f"/records/invoices/{invoice}"):
        assert visitor.get(f"/console{view}").status_code == 200
    assert api.get("/console").status_code == 200  # with a key
    assert data(api.get("/sandbox/requests")) == before
    assert api.get("/sandbox/faults").json()["data"][0]["fired"] == 0
    operations = data(api.get("/sandbox/coverage"))["operations"]
    covered = {one["operation"] for one in operations if one["covered"]}
    assert covered == {"createInvoice"}


def test_looking_changes_no_id(server: Running) -> None:
    """Of two workspaces with one seed, somebody looks at one before the second request."""
    ids = []
    for looks in (False, True):
        key = server.new_workspace(seed=5)
        with server.client(key) as api, server.client(None) as client:
            api.get("/api/partners")
            if looks:
                client.post("/console/sign-in", data={"key": key})
                assert "<h1>Overview</h1>" in client.get("/console").text
            ids.append(api.get("/api/partners").headers["x-request-id"])
    assert ids[0] == ids[1]


def test_looking_takes_nothing_from_the_rate_limit() -> None:
    with serving(replace(FROZEN, rate_limit=2)) as limited, limited.client() as client:
        with limited.client(None) as visitor:
            for _ in range(3):
                assert visitor.get("/console/records/invoices").status_code == 200
        assert client.get("/api/partners").headers["ratelimit"].startswith('"default";r=1')


def test_no_client_can_observe_without_being_recorded(api: httpx.Client) -> None:
    """The mark of the console's own requests is no header."""
    api.get("/api/partners", headers={"invoice_sandbox.observer": "1", "x-observer": "1"})
    assert [one["operation"] for one in data(api.get("/sandbox/requests"))] == ["listPartners"]


@pytest.mark.parametrize("path", ["/console", "/console/", "/console/records/invoices"])
def test_a_page_is_not_explained(visitor: httpx.Client, path: str) -> None:
    page = visitor.get(path, headers={"X-Sandbox-Explain": "1"})
    assert "x-sandbox-explain" not in page.headers


def test_an_invoice_is_on_one_timeline(visitor: httpx.Client, api: httpx.Client) -> None:
    api.put("/sandbox/scenario", json={"name": "auto-progress"})
    invoice = register_new(api)
    api.post("/sandbox/clock/advance", json={"by": "PT3S"})
    page = visitor.get(f"/console/records/invoices/{invoice}").text
    timeline = page[page.index('<ol class="timeline">') : page.index("<h2>Fields</h2>")]
    found = [re.sub(r"<[^>]*>|\s+", " ", one).split() for one in timeline.split("<li")[1:]]
    words = [" ".join(one) for one in found]
    assert "POST /api/invoices → 201" in words[0]
    assert any("start-verification" in one for one in words[1:4])
    assert [one for one in words if "due" in one.split() and "make-offer" in one]
    times = [re.search(r"\d{4}-\S+", one) for one in words]
    assert [one[0] for one in times if one] == sorted(one[0] for one in times if one)


def test_the_legal_transitions_are_buttons(visitor: httpx.Client, api: httpx.Client) -> None:
    invoice = register_new(api)
    path = f"/sandbox/invoices/{invoice}/transition"
    page = visitor.get(f"/console/records/invoices/{invoice}").text
    assert ">start-verification</button>" in page
    assert ">settle</button>" not in page
    body = '{"trigger": "start-verification"}'
    moved = act(visitor, "POST", path, body=body)
    assert "<b>Move an invoice: done." in moved.text
    assert data(api.get(f"/api/invoices/{invoice}"))["status"] == "VerificationPending"
    again = act(visitor, "POST", path, body=body)
    assert 'class="notice effect bad"' in again.text
    assert status_of(again) == 409


def test_fields_of_a_form_are_members_of_the_body(visitor: httpx.Client, api: httpx.Client) -> None:
    page = act(visitor, "POST", "/sandbox/clock/advance", **{"field.by": "P1D"})
    assert "Moved to 2026-11-24 09:30:00. Nothing was due." in page.text
    assert data(api.get("/sandbox/clock"))["now"] == "2026-11-24T09:30:00Z"
    fault = {"field.kind": "status", "field.status": "503", "field.operation": ""}
    assert status_of(act(visitor, "POST", "/sandbox/faults", **fault)) == 201
    [found] = data(api.get("/sandbox/faults"))
    assert (found["kind"], found["status"], found["operation"]) == ("status", 503, None)


def test_every_declared_type_of_fault_can_be_chosen(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    document = api.get("/sandbox/openapi.json").json()
    page = visitor.get("/console/scenario").text
    for name in document["components"]["schemas"]["FaultKind"]["enum"]:
        assert f"<option>{name}</option>" in page


@in_turn(
    "form",
    [
        {"method": "TRACE", "path": "/sandbox/reset"},
        {"method": "POST", "path": "https://evil.example/"},
        {"method": "POST", "path": "//evil.example/"},
        {"method": "POST", "path": "/console/sign-out"},
        {"method": "POST", "path": "/%63onsole/call"},
        {"method": "POST"},
        {"method": "POST", "path": "/sandbox/clock/advance", "body": "{"},
        {"method": "POST", "path": "/sandbox/clock/advance", "body": "[1]", "field.by": "P1D"},
        {"method": "POST", "path": "/sandbox/%zz\u202e"},
    ],
)
def test_a_form_that_the_console_did_not_make_does_no_harm(
    visitor: httpx.Client, api: httpx.Client, form: dict[str, str]
) -> None:
    response = visitor.post("/console/call", data={**form, "back": "//evil.example/"})
    was_sent = form.get("path") in SENT
    assert response.status_code == (200 if was_sent else 400)
    assert ("Nothing was sent" in response.text) is not was_sent
    assert 'href="/console">Back' in response.text
    assert data(api.get("/sandbox/clock"))["now"] == "2026-11-23T09:30:00Z"


def test_a_form_that_is_too_large_is_413(visitor: httpx.Client) -> None:
    response = visitor.post("/console/call", data={"body": "x" * 300_000})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "invalid_request")


def test_texts_of_clients_are_never_markup(visitor: httpx.Client, api: httpx.Client) -> None:
    invoice = register_new(api, invoiceNumber=HOSTILE)
    api.get("/api/invoices", headers={"User-Agent": "<script>alert(2)</script>"})
    url = data(api.get("/sandbox/inbox"))["url"]
    body = {"url": url, "events": ["invoice.verified"], "description": "<script>alert(3)</script>"}
    data(api.post("/api/webhooks", json=body), 201)
    request_id = data(api.get("/sandbox/requests"))[0]["requestId"]
    for view in (*VIEWS, f"/records/invoices/{invoice}", f"/requests/{request_id}"):
        page = visitor.get(f"/console{view}").text
        assert "<script>alert" not in page
    rejected = act(visitor, "POST", "/sandbox/clock/advance", **{"field.by": HOSTILE})
    assert "<script>alert" not in rejected.text
    assert status_of(rejected) == 400


def test_a_request_shows_its_violations_and_can_be_sent_again(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    api.post("/api/invoices", json={"invoiceNumber": 7})
    assert "/sellerId is required" in visitor.get("/console").text
    [entry] = data(api.get("/sandbox/requests"))
    page = visitor.get(f"/console/requests/{entry['requestId']}").text
    assert "<code>/sellerId</code>" in page
    assert "curl -X POST http://" in page
    sent = act(visitor, "POST", "/api/invoices", raw='{"invoiceNumber":7}')
    assert status_of(sent) == 400
    assert [one["status"] for one in data(api.get("/sandbox/requests"))] == [400, 400]
    assert "not in the journal" in visitor.get("/console/requests/unknown").text


def test_requests_are_filtered_by_the_address(visitor: httpx.Client, api: httpx.Client) -> None:
    api.get("/api/partners")
    api.get("/api/invoices/unknown")
    page = visitor.get("/console/requests", params={"status": "404"}).text
    assert "GET /api/invoices/unknown" in page
    assert "GET /api/partners" not in page
    found = visitor.get("/console/requests", params={"text": "partners"}).text
    assert "GET /api/partners" in found
    assert "GET /api/invoices/unknown" not in found
    assert 'role="alert"' in visitor.get("/console/requests", params={"status": "x"}).text


def test_records_are_filtered_paged_and_found(visitor: httpx.Client, api: httpx.Client) -> None:
    ids = [register_new(api, invoiceNumber=f"N-{number}") for number in range(51)]
    first = visitor.get("/console/records/invoices").text
    assert ids[-1] in first
    assert ids[0] not in first
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older
    assert ids[0] in visitor.get(older[1].replace("&amp;", "&")).text
    filtered = visitor.get("/console/records/invoices", params={"status": "Settled"}).text
    assert ids[-1] not in filtered
    found = visitor.get("/console/records/invoices", params={"search": ids[3]})
    assert found.headers["location"] == f"/console/records/invoices/{ids[3]}"
    unknown = visitor.get("/console/records/invoices/unknown")
    assert 'role="alert"' in unknown.text


def test_a_delivery_shows_its_message_and_is_sent_again(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    url = data(api.get("/sandbox/inbox"))["url"]
    data(api.post("/api/webhooks", json={"url": url, "events": ["invoice.registered"]}), 201)
    register_new(api)
    api.post("/sandbox/clock/advance", json={"by": "PT1S"})
    [delivery] = data(api.get("/api/webhooks"))["deliveries"]
    link = f"/console/webhooks/{delivery['id']}"
    assert f'href="{link}"' in visitor.get("/console/webhooks").text
    assert "webhook-signature: v1," in visitor.get(link).text
    again = act(visitor, "POST", f"/sandbox/deliveries/{delivery['id']}/replay")
    assert status_of(again) == 200
    assert len(data(api.get("/sandbox/inbox"))["messages"]) == 2


def test_a_document_without_handlers_has_the_views_that_make_sense(tmp_path: Any) -> None:
    with serving_contract(tmp_path, contract({})) as client:
        page = client.get("/console")
        views = re.findall(r'<li><a href="/console([^"]*)"', page.text)
        assert views == ["", "/requests", "/scenario", "/bundle", "/compare", "/contract", "/new"]
        assert "/sandbox/clock/advance" in page.text
        client.post("/check", json={})
        for view in views:
            page = client.get(f"/console{view}")
            assert page.status_code == 200
            assert 'role="alert"' not in page.text


def test_nothing_else_is_there(visitor: httpx.Client) -> None:
    for path in ("nothing", "records/nothing", "static/nothing", "static/..%2fviews.py"):
        response = visitor.get(f"/console/{path}")
        assert response.status_code == 404
        assert "<h1>There is no such page</h1>" in response.text
    assert visitor.put("/console").status_code == 405


@pytest.mark.parametrize("name", ["machine", "transition"])
def test_an_unknown_name_in_the_conventions_is_an_error_at_start(tmp_path: Any, name: str) -> None:
    folder = tmp_path / "project"
    ignored = shutil.ignore_patterns(".*", "docs", "tests", "invoice_sandbox", "__pycache__")
    shutil.copytree(default_project(), folder, ignore=ignored)
    file = folder / "conventions.yaml"
    text = re.sub(rf"( {name}: )\w+", r"\1invoise", file.read_text())
    file.write_text(text)
    with pytest.raises(ProjectError, match="unknown name 'invoise'"):
        asyncio.run(create_app(replace(FROZEN, project=folder), url="http://127.0.0.1"))


def test_the_stream_reports_changes_and_ends_when_the_server_stops() -> None:
    with (
        serving(real_time=True) as running,
        running.client() as client,
        client.stream("GET", "/console/events") as stream,
    ):
        parts = stream.iter_text()
        assert next(parts) == ": connected\n\n"
        assert client.get("/api/partners").status_code == 200
        name, *change = next(parts).split("\n")
        assert change == ["event: change", "data: {}", "", ""]
        page = client.get("/console/requests").text
        assert name == "id: " + re.search(r"events\?after=([\d.]+)", page)[1]  # type: ignore[index]
        running.loop.call_soon_threadsafe(running.sandbox.engine.end_streams)
        assert list(parts) == []


def test_streams_beyond_the_limit_of_a_workspace_end_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "STREAMS_OF_A_WORKSPACE", 1)
    with (
        serving(real_time=True) as running,
        running.client() as client,
        running.client(None) as other,
    ):
        other.post("/console/sign-in", data={"key": running.new_workspace()})
        for browser in (client, other):
            with browser.stream("GET", "/console/events") as stream:
                parts = stream.iter_text()
                assert next(parts) == ": connected\n\n"
                later = browser.get("/console/events")
                assert (later.status_code, later.text[:12]) == (200, "retry: 30000")

        def is_connected() -> bool:
            with client.stream("GET", "/console/events") as stream:
                return next(stream.iter_text()) == ": connected\n\n"

        until(is_connected, "a stream that was closed leaves its place to another")
        running.loop.call_soon_threadsafe(running.sandbox.engine.end_streams)


def test_a_change_concerns_the_pages_that_show_it(server: Running, api: httpx.Client) -> None:
    """An attempt to deliver concerns the delivery, and the records that its event is about."""
    workspace = server.in_transaction(lambda state: state.workspace().id, api)
    url = data(api.get("/sandbox/inbox"))["url"]
    data(api.post("/api/webhooks", json={"url": url, "events": ["*"]}), 201)
    other, invoice = register_new(api), register_new(api)
    api.post("/sandbox/clock/advance", json={"by": "PT0S"})
    delivery = data(api.get("/api/webhooks"))["deliveries"][0]["id"]
    api.get(f"/api/invoices/{invoice}")
    topics = {invoice, other, delivery, REQUESTS, CHANGES, STEPS, WEBHOOKS, FAULTS}

    def of_newest(log: str, older: int = 0) -> set[str]:
        entries = server.log(log, workspace).entries
        found = {**dict.fromkeys(LOGS, Log()), log: Log((entries[-1 - older],))}
        return {
            name
            for name in topics
            if server.in_transaction(lambda state: concerns(state, found, {name}), api)  # noqa: B023
        }

    assert of_newest(ATTEMPTS_LOG) == {invoice, delivery, WEBHOOKS}
    assert of_newest(REQUESTS_LOG) == {invoice, REQUESTS}
    assert of_newest(REQUESTS_LOG, 1) == {delivery, REQUESTS}  # it was listed
    assert of_newest(REQUESTS_LOG, 2) == topics  # a moved clock concerns every page
