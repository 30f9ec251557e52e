"""Users of a workspace: added, disabled, logged in and out, on every store."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import psycopg
import pytest
from argon2 import low_level
from click.testing import CliRunner, Result

from domain.users import MAX_USERS
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli import main
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.settings import Postgresql, Settings
from invoice_sandbox.state import Transaction
from invoice_sandbox.state.credentials import DEMO_KEY, MAX_LISTED, open_session
from invoice_sandbox.state.passwords import (
    HASHES_PER_SERVER,
    HASHES_PER_WORKSPACE,
    SIDE_BY_SIDE,
    WRONG_PASSWORDS,
    Passwords,
    hash_password,
    is_password_hash,
    password_matches,
)
from tests.cases import in_turn
from tests.databases import new_database
from tests.scenario_run import INVOICE, error
from tests.support import FROZEN, PATIENCE, ManualSystemClock, Running, serving

LOGIN, SESSION, USERS, SESSIONS = (
    *("/api/auth/login", "/api/auth/session"),
    *("/sandbox/users", "/sandbox/sessions"),
)
PASSWORD = "correct horse battery"
ANN = {"email": "ann@corp.example", "password": PASSWORD, "role": "seller"}
BEN = {
    "email": "ben@alder.example",
    "password": PASSWORD,
    "role": "partner",
    "partnerId": "ptn_sandbox_alder",
}
REJECTED = (401, "authentication_required")


@dataclass(frozen=True)
class Place:
    """A store, with a server on it."""

    settings: Settings
    server: Running

    def key(self) -> str:
        """The key of a new workspace."""
        return self.server.new_workspace()


@pytest.fixture(
    scope="module",
    params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server on a store."""
    stores: dict[str, Any] = {
        "memory": lambda: None,
        "sqlite": lambda: tmp_path_factory.mktemp("users") / "state.db",
        "postgresql": lambda: Postgresql(new_database()),
    }
    settings = replace(FROZEN, store=stores[request.param](), rate_limit=None)
    with serving(settings) as server:
        yield Place(settings, server)


@pytest.fixture
def key(place: Place) -> str:
    """The key of a workspace of the test's own."""
    return place.key()


@pytest.fixture(scope="module", autouse=True)
def _cheap_hashes() -> Iterator[None]:
    """Passwords are hashed with less memory than their hashes say: 40 ms each add up."""
    real_hash, real_verify = low_level.hash_secret, low_level.verify_secret
    cheap: dict[bytes, bytes] = {}

    def hash_secret(secret: bytes, salt: bytes, time: int, memory: int, *rest: Any) -> bytes:
        made = real_hash(secret, salt, 1, 8, *rest)
        usual = made.replace(b"m=8,t=1", f"m={memory},t={time}".encode())
        cheap[usual] = made
        return usual

    def verify_secret(hashed: bytes, *rest: Any) -> bool:
        return real_verify(cheap.get(hashed, hashed), *rest)

    with (
        patch.object(low_level, "hash_secret", hash_secret),
        patch.object(low_level, "verify_secret", verify_secret),
    ):
        yield


@pytest.fixture
def client(place: Place, key: str) -> Iterator[httpx.Client]:
    """A client with the key of the workspace."""
    with place.server.client(key) as client:
        yield client


@contextmanager
def session(running: Running, login: httpx.Response) -> Iterator[httpx.Client]:
    """A client with the cookie of a login only."""
    assert login.status_code == 200, login.text
    (cookie,) = SimpleCookie(login.headers["Set-Cookie"]).values()
    with running.client(None) as client:
        client.headers["Cookie"] = f"{cookie.key}={cookie.value}"
        yield client


