"""The document of an invoice: an uploaded electronic invoice, compared with the metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record

from .einvoices import CREDIT_NOTE_CODES, EInvoice, EInvoiceError, read_einvoice

MATCHES: Final = "DocumentMatches"
_DOCUMENTS: Final = "documents"
_DIFFERENCES: Final[Mapping[str, str]] = {
    "invoiceNumber": "DocumentNumberDiffers",
    "amount": "DocumentAmountDiffers",
    "currency": "DocumentCurrencyDiffers",
    "issueDate": "DocumentIssueDateDiffers",
    "dueDate": "DocumentDueDateDiffers",
}
"""By member, the finding that the document has another value."""


def compare_document(context: Context, invoice: Record, file: bytes) -> Record:
    """Compare an XML file with its invoice, store the findings and return them with the syntax."""
    try:
        document = read_einvoice(file)
    except EInvoiceError as error:
        result: Record = {"syntax": None, "findings": [str(error)]}
    else:
        findings = list(_differences(invoice, document)) or [MATCHES]
        result = {"syntax": document.syntax, "findings": findings}
    context.state.put(_DOCUMENTS, invoice["id"], result)
    return result


def document_findings(context: Context, invoice: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the findings about the latest document of an invoice; none without one."""
    stored = context.state.get(_DOCUMENTS, invoice["id"])
    return () if stored is None else tuple(stored["findings"])


def is_difference(finding: str) -> bool:
    """True for a finding that a reviewer must look at: the document has another value."""
    return finding in _DIFFERENCES.values() or finding == "DocumentIsCreditNote"


def _differences(invoice: Mapping[str, Any], document: EInvoice) -> Iterator[str]:
    """Yield the findings; a member that only one of the two has is no difference."""
    if document.type_code in CREDIT_NOTE_CODES:
        yield "DocumentIsCreditNote"
    for member, finding in _DIFFERENCES.items():
        stated, found = invoice.get(member), document.members.get(member)
        if stated is not None and found is not None and _plain(stated) != _plain(found):
            yield finding


def _plain(value: Any) -> object:
    """Return a value as it is compared: without spaces and case, a number as a number."""
    return "".join(value.split()).upper() if isinstance(value, str) else Decimal(value)
