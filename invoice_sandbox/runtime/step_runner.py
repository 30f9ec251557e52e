"""Runs the scheduled steps of scenarios: the project's action of each, and what remains of it."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.project.api import Origin, Step
from invoice_sandbox.project.loader import Project
from invoice_sandbox.runtime.agenda import (
    Dropped,
    ReportDropped,
    RunStep,
    SkippedStep,
    step_summary,
)
from invoice_sandbox.scenarios.library import resolver_of
from invoice_sandbox.state import ScheduledStep, Transaction, Workspace
from invoice_sandbox.webhooks.attempts import CLOSE_ENDPOINT
from invoice_sandbox.webhooks.endpoints import ENDPOINTS

LAST_STEPS: Final = "last_steps"
"""The collection of the last step that moved a record, by the id of the record."""


def step_runner(project: Project) -> RunStep:
    """The function that runs a scheduled step. It raises SkippedStep for an action that fails."""

    def run(state: Transaction, workspace: Workspace, scheduled: ScheduledStep) -> list[str]:
        step = _step(project, state, workspace, scheduled)
        try:
            if scheduled.action == CLOSE_ENDPOINT:
                _report_disabled(project, step)
            else:
                project.actions[scheduled.action].run(step, scheduled.arguments)
        except ApiError as error:
            raise SkippedStep(error.message()) from None
        _keep_last_step(state, scheduled)
        return step.emitted

    return run


def drop_reporter(project: Project) -> ReportDropped:
    """The function that calls the project's hook for a step that failed or was skipped.

    A step that a handler scheduled has no second chance: it failed.
    """
    hooks = project.hooks

    def report(
        state: Transaction,
        workspace: Workspace,
        scheduled: ScheduledStep,
        outcome: Dropped,
        reason: str,
    ) -> None:
        is_failure = outcome == "failed" or scheduled.scenario is None
        hook = hooks.on_step_failed if is_failure else hooks.on_step_skipped
        if hook is not None:
            step = _step(project, state, workspace, scheduled)
            hook(step, scheduled.action, reason)

    return report


def _step(
    project: Project, state: Transaction, workspace: Workspace, scheduled: ScheduledStep
) -> Step:
    return Step(
        state=state,
        workspace=workspace,
        now=scheduled.due,
        origin=Origin("system", None, step_number=scheduled.run),
        contract=project.contract,
        lifecycle=project.lifecycle,
        conventions=project.conventions,
        scenarios=resolver_of(project.scenarios, workspace),
        arguments=scheduled.arguments,
        scenario=scheduled.scenario,
        place=scheduled.place,
    )


def _report_disabled(project: Project, step: Step) -> None:
    """Call the project's hook for a webhook endpoint that was disabled."""
    endpoint = step.state.get(ENDPOINTS, step.subject)
    if endpoint is not None and project.hooks.on_endpoint_disabled is not None:
        project.hooks.on_endpoint_disabled(step, endpoint)


def _keep_last_step(state: Transaction, scheduled: ScheduledStep) -> None:
    """Keep the step with its subject, so that a later response can be explained by it."""
    summary = step_summary(scheduled)
    subject = summary.pop("subject")
    if subject is not None:
        state.put(LAST_STEPS, subject, summary)
