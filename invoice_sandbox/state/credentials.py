"""Credentials: issue and revoke keys, sessions and capabilities; identify a caller; check scopes.

The store holds only the SHA-256 digest of a key (specification, Authentication rule 4).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.base.ids import (
    KEY_BODY_LENGTH,
    KEY_CHECKSUM_LENGTH,
    KEY_PREFIX,
    key_digest,
    new_secret,
    prefix_of_key,
    resource_id,
)
from invoice_sandbox.state import (
    USERS,
    Credential,
    Record,
    Store,
    Transaction,
    check_limit,
    count_dropped,
)

DEMO_KEY: Final = KEY_PREFIX + "DemoKeyForLocalIntegrationTest3H6UmJ"
"""Valid by default on a server that only this machine can reach, and rejected on any other."""

MAX_NAME: Final = 256
"""Characters of the name of a key."""

MAX_OPEN: Final = 10_000
"""Sessions of a workspace, and URLs of it that need no key."""

EVERYTHING: Final = "*"
CONTROL: Final = "sandbox:control"
VIEW: Final = "sandbox:read"
"""The scope of a key that may look at what the control API shows, and change nothing."""

CREATE_WORKSPACES: Final = "workspaces:create"
"""The scope of a key that creates workspaces, and lists and deletes those that it created."""

DISABLED_USER: Final = "Disabled"
"""The ``status`` of a user who may not log in."""

MAX_LISTED: Final = 1000
"""Sessions of a list."""

SESSIONS: Final = "ses_sandbox"
"""The beginning of ids of sessions."""

KEYS: Final = "api_keys"
MAX_KEYS: Final = 1_000
"""Keys of a workspace, revoked ones included."""

"""The collection of key metadata."""


def allows(held: Collection[str], wanted: str) -> bool:
    """True if ``held`` scopes cover ``wanted``: ``x:write`` covers ``x:read``, ``*`` everything.

    The control API includes the creation of workspaces, and looking.
    """
    if wanted in {CREATE_WORKSPACES, VIEW} and CONTROL in held:
        return True
    resource, _, level = wanted.partition(":")
    return wanted in held or EVERYTHING in held or (level == "read" and f"{resource}:write" in held)


def missing_scope(held: Collection[str], wanted: Iterable[str]) -> str | None:
    """The first of ``wanted`` that ``held`` does not cover, or None."""
    if EVERYTHING in held:
        return None
    return next((scope for scope in wanted if not allows(held, scope)), None)


class Presented(NamedTuple):
    """A secret of a request: a key from a header, or a session from a cookie."""

    type: Literal["api_key", "session", "revoked"]
    secret: str

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Presented({self.type})"


def look_up(store: Store, presented: Presented) -> Credential | None:
    """The credential that a secret belongs to, or None when it is unknown."""
    digest = key_digest(presented.secret)
    credential = store.credential(digest)
    if (
        credential is None
        or credential.type != presented.type
        or not hmac.compare_digest(credential.digest, digest)
    ):
        return None
    return credential


def issue_key(
    state: Transaction,
    *,
    workspace_id: str,
    key_id: str,
    key: str,
    name: str,
    scopes: Sequence[str],
    created_at: str,
    expires_at: str | None = None,
    maker: str | None = None,
) -> Record:
    """Store the metadata of ``key``, make it valid from the commit on, and return the metadata.

    ``maker`` is the id of the key or the user that makes it: it is revoked with a user.
    The metadata never contains the key or its digest, only its last four characters; its name is
    cut to MAX_NAME characters and shows no other key. Raises ApiError 429 beyond MAX_KEYS.
    """
    metadata: Record = {
        "id": key_id,
        "name": _short(name, prefix_of_key(key)),
        "scopes": list(scopes),
        "prefix": prefix_of_key(key),
        "last4": key[-4:],
        "status": "Active",
        "createdAt": created_at,
        "expiresAt": expires_at,
        "lastUsedAt": None,
    }
    check_limit("API keys", MAX_KEYS, state.count(KEYS))
    state.put(KEYS, key_id, metadata)
    state.put(_DIGESTS, key_id, {"id": key_id, "digest": key_digest(key), "maker": maker})
    expires = parse_instant(expires_at) if expires_at else None
    state.grant(Credential(key_digest(key), workspace_id, key_id, frozenset(scopes), expires))
    return metadata


def _short(name: Any, prefix: str) -> Any:
    """A name without what looks like a key, and not longer than MAX_NAME characters.

    A client may send a name that is no text.
    """
    if not isinstance(name, str):
        return name
    shown = name[: MAX_NAME + len(prefix) + KEY_BODY_LENGTH + KEY_CHECKSUM_LENGTH]
    for begin in {prefix, KEY_PREFIX}:
        shown = re.sub(f"(?i:{re.escape(begin)})[0-9A-Za-z]+", "[redacted]", shown)
    return shown[:MAX_NAME]


def open_session(
    state: Transaction,
    *,
    workspace_id: str,
    subject: str,
    scopes: Sequence[str],
    expires_at: datetime,
) -> str:
    """Open a session until ``expires_at`` and return its id, which is a secret."""
    secret = new_secret()
    _drop_oldest(state, "session", "sessions")
    token, number = state.workspace().token, state.next_number(SESSIONS)
    session_id = resource_id(SESSIONS, token, number)
    digest, allowed = key_digest(secret), frozenset(scopes)
    state.grant(
        Credential(digest, workspace_id, subject, allowed, expires_at, "session", session_id)
    )
    return secret


def open_sessions(state: Transaction, now: datetime) -> list[Credential]:
    """The sessions that have not ended, those that end last first."""
    found = [
        (credential.expires_at, credential.id, credential)
        for credential in state.credentials()
        if credential.type == "session"
        and credential.expires_at is not None
        and credential.expires_at > now
    ]
    return [one for *_, one in sorted(found, key=lambda row: row[:2], reverse=True)]


def is_disabled(user: Record) -> bool:
    """True if a user may not log in."""
    return user.get("status") == DISABLED_USER


def end_access_of_disabled(state: Transaction, ended_at: str) -> None:
    """End the access of all disabled users again: a snapshot may have brought back their keys."""
    for user in state.page(USERS).records:
        if is_disabled(user):
            end_access(state, user["id"], ended_at)


def end_access(state: Transaction, user_id: str, ended_at: str) -> None:
    """Close the sessions of a user, and revoke the keys that were made in them or with these."""
    for credential in state.credentials():
        if credential.subject == user_id:
            state.revoke(credential.digest)
    made, makers = state.page(_DIGESTS).records, [user_id]
    for maker in makers:
        for key_id in [key["id"] for key in made if key.get("maker") == maker]:
            makers.append(key_id)
            metadata = state.get(KEYS, key_id)
            if metadata is not None and metadata["status"] == "Active":
                revoke_key(state, metadata, ended_at)


def _drop_oldest(state: Transaction, kind: str, name: str) -> None:
    """Revoke and count the sessions, or the URLs, that end first and are too many with one more."""
    ending = {
        credential.digest: credential.expires_at
        for credential in state.credentials()
        if credential.type == kind and credential.expires_at is not None
    }
    for digest in sorted(ending, key=ending.__getitem__)[: max(0, len(ending) - MAX_OPEN + 1)]:
        state.revoke(digest)
        count_dropped(state, name)


def close_session(state: Transaction, session: Credential) -> None:
    """Close a session."""
    state.revoke(session.digest)


def open_capability(
    state: Transaction, *, workspace_id: str, subject: str, secret: str, expires_at: datetime
) -> None:
    """Give access to ``subject`` without a key, by a URL that contains ``secret``."""
    _drop_oldest(state, "capability", "capabilities")
    state.grant(
        Credential(key_digest(secret), workspace_id, subject, frozenset(), expires_at, "capability")
    )


def close_capability(state: Transaction, secret: str) -> None:
    """Withdraw the access that a URL with ``secret`` gave."""
    state.revoke(key_digest(secret))


def note_use(state: Transaction, credential: Credential, now: datetime) -> None:
    """Store the second in which a key was last used."""
    metadata = state.get(KEYS, credential.subject)
    used = instant_text(now.replace(microsecond=0))
    if metadata is not None and metadata["lastUsedAt"] != used:
        state.put(KEYS, credential.subject, {**metadata, "lastUsedAt": used})


def revoke_key(state: Transaction, metadata: Record, revoked_at: str) -> Record:
    """Mark a key as revoked. It is invalid from the next request on."""
    revoked = {**metadata, "status": "Revoked", "revokedAt": revoked_at}
    state.put(KEYS, metadata["id"], revoked)
    digest = state.get(_DIGESTS, metadata["id"])
    if digest is not None:
        workspace = state.workspace()
        left = Credential(
            digest["digest"], workspace.id, metadata["id"], frozenset(), None, "revoked"
        )
        state.grant(left)
    return revoked


_DIGESTS: Final = "api_key_digests"
