"""README and tutorial are executed: their sessions print what the pages show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.readme import PAGES, PICTURE, README, commands, picture, played, without_chance


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("bash")), reason="needs curl and bash: install them"
)
@pytest.mark.parametrize("file", PAGES, ids=lambda one: one.stem)
@pytest.mark.process
def test_the_session_of_a_page_prints_what_the_page_shows(file: Path) -> None:
    page = file.read_text()
    assert without_chance(played(page)) == without_chance(page)


def test_the_sessions_cover_the_main_operations() -> None:
    walked = "\n".join(line for file in PAGES for line in commands(file.read_text()))
    for path in ("api-keys", "fingerprint", "clock advance", "offers", "transition", "fault add"):
        assert path in walked
    assert "audit-log" in walked


def test_the_readme_is_short_and_begins_with_its_picture() -> None:
    page = README.read_text()
    assert len(page.splitlines()) <= 150
    before, _, _ = page.partition(f"]({PICTURE.relative_to(README.parent)})")
    assert before != page
    assert len(before.splitlines()) < 10


def test_the_picture_shows_the_session_and_loads_nothing() -> None:
    drawn = PICTURE.read_text()
    assert drawn == picture(README.read_text()), "run python -m tests.readme"
    assert re.findall(r"@import|<script|<image|url\((?!#)", drawn) == []


@pytest.mark.parametrize("how", ["pip install .", "make run", "make test"])
def test_the_readme_shows_every_way_to_start(how: str) -> None:
    assert how in README.read_text()
