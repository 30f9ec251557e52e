"""What every store does: isolated by workspace, all or nothing, one transaction after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invoice_sandbox.base.clock import (
    FIRST,
    FROZEN_START,
    ClockState,
    instant_text,
)
from invoice_sandbox.state import (
    MEBIBYTE,
    Condition,
    Credential,
    Instant,
    Log,
    NoWorkspaceError,
    Page,
    Snapshot,
    Store,
    Transaction,
    Workspace,
)
from invoice_sandbox.state.memory import CAPACITY, MemoryStore
from invoice_sandbox.state.sql_store import open_store
from tests.cases import in_turn
from tests.databases import new_database

P = ParamSpec("P")


class Backends:
    """Makes the stores of a test, and closes them when it ends."""

    def __init__(self) -> None:
        self.kind = "memory"
        self.folder = Path()
        self._databases: dict[int, str] = {}
        self._open: list[Store] = []
        self._made = 0

    def store(self, indexes: Sequence[str]) -> Store:
        """A new store of the kind that the test is run with."""
        self._made += 1
        return self._opened(indexes)

    def reopened(self, indexes: Sequence[str] = ()) -> Store:
        """The last store, closed and opened again."""
        self.close()
        return self._opened(indexes)

    def _opened(self, indexes: Sequence[str]) -> Store:
        found: Store = MemoryStore({"k": indexes})
        if self.kind == "sqlite":
            file = self.folder / f"{self._made}.db"
            found = open_store(file, {"k": indexes}, CAPACITY)
        elif self.kind == "postgresql":
            dsn = self._databases.get(self._made) or new_database()
            self._databases[self._made] = dsn
            found = open_store(dsn, {"k": indexes}, CAPACITY)
        self._open.append(found)
        return found

    def close(self) -> None:
        """Close every store."""
        while self._open:
            self._open.pop().close()


BACKENDS = Backends()


_POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


@pytest.fixture(autouse=True, params=["memory", "sqlite", _POSTGRESQL])
def _backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    BACKENDS.kind = request.param
    if request.param == "sqlite":
        BACKENDS.folder = tmp_path_factory.mktemp("store")
    yield
    BACKENDS.close()


in_memory = pytest.mark.parametrize("_backend", ["memory"], indirect=True)
"""Of tests about what the memory store alone does."""


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an ``async def`` test to its end on an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def workspace(name: str) -> Workspace:
    """A workspace whose id and token are ``name``."""
    return Workspace(name, seed=1, token=name, clock=ClockState("frozen"), scenario="manual")


def store_of(*names: str, indexes: Sequence[str] = ()) -> Store:
    """A store with these workspaces, the others created from the first, and ``indexes`` of the
    collection ``k``."""
    store = BACKENDS.store(indexes)
    for name in names:
        made_by = None if name == names[0] else names[0]
        store.create_workspace(replace(workspace(name), made_by=made_by), FROZEN_START)
    return store


def put_all(store: Store, count: int, kind: str = "k", **members: Any) -> None:
    """Add ``count`` records to workspace ``one``; ``n`` says which is which."""
    with store.transaction("one") as state:
        start = state.count(kind)
        for n in range(start, start + count):
            state.put(kind, str(n), {"n": n, **members})


def page_of(store: Store, kind: str = "k", **asked: Any) -> Page:
    """A page of workspace ``one``."""
    with store.transaction("one") as state:
        return state.page(kind, **asked)


def numbers(page: Page) -> list[int]:
    """Which records a page holds."""
    return [record["n"] for record in page.records]


class AbandonedError(Exception):
    """Raised by a test in the middle of a transaction."""


def abandon(store: Store, work: Callable[[Transaction], Any]) -> None:
    """Do ``work`` in a transaction on workspace ``one`` that fails afterwards."""
    with pytest.raises(AbandonedError), store.transaction("one") as state:  # noqa: PT012  the transaction is tested
        work(state)
        raise AbandonedError


# --- workspaces


def test_workspaces_never_see_each_other() -> None:
    store = store_of("one", "two")
    put_all(store, 1)
    with store.transaction("two") as state:
        assert state.get("k", "0") is None
        assert (state.page("k", limit=9)).records == ()
        assert state.count("k") == 0
        assert state.next_number("inv") == 1


def test_a_workspace_is_found_by_its_id() -> None:
    store = store_of("one")
    assert store.workspace("one") == workspace("one")
    assert store.workspace("two") is None


def test_workspaces_are_counted_and_have_a_last_use() -> None:
    store = store_of("one", "two")
    later = FROZEN_START + timedelta(hours=1)
    store.note_request("two", later)
    assert store.count_workspaces() == 2
    used = [FROZEN_START, later]
    assert [store.last_used(name) for name in ("one", "two")] == used
    assert [one for _, one in store.workspaces()] == used
    assert store.workspace("three") is None


@in_memory
def test_contents_are_complete_up_to_8_mebibytes_and_logs_up_to_4() -> None:
    store = store_of("one")
    for half, is_whole in ((1, True), (2, False)):
        with store.transaction("one") as state:
            state.put("k", str(half), {"x": "x" * 5 * MEBIBYTE})
        contents = store.contents("one")
        assert (contents.records is not None) == is_whole
    for number in range(6):
        store.append("one", "log", number, MEBIBYTE - 1)
    assert list((store.log("one", "log")).entries) == [2, 3, 4, 5]


def test_a_deleted_workspace_leaves_no_credential_behind() -> None:
    store = store_of("one", "two")
    for name in ("one", "two"):
        with store.transaction(name) as state:
            state.grant(replace(KEY, digest=f"of {name}", workspace_id=name))
    store.delete_workspace("two")
    assert store.credential("of two") is None
    assert store.credential("of one") is not None


def test_a_workspace_has_no_log_of_a_deleted_one_with_its_id() -> None:
    store = store_of("one")
    workspace = store.workspace("one")
    assert workspace is not None
    store.append("one", "steps", {"n": 1})
    store.delete_workspace("one")
    store.create_workspace(workspace, FIRST)
    assert store.log("one", "steps") == Log((), 0)


def test_there_is_no_transaction_on_an_unknown_workspace() -> None:
    store = store_of("one")
    with pytest.raises(KeyError), store.transaction("two"):
        pass


# --- logs


async def waiting(store: Store, name: str, **after: int) -> asyncio.Task[Mapping[str, Log]]:
    """Somebody who waits for entries of logs, and has begun to."""
    task = asyncio.create_task(store.tail(name, after))
    await asyncio.sleep(0)
    assert not task.done()
    return task


@on_a_loop
async def test_a_log_that_is_added_to_wakes_who_waits_for_it() -> None:
    store = store_of("one", "two")
    store.append("one", "a", {"n": 1})
    reader, other = await waiting(store, "one", a=1, b=0), await waiting(store, "two", a=0)
    again = await waiting(store, "one", a=1)
    store.append("one", "b", {"n": 2})
    assert await reader == {"a": Log((), 1), "b": Log(({"n": 2},), 0)}
    store.append("one", "a", {"n": 3})
    assert await again == {"a": Log(({"n": 3},), 1)}
    assert not other.done()
    store.append("two", "a", {"n": 4})
    assert (await other)["a"].last == 1


def test_entries_are_counted_with_those_that_were_dropped() -> None:
    store = store_of("one")
    assert store.count_logged("one", "x") == 0
    for number in range(1_005):
        store.append("one", "x", {"n": number})
    assert store.count_logged("one", "x") == 1_005
    assert (store.log("one", "x")).dropped == 5


@on_a_loop
async def test_whoever_waits_for_a_log_learns_that_the_workspace_is_deleted() -> None:
    store = store_of("one", "two")
    reader = await waiting(store, "two", a=0)
    store.delete_workspace("two")
    with pytest.raises(NoWorkspaceError):
        await reader


# --- copies


def test_a_record_goes_in_as_a_copy() -> None:
    store, record = store_of("one"), {"tags": ["a"], "inner": {"n": 1}}
    with store.transaction("one") as state:
        state.put("k", "1", record)
        record["tags"].append("b")  # type: ignore[attr-defined]
        record["inner"]["n"] = 2  # type: ignore[index]
        assert state.get("k", "1") == {"tags": ["a"], "inner": {"n": 1}}


def test_a_record_comes_out_as_a_copy() -> None:
    store = store_of("one")
    put_all(store, 1, tags=[{"a": 1}])
    with store.transaction("one") as state:
        got = state.get("k", "0") or {}
        got["tags"][0]["a"] = 2
        (state.page("k", limit=1)).records[0]["tags"].append(3)
        assert state.get("k", "0") == {"n": 0, "tags": [{"a": 1}]}


# --- all or nothing


def test_a_failed_transaction_inserts_nothing() -> None:
    store = store_of("one")
    put_all(store, 1)
    abandon(store, lambda state: state.put("k", "new", {"n": 1}))
    abandon(store, lambda state: state.put("other kind", "new", {"n": 1}))
    assert numbers(page_of(store, limit=9)) == [0]
    assert (page_of(store, "other kind", limit=9)).records == ()


def test_a_failed_transaction_replaces_nothing() -> None:
    store = store_of("one")
    put_all(store, 2)

    def work(state: Transaction) -> None:
        state.put("k", "0", {"n": 7})
        state.put("k", "0", {"n": 8})

    abandon(store, work)
    assert numbers(page_of(store, limit=9)) == [1, 0]


def test_changes_are_undone_from_the_last_to_the_first() -> None:
    store = store_of("one")
    put_all(store, 1)

    def work(state: Transaction) -> None:
        state.put("k", "new", {"n": 1})
        state.put("k", "0", {"n": 5})
        state.put("k", "new", {"n": 2})
        state.put("k", "newer", {"n": 3})

    abandon(store, work)
    put_all(store, 1)
    assert numbers(page_of(store, limit=9)) == [1, 0]


def test_a_failed_transaction_uses_up_no_number() -> None:
    store = store_of("one")

    def work(state: Transaction) -> None:
        assert [state.next_number(name) for name in ("inv", "inv", "off")] == [1, 2, 1]

    abandon(store, work)
    with store.transaction("one") as state:
        work(state)
        assert state.next_number("inv") == 3

    def again(state: Transaction) -> None:
        assert state.next_number("inv") == 4

    for _ in range(2):
        abandon(store, again)


def fail_after_changes(state: Transaction, *, searches: bool) -> None:
    """Change records, steps, credentials, counters and the workspace, then fail."""
    state.put("k", "0", {"n": 7})
    state.delete("k", "1")
    state.delete("k", "before")
    state.put("k", "new", {"n": 8})
    state.take_due(NOW)
    schedule(state, 7)
    state.grant(KEY)
    state.next_number("inv")
    state.next_number("calls/inv")
    state.change_workspace(replace(state.workspace(), scenario="other"))
    if searches:
        assert numbers(state.page("k")) == [8, 2, 7]
    raise AbandonedError


@pytest.mark.parametrize("searches", [False, True])
def test_a_failed_attempt_changes_nothing_and_its_transaction_goes_on(searches: bool) -> None:
    store, where = store_of("one", indexes=("f",)), (Condition("f", "=", "x"),)
    put_all(store, 3, f="x")
    with store.transaction("one") as state:
        schedule(state, 0, 1)
    with store.transaction("one") as state:
        state.put("k", "2", {"n": 2, "f": "x"})
        assert state.next_number("inv") == 1
        with state.attempt():
            state.put("k", "before", {"n": 3, "f": "x"})
            with pytest.raises(AbandonedError), state.attempt():
                fail_after_changes(state, searches=searches)
            assert numbers(state.page("k")) == [3, 2, 1, 0]
        for _ in range(2):
            with pytest.raises(AbandonedError), state.attempt():
                fail_after_changes(state, searches=searches)
        assert [state.next_number(name) for name in ("inv", "calls/inv")] == [2, 1]
        state.put("k", "after", {"n": 9, "f": "y"})
    assert numbers(page_of(store)) == [9, 3, 2, 1, 0]
    assert numbers(page_of(store, where=where)) == [3, 2, 1, 0]
    with store.transaction("one") as state:
        assert (state.count("k"), state.workspace().scenario) == (5, "manual")
        assert taken(state) == ["0", "1"]
    assert store.credential("digest") is None


def test_an_instant_is_not_before_the_latest_one_since_the_clock_was_set() -> None:
    store, later = store_of("one", "two"), FROZEN_START + timedelta(seconds=1)
    for instant, name, expected in (
        (later, "one", later),
        (FROZEN_START, "one", later),
        (FROZEN_START, "two", FROZEN_START),
    ):
        with store.transaction(name) as state:
            assert state.not_before(instant) == expected
            state.next_number("something")
    with store.transaction("one") as state:
        state.change_workspace(replace(state.workspace(), clock=ClockState("frozen", later)))
        assert state.not_before(FROZEN_START) == FROZEN_START


KEY = Credential("digest", "one", "key_1", frozenset({"*"}))


def test_a_credential_is_let_in_from_the_commit_on() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        state.grant(KEY)
        assert store.credential("digest") is None
    assert store.credential("digest") == KEY


def test_a_credential_is_let_in_until_its_revocation_is_committed() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        state.grant(KEY)
    with store.transaction("one") as state:
        state.revoke("digest")
        assert store.credential("digest") == KEY
    assert store.credential("digest") is None


def test_a_failed_transaction_changes_no_credential() -> None:
    store = store_of("one")
    abandon(store, lambda state: state.grant(KEY))
    assert store.credential("digest") is None
    with store.transaction("one") as state:
        state.grant(KEY)
    abandon(store, lambda state: state.revoke("digest"))
    assert store.credential("digest") == KEY


def test_a_transaction_sees_the_credentials_of_its_beginning() -> None:
    store = store_of("one", "two")
    for before, change in (((), "grant"), ((KEY,), "revoke"), ((), "none")):
        with store.transaction("one") as state:
            if change != "none":
                (state.grant(KEY) if change == "grant" else state.revoke(KEY.digest))
            assert state.credentials() == before
    with store.transaction("one") as state:
        state.grant(KEY)
    assert store.credential(KEY.digest) == KEY
    assert store.credential("none") is None
    with store.transaction("two") as state:
        assert state.credentials() == ()


@pytest.mark.parametrize("_backend", ["sqlite", _POSTGRESQL], indirect=True)
def test_a_workspace_and_its_snapshots_are_read_as_they_were_written() -> None:
    """The clock to the microsecond, as ids and deliveries depend on its instants."""
    clock = ClockState("live", FROZEN_START, timedelta(days=-1, microseconds=1))
    written, snapshot = replace(workspace("one"), clock=clock), Snapshot("s", FROZEN_START, clock)
    store = BACKENDS.store(())
    store.create_workspace(written, FROZEN_START)
    store.take_snapshot("one", snapshot)
    again = BACKENDS.reopened()
    assert again.workspace("one") == written
    assert again.snapshots("one") == (snapshot,)


def test_the_last_word_on_a_credential_counts() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        state.grant(KEY)
        state.revoke("digest")
        state.revoke("never granted")
    assert store.credential("digest") is None


def test_a_snapshot_has_no_users_and_restoring_it_leaves_them() -> None:
    store = store_of("one")
    clock, at = ClockState("frozen"), datetime(2026, 11, 23, tzinfo=UTC)
    with store.transaction("one") as state:
        state.put("users", "ann", {"id": "ann", "status": "Active"})
        state.put("k", "a", {"n": 1})
    store.take_snapshot("one", Snapshot("s", at, clock))
    assert (store.contents("one", "s")).records == {"k": [{"n": 1}]}
    with store.transaction("one") as state:
        state.put("users", "ann", {"id": "ann", "status": "Disabled"})
        state.put("users", "ben", {"id": "ben"})
        state.delete("k", "a")
    store.restore_snapshot("one", "s", clock)
    found = (store.contents("one")).records
    assert found == {
        "k": [{"n": 1}],
        "users": [{"id": "ann", "status": "Disabled"}, {"id": "ben"}],
    }


def test_a_session_that_has_ended_stays_ended_when_a_snapshot_is_restored() -> None:
    store = store_of("one")
    clock, at = ClockState("frozen"), datetime(2026, 11, 23, tzinfo=UTC)
    sessions = [
        Credential(name, "one", "ann", frozenset(), at, "session", name) for name in ("a", "b", "c")
    ]
    with store.transaction("one") as state:
        for one in sessions[:2]:
            state.grant(one)
    store.take_snapshot("one", Snapshot("s", at, clock))
    with store.transaction("one") as state:
        state.revoke("a")
        state.grant(sessions[2])
    left = store.snapshot_credentials("one", "s")
    store.restore_snapshot("one", "s", clock)
    assert left == (sessions[1],)
    assert [store.credential(one.digest) for one in sessions] == [None, sessions[1], None]


# --- steps to come

NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)


def schedule(state: Transaction, *minutes: int) -> None:
    """Have a step done that many minutes after NOW; its action says how many."""
    for after in minutes:
        state.schedule(NOW + timedelta(minutes=after), str(after), {"after": after})


def taken(state: Transaction, minutes: int = 60) -> list[str]:
    """The actions that are due by then, in the order in which they are taken."""
    actions = []
    while step := state.take_due(NOW + timedelta(minutes=minutes)):
        actions.append(step.action)
    return actions


def test_steps_are_taken_when_they_are_due_by_time_then_by_creation() -> None:
    store = store_of("one", "two")
    with store.transaction("one") as state:
        schedule(state, 5, 1, 3)
        state.schedule(NOW + timedelta(minutes=3), "later made", {})
        assert taken(state, minutes=3) == ["1", "3", "later made"]
    assert store.due_times("one") == {None: NOW + timedelta(minutes=5)}
    assert store.due_times("two") == {}


def test_the_first_step_of_a_lane_stays_until_it_is_discarded() -> None:
    store, later = store_of("one"), NOW + timedelta(minutes=2)
    with store.transaction("one") as state:
        for due, lane in ((later, "a"), (NOW, "a"), (later + timedelta(minutes=1), "b")):
            state.schedule(due, "x", {}, lane=lane)
        assert state.first_due("a", NOW - timedelta(minutes=1)) is None
        assert state.first_due("b", later) is None
        first = state.first_due("a", later)
        assert first is not None
        assert first.due == NOW
        assert state.first_due("a", later) == first
        assert not state.discard_step(first.number), "it is of another lane"
        assert state.discard_step(first.number, "a")
        assert not state.discard_step(first.number, "a")
        assert taken(state) == []
    assert state.next_due() == later


def test_steps_of_several_lanes_are_in_one_order() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        for after, lane in ((2, "a"), (1, "b"), (2, None), (1, "a")):
            state.schedule(NOW + timedelta(minutes=after), f"{after}{lane}", {}, lane=lane)
        found = state.steps(None, "a", "b")
        assert [one.action for one in found] == ["1b", "1a", "2a", "2None"]
        assert [one.action for one in state.steps("b", "none")] == ["1b"]
        assert state.steps() == ()


def test_a_step_is_due_at_a_millisecond_as_clocks_show_no_others() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        state.schedule(NOW + timedelta(microseconds=1999), "step", {})
    assert store.due_times("one") == {None: NOW + timedelta(milliseconds=1)}


def test_a_failed_transaction_leaves_the_steps_as_they_were() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        schedule(state, 1, 2)

    def work(state: Transaction) -> None:
        state.take_due(NOW + timedelta(minutes=1))
        schedule(state, 7)

    abandon(store, work)
    with store.transaction("one") as state:
        assert taken(state) == ["1", "2"]


def test_a_failed_transaction_discards_no_step() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        schedule(state, 1, 2)

    def work(state: Transaction) -> None:
        step = state.take_due(NOW + timedelta(minutes=1))
        assert step is not None
        state.discard_step(step.number + 1)

    abandon(store, work)
    with store.transaction("one") as state:
        assert taken(state) == ["1", "2"]


def test_a_discarded_step_is_never_taken() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        schedule(state, 1, 2)
        step = state.take_due(NOW + timedelta(minutes=1))
        assert step is not None
        state.discard_step(step.number + 1)
        assert taken(state) == []
    assert store.due_times("one") == {}


# --- one after the other


def test_the_next_transaction_begins_after_one_that_failed() -> None:
    store = store_of("one")
    abandon(store, lambda state: state.next_number("inv"))
    with store.transaction("one") as state:
        assert state.next_number("inv") == 1


# --- pages


def test_pages_are_newest_first_and_end() -> None:
    store = store_of("one")
    put_all(store, 5)
    first = page_of(store, limit=2)
    second = page_of(store, limit=2, before=first.next_position)
    third = page_of(store, limit=2, before=second.next_position)
    assert [numbers(page) for page in (first, second, third)] == [[4, 3], [2, 1], [0]]
    assert third.next_position is None


def test_pages_may_be_oldest_first() -> None:
    store = store_of("one")
    put_all(store, 5)
    first = page_of(store, limit=2, oldest_first=True)
    second = page_of(store, limit=2, oldest_first=True, before=first.next_position)
    third = page_of(store, limit=2, oldest_first=True, before=second.next_position)
    assert [numbers(page) for page in (first, second, third)] == [[0, 1], [2, 3], [4]]
    assert third.next_position is None
    assert numbers(page_of(store, limit=2)) == [4, 3]  # asked before it, it is another page


def test_a_page_that_is_just_full_is_the_last() -> None:
    store = store_of("one")
    put_all(store, 2)
    assert (page_of(store, limit=2)).next_position is None


def test_a_position_stays_good_while_records_are_added_and_replaced() -> None:
    store = store_of("one")
    put_all(store, 4)
    first = page_of(store, limit=2)
    put_all(store, 3)
    with store.transaction("one") as state:
        state.put("k", "1", {"n": 100})
    assert numbers(page_of(store, limit=2, before=first.next_position)) == [100, 0]


def test_a_replaced_record_keeps_its_place() -> None:
    store = store_of("one")
    put_all(store, 3)
    with store.transaction("one") as state:
        state.put("k", "0", {"n": 10})
    assert numbers(page_of(store, limit=9)) == [2, 1, 10]


def test_pages_under_a_condition_miss_nothing() -> None:
    store = store_of("one")
    for _ in range(4):
        put_all(store, 1, status="Paid")
        put_all(store, 2, status="Offered")
    paid = (Condition("status", "=", "Paid"),)
    first = page_of(store, limit=3, where=paid)
    second = page_of(store, limit=3, where=paid, before=first.next_position)
    assert (numbers(first), numbers(second)) == ([9, 6, 3], [0])
    assert second.next_position is None


def test_a_count_is_of_all_that_match_not_of_one_page() -> None:
    store = store_of("one")
    put_all(store, 3, status="Paid")
    put_all(store, 4, status="Offered")
    with store.transaction("one") as state:
        assert state.count("k") == 7
        assert state.count("k", (Condition("status", "=", "Paid"),)) == 3
        assert state.count("nothing") == 0


NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)

CONDITIONS: dict[str, tuple[Condition, Any, bool]] = {
    "equal": (Condition("f", "=", "Paid"), "Paid", True),
    "not equal": (Condition("f", "=", "Paid"), "paid", False),
    "equality knows no time zone": (Condition("f", "=", "ORG"), "ORGZ", False),
    "a final Z is a letter": (Condition("f", "=", "ORGZ"), "ORG", False),
    "a number is not its text": (Condition("f", "=", "1"), 1, False),
    "null is not equal": (Condition("f", "=", "None"), None, False),
    "from, the same": (Condition("f", ">=", NOON), "2026-11-23T12:00:00Z", True),
    "from, before": (Condition("f", ">=", NOON), "2026-11-23T11:59:59.999Z", False),
    "from, a millisecond later": (Condition("f", ">=", NOON), "2026-11-23T12:00:00.001Z", True),
    "until, the same": (Condition("f", "<=", NOON), "2026-11-23T12:00:00Z", True),
    "until, a millisecond later": (Condition("f", "<=", NOON), "2026-11-23T12:00:00.001Z", False),
    "until, a millisecond before": (Condition("f", "<=", NOON), "2026-11-23T11:59:59.999Z", True),
    "from, with an offset": (Condition("f", ">=", NOON), "2026-11-23T13:30:00+02:00", False),
    "until, with an offset": (Condition("f", "<=", NOON), "2026-11-23T13:30:00+02:00", True),
    "null is not after anything": (Condition("f", ">=", NOON), None, False),
    "null is not before anything": (Condition("f", "<=", NOON), None, False),
    "another text is not after anything": (Condition("f", ">=", NOON), "zzz", False),
    "another text is not before anything": (Condition("f", "<=", NOON), "2026", False),
    "a number is not after anything": (Condition("f", ">=", FIRST), 2**50, False),
    "one of nothing": (Condition("f", "in", ()), "", False),
    "one of": (Condition("f", "in", ("Paid", "Offered")), "Offered", True),
    "none of": (Condition("f", "in", ("Paid", "Offered")), "Off", False),
    "holds": (Condition("f", "has", "a"), ["a", "b"], True),
    "does not hold": (Condition("f", "has", "a"), ["ab"], False),
    "holds one of them": (Condition("f", "has", ("a", "b")), ["c", "b"], True),
    "holds none of them": (Condition("f", "has", ("a", "b")), ["c"], False),
    "a text holds nothing": (Condition("f", "has", "a"), "abc", False),
    "null holds nothing": (Condition("f", "has", "a"), None, False),
}


@in_turn(
    ("condition", "value", "matches"),
    [pytest.param(*row, id=name) for name, row in CONDITIONS.items()],
)
@in_turn("indexes", [(), ("f",), (Instant("f"),)], ids=["no index", "index", "index of instants"])
def test_a_condition_compares_one_field(
    indexes: Sequence[str], condition: Condition, value: Any, matches: bool
) -> None:
    store = store_of("one", indexes=indexes)
    with store.transaction("one") as state:
        state.put("k", "1", {"f": value})
        state.put("k", "2", {"another": value})
        assert state.count("k", (condition,)) == matches
        assert len((state.page("k", limit=9, where=(condition,))).records) == matches


def test_all_conditions_must_hold() -> None:
    store = store_of("one")
    put_all(store, 2, a="x", b="y")
    where = (Condition("a", "=", "x"), Condition("b", "=", "z"))
    assert (page_of(store, limit=9, where=where)).records == ()


# --- deleting


@in_memory
def test_a_key_that_ends_with_zero_is_found() -> None:
    """Keys that come after many others are looked for by the number at their end."""
    store, keys = store_of("one"), [*("x" * n for n in range(1, 65)), "k_0", "k_1"]
    with store.transaction("one") as state:
        for key in keys:
            state.put("k", key, {"key": key})
        assert [state.get("k", key) for key in keys] == [{"key": key} for key in keys]


def test_a_deleted_record_is_gone_and_the_others_keep_their_positions() -> None:
    store = store_of("one")
    put_all(store, 4)
    first = page_of(store, limit=2)
    with store.transaction("one") as state:
        assert state.delete("k", "2")
        assert state.get("k", "2") is None
        assert state.count("k") == 3
    assert numbers(page_of(store)) == [3, 1, 0]
    assert numbers(page_of(store, before=first.next_position)) == [1, 0]


def test_deleting_what_is_not_there_is_false() -> None:
    store = store_of("one")
    with store.transaction("one") as state:
        assert not state.delete("k", "0")


def test_a_record_that_is_put_again_after_its_deletion_is_the_newest() -> None:
    store = store_of("one")
    put_all(store, 2)
    with store.transaction("one") as state:
        state.delete("k", "0")
        state.put("k", "0", {"n": 0})
    assert numbers(page_of(store)) == [0, 1]


def test_a_deletion_is_undone_with_its_transaction() -> None:
    store = store_of("one")
    put_all(store, 3)

    def delete_twice(state: Transaction) -> None:
        state.delete("k", "1")
        state.put("k", "1", {"n": 7})
        state.delete("k", "1")

    abandon(store, delete_twice)
    assert numbers(page_of(store)) == [2, 1, 0]


def test_a_snapshot_has_what_was_deleted_later() -> None:
    store = store_of("one")
    put_all(store, 2)
    clock = ClockState("frozen")
    store.take_snapshot("one", Snapshot("s", FROZEN_START, clock))
    with store.transaction("one") as state:
        state.delete("k", "0")
    assert numbers(page_of(store)) == [1]
    store.restore_snapshot("one", "s", clock)
    assert numbers(page_of(store)) == [1, 0]


# --- indexes

NAMES = ("1", "2", "x_1", "x_3", "no number")
KEYS = st.sampled_from(NAMES)
VALUES = st.sampled_from([None, 1, "a", "b", "", ["a"], ["a", "b", "a"], [], [1, "b"]])
INSTANTS = st.sampled_from([NOON + timedelta(milliseconds=one) for one in (-1, 0, 1, 1000)])
TIMES = INSTANTS.map(instant_text) | st.sampled_from([None, "noon", 5])
RECORDS = st.fixed_dictionaries({}, optional={"f": VALUES, "g": VALUES, "t": TIMES})
CHANGES = st.tuples(st.just("put"), KEYS, RECORDS) | st.tuples(st.just("delete"), KEYS, st.none())
TRANSACTIONS = st.tuples(st.sampled_from(["commit", "fail"]), st.lists(CHANGES, max_size=4))
NO_CHANGES: list[Any] = []
VERSIONS = st.tuples(st.sampled_from(["snapshot", "restore"]), st.just(NO_CHANGES))
HISTORIES = st.lists(TRANSACTIONS | VERSIONS, max_size=12)
TEXTS = st.sampled_from(["a", "b", "", "c"])
SELECTIONS = st.lists(
    st.builds(Condition, st.sampled_from(["f", "g"]), st.sampled_from(["=", "has"]), TEXTS)
    | st.builds(Condition, st.sampled_from(["t", "f"]), st.sampled_from(["<=", ">="]), INSTANTS)
    | st.builds(
        Condition,
        st.sampled_from(["f", "g"]),
        st.sampled_from(["in", "has"]),
        st.lists(TEXTS).map(tuple),
    ),
    max_size=3,
).map(tuple)


def carry_out(store: Store, history: list[tuple[str, list[Any]]]) -> list[tuple[str, Any] | None]:
    """Do it all, and in a list by position too, which is returned: key and record, or None."""
    model: list[tuple[str, Any] | None] = []
    saved: list[tuple[str, Any] | None] = []
    clock = ClockState("frozen")
    store.take_snapshot("one", Snapshot("s", FROZEN_START, clock))
    for kind, changes in history:
        if kind == "snapshot":
            saved = model.copy()
            store.take_snapshot("one", Snapshot("s", FROZEN_START, clock))
        elif kind == "restore":
            model = saved.copy()
            store.restore_snapshot("one", "s", clock)
        else:
            before = model.copy()
            with suppress(AbandonedError), store.transaction("one") as state:
                for change in changes:
                    make_change(state, model, *change)
                if kind == "fail":
                    model = before
                    raise AbandonedError
    return model


def make_change(
    state: Transaction, model: list[tuple[str, Any] | None], kind: str, key: str, record: Any
) -> None:
    """The same change of both."""
    position = next((at for at, one in enumerate(model) if one and one[0] == key), None)
    if kind == "delete":
        assert state.delete("k", key) == (position is not None)
        if position is not None:
            model[position] = None
        return
    state.put("k", key, record)
    if position is None:
        model.append((key, record))
    else:
        model[position] = (key, record)


def selected(record: dict[str, Any], condition: Condition) -> bool:
    """What a condition means, without any index."""
    value, wanted = record.get(condition.field), condition.value
    match condition.operator:
        case "=":
            return bool(value == wanted)
        case "in":
            assert isinstance(wanted, tuple)
            return value in wanted
        case "has":
            every = wanted if isinstance(wanted, tuple) else (wanted,)
            return isinstance(value, list) and any(one in value for one in every)
        case _:
            assert isinstance(wanted, datetime)
            if not isinstance(value, str) or not value.startswith("2026"):
                return False
            instant = datetime.fromisoformat(value)
            return instant <= wanted if condition.operator == "<=" else instant >= wanted


@in_memory
@given(
    history=HISTORIES,
    where=SELECTIONS,
    limit=st.none() | st.integers(1, 3),
    indexes=st.sampled_from([(), ("f",), ("f", "g", Instant("t"))]),
)
def test_an_index_changes_no_result(
    history: list[tuple[str, list[Any]]],
    where: tuple[Condition, ...],
    limit: int | None,
    indexes: tuple[str, ...],
) -> None:
    compare_with_model(history, where, limit, indexes)


def compare_with_model(
    history: list[tuple[str, list[Any]]],
    where: tuple[Condition, ...],
    limit: int | None,
    indexes: tuple[str, ...],
) -> None:
    store = store_of("one", indexes=indexes)
    model = carry_out(store, history)
    BACKENDS.close()
    assert_like_model(store, model, where, limit)


@pytest.mark.parametrize("_backend", ["sqlite", _POSTGRESQL], indirect=True)
@settings(max_examples=20, deadline=None)
@given(history=HISTORIES, where=SELECTIONS)
def test_a_store_that_is_opened_again_is_the_same(
    history: list[tuple[str, list[Any]]], where: tuple[Condition, ...]
) -> None:
    compare_reopened(history, where)


def compare_reopened(history: list[tuple[str, list[Any]]], where: tuple[Condition, ...]) -> None:
    indexes = ("f", Instant("t"))
    store = store_of("one", indexes=indexes)
    model = carry_out(store, history)
    again = BACKENDS.reopened(indexes)
    assert_like_model(again, model, where, None)
    again.restore_snapshot("one", "s", ClockState("frozen"))
    store_in_memory_is_like(again, history)
    BACKENDS.close()


def store_in_memory_is_like(again: Store, history: list[tuple[str, list[Any]]]) -> None:
    """The restored store has the records that one in memory has after the same history."""
    other = MemoryStore({"k": ("f",)})
    other.create_workspace(workspace("one"), FROZEN_START)
    carry_out(other, history)
    other.restore_snapshot("one", "s", ClockState("frozen"))
    assert page_of(again) == page_of(other)


def assert_like_model(
    store: Store,
    model: list[tuple[str, Any] | None],
    where: tuple[Condition, ...],
    limit: int | None,
) -> None:
    """The store has the records of the model in their positions, on all pages."""
    expected = [
        (position, entry[1])
        for position, entry in reversed(list(enumerate(model)))
        if entry and all(selected(entry[1], one) for one in where)
    ]
    with store.transaction("one") as state:
        assert state.count("k", where) == len(expected)
        records = {entry[0]: entry[1] for entry in model if entry}
        assert {name: state.get("k", name) for name in records} == records
        for name in {*NAMES} - {*records}:
            assert state.get("k", name) is None
        for before in range(len(model) + 2):
            rest = [one for one in expected if one[0] < before]
            following = rest[limit][0] + 1 if limit is not None and len(rest) > limit else None
            page = Page(tuple(record for _, record in rest[:limit]), following)
            assert state.page("k", limit=limit, before=before, where=where) == page
            later = [one for one in reversed(expected) if one[0] >= before]
            following = later[limit][0] if limit is not None and len(later) > limit else None
            page = Page(tuple(record for _, record in later[:limit]), following)
            ascending = state.page("k", limit=limit, before=before, where=where, oldest_first=True)
            assert ascending == page


def test_a_snapshot_that_was_dropped_is_gone() -> None:
    store = store_of("one")
    for name in ("a", "b"):
        store.take_snapshot("one", Snapshot(name, FROZEN_START, ClockState("frozen")))
    store.drop_snapshot("one", "a")
    assert [one.id for one in store.snapshots("one")] == ["b"]
    for work in (store.drop_snapshot, store.contents, store.snapshot_credentials):
        with pytest.raises(KeyError):
            work("one", "a")


def test_a_snapshot_can_be_restored_again_after_other_changes() -> None:
    """What is added after a restore does not get into the snapshot."""
    store = store_of("one", indexes=("n",))
    clock = ClockState("frozen")
    put_all(store, 2)
    store.take_snapshot("one", Snapshot("s", FROZEN_START, clock))
    put_all(store, 2)
    for _ in range(2):
        store.restore_snapshot("one", "s", clock)
        assert numbers(page_of(store)) == [1, 0]
        with store.transaction("one") as state:
            state.put("k", "other", {"n": 9})
        assert numbers(page_of(store)) == [9, 1, 0]
