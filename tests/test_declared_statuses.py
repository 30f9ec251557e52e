"""Every status that the API and the control API declare is really returned.

Success, 401 and 403 are tested with the operations themselves; here is what each of them rejects
in the same way, and what no other test happens to meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import httpx
import pytest

from invoice_sandbox.control.snapshots import MAX_SNAPSHOTS
from invoice_sandbox.http.declared_errors import declared_status
from invoice_sandbox.openapi.load.model import METHODS
from invoice_sandbox.openapi.operation import Contract, DeclaredResponse, Operation
from invoice_sandbox.project.loader import default_project, load_project
from invoice_sandbox.state import Transaction
from tests.cases import in_turn
from tests.scenario_run import INVOICE, data, move, register_new, snapshot
from tests.support import FROZEN, Running, serving
from tests.test_listen import next_message, opened, report, streaming
from tests.test_sessions import logged_in

PROJECT: Final = load_project(default_project())
CONTRACTS: Final = (PROJECT.contract, PROJECT.control)
METHODS_OF: Final[dict[tuple[str, str], set[str]]] = {}
for _contract in CONTRACTS:
    for _one in _contract.operations.values():
        METHODS_OF.setdefault((_contract.base_path, _one.path), set()).add(_one.method)

REQUESTS: Final = "financing_requests"

Declared = tuple[Contract, Operation]


def declaring(
    status: str, fits: Callable[[Operation], bool] = lambda _: True
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Run a test with every operation that declares a status."""
    found = [
        (contract, one)
        for contract in CONTRACTS
        for one in contract.operations.values()
        if status in one.responses and fits(one)
    ]
    return in_turn("declared", found, ids=lambda declared: declared[1].id)


def has_body(operation: Operation) -> bool:
    return operation.body is not None


def takes_json(operation: Operation) -> bool:
    return operation.body is not None and "application/json" in operation.body.checkers


def has_query(operation: Operation) -> bool:
    return any(one.location == "query" for one in operation.parameters)


def url_of(declared: Declared) -> str:
    """An address of the operation, about something that is not there."""
    contract, operation = declared
    return contract.base_path + re.sub(r"\{[^}]*\}", "nothing", operation.path)


def send(client: httpx.Client, declared: Declared, **options: Any) -> httpx.Response:
    method = options.pop("method", declared[1].method)
    return client.request(method, url_of(declared), **options)


def is_rejected(response: httpx.Response, status: int, code: str) -> None:
    assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.text


@pytest.fixture(scope="module")
def limited() -> Iterator[Running]:
    """A server that lets a key ask once a minute."""
    with serving(replace(FROZEN, rate_limit=1)) as running:
        yield running


@declaring("405")
def test_another_method_is_405_and_names_those_that_there_are(
    client: httpx.Client, declared: Declared
) -> None:
    contract, operation = declared
    methods = METHODS_OF[contract.base_path, operation.path]
    strange = next(one.upper() for one in METHODS if one.upper() not in {*methods, "OPTIONS"})
    response = send(client, declared, method=strange)
    is_rejected(response, 405, "invalid_request")
    assert set(response.headers["Allow"].split(", ")) >= methods


@declaring("400", takes_json)
def test_a_body_that_is_no_json_is_400(client: httpx.Client, declared: Declared) -> None:
    response = send(client, declared, content=b"{", headers={"Content-Type": "application/json"})
    is_rejected(response, 400, "invalid_request")


def admitted_url(client: httpx.Client, declared: Declared) -> str:
    """An address of the operation that is admitted: one that is signed, where that is needed."""
    if declared[1].capability is None:
        return url_of(declared)
    made = client.post("/api/storage/invoices/upload-url", json={})
    return str(made.json()["data"]["url"])


@declaring("400", lambda one: not takes_json(one) and has_query(one))
def test_a_query_that_is_no_text_is_400(client: httpx.Client, declared: Declared) -> None:
    url = admitted_url(client, declared)
    response = client.request(declared[1].method, f"{url}{'&' if '?' in url else '?'}cursor=%ff")
    is_rejected(response, 400, "invalid_request")


@in_turn("name", ["X-Sandbox-Scenario", "Prefer"])
@in_turn("operation", PROJECT.contract.operations.values(), ids=lambda one: one.id)
def test_an_unknown_scenario_or_preference_is_a_declared_400(
    client: httpx.Client, operation: Operation, name: str
) -> None:
    headers = {name: "code=999" if name == "Prefer" else "unknown"}
    body = VALID_BODIES.get(operation.id, {}) if has_body(operation) else None
    query = {"id": "key_sandbox_0001"} if operation.id == "revokeApiKey" else {}
    response = client.request(
        operation.method,
        operation.path.replace("{country}", "DE").replace("{id}", "inv_sandbox_seed_verified"),
        json=body,
        params=query,
        headers=headers,
    )
    is_rejected(response, 400, "invalid_request")
    assert "400" in operation.responses


VALID_BODIES: Final = dict.fromkeys(("createInvoice", "generateFingerprint"), INVOICE)


@declaring("400", lambda one: not takes_json(one) and not has_query(one) and one.method == "POST")
def test_an_idempotency_key_that_is_too_long_is_400(
    client: httpx.Client, declared: Declared
) -> None:
    response = send(client, declared, headers={"Idempotency-Key": "x" * 256})
    is_rejected(response, 400, "invalid_request")


