"""Private upload addresses for invoice files."""

from __future__ import annotations

import re
from typing import Any

from invoice_sandbox.project.api import Call, Record, instant_text, new_secret, open_capability

from ..domain.audit import audit
from ..domain.invoices import INVOICES
from ..domain.uploads import DEFAULT_TYPE, EXTENSIONS, LIFETIME, MOST_BYTES, UPLOADS, signature


async def create_upload_url(call: Call) -> Record:
    """A signed address for one PUT within 15 minutes. The file's name is never part of a path.

    Members that make no sense here are ignored, because only 200 is published.
    """
    upload_id = await call.new_id("upl_sandbox")
    media_type = _media_type(call.body.get("contentType"))
    expires_at = call.now + LIFETIME
    expires = int(expires_at.timestamp())
    secret = new_secret()
    await call.state.put(
        UPLOADS,
        upload_id,
        {
            "id": upload_id,
            "status": "Pending",
            "secret": secret,
            "expires": expires,
            "contentType": media_type,
            "contentLength": _length(call.body.get("contentLength")),
            "sha256": _digest(call.body.get("sha256")),
            "invoiceId": await _invoice_id(call),
        },
    )
    await audit(call, "upload_url.created", ("upload", upload_id))
    signed = signature(secret, upload_id, expires)
    await open_capability(
        call.state,
        workspace_id=call.workspace.id,
        subject=upload_id,
        secret=signed,
        expires_at=expires_at,
    )
    query = f"expires={expires}&signature={signed}"
    return {
        "uploadId": upload_id,
        "method": "PUT",
        "url": f"{call.base_url}/sandbox/uploads/{upload_id}?{query}",
        "headers": {"content-type": media_type},
        "expiresAt": instant_text(expires_at),
        "maxBytes": MOST_BYTES,
        "objectKey": f"{call.workspace.id}/invoices/{upload_id}.{EXTENSIONS[media_type]}",
        "private": True,
    }


async def _invoice_id(call: Call) -> str | None:
    value = call.body.get("invoiceId")
    known = isinstance(value, str) and await call.state.get(INVOICES, value) is not None
    return value if known else None


def _media_type(value: Any) -> str:
    return value if isinstance(value, str) and value in EXTENSIONS else DEFAULT_TYPE


def _length(value: Any) -> int | None:
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_BYTES
    return value if usable else None


def _digest(value: Any) -> str | None:
    usable = isinstance(value, str) and re.fullmatch("[0-9a-fA-F]{64}", value)
    return value.lower() if usable else None