@contextmanager
def hashing_held(running: Running, count: int = SIDE_BY_SIDE) -> Iterator[Callable[[int], None]]:
    """While the block runs, other passwords have to wait. Yields what waits until so many do."""
    turns = running.sandbox.engine.hashing.turns

    async def hold() -> None:
        for _ in range(count):
            await turns.acquire()

    async def release() -> None:
        for _ in range(count):
            turns.release()

    async def wait(number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(vars(turns)["_waiters"] or ()) < number:  # noqa: ASYNC110 - no event shows it
                await asyncio.sleep(0.01)

    running.run(hold())
    try:
        yield lambda number: running.run(wait(number))
    finally:
        running.run(release())


def added(client: httpx.Client, user: Mapping[str, str] = ANN, **changed: str) -> dict[str, Any]:
    response = client.post(USERS, json={**user, **changed})
    assert response.status_code == 201, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


def log_in(client: httpx.Client, user: Mapping[str, str] = ANN, **changed: str) -> httpx.Response:
    names = ("email", "password")
    return client.post(LOGIN, json={name: {**user, **changed}[name] for name in names})


# Who may log in


def test_a_user_logs_in_with_the_password(place: Place, client: httpx.Client) -> None:
    user = added(client)
    login = log_in(client)
    with session(place.server, login) as browser:
        data = browser.get(SESSION).json()["data"]
    assert (data["user"]["id"], data["role"]) == (user["id"], "seller")
    assert (data["demo"], data["scopes"]) == (False, user["scopes"])


def test_a_user_belongs_to_one_workspace(place: Place, client: httpx.Client) -> None:
    added(client)
    with place.server.client(place.key()) as other:
        assert error(log_in(other)) == REJECTED
        assert ANN["email"] not in other.get(USERS).text
        added(other, password="another password")
        assert error(log_in(other)) == REJECTED
        with session(place.server, log_in(client)) as browser:
            own = browser.get(SESSION).json()["data"]["workspaceId"]
        assert own != other.get(SESSION).json()["data"]["workspaceId"]


WRONG = {
    "wrong password": {"password": "correct horse batteri"},
    "nobody": {"email": "nobody@corp.example"},
    "NUL": {"email": "ann@corp.example\0"},
    "a space": {"email": " ann@corp.example"},
    "another letter that looks the same": {"email": "\u0430nn@corp.example"},
    "200,000 characters": {"password": "x" * 200_000},
    "a hash": {"password": hash_password(PASSWORD)},
}


def test_every_failed_login_has_the_same_response(client: httpx.Client) -> None:
    added(client)
    added(client, BEN)
    client.post(f"{USERS}/{BEN['email']}/disable")
    failed = [log_in(client, {**ANN, **one}) for one in WRONG.values()]
    failed.append(log_in(client, BEN))
    messages = {one.json()["error"]["message"] for one in failed}
    assert {error(one) for one in failed} == {REJECTED}
    assert len(messages) == 1
    assert not any("Set-Cookie" in one.headers for one in failed)


def test_whoever_logs_in_a_password_is_compared_with_a_hash(
    place: Place, client: httpx.Client
) -> None:
    """So the time is the same for an address that nobody has, and for a disabled user."""
    added(client)
    added(client, BEN)
    client.post(f"{USERS}/{BEN['email']}/disable")
    emails = [ANN["email"], BEN["email"], "nobody@corp.example"]
    with ThreadPoolExecutor(3) as pool:
        with hashing_held(place.server) as waiting:
            logins = [pool.submit(log_in, client, email=email) for email in emails]
            waiting(3)
        assert [one.result().status_code for one in logins] == [200, 401, 401]


def test_a_password_that_is_changed_while_it_is_hashed_lets_nobody_in(
    place: Place, client: httpx.Client
) -> None:
    user, other = added(client), hash_password("another password")
    server = place.server

    def change(state: Transaction) -> None:
        kept = state.get("users", user["id"])
        assert kept is not None
        state.put("users", user["id"], {**kept, "passwordHash": other})

    with ThreadPoolExecutor(1) as pool:
        with hashing_held(server) as waiting:
            login = pool.submit(log_in, client)
            waiting(1)
            server.in_transaction(change, client)
        assert error(login.result()) == REJECTED
    assert log_in(client, password="another password").status_code == 200


def test_a_public_password_that_a_database_has_kept_lets_nobody_in(tmp_path: Path) -> None:
    """Earlier versions kept the demo users in each workspace."""
    with serving(replace(FROZEN, store=tmp_path / "state.db")) as running:

        def keep(state: Transaction) -> None:
            user = {"id": "usr_demo", "email": "d@demo.example", "password": "demo-password"}
            state.put("users", "usr_demo", {**user, "role": "demo_seller", "scopes": []})

        running.in_transaction(keep)
        with running.client() as client:
            assert error(log_in(client, user_of("d@demo.example", "demo-password"))) == REJECTED


def user_of(email: str, password: str) -> dict[str, str]:
    return {"email": email, "password": password}


def test_demo_users_exist_in_memory_only(place: Place, client: httpx.Client) -> None:
    demo = {"email": "seller@demo.example", "password": "demo-password"}
    users = {one["email"] for one in client.get(USERS).json()["data"]}
    if place.settings.store is None:
        assert demo["email"] in users
        assert log_in(client, demo).status_code == 200
    else:
        assert users == set()
        assert error(log_in(client, demo)) == REJECTED


# Adding and disabling


def test_a_list_of_users_has_no_password_and_no_hash(client: httpx.Client) -> None:
    user = added(client, displayName="Ann")
    listed = client.get(USERS)
    assert listed.json()["data"][0] == user
    assert user["displayName"] == "Ann"
    assert not {"password", "passwordHash"} & user.keys()
    assert "argon2" not in listed.text


INVALID = {
    "no password": {"password": None},
    "a short password": {"password": "1234567"},
    "a long password": {"password": "x" * 257},
    "no address": {"email": "ann"},
    "NUL": {"email": "a\0nn@corp.example"},
    "not ASCII": {"email": "\u0430nn@corp.example"},
    "two lines": {"email": "ann@corp.example\n"},
    "a long address": {"email": f"{'x' * 250}@corp.example"},
    "an unknown role": {"role": "admin"},
    "a partner without one": {"role": "partner"},
    "a seller with a partner": {"partnerId": "ptn_sandbox_alder"},
    "an auditor with a seller": {"role": "auditor", "sellerId": "org_seller_acme"},
    "scopes": {"scopes": ["*"]},
}


@in_turn("changed", INVALID.values(), ids=INVALID)
def test_an_invalid_user_is_400(server: Running, changed: dict[str, Any]) -> None:
    with server.client() as client:
        response = client.post(USERS, json={**ANN, **changed})
    assert error(response) == (400, "invalid_request")
    assert PASSWORD not in response.text


def test_an_unknown_partner_is_404_and_a_known_address_409(client: httpx.Client) -> None:
    assert error(client.post(USERS, json={**BEN, "partnerId": "ptn_x"}))[0] == 404
    added(client)
    assert error(client.post(USERS, json={**ANN, "email": "ANN@Corp.Example"}))[0] == 409


def test_of_many_that_add_the_same_user_at_once_one_does(client: httpx.Client) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: client.post(USERS, json=ANN).status_code, range(4)))
    assert sorted(found) == [201, 409, 409, 409]


