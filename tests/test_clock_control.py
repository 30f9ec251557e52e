"""The clock of a workspace: read, frozen, released, set and advanced; everything shows its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.clock import ClockState
from tests.cases import in_turn
from tests.receivers import Message, calling, receiving
from tests.scenario_run import (
    LIVE,
    START,
    advance,
    audited,
    choose,
    clock,
    data,
    due,
    error,
    happened,
    make_workspace,
    move,
    new_invoice,
    now,
    offers,
    register_new,
    replace_runs,
    set_clock,
    status,
)
from tests.support import FROZEN, PATIENCE, Running, serving

CONFLICT = (409, "invalid_request")
INVALID = (400, "invalid_request")


@pytest.fixture(scope="module")
def flowing() -> Iterator[Running]:
    """A server whose clocks flow as the tests let time pass."""
    with serving(LIVE) as running:
        yield running


@pytest.fixture
def live(flowing: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace whose clock flows from the first second of 2027."""
    with flowing.client() as first:
        made = make_workspace(first, now="2027-01-01T00:00:00Z")
    with flowing.client(made["key"]) as client:
        yield client


# Reading, freezing, releasing, setting


def test_a_frozen_clock_stands_where_it_began() -> None:
    with serving() as running, running.client() as client:
        running.system_clock.pass_seconds(3600)
        assert clock(client) == {"mode": "frozen", "now": START, "nextDue": None}


def test_a_live_clock_flows(flowing: Running, live: httpx.Client) -> None:
    assert clock(live) == {"mode": "live", "now": "2027-01-01T00:00:00Z", "nextDue": None}
    flowing.system_clock.pass_seconds(1.5)
    assert now(live) == "2027-01-01T00:00:01.500Z"


def test_a_live_clock_shows_real_time_until_it_is_changed(flowing: Running) -> None:
    with flowing.client() as client:
        shown = flowing.system_clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert now(client) == shown.replace(".000Z", "Z")


def test_a_server_starts_its_clock_at_the_given_time() -> None:
    begins = ClockState("frozen", FROZEN.clock.at.replace(year=2030))
    with serving(replace(FROZEN, clock=begins)) as running, running.client() as client:
        assert now(client) == "2030-11-23T09:30:00Z"


def test_freezing_and_releasing_keep_the_instant(flowing: Running, live: httpx.Client) -> None:
    flowing.system_clock.pass_seconds(0.25)
    frozen = set_clock(live, mode="frozen")
    assert (frozen["mode"], frozen["now"]) == ("frozen", "2027-01-01T00:00:00.250Z")
    flowing.system_clock.pass_seconds(1000)
    assert now(live) == frozen["now"]
    assert set_clock(live, mode="live")["now"] == frozen["now"]
    flowing.system_clock.pass_seconds(1)
    assert now(live) == "2027-01-01T00:00:01.250Z"


SET = {
    "frozen": ({"mode": "frozen"}, "frozen", "00:00:00"),
    "live": ({"mode": "live"}, "live", "00:00:00"),
    "now": ({"now": "2027-01-01T12:00:00Z"}, "live", "12:00:00"),
    "frozen and now": ({"mode": "frozen", "now": "2027-01-01T12:00:00Z"}, "frozen", "12:00:00"),
    "live and now": ({"mode": "live", "now": "2027-01-01T12:00:00.5Z"}, "live", "12:00:00.500"),
}


@pytest.mark.parametrize(("body", "mode", "time_of_day"), SET.values(), ids=SET)
def test_mode_and_instant_are_set_alone_or_together(
    live: httpx.Client, body: dict[str, Any], mode: str, time_of_day: str
) -> None:
    shown = set_clock(live, **body)
    assert (shown["mode"], shown["now"]) == (mode, f"2027-01-01T{time_of_day}Z")
    assert shown["from"] == "2027-01-01T00:00:00Z"
    assert (clock(live)["mode"], now(live)) == (mode, shown["now"])


