"""The scenarios in which responses go wrong, keys end, and strict bounds hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.cases import in_turn
from tests.scenario_run import DATED, choose, offers, register
from tests.support import FROZEN, Running, serving

Responses = list[tuple[int, str | None, str | None]]
"""Of each request in turn: the status, the code of the error, and Retry-After."""

LIMITED = (429, "rate_limit_exceeded", "1")
CLOSED = (503, "service_unavailable", "1")
FAILED = (500, "internal_error", None)
GOOD = (200, None, None)

SCENARIO_TABLE: dict[str, Responses] = {
    "rate-limited": [LIMITED, LIMITED, LIMITED, GOOD, GOOD],
    "maintenance-5xx": [CLOSED, CLOSED, FAILED, GOOD, GOOD],
}


def responded(client: httpx.Client, times: int, path: str = "/api/invoices") -> Responses:
    """What so many requests in a row get."""
    return [outcome(client.get(path)) for _ in range(times)]


def outcome(response: httpx.Response) -> tuple[int, str | None, str | None]:
    error = response.json().get("error")
    if error is not None:
        assert set(error) == {"code", "message", "requestId"}
        assert response.headers["x-request-id"] == error["requestId"]
    return response.status_code, error and error["code"], response.headers.get("retry-after")


def by_workspace(client: httpx.Client, name: str) -> None:
    choose(client, name)


def by_request(client: httpx.Client, name: str) -> None:
    client.headers["X-Sandbox-Scenario"] = name


Begun = Callable[[httpx.Client, str], None]
WAYS: list[Begun] = [by_workspace, by_request]


@pytest.mark.parametrize("begun", WAYS)
@pytest.mark.parametrize("name", SCENARIO_TABLE)
def test_responses_fail_as_configured_and_then_all_is_well(
    client: httpx.Client, name: str, begun: Begun
) -> None:
    begun(client, name)
    assert responded(client, 5) == SCENARIO_TABLE[name]


def test_a_server_may_be_started_with_the_scenario() -> None:
    settings = replace(FROZEN, scenario="maintenance-5xx")
    with serving(settings) as server, server.client() as client:
        assert responded(client, 5) == SCENARIO_TABLE["maintenance-5xx"]


@pytest.mark.parametrize("name", SCENARIO_TABLE)
def test_only_requests_that_name_the_scenario_meet_it(client: httpx.Client, name: str) -> None:
    named = {"X-Sandbox-Scenario": name}
    for expected in SCENARIO_TABLE[name]:
        assert outcome(client.get("/api/offers")) == GOOD
        assert outcome(client.get("/api/offers", headers=named)) == expected


@pytest.mark.parametrize("name", SCENARIO_TABLE)
def test_what_is_rejected_changes_nothing(client: httpx.Client, name: str) -> None:
    choose(client, name)
    bad = [one for one in SCENARIO_TABLE[name] if one != GOOD]
    for expected in bad:
        assert outcome(client.post("/api/invoices", json=DATED)) == expected
    register(client)
    listed = client.get("/api/invoices", params={"debtorId": str(DATED["debtorId"])}).json()["data"]
    assert [one["invoiceNumber"] for one in listed].count(DATED["invoiceNumber"]) == 1


@pytest.mark.parametrize("name", SCENARIO_TABLE)
def test_no_fault_is_injected_into_the_control_api(client: httpx.Client, name: str) -> None:
    choose(client, name)
    assert responded(client, 2, "/sandbox/scenarios") == [GOOD, GOOD]
    assert responded(client, 1) == SCENARIO_TABLE[name][:1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rate-limited", [LIMITED, GOOD]),
        ("maintenance-5xx", [CLOSED, FAILED, GOOD]),
    ],
)
def test_a_run_may_change_how_many_are_rejected(
    client: httpx.Client, name: str, expected: Responses
) -> None:
    choose(client, name, rejections=1)
    assert responded(client, len(expected)) == expected


# A slow response


def post(client: httpx.Client, key: str | None = "once") -> httpx.Response:
    """An invoice, by a request that can be repeated."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/api/invoices", json=DATED, headers=headers)


def count(client: httpx.Client) -> int:
    listed = client.get("/api/invoices").json()["data"]
    return [one["invoiceNumber"] for one in listed].count(DATED["invoiceNumber"])


@pytest.mark.parametrize("begun", WAYS)
def test_the_response_is_slow_once_and_the_repeated_request_is_not_carried_out_again(
    server: Running, client: httpx.Client, begun: Begun
) -> None:
    begun(client, "slow-api")
    waited = server.system_clock.seconds
    first, second = post(client), post(client)
    assert server.system_clock.seconds - waited == 8
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert count(client) == 1


def test_the_invoice_is_there_before_the_slow_response_is_sent(client: httpx.Client) -> None:
    choose(client, "slow-api")
    post(client)
    assert count(client) == 1


