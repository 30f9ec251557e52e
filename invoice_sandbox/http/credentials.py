"""The caller of a request: where it carries credentials, and which of them is known.

Operations of a project take keys and sessions that were issued here. A document that is served
without a project has no keys of its own: each scheme that an operation requires must carry
something that is not empty. If that is the key of a workspace, the request belongs to that
workspace, otherwise to the first one. Where the server was given a key, one of the credentials must
be that key, or the key of another workspace.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Final, Literal
from urllib.parse import parse_qsl

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.http.request import Head, Request
from invoice_sandbox.openapi.security import BASIC, BEARER, MUTUAL_TLS, Scheme
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential, Workspace
from invoice_sandbox.state.credentials import DEMO_KEY, EVERYTHING, Presented, look_up

_AUTHORIZATION: Final = "authorization"
_SCHEMES: Final = frozenset({"", BEARER})
"""The words of an ``Authorization`` header without a credential."""

_COMMON: Final = (Scheme("bearer", "authorization"), Scheme("header", "x-api-key"))
"""The schemes that carry the key of a workspace, whatever the document declares."""


Caller = tuple[Credential, Workspace]
"""A valid credential, and its workspace."""


def caller_of(engine: Engine, request: Request) -> Caller | None:
    """Return the caller; None when the request needs and carries no credential.

    Raises ApiError 401.
    """
    if request.target.gate.is_open:
        credential = _any_credential(engine, request)
        return None if credential is None else opened(engine, credential)
    return _known_caller(engine, request)


def _known_caller(engine: Engine, request: Request) -> Caller | None:
    """Return the caller by the keys and sessions that were issued here. Raises ApiError 401."""
    gate = request.target.gate
    callers: list[Caller] = []
    errors: list[ApiError] = []
    valid: set[str] = set()
    for name, scheme in gate.schemes:
        for presented in _presented(request, scheme, has_basic=gate.has_basic):
            outcome = _outcome(engine, request, presented)
            if isinstance(outcome, ApiError):
                errors.append(outcome)
            else:
                callers.append(outcome)
                valid.add(name)
    try:
        caller = callers[0] if len(callers) == 1 else _agreed(callers, errors)
    except ApiError:
        if gate.is_optional:  # an old cookie must not prevent a login
            return None
        raise
    if gate.is_optional or any(map(valid.issuperset, gate.requirements)):
        return caller
    raise reject("no_credential" if caller is None else "credential_missing")


def _any_credential(engine: Engine, request: Request) -> Credential | None:
    """Return the credential of a caller that need not be known. Raises ApiError 401."""
    security = request.target.operation.security
    any_credential = not engine.key_given
    complete = list(_complete(request))
    if not complete and not security.optional:
        raise reject("credential_missing")
    offered = [secret for secrets in complete for secret in secrets]
    if any_credential or not security.requirements:
        offered += _in_common_places(request)
    for secret in offered:
        credential = _key_of_workspace(engine, request, secret)
        if credential is not None:
            return credential
    if not complete:
        return None
    if any_credential or not complete[0]:
        return _unknown(engine, complete[0])
    if security.optional:
        return None
    if DEMO_KEY in offered and not is_local(engine, request):
        raise _demo_key_problem(engine, request)
    raise reject("bad_credential")


def _complete(request: Request) -> Iterator[list[str]]:
    """Yield the secrets of every requirement that the request satisfies."""
    schemes = request.target.contract.schemes
    for requirement in request.target.operation.security.requirements:
        secrets = _carried(request, [schemes[alternative.scheme] for alternative in requirement])
        if secrets is not None:
            yield secrets


def _carried(request: Request, schemes: Sequence[Scheme]) -> list[str] | None:
    """Return a secret for every scheme of a requirement, or None when one is missing."""
    found = []
    for scheme in schemes:
        if scheme.location == MUTUAL_TLS:
            continue
        secrets = [secret for secret in secrets_of(request, scheme) if secret]
        if not secrets:
            return None
        found += secrets
    return found


def _unknown(engine: Engine, secrets: list[str]) -> Credential:
    """Return the credential of a caller that the first workspace admits without knowing it."""
    return Credential(
        digest=key_digest(" ".join(secrets)),
        workspace_id=engine.first_workspace,
        subject="anyone",
        scopes=frozenset({EVERYTHING}),
    )


def _key_of_workspace(engine: Engine, request: Request, secret: str) -> Credential | None:
    found = look_up(engine.store, Presented("api_key", secret))
    is_closed = secret == DEMO_KEY and not is_local(engine, request)
    return None if is_closed else found


def _in_common_places(request: Request) -> Iterator[str]:
    for scheme in _COMMON:
        yield from (secret for secret in secrets_of(request, scheme) if secret)


def _presented(request: Request, scheme: Scheme, *, has_basic: bool) -> list[Presented | str]:
    """The secrets of a request as ``scheme`` says, and the problem of one without its name.
    ``has_basic``: the operation takes Basic, too."""
    if scheme.header and scheme.header not in request.head.first:
        return []
    secrets = secrets_of(request, scheme)
    kind: Literal["api_key", "session"] = "session" if scheme.location == "cookie" else "api_key"
    found: list[Presented | str] = [Presented(kind, secret) for secret in secrets]
    if scheme.location != BEARER or all(secrets):
        return found
    problem = _problem_of_bearer(request.head, has_basic=has_basic)
    if problem is not None:
        return [*(sent for sent in found if isinstance(sent, Presented) and sent.secret), problem]
    return found


def _problem_of_bearer(head: Head, *, has_basic: bool) -> str | None:
    """Return why an ``Authorization`` header has no bearer credential; None: it has one, or that of
    Basic where the operation takes it."""
    for value in head.values(_AUTHORIZATION):
        scheme, _, secret = value.strip().partition(" ")
        if scheme.lower() == BEARER and not secret.strip():
            return "has no key after 'Bearer'"
        if scheme.lower() == BASIC:
            if not has_basic:
                return "has another scheme than 'Bearer'"
        elif scheme.lower() not in _SCHEMES:
            alone = "has a credential without 'Bearer' before it"
            return "has another scheme than 'Bearer'" if secret.strip() else alone
    return None


def _agreed(callers: Sequence[Caller], errors: Sequence[ApiError]) -> Caller | None:
    """The caller of a request, by what each of its secrets turned out to be; None without any.

    Schemes are alternatives, so an invalid secret beside a valid one is ignored. A browser sends
    its cookie with every request, so a session is used only without a valid key. Raises ApiError
    401 when no secret is valid, or when two belong to different credentials.
    """
    keys = [caller for caller in callers if caller[0].type == "api_key"] or callers
    if len({credential.digest for credential, _ in keys}) > 1:
        raise reject("credentials_disagree")
    if errors and not keys:  # the most specific one
        raise min(errors, key=lambda error: error.type.name == "bad_credential")
    return keys[0] if keys else None


def _outcome(engine: Engine, request: Request, presented: Presented | str) -> Caller | ApiError:
    """The result of the look-up of a secret."""
    if isinstance(presented, str):
        return reject("no_bearer", problem=presented)
    found = look_up(engine.store, presented)
    if found is None:
        revoked = look_up(engine.store, Presented("revoked", presented.secret))
        request.revoked_key_of = None if revoked is None else revoked.workspace_id
    if presented.secret == DEMO_KEY and not is_local(engine, request):
        return _demo_key_problem(engine, request)
    workspace = None if found is None else open_workspace(engine, found)
    if found is None or workspace is None:
        return reject("bad_credential")
    return found, workspace


def _demo_key_problem(engine: Engine, request: Request) -> ApiError:
    """Return why the demo key is not valid for this request: it is valid on this machine only."""
    header = request.head.forwarding
    where = f"in a request that was forwarded ({header})" if engine.local else _REACHABLE
    return reject("public_demo_key", where=where)


_REACHABLE: Final = "on a server that other machines can reach"


def is_local(engine: Engine, request: Request) -> bool:
    """True if the request comes from this machine: no other can reach the server, and no header
    shows that a proxy passed the request on. The edge allows only loopback names as ``Host``."""
    return engine.local and request.head.forwarding is None


def open_workspace(engine: Engine, credential: Credential) -> Workspace | None:
    """The workspace of the credential, unless one of the two has expired."""
    workspace = engine.store.workspace(credential.workspace_id)
    if workspace is None or (workspace.made_by and engine.workspaces.is_expired(workspace)):
        return None
    over = credential.expires_at
    if over is not None and over <= workspace.clock.now(engine.system_clock):
        return None
    return workspace


def opened(engine: Engine, credential: Credential) -> Caller:
    """The credential with its workspace. Raises ApiError 401 if one of the two has expired."""
    workspace = open_workspace(engine, credential)
    if workspace is None:
        raise reject("bad_credential")
    return credential, workspace


def workspace_of_caller(engine: Engine, request: Request) -> Workspace | None:
    """The workspace of a request that was rejected before, or whose operation is public."""
    try:
        outcomes = [
            _outcome(engine, request, presented)
            for scheme in engine.project.contract.schemes.values()
            if scheme.location in {"bearer", "basic", "header"}
            for presented in _presented(request, scheme, has_basic=True)
        ]
        caller = _agreed([outcome for outcome in outcomes if not isinstance(outcome, ApiError)], ())
    except ApiError:
        return None
    return None if caller is None else caller[1]


def secrets_of(request: Request, scheme: Scheme) -> list[str]:
    """The secrets that a request carries as ``scheme`` says; one may be empty.

    For Basic it is the password, or the user's name when there is no password. A client
    certificate is not among them: it is handled by the TLS layer.
    """
    if scheme.location == "query":
        return _query(request, scheme.name)
    extract = _EXTRACTORS.get(scheme.location)
    return [] if extract is None else extract(request.head, scheme.name)


def _bearer(head: Head, name: str) -> list[str]:
    found = []
    for value in head.values(name):
        scheme, _, secret = value.partition(" ")
        found.append(secret.strip() if scheme.lower() == "bearer" else "")
    return found


def _basic(head: Head, name: str) -> list[str]:
    found = []
    for value in head.values(name):
        scheme, _, encoded = value.partition(" ")
        user, _, password = _decoded(encoded.strip()).partition(":")
        found.append((password or user) if scheme.lower() == "basic" else "")
    return found


def _decoded(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


def _other(head: Head, name: str) -> list[str]:
    found = []
    for value in head.values(_AUTHORIZATION):
        scheme, _, credentials = value.partition(" ")
        found.append(credentials.strip() if scheme.lower() == name else "")
    return found


def _header(head: Head, name: str) -> list[str]:
    return [value.strip() for value in head.values(name)]


def _cookie(head: Head, name: str) -> list[str]:
    found = []
    for header in head.values("cookie"):
        try:
            cookies = SimpleCookie(header)
        except CookieError:
            continue
        if name in cookies:
            found.append(cookies[name].value)
    return found


def _query(request: Request, name: str) -> list[str]:
    text = request.scope["query_string"].decode("latin-1")
    return [value for key, value in parse_qsl(text, keep_blank_values=True) if key == name]


_EXTRACTORS: Final[Mapping[str, Callable[[Head, str], list[str]]]] = {
    "bearer": _bearer,
    "basic": _basic,
    "http": _other,
    "header": _header,
    "cookie": _cookie,
}
