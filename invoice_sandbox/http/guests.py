"""Who is calling a document that is served alone: its security is asked for, but no key is known.

Each scheme that an operation requires must bring something that is not empty. If that is the key
of a workspace, the request is that workspace's, else the first one's. Where the server was given a
key, one of the credentials must be that key, or another workspace's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from invoice_sandbox.base.errors import reject
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.http import Exchange
from invoice_sandbox.http.secrets import secrets_of
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.security import MUTUAL_TLS, Alternative, Scheme
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential
from invoice_sandbox.state.credentials import EVERYTHING

_USUAL: Final = (Scheme("bearer", "authorization"), Scheme("header", "x-api-key"))
"""Where the key of a workspace may stand, whatever the document says."""


async def guest(
    engine: Engine, exchange: Exchange, contract: Contract, operation: Operation, *, anyone: bool
) -> Credential | None:
    """The credential that the request stands for; None when it needs and brings none.

    ``anyone``: whatever is brought will do. Raises ApiError 401.
    """
    complete = [
        secrets
        for requirement in operation.security.requirements
        if (secrets := _brought(exchange, contract, requirement)) is not None
    ]
    if not complete and not operation.security.optional:
        raise reject("credential_wanted")
    may_stand_anywhere = anyone or not operation.security.requirements
    offered = [one for secrets in complete for one in secrets]
    for secret in (*offered, *(_anyway(exchange) if may_stand_anywhere else ())):
        credential = await _key_of_workspace(engine, secret)
        if credential is not None:
            return credential
    if not complete:
        return None
    if anyone or not complete[0]:
        return Credential(
            digest=key_digest(" ".join(complete[0])),
            workspace_id=engine.first_workspace,
            subject="anyone",
            scopes=frozenset({EVERYTHING}),
        )
    if operation.security.optional:
        return None
    raise reject("bad_credential")


def _brought(
    exchange: Exchange, contract: Contract, requirement: tuple[Alternative, ...]
) -> list[str] | None:
    """A secret for every scheme of the requirement, or None when one is missing."""
    found = []
    for one in requirement:
        scheme = contract.schemes[one.scheme]
        if scheme.location == MUTUAL_TLS:
            continue
        secrets = [secret for secret in secrets_of(exchange, scheme) if secret]
        if not secrets:
            return None
        found += secrets
    return found


def _anyway(exchange: Exchange) -> Iterator[str]:
    for scheme in _USUAL:
        yield from (secret for secret in secrets_of(exchange, scheme) if secret)


async def _key_of_workspace(engine: Engine, secret: str) -> Credential | None:
    found = await engine.store.credential(key_digest(secret))
    return found if found is not None and found.type == "api_key" else None
