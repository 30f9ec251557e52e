"""The acceptance scenarios from the registration to the first financing, each run to the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import httpx
import pytest

from domain.verification import ITEMS, Code
from tests.cases import in_turn
from tests.scenario_run import (
    DATED,
    advance,
    choose,
    events_about,
    expected,
    financing_requests,
    findings,
    fingerprint,
    offers,
    register,
    run_to_end,
    run_verification,
    skipped,
    status,
)
from tests.support import Running

TO_VERIFIED = """
    PT0S        invoice.registered            Registered
    PT1S        invoice.verification_started  VerificationPending
    PT2S        invoice.verified              Verified
"""
TO_OFFERED = f"""{TO_VERIFIED}
    PT4S        financing_request.created     FinancingRequested
    PT4S        financing_request.routed      Routed
    PT6S        offer.received                Offered
"""
TO_FUNDED = f"""{TO_OFFERED}
    PT1M6S      offer.accepted                OfferAccepted
    PT2M6S      invoice.funded                Funded
"""
TO_HELD = """
    PT0S        invoice.registered            Registered
    PT1S        invoice.verification_started  VerificationPending
    PT2S        invoice.held                  OnHold
"""

SCENARIO_TABLE: dict[str, tuple[dict[str, Any] | None, str]] = {
    # the members by which the scenario begins by itself (None: by none), and all of its events
    "happy-path": (None, f"{TO_OFFERED}P3DT6S offer.expired FinancingRequested"),
    "full-lifecycle": (
        None,
        f"""{TO_FUNDED}
        2027-01-22T00:00:00Z  invoice.paid     Paid
        2027-01-23T00:00:00Z  invoice.settled  Settled
        """,
    ),
    "validation-error": (None, "PT0S invoice.registered Registered"),
    "kyb-hold": (
        {"sellerId": "sim_seller_kyb_hold"},
        f"""{TO_HELD}
        P1DT2S  invoice.hold_released  VerificationPending
        P1DT3S  invoice.verified       Verified
        """,
    ),
    "kyb-declined": (
        {"sellerId": "sim_seller_kyb_declined"},
        f"{TO_HELD}\n P1DT2S invoice.rejected Rejected",
    ),
    "sanctions-hit": (
        {"debtorId": "sim_debtor_sanctions"},
        f"{TO_HELD}\n P1DT2S invoice.rejected Rejected",
    ),
    "action-required": (
        {"sellerId": "sim_seller_docs_missing"},
        """
        PT0S  invoice.registered            Registered
        PT1S  invoice.verification_started  VerificationPending
        PT2S  invoice.action_required       VerificationPending
        """,
    ),
    "verification-failed": (
        {"debtorId": "sim_debtor_unknown"},
        """
        PT0S    invoice.registered            Registered
        PT1S    invoice.verification_started  VerificationPending
        PT2S    invoice.verification_failed   VerificationFailed
        P2DT2S  invoice.verification_started  VerificationPending
        P2DT3S  invoice.verified              Verified
        """,
    ),
    "debtor-disputes-early": (
        {"debtorId": "sim_debtor_disputes"},
        f"""{TO_OFFERED}
        PT1H6S    invoice.disputed  Disputed
        P2DT1H6S  invoice.rejected  Rejected
        P2DT1H6S  offer.withdrawn   Withdrawn
        """,
    ),
    "dispute-resolved": (
        {"debtorId": "sim_debtor_dispute_resolved"},
        """
        PT0S    invoice.registered            Registered
        PT1S    invoice.verification_started  VerificationPending
        PT2S    invoice.disputed              Disputed
        P2DT2S  invoice.dispute_resolved      VerificationPending
        P2DT3S  invoice.verified              Verified
        """,
    ),
    "dispute-after-funding": (
        None,
        f"""{TO_FUNDED}
        P5DT2M6S   invoice.disputed          Disputed
        P15DT2M6S  invoice.recourse_invoked  Recourse
        """,
    ),
    "no-partner-match": (
        None,
        f"""{TO_VERIFIED}
        PT4S  financing_request.created   FinancingRequested
        PT4S  financing_request.declined  Verified
        """,
    ),
}
MEMBERS: dict[str, dict[str, Any]] = {"no-partner-match": {"amount": 1_000_000}}
"""What an invoice needs for a scenario besides its beginning."""


def for_the_workspace(client: httpx.Client, name: str) -> Any:
    choose(client, name)
    return register(client, **MEMBERS.get(name, {}))


def for_the_invoice(client: httpx.Client, name: str) -> Any:
    invoice = register(client, **MEMBERS.get(name, {}))
    choose(client, name, invoice)
    return invoice


def for_the_request(client: httpx.Client, name: str) -> Any:
    return register(client, name, **MEMBERS.get(name, {}))


def by_its_members(client: httpx.Client, name: str) -> Any:
    members, _ = SCENARIO_TABLE[name]
    return register(client, **(members or {}))


Beginning = Callable[[httpx.Client, str], Any]
EVERY_WAY: list[tuple[str, Beginning]] = [
    *((name, begin) for name in SCENARIO_TABLE for begin in (for_the_workspace, for_the_invoice)),
    *(
        (name, by_its_members)
        for name, (members, _) in SCENARIO_TABLE.items()
        if members is not None
    ),
    ("happy-path", for_the_request),
]


@pytest.mark.parametrize(
    ("name", "begin"), EVERY_WAY, ids=[f"{name} {begin.__name__}" for name, begin in EVERY_WAY]
)
def test_a_scenario_runs_to_its_end(
    server: Running, client: httpx.Client, name: str, begin: Beginning
) -> None:
    invoice = begin(client, name)
    run_to_end(client)
    assert events_about(server, client, invoice) == expected(SCENARIO_TABLE[name][1])


@in_turn("name", SCENARIO_TABLE)
def test_a_scenario_begins_by_its_members_only(client: httpx.Client, name: str) -> None:
    reported = {one["name"]: one for one in client.get("/sandbox/scenarios").json()["data"]}
    assert reported[name]["begins"] == (SCENARIO_TABLE[name][0] or {})
    assert reported[name]["passes"]


@pytest.mark.parametrize(
    "members",
    [
        {"sellerId": "SIM_SELLER_KYB_HOLD"},
        {"sellerId": "sim_seller_kyb_hold "},
        {"debtorId": "sim_seller_kyb_hold"},
        {"sellerId": "sim_seller_kyb_hold_2"},
        {"invoiceNumber": "sim_debtor_unknown"},
    ],
    ids=str,
)
def test_no_scenario_begins_by_anything_but_its_exact_members(
    client: httpx.Client, members: dict[str, str]
) -> None:
    register(client, **members)
    assert client.get("/sandbox/agenda").json()["data"]["due"] == []


# Verification -----------------------------------------------------------------------------------

FLIPPED: dict[str, tuple[str, str, dict[str, tuple[str, str | None]]]] = {
    # the status of a run, the one that the invoice has after it, what the checklist reports
    "kyb-hold": ("OnHold", "OnHold", {"seller_kyb": ("ManualReview", None)}),
    "kyb-declined": ("OnHold", "OnHold", {"seller_kyb": ("ManualReview", None)}),
    "sanctions-hit": ("OnHold", "OnHold", {"sanctions_screening": ("ManualReview", None)}),
    "action-required": (
        "InProgress",
        "VerificationPending",
        {"delivery_evidence": ("ActionRequired", "DocumentMissing")},
    ),
    "verification-failed": (
        "Failed",
        "VerificationFailed",
        {"debtor_kyb": ("Failed", "CompanyNotFound")},
    ),
}


@pytest.mark.parametrize("wait", ["PT0S", "PT1S", "PT2S"], ids=["new", "pending", "judged"])
@pytest.mark.parametrize("name", FLIPPED)
def test_a_run_reports_the_item_that_the_scenario_is_about(
    client: httpx.Client, name: str, wait: str
) -> None:
    run_status, invoice_status, found = FLIPPED[name]
    invoice = by_its_members(client, name)
    advance(client, wait)
    for _ in range(2):
        verification = run_verification(client, invoice)
        assert (verification["status"], findings(verification)) == (run_status, found)
        assert status(client, invoice) == invoice_status


@pytest.mark.parametrize("name", FLIPPED)
def test_a_scenario_goes_on_from_a_run_as_from_its_own_verification(
    server: Running, client: httpx.Client, name: str
) -> None:
    invoice = by_its_members(client, name)
    run_verification(client, invoice)
    run_to_end(client)
    kinds = [line.type for line in events_about(server, client, invoice)]
    assert kinds == [line.type for line in expected(SCENARIO_TABLE[name][1])]


def test_a_released_hold_leaves_nothing_to_review(client: httpx.Client) -> None:
    invoice = by_its_members(client, "kyb-hold")
    advance(client, "P1DT2S")
    assert status(client, invoice) == "VerificationPending"
    verification = run_verification(client, invoice)
    assert (verification["status"], findings(verification)) == ("Verified", {})


def test_a_hold_lasts_as_long_as_its_condition_says(server: Running, client: httpx.Client) -> None:
    choose(client, "kyb-hold", hold="P7D")
    invoice = register(client)
    run_to_end(client)
    assert events_about(server, client, invoice)[-2:] == expected("""
        P7DT2S  invoice.hold_released  VerificationPending
        P7DT3S  invoice.verified       Verified
    """)


def test_of_a_sanctions_hit_the_invoice_says_nothing_but_its_status(client: httpx.Client) -> None:
    hit, clean = by_its_members(client, "sanctions-hit"), register(client, invoiceNumber="OTHER")
    run_to_end(client)
    seen = client.get(f"/api/invoices/{hit['id']}").json()["data"]
    assert seen == {**hit, "status": "Rejected"}
    assert seen.keys() == clean.keys()


@pytest.mark.parametrize("wait", ["PT2S", "P20D"])
def test_after_the_upload_of_the_document_a_run_verifies_the_invoice(
    server: Running, client: httpx.Client, wait: str
) -> None:
    invoice = by_its_members(client, "action-required")
    advance(client, wait)
    upload(client, invoice)
    assert status(client, invoice) == "VerificationPending"
    verification = run_verification(client, invoice)
    assert (verification["status"], findings(verification)) == ("Verified", {})
    assert detail(verification, "delivery_evidence") == "DocumentReceived"
    assert events_about(server, client, invoice) == expected(f"""
        {SCENARIO_TABLE["action-required"][1]}
        {wait}  invoice.verified  Verified
    """)


def test_a_document_for_another_invoice_does_not_help(client: httpx.Client) -> None:
    invoice = by_its_members(client, "action-required")
    advance(client, "PT2S")
    for other in (register(client, invoiceNumber="OTHER"), {"id": "inv_nowhere"}, {"id": 7}):
        upload(client, other)
    assert run_verification(client, invoice)["status"] == "InProgress"


def test_an_address_without_a_file_is_no_document(client: httpx.Client) -> None:
    invoice = by_its_members(client, "action-required")
    client.post("/api/storage/invoices/upload-url", json={"invoiceId": invoice["id"]})
    assert run_verification(client, invoice)["status"] == "InProgress"


def test_a_corrected_invoice_is_verified_when_the_client_runs_it_again(
    server: Running, client: httpx.Client
) -> None:
    invoice = by_its_members(client, "verification-failed")
    advance(client, "P1DT2S")
    assert run_verification(client, invoice)["status"] == "Verified"
    run_to_end(client)
    assert events_about(server, client, invoice)[3:] == expected("""
        P1DT2S  invoice.verification_started  VerificationPending
        P1DT2S  invoice.verified              Verified
    """)


def test_an_invoice_that_is_not_corrected_fails_again_and_is_rejected_after_thirty_days(
    server: Running, client: httpx.Client
) -> None:
    choose(client, "verification-failed", corrected="P31D", again="P20D")
    invoice = register(client)
    run_to_end(client)
    assert events_about(server, client, invoice)[3:] == expected("""
        P20DT2S  invoice.verification_started  VerificationPending
        P20DT3S  invoice.verification_failed   VerificationFailed
        P30DT2S  invoice.rejected              Rejected
    """)


def test_a_scenario_can_find_every_item_of_the_checklist() -> None:
    assert get_args(Code) == tuple(item.code for item in ITEMS)


# Duplicates -------------------------------------------------------------------------------------

FINANCED_ELSEWHERE: dict[str, Any] = {
    "sellerId": "sim_seller_financed_elsewhere",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "FE-2026-0001",
    "amount": 20000,
    "currency": "EUR",
}
SUSPECTED = """
    PT0S    invoice.registered            Registered
    PT0S    invoice.duplicate_suspected   DuplicateSuspected
    P1DT0S  invoice.rejected              Rejected
