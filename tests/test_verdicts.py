"""Live verdicts: a client is judged by what it did in its workspace, and what shows it is armed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from invoice_sandbox.base.clock import ClockState, parse_instant
from invoice_sandbox.conformance.live import State, live_verdicts
from invoice_sandbox.conformance.observations import Observations, Request
from invoice_sandbox.conformance.plan import Plan
from tests.receivers import receiving, response
from tests.scenario_run import INVOICE, data
from tests.support import FROZEN, Running, little_work, serving
from tests.toy import contract, serving_contract


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A server whose clock follows the time of the test."""
    with serving(replace(FROZEN, clock=ClockState("live"))) as server:
        yield server


@pytest.fixture
def api(live: Running) -> Iterator[httpx.Client]:
    """A client in a workspace of its own."""
    with live.client(live.new_workspace()) as client:
        yield client


def verdicts(client: httpx.Client) -> dict[str, dict[str, Any]]:
    """The verdicts by check."""
    return {row["check"]: row for row in data(client.get("/sandbox/verdicts"))}


def states(client: httpx.Client, *checks: str) -> list[str]:
    found = verdicts(client)
    return [found[check]["verdict"] for check in checks]


def provoke(client: httpx.Client, check: str) -> Any:
    return data(client.post(f"/sandbox/verdicts/{check}/provoke"))


def register(client: httpx.Client, key: str | None = None, **members: object) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/api/invoices", json={**INVOICE, **members}, headers=headers)


def test_nothing_is_seen_before_a_client_did_anything(api: httpx.Client) -> None:
    found = verdicts(api)
    assert {row["verdict"] for row in found.values()} == {"not-seen"}
    row = found["retry-after"]
    assert (row["found"], row["exchanges"], row["advice"]) == (None, [], None)


def test_a_broken_check_names_two_exchanges_the_gap_and_what_to_do(
    live: Running, api: httpx.Client
) -> None:
    armed = provoke(api, "retry-after")
    assert "status 429" in armed["armed"]
    assert armed["next"].startswith("Send any request.")
    ids = [api.get("/api/offers").headers["x-request-id"]]
    live.system_clock.pass_seconds(0.3)
    ids.append(api.get("/api/offers").headers["x-request-id"])
    first, *_ = data(api.get("/sandbox/verdicts"))
    assert (first["check"], first["verdict"]) == ("retry-after", "broken")
    assert first["found"] == "Retried after 0.30 s; Retry-After was 2 s."
    assert [exchange["requestId"] for exchange in first["exchanges"]] == ids
    assert [exchange["line"] for exchange in first["exchanges"]] == [
        "GET /api/offers: 429",
        "GET /api/offers: 200",
    ]
    times = [exchange["at"] for exchange in first["exchanges"]]
    assert parse_instant(times[0]) < parse_instant(times[1])
    assert first["advice"]
    with live.client(live.new_workspace()) as other:
        assert states(other, "retry-after") == ["not-seen"]


def test_a_right_client_keeps_what_is_provoked(live: Running, api: httpx.Client) -> None:
    provoke(api, "retry-after")
    api.get("/api/offers")
    live.system_clock.pass_seconds(2.1)
    provoke(api, "growing-waits")
    for wait in (0.5, 1, 2, 4, 8):
        live.system_clock.pass_seconds(wait)
        api.get("/api/offers")
    provoke(api, "stable-keys")
    with pytest.raises(httpx.TransportError):
        register(api, "one")
    assert register(api, "one").status_code == 201
    provoke(api, "rejected-once")
    assert register(api, "two").status_code == 400
    provoke(api, "missing-once")
    body = {"invoiceId": "inv_sandbox_0001", "requestedAmount": 1}
    assert api.post("/api/financing-requests", json=body).status_code == 404
    provoke(api, "live-offers")
    assert data(api.get("/api/invoices/inv_sandbox_0001"))["status"] == "Disputed"
    checks = ("retry-after", "growing-waits", "stable-keys", "rejected-once", "missing-once")
    assert states(api, *checks, "live-offers", "distinct-keys") == ["kept"] * 7


