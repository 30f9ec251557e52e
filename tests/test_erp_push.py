"""ERP push: taken in at once, worked off by the agenda, one bad item stopping no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.erp import SLICE
from invoice_sandbox.base.clock import FROZEN_START, ClockState
from invoice_sandbox.runtime.agenda import Agenda
from invoice_sandbox.runtime.step_runner import drop_reporter
from invoice_sandbox.state import ScheduledStep, Transaction, Workspace
from invoice_sandbox.state.memory import MemoryStore
from invoice_sandbox.webhooks.attempts import Outcome, Outgoing
from invoice_sandbox.webhooks.lanes import Lanes
from tests.cases import in_turn
from tests.scenario_run import DATED, agenda, data
from tests.support import FROZEN, ManualSystemClock, Running, serving

PUSH = "/api/connectors/erp/invoices"
INVOICE = {**DATED, "invoiceNumber": "ERP-1", "amount": 4200}
ITEM = {**INVOICE, "externalId": "ERP-1", "erpStatus": "OPEN"}
SOURCE = {"system": "demo-erp", "connectionId": "conn_demo_0001"}


def push(client: httpx.Client, **body: Any) -> Any:
    response = client.post(PUSH, json=body)
    assert response.status_code == 202, response.text
    return response.json()["data"]


def push_items(client: httpx.Client, *items: Any, **source: Any) -> Any:
    return push(client, source=source or SOURCE, invoices=list(items))


def registered(client: httpx.Client) -> list[Any]:
    """The invoices that were not there from the start, oldest first, without their ids."""
    invoices = client.get("/api/invoices").json()["data"]
    made = [one for one in invoices if one["id"].count("_") > 2]
    return [{k: v for k, v in one.items() if k not in {"id", "registryId"}} for one in made[::-1]]


def reported(client: httpx.Client, target: Any) -> list[tuple[str, Any]]:
    """Action and metadata of the audit events about an import, oldest first."""
    events = client.get("/api/audit-log", params={"targetId": target["importId"]}).json()["data"]
    return [(one["action"], one["metadata"]) for one in reversed(events)]


def test_a_batch_is_accepted_at_once_and_counted(client: httpx.Client) -> None:
    accepted = push_items(client, ITEM, {**ITEM, "externalId": "ERP-2"})
    assert accepted.pop("importId").startswith("imp_sandbox_")
    assert accepted == {"status": "Accepted", "received": 2, "source": SOURCE}


def test_every_item_becomes_an_invoice_before_the_next_request_sees_anything(
    client: httpx.Client,
) -> None:
    push_items(client, ITEM, {**ITEM, "externalId": "ERP-2", "invoiceNumber": "ERP-2"})
    assert registered(client) == [
        {**INVOICE, "status": "Registered"},
        {**INVOICE, "invoiceNumber": "ERP-2", "status": "Registered"},
    ]


def test_the_payload_may_be_one_invoice(client: httpx.Client) -> None:
    assert push(client, **ITEM)["received"] == 1
    assert registered(client) == [{**INVOICE, "status": "Registered"}]


@pytest.mark.parametrize("name", ["sellerId", "externalId", "erpStatus", "amount"])
def test_one_known_member_makes_the_payload_an_invoice(client: httpx.Client, name: str) -> None:
    accepted = push(client, **{name: ITEM[name]})
    assert accepted["received"] == 1
    assert reported(client, accepted)[1][0] == "erp_item.rejected"


@pytest.mark.parametrize(
    "body", [{}, {"source": SOURCE}, {"invoices": []}, {"colour": "blue"}], ids=repr
)
def test_a_payload_without_invoices_is_accepted_and_does_nothing(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    accepted = push(client, **body)
    assert (accepted["received"], accepted["source"]) == (0, body.get("source", {}))
    assert registered(client) == []


@pytest.mark.parametrize(
    "body",
    [[], None, "x", {"invoices": {}}, {"invoices": "x"}],
    ids=repr,
)
def test_a_frame_that_the_contract_does_not_allow_is_400(client: httpx.Client, body: Any) -> None:
    response = client.post(PUSH, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


BAD: dict[str, tuple[Any, str]] = {
    "no object": (7, "the item must be an object"),
    "null": (None, "the item must be an object"),
    "a list": ([ITEM], "the item must be an object"),
    "no debtor": ({k: v for k, v in ITEM.items() if k != "debtorId"}, "debtorId is required"),
    "an amount as text": ({**ITEM, "amount": "4200"}, "amount"),
    "a day that does not exist": ({**ITEM, "dueDate": "2027-02-30"}, "dueDate"),
    "a number without text": ({**ITEM, "invoiceNumber": 7}, "invoiceNumber"),
}


@in_turn(("item", "problem"), BAD.values(), ids=BAD)
def test_a_bad_item_is_reported_in_the_audit_log_and_stops_no_other(
    client: httpx.Client, item: Any, problem: str
) -> None:
    accepted = push_items(client, item, {**ITEM, "externalId": "ERP-2"})
    (_, (action, metadata), _) = reported(client, accepted)
    assert (accepted["received"], action, metadata["index"]) == (2, "erp_item.rejected", 0)
    (text,) = metadata["problems"]
    assert problem in text
    assert len(registered(client)) == 1


def test_the_report_of_a_bad_item_is_a_failure_of_the_system(client: httpx.Client) -> None:
    accepted = push_items(client, 7)
    event = client.get("/api/audit-log", params={"targetId": accepted["importId"]}).json()["data"][
        0
    ]
    assert (event["outcome"], event["actor"]) == ("Failure", {"type": "system", "id": None})


SKIPPED: dict[str, tuple[dict[str, Any], str]] = {
    "paid": ({"erpStatus": "PAID"}, "the invoice is paid"),
    "void": ({"erpStatus": "VOID"}, "the invoice is void"),
    "draft": ({"erpStatus": "DRAFT"}, "the invoice is a draft"),
    "lower case": ({"erpStatus": "paid"}, "the invoice is paid"),
    "mixed case": ({"erpStatus": " Draft"}, "the invoice is a draft"),
    "a draft that is not complete": (
        {"erpStatus": "DRAFT", "amount": None},
        "the invoice is a draft",
    ),
    "all parts are paid": (
        {"erpStatus": "PARTIALLY_PAID", "outstandingAmount": 0},
        "nothing is outstanding",
    ),
}


@in_turn(("members", "reason"), SKIPPED.values(), ids=SKIPPED)
def test_what_cannot_be_financed_is_skipped_with_the_reason(
    client: httpx.Client, members: dict[str, Any], reason: str
) -> None:
    accepted = push_items(client, {**ITEM, **members})
    metadata = {"index": 0, "erpStatus": members["erpStatus"], "reason": reason}
    assert reported(client, accepted)[1:] == [("erp_item.skipped", metadata)]
    assert registered(client) == []


@pytest.mark.parametrize("status", ["PARTIALLY_PAID", "PartiallyPaid", "partially paid"])
def test_a_partly_paid_invoice_is_registered_with_its_outstanding_amount(
    client: httpx.Client, status: str
) -> None:
    push_items(client, {**ITEM, "erpStatus": status, "outstandingAmount": 1200.5})
    assert registered(client) == [{**INVOICE, "amount": 1200.5, "status": "Registered"}]


def test_a_payload_of_one_partly_paid_invoice_has_its_outstanding_amount(
    client: httpx.Client,
) -> None:
    push(client, **{**ITEM, "erpStatus": "PARTIALLY_PAID", "outstandingAmount": 4200})
    assert registered(client) == [{**INVOICE, "status": "Registered"}]


CREDIT_NOTE = "the item is a credit note, which cannot be financed"
NOT_A_NUMBER = "outstandingAmount must be a number, because the invoice is partly paid"
OUT_OF_RANGE = "outstandingAmount must be above 0 and at most the amount"
PARTLY_PAID = {"erpStatus": "PARTIALLY_PAID"}
REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "a credit note by its amount": ({"amount": -100}, CREDIT_NOTE),
    "a credit note by its type": ({"documentType": "CREDIT_NOTE"}, CREDIT_NOTE),
    "a credit note in another case": ({"documentType": "CreditNote"}, CREDIT_NOTE),
    "a credit memo": ({"documentType": "Credit memo"}, CREDIT_NOTE),
    "nothing is said to be outstanding": (PARTLY_PAID, NOT_A_NUMBER),
    "outstanding is a text": ({**PARTLY_PAID, "outstandingAmount": "100"}, NOT_A_NUMBER),
    "outstanding is true": ({**PARTLY_PAID, "outstandingAmount": True}, NOT_A_NUMBER),
    "outstanding is negative": ({**PARTLY_PAID, "outstandingAmount": -1}, OUT_OF_RANGE),
    "more is outstanding than the amount": (
        {**PARTLY_PAID, "outstandingAmount": 4200.01},
        OUT_OF_RANGE,
    ),
}


@in_turn(("members", "problem"), REJECTED.values(), ids=REJECTED)
def test_an_item_that_is_no_invoice_to_finance_is_rejected_alone(
    client: httpx.Client, members: dict[str, Any], problem: str
) -> None:
    other = {**ITEM, "externalId": "ERP-2", "invoiceNumber": "ERP-2"}
    accepted = push_items(client, {**ITEM, **members}, other)
    metadata = {"index": 0, "problems": [problem]}
    assert reported(client, accepted)[1] == ("erp_item.rejected", metadata)
    assert [one["invoiceNumber"] for one in registered(client)] == ["ERP-2"]


STRANGE_STATUSES = ["OPEN", "SUBMITTED", "Posted", "nonsense", 7, None, [], ["PAID"], {}]


@in_turn("status", STRANGE_STATUSES, ids=repr)
def test_any_other_erp_status_registers_the_invoice(client: httpx.Client, status: Any) -> None:
    push_items(client, {**ITEM, "erpStatus": status, "outstandingAmount": 1})
    assert registered(client) == [{**INVOICE, "status": "Registered"}]


@pytest.mark.parametrize("status", STRANGE_STATUSES, ids=repr)
def test_the_result_of_an_item_names_its_invoice_and_a_status_that_counts_as_open(
    client: httpx.Client, status: Any
) -> None:
    accepted = push_items(client, {**ITEM, "erpStatus": status})
    query = {"targetId": accepted["importId"], "action": "invoice.registered"}
    (event,) = client.get("/api/audit-log", params=query).json()["data"]
    assert [one["type"] for one in event["targets"]] == ["invoice", "erp_import"]
    assert client.get(f"/api/invoices/{event['targets'][0]['id']}").status_code == 200
    is_known = status in ("OPEN", "SUBMITTED", None)
    read = {} if is_known else {"erpStatus": status, "readAs": "OPEN"}
    assert event["metadata"] == {"to": "Registered", "index": 0, **read}


def test_the_same_external_id_again_changes_nothing(client: httpx.Client) -> None:
    push_items(client, ITEM)
    again = push_items(client, {**ITEM, "amount": 1})
    assert reported(client, again)[1:] == [("erp_item.unchanged", {"index": 0})]
    assert registered(client) == [{**INVOICE, "status": "Registered"}]


def test_the_same_external_id_twice_in_one_batch_registers_once(client: httpx.Client) -> None:
    push_items(client, ITEM, {**ITEM, "invoiceNumber": "ERP-2"})
    assert registered(client) == [{**INVOICE, "status": "Registered"}]


SYSTEMS: dict[str, tuple[tuple[str | None, str], tuple[str | None, str]]] = {
    "another system": (("sap", "1"), ("oracle", "1")),
    "a system and none": (("sap", "1"), (None, "1")),
    "names that look alike when joined": (("sap", "eu/1"), ("sap/eu", "1")),
}


@pytest.mark.parametrize(("first", "second"), SYSTEMS.values(), ids=SYSTEMS)
def test_the_same_external_id_of_another_system_is_another_invoice(
    client: httpx.Client, first: tuple[str | None, str], second: tuple[str | None, str]
) -> None:
    for number, (system, external_id) in enumerate((first, second)):
        item = {**ITEM, "externalId": external_id, "invoiceNumber": f"S-{number}"}
        push(client, source={} if system is None else {"system": system}, invoices=[item])
    assert [one["invoiceNumber"] for one in registered(client)] == ["S-0", "S-1"]


@pytest.mark.parametrize("source", ["SAP", None, 7, ["SAP"], {"system": "SAP"}], ids=repr)
def test_the_source_may_be_anything_and_distinguishes_external_ids(
    client: httpx.Client, source: Any
) -> None:
    accepted = [push(client, source=source, invoices=[ITEM]) for _ in range(2)]
    assert [one["source"] for one in accepted] == [source, source]
    assert reported(client, accepted[1])[1:] == [("erp_item.unchanged", {"index": 0})]
    push(client, source="another system", invoices=[{**ITEM, "invoiceNumber": "S-2"}])
    assert [one["invoiceNumber"] for one in registered(client)] == ["ERP-1", "S-2"]


@pytest.mark.parametrize("external_id", [None, 7, [], {}], ids=repr)
def test_without_a_usable_external_id_every_push_registers(
    client: httpx.Client, external_id: Any
) -> None:
    for number in ("S-1", "S-2"):
        push_items(client, {**ITEM, "externalId": external_id, "invoiceNumber": number})
    assert len(registered(client)) == 2


@pytest.mark.parametrize("system", [None, 7, [], {}, "sap"], ids=repr)
def test_the_source_comes_back_as_it_was_sent(client: httpx.Client, system: Any) -> None:
    assert push_items(client, ITEM, system=system)["source"] == {"system": system}
    assert len(registered(client)) == 1


def test_an_item_that_is_registered_already_becomes_a_suspected_duplicate(
    client: httpx.Client,
) -> None:
    client.post("/api/invoices", json=INVOICE)
    push_items(client, ITEM)
    assert [one["status"] for one in registered(client)] == ["Registered", "DuplicateSuspected"]


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A server whose clock flows."""
    with serving(replace(FROZEN, clock=ClockState("live"))) as running:
        yield running


