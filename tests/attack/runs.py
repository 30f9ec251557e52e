"""Runs of attacks against servers of their own, and what they cost."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.attack.corpus import ATTACKS, DOCUMENTS, Attack, Target
from tests.hostile.wire import Process, process

_MEBIBYTE = 1024 * 1024
_SECONDS_TO_LOAD = 5
_MAX_LEFT = 1.5
"""Memory once the workspace is deleted, as a multiple of that before the attack."""

_MAX_LEFT_TOGETHER = 2
"""The same after all attacks at once: what allocators keep of them differs from run to run."""

_MAX_P99 = 250
"""Milliseconds in which 99 of 100 requests of honest workspaces have a response. If the machine is
so busy that they take long without an attack, too: _MAX_SLOWER times as long."""

_MAX_SLOWER = 10

_SECONDS_TO_WARM = 2
_SECONDS_TOGETHER = 8
_SECONDS_TO_REST = 30
_NO_START = 2
_HERE = Path(__file__).parents[2]
_SERVE = (sys.executable, "-m", "invoice_sandbox", "serve", "--port", "0")


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
def served(folder: Path, *options: str) -> Iterator[Process]:
    """A server for one attack."""
    with process(folder / "log", "invoice_sandbox", "serve", "--port", "0", *options) as server:
        server.ask("GET", "/openapi.json")
        yield server


def _options(attack: Attack, folder: Path) -> tuple[str, ...]:
    if attack.document is None:
        return (*_OPEN, *attack.options)
    (folder / "openapi.json").write_text(json.dumps(attack.document))
    return ("--contract", str(folder / "openapi.json"), *attack.options)


_OPEN = ("--rate-limit", "off", "--scenario", "auto-progress")


@contextmanager
def beside(server: Process, module: str, found: list[str]) -> Iterator[None]:
    """Another client meanwhile, in a process; ``found`` gets what it prints at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", module, str(server.port), str(server.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_HERE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        yield
        found.append(client.communicate("")[0])


def _at_rest(server: Process, idle: int) -> int:
    """The memory of the server once it has given back what it can, or after a while."""
    end = time.monotonic() + _SECONDS_TO_REST
    while (left := server.resident()) > _MAX_LEFT * idle and time.monotonic() < end:
        time.sleep(0.2)
    return left


@dataclass(frozen=True)
class Run:
    """One run of an attack: statuses of its responses, seconds of CPU time, bytes of memory at its
    end and more than at its begin, and the status of the deletion of its workspace."""

    statuses: list[int]
    seconds: float
    memory: int
    more: int
    deleted: int


def new_workspace(server: Process) -> tuple[str, str]:
    """The id and the key of a new workspace."""
    made = json.loads(server.ask("POST", "/sandbox/workspaces", body=b"{}").body)
    made = made.get("data", made)
    return made["id"], made["key"]


def run_of(attack: Attack, server: Process, stalls: list[str]) -> Run:
    """Run an attack in a workspace of its own, then delete the workspace."""
    workspace, key = new_workspace(server)
    before, at_begin = cpu_seconds(server), server.resident()
    with beside(server, "tests.attack.probe", stalls):
        statuses = attack.run((server, key))
    seconds, memory = cpu_seconds(server) - before, server.resident()
    return Run(statuses, seconds, memory, memory - at_begin, _delete(server, workspace))


def result_of(attack: Attack, folder: Path, count: int) -> Result:
    """Run one attack ``count`` times, one after the other."""
    stalls: list[str] = []
    with served(folder, *_options(attack, folder)) as server:
        idle = server.resident()
        runs = [run_of(attack, server, stalls) for _ in range(count)]
        after = _at_rest(server, idle)
        is_quiet = "Traceback" not in server.log.read_text()
    statuses = [status for one in runs for status in one.statuses]
    seconds, memory = median(one.seconds for one in runs), max(one.memory for one in runs)
    stall, more = median(map(float, stalls)), max(one.more for one in runs)
    return Result(
        attack.name,
        len(statuses),
        _named(
            {
                f"statuses {sorted({*statuses} - attack.expected)}": not attack.expected.issuperset(
                    statuses
                ),
                f"{seconds:.1f} s of CPU": seconds > attack.seconds,
                f"a stall of {stall:.0f} ms": stall > attack.stall,
                f"{more // _MEBIBYTE} MiB": more > attack.mebibytes * _MEBIBYTE,
                "a workspace could not be deleted": any(one.deleted != 200 for one in runs),
                f"{after // _MEBIBYTE} MiB after its end": after > _MAX_LEFT * idle,
                "a traceback": not is_quiet,
            }
        ),
        f"{stall:.0f}",
        seconds,
        _memory(idle, memory, after),
    )


