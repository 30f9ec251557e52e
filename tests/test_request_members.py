"""What a request says counts: every documented member changes something, or is rejected."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx
import pytest

from tests.scenario_run import data, error, financing_requests, move, offers, register
from tests.test_published_contract import MERGED

FIR, CEDAR, EVEREST = "ptn_sandbox_fir", "ptn_sandbox_cedar", "ptn_sandbox_everest"
_NUMBERS = count(1)

REQUEST: dict[str, Any] = {
    "invoiceIds": "other",
    "invoiceId": "other",
    "requestedAmount": 3000,
    "currency": "USD",
    "requestedAdvanceRate": 0.3,
    "product": "ReverseFactoring",
    "recoursePreference": "NonRecourse",
    "disclosure": "Confidential",
    "neededBy": "2026-11-24",
    "partnerIds": [CEDAR],
}
"""By documented member of a financing request: a value unlike its default."""

OFFER: dict[str, Any] = {
    "financingRequestId": "other",
    "invoiceId": "other",
    "partnerId": CEDAR,
    "advanceRate": 0.5,
    "advanceAmount": 3333.33,
    "currency": "USD",
    "faceValue": 1,
    "reserveAmount": 1,
    "netProceeds": 4900,
    "discountFee": {"annualRate": 0.2},
    "serviceFee": {"rate": 0.01},
    "lateInterest": {"annualRate": 0.2},
    "recourse": "NonRecourse",
    "recourseLimit": 0.3,
    "recoursePeriodDays": 10,
    "product": "ReverseFactoring",
    "disclosure": "Confidential",
    "validUntil": "2026-11-23T12:00:00Z",
    "conditions": ["A guarantee"],
}
"""By documented member of an offer: a value unlike its default."""

PARTS: dict[str, list[dict[str, Any]]] = {
    "discountFee": [{"annualRate": 0.2}, {"dayCount": "ACT/365F"}, {"amount": 1}],
    "serviceFee": [{"rate": 0.01}, {"amount": 1}],
    "lateInterest": [{"annualRate": 0.2}, {"dayCount": "ACT/365F"}],
}
CALCULATED = {
    "faceValue": 10000,
    "advanceAmount": 8500,
    "reserveAmount": 1500,
    "netProceeds": 8347.5,
    "currency": "eur",
    "discountFee": {"amount": 127.5, "dayCount": "ACT/360"},
    "serviceFee": {"amount": 25},
}
"""What the default offer has anyway."""


def documented(path: str) -> dict[str, Any]:
    body = MERGED["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    properties: dict[str, Any] = body["schema"]["properties"]
    return properties


def verified(client: httpx.Client) -> str:
    invoice = register(client, invoiceNumber=f"RATE-{next(_NUMBERS)}")
    move(client, invoice, "start-verification", "verify")
    return str(invoice["id"])


def request(client: httpx.Client, **ratees: Any) -> Any:
    body = {"invoiceId": verified(client), **ratees}
    return data(client.post("/api/financing-requests", json=body), 201)


def default_offer(client: httpx.Client, asked: Any) -> Any:
    """The offer of a partner that leaves all terms to its defaults; None: nobody makes one."""
    if asked["status"] != "Routed":
        return None
    move(client, asked["invoiceIds"][0], "receive-offer")
    (offer,) = offers(client, asked["invoiceIds"][0])
    return offer


def unlike(one: Any, other: Any, *but: str) -> bool:
    """True if two records differ in anything but their identity and the members ``but``."""
    identity = {"id", "createdAt", "invoiceIds", "invoiceId", "financingRequestId", *but}
    names = ({*(one or {})} | {*(other or {})}) - identity
    return (one is None) is not (other is None) or any(
        one.get(name) != other.get(name) for name in names
    )


def test_the_tables_have_every_documented_member() -> None:
    assert documented("/api/financing-requests").keys() == REQUEST.keys()
    offer = documented("/api/offers")
    assert offer.keys() == OFFER.keys()
    nested = {name: one["properties"] for name, one in offer.items() if "properties" in one}
    assert {name: {key for part in PARTS[name] for key in part} for name in nested} == {
        name: set(parts) for name, parts in nested.items()
    }


@pytest.mark.parametrize("name", sorted(REQUEST))
def test_every_member_of_a_financing_request_changes_something(
    client: httpx.Client, name: str
) -> None:
    usual, value = request(client), REQUEST[name]
    if value == "other":
        invoice_id = verified(client)
        ratees = {name: [invoice_id] if name.endswith("s") else invoice_id}
        asked = data(client.post("/api/financing-requests", json=ratees), 201)
        assert asked["invoiceIds"] == [invoice_id]
        return
    asked = request(client, **{name: value})
    echo = {name, "requestedAmount"}
    assert unlike(asked, usual, *echo) or unlike(
        default_offer(client, asked), default_offer(client, usual), name
    )


@pytest.mark.parametrize("name", sorted(OFFER))
def test_every_member_of_an_offer_changes_something(client: httpx.Client, name: str) -> None:
    first, second = request(client), request(client)
    for value in PARTS.get(name, [OFFER[name]]):
        if value == "other":
            first_id = first["id"] if name == "financingRequestId" else first["invoiceIds"][0]
            offer = data(client.post("/api/offers", json={name: first_id}), 201)
            assert (offer["financingRequestId"], offer["invoiceId"]) == (
                first["id"],
                first["invoiceIds"][0],
            )
            return
        usual = data(client.post("/api/offers", json={"financingRequestId": second["id"]}), 201)
        more = {"recourse": "LimitedRecourse"} if name == "recourseLimit" else {}
        body = {"financingRequestId": second["id"], name: value, **more}
        response = client.post("/api/offers", json=body)
        if response.status_code == 409:
            assert error(response) == (409, "invalid_request")
            assert name in response.text
        else:
            assert unlike(data(response, 201), usual)


@pytest.mark.parametrize("name", sorted(CALCULATED))
def test_a_calculated_amount_may_be_sent(client: httpx.Client, name: str) -> None:
    asked = request(client, invoiceId=fixture_like(client))
    body = {"financingRequestId": asked["id"], "partnerId": "ptn_sandbox_alder"}
    data(client.post("/api/offers", json={**body, name: CALCULATED[name]}), 201)


def fixture_like(client: httpx.Client) -> str:
    """An invoice over 10,000 EUR that is due in 60 days."""
    return verified(client)


def test_an_advance_amount_is_taken_to_the_cent(client: httpx.Client) -> None:
    asked = request(client)
    body = {"financingRequestId": asked["id"], "advanceAmount": 3333.33}
    offer = data(client.post("/api/offers", json=body), 201)
    assert (offer["advanceAmount"], offer["reserveAmount"]) == (3333.33, 6666.67)
    assert offer["advanceRate"] == 0.333333
    above = client.post("/api/offers", json={**body, "advanceAmount": 10000.01})
    assert error(above) == (409, "invalid_request")


def test_default_offers_advance_no_more_than_the_seller_asks_for(client: httpx.Client) -> None:
    rates: list[tuple[dict[str, Any], float]] = [
        ({"requestedAmount": 3000}, 3000),
        ({"requestedAdvanceRate": 0.3}, 3000),
        ({"requestedAmount": 2000, "requestedAdvanceRate": 0.3}, 2000),
        ({"requestedAmount": 3333.33}, 3333.33),
        ({"requestedAdvanceRate": 1}, 8000),
        ({}, 8000),
    ]
    for ratees, advance in rates:
        asked = request(client, partnerIds=[EVEREST], **ratees)
        assert default_offer(client, asked)["advanceAmount"] == advance, ratees


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"requestedAmount": 9999, "requestedAdvanceRate": 0.3}, "REQUESTED_AMOUNT_ABOVE_ADVANCE_RATE"),
    ({"requestedAmount": 9999, "requestedAdvanceRate": 0}, "NET_PROCEEDS_NOT_POSITIVE"),
    ({"requestedAdvanceRate": 0}, "NET_PROCEEDS_NOT_POSITIVE"),
    ({"requestedAmount": 10001}, "REQUESTED_AMOUNT_ABOVE_INVOICE"),
    ({"neededBy": "2020-01-01"}, "NEEDED_BY_PASSED"),
    ({"neededBy": "2026-11-22"}, "NEEDED_BY_PASSED"),
    ({"currency": "USD"}, "CURRENCY_DIFFERS_FROM_INVOICE"),
]


@pytest.mark.parametrize(("ratees", "reason"), CONTRADICTIONS)
def test_a_rate_that_nobody_can_grant_has_its_reason(
    client: httpx.Client, ratees: dict[str, Any], reason: str
) -> None:
    asked = request(client, **ratees)
    assert asked["status"] == "NoMatch"
    for partner in asked["unmatched"]:
        assert reason in [one["reason"] for one in partner["failedFilters"]], partner


@pytest.mark.parametrize(
    ("day", "until"),
    [
        ("2026-11-23", "2026-11-24T00:00:00Z"),
        ("2026-11-25", "2026-11-26T00:00:00Z"),
        ("2026-11-26", "2026-11-26T09:30:00Z"),
        ("9999-12-31", "2026-11-26T09:30:00Z"),
    ],
)
def test_an_offer_is_valid_no_longer_than_the_advance_is_needed(
    client: httpx.Client, day: str, until: str
) -> None:
    asked = request(client, neededBy=day)
    assert default_offer(client, asked)["validUntil"] == until
    assert financing_requests(client, asked["invoiceIds"][0])[0]["neededBy"] == day
