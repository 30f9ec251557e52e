"""Two server processes on one PostgreSQL database: they behave as one.

Each test has a workspace of its own, which the first process runs; ``there`` is the same workspace
through the other one.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import httpx
import psycopg
import pytest

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.chaos.servers import Server
from tests.databases import new_database
from tests.receivers import Receiver, held, receiving, response, subscribe
from tests.scenario_run import DATED, advance, data, now, set_clock, until
from tests.support import PATIENCE

pytestmark = pytest.mark.process

RATE: Final = 150


class Two(NamedTuple):
    """Two processes, and their database."""

    one: Server
    two: Server
    dsn: str

    def workspace(self, **options: Any) -> str:
        """The key of a new workspace, which no process runs yet."""
        with client(self.one, DEMO_KEY) as maker:
            body = {"clock": "frozen", "scenario": "manual", **options}
            return str(data(maker.post("/sandbox/workspaces", json=body))["key"])


class Both(NamedTuple):
    """A workspace through the process that runs it, and through the other one."""

    here: httpx.Client
    there: httpx.Client


def client(server: Server, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    url = f"http://127.0.0.1:{server.port}"
    return httpx.Client(base_url=url, headers=headers, timeout=PATIENCE)


@contextmanager
def started(dsn: str) -> Iterator[Server]:
    """One more process on the database."""
    server = Server(dsn, "--rate-limit", str(RATE))
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    dsn = new_database()
    with started(dsn) as one, started(dsn) as other:
        both = Two(one, other, dsn)
        until(lambda: is_let_go(both), "the processes know each other")
        yield both


def is_let_go(both: Two) -> bool:
    """Whether a new workspace is left to the process of its first request."""
    both.workspace()
    return None in owners(both.dsn)


@pytest.fixture
def both(two: Two) -> Iterator[Both]:
    key = two.workspace()
    with client(two.one, key) as here, client(two.two, key) as there:
        here.get("/sandbox/clock").raise_for_status()
        yield Both(here, there)


def owners(dsn: str) -> Counter[int | None]:
    """How many families each replica runs."""
    query = "SELECT owner FROM invoice_sandbox.workspaces WHERE workspace = family AND position > 0"
    with psycopg.connect(dsn) as connection:
        return Counter(owner for (owner,) in connection.execute(query))


def create(workspace: httpx.Client, number: str = "INV-1", **headers: str) -> httpx.Response:
    invoice = {**DATED, "invoiceNumber": number}
    return workspace.post("/api/invoices", json=invoice, headers=headers)


# --- they behave as one


@pytest.mark.parametrize("revoked_by", ["here", "there"])
def test_a_revoked_key_is_rejected_by_both_from_the_next_request_on(
    two: Two, both: Both, revoked_by: str
) -> None:
    key = data(both.there.post("/api/developer/api-keys", json={"name": "ci"}))
    with client(two.one, key["secret"]) as one, client(two.two, key["secret"]) as other:
        assert [each.get("/api/invoices").status_code for each in (one, other)] == [200, 200]
        revoking: httpx.Client = getattr(both, revoked_by)
        revoking.delete("/api/developer/api-keys", params={"id": key["id"]}).raise_for_status()
        assert [each.get("/api/invoices").status_code for each in (other, one)] == [401, 401]


def test_an_idempotency_key_holds_in_both(both: Both) -> None:
    first = create(both.here, **{"Idempotency-Key": "k"})
    again = create(both.there, **{"Idempotency-Key": "k"})
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    first = create(both.there, "INV-2", **{"Idempotency-Key": "l"})
    assert create(both.here, "INV-2", **{"Idempotency-Key": "l"}).content == first.content


def test_requests_with_one_key_through_both_at_a_time_are_carried_out_once(both: Both) -> None:
    slow = {"operation": "createInvoice", "kind": "latency", "delay": "PT0.2S", "when": "after"}
    both.here.post("/sandbox/faults", json=slow).raise_for_status()
    with ThreadPoolExecutor(8) as threads:
        sent = [
            threads.submit(create, each, **{"Idempotency-Key": "k"}) for each in (*both, *both) * 2
        ]
        found = [one.result() for one in sent]
    assert {one.status_code for one in found} <= {201, 409}
    assert len({data(one)["id"] for one in found if one.status_code == 201}) == 1
    numbers = [one["invoiceNumber"] for one in data(both.there.get("/api/invoices"))]
    assert numbers.count("INV-1") == 1


def test_the_rate_window_of_a_key_is_one(both: Both) -> None:
    found = [both[turn % 2].get("/api/invoices").status_code for turn in range(RATE + 4)]
    assert found == [200] * RATE + [429] * 4


def test_the_clock_is_that_of_the_workspace(both: Both) -> None:
    before = now(both.there)
    moved = advance(both.there, "P1D")
    assert now(both.here) == now(both.there) == moved["now"] > before
    set_clock(both.there, mode="live")
    assert data(both.here.get("/sandbox/clock"))["mode"] == "live"


def test_each_due_step_happens_once_though_both_move_the_clock(two: Two) -> None:
    key = two.workspace(scenario="auto-progress")
    with receiving() as receiver, client(two.one, key) as one, client(two.two, key) as other:
        subscribe(one, receiver.url, events=["*"])
        made = [data(create(one, f"INV-{number}"))["id"] for number in range(5)]
        with ThreadPoolExecutor(8) as threads:
            moves = [threads.submit(advance, each, "PT1S") for each in [one, other] * 8]
            assert [move.result()["mode"] for move in moves] == ["frozen"] * 16
        events = [message.event for message in receiver.messages]
        happened = Counter((event["type"], event["data"].get("id")) for event in events)
        expected = [
            (kind, one) for kind in ("invoice.registered", "invoice.verified") for one in made
        ]
        assert [happened[one] for one in expected] == [1] * 10
        assert receiver.kinds().count("offer.received") == 5
        assert len(set(receiver.ids())) == len(events)


def test_an_advance_returns_when_what_it_made_due_was_delivered(two: Two) -> None:
    key = two.workspace(scenario="auto-progress")
    with receiving(response(delay=0.1)) as receiver, client(two.one, key) as here:
        subscribe(here, receiver.url, events=["*"])
        create(here).raise_for_status()
        with client(two.two, key) as there:
            moved = advance(there, "PT10S")
            assert {"invoice.registered", "invoice.verified", "offer.received"} <= set(
                receiver.kinds()
            )
            assert "pending" not in moved


def test_journal_and_inbox_are_the_same_through_both(both: Both) -> None:
    url = data(both.there.get("/sandbox/inbox"))["url"]
    subscribe(both.there, url, events=["*"])
    create(both.there).raise_for_status()
    until(lambda: bool(messages(both.there)), "it was delivered")
    assert messages(both.here) == messages(both.there)
    found = [data(each.get("/sandbox/requests")) for each in both]
    assert found[0] == found[1]
    assert [one["path"] for one in found[0]] == ["/api/invoices", "/api/webhooks"]


def messages(workspace: httpx.Client) -> Any:
    """What the inbox has received."""
    return data(workspace.get("/sandbox/inbox"))["messages"]


def test_processes_that_were_replaced_begin_again_and_respond(two: Two, both: Both) -> None:
    """Each request, though the tasks of connections know what their process was at its start."""
    with psycopg.connect(two.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM invoice_sandbox.replicas")
        count = "SELECT FROM invoice_sandbox.replicas"
        until(lambda: connection.execute(count).rowcount == 2, "both are registered again")
    for workspace in both:
        until(partial(is_created, workspace), "it responds")


def is_created(workspace: httpx.Client) -> bool:
    return create(workspace).is_success


# --- what is due in a workspace that no process runs


def test_due_workspaces_that_nobody_runs_are_shared_out(two: Two) -> None:
    """A process that stands still gets none, so it is tried again with others."""
    for _ in range(20):
        for _ in range(12):
            two.workspace()
        before = owners(two.dsn)
        with psycopg.connect(two.dsn, autocommit=True) as connection:
            connection.execute(
                "UPDATE invoice_sandbox.workspaces SET due = extract(epoch FROM clock_timestamp()) "
                "WHERE owner IS NULL AND workspace = family"
            )
        until(lambda: not owners(two.dsn)[None], "they are taken")
        found = owners(two.dsn) - before
        if len(found) == 2 and min(found.values()) >= 4:
            return
    raise AssertionError(found)


def test_steps_that_are_due_after_a_server_has_stopped_happen_once_without_a_request(
    two: Two,
) -> None:
    with receiving() as receiver, started(two.dsn) as third:
        with client(third, two.workspace(scenario="auto-progress")) as workspace:
            subscribe(workspace, receiver.url, events=["*"])
            invoice = data(create(workspace))["id"]
            set_clock(workspace, mode="live")
        third.process.send_signal(signal.SIGTERM)
        third.process.wait(PATIENCE)
        until(lambda: "offer.received" in receiver.kinds(), "the last step has happened")
        found = [one.event["type"] for one in receiver.messages if invoice in one.body.decode()]
        expected = ["invoice.registered", "invoice.verified", "offer.received"]
        assert [one for one in found if one in expected] == expected
        assert len(receiver.ids()) == len(set(receiver.ids()))


def test_a_server_that_is_stopped_while_idle_has_given_up_its_workspaces_when_it_ends(
    two: Two,
) -> None:
    """Nothing is due in them, and nobody waits for its lease to end."""
    with started(two.dsn) as third:
        key, before = two.workspace(), owners(two.dsn)
        with client(third, key) as workspace:
            create(workspace).raise_for_status()
        ((own, count),) = (owners(two.dsn) - before).items()
        assert (own in before, count) == (False, 1), "it runs the workspace, and no other one"
        third.process.send_signal(signal.SIGTERM)
        assert third.process.wait(PATIENCE) == 0
        assert own not in owners(two.dsn)
        with client(two.two, key) as workspace:
            assert create(workspace, "INV-2").status_code == 201


@pytest.mark.slow
def test_deliveries_of_a_server_that_is_killed_come_again_with_their_ids_in_order(
    two: Two,
) -> None:
    """Without a request: the other servers notice when its lease is over."""
    gate = threading.Event()
    with receiving(held(gate, response(204))) as receiver, started(two.dsn) as third:
        with client(third, two.workspace()) as workspace:
            subscribe(workspace, receiver.url, events=["invoice.registered"])
            numbers = [f"INV-{number}" for number in range(4)]
            for number in numbers:
                create(workspace, number).raise_for_status()
            until(lambda: len(receiver.messages) == 1, "the first one is under way")
        third.kill()
        gate.set()
        until(lambda: len(set(receiver.ids())) == 4, "all have come")
        assert receiver.ids()[0] == receiver.ids()[1]
        assert [number_of(receiver, one) for one in dict.fromkeys(receiver.ids())] == numbers


def number_of(receiver: Receiver, event: str) -> str:
    """The number of the invoice of an event."""
    found = next(one for one in receiver.messages if one.id == event)
    return str(found.event["data"]["invoiceNumber"])


def test_what_happens_is_streamed_through_the_other_process(both: Both) -> None:
    headers = {"Accept": "text/event-stream"}
    key = both.there.headers["authorization"].removeprefix("Bearer ")
    assert both.there.post("/console/sign-in", data={"key": key}).status_code == 303
    for path, shown in (
        ("/sandbox/requests/stream", '"operation":"createInvoice"'),
        ("/console/events", "event: change"),
    ):
        with both.there.stream("GET", path, headers=headers) as stream:
            parts = stream.iter_text()
            assert next(parts) == ": connected\n\n"
            data(create(both.here))
            assert shown in next(parts)


# --- nobody else


@pytest.mark.parametrize("name", ["X-Sandbox-Replica", "x-sandbox-replica"])
def test_a_stranger_cannot_act_for_a_workspace_by_the_header_of_the_servers(
    two: Two, both: Both, name: str
) -> None:
    """Only a credential chooses the workspace, whatever a header of the servers says."""
    invoice = data(create(both.here))["id"]
    workspace = str(data(both.here.get("/sandbox/inbox"))["url"]).rpartition("/")[0]
    with psycopg.connect(two.dsn) as connection:
        query = (
            "SELECT owner, address FROM invoice_sandbox.workspaces JOIN invoice_sandbox.replicas"
        )
        rows = connection.execute(f"{query} ON owner = replica").fetchall()
    guesses = ["", "guessed", "127.0.0.1", f"{'0' * 64} 127.0.0.1", workspace, *map(str, rows[0])]
    for server in two[:2]:
        for guess in guesses:
            with client(server, "ilk_sandbox_unknown") as stranger:
                found = stranger.get(f"/api/invoices/{invoice}", headers={name: guess})
                assert found.status_code == 401
    other = two.workspace()
    with client(two.two, other) as stranger:
        for guess in guesses:
            found = stranger.get(f"/api/invoices/{invoice}", headers={name: guess})
            assert found.status_code == 404
