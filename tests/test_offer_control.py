"""Control endpoints of an offer: accept, decline, withdraw, and what becomes of all around it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from invoice_sandbox.state import Transaction
from tests.scenario_run import data, error, move, register, transition
from tests.support import Running


def offered(client: httpx.Client, offers: int = 2) -> tuple[str, list[str]]:
    """The id of a new invoice and those of the offers on it, in the order they were made."""
    invoice_id = register(client)["id"]
    client.post("/api/verification/run", json={"invoiceId": invoice_id})
    client.post("/api/financing-requests", json={"invoiceId": invoice_id})
    made = [client.post("/api/offers", json={"invoiceId": invoice_id}) for _ in range(offers)]
    return invoice_id, [one.json()["data"]["id"] for one in made]


def pull(client: httpx.Client, offer_id: str, word: str) -> httpx.Response:
    return client.post(f"/sandbox/offers/{offer_id}/{word}")


def statuses(client: httpx.Client, invoice_id: str) -> tuple[str, str, list[str]]:
    """Of the invoice, of its newest request, and of its offers in the order they were made."""
    invoice = client.get(f"/api/invoices/{invoice_id}").json()["data"]
    listed = client.get("/api/financing-requests").json()["data"]
    request = next(one for one in listed if invoice_id in one["invoiceIds"])
    made = client.get("/api/offers", params={"invoiceId": invoice_id}).json()["data"]
    return invoice["status"], request["status"], [one["status"] for one in reversed(made)]


def actions(client: httpx.Client, target_id: str) -> list[str]:
    """What the audit log says of something, newest first."""
    log = client.get("/api/audit-log", params={"targetId": target_id}).json()["data"]
    return [one["action"] for one in log]


def test_an_offer_that_has_ended_cannot_be_accepted_without_an_invoice_either(
    server: Running, client: httpx.Client
) -> None:
    """As one of the starting data may have, whose end nothing has noted."""
    made = client.post("/api/offers", json={}).json()["data"]
    assert made["invoiceId"] is None

    def end(state: Transaction) -> None:
        offer = state.get("offers", made["id"])
        assert offer is not None
        state.put("offers", made["id"], {**offer, "validUntil": "2026-11-23T09:30:00Z"})

    server.in_transaction(end, client)
    assert pull(client, made["id"], "accept").status_code == 409
    assert pull(client, made["id"], "decline").status_code == 200


ACCEPTED = ["Superseded", "Accepted"]
PULLS: dict[str, tuple[str, tuple[str, str, list[str]]]] = {
    # words for the 1st and 2nd of two offers: invoice, request, offers
    "accept 2": ("accept 2", ("OfferAccepted", "OfferAccepted", ACCEPTED)),
    "accept 1": ("accept 1", ("OfferAccepted", "OfferAccepted", ACCEPTED[::-1])),
    "decline one": ("decline 1", ("Offered", "OffersReceived", ["Declined", "Received"])),
    "withdraw one": ("withdraw 2", ("Offered", "OffersReceived", ["Received", "Withdrawn"])),
    "decline both": (
        "decline 1 decline 2",
        ("FinancingRequested", "Routed", ["Declined", "Declined"]),
    ),
    "withdraw both": (
        "withdraw 1 withdraw 2",
        ("FinancingRequested", "Routed", ["Withdrawn", "Withdrawn"]),
    ),
    "decline, then withdraw": (
        "decline 1 withdraw 2",
        ("FinancingRequested", "Routed", ["Declined", "Withdrawn"]),
    ),
    "decline, then accept": (
        "decline 1 accept 2",
        ("OfferAccepted", "OfferAccepted", ["Declined", "Accepted"]),
    ),
    "accept, then withdraw": (
        "accept 1 withdraw 1",
        ("FinancingRequested", "Routed", ["Withdrawn", "Superseded"]),
    ),
}


@pytest.mark.parametrize(("words", "expected"), PULLS.values(), ids=PULLS)
def test_invoice_request_and_other_offers_move_along(
    client: httpx.Client, words: str, expected: tuple[str, str, list[str]]
) -> None:
    invoice_id, made = offered(client)
    steps = words.split()
    for word, which in zip(steps[::2], steps[1::2], strict=True):
        assert pull(client, made[int(which) - 1], word).status_code == 200
    assert statuses(client, invoice_id) == expected


@pytest.mark.parametrize(
    ("word", "status"),
    [("accept", "Accepted"), ("decline", "Declined"), ("withdraw", "Withdrawn")],
)
@pytest.mark.parametrize("number", [1, 2], ids=["the only offer", "one of two"])
def test_the_response_is_the_offer_as_the_api_shows_it(
    client: httpx.Client, word: str, status: str, number: int
) -> None:
    _, made = offered(client, number)
    response = pull(client, made[0], word)
    listed = client.get("/api/offers").json()["data"]
    assert response.json()["data"] in listed
    assert response.json()["data"]["status"] == status


def test_a_new_offer_can_come_after_the_last_one_was_declined(client: httpx.Client) -> None:
    invoice_id, (first,) = offered(client, 1)
    pull(client, first, "decline")
    assert client.post("/api/offers", json={"invoiceId": invoice_id}).status_code == 201
    expected = ("Offered", "OffersReceived", ["Declined", "Received"])
    assert statuses(client, invoice_id) == expected


def test_accepting_is_reported_once_by_each_record_that_moves(client: httpx.Client) -> None:
    invoice_id, (first, second) = offered(client)
    before = len(actions(client, invoice_id))
    pull(client, first, "accept")
    assert actions(client, first) == ["offer.accept", "offer.recorded"]
    assert actions(client, second) == ["offer.superseded", "offer.recorded"]
    assert actions(client, invoice_id)[:-before] == ["offer.accepted"]
    log = client.get("/api/audit-log", params={"targetId": invoice_id}).json()["data"]
    assert log[0]["metadata"]["offerId"] == first


@pytest.mark.parametrize("word", ["decline", "withdraw"])
def test_an_offer_beside_which_another_is_live_moves_without_others(
    client: httpx.Client, word: str
) -> None:
    invoice_id, (first, _) = offered(client)
    before = actions(client, invoice_id)
    pull(client, first, word)
    assert actions(client, invoice_id) == before
    ends = {"decline": "offer.declined", "withdraw": "offer.withdrawn"}
    assert actions(client, first) == [ends[word], "offer.recorded"]


REJECTED: dict[str, tuple[list[str], str, str]] = {
    # what was done to the invoice before, the word for the newest offer, what is said
    "accept a declined one": (["decline-offer"], "accept", "Declined"),
    "accept twice": (["accept-offer"], "accept", "Possible now: withdraw."),
    "decline an accepted one": (["accept-offer"], "decline", "Possible now: withdraw."),
    "withdraw a paid one": (["accept-offer", "fund"], "withdraw", "is Funded"),
    "withdraw a partly paid one": (["accept-offer", "fund-partially"], "withdraw", "is Partially"),
    "accept in a dispute": (["dispute"], "accept", "is Disputed"),
    "decline in a dispute": (["dispute"], "decline", "is Disputed"),
    "withdraw in a dispute": (["dispute"], "withdraw", "is Disputed"),
    "accept an expired one": (["expire"], "accept", "Expired"),
}


@pytest.mark.parametrize(("triggers", "word", "said"), REJECTED.values(), ids=REJECTED)
def test_what_a_status_does_not_allow_is_409_and_changes_nothing(
    client: httpx.Client, triggers: list[str], word: str, said: str
) -> None:
    invoice_id, (_, newest) = offered(client)
    move(client, invoice_id, *triggers)
    before = statuses(client, invoice_id), actions(client, newest), actions(client, invoice_id)
    response = pull(client, newest, word)
    assert (response.status_code, response.json()["error"]["code"]) == (409, "invalid_request")
    assert said in response.json()["error"]["message"]
    after = statuses(client, invoice_id), actions(client, newest), actions(client, invoice_id)
    assert after == before


@pytest.mark.parametrize("word", ["accept", "decline", "withdraw"])
def test_an_unknown_offer_is_404(client: httpx.Client, word: str) -> None:
    response = pull(client, "off_sandbox_nowhere_0001", word)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "resource_not_found")


@pytest.mark.parametrize(
    ("word", "status"),
    [("accept", "Accepted"), ("decline", "Declined"), ("withdraw", "Withdrawn")],
)
def test_an_offer_on_a_synthetic_invoice_moves_without_others(
    client: httpx.Client, word: str, status: str
) -> None:
    client.post("/api/financing-requests", json={})
    made = [client.post("/api/offers", json={}).json()["data"]["id"] for _ in range(2)]
    before = client.get("/api/invoices").json(), client.get("/api/financing-requests").json()
    assert pull(client, made[0], word).json()["data"]["status"] == status
    after = client.get("/api/invoices").json(), client.get("/api/financing-requests").json()
    assert after == before
    listed: list[Any] = client.get("/api/offers").json()["data"]
    assert [one["status"] for one in listed[:2]] == ["Received", status]


def test_all_of_very_many_offers_are_superseded(client: httpx.Client) -> None:
    invoice_id, made = offered(client, 120)
    pull(client, made[60], "accept")
    assert statuses(client, invoice_id)[2].count("Superseded") == 119


def test_an_advance_is_not_paid_out_before_the_conditions_are_fulfilled(
    client: httpx.Client,
) -> None:
    invoice = register(client)
    move(client, invoice, "start-verification", "verify", "request-financing")
    conditions = ["A guarantee", {"insured": True}]
    body = {"invoiceId": invoice["id"], "conditions": conditions}
    offer_id = data(client.post("/api/offers", json=body), 201)["id"]
    move(client, invoice, "accept-offer")
    path = f"/sandbox/offers/{offer_id}/conditions"
    for fulfilled, left in (([], 2), (["A guarantee"], 1)):
        shown = data(client.post(path, json={"fulfilled": fulfilled}), 200)
        assert shown["fulfilledConditions"] == fulfilled
        for trigger in ("fund", "fund-partially"):
            rejected = transition(client, invoice, trigger)
            assert error(rejected) == (409, "invalid_request")
            assert f"{left} of the conditions of {offer_id} are not fulfilled" in rejected.text
    assert error(client.post(path, json={"fulfilled": ["Another"]})) == (409, "invalid_request")
    assert data(client.post(path), 200)["fulfilledConditions"] == conditions
    move(client, invoice, "fund")


def test_the_conditions_of_a_dead_offer_cannot_be_fulfilled(client: httpx.Client) -> None:
    body = {"validUntil": "2020-01-01T00:00:00Z", "conditions": "a word"}
    offer_id = data(client.post("/api/offers", json=body), 201)["id"]
    path = f"/sandbox/offers/{offer_id}/conditions"
    assert error(client.post(path)) == (409, "invalid_request")
    assert error(client.post("/sandbox/offers/off_nothing/conditions"))[0] == 404
