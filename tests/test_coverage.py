"""Coverage counts the responses of a workspace by operation and declared status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result

from invoice_sandbox.base.coverage import lines, report_of
from tests.readme import played
from tests.scenario_run import data, make_workspace, register_new, restore, snapshot
from tests.support import Running, serving
from tests.test_control_commands import run
from tests.toy import contract, serving_contract

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"


def returned(client: httpx.Client) -> dict[tuple[str, str], int]:
    """The statuses that were returned, by operation, with their counts."""
    report = data(client.get("/sandbox/coverage"), 200)
    return {
        (row["operation"], status): count
        for row in report["operations"]
        for status, count in row["statuses"].items()
        if count
    }


def called(client: httpx.Client) -> set[str]:
    report = data(client.get("/sandbox/coverage"), 200)
    return {row["operation"] for row in report["operations"] if row["covered"]}


# --- what counts


def test_responses_are_counted_by_operation_and_status(client: httpx.Client) -> None:
    register_new(client)
    client.post("/api/invoices", json={})
    client.post("/api/invoices", json={})
    assert returned(client) == {("createInvoice", "201"): 1, ("createInvoice", "400"): 2}


def test_every_operation_of_the_api_is_listed_with_its_declared_statuses(
    client: httpx.Client,
) -> None:
    register_new(client)
    report = data(client.get("/sandbox/coverage"), 200)
    declared = [
        {*map(str, operation["responses"])} - {"405"}
        for path in client.get("/openapi.json").json()["paths"].values()
        for method, operation in path.items()
        if method in {"get", "post", "put", "patch", "delete"}
    ]
    statuses = [set(row["statuses"]) for row in report["operations"]]
    assert sorted(map(sorted, statuses)) == sorted(map(sorted, declared))
    number = sum(map(len, declared))
    assert report["summary"] == {
        "operations": {"covered": 1, "declared": len(declared)},
        "statuses": {"covered": 1, "declared": number},
    }
    assert report["percent"] == int(2000 / (number + len(declared))) / 10
    routes = {row["operation"]: row["route"] for row in report["operations"]}
    assert routes["createInvoice"] == "POST /api/invoices"


def test_a_response_without_an_operation_does_not_count(client: httpx.Client) -> None:
    client.get("/api/nothing")
    client.options("/api/invoices")
    assert client.patch("/api/invoices").status_code == 405
    client.get("/sandbox/clock")
    client.get("/api/offers", headers={"X-Sandbox-Journal": "off"})
    assert called(client) == set()


def test_what_is_rejected_before_the_key_is_looked_at_counts_for_its_workspace(
    client: httpx.Client,
) -> None:
    assert client.post("/api/invoices", content=b" " * 300_000).status_code == 413
    assert returned(client) == {("createInvoice", "413"): 1}


def test_a_request_without_a_key_counts_for_the_first_workspace() -> None:
    with serving() as server, server.client(None) as nobody, server.client() as first:
        assert nobody.get("/api/offers").status_code == 401
        assert returned(first) == {("listOffers", "401"): 1}


def test_injected_and_preferred_statuses_count(client: httpx.Client) -> None:
    fault = {"operation": "listOffers", "kind": "status", "status": 429}
    data(client.post("/sandbox/faults", json=fault), 201)
    client.get("/api/offers")
    client.get("/api/offers", headers={"Prefer": "code=403"})
    assert returned(client) == {("listOffers", "429"): 1, ("listOffers", "403"): 1}


def test_a_status_that_is_not_declared_covers_the_operation_only(client: httpx.Client) -> None:
    fault = {"operation": "listOffers", "kind": "status", "status": 503}
    data(client.post("/sandbox/faults", json=fault), 201)
    client.get("/api/offers")
    assert (called(client), returned(client)) == ({"listOffers"}, {})


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_response_that_never_comes_does_not_count(client: httpx.Client, when: str) -> None:
    fault = {"operation": "listOffers", "kind": "reset", "when": when}
    data(client.post("/sandbox/faults", json=fault), 201)
    with pytest.raises(httpx.TransportError):
        client.get("/api/offers")
    assert called(client) == set()


@pytest.mark.parametrize("declared", ["204", "2XX", "default"])
def test_a_status_covers_the_response_that_declares_it(tmp_path: Path, declared: str) -> None:
    document = contract({"type": "object"})
    responses = document["paths"]["/check"]["post"]["responses"]
    responses[declared] = responses.pop("204")
    with serving_contract(tmp_path, document) as client:
        client.post("/check", json={}, headers={"Prefer": "code=204"})
        assert returned(client) == {("check", declared): 1}


# --- whose it is


def test_a_response_counts_for_the_workspaces_that_its_own_was_created_from(
    server: Running, client: httpx.Client
) -> None:
    child = make_workspace(client)
    with server.client(child["key"]) as inside:
        with server.client(make_workspace(inside)["key"]) as innermost:
            innermost.get("/api/offers")
        inside.get("/api/partners")
        assert called(inside) == {"listOffers", "listPartners"}
    data(client.delete(f"/sandbox/workspaces/{child['id']}"), 200)
    assert called(client) == {"listOffers", "listPartners"}


def test_a_response_does_not_count_for_another_workspace(server: Running) -> None:
    with (
        server.client(server.new_workspace()) as one,
        server.client(server.new_workspace()) as other,
    ):
        one.get("/api/offers")
        assert called(other) == set()


def test_a_restored_snapshot_does_not_change_the_counts(client: httpx.Client) -> None:
    before = snapshot(client)
    client.get("/api/offers")
    restore(client, before)
    assert called(client) == {"listOffers"}


def test_the_counts_of_a_deleted_workspace_are_forgotten(
    server: Running, client: httpx.Client
) -> None:
    made = make_workspace(client)
    with server.client(made["key"]) as inside:
        inside.get("/api/offers")
    counted = server.sandbox.engine.workspaces.responses
    assert made["id"] in counted
    data(client.delete(f"/sandbox/workspaces/{made['id']}"), 200)
    assert made["id"] not in counted


# --- the report


def row(operation: str, **statuses: int) -> dict[str, Any]:
    counts = {name.removeprefix("s"): count for name, count in statuses.items()}
    return {"operation": operation, "covered": any(counts.values()), "statuses": counts}


def test_the_text_lists_what_is_common_to_operations_last() -> None:
    report = report_of(
        [
            row("listOffers", s200=1, s401=0, s404=0),
            row("login", s200=1, s401=0, s409=0),
            row("logout", s204=0),
        ]
    )
    assert [*lines(report)] == [
        "operations    2 of   3",
        "statuses      2 of   7",
        "40 % covered. Missing:",
        "  not called: logout",
        "  listOffers: 404",
        "  login: 409",
        "  401: listOffers, login",
    ]
    assert [*lines(report, 1)][3:] == ["  not called: logout", "  and 3 more"]


# --- the command


@pytest.fixture
def key(server: Running) -> str:
    """The key of a workspace that listed offers."""
    key = server.new_workspace()
    with server.client(key) as client:
        client.get("/api/offers")
    return key


def coverage(server: Running, key: str, options: str = "") -> Result:
    return run(f"coverage {options}", INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=key)


def test_json_is_what_the_control_endpoint_returns(server: Running, key: str) -> None:
    with server.client(key) as client:
        report = data(client.get("/sandbox/coverage"), 200)
    assert json.loads(coverage(server, key, "--json").stdout) == report


@pytest.mark.parametrize(
    ("options", "status", "error"),
    [
        ("", 0, ""),
        ("--fail-under 1.1", 0, ""),
        ("--fail-under 1.2", 1, "1.1 % covered, which is less than 1.2 %.\n"),
    ],
)
def test_the_status_reports_whether_it_is_enough(
    server: Running, key: str, options: str, status: int, error: str
) -> None:
    ran = coverage(server, key, options)
    assert (ran.exit_code, ran.stderr) == (status, error)
    assert ran.stdout.startswith("operations    1 of  25\n")


@pytest.mark.parametrize("percent", ["101", "nan", "most"])
def test_a_percentage_that_nothing_can_be_compared_with_is_misuse(percent: str) -> None:
    assert run(f"coverage --fail-under {percent}").exit_code == 2


@pytest.mark.process
def test_the_commands_of_the_page_print_what_the_page_shows() -> None:
    assert played(PAGE.read_text()) == PAGE.read_text()
