"""The commands of docs/durability.md that make a backup of a store, and restore it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from invoice_sandbox.settings import Postgresql
from invoice_sandbox.state.sql import TABLES
from invoice_sandbox.state.sql_store import SqlStore
from tests.databases import empty_server, new_database, programs, server
from tests.receivers import receiving
from tests.scenario_run import data
from tests.support import FROZEN, Running, serving
from tests.test_durability import everything
from tests.test_postgresql import create, restricted

PAGE = Path(__file__).parents[1] / "docs" / "durability.md"
USER = "sandbox_user"


def block(name: str) -> str:
    """The commands that the page has under a name."""
    (found,) = re.findall(rf"<!-- {name} -->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def run(commands: str, folder: Path, **environment: str) -> str:
    """Run commands in a folder. What they print."""
    path = os.pathsep.join([str(Path(sys.executable).parent), str(programs()), os.environ["PATH"]])
    bash = shutil.which("bash")
    assert bash, "the commands of the documentation are written for bash"
    environment = os.environ | environment | {"PATH": path}
    with (folder / "printed").open("w+") as printed:  # no pipe, which servers would hold open
        subprocess.run(
            [bash, "-euc", commands], cwd=folder, env=environment, stdout=printed, check=True
        )
        printed.seek(0)
        return printed.read()


@contextmanager
def served(store: Path | str) -> Iterator[Running]:
    place = store if isinstance(store, Path) else Postgresql(store)
    with serving(replace(FROZEN, store=place, scenario="auto-progress")) as running:
        yield running


def fill(running: Running) -> str:
    """Let two workspaces have something of everything. The key of the second one."""
    with running.client() as client, receiving() as receiver:
        made = data(client.post("/sandbox/workspaces", json={"seed": 7}))
        hook = {"url": receiver.url, "events": ["*"]}
        client.post("/api/webhooks", json=hook).raise_for_status()
        create(client).raise_for_status()
        data(client.post("/sandbox/clock/advance", json={"by": "PT1H"}))
        client.post("/sandbox/snapshots", json={"name": "before"}).raise_for_status()
        create(client, "INV-2", **{"Idempotency-Key": "once"}).raise_for_status()
    with running.client(made["key"]) as other:
        create(other, "OTHER-1").raise_for_status()
    return str(made["key"])


def shown(running: Running, key: str) -> list[Any]:
    """What clients see of both workspaces, without logs, whose last entries are written later."""
    with running.client() as first, running.client(key) as second:
        seen = [everything(first), everything(second)]
    for one in seen:
        del one["/sandbox/requests"], one["/sandbox/agenda"]["data"]["done"]
    return seen


def is_complete(running: Running, key: str, before: list[Any]) -> None:
    """The restored server has what there was at the backup, and goes on."""
    assert shown(running, key) == before
    with running.client() as client:
        again = create(client, "INV-2", **{"Idempotency-Key": "once"})
        assert again.headers["Idempotent-Replayed"] == "true"
        data(client.post("/sandbox/clock/advance", json={"by": "P30D"}))
        created = data(create(client, "INV-3"))
    ids = [one["id"] for one in before[0]["/api/invoices"]["data"]]
    assert created["id"] not in ids


def test_a_file_is_restored_from_a_backup_that_was_made_while_it_was_served(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with served(file) as running:
        key = fill(running)
        before = shown(running, key)
        store = running.store
        assert isinstance(store, SqlStore)
        running.call(store.write_logs)  # as after a second
        run(block("backup of a file"), tmp_path)
        with running.client() as client:
            create(client, "Late-1").raise_for_status()
    run(block("restore a file"), tmp_path)
    with served(file) as running:
        is_complete(running, key, before)


def user_of(uri: str, rights: str) -> str:
    """The address of a new database that belongs to a user without the rights of a superuser."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {USER}")
        connection.execute(f"DROP ROLE IF EXISTS {USER}")
        connection.execute(f"CREATE ROLE {USER} LOGIN {rights}")
        connection.execute(f"CREATE DATABASE {USER} OWNER {USER}")
    host = psycopg.conninfo.conninfo_to_dict(uri)["host"]
    return f"postgresql://{USER}@/{USER}?host={host}"


@pytest.mark.process
@pytest.mark.slow
def test_a_database_is_restored_on_an_empty_server(tmp_path: Path) -> None:
    """The user of both is not a superuser."""
    new_database()  # the role of servers is there, as another database has it
    source = user_of(server().get_uri(), "IN ROLE invoice_sandbox_server")
    with served(source) as running:
        key = fill(running)
        before = shown(running, key)
        run(block("backup of a database"), tmp_path, STORE=source)
    with empty_server() as uri:
        target = user_of(uri, "CREATEROLE")
        run(block("restore a database"), tmp_path, STORE=target)
        with served(target) as running:
            is_complete(running, key, before)
        run(block("restore a database"), tmp_path, STORE=target)  # over what there is now
        with served(target) as running:
            assert shown(running, key) == before
        for table in TABLES:
            with restricted(target, "nobody") as connection:
                assert connection.execute(f"SELECT FROM {table}").rowcount == 0
