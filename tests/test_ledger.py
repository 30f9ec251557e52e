"""The ledger of an invoice: money is conserved over every legal sequence of steps."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import ledger as books
from domain.fingerprint import minor_units
from domain.ledger import CASH, CREDITS, DEBITS, Ledger, Purchase
from domain.pricing import Terms, price

D = Decimal
DUE = 100

EXAMPLE = Purchase("EUR", D("10000.00"), D("8000.00"), D("200.00"), D("0.12"))
"""10,000 EUR at 80 %, with fees of 160 and 40."""


@st.composite
def purchases(draw: st.DrawFn) -> Purchase:
    currency = draw(st.sampled_from(["EUR", "JPY", "KWD", "CLF"]))
    amount = D(draw(st.integers(1, 10**9))).scaleb(-minor_units(currency))
    rates = [D(draw(st.integers(0, most))) / 10_000 for most in (10_000, 3_000, 300)]
    terms = Terms(rates[0], rates[1], rates[2], draw(st.sampled_from(["ACT/360", "ACT/365F"])))
    figures = price(amount, currency, draw(st.integers(0, 180)), terms)
    fees = min(figures.discount_fee + figures.service_fee, figures.advance)
    recourse = draw(st.sampled_from([D(0), D("0.335"), D(1)]))
    return Purchase(
        currency, figures.face_value, figures.advance, fees, rates[1], recourse, terms.day_count
    )


PERCENT = st.integers(1, 100)


@st.composite
def histories(draw: st.DrawFn) -> list[Ledger]:
    """The ledger after each step of a legal sequence, from the acceptance to an end."""
    ledgers = [books.open_ledger(draw(purchases()))]
    day = draw(st.integers(0, DUE))

    def step(after: Ledger) -> None:
        ledgers.append(after)

    for _ in range(draw(st.integers(0, 2))):
        step(books.credit(ledgers[-1], draw(PERCENT)).ledger)
    for percent in [*draw(st.lists(PERCENT, max_size=3)), draw(PERCENT)]:
        step(books.pay_out(ledgers[-1], percent).ledger)
    for _ in range(draw(st.integers(0, 6))):
        day += draw(st.integers(0, 60))
        step(books.accrue(ledgers[-1], DUE, day))
        change = draw(st.sampled_from([books.credit, books.receive]))
        step(change(ledgers[-1], draw(PERCENT)).ledger)
    day += draw(st.integers(0, 200))
    step(books.accrue(ledgers[-1], DUE, day))
    end = draw(st.sampled_from([books.settle, books.repurchase, books.write_off]))
    if end is books.settle:
        step(books.receive(ledgers[-1]).ledger)
    step(end(ledgers[-1]).ledger)
    return ledgers


@given(history=histories())
def test_after_every_step_the_accounts_agree(history: list[Ledger]) -> None:
    """Debits equal credits, in minor units, and no balance but the result is negative."""
    unit = D(1).scaleb(-minor_units(history[0].purchase.currency))
    for ledger in history:
        assert sum(ledger[name] for name in DEBITS) == sum(ledger[name] for name in CREDITS)
        assert min(ledger[name] for name in (*DEBITS, *CREDITS) if name != "result") >= 0
        assert {one % unit for one in ledger.balances.values()} <= {D(0)}


@given(history=histories())
def test_at_the_end_nothing_is_open_and_what_the_debtor_paid_was_received(
    history: list[Ledger],
) -> None:
    end = history[-1]
    left = {name for name in (*DEBITS, *CREDITS) if end[name] != 0}
    assert left <= {*CASH, "result"}
    assert end["debtorPaid"] == end["sellerReceived"] - end["sellerRepaid"] + end["result"]


@given(purchase=purchases(), percents=st.lists(PERCENT, min_size=1, max_size=5))
def test_the_seller_is_never_worse_off_than_the_offer_says(
    purchase: Purchase, percents: list[int]
) -> None:
    """However much of the advance was paid out, if the debtor pays in time."""
    ledger = books.open_ledger(purchase)
    for percent in percents:
        ledger = books.pay_out(ledger, percent).ledger
    ledger = books.settle(books.receive(ledger).ledger).ledger
    assert ledger["sellerReceived"] >= purchase.face_value - purchase.fees


@given(purchase=purchases(), part=PERCENT, paid=st.lists(PERCENT, max_size=3))
def test_a_part_that_was_funded_is_sold_and_the_rest_is_the_sellers(
    purchase: Purchase, part: int, paid: list[int]
) -> None:
    """If the debtor never pays the rest, the partner loses on the funded part only."""
    ledger = books.pay_out(books.open_ledger(purchase), part).ledger
    pay_out = ledger["sellerReceived"]
    for percent in paid:
        ledger = books.receive(ledger, percent).ledger
    received = ledger["debtorPaid"]
    funded = ledger.drawn / purchase.advance if purchase.advance else D(0)
    reserve = max(received - purchase.advance, D(0))
    expected = pay_out + (1 - funded) * received + funded * reserve
    unit = D(1).scaleb(-minor_units(purchase.currency))
    written_off = books.write_off(ledger)
    assert abs(written_off.ledger["sellerReceived"] - expected) <= unit
    bought_back = books.repurchase(ledger)
    borne = bought_back.figures["amount"] + bought_back.figures["loss"]
    assert borne == written_off.figures["loss"]
    assert bought_back.figures["released"] == written_off.figures["released"]


def test_payments_settle_the_funded_part_pro_rata() -> None:
    """Half of the advance of 8000 is drawn, and the debtor pays half of 10,000."""
    half = books.receive(books.pay_out(books.open_ledger(EXAMPLE), 50).ledger, 50).ledger
    assert half.outstanding == 1500  # half of 5000 less half of the reserve of 2000
    assert books.accrue(half, DUE, DUE + 60)["interestDue"] == 30
    figures = books.write_off(half).figures
    assert (figures["loss"], figures["released"]) == (1500, 2500)
    bought = books.repurchase(half).figures
    assert [bought[name] for name in ("outstandingAdvance", "fees", "amount", "released")] == [
        1400,
        100,
        1500,
        2500,
    ]


def test_the_pay_out_is_the_net_proceeds_and_the_reserve_follows_at_settlement() -> None:
    paid_out = books.pay_out(books.open_ledger(EXAMPLE))
    assert paid_out.figures["amount"] == 7800
    settled = books.settle(books.receive(paid_out.ledger).ledger)
    assert (settled.figures["released"], settled.figures["partnerResult"]) == (2000, 200)


def test_half_of_the_advance_costs_half_of_the_fees() -> None:
    half = books.pay_out(books.open_ledger(EXAMPLE), 50)
    assert (half.figures["amount"], half.figures["fees"]) == (3900, 100)
    settled = books.settle(books.receive(half.ledger).ledger)
    assert settled.figures["released"] == 6000


def test_late_payment_costs_interest_per_day() -> None:
    funded = books.pay_out(books.open_ledger(EXAMPLE)).ledger
    late = books.accrue(funded, DUE, DUE + 30)
    assert late["interestDue"] == 80  # 12 % of 8000 for 30 of 360 days
    assert books.accrue(late, DUE, DUE + 30) == late
    settled = books.settle(books.receive(late).ledger)
    assert (settled.figures["released"], settled.figures["partnerResult"]) == (1920, 280)


@given(purchases(), st.lists(st.tuples(st.integers(1, 40), PERCENT), max_size=5), st.data())
def test_interest_does_not_depend_on_how_often_it_is_posted(
    purchase: Purchase, payments: list[tuple[int, int]], more: st.DataObject
) -> None:
    seldom = books.pay_out(books.open_ledger(purchase)).ledger
    often, exact, day = seldom, D(0), DUE
    for days, percent in payments:
        exact += seldom.outstanding * purchase.late_rate * days
        for between in sorted(more.draw(st.lists(st.integers(day, day + days), max_size=4))):
            often = books.accrue(often, DUE, between)
        day += days
        often = books.receive(books.accrue(often, DUE, day), percent).ledger
        seldom = books.receive(books.accrue(seldom, DUE, day), percent).ledger
    assert often["interestDue"] == seldom["interestDue"]
    year = {"ACT/360": 360, "ACT/365F": 365}[purchase.day_count]
    assert abs(seldom["interestDue"] - exact / year) * 2 <= D(1).scaleb(
        -minor_units(purchase.currency)
    )


def test_a_repurchase_is_the_outstanding_advance_fees_and_interest() -> None:
    funded = books.pay_out(books.open_ledger(EXAMPLE)).ledger
    figures = books.repurchase(books.accrue(funded, DUE, DUE + 90)).figures
    parts = [figures[name] for name in ("outstandingAdvance", "fees", "interest", "amount")]
    assert parts == [7800, 200, 240, 8240]


def test_what_is_left_to_buy_back_is_fees_first() -> None:
    funded = books.pay_out(books.open_ledger(EXAMPLE)).ledger
    paid = books.receive(funded, 79).ledger  # 7900 of 10,000, so 100 beyond the reserve are left
    figures = books.repurchase(paid).figures
    parts = [figures[name] for name in ("outstandingAdvance", "fees", "amount")]
    assert parts == [0, 100, 100]


def test_with_limited_recourse_the_partner_bears_its_share_of_advance_and_interest() -> None:
    funded = books.pay_out(books.open_ledger(replace(EXAMPLE, recourse_share=D("0.3")))).ledger
    diluted = books.credit(funded, 30).ledger  # 1000 beyond the reserve, of which 600 are paid
    bought = books.repurchase(books.accrue(diluted, DUE, DUE + 90))
    parts = [bought.figures[name] for name in ("interest", "amount", "loss", "partnerResult")]
    whole = funded.outstanding - 1000 + 210
    assert parts == [210, 1000 + whole * D("0.3"), whole * D("0.7"), 200 + 210 - whole * D("0.7")]


def test_a_write_off_is_the_partners_loss() -> None:
    funded = books.pay_out(books.open_ledger(EXAMPLE)).ledger
    figures = books.write_off(funded).figures
    assert (figures["loss"], figures["sellerOwes"], figures["partnerResult"]) == (8000, 0, -7800)


@pytest.mark.parametrize(("percent", "released", "owed"), [(5, 1500, 0), (30, 0, 1000)])
def test_credit_notes_lower_the_reserve(percent: int, released: int, owed: int) -> None:
    funded = books.pay_out(books.open_ledger(EXAMPLE)).ledger
    settled = books.settle(books.receive(books.credit(funded, percent).ledger).ledger)
    assert (settled.figures["released"], settled.figures["sellerOwes"]) == (released, owed)


def test_a_credit_note_may_come_before_the_pay_out_and_lower_it() -> None:
    diluted = books.credit(books.open_ledger(EXAMPLE), 60).ledger
    paid_out = books.pay_out(diluted)
    assert (paid_out.figures["amount"], paid_out.figures["fees"]) == (3900, 100)
    assert paid_out.ledger.left_to_draw == 0


AMOUNT = st.integers(1, 10**12)


@given(purchase=purchases(), unapplied=AMOUNT, collected=AMOUNT, part=PERCENT)
def test_what_is_returned_to_the_debtor_leaves_the_books_as_they_were(
    purchase: Purchase, unapplied: int, collected: int, part: int
) -> None:
    """A payment that is not applied, one to the seller, and one that lowered the debt."""
    unit = D(1).scaleb(-minor_units(purchase.currency))
    funded = books.pay_out(books.open_ledger(purchase)).ledger
    ledger = books.collect(funded, unapplied * unit, D(0)).ledger
    ledger = books.misdirect(ledger, collected * unit).ledger
    assert (ledger["receivable"], ledger.dilution) == (funded["receivable"], funded.dilution)
    paid = books.part_of_debt(ledger, part)
    ledger = books.collect(ledger, paid, paid).ledger
    assert ledger.applied == paid
    assert not ledger.dilution
    assert sum(ledger[name] for name in DEBITS) == sum(ledger[name] for name in CREDITS)
    ledger = books.give_back(ledger, paid, unapplied * unit, by_seller=False).ledger
    ledger = books.give_back(ledger, D(0), collected * unit, by_seller=True).ledger
    assert {name: value for name, value in ledger.balances.items() if value} == {
        name: value for name, value in funded.balances.items() if value
    }


@given(purchase=purchases(), collected=PERCENT)
def test_money_that_the_seller_passes_on_is_a_payment_of_the_debtor(
    purchase: Purchase, collected: int
) -> None:
    funded = books.pay_out(books.open_ledger(purchase)).ledger
    amount = books.part_of_debt(funded, collected)
    direct = books.collect(funded, amount, amount).ledger
    misdirected = books.misdirect(funded, amount).ledger
    passed_on = books.apply_unapplied(misdirected, amount, from_seller=True).ledger
    for name in (*DEBITS, *CREDITS):
        assert passed_on[name] == direct[name]
