"""Amounts of money, exact to the currency's minor unit."""

import decimal
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.fingerprint import amount_text, minor_units, round_half_up, round_to_minor_units
from tests.cases import in_turn

CURRENCIES = st.sampled_from(["JPY", "EUR", "BHD", "CLF", "???"])
AMOUNTS = st.decimals(allow_nan=False, allow_infinity=False).filter(lambda d: d.adjusted() < 309)


@in_turn(
    ("currency", "digits"),
    [
        pytest.param("JPY", 0, id="yen"),
        pytest.param("EUR", 2, id="euro"),
        pytest.param("BHD", 3, id="Bahraini dinar"),
        pytest.param("CLF", 4, id="unidad de fomento"),
        pytest.param("jpy", 0, id="lower case"),
        pytest.param("Bhd", 3, id="mixed case"),
        pytest.param("QQQ", 2, id="unknown code"),
        pytest.param("", 2, id="empty"),
        pytest.param("gold coins", 2, id="no code at all"),
        pytest.param(" JPY", 2, id="white space is not trimmed"),
        pytest.param("XAU", 2, id="listed without minor unit: gold"),
        pytest.param("XXX", 2, id="listed without minor unit: no currency"),
    ],
)
def test_a_currency_has_its_iso_4217_digits_and_two_if_there_are_none(
    currency: str, digits: int
) -> None:
    assert minor_units(currency) == digits


@in_turn(
    ("sent", "currency", "text"),
    [
        pytest.param("12500.5", "EUR", "12500.50", id="padded"),
        pytest.param("12500", "EUR", "12500.00", id="integer"),
        pytest.param("12500.00", "JPY", "12500", id="no point without digits"),
        pytest.param("1.5", "BHD", "1.500", id="three digits"),
        pytest.param("1.5", "CLF", "1.5000", id="four digits"),
        pytest.param("1.5", "QQQ", "1.50", id="unknown currency"),
        pytest.param("12500.505", "EUR", "12500.50", id="half down to even"),
        pytest.param("12500.515", "EUR", "12500.52", id="half up to even"),
        pytest.param("12500.5050000000000000000000000000001", "EUR", "12500.51", id="over half"),
        pytest.param("0.5", "JPY", "0", id="half yen down to even"),
        pytest.param("1.5", "JPY", "2", id="half yen up to even"),
        pytest.param("9.995", "EUR", "10.00", id="one digit more after rounding"),
        pytest.param("99.9999", "JPY", "100", id="one digit more, no decimals"),
        pytest.param("1.25E+4", "EUR", "12500.00", id="positive exponent"),
        pytest.param("1250050E-2", "EUR", "12500.50", id="negative exponent"),
        pytest.param("-12500.505", "EUR", "-12500.50", id="negative"),
        pytest.param("0", "EUR", "0.00", id="zero"),
        pytest.param("-0", "EUR", "0.00", id="negative zero"),
        pytest.param("-0.004", "EUR", "0.00", id="negative rounded to zero"),
        pytest.param("-0.4", "JPY", "0", id="negative yen rounded to zero"),
        pytest.param("0E+999999", "EUR", "0.00", id="zero with a large exponent"),
        pytest.param("-0E-999999", "EUR", "0.00", id="zero with a small exponent"),
    ],
)
def test_an_amount_is_written_with_exactly_the_digits_of_its_currency(
    sent: str, currency: str, text: str
) -> None:
    assert amount_text(Decimal(sent), currency) == text


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        pytest.param("1E+300", "1" + 300 * "0" + ".00", id="three hundred zeros"),
        pytest.param("1E+308", "1" + 308 * "0" + ".00", id="largest exponent of a double"),
        pytest.param(308 * "9" + "9.999", "1" + 309 * "0" + ".00", id="rounded past it"),
        pytest.param(40 * "9", 40 * "9" + ".00", id="forty digits"),
        pytest.param(40 * "9" + ".125", 40 * "9" + ".12", id="forty digits and a half cent"),
    ],
)
def test_a_large_amount_keeps_every_digit(sent: str, text: str) -> None:
    assert amount_text(Decimal(sent), "EUR") == text


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param("1E-999999", id="least exponent"),
        pytest.param("-1E-999999999999999", id="exponent of fifteen digits"),
        pytest.param("0." + 100_000 * "0" + "1", id="written out"),
    ],
)
def test_an_amount_far_below_the_minor_unit_is_zero(sent: str) -> None:
    assert amount_text(Decimal(sent), "EUR") == "0.00"


@in_turn("sent", ["1E+309", "-1E+309", "1E+999999999", "NaN", "sNaN", "-Infinity"])
def test_an_amount_that_no_double_can_hold_is_rejected_before_any_work(sent: str) -> None:
    with pytest.raises(ValueError, match="finite and below"):
        round_to_minor_units(Decimal(sent), "EUR")


@pytest.mark.parametrize("calculated", ["1E+309", "-4E+320", "1E+620"])
def test_what_is_calculated_from_an_amount_may_be_more_than_a_double_can_hold(
    calculated: str,
) -> None:
    assert round_half_up(Decimal(calculated), "EUR") == Decimal(calculated)


def test_the_decimal_context_of_the_caller_does_not_matter() -> None:
    with decimal.localcontext(prec=3, rounding=decimal.ROUND_UP):
        assert amount_text(Decimal("12500.505"), "EUR") == "12500.50"


@given(AMOUNTS, CURRENCIES)
def test_rounding_moves_an_amount_by_half_a_minor_unit_at_most(
    amount: Decimal, currency: str
) -> None:
    rounded = round_to_minor_units(amount, currency)
    with decimal.localcontext(prec=1000):
        assert abs(rounded - amount) * 2 <= Decimal(10) ** -minor_units(currency)


@given(AMOUNTS, CURRENCIES)
def test_the_text_is_plain_and_reads_back_as_the_rounded_amount(
    amount: Decimal, currency: str
) -> None:
    text = amount_text(amount, currency)
    assert Decimal(text) == round_to_minor_units(amount, currency)
    assert len(text.partition(".")[2]) == minor_units(currency)
    assert set(text) <= set("-.0123456789")
    assert amount_text(Decimal(text), currency) == text
