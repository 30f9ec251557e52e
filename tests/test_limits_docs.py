"""The limits of docs/limits.md that a setting changes are those of the settings."""

from __future__ import annotations

import re
from pathlib import Path

from invoice_sandbox.settings import SETTINGS
from tests.cases import in_turn

_PAGE = (Path(__file__).parents[1] / "docs" / "limits.md").read_text()
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _PAGE.splitlines()
    if line.startswith("| ")
]
_WITH_SETTING = {
    (row[0], setting): row[1]
    for row in _ROWS
    if len(row) > 3
    for setting in re.findall(r"^`--([a-z-]+)`$", row[3])
}


@in_turn(("row", "setting"), _WITH_SETTING)
def test_a_limit_is_the_default_of_its_setting(row: str, setting: str) -> None:
    default = next(one.default for one in SETTINGS if one.name == setting)
    assert f"{int(str(default)):,}" in _WITH_SETTING[row, setting].split()
