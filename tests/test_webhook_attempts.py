"""One attempt of a delivery: what is sent, and what its outcome leaves in the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.state import DROPPED, Record, ScheduledStep, Transaction
from invoice_sandbox.state import memory as memory_module
from invoice_sandbox.state.memory import MemoryStore
from invoice_sandbox.webhooks.attempts import CLOSE_ENDPOINT, Attempt, Outcome, note, prepare
from invoice_sandbox.webhooks.endpoints import ENDPOINTS
from invoice_sandbox.webhooks.explanation import explained
from invoice_sandbox.webhooks.outbox import (
    DELIVER,
    DELIVERIES,
    EVENTS,
    disable,
    drop_oldest,
    plan,
    remove,
    replay,
)
from tests.scenario_run import START_INSTANT as START
from tests.test_webhook_lanes import planned

SECOND = 1795253400
WORKS, FAILS, IS_GONE = Outcome(200), Outcome(500), Outcome(410)
LANE = "whe_0"

Body = Callable[[Transaction], Awaitable[None]]


def in_workspace(body: Body, store: MemoryStore | None = None) -> None:
    """Run in one transaction of a workspace that has an endpoint and an event."""

    async def run() -> None:
        used, _ = await planned(1, events=0, store=store)
        async with used.transaction("one") as state:
            for step in await state.steps(LANE):
                await state.discard_step(step.number, LANE)
            await body(state)

    asyncio.run(run())


async def made(state: Transaction, *faults: Record, single_attempt: bool = False) -> Record:
    """A delivery of the event to the endpoint."""
    endpoint, event = await state.get(ENDPOINTS, LANE), await state.get(EVENTS, "evt")
    assert endpoint
    assert event
    return await plan(state, endpoint, event, START, faults=faults, single_attempt=single_attempt)


async def prepared(state: Transaction, lane: str = LANE) -> Attempt:
    """The next attempt to deliver in a lane."""
    step = next(one for one in await state.steps(lane) if one.action == DELIVER)
    attempt = await prepare(state, step, lane, step.due, SECOND)
    assert attempt
    return attempt


async def tried(state: Transaction, outcome: Outcome, lane: str = LANE) -> Record:
    """The delivery after its next attempt with this outcome."""
    noted = await note(state, await prepared(state, lane), outcome, time_flows=False)
    assert noted
    return noted


async def changed(state: Transaction, collection: str, key: str, **members: Any) -> None:
    record = await state.get(collection, key)
    assert record
    await state.put(collection, key, {**record, **members})


def standing(delivery: Record) -> tuple[str, str | None]:
    return delivery["status"], delivery["nextAttemptAt"]


def test_a_duplicate_comes_after_the_first_success_only() -> None:
    async def body(state: Transaction) -> None:
        delivery = await made(state, {"kind": "duplicate"})
        assert delivery["simulated"] is True
        later = instant_text(START + timedelta(seconds=5))
        assert standing(await tried(state, FAILS)) == ("Failed", later)
        assert standing(await tried(state, WORKS)) == ("Delivered", later)
        assert standing(await tried(state, FAILS)) == ("Delivered", None)
        assert [one.action for one in await state.steps(LANE)] == [CLOSE_ENDPOINT]

    in_workspace(body)


@pytest.mark.parametrize(("count", "repeats"), [(None, 0), (1, 1), (3, 3)])
def test_a_duplicate_is_sent_as_often_as_its_fault_says(count: int | None, repeats: int) -> None:
    """And not for ever, whatever the fault says."""

    async def body(state: Transaction) -> None:
        await made(state, {"kind": "duplicate", "count": count})
        for _ in range(repeats):
            assert (await tried(state, WORKS))["nextAttemptAt"] == instant_text(START)
        assert (await tried(state, WORKS))["nextAttemptAt"] is None

    in_workspace(body)


def test_a_replay_of_a_single_attempt_has_all_retries() -> None:
    async def body(state: Transaction) -> None:
        delivery = await made(state, single_attempt=True)
        lane = delivery["lane"]
        failed = await tried(state, FAILS, lane)
        assert standing(failed) == ("Exhausted", None)
        await replay(state, failed, START)
        later = instant_text(START + timedelta(seconds=5))
        assert standing(await tried(state, FAILS, lane)) == ("Failed", later)

    in_workspace(body)


def test_an_outcome_is_stored_beyond_all_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the lane would stop: what an attempt schedules takes its place."""
    store = MemoryStore()

    async def run(outcome: Outcome) -> list[str]:
        async with store.transaction("one") as state:
            attempt = await prepared(state)
        monkeypatch.setattr(memory_module, "MAX_STEPS", 0)
        monkeypatch.setattr(memory_module, "MAX_DELIVERIES", 0)
        async with store.transaction("one") as state:
            assert await note(state, attempt, outcome, time_flows=False)
            steps = await state.steps(None, LANE)
        return [one.action for one in steps]

    async def both() -> None:
        await planned(1, events=2, store=store)
        assert await run(FAILS) == [DELIVER, DELIVER, CLOSE_ENDPOINT]
        assert await run(IS_GONE) == [CLOSE_ENDPOINT]

    asyncio.run(both())


