"""Fingerprint scheme ilf1: which invoices are the same one, and which resemble each other."""

import json
from decimal import Decimal
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from domain.fingerprint import canonical_text, fingerprint, registry_keys
from tests import scenario_run
from tests.cases import in_turn

INVOICE = {**scenario_run.INVOICE, "invoiceNumber": "INV-2026-0042", "amount": Decimal("12500.50")}
DUE = INVOICE | {"dueDate": "2027-01-31"}

SPACES = st.text(" \t\n\u00a0\u2003\u3000", max_size=4)
TEXT = st.text(max_size=20)  # hypothesis draws no surrogates unless asked
AMOUNTS = st.decimals("-1e15", "1e15", allow_nan=False, places=2)


def canonical(**changes: Any) -> dict[str, str]:
    members: dict[str, str] = json.loads(canonical_text(INVOICE | changes))
    return members


def keys(**changes: Any) -> dict[str, str]:
    """The similarity keys by tier."""
    return {key.partition(":")[0]: key for key in registry_keys(DUE | changes).similar}


def test_the_text_is_the_one_of_rfc_8785_for_every_character() -> None:
    for first in range(0, 0x110000, 0x800):
        points = range(first, first + 0x800)
        party = "".join(chr(one) for one in points if not 0xD800 <= one < 0xE000) + "."
        members = json.loads(text := canonical_text(INVOICE | {"sellerId": party}))
        assert rfc8785.dumps(members).decode() == text


def test_the_published_vector_has_its_canonical_text() -> None:
    assert canonical_text(INVOICE) == (
        '{"amount":"12500.50","currency":"EUR","debtorId":"org_debtor_globex",'
        '"invoiceNumber":"INV-2026-0042","sellerId":"org_seller_acme","v":"ilf1"}'
    )


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        pytest.param(
            {},
            "33e3f32da53e9a25ea839c57f5ca89476e48d870be768e2086b3b9bc2bca2577",
            id="first vector",
        ),
        pytest.param(
            {"invoiceNumber": " inv-2026-0042 ", "currency": "eur", "dueDate": "2027-03-01"},
            "33e3f32da53e9a25ea839c57f5ca89476e48d870be768e2086b3b9bc2bca2577",
            id="first vector in another spelling",
        ),
        pytest.param(
            {"amount": Decimal("12500.51")},
            "d9b27cb003611cff3bac6e5a09fb0f61ea8bbc1121097ebcc90848db496a4604",
            id="second vector, one cent more",
        ),
    ],
)
def test_the_published_vectors_have_their_fingerprints(changes: dict[str, Any], value: str) -> None:
    assert fingerprint(INVOICE | changes) == value


@in_turn(
    "changes",
    [
        pytest.param({"sellerId": " org_seller_acme\n"}, id="seller trimmed"),
        pytest.param({"debtorId": "\u00a0org_debtor_globex\u2003"}, id="no-break space trimmed"),
        pytest.param({"invoiceNumber": "inv-2026-0042"}, id="number in lower case"),
        pytest.param({"invoiceNumber": "INV - 2026\u00a0-\t0042"}, id="spaces inside the number"),
        pytest.param({"invoiceNumber": "INV-2026-\u2007\u202f\u30000042"}, id="wide, narrow space"),
        pytest.param(
            {"invoiceNumber": "\uff29\uff2e\uff36\uff0d2026-\uff10\uff10\uff14\uff12"},
            id="full-width number",
        ),
        pytest.param({"currency": "eUr"}, id="currency in mixed case"),
        pytest.param({"currency": "\ufeff EUR\u200b "}, id="currency trimmed"),
        pytest.param({"currency": "\uff25\uff35\uff32"}, id="full-width currency"),
        pytest.param({"invoiceNumber": "INV\u200b-2026\u2060-0042\u00ad"}, id="zero width, number"),
        pytest.param({"sellerId": "org_\u200dseller_acme\ufeff"}, id="zero width, seller"),
        pytest.param({"debtorId": "\u200eorg_debtor_globex"}, id="zero width, debtor"),
        pytest.param({"amount": Decimal("12500.5")}, id="amount without trailing zero"),
        pytest.param({"amount": Decimal("1.25005E+4")}, id="amount with an exponent"),
        pytest.param({"amount": Decimal("12500.505")}, id="amount half a cent over"),
        pytest.param({"issueDate": "2026-11-21", "dueDate": "2027-01-31"}, id="dates not hashed"),
        pytest.param({"purchaseOrder": "PO-1"}, id="other members not hashed"),
    ],
)
def test_another_spelling_of_an_invoice_has_the_same_fingerprint(changes: dict[str, Any]) -> None:
    assert fingerprint(INVOICE | changes) == fingerprint(INVOICE)


