"""Fingerprint scheme `ilf1`: which invoices are the same one, and which resemble each other.

Pure functions of the invoice as sent: a mapping with at least `sellerId`, `debtorId`,
`invoiceNumber` and `currency` (strings) and `amount` (int, or Decimal holding the number's text).
Only these required members are hashed, so that leaving out an optional date hides no duplicate.

A fingerprint is an unkeyed hash of guessable members: treat it as confidential.

Source: specification, Registry (SHA-256 of canonical invoice fields); fingerprint scheme ilf1.
"""

import hashlib
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import rfc8785

from .money import amount_text

SCHEME: Final = "ilf1"


def canonical_text(invoice: Mapping[str, Any]) -> str:
    """The text that is hashed: an RFC 8785 object of `v` and the five required members.

    `{"amount":"12500.50","currency":"EUR","debtorId":...,"invoiceNumber":...,"sellerId":...,
    "v":"ilf1"}`, every value a string. White space is what `str.isspace` takes for it.

    Raises KeyError for a missing member, TypeError for a binary float as amount, ValueError for an
    amount not below 1E+309 and for a lone surrogate.

    Source: fingerprint scheme ilf1, steps 1 to 5.
    """
    members = {
        "amount": _amount(invoice),
        "currency": _currency(invoice),
        "debtorId": _party(invoice["debtorId"]),
        "invoiceNumber": _number(invoice["invoiceNumber"]),
        "sellerId": _party(invoice["sellerId"]),
        "v": SCHEME,
    }
    return rfc8785.dumps(members).decode()


def fingerprint(invoice: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical text in UTF-8, as 64 lower-case hex digits.

    Raises like `canonical_text`.

    Source: specification, Registry; fingerprint scheme ilf1, step 5.
    """
    return hashlib.sha256(canonical_text(invoice).encode()).hexdigest()


def similarity_keys(invoice: Mapping[str, Any]) -> tuple[str, ...]:
    """`("s1:<hex>",)`, or `("s1:<hex>", "s2:<hex>")` for an invoice with a `dueDate`.

    Two invoices resemble each other exactly if they share a key. S1: the same seller, debtor,
    currency and loose number, with any amount. S2: the same seller, debtor, currency, amount and
    due date, with any number. Invoices with one fingerprint share S1 as well: compare fingerprints
    first. Raises like `canonical_text`.

    Source: fingerprint scheme ilf1, similarity.
    """
    parties = (_party(invoice["sellerId"]), _party(invoice["debtorId"]), _currency(invoice))
    same_number = _key("s1", *parties, _loose_number(invoice["invoiceNumber"]))
    due_date = invoice.get("dueDate")
    if due_date is None:
        return (same_number,)
    return (same_number, _key("s2", *parties, _amount(invoice), due_date))


def _party(identifier: str) -> str:
    return unicodedata.normalize("NFC", identifier).strip()


def _number(invoice_number: str) -> str:
    return "".join(unicodedata.normalize("NFKC", invoice_number).split()).upper()


def _loose_number(invoice_number: str) -> str:
    return "".join(filter(str.isalnum, _number(invoice_number))).lstrip("0")


def _currency(invoice: Mapping[str, Any]) -> str:
    currency: str = invoice["currency"]
    return currency.upper()


def _amount(invoice: Mapping[str, Any]) -> str:
    amount = invoice["amount"]
    if not isinstance(amount, int | Decimal):
        # 12500.515 as a double is 12500.514999…, which rounds to another cent than the text sent.
        raise TypeError(f"amount must be an int or a Decimal, not {type(amount).__name__}")
    return amount_text(Decimal(amount), invoice["currency"])


def _key(tier: str, *parts: str) -> str:
    # A JSON array, not joined text: no separator in an identifier can make two keys equal.
    return f"{tier}:{hashlib.sha256(rfc8785.dumps(parts)).hexdigest()}"
