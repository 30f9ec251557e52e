"""An uploaded electronic invoice is read safely and compared with the metadata."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.scenario_run import DATED, advance, choose, data, move, register, status

UBL = """<?xml version="1.0" encoding="UTF-8"?>
<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"
  xmlns:a="urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2"
  xmlns:b="urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2">
  <b:ID> {number} </b:ID><b:IssueDate>{issued}</b:IssueDate><b:DueDate>{due}</b:DueDate>
  <b:InvoiceTypeCode>{code}</b:InvoiceTypeCode>
  <b:DocumentCurrencyCode>{currency}</b:DocumentCurrencyCode>
  <a:AccountingSupplierParty><a:Party><b:ID>not it</b:ID></a:Party></a:AccountingSupplierParty>
  <a:LegalMonetaryTotal><b:TaxInclusiveAmount currencyID="EUR">1</b:TaxInclusiveAmount>
    <b:PayableAmount currencyID="EUR">{amount}</b:PayableAmount></a:LegalMonetaryTotal>
  <a:InvoiceLine><b:ID>1</b:ID></a:InvoiceLine>
</Invoice>"""
CII = """<?xml version="1.0" encoding="UTF-16"?>
<x:CrossIndustryInvoice xmlns:x="urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"
  xmlns="urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100">
  <x:ExchangedDocument><ID>{number}</ID><TypeCode>{code}</TypeCode>
    <IssueDateTime><DateTimeString format="102">{issued}</DateTimeString></IssueDateTime>
  </x:ExchangedDocument>
  <x:SupplyChainTradeTransaction><ApplicableHeaderTradeSettlement>
    <InvoiceCurrencyCode>{currency}</InvoiceCurrencyCode>
    <SpecifiedTradePaymentTerms><DueDateDateTime>
      <DateTimeString format="102">{due}</DateTimeString></DueDateDateTime>
    </SpecifiedTradePaymentTerms>
    <SpecifiedTradeSettlementHeaderMonetarySummation>
      <GrandTotalAmount>1</GrandTotalAmount><DuePayableAmount>{amount}</DuePayableAmount>
    </SpecifiedTradeSettlementHeaderMonetarySummation>
  </ApplicableHeaderTradeSettlement></x:SupplyChainTradeTransaction>
