"""Control functions of scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from invoice_sandbox.base.clock import duration_text, instant_text
from invoice_sandbox.base.errors import ErrorType, conflict, reject
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.openapi.schema.file_schema import Pointer
from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.agenda import cancelled_entry
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.scenarios.checks import scenario_problems
from invoice_sandbox.scenarios.library import BEGUN_RUNS, SCENARIO_RUNS, faults_of, unmet_needs
from invoice_sandbox.scenarios.script import (
    START,
    ConditionError,
    Scenario,
    changed_document,
    scenario_of,
)
from invoice_sandbox.state import Record, ScheduledStep, Transaction

_NO_SUBJECT: Final = ErrorType(
    "no_scenario_subject",
    404,
    "No record with this id can run a scenario",
    "Check {value}, and that the credential belongs to the same workspace.",
)


def list_scenarios(call: ControlCall) -> list[Record]:
    """Return every scenario of the project, by name."""
    current = call.fresh().scenario
    scenarios = sorted(call.engine.project.scenarios.values(), key=lambda scenario: scenario.name)
    return [_shown(scenario, current) for scenario in scenarios]


def set_scenario(call: ControlCall) -> Later:
    """Choose a scenario from now on, for the workspace or for one subject.

    Runs under way go on, unless ``endRuns`` cancels their steps; those of the subject are always
    cancelled. Raises ApiError 404 for an unknown subject, 409 for unknown conditions and for needs
    that are not met.
    """
    scenario = _with_conditions(call, call.body["name"], call.body.get("with", {}))
    member = call.engine.project.subject_member
    subject = call.body.get(member) if member else None
    if subject is None:
        cancelled, continuing = _for_workspace(call, scenario)
    else:
        cancelled, continuing = _for_subject(call, scenario, subject), 0
    for entry in cancelled:
        call.engine.agenda.log(call.workspace.id, entry)
    counts = {"dropped": len(cancelled), "continuing": continuing}
    shown = Response({**_shown(scenario, scenario.name), **counts})
    catch_up = partial(call.engine.agenda.catch_up, call.workspace.id)
    return Later(catch_up, lambda _: _settled(call, shown))


def _settled(call: ControlCall, shown: Response) -> Response:
    call.engine.agenda.start(call.workspace.id)
    return shown


def _with_conditions(call: ControlCall, name: str, conditions: Mapping[str, Any]) -> Scenario:
    scenario = call.engine.project.scenario(name, "name")
    if not conditions:
        return scenario
    try:
        document = changed_document(scenario, conditions)
    except ConditionError as error:
        raise conflict(str(error), "See GET /sandbox/scenarios.") from None
    for problem in scenario_problems(document, name, call.engine.project.vocabulary):
        place = _place(scenario, problem.pointer)
        advice = problem.advice or "Choose another value."
        raise conflict(f"{place}: {problem.text}", advice)
    return scenario_of(document)


def _place(scenario: Scenario, pointer: Pointer) -> str:
    """The condition at a place in a scenario, or the place itself: ``steps, entry 2``."""
    value = at_pointer(scenario.document, pointer_text(pointer))
    if isinstance(value, str) and value.startswith("$"):
        return f"condition '{value[1:]}'"
    return ", ".join(f"entry {step + 1}" if isinstance(step, int) else step for step in pointer)


def _for_workspace(call: ControlCall, scenario: Scenario) -> tuple[list[Record], int]:
    """Choose the scenario for the workspace. Return the log entries of the cancelled steps, and the
    number of records whose run goes on with another scenario."""
    cancelled: list[Record] = []
    with call.engine.store.transaction(call.workspace.id) as state:
        if call.body.get("endRuns", False):
            cancelled = [_cancel(call, state, step, scenario) for step in _begun_steps(state)]
            for subject in [run["id"] for run in state.page(BEGUN_RUNS).records]:
                state.delete(BEGUN_RUNS, subject)
        workspace = state.workspace()
        if (workspace.scenario, workspace.conditions) != (scenario.name, scenario.conditions):
            injected = tuple(fault for fault in workspace.faults if fault.scenario is None)
            chosen = replace(
                workspace,
                scenario=scenario.name,
                conditions=scenario.conditions,
                faults=(*injected, *faults_of(scenario)),
                named=(),
            )
            state.change_workspace(chosen)
        others = [step for step in _begun_steps(state) if step.scenario != scenario.name]
    return cancelled, len({step.arguments.get("subject") for step in others})


def _begun_steps(state: Transaction) -> list[ScheduledStep]:
    """The steps of the runs that a scenario of the workspace began."""
    return [
        step
        for step in state.steps(None)
        if step.scenario is not None
        and state.get(SCENARIO_RUNS, str(step.arguments.get("subject"))) is None
    ]


def _cancel(
    call: ControlCall, state: Transaction, step: ScheduledStep, scenario: Scenario
) -> Record:
    """Cancel a scheduled step. Return its log entry."""
    state.discard_step(step.number)
    now = state.workspace().clock.now(call.engine.system_clock)
    reason = f"{scenario.name} was chosen. The step was due at {instant_text(step.due)}."
    return cancelled_entry(step, now, reason, call.origin.request_id)


def _for_subject(call: ControlCall, scenario: Scenario, subject: str) -> list[Record]:
    """Choose the scenario for a subject. Return the log entries of the cancelled steps."""
    if scenario.faults:
        raise conflict(
            f"{scenario.name} injects faults, which cannot apply to a single subject",
            "Choose it for the workspace, or for a request with X-Sandbox-Scenario.",
        )
    with call.engine.store.transaction(call.workspace.id) as state:
        record = _subject(call, state, subject)
        problem = unmet_needs(scenario, record)
        if problem is not None:
            raise conflict(problem, "Choose another subject, or wait.")
        cancelled = [
            _cancel(call, state, step, scenario)
            for step in state.steps(None)
            if step.scenario is not None and step.arguments.get("subject") == subject
        ]
        kept = {"scenario": scenario.name, "with": dict(scenario.conditions)}
        state.put(SCENARIO_RUNS, subject, kept)
        now = state.workspace().clock.now(call.engine.system_clock)
        for reaction in scenario.by_event.get(START, ()):
            arguments = {**reaction.arguments, "subject": subject}
            due = reaction.due(now, record)
            state.schedule(due, reaction.do, arguments, scenario.name, place=reaction.index)
    return cancelled


def _subject(call: ControlCall, state: Transaction, subject: str) -> Record:
    find = call.engine.project.hooks.find_subject
    record = None if find is None else find(state, subject)
    if record is None:
        raise reject(_NO_SUBJECT, value=subject)
    return record


def _shown(scenario: Scenario, current: str) -> Record:
    return {
        "name": scenario.name,
        "purpose": scenario.purpose,
        "group": scenario.group or None,
        "passes": scenario.passes or None,
        "current": scenario.name == current,
        "begins": dict(scenario.begins),
        "needs": {name: list(values) for name, values in scenario.needs.items()},
        "conditions": dict(scenario.conditions),
        "steps": [
            *(
                {"on": step.on, "after": duration_text(step.after), "do": step.do}
                for step in scenario.steps
            ),
            *({"on": step.call, "nth": step.nth, "do": step.do} for step in scenario.calls),
        ],
        "faults": [dict(fault) for fault in scenario.faults],
        "deliveries": [dict(fault) for fault in scenario.deliveries],
        "expects": [dict(rule) for rule in scenario.expects],
    }
