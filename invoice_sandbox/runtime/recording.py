"""What was sent to a workspace since it was created, in a form that can be sent again.

Secrets do not leave the server: each is replaced by a placeholder, and ``Secrets.sources`` says
where a replay finds its own. Everything else is sent as it was.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote_plus

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.ids import KEY_BODY_LENGTH, KEY_CHECKSUM_LENGTH, key_checksum, key_digest
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.openapi.security import BASIC, BEARER
from invoice_sandbox.runtime.journal import (
    CREATE_LISTENER,
    PAIR,
    Body,
    Headers,
    Input,
    JournalEntry,
    Redactor,
)
from invoice_sandbox.state import Record
from invoice_sandbox.webhooks.network import listener_url

PLACEHOLDER: Final = re.compile(r"\{\{sandbox-secret-(\d+)\}\}")
"""What stands for a secret; the number is its place in ``Secrets.sources``."""

_LONG: Final = 16
"""Characters from which a secret is replaced wherever it occurs, and not only in its place."""

_PART: Final = 8
"""Characters from which the beginning of a secret is cut off the end of a body. Fewer are common:
two runs of the same inputs would be cut in different places."""

RANDOM: Final = frozenset(
    {"durationMs", "hasBundle", "keptIdleFor", "last4", "webhook-signature", "webhook-timestamp"}
)
"""Members that differ in every run: real time, the end of a random key, what depends on the
workspace that the recorded one was created from, whether it has a bundle, as no bundle has others,
and the headers of webhooks."""

_RANDOM_MEMBER: Final = re.compile(rf'"({"|".join(sorted(RANDOM))})":("[^"]*"?|[0-9.]+|true|false)')

_LISTENER: Final = re.compile(rf"{listener_url('')}([0-9A-Za-z]{{32,128}})")
"""The address of a listener, which has its token."""

_SCHEMES: Final = frozenset({BASIC, BEARER})

_VALUES: Final = re.compile(r'"([^"\\]*)"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,\]}]+)')


@dataclass
class Secrets:
    """The secrets of a recording. ``keys`` are the digests of keys that the workspace was created
    with, ``passwords`` those of its users by e-mail address, ``inbox`` the token of its inbox.

    ``sources`` says for each placeholder where a replay finds the value.
    """

    redactor: Redactor
    keys: Collection[str]
    passwords: Mapping[str, str]
    inbox: str
    sources: list[Record] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _earlier: list[JournalEntry] = field(default_factory=list)

    def sent(self, one: Input) -> Record:
        """A request with placeholders: ``method``, ``target``, ``headers``, ``body``.

        A body that is no text is None, and ``base64`` has it. Of one that may hold unknown secrets
        only ``bodyBytes`` is there, its length. Must be called for all inputs in order.
        """
        entry = one.entry
        headers = [[name, self._header(name, value)] for name, value in entry.request_headers]
        for secret in entry.path_secrets:
            self._named(secret)
        target = self._target(one.target)
        body = self._body(entry.why.operation, entry.request_body, entry.request_headers)
        self._earlier.append(entry)
        if one.is_control and entry.why.operation == CREATE_LISTENER:
            self._listener(one.response_body)
        return {"method": entry.method, "target": target, "headers": headers, **body}

    def masked(self, text: str) -> str:
        """``text`` without long secrets of this recording."""
        for secret, name in sorted(self._names.items(), key=lambda one: -len(one[0])):
            if len(secret) >= _LONG:
                text = text.replace(secret, name)
        text = text.replace(self.inbox, "[inbox]")
        text = _LISTENER.sub(f"{listener_url('')}[listener]", text)
        return self.redactor.key_pattern.sub("[redacted]", text)

    def shown(self, message: Record) -> Record:
        """A request or response of the journal whose body, if it is cut, ends before a secret."""
        body = message["body"]
        if body is None or "bodyBytes" not in message:
            return message
        for secret in (*self._names, self.inbox):
            if len(secret) >= _LONG and secret[:_PART] in body[-len(secret) :]:
                lengths = range(len(secret), _PART - 1, -1)
                part = next((one for one in lengths if body.endswith(secret[:one])), 0)
                body = body[: len(body) - part]
        return {**message, "body": body}

    def digest(self, operation: str | None, body: Body) -> str | None:
        """A digest of a whole body that two runs can compare: secrets, and what differs in every
        run, do not count. None: the body may hold a secret that nobody can find."""
        if operation in self.redactor.hidden_operations:
            return None
        try:
            value = self.redactor.redacted(jsonio.loads(body.content))
            text = jsonio.dumps(_without_random(value)).decode()
        except (jsonio.JsonError, UnicodeDecodeError):
            text = without_random(body.content.decode("latin-1"))
            if self.redactor.shows_secrets(text):
                return None
        return f"sha256:{hashlib.sha256(self.masked(text).encode()).hexdigest()}"

    def _named(self, secret: str) -> str:
        """The placeholder of a secret."""
        if not secret or PLACEHOLDER.fullmatch(secret):
            return secret
        if secret not in self._names:
            self._names[secret] = f"{{{{sandbox-secret-{len(self.sources)}}}}}"
            self.sources.append({})
            self.sources[int(self._names[secret][17:-2])] = self._source(secret)
        return self._names[secret]

    def _source(self, secret: str) -> Record:
        if secret == self.inbox:
            return {"is": "inbox"}
        for index, entry in enumerate(self._earlier):
            place = _place(entry, secret)
            if place is not None:
                return {"is": "response", "input": index, **place}
        if key_digest(secret) in self.keys:
            return {"is": "key"}
        for user, password in self.passwords.items():
            if secret == password:
                return {"is": "password", "user": user}
        return {"is": "unknown", "length": len(secret), **_form(secret, self.redactor)}

    def _listener(self, body: Body) -> None:
        """Give the token of a listener, and its id, which depends on that, placeholders."""
        with suppress(jsonio.JsonError):  # too many endpoints for a recording
            made = jsonio.loads(body.content)["data"]
            self._named(made["token"])
            self._named(made["id"])

    def _text(self, text: str) -> str:
        """``text`` with the placeholders of the long secrets known so far, and of all keys,
        listeners, and parameters of URLs that have the name of a secret."""
        for found in (*self.redactor.key_pattern.findall(text), *_LISTENER.findall(text)):
            self._named(found)
        if self.inbox in text:
            self._named(self.inbox)
        text = PAIR.sub(self._parameter, text)
        for secret, name in sorted(self._names.items(), key=lambda one: -len(one[0])):
            if len(secret) >= _LONG:
                text = text.replace(secret, name)
        return text

    def _parameter(self, pair: re.Match[str]) -> str:
        """A parameter of a URL, without its value if it has the name of a secret."""
        is_secret = self.redactor.is_secret_name(unquote_plus(pair[2]))
        return f"{pair[1]}{pair[2]}={self._named(pair[3])}" if is_secret else pair[0]

    def _header(self, name: str, value: str) -> str:
        if not self.redactor.is_secret_header(name.lower()):
            return self._text(value)
        if value.strip().lower() in _SCHEMES:  # without a credential
            return value
        if name.lower() == "cookie":
            return "; ".join(self._pair(one.strip()) for one in value.split(";"))
        scheme, space, secret = value.partition(" ")
        if name.lower() != "authorization" or not space:
            return self._named(value)
        if scheme.lower() == "basic":
            return f"{scheme} {self._basic(secret.strip())}"
        return f"{scheme} {self._named(secret.strip())}"

    def _basic(self, encoded: str) -> str:
        name = self._named(encoded)
        if name == encoded:  # there is nothing to hide
            return name
        try:
            user, colon, password = base64.b64decode(encoded).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return name
        plain = f"{user}:{self._named(password)}" if colon and password else self._named(user)
        self.sources[int(name[17:-2])] = {"is": "base64", "text": plain}
        return name

    def _pair(self, pair: str) -> str:
        name, is_pair, value = pair.partition("=")
        return f"{name}={self._named(value)}" if is_pair else self._named(pair)

    def _target(self, target: str) -> str:
        path, mark, query = target.partition("?")
        pairs = [self._pair(one) if self._is_secret_pair(one) else one for one in query.split("&")]
        return self._text(f"{path}{mark}{'&'.join(pairs)}")

    def _is_secret_pair(self, pair: str) -> bool:
        name = pair.partition("=")[0]
        return any(map(self.redactor.is_secret_name, re.split(r"[\[\].]+|%5[BbDd]", name)))

    def _body(self, operation: str | None, body: Body, headers: Headers) -> Record:
        if not body.content:
            return {"body": None}
        hidden = {"body": None, "bodyBytes": len(body.content)}
        media_type = dict(headers).get("content-type", body.media_type)
        is_read = is_json(media_type.partition(";")[0].strip().lower())
        if operation in self.redactor.hidden_operations:
            return hidden
        if not is_read:
            return self._other(body.content) or hidden
        try:
            text = self._json(body.content)
        except ValueError:  # what is in it is unknown
            return hidden
        return {"body": text}

    def _other(self, content: bytes) -> Record | None:
        """A body that is no JSON; None: it may hold a secret."""
        known = [one for one in (*self._names, self.inbox) if len(one) >= _LONG]
        if any(one.encode() in content for one in known):
            return None
        try:
            text = content.decode()
        except UnicodeDecodeError:
            is_secret = self.redactor.key_pattern.search(content.decode("latin-1"))
            encoded = {"body": None, "base64": base64.b64encode(content).decode()}
            return None if is_secret else encoded
        return None if self.redactor.shows_secrets(text) else {"body": text}

    def _json(self, content: bytes) -> str:
        """The JSON with placeholders. Raises ValueError for what may hold another secret."""
        text = content.decode()
        try:
            value = jsonio.loads(content)
        except jsonio.JsonError:
            if self.redactor.may_name_secrets(text):
                raise
            return self._text(text)
        found = list(self._members(value))
        for name, secret in found:
            for written in (secret, jsonio.dumps(secret).decode()[1:-1]):
                place = rf'("{re.escape(name)}"\s*:\s*)"{re.escape(written)}"'
                text = re.sub(place, rf'\g<1>"{self._named(secret)}"', text)
        text = self._text(text)
        if "\\u0026" in text or (found and "\\" in text):  # what is secret may have escapes
            text = jsonio.dumps(self._replaced(value)).decode()
        for name, written in _VALUES.findall(text):
            if self.redactor.is_secret_name(name) and not _is_harmless(written):
                raise ValueError("a secret that is no text")
        return text

    def _members(self, value: Any) -> Iterator[tuple[str, str]]:
        """Names and values of members with the name of a secret."""
        if isinstance(value, Mapping):
            for name, one in value.items():
                if isinstance(one, str) and self.redactor.is_secret_name(name):
                    yield name, one
                else:
                    yield from self._members(one)
        elif isinstance(value, list):
            for one in value:
                yield from self._members(one)

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                name: self._named(one)
                if isinstance(one, str) and self.redactor.is_secret_name(name)
                else self._replaced(one)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [self._replaced(one) for one in value]
        return self._text(value) if isinstance(value, str) else value


def without_random(text: str) -> str:
    """A text that is no JSON, or the beginning of one, without what differs in every run."""
    return _RANDOM_MEMBER.sub(r'"\1":0', text)


def _without_random(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_random(one) for name, one in value.items() if name not in RANDOM}
    return [_without_random(one) for one in value] if isinstance(value, list) else value


def _is_harmless(written: str) -> bool:
    return written in {"null", "true", "false", '""'} or bool(
        PLACEHOLDER.fullmatch(written.strip('"'))
    )


def _place(entry: JournalEntry, secret: str) -> Record | None:
    """Where a response holds a secret: a header, or a member of its body, and from which character
    on; None: nowhere."""
    for name, value in entry.response_headers:
        if secret in value:
            return {"header": name.lower(), "from": value.index(secret), "length": len(secret)}
    if secret.encode() not in entry.response_body.content:
        return None
    try:
        body = jsonio.loads(entry.response_body.content)
    except jsonio.JsonError:
        return None
    for pointer, text in _texts(body, ""):
        if secret in text:
            return {"member": pointer, "from": text.index(secret), "length": len(secret)}
    return None


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _texts(one, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _texts(one, f"{pointer}/{index}")


def _form(secret: str, redactor: Redactor) -> Record:
    """What an error may depend on: the prefix of a key, and whether its checksum is right."""
    match = redactor.key_pattern.fullmatch(secret)
    if match is None:
        return {}
    tail = secret[-KEY_BODY_LENGTH - KEY_CHECKSUM_LENGTH :]
    is_whole = len(secret) > len(tail) == KEY_BODY_LENGTH + KEY_CHECKSUM_LENGTH
    body, checksum = tail[:KEY_BODY_LENGTH], tail[KEY_BODY_LENGTH:]
    prefix = secret[: -len(tail)] if is_whole else re.split(r"(?<=_)(?!.*_)", secret)[0]
    return {"prefix": prefix, "checksum": is_whole and key_checksum(body) == checksum}
