"""The workspaces that a fuzzer works in: prepared once, and always put back to that state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from invoice_sandbox.control.client import ControlClient, SandboxError, path
from invoice_sandbox.fuzzing.contract import SETUP, DocumentError, Step, operations, setup_of

_NOT_FOUND = 404


class Ground:
    """Workspaces of one server. The first is the one that is prepared and fuzzed; the others are
    those of somebody else, whom an authorization check plays."""

    def __init__(self, workspaces: Sequence[ControlClient]) -> None:
        self._workspaces = workspaces
        self._steps: list[tuple[str, str, str, Step]] = []
        self._snapshots: dict[int, str] = {}
        self._used: set[int] = set()

    def prepare(self, document: dict[str, Any]) -> None:
        """Send what the document's operations have in ``x-fuzz-setup``, remember the workspaces as
        they are then, and write what was kept into the document, as examples of its parameters.

        Raises SandboxError when a request is refused, and DocumentError.
        """
        self._steps = [
            (route, method, name, step)
            for route, method, name, raw in operations(document)
            for step in setup_of(name, raw)
        ]
        for (route, method, name, step), answer in zip(self._steps, self._send(), strict=True):
            for parameter, pointer in step.keep.items():
                raw = document["paths"][route][method]
                _offer(name, raw, parameter, _at(answer, pointer, name))
        for number in range(len(self._workspaces)):
            self._remember(number)

    def mark_used(self, key: str | None = None) -> None:
        """Note that a request may have changed the first workspace, or that of the key."""
        self._used |= {n for n, one in enumerate(self._workspaces) if key in (None, one.key)}

    def restore(self) -> None:
        """Make the workspaces that were used what they were once prepared. Raises SandboxError."""
        while self._used:
            number = min(self._used)
            workspace = self._workspaces[number]
            lever = path("/snapshots/{id}/restore", id=self._snapshots[number])
            try:
                workspace.ask("POST", lever)
            except SandboxError as error:
                if error.status != _NOT_FOUND:
                    raise
                self._begin_again(number)  # the fuzzer has deleted the snapshot
            self._used.remove(number)

    def _begin_again(self, number: int) -> None:
        self._workspaces[number].ask("POST", "/reset")
        if number == 0:
            self._send()
        self._remember(number)

    def _send(self) -> list[Any]:
        return [self._answer(name, step) for *_, name, step in self._steps]

    def _answer(self, name: str, step: Step) -> Any:
        try:
            return self._workspaces[0].answer(step.method, step.path, step.body)
        except SandboxError as error:
            words = f"{name}: {step.method} {step.path} is to prepare it: {error}"
            raise SandboxError(words, error.status, error.code) from None

    def _remember(self, number: int) -> None:
        self._snapshots[number] = self._workspaces[number].ask("POST", "/snapshots")["id"]


def _at(answer: Any, pointer: str, name: str) -> Any:
    found = answer
    try:
        for part in pointer.split("/")[1:]:
            found = found[int(part)] if isinstance(found, list) else found[part]
    except (LookupError, TypeError, ValueError):
        raise SandboxError(f"{name}: what prepares it was answered without {pointer}") from None
    return found


def _offer(name: str, raw: dict[str, Any], parameter: str, value: Any) -> None:
    one = next((one for one in raw.get("parameters", ()) if one.get("name") == parameter), None)
    if one is None:
        raise DocumentError(f"{name}: {SETUP} keeps {parameter}, which is no parameter of it")
    one.pop("example", None)
    one["examples"] = {**one.get("examples", {}), "prepared": {"value": value}}