def test_a_disabled_user_has_no_access_from_the_next_request_on(
    place: Place, client: httpx.Client
) -> None:
    user = added(client)
    login, again = log_in(client), log_in(client)
    with session(place.server, login) as first, session(place.server, again) as second:
        assert {first.get(SESSION).status_code, second.get(SESSION).status_code} == {200}
        disabled = client.post(f"{USERS}/{ANN['email'].upper()}/disable").json()["data"]
        assert (disabled["id"], disabled["status"]) == (user["id"], "Disabled")
        assert error(first.get(SESSION)) == error(second.get(SESSION)) == REJECTED
    with place.server.client() as visitor:
        assert error(log_in(visitor)) == REJECTED
    assert client.get(SESSIONS).json()["data"] == []
    assert client.post(f"{USERS}/{user['id']}/disable").json()["data"] == disabled


def test_an_unknown_user_cannot_be_disabled(client: httpx.Client) -> None:
    assert error(client.post(f"{USERS}/nobody@corp.example/disable"))[0] == 404


def test_a_disabled_user_can_be_added_again_with_another_password(client: httpx.Client) -> None:
    user = added(client)
    old = log_in(client)
    client.post(f"{USERS}/{user['id']}/disable")
    again = added(client, password="another password", role="auditor")
    assert (again["id"], again["role"], again["status"]) == (user["id"], "auditor", "Active")
    assert error(log_in(client)) == REJECTED
    assert log_in(client, password="another password").status_code == 200
    (cookie,) = SimpleCookie(old.headers["Set-Cookie"]).values()
    client.headers.pop("Authorization", None)
    client.cookies.clear()
    old_session = client.get(SESSION, headers={"Cookie": f"ils_session={cookie.value}"})
    assert error(old_session) == REJECTED