def together(folder: Path) -> Result:
    """All attacks at once, again and again, on one workspace beside ten honest ones.

    The memory before is that of a server which has sent webhooks: that loads libraries for good.
    """
    found: list[str] = []
    with served(folder, *_OPEN) as server:
        workspace, key = new_workspace(server)
        with _attacked_again_and_again((server, key)):
            time.sleep(_SECONDS_TO_WARM)
        _delete(server, workspace)
        with beside(server, "tests.attack.honest", found):
            time.sleep(_SECONDS_TO_WARM)
        control = json.loads(found.pop())
        deleted = [_delete(server, one) for one in control["workspaces"]]
        time.sleep(_SECONDS_TO_WARM)
        idle, before = server.resident(), cpu_seconds(server)
        workspace, key = new_workspace(server)
        with (
            beside(server, "tests.attack.honest", found),
            _attacked_again_and_again((server, key)),
        ):
            time.sleep(_SECONDS_TOGETHER)
        seconds, memory = cpu_seconds(server) - before, server.resident()
        honest = json.loads(found[0])
        deleted += [_delete(server, one) for one in (workspace, *honest["workspaces"])]
        after = _at_rest(server, idle)
        is_quiet = "Traceback" not in server.log.read_text()
    most = max(_MAX_P99, _MAX_SLOWER * control["p99"])
    problems = {
        f"lost {honest['lost'][:2]}": bool(honest["lost"]),
        f"a p99 of {honest['p99']:.0f} ms": honest["p99"] > most,
        "a workspace could not be deleted": {*deleted} != {200},
        f"{after // _MEBIBYTE} MiB after its end": after > _MAX_LEFT_TOGETHER * idle,
        "a traceback": not is_quiet,
    }
    return Result(
        "ten workspaces beside all at once",
        honest["sent"],
        _named(problems),
        f"p99: {control['p99']:.0f} → {honest['p99']:.0f}",
        seconds,
        _memory(idle, memory, after),
    )


def _delete(server: Process, workspace: str) -> int:
    return server.ask("DELETE", f"/sandbox/workspaces/{workspace}").status


@contextmanager
def _attacked_again_and_again(target: Target) -> Iterator[None]:
    """Meanwhile every attack on the project, all at once and each as often as it can."""
    attacks = [one for one in ATTACKS if one.document is None]
    processes = [
        multiprocessing.Process(target=_repeat, args=(one, target), daemon=True) for one in attacks
    ]
    for one in processes:
        one.start()
    yield
    for one in processes:
        one.kill()
        one.join()


def _repeat(attack: Attack, target: Target) -> None:
    while True:
        with suppress(EOFError, TimeoutError):  # what others have used up is rejected
            attack.run(target)


def _named(problems: dict[str, bool]) -> str:
    return ", ".join(text for text, is_true in problems.items() if is_true)


def _memory(*sizes: int) -> str:
    return " → ".join(str(one // _MEBIBYTE) for one in sizes)


def loaded(name: str, folder: Path) -> Result:
    """Try to serve a document that cannot be served as it is."""
    file = folder / "api" / "openapi.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(DOCUMENTS[name]))
    (folder / "outside.json").write_text('{"const": "a secret of the machine"}')
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [*_SERVE, "--strict", "--contract", str(file)],
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
        "a secret": "a secret of the machine" in ended.stdout + ended.stderr,
        f"{seconds:.1f} s of CPU": seconds > _SECONDS_TO_LOAD,
    }
    return Result(f"start: {name}", 1, _named(problems), "", seconds, "")


def results(count: int, *, is_bounded: bool = False) -> Iterator[Result]:
    """Every attack ``count`` times, one after the other.

    Bounded: once, and ``count`` times only if it broke something then.
    """
    with TemporaryDirectory() as folder:
        for attack in ATTACKS:
            first = result_of(attack, Path(folder), 1) if is_bounded else None
            yield first if first and not first.broke else result_of(attack, Path(folder), count)
        yield together(Path(folder))
        for name in DOCUMENTS:
            yield loaded(name, Path(folder))
