"""What the steps of a scenario do to an invoice, and when they are left out."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from invoice_sandbox.state import Transaction
from tests.cases import in_turn
from tests.scenario_run import DATED, move, register, status
from tests.support import Running

ALDER, EVEREST = "ptn_sandbox_alder", "ptn_sandbox_everest"
TO_REQUEST = ("start-verification", "verify", "request-financing")


def registered(client: httpx.Client, *triggers: str, **members: Any) -> Any:
    """A new invoice, as it was registered, moved on by ``triggers``."""
    invoice = register(client, **members)
    move(client, invoice, *triggers)
    return invoice


def act(server: Running, client: httpx.Client, action: str, invoice: Any, **reported: Any) -> Any:
    """What became of one step, due now, whose scenario is about ``invoice``."""

    def schedule(state: Transaction) -> None:
        now = (state.workspace()).clock.now(server.sandbox.engine.system_clock)
        state.schedule(now, action, {**reported, "subject": invoice["id"]})

    server.in_transaction(schedule, client)
    client.get("/api/invoices")  # what is due is done before
    return client.get("/sandbox/agenda").json()["data"]["done"][0]


def offers(client: httpx.Client, invoice: Any) -> list[Any]:
    listed = client.get("/api/offers", params={"invoiceId": invoice["id"]})
    return list(listed.json()["data"])


DONE: dict[str, tuple[tuple[str, ...], str, str, list[str]]] = {
    # what happened before: the action, the status it leads to, the events it records
    "start-verification": (
        (),
        "start-verification",
        "VerificationPending",
        ["invoice.verification_started"],
    ),
    "finish-verification": (
        TO_REQUEST[:1],
        "finish-verification",
        "Verified",
        ["invoice.verified"],
    ),
    "request-financing": (
        TO_REQUEST[:2],
        "request-financing",
        "FinancingRequested",
        ["financing_request.created", "financing_request.routed"],
    ),
    "make-offer": (TO_REQUEST, "make-offer", "Offered", ["offer.received"]),
}


@pytest.mark.parametrize(("before", "action", "to", "events"), DONE.values(), ids=DONE)
def test_an_action_moves_the_invoice_of_its_scenario(
    server: Running,
    client: httpx.Client,
    before: tuple[str, ...],
    action: str,
    to: str,
    events: list[str],
) -> None:
    invoice = registered(client, *before)
    done = act(server, client, action, invoice)
    assert (done["outcome"], done["events"]) == ("done", events)
    assert status(client, invoice) == to


FROM = {action: before for before, action, _, _ in DONE.values()}
EARLIER_AND_LATER = [
    (action, way)
    for action in FROM
    for way in [*FROM.values(), (*TO_REQUEST, "receive-offer"), ("withdraw",)]
    if way != FROM[action]
]


@pytest.mark.parametrize(("action", "way"), EARLIER_AND_LATER)
def test_an_action_is_left_out_in_any_other_status(
    server: Running, client: httpx.Client, action: str, way: tuple[str, ...]
) -> None:
    invoice = registered(client, *way)
    before = status(client, invoice)
    done = act(server, client, action, invoice)
    assert (done["outcome"], done["events"]) == ("skipped", [])
    assert f"The invoice is {before}" in done["reason"]
    assert status(client, invoice) == before


def test_verification_does_not_start_again_by_itself(server: Running, client: httpx.Client) -> None:
    invoice = registered(client, "start-verification", "fail-verification")
    assert act(server, client, "start-verification", invoice)["outcome"] == "skipped"


def test_verification_starts_again_where_a_scenario_reports_so(
    server: Running, client: httpx.Client
) -> None:
    invoice = registered(client, "start-verification", "fail-verification")
    assert act(server, client, "start-verification", invoice, again=True)["outcome"] == "done"
    assert status(client, invoice) == "VerificationPending"


FOUND: dict[str, tuple[str, str, str]] = {
    # item, its state, and the status to which a verification then leads
    "a failure": ("debtor_kyb", "Failed", "VerificationFailed"),
    "a failure that does not count": ("payment_details", "Failed", "Verified"),
    "a review": ("seller_kyb", "ManualReview", "OnHold"),
    "a review that does not count": ("payment_details", "ManualReview", "Verified"),
    "a duplicate": ("duplicate_check", "ManualReview", "DuplicateSuspected"),
    "something missing": ("delivery_evidence", "ActionRequired", "VerificationPending"),
    "something that lasts": ("debtor_confirmation", "InProgress", "VerificationPending"),
    "nothing": ("eligibility", "Passed", "Verified"),
}


@pytest.mark.parametrize(("item", "state", "to"), FOUND.values(), ids=FOUND)
def test_a_verification_finds_what_the_scenario_says(
    server: Running, client: httpx.Client, item: str, state: str, to: str
) -> None:
    invoice = registered(client, "start-verification")
    assert act(server, client, "find", invoice, item=item, state=state)["outcome"] == "done"
    assert act(server, client, "finish-verification", invoice)["outcome"] == "done"
    assert status(client, invoice) == to


def test_what_is_required_of_the_seller_is_asked_for_once(
    server: Running, client: httpx.Client
) -> None:
    invoice = registered(client, "start-verification")
    act(server, client, "find", invoice, item="assignability", state="ActionRequired")
    asked = [act(server, client, "finish-verification", invoice)["events"] for _ in range(2)]
    assert asked == [["invoice.action_required"], []]
    audited = client.get("/api/audit-log", params={"targetId": invoice["id"]}).json()["data"]
    assert [one["action"] for one in audited].count("invoice.action_required") == 1


JUDGED: dict[str, tuple[dict[str, Any], str]] = {
    "past due": ({"dueDate": "2026-11-22"}, "VerificationFailed"),
    "nothing owed": ({"amount": 0}, "VerificationFailed"),
    "its own debtor": ({"debtorId": DATED["sellerId"]}, "OnHold"),
}


@pytest.mark.parametrize(("members", "judged"), JUDGED.values(), ids=JUDGED)
def test_verification_ends_as_the_checklist_says(
    server: Running, client: httpx.Client, members: dict[str, Any], judged: str
) -> None:
    invoice = registered(client, "start-verification", **members)
    assert act(server, client, "finish-verification", invoice)["outcome"] == "done"
    assert status(client, invoice) == judged


def test_verification_ends_even_if_it_failed_the_same_way_before(
    server: Running, client: httpx.Client
) -> None:
    invoice = registered(client, "start-verification", dueDate="2026-11-22")
    for _ in range(2):
        assert act(server, client, "finish-verification", invoice)["outcome"] == "done"
        assert status(client, invoice) == "VerificationFailed"
        path = f"/sandbox/invoices/{invoice['id']}/transition"
        client.post(path, json={"trigger": "start-verification"})


def test_no_financing_is_asked_for_when_the_invoice_is_past_due(
    server: Running, client: httpx.Client
) -> None:
    invoice = registered(client, *TO_REQUEST[:2], dueDate="2026-11-22")
    done = act(server, client, "request-financing", invoice)
    assert done["outcome"] == "skipped"
    assert "was due on 2026-11-22" in done["reason"]


@pytest.mark.parametrize(
    ("arguments", "partner"), [({}, EVEREST), ({"partnerId": ALDER}, ALDER)], ids=["any", "named"]
)
def test_an_offer_is_of_the_partner_that_the_scenario_names(
    server: Running, client: httpx.Client, arguments: dict[str, str], partner: str
) -> None:
    invoice = registered(client, *TO_REQUEST)
    act(server, client, "make-offer", invoice, **arguments)
    (made,) = offers(client, invoice)
    assert (made["partnerId"], made["status"]) == (partner, "Received")
    assert made["financingRequestId"] is not None


def test_a_competing_offer_comes_beside_the_first(server: Running, client: httpx.Client) -> None:
    invoice = registered(client, *TO_REQUEST)
    for partner in (EVEREST, ALDER):
        done = act(server, client, "make-offer", invoice, partnerId=partner, competing=True)
        assert (done["outcome"], done["events"]) == ("done", ["offer.received"])
    assert [one["partnerId"] for one in offers(client, invoice)] == [ALDER, EVEREST]


def test_an_offer_without_a_partner_is_left_out(server: Running, client: httpx.Client) -> None:
    invoice = registered(client, *TO_REQUEST)
    done = act(server, client, "make-offer", invoice, partnerId="ptn_sandbox_nobody")
    assert done["outcome"] == "skipped"
    assert "no partner" in done["reason"]
    assert offers(client, invoice) == []


@in_turn("subject", ["inv_nowhere", ""])
@in_turn("action", FROM)
def test_a_step_about_no_invoice_is_left_out(
    server: Running, client: httpx.Client, action: str, subject: str
) -> None:
    done = act(server, client, action, {"id": subject})
    assert (done["outcome"], done["events"]) == ("skipped", [])
    assert "no invoice" in done["reason"]