def test_a_login_that_began_before_its_user_was_disabled_fails(
    place: Place, client: httpx.Client
) -> None:
    user = added(client)
    with ThreadPoolExecutor(1) as pool:
        with hashing_held(place.server) as waiting:
            login = pool.submit(log_in, client)
            waiting(1)
            assert client.post(f"{USERS}/{user['id']}/disable").status_code == 200
        assert error(login.result()) == REJECTED
    assert client.get(SESSIONS).json()["data"] == []


def with_key_scope(running: Running, client: httpx.Client) -> dict[str, Any]:
    """Add a user who can make keys, as no role of the project can."""
    user = added(client)

    def change(state: Transaction) -> None:
        kept = state.get("users", user["id"]) or {}
        state.put("users", user["id"], {**kept, "scopes": ["keys:write"]})

    running.in_transaction(change, client)
    return user


def test_keys_that_a_user_made_are_revoked_with_the_user() -> None:
    with serving() as running, running.client() as client:
        user = with_key_scope(running, client)
        with session(running, log_in(client)) as browser:
            scopes = {"scopes": ["keys:write"]}
            made = browser.post("/api/developer/api-keys", json=scopes).json()["data"]
        with running.client(made["secret"]) as holder:
            chained = holder.post("/api/developer/api-keys", json={}).json()["data"]
        client.post("/sandbox/snapshots")
        client.post(f"{USERS}/{user['id']}/disable")
        (snapshot,) = client.get("/sandbox/snapshots").json()["data"]
        for path in (None, f"/sandbox/snapshots/{snapshot['id']}/restore"):
            assert path is None or client.post(path).status_code == 200
            for one in (made, chained):
                with running.client(one["secret"]) as holder:
                    assert error(holder.get(SESSION)) == REJECTED


def test_a_key_that_was_revoked_before_its_user_was_disabled_keeps_its_instant() -> None:
    keys = "/api/developer/api-keys"
    with serving() as running, running.client() as client:
        user = with_key_scope(running, client)
        with session(running, log_in(client)) as browser:
            made = browser.post(keys, json={"scopes": ["keys:write"]}).json()["data"]
        client.delete(keys, params={"id": made["id"]}).raise_for_status()
        client.post("/sandbox/clock/advance", json={"by": "P1D"}).raise_for_status()
        client.post(f"{USERS}/{user['id']}/disable").raise_for_status()
        (revoked,) = [one for one in client.get(keys).json()["data"] if one["id"] == made["id"]]
    assert (revoked["status"], revoked["revokedAt"]) == ("Revoked", "2026-11-23T09:30:00Z")


# Sessions


def test_sessions_are_listed_and_ended(place: Place, client: httpx.Client) -> None:
    user = added(client)
    logins = [log_in(client), log_in(client)]
    listed = client.get(SESSIONS).json()["data"]
    assert [one["user"]["id"] for one in listed] == [user["id"]] * 2
    assert {item["createdAt"] for item in listed} == {"2026-11-23T09:30:00Z"}
    secrets = [next(iter(SimpleCookie(one.headers["Set-Cookie"]).values())) for one in logins]
    assert not any(one.value in json.dumps(listed) for one in secrets)
    ended = client.delete(f"{SESSIONS}/{listed[1]['id']}").json()["data"]
    assert ended == listed[1]
    with (
        session(place.server, logins[0]) as first,
        session(place.server, logins[1]) as last,
    ):
        assert error(first.get(SESSION)) == REJECTED
        assert last.get(SESSION).status_code == 200
    assert error(client.delete(f"{SESSIONS}/{listed[1]['id']}"))[0] == 404


def test_a_list_of_sessions_is_limited(server: Running) -> None:
    with server.client(server.new_workspace()) as client:
        workspace = client.get(SESSION).json()["data"]["workspaceId"]

        def fill(state: Transaction) -> None:
            ends = datetime(2026, 12, 3, tzinfo=UTC)
            for number in range(MAX_LISTED + 1):
                open_session(
                    state,
                    workspace_id=workspace,
                    subject="usr_sandbox_seller",
                    scopes=[],
                    expires_at=ends - timedelta(seconds=number),
                )

        server.in_transaction(fill, client)
        listed = client.get(SESSIONS).json()["data"]
        assert len(listed) == MAX_LISTED
        assert listed[0]["expiresAt"] == "2026-12-03T00:00:00Z"
        last = listed[-1]["id"].removesuffix("1000") + "1001"
        assert client.delete(f"{SESSIONS}/{last}").status_code == 200


