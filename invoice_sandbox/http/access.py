"""Who is calling, how often, and what for: credentials, rate limit, scope, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import seeded_request_id
from invoice_sandbox.http import JSON, Exchange, Layer, Proceed, Reply
from invoice_sandbox.http.guests import guest
from invoice_sandbox.http.rate_limit import RateLimiter
from invoice_sandbox.http.secrets import secrets_of
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.security import MUTUAL_TLS, Scheme, advice, challenges
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential, Workspace
from invoice_sandbox.state.credentials import Presented, identify, missing_scope


@dataclass(frozen=True)
class Door:
    """Whom the server lets in. ``alone``: it serves a document without a project, whose security
    it asks for without knowing any key; ``anyone``: then whatever is brought will do."""

    alone: bool = False
    anyone: bool = False


def authenticate(engine: Engine, limiter: RateLimiter | None, door: Door) -> Layer:
    """Find out whose request this is; reject it with 401 unless the operation is open to all.

    Requests are counted here, because it is the credential that has the window: its own, or that
    of the caller's address when there is no valid one. The levers are never limited.
    """

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        contract, operation = exchange.routed
        is_guest = door.alone and contract is engine.project.contract
        if not operation.security.requirements and not is_guest:
            return await proceed(exchange)
        counted = None if contract is engine.project.control else limiter
        try:
            if is_guest:
                credential = await _guest(engine, exchange, contract, operation, door)
            else:
                credential = await _credential(engine, exchange, contract, operation)
            if credential is not None:
                await _adopt(exchange, credential, engine)
        except ApiError as refusal:
            _count(counted, exchange, None)
            values = {**refusal.values, "ways": advice(operation.security, contract.schemes)}
            headers = challenges(operation.security, contract.schemes)
            raise ApiError(refusal.row, values, headers) from None
        if operation.security.requirements:
            _count(counted, exchange, credential)
        return await proceed(exchange)

    return layer


def guard_sessions(public_url: str) -> Layer:
    """Refuse a change that another site's page makes with the cookie of somebody's browser."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        credential = exchange.credential
        _, operation = exchange.routed
        # What anybody may do without a session is not done in its name.
        guarded = exchange.method not in {"GET", "HEAD"} and not operation.security.optional
        if credential is not None and credential.type == "session" and guarded:
            own = {public_url, f"{exchange.scope['scheme']}://{exchange.header('host')}"}
            if exchange.header("origin") not in own:
                raise reject("cross_origin")
            if not (exchange.header("content-type") or "").lower().startswith(JSON):
                raise reject("not_json")
        return await proceed(exchange)

    return layer


async def check_scope(exchange: Exchange, proceed: Proceed) -> Reply:
    """Refuse with 403 a credential that lacks a scope of the operation."""
    if exchange.credential is not None:
        scope = missing_scope(exchange.credential.scopes, exchange.routed[1].security.scopes)
        if scope is not None:
            challenge = f'Bearer realm="sandbox", error="insufficient_scope", scope="{scope}"'
            raise reject("scope_missing", ("WWW-Authenticate", challenge), scope=scope)
    return await proceed(exchange)


async def owner(engine: Engine, exchange: Exchange) -> Workspace | None:
    """The workspace of a request whose credential nobody asked for: it was refused before, or is
    open to all."""
    contract = engine.project.contract
    presented = [
        Presented("api_key", secret)
        for scheme in contract.schemes.values()
        if scheme.location in {"bearer", "basic", "header"}
        for secret in secrets_of(exchange, scheme)
    ]
    try:
        credential = await identify(engine.store, presented)
    except ApiError:
        return None
    return await _open_workspace(engine, credential) if credential else None


async def _credential(
    engine: Engine, exchange: Exchange, contract: Contract, operation: Operation
) -> Credential | None:
    security = operation.security
    carried = {
        name: [] if scheme.location == MUTUAL_TLS else _presented(exchange, scheme)
        for name, scheme in _schemes(contract, operation)
    }
    try:
        credential = await identify(engine.store, _counting(carried))
        if credential is not None and await _open_workspace(engine, credential) is None:
            raise reject("bad_credential")
    except ApiError:
        if security.optional:  # an old cookie must not keep anybody from logging in
            return None
        raise
    if security.optional or any(
        all(
            carried[one.scheme] or contract.schemes[one.scheme].location == MUTUAL_TLS
            for one in all_of
        )
        for all_of in security.requirements
    ):
        return credential
    raise reject("no_credential" if credential is None else "credential_wanted")


async def _guest(
    engine: Engine, exchange: Exchange, contract: Contract, operation: Operation, door: Door
) -> Credential | None:
    """Like ``_credential``; and who brings nothing where nothing is asked for is in the first
    workspace, so that its journal and its faults hold for a document without any security."""
    credential = await guest(engine, exchange, contract, operation, anyone=door.anyone)
    if credential is not None and await _open_workspace(engine, credential) is None:
        raise reject("bad_credential")
    if credential is None:
        exchange.workspace = await engine.default_workspace()
    return credential


async def _open_workspace(engine: Engine, credential: Credential) -> Workspace | None:
    """The workspace that the credential opens, unless one of the two has come to its end."""
    workspace = await engine.store.workspace(credential.workspace_id)
    if workspace is None or (workspace.made_by and await engine.workspaces.is_expired(workspace)):
        return None
    over = credential.expires_at
    return (
        None if over is not None and over <= workspace.clock.now(engine.system_clock) else workspace
    )


async def _adopt(exchange: Exchange, credential: Credential, engine: Engine) -> None:
    workspace = await engine.store.workspace(credential.workspace_id)
    if workspace is None:
        raise reject("bad_credential")
    exchange.credential = credential
    exchange.workspace = workspace
    number = await engine.store.note_request(workspace.id, engine.system_clock.now())
    now = workspace.clock.now(engine.system_clock)
    exchange.request_id = seeded_request_id(workspace.seed, number, now)


def _count(limiter: RateLimiter | None, exchange: Exchange, credential: Credential | None) -> None:
    if limiter is None:
        return
    if credential is not None:
        name, caller = "default", credential.digest
    else:
        name, caller = "anonymous", str((exchange.scope.get("client") or ("unknown",))[0])
    exchange.reply_headers += limiter.count(name, caller)


def _schemes(contract: Contract, operation: Operation) -> list[tuple[str, Scheme]]:
    """The schemes that the operation declares, by name, always in the same order."""
    names = {one.scheme for one in operation.security.alternatives}
    found = [(name, contract.schemes[name]) for name in names]
    return sorted(found, key=lambda one: (one[1].location, one[1].name))


def _presented(exchange: Exchange, scheme: Scheme) -> list[Presented]:
    kind: Literal["api_key", "session"] = "session" if scheme.location == "cookie" else "api_key"
    return [Presented(kind, secret) for secret in secrets_of(exchange, scheme)]


def _counting(carried: Mapping[str, list[Presented]]) -> list[Presented]:
    """The credentials that count, of those that the request carries in a declared way.

    A browser sends its cookie with everything, so a cookie counts only when nothing else is sent.
    """
    presented = [one for some in carried.values() for one in some]
    keys = [one for one in presented if one.type == "api_key"]
    return keys or presented
