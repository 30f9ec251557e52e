"""The verdict on a fuzzing run: which records pass, and what is said about those that do not."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from invoice_sandbox.fuzzing.contract import (
    DocumentError,
    Operation,
    contract_of,
    credential_headers,
    operations,
    setup_of,
)
from invoice_sandbox.fuzzing.record import Call, Finding, Reader, Writer
from invoice_sandbox.fuzzing.reports import Result, as_json, as_junit, as_text
from invoice_sandbox.fuzzing.verdict import TRACEBACK, Outcome, findings, table
from invoice_sandbox.project.loader import default_project, load_project

OK = frozenset({"200"})
CONTRACT = {"listItems": Operation(OK), "login": Operation(OK, is_public=True)}
LISTED = Call("listItems", "coverage", "positive", 200, own_key=True)
LOGGED_IN = replace(LISTED, operation="login")
GOOD = [LISTED, LOGGED_IN]
FOUND = Finding("listItems", "Server error", "Boom", "fuzzing", ("curl http://x",))


FARED_WELL = Outcome()


def judged(calls: list[Call], outcome: Outcome = FARED_WELL, **changes: Operation) -> list[Finding]:
    return findings({**CONTRACT, **changes}, calls, [], outcome)


# --- verdict


def test_a_run_in_which_everything_succeeded_has_no_finding() -> None:
    assert judged(GOOD) == []


def test_a_run_that_sent_nothing_fails_with_that_one_finding() -> None:
    assert judged([]) == [Finding(None, "No request was sent")]


@pytest.mark.parametrize("status", [401, 403, 429])
def test_an_error_of_a_valid_request_with_a_valid_key_is_a_finding(status: int) -> None:
    rejected = replace(LISTED, status=status, request="curl http://x")
    title = f"It returned {status} for 1 request, schema-valid and with a valid key"
    expected = Finding("listItems", title, "", "coverage", ("curl http://x",))
    assert judged([*GOOD, rejected]) == [expected]


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
def test_a_fair_error_is_no_finding(fair: Call) -> None:
    assert judged([*GOOD, fair]) == []


def test_what_needs_no_key_is_excused_for_its_401_only() -> None:
    assert len(judged([*GOOD, replace(LOGGED_IN, status=429)])) == 1


@pytest.mark.parametrize("mode", ["positive", "negative", "probe"])
def test_a_server_error_is_a_finding_in_every_mode(mode: Any) -> None:
    broken = replace(LISTED, mode=mode, status=503, own_key=False)
    (found,) = judged([*GOOD, broken, broken])
    assert (found.operation, found.title) == ("listItems", "It returned 503 for 2 requests")


def test_a_server_error_is_not_reported_twice() -> None:
    broken = replace(LISTED, status=500)
    assert findings(CONTRACT, [*GOOD, broken], [FOUND], Outcome(fuzzer_exit=1)) == [FOUND]


@pytest.mark.parametrize(
    ("responded", "said"),
    [
        pytest.param([replace(LISTED, status=404)] * 2, "404x2", id="another-status"),
        pytest.param([replace(LISTED, status=202)], "202x1", id="undeclared-success"),
        pytest.param(
            [replace(LISTED, mode="negative")], "none: no request was sent", id="only-wrong"
        ),
    ],
)
def test_an_operation_must_reach_its_declared_success(responded: list[Call], said: str) -> None:
    text = f"Responses to schema-valid requests: {said}."
    expected = Finding("listItems", "It never returned its success status 200", text)
    assert judged([LOGGED_IN, *responded]) == [expected]


def test_a_success_range_is_reached_by_any_status_of_it() -> None:
    assert judged(GOOD, listItems=Operation(frozenset({"2XX"}))) == []


def test_what_the_contract_calls_unreachable_need_not_be_reached() -> None:
    assert judged(GOOD, putFile=Operation(OK, unreachable="Its address is signed.")) == []


def test_what_is_only_linked_from_operations_left_out_need_not_be_reached() -> None:
    assert judged(GOOD, getItem=Operation(OK, linked_from=frozenset({"createItem"}))) == []
    assert len(judged(GOOD, getItem=Operation(OK, linked_from=frozenset({"listItems"})))) == 1


def test_an_operation_without_a_success_status_is_a_finding() -> None:
    (found,) = judged(GOOD, listItems=Operation(frozenset()))
    assert found == Finding("listItems", "It declares no success status")


@pytest.mark.parametrize(
    ("outcome", "title"),
    [
        (Outcome(fuzzer_exit=1), "Schemathesis failed with exit code 1"),
        (Outcome(fuzzer_exit=2), "Schemathesis failed with exit code 2"),
        (Outcome(server_exit=3), "The server ended by itself with exit code 3"),
        (Outcome(server_log=f"boom\n{TRACEBACK}:\n"), "The server logged a traceback"),
    ],
)
def test_a_process_that_fared_badly_is_a_finding(outcome: Outcome, title: str) -> None:
    assert [found.title for found in judged(GOOD, outcome)] == [title]


def test_the_table_counts_statuses_by_operation_and_type_of_request() -> None:
    calls = [*GOOD, LISTED, replace(LISTED, status=405, mode="probe", own_key=False)]
    assert table(CONTRACT, calls).splitlines() == [
        "operation  positive  negative  probe  no key",
        "listItems  200x2     -         -      405x1",
        "login      200x1     -         -      -",
    ]


# --- contract


def test_the_contract_declares_of_each_operation_what_a_verdict_needs() -> None:
    link = {"links": {"next": {"$ref": "#/components/links/Next"}}}
    created = {"security": [{"key": []}], "operationId": "create", "responses": {"201": link}}
    responses: dict[str, Any] = {"200": {}, "2XX": {}, "400": {}, "default": {}}
    document = {
        "paths": {
            "/items": {"parameters": [], "get": {"operationId": "list", "responses": responses}},
            "/create": {"post": created},
            "/file": {"put": {"responses": {"200": {}}, "x-fuzz-unreachable": "signed"}},
        },
        "components": {"links": {"Next": {"operationId": "list"}}},
    }
    assert contract_of(document) == {
        "list": Operation(frozenset({"200", "2XX"}), True, linked_from=frozenset({"create"})),
        "create": Operation(frozenset({"201"})),
        "PUT /file": Operation(OK, True, "signed"),
    }


def test_optional_security_is_no_security() -> None:
    document = {"security": [{"key": []}, {}], "paths": {"/x": {"get": {"responses": {}}}}}
    assert contract_of(document)["GET /x"].is_public


BEARER = {"type": "http", "scheme": "bearer"}
PET_KEY = {"type": "apiKey", "in": "header", "name": "X-Pet-Key"}
COOKIE = {"type": "apiKey", "in": "cookie", "name": "pet"}


@pytest.mark.parametrize(
    ("schemes", "headers"),
    [
        pytest.param([], {"authorization": "Bearer k"}, id="none"),
        pytest.param([BEARER, PET_KEY], {"authorization": "Bearer k"}, id="bearer-and-key"),
        pytest.param(
            [PET_KEY], {"authorization": "Bearer k", "x-pet-key": "k"}, id="key-in-a-header"
        ),
        pytest.param(
            [COOKIE], {"authorization": "Bearer k", "cookie": "pet=k"}, id="key-in-a-cookie"
        ),
    ],
)
def test_a_key_is_sent_as_the_document_wants_it(
    schemes: list[dict[str, str]], headers: dict[str, str]
) -> None:
    named = {str(number): scheme for number, scheme in enumerate(schemes)}
    document = {
        "security": [{name: []} for name in named],
        "components": {"securitySchemes": named},
        "paths": {"/pets": {"get": {"responses": {}}}},
    }
    assert credential_headers(document, "k") == headers


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("POST /items", id="no-object"),
        pytest.param({"body": {}}, id="nothing-to-send"),
        pytest.param({"send": "/items"}, id="no-method"),
        pytest.param({"send": "POST items"}, id="no-path"),
        pytest.param({"send": "POST /items", "keeps": {}}, id="unknown-member"),
    ],
)
def test_a_setup_that_cannot_be_understood_is_rejected_by_name(step: object) -> None:
    with pytest.raises(DocumentError, match="enableItem: x-fuzz-setup is a list"):
        setup_of("enableItem", {"x-fuzz-setup": [step]})


def test_what_the_shipped_contracts_declare_for_the_fuzzer_can_be_understood() -> None:
    project = load_project(default_project())
    for document in (project.contract.document, project.control.document):
        for _, _, name, raw in operations(document):
            reported = {word for word in raw if word.startswith("x-fuzz-")}
            assert reported <= {"x-fuzz-setup", "x-fuzz-unreachable", "x-fuzz-forgets"}
            assert len(reported - {"x-fuzz-forgets"}) <= 1, name
            names = {one.get("name") for one in raw.get("parameters", ())}
            assert all(set(step.keep) <= names for step in setup_of(name, raw))


# --- record and reports


def test_a_record_is_read_as_it_was_written_also_while_it_grows(tmp_path: Path) -> None:
    record = tmp_path / "record.ndjson"
    writer = Writer(record)
    with closing(Reader(record)) as reader:
        assert reader.new() == []
        writer.write(LISTED)
        writer.write(FOUND)
        assert reader.new() == [LISTED, FOUND]
        with record.open("a") as file:
            file.write('{"call"')
        assert reader.new() == []
        with record.open("a") as file:
            file.write(f": {json.dumps(vars(LOGGED_IN))}}}\n")
        assert reader.new() == [LOGGED_IN]


AGAIN = ["invoice-sandbox", "fuzz", "--project=my shop"]
UNREACHED = Finding("login", "It never returned its success status 200")
RESULT = Result("api", CONTRACT, GOOD, [FOUND, UNREACHED, Finding(None, "Log\0")], AGAIN)


def test_the_text_has_the_requests_and_the_command_that_finds_it_again() -> None:
    assert as_text(replace(RESULT, findings=[FOUND])).splitlines() == [
        "FAILED  api: 1 finding, 2 requests to 2 operations",
        "",
        "listItems (fuzzing): Server error",
        "    Boom",
        "    curl http://x",
        "    reproduce: invoice-sandbox fuzz '--project=my shop' --operation=listItems",
    ]


def test_only_what_needs_no_other_operation_is_repeated_alone() -> None:
    all_of_them = "invoice-sandbox fuzz '--project=my shop'"
    assert RESULT.again_for(UNREACHED) == all_of_them
    assert RESULT.again_for(replace(FOUND, phase="stateful")) == all_of_them
    chosen = replace(RESULT, chosen=["listItems", "login"])
    assert chosen.again_for(UNREACHED).endswith("--operation=listItems --operation=login")


def test_the_json_report_has_everything() -> None:
    report = json.loads(as_json([RESULT], seed=7, max_examples=5))
    assert (report["passed"], report["seed"], report["maxExamples"]) == (False, 7, 5)
    (contract,) = report["contracts"]
    assert contract["operations"]["login"] == {"positive": {"200": 1}}
    assert [one["title"] for one in contract["findings"]] == [one.title for one in RESULT.findings]


def test_the_junit_report_has_a_case_for_each_operation_and_one_for_the_run() -> None:
    (suite,) = ElementTree.fromstring(as_junit([RESULT]))  # noqa: S314 - our own
    assert {one.get("name"): len(one) for one in suite} == {
        "listItems": 1,
        "login": 1,
        "the run": 1,
    }
    assert (suite.get("tests"), suite.get("failures")) == ("3", "3")
