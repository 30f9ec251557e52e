"""Generates the diagram and the tables of docs/domain.md: ``python -m tests.domain_docs``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from decimal import Decimal
from pathlib import Path
from typing import Final

from domain import ledger as books
from domain.ledger import CREDITS, DEBITS, Ledger, Purchase
from domain.pricing import Terms, price
from domain.reasons import CODES
from invoice_sandbox.scenarios.lifecycle import load_lifecycle

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "domain.md"
DUE: Final = 60
ACCOUNTS: Final = (*DEBITS, *CREDITS)
RARE: Final = frozenset({"collectedBySeller", "unapplied"})
"""Accounts that only the table of misdirected payments has."""

LEFT_OUT: Final = frozenset({"Disputed", "Withdrawn", "Expired"})
UNDONE: Final = "return-payment"
REASONS_OF: Final = {
    "DisputeReason": "dispute",
    "RejectionReason": "rejection",
    "DeclineReason": "decline",
    "ReturnReason": "returned payment",
}

Row = tuple[str, Ledger]


def generated() -> dict[str, str]:
    """The generated parts of the page, by the names in their marks."""
    return {
        "statuses": _statuses(),
        "settlement": _table(_settlement(), RARE),
        "recourse": _table(_recourse(), RARE),
        "reasons": _reasons(),
        "unapplied": _table(_unapplied(), {"dilutionDue", "interestDue", "sellerRepaid"}),
    }


def with_generated(page: str) -> str:
    """The page with its generated parts as they should be."""
    for name, text in generated().items():
        between = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
        page = between.sub(lambda _, text=text: text, page)  # type: ignore[misc]
    return page


def purchase() -> Purchase:
    """The purchase of both examples."""
    figures = price(
        Decimal(10_000), "EUR", DUE, Terms(Decimal("0.8"), Decimal("0.12"), Decimal("0.004"))
    )
    fees = figures.discount_fee + figures.service_fee
    return Purchase("EUR", figures.face_value, figures.advance, fees, Decimal("0.12"))


def _settlement() -> Iterable[Row]:
    accepted = books.open_ledger(purchase())
    yield "`OfferAccepted`", accepted
    funded = books.pay_out(accepted).ledger
    yield "`Funded`", funded
    late = books.accrue(funded, DUE, DUE + 30)
    yield "interest for 30 days", late
    paid = books.receive(late).ledger
    yield "`Paid`", paid
    yield "`Settled`", books.settle(paid).ledger


def _recourse() -> Iterable[Row]:
    accepted = books.open_ledger(purchase())
    yield "`OfferAccepted`", accepted
    funded = books.pay_out(accepted).ledger
    yield "`Funded`", funded
    yield "`Overdue`, `Defaulted`, `Recourse`", funded
    late = books.accrue(funded, DUE, DUE + 106)
    yield "interest for 106 days", late
    yield "`Repurchased`", books.repurchase(late).ledger


def _unapplied() -> Iterable[Row]:
    funded = books.pay_out(books.open_ledger(purchase())).ledger
    yield "`Funded`", funded
    misdirected = books.misdirect(funded, Decimal(10_000)).ledger
    yield "10,000.00 are paid to the seller", misdirected
    applied = books.apply_unapplied(misdirected, Decimal(10_000), from_seller=True).ledger
    yield "the seller passes them on: `Paid`", applied
    again = books.collect(applied, Decimal(10_000), Decimal(0)).ledger
    yield "10,000.00 are paid again", again
    returned = books.give_back(again, Decimal(0), Decimal(10_000), by_seller=False).ledger
    yield "they are returned", returned
    yield "`Settled`", books.settle(returned).ledger


def _table(rows: Iterable[Row], without: Set[str]) -> str:
    accounts = [name for name in ACCOUNTS if name not in without]
    lines = [("Step", *(f"`{name}`" for name in accounts)), ("---", *("--:" for _ in accounts))]
    if without >= RARE:
        lines += [("`Registered` to `Offered`", *("" for _ in accounts))]
    lines += [(step, *(f"{ledger[name]:,.2f}" for name in accounts)) for step, ledger in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _reasons() -> str:
    lines = ["| Reason of | Code | Meaning |", "| --- | --- | --- |"]
    for name, codes in CODES.items():
        about = REASONS_OF[name]
        lines += [f"| {about} | `{code}` | {meaning} |" for code, meaning in codes.items()]
    return "".join(f"{line}\n" for line in lines)


def _statuses() -> str:
    machine = load_lifecycle(ROOT / "scenarios" / "lifecycle.yaml").machines["invoice"]
    moves = [
        (state, trigger, machine.step(state, trigger, None).to)
        for state in machine.states
        for trigger in machine.legal[state]
        if state not in LEFT_OUT and trigger != UNDONE
    ]
    lines = [f"  [*] --> {machine.initial}"]
    lines += [f"  {a} --> {b}: {how}" for a, how, b in moves if b not in LEFT_OUT]
    lines += [f"  {end} --> [*]" for end in sorted(machine.terminal) if end not in LEFT_OUT]
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    PAGE.write_text(with_generated(PAGE.read_text()))