def test_a_wrong_client_breaks_what_is_provoked(live: Running, api: httpx.Client) -> None:
    provoke(api, "growing-waits")
    for _ in range(5):
        live.system_clock.pass_seconds(1)
        api.get("/api/offers")
    provoke(api, "stable-keys")
    with pytest.raises(httpx.TransportError):
        register(api, "one")
    register(api, "other")
    provoke(api, "live-offers")
    api.get("/api/invoices/inv_sandbox_0001")
    body = {"invoiceId": "inv_sandbox_0001", "requestedAmount": 1}
    api.post("/api/financing-requests", json=body)
    checks = ("growing-waits", "stable-keys", "live-offers")
    assert states(api, *checks) == ["broken"] * 3
    assert verdicts(api)["growing-waits"]["found"] == (
        "Waited 1.00 s, 1.00 s, 1.00 s; later waits must grow."
    )


def test_a_rejected_request_may_be_sent_again_after_a_step_of_the_operator(
    api: httpx.Client,
) -> None:
    for _ in range(2):
        provoke(api, "rejected-once")
        assert register(api, "one").status_code == 400
    assert states(api, "rejected-once") == ["kept"]
    provoke(api, "rejected-once")
    api.post("/sandbox/faults", json={"operation": "createInvoice", "kind": "error", "status": 400})
    register(api, "one")
    register(api, "one")
    assert states(api, "rejected-once") == ["broken"]


def test_a_reset_begins_again(api: httpx.Client) -> None:
    for _ in range(2):
        register(api, "one", amount="x")
    assert states(api, "valid-requests", "rejected-once") == ["broken", "broken"]
    data(api.post("/sandbox/reset", json={}))
    assert states(api, "valid-requests", "rejected-once") == ["not-seen", "not-seen"]


@pytest.mark.parametrize("accepts", [True, False])
def test_forged_and_genuine_webhooks_are_sent_to_the_client(
    api: httpx.Client, accepts: bool
) -> None:
    forged = [response(401)] * 4 if accepts else []
    with receiving(response(200), response(200), response(200), *forged, response(200)) as client:
        api.post("/api/webhooks", json={"url": client.url, "events": ["*"]})
        api.post(
            "/api/webhooks", json={"url": data(api.get("/sandbox/inbox"))["url"], "events": ["*"]}
        )
        event = {"type": "invoice.verified", "invoiceId": "inv_sandbox_0001"}
        data(api.post("/sandbox/events", json=event), 201)
        api.post("/sandbox/clock/advance", json={"by": "PT1S"})
        assert states(api, "genuine-events", "forged-events") == ["kept", "not-seen"]
        assert "sent twice" in provoke(api, "genuine-events")["armed"]
        armed = provoke(api, "forged-events")["armed"]
    assert "without a signature, once" in armed
    found = verdicts(api)
    assert found["genuine-events"]["verdict"] == "kept"
    assert found["forged-events"]["verdict"] == ("kept" if accepts else "broken")
    if not accepts:
        lines = [exchange["line"] for exchange in found["forged-events"]["exchanges"]]
        assert lines[0] == "invoice.verified (no-signature): 200"


def test_deliveries_to_the_inbox_say_nothing_about_the_client(api: httpx.Client) -> None:
    inbox = data(api.get("/sandbox/inbox"))["url"]
    api.post("/api/webhooks", json={"url": inbox, "events": ["*"]})
    event = {"type": "invoice.verified", "invoiceId": "inv_sandbox_0001"}
    data(api.post("/sandbox/events", json=event), 201)
    api.post("/sandbox/clock/advance", json={"by": "PT1S"})
    assert states(api, "genuine-events") == ["not-seen"]
    rejected = api.post("/sandbox/verdicts/genuine-events/provoke")
    assert rejected.status_code == 409
    assert "no webhook" in rejected.json()["error"]["message"]