def test_sessions_and_users_of_another_workspace_cannot_be_reached(
    place: Place, client: httpx.Client
) -> None:
    user = added(client)
    login = log_in(client)
    (one,) = client.get(SESSIONS).json()["data"]
    with place.server.client(place.key()) as stranger:
        assert error(stranger.delete(f"{SESSIONS}/{one['id']}"))[0] == 404
        assert error(stranger.post(f"{USERS}/{user['id']}/disable"))[0] == 404
        assert stranger.get(SESSIONS).json()["data"] == []
    with session(place.server, login) as browser:
        assert browser.get(SESSION).status_code == 200


@pytest.mark.parametrize("role", ["seller", "partner", "auditor"])
def test_no_role_may_see_or_change_users_and_sessions(server: Running, role: str) -> None:
    with server.client(server.new_workspace()) as client:
        user = BEN if role == "partner" else {**ANN, "role": role}
        added(client, user)
        with session(server, log_in(client, user)) as browser:
            for method, path in (
                *(("GET", USERS), ("POST", USERS), ("GET", SESSIONS)),
                *(("DELETE", f"{SESSIONS}/x"), ("POST", f"{USERS}/x/disable")),
            ):
                assert browser.request(method, path).status_code in {401, 403}


# Resets and restarts


def test_a_reset_leaves_users_as_they_are_and_ends_later_sessions(
    place: Place, client: httpx.Client
) -> None:
    user = added(client)
    kept, ended = log_in(client), log_in(client)
    snapshot = client.post("/sandbox/snapshots").json()["data"]["id"]
    later = added(client, BEN)
    newest = log_in(client, BEN)
    with session(place.server, ended) as browser:
        browser.post("/api/auth/logout")
    for path, status in ((f"/sandbox/snapshots/{snapshot}/restore", 200), ("/sandbox/reset", 401)):
        assert client.post(path).status_code == 200
        assert {one["id"] for one in client.get(USERS).json()["data"]} >= {user["id"], later["id"]}
        for login, expected in ((kept, status), (newest, 401), (ended, 401)):
            with session(place.server, login) as browser:
                assert browser.get(SESSION).status_code == expected
        log_in(client, BEN)
        ids = [one["id"] for one in client.get(SESSIONS).json()["data"]]
        assert len(ids) == len(set(ids)) == (2 if status == 200 else 1)
    fresh = added(client, email="cat@corp.example")
    assert fresh["id"] not in {user["id"], later["id"]}


def test_a_reset_lets_nobody_in_who_was_disabled(place: Place, client: httpx.Client) -> None:
    added(client)
    login = log_in(client)
    snapshot = client.post("/sandbox/snapshots").json()["data"]["id"]
    client.post(f"{USERS}/{ANN['email']}/disable")
    for path in (f"/sandbox/snapshots/{snapshot}/restore", "/sandbox/reset"):
        client.post(path)
        assert error(log_in(client)) == REJECTED
        with session(place.server, login) as browser:
            assert error(browser.get(SESSION)) == REJECTED


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def test_users_and_sessions_outlive_the_process_and_a_reset_before_it(
    kind: str, tmp_path: Path
) -> None:
    store = tmp_path / "state.db" if kind == "sqlite" else Postgresql(new_database())
    settings = replace(FROZEN, store=store)
    with serving(settings) as running, running.client() as client:
        added(client)
        added(client, BEN)
        login, ended = log_in(client), log_in(client, BEN)
        client.post("/sandbox/snapshots")
        client.post(f"{USERS}/{BEN['email']}/disable")
        newest = log_in(client)
        snapshot = client.get("/sandbox/snapshots").json()["data"][0]["id"]
        client.post(f"/sandbox/snapshots/{snapshot}/restore")
    with serving(settings) as running, running.client() as client:
        assert [one["status"] for one in client.get(USERS).json()["data"]] == ["Disabled", "Active"]
        for one, status in ((login, 200), (newest, 401), (ended, 401)):
            with session(running, one) as browser:
                assert browser.get(SESSION).status_code == status
        assert log_in(client).status_code == 200
        assert error(log_in(client, BEN)) == REJECTED


