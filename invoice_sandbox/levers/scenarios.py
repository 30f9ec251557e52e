"""What happens by itself."""

from __future__ import annotations

from dataclasses import replace

from invoice_sandbox.clock import duration_text
from invoice_sandbox.levers.lever import Lever
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.store import Record


async def list_scenarios(lever: Lever) -> list[Record]:
    """Every scenario of the project, by name."""
    current = (await lever.fresh()).scenario
    scenarios = lever.engine.project.scenarios
    return [_shown(scenarios[name], current) for name in sorted(scenarios)]


async def set_scenario(lever: Lever) -> Record:
    """Put a scenario in force from now on; what another had in store is dropped."""
    name = lever.body["name"]
    async with lever.engine.store.transaction(lever.workspace.id) as state:
        workspace = await state.workspace()
        for step in await state.steps():
            if step.scenario not in {None, name}:
                await state.discard_step(step.number)
        await state.change_workspace(replace(workspace, scenario=name))
    return _shown(lever.engine.project.scenario(name), name)


def _shown(scenario: Scenario, current: str) -> Record:
    return {
        "name": scenario.name,
        "purpose": scenario.purpose,
        "current": scenario.name == current,
        "steps": [
            {"on": step.on, "after": duration_text(step.after), "do": step.do}
            for step in scenario.steps
        ],
    }