def test_a_shifted_live_clock_flows_on(flowing: Running, live: httpx.Client) -> None:
    set_clock(live, now="2030-06-01T00:00:00Z")
    flowing.system_clock.pass_seconds(60)
    assert now(live) == "2030-06-01T00:01:00Z"
    advance(live, by="P1D")
    flowing.system_clock.pass_seconds(60)
    assert now(live) == "2030-06-02T00:02:00Z"


def test_setting_the_clock_does_what_falls_due_on_the_way(client: httpx.Client) -> None:
    choose(client, "auto-progress")
    invoice_id = register_new(client)
    assert happened(set_clock(client, now="2026-11-23T09:30:02Z")) == [
        ("09:30:01", "start-verification", "done"),
        ("09:30:02", "finish-verification", "done"),
    ]
    assert status(client, invoice_id) == "Verified"


# Advancing

SPANS = {
    "PT0S": "2026-11-23T09:30:00Z",
    "PT1.5S": "2026-11-23T09:30:01.500Z",
    "PT90M": "2026-11-23T11:00:00Z",
    "P3D": "2026-11-26T09:30:00Z",
    "P1DT12H30M": "2026-11-24T22:00:00Z",
    "P999999D": "4764-10-19T09:30:00Z",
}


@pytest.mark.parametrize(("span", "end"), SPANS.items(), ids=SPANS)
def test_the_clock_is_advanced_by_a_time(client: httpx.Client, span: str, end: str) -> None:
    moved = advance(client, by=span)
    assert moved == {"mode": "frozen", "from": START, "now": end, "nextDue": None, "happened": []}
    assert now(client) == end


ENDS = {
    "2026-11-23T09:30:00Z": "2026-11-23T09:30:00Z",
    "2026-12-26T18:00:00Z": "2026-12-26T18:00:00Z",
    "2026-12-26T18:00:00.25+01:00": "2026-12-26T17:00:00.250Z",
    "9000-01-01T00:00:00Z": "9000-01-01T00:00:00Z",
}


@pytest.mark.parametrize(("to", "end"), ENDS.items(), ids=ENDS)
def test_the_clock_is_advanced_to_an_instant(client: httpx.Client, to: str, end: str) -> None:
    assert advance(client, to=to)["now"] == end
    assert now(client) == end


BACKWARDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "set": ("PUT", "/sandbox/clock", {"now": "2026-11-23T09:29:59.999Z"}),
    "advance": ("POST", "/sandbox/clock/advance", {"to": "2026-11-23T09:29:59.999Z"}),
}


