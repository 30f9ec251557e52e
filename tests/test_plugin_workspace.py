"""What a test can do with its workspace, tried with the fixture itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.testing import (
    InvoiceSandbox,
    NotReceivedError,
    SandboxError,
    Webhooks,
    running,
)
from invoice_sandbox.testing.report import Used, journal
from tests.cases import in_turn
from tests.receivers import deliveries, receiving
from tests.scenario_run import offers, register_new, status
from tests.support import PATIENCE


def kinds(webhooks: Webhooks) -> list[str]:
    return [event["type"] for event in webhooks.received]


# --- address, key, clients


@pytest.mark.parametrize("token", ["hunter2", 12345678])
def test_an_error_does_not_repeat_a_password(
    invoice_sandbox: InvoiceSandbox, token: str | int
) -> None:
    with pytest.raises(SandboxError) as caught:
        invoice_sandbox.control("POST", "/listeners", {"token": token, "endpoints": 1})
    assert str(token) not in str(caught.value)
    with pytest.raises(SandboxError, match="endpoints must be an array"):
        invoice_sandbox.control("POST", "/listeners", {"endpoints": 1})


@pytest.mark.process
def test_the_server_is_ready_and_the_key_opens_the_workspace(
    invoice_sandbox: InvoiceSandbox,
) -> None:
    assert httpx.get(f"{invoice_sandbox.url}/sandbox/health", timeout=PATIENCE).status_code == 200
    headers = {"X-API-Key": invoice_sandbox.key}
    assert (
        httpx.get(
            f"{invoice_sandbox.url}/api/invoices", headers=headers, timeout=PATIENCE
        ).status_code
        == 200
    )
    assert invoice_sandbox.client is invoice_sandbox.client


def test_a_proxy_of_the_environment_is_not_asked(
    invoice_sandbox: InvoiceSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert invoice_sandbox.client.get("/api/invoices").status_code == 200
    assert invoice_sandbox.clock["mode"] == "frozen"


# --- time


def test_time_moves_by_durations_and_to_instants(invoice_sandbox: InvoiceSandbox) -> None:
    assert invoice_sandbox.clock["now"] == "2026-11-23T09:30:00Z"
    assert invoice_sandbox.advance("P1D")["now"] == "2026-11-24T09:30:00Z"
    assert invoice_sandbox.advance(timedelta(hours=1))["now"] == "2026-11-24T10:30:00Z"
    assert invoice_sandbox.advance(to="2026-12-26T18:00:00Z")["now"] == "2026-12-26T18:00:00Z"
    end = datetime(2027, 1, 1, tzinfo=UTC)
    assert invoice_sandbox.advance(to=end)["now"] == "2027-01-01T00:00:00Z"


def test_time_is_released_and_frozen(invoice_sandbox: InvoiceSandbox) -> None:
    assert invoice_sandbox.release()["mode"] == "live"
    assert invoice_sandbox.freeze()["mode"] == "frozen"


def test_advance_takes_one_of_two(invoice_sandbox: InvoiceSandbox) -> None:
    with pytest.raises(TypeError, match="either a duration or to="):
        invoice_sandbox.advance()
    with pytest.raises(TypeError, match="either a duration or to="):
        invoice_sandbox.advance("P1D", to="2027-01-01T00:00:00Z")


@in_turn(
    ("arguments", "message"),
    [
        ({"by": "3D"}, "invalid duration '3D'; use ISO 8601 such as P3D or PT10S"),
        (
            {"by": timedelta(days=-1)},
            "invalid duration '-P1D': no clock goes back; use ISO 8601 such as P3D or PT10S",
        ),
        (
            {"by": timedelta(days=9999999)},
            "invalid duration 'P9999999D'; use ISO 8601 such as P3D or PT10S",
        ),
        ({"by": 3}, "invalid duration '3'; use ISO 8601 such as P3D or PT10S"),
        ({"to": 5}, "invalid instant '5'; use RFC 3339 such as 2026-11-23T09:30:00Z"),
        ({"to": "soon"}, "invalid instant 'soon'; use RFC 3339 such as 2026-11-23T09:30:00Z"),
    ],
)
def test_an_error_of_advance_names_what_was_passed(
    invoice_sandbox: InvoiceSandbox, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(SandboxError) as caught:
        invoice_sandbox.advance(**arguments)
    assert str(caught.value) == message


@in_turn(
    ("call", "message"),
    [
        (
            lambda sandbox: sandbox.transition("inv_sandbox_0001", "verfy"),
            "trigger 'verfy' is unknown; did you mean verify?",
        ),
        (
            lambda sandbox: sandbox.transition("inv_sandbox_0001", "nothing-like-it"),
            "trigger is unknown; the contract lists all ",
        ),
        (
            lambda sandbox: sandbox.fault("createInvoic", "latency"),
            "operation 'createInvoic' is unknown; did you mean createInvoice?",
        ),
        (
            lambda sandbox: sandbox.fault("createInvoice", "latencey"),
            "kind 'latencey' must be one of latency, ",
        ),
        (
            lambda sandbox: sandbox.fault(None, "status", cuont=1),
            "undeclared member 'cuont' (did you mean count?)",
        ),
        (lambda sandbox: sandbox.fault(None, "status", count=-1), "count must be at least 1"),
        (lambda sandbox: sandbox.control("GET", "/requests?limit=many"), "limit must be a "),
        (
            lambda sandbox: sandbox.control("PUT", "/scenario", {"name": ["a"]}),
            "name must be ",
        ),
    ],
)
def test_an_error_names_what_was_passed_and_where_the_list_is(
    invoice_sandbox: InvoiceSandbox, call: Callable[[InvoiceSandbox], Any], message: str
) -> None:
    with pytest.raises(SandboxError) as caught:
        call(invoice_sandbox)
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(
        f" The contract is at {invoice_sandbox.url}/sandbox/openapi.json."
    )


def test_an_error_about_the_length_of_a_password_does_not_repeat_it(
    invoice_sandbox: InvoiceSandbox,
) -> None:
    user = {"email": "ann@corp.example", "role": "auditor", "password": "s3cret"}
    with pytest.raises(SandboxError, match="password must have at least ") as caught:
        invoice_sandbox.control("POST", "/users", user)
    assert "s3cret" not in str(caught.value)


# --- scenarios, faults, moves


def test_a_scenario_is_chosen_with_conditions(invoice_sandbox: InvoiceSandbox) -> None:
    chosen = invoice_sandbox.scenario("late-payment", late=timedelta(days=20))
    assert (chosen["name"], chosen["conditions"]) == (
        "late-payment",
        {"businessDays": False, "dates": True, "late": "P20D"},
    )


def test_a_scenario_is_chosen_for_one_invoice(invoice_sandbox: InvoiceSandbox) -> None:
    held, other = (register_new(invoice_sandbox.client, invoiceNumber=f"I-{n}") for n in "12")
    invoice_sandbox.scenario("kyb-hold", invoice_id=held)
    invoice_sandbox.advance("PT6S")
    assert status(invoice_sandbox.client, held) == "OnHold"
    assert status(invoice_sandbox.client, other) == "Offered"


def test_an_offer_is_accepted_and_the_invoice_funded(invoice_sandbox: InvoiceSandbox) -> None:
    number = register_new(invoice_sandbox.client)
    invoice_sandbox.advance("PT6S")
    (offer,) = offers(invoice_sandbox.client, number)
    invoice_sandbox.control("POST", f"/offers/{offer['id']}/accept", {})
    assert invoice_sandbox.transition(number, "fund")["status"] == "Funded"


def test_a_fault_is_injected_into_one_operation_or_any(invoice_sandbox: InvoiceSandbox) -> None:
    fault = invoice_sandbox.fault("listOffers", "status", status=503, count=1)
    assert (fault["operation"], fault["count"]) == ("listOffers", 1)
    assert invoice_sandbox.client.get("/api/invoices").status_code == 200
    assert invoice_sandbox.client.get("/api/offers").status_code == 503
    invoice_sandbox.fault(None, "latency", delay=timedelta(milliseconds=1))
    assert invoice_sandbox.client.get("/api/offers").status_code == 200


REJECTED: dict[str, tuple[Callable[[InvoiceSandbox], object], int, str]] = {
    "scenario": (lambda sandbox: sandbox.scenario("kyb-hod"), 400, "Did you mean kyb-hold"),
    "condition": (lambda sandbox: sandbox.scenario("kyb-hold", x=1), 409, "x"),
    "backwards": (lambda sandbox: sandbox.advance(to="2020-01-01T00:00:00Z"), 409, "backwards"),
    "operation": (lambda sandbox: sandbox.fault("create", "reset"), 400, "create"),
    "invoice": (lambda sandbox: sandbox.transition("inv/../x?", "fund"), 404, "no invoice"),
    "snapshot": (lambda sandbox: sandbox.control("DELETE", "/snapshots/x"), 404, "snapshot"),
    "path": (
        lambda sandbox: sandbox.control("POST", "/offrs/x/accept", {}),
        404,
        "^POST /sandbox/offrs/x/accept: No operation has this path. See",
    ),
    "path without a slash": (
        lambda sandbox: sandbox.control("GET", "clock"),
        404,
        "^GET /sandboxclock: No operation",
    ),
}


@in_turn("name", REJECTED)
def test_what_is_rejected_is_reported_in_the_words_of_the_api(
    invoice_sandbox: InvoiceSandbox, name: str
) -> None:
    pull, status, words = REJECTED[name]
    with pytest.raises(SandboxError, match=words) as caught:
        pull(invoice_sandbox)
    assert caught.value.status == status
    assert caught.value.code


@pytest.mark.parametrize("to", ["2027-01-01T00:00:00", datetime(2027, 1, 1)])  # noqa: DTZ001
def test_an_instant_without_a_time_zone_is_an_error(
    invoice_sandbox: InvoiceSandbox, to: str | datetime
) -> None:
    with pytest.raises(SandboxError, match=r"has no time zone|invalid instant"):
        invoice_sandbox.advance(to=to)


# --- webhooks


def test_an_event_is_expected_after_it_happened(invoice_sandbox: InvoiceSandbox) -> None:
    number = register_new(invoice_sandbox.client)
    invoice_sandbox.advance("P3D")
    event = invoice_sandbox.webhooks.expect("invoice.verified", id=number, currency="EUR")
    assert event["data"]["status"] == "Verified"
    assert invoice_sandbox.webhooks.expect("offer.received", invoiceId=number)


def test_each_event_is_expected_once(invoice_sandbox: InvoiceSandbox) -> None:
    numbers = [register_new(invoice_sandbox.client, invoiceNumber=f"I-{n}") for n in "12"]
    webhooks = invoice_sandbox.webhooks
    found = [webhooks.expect("invoice.registered")["data"]["id"] for _ in range(2)]
    assert found == numbers
    with pytest.raises(NotReceivedError, match="expected before"):
        webhooks.expect("invoice.registered")
    webhooks.forget()
    assert webhooks.expect("invoice.registered")["data"]["id"] == numbers[0]


def test_an_event_that_did_not_arrive_is_reported_with_those_that_did(
    invoice_sandbox: InvoiceSandbox,
) -> None:
    register_new(invoice_sandbox.client)
    with pytest.raises(NotReceivedError) as caught:
        invoice_sandbox.webhooks.expect("invoice.verified", currency="EUR")
    reported = str(caught.value).splitlines()
    assert reported[0] == "invoice.verified did not arrive with currency='EUR'"
    assert reported[1] == "Received:"
    assert re.search(r" invoice\.registered evt_\w+ currency='EUR'$", reported[2])
    assert reported[3] == "The next step is due at 2026-11-23T09:30:01Z; advance the clock."


def test_a_type_that_no_contract_has_is_reported_with_its_neighbours(
    invoice_sandbox: InvoiceSandbox,
) -> None:
    with pytest.raises(NotReceivedError, match=r"did you mean invoice\.verified"):
        invoice_sandbox.webhooks.expect("invoice.verifed")
    assert invoice_sandbox.requests == []


@pytest.mark.scenario("webhook-bad-signature")
def test_a_forged_message_is_no_event(invoice_sandbox: InvoiceSandbox) -> None:
    register_new(invoice_sandbox.client)
    invoice_sandbox.advance("PT1S")
    webhooks = invoice_sandbox.webhooks
    forged = [one["problem"] for one in webhooks.messages if not one["verified"]]
    assert "the signature is wrong" in forged
    with pytest.raises(NotReceivedError, match="not verified: the signature is wrong"):
        webhooks.expect("offer.received")


@pytest.mark.scenario("webhook-duplicate")
def test_a_message_that_comes_again_is_one_event(invoice_sandbox: InvoiceSandbox) -> None:
    register_new(invoice_sandbox.client)
    invoice_sandbox.advance("PT10S")
    assert any(one["duplicate"] for one in invoice_sandbox.webhooks.messages)
    assert kinds(invoice_sandbox.webhooks).count("invoice.verified") == 1


def test_on_a_live_clock_an_event_is_waited_for(invoice_sandbox: InvoiceSandbox) -> None:
    invoice_sandbox.release()
    register_new(invoice_sandbox.client)
    assert kinds(invoice_sandbox.webhooks)[0] == "invoice.registered"
    assert invoice_sandbox.webhooks.expect("invoice.verification_started", timeout=PATIENCE)
    with pytest.raises(NotReceivedError):
        invoice_sandbox.webhooks.expect("invoice.paid", timeout=0.1)


def test_a_receiver_of_ones_own_gets_events_too(invoice_sandbox: InvoiceSandbox) -> None:
    with receiving() as receiver:
        endpoint = invoice_sandbox.webhooks.to(receiver.url, ["invoice.verified"])
        register_new(invoice_sandbox.client)
        invoice_sandbox.advance("PT2S")
        (message,) = receiver.messages
        assert message.verified(endpoint["secret"])["type"] == "invoice.verified"
    assert invoice_sandbox.webhooks.expect("invoice.verified")


def test_a_receiver_that_cannot_be_called_is_an_error(invoice_sandbox: InvoiceSandbox) -> None:
    with pytest.raises(SandboxError, match="cannot be called"):
        invoice_sandbox.webhooks.to("ftp://example.com")


@pytest.mark.scenario("maintenance-5xx")
def test_the_faults_of_a_scenario_do_not_meet_the_inbox(invoice_sandbox: InvoiceSandbox) -> None:
    first = invoice_sandbox.client.get("/api/invoices")
    assert first.status_code >= 500
    invoice_sandbox.control("DELETE", "/faults")
    (endpoint,) = invoice_sandbox.client.get("/api/webhooks").json()["data"]["endpoints"]
    assert endpoint["url"] == invoice_sandbox.webhooks.url


# --- journal


def test_the_journal_is_that_of_the_test_in_its_order(invoice_sandbox: InvoiceSandbox) -> None:
    assert invoice_sandbox.requests == []
    assert "There were no requests to the API." in report_of(invoice_sandbox)
    register_new(invoice_sandbox.client)
    invoice_sandbox.client.get("/api/offers")
    invoice_sandbox.advance("P1D")
    assert deliveries(invoice_sandbox.client)
    asked = [one["operation"] for one in invoice_sandbox.requests]
    assert asked == ["createInvoice", "listOffers", "listWebhooks"]


def test_what_the_plugin_sends_is_in_no_journal(invoice_sandbox: InvoiceSandbox) -> None:
    invoice_sandbox.webhooks.to(invoice_sandbox.webhooks.url)
    invoice_sandbox.webhooks.messages  # noqa: B018 - it sends requests
    invoice_sandbox.deliveries  # noqa: B018
    assert invoice_sandbox.client.get("/sandbox/requests").json()["data"] == []


def report_of(sandbox: InvoiceSandbox) -> str:
    """The report on a failed test with this workspace."""
    return journal(Used(sandbox, ControlClient(sandbox.url, sandbox.key)))


def test_the_report_shows_failed_deliveries(invoice_sandbox: InvoiceSandbox) -> None:
    invoice_sandbox.webhooks.to("http://127.0.0.1:9/hooks")
    register_new(invoice_sandbox.client)
    invoice_sandbox.advance("PT0S")
    *_, last = report_of(invoice_sandbox).splitlines()
    assert re.fullmatch(r"delivery dlv_\w+ of invoice\.registered to whe_\w+ Failed: refused", last)


def test_the_report_shows_why(invoice_sandbox: InvoiceSandbox) -> None:
    register_new(invoice_sandbox.client)
    invoice_sandbox.fault("listOffers", "status", status=503)
    invoice_sandbox.client.get("/api/offers")
    invoice_sandbox.client.get("/api/nothing")
    head, created, offers, nothing = report_of(invoice_sandbox).splitlines()
    assert invoice_sandbox.id in head
    assert "frozen at 2026-11-23T09:30:00Z" in head
    assert created.startswith("POST /api/invoices 201 createInvoice (auto-progress): next ")
    assert offers.startswith("GET /api/offers 503 listOffers")
    assert "fault flt_sandbox_" in offers
    assert nothing.startswith("GET /api/nothing 404 no operation")


# --- snapshots, reset, other workspaces


def test_a_snapshot_is_gone_back_to(invoice_sandbox: InvoiceSandbox) -> None:
    snapshot = invoice_sandbox.snapshot()
    first = register_new(invoice_sandbox.client)
    invoice_sandbox.advance("P1D")
    snapshot.restore()
    assert invoice_sandbox.clock["now"] == "2026-11-23T09:30:00Z"
    with invoice_sandbox.snapshot():
        assert register_new(invoice_sandbox.client) == first
    assert register_new(invoice_sandbox.client) == first


@pytest.mark.scenario("kyb-hold", hold="P2D")
def test_a_reset_is_the_beginning_of_the_test(invoice_sandbox: InvoiceSandbox) -> None:
    for _ in range(2):
        number = register_new(invoice_sandbox.client)
        invoice_sandbox.advance("P1D")
        assert status(invoice_sandbox.client, number) == "OnHold"
        invoice_sandbox.advance("P2D")
        assert invoice_sandbox.webhooks.expect("invoice.verified", id=number)
        invoice_sandbox.reset()
    operations = {one["operation"] for one in invoice_sandbox.requests}
    assert operations == {"createInvoice", "getInvoice"}


def test_another_workspace_sees_nothing_of_this_one(invoice_sandbox: InvoiceSandbox) -> None:
    number = register_new(invoice_sandbox.client)
    with invoice_sandbox.workspace("manual", seed=7) as other:
        assert other.client.get(f"/api/invoices/{number}").status_code == 404
        register_new(other.client)
        assert other.advance("P1D")["happened"] == []
    family = invoice_sandbox.control("GET", "/workspaces")
    assert [one["id"] for one in family] == [invoice_sandbox.id]


def test_a_workspace_that_a_test_has_deleted_is_no_error(invoice_sandbox: InvoiceSandbox) -> None:
    with invoice_sandbox.workspace() as other:
        invoice_sandbox.control("DELETE", f"/workspaces/{other.id}")


# --- without pytest


@pytest.fixture(scope="module")
def sandbox() -> Iterator[InvoiceSandbox]:
    with running("late-payment", late="P20D", seed=3) as sandbox:
        yield sandbox


@pytest.mark.process
def test_running_takes_what_the_marker_takes(sandbox: InvoiceSandbox) -> None:
    (current,) = [one for one in sandbox.control("GET", "/scenarios") if one["current"]]
    assert current["name"] == "late-payment"
    assert sandbox.clock["mode"] == "frozen"


def test_the_same_seed_gives_the_same_ids(sandbox: InvoiceSandbox) -> None:
    ids = []
    for _ in range(2):
        with sandbox.workspace(seed=7) as one:
            ids.append(register_new(one.client))
    assert ids[0] == ids[1]