@in_turn(
    "changes",
    [
        pytest.param({"sellerId": "ORG_seller_acme"}, id="case of the seller"),
        pytest.param({"debtorId": "org_debtor_Globex"}, id="case of the debtor"),
        pytest.param({"sellerId": "org seller acme"}, id="seller with spaces inside"),
        pytest.param({"sellerId": "org_seller_\uff41cme"}, id="seller is not NFKC"),
        pytest.param({"sellerId": "org_seller\u202f_acme"}, id="a narrow space is not zero width"),
        pytest.param(
            {"sellerId": "org_debtor_globex", "debtorId": "org_seller_acme"}, id="swapped"
        ),
        pytest.param({"invoiceNumber": "INV20260042"}, id="hyphens"),
        pytest.param({"invoiceNumber": "INV/2026/0042"}, id="slashes"),
        pytest.param({"invoiceNumber": "INV-2026-42"}, id="zeros"),
        pytest.param({"currency": "USD"}, id="currency"),
        pytest.param({"amount": Decimal("12500.515")}, id="half a cent that rounds up"),
        pytest.param({"amount": Decimal("-12500.50")}, id="sign"),
    ],
)
def test_another_invoice_has_another_fingerprint(changes: dict[str, Any]) -> None:
    assert fingerprint(INVOICE | changes) != fingerprint(INVOICE)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param("Cafe\u0301", "Caf\u00e9", id="combining accent composed"),
        pytest.param("\u212b", "\u00c5", id="angstrom sign is a letter"),
        pytest.param("\ufb01rm", "\ufb01rm", id="ligature kept"),
        pytest.param("a\u00a0b", "a\u00a0b", id="no-break space inside kept"),
    ],
)
def test_a_party_is_nfc(sent: str, kept: str) -> None:
    assert canonical(sellerId=sent)["sellerId"] == kept
    assert canonical(debtorId=sent)["debtorId"] == kept


@in_turn(
    ("sent", "kept"),
    [
        pytest.param("\ufb01-1", "FI-1", id="ligature"),
        pytest.param("n\u00b2", "N2", id="superscript"),
        pytest.param("cafe\u0301", "CAF\u00c9", id="combining accent composed"),
        pytest.param("\u2168/7", "IX/7", id="roman numeral"),
        pytest.param("stra\u00dfe", "STRASSE", id="sharp s has two capitals"),
        pytest.param("\u00a0\u3000", "", id="nothing but white space"),
    ],
)
def test_an_invoice_number_is_nfkc_in_upper_case(sent: str, kept: str) -> None:
    assert canonical(invoiceNumber=sent)["invoiceNumber"] == kept


def test_a_lone_surrogate_has_no_fingerprint() -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        fingerprint(INVOICE | {"sellerId": "\ud800"})


def test_an_amount_that_no_double_can_hold_has_no_fingerprint() -> None:
    with pytest.raises(ValueError, match="below 1E"):
        fingerprint(INVOICE | {"amount": Decimal("1e400")})


