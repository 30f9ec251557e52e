"""The verdict on a fuzzing run: which records pass, and what is said about those that do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz.calls import Call, append, read
from tests.fuzz.verdict import (
    FAIR_REFUSALS,
    TRACEBACK,
    Outcome,
    complaints,
    contract_of,
    server_failed,
    table,
)

CONTRACT = {"listItems": frozenset({"200"}), "login": frozenset({"200"})}
LISTED = Call("listItems", "coverage", "positive", 200, own_key=True)
LOGGED_IN = replace(LISTED, operation="login")
GOOD = [LISTED, LOGGED_IN]


def test_a_run_in_which_everything_succeeded_has_no_complaint() -> None:
    assert complaints(CONTRACT, GOOD, Outcome()) == []


def test_a_run_that_sent_nothing_fails_with_that_one_sentence() -> None:
    assert complaints(CONTRACT, [], Outcome()) == [
        "Nothing was sent: no answer of any operation was recorded."
    ]


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_refusal_of_a_valid_request_with_the_valid_key_is_a_complaint(status: int) -> None:
    refused = replace(LISTED, status=status, request="curl http://x")
    (complaint,) = complaints(CONTRACT, [*GOOD, refused], Outcome())
    assert complaint == (
        f"listItems answered {status} to 1 request that fit the schema and carried the valid key. "
        "First in phase coverage: curl http://x"
    )


@pytest.mark.parametrize(
    "fair",
    [
        pytest.param(replace(LISTED, status=401, own_key=False), id="without-our-key"),
        pytest.param(replace(LISTED, status=401, mode="negative"), id="schema-violating"),
        pytest.param(replace(LISTED, status=401, mode="probe"), id="wrong-method"),
        pytest.param(replace(LOGGED_IN, status=401), id="login-with-a-wrong-password"),
        pytest.param(replace(LISTED, status=404), id="unknown-identifier"),
    ],
)
def test_a_fair_refusal_is_no_complaint(fair: Call) -> None:
    assert complaints(CONTRACT, [*GOOD, fair], Outcome()) == []


def test_login_is_excused_for_its_401_only() -> None:
    throttled = replace(LOGGED_IN, status=429)
    assert list(FAIR_REFUSALS) == [("login", 401)]
    assert len(complaints(CONTRACT, [*GOOD, throttled], Outcome())) == 1


@pytest.mark.parametrize("mode", ["positive", "negative", "probe"])
def test_a_server_error_is_a_complaint_in_every_mode(mode: str) -> None:
    broken = Call(**{**vars(LISTED), "mode": mode, "status": 503, "own_key": False})
    assert complaints(CONTRACT, [*GOOD, broken, broken], Outcome()) == [
        "listItems answered 503 to 2 requests."
    ]


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        pytest.param([replace(LISTED, status=404)] * 2, "404x2", id="another-status"),
        pytest.param([replace(LISTED, status=202)], "202x1", id="undeclared-success"),
        pytest.param([replace(LISTED, mode="negative")], "nothing: none was sent", id="only-wrong"),
    ],
)
def test_an_operation_must_reach_its_declared_success(answered: list[Call], said: str) -> None:
    (complaint,) = complaints(CONTRACT, [LOGGED_IN, *answered], Outcome())
    assert complaint == (
        "listItems never reached its success status 200; "
        f"schema-valid requests were answered {said}."
    )


def test_a_success_range_is_reached_by_any_status_of_it() -> None:
    assert complaints({"listItems": frozenset({"2XX"})}, [LISTED], Outcome()) == []


def test_an_operation_without_a_success_status_is_a_complaint() -> None:
    assert complaints({"listItems": frozenset()}, [LISTED], Outcome()) == [
        "listItems declares no success status."
    ]


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Outcome(fuzzer_exit=1), "Schemathesis found failures or errors"),
        (Outcome(fuzzer_exit=2), "Schemathesis could not do its work: exit code 2"),
        (Outcome(server_exit=3), "The server ended by itself with exit code 3"),
        (Outcome(log=f"boom\n{TRACEBACK}:\n"), "The server logged a traceback"),
    ],
)
def test_a_process_that_fared_badly_is_a_complaint(outcome: Outcome, sentence: str) -> None:
    (complaint,) = complaints(CONTRACT, GOOD, outcome)
    assert complaint.startswith(sentence)


def test_the_log_is_shown_only_for_a_server_that_ended_or_raised() -> None:
    assert server_failed(Outcome(server_exit=0))
    assert server_failed(Outcome(log=TRACEBACK))
    assert not server_failed(Outcome(fuzzer_exit=1, log="started"))


def test_the_contract_yields_each_operation_with_its_success_statuses() -> None:
    responses: dict[str, object] = {"200": {}, "2XX": {}, "400": {}, "default": {}}
    document = {
        "paths": {
            "/items": {"parameters": [], "get": {"operationId": "list", "responses": responses}},
            "/health": {"get": {"responses": {"200": {}}}},
        }
    }
    assert contract_of(document) == {
        "list": frozenset({"200", "2XX"}),
        "GET /health": frozenset({"200"}),
    }


def test_the_table_counts_statuses_by_operation_and_kind_of_request() -> None:
    calls = [*GOOD, LISTED, replace(LISTED, status=405, mode="probe", own_key=False)]
    assert table(CONTRACT, calls).splitlines() == [
        "operation  positive  negative  probe  no key",
        "listItems  200x2     -         -      405x1",
        "login      200x1     -         -      -",
    ]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = tmp_path / "calls.ndjson"
    assert read(record) == []
    for call in GOOD:
        append(record, call)
    assert read(record) == GOOD
