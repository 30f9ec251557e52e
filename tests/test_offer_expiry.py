"""Offers end at their ``validUntil``, and some offers are not made at all."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.fingerprint import minor_units
from domain.pricing import Terms, price
from invoice_sandbox.base.clock import parse_instant
from tests.scenario_run import (
    advance,
    choose,
    data,
    error,
    happened,
    move,
    new_invoice,
    offers,
    replace_runs,
    restore,
    snapshot,
    status,
)

ALDER = "ptn_sandbox_alder"
EVEREST = {"partnerId": "ptn_sandbox_everest"}
LAST = "9000-01-01T00:00:00Z"
"""The instant beyond which no clock goes."""

RATES = st.decimals(0, 1, places=4)


def requested(client: httpx.Client, **members: Any) -> str:
    """The id of a verified invoice with an open financing request."""
    body = new_invoice(dueDate="2027-01-22") | members
    invoice = data(client.post("/api/invoices", json=body), 201)
    data(client.post("/api/verification/run", json={"invoiceId": invoice["id"]}), 200)
    data(client.post("/api/financing-requests", json={"invoiceId": invoice["id"]}), 201)
    return str(invoice["id"])


def offer(client: httpx.Client, invoice_id: str, **body: Any) -> Any:
    return data(client.post("/api/offers", json={"invoiceId": invoice_id, **body}), 201)


def accept(client: httpx.Client, made: Any) -> httpx.Response:
    return client.post(f"/sandbox/offers/{made['id']}/accept")


@pytest.mark.parametrize("scenario", ["manual", "auto-progress", "late-payment", "happy-path"])
def test_an_offer_expires_at_its_valid_until_in_every_scenario(
    client: httpx.Client, scenario: str
) -> None:
    choose(client, scenario)
    invoice_id = requested(client)
    replace_runs(client, "manual")
    made = offer(client, invoice_id)
    advance(client, to="2026-11-26T09:29:59Z")
    assert offers(client, invoice_id)[0]["status"] == "Received"
    advance(client, to=made["validUntil"])
    assert offers(client, invoice_id)[0]["status"] == "Expired"
    assert status(client, invoice_id) == "FinancingRequested"


def test_the_invoice_stays_offered_until_the_last_offer_expires(client: httpx.Client) -> None:
    invoice_id = requested(client)
    offer(client, invoice_id, validUntil="2026-11-24T10:00:00+01:00")
    offer(client, invoice_id, validUntil="2026-11-25T09:00:00Z")
    advance(client, to="2026-11-24T09:00:00Z")
    assert [one["status"] for one in offers(client, invoice_id)] == ["Expired", "Received"]
    assert status(client, invoice_id) == "Offered"
    advance(client, to="2026-11-25T09:00:00Z")
    assert status(client, invoice_id) == "FinancingRequested"


def test_an_accepted_offer_does_not_expire(client: httpx.Client) -> None:
    invoice_id = requested(client)
    made = offer(client, invoice_id)
    assert accept(client, made).status_code == 200
    advance(client, "P30D")
    assert offers(client, invoice_id)[0]["status"] == "Accepted"


def test_an_offer_expires_while_its_invoice_is_disputed(client: httpx.Client) -> None:
    invoice_id = requested(client)
    offer(client, invoice_id)
    move(client, invoice_id, "dispute")
    advance(client, "P3D")
    assert offers(client, invoice_id)[0]["status"] == "Expired"
    assert status(client, invoice_id) == "Disputed"
    move(client, invoice_id, "resolve-dispute")
    assert status(client, invoice_id) == "FinancingRequested"


def test_accepting_an_expired_offer_is_409(client: httpx.Client) -> None:
    invoice_id = requested(client)
    made = offer(client, invoice_id)
    advance(client, "P3D")
    assert error(accept(client, made)) == (409, "invalid_request")


def test_an_offer_is_not_accepted_at_the_instant_at_which_it_ends(client: httpx.Client) -> None:
    """The step that accepts it is due at the same instant, and comes first."""
    invoice_id = requested(client)
    choose(client, "late-payment")
    made = offer(client, invoice_id, validUntil="2026-11-23T09:31:00Z")
    steps = advance(client, to=made["validUntil"])
    assert happened(steps)[-2:] == [
        ("09:31:00", "transition", "skipped"),
        ("09:31:00", "end-validity", "done"),
    ]
    assert offers(client, invoice_id)[0]["status"] == "Expired"


def test_an_offer_with_a_past_valid_until_is_recorded_as_expired(client: httpx.Client) -> None:
    invoice_id = requested(client)
    made = offer(client, invoice_id, validUntil="2026-11-23T09:30:00Z")
    assert made["status"] == "Expired"
    assert status(client, invoice_id) == "FinancingRequested"
    assert error(accept(client, made)) == (409, "invalid_request")


@pytest.mark.parametrize("instant", ["2026-11-26T08:00:01Z", "2031-01-01T00:00:00Z", LAST])
def test_no_offer_is_listed_as_live_after_its_valid_until(
    client: httpx.Client, instant: str
) -> None:
    offer(client, requested(client))
    advance(client, to=instant)
    listed = data(client.get("/api/offers"))
    live = [one for one in listed if one["status"] == "Received"]
    assert live
    assert [one for one in live if parse_instant(one["validUntil"]) <= parse_instant(instant)] == []
    assert data(client.get("/api/offers", params={"status": "Received"})) == live


def test_a_live_offer_of_the_starting_data_ends_with_the_term_of_its_invoice(
    client: httpx.Client,
) -> None:
    advance(client, to="2027-01-22T23:59:59Z")
    saved = snapshot(client)
    assert accept(client, {"id": "off_sandbox_0009"}).status_code == 200
    restore(client, saved)
    advance(client, "PT1S")
    assert error(accept(client, {"id": "off_sandbox_0009"})) == (409, "invalid_request")


def test_an_offer_on_no_invoice_expires_too(client: httpx.Client) -> None:
    made = data(client.post("/api/offers", json={}), 201)
    advance(client, "P3D")
    assert {**made, "status": "Expired"} in data(client.get("/api/offers"))
    assert error(accept(client, made)) == (409, "invalid_request")


def test_nothing_is_accepted_or_offered_for_an_invoice_past_due(client: httpx.Client) -> None:
    invoice_id = requested(client, dueDate="2026-11-24")
    made = offer(client, invoice_id)
    advance(client, "P2D")
    assert error(accept(client, made)) == (409, "invalid_request")
    transition = f"/sandbox/invoices/{invoice_id}/transition"
    assert error(client.post(transition, json={"trigger": "accept-offer"}))[0] == 409
    assert error(client.post("/api/offers", json={"invoiceId": invoice_id}))[0] == 409
    move(client, invoice_id, "decline-offer", "decline-financing")
    assert error(client.post(transition, json={"trigger": "request-financing"}))[0] == 409


@pytest.mark.parametrize(
    ("invoice", "terms", "reason"),
    [
        pytest.param({"dueDate": "2027-05-23"}, {"partnerId": ALDER}, "181 days", id="tenor"),
        pytest.param(
            {"dueDate": "2030-01-01"},
            {**EVEREST, "discountFee": {"annualRate": 1}},
            "net proceeds",
            id="fees above the advance",
        ),
        pytest.param({}, {"advanceRate": 0}, "net proceeds", id="no advance"),
        pytest.param(
            {}, {"advanceRate": 0, "serviceFee": {"rate": 0}}, "be 0.00", id="nothing at all"
        ),
        pytest.param({}, {"serviceFee": {"rate": 1}}, "net proceeds", id="service fee"),
    ],
)
def test_an_offer_that_pays_nothing_or_runs_too_long_is_409(
    client: httpx.Client, invoice: Any, terms: Any, reason: str
) -> None:
    response = client.post("/api/offers", json={"invoiceId": requested(client, **invoice), **terms})
    assert error(response) == (409, "invalid_request")
    assert reason in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("dates", "tenor"),
    [
        pytest.param({"issueDate": "2026-11-03"}, 40, id="from the issue date"),
        pytest.param({}, 60, id="from the registration"),
    ],
)
def test_the_term_without_a_due_date_is_fixed_at_its_start(
    client: httpx.Client, dates: Any, tenor: int
) -> None:
    body = {name: value for name, value in new_invoice(**dates).items() if name != "dueDate"}
    invoice = data(client.post("/api/invoices", json=body), 201)
    data(client.post("/api/verification/run", json={"invoiceId": invoice["id"]}), 200)
    data(client.post("/api/financing-requests", json={"invoiceId": invoice["id"]}), 201)
    assert offer(client, invoice["id"])["discountFee"]["tenorDays"] == tenor
    advance(client, "P10D")
    assert offer(client, invoice["id"])["discountFee"]["tenorDays"] == tenor - 10


@given(
    amount=st.decimals(-(10**12), 10**12, allow_nan=False, allow_infinity=False),
    currency=st.sampled_from(["JPY", "EUR", "KWD", "CLF", "shells"]),
    rates=st.tuples(RATES, RATES, RATES),
    days=st.integers(0, 4000),
)
def test_advance_and_reserve_are_the_face_value_in_minor_units(
    amount: Any, currency: str, rates: Any, days: int
) -> None:
    figures = price(amount, currency, days, Terms(*rates))
    assert figures.advance + figures.reserve == figures.face_value
    amounts = (figures.advance, figures.reserve, figures.face_value, figures.net_proceeds)
    assert {-int(one.as_tuple().exponent) for one in amounts} == {minor_units(currency)}


@pytest.mark.parametrize(
    ("amount", "currency", "face_value"),
    [(1000.5, "JPY", 1001), (1234.5678, "KWD", 1234.568), (100.005, "EUR", 100.01)],
)
def test_the_face_value_of_an_offer_has_the_digits_of_the_currency(
    client: httpx.Client, amount: float, currency: str, face_value: float
) -> None:
    invoice_id = requested(client, amount=amount, currency=currency)
    made = offer(client, invoice_id, **EVEREST)
    assert made["faceValue"] == face_value
