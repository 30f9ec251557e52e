"""The pages about scenarios are executed, complete, and enough to write a scenario from."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from invoice_sandbox.base.clock import parse_instant
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.scenarios.checks import scenario_errors
from invoice_sandbox.scenarios.library import scenario_files
from tests.cases import in_turn
from tests.scenario_docs import (
    MISTAKES,
    PAGE,
    SCENARIO,
    TUTORIAL,
    Mistake,
    broken_by,
    played,
    project,
    with_generated,
)
from tests.scenario_run import offers, register, run_to_end, skipped, status
from tests.support import FROZEN, serving

ROOT = Path(__file__).parents[1]
CONTROL_PAGE = PAGE.parent / "control-api.md"
SHIPPED = scenario_files(ROOT / "scenarios")
SCHEMA = json.loads((files("invoice_sandbox.scenarios") / "scenario.schema.json").read_text())


@pytest.fixture(scope="module")
def page() -> str:
    """The page as it is in the repository."""
    return PAGE.read_text()


# Up to date


def test_the_generated_parts_are_those_of_the_files(page: str) -> None:
    assert with_generated(page) == page, "run python -m tests.scenario_docs"


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("bash")), reason="needs curl and bash: install them"
)
@pytest.mark.process
def test_the_commands_of_the_tutorial_print_what_it_shows() -> None:
    tutorial = TUTORIAL.read_text()
    assert played(tutorial) == tutorial


# Complete


def test_every_scenario_has_a_row(page: str) -> None:
    rows = [f"\n| `{file.stem}` | " for file in SHIPPED]
    assert [row for row in rows if page.count(row) != 1] == []


@in_turn("file", SHIPPED, ids=lambda one: one.stem)
def test_the_row_describes_what_happens_and_when_a_client_passes(page: str, file: Path) -> None:
    reported = load_document(file)
    row = page.partition(f"\n| `{file.stem}`")[2].partition("\n")[0]
    passes = reported.get("passes", "The client -").removeprefix("The client ")
    for text in (reported["purpose"], f"| {passes} |", *reported.get("begins", {}).values()):
        assert text in row


def test_every_action_of_scenarios_has_a_row(page: str) -> None:
    actions = [name for name, one in project().actions.items() if one.in_scenarios]
    assert actions
    assert [name for name in actions if f"\n| `{name}` | " not in page] == []


def test_actions_that_scenarios_cannot_do_are_not_on_the_page(page: str) -> None:
    others = [name for name, one in project().actions.items() if not one.in_scenarios]
    assert [name for name in others if name in page] == []


def test_every_key_and_type_of_the_schema_is_on_the_page(page: str) -> None:
    words = {*_keys(SCHEMA), *_choices(SCHEMA)}
    assert {"date", "nth", "upTo", "within", "stale-timestamp"} < words
    page += CONTROL_PAGE.read_text()
    missing = [word for word in words if not re.search(rf"`[^`\n]*\b{word}\b[^`\n]*`", page)]
    assert missing == []


def test_every_trigger_and_every_type_of_event_that_a_move_records_is_on_the_page(
    page: str,
) -> None:
    machine = project().vocabulary.machine
    assert machine is not None
    words = {word for one in machine.transitions for word in (one.trigger, one.event) if word}
    assert [word for word in words if f" `{word}` |" not in page] == []
    assert [one.from_ for one in machine.transitions if f"`{one.from_}`" not in page] == []


def _keys(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for one in schema.values():
            yield from _keys(one)


def _choices(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("enum", ())
        for one in schema.values():
            yield from _choices(one)


# The checks that it lists


def test_the_scenario_that_the_mistakes_are_made_in_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "my-scenario.yaml"
    file.write_text(SCENARIO)
    assert list(scenario_errors(file, project().vocabulary)) == []


@in_turn("mistake", MISTAKES, ids=lambda one: one.rule)
def test_each_mistake_is_reported_with_its_line_and_column(mistake: Mistake) -> None:
    assert mistake.fine in SCENARIO
    for said in broken_by(mistake):
        assert re.match(r"my-scenario\.yaml:\d+:\d+: \S", said)
    assert broken_by(mistake)


# The schema, for editors


def test_the_schema_that_is_shipped_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


@in_turn("file", SHIPPED, ids=lambda one: one.stem)
def test_each_file_leads_an_editor_to_the_schema(file: Path) -> None:
    line, _, _ = file.read_text().partition("\n")
    _, _, path = line.partition("# yaml-language-server: $schema=")
    assert json.loads((file.parent / path).read_text()) == SCHEMA


@in_turn("file", SHIPPED, ids=lambda one: one.stem)
def test_an_editor_finds_nothing_wrong_with_a_file_as_it_stands(file: Path) -> None:
    # Numbers that are conditions, such as $times, are the one thing that an editor cannot know.
    reported = load_document(file)
    wrong = [error.instance for error in Draft202012Validator(SCHEMA).iter_errors(reported)]
    conditions = {f"${name}" for name in reported.get("conditions", {})}
    assert [one for one in wrong if one not in conditions] == []


# Enough to write a scenario from

EXPIRES_IN_DISPUTE = """\
# yaml-language-server: $schema=scenario.schema.json
name: offer-expires-in-dispute
purpose: The debtor disputes the invoice that has an offer; when the dispute ends, it has expired.
passes: The client does not accept the offer, neither during the dispute nor afterwards.
begins: {debtorId: sim_debtor_argues}
conditions: {dispute: P1D, decision: P5D}
steps:
  - {on: start, after: PT1S, do: start-verification}
  - {on: start, after: PT2S, do: finish-verification}
  - {on: start, after: PT4S, do: request-financing}
  - {on: start, after: PT6S, do: make-offer}
  - {on: offer.received, after: $dispute, do: transition, with: {trigger: dispute}}
  - {on: invoice.disputed, after: $decision, do: transition, with: {trigger: resolve-dispute}}
