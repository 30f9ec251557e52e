"""The registry over HTTP: every registration counts, the most serious first."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.scenario_run import fingerprint, move, register

ELSEWHERE: dict[str, Any] = {
    "sellerId": "sim_seller_financed_elsewhere",
    "invoiceNumber": "FE-2026-0001",
    "amount": 20000,
}
TO_OFFER = ("start-verification", "verify", "request-financing", "receive-offer")
TO_FUNDED = (*TO_OFFER, "accept-offer", "fund")
TO_DEFAULTED = (*TO_FUNDED, "become-overdue", "default")


ENDED: dict[str, tuple[str, ...]] = {
    "Withdrawn": ("withdraw",),
    "Rejected": ("start-verification", "hold", "reject"),
    "Expired": ("expire",),
}


@pytest.mark.parametrize("triggers", ENDED.values(), ids=ENDED)
def test_a_registration_that_ended_unfinanced_does_not_count(
    client: httpx.Client, triggers: tuple[str, ...]
) -> None:
    move(client, register(client), *triggers)
    found = fingerprint(client)
    assert (found["duplicateRisk"], found["registryState"], found["matches"]) == (
        "None",
        "RegisteredUnique",
        [],
    )
    assert register(client)["status"] == "Registered"


def test_a_later_registration_counts_when_the_first_was_withdrawn(client: httpx.Client) -> None:
    first, second = register(client), register(client)
    move(client, first, "withdraw")
    found = fingerprint(client)
    assert [one["registryId"] for one in found["matches"]] == [second["registryId"]]
    assert register(client)["status"] == "DuplicateSuspected"


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
    invoice = register(client)
    move(client, invoice, *triggers)
    found = fingerprint(client)
    assert (found["duplicateRisk"], found["registryState"]) == ("Exact", "DuplicateFinanced")
    assert found["matches"][0]["matchedState"] == "Financed"


def test_an_invoice_whose_accepted_offer_was_withdrawn_is_not_financed(
    client: httpx.Client,
) -> None:
    move(client, register(client), *TO_FUNDED[:-1], "withdraw-offer")
    assert fingerprint(client)["registryState"] == "RegisteredDuplicate"


def test_a_financed_registration_comes_before_later_ones(client: httpx.Client) -> None:
    financed = register(client)
    move(client, financed, *TO_FUNDED)
    later = [register(client) for _ in range(2)]
    found = fingerprint(client)
    ids = [one["registryId"] for one in found["matches"]]
    assert ids[0] == financed["registryId"]
    assert set(ids[1:]) == {one["registryId"] for one in later}
    states = [one["matchedState"] for one in found["matches"]]
    assert states == ["Financed", "RegisteredDuplicate", "RegisteredDuplicate"]


def test_a_registration_that_is_financed_later_is_more_serious_from_then_on(
    client: httpx.Client,
) -> None:
    first, cleared = register(client), register(client)
    move(client, cleared, "clear-duplicate", "verify", *TO_OFFER[2:], "accept-offer", "fund")
    found = fingerprint(client)
    assert [one["registryId"] for one in found["matches"]] == [
        cleared["registryId"],
        first["registryId"],
    ]
    assert found["registryState"] == "DuplicateFinanced"


def test_an_invoice_that_is_financed_elsewhere_comes_first_of_all(client: httpx.Client) -> None:
    own = register(client, **ELSEWHERE)
    found = fingerprint(client, **ELSEWHERE)
    assert found["registryState"] == "DuplicateFinanced"
    assert found["matches"][0] == {"matchType": "Exact", "ownRegistration": False}
    assert found["matches"][1]["registryId"] == own["registryId"]


def test_exact_matches_come_before_similar_ones(client: httpx.Client) -> None:
    similar, exact = register(client, amount=1), register(client)
    found = fingerprint(client)
    assert [(one["matchType"], one["registryId"]) for one in found["matches"]] == [
        ("Exact", exact["registryId"]),
        ("Similar", similar["registryId"]),
    ]


@pytest.mark.parametrize("number", ["RUN-01", "RUN 1", "run/001", "RUN\u200b 1"])
def test_another_spelling_of_the_number_is_similar(client: httpx.Client, number: str) -> None:
    register(client)
    assert fingerprint(client, invoiceNumber=number)["duplicateRisk"] == "Similar"
    assert register(client, invoiceNumber=number)["status"] == "Registered"


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"invoiceNumber": " \u200brun-1\ufeff "}, id="number"),
        pytest.param({"currency": " eur\u200b"}, id="currency"),
        pytest.param({"sellerId": "org_seller_acme\u200b "}, id="seller"),
    ],
)
def test_what_nobody_sees_hides_no_duplicate(client: httpx.Client, members: dict[str, Any]) -> None:
    register(client)
    assert register(client, **members)["status"] == "DuplicateSuspected"


def test_at_most_ten_matches_are_listed(client: httpx.Client) -> None:
    for _ in range(12):
        register(client)
    assert len(fingerprint(client)["matches"]) == 10


def test_the_response_names_the_version_of_the_canonical_form(client: httpx.Client) -> None:
    assert fingerprint(client)["canonicalization"] == "ilf1 (RFC 8785)"
