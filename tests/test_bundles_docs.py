"""docs/bundles.md: its session prints what the page shows, and its table has every part."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from invoice_sandbox.bundles import archive
from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.cli import main
from tests.readme import SERVED, commands, with_outputs
from tests.support import serving

PAGE = (Path(__file__).parents[1] / "docs" / "bundles.md").read_text()


def test_the_page_shows_what_its_commands_print_and_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, *lines, compared, last = re.findall(r"^(?:\$ )?invoice-sandbox (.*)", PAGE, re.MULTILINE)
    assert first == "serve --clock frozen --seed 7"  # which is SERVED
    assert compared == "bundle compare before.zip after.zip"  # as test_alignment.py does
    with serving(SERVED) as server:
        runner = CliRunner(env={"INVOICE_SANDBOX_URL": server.url})
        ran = [runner.invoke(main, line.split()) for line in lines]
    assert [one.exit_code for one in ran] == [0] * len(commands(PAGE))
    assert with_outputs(PAGE, [one.output.strip("\n") for one in ran]) == PAGE
    judged = CliRunner().invoke(main, last.split())
    assert (judged.exit_code, Path("report/report.json").exists()) == (1, True)
    assert re.search(r"^INCONCLUSIVE: \d+ INCONCLUSIVE; ", judged.stdout, re.MULTILINE)
    parts = {re.sub(r"/.*\.", "/NAME.", name) for name in read_bundle(Path("bug.zip")).parts}
    table = PAGE.partition("## Content")[2].partition("\n\nThe bundle")[0]
    first_column = "".join(re.findall(r"^\|[^|]*\|", table, re.MULTILINE))
    shown = re.findall(r"`([^`]+\.[a-z]+)`", first_column)
    assert sorted(shown) == sorted([*parts, archive.MANIFEST])


def test_the_page_has_the_limits() -> None:
    mebibytes = [one // 2**20 for one in (archive.MAX_FILE, archive.MAX_PART, archive.MAX_CONTENT)]
    text = " ".join(PAGE.split())
    assert mebibytes == [32, 16, 64]
    assert f"at most 32 MiB, {archive.MAX_PARTS} parts, 16 MiB for a part, and 64 MiB" in text