# What a user is bound to


def test_a_seller_s_user_sees_and_does_what_is_that_seller_s(place: Place) -> None:
    with place.server.client(place.key()) as client:
        added(client, sellerId="org_seller_acme")
        own = client.post("/api/invoices", json=INVOICE).json()["data"]
        body = {**INVOICE, "sellerId": "org_seller_hooli", "invoiceNumber": "H-1"}
        other = client.post("/api/invoices", json=body).json()["data"]
        newest = client.post("/api/invoices", json={**body, "invoiceNumber": "H-2"}).json()["data"]
        for one in (own, other, newest):
            client.post("/api/verification/run", json={"invoiceId": one["id"]})
        hidden = client.post("/api/financing-requests", json={"invoiceId": other["id"]})
        client.post("/api/offers", json={"financingRequestId": hidden.json()["data"]["id"]})
        with session(place.server, log_in(client)) as seller:
            listed = seller.get("/api/invoices").json()["data"]
            assert own["id"] in {one["id"] for one in listed}
            assert {one["sellerId"] for one in listed} == {"org_seller_acme"}
            ids = {one["id"] for one in listed}
            assert error(seller.get(f"/api/invoices/{other['id']}"))[0] == 404
            assert error(seller.post("/api/invoices", json=body)) == (403, "invalid_request")
            for path in ("/api/verification/run", "/api/financing-requests"):
                assert error(seller.post(path, json={"invoiceId": other["id"]}))[0] == 404
            made = seller.post("/api/financing-requests", json={}).json()["data"]
            assert made["invoiceIds"] == [own["id"]]
            requests = seller.get("/api/financing-requests").json()["data"]
            assert made["id"] in {one["id"] for one in requests}
            assert all(ids.issuperset(one["invoiceIds"]) for one in requests)
            offers = seller.get("/api/offers").json()["data"]
            assert ids.issuperset(one["invoiceId"] for one in offers)
            upload = seller.post(
                "/api/storage/invoices/upload-url", json={"invoiceId": other["id"]}
            )
            assert other["id"] not in upload.text
            for path in ("/api/webhooks", "/api/audit-log", "/sandbox/requests"):
                assert seller.get(path).status_code in {401, 403}


def test_a_seller_s_user_sees_no_request_with_an_invoice_of_another(place: Place) -> None:
    with place.server.client(place.key()) as client:
        added(client, sellerId="org_seller_acme")
        sellers = ("org_seller_acme", "org_seller_hooli")
        invoices = [
            client.post("/api/invoices", json={**INVOICE, "sellerId": one, "invoiceNumber": one})
            for one in sellers
        ]
        ids = [one.json()["data"]["id"] for one in invoices]
        for one in ids:
            client.post("/api/verification/run", json={"invoiceId": one})
        shared = client.post("/api/financing-requests", json={"invoiceIds": ids}).json()["data"]
        assert shared["invoiceIds"] == ids
        with session(place.server, log_in(client)) as seller:
            requests = seller.get("/api/financing-requests").json()["data"]
            assert shared["id"] not in {one["id"] for one in requests}
            assert error(seller.get(f"/api/financing-requests/{shared['id']}"))[0] == 404


def test_a_partner_s_user_sees_the_partner_s_only(client: httpx.Client, place: Place) -> None:
    added(client, BEN)
    with session(place.server, log_in(client, BEN)) as partner:
        assert partner.get(SESSION).json()["data"]["partnerId"] == "ptn_sandbox_alder"
        offers = partner.get("/api/offers").json()["data"]
        assert {one["partnerId"] for one in offers} <= {"ptn_sandbox_alder"}


# Secrets