def test_a_client_that_repeats_without_a_key_has_a_suspected_duplicate(
    client: httpx.Client,
) -> None:
    choose(client, "slow-api")
    statuses = [post(client, key=None).json()["data"]["status"] for _ in range(2)]
    assert statuses == ["Registered", "DuplicateSuspected"]


def test_a_run_may_change_the_delay(server: Running, client: httpx.Client) -> None:
    choose(client, "slow-api", delay="PT0.5S")
    waited = server.system_clock.seconds
    post(client)
    assert server.system_clock.seconds - waited == 0.5


def test_other_requests_are_as_fast_as_ever(server: Running, client: httpx.Client) -> None:
    choose(client, "slow-api")
    waited = server.system_clock.seconds
    assert responded(client, 3) == [GOOD] * 3
    assert server.system_clock.seconds == waited


# A key that ends


def new_key(client: httpx.Client, *scopes: str) -> Any:
    """Another key of the same workspace."""
    response = client.post("/api/developer/api-keys", json={"scopes": list(scopes)})
    assert response.status_code == 201, response.text
    return response.json()["data"]


def keys(client: httpx.Client) -> dict[str, str]:
    """The status of every key."""
    listed = client.get("/api/developer/api-keys").json()["data"]
    return {one["id"]: one["status"] for one in listed}


REJECTED = (401, "authentication_required", None)


@pytest.mark.parametrize("begun", WAYS)
def test_the_key_ends_with_the_third_read_of_an_invoice(
    server: Running, client: httpx.Client, begun: Begun
) -> None:
    invoice, key = register(client), new_key(client, "invoices:read")
    path = f"/api/invoices/{invoice['id']}"
    with server.client(key["secret"]) as polling:
        begun(client if begun is by_workspace else polling, "key-revoked-midflow")
        assert responded(polling, 5, path) == [GOOD, GOOD, GOOD, REJECTED, REJECTED]
    assert keys(client)[key["id"]] == "Revoked"
    (event,) = client.get("/api/audit-log", params={"action": "api_key.revoked"}).json()["data"]
    assert event["targets"] == [{"type": "api_key", "id": key["id"]}]
    assert responded(client, 1, path) == [GOOD]


def test_after_the_scenario_a_new_key_lets_the_client_go_on(
    server: Running, client: httpx.Client
) -> None:
    invoice, old = register(client), new_key(client, "invoices:read")
    path = f"/api/invoices/{invoice['id']}"
    choose(client, "key-revoked-midflow", reads=1)
    with server.client(old["secret"]) as polling:
        assert responded(polling, 2, path) == [GOOD, REJECTED]
    with server.client(new_key(client, "invoices:read")["secret"]) as polling:
        assert responded(polling, 4, path) == [GOOD] * 4


def test_the_first_key_of_a_workspace_is_never_revoked(client: httpx.Client) -> None:
    invoice = register(client)
    before = keys(client)
    choose(client, "key-revoked-midflow")
    assert responded(client, 5, f"/api/invoices/{invoice['id']}") == [GOOD] * 5
    assert keys(client) == before


# A scope that is missing

FORBIDDEN = (403, "insufficient_scope", None)


@pytest.mark.parametrize("begun", WAYS)
def test_listing_offers_is_forbidden_and_nothing_else(client: httpx.Client, begun: Begun) -> None:
    begun(client, "scope-missing")
    assert responded(client, 4, "/api/offers") == [FORBIDDEN] * 4
    assert responded(client, 1, "/api/invoices") == [GOOD]


def test_offers_can_be_listed_again_once_another_scenario_is_chosen(client: httpx.Client) -> None:
    choose(client, "scope-missing")
    assert responded(client, 1, "/api/offers") == [FORBIDDEN]
    choose(client, "manual")
    assert responded(client, 1, "/api/offers") == [GOOD]


def test_a_key_that_lacks_the_scope_is_treated_alike(server: Running, client: httpx.Client) -> None:
    with server.client(new_key(client, "invoices:read")["secret"]) as lacking:
        assert responded(lacking, 2, "/api/offers") == [FORBIDDEN] * 2


# Strict bounds

