"""Which story is whose: the request's own, the thing's own, or the workspace's, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.scenarios.faults import fault_of
from invoice_sandbox.scenarios.script import Scenario, changed_document, scenario_of
from invoice_sandbox.state import Fault, Record, Transaction, Workspace

STORIES: Final = "stories"
"""The kind under which the story of a thing is kept that has one of its own, by the thing's id."""


@dataclass(frozen=True)
class ScenarioResolver:
    """The stories of a project, the one of the workspace, and the one that a request names."""

    told: Mapping[str, Scenario]
    usual: Scenario
    named: Scenario | None = None

    def of_new(self, data: Mapping[str, Any]) -> Scenario:
        """The story of a thing that has just been made."""
        if self.named is not None:
            return self.named
        own = (one for one in self.told.values() if one.begins_with(data))
        return next(own, self.usual)

    async def of(self, state: Transaction, subject: str) -> Scenario:
        """The story of a thing that is there."""
        kept = await state.get(STORIES, subject)
        if kept is None:
            return self.usual
        return with_conditions(self.told, kept["scenario"], kept["with"])

    async def keep(self, state: Transaction, subject: str, story: Scenario) -> None:
        """Remember the story of a thing, unless it is the workspace's."""
        if story is not self.usual:
            kept = {"scenario": story.name, "with": dict(story.conditions)}
            await state.put(STORIES, subject, kept)


def with_conditions(
    told: Mapping[str, Scenario], name: str, conditions: Mapping[str, Any]
) -> Scenario:
    """The story of that name under other conditions; in one that is gone nothing happens."""
    scenario = told.get(name) or Scenario(name)
    known = {key: value for key, value in conditions.items() if key in scenario.conditions}
    if known in ({}, scenario.conditions):
        return scenario
    try:
        return scenario_of(changed_document(scenario, known))
    except ValueError:  # its file has changed since, and means something else by that name
        return scenario


def resolver_of(
    told: Mapping[str, Scenario], workspace: Workspace, named: Scenario | None = None
) -> ScenarioResolver:
    """The stories that are in force in a workspace, for a request that may name one."""
    return ScenarioResolver(
        told, with_conditions(told, workspace.scenario, workspace.conditions), named
    )


def faults_of(scenario: Scenario, *, only_named: bool = False) -> tuple[Fault, ...]:
    """The faults of a story; ``only_named`` ones meet only requests that name the story."""
    return tuple(
        fault_of(f"flt_{scenario.name}_{number}", body, scenario.name, only_named=only_named)
        for number, body in enumerate(scenario.faults, 1)
    )


def unmet_needs(scenario: Scenario, record: Record) -> str | None:
    """Which need of a story a thing does not meet, as a clause; None when it meets them all."""
    for member, allowed in scenario.needs.items():
        if record.get(member) not in allowed:
            wanted = " or ".join(map(str, allowed))
            return f"{scenario.name} needs {member} {wanted}, and it is {record.get(member)}"
    return None
