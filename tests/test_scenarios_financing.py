"""The scenarios of financing run to the end: offers, payouts, payments, defaults and expiry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.cases import in_turn
from tests.scenario_run import (
    INVOICE,
    advance,
    audited,
    choose,
    data,
    events_about,
    expected,
    financing_requests,
    move,
    offers,
    register,
    run_to_end,
    skipped,
    status,
)
from tests.support import Running

ALDER, CEDAR, EVEREST = "ptn_sandbox_alder", "ptn_sandbox_cedar", "ptn_sandbox_everest"

REQUESTED = """
    PT0S        invoice.registered               Registered
    PT1S        invoice.verification_started     VerificationPending
    PT2S        invoice.verified                 Verified
    PT4S        financing_request.created        FinancingRequested
    PT4S        financing_request.routed         Routed"""
OFFERED = REQUESTED + "\nPT6S offer.received Offered"
ACCEPTED = OFFERED + "\nPT1M6S offer.accepted OfferAccepted"
FUNDED = ACCEPTED + "\nPT2M6S invoice.funded Funded"
OVERDUE = FUNDED + "\n2027-01-23T00:00:00Z invoice.overdue Overdue"
DEFAULTED = OVERDUE + "\n2027-04-23T00:00:00Z invoice.defaulted Defaulted"

SCENARIO_TABLE: dict[str, str] = {
    "competing-offers": OFFERED
    + """
    PT8S        offer.received                   Offered
    P1D         offer.accepted                   OfferAccepted
    P1D         offer.superseded                 Superseded
    """,
    "offer-expires": OFFERED
    + """
    P3DT6S      offer.expired                    FinancingRequested
    """,
    "offer-withdrawn": OFFERED
    + """
    PT1M6S      offer.withdrawn                  FinancingRequested
    """,
    "withdrawn-after-accept": ACCEPTED
    + """
    PT2M6S      offer.withdrawn                  FinancingRequested
    """,
    "partial-funding": ACCEPTED
    + """
    PT2M6S      invoice.partially_funded         PartiallyFunded
    P1DT2M6S    invoice.funded                   Funded
    """,
    "partial-payment-dilution": FUNDED
    + """
    P10DT2M6S   invoice.credit_note_applied      Funded
    P20DT2M6S   invoice.partially_paid           PartiallyPaid
    P25DT2M6S   invoice.paid                     Paid
    P26DT2M6S   invoice.settled                  Settled
    """,
    "two-part-payments": FUNDED
    + """
    P10DT2M6S             invoice.partially_paid       PartiallyPaid
    2027-01-22T00:00:00Z  invoice.paid                 Paid
    2027-01-23T00:00:00Z  invoice.settled              Settled
    """,
    "overpayment": FUNDED
    + """
    2027-01-22T00:00:00Z  invoice.paid                 Paid
    2027-01-27T00:00:00Z  invoice.settled              Settled
    """,
    "payment-misdirected": FUNDED
    + """
    2027-01-22T00:00:00Z  invoice.payment_misdirected  Funded
    2027-01-23T00:00:00Z  invoice.overdue              Overdue
    2027-01-26T00:00:00Z  invoice.paid                 Paid
    2027-01-27T00:00:00Z  invoice.settled              Settled
    """,
    "payment-unallocated": FUNDED
    + """
    2027-01-22T00:00:00Z  invoice.payment_unapplied    Funded
    2027-01-23T00:00:00Z  invoice.overdue              Overdue
    2027-01-24T00:00:00Z  invoice.paid                 Paid
    2027-01-25T00:00:00Z  invoice.settled              Settled
    """,
    "payment-returned": FUNDED
    + """
    2027-01-22T00:00:00Z  invoice.paid                 Paid
    2027-01-25T00:00:00Z  invoice.payment_returned     Funded
    2027-01-25T00:00:00Z  invoice.overdue              Overdue
    2027-02-04T00:00:00Z  invoice.paid                 Paid
    2027-02-14T00:00:00Z  invoice.settled              Settled
    """,
    "late-payment": OVERDUE
    + """
    2027-02-01T00:00:00Z  invoice.paid           Paid
    2027-02-02T00:00:00Z  invoice.settled        Settled
    """,
    "default-recourse": DEFAULTED
    + """
    2027-04-24T00:00:00Z  invoice.recourse_invoked  Recourse
    2027-05-08T00:00:00Z  invoice.repurchased       Repurchased
    """,
    "default-non-recourse": DEFAULTED
    + """
    2027-04-24T00:00:00Z  invoice.written_off    WrittenOff
    """,
    "invoice-expires": """
    PT0S        invoice.registered               Registered
    PT1S        invoice.verification_started     VerificationPending
    PT2S        invoice.verified                 Verified
    2027-01-23T00:00:00Z  invoice.expired        Expired
    """,
}
"""What happens to an invoice that is due on 20 January 2027, and when."""

MAGIC = {
    "sim_debtor_late": "late-payment",
    "sim_debtor_default": "default-recourse",
}
"""Debtors that bring their scenario with them."""

# Where the request and the offers, the first one first, stand at the end.
OUTCOMES: dict[str, tuple[list[str], list[str]]] = {
    "competing-offers": (["OfferAccepted"], ["Accepted", "Superseded"]),
    "offer-expires": (["Routed"], ["Expired"]),
    "offer-withdrawn": (["Routed"], ["Withdrawn"]),
    "withdrawn-after-accept": (["Routed"], ["Withdrawn"]),
    "partial-funding": (["Funded"], ["Accepted"]),
    "partial-payment-dilution": (["Closed"], ["Accepted"]),
    "two-part-payments": (["Closed"], ["Accepted"]),
    "overpayment": (["Closed"], ["Accepted"]),
    "payment-misdirected": (["Closed"], ["Accepted"]),
    "payment-returned": (["Closed"], ["Accepted"]),
    "payment-unallocated": (["Closed"], ["Accepted"]),
    "late-payment": (["Closed"], ["Accepted"]),
    "default-recourse": (["Closed"], ["Accepted"]),
    "default-non-recourse": (["Closed"], ["Accepted"]),
    "invoice-expires": ([], []),
}


def by_workspace(client: httpx.Client, name: str, **members: Any) -> Any:
    choose(client, name)
    return register(client, **members)


def by_invoice(client: httpx.Client, name: str, **members: Any) -> Any:
    invoice = register(client, **members)
    choose(client, name, invoice)
    return invoice


def by_request(client: httpx.Client, name: str, **members: Any) -> Any:
    return register(client, name, **members)


@pytest.mark.parametrize("begun", [by_workspace, by_invoice, by_request])
@pytest.mark.parametrize("name", SCENARIO_TABLE)
def test_the_scenario_runs_to_its_end_however_it_was_begun(
    server: Running, client: httpx.Client, name: str, begun: Callable[[httpx.Client, str], Any]
) -> None:
    invoice = begun(client, name)
    assert skipped(run_to_end(client)) == []
    assert events_about(server, client, invoice) == expected(SCENARIO_TABLE[name])
    found = [
        [one["status"] for one in kind(client, invoice)] for kind in (financing_requests, offers)
    ]
    assert tuple(found) == OUTCOMES[name]


TODAY, TOMORROW = "2026-11-23", "2026-11-24"


@pytest.mark.parametrize("due", [TODAY, TOMORROW, "2027-01-22"])
@pytest.mark.parametrize("begun", [by_workspace, by_invoice, by_request])
def test_the_whole_lifecycle_ends_settled_whenever_the_invoice_is_due(
    client: httpx.Client, begun: Callable[..., Any], due: str
) -> None:
    invoice = begun(client, "full-lifecycle", dueDate=due)
    assert skipped(run_to_end(client)) == []
    assert status(client, invoice) == "Settled"
    days = {action: instant[:10] for instant, action in audited(client, invoice["id"])}
    assert days["invoice.paid"] == due


def test_a_debtor_that_pays_late_is_never_in_default(client: httpx.Client) -> None:
    choose(client, "late-payment", late="P90D")
    invoice = register(client)
    assert skipped(run_to_end(client)) == []
    actions = [action for _, action in audited(client, invoice["id"])]
    assert actions[-2:] == ["invoice.paid", "invoice.settled"]
    assert "invoice.defaulted" not in actions


@pytest.mark.parametrize("debtor", MAGIC)
def test_a_magic_debtor_brings_its_scenario(
    server: Running, client: httpx.Client, debtor: str
) -> None:
    invoice = register(client, debtorId=debtor)
    run_to_end(client)
    assert events_about(server, client, invoice) == expected(SCENARIO_TABLE[MAGIC[debtor]])


@pytest.mark.parametrize("debtor", MAGIC)
def test_only_the_exact_magic_id_brings_a_scenario(client: httpx.Client, debtor: str) -> None:
    for one in (debtor.upper(), f"{debtor}_2", f" {debtor}"):
        register(client, debtorId=one, invoiceNumber=one)
    assert run_to_end(client) == []


TERMS = {
    "from the issue date": ({"issueDate": "2026-11-03"}, "2027-01-03"),
    "from the registration": ({}, "2027-01-23"),
    "long ago": ({"issueDate": "0000-02-29"}, "0000-04-29"),
}


@pytest.mark.parametrize(("dates", "day"), TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("later", [False, True], ids=["at the registration", "a day later"])
def test_without_a_due_date_steps_count_from_the_end_of_the_term(
    client: httpx.Client, dates: dict[str, str], day: str, later: bool
) -> None:
    choose(client, "manual" if later else "invoice-expires")
    invoice = data(client.post("/api/invoices", json={**INVOICE, **dates}))
    advance(client, "P1D")
    if later:
        choose(client, "invoice-expires", invoice)
    run_to_end(client)
    query = {"targetId": invoice["id"], "action": "invoice.expired"}
    (expired,) = data(client.get("/api/audit-log", params=query))
    assert expired["occurredAt"][:10] == max(day, "2026-11-24" if later else "2026-11-23")


# Offers


def test_competing_offers_differ_and_the_better_one_is_accepted(client: httpx.Client) -> None:
    invoice = by_workspace(client, "competing-offers")
    advance(client, "PT8S")
    alder, everest = offers(client, invoice)
    assert (alder["partnerId"], everest["partnerId"]) == (ALDER, EVEREST)
    assert alder["netProceeds"] == 8500 - 127.5 - 25  # 9 % of 8500 for 60 of 360 days; 0.25 %
    assert everest["netProceeds"] == 8000 - 160 - 40  # 12 % of 8000 for 60 of 360 days; 0.4 %
    run_to_end(client)
    assert [one["status"] for one in offers(client, invoice)] == ["Accepted", "Superseded"]


def test_a_client_may_decide_between_competing_offers_itself(client: httpx.Client) -> None:
    invoice = by_workspace(client, "competing-offers")
    advance(client, "PT8S")
    _, everest = offers(client, invoice)
    assert client.post(f"/sandbox/offers/{everest['id']}/accept").status_code == 200
    assert [one["status"] for one in offers(client, invoice)] == ["Superseded", "Accepted"]
    assert skipped(run_to_end(client)) == [
        "accept-best-offer: The invoice is OfferAccepted, not Offered. The step is skipped."
    ]


CURRENCIES = ["EUR", "GBP", "USD", "JPY", "KWD", "XAF", "xts", "a currency of nobody"]


@pytest.mark.parametrize("begun", [by_workspace, by_invoice, by_request])
@pytest.mark.parametrize("currency", CURRENCIES)
def test_offers_compete_in_every_currency(
    client: httpx.Client, currency: str, begun: Callable[..., Any]
) -> None:
    invoice = begun(client, "competing-offers", currency=currency)
    assert skipped(run_to_end(client)) == []
    made = offers(client, invoice)
    assert len({one["partnerId"] for one in made}) == 2
    assert sorted(one["status"] for one in made) == ["Accepted", "Superseded"]
    (request,) = financing_requests(client, invoice)
    assert {one["partnerId"] for one in made} <= set(request["routedPartnerIds"])
    best = max(made, key=lambda one: one["netProceeds"])
    assert best["status"] == "Accepted"


@in_turn("currency", CURRENCIES)
def test_an_offer_is_withdrawn_in_every_currency(client: httpx.Client, currency: str) -> None:
    choose(client, "offer-withdrawn")
    invoice = register(client, currency=currency)
    assert skipped(run_to_end(client)) == []
    found = [(one["partnerId"], one["status"]) for one in offers(client, invoice)]
    assert found == [(CEDAR, "Withdrawn")]


@pytest.mark.parametrize("members", [{}, {"amount": 1}, {"amount": 10**13}, {"currency": "JPY"}])
def test_no_partner_finances_what_no_mandate_takes(
    client: httpx.Client, members: dict[str, Any]
) -> None:
    choose(client, "no-partner-match")
    invoice = register(client, **members)
    assert skipped(run_to_end(client)) == []
    (request,) = financing_requests(client, invoice)
    assert (request["status"], request["routedPartnerIds"]) == ("NoMatch", [])
    assert status(client, invoice) == "Verified"
    partners = data(client.get("/api/partners"))
    assert request["requestedAmount"] == invoice["amount"] * 0.85 or invoice["amount"] == 1
    reasons = [one["failedFilters"][-1] for one in request["unmatched"]]
    assert {(one["filter"], one["reason"]) for one in reasons} == {
        ("mandate", "NO_MANDATE_TAKES_THIS")
    }
    assert {one["partnerId"] for one in request["unmatched"]} == {one["id"] for one in partners}


@pytest.mark.parametrize("name", ["offer-expires", "offer-withdrawn", "withdrawn-after-accept"])
def test_an_offer_that_is_gone_cannot_be_accepted(client: httpx.Client, name: str) -> None:
    invoice = by_workspace(client, name)
    run_to_end(client)
    (offer,) = offers(client, invoice)
    assert client.post(f"/sandbox/offers/{offer['id']}/accept").status_code == 409


@pytest.mark.parametrize("name", ["offer-expires", "offer-withdrawn", "withdrawn-after-accept"])
def test_after_an_offer_is_gone_another_one_may_come(client: httpx.Client, name: str) -> None:
    invoice = by_workspace(client, name)
    run_to_end(client)
    assert client.post("/api/offers", json={"invoiceId": invoice["id"]}).status_code == 201
    assert status(client, invoice) == "Offered"
    assert [one["status"] for one in financing_requests(client, invoice)] == ["OffersReceived"]


def test_an_offer_expires_at_the_moment_that_it_names(
    server: Running, client: httpx.Client
) -> None:
    invoice = by_workspace(client, "offer-expires")
    run_to_end(client)
    (offer,) = offers(client, invoice)
    assert (
        events_about(server, client, invoice)[-1].at
        == offer["validUntil"]
        == "2026-11-26T09:30:06Z"
    )


def test_the_partner_that_withdraws_quotes_only_when_it_is_named(client: httpx.Client) -> None:
    invoice = by_workspace(client, "offer-withdrawn")
    advance(client, "PT2S")
    body = {"invoiceId": invoice["id"], "partnerIds": [CEDAR]}
    asked = client.post("/api/financing-requests", json=body).json()["data"]
    assert asked["routedPartnerIds"] == [CEDAR]
    done = run_to_end(client)
    assert skipped(done) == [
        "request-financing: The invoice is FinancingRequested, not Verified. The step is skipped."
    ]
    assert [(one["partnerId"], one["status"]) for one in offers(client, invoice)] == [
        (CEDAR, "Withdrawn")
    ]


# Money


def figures(client: httpx.Client, invoice: Any, action: str) -> dict[str, Any]:
    """The metadata of the one audit event of that kind, without the move itself."""
    query = {"targetId": invoice["id"], "action": action}
    (event,) = client.get("/api/audit-log", params=query).json()["data"]
    return {
        name: value
        for name, value in event["metadata"].items()
        if name not in {"from", "to", "offerId", "paymentId"}
    }


@pytest.mark.parametrize(
    ("amount", "currency", "conditions", "first", "second"),
    [
        # the second amount costs a day less of discount than the offer says
        (10000, "EUR", {}, 3120, 4681.60),
        (10000, "EUR", {"percent": 25}, 1950, 5852),
        (1234.57, "EUR", {"percent": 33}, 317.78, 645.41),
        (99999, "JPY", {}, 31200, 46815),
        (10000, "EUR", {"rest": "PT1H"}, 3120, 4680),
    ],
)
def test_two_payouts_add_up_to_the_advance_less_fees(
    client: httpx.Client,
    amount: float,
    currency: str,
    conditions: dict[str, Any],
    first: float,
    second: float,
) -> None:
    choose(client, "partial-funding", **conditions)
    invoice = register(client, amount=amount, currency=currency)
    run_to_end(client)
    net_proceeds = offers(client, invoice)[0]["netProceeds"]
    begun = figures(client, invoice, "invoice.partially_funded")
    assert (begun["amount"], begun["paidOut"], begun["netProceeds"]) == (first, first, net_proceeds)
    done = figures(client, invoice, "invoice.funded")
    assert (done["amount"], done["paidOut"]) == (second, round(first + second, 2))
    assert (round(first + second, 2) == net_proceeds) is ("rest" in conditions)


def test_credit_note_and_payments_add_up_to_the_invoice(client: httpx.Client) -> None:
    invoice = by_workspace(client, "partial-payment-dilution")
    run_to_end(client)
    assert figures(client, invoice, "invoice.credit_note_applied") == {
        "amount": 500,
        "dilutionAmount": 500,
        "owed": 9500,
    }
    assert figures(client, invoice, "invoice.partially_paid") == {
        "amount": 5700,
        "paid": 5700,
        "owed": 3800,
    }
    assert figures(client, invoice, "invoice.paid") == {"amount": 3800, "paid": 9500, "owed": 0}
    # What was collected, less the advance of 8000, is left for the seller: the diluted reserve.
    assert figures(client, invoice, "invoice.settled") == {
        "reserveAmount": 2000,
        "dilutionAmount": 500,
        "interest": 0,
        "released": 1500,
        "sellerOwes": 0,
        "partnerResult": 200,
    }


def test_a_credit_note_beyond_the_reserve_leaves_the_seller_owing(client: httpx.Client) -> None:
    choose(client, "partial-payment-dilution", creditNote=30)
    invoice = register(client)
    run_to_end(client)
    settled = figures(client, invoice, "invoice.settled")
    assert (settled["released"], settled["sellerOwes"]) == (0, 1000)


@pytest.mark.parametrize(
    ("steps", "released", "owed"),
    [((), 0, 8000), (("pay-partially",), 0, 3000), (("become-overdue",), 0, 8000)],
)
def test_a_funded_invoice_that_is_credited_in_full_is_settled(
    server: Running, client: httpx.Client, steps: tuple[str, ...], released: int, owed: int
) -> None:
    choose(client, "partial-payment-dilution", creditNote=100, rest="P30D")
    invoice = register(client)
    advance(client, "PT3M")
    move(client, invoice, *steps)
    advance(client, "P11D")
    happened = events_about(server, client, invoice)
    assert [(one.type, one.status) for one in happened[-2:]] == [
        ("invoice.credit_note_applied", happened[-3].status),
        ("invoice.settled", "Settled"),
    ]
    assert [one[1] for one in audited(client, invoice["id"])[-2:]] == [
        "invoice.credit_note_applied",
        "invoice.settled",
    ]
    settled = figures(client, invoice, "invoice.settled")
    assert (settled["released"], settled["sellerOwes"]) == (released, owed)
    (request,) = financing_requests(client, invoice)
    assert request["status"] == "Closed"
    left = data(client.get(f"/sandbox/invoices/{invoice['id']}/ledger"))["balances"]
    cash = left.pop("debtorPaid") + left.pop("sellerRepaid") - left.pop("sellerReceived")
    assert cash == left.pop("result") == 200
    assert not any(left.values())


# Default


def test_an_invoice_is_neither_overdue_nor_in_default_a_moment_too_early(
    client: httpx.Client,
) -> None:
    invoice = register(client, debtorId="sim_debtor_default")
    for moment, wanted in (
        ("2027-01-22T23:59:59Z", "Funded"),
        ("2027-01-23T00:00:00Z", "Overdue"),
        ("2027-04-22T23:59:59Z", "Overdue"),
        ("2027-04-23T00:00:00Z", "Defaulted"),
    ):
        client.post("/sandbox/clock/advance", json={"to": moment})
        assert status(client, invoice) == wanted


@pytest.mark.parametrize(
    ("name", "recourse"),
    [("default-recourse", "Recourse"), ("default-non-recourse", "NonRecourse")],
)
def test_the_accepted_offer_says_who_is_liable_for_the_debt(
    client: httpx.Client, name: str, recourse: str
) -> None:
    invoice = by_workspace(client, name)
    run_to_end(client)
    assert [one["recourse"] for one in offers(client, invoice)] == [recourse]


def test_a_client_that_asked_for_no_recourse_owes_nothing_for_the_debtor_in_default(
    server: Running, client: httpx.Client
) -> None:
    invoice = register(client, debtorId="sim_debtor_default")
    advance(client, "PT2S")
    body = {"invoiceId": invoice["id"], "recoursePreference": "NonRecourse"}
    assert client.post("/api/financing-requests", json=body).status_code == 201
    run_to_end(client)
    last = expected("2027-04-24T00:00:00Z invoice.written_off WrittenOff")
    assert events_about(server, client, invoice)[-1:] == last


def test_a_repurchase_states_its_amount(client: httpx.Client) -> None:
    invoice = register(client, debtorId="sim_debtor_default")
    run_to_end(client)
    days = 106  # from 20 January to 6 May 2027
    interest = round(8000 * 0.12 * days / 360, 2)
    assert figures(client, invoice, "invoice.repurchased") == {
        "amount": pytest.approx(8000 + interest),
        "outstandingAdvance": 7800,
        "fees": 200,
        "interest": interest,
        "loss": 0,
        "released": 0,
        "partnerResult": pytest.approx(200 + interest),
    }


def accepted(client: httpx.Client) -> Any:
    """An invoice whose offer is accepted; nothing more happens by itself."""
    choose(client, "manual")
    invoice = register(client)
    triggers = ("start-verification", "verify", "request-financing", "receive-offer")
    move(client, invoice, *triggers, "accept-offer")
    return invoice


def test_the_debtor_may_pay_in_any_number_of_parts(client: httpx.Client) -> None:
    invoice = accepted(client)
    move(client, invoice, "fund", *3 * ["pay-partially"], "pay", "settle")
    query = {"targetId": invoice["id"], "action": "invoice.partially_paid"}
    parts = [one["metadata"]["amount"] for one in data(client.get("/api/audit-log", params=query))]
    assert parts[::-1] == [5000, 2500, 1250]
    assert figures(client, invoice, "invoice.paid") == {"amount": 1250, "paid": 10000, "owed": 0}
    assert figures(client, invoice, "invoice.settled")["released"] == 2000


def test_late_payment_costs_interest_for_each_day(client: httpx.Client) -> None:
    invoice = register(client, debtorId="sim_debtor_late")
    run_to_end(client)
    interest = 26.67  # 12 % of 8000 for 10 of 360 days
    settled = figures(client, invoice, "invoice.settled")
    assert (settled["interest"], settled["released"]) == (interest, 2000 - interest)
    assert settled["partnerResult"] == pytest.approx(200 + interest)


def test_a_paid_invoice_pays_the_net_proceeds_then_the_reserve(client: httpx.Client) -> None:
    invoice = by_workspace(client, "full-lifecycle")
    run_to_end(client)
    assert figures(client, invoice, "invoice.funded")["amount"] == 7800
    settled = figures(client, invoice, "invoice.settled")
    assert (settled["released"], settled["partnerResult"]) == (2000, 200)


# Conditions: what a run may change


@pytest.mark.parametrize(
    ("name", "conditions", "last"),
    [
        ("competing-offers", {"decision": "PT1H"}, "PT1H offer.superseded Superseded"),
        ("offer-withdrawn", {"patience": "P2D"}, "P2DT6S offer.withdrawn FinancingRequested"),
        (
            "withdrawn-after-accept",
            {"decision": "P1D", "patience": "PT1H"},
            "P1DT1H6S offer.withdrawn FinancingRequested",
        ),
        ("partial-funding", {"rest": "PT1S"}, "PT2M7S invoice.funded Funded"),
        ("partial-payment-dilution", {"rest": "P1D"}, "P22DT2M6S invoice.settled Settled"),
        ("late-payment", {"late": "P30D"}, "2027-02-22T00:00:00Z invoice.settled Settled"),
        (
            "default-recourse",
            {"claim": "P3D", "buyBack": "P1D"},
            "2027-04-27T00:00:00Z invoice.repurchased Repurchased",
        ),
        (
            "default-non-recourse",
            {"claim": "P3D"},
            "2027-04-26T00:00:00Z invoice.written_off WrittenOff",
        ),
    ],
)
def test_a_run_may_change_the_delays(
    server: Running, client: httpx.Client, name: str, conditions: dict[str, Any], last: str
) -> None:
    choose(client, name, **conditions)
    invoice = register(client)
    run_to_end(client)
    assert events_about(server, client, invoice)[-1:] == expected(last)


# Expiry


def test_an_expired_invoice_is_not_financed_any_more(client: httpx.Client) -> None:
    invoice = by_workspace(client, "invoice-expires")
    run_to_end(client)
    response = client.post("/api/financing-requests", json={"invoiceId": invoice["id"]})
    assert response.status_code == 409


def test_an_open_request_and_its_offers_expire_with_the_invoice(client: httpx.Client) -> None:
    invoice = by_workspace(client, "invoice-expires")
    advance(client, "PT2S")
    client.post("/api/financing-requests", json={"invoiceId": invoice["id"]})
    client.post("/api/offers", json={"invoiceId": invoice["id"]})
    run_to_end(client)
    assert status(client, invoice) == "Expired"
    assert [one["status"] for one in financing_requests(client, invoice)] == ["Expired"]
    assert [one["status"] for one in offers(client, invoice)] == ["Expired"]


def test_an_invoice_that_was_financed_in_time_does_not_expire(client: httpx.Client) -> None:
    invoice = by_workspace(client, "invoice-expires")
    advance(client, "PT2S")
    for trigger in ("request-financing", "receive-offer", "accept-offer"):
        path = f"/sandbox/invoices/{invoice['id']}/transition"
        assert client.post(path, json={"trigger": trigger}).status_code == 200
    assert [one.split(":")[0] for one in skipped(run_to_end(client))] == ["transition"]
    assert status(client, invoice) == "OfferAccepted"
