"""The signed addresses of uploads."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.uploads import receive_file


def put_upload(call: Call) -> Record:
    """Take the file of a signed address, once. Raises ApiError 400 and 404."""
    return receive_file(call)
