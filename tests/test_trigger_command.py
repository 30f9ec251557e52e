"""``invoice-sandbox trigger``: one event, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from click.testing import Result

from tests.receivers import Receiver, endpoint, receiving, response, subscribe, switch
from tests.scenario_run import register
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.test_control_commands import run

Run = Callable[[str], Result]
INVOICE = "inv_sandbox_0003"


@pytest.fixture
def key(server: Running) -> str:
    """The key of a workspace of the test's own."""
    return server.new_workspace(seed=7)


@pytest.fixture
def client(server: Running, key: str) -> Iterator[httpx.Client]:
    with server.client(key) as client:
        yield client


@pytest.fixture
def at(server: Running, key: str) -> Run:
    """Runs a line in the test's own workspace."""
    return lambda line: run(line, INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=key)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def test_it_reports_what_was_recorded_and_that_nobody_wants_it(at: Run) -> None:
    ran = at(f"trigger invoice.verified --invoice {INVOICE}")
    first, empty, last = ran.stdout.splitlines()
    event, kind, subject = first.split("  ")
    assert event.startswith("evt_sandbox_")
    assert (kind, subject, empty) == ("invoice.verified", INVOICE, "")
    assert last == "No webhook endpoint subscribes to this event."


def test_without_invoices_of_clients_it_is_about_the_newest_of_the_fixtures(
    at: Run, client: httpx.Client
) -> None:
    newest = client.get("/api/invoices").json()["data"][0]["id"]
    assert at("trigger invoice.verified").stdout.split()[1:3] == ["invoice.verified", newest]
    registered = register(client)["id"]
    assert at("trigger invoice.verified").stdout.split()[1:3] == ["invoice.verified", registered]


@pytest.mark.parametrize(
    ("subject", "missing"),
    [("", "webhook endpoint"), (f" --subject {INVOICE}", f"webhook endpoint of {INVOICE}")],
)
def test_an_event_about_nothing_says_what_is_missing(
    server: Running, subject: str, missing: str
) -> None:
    env = {"INVOICE_SANDBOX_URL": server.url, "INVOICE_SANDBOX_KEY": server.new_workspace(seed=7)}
    ran = run(f"trigger webhook_endpoint.disabled{subject}", **env)
    assert ran.exit_code == 1
    assert ran.stderr.startswith(f"Error: There is no {missing} that the event can be about. ")


@pytest.mark.parametrize(
    ("event_type", "place"),
    [
        ("offer.received", "/api/offers"),
        ("financing_request.created", "/api/financing-requests"),
        ("invoice.verified", "/api/invoices"),
    ],
)
def test_the_subject_is_the_resource_with_that_id(
    at: Run, client: httpx.Client, event_type: str, place: str
) -> None:
    oldest = client.get(place).json()["data"][-1]["id"]
    assert at(f"trigger {event_type} --subject {oldest}").stdout.split()[2] == oldest


def test_the_subject_is_the_webhook_endpoint_with_that_id(
    at: Run, client: httpx.Client, receiver: Receiver
) -> None:
    first = subscribe(client, f"{receiver.url}/a", events=["*"])["id"]
    subscribe(client, f"{receiver.url}/b", events=["*"])
    assert at(f"trigger webhook_endpoint.disabled --subject {first}").stdout.split()[2] == first


@pytest.mark.parametrize(
    ("event_type", "kind"),
    [
        ("offer.received", "offer or invoice"),
        ("financing_request.created", "financing request or invoice"),
        ("webhook_endpoint.disabled", "webhook endpoint or invoice"),
        ("invoice.verified", "invoice"),
    ],
)
def test_a_subject_that_does_not_exist_is_repeated(at: Run, event_type: str, kind: str) -> None:
    ran = at(f"trigger {event_type} --subject xyz")
    assert ran.exit_code == 1
    assert f"There is no {kind} with this id. Check 'xyz', and that" in ran.stderr


def test_deliveries_lists_them_with_their_last_attempt(
    at: Run, client: httpx.Client, receiver: Receiver
) -> None:
    assert at("deliveries").stdout == "No webhook deliveries yet.\n"
    receiver.responses(response(201), response(500))
    subscribe(client, receiver.url, events=["*"])
    for kind in ("invoice.verified", "invoice.paid"):
        at(f"trigger {kind} --invoice {INVOICE}")
    head, newest, oldest = (line.split() for line in at("deliveries").stdout.splitlines())
    assert head[:4] == ["attempted", "at", "type", "status"]
    assert newest[1:5] == ["invoice.paid", "Failed", "500", "1"]
    assert oldest[1:5] == ["invoice.verified", "Delivered", "201", "1"]