@pytest.mark.parametrize("name", sorted(INVOICE))
def test_every_required_member_is_needed(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        canonical_text({key: value for key, value in INVOICE.items() if key != name})


@in_turn(
    ("changes", "shared"),
    [
        pytest.param({}, {"s1", "s2", "s3"}, id="nothing else"),
        pytest.param({"amount": 1}, {"s1"}, id="amount"),
        pytest.param({"dueDate": "2027-02-28"}, {"s1", "s3"}, id="due date"),
        pytest.param({"dueDate": None}, {"s1", "s3"}, id="no due date"),
        pytest.param({"issueDate": "2026-01-01"}, {"s1", "s2", "s3"}, id="issue date"),
        pytest.param({"invoiceNumber": "OTHER-7"}, {"s2"}, id="number"),
        pytest.param({"invoiceNumber": "00inv2026/0042"}, {"s1", "s2", "s3"}, id="number, loosely"),
        pytest.param({"invoiceNumber": "OTHER-7", "amount": 1}, set(), id="number and amount"),
        pytest.param({"sellerId": "org_other"}, {"s3"}, id="seller"),
        pytest.param({"debtorId": "org_other"}, set(), id="debtor"),
        pytest.param({"currency": "USD"}, set(), id="currency"),
        pytest.param(
            {"currency": "eur", "sellerId": " org_seller_acme"}, {"s1", "s2", "s3"}, id="case"
        ),
    ],
)
def test_invoices_resemble_each_other_by_the_keys_they_share(
    changes: dict[str, Any], shared: set[str]
) -> None:
    ours, theirs = keys(), keys(**changes)
    assert {tier for tier in ours if ours[tier] == theirs.get(tier)} == shared


@in_turn(
    ("one", "other", "same"),
    [
        pytest.param("0042", "42", True, id="leading zeros"),
        pytest.param("-0-0/42", "42", True, id="leading zeros behind hyphens"),
        pytest.param("\uff10\uff1042", "42", True, id="full-width zeros"),
        pytest.param("INV-42", "inv 42", True, id="hyphen and case"),
        pytest.param("É.42", "e\u030142", True, id="letters beyond ASCII, composed"),
        pytest.param("000", "0", True, id="nothing but zeros"),
        pytest.param("420", "42", False, id="trailing zero"),
        pytest.param("INV-0042", "INV-42", True, id="leading zeros behind letters"),
        pytest.param("INV-042-07", "inv 42/7", True, id="leading zeros of every run"),
        pytest.param("INV-402", "INV-42", False, id="zero inside"),
        pytest.param("É42", "E42", False, id="accent"),
        pytest.param("№42", "42", False, id="numero sign is the letters NO"),
    ],
)
def test_a_loose_number_is_alphanumerics_and_every_run_of_digits_without_leading_zeros(
    one: str, other: str, same: bool
) -> None:
    assert (keys(invoiceNumber=one)["s1"] == keys(invoiceNumber=other)["s1"]) is same


def test_an_invoice_without_due_date_has_no_key_of_it() -> None:
    assert [key[:3] for key in registry_keys(INVOICE).similar] == ["s1:", "s3:"]


def test_the_keys_do_not_change_between_releases() -> None:
    assert registry_keys(DUE).similar == (
        "s1:8ac5c738bae010da46f8fc2609811f191b22e5216e6f74de4617e7e9adfd0550",
        "s2:f1b417dbe07faaf1cb424794d9b3567f37acc6b91b553651f226ef4058d2ff9e",
        "s3:39f5ac5886c44992d349d616f5c768ded1170c951216af953870eebcc959e5d9",
    )


def test_a_separator_in_an_identifier_joins_no_two_invoices() -> None:
    one = keys(sellerId='a","b', debtorId="c")
    other = keys(sellerId="a", debtorId='b","c')
    assert not set(one.values()) & set(other.values())


@given(TEXT, TEXT, st.from_regex(r"[A-Za-z0-9/-]{1,20}", fullmatch=True), AMOUNTS, SPACES)
def test_spelling_never_matters(
    seller: str, debtor: str, number: str, amount: Decimal, space: str
) -> None:
    invoice = DUE | {
        "sellerId": seller, "debtorId": debtor, "invoiceNumber": number, "amount": amount
    }  # fmt: skip
    respelt = invoice | {
        "sellerId": space + seller + space,
        "debtorId": debtor + space,
        "invoiceNumber": space + space.join(number.lower()),
        "amount": Decimal(f"{amount:E}"),
        "currency": "eur",
    }
    assert canonical_text(respelt) == canonical_text(invoice)
    assert registry_keys(respelt).similar == registry_keys(invoice).similar
