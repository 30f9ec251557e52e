"""Journal entries as bundles have them: whole, with a name for each secret.

A bundle shows ``[redacted 3]`` wherever the third secret was, so a replay that gets its own value
in a response can put that into later requests.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.openapi.operation import Contract
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.runtime.journal import CREATE_LISTENER
from invoice_sandbox.runtime.journal_entry import Body, JournalEntry
from invoice_sandbox.runtime.redaction import Redactor
from invoice_sandbox.runtime.workspaces import BEGINNING
from invoice_sandbox.state import MEBIBYTE, USERS, Record, Workspace
from invoice_sandbox.webhooks.inbox import inbox_token
from invoice_sandbox.webhooks.network import listener_url

SECRET: Final = re.compile(r"\[redacted ([^\[\]]{1,200})\]")
"""The text that stands for a secret; the group is its name."""

KEY: Final = "key"
INBOX: Final = "inbox"
"""The names of the workspace's key, and of the token in the address of its inbox. The password of a
user is named after the user, other secrets are numbered."""

_LISTENER: Final = f"(?<={re.escape(listener_url(''))})[0-9A-Za-z]{{32,128}}"
_SCHEMES: Final = ("basic", "bearer")
_LONGEST_SECRET: Final = 128
_LONG: Final = 16
"""Characters from which a secret is replaced wherever it occurs, and not only in its place."""


class NamedSecrets(Redactor):
    """Shows the entries of one workspace in their order. ``keys`` are the digests of the key that
    the workspace was created with, ``passwords`` has those of users by e-mail address."""

    most_body = MEBIBYTE

    def __init__(
        self,
        contracts: tuple[Contract, ...],
        key_prefix: str,
        keys: Collection[str],
        inbox: str,
        passwords: Mapping[str, str],
    ) -> None:
        super().__init__(contracts, key_prefix)
        self.key_pattern = re.compile(f"{self.key_pattern.pattern}|{re.escape(inbox)}|{_LISTENER}")
        self._keys = keys
        users = {password: f"password of {user}" for user, password in passwords.items()}
        self._known: dict[str, str] = {**users, inbox: INBOX}

    def hide(self, secret: str) -> str:
        """Return the name of a secret."""
        if not secret or SECRET.fullmatch(secret):
            return secret
        if secret not in self._known:
            self._known[secret] = KEY if key_digest(secret) in self._keys else str(len(self._known))
        return f"[redacted {self._known[secret]}]"

    def hide_header(self, name: str, value: str) -> str:
        """Return a header with the names of its secrets; schemes and names of cookies are none."""
        if name == "cookie":
            return "; ".join(self._hide_pair(pair.strip()) for pair in value.split(";"))
        if name == "set-cookie":
            pair, semicolon, attributes = value.partition(";")
            return f"{self._hide_pair(pair)}{semicolon}{attributes}"
        scheme, space, secret = value.partition(" ")
        if scheme.lower() in _SCHEMES:
            return f"{scheme}{space}{self.hide(secret)}"
        return self.hide(value)

    def recorded(self, entry: JournalEntry | Record) -> Record:
        """Return an entry as a bundle has it; one of an earlier process as it was kept."""
        if not isinstance(entry, JournalEntry):
            return {**entry, "isListed": True, "isSentAgain": False}
        if entry.is_control and entry.why.operation == CREATE_LISTENER:
            self._note_listener(entry.response_body)
        shown, sent = self.shown(entry), self._sent(entry)
        query = f"?{self._query(entry.query, sent)}" if entry.query else ""
        return {
            **shown,
            "target": f"{self._text(entry.raw_path or entry.path, sent)}{query}",
            "receivedAt": entry.received.isoformat() if entry.received else None,
            "number": entry.number,
            "client": entry.client,
            "isListed": entry.is_listed,
            "isSentAgain": entry.is_sent_again,
        }

    def masked(self, text: str) -> str:
        """Return a text with the names of the long secrets known so far, wherever they are."""
        for secret, name in self._known.items():
            if len(secret) >= _LONG and secret in text:
                text = text.replace(secret, f"[redacted {name}]")
        return text

    def _text(self, text: str, sent: frozenset[str]) -> str:
        return self.masked(super()._text(text, sent))

    def _hide_pair(self, pair: str) -> str:
        name, is_pair, value = pair.partition("=")
        return f"{name}={self.hide(value)}" if is_pair else self.hide(pair)

    def _note_listener(self, body: Body) -> None:
        """The id of a listener depends on its token, which is random."""
        with suppress(jsonio.JsonError, LookupError, TypeError):
            listener = str(jsonio.loads(body.content)["data"]["id"])
            self.hide(listener)
            self.key_pattern = re.compile(f"{self.key_pattern.pattern}|{re.escape(listener)}")

    def _body(self, operation: str | None, body: Body, sent: frozenset[str]) -> Record:
        if body.shown is not None and body.shown["body"] is not None:
            text = self._text(body.shown["body"], sent)
            is_cut = "bodyBytes" in body.shown  # maybe in the middle of a secret
            return {**body.shown, "body": text[:-_LONGEST_SECRET] if is_cut else text}
        shown = super()._body(operation, body, sent)
        is_file = not is_json(body.media_type.partition(";")[0].strip().lower())
        if is_file and body.content and operation not in self.hidden_operations:
            return self._file(body.content) or shown
        return shown

    def _file(self, content: bytes) -> Record:
        """Return a body that is not JSON; empty if it is long, or may have a secret in it."""
        text = content.decode("latin-1")
        may_have_secrets = self.shows_secrets(text) or any(map(text.__contains__, self._known))
        if len(content) > self.most_body or may_have_secrets:
            return {}
        with suppress(UnicodeDecodeError):
            return {"body": content.decode()}
        return {"body": None, "base64": base64.b64encode(content).decode()}


def named_secrets(engine: Engine, workspace: Workspace) -> NamedSecrets:
    """Return what names the secrets of a workspace."""
    with engine.store.transaction(workspace.id) as state:
        inbox = inbox_token(state)
    credentials = engine.store.snapshot_credentials(workspace.id, BEGINNING)
    keys = frozenset(each.digest for each in credentials if each.type == "api_key")
    project = engine.project
    return NamedSecrets(
        (project.contract, project.control),
        project.conventions.key_prefix,
        keys,
        inbox,
        passwords_of(engine),
    )


def passwords_of(engine: Engine) -> dict[str, str]:
    """Return the passwords of demo users, by e-mail address."""
    users = engine.project.fixtures.get(USERS, ())
    public = {user["email"]: user["password"] for user in users if "password" in user}
    return {**public, **engine.passwords}
