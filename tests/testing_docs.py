"""Runs what docs/testing.md shows: its files are written into a folder, its commands run there.

``python -m tests.testing_docs`` brings the outputs of the page up to date.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.readme import commands, with_outputs
from tests.support import LONG_PATIENCE

PAGE: Final = Path(__file__).parents[1] / "docs" / "testing.md"
_FILE: Final = re.compile(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANCE: Final = (
    (re.compile(r"\bin \d+\.\d+s"), "in 1.30s"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:41234"),
)
_OF_A_USER: Final = re.compile(r"HOME|TMPDIR|LANG|LC_\w+|SSL_\w+|\w+_proxy|\w+_PROXY")
"""Variables that a command of the page sees. With CI=true, for one, pytest would print more."""

_PLACE: Final = re.compile(r"^\S*/(?=testing/)", re.MULTILINE)
_WITHOUT: Final = "-p no:schemathesis -p no:hypothesispytest -p no:anyio -p no:platformdirs"
"""Plugins of this environment that the page does not use, and that take seconds to import."""


def files(page: str) -> dict[str, str]:
    """The files of the page, by name."""
    return dict(_FILE.findall(page))


def write_files(page: str, folder: Path) -> None:
    """Write the files of the page into a folder."""
    for name, text in files(page).items():
        (folder / name).write_text(text)


def environment(bin_folder: Path) -> dict[str, str]:
    """That of a user in whose environment ``bin_folder`` comes first: nothing of ours is in it."""
    kept = {name: text for name, text in os.environ.items() if _OF_A_USER.fullmatch(name)}
    path = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
    return kept | {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": _WITHOUT}


def output(command: str, folder: Path, env: Mapping[str, str]) -> str:
    """What a command prints, in order, with chance taken out; its status is not looked at."""
    bash = shutil.which("bash")
    assert bash, "the sessions of the documentation are written for bash"
    done = subprocess.run(
        [bash, "-c", command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONG_PATIENCE,
    )
    return without_chance(done.stdout).strip("\n")


def without_chance(printed: str) -> str:
    """What pytest prints, without times, ports, and where the sandbox is installed."""
    for pattern, usual in _CHANCE:
        printed = pattern.sub(usual, printed)
    return _PLACE.sub("", printed)


def played(page: str, bin_folder: Path) -> str:
    """The page with what its commands print when the tools are those of ``bin_folder``."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_files(page, folder)
        env = environment(bin_folder)
        printed = [output(command, folder, env) for command in commands(page)]
    return with_outputs(page, printed)


def main() -> None:
    """Write the page as it should be now."""
    PAGE.write_text(played(PAGE.read_text(), Path(sys.executable).parent))


if __name__ == "__main__":
    main()