def test_it_waits_until_every_endpoint_has_responded(
    at: Run, client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(201), response(500))
    first = subscribe(client, f"{receiver.url}/a", events=["*"])
    second = subscribe(client, f"{receiver.url}/b", events=["invoice.*"])
    subscribe(client, f"{receiver.url}/c", events=["offer.received"])
    ran = at(f"trigger invoice.verified --invoice {INVOICE}")
    lines = ran.stdout.splitlines()
    assert lines[2].split() == ["delivery", "endpoint", "status", "response", "next", "attempt"]
    shown = {words[1]: words[2:4] for words in map(str.split, lines[3:])}
    assert set(shown) == {first["id"], second["id"]}
    assert sorted(shown.values()) == [["Delivered", "201"], ["Failed", "500"]]
    assert receiver.ids() == [lines[0].split()[0]] * 2


def test_as_json_it_is_the_event_and_its_deliveries(
    at: Run, client: httpx.Client, receiver: Receiver
) -> None:
    made = subscribe(client, receiver.url, events=["*"])
    at(f"trigger invoice.paid --invoice {INVOICE}")
    triggered = json.loads(at(f"trigger invoice.verified --invoice {INVOICE} --json").stdout)
    assert triggered["event"] == receiver.messages[-1].event
    (delivery,) = triggered["deliveries"]
    assert delivery == client.get("/api/webhooks").json()["data"]["deliveries"][0]
    assert (delivery["endpointId"], delivery["status"]) == (made["id"], "Delivered")


def test_what_cannot_be_reached_is_named(at: Run, client: httpx.Client) -> None:
    subscribe(client, "http://127.0.0.1:1", events=["*"])
    assert "refused" in at(f"trigger invoice.verified --invoice {INVOICE}").stdout


def test_a_disabled_endpoint_gets_nothing(
    at: Run, client: httpx.Client, receiver: Receiver
) -> None:
    made = subscribe(client, receiver.url, events=["*"])
    switch(client, made["id"], "disable")
    assert endpoint(client, made["id"])["status"] == "Disabled"
    assert "No webhook endpoint" in at(f"trigger invoice.verified --invoice {INVOICE}").stdout
    assert receiver.messages == []


def test_a_typo_in_the_type_gets_a_suggestion(at: Run) -> None:
    ran = at("trigger invoice.verifed")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "type 'invoice.verifed' is unknown; did you mean invoice.verified?" in ran.stderr


def test_a_project_whose_events_cannot_be_recorded_is_reported(tmp_path: Path) -> None:
    contract = tmp_path / "other.yaml"
    contract.write_text("openapi: 3.1.0\ninfo: {title: Other, version: '1'}\npaths: {}\n")
    with serving(replace(FROZEN, contract=contract, scenario=None)) as running:
        ran = run("trigger parcel.sent", INVOICE_SANDBOX_URL=running.url)
        moved = run("transition inv_1 fly", INVOICE_SANDBOX_URL=running.url)
    assert ran.exit_code == moved.exit_code == 1
    assert "POST /sandbox/events: No operation has this path." in ran.stderr
    assert "POST /sandbox/invoices/inv_1/transition: No operation has this" in moved.stderr


def test_an_unknown_path_of_the_control_api_is_an_error_of_the_control_api(tmp_path: Path) -> None:
    contract = tmp_path / "other.yaml"
    server = "servers: [{url: /v1}]\npaths: {}\n"
    contract.write_text(f"openapi: 3.1.0\ninfo: {{title: Other, version: '1'}}\n{server}")
    with serving(replace(FROZEN, contract=contract, scenario=None)) as running:
        rejected = httpx.get(f"{running.url}/sandbox/nothing", timeout=PATIENCE)
    error = rejected.json()["error"]
    assert (rejected.status_code, error["code"]) == (404, "resource_not_found")
    see = f"See {running.url}/sandbox/openapi.json."
    assert error["message"] == f"No operation has this path. {see}"


def test_what_all_paths_begin_with_is_no_base_path(server: Running, client: httpx.Client) -> None:
    rejected = client.get("/invoices")
    see = f"See {server.url}/openapi.json."
    assert rejected.json()["error"]["message"] == (
        f"No operation has this path; did you mean /api/invoices? {see}"
    )
