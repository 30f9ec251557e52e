"""Who is calling, how often, and what for: credentials, rate limit, scope, in this order."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl

from invoice_sandbox.contract.operations import Contract, Operation
from invoice_sandbox.credentials import Presented, identify, missing_scope
from invoice_sandbox.engine import Engine
from invoice_sandbox.errors import ApiError, refuse
from invoice_sandbox.ids import seeded_request_id
from invoice_sandbox.pipeline import JSON, Exchange, Layer, Proceed, Reply
from invoice_sandbox.rate_limit import RateLimiter
from invoice_sandbox.store import Credential, Workspace

_CHALLENGE: Final = ("WWW-Authenticate", 'Bearer realm="sandbox"')


def authenticate(engine: Engine, limiter: RateLimiter | None) -> Layer:
    """Find out whose request this is; refuse it with 401 unless the operation is open to all.

    Requests are counted here, because it is the credential that has the window: its own, or that
    of the caller's address when there is no valid one. The levers are never limited.
    """

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        contract, operation = exchange.routed
        if not operation.security.alternatives:
            return await proceed(exchange)
        counted = None if contract is engine.project.levers else limiter
        secrets = _secrets(exchange, contract, operation)
        try:
            credential = await _credential(engine, secrets, operation)
        except ApiError as refusal:
            _count(counted, exchange, None)
            raise ApiError(refusal.row, refusal.values, (_CHALLENGE,)) from None
        if credential is not None:
            await _adopt(exchange, credential, engine)
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
        if credential is not None and credential.kind == "session" and guarded:
            own = {public_url, f"{exchange.scope['scheme']}://{exchange.header('host')}"}
            if exchange.header("origin") not in own:
                raise refuse("cross_origin")
            if not (exchange.header("content-type") or "").lower().startswith(JSON):
                raise refuse("not_json")
        return await proceed(exchange)

    return layer


async def check_scope(exchange: Exchange, proceed: Proceed) -> Reply:
    """Refuse with 403 a credential that lacks a scope of the operation."""
    if exchange.credential is not None:
        scope = missing_scope(exchange.credential.scopes, exchange.routed[1].security.scopes)
        if scope is not None:
            challenge = f'Bearer realm="sandbox", error="insufficient_scope", scope="{scope}"'
            raise refuse("scope_missing", ("WWW-Authenticate", challenge), scope=scope)
    return await proceed(exchange)


async def owner(engine: Engine, exchange: Exchange) -> Workspace | None:
    """The workspace of a request whose credential nobody asked for: it was refused before, or is
    open to all."""
    contract = engine.project.contract
    presented = [
        Presented("api_key", secret)
        for scheme in contract.schemes.values()
        if scheme.location in {"bearer", "header"}
        for secret in _EXTRACTORS[scheme.location](exchange, scheme.name)
    ]
    try:
        credential = await identify(engine.store, presented)
    except ApiError:
        return None
    return await _open_workspace(engine, credential) if credential else None


async def _credential(
    engine: Engine, secrets: list[Presented], operation: Operation
) -> Credential | None:
    try:
        credential = await identify(engine.store, secrets)
        if credential is not None and await _open_workspace(engine, credential) is None:
            raise refuse("bad_credential")
    except ApiError:
        if operation.security.optional:  # an old cookie must not keep anybody from logging in
            return None
        raise
    if credential is None and not operation.security.optional:
        raise refuse("no_credential")
    return credential


async def _open_workspace(engine: Engine, credential: Credential) -> Workspace | None:
    """The workspace that the credential opens, unless one of the two has come to its end."""
    workspace = await engine.store.workspace(credential.workspace_id)
    if workspace is None or await engine.workspaces.is_over(workspace):
        return None
    over = credential.expires_at
    return None if over is not None and over <= workspace.clock.now(engine.wall) else workspace


async def _adopt(exchange: Exchange, credential: Credential, engine: Engine) -> None:
    workspace = await engine.store.workspace(credential.workspace_id)
    if workspace is None:
        raise refuse("bad_credential", _CHALLENGE)
    exchange.credential = credential
    exchange.workspace = workspace
    number = await engine.store.note_request(workspace.id, engine.wall.now())
    now = workspace.clock.now(engine.wall)
    exchange.request_id = seeded_request_id(workspace.seed, number, now)


def _count(limiter: RateLimiter | None, exchange: Exchange, credential: Credential | None) -> None:
    if limiter is None:
        return
    if credential is not None:
        name, caller = "default", credential.digest
    else:
        name, caller = "anonymous", str((exchange.scope.get("client") or ("unknown",))[0])
    exchange.reply_headers += limiter.count(name, caller)


def _secrets(exchange: Exchange, contract: Contract, operation: Operation) -> list[Presented]:
    """Every credential that the request carries in a way that the operation declares.

    A browser sends its cookie with everything, so a cookie counts only when nothing else is sent.
    """
    schemes = {contract.schemes[one.scheme] for one in operation.security.alternatives}
    presented = [
        Presented("session" if scheme.location == "cookie" else "api_key", secret)
        for scheme in sorted(schemes, key=lambda one: (one.location, one.name))
        for secret in _EXTRACTORS[scheme.location](exchange, scheme.name)
    ]
    keys = [one for one in presented if one.kind == "api_key"]
    return keys or presented


def _bearer(exchange: Exchange, name: str) -> list[str]:
    found = []
    for value in exchange.header_values(name):
        scheme, _, secret = value.partition(" ")
        found.append(secret.strip() if scheme.lower() == "bearer" else "")
    return found


def _header(exchange: Exchange, name: str) -> list[str]:
    return [value.strip() for value in exchange.header_values(name)]


def _cookie(exchange: Exchange, name: str) -> list[str]:
    found = []
    for header in exchange.header_values("cookie"):
        try:
            cookies = SimpleCookie(header)
        except CookieError:
            continue
        if name in cookies:
            found.append(cookies[name].value)
    return found


def _query(exchange: Exchange, name: str) -> list[str]:
    text = exchange.scope["query_string"].decode("latin-1")
    return [value for key, value in parse_qsl(text, keep_blank_values=True) if key == name]


_EXTRACTORS: Final = {"bearer": _bearer, "header": _header, "cookie": _cookie, "query": _query}