def test_on_a_live_clock_items_are_imported_with_the_request(live: Running) -> None:
    with live.client() as client:
        push_items(client, ITEM)
        assert agenda(client)["due"] == []  # reading it runs no step
        assert registered(client)[-1]["invoiceNumber"] == ITEM["invoiceNumber"]


async def no_sending(_request: Outgoing) -> Outcome:
    raise AssertionError("nothing is to be sent")


def test_an_action_that_fails_is_given_up_logged_and_not_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []
    reported: list[tuple[str, str, datetime]] = []
    later = FROZEN_START + timedelta(seconds=2)

    def report(
        _: Transaction, at: Workspace, step: ScheduledStep, outcome: str, reason: str
    ) -> None:
        assert outcome == "failed"
        reported.append((step.action, reason, at.clock.at))

    def run(_state: Transaction, _workspace: Workspace, step: ScheduledStep) -> list[str]:
        done.append(step.action)
        if step.action == "fail":
            raise ValueError("on purpose")
        return []

    async def two_steps() -> None:
        store, workspace = MemoryStore(), Workspace("w", 1, "w", ClockState("frozen"), "manual")
        store.create_workspace(workspace, FROZEN_START)
        with store.transaction("w") as state:
            state.schedule(later, "fail", {})
            state.schedule(later, "succeed", {})
        system_clock = ManualSystemClock()
        lanes = Lanes(store, system_clock, no_sending, virtual_time=False)
        agenda = Agenda(store, system_clock, run, lanes, report)
        moved = await agenda.advance("w", lambda start: start + timedelta(hours=1))
        assert [one["outcome"] for one in moved.happened] == ["failed", "done"]
        assert (await agenda.advance("w", lambda start: start)).happened == ()

    with caplog.at_level(logging.ERROR, "invoice_sandbox"):
        asyncio.run(two_steps())
    assert done == ["fail", "succeed"]
    assert reported == [("fail", "ValueError", later)], "at the instant of the step"
    assert [one.getMessage() for one in caplog.records] == [
        "w: the step 'fail' failed and is not repeated"
    ]


