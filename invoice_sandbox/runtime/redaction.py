"""Redaction: the journal shows entries without secrets.

Headers that carry credentials are left out, members and parameters that the contract declares
as ``format: password`` or that have a common name of a secret, and everything that looks like a key
of ours. A body that cannot be parsed is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final
from urllib.parse import unquote_plus

from msgspec import structs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.base.ids import KEY_PREFIX
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.openapi.operation import Contract
from invoice_sandbox.runtime.journal_entry import Body, Headers, JournalEntry, Why
from invoice_sandbox.state import Record
from invoice_sandbox.webhooks.signing import SECRET_PREFIX

REDACTED: Final = "[redacted]"

UNLISTED: Final = "unlisted"
"""The member that marks an entry of an earlier process that is in bundles only."""

_SECRET_HEADER: Final = re.compile(
    "authorization|api-?key|cookie|credential|passw|secret|session|signature|token"
)
_SECRET_NAMES: Final = frozenset(
    {"authorization", "bearer", "connectionstring", "cookie", "key", "mnemonic", "pwd", "sig"}
)
"""Names that secrets commonly have, as ``_plain`` writes them."""

_SHORT_NAMES: Final = frozenset(
    {
        *("auth", "csrf", "cvc", "cvv", "hmac", "mfacode", "otp", "pass", "passcode", "pin"),
        *("sas", "session", "sessionid", "sid", "totp"),
    }
)
"""Names of secrets that are parts of other words, too: they count as whole names only."""

_SECRET_ENDINGS: Final = (
    *("apikey", "accesskey", "accountkey", "encryptionkey", "masterkey", "privatekey"),
    *("secretkey", "sharedkey", "signingkey", "credential", "credentials", "jwt", "passphrase"),
    *("passwd", "password", "secret", "signature", "token"),
)
"""The endings of names of secrets, as ``_plain`` writes them."""

_USER: Final = re.compile(r"://[^/?#\s\"\\]*@")
_MARGIN: Final = 1024
"""Characters beyond what is shown, so that no secret is cut in two and shown in part."""

_MEMBER: Final = re.compile(r'"([^"]*)"\s*:')
PAIR: Final = re.compile(r"([?&;])([^=?&;\"\s\\]{1,256})=([^&;\"\s\\]*)")
"""A parameter in a URL: what separates it from others, its name, its value."""

_SHORTEST_SECRET: Final = 16
_MAX_SECRETS: Final = 64
"""Secrets that a request may carry; beyond, nothing of its texts is shown."""

MAX_USER_AGENT: Final = 256
"""Characters of a User-Agent in records that are not the journal."""

_MAX_PATH: Final = 2 * 1024
_MAX_QUERY: Final = 8 * 1024
_MAX_HEADERS: Final = 100
"""Characters of a path and a query, and headers, that are shown."""

_MAX_VALUES: Final = 5_000
"""Values of a body in which secrets are looked for; of a larger one only the length is shown."""

MAX_BODY: Final = 8 * 1024
_LARGE_REQUEST: Final = 128 * 1024
"""A request body beyond this is cut, too; up to it a replay can send the request again."""


class Redactor:
    """Shows entries without secrets."""

    most_body = MAX_BODY
    """Bytes of a body that are shown."""

    def __init__(self, contracts: tuple[Contract, ...], key_prefix: str = KEY_PREFIX) -> None:
        prefixes = "|".join({re.escape(prefix) for prefix in (KEY_PREFIX, key_prefix)})
        self.key_pattern = re.compile(f"(?i:{prefixes})[0-9A-Za-z]+|{SECRET_PREFIX}[0-9A-Za-z+/=]+")
        schemes = [scheme for contract in contracts for scheme in contract.schemes.values()]
        operations = [row for contract in contracts for row in contract.operations.values()]
        members = [operation.secrets for operation in operations]
        parameters = [contract.secrets_in("query") for contract in contracts]
        declared = frozenset().union(*members, *parameters)
        self._names = _SECRET_NAMES | {_plain(name) for name in declared}
        self._names |= {_plain(scheme.name) for scheme in schemes}
        self.hidden_operations = frozenset(
            operation.id for operation in operations if operation.is_secret
        )
        headers = frozenset().union(*(contract.secrets_in("header") for contract in contracts))
        self._headers = {name.lower() for name in headers}

    def hide(self, _secret: str) -> str:
        """Return what is shown instead of a secret."""
        return REDACTED

    def hide_header(self, _name: str, value: str) -> str:
        """Return what is shown instead of the value of a header that carries a credential."""
        return self.hide(value)

    def user_agent(self, headers: Headers) -> str | None:
        """The User-Agent, cut and without secrets."""
        agent = dict(reversed(headers)).get("user-agent")
        if not agent:
            return None
        text = self._text(agent[: MAX_USER_AGENT + _MARGIN], self._sent_in(headers))
        return text[:MAX_USER_AGENT] or None

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        """A secret name. Long patterns are compiled when the journal is first read."""
        names = sorted(map(_spelled, self._names.union(_SECRET_ENDINGS)))
        return re.compile(f"(?i){'|'.join(names)}")

    def shown(self, entry: JournalEntry) -> Record:
        """The entry as the journal shows it."""
        sent = self._sent(entry)
        path = self._cut(entry.path, _MAX_PATH, sent)
        return {
            "requestId": entry.request_id,
            "at": instant_text(entry.why.at) if entry.why.at else None,
            "receivedAt": entry.received.isoformat() if entry.received else None,
            "durationMs": round(entry.seconds * 1000, 3),
            "operation": entry.why.operation,
            "method": entry.method,
            "path": f"{path}?{self._query(entry.query, sent)}" if entry.query else path,
            "status": entry.status,
            "request": {
                "headers": self._shown(entry.request_headers, sent),
                **self._body(entry.why.operation, entry.request_body, sent),
            },
            "response": {
                "headers": self._shown(entry.response_headers, sent),
                **self._body(entry.why.operation, entry.response_body, sent),
            },
            "why": self.explanation(entry.why, entry.request_headers, entry.path_secrets),
        }

    def kept(self, entry: JournalEntry) -> Record:
        """Return what outlives the process of an entry."""
        shown = self.shown(entry)
        return shown if entry.is_listed else {**shown, UNLISTED: True}

    def explanation(self, why: Why, headers: Headers, path_secrets: Iterable[str]) -> Record:
        """Return the explanation of the response to a request, without its secrets."""
        sent = self._sent_in(headers).union(path_secrets)
        return dict(self._redacted(why.shown(), lambda text: self._text(text, sent)))

    def redacted(self, value: Any) -> Any:
        """A JSON value without secrets."""
        return self._redacted(value, lambda text: self._text(text, frozenset()))

    def without_large_bodies(self, entry: JournalEntry) -> JournalEntry:
        """The entry with what is shown of large bodies, instead of their bytes."""
        operation, sent = entry.why.operation, self._sent(entry)
        request, response = entry.request_body, entry.response_body
        if len(response.content) > MAX_BODY:
            shown = self._body(operation, response, sent)
            response = Body(b"", response.media_type, shown=shown)
        if len(request.content) > _LARGE_REQUEST:
            request = Body(b"", request.media_type, shown=self._body(operation, request, sent))
        return structs.replace(entry, request_body=request, response_body=response)

    def _shown(self, headers: Iterable[tuple[str, str]], sent: _Sent) -> list[list[str]]:
        given = list(headers)
        shown = [self._header(name.lower(), value, sent) for name, value in given[:_MAX_HEADERS]]
        more = len(given) - _MAX_HEADERS
        return [*shown, ["...", f"{more} more"]] if more > 0 else shown

    def _header(self, name: str, value: str, sent: _Sent) -> list[str]:
        is_secret = self.is_secret_header(name)
        shown = self.hide_header(name, value) if is_secret else self._text(value, sent)
        return [self._text(name, sent), shown]

    def is_secret_header(self, header: str) -> bool:
        return header in self._headers or _has_secret_name(header)

    def _sent(self, entry: JournalEntry) -> _Sent:
        return self._sent_in(entry.request_headers) | frozenset(entry.path_secrets)

    def _sent_in(self, headers: Headers) -> _Sent:
        values = [value for name, value in headers if self.is_secret_header(name)]
        words = [word for value in values for word in re.split(r"[\s;,=]+", value)]
        return frozenset(word for word in words if len(word) >= _SHORTEST_SECRET)

    def _cut(self, text: str, most: int, sent: _Sent) -> str:
        """``text`` without secrets and no longer than ``most``; no secret is cut in two."""
        if len(text) <= most:
            return self._text(text, sent)
        return f"{self._text(text[: most + _MARGIN], sent)[:most]}..."

    def _query(self, query: str, sent: _Sent) -> str:
        pairs = query[: _MAX_QUERY + _MARGIN].split("&")
        shown = "&".join(self._pair(pair, sent) for pair in pairs)
        return shown if len(query) <= _MAX_QUERY else f"{shown[:_MAX_QUERY]}..."

    def _pair(self, pair: str, sent: _Sent) -> str:
        name, is_pair, value = pair.partition("=")
        steps = re.split(r"[\[\].]+", unquote_plus(name))
        text = unquote_plus(value).lstrip()
        is_json_text = text[:1] in {"{", "["}
        if is_pair and (
            any(self.is_secret_name(step) for step in steps)
            or (is_json_text and self.may_name_secrets(text))
        ):
            return f"{self._text(name, sent)}={self.hide(value)}"
        shown = self._text(pair, sent)
        plain = unquote_plus(shown)
        return shown if self._text(plain, sent) == plain else self.hide(pair)

    def _text(self, text: str, sent: _Sent) -> str:
        """``text`` with anything that looks like a secret redacted."""
        if len(sent) > _MAX_SECRETS:
            return self.hide(text) if text else text
        for secret in sorted(sent):
            if secret in text:
                text = text.replace(secret, self.hide(secret))
        text = self.key_pattern.sub(lambda found: self.hide(found[0]), text)
        if "=" in text:
            text = PAIR.sub(self._without_value, text)
        if "@" not in text:
            return text
        return _USER.sub(lambda found: f"://{self.hide(found[0][3:-1])}@", text)

    def _without_value(self, match: re.Match[str]) -> str:
        is_secret = self.is_secret_name(unquote_plus(match[2]))
        return f"{match[1]}{match[2]}={self.hide(match[3])}" if is_secret else match[0]

    def is_secret_name(self, name: str) -> bool:
        plain = _plain(name)
        return plain in self._names or plain in _SHORT_NAMES or plain.endswith(_SECRET_ENDINGS)

    def _body(self, operation: str | None, body: Body, sent: _Sent) -> Record:
        content = body.content
        if body.shown is not None:
            return body.shown
        if not content:
            return {"body": None}
        hidden = {"body": None, "bodyBytes": len(content)}
        is_read = is_json(body.media_type.partition(";")[0].strip().lower())
        if not is_read or operation in self.hidden_operations or len(sent) > _MAX_SECRETS:
            return hidden
        try:
            text = self._json(content, body.is_valid_json)
        except ValueError:  # what is in it is unknown
            return hidden
        shown = self._text(text[: self.most_body + _MARGIN], sent)
        if len(text) > self.most_body + _MARGIN:
            shown = shown[:-_MARGIN]
        cut = shown.encode()[: self.most_body].decode(errors="ignore")
        is_whole = len(text) <= self.most_body and cut == shown
        return {"body": cut} if is_whole else {"body": cut, "bodyBytes": len(content)}

    def _json(self, body: bytes, is_valid_json: bool) -> str:
        """The body as it was sent, or written anew if what is shown of it may name a secret.

        Raises ValueError for what is not JSON and may hold a secret.
        """
        text = body.decode()
        if "\0" in text:  # not UTF-8, whatever its bytes look like
            raise ValueError("not JSON")
        if is_valid_json and not self.may_name_secrets(text[: self.most_body + _MARGIN]):
            return text
        if body.count(b",") + body.count(b"[") > _MAX_VALUES:
            raise ValueError("too many values to find the secrets in them")
        try:
            return jsonio.dumps(self._redacted(jsonio.loads(body))).decode()
        except jsonio.JsonError:
            if self.may_name_secrets(text) or self._anywhere.search(text):
                raise
            return text

    def shows_secrets(self, text: str) -> bool:
        """True if a text that is not JSON names a secret, or has something that looks like one."""
        return bool(self._anywhere.search(text) or self.key_pattern.search(text))

    def may_name_secrets(self, text: str) -> bool:
        if "\\" in text:  # a name, or an address, may be written with escapes
            return True
        return any(map(self.is_secret_name, set(_MEMBER.findall(text))))

    def _redacted(self, value: Any, text: Callable[[str], str] = str) -> Any:
        if isinstance(value, Mapping):
            return {
                key: self._hidden(member)
                if self.is_secret_name(key)
                else self._redacted(member, text)
                for key, member in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._redacted(item, text) for item in value]
        return text(value) if isinstance(value, str) else value

    def _hidden(self, value: Any) -> str:
        return self.hide(value) if isinstance(value, str) else REDACTED


_Sent = frozenset[str]
"""The secrets that a request carries, to be redacted everywhere else too."""


@lru_cache(maxsize=1000)  # for every header of every request
def _has_secret_name(header: str) -> bool:
    return _SECRET_HEADER.search(header) is not None


@lru_cache(maxsize=1000)  # for every member of every body
def _plain(name: str) -> str:
    """``X-API-Key``, ``x_api_key`` and ``xApiKey`` are one name: ``xapikey``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _spelled(name: str) -> str:
    """A pattern for every spelling of ``name`` as ``_plain`` reads them."""
    return '[^a-z0-9"]*'.join(name)
