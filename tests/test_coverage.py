"""What was covered is noted where it happens, reported by workspace, and recorded in a file."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from invoice_sandbox.coverage.recording import RecordingError, mark_of, read_recordings
from invoice_sandbox.coverage.report import Report, Row, report_from, report_of, rounded
from invoice_sandbox.coverage.text import lines
from invoice_sandbox.project.loader import Project, default_project, load_contract, load_project
from invoice_sandbox.settings import SettingError, read_settings
from invoice_sandbox.state import Workspace
from invoice_sandbox.state.hits import TYPES, Coverage, Hit, event, operation, status, step
from tests.scenario_run import (
    advance,
    choose,
    data,
    make_workspace,
    move,
    register_new,
    restore,
    snapshot,
)
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.test_cli import SERVE, started
from tests.toy import contract, serving_contract

Names = tuple[str, ...]


def names(report: Mapping[str, Any], kind: str, **members: Any) -> set[Names]:
    """The names of what was covered of a kind, as the control endpoint reports it."""
    wanted = {"covered": True, **members}
    return {
        tuple(row[name] for name in TYPES[kind])
        for row in report[kind]
        if wanted.items() <= row.items()
    }


def covered(client: httpx.Client, kind: str, **members: Any) -> set[Names]:
    """What the control endpoint says was covered, without control endpoints."""
    report = data(client.get("/sandbox/coverage"), 200)
    return {one for one in names(report, kind, **members) if one[0] != "sandbox"}


@pytest.fixture(scope="module")
def project() -> Project:
    return load_project(default_project())


# --- what counts


def test_a_workspace_that_was_just_made_has_covered_nothing(client: httpx.Client) -> None:
    for kind in TYPES:
        assert covered(client, kind) == set()


def test_an_operation_counts_with_the_status_that_it_returned(client: httpx.Client) -> None:
    register_new(client)
    client.post("/api/invoices", json={})
    assert covered(client, "operations") == {("api", "createInvoice")}
    statuses = {("api", "createInvoice", "201"), ("api", "createInvoice", "400")}
    assert covered(client, "statuses") == statuses


def test_a_method_that_is_not_there_counts_for_every_operation_of_the_path(
    client: httpx.Client,
) -> None:
    assert client.patch("/api/invoices").status_code == 405
    expected = {("api", "createInvoice", "405"), ("api", "listInvoices", "405")}
    assert covered(client, "statuses") == expected
    assert covered(client, "operations") == set()


def test_what_is_rejected_before_the_key_is_looked_at_counts_for_its_workspace(
    client: httpx.Client,
) -> None:
    too_large = b" " * 300_000
    assert client.post("/api/invoices", content=too_large).status_code == 413
    assert covered(client, "statuses") == {("api", "createInvoice", "413")}


def test_what_has_no_key_counts_for_the_first_workspace() -> None:
    with serving() as server, server.client(None) as nobody, server.client() as first:
        assert nobody.get("/api/offers").status_code == 401
        assert covered(first, "statuses") == {("api", "listOffers", "401")}


def test_an_unknown_path_touches_nothing(client: httpx.Client) -> None:
    client.get("/api/nothing")
    client.options("/api/invoices")
    assert covered(client, "statuses") == covered(client, "operations") == set()


def test_a_request_that_reports_so_does_not_count(client: httpx.Client) -> None:
    client.get("/api/offers", headers={"X-Sandbox-Coverage": "off"})
    assert covered(client, "operations") == set()


def fault(client: httpx.Client, **members: Any) -> None:
    data(client.post("/sandbox/faults", json={"operation": "listOffers", **members}), 201)


def test_an_injected_status_is_distinguished_from_a_served_one(client: httpx.Client) -> None:
    fault(client, kind="status", status=429)
    assert client.get("/api/offers").status_code == 429
    assert covered(client, "statuses", injected=True) == {("api", "listOffers", "429")}
    fault(client, kind="status", status=200)
    client.get("/api/offers")
    assert ("api", "listOffers", "200") in covered(client, "statuses", injected=True)
    client.get("/api/offers")
    assert ("api", "listOffers", "200") in covered(client, "statuses")
    assert ("api", "listOffers", "200") not in covered(client, "statuses", injected=True)


def test_a_preferred_status_was_ordered_too(client: httpx.Client) -> None:
    response = client.get("/api/offers", headers={"Prefer": "code=429"})
    assert response.status_code == 429
    client.get("/api/offers", headers={"Prefer": "code=418"})
    ordered = {("api", "listOffers", "429")}
    assert covered(client, "statuses", injected=True) == ordered
    assert covered(client, "statuses") == ordered | {("api", "listOffers", "400")}


def test_a_header_of_the_contract_does_not_make_a_response_a_preferred_one(tmp_path: Path) -> None:
    document = contract({"type": "object"})
    header = {"required": True, "schema": {"type": "string"}, "example": "code=204"}
    declared = document["paths"]["/check"]["post"]["responses"]["204"]
    declared["headers"] = {"Preference-Applied": header}
    with serving_contract(tmp_path, document) as client:
        data(client.post("/sandbox/faults", json={"kind": "latency", "delay": "PT0.001S"}), 201)
        assert client.post("/check", json={}).headers["preference-applied"] == "code=204"
        assert {one[2] for one in covered(client, "statuses")} == {"204"}
        assert covered(client, "statuses", injected=True) == set()


@pytest.mark.parametrize("declared", ["204", "2XX", "default"])
def test_a_status_covers_the_response_that_declares_it(tmp_path: Path, declared: str) -> None:
    document = contract({"type": "object"})
    responses = document["paths"]["/check"]["post"]["responses"]
    responses[declared] = responses.pop("204")
    with serving_contract(tmp_path, document) as client:
        client.post("/check", json={}, headers={"Prefer": "code=204"})
        assert {one[2] for one in covered(client, "statuses")} == {declared}


def test_an_injected_status_that_is_not_declared_touches_the_operation_only(
    client: httpx.Client,
) -> None:
    fault(client, kind="status", status=503)
    client.get("/api/offers")
    assert covered(client, "operations") == {("api", "listOffers")}
    assert covered(client, "statuses") == set()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_response_that_never_comes_touches_no_status(client: httpx.Client, when: str) -> None:
    fault(client, kind="reset", when=when)
    with pytest.raises(httpx.TransportError):
        client.get("/api/offers")
    assert covered(client, "operations") == {("api", "listOffers")}
    assert covered(client, "statuses") == set()


def test_a_delayed_response_was_served(client: httpx.Client) -> None:
    fault(client, kind="latency", delay="PT0.001S")
    client.get("/api/offers")
    assert covered(client, "statuses", injected=True) == set()
    assert covered(client, "statuses") == {("api", "listOffers", "200")}


def test_events_transitions_and_steps_count_when_they_come_about(client: httpx.Client) -> None:
    choose(client, "auto-progress")
    register_new(client)
    assert covered(client, "events") == {("invoice.registered",)}
    assert covered(client, "transitions") == covered(client, "steps") == set()
    advance(client, by="PT1S")
    assert covered(client, "steps") == {("auto-progress", "1")}
    assert covered(client, "transitions") == {("invoice", "Registered", "start-verification")}
    assert ("invoice.verification_started",) in covered(client, "events")


def test_a_step_counts_when_it_was_done_and_not_when_it_was_left_out(client: httpx.Client) -> None:
    choose(client, "auto-progress")
    move(client, register_new(client), "withdraw")
    moved = advance(client, by="PT1S")
    assert [one["outcome"] for one in moved["happened"]] == ["skipped"]
    assert covered(client, "steps") == set()


def test_a_step_counts_whose_thing_was_given_the_scenario_later(client: httpx.Client) -> None:
    invoice_id = register_new(client)
    chosen = {"name": "auto-progress", "invoiceId": invoice_id}
    data(client.put("/sandbox/scenario", json=chosen), 200)
    advance(client, by="PT1S")
    assert covered(client, "steps") == {("auto-progress", "1")}


def test_a_step_that_goes_with_a_request_counts_though_it_rejects_it(client: httpx.Client) -> None:
    choose(client, "strict-validation")
    invoice = {"sellerId": "s", "debtorId": "d", "invoiceNumber": "1", "currency": "EUR"}
    assert client.post("/api/invoices", json={**invoice, "amount": 0}).status_code == 400
    assert covered(client, "steps") == {("strict-validation", "1")}


def test_what_was_undone_touches_no_transition(client: httpx.Client) -> None:
    invoice_id = register_new(client)
    body = {"trigger": "settle"}
    response = client.post(f"/sandbox/invoices/{invoice_id}/transition", json=body)
    assert response.status_code == 409
    assert covered(client, "transitions") == set()


def test_control_endpoints_count_as_a_part_of_their_own(client: httpx.Client) -> None:
    client.get("/sandbox/clock")
    report = data(client.get("/sandbox/coverage"))
    assert names(report, "operations") == {("sandbox", "getClock")}


# --- whose it is


def test_a_workspace_has_covered_what_those_made_from_it_did_also_when_they_are_gone(
    server: Running, client: httpx.Client
) -> None:
    child = make_workspace(client)
    with server.client(child["key"]) as inside:
        grandchild = make_workspace(inside)
        with server.client(grandchild["key"]) as innermost:
            innermost.get("/api/offers")
        assert covered(inside, "operations") == {("api", "listOffers")}
        inside.get("/api/partners")
    data(client.delete(f"/sandbox/workspaces/{child['id']}"), 200)
    assert covered(client, "operations") == {("api", "listOffers"), ("api", "listPartners")}


def test_what_another_workspace_covered_does_not_count(server: Running) -> None:
    with (
        server.client(server.new_workspace()) as one,
        server.client(server.new_workspace()) as other,
    ):
        one.get("/api/offers")
        assert covered(other, "operations") == set()


def test_no_snapshot_takes_back_coverage(client: httpx.Client) -> None:
    before = snapshot(client)
    client.get("/api/offers")
    restore(client, before)
    assert covered(client, "operations") == {("api", "listOffers")}


def a_workspace(name: str, maker: str | None = None) -> Workspace:
    return Workspace(name, 1, name, FROZEN.clock, "manual", made_by=maker)


def test_a_workspace_covers_anew_what_an_earlier_one_with_its_id_did() -> None:
    """The workspace of a test has the same id in each run, and is created from that of the run."""
    coverage = Coverage()
    for run in ("run 1", "run 2"):
        coverage.note(a_workspace("test", run), [event("a")])
        assert coverage.of(run) == coverage.of("test") == {event("a")}
    coverage.note(a_workspace("test", "run 3"), [event("b")])
    assert coverage.of("run 3") == coverage.of("test") == {event("b")}


def test_workspaces_that_are_gone_are_forgotten_in_time() -> None:
    coverage = Coverage()
    coverage.note(a_workspace("first"), [event("a")])
    coverage.note(a_workspace("child", "first"), [event("a")])
    many = [f"w{number}" for number in range(200)]
    for name in many:
        coverage.note(a_workspace(name, "first"), [event(name)])
    was_full = coverage.is_full
    coverage.keep(["first", "child"])
    assert (was_full, coverage.is_full) == (True, False)
    assert coverage.of("w1") == frozenset()
    coverage.note(a_workspace("grandchild", "child"), [event("late")])
    assert coverage.of("first") == {event("a"), event("late"), *map(event, many)}


def test_a_server_forgets_workspaces_that_are_gone() -> None:
    with serving() as server, server.client() as client:
        coverage = server.sandbox.engine.coverage
        for number in range(101):
            coverage.note(a_workspace(f"gone{number}"), [event("a")])
        assert coverage.is_full
        client.get("/api/offers")
        assert (coverage.is_full, coverage.of("gone1")) == (False, frozenset())
        assert covered(client, "operations") == {("api", "listOffers")}


# --- any document


def test_of_a_foreign_contract_operations_and_statuses_count(tmp_path: Path) -> None:
    with serving_contract(tmp_path, contract({"type": "object"})) as client:
        client.post("/check", json={})
        client.post("/check", json=[])
        report = data(client.get("/sandbox/coverage"))
    assert {one for one in names(report, "statuses") if one[0] == "api"} == {
        ("api", "check", "204")
    }
    assert report["events"] == report["transitions"] == report["steps"] == []


# --- the recording


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.txt"


@pytest.fixture
def recorded(file: Path) -> Iterator[httpx.Client]:
    """A client of a server that records."""
    with serving(replace(FROZEN, coverage=file)) as server, server.client() as client:
        yield client


def test_whatever_is_covered_for_the_first_time_gets_one_line(
    recorded: httpx.Client, file: Path
) -> None:
    for _ in range(3):
        recorded.get("/api/offers")
    reported = [json.loads(line)[1:] for line in file.read_text().splitlines()]
    assert reported == [
        ["operations", "api", "listOffers"],
        ["statuses", "api", "listOffers", "200"],
    ]


def test_all_workspaces_add_to_one_recording(
    recorded: httpx.Client, file: Path, project: Project
) -> None:
    key = make_workspace(recorded)["key"]
    recorded.get("/api/partners", headers={"Authorization": f"Bearer {key}"})
    assert operation("api", "listPartners") in read_recordings([file], project)


@pytest.mark.process
def test_a_server_that_is_killed_has_recorded_everything(file: Path, project: Project) -> None:
    with started([*SERVE, "--coverage", file]) as server:
        httpx.get(f"{server.url}/api/offers", timeout=PATIENCE)
        server.process.send_signal(signal.SIGKILL)
    assert status("api", "listOffers", "401") in read_recordings([file], project)


def write_many(file: Path, number: int) -> None:
    """What one of several processes does."""
    coverage = Coverage(file, "mark")
    for index in range(200):
        coverage.note(a_workspace("w"), [event(f"{number}-{index}"), event("x" * 2000)])


@pytest.mark.process
def test_processes_that_record_at_once_do_not_mix_their_lines(file: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_many, args=(file, number)) for number in range(2)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(PATIENCE)
    lines_of = file.read_text().splitlines()
    assert len(lines_of) == 2 * 201
    assert all(json.loads(line)[0] == "mark" for line in lines_of)


def test_a_recording_that_cannot_be_written_does_not_stop_any_response(
    recorded: httpx.Client, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()
    assert recorded.get("/api/offers").status_code == 200
    assert "cannot write the coverage file" in caplog.text


def test_a_file_that_cannot_be_written_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"--coverage: cannot write '.*' \(Is a directory\)"):
        read_settings({"coverage": str(tmp_path)})
    assert read_settings({"coverage": str(tmp_path / "new")}).coverage == tmp_path / "new"


def line(*texts: str) -> str:
    return orjson.dumps(texts).decode() + "\n"


def test_a_line_that_was_not_written_to_its_end_is_left_out(file: Path, project: Project) -> None:
    mark = mark_of(project)
    file.write_text(line(mark, "events", "invoice.paid") + f'["{mark}","events","invoice.fun')
    assert read_recordings([file], project) == {event("invoice.paid")}


@pytest.mark.parametrize("text", ["{}", "[1, 2, 3]", '["a"]', "nonsense", '["a", "b", 1]'])
def test_what_is_no_recording_is_rejected_with_its_line(
    file: Path, project: Project, text: str
) -> None:
    file.write_text(line(mark_of(project), "events", "invoice.paid") + text + "\n")
    with pytest.raises(RecordingError, match=re.escape(f"{file}:2: not a line")):
        read_recordings([file], project)


def test_another_file_without_a_line_is_rejected(file: Path, project: Project) -> None:
    file.write_bytes(b"PK\x03\x04\x00")
    with pytest.raises(RecordingError, match=re.escape(f"{file}: not a coverage recording")):
        read_recordings([file], project)


def test_what_is_about_another_project_does_not_count(
    file: Path, project: Project, tmp_path: Path
) -> None:
    other = tmp_path / "contract.json"
    other.write_bytes(orjson.dumps(contract({})))
    file.write_text(line(mark_of(load_contract(other)), "operations", "api", "check"))
    with pytest.raises(RecordingError, match="of another project"):
        read_recordings([file], project)
    file.write_text(file.read_text() + line(mark_of(project), "events", "invoice.paid"))
    assert read_recordings([file], project) == {event("invoice.paid")}


def test_a_file_that_is_not_there_is_named(file: Path, project: Project) -> None:
    with pytest.raises(RecordingError, match=re.escape(str(file))):
        read_recordings([file], project)


@pytest.mark.process
def test_the_mark_of_a_project_is_the_same_in_every_process(project: Project) -> None:
    code = (
        "from invoice_sandbox.coverage.recording import mark_of; "
        "from invoice_sandbox.project.loader import *; "
        "print(mark_of(load_project(default_project())))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == mark_of(project)


# --- the report


def everything(project: Project) -> set[Hit]:
    """Every touch that there can be."""
    return {(kind, *row.names) for kind, rows in report_of(project, ()) for row in rows}


def test_what_can_be_covered_is_what_is_declared(project: Project) -> None:
    counts = report_of(project, ()).counts
    contracts = (project.contract, project.control)
    operations = [one for part in contracts for one in part.operations.values()]
    assert counts["operations"].declared == len(operations)
    assert counts["statuses"].declared == sum(len(one.responses) for one in operations)
    assert counts["events"].declared == len(project.lifecycle.events)
    machines = project.lifecycle.machines.values()
    assert counts["transitions"].declared == sum(len(one.transitions) for one in machines)
    scenarios = project.scenarios.values()
    assert counts["steps"].declared == sum(len(one.document.get("steps", ())) for one in scenarios)


def test_with_everything_covered_nothing_is_missing(project: Project) -> None:
    report = report_of(project, everything(project))
    assert (report.percent, report.missing) == (100, {})
    assert [*lines(report)][-1] == "Everything is covered."


def test_one_thing_that_is_missing_is_never_rounded_away(project: Project) -> None:
    report = report_of(project, everything(project) - {step("late-payment", 2)})
    assert rounded(report.percent) < 100
    assert {kind: [row.names for row in rows] for kind, rows in report.missing.items()} == {
        "steps": [("late-payment", "3")]
    }


def test_what_is_not_declared_does_not_count(project: Project) -> None:
    assert report_of(project, [event("invoice.eaten"), step("no-story", 0)]).percent == 0


def test_a_report_survives_its_way_as_json(project: Project) -> None:
    done = [status("api", "createInvoice", "429", injected=True), event("invoice.paid")]
    report = report_of(project, done)
    assert report_from(json.loads(json.dumps(report.data()))) == report


def a_status(code: str, how: str = "") -> Row:
    return Row(("api", "get", code), "", covered=bool(how), injected=how == "injected")


MERGED = {
    "touched in either": (("served", ""), "served"),
    "touched in neither": (("", ""), ""),
    "served wins": (("injected", "served"), "served"),
    "injected stays injected": (("", "injected"), "injected"),
}


@pytest.mark.parametrize(("ways", "merged"), MERGED.values(), ids=MERGED)
def test_reports_are_put_together(ways: tuple[str, str], merged: str) -> None:
    for one, other in (ways, ways[::-1]):
        ours, theirs = (Report({"statuses": (a_status("200", way),)}) for way in (one, other))
        assert ours.merged(theirs).rows["statuses"] == (a_status("200", merged),)


def test_what_only_the_other_declares_is_added() -> None:
    ours, theirs = (Report({"statuses": (a_status(code),)}) for code in ("200", "404"))
    assert ours.merged(theirs).rows["statuses"] == (a_status("200"), a_status("404"))


def of(rows: Mapping[str, list[Row]]) -> Report:
    return Report({kind: tuple(found) for kind, found in rows.items()})


def test_the_text_groups_what_is_missing() -> None:
    report = of(
        {
            "operations": [Row(("api", "get"), covered=True), Row(("api", "put"))],
            "statuses": [
                a_status("200", "injected"),
                a_status("404"),
                a_status("405"),
                Row(("api", "put", "200")),
            ],
            "transitions": [Row(("door", "Open", "close")), Row(("door", "Open", "lock"))],
        }
    )
    assert list(lines(report)) == [
        "operations   1 of 2",
        "statuses     1 of 4  (1 injected only)",
        "transitions  0 of 2",
        "25 % covered. Missing:",
        "operations:",
        "  api: put",
        "statuses:",
        "  api get: 404",
        "  api 405: get",
        "transitions:",
        "  all of door Open",
    ]


def test_a_status_that_is_the_same_everywhere_is_one_line_at_the_end() -> None:
    """405 of every operation does not bury the 409 of one."""
    names = [f"op{number}" for number in range(6)]
    common = [Row(("api", name, "405"), covered=name == "op5") for name in names]
    served = [Row(("api", name, "200"), covered=True) for name in names]
    own = [Row(("api", "op1", "409")), Row(("api", "op2", "404"))]
    report = of(
        {
            "operations": [Row(("api", name), covered=True) for name in names],
            "statuses": [*served, *common, *own],
        }
    )
    assert list(lines(report))[3:] == [
        "statuses:",
        "  api op1: 409",
        "  api op2: 404",
        "  api 405: op0, op1, op2, op3, op4",
    ]


def test_the_text_can_be_kept_short() -> None:
    report = of({"steps": [Row((f"s{one}", two)) for one in range(5) for two in "12"]})
    partly = report.merged(of({"steps": [Row((f"s{one}", "1"), covered=True) for one in range(5)]}))
    assert list(lines(partly, 2))[2:] == ["steps:", "  s0: 2", "  s1: 2", "  and 3 more"]
