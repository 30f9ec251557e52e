"""PostgreSQL: one server or several on a database, and what may happen to either."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from math import inf
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest
from procrastinate.schema import SchemaManager
from psycopg.conninfo import make_conninfo

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.ids import key_digest, new_key
from invoice_sandbox.http import gateway
from invoice_sandbox.settings import Postgresql, SettingError, read_settings
from invoice_sandbox.state import Credential, NoWorkspaceError, Snapshot, Workspace
from invoice_sandbox.state import jobs as jobs_module
from invoice_sandbox.state import postgresql as postgresql_module
from invoice_sandbox.state import shared as shared_module
from invoice_sandbox.state.memory import CAPACITY
from invoice_sandbox.state.postgresql import SCHEMA, Database, ReplacedError, Replica, shown
from invoice_sandbox.state.rows import TABLES, Change, CopyState, Row, StoreError
from invoice_sandbox.state.shared import SharedStore, open_shared_store
from invoice_sandbox.state.upgrade import migrate, upgrade
from invoice_sandbox.state.writer import unavailable
from tests.chaos.servers import NotNowError, Server
from tests.databases import Proxy, new_database
from tests.receivers import receiving
from tests.scenario_run import DATED, data, until
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.postgresql

ROLE = "invoice_sandbox_server"
PAGE = Path(__file__).parents[1] / "docs" / "durability.md"
ENGINE_SCHEMA = "c70ec4b400a60ad9592787653aae5ae77ae41bf801d56b5bd2712751a07f2009"


@pytest.fixture
def dsn() -> str:
    """A database of the test's own."""
    return new_database()


@contextmanager
def servers(dsn: str, count: int = 1, **changed: Any) -> Iterator[list[Running]]:
    """Servers on one database, the first of which runs the first workspace."""
    with ExitStack() as stack:
        settings = replace(FROZEN, store=Postgresql(dsn), **changed)
        yield [stack.enter_context(serving(settings)) for _ in range(count)]


def create(client: httpx.Client, number: str = "INV-1", **headers: str) -> httpx.Response:
    return client.post("/api/invoices", json={**DATED, "invoiceNumber": number}, headers=headers)


def shared(running: Running) -> SharedStore:
    assert isinstance(running.store, SharedStore)
    return running.store


# --- the schema


def test_servers_that_start_together_upgrade_the_schema_once() -> None:
    dsn = new_database("template1")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(upgrade, [dsn] * 4))
    assert sorted(found, key=str) == [(SCHEMA, SCHEMA)] * 3 + [(None, SCHEMA)]
    with psycopg.connect(dsn) as connection:
        made = connection.execute("SELECT * FROM invoice_sandbox.alembic_version").fetchall()
    assert made == [(SCHEMA,)], "the version of the newest migration"


def test_what_is_in_a_schema_of_the_first_version_is_kept_and_due_work_in_it_is_found() -> None:
    dsn = new_database("template1")
    migrate(dsn, "0001")
    with psycopg.connect(dsn) as connection:
        connection.execute(
            """SET search_path = invoice_sandbox;
            INSERT INTO replicas (address, until) VALUES ('a', 'infinity');
            INSERT INTO workspaces (workspace, position, last_used, snapshots, family, owner)
            SELECT name, number, '', 0, name, owner FROM (
              VALUES ('runs', 1, 1), ('ended', 2, 9), ('free', 3, NULL)) one (name, number, owner);
            INSERT INTO steps SELECT workspace, '', 1, '', NULL, '[]' FROM workspaces"""
        )
    assert upgrade(dsn) == ("0001", SCHEMA)
    with closing(Database(dsn)) as database:
        assert lease_due(dsn, database.register("b")) == ["ended", "free", "runs"]


def test_a_schema_that_is_upgraded_ends_the_servers_that_use_the_earlier_one() -> None:
    dsn = new_database("template1")
    migrate(dsn, "0002")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = invoice_sandbox")
        connection.execute("SELECT register('a', 60), fence(1, 1)")
        assert upgrade(dsn) == ("0002", SCHEMA)
        with pytest.raises(psycopg.Error, match="replica 1 was replaced"):
            connection.execute("SELECT fence(1, 2)")
        with pytest.raises(psycopg.errors.UndefinedFunction):
            connection.execute("SELECT register('a', 60)")


