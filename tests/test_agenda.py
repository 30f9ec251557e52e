"""The agenda: what falls due is done in order, once, at its own instant, whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from invoice_sandbox.app import create_app
from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.runtime.agenda import STEPS_OF_A_SLICE
from invoice_sandbox.state import STEPS_LOG, Store
from tests.notes_project import bells, write_note, write_project
from tests.scenario_run import (
    LIVE,
    START,
    advance,
    agenda,
    choose,
    clock,
    data,
    due,
    error,
    happened,
    in_scenario,
    make_workspace,
    now,
    register,
    replace_runs,
    restore,
    set_clock,
    snapshot,
    until,
)
from tests.support import FROZEN, PATIENCE, Running, serving

SCENARIO_FILES = {
    "in-turn": """
        start PT3S ring three
        start PT1S ring one
        start PT2S ring two
        start PT2S ring two too
    """,
    "chain": """
        start PT2S echo first
        bell.rung PT3S ring second
        start PT5S ring early
        start PT6S ring last
    """,
    "at-once": """
        start PT0S ring now
        start PT5S ring later
    """,
    "trouble": """
        start PT1S ring before
        start PT2S fail lost
        start PT2S leave-out left
        start PT3S ring after
    """,
    "circle": """
        start PT1S echo again
        bell.rung PT1S echo again
    """,
    "whirl": """
        start PT0S mutter again
        start P9D echo late
        bell.rung PT0S mutter again
    """,
    "slow": "\n".join(f"start PT{second}S linger" for second in range(1, 1001)),
    "soon": "start PT0.02S ring soon",
    "long": "start PT20H ring evening",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_project(tmp_path_factory.mktemp("notes"), **SCENARIO_FILES)


@pytest.fixture(scope="module")
def notes(project: Any) -> Iterator[Running]:
    """A server of notes and bells, whose clocks stand still."""
    with serving(replace(FROZEN, project=project)) as running:
        yield running


@pytest.fixture(scope="module")
def flowing(project: Any) -> Iterator[Running]:
    """The same with clocks that flow as the tests let time pass."""
    with serving(replace(LIVE, project=project)) as running:
        yield running


# Order and instants


def test_steps_are_done_by_time_then_by_creation(notes: Running) -> None:
    with in_scenario(notes, "in-turn") as client:
        write_note(client)
        assert happened(advance(client, by="PT10S")) == [
            ("09:30:01", "ring", "done"),
            ("09:30:02", "ring", "done"),
            ("09:30:02", "ring", "done"),
            ("09:30:03", "ring", "done"),
        ]
        assert [word for _, word in bells(client)] == ["one", "two", "two too", "three"]


def test_the_link_of_a_page_repeats_a_parameter_as_it_is_declared(notes: Running) -> None:
    with in_scenario(notes, "in-turn") as client:
        write_note(client)
        advance(client, by="PT10S")
        first = client.get("/bells?limit=3&words=a,b%20c")
        following = first.links["next"]["url"]
        assert "&words=a,b%20c&" in following
        assert [len(data(client.get(one))) for one in (following, "/bells?limit=3")] == [1, 3]


def test_steps_of_one_instant_are_done_in_the_order_of_their_making(notes: Running) -> None:
    with in_scenario(notes, "manual") as client:
        write_note(client, later={"first": 2, "second": 1})
        advance(client, by="PT1S")
        write_note(client, later={"third": 1})
        advance(client, by="PT1S")
        assert bells(client) == [
            ("09:30:01", "second"),
            ("09:30:02", "first"),
            ("09:30:02", "third"),
        ]


def test_every_step_is_done_at_its_own_instant(notes: Running) -> None:
    """One long advance leaves the same times as many short ones."""
    with in_scenario(notes, "in-turn") as client:
        write_note(client)
        advance(client, by="P1D")
        assert bells(client) == [
            ("09:30:01", "one"),
            ("09:30:02", "two"),
            ("09:30:02", "two too"),
            ("09:30:03", "three"),
        ]


def test_what_a_step_makes_due_within_the_span_is_done_in_its_turn(notes: Running) -> None:
    with in_scenario(notes, "chain") as client:
        write_note(client)
        moved = advance(client, by="PT10S")
        assert bells(client) == [
            ("09:30:02", "first"),
            ("09:30:05", "early"),  # made before the second one, which is due at the same time
            ("09:30:05", "second"),
            ("09:30:06", "last"),
        ]
        assert [one["events"] for one in moved["happened"]] == [["bell.rung"], [], [], []]


def test_an_advance_stops_before_what_is_due_later(notes: Running) -> None:
    with in_scenario(notes, "chain") as client:
        write_note(client)
        assert happened(advance(client, by="PT4.999S")) == [("09:30:02", "echo", "done")]
        assert due(client) == [("09:30:05", "ring"), ("09:30:05", "ring"), ("09:30:06", "ring")]
        assert happened(advance(client, by="PT0.001S")) == [("09:30:05", "ring", "done")] * 2


def test_what_is_due_now_is_done_now_though_the_clock_stands_still(notes: Running) -> None:
    with in_scenario(notes, "at-once") as client:
        write_note(client)
        assert bells(client) == [("09:30:00", "now")]
        assert now(client) == START


def test_an_advance_by_nothing_does_what_is_due_now(notes: Running) -> None:
    with in_scenario(notes, "at-once") as client:
        write_note(client)
        moved = advance(client, by="PT0S")
        assert (moved["from"], moved["now"], moved["nextDue"]) == (
            START,
            START,
            "2026-11-23T09:30:05Z",
        )
        assert bells(client) == [("09:30:00", "now")]
        assert advance(client, by="PT0S")["happened"] == []


def test_a_control_endpoint_sees_what_is_due_now_as_done(project: Any) -> None:
    """Also when it follows so closely that nothing else had a turn in between."""

    async def ask() -> Any:
        settings = replace(FROZEN, project=project, scenario="at-once")
        sandbox = await create_app(settings, url="http://127.0.0.1")
        transport, key = httpx.ASGITransport(sandbox), settings.key
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=headers, timeout=PATIENCE
        ) as client:
            await client.post("/notes", json={})
            clock = (await client.get("/sandbox/clock")).json()["data"]
            steps = (await client.get("/sandbox/agenda")).json()["data"]
        return clock["nextDue"], [one["at"] for one in steps["due"]], len(steps["done"])

    later = "2026-11-23T09:30:05Z"
    assert asyncio.run(ask()) == (later, [later], 1)


# What the agenda reports


def test_the_agenda_lists_what_is_due_in_order_and_what_was_done_latest_first(
    notes: Running,
) -> None:
    with in_scenario(notes, "chain") as client:
        note = write_note(client)
        advance(client, by="PT5S")
        reported = agenda(client)
        assert reported["due"] == [
            {
                "at": "2026-11-23T09:30:06Z",
                "do": "ring",
                "with": {"word": "last"},
                "scenario": "chain",
                "subject": note["id"],
            }
        ]
        assert [(one["at"], one["do"]) for one in reported["done"]] == [
            ("2026-11-23T09:30:05Z", "ring"),
            ("2026-11-23T09:30:05Z", "ring"),
            ("2026-11-23T09:30:02Z", "echo"),
        ]
        assert reported["done"][2] == {
            "at": "2026-11-23T09:30:02Z",
            "do": "echo",
            "with": {"word": "first"},
            "scenario": "chain",
            "subject": note["id"],
            "number": 1,
            "outcome": "done",
            "reason": None,
            "events": ["bell.rung"],
        }
        assert [one["number"] for one in reported["done"]] == [3, 2, 1]


def test_a_step_that_a_handler_scheduled_is_of_no_scenario(notes: Running) -> None:
    with in_scenario(notes, "in-turn") as client:
        write_note(client, event="note.filed", later={"word": 1})
        (step,) = agenda(client)["due"]
        assert (step["scenario"], step["subject"]) == (None, None)


def test_next_due_is_the_first_step_or_null(notes: Running) -> None:
    with in_scenario(notes, "in-turn") as client:
        assert clock(client)["nextDue"] is None
        write_note(client)
        assert clock(client)["nextDue"] == "2026-11-23T09:30:01Z"
        assert advance(client, by="PT1S")["nextDue"] == "2026-11-23T09:30:02Z"
        assert advance(client, by="PT2S")["nextDue"] is None


# What goes wrong


def test_a_step_that_fails_is_logged_given_up_and_stops_no_other(
    notes: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "invoice_sandbox"), in_scenario(notes, "trouble") as client:
        write_note(client)
        moved = advance(client, by="PT3S")
        assert happened(moved) == [
            ("09:30:01", "ring", "done"),
            ("09:30:02", "fail", "failed"),
            ("09:30:02", "leave-out", "skipped"),
            ("09:30:03", "ring", "done"),
        ]
        failed, skipped = moved["happened"][1:3]
        assert (failed["reason"], failed["events"]) == ("ValueError", [])
        assert skipped["reason"] == "The note has moved on. Leave it."
        assert agenda(client)["done"][1:3] == [skipped, failed]
        assert due(client) == []
    (logged,) = [one.getMessage() for one in caplog.records]
    assert "the step 'fail' failed and is not repeated" in logged


def test_what_a_failed_or_skipped_step_did_is_undone_and_reported_at_its_instant(
    notes: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with in_scenario(notes, "trouble") as client:
        write_note(client)
        advance(client, by="PT3S")
        reported = ("09:30:02", "fail failed")
        assert bells(client) == [("09:30:01", "before"), reported, ("09:30:03", "after")]
    assert "on purpose" in caplog.text


def test_an_advance_may_run_as_many_steps_as_are_allowed(
    notes: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("invoice_sandbox.runtime.agenda.MAX_STEPS", 4)
    with in_scenario(notes, "in-turn") as client:
        write_note(client)
        assert len(advance(client, by="PT3S")["happened"]) == 4


@pytest.mark.slow
def test_a_scenario_that_goes_in_circles_without_time_passing_stops_too(notes: Running) -> None:
    with in_scenario(notes, "whirl") as client, notes.client() as other:
        write_note(client)
        response = client.post("/sandbox/clock/advance", json={"by": "PT1S"})
        assert error(response) == (409, "invalid_request")
        assert now(client) == START
        workspace = _current(client)

        def steps() -> int:
            return notes.log(STEPS_LOG, workspace).dropped

        before = steps()
        for _ in range(20):
            assert now(other) == START
        assert steps() == before, "it keeps the server busy"
        replace_runs(client, "manual")
        assert due(client) == []


def _current(client: httpx.Client) -> str:
    """The id of the client's workspace."""
    listed = data(client.get("/sandbox/workspaces"))
    return str(next(one["id"] for one in listed if one["current"]))


