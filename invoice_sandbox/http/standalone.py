"""Access to a document that is served without a project: no key is known, only those of workspaces.

Each scheme that an operation requires must carry something that is not empty. If that is the key
of a workspace, the request belongs to that workspace, otherwise to the first one. Where the server
was given a key, one of the credentials must be that key, or the key of another workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from invoice_sandbox.base.errors import reject
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.http.credentials import secrets_of
from invoice_sandbox.http.pipeline import Request
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.security import MUTUAL_TLS, Alternative, Scheme
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential
from invoice_sandbox.state.credentials import EVERYTHING

_COMMON: Final = (Scheme("bearer", "authorization"), Scheme("header", "x-api-key"))
"""Where the key of a workspace may stand, whatever the document declares."""


@dataclass(frozen=True)
class StandaloneAccess:
    """How callers of one operation are identified. ``any_credential``: it need not be known."""

    engine: Engine
    contract: Contract
    operation: Operation
    any_credential: bool

    async def identify(self, request: Request) -> Credential | None:
        """The credential of the request; None when it needs and carries none.

        Raises ApiError 401.
        """
        security = self.operation.security
        complete = list(self._complete(request))
        if not complete and not security.optional:
            raise reject("credential_wanted")
        offered = [one for secrets in complete for one in secrets]
        if self.any_credential or not security.requirements:
            offered += _in_common_places(request)
        for secret in offered:
            credential = await self._key_of_workspace(secret)
            if credential is not None:
                return credential
        if not complete:
            return None
        if self.any_credential or not complete[0]:
            return self._unknown(complete[0])
        if security.optional:
            return None
        raise reject("bad_credential")

    def _complete(self, request: Request) -> Iterator[list[str]]:
        """The secrets of every requirement that the request satisfies."""
        for requirement in self.operation.security.requirements:
            secrets = self._carried(request, requirement)
            if secrets is not None:
                yield secrets

    def _carried(self, request: Request, requirement: tuple[Alternative, ...]) -> list[str] | None:
        """A secret for every scheme of the requirement, or None when one is missing."""
        found = []
        for one in requirement:
            scheme = self.contract.schemes[one.scheme]
            if scheme.location == MUTUAL_TLS:
                continue
            secrets = [secret for secret in secrets_of(request, scheme) if secret]
            if not secrets:
                return None
            found += secrets
        return found

    def _unknown(self, secrets: list[str]) -> Credential:
        """The credential of a caller that the first workspace admits without knowing it."""
        return Credential(
            digest=key_digest(" ".join(secrets)),
            workspace_id=self.engine.first_workspace,
            subject="anyone",
            scopes=frozenset({EVERYTHING}),
        )

    async def _key_of_workspace(self, secret: str) -> Credential | None:
        found = await self.engine.store.credential(key_digest(secret))
        return found if found is not None and found.type == "api_key" else None


def _in_common_places(request: Request) -> Iterator[str]:
    for scheme in _COMMON:
        yield from (secret for secret in secrets_of(request, scheme) if secret)
