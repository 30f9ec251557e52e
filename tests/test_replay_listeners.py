"""A bundle of a workspace with listeners replays the same, however each listener ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.ids import key_digest
from tests.receivers import deliveries, receiving, response, subscribe
from tests.scenario_run import INVOICE, advance, until
from tests.support import FROZEN, Running, serving
from tests.test_listen import listening, next_message, opened, report, streaming
from tests.test_replay_webhooks import LIVE, difference, saved

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def frozen() -> Iterator[Running]:
    """A server on whose clock no time passes."""
    with serving(FROZEN, real_time=True) as running:
        yield running


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A server on the clock of the machine."""
    with serving(LIVE, real_time=True) as running:
        yield running


@pytest.fixture(params=["frozen", "live"])
def server(request: pytest.FixtureRequest) -> Running:
    """Both, one after the other."""
    found: Running = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    """A client of a new workspace."""
    with server.client(server.new_workspace(seed=7)) as own:
        yield own


def heard(client: httpx.Client, **body: Any) -> Any:
    """A listener with an endpoint, as ``listen`` makes it."""
    listener = opened(client, **body)
    subscribe(client, listener["url"], events=["*"])
    return listener


def end(client: httpx.Client, listener: Any) -> None:
    """End a listener, as ``listen`` does at its end."""
    assert client.delete(f"/sandbox/listeners/{listener['id']}").status_code == 200


def token_of(client: httpx.Client) -> str:
    """A token that the client chooses itself, as ``listen`` does."""
    return key_digest(client.headers["Authorization"])


def register(client: httpx.Client) -> None:
    """An invoice, and the deliveries that follow."""
    client.post("/api/invoices", json=INVOICE, headers={"X-Sandbox-Scenario": "auto-progress"})
    advance(client, "PT2S")


def endpoints(client: httpx.Client) -> list[Any]:
    return list(client.get("/api/webhooks").json()["data"]["endpoints"])


def test_a_listener_that_ended(client: httpx.Client, tmp_path: Path) -> None:
    end(client, heard(client, token=token_of(client), endpoints=[]))
    assert difference(saved(client, tmp_path / "x.zip")) is None


def test_an_invoice_after_the_end(client: httpx.Client, tmp_path: Path) -> None:
    end(client, heard(client))
    register(client)
    assert deliveries(client) == []
    assert difference(saved(client, tmp_path / "x.zip")) is None


def test_deliveries_that_the_end_cancels(client: httpx.Client, tmp_path: Path) -> None:
    """No client is connected, so the first attempt fails and the endpoint waits for the next."""
    listener = heard(client)
    register(client)
    end(client, listener)
    assert {one["status"] for one in deliveries(client)} == {"Cancelled"}
    assert difference(saved(client, tmp_path / "x.zip")) is None


def test_deliveries_that_were_forwarded(client: httpx.Client, tmp_path: Path) -> None:
    """Two listeners get the same event, and respond differently; one ends."""
    first, second = heard(client), heard(client, token=token_of(client))
    with streaming(client, first) as lines, streaming(client, second) as others:
        client.post("/api/invoices", json=INVOICE)
        for listener, own, status in ((first, lines, 200), (second, others, 418)):
            number = next_message(own)["message"]
            assert report(client, listener, number, status=status).status_code == 200
    until(lambda: [one["attempt"] for one in deliveries(client)] == [1, 1], "both attempts")
    end(client, second)
    bundle = saved(client, tmp_path / "x.zip")
    assert sorted(one["status"] for one in bundle.lines("outcomes.ndjson")) == [200, 418]
    assert difference(bundle) is None


def test_a_listener_that_another_replaces(client: httpx.Client, tmp_path: Path) -> None:
    """The second ``listen`` for a receiver deletes the endpoint of the first one."""
    heard(client, token=token_of(client), endpoints=[])
    register(client)
    again = heard(client, token=token_of(client), endpoints=[])
    assert len(endpoints(client)) == 1
    register(client)
    end(client, again)
    assert endpoints(client) == []
    assert difference(saved(client, tmp_path / "x.zip")) is None


def test_a_listener_that_was_killed_and_stays(client: httpx.Client, tmp_path: Path) -> None:
    heard(client, token=token_of(client))
    register(client)
    assert difference(saved(client, tmp_path / "x.zip")) is None


def test_a_reset_and_a_snapshot(client: httpx.Client, tmp_path: Path) -> None:
    """They know other endpoints than the listener, which outlives them."""
    listener = heard(client)
    place = client.post("/sandbox/snapshots").json()["data"]["id"]
    client.post("/sandbox/reset", json={})
    subscribe(client, listener["url"], events=["*"])
    client.post(f"/sandbox/snapshots/{place}/restore", json={})
    end(client, listener)
    assert endpoints(client) == []
    assert difference(saved(client, tmp_path / "x.zip")) is None


def test_what_fails_because_of_others_is_not_sent_again(frozen: Running, tmp_path: Path) -> None:
    """A token of another workspace, and a listener that others have crowded out."""
    keys = frozen.new_workspace(), frozen.new_workspace(seed=7)
    with frozen.client(keys[0]) as other, frozen.client(keys[1]) as client:
        token = opened(other)["token"]
        assert client.post("/sandbox/listeners", json={"token": token}).status_code == 409
        made = [heard(client) for _ in range(17)]
        assert client.delete(f"/sandbox/listeners/{made[0]['id']}").status_code == 404
        end(client, made[1])
        assert len(endpoints(client)) == 16
        bundle = saved(client, tmp_path / "x.zip")
    assert difference(bundle) is None
    assert len(bundle.lines("inputs.ndjson")) == 17 * 2 + 2  # and what was read


def test_a_bundle_has_no_token_of_a_listener(client: httpx.Client, tmp_path: Path) -> None:
    """Whoever has one can send webhooks to the machine of the client."""
    listeners = [heard(client), heard(client, token=token_of(client))]
    unknown = listeners[0]["url"].replace(listeners[0]["token"], "x" * 40)
    subscribe(client, unknown, events=["*"])
    register(client)
    end(client, listeners[0])
    bundle = saved(client, tmp_path / "x.zip")
    everything = b"".join(bundle.parts.values()).decode()
    tokens = [*(one["token"] for one in listeners), "x" * 40]
    assert [one for one in tokens if one in everything] == []
    assert difference(bundle) is None


@pytest.mark.process
def test_the_command(frozen: Running, tmp_path: Path) -> None:
    """One is replaced, one is stopped while a retry waits, one is killed."""
    key = frozen.new_workspace(seed=7)
    with frozen.client(key) as client, receiving(response(503), response()) as receiver:
        words = (frozen.url, receiver.url, "--key", key)
        with listening(*words) as (first, _), listening(*words) as (second, _):
            first.expect("Another 'listen'")
            register(client)
            assert second.end(signal.SIGINT) == 0
        assert endpoints(client) == []
        with listening(*words) as (third, _):
            third.end(signal.SIGKILL)
        register(client)
        assert len(endpoints(client)) == 1
        assert difference(saved(client, tmp_path / "x.zip")) is None
