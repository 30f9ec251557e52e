"""What one workspace may hold: beyond a quota a request is rejected, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.clock import FROZEN_START, ClockState
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.jsonio import dumps, packed
from invoice_sandbox.state import Quotas, Workspace
from invoice_sandbox.state.collection import RECORD_BYTES
from invoice_sandbox.state.memory import NO_QUOTAS, STEP_BYTES, MemoryStore
from invoice_sandbox.webhooks.listeners import (
    Listeners,
    NobodyListensError,
    QueueFullError,
    Reported,
)
from tests.receivers import deliveries
from tests.scenario_run import DATED
from tests.support import FROZEN, ManualSystemClock, Running, serving

pytestmark = pytest.mark.slow

HOOK = {"url": "https://partner.example/hooks", "events": ["invoice.registered"]}


def invoice(client: httpx.Client, number: int) -> httpx.Response:
    return client.post("/api/invoices", json={**DATED, "invoiceNumber": f"N-{number}"})


def invoice_with_webhook(client: httpx.Client, number: int) -> httpx.Response:
    if number == 0:
        assert client.post("/api/webhooks", json=HOOK).status_code < 300
    return invoice(client, number)


def push(client: httpx.Client, number: int) -> httpx.Response:
    item = {**DATED, "invoiceNumber": f"E-{number}"}
    return client.post("/api/connectors/erp/invoices", json={"invoices": [item] * 4})


def long_number(client: httpx.Client, number: int) -> httpx.Response:
    return client.post("/api/invoices", json={**DATED, "invoiceNumber": f"{number:0200000}"})


def filled(client: httpx.Client) -> httpx.Client:
    if not client.get("/sandbox/snapshots").json()["data"]:
        assert long_number(client, 1).status_code < 300
    return client


def grandchild(client: httpx.Client, number: int) -> httpx.Response:
    if number == 0:
        made = client.post("/sandbox/workspaces", json={}).json()["data"]
        client.headers["Authorization"] = f"Bearer {made['key']}"
    return client.post("/sandbox/workspaces", json={})


def descendant(client: httpx.Client, _: int) -> httpx.Response:
    made = client.post("/sandbox/workspaces", json={})
    if made.status_code < 300:
        client.headers["Authorization"] = f"Bearer {made.json()['data']['key']}"
    return made


QUOTAS: dict[str, tuple[dict[str, Any], Callable[[httpx.Client, int], httpx.Response], str]] = {
    "endpoints": (
        {"max_endpoints": 2},
        lambda client, _: client.post("/api/webhooks", json=HOOK),
        "2 webhook endpoints, which is its limit. Remove some, reset the workspace, or start",
    ),
    "keys": (
        {"max_keys": 3},
        lambda client, _: client.post("/api/developer/api-keys", json={"name": "x"}),
        "3 API keys, which is its limit",
    ),
    "steps": ({"max_steps": 3}, push, "3 due steps, which is its limit"),
    "state": ({"max_state": 1}, long_number, "1,048,576 bytes of state, which is its limit"),
    "faults": (
        {"max_faults": 2},
        lambda client, _: client.post("/sandbox/faults", json={"kind": "status", "status": 503}),
        "2 faults, which is its limit",
    ),
    "children": ({"max_children": 3}, grandchild, "3 workspaces created from it, which is"),
    "depth": (
        {"max_depth": 2},
        descendant,
        "2 generations of workspaces before it, which is its limit",
    ),
    "snapshots": (
        {"max_state": 1},
        lambda client, _: filled(client).post("/sandbox/snapshots"),
        "1,048,576 bytes of state, which is",
    ),
    "deliveries": ({"max_deliveries": 2}, invoice_with_webhook, "2 pending deliveries, which is"),
}


@pytest.mark.parametrize(("settings", "send", "text"), QUOTAS.values(), ids=QUOTAS)
def test_beyond_a_quota_the_response_names_it(
    settings: dict[str, Any], send: Callable[[httpx.Client, int], httpx.Response], text: str
) -> None:
    with serving(replace(FROZEN, **settings)) as running, running.client() as client:
        responses = [send(client, number) for number in range(6)]
        last = responses[-1]
        assert last.status_code == 429, last.text
        assert last.json()["error"]["code"] == "rate_limit_exceeded"
        assert text in last.json()["error"]["message"]
        with running.client(running.new_workspace()) as other:
            assert invoice(other, 99).status_code < 300


def test_a_push_beyond_the_quota_registers_nothing() -> None:
    with serving(replace(FROZEN, max_steps=3)) as running, running.client() as client:
        before = [count(client, path) for path in ("/api/audit-log", "/api/invoices")]
        assert push(client, 1).status_code == 429
        assert [count(client, path) for path in ("/api/audit-log", "/api/invoices")] == before


def count(client: httpx.Client, path: str) -> int:
    return int(client.get(path).headers["x-total-count"])


def test_a_quota_counts_what_there_is_now() -> None:
    with serving(replace(FROZEN, max_endpoints=1)) as running, running.client() as client:
        assert client.post("/api/webhooks", json=HOOK).status_code < 300
        assert client.post("/api/webhooks", json=HOOK).status_code == 429
        assert client.post("/sandbox/reset").status_code == 200
        assert client.post("/api/webhooks", json=HOOK).status_code < 300


def size(running: Running) -> int:
    return running.space().state.size


def counted(running: Running) -> int:
    """The size of a workspace, counted once more from its records, steps and counters."""
    state = running.space().state
    records = sum(
        len(key) + len(dumps(row.record)) + RECORD_BYTES
        for collection in state.collections.values()
        for key, row in collection.rows.items()
    )
    waiting = [step for lane, queue in state.steps.items() for step in queue.in_order(lane)]
    texts = [(step.action, step.arguments, step.scenario, step.place) for step in waiting]
    steps = sum(len(packed(one)) + STEP_BYTES for one in texts)
    return int(records + steps + 200 * len(state.numbers))


def fill(running: Running, client: httpx.Client) -> None:
    """Use up the state: first by long records, then by short ones."""
    while long_number(client, size(running)).status_code < 300:
        pass
    while invoice(client, size(running)).status_code < 300:
        pass


def test_the_size_of_a_workspace_is_that_of_what_it_has_now() -> None:
    with serving(replace(FROZEN, scenario="auto-progress")) as running, running.client() as client:
        sizes = [size(running)]
        assert push(client, 1).status_code < 300
        sizes.append(size(running))
        client.post("/api/webhooks", json=HOOK)
        client.post("/sandbox/snapshots")
        client.post("/sandbox/clock/advance", json={"by": "P30D"})
        client.post("/sandbox/clock/advance", json={"by": "P90D"})
        assert client.post("/api/invoices", json={}).status_code == 400
        assert client.delete("/api/invoices/none").status_code >= 400
        sizes.append(size(running))
        assert sizes[0] < sizes[1] < sizes[2] == counted(running)
        client.post("/sandbox/reset")
        assert size(running) == sizes[0] == counted(running)


def test_what_was_rejected_leaves_nothing() -> None:
    with serving(replace(FROZEN, max_state=1)) as running, running.client() as client:
        fill(running, client)
        full = size(running)
        assert long_number(client, 0).status_code == 429
        assert size(running) == full == counted(running)
        assert client.get("/api/invoices").status_code == 200
        assert client.post("/sandbox/reset").status_code == 200
        assert long_number(client, 0).status_code < 300


def test_a_step_counts_with_what_it_takes_beyond_its_text() -> None:
    step = len(packed(("x", {}, None, None))) + STEP_BYTES

    async def schedule(most: int) -> int:
        quotas = replace(NO_QUOTAS, state=replace(NO_QUOTAS.state, most=most))
        store = MemoryStore(quotas=quotas)
        workspace = Workspace("w", 1, "w", ClockState("frozen"), "manual")
        await store.create_workspace(workspace, FROZEN_START)
        async with store.transaction("w") as state:
            await state.schedule(FROZEN_START, "x", {})
            return len(await state.steps(None))

    assert asyncio.run(schedule(step)) == 1
    with pytest.raises(ApiError, match="bytes of state"):
        asyncio.run(schedule(step - 1))


def test_a_delivery_is_recorded_in_a_full_workspace() -> None:
    """The lane of an endpoint whose result could not be stored would stop for ever."""
    with serving(replace(FROZEN, max_state=1)) as running, running.client() as client:
        client.post("/api/webhooks", json={**HOOK, "url": "http://127.0.0.1:9/hooks"})
        assert invoice(client, 1).status_code < 300
        fill(running, client)
        client.post("/sandbox/clock/advance", json={"by": "P1D"})
        assert len(deliveries(client)[-1]["attempts"]) > 2


def test_a_step_without_room_is_given_up_and_the_clock_moves_on() -> None:
    full = replace(FROZEN, max_state=1, scenario="happy-path")
    with serving(full) as running, running.client() as client:
        assert invoice(client, 1).status_code < 300
        fill(running, client)
        moved = client.post("/sandbox/clock/advance", json={"by": "P1D"})
    assert moved.status_code == 200, moved.text
    failed = [one for one in moved.json()["data"]["happened"] if one["outcome"] == "failed"]
    assert "bytes of state, which is its limit" in failed[0]["reason"]


def test_messages_for_listeners_have_a_quota_in_bytes() -> None:
    clock = ManualSystemClock()
    quotas = replace(Quotas(), queue=replace(Quotas().queue, most=100))

    async def hand_over() -> list[str]:
        listeners = Listeners(clock, 15, quotas)
        both = [listeners.open("wsp_1") for _ in range(2)]
        streams = [one.stream(0, timedelta(60), there) for one in both]
        for one in streams:
            await anext(one)
        first = asyncio.create_task(listeners.hand_over(both[0], {}, b"x" * 60))
        await asyncio.sleep(0)
        found = []
        with pytest.raises(QueueFullError):
            await listeners.hand_over(both[1], {"name": "x" * 17}, b"x" * 20)
        found.append("full")
        number = both[0].first_number - 1
        both[0].report(number, Reported(200))
        assert (await first).status == 200
        second = asyncio.create_task(listeners.hand_over(both[1], {}, b"x" * 100))
        await asyncio.sleep(0)
        both[1].report(both[1].first_number - 1, Reported(204))
        found.append(str((await second).status))
        return found

    async def there() -> bool:
        return True

    assert asyncio.run(hand_over()) == ["full", "204"]


def test_a_listener_has_a_thousand_messages_at_most() -> None:
    async def hand_over() -> None:
        listener = Listeners(ManualSystemClock(), 15, Quotas()).open("wsp_1")
        stream = listener.stream(0, timedelta(60), is_there)
        await anext(stream)
        waiting = [asyncio.create_task(listener.hand_over({}, b"")) for _ in range(1_000)]
        await asyncio.sleep(0)
        with pytest.raises(NobodyListensError):
            await listener.hand_over({}, b"")
        assert not any(one.done() for one in waiting)
        for one in waiting:
            one.cancel()

    async def is_there() -> bool:
        return True

    asyncio.run(hand_over())


def pending(running: Running) -> int:
    return running.space().state.in_lanes


def test_deliveries_that_end_leave_the_quota() -> None:
    with serving() as running, running.client() as client:
        assert client.post("/api/webhooks", json=HOOK).status_code < 300
        assert invoice(client, 1).status_code < 300
        assert pending(running) > 0
        client.post("/sandbox/clock/advance", json={"by": "P30D"})
        assert pending(running) == 0
