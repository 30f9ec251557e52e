"""Indicative offers: worked out exactly, on open requests only."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.cases import in_turn
from tests.scenario_run import INVOICE, JSON, error, verified

OFFERS = "/api/offers"
ALDER, BIRCH = "ptn_sandbox_alder", "ptn_sandbox_birch"
RATES: dict[str, Any] = {
    "partnerId": ALDER,
    "advanceRate": 0.85,
    "discountFee": {"annualRate": 0.09},
    "serviceFee": {"rate": 0.0025},
}
"""The worked example: 85 %, 9 % a year, 0.25 %."""


def requested(client: httpx.Client, **members: Any) -> Any:
    """An open financing request, on an invoice that is due in 60 days."""
    return open_request(client, verified(client, **members))


def open_request(client: httpx.Client, invoice: Any, **body: Any) -> Any:
    response = client.post("/api/financing-requests", json={"invoiceId": invoice["id"], **body})
    assert response.json()["data"]["status"] == "Routed", response.text
    return response.json()["data"]


def offer(client: httpx.Client, **body: Any) -> Any:
    response = client.post(OFFERS, json=body)
    assert response.status_code == 201, response.text
    return response.json()["data"]


def status(client: httpx.Client, request: Any) -> tuple[str, str]:
    """Status of the request and of its invoice."""
    listed = client.get("/api/financing-requests").json()["data"]
    (found,) = (one for one in listed if one["id"] == request["id"])
    invoice = client.get(f"/api/invoices/{request['invoiceIds'][0]}").json()["data"]
    return found["status"], invoice["status"]


def test_the_worked_example_comes_out_to_the_cent(client: httpx.Client) -> None:
    requested(client)
    made = offer(client, **RATES)
    assert (made["faceValue"], made["advanceRate"]) == (10000, 0.85)
    assert (made["advanceAmount"], made["reserveAmount"]) == (8500, 1500)
    assert made["discountFee"] == {
        "annualRate": 0.09,
        "dayCount": "ACT/360",
        "tenorDays": 60,
        "amount": 127.5,
    }
    assert made["serviceFee"] == {"rate": 0.0025, "amount": 25}
    assert made["netProceeds"] == 8347.5


def test_every_other_member_that_is_left_out_has_its_default(client: httpx.Client) -> None:
    request = requested(client)
    made = offer(client, partnerId=ALDER)
    assert made["id"].startswith("off_sandbox_")
    figures = "id faceValue advanceRate advanceAmount reserveAmount discountFee serviceFee"
    for name in [*figures.split(), "netProceeds"]:
        del made[name]
    assert made == {
        "financingRequestId": request["id"],
        "invoiceId": request["invoiceIds"][0],
        "partnerId": ALDER,
        "offerType": "Indicative",
        "status": "Received",
        "currency": "EUR",
        "recourse": "Recourse",
        "lateInterest": {"annualRate": 0.09, "dayCount": "ACT/360"},
        "recoursePeriodDays": 90,
        "product": "Factoring",
        "disclosure": "Disclosed",
        "noticeOfAssignmentRequired": True,
        "validUntil": "2026-11-26T09:30:00Z",
        "conditions": [],
        "createdAt": "2026-11-23T09:30:00Z",
    }


def test_the_rates_of_an_offer_are_its_partner_s_unless_it_says_otherwise(
    client: httpx.Client,
) -> None:
    requested(client)
    made = offer(client)
    assert made["advanceRate"] == 0.85
    assert 0 < made["discountFee"]["annualRate"] < 1
    assert 0 <= made["serviceFee"]["rate"] < 1


def test_the_first_demo_partner_offers_when_no_partner_is_named(client: httpx.Client) -> None:
    requested(client)
    configured = client.get("/api/partners").json()["data"]
    assert offer(client)["partnerId"] == configured[-1]["id"]


MEMBERS: dict[str, tuple[str, Any]] = {
    "partnerId": ("partnerId", BIRCH),
    "advanceRate": ("advanceRate", 0.9),
    "Recourse": ("recourse", "Recourse"),
    "NonRecourse": ("recourse", "NonRecourse"),
    "LimitedRecourse": ("recourse", "LimitedRecourse"),
    "recoursePeriodDays": ("recoursePeriodDays", 30),
    "Factoring": ("product", "Factoring"),
    "InvoiceDiscounting": ("product", "InvoiceDiscounting"),
    "ReverseFactoring": ("product", "ReverseFactoring"),
    "Disclosed": ("disclosure", "Disclosed"),
    "Confidential": ("disclosure", "Confidential"),
    "validUntil": ("validUntil", "2026-12-03T12:00:00Z"),
    "conditions": ("conditions", ["Debtor confirmation on file"]),
}


@pytest.mark.parametrize(("member", "value"), MEMBERS.values(), ids=MEMBERS)
def test_a_member_that_is_sent_is_kept(client: httpx.Client, member: str, value: Any) -> None:
    requested(client)
    made = offer(client, **{member: value})
    assert made[member] == value
    assert client.get(OFFERS).json()["data"][0] == made


@pytest.mark.parametrize(("disclosure", "notice"), [("Disclosed", True), ("Confidential", False)])
def test_a_disclosed_offer_requires_notice_of_assignment(
    client: httpx.Client, disclosure: str, notice: bool
) -> None:
    assert offer(client, disclosure=disclosure)["noticeOfAssignmentRequired"] is notice


def test_an_offer_takes_the_options_of_its_request(client: httpx.Client) -> None:
    invoice = verified(client)
    options = {"product": "InvoiceDiscounting", "disclosure": "Confidential"}
    body = {"invoiceId": invoice["id"], "recoursePreference": "NonRecourse", **options}
    asked = client.post("/api/financing-requests", json=body).json()["data"]
    assert asked["status"] == "Routed", "one demo partner takes everything"
    made = offer(client)
    assert (made["recourse"], made["noticeOfAssignmentRequired"]) == ("NonRecourse", False)
    assert {name: made[name] for name in options} == options


OF_TEN_THOUSAND = ["85000", "15000", "1275", "250", "83475"]
"""The worked figures in tenths."""
FIGURES: dict[str, tuple[str, str, list[str]]] = {
    # amount, currency: advance, reserve, discount fee, service fee, net proceeds
    "EUR": ("12500.50", "EUR", ["10625.43", "1875.07", "159.38", "31.25", "10434.80"]),
    "JPY has no digits": ("12345", "JPY", ["10493", "1852", "157", "31", "10305"]),
    "BHD has three": (
        "12500.5",
        "BHD",
        ["10625.425", "1875.075", "159.381", "31.251", "10434.793"],
    ),
    "unknown currency": ("10000", "beads", ["8500.00", "1500.00", "127.50", "25.00", "8347.50"]),
    "lower case": ("12345", "jpy", ["10493", "1852", "157", "31", "10305"]),
    "forty digits": (f"1{'0' * 39}", "EUR", [f"{one}{'0' * 34}.00" for one in OF_TEN_THOUSAND]),
    "1e300": ("1e300", "EUR", [f"{one}{'0' * 295}.00" for one in OF_TEN_THOUSAND]),
}


@pytest.mark.parametrize(("amount", "currency", "figures"), FIGURES.values(), ids=FIGURES)
def test_figures_are_exact_to_the_minor_unit_of_the_currency(
    client: httpx.Client, amount: str, currency: str, figures: list[str]
) -> None:
    requested(client, amount=Decimal(amount), currency=currency)
    response = client.post(OFFERS, json=RATES)
    assert response.status_code == 201
    advance, reserve, discount, service, net = figures
    assert f'"advanceAmount":{advance},"reserveAmount":{reserve},' in response.text
    assert f'"tenorDays":60,"amount":{discount}' in response.text
    assert (
        f'"serviceFee":{{"rate":0.0025,"amount":{service}}},"netProceeds":{net},' in response.text
    )


@pytest.mark.parametrize("rate", ["0", "1", "1e-300", "1e-400000", f"0.{'3' * 500}"])
def test_no_rate_is_too_small_or_too_long_to_be_worked_out(client: httpx.Client, rate: str) -> None:
    request = requested(client)
    about = f'"financingRequestId": "{request["id"]}"'
    body = f'{{{about}, "discountFee": {{"annualRate": {rate}}}}}'
    assert client.post(OFFERS, content=body, headers=JSON).status_code == 201
    body = f'{{{about}, "advanceRate": {rate}}}'
    response = client.post(OFFERS, content=body, headers=JSON)
    if response.status_code == 409:
        assert float(rate) < 1e-6
    else:
        data = response.json()["data"]
        assert data["advanceAmount"] + data["reserveAmount"] == 10000


DUE = {"in thirty days": ("2026-12-23", 30), "today": ("2026-11-23", 0), "never": (None, 60)}


@pytest.mark.parametrize(("due", "tenor"), DUE.values(), ids=DUE)
def test_the_tenor_runs_until_the_due_date_and_without_one_sixty_days(
    client: httpx.Client, due: str | None, tenor: int
) -> None:
    body = {**INVOICE, "dueDate": due} if due else INVOICE
    invoice = client.post("/api/invoices", json=body).json()["data"]
    client.post("/api/verification/run", json={"invoiceId": invoice["id"]})
    client.post("/api/financing-requests", json={"invoiceId": invoice["id"]})
    made = offer(client, invoiceId=invoice["id"])
    assert made["discountFee"]["tenorDays"] == tenor


def test_the_first_offer_moves_request_and_invoice_and_a_further_one_leaves_them(
    client: httpx.Client,
) -> None:
    request = requested(client)
    assert status(client, request) == ("Routed", "FinancingRequested")
    first = offer(client, partnerId=ALDER)
    assert status(client, request) == ("OffersReceived", "Offered")
    second = offer(client, partnerId=BIRCH)
    assert status(client, request) == ("OffersReceived", "Offered")
    assert (first["status"], second["status"]) == ("Received", "Received")


def test_each_offer_is_audited_as_recorded_and_received(
    client: httpx.Client,
) -> None:
    request = requested(client)
    made = offer(client)
    invoice = {"targetId": request["invoiceIds"][0], "action": "offer.received"}
    (received,) = client.get("/api/audit-log", params=invoice).json()["data"]
    assert received["metadata"]["offerId"] == made["id"]
    (recorded,) = client.get("/api/audit-log", params={"targetId": made["id"]}).json()["data"]
    assert recorded["action"] == "offer.recorded"


def test_an_offer_goes_by_default_to_the_newest_open_request(client: httpx.Client) -> None:
    requested(client)
    newest = requested(client, invoiceNumber="OFF-2")
    no_match = {"invoiceId": verified(client, currency="beads")["id"], "partnerIds": [ALDER]}
    closed = client.post("/api/financing-requests", json=no_match).json()["data"]
    assert closed["status"] == "NoMatch"
    assert offer(client)["financingRequestId"] == newest["id"]


@pytest.mark.parametrize("member", ["financingRequestId", "invoiceId"])
def test_an_offer_goes_to_the_request_that_is_named(client: httpx.Client, member: str) -> None:
    named = requested(client)
    requested(client, invoiceNumber="OFF-2")
    value = named["id"] if member == "financingRequestId" else named["invoiceIds"][0]
    made = offer(client, **{member: value})
    assert (made["financingRequestId"], made["invoiceId"]) == (named["id"], named["invoiceIds"][0])


def test_without_an_open_request_the_offer_is_synthetic_and_changes_nothing_else(
    client: httpx.Client,
) -> None:
    paths = ("/api/invoices", "/api/financing-requests")
    before = [client.get(path).json() for path in paths]
    made = offer(client, **RATES)
    assert (made["financingRequestId"], made["invoiceId"]) == (None, None)
    assert (made["faceValue"], made["currency"], made["netProceeds"]) == (10000, "EUR", 8347.5)
    assert [client.get(path).json() for path in paths] == before


def test_an_offer_on_a_synthetic_request_moves_that_request_only(client: httpx.Client) -> None:
    request = client.post("/api/financing-requests", json={}).json()["data"]
    made = offer(client)
    assert (made["financingRequestId"], made["invoiceId"]) == (request["id"], None)
    assert client.get("/api/financing-requests").json()["data"][0]["status"] == "OffersReceived"


@pytest.mark.parametrize("member", ["financingRequestId", "invoiceId", "partnerId"])
def test_a_reference_to_nothing_is_404_and_records_nothing(
    client: httpx.Client, member: str
) -> None:
    requested(client)
    before = client.get(OFFERS).json()
    response = client.post(OFFERS, json={member: "abc_sandbox_nowhere_0001"})
    assert error(response) == (404, "resource_not_found")
    assert client.get(OFFERS).json() == before


def test_a_request_that_is_not_open_takes_no_offers(client: httpx.Client) -> None:
    body = {"invoiceId": verified(client, currency="beads")["id"], "partnerIds": [ALDER]}
    closed = client.post("/api/financing-requests", json=body).json()["data"]
    response = client.post(OFFERS, json={"financingRequestId": closed["id"]})
    assert error(response) == (409, "invalid_request")
    assert "NoMatch" in response.json()["error"]["message"]


def test_an_invoice_without_an_open_request_takes_no_offers(client: httpx.Client) -> None:
    invoice = verified(client)
    response = client.post(OFFERS, json={"invoiceId": invoice["id"]})
    assert error(response) == (409, "invalid_request")


def test_a_request_and_an_invoice_that_do_not_belong_together_are_409(
    client: httpx.Client,
) -> None:
    request, other = requested(client), requested(client, invoiceNumber="OFF-2")
    body = {"financingRequestId": request["id"], "invoiceId": other["invoiceIds"][0]}
    assert error(client.post(OFFERS, json=body)) == (409, "invalid_request")


WRONG: dict[str, Any] = {
    "no object": [],
    "financingRequestId is a number": {"financingRequestId": 1},
    "invoiceId is null": {"invoiceId": None},
    "partnerId is a list": {"partnerId": [ALDER]},
    "advanceRate is a string": {"advanceRate": "0.85"},
    "advanceRate is above one": {"advanceRate": 85},
    "discountFee is a number": {"discountFee": 0.09},
    "annualRate is below zero": {"discountFee": {"annualRate": -0.01}},
    "serviceFee is a list": {"serviceFee": []},
    "service rate is above one": {"serviceFee": {"rate": 2}},
    "recourse is another word": {"recourse": "Any"},
    "recoursePeriodDays is no integer": {"recoursePeriodDays": 1.5},
    "recoursePeriodDays is below zero": {"recoursePeriodDays": -1},
    "product is another word": {"product": "Leasing"},
    "disclosure is another word": {"disclosure": "Secret"},
    "validUntil is a day": {"validUntil": "2026-12-03"},
}


@in_turn("body", WRONG.values(), ids=WRONG)
def test_an_impossible_value_is_400(client: httpx.Client, body: Any) -> None:
    assert error(client.post(OFFERS, json=body)) == (400, "invalid_request")


@pytest.mark.parametrize("conditions", ["none", [1], None, ["Debtor confirmation"]], ids=repr)
def test_conditions_are_free_text_and_shown_as_they_were_sent(
    client: httpx.Client, conditions: Any
) -> None:
    assert offer(client, conditions=conditions)["conditions"] == conditions


def test_a_member_that_is_unknown_is_ignored(client: httpx.Client) -> None:
    made = offer(client, colour="blue", status="Accepted", offerType="Firm")
    assert (made["status"], made["offerType"]) == ("Received", "Indicative")
    assert "colour" not in made


def test_offers_are_looked_for_by_status_invoice_and_request(client: httpx.Client) -> None:
    first, second = requested(client), requested(client, invoiceNumber="OFF-2")
    made = [offer(client, financingRequestId=one["id"])["id"] for one in (first, second)]

    def found(**params: str) -> list[str]:
        listed = client.get(OFFERS, params=params).json()["data"]
        return [one["id"] for one in listed if one["id"] in made]

    assert found() == found(status="Received") == made[::-1]
    assert found(invoiceId=first["invoiceIds"][0]) == made[:1]
    assert found(financingRequestId=second["id"]) == made[1:]
    assert found(financingRequestId=second["id"], invoiceId=first["invoiceIds"][0]) == []
    assert client.get(OFFERS, params={"status": "Nonsense"}).json()["data"] == []


def test_the_list_is_newest_first_and_comes_in_pages(client: httpx.Client) -> None:
    for _ in range(3):
        offer(client)
    ids = [one["id"] for one in client.get(OFFERS).json()["data"]]
    page = client.get(OFFERS, params={"limit": 2, "status": "Received"})
    rest = client.get(page.links["next"]["url"]).json()["data"]
    assert [one["id"] for one in page.json()["data"]] == ids[:2]
    assert rest[0]["id"] == ids[2]
    assert "status=Received" in page.links["next"]["url"]


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", ""])
def test_a_page_has_one_to_a_hundred_records(client: httpx.Client, limit: str) -> None:
    assert error(client.get(OFFERS, params={"limit": limit})) == (400, "invalid_request")


def test_a_cursor_that_was_never_given_out_names_an_empty_page(client: httpx.Client) -> None:
    offer(client)
    response = client.get(OFFERS, params={"cursor": "abc"})
    assert (response.status_code, response.json()["data"]) == (200, [])


def test_what_the_engine_keeps_for_itself_is_not_shown(client: httpx.Client) -> None:
    offer(client)
    for shown in client.get(OFFERS).json()["data"]:
        assert not shown.keys() & {"source", "previousStatus"}
