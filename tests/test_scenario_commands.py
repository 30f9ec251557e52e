"""``invoice-sandbox scenarios``: list, show, validate; for people, scripts and misuse."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.cli import main
from invoice_sandbox.cli.scenarios import description
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.scenarios.descriptions import trigger_in_words
from invoice_sandbox.scenarios.library import scenario_files
from invoice_sandbox.scenarios.simulation import main_run
from tests.cases import in_turn
from tests.scenario_docs import project

ROOT = Path(__file__).parents[1]
SHIPPED = {file.stem: load_document(file) for file in scenario_files(ROOT / "scenarios")}
SCENARIO_FILE = """\
name: mine
purpose: The seller declines the offer.
steps:
  - {on: start, after: PT1S, do: start-verification}
  - {on: start, after: PT2S, do: finish-verification}
  - {on: start, after: PT4S, do: request-financing}
  - {on: start, after: PT6S, do: make-offer}
  - {on: offer.received, after: P1D, do: transition, with: {trigger: decline-offer}}
"""


def words(name: str) -> str:
    """What ``show`` prints, without loading the project each time."""
    vocabulary, scenario = project().vocabulary, project().scenarios[name]
    ran = main_run(scenario, vocabulary.machine, vocabulary.actions)
    return "\n".join(description(scenario, ran))


def run(line: str, **env: str | None) -> Result:
    """Run a line of the command line in this process, as if stdout were a file."""
    usual = {"INVOICE_SANDBOX_SCENARIOS": None, "FORCE_COLOR": None}
    return CliRunner().invoke(main, shlex.split(f"scenarios {line}"), env=usual | env)


def fine(line: str, **env: str) -> str:
    """What a line prints that must work."""
    ran = run(line, **env)
    assert (ran.exit_code, ran.stderr) == (0, ""), (line, ran.output, ran.exception)
    return ran.stdout


def misused(line: str) -> str:
    """The last line of what a line says that must be rejected as misuse."""
    ran = run(line)
    assert (ran.exit_code, ran.stdout) == (2, ""), (line, ran.output, ran.exception)
    return ran.stderr.splitlines()[-1]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with one scenario of one's own."""
    (tmp_path / "mine.yaml").write_text(SCENARIO_FILE)
    return tmp_path


# list


def test_the_list_has_every_scenario_with_trigger_scenario_and_when_a_client_passes() -> None:
    reported = " ".join(fine("list").split())
    for name, document in SHIPPED.items():
        assert f" {name} " in f" {reported}"
        assert set(document["purpose"].split()) < set(reported.split())
    assert "sellerId sim_seller_kyb_hold" in reported


@pytest.mark.parametrize(
    ("name", "trigger"),
    [
        ("kyb-hold", "sellerId sim_seller_kyb_hold"),
        ("offer-expires", "workspace, record, header"),
        ("auto-progress", "workspace, record, header"),
        ("slow-api", "workspace, header"),
        ("key-revoked-midflow", "workspace, header"),
    ],
)
def test_the_trigger_reports_how_a_scenario_is_begun(name: str, trigger: str) -> None:
    assert trigger_in_words(project().scenarios[name]) == trigger


# show


def test_show_prints_a_scenario_in_words() -> None:
    statuses = ", ".join(SHIPPED["offer-expires"]["needs"]["status"])
    assert fine("show offer-expires").splitlines() == [
        "offer-expires",
        "The offer is not accepted, so it expires after 72 hours.",
        f"Passes when: {SHIPPED['offer-expires']['passes']}",
        "",
        "Trigger: workspace, record, header",
        f"To start it later, status must be: {statuses}",
        "Condition dates: true",
        "Condition businessDays: false",
        "",
        "1 second          start-verification   -> VerificationPending",
        "                  records invoice.verification_started",
        "2 seconds         finish-verification  -> Verified",
        "                  records invoice.verified",
        "4 seconds         request-financing    -> FinancingRequested",
        "                  records financing_request.created",
        "6 seconds         make-offer           -> Offered",
        "                  records offer.received",
        "3 days 6 seconds  expire-offers        -> FinancingRequested",
        "                  3 days after offer.received; records offer.expired",
        "",
        "Expected of the client:",
        "  The client learns that the offer is expired.",
        "  The client requests no financing again, because its request is still open.",
    ]


