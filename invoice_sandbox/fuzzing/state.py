"""The state of a fuzzing run: workspaces that are prepared once and restored after each use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from invoice_sandbox.control.client import ControlClient, SandboxError, path

_SETUP: Final = "x-fuzz-setup"
"""On an operation: the requests before the fuzzing, and which values of their responses to keep."""

_NOT_FOUND: Final = 404


class FuzzState:
    """Workspaces of one server. The first one is prepared and fuzzed; authorization checks use the
    others as other users."""

    def __init__(self, workspaces: Sequence[ControlClient]) -> None:
        self._workspaces = workspaces
        self._setup: list[dict[str, Any]] = []
        self._snapshots: dict[int, str] = {}
        self._used: set[int] = set()

    def prepare(self, document: dict[str, Any]) -> None:
        """Send the requests of ``x-fuzz-setup``, write the kept values into the document as
        examples of its parameters, and take snapshots.

        Raises SandboxError when a request is rejected.
        """
        for operation in _operations(document):
            for step in operation.get(_SETUP, ()):
                response = self._send(step)
                for parameter, pointer in step.get("keep", {}).items():
                    _add_example(operation, parameter, _at(response, pointer))
                self._setup.append(step)
        for number in range(len(self._workspaces)):
            self._take_snapshot(number)

    def mark_used(self, headers: Sequence[str]) -> None:
        """Note that a request may have changed the first workspace, and those whose key is in its
        headers."""
        self._used |= {0} | {
            number
            for number, workspace in enumerate(self._workspaces)
            if any(str(workspace.key) in header for header in headers)
        }

    def restore(self) -> None:
        """Restore the used workspaces to their prepared state. Raises SandboxError."""
        for number in sorted(self._used):
            place = path("/snapshots/{id}/restore", id=self._snapshots[number])
            try:
                self._workspaces[number].ask("POST", place)
            except SandboxError as error:
                if error.status != _NOT_FOUND:
                    raise
                self._prepare_again(number)  # the fuzzer has deleted the snapshot
        self._used.clear()

    def _prepare_again(self, number: int) -> None:
        self._workspaces[number].ask("POST", "/reset")
        if number == 0:
            for step in self._setup:
                self._send(step)
        self._take_snapshot(number)

    def _send(self, step: dict[str, Any]) -> Any:
        method, _, place = step["send"].partition(" ")
        return self._workspaces[0].whole(method, place, step.get("body"))

    def _take_snapshot(self, number: int) -> None:
        self._snapshots[number] = self._workspaces[number].ask("POST", "/snapshots")["id"]


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in document.get("paths", {}).values():
        yield from (operation for operation in item.values() if isinstance(operation, dict))


def _at(response: Any, pointer: str) -> Any:
    found = response
    for part in pointer.split("/")[1:]:
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


def _add_example(operation: dict[str, Any], name: str, value: Any) -> None:
    parameter = next(
        parameter for parameter in operation["parameters"] if parameter.get("name") == name
    )
    parameter.pop("example", None)
    parameter["examples"] = {**parameter.get("examples", {}), "prepared": {"value": value}}
