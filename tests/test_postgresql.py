"""State in a PostgreSQL database: ``--store postgresql://...``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from invoice_sandbox.base.clock import ClockState, instant_text
from invoice_sandbox.base.ids import new_key
from invoice_sandbox.settings import Postgresql, SettingError, read_settings
from invoice_sandbox.state import StoreError
from invoice_sandbox.state.postgresql import CONNECTIONS, ROLE, Database, shown
from invoice_sandbox.state.sql import TABLES
from tests.databases import Proxy, new_database
from tests.receivers import receiving
from tests.scenario_run import DATED, START, START_INSTANT, advance, data, now, until
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.postgresql


@pytest.fixture
def dsn() -> str:
    """A database of the test's own."""
    return new_database()


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    """A proxy before the database."""
    with closing(Proxy(dsn)) as proxy:
        yield proxy


@contextmanager
def served(dsn: str, **changed: Any) -> Iterator[Running]:
    """A server on a database."""
    with serving(replace(FROZEN, store=Postgresql(dsn), **changed)) as running:
        yield running


def create(client: httpx.Client, number: str = "INV-1", **headers: str) -> httpx.Response:
    return client.post("/api/invoices", json={**DATED, "invoiceNumber": number}, headers=headers)


def is_created(client: httpx.Client, number: str) -> bool:
    """Create an invoice, once. False: 503."""
    response = create(client, number, **{"Idempotency-Key": number})
    assert response.status_code in {201, 503}
    return response.status_code == 201


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


# --- several servers


@pytest.fixture
def pair(dsn: str) -> Iterator[list[Running]]:
    """Two servers on one database, which start at once."""
    options: dict[str, Any] = {"scenario": "auto-progress", "clock": ClockState("live")}
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        started = [pool.submit(stack.enter_context, served(dsn, **options)) for _ in range(2)]
        yield [one.result() for one in started]


def test_any_server_serves_any_workspace(pair: list[Running]) -> None:
    one, other = pair
    assert one.sandbox.engine.first_workspace == other.sandbox.engine.first_workspace
    with one.client() as client, other.client() as same:
        made = data(client.post("/api/developer/api-keys", json={"name": "ci"}))
        created = data(create(client))
        assert data(same.get(f"/api/invoices/{created['id']}"))["invoiceNumber"] == "INV-1"
        again = create(same, **{"Idempotency-Key": "k"})
        replayed = create(client, **{"Idempotency-Key": "k"})
        assert replayed.headers["Idempotent-Replayed"] == "true"
        assert data(replayed)["id"] == data(again)["id"] != created["id"]
        with other.client(made["secret"]) as ci:
            assert ci.get("/api/invoices").status_code == 200
            client.delete("/api/developer/api-keys", params={"id": made["id"]})
            assert ci.get("/api/invoices").status_code == 401


def test_events_of_all_servers_arrive_once_and_in_order(pair: list[Running]) -> None:
    with ExitStack() as stack, receiving() as receiver:
        clients = [stack.enter_context(running.client()) for running in pair]
        hook = {"url": receiver.url, "events": ["invoice.registered"]}
        data(clients[0].post("/api/webhooks", json=hook))
        pool = stack.enter_context(ThreadPoolExecutor(4))
        made = [pool.submit(create, clients[turn % 2], f"INV-{turn}") for turn in range(20)]
        ids = {data(one.result())["id"] for one in made}
        until(lambda: len(receiver.messages) >= 20, "all have arrived")
        numbers = [int(message.id.rpartition("_")[2]) for message in receiver.messages]
        assert numbers == sorted(set(numbers))
        assert {message.event["data"]["id"] for message in receiver.messages} == ids


def test_a_server_does_what_another_one_left(pair: list[Running]) -> None:
    one, other = pair
    with one.client() as client, receiving() as receiver:
        data(client.post("/api/webhooks", json={"url": receiver.url, "events": ["*"]}))
        create(client).raise_for_status()
        other.system_clock.pass_seconds(3600)  # the first one does not notice
        until(lambda: "invoice.verified" in receiver.kinds(), "the other one goes on")


