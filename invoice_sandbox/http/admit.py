"""Stage 3, admit: authentication, rate limit, authorization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import key_digest, seeded_request_id
from invoice_sandbox.base.rates import RateLimiter
from invoice_sandbox.http.credentials import (
    AnyCredential,
    Caller,
    KnownKeys,
    open_workspace,
    opened,
    secrets_of,
)
from invoice_sandbox.http.pipeline import (
    Admit,
    AdmittedRequest,
    Request,
    RoutedRequest,
    client_address,
)
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.security import Scheme, advice, challenges
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential, Workspace
from invoice_sandbox.state.credentials import missing_scope

_KNOWN: Final = "default"
_FORBIDDEN: Final = "forbidden"
ANONYMOUS: Final = "anonymous"
_FAMILY: Final = "workspace"

FAMILY_LIMIT: Final = 6_000
"""Requests in a window of a workspace and those created from it, whatever keys they have: those to
the API, and changes by the control API."""

_FAMILY_KEYS: Final = 50
"""Keys of a workspace that may use up their windows, if that is more."""

_READING: Final = frozenset({"GET", "HEAD"})
_REPORTS: Final = frozenset({"reportMessageResponse"})
"""What a listener sends for each delivery to it. The deliveries have limits of their own."""


def request_limits(limit: int) -> dict[str, int]:
    """How many requests each policy allows in a window, of ``limit`` for a key."""
    limits = dict.fromkeys((_KNOWN, ANONYMOUS, _FORBIDDEN), limit)
    return {**limits, _FAMILY: max(FAMILY_LIMIT, _FAMILY_KEYS * limit)}


OnForbidden = Callable[[AdmittedRequest, ApiError], None]
Identify = Callable[[Request], Caller | None]


@dataclass(frozen=True)
class Admission:
    """Makes the admission of each operation.

    Requests are counted here, because the credential has the rate window: its own, or that of the
    caller's address when there is no valid one. A missing scope is counted for the workspace, too,
    as a workspace may have many keys. The control API is limited in what it rejects and changes.
    ``on_forbidden`` is called for every known caller that is not authorised. ``key_given``: a
    policy that accepts any credential is narrowed to the key that the server was started with.
    """

    engine: Engine
    key_given: bool
    limiter: RateLimiter | None
    on_forbidden: OnForbidden

    def compile(self, contract: Contract, operation: Operation) -> Admit:
        """What admits the requests of one operation. It raises ApiError 401, 403, 404 and 429."""
        is_control = contract is self.engine.project.control
        is_change = operation.method not in _READING and operation.id not in _REPORTS
        is_counted = is_change or not is_control
        is_open = self.engine.project.conventions_of(contract).access == "any"
        if not operation.security.requirements and not is_open:
            if operation.capability is None:
                return _admit_all
            return partial(_admit_signed, self.engine, *operation.capability)
        if is_open:
            access = AnyCredential(self.engine, contract, operation, not self.key_given)
            identified: Identify = access.identify
        else:
            identified = KnownKeys.of(self.engine, contract, operation).identify
        return _Gate(
            engine=self.engine,
            operation=operation,
            scopes=operation.security.scopes,
            identify=identified,
            default_workspace=is_open,
            limiter=None if is_control else self.limiter,
            family_limiter=self.limiter if is_counted else None,
            rejections=self.limiter,
            on_forbidden=self.on_forbidden,
            advice=advice(operation.security, contract.schemes),
            challenges=challenges(operation.security, contract.schemes),
        ).admit


def _admit_signed(
    engine: Engine, parameter: str, opened: str, routed: RoutedRequest
) -> AdmittedRequest:
    """The request, if ``parameter`` is a capability, so that nobody else can send a large body."""
    for secret in secrets_of(routed.request, Scheme("query", parameter)):
        credential = engine.store.credential(key_digest(secret))
        if credential is None or credential.type != "capability":
            continue
        if open_workspace(engine, credential) is not None:
            routed.request.trace.served_by = credential.workspace_id
            return _admit_all(routed)
    raise reject("unknown_resource", kind=opened, member="address")


def _admit_all(routed: RoutedRequest) -> AdmittedRequest:
    return AdmittedRequest(routed.request, routed.endpoint, routed.path_texts, None, None)


@dataclass(frozen=True)
class _Gate:
    """The admission to one operation.

    ``default_workspace``: a caller without credential, where none is required, gets the first
    workspace, so that its journal and faults work for a document without any security.
    """

    engine: Engine
    operation: Operation
    scopes: tuple[str, ...]
    identify: Identify
    default_workspace: bool
    limiter: RateLimiter | None
    family_limiter: RateLimiter | None
    rejections: RateLimiter | None
    on_forbidden: OnForbidden
    advice: str
    challenges: tuple[tuple[str, str], ...]

    def admit(self, routed: RoutedRequest) -> AdmittedRequest:
        """The request with its caller, if the caller may do what it asks for.

        Raises ApiError 401, 403, 429, and 503 while the store cannot keep changes.
        """
        request, engine = routed.request, self.engine
        engine.store.check()
        try:
            if request.caller is None:
                caller = self.identify(request)
            else:
                caller = opened(engine, request.caller)
        except ApiError as error:
            self._count(self.rejections, request, None)
            values = {**error.values, "ways": self.advice}
            raise ApiError(error.type, values, self.challenges) from None
        credential, workspace = caller or (None, None)
        if workspace is None and self.default_workspace:
            workspace = engine.default_workspace()
        if workspace is not None:
            self._note(request, workspace, is_known=credential is not None)
        if self.limiter is not None and self.operation.security.requirements:
            self._count(self.limiter, request, credential)
        if self.family_limiter is not None and workspace is not None:
            is_eldest = workspace.made_by is None or workspace.made_by == engine.first_workspace
            family = workspace if is_eldest else engine.workspaces.eldest(workspace)
            self.family_limiter.count(_FAMILY, family.maker or family.id, is_shown=False)
        admitted = AdmittedRequest(
            request, routed.endpoint, routed.path_texts, credential, workspace
        )
        if credential is not None:
            try:
                self._authorize(request, credential)
            except ApiError as error:
                if self.rejections is not None:
                    self.rejections.count(_FORBIDDEN, credential.workspace_id, is_shown=False)
                self.on_forbidden(admitted, error)
                raise
        return admitted

    def _note(self, request: Request, workspace: Workspace, *, is_known: bool) -> None:
        """Note the workspace of a request. That of a known caller counts it, and names it."""
        trace, clock = request.trace, self.engine.system_clock
        trace.workspace = workspace
        if is_known and not request.is_observer:
            number = trace.number = self.engine.store.note_request(workspace.id, clock.now())
            now, names = workspace.clock.now(clock), self.engine.project.conventions
            trace.drawn_id = seeded_request_id(workspace.seed, number, now, names.request_id_prefix)

    def _count(
        self, limiter: RateLimiter | None, request: Request, credential: Credential | None
    ) -> None:
        if limiter is None or request.is_observer:
            return
        if credential is not None:
            name, caller = _KNOWN, credential.digest
        else:
            name, caller = ANONYMOUS, client_address(request.scope)
        request.trace.headers += limiter.count(name, caller)

    def _authorize(self, request: Request, credential: Credential) -> None:
        """Reject a credential without the scope, and a change from another site's page (403)."""
        if credential.type == "session" and not self.operation.security.optional:
            # A public operation is not carried out in the name of the session.
            check_site(request, self.engine.url)
        scope = missing_scope(credential.scopes, self.scopes)
        if scope is not None:
            challenge = f'Bearer realm="sandbox", error="insufficient_scope", scope="{scope}"'
            raise reject("scope_missing", ("WWW-Authenticate", challenge), scope=scope)


