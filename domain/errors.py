"""Errors of this project, besides those that every project has."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import ErrorType

OUT_OF_BOUNDS: Final = ErrorType(
    "out_of_bounds", 400, "{problems}", "Correct the invoice; repeating it will not help."
)
BAD_UPLOAD: Final = ErrorType(
    "bad_upload", 400, "{problem}", "Send the file that the address was made for."
)
LOGIN_FAILED: Final = ErrorType(
    "login_failed", 401, "The login was refused", "Check the e-mail address and the password."
)
