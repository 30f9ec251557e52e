"""Run every attack against a server of its own; print a table. Status 1 if one broke something.

CPU time and memory of the server are bounds; the stall of another connection is printed only,
because it depends on what else the machine does.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from tests.attack.corpus import ATTACKS, DOCUMENTS, Attack
from tests.hostile.wire import Process, process

_MEBIBYTE = 1024 * 1024
_SECONDS_TO_LOAD = 5
_MAX_LEFT = 1.5
"""Memory once the workspace is deleted, as a multiple of that before the attack."""

_SECONDS_TO_REST = 30
_NO_START = 2
_HERE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """What an attack did; ``broke`` is empty if the server held."""

    name: str
    tried: int
    broke: str
    stall: str
    seconds: float
    memory: str


def cpu_seconds(server: Process) -> float:
    """CPU time of a server, user and system."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def attacked(attack: Attack, folder: Path) -> Iterator[Process]:
    """A server for one attack."""
    served = ["--rate-limit", "off", "--scenario", "auto-progress"]
    if attack.document is not None:
        (folder / "openapi.json").write_text(json.dumps(attack.document))
        served = ["--contract", str(folder / "openapi.json")]
    command = ("invoice_sandbox", "serve", "--port", "0", *served)
    command += attack.options
    with process(folder / "log", *command) as server:
        server.ask("GET", "/openapi.json")
        yield server


@contextmanager
def probed(server: Process, stalls: list[str]) -> Iterator[None]:
    """Another client meanwhile; ``stalls`` gets its slowest response in milliseconds."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.attack.probe", str(server.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_HERE,
        text=True,
    ) as probe:
        assert probe.stdout is not None
        assert probe.stdout.readline() == "ready\n"
        yield
        stalls.append(probe.communicate("")[0].strip())


def _at_rest(server: Process, idle: int) -> int:
    """The memory of the server once it has given back what it can, or after a while."""
    end = time.monotonic() + _SECONDS_TO_REST
    while (left := server.resident()) > _MAX_LEFT * idle and time.monotonic() < end:
        time.sleep(0.2)
    return left


def result_of(attack: Attack, folder: Path) -> Result:
    """Run one attack in a workspace, then delete the workspace."""
    stalls: list[str] = []
    with attacked(attack, folder) as server:
        made = json.loads(server.ask("POST", "/sandbox/workspaces", body=b"{}").body)
        made = made.get("data", made)
        idle, before = server.resident(), cpu_seconds(server)
        with probed(server, stalls):
            statuses = attack.run((server, made["key"]))
        seconds, memory = cpu_seconds(server) - before, server.resident()
        deleted = server.ask("DELETE", f"/sandbox/workspaces/{made['id']}").status
        after = _at_rest(server, idle)
        is_quiet = "Traceback" not in server.log.read_text()
    problems = {
        f"statuses {sorted({*statuses} - attack.expected)}": bool({*statuses} - attack.expected),
        f"{seconds:.1f} s of CPU": seconds > attack.seconds,
        f"{(memory - idle) // _MEBIBYTE} MiB": memory - idle > attack.mebibytes * _MEBIBYTE,
        "the workspace could not be deleted": deleted != 200,
        f"{after // _MEBIBYTE} MiB after its end": after > _MAX_LEFT * idle,
        "a traceback": not is_quiet,
    }
    shown = " → ".join(str(one // _MEBIBYTE) for one in (idle, memory, after))
    broke = ", ".join(text for text, is_true in problems.items() if is_true)
    return Result(attack.name, len(statuses), broke, stalls[0], seconds, shown)


def loaded(name: str, folder: Path) -> Result:
    """Try to serve a document that cannot be served."""
    file = folder / "api" / "openapi.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(DOCUMENTS[name]))
    (folder / "outside.json").write_text('{"const": "a secret of the machine"}')
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, "-m", "invoice_sandbox", "serve", "--port", "0", "--contract", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=_HERE,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    problems = {
        f"status {ended.returncode}": ended.returncode != _NO_START,
        "no message": "openapi.json" not in ended.stderr,
        "a traceback": "Traceback" in ended.stderr,
        f"{seconds:.1f} s of CPU": seconds > _SECONDS_TO_LOAD,
    }
    broke = ", ".join(text for text, is_true in problems.items() if is_true)
    return Result(f"start: {name}", 1, broke, "", seconds, "")


def results() -> Iterator[Result]:
    """Every attack, one after the other."""
    with TemporaryDirectory() as folder:
        for attack in ATTACKS:
            yield result_of(attack, Path(folder))
        for name in DOCUMENTS:
            yield loaded(name, Path(folder))


def main() -> int:
    """Print the table; 1 if an attack broke something."""
    table = Table("attack", "tried", "broke", "worst stall, ms", "CPU, s", "memory, MiB")
    found = list(results())
    for one in found:
        row = (one.name, str(one.tried), one.broke or "-", one.stall)
        table.add_row(*row, f"{one.seconds:.2f}", one.memory)
    Console(width=140).print(table)
    return int(any(one.broke for one in found))


if __name__ == "__main__":
    sys.exit(main())
