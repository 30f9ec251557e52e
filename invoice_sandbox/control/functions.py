"""The function of every operation of the control API, by its operationId."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from invoice_sandbox.control import (
    clock,
    faults,
    health,
    journal,
    listeners,
    scenarios,
    snapshots,
    webhooks,
    workspaces,
)
from invoice_sandbox.runtime.control_call import ControlFunction, PublicFunction

CONTROL_FUNCTIONS: Final[Mapping[str, ControlFunction]] = {
    "getSandboxHealth": PublicFunction(health.get_sandbox_health),
    "getClock": clock.get_clock,
    "setClock": clock.set_clock,
    "advanceClock": clock.advance_clock,
    "getAgenda": clock.get_agenda,
    "listWorkspaces": workspaces.list_workspaces,
    "createWorkspace": workspaces.create_workspace,
    "deleteWorkspace": workspaces.delete_workspace,
    "resetWorkspace": workspaces.reset_workspace,
    "listSnapshots": snapshots.list_snapshots,
    "createSnapshot": snapshots.create_snapshot,
    "deleteSnapshot": snapshots.delete_snapshot,
    "restoreSnapshot": snapshots.restore_snapshot,
    "listScenarios": scenarios.list_scenarios,
    "setScenario": scenarios.set_scenario,
    "listFaults": faults.list_faults,
    "addFault": faults.add_fault,
    "clearFaults": faults.clear_faults,
    "removeFault": faults.remove_fault,
    "listRequests": journal.list_requests,
    "getInbox": webhooks.get_inbox,
    "receiveWebhook": PublicFunction(webhooks.receive_webhook),
    "replayDelivery": webhooks.replay_delivery,
    "createListener": listeners.create_listener,
    "deleteListener": listeners.delete_listener,
    "streamListener": listeners.stream_listener,
    "receiveForListener": PublicFunction(listeners.receive_for_listener),
    "answerMessage": listeners.answer_message,
}
