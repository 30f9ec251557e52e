"""Payments on an invoice: each moves the invoice and is posted in its ledger.

No money moves. The audit log has the amounts, as metadata of the moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record

from . import ledger as books
from .audit import audit
from .calendars import calendar_of, days_left, value_day
from .dates import days_to_default
from .fingerprint import EXACT
from .invoices import INVOICE, public_invoice
from .ledger import Ledger, Outcome, Purchase
from .lifecycle import check_trigger, is_funded, undisputed_status
from .offers import accepted_offer, find_accepted_offer
from .pricing import interest
from .transitions import trigger_invoice

CREDIT_NOTE: Final = "invoice.credit_note_applied"
"""The event that a credit note lowered the debt."""

SETTLED: Final = "invoice.settled"

BY_BANK: Final = frozenset(
    {"fund", "fund-partially", "pay", "pay-partially", "settle", "repurchase"}
)
"""Triggers that pay something."""

_LEDGERS: Final = "ledgers"
_POSTINGS: Final = "ledger_postings"
_HALF: Final = 50
_STEPS: Final[Mapping[str, Callable[[Ledger], Outcome]]] = {
    "fund": books.pay_out,
    "fund-partially": partial(books.pay_out, percent=_HALF),
    "pay": books.receive,
    "pay-partially": partial(books.receive, percent=_HALF),
    "settle": books.settle,
    "settle-by-dilution": books.settle_by_dilution,
    "repurchase": books.repurchase,
    "write-off": books.write_off,
}
"""The posting of a trigger without an amount: everything that is left, or half of it."""


def trigger_payment(context: Context, invoice: Record, trigger: str) -> Record:
    """Return the invoice after ``trigger``, with its payment posted. Raises ApiError 409."""
    check_trigger(context, INVOICE, invoice, trigger)
    offer = find_accepted_offer(context, invoice)
    if trigger not in _STEPS or offer is None:  # some fixtures have no offer
        return trigger_invoice(context, invoice, trigger)
    outcome = _STEPS[trigger](_load(context, invoice, offer))
    if trigger == "pay-partially" and not outcome.ledger["receivable"]:
        trigger = "pay"  # half of the smallest unit is rounded up to all of it
    return _move(context, invoice, trigger, offer, outcome)


def pay_out(context: Context, invoice: Record, percent: int) -> None:
    """Pay out ``percent`` of the net proceeds, at most what is left. Raises ApiError 409."""
    offer = accepted_offer(context, invoice)
    outcome = books.pay_out(_load(context, invoice, offer), percent)
    trigger = "fund-partially" if outcome.ledger.left_to_draw else "fund"
    _move(context, invoice, trigger, offer, outcome)


def apply_credit_note(context: Context, invoice: Record, percent: int) -> None:
    """Lower the debt by ``percent`` of the face value, at most to zero. Raises ApiError 409.

    Without a debt a funded invoice is settled now, for no payment will do it; another one is
    withdrawn by its partner and its seller.
    """
    offer = accepted_offer(context, invoice)
    outcome = books.credit(_load(context, invoice, offer), percent)
    figures = {**outcome.figures, "dilutionAmount": outcome.ledger.dilution}
    audit(context, CREDIT_NOTE, ("invoice", invoice["id"]), **figures)
    _store(context, invoice, outcome.ledger)
    context.emit(CREDIT_NOTE, public_invoice(invoice))
    if not outcome.ledger["receivable"]:
        _end_without_debt(context, invoice)


def _end_without_debt(context: Context, invoice: Record) -> None:
    if is_funded(invoice):
        trigger_payment(context, invoice, "settle-by-dilution")
    else:
        trigger_invoice(context, trigger_invoice(context, invoice, "withdraw-offer"), "withdraw")


def receive_payment(context: Context, invoice: Record, percent: int) -> None:
    """Record that the debtor paid ``percent`` of the debt. Raises ApiError 409."""
    offer = accepted_offer(context, invoice)
    outcome = books.receive(_load(context, invoice, offer), percent)
    trigger = "pay-partially" if outcome.ledger["receivable"] else "pay"
    _move(context, invoice, trigger, offer, outcome)


def release_reserve(context: Context, invoice: Record) -> None:
    """Settle: the seller gets the reserve, less credit notes and interest. Raises ApiError 409."""
    offer = accepted_offer(context, invoice)
    outcome = books.settle(_load(context, invoice, offer))
    _move(context, invoice, "settle", offer, outcome)


def resolve_default(context: Context, invoice: Record) -> None:
    """Invoke recourse against the seller, or write the debt off if the accepted offer is without
    recourse. Raises ApiError 409."""
    offer = accepted_offer(context, invoice)
    if offer["recourse"] == "NonRecourse":
        trigger_payment(context, invoice, "write-off")
    else:
        figures = {"offerId": offer["id"], "recourse": offer["recourse"]}
        trigger_invoice(context, invoice, "invoke-recourse", **figures)


def days_until_default(context: Context, invoice: Record) -> int:
    """Return the days until the day after the recourse period; zero or less after it. 409."""
    offer = accepted_offer(context, invoice)
    known = {**invoice, "recoursePeriodDays": int(offer["recoursePeriodDays"])}
    return days_to_default(known, context.now.date(), calendar_of(context, invoice))


def read_ledger(context: Context, invoice: Record) -> Record:
    """Return the ledger of an invoice as the control API shows it, with interest up to now.

    An invoice without an accepted offer has an empty ledger.
    """
    offer = find_accepted_offer(context, invoice)
    today = context.now.date()
    ledger = None if offer is None else _load(context, invoice, offer, today)
    shown: Record = {
        "invoiceId": invoice["id"],
        "offerId": offer["id"] if offer else None,
        "currency": invoice["currency"],
        "asOf": context.timestamp,
        "balances": {name: ledger[name] if ledger else 0 for name in books.ACCOUNTS},
    }
    if offer is None or ledger is None:
        return {**shown, "postings": []}
    where = (Condition("offerId", "=", offer["id"]),)
    stored = context.state.page(_POSTINGS, where=where, oldest_first=True).records
    kept = [_without_offer(posting) for posting in stored]
    return {**shown, "postings": kept + _posting_rows(context, invoice, ledger, {})}


def _move(
    context: Context, invoice: Record, trigger: str, offer: Record, outcome: Outcome
) -> Record:
    figures = {"offerId": offer["id"], **outcome.figures, **_value_date(context, invoice)}
    moved = trigger_invoice(context, invoice, trigger, **figures)
    _store(context, invoice, outcome.ledger)
    return moved


def _value_date(context: Context, invoice: Record) -> Record:
    """Return the value date of a payment now, as a member, if business days count."""
    if calendar_of(context, invoice) is None:
        return {}
    return {"valueDate": value_day(context, invoice).isoformat()}


def _load(context: Context, invoice: Record, offer: Record, day: date | None = None) -> Ledger:
    """Return the ledger with interest up to a day, by default the value date of a payment now.

    A fixture has no postings: its status says what was paid out, and whether the debtor has paid.
    """
    stored = context.state.get(_LEDGERS, offer["id"])
    is_fixture = stored is None and is_funded(invoice)
    day, calendar = day or value_day(context, invoice), calendar_of(context, invoice)
    left = days_left(invoice, day, calendar)
    days = None if is_fixture else max(left, 0)
    ledger = books.open_ledger(_purchase(offer, invoice, days))
    if stored is not None:
        ledger = books.from_record(ledger.purchase, stored)
    elif is_fixture:
        ledger = _of_fixture(ledger, undisputed_status(invoice))
    return books.accrue(ledger, day.toordinal() + left, day.toordinal())


def _of_fixture(ledger: Ledger, status: str | None) -> Ledger:
    ledger = books.pay_out(ledger).ledger
    if status in ("Paid", "Settled"):
        ledger = books.receive(ledger).ledger
    return books.carried_forward(books.settle(ledger).ledger if status == "Settled" else ledger)


def _store(context: Context, invoice: Record, ledger: Ledger) -> None:
    offer = accepted_offer(context, invoice)
    context.state.put(_LEDGERS, offer["id"], books.as_record(ledger))
    cause = {**context.origin.cause, **_value_date(context, invoice)}
    for row in _posting_rows(context, invoice, ledger, cause):
        number = context.state.next_number(_POSTINGS)
        context.state.put(_POSTINGS, str(number), {"offerId": offer["id"], **row})


def _posting_rows(context: Context, invoice: Record, ledger: Ledger, cause: Record) -> list[Record]:
    """Return the new postings of a ledger with the members of their ``cause``. A purchase is that
    of the acceptance. An opening balance has neither time nor cause: it is that of a fixture."""
    times = {"purchase": invoice.get("acceptedAt"), "opening-balance": None}
    causes = {"purchase": invoice.get("acceptance", {}), "opening-balance": {}}
    return [
        {
            "at": times.get(posting.step, context.timestamp),
            "step": posting.step,
            **causes.get(posting.step, cause),
            "entries": [_entry(account, amount) for account, amount in posting.amounts.items()],
        }
        for posting in ledger.postings
    ]


def _entry(account: str, amount: Decimal) -> Record:
    side = "debit" if amount > 0 else "credit"
    return {"account": account, side: amount.copy_abs()}


def _without_offer(posting: Record) -> Record:
    return {name: value for name, value in posting.items() if name != "offerId"}


def _purchase(offer: Mapping[str, Any], invoice: Mapping[str, Any], days: int | None) -> Purchase:
    """Return the purchase with the fees of a pay-out now: the discount runs for ``days``, which are
    left to the due day, not from the offer. None: it is that of the offer."""
    discount = offer["discountFee"]
    day_count = discount.get("dayCount", "ACT/360")
    late: Mapping[str, Any] = offer.get("lateInterest", discount)
    advance = Decimal(offer["advanceAmount"])
    limited = invoice.get("recourse") == "LimitedRecourse"
    fee = Decimal(discount["amount"])
    if days is not None:
        fee = interest(advance, Decimal(discount["annualRate"]), days, offer["currency"], day_count)
    return Purchase(
        currency=offer["currency"],
        face_value=EXACT.add(advance, Decimal(offer["reserveAmount"])),
        advance=advance,
        fees=EXACT.add(fee, Decimal(offer["serviceFee"]["amount"])),
        late_rate=Decimal(late["annualRate"]),
        recourse_share=Decimal(offer["recourseLimit"]) if limited else books.EVERYTHING,
        day_count=late.get("dayCount", day_count),
    )
