"""The applications of docs/acceptance-apps.md, with the clients that ``new-client`` writes."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from invoice_sandbox.acceptance.process import listens
from invoice_sandbox.project.loader import default_project
from tests.interop.node import MODULES, needed_node

PAGE: Final = Path(__file__).parents[2] / "docs" / "acceptance-apps.md"
_PATIENCE: Final = 30


@contextmanager
def running(framework: str, folder: Path) -> Iterator[str]:
    """The URL of an application of the page, written to a folder, while it runs."""
    language = "typescript" if framework == "express" else "python"
    shutil.copytree(default_project() / "acceptance" / "clients" / language, folder)
    name, text = _adapter(framework)
    (folder / name).write_text(text)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = _command(framework, port)
    if framework == "express":
        (folder / "node_modules").symlink_to(MODULES)
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command, cwd=folder, env={**os.environ, "PORT": str(port)}, stdout=log, stderr=log
        ) as process,
    ):
        try:
            _wait(process, port, folder)
            yield f"http://localhost:{port}"
        finally:
            process.kill()


def _adapter(framework: str) -> tuple[str, str]:
    """The name and the text of an adapter of the page."""
    found = re.search(
        rf"<!-- file: {framework}/(\S+) -->\n```\w+\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert found is not None, framework
    assert found[2].count("\n") - found[2].count("\n\n") <= 30, framework
    return found[1], found[2]


def _command(framework: str, port: int) -> list[str | Path]:
    commands: dict[str, list[str | Path]] = {
        "flask": ["-m", "flask", "--app", "application", "run", "--port", str(port)],
        "fastapi": ["-m", "uvicorn", "application:app", "--port", str(port)],
    }
    if framework == "express":
        return [needed_node(), "application.ts"]
    return [sys.executable, *commands[framework]]


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while not listens(port):
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until, (folder / "log").read_text()
        time.sleep(0.05)