def test_what_nothing_shows_and_what_is_unknown_are_errors(api: httpx.Client) -> None:
    rejected = api.post("/sandbox/verdicts/distinct-keys/provoke")
    assert (rejected.status_code, "distinct-keys" in rejected.text) == (409, True)
    assert api.post("/sandbox/verdicts/nobody/provoke").status_code == 404
    assert [name for name, row in verdicts(api).items() if not row["canProvoke"]] == [
        "distinct-keys",
        "valid-requests",
        "valid-credentials",
    ]


def test_a_credential_may_be_rejected_once_like_every_other(
    live: Running, api: httpx.Client
) -> None:
    keys = [data(api.post("/api/developer/api-keys", json={}), 201) for _ in "abc"]
    for key in keys:
        data(api.delete("/api/developer/api-keys", params={"id": key["id"]}))
        with live.client(key["secret"]) as client:
            assert client.get("/api/offers").status_code == 401
    assert states(api, "valid-credentials") == ["kept"]
    with live.client(keys[0]["secret"]) as client:
        for _ in range(2):
            client.get("/api/offers")
    found = verdicts(api)["valid-credentials"]
    assert found["verdict"] == "broken"
    assert keys[0]["secret"] not in str(found)


@pytest.mark.parametrize("plans", [["name: one"], ["", ""]])
def test_a_plan_with_problems_and_several_plans_are_an_error(
    tmp_path: Path, plans: list[str]
) -> None:
    for part in ("openapi", "acceptance"):
        (tmp_path / part).mkdir()
    (tmp_path / "openapi" / "openapi.yaml").write_bytes(orjson.dumps(contract({})))
    for number, text in enumerate(plans):
        (tmp_path / "acceptance" / f"{number}.yaml").write_text(text)
    with serving(replace(FROZEN, project=tmp_path)) as server, server.client() as client:
        for response in (
            client.get("/sandbox/verdicts"),
            client.post("/sandbox/verdicts/retry-after/provoke"),
        ):
            assert response.status_code == 409
            assert "acceptance plan" in response.json()["error"]["message"]
            assert str(tmp_path) not in response.text
        assert client.get("/console").status_code == 200


def test_a_document_without_a_project_has_no_verdicts(tmp_path: Path) -> None:
    with serving_contract(tmp_path, contract({})) as client:
        assert data(client.get("/sandbox/verdicts")) == []
        assert client.post("/sandbox/verdicts/retry-after/provoke").status_code == 404


def test_a_thousand_requests_are_judged_in_no_time() -> None:
    """Every second one fails, and every third one changes something."""
    began = parse_instant("2026-11-23T09:30:00Z")
    sent = [
        Request(
            f"req_{number}",
            began + timedelta(seconds=number),
            timedelta(milliseconds=1),
            "createOrder",
            "POST",
            "/orders",
            (429, 201, 400)[number % 3],
            idempotency_key=str(number // 3),
            retry_after=timedelta(seconds=1) if number % 3 == 0 else None,
            body=f'{{"order": {number // 3}}}',
            response=f'{{"data": {{"id": "o_{number}", "status": "Gone"}}}}',
        )
        for number in range(1000)
    ]
    rules: dict[str, dict[str, Any]] = {
        "keys": {"that": "-", "request": "*", "keys": "stable"},
        "rejected": {"that": "-", "request": "*", "status": [400], "repeatsAtMost": 0},
        "retry-after": {"that": "-", "request": "*", "gaps": "retryAfter"},
        "backoff": {"that": "-", "request": "*", "gaps": "backoff"},
        "leaves": {"that": "-", "request": "*", "leaves": ["Gone"]},
    }
    with little_work(1):
        found = live_verdicts(Plan("p", "", (), invariants=rules), Observations(sent))
    assert {verdict.state for verdict in found} == {State.KEPT, State.NOT_SEEN}
