"""Payments on an invoice: each moves the invoice and is posted in its ledger.

No money moves. The audit log has the amounts, as metadata of the moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record, conflict

from . import ledger as books
from . import receipts
from .audit import audit
from .calendars import calendar_of, days_left, value_day
from .dates import days_to_default
from .fingerprint import EXACT
from .invoices import INVOICE, INVOICES, public_invoice
from .ledger import Ledger, Outcome, Purchase
from .lifecycle import allows_trigger, check_trigger, is_funded, undisputed_status
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

UNAPPLIED: Final = "invoice.payment_unapplied"
"""The event of a payment that lowers no debt, because it names no invoice or nothing is owed."""

MISDIRECTED: Final = "invoice.payment_misdirected"
"""The event of a payment to the seller."""

RETURNED: Final = "invoice.payment_returned"

CREDITABLE: Final = ("OfferAccepted", "PartiallyFunded", "Funded", "PartiallyPaid", "Overdue")
"""The statuses in which a credit note can lower the debt."""

POSTINGS: Final = "ledger_postings"
"""The collection of postings, in the order in which they were posted."""

_LEDGERS: Final = "ledgers"
_HALF: Final = 50
_STEPS: Final[Mapping[str, Callable[[Ledger], Outcome]]] = {
    "fund": books.pay_out,
    "fund-partially": partial(books.pay_out, percent=_HALF),
    "settle": books.settle,
    "settle-by-dilution": books.settle_by_dilution,
    "repurchase": books.repurchase,
    "write-off": books.write_off,
}
"""The posting of a trigger without an amount: everything that is left, or half of it."""

_PAYMENTS: Final = {"pay": books.WHOLE, "pay-partially": _HALF}
"""By trigger, the percent of the debt that the debtor pays."""

_APPLYING: Final = frozenset({"repurchase", "write-off"})
_CLOSING: Final = _APPLYING | {"settle", "settle-by-dilution"}
"""Triggers that close the books. Before some of them, unapplied payments cover what is owed."""

_UNPAID: Final = frozenset({"Funded", "PartiallyFunded", "Overdue"})


def trigger_payment(context: Context, invoice: Record, trigger: str) -> Record:
    """Return the invoice after ``trigger``, with its payment posted. Raises ApiError 409."""
    check_trigger(context, INVOICE, invoice, trigger)
    offer = find_accepted_offer(context, invoice)
    if offer is None:  # some fixtures have no offer
        return trigger_invoice(context, invoice, trigger)
    if trigger in _PAYMENTS:
        return receive_payment(context, invoice, _PAYMENTS[trigger])
    if trigger == "return-payment":
        return return_newest(context, invoice)
    if trigger not in _STEPS:
        return trigger_invoice(context, invoice, trigger)
    ledger = load_ledger(context, invoice, offer)
    if trigger in _CLOSING:
        applies = trigger in _APPLYING
        ledger = receipts.clear_unapplied(context, invoice, ledger, apply=applies)
    return move_by(context, invoice, trigger, offer, _STEPS[trigger](ledger))


def pay_out(context: Context, invoice: Record, percent: int) -> None:
    """Pay out ``percent`` of the net proceeds, at most what is left. Raises ApiError 409."""
    offer = accepted_offer(context, invoice)
    outcome = books.pay_out(load_ledger(context, invoice, offer), percent)
    fund(context, invoice, offer, outcome)


def fund(context: Context, invoice: Record, offer: Record, outcome: Outcome) -> Record:
    """Return the invoice after a pay-out. Raises ApiError 409."""
    trigger = "fund-partially" if outcome.ledger.left_to_draw else "fund"
    return move_by(context, invoice, trigger, offer, outcome)


def apply_credit_note(context: Context, invoice: Record, percent: int) -> None:
    """Lower the debt by ``percent`` of the face value, at most to zero. Raises ApiError 409."""
    offer = accepted_offer(context, invoice)
    lower_debt(context, invoice, books.credit(load_ledger(context, invoice, offer), percent))


def lower_debt(context: Context, invoice: Record, outcome: Outcome) -> None:
    """Apply a credit note.

    Without a debt a funded invoice is settled now, for no payment will do it; another one is
    withdrawn by its partner and its seller. Raises ApiError 409.
    """
    figures = {**outcome.figures, "dilutionAmount": outcome.ledger.dilution}
    audit(context, CREDIT_NOTE, ("invoice", invoice["id"]), **figures)
    money = _store(context, invoice, Outcome(outcome.ledger, figures))
    context.emit(CREDIT_NOTE, public_invoice(invoice), optional={"money": money})
    if not outcome.ledger["receivable"]:
        _end_without_debt(context, invoice)


def _end_without_debt(context: Context, invoice: Record) -> None:
    if is_funded(invoice):
        trigger_payment(context, invoice, "settle-by-dilution")
    else:
        trigger_invoice(context, trigger_invoice(context, invoice, "withdraw-offer"), "withdraw")


def receive_payment(context: Context, invoice: Record, percent: int, excess: int = 0) -> Record:
    """Return the invoice after the debtor paid ``percent`` of the debt, and ``excess`` percent of
    it besides. Raises ApiError 409."""
    check_trigger(context, INVOICE, invoice, "pay")
    offer = accepted_offer(context, invoice)
    ledger = load_ledger(context, invoice, offer)
    amount = books.part_of_debt(ledger, percent, excess)
    payment = receipts.new_payment(context, invoice, amount, {})
    return book_payment(context, invoice, offer, ledger, payment)


def misdirect_payment(context: Context, invoice: Record, percent: int, details: Record) -> Record:
    """Return the invoice after a payment of ``percent`` of the debt that does not lower it, because
    of its ``details``: it is to the seller, or for another invoice. Raises ApiError 409."""
    check_trigger(context, INVOICE, invoice, "pay")
    offer = accepted_offer(context, invoice)
    ledger = load_ledger(context, invoice, offer)
    amount = books.part_of_debt(ledger, percent)
    payment = receipts.new_payment(context, invoice, amount, details)
    return book_payment(context, invoice, offer, ledger, payment)


def book_payment(
    context: Context, invoice: Record, offer: Record, ledger: Ledger, payment: Record
) -> Record:
    """Return the invoice after a new payment, which moves it if it lowers the debt.

    What is not applied to the debt is unapplied, and so is a payment while no payment is possible.
    """
    to_seller = payment["paidTo"] == receipts.SELLER
    payable = not to_seller and allows_trigger(context, INVOICE, invoice, "pay")
    allocate = payable and receipts.is_allocated(invoice, payment)
    outcome, payment = receipts.book(ledger, payment, allocate=allocate)
    receipts.store_payment(context, payment)
    if allocate:
        return _lower_by(context, invoice, offer, outcome, payment)
    return _report(context, invoice, MISDIRECTED if to_seller else UNAPPLIED, outcome, payment)


def apply_payment(context: Context, invoice: Record, payment: Record) -> Record:
    """Return the invoice after what is unapplied of a payment was applied. Raises ApiError 409."""
    check_trigger(context, INVOICE, invoice, "pay")
    offer = accepted_offer(context, invoice)
    if not payment["unapplied"]:
        raise conflict("Nothing of the payment is unapplied", "Use a payment that is.")
    outcome, payment = receipts.apply_rest(load_ledger(context, invoice, offer), payment)
    receipts.store_payment(context, payment)
    return _lower_by(context, invoice, offer, outcome, payment)


def return_newest(context: Context, invoice: Record, reason: Record | None = None) -> Record:
    """Return the invoice after its newest payment went back to the debtor. Raises ApiError 409."""
    payment = receipts.newest_payment(context, invoice, "applied")
    return return_payment(context, invoice, payment, reason=reason)


def return_payment(
    context: Context,
    invoice: Record,
    payment: Record,
    amount: Decimal | None = None,
    reason: Record | None = None,
) -> Record:
    """Return the invoice after ``amount`` of a payment went back to the debtor, by default all.

    What was applied of it is owed again. Raises ApiError 409.
    """
    offer, left = accepted_offer(context, invoice), _left_of(context, invoice, payment)
    amount = left if amount is None else amount
    if not 0 < amount <= left:
        raise conflict(f"{left:f} of the payment is left", "Return no more than that.")
    ledger = load_ledger(context, invoice, offer)
    outcome, after = receipts.give_back(ledger, payment, amount)
    why = {} if reason is None else {"reason": reason}
    receipts.store_payment(context, {**after, "returnReason": reason} if why else after)
    if after["applied"] == payment["applied"]:
        return _report(context, invoice, RETURNED, outcome, after, **why)
    check_trigger(context, INVOICE, invoice, "return-payment")
    invoice = {**invoice, "previousStatus": _status_after_return(invoice, outcome.ledger)}
    about = {"paymentId": payment["id"], **why}
    moved = move_by(context, invoice, "return-payment", offer, outcome, **about)
    moved = {**moved, "hasPayments": outcome.ledger.applied > 0}
    context.state.put(INVOICES, moved["id"], moved)
    return moved


def release_reserve(context: Context, invoice: Record) -> None:
    """Settle: the seller gets the reserve, less credit notes and interest. Raises ApiError 409."""
    accepted_offer(context, invoice)
    trigger_payment(context, invoice, "settle")


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
    ledger = None if offer is None else load_ledger(context, invoice, offer, today)
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
    stored = context.state.page(POSTINGS, where=where, oldest_first=True).records
    kept = [_without_offer(posting) for posting in stored]
    return {**shown, "postings": kept + _posting_rows(context, invoice, ledger, {})}


def move_by(
    context: Context,
    invoice: Record,
    trigger: str,
    offer: Record,
    outcome: Outcome,
    **metadata: Any,
) -> Record:
    """Return the invoice after ``trigger``, and store its ledger. Raises ApiError 409."""
    figures = {**outcome.figures, **_value_date(context, invoice, outcome.ledger.about)}
    figures = {"offerId": offer["id"], **metadata, **figures}
    money = _store(context, invoice, outcome)
    return trigger_invoice(context, invoice, trigger, money=money, **figures)


def _value_date(context: Context, invoice: Record, about: Mapping[str, str]) -> Record:
    """Return the value date of what is posted, as a member, if it is not simply today."""
    day = about.get("valueDate", value_day(context, invoice).isoformat())
    is_plain = calendar_of(context, invoice) is None and day == context.now.date().isoformat()
    return {} if is_plain else {"valueDate": day}


def _lower_by(
    context: Context, invoice: Record, offer: Record, outcome: Outcome, payment: Record
) -> Record:
    """Return the invoice after a payment that lowered the debt."""
    trigger = "pay-partially" if outcome.ledger["receivable"] else "pay"
    before = {"unpaidStatus": invoice["status"]} if invoice["status"] in _UNPAID else {}
    invoice = {**invoice, **before, "hasPayments": True}
    return move_by(context, invoice, trigger, offer, outcome, paymentId=payment["id"])


def _report(
    context: Context,
    invoice: Record,
    event: str,
    outcome: Outcome,
    payment: Record,
    **why: Record,
) -> Record:
    """Record the event of a payment that moves no invoice, and return the invoice."""
    figures = {**outcome.figures, **_value_date(context, invoice, outcome.ledger.about)}
    notice = {"assignmentNotice": payment["assignmentNotice"]} if event == MISDIRECTED else {}
    figures = {"paymentId": payment["id"], **notice, **why, **figures}
    audit(context, event, ("invoice", invoice["id"]), **figures)
    money = _store(context, invoice, outcome)
    context.emit(event, public_invoice(invoice), optional={"money": money, **why})
    return invoice


def _left_of(context: Context, invoice: Record, payment: Record) -> Decimal:
    """Return what is left of a payment. Raises ApiError 409 when the books are closed."""
    if invoice["status"] in context.lifecycle.machines[INVOICE].terminal:
        raise conflict(f"The invoice is {invoice['status']}", "Its books are closed.")
    return EXACT.add(payment["applied"], payment["unapplied"])


def _status_after_return(invoice: Record, ledger: Ledger) -> str:
    """Return the status of a paid invoice after a payment was returned."""
    before = invoice["previousStatus"] if invoice["status"] == "Paid" else None
    if before in {"Defaulted", "Recourse"}:
        return str(before)
    return "PartiallyPaid" if ledger.applied else invoice.get("unpaidStatus", "Funded")


def load_ledger(
    context: Context, invoice: Record, offer: Record, day: date | None = None
) -> Ledger:
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


def _store(context: Context, invoice: Record, outcome: Outcome) -> Record:
    """Store a ledger with its new postings, and return what an event may include as ``money``."""
    offer, ledger, posted = accepted_offer(context, invoice), outcome.ledger, []
    context.state.put(_LEDGERS, offer["id"], books.as_record(ledger))
    cause = {**context.origin.cause, **_value_date(context, invoice, {})}
    for row in _posting_rows(context, invoice, ledger, cause):
        posted.append(context.new_id("pst_sandbox"))
        number = str(context.state.next_number(POSTINGS))
        context.state.put(POSTINGS, number, {"offerId": offer["id"], "id": posted[-1], **row})
    return {
        "currency": offer["currency"],
        "valueDate": ledger.about.get("valueDate", value_day(context, invoice).isoformat()),
        "amounts": outcome.figures,
        "postingIds": posted,
    }


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
            **_about(context, invoice, posting),
            "entries": [_entry(account, amount) for account, amount in posting.amounts.items()],
        }
        for posting in ledger.postings
    ]


def _about(context: Context, invoice: Record, posting: books.Posting) -> Record:
    """Return what a posting is about, without a value date that is simply today."""
    named = {name: value for name, value in posting.about.items() if name != "valueDate"}
    dated = _value_date(context, invoice, posting.about) if "valueDate" in posting.about else {}
    return {**named, **dated}


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