"""


def test_of_two_equal_invoices_the_second_is_suspected_and_rejected(
    server: Running, client: httpx.Client
) -> None:
    choose(client, "duplicate-exact")
    first, second = register(client), register(client, currency="eur")
    assert (first["status"], second["status"]) == ("Registered", "DuplicateSuspected")
    verification = run_verification(client, second)
    assert verification["status"] == "DuplicateSuspected"
    assert findings(verification) == {"duplicate_check": ("ManualReview", "RegisteredDuplicate")}
    run_to_end(client)
    assert events_about(server, client, first) == expected(TO_VERIFIED)
    assert events_about(server, client, second) == expected(SUSPECTED)


def test_without_the_scenario_a_duplicate_stays_suspected(client: httpx.Client) -> None:
    choose(client, "auto-progress")
    _, second = register(client), register(client)
    run_to_end(client)
    advance(client, "P30D")
    assert status(client, second) == "DuplicateSuspected"


def test_an_invoice_that_resembles_another_is_reviewed_cleared_and_verified(
    server: Running, client: httpx.Client
) -> None:
    choose(client, "duplicate-similar")
    first, second = register(client), register(client, amount=10001)
    known = fingerprint(client, amount=10001)
    assert (known["duplicateRisk"], known["registryState"]) == ("Exact", "RegisteredDuplicate")
    assert fingerprint(client, amount=10002)["duplicateRisk"] == "Similar"
    advance(client, "PT2S")
    verification = run_verification(client, second)
    assert verification["status"] == "DuplicateSuspected"
    assert findings(verification) == {"duplicate_check": ("ManualReview", "RegisteredSimilar")}
    run_to_end(client)
    assert events_about(server, client, first) == expected(TO_VERIFIED)
    assert events_about(server, client, second) == expected("""
        PT0S    invoice.registered            Registered
        PT1S    invoice.verification_started  VerificationPending
        PT2S    invoice.duplicate_suspected   DuplicateSuspected
        P1DT2S  invoice.duplicate_cleared     VerificationPending
        P1DT3S  invoice.verified              Verified
    """)
    assert findings(run_verification(client, second)) == {}


@pytest.mark.parametrize("scenario", ["auto-progress", "duplicate-exact"])
def test_a_similarity_changes_nothing_in_other_scenarios(
    client: httpx.Client, scenario: str
) -> None:
    choose(client, scenario)
    register(client)
    second = register(client, amount=10001)
    advance(client, "PT2S")
    assert status(client, second) == "Verified"


@pytest.mark.parametrize("named", [True, False], ids=["for the workspace", "by its members"])
def test_an_invoice_that_was_financed_elsewhere_is_suspected_and_rejected(
    server: Running, client: httpx.Client, named: bool
) -> None:
    if named:
        choose(client, "duplicate-financed")
    invoice = register(client, **FINANCED_ELSEWHERE)
    assert invoice["status"] == "DuplicateSuspected"
    verification = run_verification(client, invoice)
    assert findings(verification) == {"duplicate_check": ("ManualReview", "DuplicateFinanced")}
    run_to_end(client)
    assert events_about(server, client, invoice) == expected(SUSPECTED)


def test_of_a_foreign_registration_only_its_existence_is_reported(client: httpx.Client) -> None:
    for _ in range(2):  # registered by the client itself in between
        reported = fingerprint(client, **FINANCED_ELSEWHERE)
        assert (reported["duplicateRisk"], reported["registryState"]) == (
            "Exact",
            "DuplicateFinanced",
        )
        assert reported["matches"][0] == {"matchType": "Exact", "ownRegistration": False}
        register(client, **FINANCED_ELSEWHERE)
    assert "reg_foreign" not in client.get("/api/audit-log").text


def test_every_other_invoice_of_the_same_seller_is_suspected_too(
    server: Running, client: httpx.Client
) -> None:
    invoice = register(client, **{**FINANCED_ELSEWHERE, "amount": 20001})
    run_to_end(client)
    assert events_about(server, client, invoice) == expected(SUSPECTED)


# Rejections, disputes, and nobody to finance --------------------------------------------------


def test_an_invoice_without_its_debtor_is_rejected_and_not_registered(client: httpx.Client) -> None:
    choose(client, "validation-error")
    before = client.get("/api/invoices").json()["data"]
    body = {name: value for name, value in DATED.items() if name != "debtorId"}
    response = client.post("/api/invoices", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")
    assert "debtorId" in response.json()["error"]["message"]
    assert client.get("/api/invoices").json()["data"] == before


def test_an_early_dispute_ends_the_request_and_the_offer(client: httpx.Client) -> None:
    invoice = by_its_members(client, "debtor-disputes-early")
    advance(client, "PT1H6S")
    verification = run_verification(client, invoice)
    assert findings(verification) == {"debtor_confirmation": ("Failed", "Disputed")}
    run_to_end(client)
    assert [one["status"] for one in financing_requests(client, invoice)] == ["Cancelled"]
    assert [one["status"] for one in offers(client, invoice)] == ["Withdrawn"]


def test_an_early_dispute_also_ends_an_offer_that_was_accepted(client: httpx.Client) -> None:
    invoice = by_its_members(client, "debtor-disputes-early")
    advance(client, "PT6S")
    (offer,) = offers(client, invoice)
    assert client.post(f"/sandbox/offers/{offer['id']}/accept").status_code == 200
    run_to_end(client)
    assert status(client, invoice) == "Rejected"
    assert [one["status"] for one in offers(client, invoice)] == ["Withdrawn"]


def test_a_dispute_is_reported_while_it_lasts(client: httpx.Client) -> None:
    invoice = by_its_members(client, "dispute-resolved")
    advance(client, "PT2S")
    verification = run_verification(client, invoice)
    assert verification["status"] == "InProgress"
    assert findings(verification) == {"debtor_confirmation": ("Failed", "Disputed")}
    run_to_end(client)
    assert findings(run_verification(client, invoice)) == {}


def test_a_dispute_that_begins_after_the_verification_goes_back_to_verified(
    client: httpx.Client,
) -> None:
    invoice = by_its_members(client, "dispute-resolved")
    run_verification(client, invoice)
    advance(client, "PT1S")
    assert status(client, invoice) == "Disputed"
    run_to_end(client)
    assert status(client, invoice) == "Verified"


@pytest.mark.parametrize(
    ("name", "request_status"), [("full-lifecycle", "Closed"), ("dispute-after-funding", "Funded")]
)
def test_the_request_and_the_offer_go_the_way_of_the_invoice(
    client: httpx.Client, name: str, request_status: str
) -> None:
    invoice = for_the_invoice(client, name)
    run_to_end(client)
    assert [one["status"] for one in financing_requests(client, invoice)] == [request_status]
    assert [one["status"] for one in offers(client, invoice)] == ["Accepted"]


def test_a_request_over_all_mandates_finds_no_partner(client: httpx.Client) -> None:
    invoice = for_the_workspace(client, "no-partner-match")
    run_to_end(client)
    (request,) = financing_requests(client, invoice)
    assert (request["status"], request["routedPartnerIds"]) == ("NoMatch", [])
    assert offers(client, invoice) == []


def test_a_scenario_skips_no_step_without_interference(client: httpx.Client) -> None:
    for name in SCENARIO_TABLE.keys() - {"verification-failed"}:
        choose(client, name)
        members = {"debtorId": f"org_debtor_{name}", **MEMBERS.get(name, {})}
        register(client, invoiceNumber=name, **members)
    assert skipped(run_to_end(client)) == []


def upload(client: httpx.Client, invoice: Any) -> None:
    """Send a document for an invoice, by an address asked for it."""
    body = {"invoiceId": invoice["id"]}
    asked = client.post("/api/storage/invoices/upload-url", json=body).json()["data"]
    response = client.put(asked["url"], content=b"%PDF-1.7", headers=asked["headers"])
    assert response.status_code == 200, response.text


def detail(verification: Any, code: str) -> str | None:
    """The detail of one item."""
    (row,) = (one for one in verification["checklist"] if one["code"] == code)
    found: str | None = row.get("detail")
    return found