@pytest.mark.parametrize(
    ("collection", "changes"),
    [
        (DELIVERIES, None),
        (EVENTS, None),
        (EVENTS, {"payload": {"another": 1}}),
        (ENDPOINTS, {"url": "http://elsewhere/"}),
    ],
)
def test_an_outcome_of_what_is_not_there_any_more_changes_nothing(
    collection: str, changes: Record | None
) -> None:
    """A restore took it back, or the log has dropped it."""

    async def body(state: Transaction) -> None:
        delivery = await made(state)
        attempt = await prepared(state)
        key = {DELIVERIES: delivery["id"], EVENTS: "evt", ENDPOINTS: LANE}[collection]
        if changes is None:
            await state.delete(collection, key)
        else:
            await changed(state, collection, key, **changes)
        assert await note(state, attempt, WORKS, time_flows=False) is None
        kept = await state.get(DELIVERIES, delivery["id"])
        assert kept == (None if collection == DELIVERIES else delivery)

    in_workspace(body)


@pytest.mark.parametrize("missing", [DELIVERIES, EVENTS, ENDPOINTS, "enabled"])
def test_without_its_parts_nothing_is_sent(missing: str) -> None:
    async def body(state: Transaction) -> None:
        delivery = await made(state)
        keys = {DELIVERIES: delivery["id"], EVENTS: "evt", ENDPOINTS: LANE}
        if missing == "enabled":
            await changed(state, ENDPOINTS, LANE, status="Disabled")
        else:
            await state.delete(missing, keys[missing])
        [step] = await state.steps(LANE)
        assert await prepare(state, step, LANE, START, SECOND) is None

    in_workspace(body)


LATE: dict[str, tuple[Record, Outcome, str | None]] = {
    # what has changed meanwhile, the outcome, the status if it is noted
    "cancelled, accepted": ({"status": "Cancelled", "nextAttemptAt": None}, WORKS, "Delivered"),
    "cancelled, failed": ({"status": "Cancelled", "nextAttemptAt": None}, FAILS, "Cancelled"),
    "replayed": ({"replays": 2}, WORKS, "Pending"),
    "replayed and gone on": ({"replays": 2, "attempt": 4}, WORKS, "Pending"),
    "nothing": ({}, WORKS, None),
    "another attempt": ({"nextAttemptAt": None, "attempt": 4}, WORKS, None),
    "taken back before a replay": ({"replays": 0, "nextAttemptAt": None}, WORKS, None),
}


@pytest.mark.parametrize(("changes", "outcome", "status"), LATE.values(), ids=LATE)
def test_a_late_outcome_is_noted_if_its_attempt_is_part_of_the_delivery(
    changes: Record, outcome: Outcome, status: str | None
) -> None:
    async def body(state: Transaction) -> None:
        delivery = await made(state)
        await changed(state, DELIVERIES, delivery["id"], replays=1)
        attempt = await prepared(state)
        await state.discard_step(attempt.step.number, LANE)
        await changed(state, DELIVERIES, delivery["id"], **changes)
        before = await state.get(DELIVERIES, delivery["id"]) or {}
        noted = await note(state, attempt, outcome, time_flows=False)
        after = await state.get(DELIVERIES, delivery["id"]) or {}
        if status is None:
            assert (noted, after) == (None, before)
        else:
            assert noted == after
            assert (after["status"], len(after["attempts"])) == (status, 1)

    in_workspace(body)


def test_a_forgery_that_is_accepted_late_delivers_nothing() -> None:
    async def body(state: Transaction) -> None:
        delivery = await made(state, {"kind": "bad-signature"})
        attempt = await prepared(state)
        await state.discard_step(attempt.step.number, LANE)
        gone = {"status": "Cancelled", "nextAttemptAt": None}
        await changed(state, DELIVERIES, delivery["id"], **gone)
        noted = await note(state, attempt, WORKS, time_flows=False) or {}
        assert (noted["status"], noted["attempt"]) == ("Cancelled", 1)

    in_workspace(body)


@pytest.mark.parametrize("how", [disable, remove], ids=["disabled", "deleted"])
def test_a_repeat_closes_no_endpoint_that_is_closed(how: Callable[..., Awaitable[Any]]) -> None:
    async def body(state: Transaction) -> None:
        delivery = await made(state, {"kind": "duplicate"}, single_attempt=True)
        await tried(state, WORKS, delivery["lane"])
        attempt = await prepared(state, delivery["lane"])
        endpoint = await state.get(ENDPOINTS, LANE) or {}
        await (how(state, endpoint, START) if how is remove else how(state, endpoint, "off", START))
        closed = await state.get(ENDPOINTS, LANE)
        noted = await note(state, attempt, IS_GONE, time_flows=False)
        assert (noted is None) == (how is remove)
        assert await state.steps(None, LANE) == ()
        assert await state.get(ENDPOINTS, LANE) == closed

    in_workspace(body)


