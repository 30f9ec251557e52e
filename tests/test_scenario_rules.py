"""The rules of the scenarios are about events that a run of the scenario records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.scenario_docs import project
from tests.scenario_run import choose, data, recorded_events, register, run_to_end
from tests.support import Running

SCENARIOS = project().scenarios
LATER = {"webhook_endpoint.disabled"}
"""What needs an endpoint that fails for days."""


def events(name: str) -> list[str]:
    """The event types that the rules of a scenario are about, in their order."""
    named = (rule.get(part) for rule in SCENARIOS[name].expects for part in PARTS)
    return [one for one in dict.fromkeys(named) if one and one not in {"*", "start", *LATER}]


PARTS = ("after", "until", "delivery")
ABOUT_EVENTS = sorted(name for name in SCENARIOS if events(name))


def invoices(name: str) -> Iterator[dict[str, Any]]:
    """The invoices that are registered in a run of the scenario, one after the other."""
    begins = SCENARIOS[name].begins
    yield {**begins}
    if name in {"duplicate-exact", "duplicate-similar"}:
        yield {} if name == "duplicate-exact" else {"amount": 9000}


@pytest.mark.parametrize("name", ABOUT_EVENTS)
def test_every_event_of_the_rules_happens(server: Running, client: httpx.Client, name: str) -> None:
    choose(client, name)
    for members in invoices(name):
        register(client, **members)
        run_to_end(client)
    happened = [one["type"] for one in recorded_events(server, client)]
    assert [one for one in events(name) if one not in happened] == []


def test_the_control_api_lists_the_rules_of_every_scenario(client: httpx.Client) -> None:
    listed = {one["name"]: one["expects"] for one in data(client.get("/sandbox/scenarios"))}
    assert listed == {name: [*one.expects] for name, one in SCENARIOS.items()}


def test_most_scenarios_have_rules_about_events() -> None:
    assert len(ABOUT_EVENTS) > 20
