"""All scenarios together: what the contract and the lifecycle declare comes about in one of them.

Each scenario runs once, on a frozen clock, with the client's part in it. What must be reached is
read from the contract and from the lifecycle; nothing is listed here but what clients do.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from invoice_sandbox.openapi.load.operations import raw_operations
from invoice_sandbox.project.loader import Project, default_project, load_project
from invoice_sandbox.scenarios.library import scenario_files
from tests.scenario_run import (
    DATED,
    advance,
    choose,
    events_about,
    expected,
    recorded_events,
    register,
    run_to_end,
    skipped,
)
from tests.support import Running, serving
from tests.test_scenarios_verification import FINANCED_ELSEWHERE, MEMBERS, upload

SECONDS: Final = 10
"""What playing all scenarios may take."""

ErrorKey = tuple[int, str]
"""Status and code of an error."""

Part = Callable[[Running, httpx.Client], None]


# What clients do ----------------------------------------------------------------------------------


def nothing_but_register(_: Running, client: httpx.Client) -> None:
    register(client)


def register_a_large_one(_: Running, client: httpx.Client) -> None:
    register(client, **MEMBERS["no-partner-match"])


def register_it_twice(_: Running, client: httpx.Client) -> None:
    register(client)
    register(client)


def register_a_similar_one(_: Running, client: httpx.Client) -> None:
    register(client)
    register(client, amount=10001)


def look_for_the_invoice_of_another(server: Running, client: httpx.Client) -> None:
    register(client, **FINANCED_ELSEWHERE)
    (foreign,) = server.sandbox.engine.project.fixtures["foreign_registrations"]
    client.get(f"/api/invoices/{foreign['id']}")


def leave_out_the_debtor(_: Running, client: httpx.Client) -> None:
    body = {name: value for name, value in DATED.items() if name != "debtorId"}
    client.post("/api/invoices", json=body)


def break_a_bound(_: Running, client: httpx.Client) -> None:
    client.post("/api/invoices", json={**DATED, "amount": 0})


def send_the_document_itself(_: Running, client: httpx.Client) -> None:
    """First where the request for an address is expected, then to the address."""
    invoice = register(client)
    advance(client, "PT2S")
    path = "/api/storage/invoices/upload-url"
    client.post(path, content=b"%PDF-1.7", headers={"Content-Type": "application/pdf"})
    client.post(path, json={"invoiceId": invoice["id"], "content": "JVBERi0xLjc" * 200_000})
    upload(client, invoice)
    client.post("/api/verification/run", json={"invoiceId": invoice["id"]})


def correct_the_invoice_in_place(_: Running, client: httpx.Client) -> None:
    """Which cannot be done: data are corrected where they come from."""
    invoice = register(client)
    advance(client, "PT2S")
    client.put(f"/api/invoices/{invoice['id']}", json=DATED)


def ask_for_money_too_late(_: Running, client: httpx.Client) -> None:
    invoice = register(client)
    run_to_end(client)
    client.post("/api/financing-requests", json={"invoiceId": invoice["id"]})


def poll_with_a_key_that_ends(server: Running, client: httpx.Client) -> None:
    invoice = register(client)
    asked = client.post("/api/developer/api-keys", json={"scopes": ["invoices:read"]})
    with server.client(asked.json()["data"]["secret"]) as polling:
        polling.event_hooks = client.event_hooks
        for _number in range(5):
            polling.get(f"/api/invoices/{invoice['id']}")


def list_offers(_: Running, client: httpx.Client) -> None:
    client.get("/api/offers")


def try_until_it_works(_: Running, client: httpx.Client) -> None:
    for _try in range(10):
        if client.post("/api/invoices", json=DATED).status_code == httpx.codes.CREATED:
            return
    raise AssertionError("it is still refused")


def repeat_with_the_same_key(_: Running, client: httpx.Client) -> None:
    for _try in range(2):
        client.post("/api/invoices", json=DATED, headers={"Idempotency-Key": "once"})


def wait_for_events(_: Running, client: httpx.Client) -> None:
    """At an address where nobody listens: the scenario injects the failures of deliveries."""
    body = {"url": "http://127.0.0.1:9/hook", "events": ["*"]}
    response = client.post("/api/webhooks", json=body)
    assert response.status_code == httpx.codes.CREATED, response.text
    register(client)


PARTS: Final[Mapping[str, Part]] = {
    "no-partner-match": register_a_large_one,
    "duplicate-exact": register_it_twice,
    "duplicate-similar": register_a_similar_one,
    "duplicate-financed": look_for_the_invoice_of_another,
    "validation-error": leave_out_the_debtor,
    "strict-validation": break_a_bound,
    "action-required": send_the_document_itself,
    "verification-failed": correct_the_invoice_in_place,
    "invoice-expires": ask_for_money_too_late,
    "key-revoked-midflow": poll_with_a_key_that_ends,
    "scope-missing": list_offers,
    "rate-limited": try_until_it_works,
    "maintenance-5xx": try_until_it_works,
    "slow-api": repeat_with_the_same_key,
    "webhook-exhausted": wait_for_events,
}
"""The client's part in a scenario; in all others it registers an invoice."""


# What came of it ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recorded:
    """What one scenario came to: errors, with the request that met each, types of events, states of
    invoices, and the outcomes of steps."""

    errors: Mapping[ErrorKey, str]
    kinds: frozenset[str]
    statuses: frozenset[str]
    outcomes: frozenset[str]