def test_a_server_whose_schema_a_newer_one_upgrades_writes_nothing_and_says_why(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with servers(dsn, 2) as (old, new), old.client() as one, new.client() as other:
        assert create(one).status_code == 201
        with psycopg.connect(dsn) as connection:
            connection.execute("UPDATE invoice_sandbox.alembic_version SET version_num = '9999'")
            replica = shared(old).database.number
            connection.execute("DELETE FROM invoice_sandbox.replicas WHERE replica = %s", [replica])
        until(lambda: f"its schema is 9999, this server uses {SCHEMA}" in caplog.text, "the reason")
        workers = "SELECT last_value FROM invoice_sandbox_jobs.procrastinate_workers_id_seq"
        until(lambda: not takes_jobs(one), "it leaves the jobs to the other one")
        count, known = caplog.text.count("its schema is 9999"), rows(dsn, workers)
        until(lambda: caplog.text.count("its schema is 9999") > count + 1, "it tries again")
        assert rows(dsn, workers) == known, "it takes no jobs meanwhile"
        rejected = create(one, "INV-2")
        assert (rejected.status_code, rejected.headers["Retry-After"]) == (503, "1")
        assert one.get("/sandbox/health").status_code == 503
        assert one.get("/sandbox/health/live").status_code == 200
        assert create(other, "INV-2").status_code == 201
        assert create(one, "INV-3").status_code == 201, "the other one runs the workspace"


def test_a_schema_of_a_newer_server_is_an_error_at_start(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE invoice_sandbox.alembic_version SET version_num = '9999'")
    with pytest.raises(SettingError, match=r"upgraded by a newer version: its schema is 9999"):
        servers(dsn).__enter__()


def test_an_error_names_the_database_and_no_password() -> None:
    address = "postgresql://ann:secret@127.0.0.1:1/sandbox"
    settings = replace(FROZEN, store=Postgresql(address))
    with pytest.raises(SettingError) as caught, serving(settings):
        pass
    problem = "--store: postgresql://127.0.0.1:1/sandbox cannot be used: connection failed"
    assert str(caught.value).startswith(problem)
    assert "secret" not in f"{caught.value}{settings}{read_settings({'store': address})}"


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
    with servers(dsn, scenario="auto-progress") as (running,), running.client() as client:
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


def test_one_function_finds_a_credential_by_its_digest_in_whatever_workspace(dsn: str) -> None:
    with servers(dsn) as (running,), running.client() as client:
        key = data(client.post("/sandbox/workspaces", json={}))["key"]
    with restricted(dsn, "") as connection:
        found = connection.execute("SELECT digest FROM look_up(%s)", ([key_digest(key), "none"],))
        assert found.fetchall() == [(key_digest(key),)]
        assert connection.execute("SELECT FROM look_up('{}')").rowcount == 0
        query = """SELECT proname FROM pg_proc WHERE pronamespace = 'invoice_sandbox'::regnamespace
            AND prosecdef AND prosrc LIKE '%credentials%'"""
        assert connection.execute(query).fetchall() == [("look_up",)]


def test_the_page_explains_every_function_that_a_server_may_call(dsn: str) -> None:
    query = """SELECT DISTINCT proname FROM pg_proc
        WHERE pronamespace = 'invoice_sandbox'::regnamespace
        AND has_function_privilege(%s, oid, 'EXECUTE')"""
    with psycopg.connect(dsn) as connection:
        found = {name for (name,) in connection.execute(query, (ROLE,))}
    table = PAGE.read_text().partition("| Function |")[2].partition("\n\n")[0]
    assert found == set(re.findall(r"`(\w+)`", table))


def test_functions_with_the_rights_of_their_owner_find_names_in_our_schemas_only(dsn: str) -> None:
    query = """SELECT proname, proconfig[1], has_schema_privilege(%s, pronamespace, 'CREATE')
        FROM pg_proc WHERE prosecdef AND proname NOT LIKE 'pg_%%'"""
    ours = ("invoice_sandbox, pg_temp", "invoice_sandbox, invoice_sandbox_jobs, pg_temp")
    with psycopg.connect(dsn) as connection:
        found = connection.execute(query, (ROLE,)).fetchall()
    assert len(found) > 9
    paths = {f"search_path={one}" for one in ours}
    assert [one for one in found if one[1] not in paths or one[2]] == []


def test_every_table_has_a_workspace_first_in_its_key_and_its_policy_or_is_explained(
    dsn: str,
) -> None:
    """A new table without them fails. Rights are those that the page says."""
    query = """SELECT relname, EXISTS (SELECT FROM pg_index JOIN pg_attribute
          ON attrelid = indrelid AND attnum = indkey[0] AND attname = 'workspace'
          WHERE indrelid = pg_class.oid AND indisprimary)
        AND relrowsecurity AND relforcerowsecurity AND ARRAY['of_workspace *'] = ARRAY(
          SELECT polname || ' ' || polcmd::text FROM pg_policy
          WHERE polrelid = pg_class.oid AND %(role)s::regrole = ANY (polroles)),
        has_table_privilege(%(role)s, pg_class.oid, 'SELECT')::integer
          + has_table_privilege(%(role)s, pg_class.oid, 'INSERT, UPDATE, DELETE')::integer
        FROM pg_class WHERE relnamespace::regnamespace::text LIKE 'invoice_sandbox%%'
        AND relkind NOT IN ('i', 'S', 'c')"""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(query, {"role": ROLE}).fetchall()
    assert {name for name, is_ours, _ in found if is_ours} == set(TABLES)
    rights = {"nothing": 0, "read": 1, "read and write": 2}
    table = PAGE.read_text().partition("| Table |")[2].partition("\n\n")[0]
    explained = {
        name: rights[may]
        for names, may in re.findall(r"^\| (`.+`) \| ([a-z ]+) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert {name: may for name, is_ours, may in found if not is_ours} == explained


def test_the_server_works_in_the_restricted_role_whatever_its_user_is(dsn: str) -> None:
    with servers(dsn) as (running,), shared(running).shared.connected() as connection:
        query = (
            "SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        )
        assert connection.execute(query).fetchone() == (ROLE, False, False)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM replicas")


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


def test_a_database_that_cannot_be_reached_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgresql_module, "_SECONDS_TO_CONNECT", 0.1)
    before = left_open()[0]
    with pytest.raises(StoreError, match=r"^postgresql://127.0.0.1:1/x cannot be reached"):
        Database("postgresql://127.0.0.1:1/x")
    until(lambda: left_open()[0] <= before, "the threads end")


def test_a_user_who_may_not_create_a_schema_cannot_upgrade() -> None:
    dsn = new_database("template1")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plainer")
        connection.execute("CREATE ROLE plainer LOGIN")
    with pytest.raises(StoreError, match="cannot be upgraded: permission denied for database"):
        upgrade(make_conninfo(dsn, user="plainer"))
    until(lambda: connections(dsn) == 0, "its connections end")


async def nothing() -> None:
    """Look after nothing."""


def test_taking_jobs_can_be_stopped_at_any_moment(dsn: str) -> None:
    """Also while a connection is made, when psycopg does not pass on that a task is cancelled."""

    async def stopped_each_millisecond(database: Database) -> None:
        for number in range(60):
            jobs = database.jobs({}, nothing)
            jobs.start(lambda: 1)
            await asyncio.sleep(number / 1000)
            await asyncio.wait_for(jobs.close(), PATIENCE)

    with closing(Database(dsn)) as database:
        asyncio.run(stopped_each_millisecond(database))


def test_an_upgrade_leaves_no_connection_open() -> None:
    dsn = new_database("template1")
    upgrade(dsn)
    until(lambda: connections(dsn) == 0, "its connections end")
    with servers(new_database("template1")) as (running,), running.client() as client:
        assert create(client).status_code == 201


def test_a_user_who_may_not_create_tables_can_serve_what_another_upgraded(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain")
        connection.execute(f"CREATE ROLE plain LOGIN IN ROLE {ROLE}")
    with servers(make_conninfo(dsn, user="plain")) as (running,), running.client() as client:
        assert create(client).status_code == 201


# --- writes


def numbers(database: Database, family: str) -> list[Any]:
    return [(state, name, value) for _, state, name, value in database.read(family)["numbers"]]


def test_a_batch_that_is_written_again_after_a_doubtful_end_changes_nothing(dsn: str) -> None:
    with closing(Database(dsn)) as database:
        replica = database.register("")
        assert replica.reserve("w", 0, "2026-01-01T00:00:00+00:00", "w")
        batch: list[Change] = [
            Row("numbers", ("w", "", "n"), (1,)),
            CopyState("w", "", "s"),
            Row("numbers", ("w", "", "n"), (2,)),
        ]
        replica.write(batch)
        replica._batch -= 1  # noqa: SLF001  as after a connection that was cut in the commit
        replica.write(batch)
        assert numbers(database, "w") == [("", "n", 2), ("s", "n", 1)]
        replica.write([Row("numbers", ("w", "", "n"), (3,))])
        assert ("", "n", 3) in numbers(database, "w")


def test_a_replica_that_was_replaced_can_write_nothing_more(dsn: str) -> None:
    with closing(Database(dsn)) as database:
        old, new = database.register("a"), database.register("b")
        old.reserve("w", 0, "2026-01-01T00:00:00+00:00", "w")
        old.write([Row("numbers", ("w", "", "n"), (1,))])
        assert new.claim() == (*old.claim(),)  # type: ignore[misc]
        database.retire(old.number)
        found = new.claim()
        assert found is not None
        assert (found.replica, found.address) == (new.number, "b")
        for forbidden in (lambda: old.write([Row("numbers", ("w", "", "n"), (9,))]), old.beat):
            with pytest.raises(ReplacedError, match="another server has taken the place"):
                forbidden()
        assert numbers(database, "w") == [("", "n", 1)]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_lease_is_extended_while_a_large_batch_is_written(dsn: str, is_replaced: bool) -> None:
    """If it ends nevertheless, nothing of the batch is written."""
    with (
        closing(Database(dsn)) as database,
        psycopg.connect(dsn) as locking,
        psycopg.connect(dsn, autocommit=True) as looking,
        ThreadPoolExecutor(1) as thread,
    ):
        replica, other = families(database, "w"), database.register("")
        locking.execute("LOCK TABLE invoice_sandbox.records")
        batch = [Row("numbers", ("w", "", "n"), (1,)), Row("records", ("w", "", "k", 0), ("", ""))]
        writing = thread.submit(replica.write, batch)
        until(lambda: bool(waiting_for_a_lock(looking)), "it is being written")
        assert replica.beat() == 1
        if is_replaced:
            looking.execute("UPDATE invoice_sandbox.replicas SET until = 'epoch'")
            other.look_after()
        locking.rollback()
        assert isinstance(writing.exception(PATIENCE), ReplacedError if is_replaced else type(None))
        assert numbers(database, "w") == ([] if is_replaced else [("", "n", 1)])


def test_a_statement_may_take_longer_than_it_may_wait_for_others(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_module, "_MILLISECONDS_TO_WAIT", 100)
    with closing(Database(dsn)) as database, psycopg.connect(dsn) as locking:
        with database.connected() as connection:
            connection.execute("SELECT pg_sleep(0.2)")
        locking.execute("LOCK TABLE invoice_sandbox.workspaces")
        with pytest.raises(StoreError, match="due to lock timeout"):
            database.directory()


# --- what is due in workspaces that nobody runs


def families(database: Database, *names: str) -> Replica:
    """A replica that runs these workspaces, in each of which a step is scheduled."""
    replica = database.register("")
    for position, name in enumerate(names):
        assert replica.reserve(name, position, "2026-01-01T00:00:00+00:00", name)
    step = ("2026-01-01T00:00:00+00:00", None, "[]")
    replica.write([Row("steps", (name, "", 1), step) for name in names])
    return replica


def waiting(dsn: str) -> dict[str, float]:
    """The families with a job that waits, and in how many seconds each is due."""
    query = """SELECT args ->> 'family', extract(epoch FROM scheduled_at - clock_timestamp())::float
        FROM invoice_sandbox_jobs.procrastinate_jobs WHERE task_name = 'take_up'
        AND status = 'todo'"""
    return dict(rows(dsn, query))


def lease_due(dsn: str, replica: Replica) -> list[str]:
    """The families that a replica gets by the jobs that are due; the jobs stay."""
    found = [one for one, seconds in waiting(dsn).items() if seconds <= 0]
    return sorted(one for one in found if replica.lease_due(one))


def test_replicas_that_race_for_what_is_due_take_each_family_once(dsn: str) -> None:
    with closing(Database(dsn)) as database, ThreadPoolExecutor(2) as threads:
        names = [f"w{number:02}" for number in range(40)]
        families(database, *names).release(dict.fromkeys(names, 0.0))
        racing = [database.register(""), database.register("")]
        together = threading.Barrier(2)

        def take_all(replica: Replica) -> list[str]:
            together.wait(PATIENCE)
            return lease_due(dsn, replica)

        one, two = threads.map(take_all, racing)
    assert sorted([*one, *two]) == names


def test_a_released_family_has_one_job_and_is_taken_when_it_is_due(dsn: str) -> None:
    with closing(Database(dsn)) as database:
        replica, later = families(database, "never", "later", "now"), time.time() + 3600
        assert waiting(dsn) == {}
        replica.release({"never": None, "later": later, "now": 0.0})
        assert sorted(waiting(dsn)) == ["later", "now"]
        assert 3000 < waiting(dsn)["later"] <= 3600
        assert lease_due(dsn, database.register("")) == ["now"]
        assert not replica.lease_due("later")
        assert replica.claim(name="later") == ("later", replica.number, "")
        replica.release({"later": later - 1800})
        assert 1000 < waiting(dsn)["later"] <= 1800


def test_what_a_replica_ran_that_ended_without_a_word_is_due(dsn: str) -> None:
    with closing(Database(dsn)) as database:
        ended, other = families(database, "a", "b", "idle"), database.register("")
        ended.write([Row("steps", ("idle", "", 1), None)])
        other.look_after()
        assert waiting(dsn) == {}, "its lease is not over"
        with psycopg.connect(dsn, autocommit=True) as connection:
            query = "UPDATE invoice_sandbox.replicas SET until = now() WHERE replica = %s"
            connection.execute(query, (ended.number,))
        other.look_after()
        assert lease_due(dsn, other) == ["a", "b"]
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DELETE FROM invoice_sandbox.replicas")
        assert lease_due(dsn, database.register("")) == ["a", "b"]
        with pytest.raises(ReplacedError):
            ended.lease_due("a")


def test_a_family_that_a_replica_asked_for_is_left_to_it(dsn: str) -> None:
    with closing(Database(dsn)) as database:
        runs, asks, other = families(database, "w"), database.register("b"), database.register("c")
        assert asks.claim(name="w") == ("w", runs.number, "")
        assert runs.beat() == 2
        wanted = "SELECT queue_name, args FROM invoice_sandbox_jobs.procrastinate_jobs"
        assert rows(dsn, wanted) == []
        for loses_its_job in (False, False, True):
            if loses_its_job:
                path = "SET search_path = invoice_sandbox_jobs"
                execute(dsn, f"{path}; DELETE FROM procrastinate_jobs")
            found = asks.claim(name="w", is_wanted=True)
            assert found is not None
            assert found.replica == runs.number
        for _ in range(2):
            other.look_after()
            assert rows(dsn, wanted) == [(f"replica {runs.number}", {"family": "w"})]
        runs.release({"w": 0.0})
        assert lease_due(dsn, other) == []
        assert asks.claim(name="w") == ("w", asks.number, "b")
        database.retire(runs.number)
        assert "w" in waiting(dsn)
        assert len(rows(dsn, wanted)) == 1, "nobody takes the job of that replica"


@pytest.mark.parametrize("lost", ["its job", "every job", "its replica"])
def test_a_job_that_was_lost_is_written_again(dsn: str, lost: str) -> None:
    """Jobs are in no backup, and neither are replicas."""
    with closing(Database(dsn)) as database:
        replica = families(database, "now", "later", "never")
        if lost != "its replica":
            replica.release({"now": 0.0, "later": time.time() + 3600, "never": None})
        with psycopg.connect(dsn, autocommit=True) as connection:
            if lost == "its replica":
                connection.execute("SET session_replication_role = replica")  # without triggers
                connection.execute("DELETE FROM invoice_sandbox.replicas")
            connection.execute("SET search_path = invoice_sandbox_jobs")
            connection.execute("DELETE FROM procrastinate_jobs")
        assert waiting(dsn) == {}
        if lost == "its job":
            replica.look_after()
            assert sorted(waiting(dsn)) == ["now"]
        else:
            database.register("b")
            everything = ["later", "never", "now"]
            expected = everything if lost == "its replica" else ["later", "now"]
            assert sorted(waiting(dsn)) == expected


NEW_WORKER: Final = "INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id"


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_job_that_its_worker_does_not_end_is_replaced(dsn: str, is_gone: bool) -> None:
    """The worker is gone, or could not write the end, as in a statement that took too long."""
    with closing(Database(dsn)) as database:
        replica = families(database, "w")
        replica.release({"w": 0.0})
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET search_path = invoice_sandbox_jobs")
            query = "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s RETURNING id"
            taken = connection.execute(query, connection.execute(NEW_WORKER).fetchone()).fetchone()
            replica.look_after()
            assert waiting(dsn) == {}
            connection.execute(
                "DELETE FROM procrastinate_workers"
                if is_gone
                else "UPDATE procrastinate_events SET at = at - interval '30 seconds'"
            )
            replica.look_after()
            assert taken not in connection.execute("SELECT id FROM procrastinate_jobs").fetchall()
        assert lease_due(dsn, replica) == ["w"]


# --- a store alone


FAR: Final = 3600.0
AT: Final = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
FIRST: Final = Workspace("first", 1, "f", ClockState("frozen", AT), "manual")


def credential(digest: str, workspace: str = "first") -> Credential:
    return Credential(digest, workspace, "k", frozenset())


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases last, and are not extended."""
    for module in (shared_module, postgresql_module):
        monkeypatch.setattr(module, "LEASE", FAR)
    monkeypatch.setattr(shared_module, "_SECONDS_BETWEEN_BEATS", FAR)


async def stored(dsn: str, *, is_new: bool = False) -> SharedStore:
    """A store; if it ``is_new``, with the first workspace."""
    found = await open_shared_store(dsn, "http://127.0.0.1:1", {}, CAPACITY)
    if is_new:
        await add(found, FIRST)
    return found


async def add(store: SharedStore, workspace: Workspace, now: datetime = AT) -> None:
    await store.create_workspace(workspace, now)
    await store.take_snapshot(workspace.id, Snapshot("s", now, workspace.clock))


async def ignore(_workspace: str) -> None:
    """For a store that does not run steps."""


def to_its_end(test: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    """Run an ``async def`` test on an event loop of its own."""

    @wraps(test)
    def run(dsn: str) -> None:
        asyncio.run(asyncio.wait_for(test(dsn), PATIENCE))

    return run


def execute(dsn: str, query: str) -> None:
    """Change what is in the database."""
    with psycopg.connect(dsn) as connection:
        connection.execute(query)


def rows(dsn: str, query: str) -> list[Any]:
    """What is in the database."""
    with psycopg.connect(dsn, options="-c search_path=invoice_sandbox") as connection:
        return connection.execute(query).fetchall()


def left_open() -> tuple[set[threading.Thread], int]:
    """The threads of stores, and how many files and sockets this process has open."""
    names = ("store", "lease", "invoice-sandbox")
    found = {one for one in threading.enumerate() if one.name.startswith(names)}
    return found, len([*Path("/proc/self/fd").iterdir()])


def connections(dsn: str, query: str = "") -> int:
    """How many others use the database, and have sent something that begins like that last."""
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    found = rows(dsn, f"SELECT query FROM pg_stat_activity WHERE {others}")
    return sum(one.startswith(query) for (one,) in found)


def test_a_store_that_is_closed_leaves_nothing_open_and_frees_its_workspaces(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_module, "_SECONDS_BETWEEN_BEATS", 0.01)
    before, daemons = left_open(), list[bool]()

    async def open_and_close() -> None:
        loop_has = left_open()[1] - before[1]
        store = await stored(dsn, is_new=True)
        await store.watch(ignore)
        daemons.extend(one.daemon for one in left_open()[0] - before[0])
        async with store.transaction("first") as state:
            await state.schedule(AT + timedelta(hours=1), "x", {})
        beat, is_held, goes_on = store.database.beat, threading.Event(), threading.Event()

        def hold() -> Any:
            is_held.set()
            assert goes_on.wait(PATIENCE)
            return beat()

        vars(store.database)["beat"] = hold
        assert await asyncio.to_thread(is_held.wait, PATIENCE)
        closing = asyncio.create_task(store.close())
        assert not (await asyncio.wait([closing], timeout=0.05))[0], "it waits for the thread"
        goes_on.set()
        await closing
        assert left_open()[1] - before[1] <= loop_has + 3  # what asyncio.to_thread has
        assert left_open()[0] == before[0]

    asyncio.run(open_and_close())
    assert all(daemons), "a process that is interrupted ends"
    assert left_open()[0] == before[0]
    assert rows(dsn, "SELECT owner, due FROM workspaces") == [(None, None)]
    assert rows(dsn, "SELECT FROM replicas") == []
    until(lambda: not connections(dsn), "the connections have ended")


def test_a_store_that_cannot_be_opened_leaves_nothing_open(dsn: str) -> None:
    before = left_open()[0]
    with psycopg.connect(dsn) as connection:
        connection.execute("DROP FUNCTION invoice_sandbox.register")
    with pytest.raises(StoreError, match="function register") as caught:
        asyncio.run(stored(dsn))
    assert left_open()[0] == before
    until(lambda: not connections(dsn), "the connections have ended")
    assert caught


LIVE: Final = replace(FIRST.clock, mode="live", shift=timedelta(hours=1))
HOUR: Final = timedelta(hours=1)
DUE: Final[dict[str, tuple[ClockState, list[timedelta], float | None]]] = {
    "nothing": (FIRST.clock, [], None),
    "a frozen clock": (FIRST.clock, [HOUR], None),
    "due now": (FIRST.clock, [HOUR, timedelta()], 0),
    "an hour ahead of real time": (LIVE, [3 * HOUR, 2 * HOUR], AT.timestamp() + 3600),
}


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("name", DUE)
def test_a_workspace_that_is_released_comes_with_the_instant_at_which_something_is_due(
    dsn: str, name: str, is_closed: bool
) -> None:
    clock, steps, due = DUE[name]
    released = list[Any]()

    async def release() -> None:
        store = await stored(dsn)
        await add(store, replace(FIRST, clock=clock))
        async with store.transaction("first") as state:
            for lane, step in enumerate(steps):
                await state.schedule(AT + step, "x", {}, lane=str(lane) if lane else None)
        vars(store.database)["release"] = released.append
        if not is_closed:
            await store.hand_over("first")
        await store.close()

    asyncio.run(release())
    assert released[0] == {"first": due}


@to_its_end
async def test_a_workspace_is_released_after_everything_of_it_was_written(dsn: str) -> None:
    one, two = await stored(dsn, is_new=True), await stored(dsn)
    writes, is_writing, goes_on = one.database.write, threading.Event(), threading.Event()

    def write(changes: Sequence[Change]) -> None:
        is_writing.set()
        assert goes_on.wait(PATIENCE)
        writes(changes)

    await one.flush()
    vars(one._writer)["_write"] = write  # noqa: SLF001
    async with one.transaction("first") as state:
        await state.put("k", "a", {"n": 1})
    released = asyncio.create_task(one.hand_over("first"))
    assert await asyncio.to_thread(is_writing.wait, PATIENCE)
    assert not (await asyncio.wait([released], timeout=0.05))[0]
    goes_on.set()
    await released
    await two.take("first")
    async with two.transaction("first") as state:
        assert await state.get("k", "a") == {"n": 1}
    await two.close()
    await one.close()


@to_its_end
async def test_whoever_waits_for_a_workspace_that_is_released_has_to_come_again(dsn: str) -> None:
    """And nobody finds it by a credential, not even by one that was granted at the last moment."""
    store, granting, goes_on = await stored(dsn, is_new=True), asyncio.Event(), asyncio.Event()
    async with store.transaction("first") as state:
        await state.grant(credential("early"))

    async def grant() -> None:
        async with store.transaction("first") as state:
            granting.set()
            await goes_on.wait()
            await state.grant(credential("late"))

    async def change() -> None:
        async with store.transaction("first") as state:
            await state.put("k", "b", {})

    async def tail() -> None:
        await store.tail("first", {"log": 0})

    granted = asyncio.create_task(grant())
    await granting.wait()
    tailing, released = asyncio.create_task(tail()), asyncio.create_task(store.hand_over("first"))
    await asyncio.sleep(0)
    changing = asyncio.create_task(change())
    await asyncio.sleep(0)
    assert await store.credential("early") is None
    goes_on.set()
    await asyncio.gather(granted, released)
    failed = await asyncio.gather(tailing, changing, return_exceptions=True)
    assert [type(one) for one in failed] == [ApiError, NoWorkspaceError]
    for work in (partial(store.note_request, "first", AT), change):
        with pytest.raises(ApiError, match="store_unavailable"):
            await work()
    assert await store.locate(["late"]) is None
    assert await store.credential("late") == credential("late")
    await store.note_request("first", AT)
    await store.close()


@to_its_end
async def test_nothing_is_done_or_acknowledged_once_the_lease_is_over(dsn: str) -> None:
    store = await stored(dsn, is_new=True)
    await store.flush()
    lease, replica = store._lease, store.database  # noqa: SLF001
    await asyncio.to_thread(lease.end)
    ends, reserve = lease.ends, replica.reserve

    def too_late(*arguments: Any) -> bool:
        lease.ends = 0
        return reserve(*arguments)

    vars(replica)["reserve"] = too_late
    with pytest.raises(ApiError, match="store_unavailable"):
        await store.create_workspace(replace(FIRST, id="late", made_by="first"), AT)
    assert await store.workspace("late") is None

    async def open_transaction() -> None:
        async with store.transaction("first"):
            pass

    for work in (store.flush, open_transaction, partial(store.delete_workspace, "first")):
        with pytest.raises(ApiError, match="store_unavailable"):
            await work()
    with pytest.raises(ApiError, match="store_unavailable"):
        store.check()
    lease.ends = ends
    await store.flush()
    assert await store.workspace("first") is not None
    await store.close()


@to_its_end
async def test_workspaces_have_their_place_and_their_family_from_their_creation_on(
    dsn: str,
) -> None:
    """A child of the first workspace begins a family. Those of one instant have places, too."""
    store, at = await stored(dsn, is_new=True), int(AT.timestamp()) * 1_000_000
    for name, maker in (("b", "first"), ("a", "first"), ("grandchild", "b")):
        await add(store, replace(FIRST, id=name, made_by=maker))
    later = AT + timedelta(milliseconds=1)
    await add(store, replace(FIRST, id="later", made_by="grandchild"), later)
    other = await stored(dsn)
    with pytest.raises(KeyError):
        await other.create_workspace(FIRST, AT)
    await other.close()
    await store.note_request("b", later)
    assert await store.count_workspaces() == 5
    names = ["first", "b", "a", "grandchild", "later"]
    used = [AT, later, AT, AT, later]
    assert [(one.id, time) for one, time in await store.workspaces()] == list(
        zip(names, used, strict=True)
    )
    assert rows(dsn, "SELECT workspace, position, family FROM workspaces ORDER BY position") == [
        ("first", 0, "first"),
        ("b", at, "b"),
        ("a", at + 1, "a"),
        ("grandchild", at + 2, "b"),
        ("later", at + 1000, "b"),
    ]
    await store.close()


@pytest.mark.usefixtures("unhurried")
@to_its_end
async def test_what_another_process_runs_is_known(dsn: str) -> None:
    store = await stored(dsn, is_new=True)
    async with store.transaction("first") as state:
        await state.grant(credential("key"))
        for hours, lane in ((2, "a"), (1, "a"), (3, None)):
            await state.schedule(AT + hours * HOUR, "x", {}, lane=lane)
    await store.flush()
    other = await stored(dsn)
    assert await other.workspace("first") is None
    assert await other.known("first") == FIRST
    assert await other.known("none") is None
    assert await other.credential("key") is None
    assert await other.known_credential("key") == credential("key")
    assert await other.known_credential("none") is None
    assert await other.due_times("first") == {"a": AT + HOUR, None: AT + 3 * HOUR}
    await other.close()
    await store.close()


@to_its_end
async def test_a_workspace_that_was_only_reserved_is_deleted_when_its_family_is_read(
    dsn: str,
) -> None:
    """The process ended before it had written it."""
    store = await stored(dsn, is_new=True)
    await store.flush()
    assert store.database.reserve("cut off", 9, AT.isoformat(), "first")
    await store.hand_over("first")
    await store.take("first")
    await store.flush()
    assert rows(dsn, "SELECT workspace FROM workspaces") == [("first",)]
    await store.close()


@to_its_end
async def test_a_family_that_cannot_be_read_is_not_tried_again_and_again(dsn: str) -> None:
    store = await stored(dsn, is_new=True)
    await store.hand_over("first")
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE invoice_sandbox.states SET content = 'x'")
    with pytest.raises(ValueError, match="JSON"):
        await store.locate([])
    assert store.unopened == set()
    await store.close()


@to_its_end
async def test_a_family_that_was_deleted_meanwhile_is_not_taken_up(dsn: str) -> None:
    store = await stored(dsn, is_new=True)
    store.unopened.add("gone")
    await store.go_on()
    assert store.unopened == set()
    await store.close()


@pytest.mark.usefixtures("unhurried")
@to_its_end
async def test_a_family_that_another_process_runs_meanwhile_is_not_taken_up(dsn: str) -> None:
    store = await stored(dsn, is_new=True)
    await store.flush()
    other = await stored(dsn)
    other.unopened.add("first")
    await other.go_on()
    assert (other.unopened, await other.workspace("first")) == (set(), None)
    await other.close()
    await store.close()


@to_its_end
async def test_a_family_that_was_handed_over_before_is_handed_over_again(dsn: str) -> None:
    store = await stored(dsn, is_new=True)
    for _ in range(2):
        await store.hand_over("first")
    assert store.unopened == set()
    await store.close()


# --- the job engine


NOTIFIES: Final = "procrastinate_jobs_notify_queue_job_inserted_v1"


@pytest.mark.parametrize("comes", ["by a notification", "though its notification was lost"])
def test_what_is_due_is_taken_up(dsn: str, comes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, though a process takes a few families at a time; nothing is left of the jobs."""
    if comes == "by a notification":
        monkeypatch.setattr(jobs_module, "_SECONDS_BETWEEN_LOOKS", FAR)
    else:
        with psycopg.connect(dsn) as connection:
            connection.execute(
                f"ALTER TABLE invoice_sandbox_jobs.procrastinate_jobs DISABLE TRIGGER {NOTIFIES}"
            )
    names = [f"w{number}" for number in range(9)]

    async def take_up() -> None:
        store, taken = await stored(dsn, is_new=True), asyncio.Queue[str]()
        for name in names:
            await add(store, replace(FIRST, id=name, made_by="first"))
            async with store.transaction(name) as state:
                await state.schedule(AT, "x", {})
        other = await stored(dsn)
        await other.watch(taken.put)
        listens = partial(connections, dsn, "LISTEN")
        await asyncio.to_thread(until, lambda: listens() == 1, "it listens")
        for name in names:
            await store.hand_over(name)
        assert sorted([await taken.get() for _ in names]) == names
        await asyncio.to_thread(until, lambda: not left_of(dsn, "take_up"), "the jobs are finished")
        await other.close()
        await store.close()

    asyncio.run(asyncio.wait_for(take_up(), PATIENCE))
    assert rows(dsn, "SELECT FROM invoice_sandbox_jobs.procrastinate_workers") == []
    assert len(rows(dsn, "SELECT FROM invoice_sandbox_jobs.procrastinate_periodic_defers")) <= 1
    assert sorted(waiting(dsn)) == names, "they were given up"


def left_of(dsn: str, task: str) -> int:
    """How many rows the engine has of the jobs of a task, and of what happened to them."""
    query = """SELECT FROM invoice_sandbox_jobs.procrastinate_jobs LEFT JOIN
        invoice_sandbox_jobs.procrastinate_events ON job_id = procrastinate_jobs.id"""
    return len(rows(dsn, f"{query} WHERE task_name = '{task}'"))


ENDED: Final = """SELECT FROM invoice_sandbox_jobs.procrastinate_workers
    WHERE last_heartbeat < clock_timestamp() - interval '10 minutes'"""
ENDED_WORKER: Final = """INSERT INTO procrastinate_workers (last_heartbeat)
    VALUES (clock_timestamp() - interval '1 hour') RETURNING id"""


def test_the_job_of_a_worker_that_has_ended_comes_again(dsn: str) -> None:
    """Unless another one for the same was written meanwhile."""
    query = "SELECT status FROM invoice_sandbox_jobs.procrastinate_jobs WHERE task_name = 'take_up'"
    with servers(dsn) as (running,), psycopg.connect(dsn, autocommit=True) as connection:
        store, first = shared(running), running.sandbox.engine.first_workspace
        connection.execute("SET search_path = invoice_sandbox, invoice_sandbox_jobs")
        running.run(store.hand_over(first))
        for later in (0, 3600):
            with connection.transaction():
                connection.execute("UPDATE workspaces SET owner = NULL, due = 0")
                (ended,) = connection.execute(ENDED_WORKER).fetchone() or ()
                taken = "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s"
                connection.execute(taken, (ended,))
                if later:
                    due = time.time() + later
                    connection.execute("UPDATE workspaces SET due = %s", (due,))
            until(lambda: rows(dsn, ENDED) == [], "the worker is removed")
            if later:
                until(lambda: rows(dsn, query) == [("todo",)], "one is left")
            else:
                until(lambda: first in store._families, "it is loaded")  # noqa: SLF001
                until(lambda: not left_of(dsn, "take_up"), "nothing is left")


def test_a_job_that_fails_leaves_nothing_and_comes_again(
    dsn: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the same job was written again while it ran."""
    monkeypatch.setattr(jobs_module, "_MOST", 1)

    async def fails_twice(database: Database, replica: Replica) -> None:
        tries = list[str]()

        async def take_up(family: str) -> None:
            tries.append("failed" if len(tries) < 2 else "done")
            due = "due" if tries[-1] == "failed" else "NULL"
            change = f"UPDATE invoice_sandbox.workspaces SET due = {due}"
            execute(dsn, f"{change} WHERE workspace = '{family}'")
            if tries[-1] == "failed":
                raise unavailable()

        async def look_after() -> None:
            await asyncio.to_thread(replica.look_after)

        jobs = database.jobs({"take_up": take_up}, look_after)
        jobs.start(lambda: replica.number)
        try:
            await asyncio.to_thread(until, lambda: "done" in tries, "it has come again")
            await asyncio.to_thread(until, lambda: not left_of(dsn, "take_up"), "nothing is left")
        finally:
            await jobs.close()
        assert tries == ["failed", "failed", "done"]

    with closing(Database(dsn)) as database:
        replica = families(database, "w")
        replica.release({"w": 0.0})
        asyncio.run(asyncio.wait_for(fails_twice(database, replica), PATIENCE))
    assert caplog.text.count("workspaces have to wait") == 2


@pytest.mark.usefixtures("unhurried")
@to_its_end
async def test_a_workspace_is_opened_that_was_leased_though_the_response_was_lost(dsn: str) -> None:
    store = await stored(dsn, is_new=True)
    async with store.transaction("first") as state:
        await state.schedule(AT, "x", {})
    await store.hand_over("first")
    lease_due = store.database.lease_due

    def lost(family: str) -> bool:
        assert lease_due(family)
        raise StoreError("cut")

    vars(store.database)["lease_due"] = lost
    with pytest.raises(ApiError, match="store_unavailable"):
        await store._take_up("first")  # noqa: SLF001  what its job does
    await store.go_on()
    assert await store.next_due("first") == AT
    await store.close()


@pytest.mark.usefixtures("unhurried")
@to_its_end
async def test_a_workspace_that_could_not_be_handed_over_is_opened_and_handed_over_again(
    dsn: str,
) -> None:
    """With what was not written at first, and with the instant at which something is due."""
    store, goes_on, due = await stored(dsn), threading.Event(), datetime(2200, 1, 1, tzinfo=UTC)
    await add(store, replace(FIRST, clock=LIVE))
    await store.flush()
    writes = store.database.write

    def write(changes: Sequence[Change]) -> None:
        if not goes_on.is_set():
            raise StoreError("full")
        writes(changes)

    vars(store._writer)["_write"] = write  # noqa: SLF001
    async with store.transaction("first") as state:
        await state.schedule(due + HOUR, "x", {})
    with pytest.raises(ApiError, match="store_unavailable"):
        await store.flush()
    for _ in range(2):  # the second time it is not here
        with pytest.raises(ApiError, match="store_unavailable"):
            await store.hand_over("first")
    with pytest.raises(ApiError, match="store_unavailable"):
        await store.go_on()
    goes_on.set()
    while store._writer.problem:  # noqa: ASYNC110, SLF001  there is no event of it
        await asyncio.sleep(0.01)
    await store.go_on()
    await store.hand_over("first")
    assert rows(dsn, "SELECT owner, due FROM workspaces") == [(None, due.timestamp())]
    await store.close()


def dropped(connection: psycopg.Connection) -> bool:
    """Without the schema of the engine; False: a deadlock with a transaction of the engine."""
    try:
        connection.execute("DROP SCHEMA invoice_sandbox_jobs CASCADE")
    except psycopg.errors.DeadlockDetected:
        return False
    return True


def test_requests_do_not_need_the_job_engine(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    with servers(dsn) as (running,), running.client() as client:
        with psycopg.connect(dsn, autocommit=True) as connection:
            until(lambda: dropped(connection), "no transaction of the engine is in its way")
        until(lambda: not takes_jobs(client), "it takes no jobs")
        assert client.get("/sandbox/health").status_code == 200
        assert create(client).status_code == 201
        until(lambda: "does not exist" in caplog.text, "the reason is logged")


def test_a_process_ends_that_was_interrupted_before_it_takes_jobs(dsn: str) -> None:
    async def begin() -> None:
        database = Database(dsn)
        jobs = database.jobs({}, lambda: asyncio.sleep(0))
        jobs.start(lambda: 1)
        while not jobs.pool():  # noqa: ASYNC110  there is no event of it
            await asyncio.sleep(0)
        database.close()

    asyncio.run(begin())  # ends, though the pool's tasks cannot be cancelled


def test_a_workspace_that_another_server_waits_for_comes_before_what_is_due(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "_MOST", 1)
    names = [f"due{number}" for number in range(9)]

    async def taken_by(database: Database, replica: Replica) -> list[str]:
        taken = asyncio.Queue[str]()

        async def take(family: str) -> None:
            await taken.put(family)

        jobs = database.jobs({"take_up": take, "hand_over": take}, nothing)
        jobs.start(lambda: replica.number)
        try:
            return [await taken.get() for _ in range(len(names) + 1)]
        finally:
            await jobs.close()

    with closing(Database(dsn)) as database:
        replica = families(database, *names, "wanted")
        replica.release(dict.fromkeys(names, 0.0))
        database.register("").claim(name="wanted", is_wanted=True)
        found = asyncio.run(asyncio.wait_for(taken_by(database, replica), PATIENCE))
    assert found == ["wanted", *names]


def test_a_job_for_a_replica_that_is_gone_is_deleted(dsn: str) -> None:
    query = """SELECT queue_name FROM invoice_sandbox_jobs.procrastinate_jobs
        WHERE task_name = 'hand_over'"""
    with closing(Database(dsn)) as database, psycopg.connect(dsn, autocommit=True) as connection:
        gone, other = families(database, "w"), database.register("")
        other.claim(name="w", is_wanted=True)
        asks = [(f"replica {gone.number}",)]
        connection.execute("SET search_path = invoice_sandbox_jobs")
        other.look_after()
        assert rows(dsn, query) == asks
        connection.execute("UPDATE procrastinate_jobs SET status = 'doing'")
        gone.close()
        connection.execute("UPDATE procrastinate_jobs SET status = 'todo'")
        assert rows(dsn, query) == asks, "as the engine gives back what a worker had that ended"
        other.look_after()
        assert rows(dsn, query) == []


def test_an_engine_that_stops_by_itself_is_logged_and_begins_again(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = "invoice_sandbox_jobs.procrastinate_periodic_defers"

    async def begins_again(database: Database, connection: psycopg.Connection) -> None:
        jobs = database.jobs({}, nothing)
        jobs.start(lambda: 1)
        try:
            await asyncio.to_thread(until, lambda: jobs.work, "it takes jobs")
            assert "has stopped by itself" not in caplog.text
            connection.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
            await asyncio.to_thread(until, lambda: "has stopped" in caplog.text, "it is logged")
            connection.execute(
                "ALTER TABLE invoice_sandbox_jobs.elsewhere RENAME TO procrastinate_periodic_defers"
            )
            await asyncio.to_thread(until, lambda: jobs.work, "it takes jobs again")
        finally:
            caplog.clear()
            await jobs.close()
        assert not caplog.text, "it was stopped"

    with closing(Database(dsn)) as database, psycopg.connect(dsn, autocommit=True) as connection:
        database.register("")
        asyncio.run(asyncio.wait_for(begins_again(database, connection), PATIENCE))


def test_a_forged_notification_does_no_harm(dsn: str) -> None:
    with servers(dsn) as (running,), psycopg.connect(dsn, autocommit=True) as connection:
        store, first = shared(running), running.sandbox.engine.first_workspace
        for forged in ("no JSON", "[]", '{"type": "job_inserted", "job_id": 1e999}'):
            running.run(store.hand_over(first))
            connection.execute("SELECT pg_notify('procrastinate_queue_v1#due', %s)", (forged,))
            connection.execute("UPDATE invoice_sandbox.workspaces SET due = 0")
            until(lambda: first in store._families, "it is loaded")  # noqa: SLF001


def test_a_job_holds_the_id_of_a_family_and_nothing_else(dsn: str) -> None:
    with servers(dsn) as (running,), running.client() as client:
        create(client)
        first = running.sandbox.engine.first_workspace
        running.run(shared(running).hand_over(first))
        with psycopg.connect(dsn, autocommit=True) as connection:
            later = time.time() + 3600
            connection.execute("UPDATE invoice_sandbox.workspaces SET due = %s", (later,))
        query = """SELECT queue_name, task_name, lock, queueing_lock, args
            FROM invoice_sandbox_jobs.procrastinate_jobs WHERE task_name <> 'look_after'"""
        assert rows(dsn, query) == [("due", "take_up", None, f"due {first}", {"family": first})]


def test_a_later_version_of_the_engine_needs_a_migration_of_ours() -> None:
    """One that installs its schema as 0004 does: jobs are written again. Then change this."""
    made = hashlib.sha256(SchemaManager.get_schema().encode()).hexdigest()
    assert made == ENGINE_SCHEMA, "the schema of the engine has changed"


# --- several servers


def test_servers_on_one_database_behave_as_one(dsn: str) -> None:
    with servers(dsn, 2) as (one, two), one.client() as here, two.client() as there:
        made = data(create(there))["id"]
        assert data(here.get(f"/api/invoices/{made}")) == data(there.get(f"/api/invoices/{made}"))
        key = data(there.post("/api/developer/api-keys", json={"name": "ci"}))
        with two.client(key["secret"]) as client:
            assert client.get("/api/invoices").status_code == 200
            here.delete("/api/developer/api-keys", params={"id": key["id"]}).raise_for_status()
            assert client.get("/api/invoices").status_code == 401
        first = create(here, "Late-2", **{"Idempotency-Key": "k"})
        again = create(there, "Late-2", **{"Idempotency-Key": "k"})
        assert again.content == first.content
        assert again.headers["Idempotent-Replayed"] == "true"
        paths = [entry["path"] for entry in data(there.get("/sandbox/requests"))]
        assert paths == [entry["path"] for entry in data(here.get("/sandbox/requests"))]
        assert paths.count("/api/invoices") == 5


def test_rate_windows_are_shared(dsn: str) -> None:
    with servers(dsn, 2, rate_limit=4) as (one, two), one.client() as here, two.client() as there:
        statuses = [client.get("/api/invoices").status_code for client in [here, there] * 3]
        assert statuses == [200, 200, 200, 200, 429, 429]
        with two.client("ilk_sandbox_unknown") as unknown, one.client("x") as also:
            found = [client.get("/api/invoices").status_code for client in [unknown, also] * 3]
        assert found == [401, 401, 401, 401, 429, 429]


def test_the_same_request_is_in_flight_once_on_all_servers(dsn: str) -> None:
    with servers(dsn, 2) as (one, two), ThreadPoolExecutor(2) as threads:
        with one.client() as here, two.client() as there:
            slow = {
                "operation": "createInvoice",
                "kind": "latency",
                "delay": "PT1S",
                "when": "after",
            }
            here.post("/sandbox/faults", json=slow).raise_for_status()
            sent = [
                threads.submit(create, client, "INV-9", **{"Idempotency-Key": "k"})
                for client in (here, there)
            ]
            found = [one.result() for one in sent]
        assert {one.status_code for one in found} <= {201, 409}
        ids = {data(one)["id"] for one in found if one.status_code == 201}
        assert len(ids) == 1


def test_a_new_workspace_is_run_by_the_server_of_its_first_request(dsn: str) -> None:
    with servers(dsn, 2) as (one, two), one.client() as here:
        until(lambda: shared(one).others == 1, "the other server is known")
        made = data(here.post("/sandbox/workspaces", json={"seed": 7}))
        with two.client(made["key"]) as client:
            assert create(client).status_code == 201
        assert (made["id"] in shared(two)._families) is True  # noqa: SLF001
        assert made["id"] not in shared(one)._families  # noqa: SLF001
        assert data(here.get("/sandbox/workspaces"))[0]["id"] == made["id"]
        here.delete(f"/sandbox/workspaces/{made['id']}").raise_for_status()
        with two.client(made["key"]) as client:
            assert client.get("/api/invoices").status_code == 401


def test_a_workspace_that_was_deleted_elsewhere_can_be_created_again(dsn: str) -> None:
    with servers(dsn, 2) as (one, two), one.client() as here, two.client() as there:
        until(lambda: shared(one).others == 1, "the other server is known")
        made = data(here.post("/sandbox/workspaces", json={"seed": 7}))
        with two.client(made["key"]) as client:
            create(client).raise_for_status()
        here.delete(f"/sandbox/workspaces/{made['id']}").raise_for_status()
        two.run(shared(two).take(two.sandbox.engine.first_workspace))
        again = data(there.post("/sandbox/workspaces", json={"seed": 7}))
        assert again["id"] == made["id"]
        with two.client(again["key"]) as client:
            assert create(client).status_code == 201


def test_steps_and_deliveries_happen_once_wherever_the_clock_is_moved(dsn: str) -> None:
    changed = {"scenario": "auto-progress"}
    with servers(dsn, 2, **changed) as (one, two), one.client() as here, two.client() as there:
        with receiving() as receiver:
            hook = {"url": receiver.url, "events": ["*"]}
            there.post("/api/webhooks", json=hook).raise_for_status()
            create(there)
            done = data(there.post("/sandbox/clock/advance", json={"by": "P1D"}))
            assert data(here.get("/sandbox/clock"))["now"] == done["now"]
            ids = receiver.ids()
        assert len(ids) == len(set(ids)) >= 3


def test_each_server_reports_its_own_health_and_metrics(dsn: str) -> None:
    with servers(dsn, 3, metrics=True) as running:
        for one in running:
            with one.client(None) as client:
                until(partial(takes_jobs, client), "it takes jobs")
                found = data(client.get("/sandbox/health"))
                assert found == {"status": "ok", "store": "ready", "jobs": "ready"}
                assert data(client.get("/sandbox/health/live")) == {"status": "ok"}
                assert client.post("/sandbox/health").status_code == 405
                page = client.get("/metrics").text
                assert 'sandbox_requests_total{operation="getSandboxHealth",status="200"}' in page
                assert 'sandbox_ready{part="jobs"} 1.0' in page


def test_a_fault_of_the_connection_reaches_the_client_of_another_server(dsn: str) -> None:
    with servers(dsn, 2) as (one, two), one.client() as here, two.client() as there:
        fault = {"operation": "listInvoices", "kind": "reset"}
        there.post("/sandbox/faults", json=fault).raise_for_status()
        with pytest.raises(httpx.TransportError):
            there.get("/api/invoices")
        assert here.get("/api/invoices").status_code == 200


def test_nobody_can_pretend_to_be_another_server(dsn: str) -> None:
    with servers(dsn, 1, rate_limit=2) as (running,), running.client("unknown") as client:
        header = {"X-Sandbox-Replica": "guessed 192.0.2.7"}
        statuses = [client.get("/api/invoices", headers=header).status_code for _ in range(3)]
        assert statuses == [401, 401, 429]  # the window of the real address


def test_a_server_that_ended_without_a_word_is_replaced(dsn: str) -> None:
    with (
        servers(dsn, metrics=True) as (running,),
        running.client() as client,
        closing(Database(dsn)) as database,
        closing(socket.socket()) as gone,
    ):
        gone.bind(("127.0.0.1", 0))
        other = database.register(f"http://127.0.0.1:{gone.getsockname()[1]}")
        made = data(create(client))["id"]
        running.run(shared(running).hand_over(running.sandbox.engine.first_workspace))
        assert other.claim() is not None
        failed = client.get(f"/api/invoices/{made}")  # nobody listens there
        assert (failed.status_code, failed.headers["Retry-After"]) == (503, "1")
        assert failed.json()["error"]["requestId"] == failed.headers["X-Request-Id"]
        counted = 'sandbox_requests_total{operation="getInvoice",status="503"} 1.0'
        assert counted in client.get("/metrics").text
        assert data(client.get(f"/api/invoices/{made}"))["id"] == made


@contextmanager
def silent(dsn: str, running: Running, *, ends: bool) -> Iterator[None]:
    """Let another server run the first workspace, which closes connections instead of responding,
    and is no longer registered by then if it ``ends``."""
    with closing(Database(dsn)) as database:

        def end(other: Replica) -> bytes:
            if ends:
                database.retire(other.number)
            return b""

        with another(database, running, end):
            yield


@contextmanager
def another(
    database: Database, running: Running, respond: Callable[[Replica], bytes]
) -> Iterator[list[bytes]]:
    """Let another server run the first workspace, which sends what ``respond`` returns, and closes
    the connection. Yields the requests that it gets."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = database.register(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def accept() -> None:
            with suppress(OSError), listener.accept()[0] as connected:
                received = b""
                while not is_whole(received) and (part := connected.recv(65536)):
                    received += part
                requests.append(received)
                connected.sendall(respond(other))

        accepting = threading.Thread(target=accept)
        accepting.start()
        running.run(shared(running).hand_over(running.sandbox.engine.first_workspace))
        assert other.claim() is not None
        try:
            yield requests
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE)


def is_whole(received: bytes) -> bool:
    """Whether this is a request with all of its body."""
    head, end, body = received.partition(b"\r\n\r\n")
    declared = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(end) and len(body) >= (int(declared[1]) if declared else 0)


def signed(dsn: str, text: str, client: str) -> dict[str, str]:
    """The header by which a server names the client of a request that it sends on."""
    with closing(Database(dsn)) as database:
        secret = database.secret().encode()
    signature = hmac.digest(secret, f"{text}\n{client}".encode(), "sha256").hex()
    return {"X-Sandbox-Replica": f"{signature} {client}"}


def test_a_request_is_sent_on_as_it_came_and_so_is_its_response(dsn: str) -> None:
    """What is about one connection only is not."""
    given = (
        b"HTTP/1.1 203 Whatever\r\nX-One: 1\r\nX-one: 2\r\nConnection: close\r\n"
        b"Keep-Alive: timeout=9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    forged = b"X-Sandbox-Replica: guessed 192.0.2.7\r\n"
    fields = b"Content-Type: text/plain\r\nX-Mine: a\r\nX-Mine: b\r\nContent-Length: 300000\r\n"
    target, about_connection = b"/api/a%2Fb?c=%20d&e", b"TE: trailers\r\nKeep-Alive: 5\r\n" + forged
    with (
        servers(dsn) as (running,),
        closing(Database(dsn)) as database,
        another(database, running, lambda _: given) as requests,
        socket.create_connection(("127.0.0.1", running.port), PATIENCE) as client,
    ):
        head = b"POST " + target + b" HTTP/1.1\r\nHost: localhost\r\n"
        client.sendall(head + about_connection + fields + b"Connection: close\r\n\r\n")
        client.sendall(b"to the end" * 30_000)
        response = http.client.HTTPResponse(client)
        response.begin()
        assert (response.status, response.read()) == (203, b"abc")
        assert response.headers.get_all("x-one") == ["1", "2"]
        assert response.headers["keep-alive"] is None
        head, _, body = requests[0].partition(b"\r\n\r\n")
    assert body == b"to the end" * 30_000
    first, *lines = head.split(b"\r\n")
    assert first == b"POST " + target + b" HTTP/1.1"
    sent = [(name.lower(), value) for name, _, value in (one.partition(b": ") for one in lines)]
    own = signed(dsn, "POST\n/api/a%2Fb\nc=%20d&e", "127.0.0.1")["X-Sandbox-Replica"]
    assert sorted(sent) == [
        (b"content-length", b"300000"),
        (b"content-type", b"text/plain"),
        (b"host", b"localhost"),
        (b"x-mine", b"a"),
        (b"x-mine", b"b"),
        (b"x-sandbox-replica", own.encode()),
    ]


CLAIMS = {
    "as it was signed": ("POST\n/api/invoices\na=b", "192.0.2.7"),
    "another client": ("POST\n/api/invoices\na=b", "192.0.2.8"),
    "another method": ("PUT\n/api/invoices\na=b", "192.0.2.7"),
    "another path": ("POST\n/api/offers\na=b", "192.0.2.7"),
    "another query": ("POST\n/api/invoices\n", "192.0.2.7"),
}


def test_whom_another_server_names_is_the_client_of_the_request_it_signed(dsn: str) -> None:
    found = []
    with servers(dsn) as (running,), running.client() as client:
        for number, (text, signed_for) in enumerate(CLAIMS.values()):
            signature = signed(dsn, text, signed_for)["X-Sandbox-Replica"].partition(" ")[0]
            headers = {"X-Sandbox-Replica": f"{signature} 192.0.2.7"}
            invoice = {**DATED, "invoiceNumber": f"Late-{number}"}
            client.post("/api/invoices?a=b", json=invoice, headers=headers).raise_for_status()
            found.append(data(client.get("/api/audit-log"))[0]["context"]["ip"])
        assert "x-sandbox-replica" not in client.get("/sandbox/requests").text
    assert found == ["192.0.2.7"] + ["127.0.0.1"] * 4


def test_a_request_that_was_sent_on_is_not_sent_on_again(dsn: str) -> None:
    """The workspace has moved meanwhile."""
    with (
        servers(dsn) as (running,),
        running.client() as client,
        closing(Database(dsn)) as database,
        another(database, running, lambda _: b"HTTP/1.1 204 Sent on\r\n\r\n") as requests,
    ):
        headers = signed(dsn, "GET\n/api/invoices\n", "192.0.2.7")
        response = client.get("/api/invoices", headers=headers)
        assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
        nowhere = client.get("/nowhere", headers=signed(dsn, "GET\n/nowhere\n", "192.0.2.7"))
        assert nowhere.status_code == 404
        assert not requests
        assert client.get("/api/invoices").status_code == 204


def test_a_server_that_accepts_no_connection_is_503(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "_SECONDS_TO_CONNECT", 0.1)
    with (
        servers(dsn) as (running,),
        running.client() as client,
        closing(Database(dsn)) as database,
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        socket.create_connection(full.getsockname()),
    ):
        other = database.register(f"http://127.0.0.1:{full.getsockname()[1]}")
        running.run(shared(running).hand_over(running.sandbox.engine.first_workspace))
        assert other.claim() is not None
        rejected = client.get("/api/invoices")
    assert (rejected.status_code, rejected.headers["Retry-After"]) == (503, "1")


KEYED: Final = {
    "bearer": ({"type": "http", "scheme": "bearer"}, {"headers": {"Authorization": "Bearer {}"}}),
    "basic": ({"type": "http", "scheme": "basic"}, {"headers": {"Authorization": "Basic {}"}}),
    "header": (
        {"type": "apiKey", "in": "header", "name": "X-Key"},
        {"headers": {"X-Key": "{}"}},
    ),
    "query": ({"type": "apiKey", "in": "query", "name": "api_key"}, {"params": {"api_key": "{}"}}),
    "cookie": (
        {"type": "apiKey", "in": "cookie", "name": "sid"},
        {"headers": {"Cookie": "a=b; sid={}"}},
    ),
}


def test_the_workspace_is_found_by_its_key_wherever_that_is(dsn: str, tmp_path: Path) -> None:
    """A server responds for a workspace that the other one runs, by the other one."""
    reply = {"200": {"description": "in", "content": {"application/json": {"example": 1}}}}
    paths = {
        f"/{name}": {"get": {"operationId": name, "security": [{name: []}], "responses": reply}}
        for name in KEYED
    }
    schemes = {name: scheme for name, (scheme, _) in KEYED.items()}
    file = tmp_path / "contract.json"
    document = {"openapi": "3.1.0", "info": {"title": "Keyed", "version": "1"}, "paths": paths}
    file.write_text(json.dumps({**document, "components": {"securitySchemes": schemes}}))
    with servers(dsn, 2, contract=file) as (one, two), two.client() as maker:
        made = data(maker.post("/sandbox/workspaces", json={}))
        key = made["key"]
        with two.client(key) as owner, one.client(None) as client:
            one.run(shared(one).hand_over(made["id"]))
            owner.get("/sandbox/clock").raise_for_status()
            for name, (_, sent) in KEYED.items():
                secret = base64.b64encode(f"u:{key}".encode()).decode() if name == "basic" else key
                ((where, members),) = sent.items()
                given = {member: text.format(secret) for member, text in members.items()}
                carried: dict[str, Any] = {where: given}
                assert client.get(f"/{name}", **carried).status_code == 200
            seen = {entry["path"] for entry in data(owner.get("/sandbox/requests"))}
            assert len(seen) == len(KEYED)


def test_a_webhook_for_a_listener_is_for_the_server_that_has_the_listener(dsn: str) -> None:
    """Its address names no workspace, and the other server runs the first one."""
    with servers(dsn, 2) as (one, two), two.client() as maker:
        made = data(maker.post("/sandbox/workspaces", json={}))
        one.run(shared(one).hand_over(made["id"]))
        with two.client(made["key"]) as owner:
            listener = data(owner.post("/sandbox/listeners", json={}), 201)
            response = owner.post(listener["url"], json={}, headers={"Authorization": ""})
        assert (response.status_code, response.text) == (503, "no client is connected")
        with one.client() as first:
            listener = data(first.post("/sandbox/listeners", json={}), 201)
        with two.client(None) as sender:
            response = sender.post(httpx.URL(listener["url"]).path, json={})
        assert (response.status_code, response.text) == (503, "no client is connected")


ADDRESSES = {
    "http://127.0.0.1:{}": True,
    "http://[::1]:{}": True,
    "http://localhost:{}": False,
    "http://0.0.0.0:{}": False,
    "http://127.0.0.1:{}/": False,
}


@pytest.mark.parametrize(("address", "has_ended"), ADDRESSES.items(), ids=ADDRESSES)
def test_a_server_has_ended_if_nobody_listens_at_its_loopback_address(
    dsn: str, address: str, has_ended: bool
) -> None:
    """What another name or network leads to may be unreachable from here alone."""
    with (
        servers(dsn) as (running,),
        running.client() as client,
        closing(Database(dsn)) as database,
        closing(socket.socket()) as gone,
    ):
        gone.bind(("127.0.0.1", 0))
        other = database.register(address.format(gone.getsockname()[1]))
        running.run(shared(running).hand_over(running.sandbox.engine.first_workspace))
        assert other.claim() is not None
        found = [client.get("/api/invoices").status_code for _ in range(2)]
        assert found == [503, 200 if has_ended else 503]


def test_a_request_to_a_server_that_ends_is_read_elsewhere_or_503(dsn: str) -> None:
    with servers(dsn) as (running,), running.client() as client:
        made = data(create(client))["id"]
        with silent(dsn, running, ends=True):
            assert data(client.get(f"/api/invoices/{made}"))["id"] == made
        with silent(dsn, running, ends=True):
            failed = create(client, "Late-2")  # it may have been carried out
            assert (failed.status_code, failed.headers["Retry-After"]) == (503, "1")
        assert create(client, "Late-2").status_code == 201


def test_a_connection_that_a_running_server_closes_is_closed_for_the_client_too(dsn: str) -> None:
    with servers(dsn) as (running,), running.client() as client:
        create(client).raise_for_status()
        with silent(dsn, running, ends=False), pytest.raises(httpx.TransportError):
            client.get("/api/invoices")


def test_a_server_that_lost_its_lease_responds_503_and_begins_again(dsn: str) -> None:
    with servers(dsn) as (running,), running.client() as client:
        made = data(create(client))["id"]
        store = shared(running)
        old = store.database.number
        store.shared.retire(old)
        failed = create(client, "Late-2")
        assert failed.status_code == 503
        assert failed.headers["Retry-After"] == "1"
        until(lambda: store.database.number != old, "a new replica")
        until(lambda: client.get("/api/offers").is_success, "it runs the workspace")
        assert data(client.get(f"/api/invoices/{made}"))["id"] == made
        assert "Late-2" not in client.get("/api/invoices").text
        assert create(client, "Late-3").status_code == 201


def test_a_server_that_was_replaced_while_it_takes_up_work_begins_again(dsn: str) -> None:
    """And does not run what it has read as the earlier replica."""
    with (
        servers(dsn) as (running,),
        running.client() as client,
        psycopg.connect(dsn) as locking,
        psycopg.connect(dsn, autocommit=True) as other,
    ):
        store, child = shared(running), data(client.post("/sandbox/workspaces", json={}))["id"]
        running.run(store.hand_over(child))
        locking.execute("LOCK TABLE invoice_sandbox.records")
        other.execute(
            "UPDATE invoice_sandbox.workspaces SET due = 0 WHERE workspace = %s", (child,)
        )
        until(lambda: bool(waiting_for_a_lock(other)), "its rows are being read")
        reading, old = waiting_for_a_lock(other), store.database.number
        other.execute("DELETE FROM invoice_sandbox.replicas")
        store._lease.ends = inf  # noqa: SLF001  as if that had been long before its end
        until(lambda: store.database.number != old, "it has begun again")
        assert reading <= waiting_for_a_lock(other)
        other.execute("UPDATE invoice_sandbox.workspaces SET owner = NULL, due = NULL")
        locking.rollback()
        until(lambda: not reading & waiting_for_a_lock(other), "its rows were read")
        until(lambda: client.get("/api/offers").is_success, "it runs what it is asked for")
        assert child not in store._families  # noqa: SLF001


def waiting_for_a_lock(connection: psycopg.Connection) -> set[Any]:
    """When each statement began that waits."""
    query = """SELECT query_start FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    return {one for (one,) in connection.execute(query)}


def test_what_a_server_changed_before_it_began_again_is_not_acknowledged(dsn: str) -> None:
    with servers(dsn) as (running,):
        store, first = shared(running), running.sandbox.engine.first_workspace

        async def work() -> None:
            async with store.transaction(first) as state:
                await state.put("notes", "note_1", {"id": "note_1"})
            await store.begin_again()
            with pytest.raises(ApiError, match="store_unavailable"):
                await store.flush()
            store.begin_request()
            await store.flush()

        running.run(work())


def test_a_workspace_that_is_loaded_while_the_server_begins_again_is_not_run(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server may run it by then."""
    with servers(dsn) as (running,):
        store, first = shared(running), running.sandbox.engine.first_workspace
        read = store.shared.read

        def read_slowly(family: str) -> Any:
            running.run(store.begin_again())
            return read(family)

        running.run(store.hand_over(first))
        monkeypatch.setattr(store.shared, "read", read_slowly)
        with pytest.raises(ApiError, match="store_unavailable"):
            running.run(store.locate([]))
        assert running.run(store.workspace(first)) is None


def test_a_server_that_starts_with_another_key_adds_it_to_the_first_workspace(dsn: str) -> None:
    key = new_key()
    with servers(dsn) as (one,), one.client() as here:
        made = data(create(here))["id"]
        settings = replace(FROZEN, store=Postgresql(dsn), key=key)
        with serving(settings) as two, two.client(key) as there:
            assert data(there.get(f"/api/invoices/{made}"))["id"] == made
            assert here.get(f"/api/invoices/{made}").status_code == 200


@pytest.mark.slow
def test_a_database_that_says_nothing_more_is_503(proxy: Proxy) -> None:
    """As on a network that drops what is sent."""
    with servers(proxy.dsn) as (running,), running.client() as client:
        proxy.is_silent = True
        assert create(client, "Late-1").status_code == 503
        assert client.get("/api/invoices").status_code == 503
        proxy.is_silent = False
        proxy.cut()
        until(partial(is_created, client, "Late-2"), "the database is back")


def test_due_work_is_taken_up_though_it_could_not_be_read_at_first(dsn: str, proxy: Proxy) -> None:
    with servers(proxy.dsn) as (running,), psycopg.connect(dsn, autocommit=True) as connection:
        store, first = shared(running), running.sandbox.engine.first_workspace
        running.run(store.hand_over(first))
        proxy.cut_at = lambda content: b"members" in content
        connection.execute("UPDATE invoice_sandbox.workspaces SET due = 0")
        until(lambda: first in store._families, "it is loaded")  # noqa: SLF001
        assert proxy.cut_at is None


# --- several processes


@pytest.mark.process
@pytest.mark.slow
def test_workers_serve_on_one_port_and_one_that_is_killed_is_replaced(dsn: str) -> None:
    server = Server(dsn, "--workers", "2")
    try:
        assert written(server, "before")
        until(lambda: len(children(server)) == 2, "both processes run")
        first = children(server)[0]
        os.kill(first, signal.SIGKILL)
        until(lambda: written(server, "after"), "the other process runs the workspace")
        until(lambda: len({*children(server)} - {first}) == 2, "it is replaced")
        found = [one["invoiceNumber"] for one in server.ask("GET", "/api/invoices")]
        assert (found.count("before"), found.count("after")) == (1, 1)
        left = children(server)
    finally:
        server.kill()
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in left), "they end with it")


WORKERS: Final = """
import os, signal, time
from invoice_sandbox.server import workers

def stop_the_second():
    if len(forks) == 2:
        os.kill(os.getpid(), signal.SIGTERM)

def serve(on_ready):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if on_ready:
        on_ready()
    print(len(forks), flush=True)
    time.sleep(60)

forks, workers._SECONDS_TO_STOP = [], 0.1
os.register_at_fork(before=lambda: forks.append(1), after_in_child=stop_the_second)
workers.Workers(serve, 2).run()
"""


@pytest.mark.process
def test_a_process_is_stopped_that_has_just_begun_or_does_not_end() -> None:
    """One that gets a signal before it serves ends, and is replaced. It does not stop the others,
    and the server does not wait for it for ever."""
    with subprocess.Popen([sys.executable, "-c", WORKERS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert {process.stdout.readline() for _ in range(2)} == {b"1\n", b"3\n"}
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def written(server: Server, number: str) -> bool:
    """Create an invoice with that number as its key. False: 503, or the process has ended."""
    try:
        invoice = {**DATED, "invoiceNumber": number}
        server.ask("POST", "/api/invoices", invoice, key=number)
    except (NotNowError, OSError, http.client.HTTPException):
        return False
    return True


def children(server: Server) -> list[int]:
    """The processes of a server, oldest first."""
    text = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    return [int(one) for one in text.split()]


# --- round trips


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    """A proxy before the database."""
    with closing(Proxy(dsn)) as proxy:
        yield proxy


def round_trips(proxy: Proxy, send: Callable[[], httpx.Response], times: int = 25) -> float:
    """How many round trips a request takes; the lease is extended, and jobs are looked for, too."""
    found = []
    for _ in range(times):
        before = proxy.round_trips
        send().raise_for_status()
        found.append(proxy.round_trips - before)
    return min(found)


def test_a_get_takes_at_most_4_round_trips_and_a_post_at_most_6(dsn: str, proxy: Proxy) -> None:
    with servers(proxy.dsn) as (one,), one.client() as client:
        until(lambda: data(client.get("/sandbox/health"))["jobs"] == "ready", "jobs are taken")
        assert round_trips(proxy, lambda: client.get("/api/invoices")) == 0
        assert 1 <= round_trips(proxy, lambda: create(client)) <= 6
    with servers(dsn) as (first,), servers(proxy.dsn) as (other,), other.client() as client:
        with first.client() as runs:
            runs.get("/api/invoices").raise_for_status()
        assert 1 <= round_trips(proxy, lambda: client.get("/api/invoices")) <= 4
        assert 1 <= round_trips(proxy, lambda: create(client)) <= 6


def test_an_invoice_its_numbers_and_its_journal_entry_are_one_transaction(dsn: str) -> None:
    """A row has the id of the transaction that wrote it (``xmin``)."""
    with servers(dsn) as (one,), one.client() as client:
        for turn in range(3):
            create(client, f"INV-{turn}").raise_for_status()
        workspace = one.sandbox.engine.first_workspace
    rows = {
        "records": "collection IN ('invoices', 'events', 'audit_events')",
        "logs": "encode(content, 'escape') LIKE '%\"createInvoice\"%'",
        "numbers": "name = 'inv_sandbox'",
    }
    with restricted(dsn, workspace) as connection:
        wrote = {
            table: [
                str(one)
                for (one,) in connection.execute(
                    f"SELECT xmin FROM {table} WHERE {where} ORDER BY xmin::text::bigint"
                )
            ]
            for table, where in rows.items()
        }
    requests = wrote["logs"]
    assert len(set(requests)) == len(requests) == 3
    assert wrote["records"][-9:] == sorted(requests * 3, key=int)
    assert wrote["numbers"] == requests[-1:]


def test_a_connection_that_is_cut_in_a_commit_loses_and_repeats_nothing(proxy: Proxy) -> None:
    numbers = [f"INV-{turn}" for turn in range(6)]
    with servers(proxy.dsn) as (running,), running.client() as client:
        for number in numbers:
            proxy.cut_at = lambda content: b"COMMIT" in content
            until(partial(is_created, client, number), "the invoice is created")
        until(lambda: client.get("/api/invoices").is_success, "the database is back")
        found = [one["invoiceNumber"] for one in data(client.get("/api/invoices?limit=100"))]
    assert [found.count(number) for number in numbers] == [1] * 6


def is_created(client: httpx.Client, number: str) -> bool:
    """Create an invoice, once. False: 503."""
    response = create(client, number, **{"Idempotency-Key": number})
    assert response.status_code in {201, 503}
    return response.status_code == 201


def test_a_database_that_is_gone_is_503_until_it_is_back(proxy: Proxy) -> None:
    with servers(proxy.dsn, metrics=True) as (running,), running.client() as client:
        assert is_created(client, "INV-1")
        proxy.is_gone = True
        proxy.cut()
        failed = create(client, "Late-2", **{"Idempotency-Key": "Late-2"})
        assert (failed.status_code, failed.headers["Retry-After"]) == (503, "1")
        health = client.get("/sandbox/health")
        assert (health.status_code, health.json()["data"]["store"]) == (503, "unavailable")
        until(lambda: not takes_jobs(client), "it knows that it can take none")
        assert client.get("/sandbox/health/live").status_code == 200
        page = client.get("/metrics").text
        assert 'sandbox_ready{part="store"} 0.0' in page
        assert 'sandbox_requests_total{operation="createInvoice",status="503"} 1.0' in page
        proxy.is_gone = False
        until(partial(is_created, client, "Late-2"), "the database is back")
        assert client.get("/api/invoices").text.count("Late-2") == 1
        until(partial(takes_jobs, client), "so is the job engine")


def takes_jobs(client: httpx.Client) -> bool:
    found = client.get("/sandbox/health").json()["data"]["jobs"]
    assert found in {"ready", "unavailable"}
    return bool(found == "ready")
