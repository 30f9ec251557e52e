"""API keys: how they are sent, made, revoked, and what they may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.ids import key_digest, key_problem, new_key
from invoice_sandbox.state.credentials import DEMO_KEY, MAX_NAME, allows
from tests.cases import in_turn
from tests.notes_project import write_project
from tests.support import CONVENTIONS, FROZEN, PATIENCE, Running, serving

KEYS = "/api/developer/api-keys"


def create(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post(KEYS, json=body)
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()["data"]
    return created


def status(server: Running, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with server.client(None) as client:
        return client.get("/api/invoices", headers=named).status_code


def test_a_key_is_taken_from_either_header(server: Running) -> None:
    assert status(server, Authorization=f"Bearer {DEMO_KEY}") == 200
    assert status(server, X_API_Key=DEMO_KEY) == 200


def test_both_headers_may_name_the_same_key_only(server: Running) -> None:
    bearer = f"Bearer {DEMO_KEY}"
    assert status(server, Authorization=bearer, X_API_Key=DEMO_KEY) == 200
    assert status(server, Authorization=bearer, X_API_Key=server.new_workspace()) == 401


@pytest.mark.parametrize("beside", ["Basic dXNlcjpwYXNz", "Bearer unknown", "Bearer", "Digest x"])
def test_an_invalid_authorization_does_not_hinder_a_valid_key(server: Running, beside: str) -> None:
    assert status(server, Authorization=beside, X_API_Key=DEMO_KEY) == 200
    assert status(server, Authorization=beside, X_API_Key="unknown") == 401


def test_an_invalid_key_does_not_hinder_a_valid_authorization(server: Running) -> None:
    assert status(server, Authorization=f"Bearer {DEMO_KEY}", X_API_Key="unknown") == 200


def test_a_key_that_has_expired_does_not_hinder_another(
    server: Running, client: httpx.Client
) -> None:
    expired = create(client, expiresAt="2026-11-23T09:30:00Z")["secret"]
    assert status(server, Authorization=f"Bearer {expired}") == 401
    assert status(server, Authorization=f"Bearer {expired}", X_API_Key=DEMO_KEY) == 200


def test_a_key_whose_workspace_was_deleted_does_not_hinder_another(server: Running) -> None:
    deleted = server.new_workspace()
    with server.client(deleted) as owner, server.client(None) as other:
        workspace = owner.get("/api/auth/session").json()["data"]["workspaceId"]
        bearer = {"Authorization": f"Bearer {DEMO_KEY}"}
        other.delete(f"/sandbox/workspaces/{workspace}", headers=bearer).raise_for_status()
    assert status(server, Authorization=f"Bearer {deleted}", X_API_Key=DEMO_KEY) == 200


@in_turn(
    "value",
    [
        "Bearer",
        "Basic dXNlcjpwYXNz",
        DEMO_KEY,
        f"Bearer {DEMO_KEY} x",
        f"Bearer {DEMO_KEY.lower()}",
        f"Bearer {DEMO_KEY[:-1]}",
        "Bearer ilk_sandbox_d0ryuSJCrGwwqru4PunLjBlsNRwQR03pSMNE",
        "Bearer " + DEMO_KEY.replace("ilk_sandbox_", "ilk_live_"),
        "Bearer " + "x" * 5000,
    ],
)
def test_anything_else_is_401(server: Running, value: str) -> None:
    assert status(server, Authorization=value) == 401


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer"])
def test_the_scheme_is_written_in_any_case(server: Running, scheme: str) -> None:
    assert status(server, Authorization=f"{scheme} {DEMO_KEY}") == 200


def test_a_new_key_is_well_formed_and_shown_once(client: httpx.Client) -> None:
    created = create(client, name="CI key", scopes=["invoices:read"])
    assert key_problem(created["secret"]) is None
    assert created["last4"] == created["secret"][-4:]
    assert (created["prefix"], created["secretShownOnce"]) == ("ilk_sandbox_", True)
    listed = client.get(KEYS)
    assert created["secret"] not in listed.text
    assert listed.json()["data"][0] == {
        name: value for name, value in created.items() if not name.startswith("secret")
    }


def test_only_a_digest_is_kept(client: httpx.Client) -> None:
    secret = create(client)["secret"]
    for path in (KEYS, "/api/audit-log", "/api/auth/session"):
        text = client.get(path).text
        assert secret not in text
        assert key_digest(secret) not in text


def test_the_secret_is_in_no_later_response(server: Running, client: httpx.Client) -> None:
    secret = create(client)["secret"]
    operations = server.sandbox.engine.project.contract.operations.values()
    reading = [one.path for one in operations if one.method == "GET" and "{" not in one.path]
    assert KEYS in reading
    for path in reading:
        assert secret not in client.get(path).text


def test_keys_of_another_workspace_are_neither_seen_nor_revoked(
    server: Running, client: httpx.Client
) -> None:
    theirs = create(client, name="theirs")
    with server.client(server.new_workspace()) as other:
        assert theirs["id"] not in {key["id"] for key in other.get(KEYS).json()["data"]}
        assert other.delete(KEYS, params={"id": theirs["id"]}).status_code == 404
    assert status(server, X_API_Key=theirs["secret"]) == 200


FORWARDING = {
    "Forwarded": "for=192.0.2.1",
    "Via": "1.1 proxy",
    "X-Forwarded-For": "192.0.2.1",
    "X-Forwarded-Host": "sandbox.corp",
    "X-Forwarded-Proto": "https",
    "X-Real-IP": "192.0.2.1",
    "CF-Connecting-IP": "192.0.2.1",
}


@in_turn(("name", "value"), FORWARDING.items(), ids=FORWARDING)
def test_a_forwarded_request_cannot_use_the_demo_key(
    server: Running, name: str, value: str
) -> None:
    with server.client() as client:
        response = client.get("/api/invoices", headers={name: value})
    assert response.status_code == 401
    assert response.json()["error"]["message"] == (
        "The demo key is public, so it is not valid in a request that was forwarded "
        f"({name.lower()}). Use another key, such as that of 'invoice-sandbox serve --key KEY'."
    )


def test_a_forwarded_request_may_use_any_other_key(server: Running, client: httpx.Client) -> None:
    secret = create(client)["secret"]
    assert status(server, X_API_Key=secret, X_Forwarded_For="192.0.2.1") == 200
    both = {"Authorization": f"Bearer {DEMO_KEY}", "X_API_Key": secret, "Via": "1.1 proxy"}
    assert status(server, **both) == 200


def test_with_a_public_url_the_demo_key_is_not_valid() -> None:
    with serving(replace(FROZEN, public_url="https://sandbox.example")) as running:
        local = f"http://127.0.0.1:{running.port}"
        response = httpx.get(
            f"{local}/api/invoices", headers={"X-API-Key": DEMO_KEY}, timeout=PATIENCE
        )
        assert response.status_code == 401
        assert "on a server that other machines can reach" in response.json()["error"]["message"]
        control = httpx.get(
            f"{local}/sandbox/clock", headers={"X-API-Key": DEMO_KEY}, timeout=PATIENCE
        )
        assert control.status_code == 401


@pytest.mark.parametrize("settings", [{"public_url": "https://x.example"}, {"host": "0.0.0.0"}])  # noqa: S104
def test_the_demo_key_is_rejected_with_the_reason_where_another_key_is_used(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    for access in ("keys", "any"):
        (tmp_path / access).mkdir()
        project = write_project(tmp_path / access)
        (project / "conventions.yaml").write_text(f"access: {access}\n")
        given = replace(FROZEN, key=new_key(), key_given=True, project=project, **settings)
        with serving(given) as running:
            for place in ("/bells", "/sandbox/clock"):
                reply = httpx.get(
                    f"http://127.0.0.1:{running.port}{place}",
                    headers={"Authorization": f"Bearer {DEMO_KEY}"},
                    timeout=PATIENCE,
                )
                assert reply.status_code == 401
                assert "on a server that other machines can reach" in reply.text


def test_without_scopes_a_key_gets_all_but_managing_keys_and_the_sandbox(
    client: httpx.Client,
) -> None:
    scopes = create(client)["scopes"]
    assert {"invoices:write", "keys:read"} <= set(scopes)
    assert not {"*", "keys:write", "sandbox:control"} & set(scopes)


def test_a_key_grants_only_what_it_holds(server: Running, client: httpx.Client) -> None:
    secret = create(client, scopes=["keys:write", "offers:read"])["secret"]
    with server.client(secret) as limited:
        assert create(limited, scopes=["offers:read", "keys:read"])["scopes"]
        assert create(limited)["scopes"] == ["keys:read"]
        rejected = limited.post(KEYS, json={"scopes": ["offers:write"]})
        assert rejected.status_code == 403
        assert "offers:write" in rejected.json()["error"]["message"]


WRONG: dict[str, dict[str, Any]] = {
    "scopes as text": {"scopes": "invoices:read"},
    "a scope that is no text": {"scopes": [1]},
    "scopes null": {"scopes": None},
    "expiresAt a date": {"expiresAt": "2026-11-23"},
    "expiresAt without an offset": {"expiresAt": "2026-11-23T09:30:00"},
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_member_with_an_impossible_value_is_named(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    rejected = client.post(KEYS, json=body)
    assert rejected.status_code == 400
    assert rejected.json()["error"]["message"].startswith(next(iter(body)))


@pytest.mark.parametrize("name", ["CI key", 1, None, ["a"]], ids=repr)
def test_the_name_of_a_key_is_free_text(client: httpx.Client, name: Any) -> None:
    assert create(client, name=name)["name"] == name


def test_a_name_is_cut_after_a_key_was_taken_out_of_it(client: httpx.Client) -> None:
    name = create(client, name=DEMO_KEY + "-" * 1000)["name"]
    assert name == "[redacted]".ljust(MAX_NAME, "-")


def test_an_unknown_scope_is_400_and_the_known_ones_are_listed(client: httpx.Client) -> None:
    rejected = client.post(KEYS, json={"scopes": ["invoices:everything"]})
    assert rejected.status_code == 400
    message = rejected.json()["error"]["message"]
    assert "invoices:read" in message
    assert "did you mean invoices:write? The contract is at" in message


def test_a_revoked_key_opens_nothing_from_the_next_request_on(
    server: Running, client: httpx.Client
) -> None:
    created = create(client)
    with server.client(created["secret"]) as other:
        assert other.get("/api/invoices").status_code == 200
        revoked = client.delete(KEYS, params={"id": created["id"]}).json()["data"]
        assert (revoked["id"], revoked["status"]) == (created["id"], "Revoked")
        assert other.get("/api/invoices").status_code == 401
    assert client.delete(KEYS, params={"id": created["id"]}).json()["data"] == revoked


def test_requests_with_a_revoked_key_are_in_the_journal_of_its_workspace(
    server: Running, client: httpx.Client
) -> None:
    created = client.post(KEYS, json={"name": "short"}).json()["data"]
    client.delete(KEYS, params={"id": created["id"]})
    with server.client(created["secret"]) as revoked:
        assert revoked.get("/api/invoices").status_code == 401
    (entry,) = client.get("/sandbox/requests", params={"status": 401}).json()["data"]
    assert entry["operation"] == "listInvoices"


def test_a_key_cannot_revoke_itself(client: httpx.Client) -> None:
    own = next(
        key["id"] for key in client.get(KEYS).json()["data"] if key["name"] == "Workspace key"
    )
    assert client.delete(KEYS, params={"id": own}).status_code == 409
    assert client.get(KEYS).status_code == 200


def test_revoking_needs_an_id_and_a_known_one(client: httpx.Client) -> None:
    missing = client.delete(KEYS)
    assert missing.status_code == 400
    assert missing.json()["error"]["message"].startswith("id is required")
    assert client.delete(KEYS, params={"id": "key_sandbox_nobody"}).status_code == 404


@in_turn(
    ("expires_at", "response"),
    [
        ("2026-11-23T09:30:01Z", 200),
        ("2026-11-23T10:30:00+01:00", 401),
        ("2026-11-23T09:30:00Z", 401),
        ("1990-12-31T23:59:60Z", 401),
        ("9999-12-31T23:59:59-23:59", 200),
        ("0000-01-01T00:00:00Z", 401),
    ],
)
def test_a_key_expires_at_its_instant(
    server: Running, client: httpx.Client, expires_at: str, response: int
) -> None:
    created = create(client, expiresAt=expires_at)
    assert created["expiresAt"] == expires_at
    assert status(server, X_API_Key=created["secret"]) == response


TRANSITION = "/sandbox/invoices/inv_sandbox_0001/transition"


@pytest.mark.parametrize(
    ("path", "body", "used_at"),
    [
        ("/api/invoices", None, "2026-11-23T09:30:00Z"),
        (TRANSITION, {"trigger": "request-financing"}, "2026-11-23T09:30:00Z"),
        (TRANSITION, None, None),
    ],
)
def test_when_a_key_was_used_last_is_kept(
    server: Running, client: httpx.Client, path: str, body: Any, used_at: str | None
) -> None:
    created = create(client, scopes=["invoices:read", "sandbox:control"])
    with server.client(created["secret"]) as other:
        sent = other.get(path) if body is None else other.post(path, json=body)
        assert sent.is_success, sent.text
    listed = {key["id"]: key for key in client.get(KEYS).json()["data"]}
    assert listed[created["id"]].get("lastUsedAt") == used_at


def test_a_request_without_a_key_gets_the_advice_how_to_send_one(server: Running) -> None:
    with server.client(None) as client:
        error = client.get("/api/invoices").json()["error"]
    assert error["code"] == "authentication_required"
    assert error["message"] == (
        "No credential was sent. Send 'Authorization: Bearer <API_KEY>' or 'X-API-Key: <API_KEY>'."
    )


# What a scope covers, what is never shown


@in_turn(
    ("held", "wanted", "covers"),
    [
        ("webhooks:write", "webhooks:write", True),
        ("webhooks:write", "webhooks:read", True),
        ("webhooks:read", "webhooks:write", False),
        ("webhooks:write", "webhooks:test", False),
        ("webhooks:test", "webhooks:read", False),
        ("webhooks:write", "invoices:read", False),
        ("*", "webhooks:test", True),
    ],
)
def test_write_covers_read_and_nothing_else(held: str, wanted: str, covers: bool) -> None:
    assert allows({held}, wanted) is covers


def test_a_key_that_may_register_webhooks_may_not_send_tests(
    server: Running, client: httpx.Client
) -> None:
    secret = create(client, scopes=["webhooks:write"])["secret"]
    with server.client(secret) as limited:
        assert limited.get("/api/webhooks").status_code == 200
        assert limited.post("/api/webhooks/test", json={}).status_code == 403


# Two schemes that are required together


@pytest.fixture(scope="module")
def two_schemes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A project whose keys are needed in two places at once."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "openapi").mkdir()
    reply = {"200": {"description": "in", "content": {"application/json": {"example": {}}}}}
    both = {"operationId": "both", "security": [{"first": [], "second": []}], "responses": reply}
    query = {"operationId": "query", "security": [{"third": []}], "responses": reply}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Two", "version": "1"},
        "paths": {"/both": {"get": both}, "/query": {"get": query}},
        "components": {
            "securitySchemes": {
                "first": {"type": "http", "scheme": "bearer"},
                "second": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "third": {"type": "apiKey", "in": "query", "name": "key"},
            }
        },
    }
    (folder / "openapi" / "openapi.yaml").write_text(json.dumps(document))
    (folder / "conventions.yaml").write_text(CONVENTIONS)
    with serving(replace(FROZEN, project=folder)) as running:
        yield running


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Authorization": f"Bearer {DEMO_KEY}"}, 401),
        ({"X-API-Key": DEMO_KEY}, 401),
        ({"Authorization": f"Bearer {DEMO_KEY}", "X-API-Key": "unknown"}, 401),
        ({"Authorization": f"Bearer {DEMO_KEY}", "X-API-Key": DEMO_KEY}, 200),
    ],
    ids=["the first", "the second", "one is unknown", "both"],
)
def test_two_schemes_that_are_required_together_are_both_needed(
    two_schemes: Running, headers: dict[str, str], expected: int
) -> None:
    with two_schemes.client(None) as client:
        assert client.get("/both", headers=headers).status_code == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [({}, 401), ({"key": "unknown"}, 401), ({"key": DEMO_KEY}, 200)],
    ids=["none", "unknown", "known"],
)
def test_a_key_is_taken_from_the_query_where_the_contract_says_so(
    two_schemes: Running, query: dict[str, str], expected: int
) -> None:
    with two_schemes.client(None) as client:
        assert client.get("/query", params=query).status_code == expected


@in_turn(
    ("value", "problem"),
    [
        ("ilk_sandbox_unknown", "has a credential without 'Bearer' before it"),
        ("token", "has a credential without 'Bearer' before it"),
        ("Bearer", "has no key after 'Bearer'"),
        ("bearer  ", "has no key after 'Bearer'"),
        (f"Token {DEMO_KEY}", "has another scheme than 'Bearer'"),
        ("Basic dTpw", "has another scheme than 'Bearer'"),
    ],
)
def test_a_credential_without_bearer_is_what_the_error_is_about(
    server: Running, value: str, problem: str
) -> None:
    with server.client(None) as client:
        response = client.get("/api/invoices", headers={"Authorization": value})
    assert response.status_code == 401
    assert response.json()["error"]["message"] == (
        f"The Authorization header {problem}. Send 'Authorization: Bearer <API_KEY>'."
    )


@pytest.mark.parametrize("value", ["Bearer unknown", f"Bearer Bearer {DEMO_KEY}"])
def test_an_error_never_says_that_a_scheme_is_missing_which_is_there(
    server: Running, value: str
) -> None:
    with server.client(None) as client:
        response = client.get("/api/invoices", headers={"Authorization": value})
    assert "Authorization header" not in response.json()["error"]["message"]