def test_no_password_and_no_hash_is_in_journal_errors_bundle_or_log(
    client: httpx.Client, key: str, place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    header = {"Idempotency-Key": "once"}
    client.post(USERS, json=ANN, headers=header)
    client.post(USERS, json=ANN, headers=header)
    client.post(LOGIN, json=ANN, headers=header)
    client.post(LOGIN, json={**ANN, "password": f"{PASSWORD}!"}, headers=header)
    client.post(USERS, json={**BEN, "role": PASSWORD})
    client.post("/sandbox/snapshots")
    file = tmp_path / "users.zip"
    save_bundle(ControlClient(place.server.url, key), file)
    bundle = read_bundle(file)
    texts = [
        *(client.get(path).text for path in ("/sandbox/requests", "/sandbox/recording")),
        *(bundle.parts[name].decode() for name in bundle.parts),
        caplog.text,
    ]
    digests = ("argon2", "passwordHash")
    assert not any(one in text for text in texts for one in (PASSWORD, *digests))


def test_the_database_has_the_password_as_one_hash_only(tmp_path: Path) -> None:
    """Not as a digest of a request with an Idempotency-Key either, which is quickly guessed."""
    file = tmp_path / "state.db"
    with serving(replace(FROZEN, store=file)) as running, running.client() as client:
        header = {"Idempotency-Key": "once"}
        client.post(USERS, json=ANN, headers=header)
        client.post(LOGIN, json=ANN, headers=header)
        client.post("/sandbox/snapshots")
    with sqlite3.connect(file) as database:
        rows = database.execute("SELECT state, collection, content FROM record").fetchall()
    database.close()
    assert not any(PASSWORD in str(content) for *_, content in rows)
    hashed = [(state, name) for state, name, content in rows if "argon2" in str(content)]
    assert hashed == [("", "users")]
    assert not any(name == "idempotent_requests" for _, name, _ in rows)


@pytest.mark.postgresql
def test_no_other_workspace_reads_the_users(place: Place) -> None:
    """Users are rows under the policies of their workspace."""
    if not isinstance(place.settings.store, Postgresql):
        return
    with place.server.client(place.key()) as client:
        added(client)
        own = client.get("/sandbox/workspaces").json()["data"]
    me = next(one["id"] for one in own if one["current"])
    for workspace, count in ((me, 1), ("wsp_other", 0)):
        with psycopg.connect(place.settings.store.dsn, autocommit=True) as connection:
            connection.execute("SET ROLE invoice_sandbox_server")
            connection.execute(
                "SELECT set_config('invoice_sandbox.workspace', %s, false)", (workspace,)
            )
            found = connection.execute(
                "SELECT count(*) FROM invoice_sandbox.record "
                "WHERE collection = 'users' AND state = ''"
            ).fetchone()
        assert found == (count,)


# Limits


def test_wrong_passwords_are_limited_for_an_address_and_right_ones_are_not() -> None:
    with serving(replace(FROZEN, rate_limit=None)) as running, running.client() as client:
        added(client)
        for _ in range(3):
            assert log_in(client).status_code == 200
        for _ in range(WRONG_PASSWORDS):
            assert log_in(client, password="wrong password").status_code == 401
        for email in (ANN["email"], ANN["email"].upper()):
            response = log_in(client, email=email)
            assert error(response) == (429, "rate_limit_exceeded")
            assert int(response.headers["Retry-After"]) > 0
        assert error(log_in(client, email="nobody@corp.example")) == REJECTED
        running.system_clock.pass_seconds(60)
        assert log_in(client).status_code == 200


def test_added_users_count_as_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invoice_sandbox.state.passwords.HASHES_PER_WORKSPACE", 1)
    with serving(replace(FROZEN, rate_limit=None)) as running, running.client() as client:
        added(client)
        response = client.post(USERS, json={**ANN, "email": "ben@corp.example"})
        assert error(response) == (429, "rate_limit_exceeded")
        addresses = [one["email"] for one in client.get(USERS).json()["data"]]
        assert "ann@corp.example" in addresses
        assert "ben@corp.example" not in addresses


def test_passwords_are_limited_for_a_workspace_and_for_a_server() -> None:
    async def run() -> None:
        clock = ManualSystemClock()
        passwords = Passwords(clock, with_public=False)
        for number in range(HASHES_PER_WORKSPACE):
            passwords.attempt("wsp_1", f"192.0.2.{number % 3}", f"{number}@corp.example")
        with pytest.raises(ApiError):
            passwords.count("wsp_1")
        for number in range(HASHES_PER_SERVER - HASHES_PER_WORKSPACE):
            passwords.count(f"wsp_{number % 5 + 2}")
        with pytest.raises(ApiError):
            passwords.count("wsp_9")
        clock.pass_seconds(60)
        passwords.count("wsp_1")

    asyncio.run(run())


def test_users_of_a_workspace_are_limited(server: Running) -> None:
    with server.client(server.new_workspace()) as client:

        def fill(state: Transaction) -> None:
            for number in range(MAX_USERS - state.count("users")):
                user = {"email": f"{number}@corp.example", "role": "seller", "scopes": []}
                state.put("users", f"usr_{number}", user)

        server.in_transaction(fill, client)
        response = client.post(USERS, json=BEN)
        assert (response.status_code, f"{MAX_USERS:,} users" in response.text) == (409, True)


def test_two_passwords_are_hashed_at_a_time_and_other_requests_go_on(
    place: Place, client: httpx.Client
) -> None:
    added(client)
    server = place.server
    with hashing_held(server, SIDE_BY_SIDE - 1):
        assert log_in(client).status_code == 200
    with ThreadPoolExecutor(1) as pool:
        with hashing_held(server) as waiting:
            login = pool.submit(log_in, client)
            waiting(1)
            assert client.post("/api/invoices", json=INVOICE).status_code == 201
        assert login.result().status_code == 200


# The commands


def run(line: str, server: Running, key: str, typed: str = f"{PASSWORD}\n") -> Result:
    env = {"INVOICE_SANDBOX_URL": server.url, "INVOICE_SANDBOX_KEY": key}
    return CliRunner().invoke(main, line.split(), env=env, input=typed)


def test_a_password_is_read_from_the_input_and_is_no_option(server: Running) -> None:
    key = server.new_workspace()
    made = run("users add Ann@corp.example --role seller", server, key)
    assert (made.exit_code, "ann@corp.example" in made.stdout) == (0, True)
    assert PASSWORD not in made.output
    with server.client(key) as client:
        assert log_in(client).status_code == 200
    for line, typed, status, reason in (
        ("users add x@corp.example --role seller --password x", "", 2, "No such option"),
        ("users add x@corp.example --role seller", "\n", 2, "the password is empty"),
        (
            "users add x@corp.example --role seller",
            "short\n",
            1,
            "password must have at least 8 characters. The contract is at http",
        ),
        (
            "users add x@corp.example --role partner",
            f"{PASSWORD}\n",
            1,
            "partnerId is required. The contract is at http",
        ),
        ("users add x --role seller", f"{PASSWORD}\n", 1, "email must look like ann@corp.ex"),
        ("users ad x@corp.example", "", 2, "there is no command 'ad'; did you mean add?"),
        ("users add ann@corp.example --role seller", f"{PASSWORD}\n", 1, "exists already"),
        ("users add x@corp.example --role admin", f"{PASSWORD}\n", 2, "'admin' is not one of"),
        (
            "users disable x@corp.example",
            "",
            1,
            "There is no user with this id or e-mail address. Check 'x@corp.example', and",
        ),
        ("session revoke ses_x", "", 1, "There is no session"),
    ):
        failed = run(line, server, key, typed)
        assert (failed.exit_code, failed.stdout) == (status, "")
        assert reason in failed.stderr
        assert typed.strip() == "" or repr(typed.strip()) not in failed.stderr


def test_a_workspace_without_users_says_how_to_add_one(tmp_path: Path) -> None:
    with serving(replace(FROZEN, store=tmp_path / "state.db")) as running:
        listed = run("users list", running, DEMO_KEY)
        assert listed.stdout.strip() == (
            "No users. Add one with 'invoice-sandbox users add EMAIL --role ROLE'."
        )
        assert running.sandbox.engine.lacks_users


def test_a_hash_is_argon2_with_the_parameters_of_owasp() -> None:
    made = hash_password(PASSWORD)
    assert made.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert is_password_hash(made)
    costly = made.replace("m=19456", "m=1048576")
    assert not is_password_hash(costly)
    assert password_matches(PASSWORD, made)
    assert not any(password_matches(PASSWORD, one) for one in (costly, "", PASSWORD))
