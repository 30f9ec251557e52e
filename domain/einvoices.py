"""Electronic invoices of EN 16931 as XML: UBL 2.1, and UN/CEFACT CII, which Factur-X contains.

Of a document only what an invoice of the contract has is read. A document type declaration is
rejected, so there are no entities; depth and number of elements are limited.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from xml.parsers import expat

CREDIT_NOTE_CODES: Final = frozenset(
    {"81", "83", "261", "262", "296", "308", "381", "396", "420", "458", "532"}
)
"""The codes of UNTDID 1001 that EN 16931 reads as credit notes."""

_MAX_DEPTH: Final = 64
_MAX_ELEMENTS: Final = 50_000
_UBL: Final = "urn:oasis:names:specification:ubl:schema:xsd:"
_CII: Final = "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"
_SETTLEMENT: Final = "SupplyChainTradeTransaction/ApplicableHeaderTradeSettlement"
_TOTALS: Final = f"{_SETTLEMENT}/SpecifiedTradeSettlementHeaderMonetarySummation"
_UBL_PLACES: Final = {
    "ID": "invoiceNumber",
    "IssueDate": "issueDate",
    "DueDate": "dueDate",
    "DocumentCurrencyCode": "currency",
    "LegalMonetaryTotal/PayableAmount": "amount",
}
_CII_PLACES: Final = {
    "ExchangedDocument/ID": "invoiceNumber",
    "ExchangedDocument/IssueDateTime/DateTimeString": "issueDate",
    f"{_SETTLEMENT}/SpecifiedTradePaymentTerms/DueDateDateTime/DateTimeString": "dueDate",
    f"{_SETTLEMENT}/InvoiceCurrencyCode": "currency",
    f"{_TOTALS}/DuePayableAmount": "amount",
}
_ROOTS: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    f"{_UBL}Invoice-2 Invoice": ("UBL", "380", _UBL_PLACES),
    f"{_UBL}CreditNote-2 CreditNote": ("UBL", "381", _UBL_PLACES),
    f"{_CII} CrossIndustryInvoice": ("CII", "380", _CII_PLACES),
}
"""By root element: the syntax, the type without a code, and the member of each place below it."""

_TYPE_PLACES: Final = frozenset(
    {"InvoiceTypeCode", "CreditNoteTypeCode", "ExchangedDocument/TypeCode"}
)
_AMOUNT: Final = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{0,20})?")
_DAY: Final = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)", re.ASCII)


class EInvoiceError(ValueError):
    """A file that is not read; the message is the finding, such as ``DocumentNotXml``."""


@dataclass(frozen=True)
class EInvoice:
    """A document: its syntax, UBL or CII, its type by UNTDID 1001, and the members of an invoice
    that it has. Amounts are Decimal; what cannot be read is left out."""

    syntax: str
    type_code: str
    members: Mapping[str, Any]


def read_einvoice(file: bytes) -> EInvoice:
    """Return the invoice in an XML file. Raises EInvoiceError."""
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(file, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        known = isinstance(error, EInvoiceError)
        raise error if known else EInvoiceError("DocumentNotXml") from error
    members = {name: _value(name, "".join(parts).strip()) for name, parts in reader.found.items()}
    type_code = str(members.pop("typeCode"))
    return EInvoice(
        reader.syntax, type_code, {k: v for k, v in members.items() if v not in {None, ""}}
    )


@dataclass
class _Reader:
    """Collects the texts at known places while expat reads."""

    syntax: str = ""
    places: Mapping[str, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    elements: int = 0
    found: dict[str, list[str]] = field(default_factory=dict)
    open_member: str | None = None

    def doctype(self, *_: Any) -> None:
        raise EInvoiceError("DocumentHasDoctype")

    def start(self, name: str, _: Mapping[str, str]) -> None:
        self.elements += 1
        if self.elements > _MAX_ELEMENTS or len(self.path) >= _MAX_DEPTH:
            raise EInvoiceError("DocumentTooComplex")
        if not self.path:
            if name not in _ROOTS:
                raise EInvoiceError("DocumentUnknown")
            self.syntax, usual_type, self.places = _ROOTS[name]
            self.found["typeCode"] = [usual_type]
        self.path.append(name.rpartition(" ")[2])
        place = "/".join(self.path[1:])
        member = "typeCode" if place in _TYPE_PLACES else self.places.get(place)
        is_type = member == "typeCode"  # its code replaces the usual one
        self.open_member = member if is_type or member not in self.found else None
        if self.open_member is not None:
            self.found[self.open_member] = []

    def end(self, _: str) -> None:
        self.path.pop()
        self.open_member = None

    def text(self, text: str) -> None:
        if self.open_member is not None:
            self.found[self.open_member].append(text)


def _value(name: str, text: str) -> Any:
    if name == "amount":
        return Decimal(text) if _AMOUNT.fullmatch(text) else None
    if name.endswith("Date"):
        day = _DAY.match(text)
        return "-".join(day.groups()) if day else None
    return text
