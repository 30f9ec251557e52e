"""Amounts of money, exact to the currency's minor unit."""

from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from iso4217 import Currency

DEFAULT_MINOR_UNITS: Final = 2

_MINOR_UNITS: Final = {
    currency.code: currency.exponent for currency in Currency if currency.exponent is not None
}
# Every finite IEEE 754 double lies below 1E+309. A larger amount is no JSON number that all
# clients can read, and writing it out in full would cost memory in proportion to its exponent.
_MAX_EXPONENT: Final = 308


def minor_units(currency: str) -> int:
    """The number of decimal digits of `currency`: JPY 0, EUR 2, BHD 3, CLF 4.

    Case does not matter. The specification accepts any string as a currency, so one that ISO 4217
    (list one) does not have counts 2, and so does one that it lists without a minor unit, such as
    gold (XAU) or "no currency" (XXX).

    Source: ISO 4217 list one; fingerprint scheme ilf1.
    """
    return _MINOR_UNITS.get(currency.upper(), DEFAULT_MINOR_UNITS)


def round_to_minor_units(
    amount: Decimal, currency: str, rounding: str = ROUND_HALF_EVEN
) -> Decimal:
    """`amount` with exactly the digits of `currency`; zero is never negative.

    Half goes to even unless `rounding` (a mode of `decimal`) says otherwise.

    The result is exact whatever the caller's decimal context says: no digit before the decimal
    point is lost. Raises ValueError for an amount that is not finite or not below 1E+309.

    Source: fingerprint scheme ilf1.
    """
    exponent = amount.adjusted() if amount else 0  # 0E+999999 is zero, however it is written
    if not amount.is_finite() or exponent > _MAX_EXPONENT:
        raise ValueError("amount must be finite and below 1E+309")
    digits = minor_units(currency)
    # One digit more than the amount has before the point: 9.995 rounds up to 10.00.
    context = Context(prec=max(exponent, 0) + 2 + digits, rounding=rounding)
    rounded = amount.quantize(Decimal((0, (1,), -digits)), context=context)
    return rounded.copy_abs() if rounded.is_zero() else rounded


def amount_text(amount: Decimal, currency: str) -> str:
    """`amount` as plain decimal text: `"12500.50"`, JPY `"12500"`; no exponent, no `"-0.00"`.

    Raises ValueError like `round_to_minor_units`.

    Source: fingerprint scheme ilf1, step 4.
    """
    return f"{round_to_minor_units(amount, currency):f}"
