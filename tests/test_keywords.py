"""The official suite of JSON Schema 2020-12 is judged rightly in both directions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from tests.keywords import (
    FOLDER,
    PAGE,
    Played,
    embedded,
    groups,
    objects_in,
    played,
    request_contract,
    response_contract,
    with_results,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def suite() -> Played:
    """The suite, played once."""
    return played(groups())


def test_no_case_is_judged_wrongly_in_either_direction(suite: Played) -> None:
    assert suite.wrong == []


def test_every_required_case_is_played_in_both_directions(suite: Played) -> None:
    files = (FOLDER / "tests" / "draft2020-12").glob("*.json")
    written = sum(file.read_text().count('"valid":') for file in files)
    assert len(suite.requests) == len(suite.responses) == written


def test_every_format_of_the_suite_is_asserted_in_both_directions(suite: Played) -> None:
    for outcomes in (suite.requests, suite.responses):
        asserted = [one for one in outcomes if one.is_asserted_format]
        assert {one.verdict for one in asserted} == {"rejected"}
        assert len(asserted) == sum(one.file == "format" for one in suite.groups)


def test_the_page_is_up_to_date(suite: Played) -> None:
    page = PAGE.read_text()
    assert with_results(page, suite) == page


def test_a_wrong_verdict_would_be_reported() -> None:
    constant = next(one for one in groups() if one.id == "const_1")
    turned = [{**case, "valid": not case["valid"]} for case in constant.cases]
    assert len(played([replace(constant, cases=turned)]).wrong) == 2 * len(turned)


def test_no_two_schemas_of_a_contract_have_the_same_identifier() -> None:
    for contract in (request_contract(groups()), response_contract(groups())):
        found = [one["$id"] for one in objects_in(contract) if isinstance(one.get("$id"), str)]
        absolute = Counter(one for one in found if re.match(r"[a-z]+:", one))
        assert [one for one, times in absolute.items() if times > 1] == []


def test_the_page_counts_the_documents_with_another_identifier() -> None:
    others = [name for name in embedded() if name.endswith(".address")]
    assert len(others) == 2
    assert "Two of them have an `$id` that is not their address" in PAGE.read_text()


def test_the_suite_has_its_licence_and_its_source() -> None:
    assert "Permission is hereby granted" in (FOLDER / "LICENSE").read_text()
    assert "SHA-256" in (FOLDER / "SOURCE.md").read_text()
