"""Workspaces: made, listed, reset and deleted, and never aware of one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from invoice_sandbox.base.ids import new_key
from tests.cases import in_turn
from tests.scenario_run import (
    START,
    advance,
    agenda,
    choose,
    clock,
    data,
    error,
    make_workspace,
    move,
    new_invoice,
    now,
    register_new,
    set_clock,
    snapshot,
    status,
)
from tests.support import FROZEN, PATIENCE, Running, serving

DAY = 24 * 3600
UNAUTHENTICATED = (401, "authentication_required")
CONFLICT = (409, "invalid_request")
NOT_FOUND = (404, "resource_not_found")


@contextmanager
def inside(running: Running, maker: httpx.Client, **options: Any) -> Iterator[httpx.Client]:
    """A client in a new workspace that ``maker`` made."""
    with running.client(make_workspace(maker, **options)["key"]) as client:
        yield client


def listed(client: httpx.Client) -> list[str]:
    """The ids of the client's workspace and those made from it."""
    return [one["id"] for one in data(client.get("/sandbox/workspaces"))]


def current(client: httpx.Client) -> Any:
    """The client's own workspace as the control API shows it."""
    shown = data(client.get("/sandbox/workspaces"))
    (own,) = [one for one in shown if one["current"]]
    return own


def reset(client: httpx.Client) -> Any:
    return data(client.post("/sandbox/reset"), 200)


# Making


def test_a_workspace_is_as_it_was_asked_for(client: httpx.Client) -> None:
    made = make_workspace(
        client, seed=7, scenario="auto-progress", clock="frozen", now="2027-01-01T00:00:00Z"
    )
    made.pop("key")
    assert made.pop("id").startswith("wsp_sandbox_")
    assert made == {
        "seed": 7,
        "scenario": "auto-progress",
        "clock": {"mode": "frozen", "now": "2027-01-01T00:00:00Z", "nextDue": None},
        "keptIdleFor": "P1D",
        "current": False,
    }


def test_without_options_it_is_as_the_server_s(client: httpx.Client) -> None:
    for response in (
        client.post("/sandbox/workspaces"),
        client.post("/sandbox/workspaces", json={}),
    ):
        made = data(response, 201)
        assert (made["scenario"], made["clock"]["mode"], made["clock"]["now"]) == (
            "manual",
            "frozen",
            START,
        )


CLOCKS: dict[str, tuple[dict[str, Any], str, str]] = {
    "live": ({"clock": "live"}, "live", "2026-11-23T09:30:00Z"),
    "live from an instant": (
        {"clock": "live", "now": "2030-01-01T00:00:00Z"},
        "live",
        "2030-01-01T00:00:00Z",
    ),
    "an instant": ({"now": "2030-01-01T00:00:00Z"}, "frozen", "2030-01-01T00:00:00Z"),
    "long ago": ({"now": "0001-01-01T00:00:00Z"}, "frozen", "0001-01-01T00:00:00Z"),
    "at the end": ({"now": "9000-01-01T00:00:00Z"}, "frozen", "9000-01-01T00:00:00Z"),
}


@pytest.mark.parametrize(("options", "mode", "instant"), CLOCKS.values(), ids=CLOCKS)
def test_its_clock_begins_where_it_was_asked_to(
    options: dict[str, Any], mode: str, instant: str
) -> None:
    with serving() as running, running.client() as first:
        made = make_workspace(first, **options)
        assert (made["clock"]["mode"], made["clock"]["now"]) == (mode, instant)
        with running.client(made["key"]) as client:
            register_new(client)
            assert now(client) == instant


WRONG: dict[str, tuple[Any, int]] = {
    "an unknown scenario": ({"scenario": "auto"}, 400),
    "a seed below 0": ({"seed": -1}, 400),
    "a seed of 64 bits": ({"seed": 2**63}, 400),
    "a text as seed": ({"seed": "7"}, 400),
    "another clock": ({"clock": "slow"}, 400),
    "a date": ({"now": "2026-11-23"}, 400),
    "something else": ({"name": "mine"}, 400),
    "beyond the last year": ({"now": "9000-01-01T00:00:01Z"}, 409),
}


