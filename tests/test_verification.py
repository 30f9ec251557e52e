"""The verification run: eleven explicit states, and one move of one invoice at most."""

from __future__ import annotations

from datetime import date
from typing import Any

import httpx
import pytest

from domain.verification import Facts, checklist, run_status
from invoice_sandbox.state import Transaction
from tests.cases import in_turn
from tests.scenario_run import DATED, INVOICE, data, move, register, status
from tests.support import Running

RUN = "/api/verification/run"
ITEMS = [
    ("invoice_data_complete", "Invoice data complete", True, "Passed"),
    ("duplicate_check", "Duplicate financing check", True, "Passed"),
    ("seller_kyb", "Seller KYB", True, "Passed"),
    ("debtor_kyb", "Debtor KYB", True, "Passed"),
    ("sanctions_screening", "Sanctions screening", True, "Passed"),
    ("debtor_confirmation", "Debtor confirmation", True, "Passed"),
    ("delivery_evidence", "Delivery evidence", False, "NotApplicable"),
    ("eligibility", "Eligibility", True, "Passed"),
    ("assignability", "Assignability", True, "Passed"),
    ("related_party", "Related party", True, "Passed"),
    ("payment_details", "Payment details", False, "Passed"),
]


def run(client: httpx.Client, **body: Any) -> Any:
    response = client.post(RUN, json=body)
    assert response.status_code == 200
    return response.json()["data"]


def actions(client: httpx.Client, invoice: Any) -> list[str]:
    """What the audit log reports of an invoice, oldest first."""
    events = client.get("/api/audit-log", params={"targetId": invoice["id"]}).json()["data"]
    return [event["action"] for event in reversed(events)]


def finding(result: Any, code: str) -> tuple[str, str | None]:
    """State and detail of one item."""
    (row,) = (row for row in result["checklist"] if row["code"] == code)
    return row["state"], row.get("detail")


def force(server: Running, client: httpx.Client, invoice: Any, to: str) -> None:
    """Put the invoice into a status that no published operation leads to."""

    def change(state: Transaction) -> None:
        record = state.get("invoices", invoice["id"])
        assert record is not None
        state.put("invoices", invoice["id"], {**record, "status": to})

    server.in_transaction(change, client)


def test_the_checklist_has_eleven_items_in_a_fixed_order(client: httpx.Client) -> None:
    register(client)
    rows = run(client)["checklist"]
    assert [(one["code"], one["label"], one["mandatory"], one["state"]) for one in rows] == ITEMS
    assert {item["checkedAt"] for item in rows} == {"2026-11-23T09:30:00Z"}


def test_a_run_reports_which_invoice_it_verified_when_and_with_which_result(
    client: httpx.Client,
) -> None:
    invoice = register(client)
    result = run(client)
    assert result["verificationId"].startswith("ver_sandbox_")
    assert (result["invoiceId"], result["status"]) == (invoice["id"], "Verified")
    assert (result["simulated"], result["completedAt"]) == (True, "2026-11-23T09:30:00Z")
    assert finding(result, "duplicate_check") == ("Passed", "RegisteredUnique")


def test_a_run_takes_a_registered_invoice_to_verified_by_way_of_pending(
    client: httpx.Client,
) -> None:
    invoice = register(client)
    run(client, invoiceId=invoice["id"])
    assert status(client, invoice) == "Verified"
    events = client.get("/api/audit-log", params={"targetId": invoice["id"]}).json()["data"]
    moves = [(one["action"], one["metadata"].get("from"), one["metadata"]["to"]) for one in events]
    assert moves[::-1] == [
        ("invoice.registered", None, "Registered"),
        ("invoice.verification_started", "Registered", "VerificationPending"),
        ("invoice.verified", "VerificationPending", "Verified"),
    ]


def test_without_a_body_the_newest_invoice_that_can_still_move_is_verified(
    server: Running, client: httpx.Client
) -> None:
    older, newer, ended = (register(client, invoiceNumber=f"N-{n}") for n in range(3))
    force(server, client, ended, "Settled")
    assert client.post(RUN).json()["data"]["invoiceId"] == newer["id"]
    assert (status(client, older), status(client, newer)) == ("Registered", "Verified")


def test_an_empty_object_is_as_good_as_no_body(client: httpx.Client) -> None:
    assert run(client)["invoiceId"] == client.post(RUN).json()["data"]["invoiceId"]


def test_without_any_invoice_a_synthetic_one_is_verified_and_nothing_changes(
    client: httpx.Client,
) -> None:
    def seen() -> list[Any]:
        paths = ("/api/invoices", "/api/audit-log")
        return [client.get(path).json()["data"] for path in paths]

    before = seen()
    result = client.post(RUN).json()["data"]
    assert result["status"] == "Verified"
    assert [one["code"] for one in result["checklist"]] == [code for code, *_ in ITEMS]
    assert result["invoiceId"] not in {one["id"] for one in before[0]}
    assert seen() == before