@dataclass(frozen=True)
class Played:
    """What all scenarios came to, and the seconds that this process worked for it."""

    scenarios: Mapping[str, Recorded]
    seconds: float

    def reached(self, part: str) -> dict[Any, list[str]]:
        """Every error, kind, status or outcome, with the scenarios in which it came about."""
        found: dict[Any, list[str]] = {}
        for name, reported in self.scenarios.items():
            for one in getattr(reported, part):
                found.setdefault(one, []).append(name)
        return found


@pytest.fixture(scope="module")
def project() -> Project:
    return load_project(default_project())


@pytest.fixture(scope="module")
def played(project: Project) -> Iterator[Played]:
    """Every scenario played once, each in a workspace of its own.

    The seconds are those that processors worked for this process, server and client together:
    playing waits for nothing, and a machine that is busy otherwise makes no difference.
    """
    with serving() as server:
        begun = time.process_time()
        scenarios = {name: report(server, name) for name in sorted(project.scenarios)}
        yield Played(scenarios, time.process_time() - begun)


def report(server: Running, name: str) -> Recorded:
    """Play a scenario to its end."""
    errors: dict[ErrorKey, str] = {}

    def note(response: httpx.Response) -> None:
        if response.is_error:
            response.read()
            asked = f"{response.request.method} {response.request.url.path}"
            errors[response.status_code, response.json()["error"]["code"]] = asked

    with server.client(server.new_workspace()) as client:
        client.event_hooks = {"response": [note]}
        choose(client, name)
        PARTS.get(name, nothing_but_register)(server, client)
        done = run_to_end(client)
        kinds = {one["type"] for one in recorded_events(server, client)}
        log = client.get("/api/audit-log", params={"limit": 100}).json()["data"]
    return Recorded(
        errors,
        frozenset(kinds),
        frozenset(one["metadata"]["to"] for one in log if "to" in one["metadata"]),
        # A delivery is no step of a scenario, and fails where the scenario is about that.
        frozenset(step["outcome"] for step in done if step["scenario"] is not None),
    )


# What must be reached -----------------------------------------------------------------------------


def declared_errors(document: Mapping[str, Any]) -> set[ErrorKey]:
    """Status and code of every error that any operation of a contract declares, by its examples."""
    found = set()
    for _, _, operation in raw_operations(document):
        for status, raw in operation["responses"].items():
            if status.isdigit() and int(status) >= httpx.codes.BAD_REQUEST:
                found |= {(int(status), code) for code in _codes(document, raw)}
    return found


def _codes(document: Mapping[str, Any], response: Mapping[str, Any]) -> set[str]:
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    examples = response["content"]["application/json"]["examples"].values()
    codes = {one["value"]["error"]["code"] for one in examples}
    assert codes, "an error without an example has no code"
    return codes


def test_every_code_of_the_error_envelope_is_declared_with_a_status(project: Project) -> None:
    document = project.contract.document
    error = document["components"]["schemas"]["ErrorResponse"]["properties"]["error"]
    codes = set(re.findall(r"`(\w+)`", error["properties"]["code"]["description"]))
    assert codes == {code for _, code in declared_errors(document)}


def test_all_36_scenarios_and_more_are_played(played: Played, project: Project) -> None:
    files = scenario_files(default_project() / "scenarios")
    assert len(files) > 36
    assert {file.stem for file in files} == played.scenarios.keys() == project.scenarios.keys()
    assert PARTS.keys() <= played.scenarios.keys()


def test_every_error_of_the_contract_is_reached_by_a_scenario(
    played: Played, project: Project
) -> None:
    declared = declared_errors(project.contract.document)
    assert declared
    assert declared - played.reached("errors").keys() == set()


def test_no_scenario_returns_an_error_that_is_not_declared_unless_it_injects_it(
    played: Played, project: Project
) -> None:
    declared = declared_errors(project.contract.document)
    for name, reported in played.scenarios.items():
        faults = project.scenarios[name].faults
        injected = {one["status"] for one in faults if one["kind"] == "status"}
        strange = {one for one in reported.errors if one not in declared and one[0] not in injected}
        assert strange == set(), name


def test_every_type_of_event_is_reached_by_a_scenario(played: Played, project: Project) -> None:
    declared = set(project.lifecycle.events) | set(project.contract.document.get("webhooks", {}))
    assert declared
    assert declared - played.reached("kinds").keys() == set()


def test_every_status_of_an_invoice_is_reached_by_a_scenario(
    played: Played, project: Project
) -> None:
    machine = project.vocabulary.machine
    assert machine is not None
    assert set(machine.states) - played.reached("statuses").keys() == set()


def test_no_step_of_any_scenario_fails(played: Played) -> None:
    assert played.reached("outcomes").keys() <= {"done", "skipped"}


def test_playing_all_scenarios_takes_less_than_ten_seconds(played: Played) -> None:
    assert played.seconds < SECONDS


# A scenario that no other test runs


def test_after_the_day_of_two_secrets_the_seller_gives_up(
    server: Running, client: httpx.Client
) -> None:
    choose(client, "secret-rotation")
    invoice = register(client)
    assert skipped(run_to_end(client)) == []
    assert events_about(server, client, invoice)[-3:] == expected("""
        P2DT6S  offer.declined               FinancingRequested
        P3DT6S  financing_request.cancelled  Verified
        P4DT6S  invoice.withdrawn            Withdrawn
    """)
