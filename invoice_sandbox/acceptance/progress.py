"""A run as the control API shows it: its checks, what it waits for, its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final

from invoice_sandbox.conformance.plan import Case, Check, Plan
from invoice_sandbox.control.client import ControlClient, SandboxError, path

_RUNS: Final = "/acceptance/runs"


class Progress:
    """Reports a run to the server. A report that does not arrive does not stop the run."""

    def __init__(self, plan: Plan, checks: Sequence[Check], control: ControlClient) -> None:
        """Announce the run. Raises SandboxError."""
        self._control = control
        self._lock = Lock()
        self._tasks = 0
        self._shown: dict[str, Any] = {
            "plan": plan.name,
            "state": "running",
            "verdict": None,
            "waitingFor": None,
            "checks": [
                {
                    "id": check.id,
                    "level": check.level,
                    "proves": check.proves,
                    "state": "waiting",
                    "verdict": None,
                    "summary": None,
                }
                for check in checks
            ],
        }
        self.id = str(control.ask("POST", _RUNS, self._shown)["id"])
        self._place = path(f"{_RUNS}/{{id}}", id=self.id)

    def begin(self, check: Check, _case: Case) -> None:
        """A case of the check runs now."""
        self._change(check.id, {"state": "running"})

    def finish(self, check: Check, verdict: str, summary: str, report: Mapping[str, Any]) -> None:
        """The check has a verdict; ``report`` has all that are finished."""
        with self._lock:
            self._shown["report"] = report
        self._change(check.id, {"state": "finished", "verdict": verdict, "summary": summary})

    def end(self, report: Mapping[str, Any]) -> None:
        """The run is over."""
        with self._lock:
            state, verdict = report["state"], report["verdict"]
            self._shown |= {"state": state, "verdict": verdict, "report": report}
            self._send()

    def keep(self, bundle: bytes) -> None:
        """Keep the bundle of the run, which is over."""
        with suppress(SandboxError):
            self._control.ask("PUT", f"{self._place}/bundle", bundle)

    def wait_for(self, task: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The client must do a task; None: it need not do anything. Returns it with its number."""
        with self._lock:
            self._tasks += task is not None
            self._shown["waitingFor"] = None if task is None else {"task": self._tasks, **task}
            self._send()
            return self._shown["waitingFor"] or {}

    def reported(self, task: int) -> str | None:
        """Return what the client has reported about the task. Raises SandboxError."""
        found = self._control.ask("GET", self._place)["reported"]
        return found["state"] if found is not None and found["task"] == task else None

    def _change(self, check_id: str, members: Mapping[str, Any]) -> None:
        with self._lock:
            for check in self._shown["checks"]:
                if check["id"] == check_id and check["state"] != "finished":
                    check.update(members)
            self._send()
            self._shown.pop("report", None)

    def _send(self) -> None:
        with suppress(SandboxError):
            self._control.ask("PUT", self._place, self._shown)