# Several at once


def test_two_advances_at_once_lose_no_step_and_move_the_clock_by_their_sum(notes: Running) -> None:
    with in_scenario(notes, "slow") as client, ThreadPoolExecutor(4) as pool:
        write_note(client)
        moves = list(pool.map(lambda _: advance(client, by="PT25S"), range(4)))
        assert now(client) == "2026-11-23T09:31:40Z"
        steps = [one["at"] for moved in sorted(moves, key=_start) for one in moved["happened"]]
        assert len(steps) == len(set(steps)) == 100
        assert steps == sorted(steps)
        assert sorted(map(_start, moves)) == [f"2026-11-23T09:{at}Z" for at in _QUARTERS]


_QUARTERS = ["30:00", "30:25", "30:50", "31:15"]


def _start(moved: Any) -> str:
    return str(moved["from"])


def test_a_request_during_an_advance_gets_a_response(notes: Running) -> None:
    """Unless the machine stalls just then, which does not happen every time."""

    def is_between_steps() -> bool:
        with in_scenario(notes, "slow") as client, ThreadPoolExecutor(1) as pool:
            write_note(client)
            advancing = pool.submit(advance, client, by="PT1000S")
            until(lambda: now(client) > START, "the advance did not begin")
            seen = len(bells(client))
            is_under_way = not advancing.done()
            assert len(advancing.result(PATIENCE)["happened"]) == 1000
            return is_under_way and 0 < seen < 1000

    until(is_between_steps, "every request had to wait for the end of the advance")


