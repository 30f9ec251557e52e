"""The registry over HTTP: every registration counts, the most serious first."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

FINGERPRINT = "/api/registry/fingerprint"
INVOICE: dict[str, Any] = {
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "REG-42",
    "amount": 10000,
    "currency": "EUR",
    "dueDate": "2027-01-20",
}
ELSEWHERE = {
    **INVOICE,
    "sellerId": "sim_seller_financed_elsewhere",
    "invoiceNumber": "FE-2026-0001",
    "amount": 20000,
}
TO_OFFER = ("start-verification", "verify", "request-financing", "receive-offer")
TO_FUNDED = (*TO_OFFER, "accept-offer", "fund")
TO_DEFAULTED = (*TO_FUNDED, "become-overdue", "default")


def create(client: httpx.Client, **members: Any) -> Any:
    response = client.post("/api/invoices", json={**INVOICE, **members})
    assert response.status_code == 201
    return response.json()["data"]


def move(client: httpx.Client, invoice: Any, *triggers: str) -> None:
    for trigger in triggers:
        path = f"/sandbox/invoices/{invoice['id']}/transition"
        response = client.post(path, json={"trigger": trigger})
        assert response.status_code == 200, response.text


def look(client: httpx.Client, **members: Any) -> Any:
    return client.post(FINGERPRINT, json={**INVOICE, **members}).json()["data"]


ENDED: dict[str, tuple[str, ...]] = {
    "Withdrawn": ("withdraw",),
    "Rejected": ("start-verification", "hold", "reject"),
    "Expired": ("expire",),
}


@pytest.mark.parametrize("triggers", ENDED.values(), ids=ENDED)
def test_a_registration_that_ended_unfinanced_does_not_count(
    client: httpx.Client, triggers: tuple[str, ...]
) -> None:
    move(client, create(client), *triggers)
    found = look(client)
    assert (found["duplicateRisk"], found["registryState"], found["matches"]) == (
        "None",
        "RegisteredUnique",
        [],
    )
    assert create(client)["status"] == "Registered"


def test_a_later_registration_counts_when_the_first_was_withdrawn(client: httpx.Client) -> None:
    first, second = create(client), create(client)
    move(client, first, "withdraw")
    found = look(client)
    assert [one["registryId"] for one in found["matches"]] == [second["registryId"]]
    assert create(client)["status"] == "DuplicateSuspected"


FINANCED: dict[str, tuple[str, ...]] = {
    "OfferAccepted": TO_FUNDED[:-1],
    "Disputed before funding": (*TO_FUNDED[:-1], "dispute"),
    "PartiallyFunded": (*TO_FUNDED[:-1], "fund-partially"),
    "Funded": TO_FUNDED,
    "PartiallyPaid": (*TO_FUNDED, "pay-partially"),
    "Disputed": (*TO_FUNDED, "dispute"),
    "Overdue": (*TO_FUNDED, "become-overdue"),
    "Paid": (*TO_FUNDED, "pay"),
    "Settled": (*TO_FUNDED, "pay", "settle"),
    "Defaulted": TO_DEFAULTED,
    "Recourse": (*TO_DEFAULTED, "invoke-recourse"),
    "Repurchased": (*TO_DEFAULTED, "invoke-recourse", "repurchase"),
    "WrittenOff": (*TO_DEFAULTED, "invoke-recourse", "write-off"),
}


@pytest.mark.parametrize("triggers", FINANCED.values(), ids=FINANCED)
def test_an_invoice_that_was_financed_stays_financed(
    client: httpx.Client, triggers: tuple[str, ...]
) -> None:
    invoice = create(client)
    move(client, invoice, *triggers)
    found = look(client)
    assert (found["duplicateRisk"], found["registryState"]) == ("Exact", "DuplicateFinanced")
    assert found["matches"][0]["matchedState"] == "Financed"


def test_an_invoice_whose_accepted_offer_was_withdrawn_is_not_financed(
    client: httpx.Client,
) -> None:
    move(client, create(client), *TO_FUNDED[:-1], "withdraw-offer")
    assert look(client)["registryState"] == "RegisteredDuplicate"


def test_a_financed_registration_comes_before_later_ones(client: httpx.Client) -> None:
    financed = create(client)
    move(client, financed, *TO_FUNDED)
    later = [create(client) for _ in range(2)]
    found = look(client)
    ids = [one["registryId"] for one in found["matches"]]
    assert ids[0] == financed["registryId"]
    assert set(ids[1:]) == {one["registryId"] for one in later}
    states = [one["matchedState"] for one in found["matches"]]
    assert states == ["Financed", "RegisteredDuplicate", "RegisteredDuplicate"]


def test_a_registration_that_is_financed_later_is_more_serious_from_then_on(
    client: httpx.Client,
) -> None:
    first, cleared = create(client), create(client)
    move(client, cleared, "clear-duplicate", "verify", *TO_OFFER[2:], "accept-offer", "fund")
    found = look(client)
    assert [one["registryId"] for one in found["matches"]] == [
        cleared["registryId"],
        first["registryId"],
    ]
    assert found["registryState"] == "DuplicateFinanced"


def test_an_invoice_that_is_financed_elsewhere_comes_first_of_all(client: httpx.Client) -> None:
    own = create(client, **ELSEWHERE)
    found = look(client, **ELSEWHERE)
    assert found["registryState"] == "DuplicateFinanced"
    assert found["matches"][0] == {"matchType": "Exact", "ownRegistration": False}
    assert found["matches"][1]["registryId"] == own["registryId"]


def test_exact_matches_come_before_similar_ones(client: httpx.Client) -> None:
    similar, exact = create(client, amount=1), create(client)
    found = look(client)
    assert [(one["matchType"], one["registryId"]) for one in found["matches"]] == [
        ("Exact", exact["registryId"]),
        ("Similar", similar["registryId"]),
    ]


@pytest.mark.parametrize("number", ["REG-0042", "REG 42", "reg/042", "REG\u200b 42"])
def test_another_spelling_of_the_number_is_similar(client: httpx.Client, number: str) -> None:
    create(client)
    assert look(client, invoiceNumber=number)["duplicateRisk"] == "Similar"
    assert create(client, invoiceNumber=number)["status"] == "Registered"


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"invoiceNumber": " \u200breg-42\ufeff "}, id="number"),
        pytest.param({"currency": " eur\u200b"}, id="currency"),
        pytest.param({"sellerId": "org_seller_acme\u200b "}, id="seller"),
    ],
)
def test_what_nobody_sees_hides_no_duplicate(client: httpx.Client, members: dict[str, Any]) -> None:
    create(client)
    assert create(client, **members)["status"] == "DuplicateSuspected"


def test_at_most_ten_matches_are_listed(client: httpx.Client) -> None:
    for _ in range(12):
        create(client)
    assert len(look(client)["matches"]) == 10


def test_the_response_names_the_version_of_the_canonical_form(client: httpx.Client) -> None:
    assert look(client)["canonicalization"] == "ilf1 (RFC 8785)"
