"""Control functions of live verdicts: the client of a workspace judged while it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

from invoice_sandbox.base.errors import conflict, existing
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.conformance.live import LiveVerdict, State, live_verdicts, recorded
from invoice_sandbox.conformance.plan import Plan, PlanVocabulary, read_plan, vocabulary_of
from invoice_sandbox.control.faults import add_fault
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.runtime.named_secrets import named_secrets
from invoice_sandbox.scenarios.descriptions import delivery_in_words, fault_in_words
from invoice_sandbox.state import Record, Transaction
from invoice_sandbox.webhooks.endpoints import ENABLED, all_endpoints
from invoice_sandbox.webhooks.inbox import inbox_token, inbox_url
from invoice_sandbox.webhooks.outbox import DELIVERED, DELIVERIES, replay

MAX_DELIVERIES: Final = 1000
"""The newest deliveries that are judged; the journal has as many requests."""


def list_verdicts(call: ControlCall) -> list[Record]:
    """The verdict on each invariant, the worst first; none without a plan. Raises ApiError 409 for
    a plan that cannot be read."""
    plan = _plan(call)
    if plan is None:
        return []
    with call.engine.store.transaction(call.workspace.id) as state:
        page = state.page(DELIVERIES, limit=MAX_DELIVERIES, shared=True)
        inboxes = _inboxes(call, state)
    journal = call.engine.journal.whole(
        call.workspace.id, lambda: named_secrets(call.engine, call.workspace).recorded
    )
    seen = recorded(journal, reversed(page.records), inboxes)
    return [_shown(plan, verdict) for verdict in live_verdicts(plan, seen)]


def _plan(call: ControlCall) -> Plan | None:
    """The plan of the project. Raises ApiError 409 for several, and for one with problems."""
    project = call.engine.project
    files = sorted(project.plans.glob("*.yaml")) if project.plans else []
    if not files:
        return None
    names = vocabulary_of(project.contract.document, tuple(project.scenarios))
    vocabulary = (tuple(names.operations), tuple(names.events), names.scenarios)
    plan = _read(files[0].read_bytes(), vocabulary) if len(files) == 1 else None
    if plan is None:
        raise conflict(
            "The project has several acceptance plans, or one with problems",
            "'invoice-sandbox acceptance run' prints them.",
        )
    return plan


@lru_cache(maxsize=16)  # it takes longer to read a plan than to judge by it
def _read(content: bytes, vocabulary: tuple[Any, ...]) -> Plan | None:
    """Return a plan; None: it has problems."""
    try:
        return read_plan(content, "plan", PlanVocabulary(*vocabulary))
    except DocumentError:
        return None


def _inboxes(call: ControlCall, state: Transaction) -> list[str]:
    """The endpoints of the workspace that are its own inbox."""
    address = inbox_url(call.engine.url, inbox_token(state))
    return [endpoint["id"] for endpoint in all_endpoints(state) if endpoint["url"] == address]


def _shown(plan: Plan, verdict: LiveVerdict) -> Record:
    is_broken = verdict.state is State.BROKEN
    return {
        "check": verdict.id,
        "verdict": verdict.state.value,
        "requirement": verdict.result.rule["that"],
        "found": verdict.found,
        "exchanges": [*verdict.result.evidence] if is_broken else [],
        "advice": plan.advice.get(verdict.id) if is_broken else None,
        "canProvoke": verdict.id in plan.provoke,
    }


def provoke_check(call: ControlCall) -> Record | Later:
    """Arm what shows if the client keeps an invariant. Raises ApiError 404 for an unknown one, and
    409 for one that nothing shows, or that needs a delivery while there is none."""
    name, plan = call.path["id"], _plan(call)
    existing(plan and plan.invariants.get(name), "check", name)
    assert plan is not None  # noqa: S101 - it has the invariant
    step = plan.provoke.get(name)
    if step is None:
        raise conflict(
            f"Nothing that the sandbox does shows '{name}'",
            "Only the requests of the client do.",
        )
    if "fault" in step:
        fault = add_fault(replace(call, body=step["fault"]))
        armed = f"Armed {fault['id']}: {fault_in_words(step['fault'])}."
        return _armed(name, armed, step)
    return _delivered(call, name, step)


def _armed(name: str, armed: str, step: Mapping[str, Any]) -> Record:
    return {"check": name, "armed": armed, "next": step["next"]}


def _delivered(call: ControlCall, name: str, step: Mapping[str, Any]) -> Later:
    """Deliver the newest event again, with the faults of a step, and a genuine message last."""
    engine = call.engine
    faults = [{"kind": kind} for kind in step["deliveries"]]
    with engine.store.transaction(call.workspace.id) as state:
        now = state.workspace().clock.now(engine.system_clock)
        delivery = replay(state, _newest(call, state), now, faults)
    words = ", ".join(
        delivery_in_words({"event": delivery["eventType"], **fault}) for fault in faults
    )
    armed = _armed(name, f"Sent {delivery['id']} again, {words}; then a genuine one.", step)
    finish = partial(engine.agenda.finish, call.workspace.id, delivery["lane"])
    return Later(finish, lambda _: _finished(call, armed))


def _finished(call: ControlCall, armed: Record) -> Response:
    call.engine.agenda.start(call.workspace.id)
    return Response(armed)


def _newest(call: ControlCall, state: Transaction) -> Record:
    """The newest delivery that the client accepted. Raises ApiError 409 if there is none."""
    inboxes = set(_inboxes(call, state))
    enabled = {each["id"] for each in all_endpoints(state) if each["status"] == ENABLED} - inboxes
    for delivery in state.page(DELIVERIES, limit=MAX_DELIVERIES).records:
        if delivery["endpointId"] in enabled and delivery["status"] == DELIVERED:
            return delivery
    raise conflict(
        "The client has accepted no webhook that could be sent again",
        "Register its endpoint, and cause an event that it subscribes to.",
    )
