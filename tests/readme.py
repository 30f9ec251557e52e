"""Runs the terminal sessions of a Markdown page, and writes what really came out.

``python -m tests.readme`` brings the outputs in README.md up to date.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.support import FROZEN, serving

README: Final = Path(__file__).parent.parent / "README.md"
_URL_IN_DOCS: Final = "http://127.0.0.1:8080"
SERVED: Final = replace(FROZEN, scenario=None)
"""What the page says it runs with: the defaults, a seed, and a frozen clock."""

_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK: Final = "--- end of output ---"


def commands(page: str) -> list[str]:
    """Every command of the page's console blocks, in order."""
    blocks = "".join(match.group(1) for match in _BLOCK.finditer(page))
    return [line.removeprefix("$ ") for line in blocks.splitlines() if line.startswith("$ ")]


def outputs(page: str, url: str) -> list[str]:
    """What each command prints, in one shell session against the server at ``url``."""
    script = "".join(f"{command}\necho\necho '{_MARK}'\n" for command in commands(page))
    bash = shutil.which("bash")
    assert bash, "the sessions of the documentation are written for bash"
    finished = subprocess.run(
        [bash, "-eu"],
        input=script.replace(_URL_IN_DOCS, url),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    printed = finished.stdout.replace(url, _URL_IN_DOCS).split(f"{_MARK}\n")
    return [output.strip("\n") for output in printed[:-1]]


def with_outputs(page: str, printed: list[str]) -> str:
    """The page with ``printed`` in the place of the outputs it shows."""
    rest = iter(printed)

    def block(match: re.Match[str]) -> str:
        shown = []
        for line in match.group(1).splitlines():
            if line.startswith("$ "):
                output = next(rest)
                shown += [line, output] if output else [line]
        return "```console\n" + "\n".join(shown) + "\n```"

    return _BLOCK.sub(block, page)


def without_chance(page: str) -> str:
    """The page with everything that comes from the machine's randomness made equal."""
    page = re.sub(r"ilk_sandbox_(?!DemoKey)[0-9A-Za-z]{36}", "ilk_sandbox_RANDOM", page)
    page = re.sub(r'"last4":"[^"]{4}"', '"last4":"ABCD"', page)
    return re.sub(r"req_sandbox_[0-9A-Z]{26}", "req_sandbox_RANDOM", page)


def main() -> None:
    """Rewrite README.md with what its commands print now."""
    page = README.read_text()
    with serving(SERVED) as running:
        README.write_text(with_outputs(page, outputs(page, running.url)))


if __name__ == "__main__":
    main()
