"""Control functions of events, deliveries and the inbox."""

from __future__ import annotations

from functools import partial
from typing import Final

from invoice_sandbox.base.errors import reject
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.base.later import Later
from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import ControlCall, PublicControlCall
from invoice_sandbox.state import Condition, NoWorkspaceError, Record, Transaction
from invoice_sandbox.webhooks.attempts import explained
from invoice_sandbox.webhooks.endpoints import ENABLED, ENDPOINTS
from invoice_sandbox.webhooks.inbox import (
    INBOX_LOG,
    SENT_AT,
    inbox_token,
    inbox_url,
    is_inbox,
    received,
    shown,
)
from invoice_sandbox.webhooks.outbox import DELIVERIES, EVENTS, published_delivery, replay

_DEFAULT_LIMIT: Final = 100


def get_inbox(call: ControlCall) -> Record:
    """The URL of the inbox, and its messages, newest first."""
    with call.engine.store.transaction(call.workspace.id) as state:
        token = inbox_token(state)
    log = call.engine.store.log(call.workspace.id, INBOX_LOG)
    return {
        "url": inbox_url(call.engine.url, token),
        "messages": shown(log.entries),
        "dropped": log.dropped,
    }


def receive_webhook(call: PublicControlCall) -> Record:
    """Receive a message. Raises ApiError 404, and 401 for one that is not genuine."""
    engine, token = call.engine, call.path["token"]
    credential = engine.store.credential(key_digest(token))
    if credential is None or not is_inbox(credential):
        raise reject("unknown_resource", kind="inbox", member="address")
    try:
        with engine.store.transaction(credential.workspace_id) as state:
            now = SENT_AT.get() or state.workspace().clock.now(engine.system_clock)
            instant = now if engine.virtual_webhook_time else engine.system_clock.calendar()
            message = received(
                state,
                inbox_url(engine.url, token),
                call.headers,
                call.raw_body,
                now=now,
                second=int(instant.timestamp()),
            )
    except NoWorkspaceError:
        raise reject("unknown_resource", kind="inbox", member="address") from None
    size = len(call.raw_body)
    engine.store.append(credential.workspace_id, INBOX_LOG, message, size)
    if message["problem"] is not None:
        raise reject("invalid_signature", problem=message["problem"].capitalize())
    return {"accepted": True}


def list_events(call: ControlCall) -> list[Record]:
    """The recorded events, newest first, each with its deliveries."""
    subject = call.query.get("subject")
    where = () if subject is None else (Condition("subjects", "has", subject),)
    with call.engine.store.transaction(call.workspace.id) as state:
        limit = call.query.get("limit", _DEFAULT_LIMIT)
        events = state.page(EVENTS, limit=limit, where=where).records
        return [_with_deliveries(state, event) for event in events]


def _with_deliveries(state: Transaction, event: Record) -> Record:
    where = (Condition("eventId", "=", event["id"]),)
    deliveries = state.page(DELIVERIES, where=where).records
    return {**event, "deliveries": [published_delivery(delivery) for delivery in deliveries]}


def get_delivery(call: ControlCall) -> Record:
    """A delivery with what was signed, and with which secrets. Raises ApiError 404."""
    with call.engine.store.transaction(call.workspace.id) as state:
        delivery = _named(state, call)
        endpoint = state.get(ENDPOINTS, delivery["endpointId"])
        event = state.get(EVENTS, delivery["eventId"])
    return published_delivery(explained(delivery, event, endpoint))


def replay_delivery(call: ControlCall) -> Later:
    """Attempt a delivery again and return it afterwards.

    Raises ApiError 404, and 409 for an endpoint that is disabled.
    """
    engine, workspace_id = call.engine, call.workspace.id
    with engine.store.transaction(workspace_id) as state:
        delivery = _named(state, call)
        endpoint = state.get(ENDPOINTS, delivery["endpointId"])
        if endpoint is None or endpoint["status"] != ENABLED:
            raise reject(
                "conflict",
                problem="The endpoint of the delivery is disabled",
                advice=f"POST /sandbox/webhooks/{delivery['endpointId']}/enable first.",
            )
        now = state.workspace().clock.now(engine.system_clock)
        faults = [{"kind": call.body["fault"]}] if "fault" in (call.body or {}) else []
        delivery = replay(state, delivery, now, faults)
    finish = partial(engine.agenda.finish, workspace_id, delivery["lane"])
    return Later(finish, lambda _: _replayed(call, delivery))


def _named(state: Transaction, call: ControlCall) -> Record:
    delivery = state.get(DELIVERIES, call.path["id"])
    if delivery is None:
        raise reject("unknown_resource", kind="delivery", member="id", value=call.path["id"])
    return delivery


def _replayed(call: ControlCall, delivery: Record) -> Response:
    call.engine.agenda.settle(call.workspace.id, ())
    with call.engine.store.transaction(call.workspace.id) as state:
        present = state.get(DELIVERIES, delivery["id"])
    return Response(published_delivery(present or delivery))
