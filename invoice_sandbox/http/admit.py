"""Stage 3, admit: who is calling, how often, and what for: credential, rate limit, scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import seeded_request_id
from invoice_sandbox.http.credentials import secrets_of
from invoice_sandbox.http.pipeline import JSON, Admit, AdmittedRequest, Request, RoutedRequest
from invoice_sandbox.http.rate_limit import RateLimiter
from invoice_sandbox.http.standalone import StandaloneAccess
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.security import MUTUAL_TLS, Scheme, advice, challenges
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential, Workspace
from invoice_sandbox.state.credentials import Presented, identify, missing_scope

OnForbidden = Callable[[AdmittedRequest, ApiError], Awaitable[None]]
Identify = Callable[[Request], Awaitable[Credential | None]]


@dataclass(frozen=True)
class AccessPolicy:
    """Whom the operations of the project's contract admit: who holds a key that is known.

    ``standalone``: the contract is served without a project, so its security is required without
    knowing any key; ``any_credential``: then every credential is as good as a known one.
    """

    standalone: bool = False
    any_credential: bool = False


@dataclass(frozen=True)
class Admission:
    """Makes the admission of each operation.

    Requests are counted here, because the credential has the rate window: its own, or that of the
    caller's address when there is no valid one. The control API is never limited.
    ``on_forbidden`` learns of every known caller that is not authorised.
    """

    engine: Engine
    policy: AccessPolicy
    limiter: RateLimiter | None
    on_forbidden: OnForbidden

    def compile(self, contract: Contract, operation: Operation) -> Admit:
        """What admits the requests of one operation. It raises ApiError 401, 403 and 429."""
        is_control = contract is self.engine.project.control
        is_standalone = self.policy.standalone and not is_control
        if not operation.security.requirements and not is_standalone:
            return _admit_all
        if is_standalone:
            access = StandaloneAccess(self.engine, contract, operation, self.policy.any_credential)
            identified: Identify = access.identify
        else:
            identified = KnownKeys(self.engine, operation, _schemes(contract, operation)).identify
        return _Gate(
            engine=self.engine,
            operation=operation,
            identify=identified,
            default_workspace=is_standalone,
            limiter=None if is_control else self.limiter,
            on_forbidden=self.on_forbidden,
            advice=advice(operation.security, contract.schemes),
            challenges=challenges(operation.security, contract.schemes),
        ).admit


async def _admit_all(routed: RoutedRequest) -> AdmittedRequest:
    return _admitted(routed, None, None)


def _admitted(
    routed: RoutedRequest, credential: Credential | None, workspace: Workspace | None
) -> AdmittedRequest:
    return AdmittedRequest(
        routed.request, routed.endpoint, routed.path_texts, routed.content, credential, workspace
    )


@dataclass(frozen=True)
class _Gate:
    """The admission to one operation.

    ``default_workspace``: a caller without credential, where none is required, gets the first
    workspace, so that its journal and faults work for a document without any security.
    """

    engine: Engine
    operation: Operation
    identify: Identify
    default_workspace: bool
    limiter: RateLimiter | None
    on_forbidden: OnForbidden
    advice: str
    challenges: tuple[tuple[str, str], ...]

    async def admit(self, routed: RoutedRequest) -> AdmittedRequest:
        """The request with its caller, if the caller may do what it asks for."""
        request = routed.request
        try:
            admitted = await self._identified(routed)
        except ApiError as error:
            self._count(request, None)
            values = {**error.values, "ways": self.advice}
            raise ApiError(error.row, values, self.challenges) from None
        if self.operation.security.requirements:
            self._count(request, admitted.credential)
        if admitted.credential is not None:
            try:
                self._authorize(request, admitted.credential)
            except ApiError as error:
                await self.on_forbidden(admitted, error)
                raise
        return admitted

    async def _identified(self, routed: RoutedRequest) -> AdmittedRequest:
        """The request with its caller. Raises ApiError 401."""
        trace, clock = routed.request.trace, self.engine.system_clock
        credential = await self.identify(routed.request)
        if credential is None:
            trace.workspace = (
                await self.engine.default_workspace() if self.default_workspace else None
            )
            return _admitted(routed, None, trace.workspace)
        workspace = await open_workspace(self.engine, credential)
        if workspace is None:
            raise reject("bad_credential")
        trace.workspace = workspace
        number = await self.engine.store.note_request(workspace.id, clock.now())
        trace.request_id = seeded_request_id(workspace.seed, number, workspace.clock.now(clock))
        return _admitted(routed, credential, workspace)

    def _count(self, request: Request, credential: Credential | None) -> None:
        if self.limiter is None:
            return
        if credential is not None:
            name, caller = "default", credential.digest
        else:
            name, caller = "anonymous", str((request.scope.get("client") or ("unknown",))[0])
        request.trace.headers += self.limiter.count(name, caller)

    def _authorize(self, request: Request, credential: Credential) -> None:
        """Reject with 403 a credential that lacks a scope, and what another site's page changes."""
        security = self.operation.security
        if credential.type == "session" and not security.optional:
            # What anybody may do without a session is not done in its name.
            _check_origin(request, self.engine.url)
        scope = missing_scope(credential.scopes, security.scopes)
        if scope is not None:
            challenge = f'Bearer realm="sandbox", error="insufficient_scope", scope="{scope}"'
            raise reject("scope_missing", ("WWW-Authenticate", challenge), scope=scope)


