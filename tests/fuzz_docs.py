"""Does what docs/fuzzing.md shows in its order: writes its files into a folder, runs its commands.

``python -m tests.fuzz_docs`` brings the outputs of the page up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.readme import FILE, commands, with_outputs, write_files
from tests.testing_docs import environment, output

PAGE: Final = Path(__file__).parents[1] / "docs" / "fuzzing.md"
_PART: Final = re.compile(rf"{FILE.pattern}|^```console\n.*?^```$", FILE.flags)
_CHANCE: Final = (
    (re.compile(r"ilk_sandbox_\w+"), "ilk_sandbox_..."),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:41234"),
)


def parts(page: str) -> Iterator[str]:
    """What a reader of the page does, in its order: each part has one file, or commands."""
    return (found.group() for found in _PART.finditer(page))


def without_chance(printed: str) -> str:
    """What a command prints, without keys and ports."""
    for pattern, usual in _CHANCE:
        printed = pattern.sub(usual, printed)
    return printed


def played(page: str, folder: Path, bin_folder: Path, *options: str) -> str:
    """The page with what its commands print in ``folder`` with the tools of ``bin_folder``.

    A file is written when its turn comes. ``options`` are added to each command.
    """
    env, printed = environment(bin_folder), []
    for part in parts(page):
        write_files(part, folder)
        printed += [output(" ".join([one, *options]), folder, env) for one in commands(part)]
    return with_outputs(page, [without_chance(one) for one in printed])


def main() -> None:
    """Write the page as it should be now."""
    with TemporaryDirectory() as name:
        PAGE.write_text(played(PAGE.read_text(), Path(name), Path(sys.executable).parent))


if __name__ == "__main__":
    main()
