"""Errors of this project, besides those that every project has."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import ErrorType

OUT_OF_BOUNDS: Final = ErrorType(
    "out_of_bounds", 400, "{problems}", "Correct the invoice before you send it again."
)
BAD_UPLOAD: Final = ErrorType(
    "bad_upload", 400, "{problem}", "Send the file that was announced for this address."
)
NO_SUBJECT: Final = ErrorType(
    "no_subject",
    404,
    "There is no {kind} that the event can be about",
    "Create one first, or name another subject.",
)
OTHER_PARTNER: Final = ErrorType(
    "other_partner",
    403,
    "A partner's session makes offers as that partner only",
    "Leave out partnerId.",
    code_status=400,
)
OTHER_SELLER: Final = ErrorType(
    "other_seller",
    403,
    "A seller's session registers invoices of that seller only",
    "Send the sellerId of the session.",
    code_status=400,
)
LOGIN_FAILED: Final = ErrorType(
    "login_failed",
    401,
    "The e-mail address or the password is not valid",
    "'invoice-sandbox users list' shows the users of a workspace.",
)
