"""What ``make chaos``, of which CI runs a part, finds when something is wrong."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from invoice_sandbox.base.clock import parse_instant
from tests.chaos.__main__ import row
from tests.chaos.clients import Receiver
from tests.chaos.disk import lose_power
from tests.chaos.faults import TRIALS, run
from tests.chaos.forked import Forked
from tests.chaos.judge import Outcome
from tests.chaos.servers import NotNowError, Server
from tests.databases import new_database
from tests.scenario_run import until


def test_the_table_counts_every_problem() -> None:
    outcome = Outcome(200, 20_000, 40_000)
    outcome.problems[Outcome.LOST] += ["a"]
    outcome.problems[Outcome.DISORDERED] += ["b", "c"]
    assert outcome.found == ["Lost: a", "Out of order: b", "Out of order: c"]
    assert row("fault", outcome) == "| fault | 200 | 20,000 | 40,000 | 1 | 0 | 2 | 0 | 0.0 s |\n"


@pytest.mark.parametrize("share", [1, 0.25, 0.02])
def test_parts_of_a_trial_are_all_of_it(share: float) -> None:
    for trial in (one.of(share) for one in TRIALS):
        parts = trial.parts()
        assert sum(one.times for one in parts) == trial.times
        assert sum(one.writes for one in parts) == trial.writes
        assert all(1 <= one.times <= trial.most for one in parts)


def test_outcomes_of_parts_are_added() -> None:
    whole, part = Outcome(1, 2, 3, 4, slowest=0.5), Outcome(10, 20, 30, 40, slowest=0.4)
    part.problems[Outcome.LOST] += ["a"]
    whole.add(part)
    whole.add(part)
    shown = "| fault | 21 | 42 | 63 | 2 | 0 | 0 | 0 | 0.5 s |\n"
    assert (row("fault", whole), whole.rejected) == (shown, 84)


def test_the_receiver_notes_what_is_out_of_order_or_different() -> None:
    receiver = Receiver()
    with receiver:
        for event in ("evt_1", "evt_2", "evt_1", "evt_4", "evt_3"):
            receiver.note("/lane", event, event.encode())
        assert receiver.disordered == ["evt_4 after 2 events", "evt_3 after 3 events"]
        assert receiver.different == []
        receiver.note("/lane", "evt_2", b"other")
        assert receiver.different == ["evt_2"]


@pytest.mark.process
@pytest.mark.slow
def test_a_server_goes_on_when_the_disk_has_space_again() -> None:
    """The kernel lets no file of the process grow, as on a disk that is full."""
    (trial,) = [one for one in TRIALS if one.name == "Disk of a server on SQLite full"]
    outcome = run(trial.of(0), seed=1)
    assert (outcome.times, outcome.found) == (1, [])
    assert outcome.rejected >= 2


@pytest.mark.process
@pytest.mark.parametrize(("synchronous", "is_kept"), [("FULL", True), ("OFF", False)])
def test_a_power_failure_loses_what_was_not_synced(
    tmp_path: Path, synchronous: str, is_kept: bool
) -> None:
    file = tmp_path / "state.db"
    subprocess.run([sys.executable, "-c", COMMIT, str(file), synchronous], check=True)
    lose_power(file)
    with closing(sqlite3.connect(file)) as after:
        assert (after.execute("SELECT count(*) FROM numbers").fetchone() == (50,)) == is_kept


COMMIT = """
import os, sqlite3, sys
from pathlib import Path
from tests.chaos.disk import cache_writes

file = Path(sys.argv[1])
cache_writes(file.parent, seed=1)
connection = sqlite3.connect(file, isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("CREATE TABLE numbers (number)")
connection.execute(f"PRAGMA synchronous = {sys.argv[2]}")
for number in range(50):
    connection.execute("INSERT INTO numbers VALUES (?)", (number,))
os._exit(0)
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_server_whose_machine_shows_another_time_goes_by_the_clock_of_the_database() -> None:
    """When its workspaces move to another server, their clocks would go back otherwise, and lanes
    would be out of order."""
    dsn = new_database()
    shown: list[datetime] = []

    def is_shown(server: Server) -> bool:
        with suppress(NotNowError):  # the other one has just ended
            shown.append(parse_instant(server.ask("GET", "/sandbox/clock")["now"]))
            return True
        return False

    for skew in (300, -300):
        server = Server(dsn, start=partial(Forked, skew=skew))
        try:
            until(partial(is_shown, server), "the server runs the workspace")
        finally:
            server.kill()
    assert timedelta() < shown[1] - shown[0] < timedelta(minutes=5)
