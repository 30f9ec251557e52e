"""The inbox: a webhook receiver of each workspace that checks signatures and stores messages."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final

from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.state import Credential, Record, Transaction
from invoice_sandbox.webhooks.endpoints import all_endpoints, signing_secrets
from invoice_sandbox.webhooks.outbox import type_of
from invoice_sandbox.webhooks.signing import sign

INBOX_LOG: Final = "inbox"
"""The log of the messages that an inbox received."""

TOLERANCE: Final = 300
"""The most seconds that a timestamp may differ, as in Standard Webhooks."""

SENT_AT: Final[ContextVar[datetime | None]] = ContextVar("SENT_AT", default=None)
"""The instant of the attempt that a lane is sending: in an advance the clock shows the end."""

_INBOX: Final = "inbox"
_ONLY: Final = "token"
_SHOWN: Final = (
    "content-type",
    "user-agent",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
)


def inbox_url(url: str, token: str = "") -> str:
    """The address of an inbox of the server at ``url``."""
    return f"{url}/sandbox/inbox/{token}"


def open_inbox(state: Transaction, workspace_id: str, token: str) -> None:
    """Open the workspace's inbox, whose address contains ``token`` and needs no key."""
    digest = key_digest(token)
    state.grant(Credential(digest, workspace_id, _INBOX, frozenset(), None, "capability"))
    state.put(_INBOX, _ONLY, {"token": token})


def is_inbox(credential: Credential | None) -> bool:
    """True if a credential is the token of an inbox."""
    if credential is None:
        return False
    return (credential.type, credential.subject) == ("capability", _INBOX)


def inbox_token(state: Transaction) -> str:
    """The token of the workspace's inbox. Raises LookupError."""
    record = state.get(_INBOX, _ONLY)
    if record is None:
        raise LookupError("the workspace has no inbox")
    return str(record["token"])


def received_message(
    state: Transaction,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    second: int,
) -> Record:
    """A message as the inbox shows it. ``problem`` None: its signature is valid.

    ``url`` is the address that it was sent to, ``now`` the workspace's instant of the delivery,
    ``second`` the time of the receiver's clock.
    """
    endpoints = [endpoint for endpoint in all_endpoints(state) if endpoint["url"] == url]
    signers = (each["id"] for each in endpoints if _is_signed(each, headers, body, now))
    signer = next(signers, None)
    return {
        "receivedAt": instant_text(now),
        "endpointId": signer,
        "problem": _problem(endpoints, signer, headers, second),
        "type": type_of(state, headers, body),
        "headers": {name: headers[name] for name in _SHOWN if name in headers},
        "body": body.decode(errors="replace"),
    }


def shown_messages(messages: Iterable[Record]) -> list[Record]:
    """The messages of an inbox, newest first, each with ``verified`` and ``duplicate``."""
    seen: set[str | None] = set()
    result: list[Record] = []
    for message in messages:
        message_id = message["headers"].get("webhook-id")
        duplicate = message["problem"] is None and message_id in seen
        if message["problem"] is None:
            seen.add(message_id)
        result.append({**message, "verified": message["problem"] is None, "duplicate": duplicate})
    return result[::-1]


def _problem(
    endpoints: list[Record], signer: str | None, headers: Mapping[str, str], second: int
) -> str | None:
    if not endpoints:
        return "no endpoint has this address"
    if signer is None:
        return "the signature is wrong"
    if abs(int(headers["webhook-timestamp"]) - second) > TOLERANCE:
        return "the timestamp is too far from now"
    return None


def _is_signed(
    endpoint: Mapping[str, Any], headers: Mapping[str, str], body: bytes, now: datetime
) -> bool:
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return False
    given = headers.get("webhook-signature", "").split(" ")
    for secret in signing_secrets(endpoint, now):
        expected = sign(secret, message_id, int(timestamp), body)
        if any(hmac.compare_digest(expected.encode(), text.encode()) for text in given):
            return True
    return False
