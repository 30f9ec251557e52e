"""``acceptance explore`` and ``prove``: a failure is shrunk, and runs again from its file."""

from __future__ import annotations

import hashlib
import hmac
import json
import shlex
import sys
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.acceptance.proof import proof_object, proof_page
from invoice_sandbox.acceptance.search import Path as SearchPath
from invoice_sandbox.acceptance.search import Search
from invoice_sandbox.cli import main
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.acceptance.selftest import FOLDER
from tests.support import Running

PLAN_TEXT = """\
name: lists
purpose: A client lists the offers.
checks:
  - id: list
    level: must
    proves: The client lists the offers.
    specification: Lists
    cases:
      - task: {name: list-offers}
        setup:
          - {send: POST /sandbox/faults, body: {operation: listOffers, kind: status, status: 503}}
        rules: [{that: The client lists the offers., request: listOffers, status: 2xx, atLeast: 1}]
search:
  - name: list
    task: {name: list-offers}
    start: [{wait: {request: listOffers, status: 2xx, atLeast: 1}, for: PT2S}]
    rules: [{that: The client lists the offers., request: listOffers, status: 2xx, atLeast: 1}]
    moves:
      days:
        setup: [{send: POST /sandbox/clock/advance, body: {by: P1D}}]
      unavailable:
        once: true
        setup:
          - {send: POST /sandbox/faults, body: {operation: listOffers, kind: status, status: 503}}
      restart:
        during: [{client: stop}, {client: start}]
"""
ONCE = """\
import os, urllib.request
url, key = os.environ["SANDBOX_API_URL"] + "/api/offers", os.environ["SANDBOX_API_KEY"]
urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"}))
"""
RIGHT = [sys.executable, "-S", "-E", str(FOLDER / "client.py")]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan with one situation."""
    file = tmp_path / "lists.yaml"
    file.write_text(PLAN_TEXT)
    return file


@pytest.fixture
def once(tmp_path: Path) -> list[str]:
    """A client that never repeats a request."""
    file = tmp_path / "once.py"
    file.write_text(ONCE)
    return [sys.executable, "-S", "-E", str(file)]


def acceptance(command: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["acceptance", command, *words])


def on(server: Running, client: list[str], out: Path) -> list[str]:
    """Options: the server, the client and where the reports go."""
    fixed = ["--server", server.url, "--key", DEMO_KEY, "--out", str(out)]
    return [*fixed, "--exec", shlex.join(client)]


@pytest.mark.process
def test_a_failure_is_shrunk_and_runs_again_from_its_file(
    server: Running, plan: Path, once: list[str], tmp_path: Path
) -> None:
    found, again = tmp_path / "found", tmp_path / "again"
    of_plan = ["--plan", str(plan)]
    result = acceptance("explore", *on(server, once, found), *of_plan, "--minutes", "0.5")
    assert result.exit_code == 1, result.output
    assert "seed 1; 1 moves: unavailable" in result.stdout
    case = load_document(found / "case.yaml")
    assert case["name"] == "list-unavailable"
    assert {file.name for file in found.iterdir()} >= {"bundle.zip", "report.html", "report.json"}
    in_file = [*of_plan, "--case", str(found / "case.yaml")]
    assert acceptance("run", *on(server, once, again), *in_file).exit_code == 1
    right = acceptance("run", *on(server, RIGHT, again), *in_file)
    assert right.exit_code == 0, right.output
    judged = acceptance("judge", str(found / "bundle.zip"))
    assert (judged.exit_code, judged.stdout[:4]) == (1, "FAIL")


@pytest.mark.process
def test_nothing_is_found_with_a_right_client(server: Running, plan: Path, tmp_path: Path) -> None:
    words = [*on(server, RIGHT, tmp_path / "found"), "--plan", str(plan), "--minutes", "0.03"]
    result = acceptance("explore", *words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Nothing found in 0:01: ")
    assert not (tmp_path / "found").exists()


def test_misuse_is_named(
    server: Running, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = on(server, RIGHT, tmp_path / "found")
    needs = acceptance("explore", *words)
    assert (needs.exit_code, "--declare webhooks,idempotency" in needs.output) == (2, True)
    case = tmp_path / "case.yaml"
    case.write_text("- a list\n")
    wrong = acceptance("run", *words, "--case", str(case))
    assert (wrong.exit_code, "it is not a case" in wrong.output) == (2, True)
    both = acceptance("run", *words, "--case", str(case), "--only", "money")
    assert (both.exit_code, "--only cannot be used with --case" in both.output) == (2, True)
    plan.write_text(PLAN_TEXT[: PLAN_TEXT.index("search:")])
    nothing = acceptance("explore", *words, "--plan", str(plan))
    assert (nothing.exit_code, "no situations to search" in nothing.output) == (2, True)
    monkeypatch.setattr("invoice_sandbox.cli.acceptance_explore.find_spec", lambda _: None)
    missing = acceptance("explore", *words)
    assert (missing.exit_code, "sandbox[explore]" in missing.output) == (2, True)


def test_a_search_shrinks_to_the_fewest_moves() -> None:
    situation = {"name": "any", "moves": {name: {} for name in "abcdef"}}

    interrupted = Event()

    def fails(path: SearchPath) -> bool:
        assert not interrupted.is_set()
        return "c" in path.moves and "e" in path.moves[path.moves.index("c") :]

    found = Search([situation], fails, lambda _: None, 20, interrupted).run(1)
    assert found is not None
    assert found.moves == ("c", "e")


def test_the_texts_of_a_move_have_its_number() -> None:
    move = {"during": [{"send": "POST /x/$record#", "keep": {"a#": "/id"}}], "rules": [{"n": "a#"}]}
    path = SearchPath({"name": "any", "task": {}, "rules": [], "moves": {"a": move}}, ("a", "a"))
    case = path.as_case()
    assert [step["send"] for step in case["during"]] == ["POST /x/$record1", "POST /x/$record2"]
    assert case["rules"] == [{"n": "a1"}, {"n": "a2"}]


@pytest.mark.process
def test_a_fix_is_proved_and_signed(plan: Path, once: list[str], tmp_path: Path) -> None:
    key, out = tmp_path / "key", tmp_path / "proof"
    key.write_text("a key\n")
    words = ["--before", shlex.join(once), "--after", shlex.join(RIGHT), "--out", str(out)]
    result = acceptance("prove", *words, "--plan", str(plan), "--sign-key-file", str(key))
    assert result.exit_code == 0, result.output
    content = (out / "proof.json").read_bytes()
    proof = json.loads(content)
    assert proof["state"] == "proved"
    assert [proof[side]["verdict"] for side in ("before", "after")] == ["FAIL", "PASS"]
    report = hashlib.sha256((out / "before" / "report.json").read_bytes()).hexdigest()
    assert proof["before"]["digest"] == f"sha256:{report}"
    assert "before/report.html" in (out / "proof.html").read_text()
    signed = (out / "proof.json.hmac").read_text().strip()
    assert signed == hmac.new(b"a key", content, "sha256").hexdigest()


@pytest.mark.parametrize(
    ("before", "after", "because"),
    [
        ("PASS", "PASS", "The client did not fail before: PASS."),
        ("INCONCLUSIVE", "PASS", "The client did not fail before: INCONCLUSIVE."),
        ("FAIL", "FAIL", "The client does not pass after: FAIL."),
        ("FAIL", "NOT_APPLICABLE", "The client does not pass after: NOT_APPLICABLE."),
        ("FAIL", "WARN", None),
    ],
)
def test_a_fix_is_proved_only_by_a_failure_before_and_none_after(
    tmp_path: Path, before: str, after: str, because: str | None
) -> None:
    for side, verdict in (("before", before), ("after", after)):
        check = {"id": "list", "verdict": verdict, "summary": "<b>"}
        report = {"verdict": verdict, "checks": [check], "plan": {"name": "p", "digest": "d"}}
        report |= {"contract": {"version": "1", "digest": "d"}, "declared": []}
        (tmp_path / side).mkdir()
        (tmp_path / side / "report.json").write_text(json.dumps(report))
    proof = proof_object(tmp_path)
    assert (proof["because"], proof["state"] == "proved") == (because, because is None)
    assert "&lt;b&gt;" in proof_page(proof)
