"""State that outlives the process: ``--store sqlite:///FILE``."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.ids import new_key
from invoice_sandbox.settings import Postgresql, SettingError, read_settings
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.state.sql_store import SqlStore
from invoice_sandbox.state.sqlite import Database
from tests.cases import in_turn
from tests.databases import new_database
from tests.scenario_run import DATED
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.slow

NOBODY = 65534
FAULT = {"operation": "createOffer", "kind": "status", "status": 503, "count": 2}
UNSEEN = {"X-Sandbox-Journal": "off"}
ANN = {"email": "ann@corp.example", "password": "correct horse battery", "role": "seller"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test keeps the state."""
    return tmp_path / "state.db"


Place = Path | Postgresql
_POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


@pytest.fixture(params=["sqlite", _POSTGRESQL])
def place(request: pytest.FixtureRequest, file: Path) -> Place:
    """A file or a database where a test keeps the state."""
    return file if request.param == "sqlite" else Postgresql(new_database())


@contextmanager
def kept(place: Place, at: datetime | None = None, **changed: Any) -> Iterator[Running]:
    """A server that keeps its state in a file or a database, until the end of the block.

    ``at`` is the instant at which it starts.
    """
    with serving(replace(FROZEN, store=place, **changed), at=at) as running:
        yield running


def created(client: httpx.Client, number: str, **headers: str) -> dict[str, Any]:
    """The invoice of that number, after it was created."""
    response = client.post(
        "/api/invoices", json={**DATED, "invoiceNumber": number}, headers=headers
    )
    assert response.status_code == 201, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


def data_of(client: httpx.Client, path: str) -> Any:
    """What a GET returns, which leaves nothing in the journal."""
    response = client.get(path, headers=UNSEEN)
    assert response.status_code == 200, response.text
    return response.json()["data"]


EVERYTHING = [
    "/api/invoices",
    "/api/offers",
    "/api/audit-log",
    "/api/webhooks",
    "/api/developer/api-keys",
    "/sandbox/requests",
    "/sandbox/faults",
    "/sandbox/snapshots",
    "/sandbox/clock",
    "/sandbox/agenda",
    "/sandbox/scenario",
]


def everything(client: httpx.Client) -> dict[str, Any]:
    """What a client can see of its workspace."""
    responses = {path: client.get(path, headers=UNSEEN) for path in EVERYTHING}
    return {path: one.json() for path, one in responses.items() if one.status_code == 200}


def test_a_restart_changes_nothing_that_a_client_sees(place: Place) -> None:
    with kept(place, scenario="auto-progress") as running, running.client() as client:
        created(client, "INV-1")
        client.post("/api/webhooks", json={"url": "https://receiver.example/hook", "events": ["*"]})
        client.post("/sandbox/clock/advance", json={"by": "PT3S"}).raise_for_status()
        client.post("/sandbox/faults", json=FAULT)
        client.post("/sandbox/snapshots").raise_for_status()
        before = everything(client)
    with kept(place, scenario="auto-progress") as running, running.client() as client:
        assert everything(client) == before
    assert len(before) >= 9


def test_ids_go_on_after_a_restart_and_none_is_repeated(place: Place) -> None:
    ids: list[str] = []
    for turn in range(3):
        with kept(place) as running, running.client() as client:
            ids += [created(client, f"{turn}-{n}")["id"] for n in range(3)]
    assert len(set(ids)) == 9


def test_a_repeated_request_gets_the_response_of_before_the_restart(place: Place) -> None:
    with kept(place) as running, running.client() as client:
        first = created(client, "INV-1", **{"Idempotency-Key": "k-1"})
    with kept(place) as running, running.client() as client:
        assert created(client, "INV-1", **{"Idempotency-Key": "k-1"}) == first


def test_a_session_outlives_a_restart(place: Place) -> None:
    with kept(place) as running, running.client() as client:
        client.post("/sandbox/users", json=ANN).raise_for_status()
        client.post("/api/auth/login", json=ANN).raise_for_status()
        cookies = dict(client.cookies)
    with kept(place) as running, running.client(key=None) as client:
        client.cookies.update(cookies)
        assert data_of(client, "/api/auth/session")["authenticated"] is True


