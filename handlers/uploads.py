"""Where a signed upload address leads to."""

from __future__ import annotations

import hashlib
import hmac

from invoice_sandbox.project.api import Call, Record, close_capability, reject

from ..domain.audit import audit
from ..domain.findings import receive_document
from ..domain.uploads import UPLOADS, signature


async def put_upload(call: Call) -> Record:
    """Take the file of a signed address, once. Its size and SHA-256 are kept, not its content.

    Raises ApiError 404 for an address that is unknown, expired, used or not signed, 400 for a
    file that is not of the type, length or digest that was announced.
    """
    upload = await call.state.get(UPLOADS, call.path["id"])
    if upload is None or not _is_open(call, upload):
        raise reject("unknown_resource", kind="open upload", member="address")
    digest = hashlib.sha256(call.body or b"").hexdigest()
    problem = _problem(call, upload, digest)
    if problem is not None:
        raise reject("bad_upload", problem=problem)
    stored = {**upload, "status": "Stored", "bytes": len(call.body or b""), "sha256": digest}
    await call.state.put(UPLOADS, upload["id"], stored)
    await close_capability(call.state, call.query["signature"])
    await audit(call, "upload.stored", ("upload", upload["id"]), bytes=stored["bytes"])
    if upload["invoiceId"] is not None:
        await receive_document(call, upload["invoiceId"])
    return {
        "uploadId": upload["id"],
        "status": "Stored",
        "bytes": stored["bytes"],
        "sha256": digest,
    }


def _is_open(call: Call, upload: Record) -> bool:
    expected = signature(upload["secret"], upload["id"], upload["expires"])
    return (
        upload["status"] == "Pending"
        and call.query.get("expires") == str(upload["expires"])
        and hmac.compare_digest(call.query.get("signature", "").encode(), expected.encode())
        and call.now.timestamp() < upload["expires"]
    )


def _problem(call: Call, upload: Record, digest: str) -> str | None:
    if not call.body:
        return "The file is empty"
    if call.media_type != upload["contentType"]:
        return f"The file must be {upload['contentType']}"
    if upload["contentLength"] not in {None, len(call.body or b"")}:
        return f"The file must have {upload['contentLength']} bytes"
    if upload["sha256"] not in {None, digest}:
        return "The file's SHA-256 is not the one that was announced"
    return None