@pytest.mark.parametrize(
    ("members", "is_closed"),
    [
        ({"failingSince": "then"}, True),
        ({"failingSince": "later"}, False),
        ({}, False),
        ({"failingSince": "then", "status": "Disabled", "disabledReason": "gone"}, False),
        (None, False),
    ],
)
def test_only_an_enabled_endpoint_that_failed_all_the_time_is_closed(
    members: Record | None, is_closed: bool
) -> None:
    async def body(state: Transaction) -> None:
        if members is None:
            await state.delete(ENDPOINTS, LANE)
        else:
            await changed(state, ENDPOINTS, LANE, **members)
        step = ScheduledStep(7, START, CLOSE_ENDPOINT, {"subject": LANE, "since": "then"})
        assert await prepare(state, step, LANE, START, SECOND) is None
        steps = [(one.action, one.arguments) for one in await state.steps(None)]
        assert steps == ([(CLOSE_ENDPOINT, {"subject": LANE})] if is_closed else [])
        endpoint = await state.get(ENDPOINTS, LANE) or {}
        reason = endpoint.get("disabledReason")
        assert reason == ("failing" if is_closed else (members or {}).get("disabledReason"))

    in_workspace(body)


@pytest.mark.parametrize(
    ("fault", "second", "named", "payload"),
    [
        (None, SECOND, "evt", {"id": "evt"}),
        ({"kind": "stale-timestamp"}, SECOND - 3600, "evt", {"id": "evt"}),
        ({"kind": "bad-signature"}, SECOND, "evt", {"id": "evt"}),
        ({"kind": "changed-body"}, SECOND, "evt", {"id": "evt", "changed": True}),
        ({"kind": "patch", "patch": {"id": "new"}}, SECOND, "new", {"id": "new"}),
        ({"kind": "patch", "patch": {"id": 7}}, SECOND, "evt", {"id": 7}),
        ({"kind": "patch", "patch": {"x": "y"}}, SECOND, "evt", {"id": "evt", "x": "y"}),
    ],
)
def test_a_fault_alters_what_it_names(
    fault: Record | None, second: int, named: str, payload: Record
) -> None:
    """And the log has the payload where it is another one than that of the event."""

    async def body(state: Transaction) -> None:
        await changed(state, EVENTS, "evt", payload={"id": "evt"})
        await made(state, *([] if fault is None else [fault]))
        attempt = await prepared(state)
        assert attempt.request
        sent = attempt.request.headers
        assert (sent["webhook-id"], sent["webhook-timestamp"]) == (named, str(second))
        assert json.loads(attempt.request.body) == payload
        noted = await note(state, attempt, WORKS, time_flows=False) or {}
        [shown] = noted["attempts"]
        is_altered = payload != {"id": "evt"}
        assert shown["request"].get("payload") == (payload if is_altered else None)
        assert shown["request"]["bodySize"] == len(attempt.request.body)

    in_workspace(body)


def test_of_a_patched_attempt_no_signature_is_known() -> None:
    async def body(state: Transaction) -> None:
        await made(state, {"kind": "patch", "patch": {"x": "y"}})
        delivery = await tried(state, WORKS)
        event, endpoint = await state.get(EVENTS, "evt"), await state.get(ENDPOINTS, LANE)
        [attempt] = explained(delivery, event, endpoint)["attempts"]
        [signature] = attempt["signed"]["signatures"]
        assert (attempt["signed"]["content"], signature["secret"]) == (None, None)
        assert signature["shown"] is None
        assert explained(delivery, None, endpoint) == {**delivery, "body": None}

    in_workspace(body)


def test_an_altered_attempt_says_nothing_about_the_receiver() -> None:
    """The genuine one follows at once."""

    async def body(state: Transaction) -> None:
        await made(state, {"kind": "bad-signature"})
        delivery = await tried(state, FAILS)
        assert (standing(delivery), delivery["failures"]) == (("Pending", instant_text(START)), 0)
        assert "failingSince" not in (await state.get(ENDPOINTS, LANE) or {})

    in_workspace(body)


def test_what_is_not_there_is_neither_dropped_nor_counted() -> None:
    async def body(state: Transaction) -> None:
        first, waiting = {"id": "x_0001"}, {"id": "x_0003", "status": "Failed"}
        for one in (first, waiting):
            await state.put(EVENTS, one["id"], one)
        for newest in ("x_0002", "x_0004", "x_0005"):
            assert await drop_oldest(state, EVENTS, newest, kept=2) is None
        assert await state.get(DROPPED, EVENTS) is None
        assert await drop_oldest(state, EVENTS, "x_0003", kept=2) == first
        assert await state.get(EVENTS, "x_0001") is None
        assert await state.get(EVENTS, "x_0003") == waiting

    in_workspace(body)