</x:CrossIndustryInvoice>"""
SAME = {
    "number": "run-1",
    "issued": DATED["issueDate"],
    "due": DATED["dueDate"],
    "currency": "EUR",
    "amount": "10000.00",
    "code": "380",
}


def ubl(**changes: str) -> bytes:
    return UBL.format(**{**SAME, **changes}).encode()


def cii(**changes: str) -> bytes:
    dates = {name: SAME[name].replace("-", "") for name in ("issued", "due")}
    return CII.format(**{**SAME, **dates, **changes}).encode("utf-16")


def upload(client: httpx.Client, invoice: Any, file: bytes) -> Any:
    body = {"invoiceId": invoice["id"], "contentType": "application/xml"}
    asked = data(client.post("/api/storage/invoices/upload-url", json=body))
    return data(httpx.put(asked["url"], content=file, headers=asked["headers"]), 200)


def checked(client: httpx.Client, invoice: Any) -> tuple[str, str | None]:
    """State and detail of the item about the data, after a verification."""
    run = data(client.post("/api/verification/run", json={"invoiceId": invoice["id"]}))
    [row] = [item for item in run["checklist"] if item["code"] == "invoice_data_complete"]
    return row["state"], row.get("detail")


@pytest.mark.parametrize(("make", "syntax"), [(ubl, "UBL"), (cii, "CII")], ids=["UBL", "CII"])
def test_a_document_that_says_the_same_passes(client: httpx.Client, make: Any, syntax: str) -> None:
    invoice = register(client, **DATED)
    document = upload(client, invoice, make())["document"]
    assert document == {"syntax": syntax, "findings": ["DocumentMatches"]}
    assert checked(client, invoice) == ("Passed", "DocumentMatches")
    assert status(client, invoice) == "Verified"


DIFFERENCES = {
    "number": ("RUN-2", "DocumentNumberDiffers"),
    "amount": ("9999.99", "DocumentAmountDiffers"),
    "currency": ("USD", "DocumentCurrencyDiffers"),
    "issued": ("2026-11-04", "DocumentIssueDateDiffers"),
    "due": ("2027-02-22", "DocumentDueDateDiffers"),
    "code": ("381", "DocumentIsCreditNote"),
}


@pytest.mark.parametrize("make", [ubl, cii])
@pytest.mark.parametrize("member", DIFFERENCES)
def test_a_difference_sends_the_invoice_to_a_reviewer(
    client: httpx.Client, make: Any, member: str
) -> None:
    value, finding = DIFFERENCES[member]
    invoice = register(client, **DATED)
    assert upload(client, invoice, make(**{member: value}))["document"]["findings"] == [finding]
    assert checked(client, invoice) == ("ManualReview", finding)
    assert status(client, invoice) == "OnHold"
    move(client, invoice, "release-hold")
    assert checked(client, invoice)[0] == "Passed"
    assert status(client, invoice) == "Verified"


def test_what_a_document_or_the_metadata_do_not_have_is_no_difference(client: httpx.Client) -> None:
    invoice = register(client)
    document = ubl(due="", currency="", amount="many", issued="soon")
    assert upload(client, invoice, document)["document"]["findings"] == ["DocumentMatches"]
    twice = ubl().replace(b"</b:ID>", b"</b:ID><b:ID>another</b:ID>", 1)
    assert upload(client, invoice, twice)["document"]["findings"] == ["DocumentMatches"]
    note = ubl(code="").replace(b"<b:InvoiceTypeCode></b:InvoiceTypeCode>", b"")
    note = note.replace(b":Invoice-2", b":CreditNote-2").replace(b"Invoice ", b"CreditNote ")
    note = note.replace(b"</Invoice>", b"</CreditNote>")
    assert upload(client, invoice, note)["document"]["findings"] == ["DocumentIsCreditNote"]


LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><x>&b;</x>'
FILE = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'
HOSTILE = {
    "entities": (LAUGHS, "DocumentHasDoctype"),
    "external": (FILE, "DocumentHasDoctype"),
    "deep": (ubl().replace(b"<b:ID>", b"<b:x>" * 100_000, 1), "DocumentTooComplex"),
    "wide": (ubl().replace(b"<b:ID>", b"<b:x/>" * 1_000_000 + b"<b:ID>", 1), "DocumentTooComplex"),
    "cut off": (ubl()[:-5], "DocumentNotXml"),
    "no XML": (b"%PDF-1.7", "DocumentNotXml"),
    "unknown encoding": (b"<?xml version='1.0' encoding='rot13'?><x/>", "DocumentNotXml"),
    "another document": (b"<order/>", "DocumentUnknown"),
    "no namespace": (b"<Invoice/>", "DocumentUnknown"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_that_is_no_invoice_is_stored_and_stops_nothing(
    client: httpx.Client, case: str
) -> None:
    file, finding = HOSTILE[case]
    invoice = register(client, **DATED)
    started = time.process_time()
    stored = upload(client, invoice, file)
    assert time.process_time() - started < 2
    assert stored["document"] == {"syntax": None, "findings": [finding]}
    assert checked(client, invoice) == ("Passed", finding)
    assert status(client, invoice) == "Verified"


def test_a_long_text_takes_no_longer(client: httpx.Client) -> None:
    long = "1 " * 2_000_000
    invoice = register(client, **{**DATED, "invoiceNumber": long[:900]})
    started = time.process_time()
    stored = upload(client, invoice, ubl(number=long))
    assert time.process_time() - started < 2
    assert stored["document"]["findings"] == ["DocumentNumberDiffers"]
    assert upload(client, invoice, ubl(number=long[:900]))["document"]["findings"] == [
        "DocumentMatches"
    ]


def test_only_xml_of_an_invoice_is_compared(client: httpx.Client) -> None:
    body = {"contentType": "application/xml"}
    asked = data(client.post("/api/storage/invoices/upload-url", json=body))
    stored = data(httpx.put(asked["url"], content=ubl(), headers=asked["headers"]), 200)
    assert "document" not in stored
    body = {"invoiceId": register(client, **DATED)["id"], "contentType": "application/pdf"}
    asked = data(client.post("/api/storage/invoices/upload-url", json=body))
    stored = data(httpx.put(asked["url"], content=ubl(), headers=asked["headers"]), 200)
    assert "document" not in stored


def test_a_document_after_the_verification_moves_nothing(client: httpx.Client) -> None:
    choose(client, "auto-progress")
    invoice = register(client, **DATED)
    advance(client, "PT3S")
    upload(client, invoice, ubl(amount="1"))
    assert checked(client, invoice) == ("Passed", "DocumentAmountDiffers")
    assert status(client, invoice) == "Verified"