@in_turn(
    ("name", "line"),
    [
        ("late-payment", 'Condition late: "P10D"'),
        ("late-payment", "1 day after dueDate; without one, 61 days after the start"),
        ("maintenance-5xx", "  every operation: status 503, 2 times"),
        ("slow-api", "  createInvoice: latency, 8 seconds, after the request is carried out, once"),
        ("scope-missing", "  listOffers: error 403, always"),
        ("webhook-exhausted", "  every event: the endpoint returns 500, always"),
        ("webhook-out-of-order", "  invoice.verified: sent after a later event, once"),
        ("key-revoked-midflow", "  request 3 to getInvoice: revoke-calling-key"),
        ("strict-validation", "  every request to createInvoice: check-bounds"),
        ("validation-error", "  The invoice without debtorId is sent once and no more."),
        ("kyb-hold", "find (item seller_kyb, state ManualReview)"),
        ("verification-failed", "skipped, because the status is Verified by then"),
    ],
)
def test_show_prints_everything_that_a_scenario_does(name: str, line: str) -> None:
    assert line in words(name)


@in_turn("name", SHIPPED)
def test_every_scenario_can_be_shown_and_every_step_of_it_is_reported(name: str) -> None:
    shown = words(name)
    assert shown.startswith(f"{name}\n{SHIPPED[name]['purpose']}\n")
    for step in SHIPPED[name].get("steps", []):
        word = step.get("with", {}).get("trigger", step["do"])
        assert word in shown


def test_a_wrong_name_is_misuse_and_the_closest_is_suggested() -> None:
    said = misused("show late-paymet")
    assert said.endswith("there is no scenario 'late-paymet' (did you mean late-payment?)")


def test_a_short_name_leads_to_the_only_one_that_begins_so() -> None:
    assert misused("show hapy").endswith("there is no scenario 'hapy' (did you mean happy-path?)")
    assert misused("show webhok").endswith("lists all of them)")


# validate


def test_all_files_of_the_project_are_fine() -> None:
    assert fine("validate") == "fine\n"


def test_a_file_that_is_fine_is_said_to_be(own: Path) -> None:
    assert fine(f"validate {own}/mine.yaml") == "fine\n"


def test_every_problem_of_every_file_is_a_line_and_the_status_is_1(own: Path) -> None:
    (own / "one.yaml").write_text("name: one\nsteps:\n  - {on: start, do: make-ofer}\n")
    (own / "two.yaml").write_text(SCENARIO_FILE.replace("mine", "two").replace("PT6S", "6s"))
    ran = run(f"validate {own}/one.yaml {own}/mine.yaml {own}/two.yaml")
    assert (ran.exit_code, ran.stderr) == (1, "")
    assert ran.stdout.splitlines() == [
        f"{own}/one.yaml:1:1: the file has no 'purpose' (add a sentence)",
        f"{own}/one.yaml:3:5: an item of 'steps' has no 'after' (add a duration such as PT1S)",
        f"{own}/two.yaml:7:17: '6s' must be a duration such as PT10S or P3D",
    ]


def test_without_a_file_those_of_the_own_folder_are_checked(own: Path) -> None:
    assert fine(f"validate --scenarios {own}") == "fine\n"
    (own / "two.yaml").write_text("name: two\n")
    ran = run(f"validate --scenarios {own}")
    problem = f"{own}/two.yaml:1:1: the file has no 'purpose' (add a sentence)\n"
    assert (ran.exit_code, ran.stdout) == (1, problem)


@pytest.mark.parametrize("name", ["none.yaml", "none"])
def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path, name: str) -> None:
    ran = run(f"validate {tmp_path}/{name}")
    assert (ran.exit_code, ran.stdout) == (1, f"{tmp_path}/{name}: no such file\n")


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b"",
        b"[]",
        b"42",
        b"name: [",
        b"a: &a [*a]",
        b"\x00",
        b"{1: 2}",
        b"name: !!x y",
    ],
    ids=repr,
)
def test_a_file_that_is_no_scenario_is_a_problem_and_no_crash(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "odd.yaml").write_bytes(content)
    ran = run(f"validate {tmp_path}/odd.yaml")
    assert ran.exit_code == 1, ran.exception
    assert ran.stdout
    assert all(line.startswith(f"{tmp_path}/odd.yaml") for line in ran.stdout.splitlines())


