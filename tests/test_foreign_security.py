"""Security of a document that is served alone: asked for as it says, with any credential."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from invoice_sandbox.base.ids import new_key
from invoice_sandbox.openapi.security import compile_scheme, compile_security, key_schemes
from invoice_sandbox.settings import read_settings
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.cases import in_turn
from tests.support import FROZEN, Running, serving

OAUTH = {"authorizationUrl": "https://x.example", "scopes": {"a": "first", "b": "second"}}
SCHEMES: dict[str, dict[str, Any]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "Basic"},
    "digest": {"type": "http", "scheme": "digest"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "oauth": {"type": "oauth2", "flows": {"implicit": OAUTH}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://x.example/.well-known"},
    "mtls": {"type": "mutualTLS"},
}
OPERATIONS: dict[str, list[dict[str, list[str]]]] = {
    **{name: [{name: []}] for name in SCHEMES},
    "scopes": [{"oauth": ["a", "b"]}],
    "both": [{"header": [], "query": []}],
    "either": [{"bearer": []}, {"header": [], "query": []}],
    "optional": [{}, {"bearer": []}],
    "open": [],
    "certified": [{"mtls": [], "bearer": []}],
}
OWN_KEY = new_key()


def document() -> dict[str, Any]:
    response = {"200": {"description": "in", "content": {"application/json": {"example": 1}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Doors", "version": "1"},
        "paths": {
            f"/{name}": {"get": {"operationId": name, "security": security, "responses": response}}
            for name, security in OPERATIONS.items()
        },
        "components": {"securitySchemes": SCHEMES},
    }


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("contract") / "contract.json"
    file.write_bytes(orjson.dumps(document()))
    return file


@pytest.fixture(scope="module")
def anyone(contract: Path) -> Iterator[Running]:
    """A server that nobody gave a key."""
    with serving(replace(FROZEN, contract=contract)) as running:
        yield running


@pytest.fixture(scope="module")
def strict(contract: Path) -> Iterator[Running]:
    """A server that was given a key."""
    settings = replace(FROZEN, contract=contract, key=OWN_KEY, key_given=True)
    with serving(settings) as running:
        yield running


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def ways(secret: str) -> dict[str, dict[str, Any]]:
    """How a secret is sent, by scheme."""
    bearer = {"headers": {"Authorization": f"Bearer {secret}".strip()}}
    return {
        "bearer": bearer,
        "oauth": bearer,
        "oidc": bearer,
        "scopes": bearer,
        "certified": bearer,
        "basic": {"headers": basic(f"user:{secret}")},
        "digest": {"headers": {"Authorization": f"Digest {secret}".strip()}},
        "header": {"headers": {"X-Key": secret}},
        "query": {"params": {"api_key": secret}},
        "cookie": {"headers": {"Cookie": f"sid={secret}"}},
        "both": {"headers": {"X-Key": secret}, "params": {"api_key": secret}},
        "either": {"headers": {"X-Key": secret}, "params": {"api_key": secret}},
    }


def status(running: Running, name: str, **sent: Any) -> int:
    with running.client(None) as client:
        return client.get(f"/{name}", **sent).status_code


@in_turn("name", ways(""))
def test_any_credential_opens_what_asks_for_one(anyone: Running, name: str) -> None:
    assert status(anyone, name, **ways("anything")[name]) == 200


def test_a_credential_in_the_query_is_no_undeclared_parameter(anyone: Running) -> None:
    with anyone.client(None) as client:
        sent = client.get("/query?api_key=x&apikey=y", headers={"X-Sandbox-Explain": "1"})
    assert "hints=\"undeclared query parameter 'apikey'\"" in sent.headers["x-sandbox-explain"]


@in_turn("name", ways(""))
def test_an_empty_credential_is_none(anyone: Running, name: str) -> None:
    sent = {"headers": basic(":")} if name == "basic" else ways("")[name]
    assert status(anyone, name, **sent) == 401


@in_turn("name", ways(""))
def test_without_a_credential_the_response_is_401(anyone: Running, name: str) -> None:
    assert status(anyone, name) == 401


@in_turn("name", ways(""))
def test_with_a_key_given_only_this_key_opens(strict: Running, name: str) -> None:
    assert status(strict, name, **ways(OWN_KEY)[name]) == 200
    assert status(strict, name, **ways("anything")[name]) == 401
    assert status(strict, name, **ways(DEMO_KEY)[name]) == 401


CHALLENGES = {
    "bearer": 'Bearer realm="sandbox"',
    "basic": 'Basic realm="sandbox", charset="UTF-8"',
    "digest": 'Digest realm="sandbox"',
    "oauth": 'Bearer realm="sandbox"',
    "oidc": 'Bearer realm="sandbox"',
    "header": 'ApiKey realm="sandbox", in="header", name="x-key"',
    "query": 'ApiKey realm="sandbox", in="query", name="api_key"',
    "cookie": 'ApiKey realm="sandbox", in="cookie", name="sid"',
    "either": 'Bearer realm="sandbox"',
}


@in_turn("name", CHALLENGES)
def test_the_challenge_is_that_of_the_scheme(anyone: Running, name: str) -> None:
    with anyone.client(None) as client:
        assert client.get(f"/{name}").headers["www-authenticate"] == CHALLENGES[name]


def test_the_error_reports_what_to_send(anyone: Running) -> None:
    with anyone.client(None) as client:
        message = client.get("/either").json()["error"]["message"]
    assert message == (
        "A credential is missing. Send 'Authorization: Bearer <token>', "
        "or 'X-Key: <key>' with the query parameter 'api_key'."
    )


def test_two_schemes_at_once_are_both_needed(anyone: Running) -> None:
    assert status(anyone, "both", headers={"X-Key": "a"}) == 401
    assert status(anyone, "both", params={"api_key": "b"}) == 401
    assert status(anyone, "both", headers={"X-Key": "a"}, params={"api_key": "b"}) == 200


def test_of_two_schemes_at_once_one_must_bring_the_key_that_was_given(strict: Running) -> None:
    assert status(strict, "both", headers={"X-Key": "app"}, params={"api_key": OWN_KEY}) == 200
    assert status(strict, "both", headers={"X-Key": OWN_KEY}) == 401


def test_one_of_two_ways_is_enough(anyone: Running) -> None:
    assert status(anyone, "either", headers={"Authorization": "Bearer a"}) == 200
    assert status(anyone, "either", headers={"X-Key": "a"}) == 401


@in_turn("value", ["Basic", "Basic ???", "Basic Y", "Bearer a", "basic", "", "Basic Og=="])
def test_what_is_no_basic_credential_is_none(anyone: Running, value: str) -> None:
    assert status(anyone, "basic", headers={"Authorization": value}) == 401


@pytest.mark.parametrize("text", ["KEY", "KEY:", "user:KEY"])
def test_of_basic_the_password_counts_or_else_the_user(strict: Running, text: str) -> None:
    assert status(strict, "basic", headers=basic(text.replace("KEY", OWN_KEY))) == 200


def test_a_client_certificate_counts_as_given(anyone: Running, strict: Running) -> None:
    assert status(anyone, "mtls") == 200
    assert status(strict, "mtls") == 200


def test_what_is_open_or_optional_needs_nothing(anyone: Running, strict: Running) -> None:
    for name in ("open", "optional"):
        assert status(anyone, name) == 200
        assert status(strict, name, headers={"Authorization": "Bearer nonsense"}) == 200


def paths_seen(running: Running, key: str) -> set[str]:
    with running.client(key) as client:
        return {entry["path"] for entry in client.get("/sandbox/requests").json()["data"]}


def test_the_key_of_a_workspace_opens_that_workspace(anyone: Running) -> None:
    key = anyone.new_workspace()
    for name, sent in ways(key).items():
        assert status(anyone, name, **sent) == 200
    seen = {path.partition("?")[0] for path in paths_seen(anyone, key)}
    assert seen == {f"/{name}" for name in ways("")}


def test_without_a_key_of_another_the_first_workspace_is_meant(anyone: Running) -> None:
    other = anyone.new_workspace()
    assert status(anyone, "bearer", headers={"Authorization": "Bearer first"}) == 200
    assert status(anyone, "open") == 200
    assert {"/bearer", "/open"} <= paths_seen(anyone, DEMO_KEY)
    assert paths_seen(anyone, other) == set()


@pytest.mark.parametrize("header", ["Authorization", "X-API-Key"])
def test_a_workspace_can_be_chosen_where_nothing_is_asked_for(
    anyone: Running, strict: Running, header: str
) -> None:
    for running in (anyone, strict):
        key = running.new_workspace()
        value = f"Bearer {key}" if header == "Authorization" else key
        assert status(running, "open", headers={header: value}) == 200
        assert paths_seen(running, key) == {"/open"}


def test_faults_meet_operations_without_security_too(anyone: Running) -> None:
    key = anyone.new_workspace()
    with anyone.client(key) as client:
        fault = {"operation": "bearer", "kind": "status", "status": 503}
        assert client.post("/sandbox/faults", json=fault).status_code == 201
        assert client.get("/bearer").status_code == 503


def test_the_control_endpoints_need_a_real_key(anyone: Running) -> None:
    assert status(anyone, "sandbox/clock", headers={"Authorization": "Bearer anything"}) == 401
    assert status(anyone, "sandbox/clock", headers={"Authorization": f"Bearer {DEMO_KEY}"}) == 200


def test_secrets_of_every_scheme_are_left_out_of_the_journal(anyone: Running) -> None:
    key = anyone.new_workspace()
    secret = "correct-horse-battery-staple"
    with anyone.client(None) as client:
        for name, sent in ways(secret).items():
            headers = {"X-API-Key": key, **sent.get("headers", {})}
            response = client.get(f"/{name}", headers=headers, params=sent.get("params"))
            assert response.status_code == 200
    with anyone.client(key) as client:
        journal = client.get("/sandbox/requests").text
    assert "/cookie" in journal
    assert secret not in journal
    assert base64.b64encode(secret.encode()).decode() not in journal


def test_a_key_counts_as_given_when_it_was_chosen() -> None:
    assert not read_settings({}).key_given
    assert read_settings({"key": OWN_KEY}).key_given
    assert read_settings({"key": DEMO_KEY}).key_given


def test_the_rate_limit_is_that_of_the_credential(contract: Path) -> None:
    with serving(replace(FROZEN, contract=contract, rate_limit=1)) as running:
        for expected in (200, 429):
            assert status(running, "bearer", headers={"Authorization": "Bearer a"}) == expected
        assert status(running, "bearer", headers={"Authorization": "Bearer b"}) == 200


def test_the_key_of_a_workspace_that_ended_opens_nothing(contract: Path) -> None:
    """It does not count as any credential of somebody unknown."""
    with serving(replace(FROZEN, contract=contract)) as running, running.client() as client:
        key = client.post("/sandbox/workspaces", json={}).json()["data"]["key"]
        sent = {"Authorization": f"Bearer {key}"}
        assert status(running, "bearer", headers=sent) == 200
        running.system_clock.pass_seconds(25 * 3600)
        assert status(running, "bearer", headers=sent) == 401


def test_the_demo_key_is_no_given_key_for_a_forwarded_request(contract: Path) -> None:
    settings = replace(FROZEN, contract=contract, key=DEMO_KEY, key_given=True)
    sent = {"Authorization": f"Bearer {DEMO_KEY}"}
    with serving(settings) as running:
        assert status(running, "bearer", headers=sent) == 200
        with running.client(None) as client:
            client.headers["X-Forwarded-For"] = "192.0.2.1"
            forwarded = client.get("/bearer", headers=sent)
            unknown = client.get("/bearer", headers={"Authorization": f"Bearer {new_key()}"})
    assert (forwarded.status_code, unknown.status_code) == (401, 401)
    assert "The demo key is public" in forwarded.text
    assert "unknown, revoked or expired" in unknown.text


def test_requests_without_a_credential_do_not_change_the_ids_of_others(contract: Path) -> None:
    ids = set()
    for visits in (0, 3):
        with serving(replace(FROZEN, contract=contract)) as running:
            for _ in range(visits):
                assert status(running, "optional") == 200
            with running.client() as client:
                ids.add(client.get("/bearer").headers["x-request-id"])
    assert len(ids) == 1


def schemes_for(*security: list[dict[str, list[str]]]) -> list[str]:
    """The names of the schemes by which a key is carried to operations with that security."""
    known = {name: compile_scheme(raw) for name, raw in SCHEMES.items()}
    names = {scheme: name for name, scheme in reversed(known.items())}
    return [names[one] for one in key_schemes(map(compile_security, security), known)]


@in_turn(
    ("security", "chosen"),
    [
        pytest.param([[]], [], id="none"),
        pytest.param([[{"header": []}, {"bearer": []}]], ["bearer"], id="bearer-first"),
        pytest.param([[{"cookie": []}, {"query": []}]], ["query"], id="cookie-last"),
        pytest.param([[{}, {"query": []}]], ["query"], id="optional"),
        pytest.param([[{"mtls": [], "query": []}]], ["query"], id="beside-a-certificate"),
        pytest.param(
            [[{"header": []}, {"query": []}], [{"query": []}]], ["header", "query"], id="each"
        ),
        pytest.param([[{"query": []}], [{"header": []}, {"query": []}]], ["query"], id="enough"),
        pytest.param([[{"basic": []}], [{"bearer": []}]], ["bearer"], id="one-authorization"),
        pytest.param(
            [[{"bearer": []}], [{"bearer": [], "header": []}]], ["bearer", "header"], id="more"
        ),
    ],
)
def test_a_key_is_carried_by_as_few_schemes_as_will_do(
    security: list[list[dict[str, list[str]]]], chosen: list[str]
) -> None:
    assert schemes_for(*security) == chosen