@pytest.mark.parametrize(("method", "path", "body"), BACKWARDS.values(), ids=BACKWARDS)
def test_a_clock_never_goes_backwards(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    response = client.request(method, path, json=body)
    assert error(response) == CONFLICT
    message = response.json()["error"]["message"]
    assert f"The clock shows {START} and never goes backwards" in message
    assert "snapshot" in message
    assert clock(client) == {"mode": "frozen", "now": START, "nextDue": None}


BEYOND: dict[str, tuple[str, str, dict[str, Any]]] = {
    "set": ("PUT", "/sandbox/clock", {"now": "9000-01-01T00:00:00.001Z"}),
    "advance by": ("POST", "/sandbox/clock/advance", {"by": "P999999D"}),
}


@pytest.mark.parametrize(("method", "path", "body"), BEYOND.values(), ids=BEYOND)
def test_a_clock_goes_no_further_than_the_year_9000(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    advance(client, to="8999-12-31T00:00:00Z")
    response = client.request(method, path, json=body)
    assert error(response) == CONFLICT
    assert "9000-01-01T00:00:00Z" in response.json()["error"]["message"]
    assert (clock(client)["mode"], now(client)) == ("frozen", "8999-12-31T00:00:00Z")


# What is rejected

WRONG: dict[str, tuple[str, Any, str]] = {
    "a month": ("by", "P1M", "by"),
    "no amount": ("by", "P", "by"),
    "small letters": ("by", "pt10s", "by"),
    "a negative time": ("by", "-PT10S", "by"),
    "a fraction of a minute": ("by", "PT1.5M", "by"),
    "too many digits": ("by", "P1000000D", "by"),
    "a number": ("by", 10, "by"),
    "a date": ("to", "2026-12-26", "to"),
    "no zone": ("to", "2026-12-26T18:00:00", "to"),
}


@in_turn(("member", "value", "named"), WRONG.values(), ids=WRONG)
def test_a_time_that_is_none_is_400_and_named(
    client: httpx.Client, member: str, value: Any, named: str
) -> None:
    response = client.post("/sandbox/clock/advance", json={member: value})
    assert error(response) == INVALID
    assert response.json()["error"]["message"].startswith(named)
    assert now(client) == START


NOT_ONE_WAY: dict[str, Any] = {
    "both": {"by": "PT1S", "to": "2026-12-26T18:00:00Z"},
    "neither": {},
    "something more": {"by": "PT1S", "hurry": False},
    "a wait that is none": {"by": "PT1S", "wait": "yes"},
}


@pytest.mark.parametrize("body", NOT_ONE_WAY.values(), ids=NOT_ONE_WAY)
def test_an_advance_is_by_a_time_or_to_an_instant(client: httpx.Client, body: Any) -> None:
    assert error(client.post("/sandbox/clock/advance", json=body)) == INVALID
    assert now(client) == START


NO_CLOCK: dict[str, Any] = {
    "nothing": {},
    "another mode": {"mode": "slow"},
    "something else": {"mode": "live", "speed": 2},
}


@pytest.mark.parametrize("body", NO_CLOCK.values(), ids=NO_CLOCK)
def test_a_clock_is_set_by_mode_and_instant_only(client: httpx.Client, body: Any) -> None:
    assert error(client.put("/sandbox/clock", json=body)) == INVALID
    assert clock(client) == {"mode": "frozen", "now": START, "nextDue": None}


# Everything shows this time


def test_what_is_made_shows_the_instant_of_its_making(client: httpx.Client) -> None:
    advance(client, to="2027-03-03T08:00:00.125Z")
    register_new(client)
    (event, *_) = data(client.get("/api/audit-log"))
    assert event["occurredAt"] == "2027-03-03T08:00:00.125Z"
    key = data(client.post("/api/developer/api-keys", json={}))
    assert key["createdAt"] == "2027-03-03T08:00:00.125Z"
    signed = data(client.post("/api/webhooks/test", json={}))["request"]
    assert "2027-03-03T08:00:00.125Z" in str(signed)


def test_requests_and_offers_show_the_instant_of_the_step_that_made_them(
    client: httpx.Client,
) -> None:
    """Not that of the advance in which they were made."""
    choose(client, "auto-progress")
    invoice_id = register_new(client)
    advance(client, by="P1D")
    (request, *_) = data(client.get("/api/financing-requests"))
    (offer,) = offers(client, invoice_id)
    assert request["createdAt"] == "2026-11-23T09:30:04Z"
    assert (offer["createdAt"], offer["validUntil"]) == (
        "2026-11-23T09:30:06Z",
        "2026-11-26T09:30:06Z",
    )


def test_the_audit_log_shows_the_instant_of_every_step(client: httpx.Client) -> None:
    choose(client, "auto-progress")
    invoice_id = register_new(client)
    advance(client, by="PT10S")
    assert audited(client, invoice_id) == [
        ("2026-11-23T09:30:00Z", "invoice.registered"),
        ("2026-11-23T09:30:01Z", "invoice.verification_started"),
        ("2026-11-23T09:30:02Z", "invoice.verified"),
        ("2026-11-23T09:30:04Z", "financing_request.created"),
        ("2026-11-23T09:30:06Z", "offer.received"),
    ]


def test_the_last_use_of_a_key_is_in_this_time(client: httpx.Client) -> None:
    advance(client, to="2027-01-01T00:00:00Z")
    (key, *_) = data(client.get("/api/developer/api-keys"))
    assert key["lastUsedAt"] == "2027-01-01T00:00:00Z"


def test_a_key_ends_at_its_instant(server: Running, client: httpx.Client) -> None:
    expires = {"expiresAt": "2026-11-23T10:00:00Z"}
    secret = data(client.post("/api/developer/api-keys", json=expires))["secret"]
    with server.client(secret) as other:
        advance(client, to="2026-11-23T09:59:59.999Z")
        assert other.get("/api/invoices").status_code == 200
        advance(client, to="2026-11-23T10:00:00Z")
        assert error(other.get("/api/invoices")) == (401, "authentication_required")


def test_a_session_ends_after_eight_hours_to_the_millisecond(
    server: Running, client: httpx.Client
) -> None:
    login = {"email": "seller@demo.example", "password": "demo-password"}
    opened = client.post("/api/auth/login", json=login)
    assert data(opened)["expiresAt"] == "2026-11-23T17:30:00Z"
    cookie = {"Cookie": opened.headers["Set-Cookie"].partition(";")[0]}
    client.cookies.clear()
    with server.client(None) as browser:
        advance(client, by="PT7H59M59S")
        assert browser.get("/api/auth/session", headers=cookie).status_code == 200
        advance(client, by="PT1S")
        assert browser.get("/api/auth/session", headers=cookie).status_code == 401


def test_an_upload_address_ends_after_a_quarter_of_an_hour_to_the_millisecond(
    client: httpx.Client,
) -> None:
    urls = [data(client.post("/api/storage/invoices/upload-url", json={})) for _ in range(2)]
    assert urls[0]["expiresAt"] == "2026-11-23T09:45:00Z"
    file: dict[str, Any] = {"content": b"%PDF", "headers": {"Content-Type": "application/pdf"}}
    advance(client, by="PT899.999S")
    assert httpx.put(urls[0]["url"], **file, timeout=PATIENCE).status_code == 200
    advance(client, by="PT0.001S")
    assert httpx.put(urls[1]["url"], **file, timeout=PATIENCE).status_code == 404


def test_the_response_to_a_repeated_request_is_kept_for_a_day_of_this_time(
    client: httpx.Client,
) -> None:
    key, body = {"Idempotency-Key": "once"}, new_invoice()
    first = client.post("/api/invoices", json=body, headers=key)
    advance(client, by="PT86399.999S")
    again = client.post("/api/invoices", json=body, headers=key)
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    advance(client, by="PT0.001S")
    anew = client.post("/api/invoices", json=body, headers=key)
    assert "Idempotent-Replayed" not in anew.headers
    assert data(anew)["id"] != data(first)["id"]


def test_request_ids_hold_this_time(client: httpx.Client) -> None:
    before = client.get("/api/invoices").headers["X-Request-Id"]
    advance(client, by="P365D")
    after = client.get("/api/invoices").headers["X-Request-Id"]
    assert before[:-16] < after[:-16]


# The published flow, by itself

ANY = {
    "EUR": {"currency": "EUR"},
    "JPY": {"currency": "JPY"},
    "KWD": {"currency": "KWD"},
    "XXX": {"currency": "XXX"},
    "no currency": {"currency": ""},
    "another symbol": {"currency": "💶"},
    "a cent": {"amount": 0.01},
    "all the money": {"amount": 1e300},
    "all the money in yen": {"amount": 1e300, "currency": "JPY"},
    "a large integer": {"amount": 10**40},
    "due today": {"dueDate": "2026-11-23"},
    "with both dates": {"issueDate": "2026-11-03", "dueDate": "2027-01-22"},
    "unknown parties": {"sellerId": "somebody", "debtorId": "nobody"},
}


@pytest.fixture(scope="module")
def usual() -> Iterator[Running]:
    """A server whose scenario is the one that it has unless another is chosen."""
    with serving(replace(FROZEN, scenario=None)) as running:
        yield running


@pytest.fixture
def partner(usual: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace in which the published flow finishes by itself."""
    with usual.client(usual.new_workspace()) as client:
        yield client


@pytest.mark.parametrize("members", ANY.values(), ids=ANY)
def test_every_invoice_of_an_amount_gets_exactly_one_offer(
    partner: httpx.Client, members: dict[str, Any]
) -> None:
    invoice_id = register_new(partner, **members)
    assert status(partner, invoice_id) == "Registered"
    moved = advance(partner, by="PT10S")
    assert happened(moved) == [
        ("09:30:01", "start-verification", "done"),
        ("09:30:02", "finish-verification", "done"),
        ("09:30:04", "request-financing", "done"),
        ("09:30:06", "make-offer", "done"),
    ]
    assert status(partner, invoice_id) == "Offered"
    (offer,) = offers(partner, invoice_id)
    assert offer["partnerId"] == "ptn_sandbox_everest"
    steps = happened(advance(partner, by="P400D"))
    assert [step for step in steps if step[1] != "pass-date"] == [
        ("09:30:06", "end-validity", "done")
    ]


UNPAID: dict[str, dict[str, Any]] = {
    "less than a cent": {"amount": 0.001},
    "due in a hundred years": {"dueDate": "2126-11-21"},
}


@pytest.mark.parametrize("members", UNPAID.values(), ids=UNPAID)
def test_no_offer_is_made_that_pays_the_seller_nothing(
    partner: httpx.Client, members: dict[str, Any]
) -> None:
    invoice_id = register_new(partner, **members)
    moved = advance(partner, by="PT10S")
    assert happened(moved)[-1] == ("09:30:06", "make-offer", "skipped")
    request = partner.get("/api/financing-requests").json()["data"][0]
    assert (request["invoiceIds"], request["status"]) == ([invoice_id], "NoMatch")
    reasons = [one["failedFilters"] for one in request["unmatched"]]
    assert [{"filter": "netProceeds", "reason": "NET_PROCEEDS_NOT_POSITIVE"}] in reasons
    assert status(partner, invoice_id) == "Verified"


NONE: dict[str, dict[str, Any]] = {
    "nothing": {"amount": 0},
    "a debt": {"amount": -1},
    "past due": {"dueDate": "2026-11-22"},
}


@pytest.mark.parametrize("members", NONE.values(), ids=NONE)
def test_what_cannot_be_financed_fails_its_verification(
    partner: httpx.Client, members: dict[str, Any]
) -> None:
    invoice_id = register_new(partner, **members)
    moved = advance(partner, by="PT10S")
    assert [one["outcome"] for one in moved["happened"]] == ["done", "done", "skipped", "skipped"]
    assert status(partner, invoice_id) == "VerificationFailed"
    assert offers(partner, invoice_id) == []


def test_an_amount_is_taken_with_all_its_digits(partner: httpx.Client) -> None:
    text = '{"sellerId":"a","debtorId":"b","invoiceNumber":"1","currency":"EUR","amount":%s}'
    digits = "12345678901234567890123456789.01"
    response = partner.post(
        "/api/invoices", content=text % digits, headers={"Content-Type": "application/json"}
    )
    invoice_id = data(response, 201)["id"]
    advance(partner, by="PT10S")
    listed = partner.get("/api/offers", params={"invoiceId": invoice_id})
    assert f'"faceValue":{digits}' in listed.text


def test_a_duplicate_stays_suspected(partner: httpx.Client) -> None:
    body = new_invoice()
    ids = [data(partner.post("/api/invoices", json=body), 201)["id"] for _ in range(2)]
    moved = advance(partner, by="PT10S")
    assert [status(partner, one) for one in ids] == ["Offered", "DuplicateSuspected"]
    outcomes = [one["outcome"] for one in moved["happened"]]
    assert outcomes == ["done", "skipped"] * 4
    assert moved["happened"][1]["reason"].startswith("The invoice is DuplicateSuspected")
    assert offers(partner, ids[1]) == []


BY_HAND: dict[str, tuple[list[tuple[str, dict[str, Any]]], list[str]]] = {
    "verification": ([("/api/verification/run", {})], ["skipped", "skipped", "done", "done"]),
    "financing": (
        [("/api/verification/run", {}), ("/api/financing-requests", {})],
        ["skipped", "skipped", "skipped", "done"],
    ),
    "an offer": (
        [("/api/verification/run", {}), ("/api/financing-requests", {}), ("/api/offers", {})],
        ["skipped"] * 4,
    ),
}


@pytest.mark.parametrize(("calls", "outcomes"), BY_HAND.values(), ids=BY_HAND)
def test_what_a_client_did_itself_is_not_done_again(
    partner: httpx.Client, calls: list[tuple[str, Any]], outcomes: list[str]
) -> None:
    invoice_id = register_new(partner)
    for path, body in calls:
        data(partner.post(path, json={**body, "invoiceId": invoice_id}))
    moved = advance(partner, by="PT10S")
    assert [one["outcome"] for one in moved["happened"]] == outcomes
    assert all(one["reason"] for one in moved["happened"] if one["outcome"] == "skipped")
    assert status(partner, invoice_id) == "Offered"
    assert len(offers(partner, invoice_id)) == 1


def test_what_a_client_does_in_between_never_leads_to_a_second_offer(
    partner: httpx.Client,
) -> None:
    invoice_id = register_new(partner)
    advance(partner, by="PT5S")
    (offer,) = [data(partner.post("/api/offers", json={"invoiceId": invoice_id}))]
    data(partner.post(f"/sandbox/offers/{offer['id']}/accept"))
    moved = advance(partner, by="PT5S")
    assert [one["outcome"] for one in moved["happened"]] == ["skipped"]
    assert [one["id"] for one in offers(partner, invoice_id)] == [offer["id"]]
    assert status(partner, invoice_id) == "OfferAccepted"


def test_invoices_from_an_erp_system_progress_too(partner: httpx.Client) -> None:
    items = [{"externalId": f"ERP-{n}", **new_invoice()} for n in range(3)]
    body = {"source": {"system": "erp"}, "invoices": items}
    data(partner.post("/api/connectors/erp/invoices", json=body), 202)
    advance(partner, by="PT10S")
    offered = data(partner.get("/api/invoices", params={"status": "Offered"}))
    numbers = {one["invoiceNumber"] for one in offered}
    assert numbers >= {one["invoiceNumber"] for one in items}


def test_under_manual_nothing_moves(client: httpx.Client) -> None:
    invoice_id = register_new(client)
    assert due(client) == []
    assert advance(client, by="P400D")["happened"] == []
    assert status(client, invoice_id) == "Registered"


def test_the_starting_data_never_move(partner: httpx.Client) -> None:
    paths = ("/api/invoices", "/api/offers", "/api/financing-requests", "/api/audit-log")
    before = [data(partner.get(path)) for path in paths]
    assert advance(partner, by="P999D")["happened"] == []
    assert [data(partner.get(path)) for path in paths] == before


def test_manual_drops_what_auto_progress_had_in_store(partner: httpx.Client) -> None:
    invoice_id = register_new(partner)
    advance(partner, by="PT1S")
    assert len(due(partner)) == 3
    replace_runs(partner, "manual")
    assert due(partner) == []
    assert advance(partner, by="PT10S")["happened"] == []
    choose(partner, "auto-progress")
    assert advance(partner, by="PT10S")["happened"] == []
    assert status(partner, invoice_id) == "VerificationPending"


# Ninety days


def test_an_invoice_that_is_never_paid_is_bought_back_ninety_days_after_it_was_due(
    client: httpx.Client,
) -> None:
    due_date = "2027-01-22"
    invoice_id = register_new(client, dueDate=due_date)
    move(client, invoice_id, "start-verification", "verify", "request-financing", "receive-offer")
    advance(client, by="PT1H")
    move(client, invoice_id, "accept-offer")
    advance(client, by="P1D")
    move(client, invoice_id, "fund")
    advance(client, to=f"{due_date}T00:00:00Z")
    move(client, invoice_id, "become-overdue")
    advance(client, by="P90D")
    move(client, invoice_id, "default", "invoke-recourse")
    advance(client, by="PT0.5S")
    move(client, invoice_id, "repurchase")
    assert status(client, invoice_id) == "Repurchased"
    assert audited(client, invoice_id) == [
        ("2026-11-23T09:30:00Z", "invoice.registered"),
        ("2026-11-23T09:30:00Z", "invoice.verification_started"),
        ("2026-11-23T09:30:00Z", "invoice.verified"),
        ("2026-11-23T09:30:00Z", "financing_request.created"),
        ("2026-11-23T09:30:00Z", "offer.received"),
        ("2026-11-23T10:30:00Z", "offer.accepted"),
        ("2026-11-24T10:30:00Z", "invoice.funded"),
        ("2027-01-22T00:00:00Z", "invoice.overdue"),
        ("2027-04-22T00:00:00Z", "invoice.defaulted"),
        ("2027-04-22T00:00:00Z", "invoice.recourse_invoked"),
        ("2027-04-22T00:00:00.500Z", "invoice.repurchased"),
    ]
    (request,) = [
        one
        for one in data(client.get("/api/financing-requests"))
        if invoice_id in one["invoiceIds"]
    ]
    assert request["status"] == "Closed"


def test_what_a_request_runs_while_the_clock_is_advanced_happened_meanwhile(
    flowing: Running, live: httpx.Client
) -> None:
    choose(live, "auto-progress")
    invoice = register_new(live)

    def pass_time(_: Message) -> None:
        flowing.system_clock.pass_seconds(2)
        with flowing.client(live.headers["Authorization"].removeprefix("Bearer ")) as other:
            assert status(other, invoice) == "FinancingRequested"

    with receiving(calling(pass_time)) as receiver:
        live.post("/api/webhooks", json={"url": receiver.url, "events": ["invoice.verified"]})
        moved = advance(live, by="PT2S")
    made = [one[1] for one in happened(moved)]
    steps = ["start-verification", "finish-verification", "request-financing"]
    assert [one for one in made if one != "deliver"] == steps


def test_a_dry_run_shows_what_an_advance_would_do_and_changes_nothing(server: Running) -> None:
    """The advance that follows does the same, with the same ids and times."""
    with server.client(server.new_workspace(seed=11)) as client:
        url = data(client.get("/sandbox/inbox"))["url"]
        data(client.post("/api/webhooks", json={"url": url, "events": ["*"]}), 201)
        data(client.put("/sandbox/scenario", json={"name": "auto-progress"}))
        invoice = register_new(client)
        before = [
            client.get(path).content for path in (f"/api/invoices/{invoice}", "/sandbox/clock")
        ]
        body = {"by": "PT1H"}
        shown = data(client.post("/sandbox/clock/advance", json={**body, "dryRun": True}))
        after = [
            client.get(path).content for path in (f"/api/invoices/{invoice}", "/sandbox/clock")
        ]
        assert before == after
        assert data(client.get("/sandbox/event-log"))[0]["type"] == "invoice.registered"
        done = data(client.post("/sandbox/clock/advance", json=body))
        steps = [step for step in done["happened"] if step["do"] != "deliver"]
        assert shown["happened"] == steps
        [attempt] = shown["pending"]
        assert attempt["subject"] == next(
            step["subject"] for step in done["happened"] if step["do"] == "deliver"
        )
        assert (shown["from"], shown["now"]) == (done["from"], done["now"])
        events = data(client.get("/sandbox/event-log", params={"limit": 1000}))
        assert events[-1]["at"] == done["from"]
