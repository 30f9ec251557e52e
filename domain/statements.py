"""Account statements: what a workspace's partners received and paid, by partner and currency.

They are made of the cash in the ledgers. No bank is behind them, and fixtures have none before
their first posting.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record

from .fingerprint import EXACT
from .invoices import load_invoice
from .ledger import CASH, NOTHING
from .offers import load_offer
from .payments import POSTINGS

_PASSED_ON: Final = "application"
"""The step of a ledger at which the seller passes on what it collected."""


def read_statements(context: Context, start: str | None, end: str | None) -> list[Record]:
    """Return a statement for each partner and currency, in the order of their first entry.

    ``start`` and ``end`` are the first and the last day; what was booked before is the opening
    balance. Default is everything up to today.
    """
    accounts: dict[str, list[Record]] = {}
    for entry in _entries(context):
        accounts.setdefault(f"{entry['partnerId']}-{entry['currency']}", []).append(entry)
    last = end or context.timestamp[:10]
    return [_statement(name, entries, start, last) for name, entries in accounts.items()]


def _statement(name: str, entries: list[Record], start: str | None, end: str) -> Record:
    first = start or min([end, *(day for entry in entries if (day := entry["bookingDate"]))])
    booked = [entry for entry in entries if first <= entry["bookingDate"] <= end]
    opening = _sum(entry for entry in entries if entry["bookingDate"] < first)
    return {
        "accountId": name,
        "partnerId": entries[0]["partnerId"],
        "currency": entries[0]["currency"],
        "from": first,
        "to": end,
        "openingBalance": opening,
        "closingBalance": EXACT.add(opening, _sum(iter(booked))),
        "entries": booked,
    }


def _entries(context: Context) -> Iterator[Record]:
    """Yield every movement of cash, oldest first."""
    for posting in context.state.page(POSTINGS, oldest_first=True, shared=True).records:
        for row in posting["entries"]:
            if row["account"] in CASH:
                yield _entry(context, posting, row)


def _entry(context: Context, posting: Record, row: Record) -> Record:
    """Return a movement: a debit of a cash account is money that the partner received."""
    offer = load_offer(context, posting["offerId"])
    invoice = load_invoice(context, offer["invoiceId"])
    from_seller = row["account"].startswith("seller") or posting["step"] == _PASSED_ON
    day = (posting["at"] or "")[:10]  # the opening balance of a fixture is before all days
    return {
        "id": posting["id"],
        "partnerId": offer["partnerId"],
        "currency": str(offer["currency"]).strip().upper(),
        "invoiceId": invoice["id"],
        "invoiceNumber": invoice["invoiceNumber"],
        "step": posting["step"],
        "direction": "Credit" if "debit" in row else "Debit",
        "amount": row["debit"] if "debit" in row else row["credit"],
        "bookingDate": day,
        "valueDate": posting.get("valueDate", day),
        "counterparty": invoice["sellerId" if from_seller else "debtorId"],
    }


def _sum(entries: Iterator[Record]) -> Decimal:
    total: Any = NOTHING
    for entry in entries:
        amount = Decimal(entry["amount"])
        signed = amount if entry["direction"] == "Credit" else amount.copy_negate()
        total = EXACT.add(total, signed)
    return Decimal(total)
