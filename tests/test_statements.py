"""Account statements: what the ledgers say was paid, as JSON and as camt.053 of ISO 20022."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import xmlschema

from tests.scenario_run import DATED, advance, choose, data, error, move, register

XSD = Path(__file__).parent / "iso20022" / "camt.053.001.08.xsd"
TO_FUNDED = ["start-verification", "verify", "request-financing", "receive-offer"]
TO_FUNDED += ["accept-offer", "fund"]


@cache
def schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(XSD))


def statements(client: httpx.Client, **query: str) -> Any:
    return data(client.get("/sandbox/statement", params=query), 200)


def camt(client: httpx.Client, **query: str) -> dict[str, Any]:
    """The document, which must be valid by the schema."""
    response = client.get("/sandbox/statement", params={"format": "camt.053", **query})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/xml")
    decoded: Any = schema().to_dict(response.text)
    return dict(decoded["BkToCstmrStmt"])


def amounts(statement: Any) -> list[tuple[str, str, float]]:
    return [(item["direction"], item["step"], item["amount"]) for item in statement["entries"]]


def test_a_statement_has_the_cash_of_the_ledger(client: httpx.Client) -> None:
    invoice = register(client, **DATED)
    move(client, invoice, *TO_FUNDED)
    advance(client, "P1D")
    move(client, invoice, "pay", "settle")
    [statement] = statements(client)
    ledger = data(client.get(f"/sandbox/invoices/{invoice['id']}/ledger"))["balances"]
    assert [item[:2] for item in amounts(statement)] == [
        ("Debit", "pay-out"),
        ("Credit", "payment"),
        ("Debit", "settlement"),
    ]
    closing = ledger["debtorPaid"] + ledger["sellerRepaid"] - ledger["sellerReceived"]
    assert statement["closingBalance"] == pytest.approx(closing)
    assert closing == pytest.approx(ledger["result"])
    parties = [item["counterparty"] for item in statement["entries"]]
    assert parties == [DATED["sellerId"], DATED["debtorId"], DATED["sellerId"]]
    assert (statement["from"], statement["to"]) == ("2026-11-23", "2026-11-24")


def test_a_statement_of_a_period_begins_with_the_balance_before_it(client: httpx.Client) -> None:
    invoice = register(client, **DATED)
    move(client, invoice, *TO_FUNDED)
    advance(client, "P10D")
    move(client, invoice, "pay")
    advance(client, "P10D")
    move(client, invoice, "settle")
    [statement] = statements(client, **{"from": "2026-12-01", "to": "2026-12-10"})
    [(direction, step, paid)] = amounts(statement)
    assert (direction, step, paid) == ("Credit", "payment", 10_000)
    assert statement["openingBalance"] < 0
    assert statement["closingBalance"] == pytest.approx(statement["openingBalance"] + paid)
    [before] = statements(client, to="2026-11-30")
    assert before["closingBalance"] == statement["openingBalance"]


def test_each_partner_and_currency_has_an_account(client: httpx.Client) -> None:
    for number, currency in enumerate(["EUR", "USD", "jpy", "KWD"]):
        invoice = register(client, currency=currency, invoiceNumber=f"S-{number}")
        move(client, invoice, *TO_FUNDED)
    names = [item["accountId"].rpartition("-")[2] for item in statements(client)]
    assert names == ["EUR", "USD", "JPY", "KWD"]
    assert [item["Acct"]["Ccy"] for item in camt(client)["Stmt"]] == names


def test_a_statement_of_iso_20022_says_the_same(client: httpx.Client) -> None:
    choose(client, "late-payment", businessDays=True)
    register(client, **{**DATED, "invoiceNumber": "A\u0007 & <b> \u00e4", "debtorId": "x"})
    register(client, **{**DATED, "invoiceNumber": "n" * 300, "debtorId": "d" * 300})
    advance(client, "P90D")
    [plain], [formal] = statements(client), camt(client)["Stmt"]
    opening, closing = formal["Bal"]
    assert opening["Amt"]["$"] == 0
    assert (closing["Amt"]["$"], closing["CdtDbtInd"]) == (
        Decimal(str(plain["closingBalance"])),
        "CRDT",
    )
    shown = [
        (item["Amt"]["$"], item["CdtDbtInd"], item["ValDt"]["Dt"], item["NtryRef"])
        for item in formal["Ntry"]
    ]
    sides = {"Credit": "CRDT", "Debit": "DBIT"}
    assert shown == [
        (Decimal(str(item["amount"])), sides[item["direction"]], item["valueDate"], item["id"])
        for item in plain["entries"]
    ]
    assert len(shown) == 6


def test_money_that_the_seller_passes_on_comes_from_the_seller(client: httpx.Client) -> None:
    choose(client, "payment-misdirected")
    register(client, **DATED)
    advance(client, "P90D")
    [statement] = statements(client)
    [received] = [item for item in statement["entries"] if item["direction"] == "Credit"]
    assert (received["step"], received["counterparty"]) == ("application", DATED["sellerId"])


def test_an_opening_balance_of_a_fixture_is_before_all_days(client: httpx.Client) -> None:
    move(client, {"id": "inv_sandbox_0006"}, "pay")
    [statement] = statements(client)
    assert statement["openingBalance"] < 0
    assert [item["step"] for item in statement["entries"]] == ["payment"]
    camt(client)


CANNOT: dict[str, dict[str, Any]] = {
    "no movement": {},
    "no code": {"currency": "money"},
    "digits": {"amount": 10**25},
    "digits with decimals": {"amount": 9876543210123456, "currency": "KWD"},
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_iso_20022_cannot_express_is_a_409(client: httpx.Client, case: str) -> None:
    choose(client, "manual")
    if CANNOT[case]:
        invoice = register(client, **CANNOT[case])
        move(client, invoice, *TO_FUNDED[:3])
        body = {"invoiceId": invoice["id"], "partnerId": "ptn_sandbox_everest"}
        data(client.post("/api/offers", json=body), 201)
        move(client, invoice, "accept-offer", "fund")
    response = client.get("/sandbox/statement", params={"format": "camt.053"})
    assert error(response) == (409, "invalid_request")
    assert "Use format=json" in response.text
    assert len(statements(client)) == bool(CANNOT[case])


@pytest.mark.parametrize("query", [{"format": "pdf"}, {"from": "soon"}, {"to": "2026-02-30"}])
def test_a_query_that_is_no_format_or_day_is_rejected(
    client: httpx.Client, query: dict[str, str]
) -> None:
    assert error(client.get("/sandbox/statement", params=query)) == (400, "invalid_request")
