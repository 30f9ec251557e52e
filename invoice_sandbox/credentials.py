"""API keys: how they are issued and revoked, whose a credential is, and what its scopes allow.

Only the SHA-256 digest of a key is kept (specification, Authentication rule 4).
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from invoice_sandbox.clock import parse_instant
from invoice_sandbox.errors import refuse
from invoice_sandbox.ids import KEY_PREFIX, key_digest
from invoice_sandbox.store import Credential, Record, Store, Transaction

DEMO_KEY: Final = "ilk_sandbox_DemoKeyForLocalIntegrationTest3H6UmJ"
"""Works out of the box on a loopback address, and is refused on any other."""

EVERYTHING: Final = "*"
KEYS: Final = "api_keys"
"""The kind under which key metadata is stored."""


def allows(held: Collection[str], wanted: str) -> bool:
    """Whether ``held`` scopes cover ``wanted``: ``x:write`` covers ``x:read``, ``*`` everything."""
    resource, _, level = wanted.partition(":")
    return wanted in held or EVERYTHING in held or (level == "read" and f"{resource}:write" in held)


def missing_scope(held: Collection[str], wanted: Iterable[str]) -> str | None:
    """The first of ``wanted`` that ``held`` does not cover, or None."""
    return next((scope for scope in wanted if not allows(held, scope)), None)


async def identify(store: Store, secrets: Sequence[str]) -> Credential | None:
    """The one credential that all ``secrets`` of a request stand for; None when none was sent.

    Raises ApiError 401 when one is unknown, or when two stand for different credentials.
    """
    found = [await _look_up(store, secret) for secret in secrets]
    if len({credential.digest for credential in found}) > 1:
        raise refuse("credentials_disagree")
    return found[0] if found else None


async def _look_up(store: Store, secret: str) -> Credential:
    digest = key_digest(secret)
    credential = await store.credential(digest)
    if credential is None or not hmac.compare_digest(credential.digest, digest):
        raise refuse("bad_credential")
    return credential


async def issue_key(
    state: Transaction,
    *,
    workspace_id: str,
    key_id: str,
    key: str,
    name: str,
    scopes: Sequence[str],
    created_at: str,
    expires_at: str | None = None,
) -> Record:
    """Store the metadata of ``key``, let it in from the commit on, and answer the metadata.

    The metadata never holds the key or its digest, only its last four characters.
    """
    metadata: Record = {
        "id": key_id,
        "name": name,
        "scopes": list(scopes),
        "prefix": KEY_PREFIX,
        "last4": key[-4:],
        "status": "Active",
        "createdAt": created_at,
        "expiresAt": expires_at,
        "lastUsedAt": None,
    }
    await state.put(KEYS, key_id, metadata)
    await state.put(_DIGESTS, key_id, {"digest": key_digest(key)})
    expires = parse_instant(expires_at) if expires_at else None
    await state.grant(Credential(key_digest(key), workspace_id, key_id, frozenset(scopes), expires))
    return metadata


async def revoke_key(state: Transaction, metadata: Record, revoked_at: str) -> Record:
    """Mark a key as revoked; it opens nothing from the next request on."""
    revoked = {**metadata, "status": "Revoked", "revokedAt": revoked_at}
    await state.put(KEYS, metadata["id"], revoked)
    digest = await state.get(_DIGESTS, metadata["id"])
    if digest is not None:
        await state.revoke(digest["digest"])
    return revoked


_DIGESTS: Final = "api_key_digests"
