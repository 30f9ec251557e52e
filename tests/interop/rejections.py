"""A request for every rejection that the API declares.

The first half are requests that the contract allows, and that are rejected for what they ask; a
validating proxy lets them through. The second half breaks the contract.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.interop.checks import bearer, new_key, workspace
from tests.interop.typed import Operation, Response
from tests.scenario_run import INVOICE

Declared = Mapping[Operation, set[int]]
"""The statuses that each operation declares."""

_BODY_LIMIT: Final = 256 * 1024
_JSON: Final = {"Content-Type": "application/json"}
_HEALTH: Final = ("GET", "/api/health")
_LOGIN: Final = ("POST", "/api/auth/login")
_LOGOUT: Final = ("POST", "/api/auth/logout")
_REVOKE: Final = ("DELETE", "/api/developer/api-keys")
_AUDIT: Final = ("GET", "/api/audit-log")
_UNKNOWN: Final[Mapping[Operation, Any]] = {
    ("GET", "/api/invoices/{id}"): None,
    ("POST", "/api/verification/run"): {"invoiceId": "none"},
    ("POST", "/api/financing-requests"): {"invoiceId": "none"},
    ("POST", "/api/offers"): {"invoiceId": "none"},
    _REVOKE: None,
}
"""What asks for something that does not exist."""

_BY_HEADER: Final = (
    ("GET", "/api/invoices/{id}"),
    ("GET", "/api/webhooks"),
    ("GET", "/api/auth/session"),
    ("GET", "/api/assignment-rules/{country}"),
    _HEALTH,
    _LOGOUT,
)
"""Only a header of the sandbox can be wrong there, which the contract does not name."""

_SETTLED: Final = {"invoiceId": "inv_sandbox_0003"}
"""An invoice with which nothing can be done any more."""


@dataclass(frozen=True)
class Ask:
    """A request that is to be rejected with ``status``."""

    operation: Operation
    status: int
    headers: Mapping[str, str]
    body: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    method: str | None = None
    """Instead of that of the operation."""

    def send(self, api: httpx.Client) -> Response:
        """Ask the API, which must respond as expected, with the envelope of errors."""
        method, path = self.operation
        response = api.request(
            self.method or method,
            path.replace("{id}", "none").replace("{country}", "DE"),
            headers=self.headers,
            content=self.body,
            params=self.params,
        )
        reported = f"{self.operation}: {response.status_code} {response.text[:500]}"
        assert response.status_code == self.status, f"{self.status} is expected. {reported}"
        assert response.json().keys() == {"error", "mode"}, reported
        return Response(self.operation, response.status_code, response.headers.get("sl-violations"))


def allowed(declared: Declared, sandbox: str) -> Iterator[Ask]:
    """The requests that the contract allows. Each makes what it needs in ``sandbox``."""
    with workspace(sandbox, new_key(sandbox)) as owner:
        yield from _of_credentials(declared, owner)
        yield from _of_sessions(owner)
        yield from _of_state(owner)
        yield from _of_headers(owner)
        yield from _of_size(declared, owner)
        yield from _of_frequency(declared, owner)


def forbidden(declared: Declared, sandbox: str) -> Iterator[Ask]:
    """The requests that break the contract, except for bodies that are not JSON."""
    with workspace(sandbox, new_key(sandbox)) as owner:
        credential = {"Authorization": owner.headers["Authorization"]}
        for operation in (one for one in _declaring(declared, 400) if one not in _BY_HEADER):
            is_list = operation[0] == "GET"
            body, params = ("[1]", {}) if not is_list else (None, {"limit": "0"})
            if operation == _REVOKE:
                body = None
            yield Ask(operation, 400, credential | _JSON, body, params)
        for operation in _declaring(declared, 415):
            yield Ask(operation, 415, credential | {"Content-Type": "text/plain"}, "{}")
        for operation in _declaring(declared, 401):
            if operation != _LOGIN:
                yield _valid(operation, 401, {})
        for operation in declared:
            yield Ask(operation, 405, credential, method="PATCH")


def _of_credentials(declared: Declared, owner: httpx.Client) -> Iterator[Ask]:
    for operation in _declaring(declared, 401):
        if operation == _LOGIN:
            yield Ask(operation, 401, _JSON, json.dumps({"email": "a@b.example"}))
        else:
            yield _valid(operation, 401, bearer("ilk_sandbox_Wrong"))
    auditor, router = _key(owner, "audit:read"), _key(owner, "partners:route")
    for operation in _declaring(declared, 403):
        if operation != _LOGOUT:
            yield _valid(operation, 403, router if operation == _AUDIT else auditor)


def _of_sessions(owner: httpx.Client) -> Iterator[Ask]:
    login = {"email": "seller@demo.example", "password": "demo-password"}
    response = owner.post("/api/auth/login", json=login).raise_for_status()
    cookie = {"Cookie": f"ils_session={response.cookies['ils_session']}"}
    owner.cookies.clear()
    yield Ask(_LOGOUT, 403, cookie | {"Sec-Fetch-Site": "cross-site"})


def _of_state(owner: httpx.Client) -> Iterator[Ask]:
    credential = bearer(owner.headers["Authorization"].removeprefix("Bearer "))
    for operation, body in _UNKNOWN.items():
        yield _valid(operation, 404, credential, body)
        if body is not None:
            yield _valid(operation, 409, credential, _SETTLED)
    (own,) = (
        one["id"]
        for one in owner.get("/api/developer/api-keys").json()["data"]
        if credential["Authorization"].endswith(one["last4"])
    )
    yield Ask(_REVOKE, 409, credential, params={"id": own})


def _of_headers(owner: httpx.Client) -> Iterator[Ask]:
    unknown = {"X-Sandbox-Scenario": "unknown", "Authorization": owner.headers["Authorization"]}
    for operation in _BY_HEADER:
        yield _valid(operation, 400, unknown)


def _of_size(declared: Declared, owner: httpx.Client) -> Iterator[Ask]:
    long = {"note": "x" * _BODY_LIMIT}
    for operation in _declaring(declared, 413):
        yield _valid(operation, 413, {"Authorization": owner.headers["Authorization"]}, long)


def _of_frequency(declared: Declared, owner: httpx.Client) -> Iterator[Ask]:
    fault = {"kind": "status", "status": 429, "count": len(declared)}
    owner.post("/sandbox/faults", json=fault).raise_for_status()
    for operation in _declaring(declared, 429):
        yield _valid(operation, 429, {"Authorization": owner.headers["Authorization"]})


def _declaring(declared: Declared, status: int) -> list[Operation]:
    return [operation for operation, statuses in declared.items() if status in statuses]


def _valid(
    operation: Operation, status: int, headers: Mapping[str, str], members: Any = None
) -> Ask:
    """A request that the contract allows, with these members of its body, if it has one."""
    method, path = operation
    params = {"id": "none"} if operation == _REVOKE else {}
    if method != "POST" or operation == _LOGOUT:
        return Ask(operation, status, headers, None, params)
    needed = INVOICE if path in {"/api/invoices", "/api/registry/fingerprint"} else {}
    body = json.dumps({**needed, **(members or {})})
    return Ask(operation, status, {**headers, **_JSON}, body, params)


def _key(owner: httpx.Client, scope: str) -> dict[str, str]:
    made = owner.post("/api/developer/api-keys", json={"scopes": [scope]}).raise_for_status()
    return bearer(made.json()["data"]["secret"])
