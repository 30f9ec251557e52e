"""Fingerprint scheme `ilf1`: which invoices are the same, and which are similar.

Canonical form: zero-width characters are removed and outer white space is trimmed everywhere.
`invoiceNumber` and `currency` are NFKC and upper-case, and the number has no white space inside.
`sellerId` and `debtorId` are NFC and keep their case, because identifiers of different systems may
differ only in it. `amount` is decimal text with the digits of the currency.

Pure functions of the invoice as sent: a mapping with at least `sellerId`, `debtorId`,
`invoiceNumber` and `currency` (strings) and `amount` (int, or Decimal holding the number's text).
Only these required members are hashed, so that leaving out an optional date hides no duplicate.
Amounts are rounded to the minor unit of their currency; offers use the same rounding.

A fingerprint is an unkeyed hash of guessable members: treat it as confidential.

Source: specification, Registry (SHA-256 of canonical invoice fields); fingerprint scheme ilf1.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from functools import cache
from typing import Any, Final

from invoice_sandbox.project.api import dump_json

SCHEME: Final = "ilf1"
DEFAULT_MINOR_UNITS: Final = 2

_ZERO_WIDTH: Final = dict.fromkeys(
    (
        *(0x00AD, 0x034F, 0x061C, 0x180E, 0xFEFF),
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
    )
)
"""Characters without a width: joiners, direction marks, soft hyphen, byte order mark."""

_LEADING_ZEROS: Final = re.compile(r"(?<!\d)0+")

# Every finite IEEE 754 double lies below 1E+309. A larger amount is not a JSON number that all
# clients can read, and writing it out in full would cost memory in proportion to its exponent.
_MAX_EXPONENT: Final = 308

_INT_BITS: Final = 64
"""An integer of fewer bits is its own decimal text; larger ones are checked like any amount."""

EXACT: Final = Context(prec=400)
"""Arithmetic with enough digits for any amount that a double can hold."""


@dataclass(frozen=True)
class RegistryKeys:
    """The fingerprint of an invoice, the keys that it shares with similar invoices, and its seller
    in canonical form."""

    fingerprint: str
    similar: tuple[str, ...]
    seller: str


def registry_keys(invoice: Mapping[str, Any]) -> RegistryKeys:
    """Return the keys by which the registry finds an invoice.

    `similar` is `("s1:<hex>", "s3:<hex>")`, with `"s2:<hex>"` in between for one with a `dueDate`.
    Two invoices are similar exactly if they share a key. S1: the same seller, debtor, currency and
    loose number, with any amount: letters and digits only, and every run of digits without leading
    zeros. S2: the same seller, debtor, currency, amount and due date, with any number. S3: the same
    debtor, currency, amount and loose number, from any seller: the double sale. Invoices with one
    fingerprint share keys as well: compare fingerprints first. Raises like `canonical_text`.

    Source: fingerprint scheme ilf1, similarity.
    """
    members = _canonical_members(invoice)
    digest = hashlib.sha256(_canonical(members)).hexdigest()
    return RegistryKeys(digest, _similarity_keys(members, invoice), members["sellerId"])


def canonical_text(invoice: Mapping[str, Any]) -> str:
    """Return the text that is hashed: an RFC 8785 object of `v` and the five required members.

    `{"amount":"12500.50","currency":"EUR","debtorId":...,"invoiceNumber":...,"sellerId":...,
    "v":"ilf1"}`, every value a string. White space is what `str.isspace` takes for it.

    Raises KeyError for a missing member, TypeError for a binary float as amount, ValueError for an
    amount not below 1E+309 and for a lone surrogate.

    Source: fingerprint scheme ilf1, steps 1 to 5.
    """
    return _canonical(_canonical_members(invoice)).decode()


def fingerprint(invoice: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical text in UTF-8, as 64 lower-case hex digits.

    Raises like `canonical_text`.

    Source: specification, Registry; fingerprint scheme ilf1, step 5.
    """
    return hashlib.sha256(canonical_text(invoice).encode()).hexdigest()


def _canonical_members(invoice: Mapping[str, Any]) -> dict[str, str]:
    """Return the members that are hashed, in the order of RFC 8785."""
    currency = _currency(invoice)
    return {
        "amount": _amount(invoice["amount"], currency),
        "currency": currency,
        "debtorId": canonical_party(invoice["debtorId"]),
        "invoiceNumber": _number(invoice["invoiceNumber"]),
        "sellerId": canonical_party(invoice["sellerId"]),
        "v": SCHEME,
    }


def _similarity_keys(members: Mapping[str, str], invoice: Mapping[str, Any]) -> tuple[str, ...]:
    parties = (members["sellerId"], members["debtorId"], members["currency"])
    number = _loose_number(members["invoiceNumber"])
    same_number = _key("s1", *parties, number)
    other_seller = _key("s3", *parties[1:], members["amount"], number)
    due_date = invoice.get("dueDate")
    if due_date is None:
        return (same_number, other_seller)
    return (same_number, _key("s2", *parties, members["amount"], due_date), other_seller)


