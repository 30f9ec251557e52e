"""Webhook endpoints: where they may lead, what they subscribe to, and how samples are signed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from invoice_sandbox import __version__
from invoice_sandbox.webhooks.network import is_own_address, url_problem
from invoice_sandbox.webhooks.retry import GAPS
from invoice_sandbox.webhooks.signing import placeholder_secret, sign
from tests.cases import in_turn
from tests.scenario_run import INVOICE, data
from tests.support import FROZEN, Running, serving

WEBHOOKS, TEST = "/api/webhooks", "/api/webhooks/test"
URL = "https://partner.example/hooks"
DEFAULT_KINDS = ["invoice.verified", "offer.received"]
SAMPLE_SECRET = "whsec_c2FuZGJveC1wbGFjZWhvbGRlci1zZWNyZXQtMDAwMSE="


def create(client: httpx.Client, **body: Any) -> Any:
    response = client.post(WEBHOOKS, json=body)
    assert response.status_code == 201, response.text
    return response.json()["data"]


def sample(client: httpx.Client, **body: Any) -> Any:
    response = client.post(TEST, json=body)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def event(response: Any) -> Any:
    return json.loads(response["request"]["body"])


@pytest.fixture(scope="module")
def today() -> Iterator[Running]:
    """A server whose wall clock shows the real time, with which receivers compare."""
    with serving(at=datetime.now(UTC)) as running:
        yield running


# Endpoints


def test_an_endpoint_has_defaults_for_everything_but_its_address(client: httpx.Client) -> None:
    endpoint = create(client, url=URL)
    assert endpoint.pop("id").startswith("whe_sandbox_")
    assert endpoint.pop("secret").startswith("whsec_")
    assert endpoint == {
        "url": URL,
        "description": None,
        "events": DEFAULT_KINDS,
        "unknownEvents": [],
        "deniedEvents": [],
        "retryProfile": "standard",
        "status": "Enabled",
        "secretIsPlaceholder": True,
        "createdAt": "2026-11-23T09:30:00Z",
    }


MEMBERS: dict[str, tuple[str, Any]] = {
    "events": ("events", ["invoice.funded"]),
    "description": ("description", "Partner staging"),
    "retryProfile": ("retryProfile", "fast"),
}


@pytest.mark.parametrize(("member", "value"), MEMBERS.values(), ids=MEMBERS)
def test_a_member_that_is_sent_is_kept(client: httpx.Client, member: str, value: Any) -> None:
    assert create(client, url=URL, **{member: value})[member] == value


@pytest.mark.parametrize("profile", GAPS)
def test_every_retry_profile_can_be_chosen(client: httpx.Client, profile: str) -> None:
    assert create(client, url=URL, retryProfile=profile)["retryProfile"] == profile


def test_an_unknown_retry_profile_is_the_standard_one(client: httpx.Client) -> None:
    assert create(client, url=URL, retryProfile="hourly")["retryProfile"] == "standard"


KINDS: dict[str, tuple[list[str], list[str]]] = {
    "known": (["invoice.paid", "financing_request.routed"], []),
    "everything": (["*"], []),
    "a family": (["invoice.*", "offer.*", "financing_request.*", "webhook_endpoint.*"], []),
    "unknown": (["invoice.verified", "invoice.eaten"], ["invoice.eaten"]),
    "an unknown family": (["debtor.*"], ["debtor.*"]),
    "no pattern": (["**", "inv*", "*.verified", ""], ["**", "inv*", "*.verified", ""]),
}


@in_turn(("kinds", "unknown"), KINDS.values(), ids=KINDS)
def test_types_that_no_event_will_have_are_kept_and_listed_back(
    client: httpx.Client, kinds: list[str], unknown: list[str]
) -> None:
    endpoint = create(client, url=URL, events=kinds)
    assert (endpoint["events"], endpoint["unknownEvents"]) == (kinds, unknown)
    assert endpoint["status"] == "Enabled"


DENIED: dict[str, tuple[list[str], list[str], list[str]]] = {
    # scopes beside webhooks:write, kinds asked for, kinds denied
    "allowed": (["invoices:read", "offers:read"], DEFAULT_KINDS, []),
    "by writing": (["invoices:write", "offers:write"], DEFAULT_KINDS, []),
    "one of two": (["invoices:read"], DEFAULT_KINDS, ["offer.received"]),
    "a family": (["offers:read"], ["invoice.*", "offer.*"], ["invoice.*"]),
    "requests": (["offers:read"], ["financing_request.created"], ["financing_request.created"]),
    "everything, without reading everything": (["invoices:read"], ["*"], ["*"]),
}


@in_turn(("scopes", "kinds", "denied"), DENIED.values(), ids=DENIED)
def test_a_type_whose_resource_the_key_may_not_read_is_denied(
    server: Running, client: httpx.Client, scopes: list[str], kinds: list[str], denied: list[str]
) -> None:
    body = {"scopes": ["webhooks:write", *scopes]}
    key = client.post("/api/developer/api-keys", json=body).json()["data"]["secret"]
    with server.client(key) as limited:
        assert create(limited, url=URL, events=kinds)["deniedEvents"] == denied


DISABLED: dict[str, tuple[dict[str, Any], str]] = {
    "no address": ({}, "url_missing"),
    "an address that is null": ({"url": None}, "url_missing"),
    "an address that is no text": ({"url": [URL]}, "url_missing"),
    "a private address": ({"url": "https://10.0.0.1/hooks"}, "url_not_allowed"),
    "not enabled": ({"url": URL, "enabled": False}, "not_enabled"),
    "neither allowed nor enabled": ({"url": "ftp://x", "enabled": False}, "url_not_allowed"),
}


@in_turn(("body", "reason"), DISABLED.values(), ids=DISABLED)
def test_an_endpoint_that_cannot_be_called_is_disabled_and_has_a_reason(
    client: httpx.Client, body: dict[str, Any], reason: str
) -> None:
    endpoint = create(client, **body)
    assert (endpoint["status"], endpoint["disabledReason"]) == ("Disabled", reason)
    listed = client.get(WEBHOOKS).json()["data"]["endpoints"][0]
    assert listed["disabledReason"] == reason


def test_endpoints_are_listed_newest_first_and_without_their_secrets(
    client: httpx.Client,
) -> None:
    made = [create(client, url=f"{URL}/{number}") for number in range(2)]
    data = client.get(WEBHOOKS).json()["data"]
    shown = [{k: v for k, v in one.items() if not k.startswith("secret")} for one in made]
    assert data == {"endpoints": shown[::-1], "deliveries": []}


def test_a_new_workspace_has_no_endpoints_and_no_deliveries(client: httpx.Client) -> None:
    assert client.get(WEBHOOKS).json()["data"] == {"endpoints": [], "deliveries": []}


def test_the_secret_of_an_endpoint_is_a_placeholder_of_32_bytes_shown_once(
    client: httpx.Client,
) -> None:
    first, second = create(client, url=URL), create(client, url=URL)
    assert first["secretIsPlaceholder"] is True
    assert len(base64.b64decode(first["secret"].removeprefix("whsec_"), validate=True)) == 32
    assert first["secret"] != second["secret"]
    assert first["secret"] not in client.get(WEBHOOKS).text + client.get("/api/audit-log").text


def test_equal_seeds_give_equal_secrets_and_other_seeds_others(server: Running) -> None:
    secrets = []
    for seed in (4711, 4711, 4712):
        with server.client(server.new_workspace(seed)) as client:
            secrets.append(create(client, url=URL)["secret"])
    assert secrets[0] == secrets[1] != secrets[2]


STRANGE: dict[str, Any] = {
    "null": None,
    "a number": 7,
    "a large number": 10**40,
    "true": True,
    "text": "x",
    "an array": [None, 1, {}],
    "an object": {"url": URL},
    "deep": [[[[{}]]]],
}


@in_turn("value", STRANGE.values(), ids=STRANGE)
@in_turn("member", ["url", "events", "description", "enabled", "retryProfile", "secret", "id"])
def test_a_strange_value_of_an_endpoint_is_never_an_error(
    client: httpx.Client, member: str, value: Any
) -> None:
    endpoint = create(client, **{"url": URL, member: value})
    assert endpoint["status"] == ("Disabled" if member == "url" else "Enabled")
    assert endpoint["id"].startswith("whe_sandbox_")
    assert endpoint["secret"].startswith("whsec_")


@in_turn("path", [WEBHOOKS, TEST])
@in_turn("body", [b"[]", b"null", b"", b"{"], ids=["list", "null", "none", "cut"])
def test_a_body_that_is_no_object_is_400(client: httpx.Client, path: str, body: bytes) -> None:
    response = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


# Where deliveries may go

PUBLIC = [
    "https://partner.example/hooks",
    "https://partner.example:443/hooks",
    "https://partner.example:8443/hooks?a=b#c",
    "HTTPS://Partner.Example/hooks",
    "https://93.184.215.14/hooks",
    "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/hooks",
    "https://b\u00fccher.example/hooks",
]
LOOPBACK = [
    "http://localhost/hooks",
    "http://LOCALHOST:9000/hooks",
    "http://127.0.0.1:9000/hooks",
    "https://127.0.0.1/hooks",
    "http://127.1.2.3/hooks",
    "http://[::1]:9000/hooks",
    "http://[::ffff:127.0.0.1]/hooks",
]


@in_turn("local", [True, False])
@in_turn("url", PUBLIC)
def test_https_to_a_public_name_or_address_is_allowed(url: str, local: bool) -> None:
    assert url_problem(url, local=local) is None


@in_turn("url", LOOPBACK)
def test_loopback_is_allowed_where_only_this_machine_can_ask_for_it(url: str) -> None:
    assert url_problem(url, local=True) is None
    assert url_problem(url, local=False) == "url_not_allowed"


OPENED = (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
OPEN_URLS = {
    "http": "http://10.1.2.3/hooks",
    "another port": "https://10.1.2.3:9000/hooks",
    "IPv6": "http://[fd00::7]:9000/hooks",
    "mapped into IPv6": "http://[::ffff:10.1.2.3]/hooks",
    "a name, whose addresses are checked later": "http://receiver:9000/hooks",
    "a name of a local network": "http://receiver.internal/hooks",
}
CLOSED_URLS = {
    "beside the network": "http://10.2.0.1/hooks",
    "loopback": "http://127.0.0.1:9000/hooks",
    "an address in another notation": "http://0x0a010203/hooks",
    "http to a public address": "http://93.184.215.14/hooks",
    "link-local": "http://169.254.169.254/",
    "a user": "http://me@10.1.2.3/",
    "port 0": "http://10.1.2.3:0/",
}


@in_turn("url", OPEN_URLS.values(), ids=OPEN_URLS)
def test_addresses_that_were_opened_on_purpose_are_allowed(url: str) -> None:
    assert url_problem(url, local=False, opened=OPENED) is None
    assert url_problem(url, local=False) == "url_not_allowed"


@in_turn("url", CLOSED_URLS.values(), ids=CLOSED_URLS)
def test_an_opened_network_opens_nothing_else(url: str) -> None:
    assert url_problem(url, local=False, opened=OPENED) == "url_not_allowed"


def test_an_endpoint_in_an_opened_network_is_enabled() -> None:
    settings = replace(FROZEN, host="127.0.0.1", allow_webhooks_to=OPENED)
    with serving(settings) as running, running.client() as client:
        assert create(client, url="http://10.1.2.3:9000/hooks")["status"] == "Enabled"
        assert create(client, url="http://10.2.2.3:9000/hooks")["status"] == "Disabled"


def test_a_forwarded_request_opens_no_loopback_address(server: Running) -> None:
    with server.client(server.new_workspace()) as other:
        body = {"url": "http://127.0.0.1:9/hooks"}
        forwarded = other.post(WEBHOOKS, json=body, headers={"Via": "1.1 proxy"}).json()["data"]
        assert (forwarded["status"], forwarded["disabledReason"]) == ("Disabled", "url_not_allowed")
        path = f"/sandbox/webhooks/{forwarded['id']}/enable"
        assert other.post(path, headers={"Via": "1.1 proxy"}).status_code == 409
        assert other.post(path).status_code == 200


@pytest.mark.parametrize("url", ["http://localhost:9000/x", "http://127.0.0.1/x"])
def test_an_endpoint_on_loopback_is_enabled_on_a_local_server(
    client: httpx.Client, url: str
) -> None:
    assert create(client, url=url)["status"] == "Enabled"


# Signatures


def test_the_published_vector_is_signed_as_published() -> None:
    body = (
        '{"id":"evt_sandbox_0001","type":"invoice.verified","timestamp":"2026-11-21T09:30:00Z",'
        '"mode":"sandbox_mock","data":{"id":"inv_sandbox_0001","registryId":"reg_sandbox_0001",'
        '"status":"Verified","sellerId":"org_seller_acme","debtorId":"org_debtor_globex",'
        '"invoiceNumber":"INV-2026-0042","amount":12500.5,"currency":"EUR",'
        '"issueDate":"2026-10-01","dueDate":"2026-12-30"}}'
    )
    signature = sign(SAMPLE_SECRET, "evt_sandbox_0001", 1795253400, body.encode())
    assert signature == "v1,6hFPojmQ5/fWOu4LtU09e990MHSXtRmSllUZS20XoF8="


@pytest.mark.parametrize("payload", ["", "{}", '{"a":"\u00e4\u20ac\U0001f600"}', "x" * 20_000])
def test_signatures_are_those_of_the_official_library(payload: str) -> None:
    secret = placeholder_secret("7", "whe_sandbox_0001")
    when = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
    official = Webhook(secret).sign("evt_1", when, payload)
    assert sign(secret, "evt_1", int(when.timestamp()), payload.encode()) == official


@pytest.mark.parametrize("secret", ["", "abc", "whsec_*", "whsec_a"], ids=repr)
def test_what_is_no_signing_secret_signs_nothing(secret: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  its words are base64's own
        sign(secret, "evt_1", 1, b"{}")


# Samples


def test_the_official_library_accepts_a_sample(today: Running) -> None:
    with today.client() as client:
        secret = create(client, url=URL)["secret"]
        request = sample(client)["request"]
    assert Webhook(secret).verify(request["body"], request["headers"])["mode"] == "sandbox_mock"


CHANGES: dict[str, tuple[str, str]] = {
    "another id": ("webhook-id", "evt_other"),
    "another second": ("webhook-timestamp", ""),
    "another signature": ("webhook-signature", f"v1,{'A' * 43}="),
}


@pytest.mark.parametrize(("header", "value"), CHANGES.values(), ids=CHANGES)
def test_the_official_library_rejects_a_changed_sample(
    today: Running, header: str, value: str
) -> None:
    with today.client() as client:
        secret = create(client, url=URL)["secret"]
        request = sample(client)["request"]
    other = value or str(int(request["headers"]["webhook-timestamp"]) + 1)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(request["body"], {**request["headers"], header: other})


def test_a_sample_reports_what_is_sent_to_which_endpoint(client: httpx.Client) -> None:
    endpoint = create(client, url=URL)
    response = sample(client)
    assert (response["endpointId"], response["simulated"]) == (endpoint["id"], True)
    request = response["request"]
    assert (request["method"], request["headers"]["content-type"]) == ("POST", "application/json")
    assert request["headers"]["user-agent"] == f"InvoiceLiquiditySandbox-Webhooks/{__version__}"
    assert request["headers"]["webhook-id"] == event(response)["id"]
    assert request["headers"]["webhook-timestamp"] == "1795426200"


def test_the_payload_is_the_invoice_as_get_returns_it_with_three_members(
    client: httpx.Client,
) -> None:
    invoice = client.post("/api/invoices", json=INVOICE).json()["data"]
    payload = event(sample(client, invoiceId=invoice["id"]))
    shown = client.get(f"/api/invoices/{invoice['id']}").json()
    assert payload.pop("id").startswith("evt_sandbox_")
    assert payload.pop("type") == "invoice.verified"
    assert payload.pop("timestamp") == "2026-11-23T09:30:00Z"
    assert payload == {"data": shown["data"], "mode": shown["mode"]}


def test_a_sample_about_a_request_is_about_the_newest_one_of_the_invoice(
    client: httpx.Client,
) -> None:
    for number in (1, 2, 3):
        invoice = f"inv_sandbox_000{number + 2}"
        given = sample(client, eventType="financing_request.created", invoiceId=invoice)
        assert event(given)["data"]["id"] == f"freq_sandbox_000{number}"


def test_a_sample_about_an_endpoint_is_the_newest_one_whatever_the_invoice(
    client: httpx.Client,
) -> None:
    endpoint = create(client, url=URL)
    invoice = client.post("/api/invoices", json=INVOICE).json()["data"]["id"]
    given = sample(client, eventType="webhook_endpoint.disabled", invoiceId=invoice)
    assert event(given)["data"]["id"] == endpoint["id"]


def test_an_invoice_s_digits_are_signed_and_sent_as_they_are_stored(client: httpx.Client) -> None:
    raw = json.dumps(INVOICE).replace("10000", "12500.500")
    headers = {"Content-Type": "application/json"}
    client.post("/api/invoices", content=raw, headers=headers)
    assert '"amount":12500.500,' in sample(client)["request"]["body"]


def test_without_an_endpoint_nothing_is_fired_and_the_sample_is_signed_all_the_same(
    today: Running,
) -> None:
    with today.client(today.new_workspace()) as client:
        response = sample(client)
    assert (response["webhookFired"], response["endpointId"]) == (False, None)
    payload = Webhook(SAMPLE_SECRET).verify(
        response["request"]["body"], response["request"]["headers"]
    )
    assert payload["data"]["status"] == "Verified"


def test_without_a_choice_it_is_the_newest_endpoint_and_the_newest_invoice(
    client: httpx.Client,
) -> None:
    create(client, url=URL)
    newest = create(client, url=URL)
    client.post("/api/invoices", json=INVOICE)
    invoice = client.post("/api/invoices", json={**INVOICE, "amount": 5}).json()["data"]
    response = sample(client)
    assert (response["endpointId"], event(response)["data"]["id"]) == (newest["id"], invoice["id"])


def test_the_endpoint_and_the_type_can_be_chosen(client: httpx.Client) -> None:
    chosen = create(client, url=URL)
    create(client, url=URL)
    response = sample(client, endpointId=chosen["id"], eventType="offer.received")
    assert (response["endpointId"], event(response)["type"]) == (chosen["id"], "offer.received")
    official = Webhook(chosen["secret"])
    headers = response["request"]["headers"]
    second = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    expected = official.sign(headers["webhook-id"], second, response["request"]["body"])
    assert headers["webhook-signature"] == expected


def test_a_sample_is_never_sent_to_an_address_in_the_body(client: httpx.Client) -> None:
    response = sample(client, url="http://127.0.0.1:9/never")
    assert (response["endpointId"], response["webhookFired"]) == (None, False)
    assert "127.0.0.1" not in json.dumps(response)


@in_turn("value", STRANGE.values(), ids=STRANGE)
@in_turn("member", ["endpointId", "eventType", "invoiceId", "deliver", "url"])
def test_a_strange_value_of_a_test_is_never_an_error(
    client: httpx.Client, member: str, value: Any
) -> None:
    response = sample(client, **{member: value})
    kind = value if member == "eventType" and isinstance(value, str) else "invoice.verified"
    assert event(response)["type"] == kind
    assert response["simulated"] is True


def test_the_second_of_the_signature_is_real_even_when_the_clock_stands_still() -> None:
    with serving() as running, closing(running.client()) as client:
        running.system_clock.instant += timedelta(days=1)
        response = sample(client)
    assert response["request"]["headers"]["webhook-timestamp"] == str(1795426200 + 86_400)
    assert event(response)["timestamp"] == "2026-11-23T09:30:00Z"


@in_turn("rest", ["../../api/auth/login", "x/../../workspaces", "%2e%2e", "x?y", "x#y", ""])
@in_turn("place", ["inbox", "listening"])
def test_the_server_s_own_addresses_lead_nowhere_else(rest: str, place: str) -> None:
    base = "http://0.0.0.0:8080"
    assert is_own_address(f"{base}/sandbox/{place}/a1_b-2", base)
    assert not is_own_address(f"{base}/sandbox/{place}/{rest}", base)
    assert not is_own_address(f"http://9.0.0.0:8080/sandbox/{place}/a1_b-2", base)


@pytest.mark.parametrize(
    ("body", "warning"),
    [
        ({"url": "localhost:9000"}, "did you mean http://localhost:9000?"),
        ({"url": "partner.example/h"}, "did you mean https://partner.example/h?"),
        ({"url": "http://partner.example/h"}, "did you mean https://partner.example/h?"),
        ({"url": "https://partner.example:9000/h"}, "see the addresses in docs/webhooks.md"),
        ({}, "without a url nothing is delivered"),
        ({"url": URL, "events": ["invoice.verfied"]}, "did you mean invoice.verified?"),
        ({"url": URL, "event": ["invoice.verified"]}, "did you mean events?"),
        ({"url": URL, "events": ["invoice.*"]}, None),
    ],
)
def test_a_new_endpoint_says_what_of_it_has_no_effect(
    client: httpx.Client, body: Any, warning: str | None
) -> None:
    endpoint = data(client.post("/api/webhooks", json=body), 201)
    warnings = endpoint.get("warnings", [])
    assert [one.endswith(warning) or warning in one for one in warnings] == [True] * bool(warning)
