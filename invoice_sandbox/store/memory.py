"""The store in memory: one lock per workspace, and an undo log per transaction."""

from __future__ import annotations

import asyncio
import bisect
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

from invoice_sandbox.store import (
    Condition,
    Credential,
    Page,
    Record,
    ScheduledStep,
    Workspace,
)

_OrderedStep = tuple[datetime, int, ScheduledStep]


class _Collection:
    """Records of one kind. A record's position never changes, so a cursor stays good."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.keys: list[str] = []


class _Space:
    """Everything of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.lock = asyncio.Lock()
        self.collections: dict[str, _Collection] = {}
        self.numbers: Counter[str] = Counter()
        self.requests = 0
        self.steps: list[_OrderedStep] = []
        self.steps_made = 0


class MemoryStore:
    """All workspaces in this process; gone when it ends."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}
        self._credentials: dict[str, Credential] = {}

    async def create_workspace(self, workspace: Workspace) -> None:
        """Add an empty workspace. Raises KeyError when its id is taken."""
        if workspace.id in self._spaces:
            raise KeyError(workspace.id)
        self._spaces[workspace.id] = _Space(workspace)

    async def workspace(self, workspace_id: str) -> Workspace | None:
        """The workspace, or None."""
        space = self._spaces.get(workspace_id)
        return space.workspace if space else None

    async def credential(self, digest: str) -> Credential | None:
        """The credential that is in force for a digest."""
        return self._credentials.get(digest)

    async def next_request_number(self, workspace_id: str) -> int:
        """1, 2, 3, … for each request of the workspace."""
        space = self._spaces[workspace_id]
        space.requests += 1
        return space.requests

    async def next_due(self, workspace_id: str) -> datetime | None:
        """When the workspace's next step is due, or None."""
        steps = self._spaces[workspace_id].steps
        return steps[0][0] if steps else None

    @asynccontextmanager
    async def transaction(self, workspace_id: str) -> AsyncIterator[MemoryTransaction]:
        """A transaction, alone on its workspace."""
        space = self._spaces[workspace_id]
        async with space.lock:
            transaction = MemoryTransaction(space)
            try:
                yield transaction
            except BaseException:
                transaction.undo()
                raise
            for digest, credential in transaction.credentials.items():
                if credential is None:
                    self._credentials.pop(digest, None)
                else:
                    self._credentials[digest] = credential


class MemoryTransaction:
    """Changes are made in place and undone backwards; the lock keeps others from seeing them."""

    def __init__(self, space: _Space) -> None:
        self._space = space
        self._undo: list[Callable[[], Any]] = []
        self.credentials: dict[str, Credential | None] = {}

    async def get(self, kind: str, key: str) -> Record | None:
        """The record, or None."""
        collection = self._space.collections.get(kind)
        record = collection.records.get(key) if collection else None
        return None if record is None else _copy(record)

    async def put(self, kind: str, key: str, record: Mapping[str, Any]) -> None:
        """Insert the record, or replace it where it stands in the order."""
        collection = self._space.collections.setdefault(kind, _Collection())
        previous = collection.records.get(key)
        collection.records[key] = _copy(record)
        if previous is None:
            collection.keys.append(key)
            self._undo += [collection.keys.pop, lambda: collection.records.pop(key)]
        else:
            self._undo.append(lambda: collection.records.update({key: previous}))

    async def page(
        self,
        kind: str,
        *,
        limit: int,
        before: int | None = None,
        where: tuple[Condition, ...] = (),
    ) -> Page:
        """At most ``limit`` records, newest first, older than position ``before``."""
        collection = self._space.collections.get(kind) or _Collection()
        records, keys = collection.records, collection.keys
        start = len(keys) if before is None else min(before, len(keys))
        found: list[Record] = []
        next_position: int | None = None
        for position in range(start - 1, -1, -1):
            record = records[keys[position]]
            if not _matches(record, where):
                continue
            if len(found) == limit:
                next_position = position + 1
                break
            found.append(_copy(record))
        return Page(tuple(found), next_position)

    async def count(self, kind: str, where: tuple[Condition, ...] = ()) -> int:
        """How many records match."""
        collection = self._space.collections.get(kind) or _Collection()
        if not where:
            return len(collection.keys)
        return sum(_matches(record, where) for record in collection.records.values())

    async def next_number(self, name: str) -> int:
        """1, 2, 3, … for each ``name``."""
        previous = self._space.numbers[name]
        self._space.numbers[name] = previous + 1
        self._undo.append(lambda: self._space.numbers.subtract({name: 1}))
        return previous + 1

    async def schedule(self, due: datetime, action: str, arguments: Mapping[str, Any]) -> None:
        """Have ``action`` done at the workspace's instant ``due``."""
        self._space.steps_made += 1
        number = self._space.steps_made
        entry = (due, number, ScheduledStep(number, due, action, _copy(arguments)))
        bisect.insort(self._space.steps, entry)
        self._undo.append(lambda: self._space.steps.remove(entry))

    async def take_due(self, now: datetime) -> ScheduledStep | None:
        """Take the step that is due first, by time, then by creation."""
        steps = self._space.steps
        if not steps or steps[0][0] > now:
            return None
        entry = steps.pop(0)
        self._undo.append(lambda: bisect.insort(steps, entry))
        return entry[2]

    async def discard_step(self, number: int) -> None:
        """Forget a step that cannot be done."""
        steps = self._space.steps
        entry = next((one for one in steps if one[1] == number), None)
        if entry is not None:
            steps.remove(entry)
            self._undo.append(lambda: bisect.insort(steps, entry))

    async def grant(self, credential: Credential) -> None:
        """Let the credential in, from the commit on."""
        self.credentials[credential.digest] = credential

    async def revoke(self, digest: str) -> None:
        """Let the credential in no longer, from the commit on."""
        self.credentials[digest] = None

    def undo(self) -> None:
        """Take every change back, the last one first."""
        while self._undo:
            self._undo.pop()()


def _matches(record: Mapping[str, Any], where: tuple[Condition, ...]) -> bool:
    return all(
        condition.field in record
        and _OPERATORS[condition.operator](record[condition.field], condition.value)
        for condition in where
    )


def _compare(compare: Callable[[str, str], bool], value: Any, wanted: str) -> bool:
    # Without its Z, an instant with milliseconds sorts after the same second without them.
    return isinstance(value, str) and compare(value.removesuffix("Z"), wanted.removesuffix("Z"))


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda value, wanted: value == wanted,
    ">=": lambda value, wanted: _compare(str.__ge__, value, wanted),
    "<=": lambda value, wanted: _compare(str.__le__, value, wanted),
    "in": lambda value, wanted: value in wanted,
    "has": lambda value, wanted: isinstance(value, list) and wanted in value,
}


def _copy(value: Any) -> Any:
    """A deep copy of a JSON value; far cheaper than copy.deepcopy."""
    kind = type(value)
    if kind is str or kind is int or kind is Decimal:  # what most values are
        return value
    if isinstance(value, Mapping):
        return {key: _copy(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(child) for child in value]
    return value
