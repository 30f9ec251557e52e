"""The partner plan passes reference clients, and each check catches a seeded fault.

``make acceptance CLIENTS=--bounded`` runs the other clients and faults, and ``make acceptance`` all
of them through all checks, for docs/internals/acceptance-selftest.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from invoice_sandbox.acceptance.reports import as_json, contract_subject, report_object
from invoice_sandbox.acceptance.runner import RunReport
from invoice_sandbox.acceptance.runs import BUNDLE, judged, run_parts
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.bundles.archive import read_bundle, write_bundle
from invoice_sandbox.conformance.plan import Plan
from invoice_sandbox.control.client import ControlClient
from tests.acceptance.selftest import (
    PLAN,
    KnownClient,
    faulty,
    judge_clients,
    judging,
    known_clients,
    problems,
)

pytestmark = [pytest.mark.process, pytest.mark.slow]

REFERENCES = ("Python",)
"""The others are for make acceptance."""


@pytest.fixture(scope="module")
def server_and_plan() -> Iterator[tuple[Plan, ControlClient]]:
    """One server for all clients."""
    with judging() as both:
        yield both


@pytest.fixture(scope="module")
def clients() -> Mapping[str, KnownClient]:
    """All clients by name."""
    return known_clients()


@pytest.fixture(scope="module")
def references(
    server_and_plan: tuple[Plan, ControlClient], clients: Mapping[str, KnownClient]
) -> Mapping[str, RunReport]:
    """What the reference clients do in all checks."""
    return judge_clients([clients[name] for name in REFERENCES], *server_and_plan)


@pytest.fixture(scope="module")
def caught(
    server_and_plan: tuple[Plan, ControlClient], clients: Mapping[str, KnownClient]
) -> Mapping[str, RunReport]:
    """What the first client with a fault for each check does in that check."""
    first = {one.caught_by: one for one in reversed(faulty(clients))}
    return judge_clients([*first.values()], *server_and_plan, own_check_only=True)


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_client_passes_whatever_it_declares(
    references: Mapping[str, RunReport], clients: Mapping[str, KnownClient], name: str
) -> None:
    assert [*problems(clients[name], references[name])] == []


def test_the_python_client_does_everything(references: Mapping[str, RunReport]) -> None:
    verdicts = {one.check.id: one.verdict for one in references["Python"].checks}
    assert len(verdicts) == 15
    assert {*verdicts.values()} == {Verdict.PASS}


def test_the_bundle_of_a_run_through_every_case_gives_its_report_again(
    server_and_plan: tuple[Plan, ControlClient], references: Mapping[str, RunReport], tmp_path: Path
) -> None:
    plan, control = server_and_plan
    contract = control.whole("GET", "/openapi.json")
    report, subject = references["Python"], contract_subject(contract, [*plan.capabilities])
    text = as_json(report_object(report, subject))
    parts = run_parts(report, subject, {}, PLAN.read_bytes(), contract, text)
    write_bundle(tmp_path / BUNDLE, *parts)
    again = judged(read_bundle(tmp_path / BUNDLE), None)
    assert as_json(report_object(*again)) == text


def test_a_seeded_fault_is_caught_by_its_check(
    caught: Mapping[str, RunReport], clients: Mapping[str, KnownClient]
) -> None:
    assert len(caught) == 15
    wrong = [line for name, one in caught.items() for line in problems(clients[name], one)]
    assert wrong == []


def test_there_is_a_fault_for_every_check(
    server_and_plan: tuple[Plan, ControlClient], clients: Mapping[str, KnownClient]
) -> None:
    plan, _ = server_and_plan
    assert len(faulty(clients)) >= 30
    assert {one.caught_by for one in faulty(clients)} == {one.id for one in plan.checks}
