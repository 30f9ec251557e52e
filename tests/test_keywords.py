"""The official suite of JSON Schema 2020-12 is judged rightly in both directions."""

from __future__ import annotations

import pytest

from tests.keywords import (
    PAGE,
    Played,
    groups,
    played,
    with_results,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def suite() -> Played:
    """The suite, played once."""
    return played(groups())


def test_no_case_is_judged_wrongly_in_either_direction(suite: Played) -> None:
    assert suite.wrong == []


def test_the_page_is_up_to_date(suite: Played) -> None:
    page = PAGE.read_text()
    assert with_results(page, suite) == page
