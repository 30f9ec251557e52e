"""Runs the terminal sessions of Markdown pages, and writes what really came out.

``python -m tests.readme`` updates the outputs in README.md, docs/tutorial.md and docs/stateful.md,
and the picture of the README's session.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support import FROZEN, LONG_PATIENCE, serving

README: Final = Path(__file__).parent.parent / "README.md"
TUTORIAL: Final = README.parent / "docs" / "tutorial.md"
STATEFUL: Final = README.parent / "docs" / "stateful.md"
PAGES: Final = (README, TUTORIAL, STATEFUL)
PICTURE: Final = README.parent / "docs" / "pictures" / "terminal.svg"
_IN_PICTURE: Final = ("/api/invoices -d", "clock advance", "inbox | tail")
"""Parts of the commands that the picture shows with their outputs."""

_WEB_FONT: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""The picture loads nothing from the network."""

_URL_IN_DOCS: Final = "http://127.0.0.1:8080"
SERVED: Final = replace(FROZEN, scenario=None)
"""What the pages say they run with: the defaults, a seed, and a frozen clock."""

FILE: Final = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK: Final = "--- end of output ---"
_BIN: Final = Path(sys.executable).parent


def commands(page: str) -> list[str]:
    """Every command of the page's console blocks, in order."""
    blocks = "".join(match.group(1) for match in _BLOCK.finditer(page))
    return [line.removeprefix("$ ") for line in blocks.splitlines() if line.startswith("$ ")]


def outputs(page: str, url: str, folder: Path | None = None) -> list[str]:
    """What each command prints, in one shell session against the server at ``url``.

    The session runs in ``folder``, by default the current one.
    """
    script = "".join(f"{command}\necho\necho '{_MARK}'\n" for command in commands(page))
    bash = shutil.which("bash")
    assert bash, "the sessions of the documentation are written for bash"
    path = f"{_BIN}{os.pathsep}{os.environ['PATH']}"
    finished = subprocess.run(
        [bash, "-eu"],
        input=script.replace(_URL_IN_DOCS, url),
        env=os.environ | {"PATH": path, "INVOICE_SANDBOX_URL": url},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=LONG_PATIENCE,
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
    page = re.sub(r"curl/[0-9.]+", "curl/VERSION", page)
    return re.sub(r"req_sandbox_[0-9A-Z]{26}", "req_sandbox_RANDOM", page)


def played(page: str) -> str:
    """The page with what its commands print, in a folder with its files, against a server of its
    own: of the document that it has, with state, or of the project."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        written = write_files(page, folder)
        settings = replace(SERVED, contract=written[0], stateful=True) if written else SERVED
        with serving(settings) as running:
            return with_outputs(page, outputs(page, running.url, folder))


def write_files(page: str, folder: Path) -> list[Path]:
    """Write the files of the page into a folder."""
    written = []
    for name, text in FILE.findall(page):
        written.append(folder / name)
        written[-1].parent.mkdir(parents=True, exist_ok=True)
        written[-1].write_text(text)
    return written


def picture(page: str) -> str:
    """Those commands of the page that the picture shows, with their outputs, as SVG."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=120, file=nowhere, force_terminal=True)
        for line in _recorded(page):
            style = "bold bright_green" if line.startswith("$ ") else ""
            console.print(Text(line, style=style))
        title = "invoice-sandbox serve --clock frozen --seed 7"
        drawn = console.export_svg(title=title, theme=MONOKAI, unique_id="session")
    return _WEB_FONT.sub("", drawn)


def _recorded(page: str) -> Iterator[str]:
    shown = False
    for line in "".join(match.group(1) for match in _BLOCK.finditer(page)).splitlines():
        if line.startswith("$ "):
            if shown:
                yield ""
            shown = any(part in line for part in _IN_PICTURE)
        if shown:
            yield line


def main() -> None:
    """Rewrite the pages with what their commands print now, and draw the picture."""
    for file in PAGES:
        file.write_text(played(file.read_text()))
    PICTURE.write_text(picture(README.read_text()))


if __name__ == "__main__":
    main()
