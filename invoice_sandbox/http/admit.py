"""Admission: who calls, how often, and may they.

Requests are counted here, because the credential has the rate window: its own, or that of the
caller's address when there is no valid one, apart from those that need none, such as a login. A
missing scope is counted for the workspace, too, as a workspace may have many keys. The control API
is limited in what it rejects and changes.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import key_digest, seeded_request_id
from invoice_sandbox.http.credentials import caller_of, open_workspace, opened, secrets_of
from invoice_sandbox.http.request import Request
from invoice_sandbox.openapi.security import Scheme
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential, Workspace
from invoice_sandbox.state.credentials import missing_scope

_KNOWN: Final = "default"
_FORBIDDEN: Final = "forbidden"
ANONYMOUS: Final = "anonymous"
_PUBLIC: Final = "public"
_FAMILY: Final = "workspace"

FAMILY_LIMIT: Final = 6_000
"""Requests in a window of a workspace and those created from it, whatever keys they have: those to
the API, and changes by the control API."""

_FAMILY_KEYS: Final = 50
"""Keys of a workspace that may use up their windows, if that is more."""


def request_limits(limit: int) -> dict[str, int]:
    """Return the number of requests that each policy allows in a window: ``limit`` for a key."""
    limits = dict.fromkeys((_KNOWN, ANONYMOUS, _PUBLIC, _FORBIDDEN), limit)
    return {**limits, _FAMILY: max(FAMILY_LIMIT, _FAMILY_KEYS * limit)}


def admit(engine: Engine, request: Request) -> None:
    """Find the caller of a request and its workspace, and whether it may do what it asks for.

    A request to a public operation has neither. A caller without credential, where none is
    required, gets the first workspace, so that its journal and faults work for a document without
    any security. Raises ApiError 401, 403, 404, 429, and 503 while the store cannot keep changes.
    """
    endpoint = request.target
    gate, operation = endpoint.gate, endpoint.operation
    if gate.is_public:
        if operation.capability is not None:
            _admit_signed(engine, request, *operation.capability)
        return
    engine.store.check()
    credential, workspace = _identified(engine, request)
    if workspace is None and gate.is_open:
        workspace = engine.default_workspace()
    request.credential = credential
    if workspace is not None:
        _note(engine, request, workspace, is_known=credential is not None)
    if gate.is_counted:
        _count(engine, request, credential, _PUBLIC)
    if gate.counts_family and workspace is not None and engine.limiter is not None:
        family = _family(engine, workspace)
        engine.limiter.count(_FAMILY, family.maker or family.id, is_shown=False)
    if credential is not None:
        try:
            _authorize(engine, request, credential)
        except ApiError:
            if engine.limiter is not None:
                engine.limiter.count(_FORBIDDEN, credential.workspace_id, is_shown=False)
            raise


def _admit_signed(engine: Engine, request: Request, parameter: str, kind: str) -> None:
    """Check that ``parameter`` is a capability, so that nobody else can send a large body."""
    for secret in secrets_of(request, Scheme("query", parameter)):
        credential = engine.store.credential(key_digest(secret))
        if credential is None or credential.type != "capability":
            continue
        if open_workspace(engine, credential) is not None:
            request.served_by = credential.workspace_id
            return
    raise reject("unknown_resource", kind=kind, member="address")


def _identified(
    engine: Engine, request: Request
) -> tuple[Credential, Workspace] | tuple[None, None]:
    """Return the credential with its workspace, if there is one. Raises ApiError 401 and 429."""
    try:
        if request.caller is not None:
            return opened(engine, request.caller)
        return caller_of(engine, request) or (None, None)
    except ApiError as error:
        _count(engine, request, None, ANONYMOUS)
        gate = request.target.gate
        values = {**error.values, "ways": gate.advice}
        raise ApiError(error.type, values, gate.challenges) from None


def _note(engine: Engine, request: Request, workspace: Workspace, *, is_known: bool) -> None:
    """Note the workspace of a request. That of a known caller counts it, and names it."""
    request.workspace = workspace
    if is_known and not request.is_observer:
        names, real = engine.project.conventions, request.received
        number = request.number = engine.store.note_request(workspace.id, real)
        now = workspace.clock.instant(real)
        request.id = seeded_request_id(workspace.seed, number, now, names.request_id_prefix)


def _count(engine: Engine, request: Request, credential: Credential | None, policy: str) -> None:
    """Count a request for its credential, or by the policy for its address if it has none."""
    if engine.limiter is None or request.is_observer:
        return
    if credential is not None:
        request.headers += engine.limiter.count(_KNOWN, credential.digest)
    else:
        request.headers += engine.limiter.count(policy, request.address)


def _family(engine: Engine, workspace: Workspace) -> Workspace:
    """Return the workspace whose window a request counts in."""
    is_eldest = workspace.made_by is None or workspace.made_by == engine.first_workspace
    return workspace if is_eldest else engine.workspaces.eldest(workspace)


def _authorize(engine: Engine, request: Request, credential: Credential) -> None:
    """Reject a credential without the scope, and a change from another site's page (403)."""
    gate = request.target.gate
    if credential.type == "session" and not (gate.is_optional or request.is_allowed_page):
        # A public operation is not carried out in the name of the session.
        check_site(request, engine.url)
    scope = missing_scope(credential.scopes, gate.scopes)
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
