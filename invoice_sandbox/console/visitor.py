"""The visitor of the console: the keys and sessions in a cookie, of which one is in use.

Without one, the demo key opens the console where it is valid, and else a session of the API.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, cast

from invoice_sandbox.base import jsonio
from invoice_sandbox.http.credentials import secrets_of
from invoice_sandbox.http.request import Request
from invoice_sandbox.openapi.security import Scheme
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential
from invoice_sandbox.state.credentials import CONTROL, Presented, allows, look_up

COOKIE: Final = "ils_console"
"""The cookie with what a visitor signed in with."""

MOST: Final = 8
"""Keys and sessions that a visitor may hold; the oldest is dropped first."""

_SHOWN: Final = 4
_LONGEST_SECRET: Final = 512
_SHORTEST: Final = 12

Type = Literal["key", "session", "demo", "nobody"]


@dataclass(frozen=True)
class Identity:
    """A key or a session, and the workspace that it opens; None: it opens none."""

    type: Type
    secret: str
    workspace: str | None = None
    credential: Credential | None = None

    @property
    def shown(self) -> str:
        """The text for it on a page."""
        if self.type == "demo":
            return "demo key"
        if self.type == "session":
            return f"session of {self.credential.subject}" if self.credential else "ended session"
        last = self.secret[-_SHOWN:] if len(self.secret) >= _SHORTEST else ""
        return f"key …{last}"

    @property
    def may_act(self) -> bool:
        """True if it may use the control API, not only look."""
        return self.credential is not None and allows(self.credential.scopes, CONTROL)

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Identity({self.type}, {self.workspace})"


NOBODY: Final = Identity("nobody", "")


@dataclass(frozen=True)
class Visitor:
    """The identity in use, and all that are in the cookie."""

    current: Identity
    held: tuple[Identity, ...] = ()


def visitor_of(engine: Engine, request: Request, demo_key: str | None) -> Visitor:
    """The visitor who sent a request; ``demo_key`` is valid for it, if there is one."""
    held = tuple([_known(engine, identity) for identity in _held(request)])
    for identity in (*held, *_others(engine, request, demo_key)):
        return Visitor(_known(engine, identity), held)
    return Visitor(NOBODY)


def _others(engine: Engine, request: Request, demo_key: str | None) -> Iterator[Identity]:
    if demo_key:
        yield Identity("demo", demo_key)
    name = session_cookie(engine)
    if name is not None:
        yield from (Identity("session", secret) for secret in _cookies(request, name))


def session_cookie(engine: Engine) -> str | None:
    """The name of the cookie of the API's sessions, if it has sessions."""
    schemes = engine.project.contract.schemes.values()
    return next((scheme.name for scheme in schemes if scheme.location == "cookie"), None)


def _held(request: Request) -> Iterator[Identity]:
    for text in _cookies(request, COOKIE)[:1]:
        for type_, secret in pairs_of(text)[:MOST]:
            if type_ in {"key", "session"} and is_secret(secret):
                yield Identity(cast("Type", type_), secret)


def _cookies(request: Request, name: str) -> list[str]:
    return [secret for secret in secrets_of(request, Scheme("cookie", name)) if secret]


def _known(engine: Engine, identity: Identity) -> Identity:
    kind: Literal["session", "api_key"] = "session" if identity.type == "session" else "api_key"
    credential = look_up(engine.store, Presented(kind, identity.secret))
    if credential is None:
        return identity
    return replace(identity, workspace=credential.workspace_id, credential=credential)


def cookie_text(held: Sequence[Identity]) -> str:
    """The value of the cookie, the identity in use first."""
    return cookie_of([(identity.type, identity.secret) for identity in held[:MOST]])


def is_secret(text: str) -> bool:
    """True if a text may be a key or the secret of a session: visible ASCII, not too long."""
    return text.isascii() and text.isprintable() and 0 < len(text) <= _LONGEST_SECRET


def cookie_of(pairs: Sequence[tuple[str, str]]) -> str:
    """The value of a cookie of the console that holds pairs of texts."""
    return base64.urlsafe_b64encode(jsonio.dumps(pairs)).decode().rstrip("=")


def pairs_of(cookie: str) -> list[tuple[str, str]]:
    """The pairs of texts that a cookie of the console holds; none if the console did not make it.

    Any program on another port of the host may have set it.
    """
    try:
        value = jsonio.loads(
            base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4)), jsonio.MAX_SENT_DEPTH
        )
    except ValueError:
        return []
    return [
        (pair[0], pair[1])
        for pair in (value if isinstance(value, list) else ())
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
    ]