def test_a_workspace_that_is_deleted_during_its_advance_is_401(notes: Running) -> None:
    """Unless the machine stalls just then, which does not happen every time."""
    with notes.client() as first:

        def is_401() -> bool:
            made = make_workspace(first, scenario="slow")
            with notes.client(made["key"]) as client, ThreadPoolExecutor(1) as pool:
                write_note(client)
                path, body = "/sandbox/clock/advance", {"by": "PT1000S"}
                advancing = pool.submit(client.post, path, json=body)
                until(lambda: now(client) > START, "the advance did not begin")
                data(first.delete(f"/sandbox/workspaces/{made['id']}"), 200)
                response = advancing.result(PATIENCE)
                return not response.is_success and (
                    error(response) == (401, "authentication_required")
                )

        until(is_401, "the advance went on in a workspace that is gone")


def test_what_is_restored_during_an_advance_does_not_move_on_by_itself(notes: Running) -> None:
    with in_scenario(notes, "slow") as client, ThreadPoolExecutor(1) as pool:
        write_note(client)
        taken = snapshot(client)
        advancing = pool.submit(advance, client, by="PT1000S")
        until(lambda: now(client) > START, "the advance did not begin")
        restored = restore(client, taken)
        advancing.result(PATIENCE)
        assert (now(client), len(bells(client))) == (restored["clock"]["now"], 0)


