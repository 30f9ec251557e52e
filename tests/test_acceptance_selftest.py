"""The selftest of a plan: its list of clients, its judgement of them, and its table."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.plan import Case, Check, Plan
from invoice_sandbox.acceptance.runner import CheckReport, RunReport
from invoice_sandbox.acceptance.selftest import (
    KnownClient,
    load_clients,
    problems,
    selftest_table,
)
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict
from invoice_sandbox.cli import main
from invoice_sandbox.openapi.load.text import DocumentError
from tests.support import Running

CHECKS = tuple(
    Check(name, "must", "It works.", "Errors", (Case({"name": "order"}, ()),))
    for name in ("retries", "waits")
)
PLAN = Plan("plan", "It orders.", CHECKS)
CLIENTS = """\
clients:
  - name: right
    command: [sh, client.sh]
    declares: [webhooks]
    faults: {never-waits: waits}
"""
UNFIT = """\
clients:
  - {name: idle, command: ["true"]}
  - {name: hasty, command: ["false"], faults: {repeats: validation-errors}}
"""


def report(*verdicts: Verdict) -> RunReport:
    """A run with these verdicts on the checks of the plan."""
    cases = [CaseReport("", CaseVerdict(one, f"It is {one.value}.")) for one in verdicts]
    made = [CheckReport(one, [case]) for one, case in zip(CHECKS, cases, strict=True)]
    return RunReport(PLAN, made, is_complete=True)


def test_clients_are_loaded_with_one_client_for_each_fault(tmp_path: Path) -> None:
    (tmp_path / "client.sh").touch()
    (tmp_path / "clients.yaml").write_text(CLIENTS)
    right, faulty = load_clients(tmp_path / "clients.yaml", PLAN)
    assert (right.name, right.caught_by) == ("right", None)
    assert right.declared == {"webhooks"}
    assert right.command == ("sh", str(tmp_path / "client.sh"))
    assert (faulty.name, faulty.caught_by) == ("never-waits", "waits")
    assert faulty.command[2:] == ("--fault", "never-waits")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("waits}", "wait}", "there is no check 'wait' (did you mean waits?)"),
        ("declares", "declare", "unknown key 'declare' (did you mean declares?)"),
    ],
)
def test_what_is_wrong_with_a_list_of_clients(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    (tmp_path / "clients.yaml").write_text(CLIENTS.replace(old, new))
    with pytest.raises(DocumentError) as error:
        load_clients(tmp_path / "clients.yaml", PLAN)
    assert message in str(error.value)


PASS, FAIL, REVIEW, INCONCLUSIVE = (
    *(Verdict.PASS, Verdict.FAIL, Verdict.REVIEW, Verdict.INCONCLUSIVE),
)


@pytest.mark.parametrize(
    ("caught_by", "verdicts", "wrong"),
    [
        (None, (PASS, Verdict.NOT_APPLICABLE), []),
        (None, (PASS, FAIL), ["x: waits: false FAIL: It is FAIL."]),
        (None, (REVIEW, INCONCLUSIVE), ["x: waits: INCONCLUSIVE: It is INCONCLUSIVE."]),
        ("waits", (INCONCLUSIVE, FAIL), []),
        ("waits", (FAIL, FAIL), ["x: retries: false FAIL: It is FAIL."]),
        ("waits", (PASS, INCONCLUSIVE), ["x: waits: missed: It is INCONCLUSIVE."]),
    ],
)
def test_wrong_verdicts_on_known_clients(
    caught_by: str | None, verdicts: tuple[Verdict, Verdict], wrong: list[str]
) -> None:
    client = KnownClient("x", ["x"], frozenset(), caught_by, may_be_reviewed=True)
    assert [*problems(client, report(*verdicts))] == wrong


def test_the_table_has_clients_and_checks() -> None:
    clients = [KnownClient(name, ["x"], frozenset()) for name in ("right", "hasty")]
    reports = {"right": report(PASS, Verdict.NOT_APPLICABLE), "hasty": report(INCONCLUSIVE, FAIL)}
    assert selftest_table(PLAN, clients, reports).splitlines() == [
        "| Client | [1](#checks) | [2](#checks) |",
        "| --- | --- | --- |",
        "| right | pass | |",
        "| hasty | ? | **FAIL** |",
    ]


def selftest(server: Running, *words: str) -> Result:
    """The result of a selftest on the server."""
    return CliRunner().invoke(main, ["acceptance", "selftest", "--server", server.url, *words])


@pytest.mark.process
def test_a_selftest_reports_wrong_verdicts_and_writes_its_table(
    server: Running, tmp_path: Path
) -> None:
    (tmp_path / "clients.yaml").write_text(UNFIT)
    page = tmp_path / "page.md"
    page.write_text(
        "Before.\n<!-- generated: selftest -->\nold\n<!-- end of selftest -->\nAfter.\n"
    )
    words = ["--clients", str(tmp_path / "clients.yaml"), "--bounded", "--only", "repeats"]
    result = selftest(server, *words, "--write", str(page))
    assert result.exit_code == 1, result.output
    assert "repeats: validation-errors: missed: Cannot be judged" in result.output
    assert result.output.splitlines()[-1] == "1 clients, 1 wrong verdicts"
    table = page.read_text()
    assert "\n| repeats | " in table
    assert (table[:8], table[-8:], "old" in table) == ("Before.\n", "\nAfter.\n", False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "Pyton"], "--only: there is no client 'Pyton' (did you mean Python?)"),
        (["--project", "."], "--project cannot be used with --server"),
        (["--clients", "README.md"], "README.md:"),
    ],
)
def test_misuse(server: Running, words: list[str], message: str) -> None:
    result = selftest(server, *words)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_a_client_whose_command_is_not_installed_is_an_error(
    server: Running, tmp_path: Path
) -> None:
    (tmp_path / "clients.yaml").write_text("clients: [{name: odd, command: [no-such-command]}]")
    result = selftest(server, "--clients", str(tmp_path / "clients.yaml"))
    assert "the client odd needs the command 'no-such-command'" in result.output


def test_without_a_checkout_the_clients_must_be_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["acceptance", "selftest", "--project", str(tmp_path)])
    assert (result.exit_code, "use a checkout of the sandbox, or --clients" in result.output) == (
        2,
        True,
    ), result.output
