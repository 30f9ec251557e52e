"""``invoice-sandbox coverage`` reports what servers recorded, or what one knows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest
from click.testing import Result

from invoice_sandbox.coverage.page import page
from invoice_sandbox.coverage.report import Report, Row, report_of
from invoice_sandbox.project.loader import default_project, load_project
from invoice_sandbox.state.hits import TYPES
from tests.support import FROZEN, Running, serving
from tests.test_control_commands import run
from tests.toy import contract, serving_contract

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a server has recorded that was asked for one list."""
    file = tmp_path_factory.mktemp("coverage") / "run.txt"
    with serving(replace(FROZEN, coverage=file)) as server, server.client() as client:
        client.get("/api/offers")
        client.get("/sandbox/clock")
    return file


@pytest.fixture
def asked(server: Running) -> str:
    """The key of a workspace in which one list was asked for."""
    key = server.new_workspace()
    with server.client(key) as client:
        client.get("/api/offers")
    return key


def counted(ran: Result) -> list[str]:
    """The lines that say how much of each kind was covered."""
    return [
        " ".join(line.split())
        for line in re.findall(r"^\w+ +\d+ of +\d+", ran.stdout, re.MULTILINE)
    ]


def test_a_recording_is_reported_as_text(recording: Path) -> None:
    ran = run(f"coverage {recording}")
    assert ran.exit_code == 0
    declared = ["operations 1 of 25", "statuses 1 of 178", "events 0 of 35"]
    assert counted(ran) == [*declared, "transitions 0 of 98", "steps 0 of 177"]
    assert "api listOffers: 400" in ran.stdout


def test_a_server_reports_the_same_of_a_workspace(
    server: Running, asked: str, recording: Path
) -> None:
    ran = run("coverage", INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=asked)
    assert ran.stdout == run(f"coverage {recording}").stdout
    assert run(f"coverage --url {server.url} --key {asked}").stdout == ran.stdout


def test_control_endpoints_count_when_they_are_asked_for(recording: Path) -> None:
    assert "sandbox" not in run(f"coverage {recording}").stdout
    ran = run(f"coverage {recording} --control-api --only operations")
    project = load_project(default_project())
    all_operations = len(project.contract.operations) + len(project.control.operations)
    assert counted(ran) == [f"operations 2 of {all_operations}"]
    assert "getCoverage" in ran.stdout


def test_one_type_can_be_reported_by_itself(recording: Path) -> None:
    ran = run(f"coverage {recording} --only steps --only events --json")
    reported = json.loads(ran.stdout)
    assert set(reported) == {"percent", "summary", "events", "steps"}


def test_json_is_what_the_control_endpoint_returns(server: Running, asked: str) -> None:
    ran = run(f"coverage --control-api --json --url {server.url} --key {asked}")
    with server.client(asked) as client:
        response = client.get("/sandbox/coverage").json()["data"]
    reported = json.loads(ran.stdout)
    for kind in TYPES:
        rows = [row for row in response[kind] if row.get("operation") != "getCoverage"]
        assert [row for row in reported[kind] if row.get("operation") != "getCoverage"] == rows


LEAST = {
    "nothing asked": ("", 0),
    "enough": ("--fail-under 4", 0),
    "too little": ("--fail-under 4.1", 1),
    "strict": ("--strict", 1),
}


@pytest.mark.parametrize(("options", "status"), LEAST.values(), ids=LEAST)
def test_the_status_says_whether_it_is_enough(recording: Path, options: str, status: int) -> None:
    ran = run(f"coverage {recording} --only operations {options}")
    assert ran.exit_code == status
    assert counted(ran) == ["operations 1 of 25"]
    assert ("4 % covered, which is less than" in ran.stderr) is (status == 1)


