"""Amounts of money, exact to the currency's minor unit."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.fingerprint import amount_text, minor_units, round_to_minor_units
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


@given(AMOUNTS, CURRENCIES)
def test_the_text_is_plain_and_reads_back_as_the_rounded_amount(
    amount: Decimal, currency: str
) -> None:
    text = amount_text(amount, currency)
    assert Decimal(text) == round_to_minor_units(amount, currency)
    assert len(text.partition(".")[2]) == minor_units(currency)
    assert set(text) <= set("-.0123456789")
    assert amount_text(Decimal(text), currency) == text
