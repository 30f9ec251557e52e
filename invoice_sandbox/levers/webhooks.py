"""The built-in receiver of webhooks, and deliveries that are made again."""

from __future__ import annotations

from invoice_sandbox.errors import refuse
from invoice_sandbox.handling import Answer
from invoice_sandbox.ids import key_digest
from invoice_sandbox.levers.lever import Lever
from invoice_sandbox.store import NoWorkspaceError, Record
from invoice_sandbox.webhooks.endpoints import ENABLED, ENDPOINTS
from invoice_sandbox.webhooks.inbox import (
    INBOX_LOG,
    inbox_token,
    inbox_url,
    is_inbox,
    received,
    shown,
)
from invoice_sandbox.webhooks.outbox import DELIVERIES, published_delivery, replay


async def get_inbox(lever: Lever) -> Record:
    """The address of the inbox, and what it received, newest first."""
    async with lever.engine.store.transaction(lever.workspace.id) as state:
        token = await inbox_token(state)
    log = await lever.engine.store.log(lever.workspace.id, INBOX_LOG)
    return {
        "url": inbox_url(lever.engine.url, token),
        "messages": shown(log.entries),
        "dropped": log.dropped,
    }


async def receive_webhook(lever: Lever) -> Record:
    """Take in a message. Raises ApiError 404, and 401 for one that is not genuine."""
    engine, token = lever.engine, lever.path["token"]
    credential = await engine.store.credential(key_digest(token))
    if credential is None or not is_inbox(credential):
        raise refuse("unknown_resource", kind="inbox", member="address")
    try:
        async with engine.store.transaction(credential.workspace_id) as state:
            now = (await state.workspace()).clock.now(engine.wall)
            instant = now if engine.virtual_webhook_time else engine.wall.now()
            message = await received(
                state,
                inbox_url(engine.url, token),
                lever.headers,
                lever.raw_body,
                now=now,
                second=int(instant.timestamp()),
            )
    except NoWorkspaceError:
        raise refuse("unknown_resource", kind="inbox", member="address") from None
    size = len(lever.raw_body)
    await engine.store.append(credential.workspace_id, INBOX_LOG, message, size)
    if message["problem"] is not None:
        raise refuse("not_genuine", problem=message["problem"].capitalize())
    return {"accepted": True}


async def replay_delivery(lever: Lever) -> Answer:
    """Attempt a delivery again and answer it as it is then.

    Raises ApiError 404, and 409 for an endpoint that is disabled.
    """
    engine, workspace_id = lever.engine, lever.workspace.id
    async with engine.store.transaction(workspace_id) as state:
        delivery = await state.get(DELIVERIES, lever.path["id"])
        if delivery is None:
            raise refuse("unknown_resource", kind="delivery", member="id")
        endpoint = await state.get(ENDPOINTS, delivery["endpointId"])
        if endpoint is None or endpoint["status"] != ENABLED:
            raise refuse(
                "conflict",
                problem="The endpoint of the delivery is disabled",
                advice=f"POST /sandbox/webhooks/{delivery['endpointId']}/enable first.",
            )
        now = (await state.workspace()).clock.now(engine.wall)
        delivery = await replay(state, delivery, now)
    await engine.agenda.finish(workspace_id, delivery["lane"])
    await engine.agenda.watch(workspace_id)
    async with engine.store.transaction(workspace_id) as state:
        now_known = await state.get(DELIVERIES, delivery["id"])
    return Answer(published_delivery(now_known or delivery))
