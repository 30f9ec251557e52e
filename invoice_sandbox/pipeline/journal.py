"""Outermost layer: what was asked, what was answered, and why, kept in the workspace's journal.

Secrets do not get into it: what headers, query parameters and members carry under a name that a
contract declares as a secret or that is commonly one's, and keys wherever they stand. A body that
may hold one and cannot be read is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_plus

from invoice_sandbox import jsonio
from invoice_sandbox.clock import instant_text
from invoice_sandbox.contract.answers import is_json
from invoice_sandbox.engine import Engine
from invoice_sandbox.ids import KEY_PREFIX
from invoice_sandbox.pipeline import Exchange, Layer, Proceed, Reply
from invoice_sandbox.pipeline.access import owner
from invoice_sandbox.store import Record, Workspace
from invoice_sandbox.webhooks.signing import SECRET_PREFIX

REQUESTS_LOG: Final = "requests"
"""The log of a workspace that holds its journal."""

EXPLAIN: Final = "x-sandbox-explain"
REDACTED: Final = "[redacted]"

_SECRET_HEADER: Final = re.compile(
    "authorization|api-?key|cookie|credential|passw|secret|session|signature|token"
)
_SECRET_NAMES: Final = frozenset(
    {
        "accesstoken",
        "apikey",
        "authorization",
        "clientsecret",
        "cookie",
        "credential",
        "key",
        "passwd",
        "password",
        "pwd",
        "refreshtoken",
        "secret",
        "sig",
        "signature",
        "token",
        "xapikey",
    }
)
"""Names that secrets commonly have, as ``_plain`` writes them."""

_KEY: Final = re.compile(f"(?i:{KEY_PREFIX})[0-9A-Za-z]+|{SECRET_PREFIX}[0-9A-Za-z+/=]+")
_USER: Final = re.compile(r"://[^/?#\s\"\\]*@")
_MARGIN: Final = 1024
"""Read beyond what is shown, so that no secret is cut in two and shown in part."""

_MEMBER: Final = re.compile(r'"([^"]{3,100})"\s*:')
_SHORTEST_SECRET: Final = 16
_MOST_BODY: Final = 8 * 1024
_MOST_EXPLAINED: Final = 1024


def journal(engine: Engine) -> Layer:
    """Write down every request to the API whose workspace is known; explain it if asked to."""
    redact = _Redactor(engine)

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        started = engine.wall.monotonic()
        reply = await proceed(exchange)
        workspace = exchange.workspace or await owner(engine, exchange)
        why = _explanation(exchange, workspace, engine)
        if workspace is not None and exchange.contract is not engine.project.levers:
            milliseconds = round((engine.wall.monotonic() - started) * 1000, 3)
            entry = {
                "requestId": exchange.request_id,
                "at": instant_text(workspace.clock.now(engine.wall)),
                "durationMs": milliseconds,
                **redact.entry(exchange, reply),
                "why": why,
            }
            await engine.store.append(workspace.id, REQUESTS_LOG, entry, _size(entry))
        if exchange.header(EXPLAIN) == "1":
            header = ("X-Sandbox-Explain", _short(why))
            return Reply(reply.status, reply.body, reply.media_type, (*reply.headers, header))
        return reply

    return layer


def _explanation(exchange: Exchange, workspace: Workspace | None, engine: Engine) -> Record:
    why: Record = {}
    if exchange.operation is not None:
        why["operation"] = exchange.operation.id
    if workspace is not None:
        now = instant_text(workspace.clock.now(engine.wall))
        why |= {"scenario": workspace.scenario, "clock": f"{workspace.clock.mode} {now}"}
    return why | exchange.why


def _short(why: Mapping[str, Any]) -> str:
    """The explanation on one line of printable ASCII, as ``name=value`` pairs."""
    text = ", ".join(f"{name}={_quoted(value)}" for name, value in why.items())
    return re.sub(r"[^\x20-\x7e]", "?", text)[:_MOST_EXPLAINED]


def _quoted(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        value = [one for one in value.values() if one is not None]
    words = value if isinstance(value, str) else " ".join(map(str, value))
    return f'"{words}"'


class _Redactor:
    """Turns exchanges into entries without secrets."""

    def __init__(self, engine: Engine) -> None:
        contracts = (engine.project.contract, engine.project.levers)
        schemes = [scheme for contract in contracts for scheme in contract.schemes.values()]
        members = [one.secrets for contract in contracts for one in contract.operations.values()]
        declared = frozenset().union(*members, *(one.secret_parameters for one in contracts))
        self._names = _SECRET_NAMES | {_plain(name) for name in declared}
        self._names |= {_plain(scheme.name) for scheme in schemes}
        self._headers = {scheme.name for scheme in schemes if scheme.location == "header"}
        names = "|".join(sorted(map(_spelled, self._names)))
        self._anywhere = re.compile(f"(?i){names}")
        self._in_address = re.compile(rf"(?i)([?&;](?:{names})=)[^&;\"\s\\]*")

    def entry(self, exchange: Exchange, reply: Reply) -> Record:
        """What was asked and answered."""
        sent = self._sent(exchange)
        query = exchange.scope["query_string"].decode("latin-1")
        path = self._text(exchange.scope["path"], sent)
        is_reset = exchange.spoilt_by is not None and exchange.spoilt_by.kind == "reset"
        media_type = exchange.header("content-type") or ""
        is_read = exchange.body is not None
        answered = b"" if is_reset else reply.body
        return {
            "operation": exchange.operation.id if exchange.operation else None,
            "method": exchange.method,
            "path": f"{path}?{self._query(query, sent)}" if query else path,
            "status": None if is_reset else reply.status,
            "request": {
                "headers": self._shown(exchange.headers, sent),
                **self._body(exchange.raw_body, media_type, sent, is_read=is_read),
            },
            "response": {
                "headers": [] if is_reset else self._shown(reply.headers, sent),
                **self._body(answered, reply.media_type, sent, is_read=True),
            },
        }

    def _shown(self, headers: Iterable[tuple[str, str]], sent: _Sent) -> list[list[str]]:
        return [self._header(name.lower(), value, sent) for name, value in headers]

    def _header(self, name: str, value: str, sent: _Sent) -> list[str]:
        shown = REDACTED if self._is_secret(name) else self._text(value, sent)
        return [self._text(name, sent), shown]

    def _is_secret(self, header: str) -> bool:
        return header in self._headers or _SECRET_HEADER.search(header) is not None

    def _sent(self, exchange: Exchange) -> _Sent:
        values = [value for name, value in exchange.headers if self._is_secret(name)]
        words = [word for value in values for word in re.split(r"[\s;,=]+", value)]
        return frozenset(word for word in words if len(word) >= _SHORTEST_SECRET)

    def _query(self, query: str, sent: _Sent) -> str:
        return "&".join(self._pair(pair, sent) for pair in query.split("&"))

    def _pair(self, pair: str, sent: _Sent) -> str:
        name, is_pair, _ = pair.partition("=")
        if is_pair and _plain(unquote_plus(name)) in self._names:
            return f"{self._text(name, sent)}={REDACTED}"
        shown = self._text(pair, sent)
        plain = unquote_plus(shown)
        return shown if self._text(plain, sent) == plain else REDACTED

    def _text(self, text: str, sent: _Sent) -> str:
        """``text`` without what can be told for a secret by its looks or its place."""
        for secret in sent:
            text = text.replace(secret, REDACTED)
        text = _KEY.sub(REDACTED, text)
        text = self._in_address.sub(rf"\1{REDACTED}", text)
        return _USER.sub(f"://{REDACTED}@", text)

    def _body(self, body: bytes, media_type: str, sent: _Sent, *, is_read: bool) -> Record:
        if not body:
            return {"body": None}
        hidden = {"body": None, "bodyBytes": len(body)}
        if not is_json(media_type.partition(";")[0].strip().lower()):
            return hidden
        try:
            text = self._json(body, is_read)
        except ValueError:  # nobody can tell what is in it
            return hidden
        shown = self._text(text[: _MOST_BODY + _MARGIN], sent)
        if len(text) > _MOST_BODY + _MARGIN:
            shown = shown[:-_MARGIN]
        cut = shown.encode()[:_MOST_BODY].decode(errors="ignore")
        is_whole = len(text) <= _MOST_BODY and cut == shown
        return {"body": cut} if is_whole else {"body": cut, "bodyBytes": len(body)}

    def _json(self, body: bytes, is_read: bool) -> str:
        """The body as it was sent, or written anew if what is shown of it may name a secret.

        ``is_read`` says that it is JSON for sure. Raises ValueError when nobody can tell.
        """
        text = body.decode()
        if "\0" in text:  # not UTF-8, whatever its bytes look like
            raise ValueError("not JSON")
        if is_read and not self._may_name_secrets(text[: _MOST_BODY + _MARGIN]):
            return text
        try:
            return jsonio.dumps(self._redacted(jsonio.loads(body))).decode()
        except jsonio.JsonError:
            if "\\" in text or self._anywhere.search(text):
                raise
            return text

    def _may_name_secrets(self, text: str) -> bool:
        if "\\" in text:  # a name, or an address, may be written with escapes
            return True
        return any(_plain(name) in self._names for name in set(_MEMBER.findall(text)))

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                key: REDACTED if _plain(key) in self._names else self._redacted(one)
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self._redacted(one) for one in value]
        return value


_Sent = frozenset[str]
"""The secrets that a request carries, to be recognised wherever else they stand."""


@lru_cache(maxsize=1000)
def _plain(name: str) -> str:
    """``X-API-Key``, ``x_api_key`` and ``xApiKey`` are one name: ``xapikey``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _spelled(name: str) -> str:
    """A pattern for every spelling that ``_plain`` takes for ``name``."""
    return '[^a-z0-9"]*'.join(name)


def _size(entry: Mapping[str, Any]) -> int:
    """About how many bytes the entry takes: its texts are all that can be long."""
    size = len(entry["path"])
    for message in (entry["request"], entry["response"]):
        size += len(message["body"] or "")
        size += sum(len(name) + len(value) for name, value in message["headers"])
    return size