def test_a_listener_gets_what_other_servers_make(dsn: str) -> None:
    key = new_key()
    options: dict[str, Any] = {"public_url": "https://balancer.example", "key": key}
    with ExitStack() as stack:
        servers = [stack.enter_context(served(dsn, **options)) for _ in range(2)]
        client, other = (
            stack.enter_context(
                httpx.Client(
                    base_url=f"http://127.0.0.1:{running.port}",
                    headers={"Authorization": f"Bearer {key}", "Accept": "text/event-stream, */*"},
                    timeout=PATIENCE,
                )
            )
            for running in servers
        )
        listener = data(client.post("/sandbox/listeners", json={}))
        hook = {"url": listener["url"], "events": ["invoice.registered"]}
        data(client.post("/api/webhooks", json=hook))
        path = f"/sandbox/listeners/{listener['id']}/stream"
        with client.stream("GET", path) as stream:
            create(other, "HEARD-1").raise_for_status()
            assert any("HEARD-1" in line for line in stream.iter_lines())


def test_requests_that_move_a_clock_through_two_servers_come_one_after_the_other(dsn: str) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(served(dsn, scenario="auto-progress")) for _ in range(2)]
        clients = [stack.enter_context(running.client()) for running in servers]
        pool = stack.enter_context(ThreadPoolExecutor(2))

        moves = [pool.submit(advance, clients[turn % 2], "PT1H") for turn in range(20)]
        began = {move.result()["from"] for move in moves}
        assert len(began) == 20
        assert now(clients[0]) == instant_text(START_INSTANT + timedelta(hours=20))

        data(clients[0].post("/sandbox/reset"))
        for number in range(30):
            create(clients[0], f"INV-{number}").raise_for_status()
        moved = pool.submit(advance, clients[0], "P90D")
        until(lambda: now(clients[1]) != START, "it is under way")
        data(clients[1].post("/sandbox/reset"))
        assert moved.result()["happened"]
        assert now(clients[0]) == START


def test_a_stream_shows_requests_to_other_servers(pair: list[Running]) -> None:
    with pair[0].client() as client, pair[1].client() as other:
        header = {"Accept": "text/event-stream"}
        with client.stream("GET", "/sandbox/requests/stream", headers=header) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": connected"
            create(other, "SEEN-1").raise_for_status()
            assert any("SEEN-1" in line for line in lines)


# --- the schema


def test_a_database_without_tables_gets_them() -> None:
    with served(new_database("template1")) as running, running.client() as client:
        assert create(client).status_code == 201


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE invoice_sandbox.server SET version = 99",
        "DROP TABLE invoice_sandbox.server",
    ],
)
def test_tables_of_another_version_are_an_error_that_says_what_to_do(dsn: str, change: str) -> None:
    execute(dsn, change)
    with pytest.raises(SettingError) as caught, served(dsn):
        pass
    assert "was written by another version: its schema is " in str(caught.value)
    assert "another database; DROP SCHEMA invoice_sandbox CASCADE deletes" in str(caught.value)


def test_a_user_who_may_not_create_what_is_needed_is_an_error() -> None:
    dsn = new_database("template1")
    execute(dsn, "DROP ROLE IF EXISTS plainer", "CREATE ROLE plainer LOGIN")
    with pytest.raises(StoreError, match=f"GRANT {ROLE} TO plainer"):
        Database(make_conninfo(dsn, user="plainer"))
    execute(dsn, f"GRANT {ROLE} TO plainer")
    with pytest.raises(StoreError, match="permission denied for database"):
        Database(make_conninfo(dsn, user="plainer"))


