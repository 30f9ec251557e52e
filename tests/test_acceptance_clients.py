"""The partner plan passes the reference clients, and catches every seeded fault by its own check.

``make acceptance`` runs the clients with a fault through all checks, for docs/acceptance.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from invoice_sandbox.acceptance.plan import Plan
from invoice_sandbox.acceptance.runner import RunReport
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.control.client import ControlClient
from tests.acceptance.selftest import FAULTY, REFERENCES, KnownClient, judge, judging, problems

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def server_and_plan() -> Iterator[tuple[Plan, ControlClient]]:
    """One server for all clients."""
    with judging() as both:
        yield both


@pytest.fixture(scope="module")
def references(server_and_plan: tuple[Plan, ControlClient]) -> Mapping[str, RunReport]:
    """What the reference clients do in all checks."""
    return judge(REFERENCES, *server_and_plan)


@pytest.fixture(scope="module")
def faulty(server_and_plan: tuple[Plan, ControlClient]) -> Mapping[str, RunReport]:
    """What each client with a fault does in the check that must catch it.

    A machine that stalls makes constant waits look like growing ones: a missed fault has two more
    chances. A false FAIL has none.
    """
    reports = dict(judge(FAULTY, *server_and_plan, own_check_only=True))
    for _ in range(2):
        missed = [one for one in FAULTY if problems(one, reports[one.name])]
        reports |= judge(missed, *server_and_plan, own_check_only=True)
    return reports


@pytest.mark.parametrize("client", REFERENCES, ids=lambda one: one.name)
def test_a_reference_client_passes_whatever_it_declares(
    references: Mapping[str, RunReport], client: KnownClient
) -> None:
    assert problems(client, references[client.name]) == []


def test_the_python_client_does_everything(references: Mapping[str, RunReport]) -> None:
    verdicts = {one.check.id: one.verdict for one in references["Python"].checks}
    assert len(verdicts) == 15
    assert {*verdicts.values()} == {Verdict.PASS}


@pytest.mark.parametrize("client", FAULTY, ids=lambda one: one.name)
def test_a_seeded_fault_is_caught_by_its_check(
    faulty: Mapping[str, RunReport], client: KnownClient
) -> None:
    assert problems(client, faulty[client.name]) == []


def test_there_is_a_fault_for_every_check(server_and_plan: tuple[Plan, ControlClient]) -> None:
    plan, _ = server_and_plan
    assert len(FAULTY) >= 30
    assert {one.caught_by for one in FAULTY} == {one.id for one in plan.checks}