def test_several_recordings_count_together(recording: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    with serving(replace(FROZEN, coverage=other)) as server, server.client() as client:
        client.get("/api/partners")
    ran = run(f"coverage {recording} {other} --only operations")
    assert counted(ran) == ["operations 2 of 25"]


@pytest.mark.slow
def test_the_recording_of_another_contract_is_reported_with_that_contract(tmp_path: Path) -> None:
    recording = tmp_path / "run.txt"
    file = tmp_path / "contract.json"
    file.write_bytes(orjson.dumps(contract({})))
    with (
        serving(replace(FROZEN, contract=file, coverage=recording)) as server,
        server.client() as client,
    ):
        client.post("/check", json={})
    rejected = run(f"coverage {recording}")
    assert (rejected.exit_code, rejected.stdout) == (2, "")
    assert "another project; pass that one with --project or --contract" in rejected.stderr
    ran = run(f"coverage {recording} --contract {file} --strict")
    assert (ran.exit_code, ran.stdout.splitlines()[-1]) == (0, "Everything is covered.")


def test_a_server_that_serves_another_contract_needs_no_word_of_it(tmp_path: Path) -> None:
    with serving_contract(tmp_path, contract({})) as client:
        client.post("/check", json={})
        ran = run(f"coverage --url {client.base_url}".rstrip("/"))
    assert counted(ran) == ["operations 1 of 1", "statuses 1 of 1"]


NOTHING = "Nothing was counted: there are no events or steps to cover.\n"


@pytest.mark.parametrize(
    ("options", "status", "error"),
    [
        ("", 0, ""),
        ("--fail-under 0", 0, ""),
        ("--fail-under 1", 1, "Nothing was counted, so 1 % is not reached.\n"),
        ("--strict", 1, "Nothing was counted, so 100 % is not reached.\n"),
    ],
)
def test_where_nothing_is_counted_nothing_is_covered(
    tmp_path: Path, options: str, status: int, error: str
) -> None:
    html = tmp_path / "coverage.html"
    with serving_contract(tmp_path, contract({})) as client:
        where = f"--url {client.base_url}".rstrip("/")
        ran = run(f"coverage --only events --only steps {options} {where} --html {html}")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (status, NOTHING, error)
    assert ": nothing was counted.</p>" in html.read_text(encoding="utf-8")


MISUSED = {
    "a file that is not there": ("coverage nothing.txt", 2, "does not exist"),
    "a server beside a recording": (
        "coverage {file} --url http://127.0.0.1:9",
        2,
        "--url cannot",
    ),
    "a project beside a server": ("coverage --project .", 2, "--project needs a recording"),
    "no recording": (
        f"coverage {Path(__file__)}",
        2,
        "test_coverage_command.py:1: not a line",
    ),
    "a kind that is none": ("coverage {file} --only lines", 2, "operations"),
    "more than all": (
        "coverage {file} --fail-under 101",
        2,
        "'--fail-under': 101 is not in the range 0<=x<=100",
    ),
    "no number": ("coverage {file} --fail-under nan", 2, "nan is not in the range"),
    "a page that cannot be written": (
        "coverage {file} --html /no/where.html",
        2,
        "/no/where.html: No such",
    ),
    "nobody answers": ("coverage --url http://127.0.0.1:9", 1, "no sandbox responds"),
}


@pytest.mark.parametrize(("line", "status", "reported"), MISUSED.values(), ids=MISUSED)
def test_what_cannot_be_reported_is_explained_in_one_line(
    recording: Path, line: str, status: int, reported: str
) -> None:
    ran: Result = run(line.format(file=recording))
    assert (ran.exit_code, ran.stdout) == (status, "")
    (said,) = [one for one in ran.stderr.splitlines() if one.startswith("Error: ")]
    assert reported in said


# --- the page


class Read(HTMLParser):
    """What a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.chips: dict[str, int] = {}
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if tag not in {"meta", "input", "link", "img"}:
            self.open.append(tag)
        self.addresses += [str(given[name]) for name in ("src", "href") if name in given]
        if tag == "li":
            self.chips[str(given["class"])] = self.chips.get(str(given["class"]), 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_the_page_needs_nothing_else_and_shows_everything(recording: Path, tmp_path: Path) -> None:
    file = tmp_path / "coverage.html"
    ran = run(f"coverage {recording} --html {file}")
    assert ran.exit_code == 0
    text = file.read_text()
    read = Read(text)
    assert (read.open, read.addresses) == ([], [])
    assert re.findall(r"(?:\w+:)?//\w|url\(|@import", text) == []
    assert "script" not in read.tags
    assert {"1 of 25", "listOffers", "GET /api/offers", "invoice.paid"} <= set(read.texts)
    report = report_of(load_project(default_project()), ()).without_control_api()
    chips = sum(len(rows) for kind, rows in report if kind != "operations")
    assert read.chips == {"covered": 1, "missing": chips - 1}


def test_what_stands_in_a_contract_cannot_write_the_page() -> None:
    wild = Row(("api", "<script>alert(1)</script>"), about='"><img src=x>')
    text = page(Report({"operations": (wild,)}), "<b>title</b>")
    assert {"script", "img", "b"}.isdisjoint(Read(text).tags)


def test_the_page_of_a_foreign_contract_has_its_operations_only() -> None:
    rows = {"operations": (Row(("api", "check")),), "statuses": (Row(("api", "check", "204")),)}
    assert [one for one in Read(page(Report(rows), "Toy")).texts if one in TYPES] == [
        "operations",
        "statuses",
    ]


# --- the gate of our own tests


def gate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of our own tests in which nothing is covered."""
    slow = ("-p", "no:schemathesis", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *slow, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_a_run_of_ours_that_leaves_something_out_fails_and_reports_what() -> None:
    done = gate("--contract-coverage", "tests/test_money.py")
    assert done.returncode == 1, done.stdout
    assert "= contract coverage =" in done.stdout
    assert "Missing:" in done.stdout
    assert re.fullmatch(r"\d+ passed in .*s", done.stdout.splitlines()[-1])


@pytest.mark.process
def test_a_run_of_ours_that_was_not_asked_says_nothing() -> None:
    done = gate("tests/test_money.py")
    assert done.returncode == 0
    assert "coverage" not in done.stdout
