"""Every published operation: success, envelope, declared errors, credentials, scopes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import httpx
import pytest

from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.project.loader import default_project, load_project
from tests.cases import in_turn
from tests.scenario_run import INVOICE
from tests.support import FROZEN, Running, serving

CONTRACT = load_project(default_project()).contract
OPERATIONS = list(CONTRACT.operations.values())
LOGIN = {"email": "seller@demo.example", "password": "demo-password"}


class Row(NamedTuple):
    """A valid request: path parameters and query filled in, and a body where there is one."""

    path: str
    body: Any = None


ROWS = {
    "listInvoices": Row("/api/invoices"),
    "createInvoice": Row("/api/invoices", INVOICE),
    "getInvoice": Row("/api/invoices/inv_sandbox_0001"),
    "generateFingerprint": Row("/api/registry/fingerprint", INVOICE),
    "runVerification": Row("/api/verification/run"),
    "listFinancingRequests": Row("/api/financing-requests"),
    "createFinancingRequest": Row("/api/financing-requests", {}),
    "listOffers": Row("/api/offers"),
    "createOffer": Row("/api/offers", {}),
    "listPartners": Row("/api/partners"),
    "routePartners": Row("/api/partners/route", {}),
    "listAuditEvents": Row("/api/audit-log"),
    "testWebhook": Row("/api/webhooks/test", {}),
    "listWebhooks": Row("/api/webhooks"),
    "createWebhook": Row("/api/webhooks", {}),
    "pushErpInvoices": Row("/api/connectors/erp/invoices", {}),
    "getSession": Row("/api/auth/session"),
    "getAssignmentRules": Row("/api/assignment-rules/DE"),
    "getHealth": Row("/api/health"),
    "login": Row("/api/auth/login", LOGIN),
    "logout": Row("/api/auth/logout"),
    "createUploadUrl": Row("/api/storage/invoices/upload-url", {}),
    "listApiKeys": Row("/api/developer/api-keys"),
    "createApiKey": Row("/api/developer/api-keys", {}),
    "revokeApiKey": Row("/api/developer/api-keys?id=key_sandbox_0002"),
}
PROTECTED = [one for one in OPERATIONS if not one.security.optional]
SCOPED = [one for one in PROTECTED if one.security.scopes]
PUBLIC = [one for one in OPERATIONS if one.security.optional]
COUNTED = [one for one in OPERATIONS if one.security.alternatives]
EXEMPT = [one for one in OPERATIONS if not one.security.alternatives]
WITH_BODY = [one for one in OPERATIONS if one.body is not None]
WITHOUT_BODY = [one for one in OPERATIONS if one.body is None]


def send(client: httpx.Client, operation: Operation, **options: Any) -> httpx.Response:
    row = ROWS[operation.id]
    if row.body is not None and "content" not in options:
        options.setdefault("json", row.body)
    return client.request(operation.method, row.path, **options)


def key_with(client: httpx.Client, *scopes: str) -> dict[str, str]:
    created = client.post("/api/developer/api-keys", json={"scopes": scopes}).json()["data"]
    return {"Authorization": f"Bearer {created['secret']}"}


def is_rejected(response: httpx.Response, operation: Operation, status: int, code: str) -> None:
    body = response.json()
    assert (response.status_code, body["error"]["code"]) == (status, code)
    assert body["mode"] == "sandbox_mock"
    assert body["error"]["requestId"] == response.headers["x-request-id"]
    assert operation.response_for(status) is not None, "the contract declares this status"


@pytest.fixture(scope="module")
def stranger(server: Running) -> Iterator[httpx.Client]:
    with server.client(None) as client:
        yield client


@pytest.fixture(scope="module")
def counting() -> Iterator[Running]:
    """A server with the limit that the specification names."""
    with serving(replace(FROZEN, rate_limit=120)) as running:
        yield running


def ids(operation: Operation) -> str:
    return operation.id


def test_the_table_has_every_operation_of_the_contract() -> None:
    assert ROWS.keys() == CONTRACT.operations.keys()
    assert len(ROWS) == 25


@in_turn("operation", OPERATIONS, ids=ids)
def test_a_valid_request_gets_a_response_in_the_success_envelope(
    client: httpx.Client, operation: Operation
) -> None:
    response = send(client, operation)
    assert response.status_code == int(operation.success), response.text
    assert response.headers["content-type"] == "application/json"
    assert response.json().keys() == {"data", "mode"}
    assert response.json()["mode"] == "sandbox_mock"
    assert response.headers["x-request-id"].startswith("req_sandbox_")
    assert response.headers["x-contract-version"] == "0.1.0"
    assert not {"ratelimit", "ratelimit-policy", "retry-after"} & response.headers.keys()


@in_turn("operation", COUNTED, ids=ids)
def test_with_a_limit_every_response_reports_what_is_left(
    counting: Running, operation: Operation
) -> None:
    with counting.client(counting.new_workspace()) as client:
        headers = send(client, operation).headers
    assert headers["ratelimit-policy"] == '"default";q=120;w=60'
    assert headers["ratelimit"] == '"default";r=119;t=60'


@pytest.mark.parametrize("operation", EXEMPT, ids=ids)
def test_what_knows_no_credential_is_never_counted(counting: Running, operation: Operation) -> None:
    with counting.client() as client:
        assert "ratelimit" not in send(client, operation).headers


@pytest.mark.parametrize("operation", PUBLIC, ids=ids)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer ilk_sandbox_unknown"}])
def test_what_needs_no_credential_gets_a_response_without_a_good_one(
    server: Running, operation: Operation, headers: dict[str, str]
) -> None:
    with server.client(None) as newcomer:  # whose cookie of a login nobody else gets
        response = send(newcomer, operation, headers=headers)
    assert response.status_code == int(operation.success), response.text


def test_nothing_but_health_and_login_is_open_to_all() -> None:
    assert {one.id for one in PUBLIC} == {"getHealth", "login"}
    assert {one.id for one in EXEMPT} == {"getHealth"}


@in_turn("operation", PROTECTED, ids=ids)
def test_without_a_credential_the_response_is_401(
    stranger: httpx.Client, operation: Operation
) -> None:
    response = send(stranger, operation)
    is_rejected(response, operation, 401, "authentication_required")
    assert response.headers["www-authenticate"] == 'Bearer realm="sandbox"'


@in_turn("operation", PROTECTED, ids=ids)
@in_turn("header", ["Authorization", "X-API-Key"])
def test_an_unknown_key_is_401(stranger: httpx.Client, operation: Operation, header: str) -> None:
    response = send(stranger, operation, headers={header: "Bearer ilk_sandbox_unknown"})
    is_rejected(response, operation, 401, "authentication_required")


@in_turn("operation", SCOPED, ids=ids)
def test_without_its_scope_the_response_is_403_and_names_it(
    client: httpx.Client, operation: Operation
) -> None:
    response = send(client, operation, headers=key_with(client, "sandbox:control"))
    is_rejected(response, operation, 403, "insufficient_scope")
    scope = operation.security.scopes[0]
    assert scope in response.json()["error"]["message"]
    assert f'scope="{scope}"' in response.headers["www-authenticate"]


@in_turn("operation", SCOPED, ids=ids)
def test_its_one_scope_is_enough(client: httpx.Client, operation: Operation) -> None:
    # Creating a key grants scopes, and a key can grant only what it holds.
    body: dict[str, Any] = {"json": {"scopes": []}} if operation.id == "createApiKey" else {}
    headers = key_with(client, *operation.security.scopes)
    assert send(client, operation, headers=headers, **body).status_code == int(operation.success)


@pytest.mark.parametrize("scope", ["invoices", "financing", "offers", "webhooks", "keys"])
def test_write_implies_read(client: httpx.Client, scope: str) -> None:
    reading = next(one for one in SCOPED if one.security.scopes == (f"{scope}:read",))
    headers = key_with(client, f"{scope}:write")
    assert send(client, reading, headers=headers).status_code == int(reading.success)


@in_turn("operation", WITH_BODY, ids=ids)
@in_turn(
    ("content", "media_type", "status"),
    [
        pytest.param(b"{", "application/json", 400, id="malformed"),
        pytest.param(b"[]", "application/json", 400, id="no object"),
        pytest.param(b"{}", "text/plain", 415, id="not declared as JSON"),
        pytest.param(b"{}", "application/json; charset=latin-1", 415, id="not UTF-8"),
        pytest.param(b" " * (256 * 1024 + 1), "application/json", 413, id="too large"),
    ],
)
def test_a_body_that_cannot_be_read_is_rejected(
    client: httpx.Client, operation: Operation, content: bytes, media_type: str, status: int
) -> None:
    response = send(client, operation, content=content, headers={"Content-Type": media_type})
    is_rejected(response, operation, status, "invalid_request")


@in_turn("operation", WITH_BODY, ids=ids)
def test_a_body_that_is_required_may_not_be_empty(
    client: httpx.Client, operation: Operation
) -> None:
    assert operation.body is not None
    headers = {"Content-Type": "application/json"}
    response = send(client, operation, content=b"", headers=headers)
    if operation.body.required:
        is_rejected(response, operation, 400, "invalid_request")
    else:
        assert response.status_code == int(operation.success)


@in_turn("operation", WITHOUT_BODY, ids=ids)
def test_a_body_that_nobody_declared_is_not_looked_at(
    client: httpx.Client, operation: Operation
) -> None:
    response = send(client, operation, content=b"{", headers={"Content-Type": "text/plain"})
    assert response.status_code == int(operation.success), response.text


LARGE, BROKEN = b" " * (256 * 1024 + 1), b"{"
ORDER: dict[str, tuple[str, str, bytes, tuple[str, ...] | None, int]] = {
    "the path before all else": ("POST", "/api/nothing", LARGE, None, 404),
    "then the method": ("PATCH", "/api/offers", LARGE, None, 405),
    "then the size": ("POST", "/api/offers", LARGE, None, 413),
    "then the credential": ("POST", "/api/offers", BROKEN, None, 401),
    "then the scope": ("POST", "/api/offers", BROKEN, ("offers:read",), 403),
    "then the body": ("POST", "/api/offers", BROKEN, ("offers:write",), 400),
}


@in_turn(("method", "path", "content", "scopes", "status"), ORDER.values(), ids=ORDER)
def test_the_first_failed_check_decides_the_response(
    client: httpx.Client,
    stranger: httpx.Client,
    method: str,
    path: str,
    content: bytes,
    scopes: tuple[str, ...] | None,
    status: int,
) -> None:
    headers = {} if scopes is None else key_with(client, *scopes)
    headers["Content-Type"] = "application/json"
    assert stranger.request(method, path, content=content, headers=headers).status_code == status


@in_turn("operation", OPERATIONS, ids=ids)
def test_every_path_rejects_methods_it_does_not_declare(
    client: httpx.Client, operation: Operation
) -> None:
    response = client.request("PATCH", ROWS[operation.id].path)
    is_rejected(response, operation, 405, "invalid_request")
    declared = {one.method for one in OPERATIONS if one.path == operation.path}
    ours = {"OPTIONS", "HEAD"} if "GET" in declared else {"OPTIONS"}
    assert set(response.headers["allow"].split(", ")) == declared | ours