@pytest.mark.parametrize(
    ("action", "arguments", "target", "event"),
    [
        pytest.param(
            "process-erp-items",
            {"importId": "imp_1", "start": 3, "items": [7, 8]},
            "imp_1",
            (
                "erp_item.rejected",
                {
                    "index": 3,
                    "indexes": [3, 4],
                    "problems": ["the item could not be registered: ValueError"],
                },
            ),
            id="pushed items",
        ),
        pytest.param(
            "transition",
            {"subject": "inv_1"},
            "inv_1",
            ("scenario_step.failed", {"do": "transition"}),
            id="a step of a scenario",
        ),
    ],
)
def test_a_step_that_fails_is_audited_where_its_result_is_looked_for(
    server: Running,
    client: httpx.Client,
    action: str,
    arguments: dict[str, Any],
    target: str,
    event: tuple[str, Any],
) -> None:
    def fail(state: Transaction) -> None:
        step = ScheduledStep(1, FROZEN_START, action, arguments)
        report = drop_reporter(server.sandbox.engine.project)
        report(state, state.workspace(), step, "failed", "ValueError")

    server.in_transaction(fail, client)
    assert reported(client, {"importId": target}) == [event]


# Large pushes


def test_a_push_of_any_size_is_accepted_and_reported(client: httpx.Client) -> None:
    """The published schema has no maximum. The items of a slice with the same problem have one
    audit event."""
    items: list[Any] = [7] * (2 * SLICE + 1)
    items[SLICE + 30] = {**ITEM, "invoiceNumber": "ERP-LATE"}
    items[SLICE + 31] = {**ITEM, "erpStatus": "DRAFT"}
    accepted = push_items(client, *items)
    assert accepted["received"] == 2 * SLICE + 1
    assert [one["invoiceNumber"] for one in registered(client)] == ["ERP-LATE"]
    events = [metadata for action, metadata in reported(client, accepted) if "erp_item" in action]
    late = {SLICE + 30, SLICE + 31}
    assert [one.get("indexes", one["index"]) for one in events] == [
        list(range(SLICE)),
        [one for one in range(SLICE, 2 * SLICE) if one not in late],
        SLICE + 31,
        2 * SLICE,
    ]
    assert {one["problems"][0] for one in events if "problems" in one} == {
        "the item must be an object"
    }


