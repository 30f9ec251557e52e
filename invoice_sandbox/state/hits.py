"""What was touched, workspace by workspace, and for a whole run in a file.

A touch is a tuple of texts: the kind, then what is meant. The engine notes them and does not know
what they are about; ``report`` holds them against what is declared.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from invoice_sandbox.state import Workspace

Hit = tuple[str, ...]
"""A kind of KINDS, or INJECTED, and names as KINDS tells them."""

KINDS: Final = {
    "operations": ("part", "operation"),
    "statuses": ("part", "operation", "status"),
    "events": ("event",),
    "transitions": ("machine", "from", "trigger"),
    "steps": ("scenario", "step"),
}
"""Every kind of thing that can be touched, and what names one."""

INJECTED: Final = "injected"
"""The kind of a status that was answered by an injected fault, or because it was preferred."""

API: Final = "api"
LEVERS: Final = "sandbox"
"""The two parts that operations belong to: what is imitated, and what only a sandbox has."""

_FIRST_ROOM: Final = 100

_LOG: Final = logging.getLogger("invoice_sandbox")


def operation(part: str, operation_id: str) -> Hit:
    """An operation was asked for."""
    return ("operations", part, operation_id)


def status(part: str, operation_id: str, key: str, *, injected: bool = False) -> Hit:
    """An operation gave the answer that it declares under ``key``, such as ``404`` or ``4XX``."""
    return (INJECTED if injected else "statuses", part, operation_id, key)


def event(kind: str) -> Hit:
    """An event of that kind was recorded."""
    return ("events", kind)


def transition(machine: str, from_: str, trigger: str) -> Hit:
    """Something moved from a state by a trigger."""
    return ("transitions", machine, from_, trigger)


def step(scenario: str, index: int) -> Hit:
    """A step of a story was done; ``index`` counts from 0, as the file lists them."""
    return ("steps", scenario, str(index + 1))


@dataclass
class Coverage:
    """What each workspace touched, and the workspaces made from it, also those that are gone.

    With ``file`` everything that is touched for the first time is added to it, marked with
    ``mark``, which says what project it is about.
    """

    file: Path | None = None
    mark: str = ""
    _touched: dict[str, set[Hit]] = field(default_factory=dict)
    _makers: dict[str, str | None] = field(default_factory=dict)
    _written: set[Hit] = field(default_factory=set)
    _room: int = _FIRST_ROOM

    def note(self, workspace: Workspace, touches: Iterable[Hit]) -> None:
        """These were touched in ``workspace``. Without any, it becomes known who made it."""
        own = self._touched.setdefault(workspace.id, set())
        self._makers[workspace.id] = workspace.made_by
        new = [touch for touch in touches if touch not in own]
        if not new:
            return
        for one in self._line(workspace.id):
            self._touched.setdefault(one, set()).update(new)
        if self.file is not None:
            self._write(self.file, [touch for touch in new if touch not in self._written])

    def of(self, workspace_id: str) -> frozenset[Hit]:
        """What was touched in a workspace and in those made from it."""
        return frozenset(self._touched.get(workspace_id, ()))

    @property
    def is_full(self) -> bool:
        """Whether it is time to ``keep`` only what can still be asked for."""
        return len(self._touched) > self._room

    def keep(self, workspace_ids: Iterable[str]) -> None:
        """Forget all workspaces but these; their makers know what they touched."""
        living = set(workspace_ids)
        self._touched = {one: told for one, told in self._touched.items() if one in living}
        self._makers = {one: maker for one, maker in self._makers.items() if one in living}
        self._room = max(_FIRST_ROOM, 2 * len(self._touched))

    def _line(self, workspace_id: str) -> Iterable[str]:
        """The workspace, its maker, the maker of that, and so on."""
        one: str | None = workspace_id
        while one is not None:
            yield one
            one = self._makers.get(one)

    def _write(self, file: Path, touches: list[Hit]) -> None:
        """Add lines in one piece: other processes may be adding theirs at the same time."""
        if not touches:
            return
        self._written.update(touches)
        text = b"".join(orjson.dumps([self.mark, *touch]) + b"\n" for touch in touches)
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(descriptor, text)
            finally:
                os.close(descriptor)
        except OSError as error:
            _LOG.warning("%s: the coverage cannot be written: %s", file, error.strerror)
