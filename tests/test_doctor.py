"""``invoice-sandbox doctor``: what fails is a row with its fix, and status 1."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.base.ids import new_key
from invoice_sandbox.cli import main
from tests.certificates import tls_of
from tests.databases import new_database
from tests.receivers import free_port, receiving, response
from tests.support import Running

ROOT = Path(__file__).parents[1]
CHECKS = ["python", "port", "browser", "node", "postgresql", "clock", "receiver", "key"]


def run(*arguments: str) -> Result:
    """Run the command where no sandbox runs, on a free port, unless ``arguments`` say so."""
    nowhere = ("--url", f"http://127.0.0.1:{free_port()}", "--port", str(free_port()))
    return CliRunner().invoke(main, ["doctor", *nowhere, *arguments])


def rows(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The status of the command, and its rows by check."""
    result = run("--json", *arguments)
    return result.exit_code, {row["check"]: row for row in json.loads(result.stdout)}


def failed(*arguments: str) -> dict[str, Any]:
    """The one row that fails, with its fix."""
    status, found = rows(*arguments)
    row: dict[str, Any]
    (row,) = (row for row in found.values() if row["status"] == "failed")
    assert status == 1
    assert row["fix"]
    return row


def test_nothing_fails_on_a_machine_that_has_all_that_is_needed() -> None:
    status, found = rows()
    assert status == 0
    assert [*found] == CHECKS
    assert {row["status"] for row in found.values()} <= {"ok", "missing"}


def test_it_is_one_table_for_people() -> None:
    head, *lines = run("--key", "x").stdout.splitlines()
    assert head.split() == ["check", "status", "found", "fix"]
    assert [line.split()[0] for line in lines] == CHECKS


def test_what_is_optional_is_missing_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", "/nowhere")
    status, found = rows()
    assert status == 0
    assert found["browser"]["status"] == "missing"
    assert "make browser" in found["browser"]["fix"]


def test_a_browser_of_playwright_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "chromium-1255").mkdir()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert rows()[1]["browser"]["found"] == str(tmp_path / "chromium-1255")


@contextmanager
def taken_port() -> Iterator[str]:
    """A port on which something listens that is not a sandbox."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


def test_a_port_that_another_program_has_fails() -> None:
    with taken_port() as port:
        row = failed("--port", port)
    assert row["check"] == "port"
    assert f"127.0.0.1:{port}: Address already in use" in row["found"]


def test_a_port_that_the_sandbox_at_the_url_has_is_fine(server: Running) -> None:
    port = server.url.rpartition(":")[2]
    status, found = rows("--url", server.url, "--key", server.new_workspace(), "--port", port)
    assert status == 0
    assert found["port"]["found"] == f"a sandbox responds at {server.url}"
    assert found["key"]["found"] == f"the sandbox at {server.url} accepts it"


def test_a_key_that_the_sandbox_rejects_fails(server: Running) -> None:
    assert failed("--url", server.url, "--key", new_key())["check"] == "key"


def test_a_key_with_a_typing_error_fails_without_a_sandbox() -> None:
    row = failed("--key", "ilk_sandbox_x")
    assert (row["check"], row["found"]) == (
        "key",
        "after ilk_sandbox_ come 36 characters of 0-9, A-Z, a-z",
    )


def test_a_receiver_that_nobody_serves_fails() -> None:
    row = failed("--receiver", f"http://127.0.0.1:{free_port()}/hooks")
    assert (row["check"], row["found"]) == ("receiver", "refused")


def test_a_receiver_with_an_untrusted_certificate_fails_with_the_reason(certificate: Path) -> None:
    with receiving(tls=tls_of(certificate)) as receiver:
        row = failed("--receiver", f"https://localhost:{receiver.port}/")
    assert row["found"] == "tls_failed: self-signed certificate"


def test_what_is_no_url_of_a_receiver_fails() -> None:
    assert failed("--receiver", "localhost:3000")["check"] == "receiver"


def test_a_receiver_whose_clock_is_hours_away_fails() -> None:
    with receiving(response(200, Date="Sun, 01 Nov 2020 08:00:00 GMT")) as receiver:
        row = failed("--receiver", receiver.url)
    assert row["check"] == "clock"
    assert "differs from the receiver's clock" in row["found"]


def test_a_receiver_without_a_date_is_fine() -> None:
    with receiving(response(405)) as receiver:
        status, found = rows("--receiver", receiver.url)
    assert status == 0
    assert found["receiver"]["found"] == "responds 405 to HEAD"


def test_a_database_that_does_not_respond_fails_without_its_password() -> None:
    row = failed("--store", f"postgresql://me:pass-word@127.0.0.1:{free_port()}/books")
    assert row["check"] == "postgresql"
    assert "pass-word" not in row["found"]


@pytest.mark.postgresql
def test_a_database_that_responds_is_fine() -> None:
    status, found = rows("--store", new_database())
    assert status == 0
    assert found["postgresql"]["found"].startswith("PostgreSQL 1")


# The end of a test run


RUN = """
import pytest

@pytest.mark.skip(reason="needs a browser: make browser")
@pytest.mark.parametrize("number", range(2))
def test_a_page(number): ...

def test_all_else(): ...
"""


@pytest.mark.process
def test_a_run_ends_with_what_did_not_run_and_the_command_that_brings_it(tmp_path: Path) -> None:
    file = tmp_path / "test_pages.py"
    file.write_text(RUN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "/dev/null", str(file)],
        cwd=ROOT,
        env={name: text for name, text in os.environ.items() if name != "CI"},
        check=False,
        capture_output=True,
        text=True,
    )
    *_, list_of_all, _ = done.stdout.splitlines()
    assert list_of_all == "2 tests did not run, needs a browser: make browser"
