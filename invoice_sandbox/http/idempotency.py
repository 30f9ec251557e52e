"""``Idempotency-Key``: a repeated request is carried out once and gets the same response again.

The response is kept in the transaction that carried the request out, for 24 hours of the
workspace's time, under the caller, the method, the path and the key. Another request with the same
key is rejected. A secret that is shown only once is not shown again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.base.errors import ApiError, ErrorType, reject
from invoice_sandbox.http.pipeline import AdmittedRequest, IdempotencyKey, Reply
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.state import Credential, Record, Store, Transaction
from invoice_sandbox.webhooks.outbox import drop_oldest

HEADER: Final = "idempotency-key"
_KIND: Final = "idempotent_requests"
_ORDER: Final = "idempotency_order"
KEPT_RESPONSES: Final = 10_000
"""Responses that a workspace keeps; the oldest are dropped."""

_KEPT: Final = timedelta(hours=24)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]{1,255}")
_NOT_KEPT: Final = frozenset({400, 401, 403, 429})
_COOKIE: Final = "set-cookie"


def kept(state: Transaction, key: IdempotencyKey, now: datetime) -> Reply | ApiError | None:
    """The response to the first such request, or None. Raises ApiError 400 for another request."""
    record = state.get(_KIND, key.name)
    if record is None or parse_instant(record["until"]) <= now:
        return None
    if record["content"] != key.content:
        raise reject("idempotency_key_reused")
    headers = tuple((name, value) for name, value in record["headers"])
    replayed = (*headers, ("Idempotent-Replayed", "true"))
    if "error" in record:
        return ApiError(ErrorType(**record["error"]), record["values"], replayed)
    return Reply(record["status"], record["body"].encode(), record["mediaType"], replayed)


def keep(
    state: Transaction,
    key: IdempotencyKey,
    outcome: Reply | ApiError,
    now: datetime,
    secrets: frozenset[str],
) -> None:
    """Remember an outcome without the members named in ``secrets``.

    An error that another body, credential or time would avoid is not remembered.
    """
    if outcome.status in _NOT_KEPT:
        return
    record: Record = {
        "content": key.content,
        "until": instant_text(now + _KEPT),
        "headers": [[name, value] for name, value in outcome.headers if name.lower() != _COOKIE],
    }
    if isinstance(outcome, ApiError):
        values = {name: str(value) for name, value in outcome.values.items()}
        record |= {"error": asdict(outcome.type), "values": values}
    else:
        body = _without_secrets(outcome.body, secrets)
        record |= {"status": outcome.status, "body": body, "mediaType": outcome.media_type}
    number = state.next_number(_ORDER)
    state.put(_KIND, key.name, record | {"number": number})
    place = f"idempotent_{number:04d}"
    state.put(_ORDER, place, {"name": key.name})
    dropped = drop_oldest(state, _ORDER, place, KEPT_RESPONSES)
    if dropped is not None:
        _forget(state, dropped["name"], number - KEPT_RESPONSES)


def _forget(state: Transaction, name: str, number: int) -> None:
    """Delete a kept response, unless a newer one has its name."""
    record = state.get(_KIND, name)
    if record is not None and record["number"] == number:
        state.delete(_KIND, name)


def key_of(
    admitted: AdmittedRequest, caller: Credential, body: Any, media_type: str
) -> IdempotencyKey | None:
    """What identifies a request with a key; None for one with a password, of which not even a
    digest is kept. Raises ApiError 400 for a malformed key."""
    request = admitted.request
    texts = request.header_values(HEADER)
    quoted = _QUOTED.fullmatch(texts[0].strip())
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else texts[0].strip()
    if len(texts) > 1 or not _PRINTABLE.fullmatch(key):
        raise reject("bad_idempotency_key")
    if isinstance(body, Mapping) and "password" in body:
        return None
    query = request.scope["query_string"].decode("latin-1")
    content = _content(body) if is_json(media_type) else _bytes_digest(admitted.content)
    return IdempotencyKey(
        name=_digest([caller.subject, request.method, request.path, key]),
        content=_digest([query, content]),
    )


@asynccontextmanager
async def single_flight(
    store: Store, workspace_id: str, key: IdempotencyKey
) -> AsyncIterator[None]:
    """While the request is in progress, reject the same one. Raises ApiError 409."""
    if not store.claim(workspace_id, key.name):
        raise reject("in_progress", ("Retry-After", "1"))
    try:
        yield
    finally:
        store.release(workspace_id, key.name)


def _content(body: Any) -> str:
    """The same text for JSON bodies of the same value, whatever their white space and order."""
    return jsonio.dumps(_sorted(body)).decode()


def _bytes_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _without_secrets(body: bytes, secrets: frozenset[str]) -> str:
    if not secrets or not body:
        return body.decode()
    return jsonio.dumps(_without(jsonio.loads(body), secrets)).decode()


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(jsonio.dumps(parts)).hexdigest()


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(one) for one in value]
    return value


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _without(one, names) for key, one in value.items() if key not in names}
    if isinstance(value, list):
        return [_without(one, names) for one in value]
    return value
