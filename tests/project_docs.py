"""Does what a page shows in its order: writes its files into a folder, runs its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.readme import FILE, commands, with_outputs, write_files
from tests.testing_docs import environment, output

_PART: Final = re.compile(rf"{FILE.pattern}|^```console\n.*?^```$", FILE.flags)


def parts(page: str) -> Iterator[str]:
    """What a reader of the page does, in its order: each part has one file, or commands."""
    return (found.group() for found in _PART.finditer(page))


def played(page: str, folder: Path, bin_folder: Path) -> str:
    """The page with what its commands print in ``folder`` with the tools of ``bin_folder``.

    A file is written when its turn comes.
    """
    env, printed = environment(bin_folder), []
    for part in parts(page):
        write_files(part, folder)
        printed += [output(command, folder, env) for command in commands(part)]
    return with_outputs(page, printed)
