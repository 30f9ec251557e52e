"""Coverage hits: which parts of the contract and the lifecycle were used, per workspace.

A hit is a tuple of strings: its type, then the names that TYPES lists. The ``coverage`` package
compares the hits with everything that is declared.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from invoice_sandbox.state import Workspace

Hit = tuple[str, ...]
"""A type of TYPES, or INJECTED, then its names."""

TYPES: Final = {
    "operations": ("part", "operation"),
    "statuses": ("part", "operation", "status"),
    "events": ("event",),
    "transitions": ("machine", "from", "trigger"),
    "steps": ("scenario", "step"),
}
"""Every type of hit, with what its names stand for."""

INJECTED: Final = "injected"
"""The type of a status that an injected fault or a ``Prefer`` header caused."""

API: Final = "api"
SANDBOX: Final = "sandbox"
"""The two parts that operations belong to: the imitated API and the control API."""

_LEAST_CAPACITY: Final = 100

_LOG: Final = logging.getLogger("invoice_sandbox")


def operation(part: str, operation_id: str) -> Hit:
    """An operation was requested."""
    return ("operations", part, operation_id)


def status(part: str, operation_id: str, key: str, *, injected: bool = False) -> Hit:
    """An operation returned the response declared under ``key``, such as ``404`` or ``4XX``."""
    return (INJECTED if injected else "statuses", part, operation_id, key)


def event(type_: str) -> Hit:
    """An event of that type was recorded."""
    return ("events", type_)


def transition(machine: str, from_: str, trigger: str) -> Hit:
    """A machine left a state by a trigger."""
    return ("transitions", machine, from_, trigger)


def step(scenario: str, index: int) -> Hit:
    """A step of a scenario ran; ``index`` is its position in the file, from 0."""
    return ("steps", scenario, str(index + 1))


@dataclass
class Coverage:
    """The hits of each workspace, including those of deleted workspaces that it created.

    With ``file`` every new hit is also appended to that file, after ``mark``, which identifies the
    project.
    """

    file: Path | None = None
    mark: str = ""
    _hits: dict[str, set[Hit]] = field(default_factory=dict)
    _creators: dict[str, str | None] = field(default_factory=dict)
    _written: set[Hit] = field(default_factory=set)
    _capacity: int = _LEAST_CAPACITY

    def note(self, workspace: Workspace, hits: Collection[Hit]) -> None:
        """Add hits of ``workspace``, and remember who created it."""
        if self._creators.get(workspace.id, workspace.made_by) != workspace.made_by:
            self._hits.pop(workspace.id, None)  # of an earlier one with this id, which is gone
        known = self._hits.get(workspace.id)
        if known is not None and known.issuperset(hits):
            return
        own = self._hits.setdefault(workspace.id, set())
        self._creators[workspace.id] = workspace.made_by
        new = set(hits) - own
        if not new:
            return
        for workspace_id in self._ancestry(workspace.id):
            self._hits.setdefault(workspace_id, set()).update(new)
        if self.file is not None:
            self._write(self.file, sorted(new - self._written))

    def of(self, workspace_id: str) -> frozenset[Hit]:
        """The hits of a workspace and of the workspaces created from it."""
        return frozenset(self._hits.get(workspace_id, ()))

    @property
    def is_full(self) -> bool:
        """Whether it is time to ``keep`` only the workspaces that exist."""
        return len(self._hits) > self._capacity

    def keep(self, workspace_ids: Iterable[str]) -> None:
        """Drop the hits of all other workspaces; those that created them have these hits too."""
        living = set(workspace_ids)
        self._hits = {one: hits for one, hits in self._hits.items() if one in living}
        self._creators = {one: by for one, by in self._creators.items() if one in living}
        self._capacity = max(_LEAST_CAPACITY, 2 * len(self._hits))

    def _ancestry(self, workspace_id: str) -> Iterable[str]:
        """The workspace, the one that created it, and so on."""
        one: str | None = workspace_id
        while one is not None:
            yield one
            one = self._creators.get(one)

    def _write(self, file: Path, hits: list[Hit]) -> None:
        """Append all lines in one write, because other processes may append at the same time."""
        if not hits:
            return
        self._written.update(hits)
        import orjson  # reading a report needs none of it

        text = b"".join(orjson.dumps([self.mark, *hit]) + b"\n" for hit in hits)
        try:
            with file.open("ab", buffering=0) as recording:
                recording.write(text)
        except OSError as error:
            _LOG.warning("%s: cannot write the coverage file: %s", file, error.strerror)
