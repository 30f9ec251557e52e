"""Two runs side by side: aligned by operation, ids matched, times left out."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.bundles.alignment import Aligned, align
from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli import main
from invoice_sandbox.control.client import ControlClient
from tests.scenario_run import INVOICE, data
from tests.support import Running

pytestmark = pytest.mark.slow


def play(client: httpx.Client, *, retries: bool = False, number: str = "A-1") -> None:
    """A client that registers an invoice and reads it; ``retries``: with another key, and twice."""
    keys = ["6a0e1f5e-0000-4000-8000-000000000001", "6a0e1f5e-0000-4000-8000-000000000002"]
    body = {**INVOICE, "invoiceNumber": number}
    for key in keys if retries else keys[:1]:
        made = client.post("/api/invoices", json=body, headers={"Idempotency-Key": key})
    client.get(f"/api/invoices/{data(made)['id']}")
    client.get("/api/partners")


def saved(running: Running, tmp_path: Path, name: str, seed: int, **played: Any) -> Path:
    """The bundle of a new workspace in which a client played."""
    key = running.new_workspace(seed=seed)
    with running.client(key) as client:
        play(client, **played)
    file = tmp_path / f"{name}.zip"
    save_bundle(ControlClient(running.url, key), file)
    return file


@pytest.fixture
def files(server: Running, tmp_path: Path) -> tuple[Path, Path, Path]:
    """A run, the same in a workspace with other ids, and that of a client that changed."""
    first = saved(server, tmp_path, "first", 1)
    other = saved(server, tmp_path, "other", 2)
    changed = saved(server, tmp_path, "changed", 1, retries=True, number="A-2")
    return first, other, changed


def aligned(first: Path, second: Path) -> Aligned:
    return align(read_bundle(first), read_bundle(second))


def test_other_ids_and_keys_are_no_difference(files: tuple[Path, Path, Path]) -> None:
    found = aligned(files[0], files[1])
    assert [row.title for row in found.rows] == [
        "POST /api/invoices",
        "GET /api/invoices/{id}",
        "GET /api/partners",
    ]
    assert found.changed == 0, [row.differences for row in found.rows]
    assert found.equal == {"contract": True, "scenario": True, "seed": False, "clock": True}
    assert found.summary.startswith("0 of 3 exchanges differ. Not equal: seed.")


def test_all_differences_of_a_client_are_found(files: tuple[Path, Path, Path]) -> None:
    found = aligned(files[0], files[2])
    assert all(found.equal.values())
    assert found.summary.endswith("are equal, so every difference is the client's.")
    shown = [(row.title, row.first is None, row.is_equal) for row in found.rows]
    assert sorted(shown) == [
        ("GET /api/invoices/{id}", False, False),
        ("GET /api/partners", False, True),
        ("POST /api/invoices", False, False),
        ("POST /api/invoices", True, False),
    ]
    [registered] = [row for row in found.rows if row.title.startswith("POST") and row.first]
    places = {place: values for place, *values in registered.differences}
    assert places["/request/body/invoiceNumber"] == ['"A-1"', '"A-2"']
    assert registered.second is not None
    assert (registered.second.status, registered.second.entry["path"]) == (201, "/api/invoices")


def test_the_command_prints_every_difference(files: tuple[Path, Path, Path]) -> None:
    same = CliRunner().invoke(main, ["bundle", "compare", str(files[0]), str(files[1])])
    assert (same.exit_code, same.stdout.splitlines()[0]) == (0, "No difference.")
    changed = CliRunner().invoke(main, ["bundle", "compare", str(files[0]), str(files[2])])
    assert changed.exit_code == 1
    assert "/request/body/invoiceNumber" in changed.stdout


def test_the_console_compares_workspaces_and_requests(server: Running) -> None:
    with server.client(None) as visitor:
        for number, seed in (("A-1", 1), ("A-2", 2)):
            key = server.new_workspace(seed=seed)
            with server.client(key) as client:
                play(client, number=number)
            visitor.post("/console/sign-in", data={"key": key})
        choices = re.findall(r'<option value="(\w+:\w+)"', visitor.get("/console/compare").text)
        spaces = [item for item in dict.fromkeys(choices) if item.startswith("workspace:")]
        assert len(spaces) == 2
        selected = re.findall(
            r'value="(workspace:[^"]*)" selected', visitor.get("/console/compare").text
        )
        assert selected == spaces
        page = visitor.get("/console/compare", params={"a": spaces[0], "b": spaces[1]})
        assert "2 of 3 exchanges differ. Not equal: seed." in unescape(page.text)
        assert "<code>/request/body/invoiceNumber</code>" in page.text
        assert "GET /api/partners" not in page.text.split("<h2>Exchanges</h2>")[1]
        whole = visitor.get("/console/compare", params={"a": spaces[0], "b": spaces[1], "all": "1"})
        assert "GET /api/partners" in whole.text.split("<h2>Exchanges</h2>")[1]
        asked = [item for item in dict.fromkeys(choices) if item.startswith("request:")]
        pair = visitor.get("/console/compare", params={"a": asked[0], "b": asked[1]})
        assert "2 exchanges differ" in pair.text
        for wrong in ("workspace:x", "run:x", "request:x", "x", "run:../../clock"):
            page = visitor.get("/console/compare", params={"a": wrong, "b": spaces[0]})
            assert page.status_code == 200
            assert 'role="alert"' in page.text
