"""The audit log: one event for everything that matters, append-only, and never a secret."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from tests.cases import in_turn
from tests.scenario_run import DATED, register
from tests.support import PATIENCE, Running

LOG = "/api/audit-log"
KEYS = "/api/developer/api-keys"
LOGIN = {"email": "seller@demo.example", "password": "demo-password"}


def events(client: httpx.Client, **params: str) -> list[Any]:
    """The log, oldest first."""
    response = client.get(LOG, params=params)
    assert response.status_code == 200, response.text
    return list(reversed(response.json()["data"]))


def caused(client: httpx.Client, act: Callable[[], Any]) -> list[str]:
    """The actions that ``act`` adds to the log."""
    before = len(events(client))
    act()
    return [one["action"] for one in events(client)[before:]]


def test_an_event_says_who_did_what_to_what_when_and_with_which_result(
    client: httpx.Client,
) -> None:
    response = client.post("/api/invoices", json=DATED, headers={"User-Agent": "partner-ci/1.0"})
    invoice = response.json()["data"]["id"]
    key = client.get(KEYS).json()["data"][0]["id"]
    event = events(client)[-1]
    assert event.pop("id").startswith("aud_sandbox_")
    assert event == {
        "action": "invoice.registered",
        "occurredAt": "2026-11-23T09:30:00Z",
        "actor": {"type": "api_key", "id": key},
        "targets": [{"type": "invoice", "id": invoice}],
        "outcome": "Success",
        "context": {
            "requestId": response.headers["X-Request-Id"],
            "ip": "127.0.0.1",
            "userAgent": "partner-ci/1.0",
        },
        "metadata": {"to": "Registered"},
    }


def _key(client: httpx.Client, **body: Any) -> Any:
    return client.post(KEYS, json=body).json()["data"]


def _revoked(client: httpx.Client) -> None:
    key = _key(client)["id"]
    assert client.delete(KEYS, params={"id": key}).status_code == 200


ACTS: dict[str, tuple[Callable[[httpx.Client], Any], list[str]]] = {
    "registering an invoice": (register, ["invoice.registered"]),
    "creating a key": (_key, ["api_key.created"]),
    "revoking a key": (_revoked, ["api_key.created", "api_key.revoked"]),
    "creating an endpoint": (
        lambda client: client.post("/api/webhooks", json={"url": "https://partner.example"}),
        ["webhook_endpoint.created"],
    ),
    "asking for an upload address": (
        lambda client: client.post("/api/storage/invoices/upload-url", json={}),
        ["upload_url.created"],
    ),
    "pushing from an ERP system": (
        lambda client: client.post("/api/connectors/erp/invoices", json=DATED),
        ["erp_import.accepted", "invoice.registered"],
    ),
    "logging in": (
        lambda client: client.post("/api/auth/login", json=LOGIN),
        ["session.login"],
    ),
    "reading": (lambda client: client.get("/api/invoices"), []),
    "a fingerprint": (lambda client: client.post("/api/registry/fingerprint", json=DATED), []),
    "a refused body": (lambda client: client.post("/api/invoices", json={}), []),
    "an unknown id": (lambda client: client.get("/api/invoices/inv_sandbox_no_1"), []),
}


@pytest.mark.parametrize(("act", "actions"), ACTS.values(), ids=ACTS)
def test_each_act_is_one_event(
    client: httpx.Client, act: Callable[[httpx.Client], Any], actions: list[str]
) -> None:
    assert caused(client, lambda: act(client)) == actions


def test_each_change_of_a_state_is_one_event(client: httpx.Client) -> None:
    def finance() -> None:
        invoice = register(client)["id"]
        client.post("/api/verification/run", json={"invoiceId": invoice})
        client.post("/api/financing-requests", json={"invoiceId": invoice})
        client.post("/api/offers", json={"invoiceId": invoice})

    actions = caused(client, finance)
    assert [one for one in actions if one.startswith("invoice.")] == [
        "invoice.registered",
        "invoice.verification_started",
        "invoice.verified",
    ]
    assert [one for one in actions if not one.startswith("invoice.")] == [
        "financing_request.submitted",
        "financing_request.created",
        "financing_request.routed",
        "offer.recorded",
        "financing_request.receive_offer",
        "offer.received",
    ]
    changes = [one["metadata"] for one in events(client) if "from" in one["metadata"]]
    assert all(one["to"] for one in changes)


def test_a_duplicate_is_registered_and_suspected(client: httpx.Client) -> None:
    register(client)
    assert caused(client, lambda: register(client)) == [
        "invoice.registered",
        "invoice.duplicate_suspected",
    ]


def test_a_failed_login_is_an_event_without_what_was_tried(client: httpx.Client) -> None:
    tried = {"email": "mallory@evil.example", "password": "guess-4711"}
    assert caused(client, lambda: client.post("/api/auth/login", json=tried)) == ["session.login"]
    event = events(client)[-1]
    assert (event["outcome"], event["targets"]) == ("Failure", [])
    assert "mallory" not in json.dumps(event)
    assert "guess-4711" not in json.dumps(event)


def test_a_login_and_a_logout_name_the_user_and_not_the_session(server: Running) -> None:
    with server.client(None) as visitor, server.client() as client:
        cookie = visitor.post("/api/auth/login", json=LOGIN).headers["Set-Cookie"].split(";")[0]
        headers = {"Cookie": cookie, "Origin": server.url, "Content-Type": "application/json"}
        visitor.cookies.clear()
        visitor.post("/api/auth/logout", headers=headers)
        login, logout = events(client, targetId="usr_sandbox_seller")[-2:]
    assert (login["action"], login["actor"]["type"]) == ("session.login", "anonymous")
    assert (logout["action"], logout["actor"]) == (
        "session.logout",
        {"type": "session", "id": "usr_sandbox_seller"},
    )


def test_a_key_that_lacks_a_scope_is_one_failed_event(
    server: Running, client: httpx.Client
) -> None:
    made = _key(client, scopes=["invoices:read"])
    with server.client(made["secret"]) as limited:
        assert caused(client, lambda: limited.post("/api/offers", json={})) == [
            "authorization.rejected"
        ]
    event = events(client)[-1]
    assert (event["outcome"], event["actor"]["id"]) == ("Failure", made["id"])
    assert event["metadata"] == {"code": "insufficient_scope", "scope": "offers:write"}


def test_a_key_that_grants_more_than_it_holds_is_one_failed_event(
    server: Running, client: httpx.Client
) -> None:
    made = _key(client, scopes=["keys:write"])
    with server.client(made["secret"]) as limited:
        rejected = caused(client, lambda: limited.post(KEYS, json={"scopes": ["*"]}))
    assert rejected == ["authorization.rejected"]


def test_a_page_of_another_site_is_one_failed_event(server: Running) -> None:
    with server.client(None) as visitor, server.client() as client:
        cookie = visitor.post("/api/auth/login", json=LOGIN).headers["Set-Cookie"].split(";")[0]
        headers = {"Cookie": cookie, "Origin": "https://evil.example"}
        rejected = caused(
            client, lambda: visitor.post("/api/invoices", json=DATED, headers=headers)
        )
        assert rejected == ["authorization.rejected"]
        assert events(client)[-1]["actor"]["id"] == "usr_sandbox_seller"


def test_a_request_that_fails_leaves_no_event_of_what_it_undid(client: httpx.Client) -> None:
    invoice = register(client)["id"]
    body = {"invoiceId": invoice}
    assert caused(client, lambda: client.post("/api/financing-requests", json=body)) == []


def test_revoking_a_key_again_is_no_event(client: httpx.Client) -> None:
    key = _key(client)["id"]
    client.delete(KEYS, params={"id": key})
    assert caused(client, lambda: client.delete(KEYS, params={"id": key})) == []


def test_events_are_looked_for_by_action_actor_and_target(client: httpx.Client) -> None:
    first = register(client)["id"]
    register(client, invoiceNumber="AUD-2")
    client.post("/api/connectors/erp/invoices", json={**DATED, "invoiceNumber": "AUD-3"})
    key = client.get(KEYS).json()["data"][0]["id"]
    assert len(events(client, action="invoice.registered")) == 3
    assert {one["actor"]["id"] for one in events(client, actorId=key)} == {key}
    assert [one["targets"][0]["id"] for one in events(client, targetId=first)] == [first]
    assert events(client, targetId=first, action="invoice.verified") == []
    assert events(client, action="nonsense") == []


PERIODS: dict[str, tuple[dict[str, str], bool]] = {
    "from that instant": ({"from": "2026-11-23T09:30:00Z"}, True),
    "from the next second": ({"from": "2026-11-23T09:30:01Z"}, False),
    "to that instant": ({"to": "2026-11-23T09:30:00Z"}, True),
    "to the second before": ({"to": "2026-11-23T09:29:59Z"}, False),
    "in another zone": ({"from": "2026-11-23T10:30:00+01:00"}, True),
    "that day": ({"from": "2026-11-23", "to": "2026-11-23"}, True),
    "the day before": ({"to": "2026-11-22"}, False),
}


@in_turn(("params", "found"), PERIODS.values(), ids=PERIODS)
def test_events_are_looked_for_by_time(
    client: httpx.Client, params: dict[str, str], found: bool
) -> None:
    register(client)
    assert bool(events(client, **params)) is found


def test_the_log_only_grows_and_comes_in_pages(client: httpx.Client) -> None:
    register(client)
    before = events(client)
    for number in range(2, 5):
        register(client, invoiceNumber=f"AUD-{number}")
    after = events(client)
    assert after[: len(before)] == before
    ids = [one["id"] for one in after]
    assert ids == sorted(set(ids))
    first = client.get(LOG, params={"limit": 2, "action": "invoice.registered"})
    second = client.get(first.links["next"]["url"]).json()["data"]
    shown = [one["id"] for one in [*first.json()["data"], *second]]
    assert shown == ids[::-1][:4]


def test_nothing_that_was_ever_handed_out_in_secret_is_shown_again(
    server: Running, client: httpx.Client
) -> None:
    """A long session of everything that gives out a secret; then every list is searched."""
    own_key = client.headers["Authorization"].removeprefix("Bearer ")
    secrets = {own_key, LOGIN["password"], "wrong-password-4711"}
    for number in range(3):
        key = _key(client, name=f"key {number}", scopes=["invoices:read", "webhooks:read"])
        secrets.add(key["secret"])
        with server.client(key["secret"]) as limited:
            limited.get("/api/invoices")
            limited.post("/api/offers", json={})
            limited.post(KEYS, json={"scopes": ["*"]})
        hook = client.post("/api/webhooks", json={"url": f"https://partner.example/{number}"})
        secrets.add(hook.json()["data"]["secret"])
        client.post("/api/webhooks/test", json={})
        upload = client.post("/api/storage/invoices/upload-url", json={}).json()["data"]
        secrets.add(upload["url"].partition("signature=")[2])
        httpx.put(
            upload["url"],
            content=b"x",
            headers={"Content-Type": "application/pdf"},
            timeout=PATIENCE,
        )
        session = client.post("/api/auth/login", json=LOGIN).headers["Set-Cookie"]
        cookie = SimpleCookie(session)["ils_session"].value
        secrets.add(cookie)
        wrong = {**LOGIN, "password": "wrong-password-4711"}
        client.post("/api/auth/login", json=wrong)
        with server.client(None) as browser:
            headers = {"Cookie": f"ils_session={cookie}", "Origin": server.url}
            browser.post("/api/invoices", json=DATED, headers=headers)
            browser.get(KEYS, headers=headers)
            json_headers = {**headers, "Content-Type": "application/json"}
            browser.post("/api/auth/logout", headers=json_headers)
        client.delete(KEYS, params={"id": key["id"]})
        client.get("/api/invoices", headers={"X-API-Key": key["secret"]})
    client.cookies.clear()
    shown = "".join(client.get(path).text for path in _lists(server))
    digests = {hashlib.sha256(one.encode()).hexdigest() for one in secrets}
    bare = {one.partition("_sandbox_")[2] or one.removeprefix("whsec_") for one in secrets}
    assert len(secrets) == 3 + 3 * 4
    assert [one for one in secrets | digests | bare if one in shown] == []


def _lists(server: Running) -> list[str]:
    """Every path that can be read without naming anything."""
    operations = server.sandbox.engine.project.contract.operations.values()
    return [one.path for one in operations if one.method == "GET" and "{" not in one.path]


def test_a_user_agent_shows_no_secret(client: httpx.Client) -> None:
    """Masked like a header in the journal: a key of ours, and what the request sent as a secret."""
    made = client.post("/api/developer/api-keys", json={"name": "x"}).json()["data"]["secret"]
    agents = {
        f"ci/{made}": "ci/[redacted]",
        f"{'a' * 250} {made}": f"{'a' * 250} [reda",
        "ci key-that-is-no-key-of-ours": "ci [redacted]",
    }
    for agent, shown in agents.items():
        headers = {"User-Agent": agent, "X-Session-Token": "key-that-is-no-key-of-ours"}
        invoice = client.post("/api/invoices", json=DATED, headers=headers).json()["data"]
        [event] = client.get("/api/audit-log", params={"targetId": invoice["id"]}).json()["data"][
            -1:
        ]
        assert event["context"]["userAgent"] == shown


def test_the_name_of_a_key_is_cut_and_shows_no_other_key(client: httpx.Client) -> None:
    made = client.post("/api/developer/api-keys", json={"name": "n" * 9_000}).json()["data"]
    assert made["name"] == "n" * 256
    for name in (f"like {made['secret']}", f"{'n' * 250} {made['secret']}"):
        body = {"name": name}
        other = client.post("/api/developer/api-keys", json=body).json()["data"]
        assert other["name"] == name.replace(made["secret"], "[redacted]")[:256]
    assert made["secret"][:20] not in client.get("/api/developer/api-keys").text
