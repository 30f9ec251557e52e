"""The official suite of JSON Schema 2020-12 is judged rightly in both directions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.keywords.contracts import embedded, request_contract, response_contract, write_echo
from tests.keywords.page import PAGE, Played, is_asserted, played, with_generated
from tests.keywords.play import as_requests, as_responses
from tests.keywords.suite import FOLDER, Group, groups, schemas_within

pytestmark = pytest.mark.slow

WRONG: frozenset[str] = frozenset()
"""Cases that are known to be judged wrongly, each with its reason."""


@pytest.fixture(scope="module")
def suite() -> Played:
    """The suite, played once."""
    return played()


def group(file: str, number: int) -> Group:
    return next(one for one in groups() if (one.file, one.number) == (file, number))


def test_no_case_is_judged_wrongly_in_either_direction(suite: Played) -> None:
    assert set(suite.wrong) == WRONG


def test_every_required_case_is_played_in_both_directions(suite: Played) -> None:
    files = (FOLDER / "tests" / "draft2020-12").glob("*.json")
    written = sum(file.read_text().count('"valid":') for file in files)
    assert len(suite.requests) == len(suite.responses) == written


def test_every_format_of_the_suite_is_asserted_in_both_directions(suite: Played) -> None:
    for outcomes in (suite.requests, suite.responses):
        held = [one for one in outcomes if is_asserted(one)]
        assert {one.verdict for one in held} == {"rejected"}
        assert len(held) == sum(one.file == "format" for one in suite.groups)


def test_the_page_is_up_to_date(suite: Played) -> None:
    page = PAGE.read_text()
    assert with_generated(page, suite) == page


def test_a_wrong_verdict_would_be_reported(tmp_path: Path) -> None:
    reported = group("const", 1)
    turned = tuple(replace(case, valid=not case.valid) for case in reported.cases)
    turned_around = [replace(reported, cases=turned)]
    (tmp_path / "echo").mkdir()
    requests = as_requests(turned_around, tmp_path)
    responses = as_responses(turned_around, tmp_path / "echo")
    assert len(Played(turned_around, requests, responses).wrong) == 2 * len(turned)


def test_an_instance_keeps_the_bytes_of_the_suite() -> None:
    zeros = group("const", 5)
    assert [case.instance for case in zeros.cases] == [b"false", b"0", b"0.0"]
    text = (FOLDER / "tests" / "draft2020-12" / "uniqueItems.json").read_text()
    for one in groups():
        if one.file == "uniqueItems":
            assert all(case.instance.decode() in text for case in one.cases)


def test_no_two_schemas_of_a_contract_have_the_same_identifier() -> None:
    every = [*groups()]
    for contract in (request_contract(every), response_contract(every)):
        found = [one["$id"] for one in schemas_within(contract) if isinstance(one.get("$id"), str)]
        absolute = Counter(one for one in found if re.match(r"[a-z]+:", one))
        assert [one for one, times in absolute.items() if times > 1] == []


def test_every_operation_of_the_project_has_a_handler(tmp_path: Path) -> None:
    write_echo(tmp_path, groups())
    written = (tmp_path / "handlers" / "echo.py").read_text()
    assert written.count("async def ") == len(groups())


def test_the_page_counts_the_documents_with_another_identifier() -> None:
    others = [name for name in embedded() if name.endswith(".address")]
    assert len(others) == 2
    assert "Two of them have an `$id` that is not their address" in PAGE.read_text()


def test_the_suite_has_its_licence_and_its_source() -> None:
    assert "Permission is hereby granted" in (FOLDER / "LICENSE").read_text()
    assert "SHA-256" in (FOLDER / "SOURCE.md").read_text()
