"""Sandbox API keys: metadata, creation with chosen scopes, revocation."""

from __future__ import annotations

from invoice_sandbox.project.api import KEYS, Call, Record, Response, issue_key, new_key

from ..domain.audit import audit
from ..domain.credentials import granted_scopes, load_key, revoke


def list_api_keys(call: Call) -> Response:
    """Return the metadata of all keys, newest first; never a secret or its digest."""
    return call.page(KEYS)


def create_api_key(call: Call) -> Record:
    """Create a key with the requested scopes. Its secret is shown only here.

    Raises ApiError 403 for a scope that the caller does not have.
    """
    scopes = granted_scopes(call)
    secret = new_key(call.conventions.key_prefix)
    metadata = issue_key(
        call.state,
        workspace_id=call.workspace.id,
        key_id=call.new_id("key_sandbox"),
        key=secret,
        name=call.body.get("name", "Unnamed key"),
        scopes=scopes,
        created_at=call.timestamp,
        expires_at=call.body.get("expiresAt"),
        maker=call.caller.subject if call.caller else None,
    )
    audit(call, "api_key.created", ("api_key", metadata["id"]), scopes=metadata["scopes"])
    return {**metadata, "secret": secret, "secretShownOnce": True}


def revoke_api_key(call: Call) -> Record:
    """Revoke a key from the next request on; revoking it again changes nothing. 404, 409."""
    metadata = load_key(call, call.query["id"])
    if metadata["status"] != "Revoked":
        metadata = revoke(call, metadata)
    return {name: metadata[name] for name in ("id", "status", "revokedAt")}