OUTSIDE: list[tuple[dict[str, Any], str]] = [
    ({"amount": 0}, "amount: must be above 0"),
    ({"amount": -0.01}, "amount: must be above 0"),
    ({"amount": 10000000000000}, "amount: must be at most 9999999999999.99"),
    ({"amount": 1e300}, "amount: must be at most 9999999999999.99"),
    ({"amount": 10.005}, "amount: must have at most 2 decimals in EUR"),
    ({"amount": 10.5, "currency": "JPY"}, "amount: must have at most 0 decimals in JPY"),
    ({"amount": 1.0005, "currency": "KWD"}, "amount: must have at most 3 decimals in KWD"),
    ({"currency": "EURO"}, "currency: must be an active code of ISO 4217, such as EUR"),
    ({"currency": "DEM"}, "currency: must be an active code of ISO 4217, such as EUR"),
    ({"currency": ""}, "currency: must be an active code of ISO 4217, such as EUR"),
    ({"sellerId": ""}, "sellerId: must have 1 to 128 characters"),
    ({"debtorId": "d" * 129}, "debtorId: must have 1 to 128 characters"),
    ({"invoiceNumber": "n" * 65}, "invoiceNumber: must have 1 to 64 characters"),
    ({"invoiceNumber": "A\n1"}, "invoiceNumber: must be printable"),
    ({"invoiceNumber": "   "}, "invoiceNumber: must not be blank"),
    ({"sellerId": " "}, "sellerId: must not be blank"),
    (
        {"issueDate": "2026-11-04", "dueDate": "2026-11-03"},
        "dueDate: must not be before issueDate",
    ),
]

INSIDE: list[dict[str, Any]] = [
    {"amount": 0.01},
    {"amount": 9999999999999.99},
    {"amount": 10.50, "currency": "eur"},
    {"amount": 100.0, "currency": "JPY"},
    {"amount": 1.005, "currency": "KWD"},
    {"sellerId": "s" * 128, "debtorId": "d" * 128, "invoiceNumber": "n" * 64},
    {"issueDate": "2026-11-03", "dueDate": "2026-11-03"},
    {"issueDate": "2020-01-01", "dueDate": "2020-02-01"},  # past due: it can be registered
]


def words(case: Any) -> str:
    return "-".join(f"{name}={str(value)[:12]!r}" for name, value in case.items())


@in_turn(("members", "problem"), OUTSIDE, ids=[words(one) for one, _ in OUTSIDE])
def test_an_invoice_beyond_a_bound_is_rejected_naming_the_member(
    client: httpx.Client, members: dict[str, Any], problem: str
) -> None:
    choose(client, "strict-validation")
    response = client.post("/api/invoices", json={**DATED, **members})
    assert outcome(response) == (400, "invalid_request", None)
    assert response.json()["error"]["message"].startswith(f"{problem}. ")
    choose(client, "manual")
    register(client, **members)


@pytest.mark.parametrize("members", INSIDE, ids=words)
def test_an_invoice_within_the_bounds_is_registered(
    client: httpx.Client, members: dict[str, Any]
) -> None:
    assert register(client, "strict-validation", **members)["status"] == "Registered"


def test_every_bound_that_is_broken_is_named(client: httpx.Client) -> None:
    body = {**DATED, "amount": 0, "currency": "XYZ", "issueDate": "2027-01-23"}
    headers = {"X-Sandbox-Scenario": "strict-validation"}
    message = client.post("/api/invoices", json=body, headers=headers).json()["error"]["message"]
    assert [one.split(":")[0] for one in message.split("; ")[:3]] == [
        "amount",
        "currency",
        "dueDate",
    ]


PUSH = "/api/connectors/erp/invoices"


@in_turn(("members", "problem"), OUTSIDE, ids=[words(one) for one, _ in OUTSIDE])
def test_what_an_erp_system_pushes_has_the_same_bounds(
    client: httpx.Client, members: dict[str, Any], problem: str
) -> None:
    choose(client, "strict-validation")
    item = {**DATED, **members, "externalId": "E-1"}
    fine = {**DATED, "externalId": "E-2", "invoiceNumber": "E-2"}
    for body, place in (({"invoices": [fine, item]}, "invoices[1]."), (item, "")):
        response = client.post(PUSH, json=body)
        if members.get("amount", 0) < 0:  # a credit note is rejected by item
            assert response.status_code == 202
            continue
        assert outcome(response) == (400, "invalid_request", None)
        assert response.json()["error"]["message"].startswith(f"{place}{problem}. ")
    assert count(client) == 0


def test_a_pushed_item_that_is_not_registered_has_no_bounds(client: httpx.Client) -> None:
    choose(client, "strict-validation")
    paid = {**DATED, "amount": 0, "erpStatus": "Paid"}
    incomplete = {"amount": 0}
    body = {"invoices": [paid, incomplete, 7, {**DATED, "externalId": "E-1"}]}
    assert client.post(PUSH, json=body).status_code == 202
    assert count(client) == 1


def test_a_rejected_invoice_leaves_nothing_behind(client: httpx.Client) -> None:
    choose(client, "strict-validation")
    client.post("/api/invoices", json={**DATED, "amount": 0})
    assert count(client) == 0
    assert register(client)["status"] == "Registered"


def test_scenarios_that_inject_faults_make_no_offers(client: httpx.Client) -> None:
    choose(client, "slow-api")
    assert offers(client, register(client)) == []