def test_a_revoked_key_stays_revoked(place: Place) -> None:
    with kept(place) as running, running.client() as client:
        created_key = client.post("/api/developer/api-keys", json={"name": "ci"}).json()["data"]
        client.delete("/api/developer/api-keys", params={"id": created_key["id"]})
    with kept(place) as running, running.client(created_key["secret"]) as client:
        assert client.get("/api/invoices").status_code == 401


def test_a_restored_snapshot_of_an_earlier_process_is_the_same(place: Place) -> None:
    with kept(place) as running, running.client() as client:
        created(client, "INV-1")
        snapshot = client.post("/sandbox/snapshots").json()["data"]["id"]
        seen = data_of(client, "/api/invoices")
        created(client, "Late-2")
    with kept(place) as running, running.client() as client:
        client.post(f"/sandbox/snapshots/{snapshot}/restore").raise_for_status()
        assert data_of(client, "/api/invoices") == seen
        client.post("/sandbox/reset").raise_for_status()
        first = created(client, "INV-1")
    assert first["id"] in {one["id"] for one in seen}


def test_workspaces_outlive_a_restart_and_a_deleted_one_does_not(place: Place) -> None:
    with kept(place) as running:
        keys = [running.new_workspace(seed) for seed in (1, 2)]
        with running.client(keys[0]) as client:
            created(client, "INV-1")
        with running.client(keys[1]) as client:
            own = next(one for one in data_of(client, "/sandbox/workspaces") if one["current"])
        with running.client() as client:
            client.delete(f"/sandbox/workspaces/{own['id']}").raise_for_status()
    with kept(place) as running:
        with running.client(keys[0]) as client:
            assert "INV-1" in client.get("/api/invoices").text
        with running.client(keys[1]) as client:
            assert client.get("/api/invoices").status_code == 401


def test_steps_that_fell_due_while_the_server_was_down_are_done(place: Place) -> None:
    live: dict[str, Any] = {"clock": ClockState("live"), "scenario": "auto-progress"}
    with kept(place, **live) as running, running.client() as client:
        invoice = created(client, "INV-1")
        now = running.system_clock.instant
    with kept(place, at=now + timedelta(hours=1), **live) as running, running.client() as client:
        deadline = time.monotonic() + PATIENCE
        while "invoice.verified" not in client.get("/api/audit-log").text:
            assert time.monotonic() < deadline
        assert data_of(client, f"/api/invoices/{invoice['id']}")["status"] != "Registered"


def test_another_key_opens_the_kept_workspace_and_the_old_one_still_does(place: Place) -> None:
    other = new_key()
    with kept(place) as running, running.client() as client:
        invoice = created(client, "INV-1")
    with kept(place, key=other) as running:
        for key in (DEMO_KEY, other):
            with running.client(key) as client:
                assert data_of(client, f"/api/invoices/{invoice['id']}") == invoice


def test_a_key_that_was_revoked_does_not_open_the_kept_workspace_again(place: Place) -> None:
    other = new_key()
    with kept(place, key=other) as running, running.client(other) as client:
        made = client.post("/api/developer/api-keys", json={"name": "x", "scopes": ["*"]})
        keys = data_of(client, "/api/developer/api-keys")
        own = next(one for one in keys if one["name"] == "Workspace key")
        with running.client(made.json()["data"]["secret"]) as another:
            another.delete("/api/developer/api-keys", params={"id": own["id"]}).raise_for_status()
    assert "was revoked" in problem_of_start(place, key=other)


def test_the_file_holds_no_key_and_no_session(file: Path) -> None:
    with kept(file) as running, running.client() as client:
        created(client, "INV-1")
        made = client.post("/api/developer/api-keys", json={"name": "ci"}).json()["data"]["secret"]
    content = file.read_bytes()
    assert content[68:72] == b"ILS!", "what `file` and other programs know it by"
    assert b"INV-1" in content
    assert DEMO_KEY.encode() not in content
    assert made.encode() not in content


def test_an_invoice_and_its_event_are_written_together(file: Path) -> None:
    """Whoever reads the file meanwhile, or after a crash, finds both or neither."""
    seen: set[tuple[int, int]] = set()
    with kept(file) as running, ThreadPoolExecutor(4) as clients, running.client() as client:
        created(client, "first")
        before = rows_of(file)
        written = [clients.submit(created, client, f"INV-{n}") for n in range(120)]
        while not all(one.done() for one in written):
            seen.add(rows_of(file))
        for one in written:
            one.result()
    assert len(seen) > 3
    assert {invoices - events for invoices, events in seen} == {before[0] - before[1]}