@declaring("413", has_body)
def test_a_body_that_is_too_large_is_413(client: httpx.Client, declared: Declared) -> None:
    body = declared[1].body
    assert body is not None
    content = b" " * (body.limit + 1)
    headers = {"Content-Type": next(iter(body.checkers))}
    is_rejected(send(client, declared, content=content, headers=headers), 413, "invalid_request")


@declaring("415", has_body)
def test_a_body_of_another_type_is_415(client: httpx.Client, declared: Declared) -> None:
    url, headers = admitted_url(client, declared), {"Content-Type": "text/csv"}
    response = client.request(declared[1].method, url, content=b"a,b", headers=headers)
    is_rejected(response, 415, "invalid_request")


@declaring("429", lambda one: one.id != "addUser")  # only its passwords are limited
def test_too_many_requests_are_429_with_retry_after(limited: Running, declared: Declared) -> None:
    with limited.client(limited.new_workspace()) as client:
        client.get("/api/invoices")
        response = send(client, declared)
    is_rejected(response, 429, "rate_limit_exceeded")
    assert int(response.headers["Retry-After"]) > 0


# What a page does with the cookie of its visitor

CHANGES: Final = ("logout", "revokeApiKey")
"""Changes without a body."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_with_a_cookie_is_403_from_another_site(server: Running, name: str) -> None:
    declared = (PROJECT.contract, PROJECT.contract.operations[name])
    with logged_in(server) as client:
        client.headers["Origin"] = "https://evil.example"
        is_rejected(send(client, declared), 403, "invalid_request")


# What only some operations reject, or return


def test_one_snapshot_more_than_there_may_be_is_409(client: httpx.Client) -> None:
    for _ in range(MAX_SNAPSHOTS):
        snapshot(client)
    is_rejected(client.post("/sandbox/snapshots"), 409, "invalid_request")


def test_who_would_be_gone_afterwards_cannot_go_back(client: httpx.Client) -> None:
    taken = snapshot(client)
    made = data(client.post("/api/developer/api-keys", json={"scopes": ["sandbox:control"]}), 201)
    younger = {"Authorization": f"Bearer {made['secret']}"}
    response = client.post(f"/sandbox/snapshots/{taken}/restore", headers=younger)
    is_rejected(response, 409, "invalid_request")


def test_an_endpoint_that_must_not_be_called_cannot_be_enabled(client: httpx.Client) -> None:
    data(client.post("/api/webhooks", json={"url": "https://10.0.0.1/hook"}), 201)
    (endpoint,) = data(client.get("/api/webhooks"))["endpoints"]
    response = client.post(f"/sandbox/webhooks/{endpoint['id']}/enable")
    is_rejected(response, 409, "invalid_request")


@pytest.mark.parametrize("status", [204, 302])
def test_a_listener_returns_what_its_client_reports(client: httpx.Client, status: int) -> None:
    made = opened(client)
    data(client.post("/api/webhooks", json={"url": made["url"], "events": ["*"]}), 201)
    with streaming(client, made) as lines:
        register_new(client)
        data(client.post("/sandbox/clock/advance", json={"by": "PT0S", "wait": False}))
        message = next_message(lines)
        assert report(client, made, message["message"], status=status).is_success
    data(client.post("/sandbox/clock/advance", json={"by": "PT0S"}))
    (delivery,) = data(client.get("/api/webhooks"))["deliveries"]
    assert delivery["responseStatus"] == status


# A state that a thing is in only for a moment


def test_a_request_that_went_to_nobody_yet_can_be_taken_back(
    server: Running, client: httpx.Client
) -> None:
    """Requests are routed at once, so that only starting data can hold one that is not."""
    invoice_id = register_new(client)
    move(client, invoice_id, "start-verification", "verify", "request-financing")
    (request,) = requests_for(client, invoice_id)
    put_back(server, client, request)
    move(client, invoice_id, "cancel-financing")
    assert [one["status"] for one in requests_for(client, invoice_id)] == ["Cancelled"]


def requests_for(client: httpx.Client, invoice_id: str) -> list[Any]:
    found = data(client.get("/api/financing-requests"))
    return [one for one in found if invoice_id in one["invoiceIds"]]


def put_back(server: Running, client: httpx.Client, request: dict[str, Any]) -> None:
    """Have a financing request stand where it began."""

    def change(state: Transaction) -> None:
        kept = state.get(REQUESTS, request["id"])
        assert kept is not None
        state.put(REQUESTS, request["id"], {**kept, "status": "Submitted"})

    server.in_transaction(change, client)


@in_turn(
    ("declared", "status"),
    [
        ("400 422", 400),
        ("4XX 422", 400),
        ("422", 422),
        ("422 default", 422),
        ("default", 400),
        ("500", None),
    ],
)
def test_an_invalid_request_is_422_where_only_that_is_declared(
    declared: str, status: int | None
) -> None:
    operation = PROJECT.contract.operations["createInvoice"]
    responses = dict.fromkeys(declared.split(), DeclaredResponse({}, {}))
    assert declared_status(replace(operation, responses=responses), 400) == status
