"""The end of each offer is one event and one audit event, whether an invoice moves or not."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.scenario_run import (
    advance,
    data,
    financing_requests,
    move,
    recorded_events,
    register,
    status,
)
from tests.support import Running

PARTNERS = ("ptn_sandbox_alder", "ptn_sandbox_fir", "ptn_sandbox_everest")


def offered(client: httpx.Client, count: int = 3, **members: Any) -> tuple[Any, list[str]]:
    """An invoice, and the ids of the offers on it, the first one first."""
    invoice = register(client, debtorId="org_debtor_initech")
    move(client, invoice, "start-verification", "verify", "request-financing")
    bodies = ({"invoiceId": invoice["id"], "partnerId": name, **members} for name in PARTNERS)
    made = [data(client.post("/api/offers", json=body), 201)["id"] for body in bodies]
    for offer in made[count:]:
        end(client, offer, "withdraw")
    return invoice, made[:count]


def end(client: httpx.Client, offer: str, how: str) -> Any:
    return data(client.post(f"/sandbox/offers/{offer}/{how}"), 200)


def ends(server: Running, client: httpx.Client, offers: list[str]) -> list[tuple[str, str, str]]:
    """Offer, event and status of each end."""
    return [
        (one["data"]["id"], one["type"], one["data"]["status"])
        for one in recorded_events(server, client)
        if one["data"]["id"] in offers and one["type"] not in {"offer.received", "offer.accepted"}
    ]


def audited(client: httpx.Client, event: str) -> list[Any]:
    log = data(client.get("/api/audit-log"))
    return [one for one in log if one["action"] == event]


@pytest.mark.parametrize(
    ("how", "event", "final"),
    [("decline", "offer.declined", "Declined"), ("withdraw", "offer.withdrawn", "Withdrawn")],
)
def test_one_of_several_offers_ends_with_an_event(
    server: Running, client: httpx.Client, how: str, event: str, final: str
) -> None:
    invoice, made = offered(client)
    for offer in made:
        assert ends(server, client, [offer]) == []
        end(client, offer, how)
        assert ends(server, client, [offer]) == [(offer, event, final)]
    assert status(client, invoice) == "FinancingRequested"
    last, *others = audited(client, event)
    assert (last["targets"][0]["type"], last["metadata"]["to"]) == ("invoice", "FinancingRequested")
    assert [one["targets"] for one in reversed(others)] == [
        [{"type": "offer", "id": offer}] for offer in made[:2]
    ]
    assert all("to" not in one["metadata"] for one in others)


def test_the_offers_beside_an_accepted_one_are_superseded(
    server: Running, client: httpx.Client
) -> None:
    _, made = offered(client)
    end(client, made[1], "accept")
    assert ends(server, client, made) == [
        (offer, "offer.superseded", "Superseded") for offer in (made[2], made[0])
    ]
    types = [one["type"] for one in recorded_events(server, client)]
    assert types[-3:] == ["offer.accepted", "offer.superseded", "offer.superseded"]
    assert len(audited(client, "offer.superseded")) == 2


def test_one_of_several_offers_expires_with_an_event(server: Running, client: httpx.Client) -> None:
    invoice, made = offered(client, 2)
    third = {"invoiceId": invoice["id"], "validUntil": "2026-11-24T00:00:00Z"}
    made.append(data(client.post("/api/offers", json=third), 201)["id"])
    advance(client, "P1D")
    assert ends(server, client, made) == [(made[2], "offer.expired", "Expired")]
    assert status(client, invoice) == "Offered"
    advance(client, "P3D")
    assert [
        offer for offer, event, _ in ends(server, client, made) if event == "offer.expired"
    ] == [
        made[2],
        made[0],
        made[1],
    ]
    assert len(audited(client, "offer.expired")) == 3


@pytest.mark.parametrize(
    ("trigger", "event"), [("expire", "offer.expired"), ("withdraw", "offer.declined")]
)
def test_the_end_of_an_invoice_ends_its_offers_with_events(
    server: Running, client: httpx.Client, trigger: str, event: str
) -> None:
    invoice, made = offered(client)
    move(client, invoice, trigger)
    assert [(offer, kind) for offer, kind, _ in ends(server, client, made)] == [
        (offer, event) for offer in reversed(made)
    ]
    assert len(audited(client, event)) == 3


def test_an_accepted_offer_ends_with_a_dispute(server: Running, client: httpx.Client) -> None:
    invoice, made = offered(client, 1)
    move(client, invoice, "accept-offer", "dispute", "uphold-dispute-before-funding")
    assert ends(server, client, made) == [(made[0], "offer.withdrawn", "Withdrawn")]


def test_an_offer_that_expires_during_a_dispute_ends_with_one_event(
    server: Running, client: httpx.Client
) -> None:
    invoice, made = offered(client, 1)
    move(client, invoice, "dispute")
    advance(client, "P4D")
    move(client, invoice, "resolve-dispute")
    types = [one["type"] for one in recorded_events(server, client)]
    assert types[-3:] == ["invoice.disputed", "offer.expired", "invoice.dispute_resolved"]
    assert ends(server, client, made) == [(made[0], "offer.expired", "Expired")]
    assert len(audited(client, "offer.expired")) == 1
    assert status(client, invoice) == "FinancingRequested"
    (request,) = financing_requests(client, invoice)
    assert request["status"] == "Routed"
    move(client, invoice, "receive-offer")
    assert status(client, invoice) == "Offered"


def test_an_offer_that_was_never_valid_ends_with_an_event(
    server: Running, client: httpx.Client
) -> None:
    body = {"validUntil": "2020-01-01T00:00:00Z"}
    offer = data(client.post("/api/offers", json=body), 201)["id"]
    assert ends(server, client, [offer]) == [(offer, "offer.expired", "Expired")]


@pytest.mark.parametrize("how", ["decline", "withdraw"])
def test_an_offer_without_an_invoice_ends_with_an_event(
    server: Running, client: httpx.Client, how: str
) -> None:
    offer = data(client.post("/api/offers", json={}), 201)
    assert offer["invoiceId"] is None
    end(client, offer["id"], how)
    assert len(ends(server, client, [offer["id"]])) == 1
