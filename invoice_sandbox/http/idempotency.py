"""``Idempotency-Key``: a request that is repeated is carried out once and answered alike.

What was answered is kept in the transaction that carried the request out, for 24 hours of the
workspace's time, under the caller, the method, the path and the key. Another request under the
same key is refused. A secret that is shown only once is not shown again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.http import Exchange, Reply
from invoice_sandbox.openapi.responses import is_json
from invoice_sandbox.state import Record, Store, Transaction

_HEADER: Final = "idempotency-key"
_KIND: Final = "idempotent_requests"
_KEPT: Final = timedelta(hours=24)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]{1,255}")
_NOT_KEPT: Final = frozenset({400, 401, 403, 429})
_COOKIE: Final = "set-cookie"


@dataclass(frozen=True)
class IdempotentRequest:
    """A request that may be repeated: ``name`` stands for caller, method, path and key,
    ``content`` is a digest of what was asked."""

    name: str
    content: str
    secrets: frozenset[str]

    async def earlier(self, state: Transaction, now: datetime) -> Reply | ApiError | None:
        """What was answered the first time, or None. Raises ApiError 400 for another request."""
        record = await state.get(_KIND, self.name)
        if record is None or parse_instant(record["until"]) <= now:
            return None
        if record["content"] != self.content:
            raise reject("idempotency_key_reused")
        headers = tuple((name, value) for name, value in record["headers"])
        replayed = (*headers, ("Idempotent-Replayed", "true"))
        if "row" in record:
            return ApiError(record["row"], record["values"], replayed)
        return Reply(record["status"], record["body"].encode(), headers=replayed)

    async def keep(self, state: Transaction, outcome: Reply | ApiError, now: datetime) -> None:
        """Remember an outcome, unless another request, credential or moment would mend it."""
        if isinstance(outcome, ApiError) and outcome.status in _NOT_KEPT:
            return
        record: Record = {
            "content": self.content,
            "until": instant_text(now + _KEPT),
            "headers": [
                [name, value] for name, value in outcome.headers if name.lower() != _COOKIE
            ],
        }
        if isinstance(outcome, ApiError):
            values = {name: str(value) for name, value in outcome.values.items()}
            record |= {"row": outcome.row, "values": values}
        else:
            record |= {"status": outcome.status, "body": self._without_secrets(outcome.body)}
        await state.put(_KIND, self.name, record)

    def _without_secrets(self, body: bytes) -> str:
        if not self.secrets or not body:
            return body.decode()
        return jsonio.dumps(_without(jsonio.loads(body), self.secrets)).decode()


def idempotent_request(exchange: Exchange) -> IdempotentRequest | None:
    """The request as one that may be repeated, if it is a POST of a known caller with a key.

    What anybody may do, such as to log in, is done anew every time. Raises ApiError 400 for a key
    that is none.
    """
    texts = exchange.header_values(_HEADER)
    if not texts or exchange.method != "POST" or exchange.credential is None:
        return None
    if exchange.routed[1].security.optional:
        return None
    quoted = _QUOTED.fullmatch(texts[0].strip())
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else texts[0].strip()
    if len(texts) > 1 or not _PRINTABLE.fullmatch(key):
        raise reject("bad_idempotency_key")
    caller, path = exchange.credential.subject, exchange.scope["path"]
    asked = [exchange.scope["query_string"].decode("latin-1"), _content(exchange)]
    return IdempotentRequest(
        name=_digest([caller, exchange.method, path, key]),
        content=_digest(asked),
        secrets=exchange.routed[1].secrets,
    )


@asynccontextmanager
async def alone(
    store: Store, workspace_id: str, request: IdempotentRequest | None
) -> AsyncIterator[None]:
    """While the request is in progress, reject the same one. Raises ApiError 409."""
    if request is None:
        yield
        return
    if not await store.claim(workspace_id, request.name):
        raise reject("in_progress", ("Retry-After", "1"))
    try:
        yield
    finally:
        await store.release(workspace_id, request.name)


def _content(exchange: Exchange) -> str:
    """The same text for bodies that say the same, whatever their white space and order."""
    if is_json(exchange.media_type):
        return jsonio.dumps(_sorted(exchange.body)).decode()
    return hashlib.sha256(exchange.raw_body).hexdigest()


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