def test_an_error_names_the_database_and_no_password() -> None:
    address = "postgresql://ann:secret@127.0.0.1:1/sandbox"
    settings = replace(FROZEN, store=Postgresql(address))
    with pytest.raises(SettingError) as caught, serving(settings):
        pass
    problem = "--store: postgresql://127.0.0.1:1/sandbox cannot be used: connection failed"
    assert str(caught.value).startswith(problem)
    assert "secret" not in f"{caught.value}{settings}{read_settings({'store': address})}"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("postgresql:///sandbox", "postgresql://localhost:5432/sandbox"),
        ("postgresql://ann:secret@db.example:6432/sandbox", "postgresql://db.example:6432/sandbox"),
        ("postgresql://%", "postgresql"),
    ],
)
def test_a_database_is_shown_without_its_user_and_password(address: str, place: str) -> None:
    assert shown(address) == place


# --- row-level security


@contextmanager
def restricted(dsn: str, workspace: str) -> Iterator[psycopg.Connection]:
    """A connection in the role of the server, in the transaction of a workspace."""
    options = f"-c role={ROLE} -c search_path=invoice_sandbox"
    with psycopg.connect(make_conninfo(dsn, options=options)) as connection:
        connection.execute("SELECT set_config('invoice_sandbox.workspace', %s, true)", (workspace,))
        yield connection
        connection.rollback()


def test_a_statement_that_forgets_its_condition_reaches_no_other_workspace(dsn: str) -> None:
    with served(dsn, scenario="auto-progress") as running, running.client() as client:
        other = data(client.post("/sandbox/workspaces", json={}))["id"]
        create(client)
        first = running.sandbox.engine.first_workspace
    for table in TABLES:
        with restricted(dsn, other) as connection:
            owners = {one for (one,) in connection.execute(f"SELECT workspace FROM {table}")}
            assert owners <= {other}
            changed = connection.execute(f"UPDATE {table} SET workspace = workspace")
            assert changed.rowcount == connection.execute(f"DELETE FROM {table}").rowcount
        with restricted(dsn, first) as connection:
            assert connection.execute(f"SELECT FROM {table}").rowcount > 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                connection.execute(f"UPDATE {table} SET workspace = %s", (other,))
        with restricted(dsn, "") as connection:
            assert connection.execute(f"SELECT FROM {table}").rowcount == 0


def test_every_table_but_one_has_a_workspace_first_in_its_key_and_a_policy(dsn: str) -> None:
    """A new table without them fails."""
    query = """SELECT relname FROM pg_class
        WHERE relnamespace = 'invoice_sandbox'::regnamespace AND relkind = 'r'
        AND relrowsecurity AND relforcerowsecurity
        AND EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid)
        AND EXISTS (SELECT FROM pg_index JOIN pg_attribute
          ON attrelid = indrelid AND attnum = indkey[0] AND attname = 'workspace'
          WHERE indrelid = pg_class.oid AND indisprimary)"""
    everything = "SELECT tablename FROM pg_tables WHERE schemaname = 'invoice_sandbox'"
    with psycopg.connect(dsn) as connection:
        assert {name for (name,) in connection.execute(query)} == set(TABLES)
        assert {name for (name,) in connection.execute(everything)} == {*TABLES, "server"}


