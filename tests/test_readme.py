"""The README tells the truth: its terminal session is run, and its tables are complete."""

from __future__ import annotations

import shutil

import pytest

from invoice_sandbox.settings import SETTINGS
from tests.readme import README, SERVED, commands, outputs, with_outputs, without_chance
from tests.support import serving


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("bash")), reason="the session needs curl and bash"
)
def test_the_session_of_the_readme_prints_what_the_readme_shows() -> None:
    page = README.read_text()
    with serving(SERVED) as running:
        actual = with_outputs(page, outputs(page, running.url))
    assert without_chance(actual) == without_chance(page)


def test_the_session_goes_from_a_key_to_an_offer_and_the_audit_log() -> None:
    walked = "\n".join(commands(README.read_text()))
    for path in ("api-keys", "fingerprint", "clock/advance", "offers", "transition", "faults"):
        assert path in walked
    assert "audit-log" in walked


def test_every_setting_is_in_the_readme() -> None:
    page = README.read_text()
    assert [one.name for one in SETTINGS if f"--{one.name}" not in page] == []
