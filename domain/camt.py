"""Statements as ISO 20022 camt.053.001.08, which the ledgers of partners read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from invoice_sandbox.project.api import Record, conflict

MEDIA_TYPE: Final = "application/xml"

_NAMESPACE: Final = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"
_DIGITS: Final = 18
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CURRENCY: Final = re.compile("[A-Z]{3}")
_SIDES: Final[Mapping[str, tuple[str, str, str]]] = {
    "Credit": ("CRDT", "RCDT", "Dbtr"),
    "Debit": ("DBIT", "ICDT", "Cdtr"),
}
"""By direction: indicator, family of the transaction (received, issued), and the other party."""


def as_camt(statements: Sequence[Record], at: str) -> bytes:
    """Return the document of statements that were made ``at`` an instant. Raises ApiError 409 for
    what the message cannot express."""
    if not statements:
        raise conflict("No partner has paid or received anything", "Use format=json.")
    document = Element("Document", xmlns=_NAMESPACE)
    root = SubElement(document, "BkToCstmrStmt")
    header = SubElement(root, "GrpHdr")
    _text(header, "MsgId", f"STMT-{at}", 35)
    _text(header, "CreDtTm", at)
    for statement in statements:
        _statement(SubElement(root, "Stmt"), statement, at)
    text: bytes = tostring(document, encoding="utf-8", xml_declaration=True)
    return text


def _statement(into: Element, statement: Record, at: str) -> None:
    _text(into, "Id", f"{statement['accountId'][:24]}-{statement['to']}", 35)
    _text(into, "CreDtTm", at)
    period = SubElement(into, "FrToDt")
    _text(period, "FrDtTm", f"{statement['from']}T00:00:00Z")
    _text(period, "ToDtTm", f"{statement['to']}T23:59:59Z")
    account = SubElement(into, "Acct")
    _text(SubElement(SubElement(account, "Id"), "Othr"), "Id", statement["accountId"], 34)
    _text(account, "Ccy", _currency(statement))
    for code, name, day in (("OPBD", "opening", "from"), ("CLBD", "closing", "to")):
        balance = SubElement(into, "Bal")
        _text(SubElement(SubElement(balance, "Tp"), "CdOrPrtry"), "Cd", code)
        amount = statement[f"{name}Balance"]
        _amount(balance, amount, statement)
        _text(balance, "CdtDbtInd", "DBIT" if amount < 0 else "CRDT")
        _day(balance, "Dt", statement[day])
    for entry in statement["entries"]:
        _entry(SubElement(into, "Ntry"), entry, statement)


def _entry(into: Element, entry: Record, statement: Record) -> None:
    indicator, family, role = _SIDES[entry["direction"]]
    _text(into, "NtryRef", entry["id"], 35)
    _amount(into, entry["amount"], statement)
    _text(into, "CdtDbtInd", indicator)
    _text(SubElement(into, "Sts"), "Cd", "BOOK")
    _day(into, "BookgDt", entry["bookingDate"])
    _day(into, "ValDt", entry["valueDate"])
    domain = SubElement(SubElement(into, "BkTxCd"), "Domn")
    _text(domain, "Cd", "PMNT")
    kind = SubElement(domain, "Fmly")
    _text(kind, "Cd", family)
    _text(kind, "SubFmlyCd", "OTHR")
    details = SubElement(SubElement(into, "NtryDtls"), "TxDtls")
    if entry["counterparty"].strip():
        party = SubElement(SubElement(SubElement(details, "RltdPties"), role), "Pty")
        _text(party, "Nm", entry["counterparty"], 140)
    _text(SubElement(details, "RmtInf"), "Ustrd", entry["invoiceNumber"] or entry["invoiceId"], 140)
    _text(into, "AddtlNtryInf", entry["step"])


def _amount(into: Element, amount: Decimal, statement: Record) -> None:
    size = abs(Decimal(amount))
    if len(size.as_tuple().digits) > _DIGITS or size >= Decimal(10) ** _DIGITS:
        raise conflict(f"An amount has more than {_DIGITS} digits", "Use format=json.")
    _text(into, "Amt", f"{size:f}").set("Ccy", _currency(statement))


def _currency(statement: Record) -> str:
    currency = str(statement["currency"])
    if not _CURRENCY.fullmatch(currency):
        raise conflict("A currency has no code of three letters", "Use format=json.")
    return currency


def _day(into: Element, name: str, day: str) -> None:
    _text(SubElement(into, name), "Dt", day)


def _text(into: Element, name: str, text: Any, longest: int = 500) -> Element:
    element = SubElement(into, name)
    element.text = _NOT_XML.sub("?", str(text))[:longest]
    return element
