"""Sandbox API keys: metadata, creation with chosen scopes, revocation."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import (
    KEYS,
    Call,
    Record,
    Response,
    allows,
    issue_key,
    missing_scope,
    new_key,
    reject,
    revoke_key,
)

from ..domain.audit import audit

_DEFAULT_SCOPES: Final = (
    "invoices:write",
    "registry:fingerprint",
    "verification:run",
    "financing:write",
    "offers:write",
    "partners:read",
    "partners:route",
    "audit:read",
    "webhooks:write",
    "webhooks:test",
    "connectors:write",
    "assignment:read",
    "keys:read",
)
"""Everything but managing keys and the sandbox itself: for a client that cannot name scopes."""


async def list_api_keys(call: Call) -> Response:
    """Key metadata, newest first; never a secret or its digest."""
    return await call.page(KEYS)


async def create_api_key(call: Call) -> Record:
    """A key with the scopes asked for, of those the caller holds; its secret is shown only here."""
    held = call.caller.scopes if call.caller else frozenset()
    scopes = call.body.get("scopes")
    if scopes is None:
        scopes = [scope for scope in _DEFAULT_SCOPES if allows(held, scope)]
    lacking = missing_scope(held, scopes)
    if lacking is not None:
        raise reject("scope_not_grantable", scope=lacking)
    secret = new_key()
    metadata = await issue_key(
        call.state,
        workspace_id=call.workspace.id,
        key_id=await call.new_id("key_sandbox"),
        key=secret,
        name=call.body.get("name", "Unnamed key"),
        scopes=list(dict.fromkeys(scopes)),
        created_at=call.timestamp,
        expires_at=call.body.get("expiresAt"),
    )
    await audit(call, "api_key.created", ("api_key", metadata["id"]), scopes=metadata["scopes"])
    return {**metadata, "secret": secret, "secretShownOnce": True}


async def revoke_api_key(call: Call) -> Record:
    """Revoke a key from the next request on; revoking it again changes nothing."""
    metadata = await call.state.get(KEYS, call.query["id"])
    if metadata is None:
        raise reject("unknown_resource", kind="API key", member="id")
    if call.caller is not None and metadata["id"] == call.caller.subject:
        raise reject(
            "conflict",
            problem="A key cannot revoke itself",
            advice="Use another key of the same workspace.",
        )
    if metadata["status"] != "Revoked":
        metadata = await revoke_key(call.state, metadata, call.timestamp)
        await audit(call, "api_key.revoked", ("api_key", metadata["id"]))
    return {name: metadata[name] for name in ("id", "status", "revokedAt")}