# Clocks that flow


def test_the_timer_does_what_is_due_without_any_request(flowing: Running) -> None:
    with in_scenario(flowing, "soon") as client:
        beginning = flowing.system_clock.now()
        write_note(client)
        assert bells(client) == []
        flowing.system_clock.pass_seconds(60)
        until(lambda: due(client) == [], "the timer did not do the step")
        (step,) = agenda(client)["done"]
        assert step["at"] == beginning.isoformat(timespec="seconds")[:-6] + ".020Z"
        assert step["outcome"] == "done"


def test_a_request_does_first_what_is_due(flowing: Running) -> None:
    """Each at its own instant, however late it is looked at."""
    with in_scenario(flowing, "in-turn", now="2027-01-01T00:00:00Z") as client:
        write_note(client)
        flowing.system_clock.pass_seconds(2)
        assert bells(client) == [("00:00:01", "one"), ("00:00:02", "two"), ("00:00:02", "two too")]
        flowing.system_clock.pass_seconds(100)
        assert bells(client)[3:] == [("00:00:03", "three")]


def test_a_request_does_not_wait_for_the_steps_of_all_records(flowing: Running) -> None:
    """It does some of them before and some after; the timer does the others."""
    with in_scenario(flowing, "long") as client:
        for _ in range(2 * STEPS_OF_A_SLICE + 20):
            write_note(client)
        flowing.system_clock.pass_seconds(21 * 3600)
        assert len(bells(client)) == STEPS_OF_A_SLICE
        with in_scenario(flowing, "soon") as another:  # its timer finds the others due as well
            write_note(another)
        until(lambda: due(client) == [], "the timer did not do the others")
        assert len(bells(client)) == 2 * STEPS_OF_A_SLICE + 20


def test_the_timer_goes_on_behind_a_workspace_that_is_deleted(flowing: Running) -> None:
    with flowing.client() as first, in_scenario(flowing, "long") as other:
        gone = make_workspace(first, scenario="long")
        with flowing.client(gone["key"]) as client:
            write_note(client)
            advance(client, by="PT0.3S")  # which plans it a second time
        write_note(other)
        data(first.delete(f"/sandbox/workspaces/{gone['id']}"), 200)
        flowing.system_clock.pass_seconds(21 * 3600)
        with in_scenario(flowing, "soon") as another:  # its timer finds the others due as well
            write_note(another)
        until(lambda: due(other) == [], "the timer did not do the step")