def _check_origin(request: Request, public_url: str) -> None:
    """Reject a change that another site's page makes with the cookie of somebody's browser."""
    if request.method in {"GET", "HEAD"}:
        return
    own = {public_url, f"{request.scope['scheme']}://{request.header('host')}"}
    if request.header("origin") not in own:
        raise reject("cross_origin")
    if not (request.header("content-type") or "").lower().startswith(JSON):
        raise reject("not_json")


@dataclass(frozen=True)
class KnownKeys:
    """How callers of one operation are identified: by keys and sessions that were issued here.

    ``schemes`` are those that the operation declares, by name, always in the same order.
    """

    engine: Engine
    operation: Operation
    schemes: Sequence[tuple[str, Scheme]]

    async def identify(self, request: Request) -> Credential | None:
        """The credential of the request; None when it needs and carries none.

        Raises ApiError 401.
        """
        security = self.operation.security
        carried = {name: _presented(request, scheme) for name, scheme in self.schemes}
        if security.optional:
            return await self._if_valid(carried)
        credential = await identify(self.engine.store, _that_count(carried))
        if any(
            all(carried.get(one.scheme, _BY_TLS) for one in requirement)
            for requirement in security.requirements
        ):
            return credential
        raise reject("no_credential" if credential is None else "credential_wanted")

    async def _if_valid(self, carried: Mapping[str, list[Presented]]) -> Credential | None:
        """The credential, if it is valid: an old cookie must not keep anybody from logging in."""
        try:
            credential = await identify(self.engine.store, _that_count(carried))
        except ApiError:
            return None
        if credential is None or await open_workspace(self.engine, credential) is None:
            return None
        return credential


_BY_TLS: Final = ("client certificate",)


def _schemes(contract: Contract, operation: Operation) -> list[tuple[str, Scheme]]:
    names = {one.scheme for one in operation.security.alternatives}
    found = [(name, contract.schemes[name]) for name in names]
    found = [one for one in found if one[1].location != MUTUAL_TLS]
    return sorted(found, key=lambda one: (one[1].location, one[1].name))


def _presented(request: Request, scheme: Scheme) -> list[Presented]:
    kind: Literal["api_key", "session"] = "session" if scheme.location == "cookie" else "api_key"
    return [Presented(kind, secret) for secret in secrets_of(request, scheme)]


def _that_count(carried: Mapping[str, list[Presented]]) -> list[Presented]:
    """The credentials that count, of those that the request carries in a declared way.

    A browser sends its cookie with everything, so a cookie counts only when nothing else is sent.
    """
    presented = [one for some in carried.values() for one in some]
    keys = [one for one in presented if one.type == "api_key"]
    return keys or presented


async def open_workspace(engine: Engine, credential: Credential) -> Workspace | None:
    """The workspace of the credential, unless one of the two has expired."""
    workspace = await engine.store.workspace(credential.workspace_id)
    if workspace is None or (workspace.made_by and await engine.workspaces.is_expired(workspace)):
        return None
    over = credential.expires_at
    if over is not None and over <= workspace.clock.now(engine.system_clock):
        return None
    return workspace


async def workspace_of_caller(engine: Engine, request: Request) -> Workspace | None:
    """The workspace of a request whose credential was not asked for: it was rejected before, or
    its operation is public."""
    presented = [
        Presented("api_key", secret)
        for scheme in engine.project.contract.schemes.values()
        if scheme.location in {"bearer", "basic", "header"}
        for secret in secrets_of(request, scheme)
    ]
    try:
        credential = await identify(engine.store, presented)
    except ApiError:
        return None
    return await open_workspace(engine, credential) if credential else None
