"""What is shown of a request and its answer: everything but secrets.

Left out are headers that carry credentials, members and parameters that the contract declares as
``format: password`` or that are called as secrets commonly are, and whatever looks like a key of
ours, wherever it stands. A body that cannot be read is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_plus

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.ids import KEY_PREFIX
from invoice_sandbox.http import Exchange, Reply
from invoice_sandbox.openapi.responses import is_json
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Record
from invoice_sandbox.webhooks.signing import SECRET_PREFIX

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

_MEMBER: Final = re.compile(r'"([^"]*)"\s*:')
_SHORTEST_SECRET: Final = 16
_MOST_BODY: Final = 8 * 1024


class Redactor:
    """Turns exchanges into entries without secrets."""

    def __init__(self, engine: Engine) -> None:
        contracts = (engine.project.contract, engine.project.control)
        schemes = [scheme for contract in contracts for scheme in contract.schemes.values()]
        members = [one.secrets for contract in contracts for one in contract.operations.values()]
        declared = frozenset().union(*members, *(one.secret_parameters for one in contracts))
        self._names = _SECRET_NAMES | {_plain(name) for name in declared}
        self._names |= {_plain(scheme.name) for scheme in schemes}
        self._headers = {scheme.name for scheme in schemes if scheme.location == "header"}
        self._headers |= frozenset().union(*(one.secret_headers for one in contracts))
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
        sent = frozenset(word for word in words if len(word) >= _SHORTEST_SECRET)
        return sent | _in_path(exchange)

    def _query(self, query: str, sent: _Sent) -> str:
        return "&".join(self._pair(pair, sent) for pair in query.split("&"))

    def _pair(self, pair: str, sent: _Sent) -> str:
        name, is_pair, _ = pair.partition("=")
        steps = re.split(r"[\[\].]+", unquote_plus(name))
        if is_pair and any(_plain(step) in self._names for step in steps):
            return f"{self._text(name, sent)}={REDACTED}"
        shown = self._text(pair, sent)
        plain = unquote_plus(shown)
        return shown if self._text(plain, sent) == plain else REDACTED

    def _text(self, text: str, sent: _Sent) -> str:
        """``text`` without what can be told for a secret by its looks or its place."""
        for secret in sent:
            text = text.replace(secret, REDACTED)
        text = _KEY.sub(REDACTED, text)
        if "=" in text:
            text = self._in_address.sub(_redacted_value, text)
        return _USER.sub(f"://{REDACTED}@", text) if "@" in text else text

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


def _in_path(exchange: Exchange) -> _Sent:
    """Secrets that are parameters of the path."""
    parameters = exchange.operation.parameters if exchange.operation else ()
    named = {one.name for one in parameters if one.secret and one.location == "path"}
    return frozenset(text for name, text in exchange.path_texts.items() if name in named and text)


def _redacted_value(match: re.Match[str]) -> str:
    return f"{match[1]}{REDACTED}"


@lru_cache(maxsize=1000)
def _plain(name: str) -> str:
    """``X-API-Key``, ``x_api_key`` and ``xApiKey`` are one name: ``xapikey``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _spelled(name: str) -> str:
    """A pattern for every spelling that ``_plain`` takes for ``name``."""
    return '[^a-z0-9"]*'.join(name)