def check_site(request: Request, public_url: str) -> None:
    """Reject a change that another site's page makes with the session cookie of a browser.

    The rules are those of ``CrossOriginProtection`` in Go's ``net/http``. Every browser sends
    ``Sec-Fetch-Site`` or, before 2023, at least ``Origin``; a request with neither is from none.
    """
    site, origin = request.header("sec-fetch-site"), request.header("origin")
    if request.method in {"GET", "HEAD"} or (origin and origin == _origin_of(public_url)):
        return
    is_same = site in {"same-origin", "none"} if site else _is_same_host(origin, request)
    if not is_same:
        raise reject("cross_origin")


def check_reader(request: Request, public_url: str) -> None:
    """Reject a request that a page of another origin makes to read a page. Links may lead here."""
    site, origin = request.header("sec-fetch-site"), request.header("origin")
    is_link = request.header("sec-fetch-mode") in {None, "navigate"}
    is_own = origin == _origin_of(public_url) or _is_same_host(origin, request)
    if not is_own or (site in {"cross-site", "same-site"} and not is_link):
        raise reject("cross_origin")


def _origin_of(url: str) -> str:
    return "{}://{}".format(*urlsplit(url)[:2])


def _is_same_host(origin: str | None, request: Request) -> bool:
    return not origin or origin.partition("://")[2] == request.header("host")