def test_an_invoice_of_the_fixtures_is_never_chosen_by_default(client: httpx.Client) -> None:
    fixtures = {one["id"] for one in client.get("/api/invoices").json()["data"]}
    assert fixtures
    assert run(client)["invoiceId"] not in fixtures


def test_an_unknown_invoice_is_404(client: httpx.Client) -> None:
    response = client.post(RUN, json={"invoiceId": "inv_sandbox_nowhere_0001"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "resource_not_found")


NO_BODY_OF_A_RUN = {
    "a list": b"[]",
    "a string": b'"inv_sandbox_0001"',
    "null": b"null",
    "a number": b"1",
    "no JSON": b"{",
    "an id that is no string": b'{"invoiceId": 7}',
    "an id that is null": b'{"invoiceId": null}',
}


@in_turn("body", NO_BODY_OF_A_RUN.values(), ids=NO_BODY_OF_A_RUN)
def test_a_body_that_is_no_object_of_the_contract_is_400(client: httpx.Client, body: bytes) -> None:
    response = client.post(RUN, content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


@in_turn("end", ["Settled", "Repurchased", "WrittenOff", "Rejected", "Withdrawn", "Expired"])
def test_an_invoice_that_has_come_to_its_end_is_409(
    server: Running, client: httpx.Client, end: str
) -> None:
    invoice = register(client)
    force(server, client, invoice, end)
    response = client.post(RUN, json={"invoiceId": invoice["id"]})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "invalid_request")
    assert end in response.json()["error"]["message"]


def test_verifying_again_gives_the_same_verification_and_moves_nothing(
    client: httpx.Client,
) -> None:
    invoice = register(client)
    first = run(client, invoiceId=invoice["id"])
    before = actions(client, invoice)
    assert run(client, invoiceId=invoice["id"]) == first
    assert actions(client, invoice) == before
    assert before.count("invoice.verified") == 1


FAILING: dict[str, tuple[dict[str, Any], str, tuple[str, str]]] = {
    "past due": ({"dueDate": "2026-11-22"}, "eligibility", ("Failed", "PastDue")),
    "an amount of zero": ({"amount": 0}, "eligibility", ("Failed", "AmountNotPositive")),
    "an amount below zero": ({"amount": -5}, "eligibility", ("Failed", "AmountNotPositive")),
    "due before it was issued": (
        {"issueDate": "2026-11-23", "dueDate": "2026-11-22"},
        "invoice_data_complete",
        ("Failed", "DueBeforeIssue"),
    ),
    "issued tomorrow": (
        {"issueDate": "2026-11-24"},
        "invoice_data_complete",
        ("Failed", "IssuedInFuture"),
    ),
    "no number": (
        {"invoiceNumber": ""},
        "invoice_data_complete",
        ("Failed", "BlankInvoiceNumber"),
    ),
    "a number that nobody sees": (
        {"invoiceNumber": " \u200b\ufeff\t"},
        "invoice_data_complete",
        ("Failed", "BlankInvoiceNumber"),
    ),
    "all of them": (
        {"invoiceNumber": " ", "issueDate": "2027-02-03"},
        "invoice_data_complete",
        ("Failed", "BlankInvoiceNumber, DueBeforeIssue, IssuedInFuture"),
    ),
}


@pytest.mark.parametrize(("members", "code", "expected"), FAILING.values(), ids=FAILING)
def test_a_mandatory_item_that_fails_fails_the_invoice(
    client: httpx.Client, members: dict[str, Any], code: str, expected: tuple[str, str]
) -> None:
    invoice = register(client, **members)
    result = run(client)
    assert (result["status"], finding(result, code)) == ("Failed", expected)
    assert status(client, invoice) == "VerificationFailed"
    assert actions(client, invoice)[-2:] == [
        "invoice.verification_started",
        "invoice.verification_failed",
    ]


def test_an_invoice_issued_today_is_not_issued_in_the_future(client: httpx.Client) -> None:
    register(client, issueDate="2026-11-23")
    assert run(client)["status"] == "Verified"


ASSIGNABLE: dict[str, tuple[str, tuple[str, str], str]] = {
    "an unknown debtor is in Germany": ("org_nobody_knows", ("Passed", "DE:Yes"), "Verified"),
    "the debtor's country": ("org_debtor_stark", ("Passed", "US:Yes"), "Verified"),
    "with registration": ("org_debtor_wayne", ("Passed", "IN:WithRegistration"), "Verified"),
    "a country without a rule": ("org_debtor_tyrell", ("ManualReview", "JP:Unknown"), "OnHold"),
}


@pytest.mark.parametrize(("debtor", "expected", "to"), ASSIGNABLE.values(), ids=ASSIGNABLE)
def test_the_rule_of_the_debtors_country_decides_whether_the_claim_is_assignable(
    client: httpx.Client, debtor: str, expected: tuple[str, str], to: str
) -> None:
    invoice = register(client, debtorId=debtor)
    result = run(client)
    assert finding(result, "assignability") == expected
    assert (result["status"], status(client, invoice)) == (to, to)


def test_a_claim_that_is_not_assignable_fails() -> None:
    seen = Facts("2026-11-23T09:30:00Z", date(2026, 11, 23), None, "XX", "Restricted")
    rows = checklist({**DATED, "status": "VerificationPending"}, {}, seen)
    found = {row["code"]: (row["state"], row.get("detail")) for row in rows}
    assert found["assignability"] == ("Failed", "XX:Restricted")
    assert run_status("VerificationPending", rows) == "Failed"


def test_a_reviewer_decides_once(client: httpx.Client) -> None:
    invoice = register(client, debtorId="org_debtor_tyrell")
    run(client)
    move(client, invoice, "release-hold")
    result = run(client)
    assert (result["status"], finding(result, "assignability")) == (
        "Verified",
        ("Passed", "Reviewed"),
    )


def test_an_invoice_whose_duplicate_is_financed_in_the_meantime_is_stopped(
    client: httpx.Client,
) -> None:
    first, cleared = register(client), register(client)
    way = ["clear-duplicate", "verify", "request-financing", "receive-offer", "accept-offer"]
    move(client, cleared, *way)
    result = run(client, invoiceId=first["id"])
    assert finding(result, "duplicate_check") == ("ManualReview", "DuplicateFinanced")
    assert (result["status"], status(client, first)) == 2 * ("DuplicateSuspected",)


def test_a_suspected_duplicate_of_a_financed_invoice_is_reported_as_such(
    client: httpx.Client,
) -> None:
    register(client, sellerId="sim_seller_financed_elsewhere", invoiceNumber="FE-2026-0001")
    second = register(
        client, sellerId="sim_seller_financed_elsewhere", invoiceNumber="FE-2026-0001", amount=20000
    )
    result = run(client, invoiceId=second["id"])
    assert finding(result, "duplicate_check") == ("ManualReview", "DuplicateFinanced")


def test_an_invoice_due_today_is_not_past_due(client: httpx.Client) -> None:
    register(client, dueDate="2026-11-23")
    assert run(client)["status"] == "Verified"


def test_a_failed_invoice_whose_data_are_the_same_fails_the_same(client: httpx.Client) -> None:
    invoice = register(client, dueDate="2026-11-22")
    first = run(client)
    assert run(client) == first
    assert actions(client, invoice).count("invoice.verification_failed") == 1


def test_a_seller_who_is_the_debtor_waits_for_a_reviewer(client: httpx.Client) -> None:
    register(client, debtorId=f" {INVOICE['sellerId']}\u200b")
    result = run(client)
    assert finding(result, "related_party") == ("ManualReview", "SameParty")
    assert result["status"] == "OnHold"


def test_a_suspected_duplicate_waits_for_a_reviewer(client: httpx.Client) -> None:
    register(client)
    second = register(client)
    result = run(client, invoiceId=second["id"])
    assert result["status"] == "DuplicateSuspected"
    assert finding(result, "duplicate_check") == ("ManualReview", "RegisteredDuplicate")
    assert status(client, second) == "DuplicateSuspected"


def test_an_invoice_on_hold_waits_for_a_human_decision(
    server: Running, client: httpx.Client
) -> None:
    invoice = register(client)
    force(server, client, invoice, "OnHold")
    result = run(client)
    assert (result["status"], finding(result, "seller_kyb")[0]) == ("OnHold", "ManualReview")
    assert status(client, invoice) == "OnHold"


def test_a_disputed_invoice_is_still_in_progress(server: Running, client: httpx.Client) -> None:
    invoice = register(client)
    force(server, client, invoice, "Disputed")
    result = run(client)
    assert result["status"] == "InProgress"
    assert finding(result, "debtor_confirmation") == ("Failed", "Disputed")


def test_without_a_due_date_an_invoice_is_eligible(client: httpx.Client) -> None:
    data(client.post("/api/invoices", json=INVOICE), 201)
    assert run(client)["status"] == "Verified"


def test_the_words_of_states_and_results_are_those_of_the_page(client: httpx.Client) -> None:
    register(client)
    result = run(client)
    states = [
        "Pending",
        "InProgress",
        "Passed",
        "Failed",
        "ActionRequired",
        "ManualReview",
        "NotApplicable",
    ]
    assert {row["state"] for row in result["checklist"]} <= set(states)
    assert result.keys() == {
        *("verificationId", "invoiceId", "status", "checklist", "simulated", "completedAt")
    }