def minor_units(currency: str) -> int:
    """Return the number of decimal digits of `currency`: JPY 0, EUR 2, BHD 3, CLF 4.

    Case does not matter. The specification accepts any string as a currency, so one that ISO 4217
    (list one) does not have counts 2, and so does one that it lists without a minor unit, such as
    gold (XAU) or "no currency" (XXX).

    Source: ISO 4217 list one; fingerprint scheme ilf1.
    """
    return _minor_units().get(currency.upper(), DEFAULT_MINOR_UNITS)


def round_to_minor_units(
    amount: Decimal, currency: str, rounding: str = ROUND_HALF_EVEN
) -> Decimal:
    """Return `amount` with exactly the digits of `currency`; zero is never negative.

    Rounds half to even unless `rounding` is another mode of `decimal`.

    The result is exact in every decimal context of the caller: no digit before the decimal
    point is lost. Raises ValueError for an amount that is not finite or not below 1E+309.

    Source: fingerprint scheme ilf1.
    """
    if not amount.is_finite() or (amount and amount.adjusted() > _MAX_EXPONENT):
        raise ValueError("amount must be finite and below 1E+309")
    return _rounded(amount, currency, rounding)


def _rounded(amount: Decimal, currency: str, rounding: str) -> Decimal:
    exponent = amount.adjusted() if amount else 0  # 0E+999999 is zero, however it is written
    digits = minor_units(currency)
    # One digit more than the amount has before the point: 9.995 rounds up to 10.00.
    context = Context(prec=max(exponent, 0) + 2 + digits, rounding=rounding)
    rounded = amount.quantize(Decimal((0, (1,), -digits)), context=context)
    return rounded.copy_abs() if rounded.is_zero() else rounded


def round_half_up(amount: Decimal, currency: str) -> Decimal:
    """Return `amount` with the digits of `currency`, half up: the rounding of offers and payments.

    What is calculated may be beyond 1E+309: the interest of many years on such an amount.
    """
    return _rounded(amount, currency, ROUND_HALF_UP)


def multiply_exactly(amount: Decimal, share: Decimal) -> Decimal:
    """Return the product, exact for any amount that a double can hold."""
    return EXACT.multiply(amount, share)


def amount_text(amount: Decimal, currency: str) -> str:
    """Return `amount` as plain decimal text: `"12500.50"`, JPY `"12500"`; never `"-0.00"`.

    Raises ValueError like `round_to_minor_units`.

    Source: fingerprint scheme ilf1, step 4.
    """
    return f"{round_to_minor_units(amount, currency):f}"


def is_blank(text: str) -> bool:
    """True if a text has nothing but white space and zero-width characters."""
    return not _visible(text).strip()


def _visible(text: str) -> str:
    return text.translate(_ZERO_WIDTH)


def canonical_party(identifier: str) -> str:
    """Return `sellerId` or `debtorId` in canonical form."""
    if identifier.isascii():
        return identifier.strip()
    return unicodedata.normalize("NFC", _visible(identifier)).strip()


def _number(invoice_number: str) -> str:
    if not invoice_number.isascii():
        invoice_number = unicodedata.normalize("NFKC", _visible(invoice_number))
    return "".join(invoice_number.split()).upper()


def _loose_number(number: str) -> str:
    """Return a canonical number as similar invoices have it."""
    return "".join(filter(str.isalnum, _LEADING_ZEROS.sub("", number)))


def is_named_in(invoice_number: str, text: str) -> bool:
    """True if a text has the number of an invoice, compared by letters and digits: a payment's
    reference "Inv 2026/42" names INV-2026-0042."""
    return _loose_number(_number(invoice_number)) in _loose_number(_number(text))


def _currency(invoice: Mapping[str, Any]) -> str:
    currency: str = invoice["currency"]
    if not currency.isascii():
        currency = unicodedata.normalize("NFKC", _visible(currency))
    return currency.strip().upper()


def _amount(amount: Any, currency: str) -> str:
    if not isinstance(amount, int | Decimal):
        # 12500.515 as a double is 12500.514999…, which rounds to another cent than the text sent.
        raise TypeError(f"amount must be an int or a Decimal, not {type(amount).__name__}")
    if isinstance(amount, int) and amount.bit_length() < _INT_BITS:
        digits = minor_units(currency)
        return f"{amount}.{'0' * digits}" if digits else str(amount)
    return amount_text(Decimal(amount), currency)


def _key(tier: str, *parts: str) -> str:
    # A JSON array, not joined text: no separator in an identifier can make two keys equal.
    return f"{tier}:{hashlib.sha256(_canonical(parts)).hexdigest()}"


def _canonical(value: Any) -> bytes:
    """Return RFC 8785 for texts, the members of an object being in order already."""
    try:
        return dump_json(value)
    except TypeError:
        raise ValueError("half of a surrogate pair has no form in UTF-8") from None


def is_money(currency: str) -> bool:
    """True for the code of a currency that ISO 4217 lists with a minor unit: EUR, not XXX."""
    return currency.strip().upper() in _minor_units()


@cache
def _minor_units() -> Mapping[str, int]:
    from iso4217 import Currency  # reading its table takes longer than the rest of the start

    return {unit.code: unit.exponent for unit in Currency if unit.exponent is not None}
