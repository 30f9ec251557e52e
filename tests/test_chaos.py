"""What ``make chaos``, of which CI runs a part, does not try: a full disk."""

from __future__ import annotations

import resource
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos import Outcome, Server, row
from tests.scenario_run import DATED
from tests.support import PATIENCE


def test_the_table_counts_every_problem() -> None:
    outcome = Outcome(200, 20_000, lost=["a"], duplicated=["b", "c"])
    assert outcome.problems == ["a", "b", "c"]
    assert "| 200 | 20,000 | 1 | 2 | 0 | 0 | 0 |" in row("fault", outcome)


def write(server: Server, number: str) -> bool:
    """Create an invoice with that number as its key. False: 503."""
    invoice = {**DATED, "invoiceNumber": number, "dueDate": "2099-12-30"}
    with suppress(AssertionError):  # "POST /api/invoices: 503 ..."
        server.ask("POST", "/api/invoices", invoice, key=number)
        return True
    return False


@pytest.mark.process
@pytest.mark.slow
def test_a_server_goes_on_when_the_disk_has_space_again(tmp_path: Path) -> None:
    """The kernel lets no file of the process grow, as on a disk that is full."""
    file = tmp_path / "state.db"
    server = Server(file)
    try:
        assert write(server, "before")
        no_limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, -1))
        assert not write(server, "during")
        with pytest.raises(AssertionError, match=r'503 .*"store":"unavailable"'):
            server.ask("GET", "/sandbox/health")
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, no_limit)
        deadline = time.monotonic() + PATIENCE
        while not write(server, "during"):
            assert time.monotonic() < deadline
    finally:
        server.kill()
    server = Server(file)
    try:
        found = server.ask("GET", "/api/invoices?limit=100")
        numbers = [one["invoiceNumber"] for one in found]
        assert (numbers.count("before"), numbers.count("during")) == (1, 1)
    finally:
        server.kill()