def test_the_timer_goes_on_behind_a_workspace_that_fails(
    flowing: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_scenario(flowing, "soon") as broken, in_scenario(flowing, "soon") as other:
        begin, name = flowing.store.transaction, _current(broken)

        def transaction(workspace_id: str) -> Any:
            if workspace_id == name:
                raise RuntimeError("on purpose")
            return begin(workspace_id)

        write_note(broken)
        write_note(other)
        monkeypatch.setattr(flowing.store, "transaction", transaction)
        flowing.system_clock.pass_seconds(60)
        until(lambda: due(other) == [], "the timer did not do the step")


def test_a_live_clock_is_advanced_too(flowing: Running) -> None:
    with in_scenario(flowing, "in-turn", now="2027-01-01T00:00:00Z") as client:
        write_note(client)
        moved = advance(client, by="PT2S")
        assert happened(moved) == [
            ("00:00:01", "ring", "done"),
            ("00:00:02", "ring", "done"),
            ("00:00:02", "ring", "done"),
        ]
        assert (moved["from"], moved["now"]) == ("2027-01-01T00:00:00Z", "2027-01-01T00:00:02Z")
        flowing.system_clock.pass_seconds(10)
        assert now(client) == "2027-01-01T00:00:12Z"
        assert [word for _, word in bells(client)] == ["one", "two", "two too", "three"]


def test_what_is_due_when_a_clock_is_released_is_done_as_time_flows(notes: Running) -> None:
    with in_scenario(notes, "soon") as client:
        write_note(client)
        set_clock(client, mode="live")
        assert len(due(client)) == 1
        notes.system_clock.pass_seconds(1)
        until(lambda: due(client) == [], "the timer did not do the step")
        assert bells(client) == [("09:30:00.020", "soon")]


def test_nothing_is_done_while_a_clock_is_frozen(flowing: Running) -> None:
    with in_scenario(flowing, "soon") as client:
        write_note(client)
        frozen = set_clock(client, mode="frozen")
        flowing.system_clock.pass_seconds(3600)
        with in_scenario(flowing, "soon") as other:  # whose timer passes by
            write_note(other)
            flowing.system_clock.pass_seconds(3600)
            until(lambda: due(other) == [], "the timer did not do the step")
        assert (bells(client), now(client)) == ([], frozen["now"])
        assert len(due(client)) == 1


def test_what_is_in_store_after_restoring_a_live_workspace_is_done_in_its_time(
    flowing: Running,
) -> None:
    with in_scenario(flowing, "soon", now="2027-01-01T00:00:00Z") as client:
        write_note(client)
        taken = snapshot(client)
        flowing.system_clock.pass_seconds(60)
        until(lambda: due(client) == [], "the timer did not do the step")
        restore(client, taken)
        assert due(client) == [("00:00:00.020", "ring")]
        flowing.system_clock.pass_seconds(60)
        until(lambda: due(client) == [], "the timer did not do the step again")
        assert bells(client) == [("00:00:00.020", "soon")]


# Scenarios and what they have in store


def test_another_scenario_that_ends_runs_cancels_their_steps(notes: Running) -> None:
    with in_scenario(notes, "in-turn") as client:
        write_note(client, later={"own": 9})
        assert len(due(client)) == 5
        replace_runs(client, "chain")
        assert due(client) == [("09:30:09", "ring")]
        replace_runs(client, "in-turn")
        assert due(client) == [("09:30:09", "ring")]


def test_the_same_scenario_again_keeps_what_it_had_in_store(notes: Running) -> None:
    with in_scenario(notes, "in-turn") as client:
        write_note(client)
        before = agenda(client)["due"]
        choose(client, "in-turn")
        assert agenda(client)["due"] == before


def test_a_scenario_is_in_force_from_the_next_event_on(notes: Running) -> None:
    with in_scenario(notes, "manual") as client:
        write_note(client)
        choose(client, "soon")
        assert due(client) == []
        write_note(client)
        assert due(client) == [("09:30:00.020", "ring")]


def test_a_request_that_waited_records_nothing_before_what_happened_meanwhile() -> None:
    """It has the time of its arrival, and a lane delivers events in the order of their time."""
    with serving(LIVE) as running, running.client() as client:
        engine = running.sandbox.engine
        workspace = running.call(engine.default_workspace)
        later = workspace.clock.now(running.system_clock) + timedelta(seconds=3)
        running.call(record_at, engine.store, workspace.id, later)
        register(client)
        (event,) = data(client.get("/sandbox/event-log"))
        assert event["at"] == instant_text(later)


def record_at(store: Store, workspace_id: str, instant: datetime) -> None:
    """Record something at an instant."""
    with store.transaction(workspace_id) as state:
        state.not_before(instant)
        state.next_number("something")
