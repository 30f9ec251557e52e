"""Every date, amount and currency that the contract accepts is calculated with."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from invoice_sandbox.project.api import dump_json
from tests.cases import in_turn
from tests.scenario_run import DATED, agenda, choose, data, new_invoice
from tests.support import Running

pytestmark = pytest.mark.slow

SCENARIOS = (
    "late-payment",
    "default-recourse",
    "default-non-recourse",
    "invoice-expires",
    "full-lifecycle",
    "auto-progress",
)
CORNERS = ("9999-12-31", "9999-10-10", "9999-12-30", "0000-02-29", "0000-01-01", "0001-01-01")
JSON = {"Content-Type": "application/json"}

DATES = st.sampled_from(CORNERS) | st.dates().map(lambda day: day.isoformat())
AMOUNTS = st.integers(-(10**30), 10**30) | st.decimals(
    min_value=-(10**15), max_value=10**15, allow_nan=False, allow_infinity=False
)
CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD", "CLF", "eur", "XAU", "", "gold coins"])
BODIES = st.fixed_dictionaries(
    {"amount": AMOUNTS, "currency": CURRENCIES},
    optional={"issueDate": DATES, "dueDate": DATES},
)
ON_ONE_SERVER = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@in_turn("due_date", CORNERS)
@in_turn("scenario", SCENARIOS)
def test_every_scenario_starts_on_an_invoice_with_any_due_date(
    client: httpx.Client, scenario: str, due_date: str
) -> None:
    choose(client, scenario)
    response = client.post("/api/invoices", json=new_invoice(dueDate=due_date))
    assert response.status_code == 201, response.text
    assert client.post("/sandbox/clock/advance", json={"by": "P400D"}).status_code == 200
    assert [one for one in agenda(client)["done"] if one["outcome"] == "failed"] == []


@in_turn("scenario", SCENARIOS)
@in_turn("currency", ["EUR", "JPY"])
def test_an_amount_of_more_than_28_digits_is_calculated_exactly(
    client: httpx.Client, scenario: str, currency: str
) -> None:
    choose(client, scenario)
    amount = 1234567890123456789012345678901
    invoice = data(
        client.post("/api/invoices", json=new_invoice(amount=amount, currency=currency)), 201
    )
    assert client.post("/sandbox/clock/advance", json={"by": "P400D"}).status_code == 200
    assert [one for one in agenda(client)["done"] if one["outcome"] == "failed"] == []
    ledger = client.get(f"/sandbox/invoices/{invoice['id']}/ledger").text
    postings = json.loads(ledger, parse_int=Fraction, parse_float=Fraction)["data"]["postings"]
    assert (postings != []) is (scenario not in {"auto-progress", "invoice-expires"})
    for posting in postings:
        debits = sum(one.get("debit", 0) for one in posting["entries"])
        assert debits == sum(one.get("credit", 0) for one in posting["entries"]), posting


def test_a_step_after_the_year_9999_stays_in_the_agenda(client: httpx.Client) -> None:
    choose(client, "late-payment")
    data(client.post("/api/invoices", json=new_invoice(dueDate="9999-12-31")), 201)
    last = [one["at"] for one in agenda(client)["due"]][-2:]
    assert last == ["9999-12-31T23:59:59Z"] * 2


@in_turn("due_date", CORNERS)
def test_a_pushed_item_with_any_due_date_is_registered(client: httpx.Client, due_date: str) -> None:
    choose(client, "invoice-expires")
    pushed = data(
        client.post("/api/connectors/erp/invoices", json={**DATED, "dueDate": due_date}), 202
    )
    assert pushed["received"] == 1
    assert data(client.get("/api/invoices"))[0]["dueDate"] == due_date


def test_a_due_date_in_the_year_0_breaks_no_later_call(client: httpx.Client) -> None:
    data(client.post("/api/invoices", json=new_invoice(dueDate="0000-02-29")), 201)
    for path in ("/api/verification/run", "/api/partners/route", "/api/financing-requests"):
        assert client.post(path, json={}).is_success, path


def requests(invoice: Any, body: dict[str, Any], day: str) -> list[tuple[str, Any]]:
    """A request to every operation that reads a date, an amount or a currency."""
    about = {"invoiceId": invoice["id"]}
    asked = {"requestedAmount": abs(body["amount"]) or 1, "currency": body["currency"]}
    instant = f"{day}T12:00:00Z"
    valid = {"validUntil": instant, "advanceRate": 1, "recoursePeriodDays": 0}
    return [
        ("/api/registry/fingerprint", new_invoice(**body)),
        ("/api/connectors/erp/invoices", {"invoices": [new_invoice(**body), {**DATED, **body}]}),
        ("/api/verification/run", about),
        ("/api/partners/route", about),
        ("/api/financing-requests", {**about, **asked}),
        ("/api/financing-requests", {**about, "neededBy": day}),
        ("/api/offers", about),
        ("/api/offers", {**about, **valid}),
        ("/api/offers", valid),
        ("/api/developer/api-keys", {"expiresAt": instant}),
    ]


@ON_ONE_SERVER
@given(body=BODIES, day=DATES, scenario=st.sampled_from(SCENARIOS))
def test_no_accepted_invoice_ends_in_an_error(
    server: Running, client: httpx.Client, body: dict[str, Any], day: str, scenario: str
) -> None:
    def post(path: str, value: Any) -> httpx.Response:
        return client.post(path, content=dump_json(value), headers=JSON)

    with server.client(server.new_workspace()) as client:
        choose(client, scenario)
        invoice = data(post("/api/invoices", new_invoice(**body)), 201)
        assert post("/sandbox/clock/advance", {"by": "PT10S"}).status_code == 200
        for path, sent in requests(invoice, body, day):
            response = post(path, sent)
            assert response.is_success or response.status_code == 409, (path, response.text)
        assert post("/sandbox/clock/advance", {"by": "P500D"}).status_code == 200
        for path, query in (
            ("/api/invoices", {"createdFrom": day, "createdTo": day}),
            ("/api/audit-log", {"from": day, "to": day}),
            (f"/sandbox/invoices/{invoice['id']}/ledger", {}),
        ):
            assert client.get(path, params=query).status_code == 200
        assert [one for one in agenda(client)["done"] if one["outcome"] == "failed"] == []
