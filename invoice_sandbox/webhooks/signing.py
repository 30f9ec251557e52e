"""Standard Webhooks 1.0.0: HMAC-SHA256 over id, timestamp and the exact bytes of the payload."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final

from invoice_sandbox import __version__

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  the published prefix, no secret
SECRET_BYTES: Final = 32
_ALLOWED_BYTES: Final = range(24, 65)
"""The length of a secret, by Standard Webhooks."""

USER_AGENT: Final = f"InvoiceLiquiditySandbox-Webhooks/{__version__}"


def placeholder_secret(seed: str, endpoint: str) -> str:
    """The signing secret of an endpoint: 32 bytes drawn from ``Workspace.secret_seed``.

    A placeholder by the specification (Events, rule 3); its signatures are valid.
    """
    drawn = hashlib.sha256(f"webhook-secret/{seed}/{endpoint}".encode()).digest()
    return SECRET_PREFIX + base64.b64encode(drawn[:SECRET_BYTES]).decode()


def is_signing_secret(value: Any) -> bool:
    """True if a value is ``whsec_`` and the base64 of 24 to 64 bytes."""
    if not isinstance(value, str) or not value.startswith(SECRET_PREFIX):
        return False
    try:
        key = base64.b64decode(value.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        return False
    return len(key) in _ALLOWED_BYTES


def sign(secret: str, message_id: str, timestamp: int, payload: bytes) -> str:
    """The value of ``webhook-signature``: ``v1,`` and the base64 of the HMAC.

    ``timestamp`` is the second of the attempt since the epoch. Raises ValueError for a secret
    that is not ``whsec_`` and base64.
    """
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"a signing secret begins with {SECRET_PREFIX}")
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    signed = b".".join([message_id.encode(), str(timestamp).encode(), payload])
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def headers(
    secrets: Sequence[str], message_id: str, timestamp: int, payload: bytes
) -> dict[str, str]:
    """The headers of one delivery attempt; each of ``secrets`` gives one signature."""
    return {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(
            sign(secret, message_id, timestamp, payload) for secret in secrets
        ),
    }
