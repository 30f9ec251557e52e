"""Runs the sessions of docs/clients.md, each in a folder of its own, all with one sandbox.

``python -m tests.clients.page`` brings the outputs of the page up to date.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.interop.node import MODULES
from tests.readme import commands, with_outputs
from tests.receivers import free_port
from tests.testing_docs import environment
from tests.webhook_docs import serving

PAGE: Final = Path(__file__).parents[2] / "docs" / "clients.md"
PYTHON: Final = "Python client"
TYPESCRIPT: Final = "TypeScript client"
PROXY: Final = "Validating proxy with Prism"
SESSIONS: Final = (PYTHON, TYPESCRIPT, PROXY)
"""The headings of the sections that have one."""

_SERVED: Final = ("--clock", "frozen", "--rate-limit", "off", "--seed", "7")
_URL: Final = "http://127.0.0.1:8080"
_PROXY_PORT: Final = "4010"
_FILE: Final = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK: Final = "--- end of output ---"
_PATIENCE: Final = 60
_CHANCE: Final = (
    (re.compile(r"\[\d+(\.\d+)?m?s\]"), "[300ms]"),
    (re.compile(r"req_sandbox_[0-9A-Z]{26}"), "req_sandbox_01M7YQ1WE0TE08S8FPFBZ7VH0G"),
)


def section(page: str, heading: str) -> str:
    """The part of the page under a heading, up to the next one."""
    found = re.search(rf"^## {heading}$.*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found.group()


def played(page: str, headings: Sequence[str] = SESSIONS) -> str:
    """The page with what the commands of these sections print now, one section after the other."""
    with serving(*_SERVED) as url:
        for heading in headings:
            part = section(page, heading)
            with _folder(part) as folder:
                for name, text in _FILE.findall(part):
                    (folder / name).write_text(text.replace(_URL, url))
                page = page.replace(part, with_outputs(part, _outputs(part, folder, url)))
    return page


@contextlib.contextmanager
def _folder(part: str) -> Iterator[Path]:
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        if "npx" in part:
            (folder / "node_modules").symlink_to(MODULES)
        yield folder


def _outputs(part: str, folder: Path, url: str) -> list[str]:
    """What each command prints. Nothing that the commands have started is left behind."""
    bash, port = shutil.which("bash"), str(free_port())
    assert bash, "the sessions of the documentation are written for bash"
    script = "".join(f"{command}\necho\necho '{_MARK}'\n" for command in commands(part))
    script = script.replace(_URL, url).replace(_PROXY_PORT, port)
    quiet = {"NPM_CONFIG_LOGLEVEL": "error", "INVOICE_SANDBOX_URL": url}
    with subprocess.Popen(
        [bash, "-eu"],
        cwd=folder,
        env=environment(Path(sys.executable).parent) | quiet,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(script, timeout=_PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, f"the session broke off after:\n{printed}"
    printed = printed.replace(url, _URL).replace(port, _PROXY_PORT).replace(f"{folder}/", "")
    for pattern, usual in _CHANCE:
        printed = pattern.sub(usual, printed)
    return [output.strip("\n") for output in printed.split(f"{_MARK}\n")[:-1]]


def main() -> None:
    """Write the page as it should be now."""
    PAGE.write_text(played(PAGE.read_text()))


if __name__ == "__main__":
    main()
