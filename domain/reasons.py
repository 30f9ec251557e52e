"""Reasons of disputes, rejections, declines and returned payments: published codes.

The contract of the control API has the same codes. A reason is ``{"code": …}``, and may have a
``detail``; that of a dispute may also have an ``amount``, ``evidence`` and a ``deadline``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DISPUTES: Final = {
    "GoodsNotReceived": "The goods or services did not arrive.",
    "GoodsDefective": "The goods are damaged, or not as agreed.",
    "QuantityDiffers": "Less arrived than is invoiced.",
    "PriceDiffers": "The price is not the agreed one.",
    "NotOrdered": "The debtor did not order this.",
    "InvoiceIncorrect": "The invoice is wrong in another way.",
    "AlreadyPaid": "The debtor has paid before.",
    "SetOff": "The debtor sets off a claim of its own.",
    "Counterclaim": "The debtor raises a counterclaim.",
}
REJECTIONS: Final = {
    "Duplicate": "The invoice is registered already.",
    "FinancedElsewhere": "Another platform finances the invoice.",
    "KybDeclined": "A company did not pass its check.",
    "SanctionsHit": "A sanctions hit is confirmed.",
    "FraudSuspected": "The invoice may be forged.",
    "DataNotCorrected": "The seller did not correct the data.",
    "NotAssignable": "The invoice may not be assigned.",
}
DECLINES: Final = {
    "CostTooHigh": "The fees are too high.",
    "AdvanceTooLow": "The advance is too low.",
    "TermsNotAccepted": "Recourse, disclosure or conditions do not suit.",
    "FundedElsewhere": "The seller has another source.",
    "NoLongerNeeded": "The seller needs no money any more.",
    "LimitReached": "The partner's limit is used up.",
    "RiskTooHigh": "The partner does not take the risk.",
    "DocumentsMissing": "The partner lacks documents.",
}
RETURNS: Final = {
    "AC01": "The account number is wrong.",
    "AC04": "The account is closed.",
    "AC06": "The account is blocked.",
    "AG01": "The account may not be debited.",
    "AM04": "The account has not enough money.",
    "AM05": "The payment was made twice.",
    "FOCR": "The bank was asked to cancel the payment.",
    "MD06": "The debtor wants the money back.",
    "MS02": "The debtor gives no reason.",
    "MS03": "The bank gives no reason.",
    "RR04": "A regulation does not allow the payment.",
}
"""Codes of ISO 20022, ExternalReturnReason1Code."""

CODES: Final[Mapping[str, Mapping[str, str]]] = {
    "DisputeReason": DISPUTES,
    "RejectionReason": REJECTIONS,
    "DeclineReason": DECLINES,
    "ReturnReason": RETURNS,
}
"""By schema of the contract: each code with its meaning."""