def rows_of(file: Path) -> tuple[int, int]:
    """The invoices in the file, and the events."""
    count = "SELECT count(*) FROM record WHERE state = '' AND collection = "
    with closing(sqlite3.connect(file)) as database:
        query = f"SELECT ({count} 'invoices'), ({count} 'events')"
        return database.execute(query).fetchone()  # type: ignore[no-any-return]


# --- what the file may be


def problem_of_start(place: Place, **changed: Any) -> str:
    """The message of a start that fails."""
    with pytest.raises(SettingError) as caught, kept(place, **changed):
        pass
    return str(caught.value)


def of_text(file: Path) -> None:
    file.write_text("This is no database. " * 100)


def of_another_program(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE theirs (x)")


def newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 99")


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096 : len(content) // 2] = b"\xa5" * (len(content) // 2 - 4096)
    file.write_bytes(content)


UNUSABLE: dict[str, tuple[Callable[[Path], None], str]] = {
    "text": (of_text, "is not a SQLite database"),
    "another program": (of_another_program, "is a database of another program"),
    "newer": (newer, "was written by another version: its schema is 99, this server uses 4"),
    "damaged": (damaged, "is damaged"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_cannot_be_used_is_an_error_at_start(file: Path, name: str) -> None:
    change, problem = UNUSABLE[name]
    if name not in {"text", "another program"}:
        with kept(file):
            pass
    change(file)
    before = file.read_bytes()
    message = problem_of_start(file)
    assert message.startswith(f"--store: '{file}' ")
    assert problem in message
    assert file.read_bytes() == before


WRONG: dict[str, tuple[str, str]] = {
    "a workspace that is not JSON": ("UPDATE workspace SET content = x'7b78'", "JSONDecodeError"),
    "a record that is not JSON": ("UPDATE record SET content = x'7b7b'", "JSONDecodeError"),
    "a step without an instant": ("UPDATE step SET due = 'Friday'", "TypeError"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_content_is_an_error_at_start_that_shows_none_of_it(file: Path, name: str) -> None:
    with kept(file, scenario="auto-progress") as running, running.client() as client:
        created(client, "Secret-1")
    statement, problem = WRONG[name]
    with closing(sqlite3.connect(file)) as database, database:
        assert database.execute(statement).rowcount > 0
    reason = f" ({problem})" if problem else ""
    message = f"--store: '{file}' is damaged{reason}; restore a copy of it"
    assert problem_of_start(file) == message


@pytest.mark.parametrize(("place", "bit"), [(0, 0x80), (-1, 0x01), (8, 0x20)])
def test_one_flipped_bit_is_an_error_at_start_that_shows_no_record(
    file: Path, place: int, bit: int
) -> None:
    """In the text of a number, which is no UTF-8 then, and in the quotes around it."""
    with kept(file, scenario="auto-progress") as running, running.client() as client:
        created(client, "Secret-1")
    content = bytearray(file.read_bytes())
    content[content.index(b"Secret-1") + place] ^= bit
    file.write_bytes(content)
    message = problem_of_start(file)
    assert re.fullmatch(rf"--store: '{file}' is damaged \(\w+\); restore a copy of it", message)


def test_another_program_may_read_the_file_for_as_long_as_it_likes(file: Path) -> None:
    count = "SELECT count(*) FROM record"
    with (
        kept(file) as running,
        running.client() as client,
        closing(sqlite3.connect(file, isolation_level=None)) as reader,
    ):
        reader.execute("BEGIN")
        before = reader.execute(count).fetchone()
        created(client, "INV-1")
        assert reader.execute(count).fetchone() == before


@contextmanager
def without_rights() -> Iterator[None]:
    """In the block this process may write only what anybody may write, even if it is root's."""
    if (own := os.geteuid()) != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)


@pytest.mark.parametrize("folder_mode", [0o777, 0o555])
def test_a_file_that_is_read_only_is_an_error_at_start(folder_mode: int) -> None:
    with TemporaryDirectory() as folder:  # anybody may read where it is
        file = Path(folder) / "state.db"
        with kept(file):
            pass
        file.chmod(0o444)
        file.with_name("state.db-lock").chmod(0o666)
        file.parent.chmod(folder_mode)
        with without_rights():
            assert problem_of_start(file).endswith("' cannot be written: it is read-only")
        file.parent.chmod(0o700)
        file.chmod(0o600)
        with kept(file) as running, running.client() as client:
            created(client, "INV-1")


def test_a_folder_instead_of_a_file_is_an_error_at_start(tmp_path: Path) -> None:
    assert problem_of_start(tmp_path) == f"--store: '{tmp_path}' is a folder; name a file in it"


def test_a_second_server_on_the_same_file_is_an_error_at_start(file: Path) -> None:
    with kept(file):
        assert problem_of_start(file) == f"--store: another server uses '{file}'"


def test_a_file_that_another_program_writes_to_is_an_error_at_start(file: Path) -> None:
    with kept(file):
        pass
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        assert "is locked by another program" in problem_of_start(file)


def test_a_scenario_that_is_gone_is_an_error_at_start(file: Path, tmp_path: Path) -> None:
    scenarios = tmp_path / "scenarios"
    scenarios.mkdir()
    (scenarios / "ours.yaml").write_text("name: ours\npurpose: Ours.\n")
    with kept(file, scenarios=scenarios, scenario="ours"):
        pass
    assert "uses the scenario 'ours', which the project does not have" in problem_of_start(file)


@in_turn(
    ("text", "shown"),
    [
        ("sqlite:///", "sqlite:///"),
        ("sqlite:state.db", "sqlite:state.db"),
        ("sqlite:/state.db", "sqlite:/state.db"),
        ("sqlite://state.db", "sqlite://state.db"),
        ("sqlite://u:secret@h/d", "sqlite://..."),
        ("u:secret@h/d", "u://..."),
        ("secret@h/d", "://..."),
        ("mysql://u:secret@h/d", "mysql://..."),
    ],
)
def test_an_address_that_names_no_file_is_an_error(text: str, shown: str) -> None:
    with pytest.raises(SettingError) as caught:
        read_settings({"store": text})
    assert str(caught.value).startswith(f"--store: '{shown}' is not understood; use 'memory', 's")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("query", "level"), [("", 1), ("?durability=full", 2)])
def test_a_change_waits_for_the_disk_if_the_address_says_so(
    file: Path, query: str, level: int
) -> None:
    settings = read_settings({"store": f"sqlite:///{file}{query}"})
    with serving(replace(FROZEN, store=settings.store)) as running:
        disk = running.store
        assert isinstance(disk, SqlStore)
        assert isinstance(disk.database, Database)
        found = disk.database.connection.execute("PRAGMA synchronous").fetchone()
    assert found == (level,)


# --- while the file cannot be written


def test_a_full_disk_is_503_until_there_is_space_again(file: Path) -> None:
    with kept(file) as running, running.client() as client:
        created(client, "INV-1")
        disk = running.store
        assert isinstance(disk, SqlStore)
        assert isinstance(disk.database, Database)
        disk.database.limit_pages(1)
        responses = (client.post("/api/invoices", json=DATED) for _ in range(100))
        response = next(one for one in responses if one.status_code != 201)
        assert response.status_code == 503
        assert response.headers["Retry-After"] == "1"
        assert response.json()["error"]["code"] == "service_unavailable"
        for path in ("/api/invoices", "/sandbox/clock"):
            assert client.get(path).status_code == 503
        lost = client.post("/api/invoices", json={**DATED, "invoiceNumber": "Lost-3"})
        assert lost.status_code == 503
        health = client.get("/sandbox/health")
        assert (health.status_code, health.headers["Retry-After"]) == (503, "1")
        assert health.json()["data"] == {"status": "unavailable", "store": "unavailable"}
        assert data_of(client, "/sandbox/health/live") == {"status": "ok"}
        disk.database.limit_pages(2**30)
        deadline = time.monotonic() + PATIENCE
        while client.get("/api/invoices").status_code == 503:
            assert time.monotonic() < deadline
        created(client, "Late-2")
        before = data_of(client, "/api/invoices")
        assert "Lost-3" not in str(before)
    with kept(file) as running, running.client() as client:
        assert data_of(client, "/api/invoices") == before
