"""Signed addresses for one upload each."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from typing import Final

UPLOADS: Final = "uploads"
LIFETIME: Final = timedelta(minutes=15)
MOST_BYTES: Final = 10 * 1024 * 1024
DEFAULT_TYPE: Final = "application/pdf"
EXTENSIONS: Final = {
    "application/pdf": "pdf",
    "application/xml": "xml",
    "image/png": "png",
    "image/jpeg": "jpg",
}
"""The types that may be uploaded, and how the object's key ends for each."""


def signature(secret: str, upload_id: str, expires: int) -> str:
    """HMAC-SHA256 in hex over the upload's id and the second at which its address expires."""
    message = f"{upload_id}.{expires}".encode()
    return hmac.new(bytes.fromhex(secret), message, hashlib.sha256).hexdigest()
