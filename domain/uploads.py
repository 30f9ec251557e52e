"""Uploads: a signed address for one file each, and what is stored of the file."""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import timedelta
from typing import Any, Final

from invoice_sandbox.project.api import (
    Call,
    Record,
    close_capability,
    instant_text,
    new_secret,
    open_capability,
    reject,
)

from .audit import audit
from .documents import compare_document
from .errors import BAD_UPLOAD
from .findings import pass_findings
from .invoices import INVOICES, seller_of

UPLOADS: Final = "uploads"
LIFETIME: Final = timedelta(minutes=15)
MAX_BYTES: Final = 10 * 1024 * 1024
DEFAULT_TYPE: Final = "application/pdf"
EXTENSIONS: Final = {
    "application/pdf": "pdf",
    "application/xml": "xml",
    "image/png": "png",
    "image/jpeg": "jpg",
}
"""The media types that may be uploaded, with the extension of the object key."""


def create_upload(call: Call) -> Record:
    """Store a pending upload and sign its address. Members of the body that are invalid are
    ignored, because the contract publishes only 200."""
    media_type, expires_at = _media_type(call.body.get("contentType")), call.now + LIFETIME
    upload: Record = {
        "id": call.new_id("upl_sandbox"),
        "status": "Pending",
        "secret": new_secret(),
        "expires": int(expires_at.timestamp()),
        "contentType": media_type,
        "contentLength": _length(call.body.get("contentLength")),
        "sha256": _digest(call.body.get("sha256")),
        "invoiceId": _invoice_id(call),
    }
    call.state.put(UPLOADS, upload["id"], upload)
    audit(call, "upload_url.created", ("upload", upload["id"]))
    open_capability(
        call.state,
        workspace_id=call.workspace.id,
        subject=upload["id"],
        secret=_signature(upload),
        expires_at=expires_at,
    )
    query = f"expires={upload['expires']}&signature={_signature(upload)}"
    return {
        "uploadId": upload["id"],
        "method": "PUT",
        "url": f"{call.base_url}/sandbox/uploads/{upload['id']}?{query}",
        "headers": {"content-type": media_type},
        "expiresAt": instant_text(expires_at),
        "maxBytes": MAX_BYTES,
        "objectKey": f"{call.workspace.id}/invoices/{upload['id']}.{EXTENSIONS[media_type]}",
        "private": True,
    }


def receive_file(call: Call) -> Record:
    """Store size and SHA-256 of the file, not its content, and close the signed address.

    Raises ApiError 404 for an address that is unknown, expired, used or not signed, 400 for a
    file without the announced type, length or digest.
    """
    upload = call.state.get(UPLOADS, call.path["id"])
    if upload is None or not _is_open(call, upload):
        raise reject("unknown_resource", kind="open upload", member="address")
    file = call.body or b""
    digest = hashlib.sha256(file).hexdigest()
    problem = _problem(upload, call.media_type, file, digest)
    if problem is not None:
        raise reject(BAD_UPLOAD, problem=problem)
    stored = {**upload, "status": "Stored", "bytes": len(file), "sha256": digest}
    call.state.put(UPLOADS, upload["id"], stored)
    close_capability(call.state, call.query["signature"])
    document = _document(call, upload, file)
    audit(call, "upload.stored", ("upload", upload["id"]), bytes=stored["bytes"], **document)
    if upload["invoiceId"] is not None:
        pass_findings(call, upload["invoiceId"], "ActionRequired", "DocumentReceived")
    return {
        **document,
        "uploadId": upload["id"],
        "status": stored["status"],
        "bytes": stored["bytes"],
        "sha256": digest,
    }


def _document(call: Call, upload: Record, file: bytes) -> Record:
    """Return what an XML file has to do with its invoice, as a member; nothing of other files."""
    invoice = call.state.get(INVOICES, upload["invoiceId"] or "")
    if invoice is None or upload["contentType"] != "application/xml":
        return {}
    return {"document": compare_document(call, invoice, file)}


def _signature(upload: Record) -> str:
    """HMAC-SHA256 in hex over the id of the upload and the second at which its address expires."""
    message = f"{upload['id']}.{upload['expires']}".encode()
    return hmac.new(bytes.fromhex(upload["secret"]), message, hashlib.sha256).hexdigest()


def _is_open(call: Call, upload: Record) -> bool:
    signature = call.query.get("signature", "").encode()
    return (
        upload["status"] == "Pending"
        and call.query.get("expires") == str(upload["expires"])
        and hmac.compare_digest(signature, _signature(upload).encode())
        and call.now.timestamp() < upload["expires"]
    )


def _problem(upload: Record, media_type: str, file: bytes, digest: str) -> str | None:
    if not file:
        return "The file is empty"
    if media_type != upload["contentType"]:
        return f"The file must be {upload['contentType']}"
    if upload["contentLength"] not in {None, len(file)}:
        return f"The file must have {upload['contentLength']} bytes"
    if upload["sha256"] not in {None, digest}:
        return "The file's SHA-256 differs from the one that was announced"
    return None


def _invoice_id(call: Call) -> str | None:
    value = call.body.get("invoiceId")
    invoice = call.state.get(INVOICES, value) if isinstance(value, str) else None
    is_visible = invoice and seller_of(call) in {None, invoice["sellerId"]}
    return str(value) if is_visible else None


def _media_type(value: Any) -> str:
    return value if isinstance(value, str) and value in EXTENSIONS else DEFAULT_TYPE


def _length(value: Any) -> int | None:
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_BYTES
    return value if usable else None


def _digest(value: Any) -> str | None:
    usable = isinstance(value, str) and re.fullmatch("[0-9a-fA-F]{64}", value)
    return value.lower() if usable else None
