"""Several invoices in one financing request: all or none, and the request follows the last one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.scenario_run import INVOICE, data, error, financing_requests, move, offers, status

REQUESTS = "/api/financing-requests"
ALDER, EVEREST = "ptn_sandbox_alder", "ptn_sandbox_everest"
DUE = {"dueDate": "2027-01-22"}


def verified(client: httpx.Client, number: str, **members: Any) -> Any:
    body = {**INVOICE, **DUE, "invoiceNumber": number, **members}
    invoice = data(client.post("/api/invoices", json=body), 201)
    move(client, invoice, "start-verification", "verify")
    return invoice


def pair(client: httpx.Client, **members: Any) -> tuple[Any, Any]:
    return verified(client, "B-1"), verified(client, "B-2", **members)


def bundle(client: httpx.Client, *invoices: Any, **options: Any) -> Any:
    ids = [one["id"] for one in invoices]
    return data(client.post(REQUESTS, json={"invoiceIds": ids, **options}), 201)


def request_status(client: httpx.Client, invoice: Any) -> str:
    (request,) = financing_requests(client, invoice)
    return str(request["status"])


def test_all_invoices_are_financed_in_one_request(client: httpx.Client) -> None:
    one, two = pair(client, amount=5000)
    request = bundle(client, one, two)
    assert (request["invoiceIds"], request["status"]) == ([one["id"], two["id"]], "Routed")
    assert request["requestedAmount"] == 12750
    assert [status(client, each) for each in (one, two)] == 2 * ["FinancingRequested"]
    assert financing_requests(client, two) == [request]


def test_an_invoice_that_is_named_twice_counts_once(client: httpx.Client) -> None:
    one = verified(client, "B-1")
    assert bundle(client, one, one, invoiceId=one["id"])["invoiceIds"] == [one["id"]]


IMPOSSIBLE: dict[str, tuple[dict[str, Any], int]] = {
    "an unknown invoice": ({"invoiceIds": ["$1", "inv_nowhere"]}, 404),
    "an unknown alias": ({"invoiceIds": ["$1"], "invoiceId": "inv_nowhere"}, 404),
    "an alias that is another invoice": ({"invoiceIds": ["$1"], "invoiceId": "$2"}, 409),
    "an invoice that is not verified": ({"invoiceIds": ["$1", "$3"]}, 409),
    "an invoice past due": ({"invoiceIds": ["$1", "$4"]}, 409),
}


@pytest.mark.parametrize(("body", "code"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_all_or_none(client: httpx.Client, body: dict[str, Any], code: int) -> None:
    one, two = pair(client)
    new = data(client.post("/api/invoices", json={**INVOICE, "invoiceNumber": "B-3"}), 201)
    late = verified(client, "B-4", dueDate="2026-11-22")
    names = {f"${number}": made["id"] for number, made in enumerate((one, two, new, late), 1)}
    sent = {
        member: [names.get(each, each) for each in value]
        if isinstance(value, list)
        else names.get(value, value)
        for member, value in body.items()
    }
    before = client.get(REQUESTS).json(), client.get("/api/audit-log").json()
    assert error(client.post(REQUESTS, json=sent))[0] == code
    assert (client.get(REQUESTS).json(), client.get("/api/audit-log").json()) == before
    assert [status(client, each) for each in (one, two)] == ["Verified", "Verified"]


NO_MATCH: dict[str, tuple[dict[str, Any], str, str]] = {
    "more than the invoices": (
        {"requestedAmount": 15000.01},
        "requestedAmount",
        "REQUESTED_AMOUNT_ABOVE_INVOICE",
    ),
    "another currency": ({"currency": "USD"}, "requestedCurrency", "CURRENCY_DIFFERS_FROM_INVOICE"),
}


@pytest.mark.parametrize(("options", "name", "reason"), NO_MATCH.values(), ids=NO_MATCH)
def test_a_request_that_does_not_fit_its_invoices_matches_nobody_and_says_why(
    client: httpx.Client, options: dict[str, Any], name: str, reason: str
) -> None:
    one, two = pair(client, amount=5000)
    request = bundle(client, one, two, **options)
    assert (request["status"], request["routedPartnerIds"]) == ("NoMatch", [])
    for partner in request["unmatched"]:
        assert {"filter": name, "reason": reason} in partner["failedFilters"]
    assert [status(client, each) for each in (one, two)] == ["Verified", "Verified"]
    assert bundle(client, one, two, requestedAmount=15000)["status"] == "Routed"


def test_invoices_in_two_currencies_match_nobody(client: httpx.Client) -> None:
    request = bundle(client, *pair(client, currency="USD"))
    assert request["status"] == "NoMatch"
    reasons = {one["reason"] for each in request["unmatched"] for one in each["failedFilters"]}
    assert "CURRENCY_DIFFERS_FROM_INVOICE" in reasons


def test_a_currency_in_lower_case_is_the_same(client: httpx.Client) -> None:
    assert bundle(client, verified(client, "B-1"), currency="eur")["status"] == "Routed"


def test_a_partner_must_take_every_invoice(client: httpx.Client) -> None:
    one, two = pair(client, amount=250000.01)
    request = bundle(client, one, two)
    assert request["routedPartnerIds"] == [EVEREST]
    (failed,) = [each for each in request["unmatched"] if each["partnerId"] == ALDER]
    assert failed["failedFilters"] == [{"filter": "amount", "reason": "AMOUNT_OUT_OF_RANGE"}]


def test_every_partner_without_a_match_has_a_reason_in_the_request(client: httpx.Client) -> None:
    request = bundle(client, verified(client, "B-1"))
    partners = {one["id"] for one in data(client.get("/api/partners"))}
    unmatched = {one["partnerId"] for one in request["unmatched"]}
    assert unmatched | set(request["routedPartnerIds"]) == partners
    assert not unmatched & set(request["routedPartnerIds"])


STEPS: dict[str, list[tuple[int, str, str]]] = {
    # the invoice, its trigger, and the status of the request after it
    "one after the other": [
        (0, "receive-offer", "OffersReceived"),
        (0, "accept-offer", "OffersReceived"),
        (1, "receive-offer", "OffersReceived"),
        (1, "accept-offer", "OfferAccepted"),
        (0, "fund", "PartiallyFunded"),
        (1, "fund-partially", "PartiallyFunded"),
        (1, "fund", "Funded"),
        (0, "pay", "Funded"),
        (0, "settle", "Funded"),
        (1, "pay", "Funded"),
        (1, "settle", "Closed"),
    ],
    "one is financed before the other has an offer": [
        (0, "receive-offer", "OffersReceived"),
        (0, "accept-offer", "OffersReceived"),
        (0, "fund", "OffersReceived"),
        (1, "receive-offer", "OffersReceived"),
        (1, "accept-offer", "PartiallyFunded"),
        (1, "fund", "Funded"),
    ],
    "one leaves, the other goes on": [
        (0, "receive-offer", "OffersReceived"),
        (0, "accept-offer", "OffersReceived"),
        (1, "cancel-financing", "OfferAccepted"),
        (0, "fund", "Funded"),
        (0, "pay", "Funded"),
        (0, "settle", "Closed"),
    ],
    "the offers of one end": [
        (0, "receive-offer", "OffersReceived"),
        (1, "receive-offer", "OffersReceived"),
        (0, "decline-offer", "OffersReceived"),
        (1, "expire-offers", "Routed"),
        (0, "withdraw", "Routed"),
        (1, "expire", "Expired"),
    ],
    "one is settled, the other is rejected": [
        (0, "receive-offer", "OffersReceived"),
        (1, "receive-offer", "OffersReceived"),
        (0, "accept-offer", "OffersReceived"),
        (1, "accept-offer", "OfferAccepted"),
        (0, "fund", "PartiallyFunded"),
        (0, "pay", "PartiallyFunded"),
        (0, "settle", "PartiallyFunded"),
        (1, "dispute", "PartiallyFunded"),
        (1, "uphold-dispute-before-funding", "Closed"),
    ],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_the_request_follows_its_invoices(
    client: httpx.Client, steps: list[tuple[int, str, str]]
) -> None:
    invoices = pair(client)
    bundle(client, *invoices)
    for number, trigger, wanted in steps:
        move(client, invoices[number], trigger)
        assert (trigger, request_status(client, invoices[0])) == (trigger, wanted)


def test_an_invoice_that_left_may_be_in_another_request(client: httpx.Client) -> None:
    one, two = pair(client)
    bundle(client, one, two)
    move(client, one, "cancel-financing")
    again = bundle(client, one)
    move(client, one, "receive-offer")
    (made,) = offers(client, one)
    assert made["financingRequestId"] == again["id"]
    listed = {each["id"]: each["status"] for each in data(client.get(REQUESTS))}
    assert (listed[again["id"]], request_status(client, two)) == ("OffersReceived", "Routed")


def test_an_offer_on_the_request_is_on_the_first_invoice_that_can_receive_one(
    client: httpx.Client,
) -> None:
    one, two = pair(client)
    request = bundle(client, one, two)
    move(client, one, "dispute")
    made = data(client.post("/api/offers", json={"financingRequestId": request["id"]}), 201)
    assert made["invoiceId"] == two["id"]


def test_an_offer_names_one_of_the_invoices(client: httpx.Client) -> None:
    one, two = pair(client)
    body = {"financingRequestId": bundle(client, one, two)["id"], "invoiceId": two["id"]}
    assert data(client.post("/api/offers", json=body), 201)["invoiceId"] == two["id"]
    assert [status(client, each) for each in (one, two)] == ["FinancingRequested", "Offered"]


# Offers and mandates


def outside(client: httpx.Client, invoice: Any, **body: Any) -> Any:
    bundle(client, invoice)
    made = data(client.post("/api/offers", json={"invoiceId": invoice["id"], **body}), 201)
    assert made in data(client.get("/api/offers"))
    found = made.get("outsideMandate", [])
    return {one["filter"]: one["reason"] for one in found}


OUTSIDE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "inside": ({}, {}, {}),
    "amount": ({"amount": 250000.01}, {}, {"amount": "AMOUNT_OUT_OF_RANGE"}),
    "currency": ({"currency": "USD"}, {}, {"currency": "CURRENCY_NOT_ELIGIBLE"}),
    "shorter than its shortest": (
        {"dueDate": "2026-11-27"},
        {},
        {"tenor": "TENOR_OUT_OF_RANGE"},
    ),
    "its own terms": (
        {},
        {"recourse": "NonRecourse", "product": "ReverseFactoring", "disclosure": "Confidential"},
        {
            "recourse": "RECOURSE_NOT_OFFERED",
            "product": "PRODUCT_NOT_OFFERED",
            "disclosure": "DISCLOSURE_NOT_OFFERED",
        },
    ),
}


@pytest.mark.parametrize(("members", "body", "reasons"), OUTSIDE.values(), ids=OUTSIDE)
def test_an_offer_outside_the_mandate_is_recorded_and_marked_with_the_reasons(
    client: httpx.Client, members: dict[str, Any], body: dict[str, Any], reasons: dict[str, str]
) -> None:
    invoice = verified(client, "B-1", **members)
    assert outside(client, invoice, partnerId=ALDER, **body) == reasons


def test_an_offer_by_itself_comes_from_a_partner_to_which_the_request_was_routed(
    client: httpx.Client,
) -> None:
    invoice = verified(client, "B-1")
    bundle(client, invoice, partnerIds=[ALDER])
    move(client, invoice, "receive-offer")
    assert [one["partnerId"] for one in offers(client, invoice)] == [ALDER]


def test_a_second_offer_by_itself_comes_from_another_routed_partner(client: httpx.Client) -> None:
    invoice = verified(client, "B-1")
    bundle(client, invoice)
    move(client, invoice, "receive-offer", "receive-offer")
    assert {one["partnerId"] for one in offers(client, invoice)} == {ALDER, EVEREST}