def test_the_server_works_in_the_restricted_role_whatever_its_user_is(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with served(dsn) as running, running.client() as client:
        execute(dsn, f"REVOKE INSERT ON invoice_sandbox.record FROM {ROLE}")
        assert create(client).status_code == 503
    assert "permission denied for table record" in caplog.text


# --- a workspace, or every connection, in use


@contextmanager
def locked(dsn: str, workspace: str) -> Iterator[None]:
    """A workspace that another server works in."""
    with restricted(dsn, workspace) as connection:
        connection.execute("SELECT FROM workspace WHERE state = '' FOR UPDATE")
        yield


def test_the_first_request_in_a_workspace_that_is_in_use_keeps_nobody_waiting(dsn: str) -> None:
    with served(dsn) as running, running.client() as client, ThreadPoolExecutor(2) as pool:
        made = data(client.post("/sandbox/workspaces", json={}))
        with running.client(made["key"]) as other:
            with locked(dsn, made["id"]):
                waits = pool.submit(other.get, "/api/invoices")
                with pytest.raises(TimeoutError):
                    waits.result(0.3)
                assert pool.submit(client.get, "/api/invoices").result(PATIENCE / 2).is_success
                assert not waits.done()
            assert waits.result().is_success


@pytest.mark.parametrize("path", ["/metrics", "/console"])
def test_a_page_that_waits_for_a_connection_keeps_nobody_waiting(dsn: str, path: str) -> None:
    with served(dsn, metrics=True) as running, running.client() as client:
        store: Any = running.sandbox.engine.store
        with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
            for _ in range(CONNECTIONS + 1):
                stack.callback(store.database.give, store.database.take())
            page = pool.submit(client.get, path)
            with pytest.raises(TimeoutError):
                page.result(0.3)
            with running.client(None) as other:
                assert other.get("/sandbox/health/live", timeout=3).is_success
            stack.close()
            assert page.result().is_success


def test_a_request_that_waits_while_the_server_stops_is_503(dsn: str) -> None:
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        with served(dsn) as running, running.client() as client:
            assert client.get("/api/invoices").is_success
            stack.enter_context(locked(dsn, running.sandbox.engine.first_workspace))
            headers = dict(client.headers)
            waits = pool.submit(httpx.get, f"{running.url}/api/invoices", headers=headers)
            with pytest.raises(TimeoutError):
                waits.result(0.3)
        response = waits.result()
    assert response.status_code == 503
    assert response.json()["error"]["requestId"] == response.headers["x-request-id"]


def test_other_servers_know_that_a_workspace_is_used(pair: list[Running]) -> None:
    first, second = (running.sandbox.engine for running in pair)
    used = first.system_clock.now() + timedelta(days=3)
    first.store.note_request(first.first_workspace, used)
    assert second.store.last_used(first.first_workspace) == used


# --- while the database is away


def test_a_database_that_is_gone_is_503_until_it_is_back(proxy: Proxy) -> None:
    with served(proxy.dsn, metrics=True) as running, running.client() as client:
        assert is_created(client, "INV-1")
        proxy.is_gone = True
        proxy.cut()
        until(lambda: client.get("/sandbox/health").status_code == 503, "it is noticed unasked")
        failed = create(client, "Late-2", **{"Idempotency-Key": "Late-2"})
        assert (failed.status_code, failed.headers["Retry-After"]) == (503, "1")
        assert client.get("/sandbox/health").json()["data"]["store"] == "unavailable"
        assert client.get("/sandbox/health/live").status_code == 200
        assert "sandbox_ready 0.0" in client.get("/metrics").text
        proxy.is_gone = False
        until(lambda: client.get("/sandbox/health").is_success, "the database is back")
        assert is_created(client, "Late-2")
        assert client.get("/api/invoices").text.count("Late-2") == 1


def test_a_connection_that_is_cut_in_a_commit_loses_and_repeats_nothing(proxy: Proxy) -> None:
    numbers = [f"INV-{turn}" for turn in range(6)]
    with served(proxy.dsn) as running, running.client() as client:
        for one in numbers:
            proxy.cut_at = lambda content: b"COMMIT" in content
            until(partial(is_created, client, one), "the invoice is created")
        proxy.cut_at = lambda _content: False
        until(lambda: client.get("/api/invoices").is_success, "the database is back")
        found = [one["invoiceNumber"] for one in data(client.get("/api/invoices?limit=100"))]
    assert [found.count(one) for one in numbers] == [1] * 6


def test_an_invoice_its_event_and_its_numbers_are_one_transaction(dsn: str) -> None:
    """A row has the id of the transaction that wrote it (``xmin``)."""
    with served(dsn) as running, running.client() as client:
        for turn in range(3):
            create(client, f"INV-{turn}").raise_for_status()
        workspace = running.sandbox.engine.first_workspace
    collections = "collection IN ('invoices', 'events', 'audit_events')"
    query = (
        f"SELECT xmin FROM record WHERE state = '' AND {collections} ORDER BY xmin::text::bigint"
    )
    with restricted(dsn, workspace) as connection:
        wrote = [str(one) for (one,) in connection.execute(query)][-9:]
    requests = wrote[::3]
    assert len(set(requests)) == 3
    assert wrote == sorted(requests * 3, key=int)
