"""One run of Schemathesis as a process of its own, watched while it works."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from invoice_sandbox.fuzzing.display import Display
from invoice_sandbox.fuzzing.record import KEYS_VARIABLE, RECORD_VARIABLE, Call, Finding, Reader

_FIXED: Final = (
    "--checks=all",
    "--mode=all",
    "--continue-on-failure",
    "--workers=1",
    "--generation-database=none",
    # A generated X-API-Key beside our own key is a second, different credential: 401 is correct.
    # The check ignored_auth tries every scheme without a credential and with a wrong one anyway.
    "--generation-with-security-parameters=false",
    # The speed of the machine is not under test.
    "--suppress-health-check=too_slow",
    # The key is a throw-away one, and a masked curl command cannot be run.
    "--output-sanitize=false",
    "--no-color",
)
"""Options of every run."""

_LOOK_SECONDS: Final = 0.2
_SECONDS_TO_STOP: Final = 15


@dataclass(frozen=True)
class Run:
    """A run of Schemathesis: the contract and server, the keys, and the headers that carry them. No
    ``operations`` means all; ``has_links`` is whether links connect them. ``seconds`` None means
    no limit."""

    url: str
    contract: str
    credentials: Mapping[str, Mapping[str, str]] = field(repr=False)
    seed: int
    max_examples: int
    seconds: int | None
    operations: Sequence[str]
    has_links: bool


@dataclass(frozen=True)
class Recorded:
    """The result of a run. ``output`` is the output of Schemathesis."""

    exit_code: int
    output: str
    calls: Sequence[Call]
    findings: Sequence[Finding]


def run(order: Run, directory: Path, display: Display) -> Recorded:
    """Run Schemathesis in an empty directory. An interrupt stops Schemathesis too."""
    record, output = directory / "record.ndjson", directory / "output.txt"
    _write_users(order.credentials.values(), directory)
    calls: list[Call] = []
    found: list[Finding] = []
    with closing(Reader(record)) as reader, _schemathesis(order, directory, record, output) as it:
        while True:
            is_over = _has_ended(it)
            lines = reader.new()
            display.show(lines)
            calls += [line for line in lines if isinstance(line, Call)]
            found += [line for line in lines if isinstance(line, Finding)]
            if is_over:
                break
    return Recorded(it.returncode, output.read_text(errors="replace"), calls, found)


def _write_users(credentials: Iterable[Mapping[str, str]], directory: Path) -> None:
    """Configure one user per workspace in Schemathesis; none may read the data of another."""
    users = [
        {
            "name": f"workspace-{number}",
            "fixedHeaders": [{"name": name, "value": value} for name, value in headers.items()],
        }
        for number, headers in enumerate(credentials, 1)
    ]
    names = [user["name"] for user in users]
    (directory / "users.json").write_text(json.dumps({"auth": users}))
    (directory / "schemathesis.toml").write_text(
        f"[auth.wfc]\npath = 'users.json'\npeers = {json.dumps(names)}\n"
    )


@contextmanager
def _schemathesis(
    order: Run, directory: Path, record: Path, output: Path
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "invoice_sandbox.fuzzing.hooks",
        "INVOICE_SANDBOX_URL": order.url,
        KEYS_VARIABLE: " ".join(order.credentials),
        RECORD_VARIABLE: str(record),
    }
    with output.open("w") as printed:
        process = subprocess.Popen(  # noqa: S603 - a tool of ours, with checked options
            [sys.executable, "-m", "schemathesis.cli", "run", *_arguments(order)],
            # A separate directory: the cache of Schemathesis must not influence the next run.
            cwd=directory,
            env=environment,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the command, which then stops it
        )
    try:
        yield process
    finally:
        _stop(process)


def _arguments(order: Run) -> list[str]:
    # Schemathesis rejects operations that are chosen without those that they link to.
    has_sequences = order.has_links or not order.operations
    phases = "examples,coverage,fuzzing" + (",stateful" if has_sequences else "")
    return [
        order.url + order.contract,
        *_FIXED,
        f"--phases={phases}",
        f"--max-examples={order.max_examples}",
        f"--seed={order.seed}",
        # The origin, because a contract may name servers that are not ours to fuzz.
        f"--origin={order.url}",
        *([f"--max-time={order.seconds}"] if order.seconds else []),
        *(f"--include-operation-id={name}" for name in order.operations),
    ]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
