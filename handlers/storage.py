"""Private upload addresses for invoice files."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.uploads import create_upload


def create_upload_url(call: Call) -> Record:
    """Return a signed address for one PUT within 15 minutes. No path contains the file's name."""
    return create_upload(call)