def test_a_request_registers_one_slice_on_a_live_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agenda, which stands still here, registers the others."""
    monkeypatch.setattr(Agenda, "_set_timer", lambda _: None)
    items = [{**ITEM, "externalId": f"E-{n}", "invoiceNumber": f"N-{n}"} for n in range(3 * SLICE)]

    def left() -> list[int]:  # reading it runs no step
        return [one["with"]["start"] for one in agenda(client)["due"]]

    with serving(replace(FROZEN, clock=ClockState("live"))) as live, live.client() as client:
        push_items(client, *items)
        assert left() == [SLICE, 2 * SLICE]
        client.get("/api/invoices")  # does what is due before and after
        assert left() == []
        numbers = [one["invoiceNumber"] for one in registered(client)]
    assert sorted(numbers) == sorted(one["invoiceNumber"] for one in items)


@pytest.mark.parametrize(
    ("body", "warnings"),
    [
        (
            {"Invoices": [{"InvoiceNumber": "X"}]},
            ["no invoice was found", "did you mean invoices?"],
        ),
        ({"invoices": [ITEM], "sorce": {"system": "sap"}}, ["did you mean source?"]),
        ({"invoices": [{**ITEM, "dueDat": "2027-01-03"}]}, []),
    ],
    ids=["another shape", "a misspelt member", "a member of an item, which is open"],
)
def test_a_push_says_what_of_it_was_not_read(
    client: httpx.Client, body: Any, warnings: list[str]
) -> None:
    accepted = data(client.post("/api/connectors/erp/invoices", json=body), 202)
    said = accepted.get("warnings", [])
    assert len(said) == len(warnings)
    assert all(part in sentence for part, sentence in zip(warnings, said, strict=True))


ALONE = """\
name: {name}
purpose: This scenario starts with no other one.
begins: {{debtorId: {debtor}}}
steps: []
"""


def test_a_scenario_that_cannot_be_combined_is_reported(tmp_path: Path) -> None:
    for name, debtor in (("mine", "sim_debtor_mine"), ("other", "sim_debtor_other")):
        (tmp_path / f"{name}.yaml").write_text(ALONE.format(name=name, debtor=debtor))
    both = {**ITEM, "sellerId": "sim_seller_kyb_hold", "debtorId": "sim_debtor_mine"}
    composed = {**both, "debtorId": "sim_debtor_sanctions"}
    with serving(replace(FROZEN, scenarios=tmp_path)) as server, server.client() as client:
        pushed = [
            push_items(client, item, system=str(n)) for n, item in enumerate([both, composed])
        ]
        audited = [dict(reported(client, item))["invoice.registered"] for item in pushed]
    assert [item.get("scenariosNotStarted") for item in audited] == [["mine"], None]
