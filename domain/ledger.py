"""The ledger of a financed invoice: double entry, in exact decimals.

These are the books of the partner. Every posting balances, so that at any time
``debtorPaid + sellerRepaid + receivable + dilutionDue + interestDue + collectedBySeller
= sellerReceived + held + unapplied + result``. When the invoice is settled, repurchased or written
off, every account is empty but the cash accounts and the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from invoice_sandbox.project.api import Record

from .fingerprint import EXACT, multiply_exactly, round_half_up
from .pricing import year_of

DEBITS: Final = (
    *("receivable", "dilutionDue", "interestDue", "debtorPaid", "sellerRepaid"),
    "collectedBySeller",
)
"""Accounts that a debit increases: what debtor and seller still owe, the cash they paid, and what
the seller collected in place of the partner."""

CREDITS: Final = ("held", "sellerReceived", "result", "unapplied")
"""Accounts that a credit increases: what the partner holds for the seller (reserve and what is not
paid out yet), the cash that the seller received, the partner's fees less its losses, and payments
that are not applied to the debt."""

ACCOUNTS: Final = (*DEBITS, *CREDITS)
CASH: Final = ("debtorPaid", "sellerRepaid", "sellerReceived")
WHOLE: Final = 100
"""Percent."""

NOTHING: Final = Decimal(0)
EVERYTHING: Final = Decimal(1)


class LedgerError(ValueError):
    """A posting that does not balance, or one that makes a balance negative."""


@dataclass(frozen=True)
class Purchase:
    """The terms of an accepted offer. ``fees`` are those of a pay-out now, ``late_rate`` is the
    interest per year of ``day_count``, ``recourse_share`` the seller's share of what the debtor in
    default leaves unpaid."""

    currency: str
    face_value: Decimal
    advance: Decimal
    fees: Decimal
    late_rate: Decimal
    recourse_share: Decimal = EVERYTHING
    day_count: str = "ACT/360"


@dataclass(frozen=True)
class Posting:
    """The posting of a step: ``amounts`` by account, debits positive, credits negative. ``about``
    names what was posted, such as a payment."""

    step: str
    amounts: Mapping[str, Decimal]
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ledger:
    """Balances by account, the gross advance drawn so far, and the last day with interest.

    ``accrued`` is the interest for late payment times the days of a year, so that it is exact: how
    often a part of it is posted does not change what is charged in all. ``charged`` are the fees of
    what is drawn, ``postings`` those since the ledger was loaded, which are ``about`` something.
    """

    purchase: Purchase
    balances: Mapping[str, Decimal]
    drawn: Decimal = NOTHING
    interest_day: int | None = None
    accrued: Decimal = NOTHING
    charged: Decimal = NOTHING
    postings: tuple[Posting, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, account: str) -> Decimal:
        return self.balances.get(account, NOTHING)

    @property
    def left_to_draw(self) -> Decimal:
        """The part of the gross advance that is not drawn; credit notes may have lowered it."""
        return min(_minus(self.purchase.advance, self.drawn), self["held"])

    @property
    def fees(self) -> Decimal:
        """The fees for the advance drawn so far, if it were drawn on the day of the purchase."""
        purchase = self.purchase
        if self.drawn == purchase.advance:
            return purchase.fees
        share = EXACT.divide(multiply_exactly(purchase.fees, self.drawn), purchase.advance)
        return round_half_up(share, purchase.currency)

    @property
    def outstanding(self) -> Decimal:
        """The advance drawn so far, with its fees, that the debtor's payments have not covered.

        Payments and reserve belong to the funded part of the invoice by its share of the advance.
        """
        reserve = _minus(self["held"], self.left_to_draw)
        uncovered = max(_minus(self["receivable"], reserve), NOTHING)
        if not self.left_to_draw:
            return uncovered
        whole = EXACT.add(self.drawn, self.left_to_draw)
        share = EXACT.divide(multiply_exactly(uncovered, self.drawn), whole)
        return round_half_up(share, self.purchase.currency)

    @property
    def surplus(self) -> Decimal:
        """The amount held for the seller that does not cover the funded part."""
        return EXACT.add(_minus(self["held"], self["receivable"]), self.outstanding)

    @property
    def dilution(self) -> Decimal:
        """The credit notes so far."""
        return _minus(_minus(self.purchase.face_value, self["receivable"]), self.applied)

    @property
    def applied(self) -> Decimal:
        """The payments that lowered the debt."""
        return _minus(self["debtorPaid"], _minus(self["unapplied"], self["collectedBySeller"]))


@dataclass(frozen=True)
class Outcome:
    """The ledger after a step, and the amounts of the step for the audit log."""

    ledger: Ledger
    figures: Record = field(default_factory=dict)


def open_ledger(purchase: Purchase) -> Ledger:
    """Open the books when the offer is accepted: nothing is paid out, all is held."""
    face = purchase.face_value
    return _post(Ledger(purchase, {}), "purchase", receivable=face, held=_negative(face))


def carried_forward(ledger: Ledger) -> Ledger:
    """Return the ledger with its postings, whose times are unknown, as one opening balance."""
    amounts = {name: _signed(name, ledger[name]) for name in ACCOUNTS if ledger[name]}
    return replace(ledger, postings=(Posting("opening-balance", amounts),))


def pay_out(ledger: Ledger, percent: int = WHOLE) -> Outcome:
    """Pay out ``percent`` of the advance, at most what is left, less the fees for that part."""
    purchase = ledger.purchase
    return draw(ledger, share(purchase.advance, ledger.left_to_draw, percent, purchase.currency))


def draw(ledger: Ledger, gross: Decimal, about: Mapping[str, str] | None = None) -> Outcome:
    """Pay out ``gross`` of the advance, which must be left, less the fees for that part."""
    drawn = replace(ledger, drawn=EXACT.add(ledger.drawn, gross), about=about or {})
    fees = _minus(drawn.fees, ledger.fees)
    cash = _minus(gross, fees)
    drawn = replace(drawn, charged=EXACT.add(ledger.charged, fees))
    after = _post(
        drawn, "pay-out", held=gross, sellerReceived=_negative(cash), result=_negative(fees)
    )
    figures = {"amount": cash, "fees": fees, "paidOut": after["sellerReceived"]}
    net_proceeds = _minus(ledger.purchase.advance, ledger.purchase.fees)
    return Outcome(after, figures | {"netProceeds": net_proceeds})


def credit(ledger: Ledger, percent: int) -> Outcome:
    """Apply a credit note over ``percent`` of the face value, at most what the debtor owes."""
    whole, currency = ledger.purchase.face_value, ledger.purchase.currency
    return dilute(ledger, share(whole, ledger["receivable"], percent, currency))


def dilute(ledger: Ledger, amount: Decimal) -> Outcome:
    """Apply a credit note over ``amount``, at most what the debtor owes.

    It lowers what is held for the seller; the seller owes what is beyond that.
    """
    covered = min(amount, ledger["held"])
    rest = _minus(amount, covered)
    after = _post(
        ledger, "credit-note", receivable=_negative(amount), held=covered, dilutionDue=rest
    )
    return Outcome(after, {"amount": amount, "owed": after["receivable"]})


def receive(ledger: Ledger, percent: int = WHOLE) -> Outcome:
    """Receive ``percent`` of what the debtor owes."""
    amount = part_of_debt(ledger, percent)
    return collect(ledger, amount, amount)


def part_of_debt(ledger: Ledger, percent: int, excess: int = 0) -> Decimal:
    """Return ``percent`` of what the debtor owes, and ``excess`` percent of it besides."""
    owed, currency = ledger["receivable"], ledger.purchase.currency
    beyond = round_half_up(multiply_exactly(owed, Decimal(excess) / WHOLE), currency)
    return EXACT.add(share(owed, owed, percent, currency), beyond)


def collect(ledger: Ledger, amount: Decimal, applied: Decimal) -> Outcome:
    """Receive ``amount``, of which ``applied`` lowers the debt; the rest is unapplied."""
    rest = _minus(amount, applied)
    lowered = {"receivable": _negative(applied), "debtorPaid": amount, "unapplied": _negative(rest)}
    after = _post(ledger, "payment", **lowered)
    figures = {"amount": amount, "paid": after["debtorPaid"], "owed": after["receivable"]}
    return Outcome(after, {**figures, "unapplied": rest} if rest else figures)


def misdirect(ledger: Ledger, amount: Decimal) -> Outcome:
    """Note that the debtor paid ``amount`` to the seller. It lowers no debt until it is applied."""
    moved = {"collectedBySeller": amount, "unapplied": _negative(amount)}
    after = _post(ledger, "misdirected-payment", **moved)
    return Outcome(after, {"amount": amount, "owed": after["receivable"], "unapplied": amount})


def apply_unapplied(ledger: Ledger, amount: Decimal, *, from_seller: bool) -> Outcome:
    """Apply ``amount`` of what is unapplied to the debt; the seller passes on what it collected."""
    lowered = {"receivable": _negative(amount), "unapplied": amount}
    if from_seller:
        lowered |= {"debtorPaid": amount, "collectedBySeller": _negative(amount)}
    after = _post(ledger, "application", **lowered)
    return Outcome(
        after, {"amount": amount, "paid": after["debtorPaid"], "owed": after["receivable"]}
    )


def give_back(ledger: Ledger, applied: Decimal, unapplied: Decimal, *, by_seller: bool) -> Outcome:
    """Return money to the debtor, who owes again what was ``applied`` of it.

    What is ``unapplied`` comes from the seller if that still has it.
    """
    from_seller = unapplied if by_seller else NOTHING
    amount = EXACT.add(applied, unapplied)
    cash = {
        "debtorPaid": _negative(_minus(amount, from_seller)),
        "collectedBySeller": _negative(from_seller),
    }
    after = _post(ledger, "return", receivable=applied, unapplied=unapplied, **cash)
    return Outcome(
        after, {"amount": amount, "paid": after["debtorPaid"], "owed": after["receivable"]}
    )


def accrue(ledger: Ledger, due_day: int, today: int) -> Ledger:
    """Charge the seller interest on the outstanding advance, for each day since the due day.

    All that was charged so far is rounded, not the interest of each posting.
    """
    start = max(due_day, ledger.interest_day or due_day)
    if today <= start:
        return ledger
    terms, days = ledger.purchase, Decimal(today - start)
    yearly = EXACT.multiply(ledger.outstanding, terms.late_rate)
    accrued = EXACT.add(ledger.accrued, EXACT.multiply(yearly, days))
    charged = round_half_up(EXACT.divide(accrued, year_of(terms.day_count)), terms.currency)
    amount = _minus(charged, ledger["interestDue"])
    after = _post(ledger, "interest", interestDue=amount, result=_negative(amount))
    return replace(after, interest_day=today, accrued=accrued)


def settle(ledger: Ledger) -> Outcome:
    """Release what is held to the seller, less credit notes and interest that it owes."""
    due = EXACT.add(ledger["dilutionDue"], ledger["interestDue"])
    released = max(_minus(ledger["held"], due), NOTHING)
    repaid = max(_minus(due, ledger["held"]), NOTHING)
    after = _clear(ledger, "settlement", sellerReceived=_negative(released), sellerRepaid=repaid)
    figures = {
        "reserveAmount": EXACT.add(ledger["held"], _minus(ledger.dilution, ledger["dilutionDue"])),
        "dilutionAmount": ledger.dilution,
        "interest": ledger["interestDue"],
        "released": released,
        "sellerOwes": repaid,
        "partnerResult": after["result"],
    }
    return Outcome(after, figures)


def settle_by_dilution(ledger: Ledger) -> Outcome:
    """Apply a credit note over all that the debtor owes, and settle."""
    return settle(credit(ledger, WHOLE).ledger)


def repurchase(ledger: Ledger) -> Outcome:
    """Sell the receivable back to the seller: outstanding advance, fees, credit notes, interest.

    Of all but the credit notes it pays the share of the purchase; the partner bears the rest.
    """
    purchase = ledger.purchase
    whole, released = EXACT.add(ledger.outstanding, ledger["interestDue"]), ledger.surplus
    claim = round_half_up(multiply_exactly(whole, purchase.recourse_share), purchase.currency)
    amount, loss = EXACT.add(claim, ledger["dilutionDue"]), _minus(whole, claim)
    cash = {"sellerRepaid": amount, "sellerReceived": _negative(released)}
    after = _clear(ledger, "repurchase", result=loss, **cash)
    fees = min(ledger.charged, ledger.outstanding)
    figures = {
        "amount": amount,
        "outstandingAdvance": _minus(ledger.outstanding, fees),
        "fees": fees,
        "interest": ledger["interestDue"],
        "loss": loss,
        "released": released,
        "partnerResult": after["result"],
    }
    return Outcome(after, figures)


def write_off(ledger: Ledger) -> Outcome:
    """Charge the loss to the partner; the seller owes no more than its credit notes."""
    loss = EXACT.add(ledger.outstanding, ledger["interestDue"])
    dilution, released = ledger["dilutionDue"], ledger.surplus
    cash = {"sellerReceived": _negative(released), "sellerRepaid": dilution}
    after = _clear(ledger, "write-off", result=loss, **cash)
    figures = {"loss": loss, "sellerOwes": dilution, "released": released}
    return Outcome(after, {**figures, "partnerResult": after["result"]})


def share(whole: Decimal, left: Decimal, percent: int, currency: str) -> Decimal:
    """Return ``percent`` of ``whole`` in the digits of the currency, at most ``left``."""
    part = round_half_up(multiply_exactly(whole, Decimal(percent) / WHOLE), currency)
    return min(max(part, NOTHING), left)


def as_record(ledger: Ledger) -> Record:
    """Return the ledger as it is stored; its purchase is that of the offer."""
    return {
        "balances": dict(ledger.balances),
        "drawn": ledger.drawn,
        "interestDay": ledger.interest_day,
        "accrued": ledger.accrued,
        "charged": ledger.charged,
    }


def from_record(purchase: Purchase, record: Mapping[str, Any]) -> Ledger:
    """Return the ledger that was stored."""
    return Ledger(
        purchase,
        record["balances"],
        drawn=Decimal(record["drawn"]),
        interest_day=record["interestDay"],
        accrued=Decimal(record["accrued"]),
        charged=Decimal(record["charged"]),
    )


def _clear(ledger: Ledger, step: str, **amounts: Decimal) -> Ledger:
    """Post ``amounts`` against everything that is still open."""
    open_ = {name: _negative(ledger[name]) for name in DEBITS if name not in CASH}
    cleared = replace(ledger, accrued=NOTHING)
    return _post(cleared, step, **open_, held=ledger["held"], **amounts)


def _post(ledger: Ledger, step: str, **amounts: Decimal) -> Ledger:
    """Post debits (positive) and credits (negative). Raises LedgerError."""
    if reduce(EXACT.add, amounts.values(), NOTHING) != 0:
        raise LedgerError(f"the posting does not balance: {amounts}")
    balances = dict(ledger.balances)
    for account, amount in amounts.items():
        balances[account] = EXACT.add(ledger[account], _signed(account, amount))
        if balances[account] < 0 and account != "result":
            raise LedgerError(f"{account} would be {balances[account]}")
    moved = {account: amount for account, amount in amounts.items() if amount}
    posted = (Posting(step, moved, ledger.about),) if moved else ()
    return replace(ledger, balances=balances, postings=(*ledger.postings, *posted))


def _signed(account: str, amount: Decimal) -> Decimal:
    """Return a balance as an amount of a posting, and back: credits are negative there."""
    return amount if account in DEBITS else _negative(amount)


def _negative(amount: Decimal) -> Decimal:
    """Return the negated amount; ``-amount`` would round to the 28 digits of Python's default."""
    return amount.copy_negate()


def _minus(amount: Decimal, less: Decimal) -> Decimal:
    return EXACT.subtract(amount, less)