def test_a_file_that_cannot_be_read_is_a_problem(own: Path) -> None:
    (own / "odd.yaml").symlink_to(own / "odd.yaml")  # root can read every file, but no such link
    ran = run(f"validate {own}/odd.yaml")
    assert (ran.exit_code, ran.stdout.count("\n")) == (1, 1)
    assert ran.stdout.startswith(f"{own}/odd.yaml: cannot be read: ")


def test_a_name_of_the_project_is_taken(own: Path) -> None:
    (own / "late-payment.yaml").write_text(
        SCENARIO_FILE.replace("name: mine", "name: late-payment")
    )
    ran = run(f"validate {own}/late-payment.yaml")
    assert ran.exit_code == 1
    assert ran.stdout == (
        f"{own}/late-payment.yaml:1:1: the project has a scenario 'late-payment' "
        "(choose another name)\n"
    )


@pytest.mark.parametrize("option", ["", "--scenarios "])
def test_a_scenario_that_begins_like_another_one_is_a_problem(own: Path, option: str) -> None:
    begins = "begins: {debtorId: sim_debtor_late}\n"
    (own / "mine.yaml").write_text(SCENARIO_FILE + begins)
    ran = run(f"validate {option}{own}")
    problem = "'late-payment' begins with the same members (choose another value)"
    assert (ran.exit_code, ran.stdout) == (1, f"{own}/mine.yaml:9:1: {problem}\n")


def test_a_file_of_another_extension_is_a_problem(own: Path) -> None:
    (own / "mine.yaml").rename(own / "mine.yml")
    for line in (f"validate {own}/mine.yml", f"validate --scenarios {own}"):
        ran = run(line)
        expected = f"{own}/mine.yml: the file name does not end in .yaml (rename it to mine.yaml)\n"
        assert (ran.exit_code, ran.stdout) == (1, expected)


def test_a_file_of_the_project_itself_has_its_own_name() -> None:
    assert fine(f"validate {ROOT}/scenarios/late-payment.yaml") == "fine\n"


def test_a_folder_stands_for_its_files(own: Path) -> None:
    assert fine(f"validate {own}") == "fine\n"
    (own / "one.yaml").write_text("name: two\n")
    ran = run(f"validate {own} {own}/mine.yaml")
    assert (ran.exit_code, ran.stdout.count("\n")) == (1, 1)
    assert "one.yaml:1:" in ran.stdout


def test_a_folder_without_scenarios_is_misuse(tmp_path: Path) -> None:
    assert f"no file in '{tmp_path}' ends in .yaml" in misused(f"validate {tmp_path}")


# A folder of one's own, and another project


def test_own_scenarios_are_listed_and_shown_beside_the_others(own: Path) -> None:
    there = f"--scenarios {own}"
    names = [line.split()[0] for line in fine(f"list {there}").splitlines()]
    assert names == ["name", *sorted([*SHIPPED, "mine"])]
    assert "1 day 6 seconds  decline-offer" in fine(f"show mine {there}")


def test_the_folder_may_come_from_the_environment(own: Path) -> None:
    assert fine("show mine", INVOICE_SANDBOX_SCENARIOS=str(own)).startswith("mine\n")


@pytest.mark.parametrize("line", ["list", "show mine"])
def test_a_broken_file_among_the_own_ones_is_one_line_and_status_2(own: Path, line: str) -> None:
    (own / "broken.yaml").write_text("name: broken\n")
    said = misused(f"{line} --scenarios {own}")
    assert said == f"Error: {own}/broken.yaml:1:1: the file has no 'purpose' (add a sentence)"


def test_a_name_that_is_taken_is_one_line_and_status_2(own: Path) -> None:
    (own / "manual.yaml").write_text(SCENARIO_FILE.replace("name: mine", "name: manual"))
    said = misused(f"list --scenarios {own}")
    assert f"{own}/manual.yaml:1:1: the name 'manual' is used twice" in said


@in_turn("option", ["--scenarios", "--project"])
@in_turn("line", ["list", "show manual", "validate"])
def test_a_folder_that_is_not_there_is_misuse(line: str, option: str) -> None:
    assert "'nowhere' does not exist" in misused(f"{line} {option} nowhere")


def test_a_project_without_a_contract_is_one_line_and_status_2(own: Path) -> None:
    assert "openapi.yaml: no such file" in misused(f"list --project {own}")
