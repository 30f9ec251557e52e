"""Financing requests: on a verified invoice only, filled up with defaults, routed at once."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.clock import ClockState
from tests.cases import in_turn
from tests.scenario_run import JSON, error, register, status, verified
from tests.support import FROZEN, serving

REQUESTS = "/api/financing-requests"
BIRCH = "ptn_sandbox_birch"
ALDER = "ptn_sandbox_alder"


def ask(client: httpx.Client, **body: Any) -> Any:
    response = client.post(REQUESTS, json=body)
    assert response.status_code == 201, response.text
    return response.json()["data"]


def test_every_member_that_is_left_out_has_its_default(client: httpx.Client) -> None:
    invoice = verified(client, amount=12500.5)
    request = ask(client)
    assert request.pop("id").startswith("freq_sandbox_")
    assert ALDER in request.pop("routedPartnerIds")
    assert all(one["failedFilters"] for one in request.pop("unmatched"))
    assert request == {
        "status": "Routed",
        "invoiceIds": [invoice["id"]],
        "requestedAmount": 10625.43,
        "currency": "EUR",
        "requestedAdvanceRate": 0.85,
        "product": "Factoring",
        "recoursePreference": "Any",
        "disclosure": "Disclosed",
        "createdAt": "2026-11-23T09:30:00Z",
    }


MEMBERS: dict[str, tuple[str, Any]] = {
    "requestedAmount": ("requestedAmount", 9000.5),
    "an amount above the invoice": ("requestedAmount", 10**9),
    "currency": ("currency", "USD"),
    "a currency of no country": ("currency", "beads"),
    "requestedAdvanceRate": ("requestedAdvanceRate", 0.7),
    "an advance rate of nothing": ("requestedAdvanceRate", 0),
    "an advance rate of all": ("requestedAdvanceRate", 1),
    "Factoring": ("product", "Factoring"),
    "InvoiceDiscounting": ("product", "InvoiceDiscounting"),
    "ReverseFactoring": ("product", "ReverseFactoring"),
    "Recourse": ("recoursePreference", "Recourse"),
    "NonRecourse": ("recoursePreference", "NonRecourse"),
    "Any": ("recoursePreference", "Any"),
    "Disclosed": ("disclosure", "Disclosed"),
    "Confidential": ("disclosure", "Confidential"),
    "neededBy": ("neededBy", "2026-12-03"),
}


@pytest.mark.parametrize(("member", "value"), MEMBERS.values(), ids=MEMBERS)
def test_a_member_that_is_sent_is_kept(client: httpx.Client, member: str, value: Any) -> None:
    verified(client)
    request = ask(client, **{member: value})
    assert request[member] == value
    assert client.get(REQUESTS).json()["data"][0] == request


@pytest.mark.parametrize("member", ["invoiceId", "invoiceIds"])
def test_an_invoice_can_be_named_in_two_ways(client: httpx.Client, member: str) -> None:
    named, newer = verified(client), verified(client, invoiceNumber="FIN-2")
    value = named["id"] if member == "invoiceId" else [named["id"], newer["id"]]
    ids = [value] if isinstance(value, str) else value
    assert ask(client, **{member: value})["invoiceIds"] == ids
    financed = "FinancingRequested" if len(ids) == 2 else "Verified"
    assert (status(client, named), status(client, newer)) == ("FinancingRequested", financed)


def test_without_a_named_invoice_it_is_the_newest_verified_one(client: httpx.Client) -> None:
    verified(client)
    newest = verified(client, invoiceNumber="FIN-2")
    register(client, invoiceNumber="FIN-3")
    assert ask(client, invoiceIds=[])["invoiceIds"] == [newest["id"]]


def test_without_a_verified_invoice_of_the_client_it_is_a_synthetic_one(
    client: httpx.Client,
) -> None:
    before = client.get("/api/invoices").json()
    request = ask(client)
    assert (request["invoiceIds"], request["synthetic"]) == ([], True)
    assert (request["requestedAmount"], request["currency"]) == (8500, "EUR")
    assert client.get("/api/invoices").json() == before


def test_the_usual_amount_follows_from_the_advance_rate(client: httpx.Client) -> None:
    verified(client, amount=Decimal("10000.00"))
    assert ask(client, requestedAdvanceRate=0.333)["requestedAmount"] == 3330


AMOUNTS: dict[str, tuple[str, str, str]] = {
    "two digits, half up": ("12500.50", "EUR", "10625.43"),
    "no digits": ("12345", "JPY", "10493"),
    "no digits, half up": ("10", "JPY", "9"),
    "three digits": ("12500.507", "BHD", "10625.431"),
    "unknown currency, two digits": ("12500.50", "beads", "10625.43"),
    "forty digits": (f"1{'0' * 38}1", "EUR", f"85{'0' * 37}.85"),
    "1e300": ("1e300", "EUR", f"85{'0' * 298}.00"),
}


@in_turn(("amount", "currency", "usual"), AMOUNTS.values(), ids=AMOUNTS)
def test_the_usual_amount_is_exact_to_the_minor_unit(
    client: httpx.Client, amount: str, currency: str, usual: str
) -> None:
    verified(client, amount=Decimal(amount), currency=currency)
    response = client.post(REQUESTS, json={})
    assert response.status_code == 201
    assert f'"requestedAmount":{usual},' in response.text


def test_a_request_moves_the_invoice_and_is_audited(client: httpx.Client) -> None:
    invoice = verified(client)
    request = ask(client)
    assert status(client, invoice) == "FinancingRequested"
    events = client.get("/api/audit-log").json()["data"]
    reported = [(one["action"], one["targets"][0]["id"]) for one in reversed(events)]
    assert reported[-3:] == [
        ("financing_request.submitted", request["id"]),
        ("financing_request.created", invoice["id"]),
        ("financing_request.routed", request["id"]),
    ]


def test_a_request_that_fits_no_mandate_gives_the_invoice_back(client: httpx.Client) -> None:
    invoice = verified(client, currency="beads")
    request = ask(client, partnerIds=[ALDER])
    assert (request["status"], request["routedPartnerIds"]) == ("NoMatch", [])
    assert status(client, invoice) == "Verified"
    events = client.get("/api/audit-log", params={"targetId": invoice["id"]}).json()["data"]
    assert [one["action"] for one in events[:2]] == [
        "financing_request.declined",
        "financing_request.created",
    ]


def test_an_invoice_that_was_given_back_can_be_financed_again(client: httpx.Client) -> None:
    invoice = verified(client)
    assert ask(client, partnerIds=[ALDER], product="InvoiceDiscounting")["status"] == "NoMatch"
    assert ask(client, partnerIds=[ALDER])["status"] == "Routed"
    assert status(client, invoice) == "FinancingRequested"


def test_only_the_partners_named_are_asked(client: httpx.Client) -> None:
    verified(client)
    assert ask(client, partnerIds=[ALDER])["routedPartnerIds"] == [ALDER]


UNKNOWN: dict[str, dict[str, Any]] = {
    "invoiceId": {"invoiceId": "inv_sandbox_nowhere_0001"},
    "invoiceIds": {"invoiceIds": ["inv_sandbox_nowhere_0001"]},
    "partnerIds": {"partnerIds": [ALDER, "ptn_sandbox_nobody"]},
}


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN)
def test_a_reference_to_nothing_is_404_and_changes_nothing(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    invoice = verified(client)
    before = client.get(REQUESTS).json()
    assert error(client.post(REQUESTS, json=body)) == (404, "resource_not_found")
    assert (status(client, invoice), client.get(REQUESTS).json()) == ("Verified", before)


def test_an_invoice_that_is_not_verified_is_409(client: httpx.Client) -> None:
    invoice = register(client)
    response = client.post(REQUESTS, json={"invoiceId": invoice["id"]})
    assert error(response) == (409, "invalid_request")
    assert "Registered" in response.json()["error"]["message"]


def test_an_invoice_cannot_be_financed_twice(client: httpx.Client) -> None:
    invoice = verified(client)
    ask(client)
    response = client.post(REQUESTS, json={"invoiceId": invoice["id"]})
    assert error(response) == (409, "invalid_request")


def test_an_invoice_that_is_past_due_is_409() -> None:
    with serving(replace(FROZEN, clock=ClockState("live"))) as live, live.client() as client:
        invoice = verified(client, dueDate="2026-11-23")
        live.system_clock.pass_seconds(86_400)
        response = client.post(REQUESTS, json={"invoiceId": invoice["id"]})
        assert error(response) == (409, "invalid_request")
        assert "2026-11-23" in response.json()["error"]["message"]
        assert ask(client)["synthetic"], "nor is it chosen by default"


def test_an_invoice_that_is_due_today_is_chosen_by_default(client: httpx.Client) -> None:
    invoice = verified(client, dueDate="2026-11-23")
    assert ask(client)["invoiceIds"] == [invoice["id"]]


WRONG: dict[str, str] = {
    "no object": "[]",
    "invoiceIds is a string": '{"invoiceIds": "inv_sandbox_0001"}',
    "invoiceIds holds a number": '{"invoiceIds": [1]}',
    "invoiceId is a number": '{"invoiceId": 1}',
    "invoiceId is null": '{"invoiceId": null}',
    "requestedAmount is a string": '{"requestedAmount": "100"}',
    "requestedAmount is zero": '{"requestedAmount": 0}',
    "requestedAmount is below zero": '{"requestedAmount": -1}',
    "requestedAmount is no double": '{"requestedAmount": 1e400}',
    "currency is a number": '{"currency": 978}',
    "requestedAdvanceRate is above one": '{"requestedAdvanceRate": 1.01}',
    "requestedAdvanceRate is below zero": '{"requestedAdvanceRate": -0.1}',
    "product is another word": '{"product": "Leasing"}',
    "recoursePreference is another word": '{"recoursePreference": "LimitedRecourse"}',
    "disclosure is another word": '{"disclosure": "Secret"}',
    "neededBy is no day": '{"neededBy": "2026-02-30"}',
    "partnerIds is a string": '{"partnerIds": "ptn_sandbox_alder"}',
}


@in_turn("body", WRONG.values(), ids=WRONG)
def test_an_impossible_value_is_400(client: httpx.Client, body: str) -> None:
    response = client.post(REQUESTS, content=body, headers=JSON)
    assert error(response) == (400, "invalid_request")


def test_a_member_that_is_unknown_is_ignored(client: httpx.Client) -> None:
    assert "colour" not in ask(client, colour="blue")


def test_the_list_is_newest_first_and_comes_in_pages(client: httpx.Client) -> None:
    made = [ask(client)["id"] for _ in range(3)]
    everything = client.get(REQUESTS)
    ids = [one["id"] for one in everything.json()["data"]]
    assert ids[:3] == made[::-1]
    assert everything.headers["X-Total-Count"] == str(len(ids))
    first = client.get(REQUESTS, params={"limit": 2})
    assert [one["id"] for one in first.json()["data"]] == ids[:2]
    second = client.get(first.links["next"]["url"])
    assert [one["id"] for one in second.json()["data"]] == ids[2:4]


def test_the_list_of_a_new_workspace_holds_fixtures_only(client: httpx.Client) -> None:
    fixtures = client.get(REQUESTS).json()["data"]
    assert fixtures
    assert all(one["id"].count("_") == 2 for one in fixtures)
    statuses = "Submitted Routed OffersReceived OfferAccepted PartiallyFunded Funded Closed NoMatch"
    assert {one["status"] for one in fixtures} <= {
        *statuses.split(),
        *("Declined", "Cancelled", "Expired"),
    }


def test_what_the_engine_keeps_for_itself_is_not_shown(client: httpx.Client) -> None:
    verified(client)
    ask(client)
    listed = client.get(REQUESTS).json()["data"]
    assert listed
    assert [one for one in listed if one.keys() & {"source", "previousStatus"}] == []


@pytest.mark.parametrize(
    ("wanted", "partner", "reasons"),
    [
        ({}, ALDER, set()),
        ({"recoursePreference": "Recourse"}, ALDER, set()),
        ({"recoursePreference": "NonRecourse"}, ALDER, {"RECOURSE_NOT_OFFERED"}),
        ({"recoursePreference": "NonRecourse"}, BIRCH, {"DISCLOSURE_NOT_OFFERED"}),
        ({"disclosure": "Confidential"}, ALDER, {"DISCLOSURE_NOT_OFFERED"}),
        ({"disclosure": "Confidential"}, BIRCH, set()),
    ],
)
def test_routing_heeds_recourse_and_disclosure(
    client: httpx.Client, wanted: dict[str, str], partner: str, reasons: set[str]
) -> None:
    """Alder offers only recourse and disclosed, Birch both of recourse and only confidential."""
    verified(client)
    request = ask(client, **wanted)
    failed = {
        one["reason"]
        for row in request["unmatched"]
        if row["partnerId"] == partner
        for one in row["failedFilters"]
    }
    assert failed & {"RECOURSE_NOT_OFFERED", "DISCLOSURE_NOT_OFFERED"} == reasons
