"""The state of a fuzzing run: workspaces that are prepared once and restored after each use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from invoice_sandbox.control.client import ControlClient, SandboxError, path
from invoice_sandbox.fuzzing.contract import SETUP, DocumentError, Step, operations, setup_of

_NOT_FOUND = 404


class FuzzState:
    """Workspaces of one server. The first one is prepared and fuzzed; authorization checks use the
    others as other users."""

    def __init__(self, workspaces: Sequence[ControlClient]) -> None:
        self._workspaces = workspaces
        self._steps: list[tuple[str, str, str, Step]] = []
        self._snapshots: dict[int, str] = {}
        self._used: set[int] = set()

    def prepare(self, document: dict[str, Any]) -> None:
        """Send the requests of ``x-fuzz-setup`` in the document, take snapshots of the workspaces,
        and write the kept values into the document as examples of its parameters.

        Raises SandboxError when a request is rejected, and DocumentError.
        """
        self._steps = [
            (route, method, name, step)
            for route, method, name, raw in operations(document)
            for step in setup_of(name, raw)
        ]
        for (route, method, name, step), response in zip(self._steps, self._send(), strict=True):
            for parameter, pointer in step.keep.items():
                raw = document["paths"][route][method]
                _add_example(name, raw, parameter, _at(response, pointer, name))
        for number in range(len(self._workspaces)):
            self._take_snapshot(number)

    def mark_used(self, key: str | None = None) -> None:
        """Note that a request may have changed the first workspace, or that of the key."""
        self._used |= {n for n, one in enumerate(self._workspaces) if key in (None, one.key)}

    def restore(self) -> None:
        """Restore the used workspaces to their prepared state. Raises SandboxError."""
        while self._used:
            number = min(self._used)
            workspace = self._workspaces[number]
            place = path("/snapshots/{id}/restore", id=self._snapshots[number])
            try:
                workspace.ask("POST", place)
            except SandboxError as error:
                if error.status != _NOT_FOUND:
                    raise
                self._prepare_again(number)  # the fuzzer has deleted the snapshot
            self._used.remove(number)

    def _prepare_again(self, number: int) -> None:
        self._workspaces[number].ask("POST", "/reset")
        if number == 0:
            self._send()
        self._take_snapshot(number)

    def _send(self) -> list[Any]:
        return [self._response(name, step) for *_, name, step in self._steps]

    def _response(self, name: str, step: Step) -> Any:
        try:
            return self._workspaces[0].whole(step.method, step.path, step.body)
        except SandboxError as error:
            message = f"{name}: {step.method} {step.path} of {SETUP} failed: {error}"
            raise SandboxError(message, error.status, error.code) from None

    def _take_snapshot(self, number: int) -> None:
        self._snapshots[number] = self._workspaces[number].ask("POST", "/snapshots")["id"]


def _at(response: Any, pointer: str, name: str) -> Any:
    found = response
    try:
        for part in pointer.split("/")[1:]:
            found = found[int(part)] if isinstance(found, list) else found[part]
    except (LookupError, TypeError, ValueError):
        raise SandboxError(f"{name}: the response of {SETUP} has no {pointer}") from None
    return found


def _add_example(name: str, raw: dict[str, Any], parameter: str, value: Any) -> None:
    one = next((one for one in raw.get("parameters", ()) if one.get("name") == parameter), None)
    if one is None:
        raise DocumentError(
            f"{name}: {SETUP} keeps {parameter}, which is not a parameter of the operation"
        )
    one.pop("example", None)
    one["examples"] = {**one.get("examples", {}), "prepared": {"value": value}}
