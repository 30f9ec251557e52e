"""``include: ["money"]``: an endpoint gets amounts and postings in its events, others do not."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import httpx
import pytest

from invoice_sandbox.base import jsonio
from tests.receivers import subscribe
from tests.scenario_run import START, advance, data, move, recorded_events, register, register_new
from tests.support import Running
from tests.test_ledger_http import ACCEPTED, ledger
from tests.test_payments import FUNDED, act, pay, post, today
from tests.webhook_docs import amounts_by_event

IN_DEFAULT = ("become-overdue", "default", "invoke-recourse")


def inbox(client: httpx.Client) -> Any:
    return data(client.get("/sandbox/inbox"))


def bodies(client: httpx.Client, endpoint: Any) -> dict[str, str]:
    """The newest body of each type that the inbox got for an endpoint."""
    advance(client, "PT0S")  # until everything is delivered
    messages = [item for item in inbox(client)["messages"] if item["endpointId"] == endpoint["id"]]
    return {item["type"]: item["body"] for item in reversed(messages)}


def drive(client: httpx.Client) -> list[Any]:
    """Invoices whose events are all those that have money."""
    paid, bought_back, written_off = (register(client, invoiceNumber=f"M-{n}") for n in range(3))
    move(client, paid, *ACCEPTED)
    data(post(client, paid, "pay-outs", amount=3000))
    move(client, paid, "fund")
    data(post(client, paid, "credit-notes", amount=500))
    act(client, pay(client, paid, 100, reference="Thank you"), "return")
    pay(client, paid, 200, paidTo="Seller")
    pay(client, paid, 2500, valueDate=today(2))
    pay(client, paid, 7001)
    move(client, paid, "settle")
    move(client, bought_back, *FUNDED, *IN_DEFAULT, "repurchase")
    move(client, written_off, *FUNDED, *IN_DEFAULT, "write-off")
    return [paid, bought_back, written_off]


def test_an_endpoint_that_includes_money_gets_what_was_posted(client: httpx.Client) -> None:
    address = inbox(client)["url"]
    plain = subscribe(client, address, events=["invoice.*"])
    rich = subscribe(client, address, events=["invoice.*"], include=["money"])
    assert ("include" in plain, rich["include"]) == (False, ["money"])
    invoices = drive(client)
    posted = {item["id"] for invoice in invoices for item in ledger(client, invoice)["postings"]}
    with_money = {kind: json.loads(body) for kind, body in bodies(client, rich).items()}
    found = {kind: event["money"] for kind, event in with_money.items() if "money" in event}
    assert {kind: list(one["amounts"]) for kind, one in found.items()} == amounts_by_event()
    for money in found.values():
        assert money["currency"] == "EUR"
        assert set(money["postingIds"]) <= posted
    assert {kind for kind, one in found.items() if not one["postingIds"]} == set()
    assert found["invoice.partially_paid"]["valueDate"] == today(2)
    assert found["invoice.funded"]["valueDate"] == START[:10]
    assert found["invoice.paid"]["amounts"] == {
        "amount": 7001,
        "paid": 9501,
        "owed": 0,
        "unapplied": 1,
    }


def test_the_other_endpoints_get_the_same_bytes_as_ever(
    server: Running, client: httpx.Client
) -> None:
    address = inbox(client)["url"]
    plain = subscribe(client, address, events=["invoice.*"])
    rich = subscribe(client, address, events=["invoice.*"], include=["money"])
    drive(client)
    sent, more = bodies(client, plain), bodies(client, rich)
    recorded = {item["type"]: item for item in recorded_events(server, client)}
    assert sent.keys() == more.keys()
    for kind, body in sent.items():
        assert body == jsonio.dumps(recorded[kind]).decode()
        assert list(json.loads(body)) == ["id", "type", "timestamp", "mode", "data"]
        without = {
            k: v for k, v in json.loads(more[kind], parse_float=Decimal).items() if k != "money"
        }
        assert jsonio.dumps(without).decode() == body


def test_a_delivery_shows_what_its_endpoint_got(client: httpx.Client) -> None:
    subscribe(client, inbox(client)["url"], events=["invoice.funded"], include=["money"])
    move(client, register(client), *FUNDED)
    advance(client, "PT0S")
    (sent,) = data(client.get("/api/webhooks"))["deliveries"]
    shown = data(client.get(f"/sandbox/deliveries/{sent['id']}"))
    assert "money" in json.loads(shown["body"])
    (attempt,) = shown["attempts"]
    assert attempt["signed"]["signatures"][0]["secret"] == "current"
    assert attempt["request"]["payload"]["money"]["amounts"]["amount"] == 7800
    assert inbox(client)["messages"][0]["type"] == "invoice.funded"
    log = data(client.get("/sandbox/event-log"))
    (event,) = (item for item in log if item["type"] == "invoice.funded")
    assert "money" in event["optional"]
    assert "money" not in event["payload"]


@pytest.mark.parametrize(
    ("include", "kept", "hint"),
    [
        (["money"], ["money"], None),
        (["monney"], None, "did you mean money?"),
        ("money", None, None),
        (7, None, None),
        ([["money"]], None, None),
    ],
)
def test_what_cannot_be_included_is_ignored(
    client: httpx.Client, include: Any, kept: Any, hint: str | None
) -> None:
    made = subscribe(client, inbox(client)["url"], include=include)
    assert made.get("include") == kept
    warnings = " ".join(made.get("warnings", []))
    assert (hint in warnings) if hint else ("include" not in warnings)


def test_a_trigger_of_an_invoice_without_an_offer_has_no_money(client: httpx.Client) -> None:
    rich = subscribe(client, inbox(client)["url"], events=["*"], include=["money"])
    move(client, register_new(client), "start-verification")
    assert "money" not in bodies(client, rich)["invoice.verification_started"]
