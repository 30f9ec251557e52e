"""What the attempts of a delivery signed, and with which secrets of its endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from invoice_sandbox.base import jsonio
from invoice_sandbox.state import Record
from invoice_sandbox.webhooks.attempts import WRONG_SECRET
from invoice_sandbox.webhooks.signing import SECRET_PREFIX, sign


def explained(delivery: Record, event: Record | None, endpoint: Record | None) -> Record:
    """A delivery with the ``body`` of its event, and what each attempt ``signed``.

    Without the event or the endpoint nothing is known about the signatures.
    """
    if event is None or endpoint is None:
        return {**delivery, "body": None}
    body, secrets = jsonio.dumps(event["payload"]), _secrets(endpoint)
    attempts = [
        {**one, "signed": _signed(one["request"]["headers"], body, secrets)}
        if one["request"]
        else one
        for one in delivery["attempts"]
    ]
    return {**delivery, "body": body.decode(), "attempts": attempts}


def _secrets(endpoint: Record) -> dict[str, str]:
    secrets = {"current": endpoint["secret"], "wrong": WRONG_SECRET}
    if "previousSecret" in endpoint:
        secrets["previous"] = endpoint["previousSecret"]
    return secrets


def _signed(sent: Mapping[str, str], body: bytes, secrets: Mapping[str, str]) -> Record:
    """The text that was signed, None if it is not this body, and who made each signature."""
    message_id, second = sent["webhook-id"], int(sent["webhook-timestamp"])
    makers = {sign(one, message_id, second, body): name for name, one in secrets.items()}
    signatures = list(_signatures(sent["webhook-signature"], makers, secrets))
    is_known = any(one["secret"] for one in signatures)
    content = f"{message_id}.{second}.{body.decode()}" if is_known else None
    return {"content": content, "signatures": signatures}


def _signatures(
    header: str, makers: Mapping[str, str], secrets: Mapping[str, str]
) -> Iterator[Record]:
    for signature in header.split(" "):
        name = makers.get(signature)
        shown = None if name is None else f"{SECRET_PREFIX}…{secrets[name][-4:]}"
        yield {"signature": signature, "secret": name, "shown": shown}