"""


def test_the_scenario_of_an_offer_that_expires_in_a_dispute_says_nothing_that_the_page_does_not(
    page: str,
) -> None:
    own = {"sim_debtor_argues", "dispute", "decision"}
    body = EXPIRES_IN_DISPUTE.partition("steps:")[2]
    page += TUTORIAL.read_text()
    for word in set(re.findall(r"[a-z][a-z_.-]+[a-z]", body)) - own:
        assert re.search(rf"`{re.escape(word)}`|\b{re.escape(word)}:? ", page), word


def test_an_offer_that_expires_in_a_dispute_is_reported_with_what_is_possible(
    tmp_path: Path,
) -> None:
    file = tmp_path / "offer-expires-in-dispute.yaml"
    file.write_text(
        EXPIRES_IN_DISPUTE.replace("trigger: resolve-dispute", "trigger: expire-offers")
    )
    (error,) = scenario_errors(file, project().vocabulary)
    assert error.place.endswith(":13:46")
    assert "the invoice is Disputed (possible: resolve-dispute, " in error.clause


def test_it_is_played_to_its_end_on_a_clock_that_only_the_test_moves(tmp_path: Path) -> None:
    (tmp_path / "offer-expires-in-dispute.yaml").write_text(EXPIRES_IN_DISPUTE)
    with serving(replace(FROZEN, scenarios=tmp_path)) as server, server.client() as client:
        invoice = register(client, debtorId="sim_debtor_argues")
        done = run_to_end(client)
        assert skipped(done) == []
        reported = [(one["at"], kind) for one in done for kind in one["events"]]
        assert reported[-4:] == [
            ("2026-11-23T09:30:06Z", "offer.received"),
            ("2026-11-24T09:30:06Z", "invoice.disputed"),
            ("2026-11-26T09:30:06Z", "offer.expired"),
            ("2026-11-29T09:30:06Z", "invoice.dispute_resolved"),
        ]
        (offer,) = offers(client, invoice)
        assert parse_instant(offer["validUntil"]) == parse_instant("2026-11-26T09:30:06Z")
        assert (offer["status"], status(client, invoice)) == ("Expired", "FinancingRequested")
