"""The verdicts on the client in the workspace of a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.control.client import ControlClient, SandboxError, path

__tracebackhide__ = True  # a failed test shows the line that it is about


class Verdicts:
    """The verdicts on the client of a workspace."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    def __repr__(self) -> str:
        return f"Verdicts({self._control.url!r})"

    @property
    def all(self) -> list[dict[str, Any]]:
        """Each verdict as ``GET /sandbox/verdicts`` shows it, broken ones first."""
        return list(self._control.ask("GET", "/verdicts"))

    def provoke(self, check: str) -> dict[str, Any]:
        """Arm what shows if the client keeps a check; ``next`` is what the client must do."""
        return dict(self._control.ask("POST", path("/verdicts/{id}/provoke", id=check)))

    def assert_kept(self, *checks: str) -> None:
        """Raise AssertionError with the exchanges if the client broke one of the checks.

        Without ``checks``, none may be broken. A check that is named must have been seen, too.
        Raises SandboxError for one that there is not, and if the project has none.
        """
        found = {verdict["check"]: verdict for verdict in self.all}
        if not found:
            raise SandboxError("the project has no acceptance plan with invariants")
        for check in checks:
            if check not in found:
                raise SandboxError(f"there is no check '{check}' ({suggestion(check, found)})")
        wrong = [
            _text(verdict)
            for name, verdict in found.items()
            if verdict["verdict"] == "broken" or (name in checks and verdict["verdict"] != "kept")
            if name in checks or not checks
        ]
        if wrong:
            raise AssertionError("\n".join(wrong))


def _text(verdict: Mapping[str, Any]) -> str:
    name, requirement = verdict["check"], verdict["requirement"]
    if verdict["verdict"] != "broken":
        return f"{name} was not seen: {verdict['found'] or requirement}"
    lines = [
        f"  {entry['at']} {entry['line']} ({entry.get('requestId') or entry['deliveryId']})"
        for entry in verdict["exchanges"]
    ]
    advice = [f"  {verdict['advice']}"] if verdict["advice"] else []
    return "\n".join([f"{name}: {requirement} {verdict['found']}", *lines, *advice])
