"""``Idempotency-Key``: a repeated request is carried out once and gets the same response again.

The response is kept in the transaction that carried the request out, for 24 hours of the
workspace's time, under the caller, the method, the path and the key. Another request with the same
key is rejected. A secret that is shown only once is not shown again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.base.errors import ApiError, ErrorType, reject
from invoice_sandbox.http.request import Inputs, Reply, Request
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.project.api import Call
from invoice_sandbox.state import Record, Transaction
from invoice_sandbox.webhooks.outbox import drop_oldest

HEADER: Final = "idempotency-key"
_KIND: Final = "idempotent_requests"
_ORDER: Final = "idempotency_order"
KEPT_RESPONSES: Final = 10_000
"""Responses that a workspace keeps; the oldest are dropped."""

_KEPT: Final = timedelta(hours=24)
_RESERVED: Final = timedelta(seconds=60)
"""Real time after which a request that was under way is taken to have been lost."""

_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]{1,255}")
_NOT_KEPT: Final = frozenset({400, 401, 403, 429})
_COOKIE: Final = "set-cookie"


@dataclass(frozen=True)
class IdempotencyKey:
    """``name`` stands for caller, method, path and key, ``content`` is a digest of the request."""

    name: str
    content: str


def kept(request: Request, call: Call, key: IdempotencyKey | None) -> Reply | ApiError | None:
    """Return the response to the first such request, or None.

    Raises ApiError 400 for another request, and 409 while the first one is under way.
    """
    record = None if key is None else call.state.get(_KIND, key.name)
    if key is None or record is None or parse_instant(record["until"]) <= call.now:
        return None
    if "reserved" in record and parse_instant(record["reserved"]) > call.system_now:
        raise reject("in_progress", ("Retry-After", "1"))
    if record["content"] != key.content:
        raise reject("idempotency_key_reused")
    if "reserved" in record:
        return None
    request.why["replayed"] = True
    headers = tuple((name, value) for name, value in record["headers"])
    replayed = (*headers, ("Idempotent-Replayed", "true"))
    if "error" in record:
        return ApiError(ErrorType(**record["error"]), record["values"], replayed)
    return Reply(record["status"], record["body"].encode(), record["mediaType"], replayed)


def reserve(call: Call, key: IdempotencyKey | None) -> None:
    """Let the same request be rejected until this one, which has to wait, is done."""
    if key is not None:
        reserved = instant_text(call.system_now + _RESERVED)
        record = {"content": key.content, "until": instant_text(call.now + _KEPT)}
        call.state.put(_KIND, key.name, {**record, "reserved": reserved, "number": 0})


def release(state: Transaction, key: IdempotencyKey | None) -> None:
    """Forget that a request was under way."""
    record = None if key is None else state.get(_KIND, key.name)
    if key is not None and record is not None and "reserved" in record:
        state.delete(_KIND, key.name)


def keep(call: Call, key: IdempotencyKey | None, outcome: Reply | ApiError) -> None:
    """Remember an outcome, without secrets.

    An error that another body, credential or time would avoid is not remembered.
    """
    if key is None:
        return
    if outcome.status in _NOT_KEPT:
        release(call.state, key)
        return
    state = call.state
    record: Record = {
        "content": key.content,
        "until": instant_text(call.now + _KEPT),
        "headers": [[name, value] for name, value in outcome.headers if name.lower() != _COOKIE],
    }
    if isinstance(outcome, ApiError):
        values = {name: str(value) for name, value in outcome.values.items()}
        record |= {"error": asdict(outcome.type), "values": values}
    else:
        body = _without_secrets(outcome.body, call.operation.secrets)
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


def key_of(request: Request, inputs: Inputs) -> IdempotencyKey | None:
    """Return what identifies a request that is carried out once.

    None for one without a key, and for one with a password, of which not even a digest is kept.
    Raises ApiError 400 for a malformed key.
    """
    texts, caller = request.header_values(HEADER), request.credential
    if not texts or caller is None or not request.target.reading.is_idempotent:
        return None
    quoted = _QUOTED.fullmatch(texts[0].strip())
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else texts[0].strip()
    if len(texts) > 1 or not _PRINTABLE.fullmatch(key):
        raise reject("bad_idempotency_key")
    body = inputs.body
    if isinstance(body, Mapping) and "password" in body:
        return None
    query = request.scope["query_string"].decode("latin-1")
    content = _content(body) if is_json(inputs.media_type) else _bytes_digest(request.content)
    return IdempotencyKey(
        name=_digest([caller.subject, request.method, request.path, key]),
        content=_digest([query, content]),
    )


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
        return [_sorted(item) for item in value]
    return value


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _without(one, names) for key, one in value.items() if key not in names}
    if isinstance(value, list):
        return [_without(item, names) for item in value]
    return value