@in_turn(("body", "status"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_made_is_rejected_and_not_made(
    client: httpx.Client, body: Any, status: int
) -> None:
    response = client.post("/sandbox/workspaces", json=body)
    assert error(response) == (status, "invalid_request")
    assert len(listed(client)) == 1


def history(client: httpx.Client) -> list[str]:
    """Everything that a short scenario returns: bodies and request ids."""
    responses = [
        client.post("/api/invoices", json={**new_invoice(), "invoiceNumber": "SAME"}),
        client.get("/api/invoices"),
        client.get("/api/invoices/nothing"),
        client.post("/api/verification/run", json={}),
        client.post("/api/financing-requests", json={}),
        client.get("/api/audit-log"),
    ]
    return [f"{one.headers['X-Request-Id']} {one.text}" for one in responses]


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_the_same_seed_gives_the_same_ids(server: Running, client: httpx.Client, seed: int) -> None:
    reported = []
    for _ in range(2):
        with inside(server, client, seed=seed) as other:
            reported.append(history(other))
    assert reported[0] == reported[1]


def test_two_workspaces_of_one_seed_are_two(server: Running, client: httpx.Client) -> None:
    first, second = make_workspace(client, seed=7), make_workspace(client, seed=7)
    assert first["id"] != second["id"]
    assert first["key"] != second["key"]
    with server.client(first["key"]) as one, server.client(second["key"]) as two:
        invoice_id = register_new(one)
        assert two.get(f"/api/invoices/{invoice_id}").status_code == 404
        assert current(two)["id"] == second["id"]


def test_a_key_opens_its_own_workspace_only(server: Running, client: httpx.Client) -> None:
    with inside(server, client) as one, inside(server, client) as two:
        invoice_id = register_new(one)
        assert status(one, invoice_id) == "Registered"
        for other in (two, client):
            assert error(other.get(f"/api/invoices/{invoice_id}")) == NOT_FOUND


def test_the_key_of_a_workspace_holds_every_scope(server: Running, client: httpx.Client) -> None:
    with inside(server, client) as other:
        assert data(other.get("/api/developer/api-keys"))[0]["scopes"] == ["*"]
        data(other.post("/api/developer/api-keys", json={"scopes": ["sandbox:control"]}))


# Listing and deleting


def test_a_workspace_sees_itself_and_those_made_from_it(
    server: Running, client: httpx.Client
) -> None:
    own = current(client)["id"]
    child = make_workspace(client)
    with server.client(child["key"]) as inner, inside(server, client) as sibling:
        grandchild = make_workspace(inner)
        other = current(sibling)["id"]
        assert listed(client) == [grandchild["id"], other, child["id"], own]
        assert listed(inner) == [grandchild["id"], child["id"]]
        assert listed(sibling) == [other]
    with server.client(grandchild["key"]) as innermost:
        assert listed(innermost) == [grandchild["id"]]


def test_a_deleted_workspace_is_gone_with_its_keys(server: Running, client: httpx.Client) -> None:
    made = make_workspace(client)
    with server.client(made["key"]) as other:
        second = data(other.post("/api/developer/api-keys", json={}))["secret"]
        response = client.delete(f"/sandbox/workspaces/{made['id']}")
        assert data(response, 200) == {"id": made["id"], "deleted": True}
        assert error(other.get("/api/invoices")) == UNAUTHENTICATED
        assert error(other.get("/sandbox/clock")) == UNAUTHENTICATED
    with server.client(second) as other:
        assert error(other.get("/api/invoices")) == UNAUTHENTICATED
    assert made["id"] not in listed(client)
    assert error(client.delete(f"/sandbox/workspaces/{made['id']}")) == NOT_FOUND


def test_a_request_whose_workspace_is_deleted_meanwhile_is_401(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(workspace_id: str, _now: datetime) -> int:
        server.store.delete_workspace(workspace_id)
        return 1

    with server.client(server.new_workspace()) as client:
        monkeypatch.setattr(server.store, "note_request", delete)
        assert error(client.get("/api/invoices")) == UNAUTHENTICATED


def test_those_made_from_a_deleted_workspace_go_with_it(
    server: Running, client: httpx.Client
) -> None:
    child = make_workspace(client)
    with server.client(child["key"]) as inner:
        grandchild = make_workspace(inner)
    data(client.delete(f"/sandbox/workspaces/{child['id']}"), 200)
    for key in (child["key"], grandchild["key"]):
        with server.client(key) as other:
            assert error(other.get("/api/invoices")) == UNAUTHENTICATED
    assert len(listed(client)) == 1


def test_a_workspace_cannot_delete_itself(client: httpx.Client) -> None:
    own = current(client)["id"]
    assert error(client.delete(f"/sandbox/workspaces/{own}")) == CONFLICT
    assert listed(client) == [own]


FOREIGN: dict[str, Callable[[httpx.Client, httpx.Client], str]] = {
    "nothing": lambda _own, _other: "wsp_sandbox_unknown",
    "its maker": lambda _own, other: str(current(other)["id"]),
    "another of its maker's": lambda _own, other: str(make_workspace(other)["id"]),
}


@pytest.mark.parametrize("named", FOREIGN.values(), ids=FOREIGN)
def test_no_other_workspace_can_be_deleted(
    server: Running, client: httpx.Client, named: Callable[[httpx.Client, httpx.Client], str]
) -> None:
    with inside(server, client) as inner:
        wanted = named(inner, client)
        before = listed(client)
        assert error(inner.delete(f"/sandbox/workspaces/{wanted}")) == NOT_FOUND
        assert listed(client) == before


def test_a_seed_is_free_again_after_its_workspace_was_deleted(
    server: Running, client: httpx.Client
) -> None:
    first = make_workspace(client, seed=4711)
    data(client.delete(f"/sandbox/workspaces/{first['id']}"), 200)
    second = make_workspace(client, seed=4711)
    assert second["id"] == first["id"]
    with server.client(first["key"]) as old, server.client(second["key"]) as new:
        assert error(old.get("/api/invoices")) == UNAUTHENTICATED
        assert new.get("/api/invoices").status_code == 200


def test_a_server_holds_as_many_workspaces_as_it_may() -> None:
    with serving(replace(FROZEN, max_workspaces=3)) as running, running.client() as first:
        made = [make_workspace(first) for _ in range(2)]
        response = first.post("/sandbox/workspaces", json={})
        assert error(response) == CONFLICT
        assert "has 3 workspaces, which is its limit" in response.json()["error"]["message"]
        assert "--max-workspaces" in response.json()["error"]["message"]
        data(first.delete(f"/sandbox/workspaces/{made[0]['id']}"), 200)
        make_workspace(first)
        assert len(listed(first)) == 3


# Idleness


@pytest.fixture
def idle() -> Iterator[Running]:
    """A server on which a test may let days pass."""
    with serving(replace(FROZEN, max_workspaces=3)) as running:
        yield running


def test_a_workspace_that_nobody_uses_for_a_day_is_gone(idle: Running) -> None:
    with idle.client() as first, inside(idle, first) as client:
        idle.system_clock.pass_seconds(DAY - 1)
        assert client.get("/api/invoices").status_code == 200
        idle.system_clock.pass_seconds(DAY)
        assert error(client.get("/api/invoices")) == UNAUTHENTICATED


@pytest.mark.parametrize("path", ["/api/invoices", "/sandbox/clock", "/api/invoices/nothing"])
def test_use_keeps_a_workspace(idle: Running, path: str) -> None:
    with idle.client() as first, inside(idle, first) as client:
        invoice_id = register_new(client)
        for _ in range(5):
            idle.system_clock.pass_seconds(DAY - 1)
            client.get(path)
        assert status(client, invoice_id) == "Registered"


def test_the_first_workspace_is_never_gone(idle: Running) -> None:
    with idle.client() as first:
        invoice_id = register_new(first)
        idle.system_clock.pass_seconds(1000 * DAY)
        assert status(first, invoice_id) == "Registered"
        assert current(first)["keptIdleFor"] is None


def test_an_idle_workspace_makes_room_for_a_new_one(idle: Running) -> None:
    with idle.client() as first:
        old = [make_workspace(first)["id"] for _ in range(2)]
        assert first.post("/sandbox/workspaces").status_code == 409
        idle.system_clock.pass_seconds(DAY)
        new = make_workspace(first)["id"]
        assert listed(first)[0] == new
        assert not set(old) & set(listed(first))


def test_workspaces_may_be_kept_for_ever() -> None:
    settings = replace(FROZEN, workspace_idle=None)
    with (
        serving(settings) as running,
        running.client() as first,
        inside(running, first) as client,
    ):
        running.system_clock.pass_seconds(1000 * DAY)
        assert client.get("/api/invoices").status_code == 200
        assert current(client)["keptIdleFor"] is None


# Starting afresh


def test_a_reset_workspace_is_as_it_was_made(server: Running, client: httpx.Client) -> None:
    with inside(server, client, seed=12, scenario="auto-progress") as own:
        as_made = current(own)
        data(own.post("/sandbox/reset"))  # so that both scenarios begin with the second request
        first = history(own)
        register_new(own)
        advance(own, by="PT3S")
        choose(own, "manual")
        set_clock(own, mode="live")
        data(own.post("/sandbox/faults", json={"kind": "status", "count": None}))
        shown = reset(own)
        assert shown == {**as_made, "current": True}
        assert history(own) == first


def test_a_reset_takes_back_everything_that_was_made(server: Running, client: httpx.Client) -> None:
    with inside(server, client) as own:
        paths = (
            "/api/invoices",
            "/api/offers",
            "/api/financing-requests",
            "/api/audit-log",
            "/api/developer/api-keys",
            "/api/webhooks",
            "/sandbox/faults",
        )
        reset(own)
        before = [_lasting(data(own.get(path))) for path in paths]
        move(own, register_new(own), "start-verification", "verify", "request-financing")
        data(own.post("/api/webhooks", json={"url": "http://127.0.0.1:9/hook"}))
        data(own.post("/api/developer/api-keys", json={}))
        data(own.post("/sandbox/faults", json={"kind": "status", "operation": "login"}))
        reset(own)
        assert [_lasting(data(own.get(path))) for path in paths] == before


def _lasting(shown: Any) -> Any:
    """Without when a key was last used, which every request changes."""
    if isinstance(shown, list):
        return [{k: v for k, v in one.items() if k != "lastUsedAt"} for one in shown]
    return shown


def test_keys_and_sessions_that_were_made_are_gone_after_a_reset(
    server: Running, client: httpx.Client
) -> None:
    with inside(server, client) as own:
        key = data(own.post("/api/developer/api-keys", json={}))["secret"]
        login = {"email": "seller@demo.example", "password": "demo-password"}
        cookie = own.post("/api/auth/login", json=login).headers["Set-Cookie"].partition(";")[0]
        own.cookies.clear()
        reset(own)
        with server.client(key) as other, server.client(None) as browser:
            assert error(other.get("/api/invoices")) == UNAUTHENTICATED
            response = browser.get("/api/auth/session", headers={"Cookie": cookie})
            assert error(response) == UNAUTHENTICATED


def test_a_revoked_key_of_the_workspace_s_making_is_good_again_after_a_reset(
    server: Running, client: httpx.Client
) -> None:
    """Its own key cannot revoke itself, but another key can."""
    with inside(server, client) as own:
        (row,) = data(own.get("/api/developer/api-keys"))[:1]
        scopes = {"scopes": ["keys:write", "sandbox:control"]}
        other_key = data(own.post("/api/developer/api-keys", json=scopes))["secret"]
        with server.client(other_key) as other:
            data(other.delete("/api/developer/api-keys", params={"id": row["id"]}))
            assert error(own.get("/api/invoices")) == UNAUTHENTICATED
            assert error(other.post("/sandbox/reset")) == CONFLICT


def test_a_key_that_would_be_gone_cannot_reset(server: Running, client: httpx.Client) -> None:
    scopes = {"scopes": ["sandbox:control", "invoices:write"]}
    secret = data(client.post("/api/developer/api-keys", json=scopes))["secret"]
    invoice_id = register_new(client)
    with server.client(secret) as other:
        response = other.post("/sandbox/reset")
        assert error(response) == CONFLICT
        assert "the key that the workspace was created with" in response.json()["error"]["message"]
        assert status(other, invoice_id) == "Registered"


# Isolation


def _state(client: httpx.Client) -> Any:
    return [data(client.get(f"/api/{path}")) for path in ("invoices", "offers", "audit-log")]


def _journal(client: httpx.Client) -> Any:
    return data(client.get("/sandbox/requests"))


def _keys(client: httpx.Client) -> Any:
    return [one["id"] for one in data(client.get("/api/developer/api-keys"))]


def _webhooks(client: httpx.Client) -> Any:
    return data(client.get("/api/webhooks"))


def _control(path: str) -> Callable[[httpx.Client], Any]:
    return lambda client: data(client.get(f"/sandbox/{path}"))


def _repeat(client: httpx.Client) -> bool:
    """Whether a response to this key was kept here before."""
    body, key = {**new_invoice(), "invoiceNumber": "X"}, {"Idempotency-Key": "shared"}
    return "Idempotent-Replayed" in client.post("/api/invoices", json=body, headers=key).headers


SEPARATE: dict[str, tuple[Callable[[httpx.Client], Any], Callable[[httpx.Client], Any]]] = {
    "state": (lambda client: move(client, register_new(client), "start-verification"), _state),
    "scenario": (lambda client: choose(client, "auto-progress"), _control("scenarios")),
    "clock": (lambda client: advance(client, by="P1D"), clock),
    "mode of the clock": (lambda client: set_clock(client, mode="live"), clock),
    "agenda": (
        lambda client: (choose(client, "auto-progress"), register_new(client)),
        agenda,
    ),
    "faults": (
        lambda client: client.post("/sandbox/faults", json={"kind": "status"}),
        _control("faults"),
    ),
    "journal": (lambda client: client.get("/api/partners"), _journal),
    "keys": (lambda client: client.post("/api/developer/api-keys", json={}), _keys),
    "webhook endpoints": (
        lambda client: client.post("/api/webhooks", json={"url": "http://127.0.0.1:9/"}),
        _webhooks,
    ),
    "snapshots": (snapshot, _control("snapshots")),
    "workspaces": (make_workspace, _control("workspaces")),
}


@in_turn(("act", "look"), SEPARATE.values(), ids=SEPARATE)
def test_what_one_workspace_does_no_other_sees(
    server: Running,
    client: httpx.Client,
    act: Callable[[httpx.Client], Any],
    look: Callable[[httpx.Client], Any],
) -> None:
    with inside(server, client, seed=1) as one, inside(server, client, seed=1) as two:
        look(two)  # what looking leaves behind itself is there before
        before = _without_looks(look(two))
        act(one)
        assert _without_looks(look(two)) == before


def test_a_response_kept_for_a_key_is_replayed_only_where_it_was_given(
    server: Running, client: httpx.Client
) -> None:
    with inside(server, client) as one, inside(server, client) as two:
        assert [_repeat(one), _repeat(one), _repeat(two)] == [False, True, False]


def _without_looks(shown: Any) -> Any:
    """A journal without the requests that only looked at it."""
    if isinstance(shown, list) and shown and "why" in shown[0]:
        return [one for one in shown if one["operation"] != "listRequests"]
    return shown


def test_the_requests_of_one_workspace_leave_the_other_s_ids_alone(
    server: Running, client: httpx.Client
) -> None:
    with inside(server, client, seed=3) as alone:
        expected = history(alone)
    with inside(server, client, seed=3) as one, inside(server, client, seed=3) as two:
        mixed: list[str] = []
        with ThreadPoolExecutor(2) as pool:
            noise = pool.submit(lambda: [register_new(two) for _ in range(20)])
            mixed = history(one)
            noise.result(PATIENCE)
        assert mixed == expected


def test_every_workspace_has_rate_windows_of_its_own() -> None:
    settings = replace(FROZEN, rate_limit=3)
    with (
        serving(settings) as running,
        running.client() as first,
        inside(running, first) as one,
        inside(running, first) as two,
    ):
        assert [one.get("/api/invoices").status_code for _ in range(4)] == [200, 200, 200, 429]
        assert two.get("/api/invoices").status_code == 200
        assert data(one.get("/sandbox/clock"))  # a control endpoint is never limited


def test_a_snapshot_of_another_workspace_is_unknown(server: Running, client: httpx.Client) -> None:
    with inside(server, client, seed=5) as one, inside(server, client, seed=5) as two:
        taken = snapshot(one)
        assert error(two.post(f"/sandbox/snapshots/{taken}/restore")) == NOT_FOUND
        assert error(two.delete(f"/sandbox/snapshots/{taken}")) == NOT_FOUND


# Keys that only create workspaces


@pytest.fixture(name="maker")
def _maker(client: httpx.Client, server: Running) -> Iterator[httpx.Client]:
    """A client with a key of the first workspace that may create workspaces and nothing else."""
    with server.client(key_for(client)) as maker:
        yield maker


def key_for(client: httpx.Client) -> str:
    body = {"scopes": ["workspaces:create"]}
    return str(data(client.post("/api/developer/api-keys", json=body), 201)["secret"])


def test_a_key_that_creates_workspaces_lists_and_deletes_those_that_it_created(
    server: Running, client: httpx.Client, maker: httpx.Client
) -> None:
    others = [make_workspace(client)["id"], listed(client)[-1]]
    with server.client(key_for(client)) as another:
        others.append(make_workspace(another)["id"])
    own = make_workspace(maker)["id"]
    assert listed(maker) == [own]
    for one in others:
        assert maker.delete(f"/sandbox/workspaces/{one}").status_code in {404, 409}
    assert data(maker.delete(f"/sandbox/workspaces/{own}"), 200) == {"id": own, "deleted": True}
    assert listed(maker) == []
    assert set(others) <= set(listed(client))


def test_a_key_that_creates_workspaces_sees_no_seed(maker: httpx.Client) -> None:
    made = make_workspace(maker)
    assert "seed" not in made
    with_key = {"Authorization": f"Bearer {made['key']}"}
    assert all("seed" not in one for one in data(maker.get("/sandbox/workspaces")))
    [own] = data(maker.get("/sandbox/workspaces", headers=with_key))
    assert isinstance(own["seed"], int)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/sandbox/clock"), ("POST", "/sandbox/reset"), ("GET", "/api/invoices")],
)
def test_a_key_that_creates_workspaces_may_do_nothing_else(
    maker: httpx.Client, method: str, path: str
) -> None:
    assert maker.request(method, path).status_code == 403


def test_the_key_of_a_workspace_reaches_what_comes_from_it(
    server: Running, maker: httpx.Client
) -> None:
    made = make_workspace(maker)
    with server.client(made["key"]) as child:
        grandchild = make_workspace(child)["id"]
        assert listed(child) == [grandchild, made["id"]]
    assert listed(maker) == [made["id"]]
    data(maker.delete(f"/sandbox/workspaces/{made['id']}"), 200)
    with server.client() as first:
        assert grandchild not in listed(first)


def test_a_key_creates_as_many_workspaces_as_may_come_from_one() -> None:
    with (
        patch("invoice_sandbox.runtime.workspaces.MAX_CHILDREN", 2),
        serving() as running,
        running.client() as client,
    ):
        key = key_for(client)
        with running.client(key) as maker:
            made = [maker.post("/sandbox/workspaces").status_code for _ in range(3)]
            assert made == [201, 201, 429]
            assert maker.delete(f"/sandbox/workspaces/{listed(maker)[0]}").status_code == 200
            assert maker.post("/sandbox/workspaces").status_code == 201
        assert client.post("/sandbox/workspaces").status_code == 201


def signing_secret(client: httpx.Client) -> Any:
    hook = {"url": "https://partner.example/hooks"}
    return data(client.post("/api/webhooks", json=hook), 201)["secret"]


def test_no_seed_gives_a_signing_secret_of_a_server_that_others_reach() -> None:
    shared = replace(FROZEN, public_url="https://sandbox.example", key=new_key())
    secrets = []
    for _ in range(2):
        with serving(shared) as running, running.client(running.new_workspace(seed=7)) as client:
            client.base_url = httpx.URL(f"http://127.0.0.1:{running.port}")
            secrets.append(signing_secret(client))
    assert secrets[0] != secrets[1]


def test_on_this_machine_alone_the_same_seed_gives_the_same_signing_secret() -> None:
    secrets = []
    for _ in range(2):
        with serving() as running, running.client(running.new_workspace(seed=7)) as client:
            secrets.append(signing_secret(client))
    assert secrets[0] == secrets[1]
