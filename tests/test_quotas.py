"""What one workspace may hold: beyond a quota a request is rejected, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.support import FROZEN, Running, serving

HOOK = {"url": "https://partner.example/hooks", "events": ["invoice.registered"]}
INVOICE = {
    "sellerId": "slr_demo",
    "debtorId": "dbt_demo",
    "invoiceNumber": "N-1",
    "amount": 100,
    "currency": "EUR",
    "issueDate": "2026-11-01",
    "dueDate": "2027-01-31",
}


def invoice(client: httpx.Client, number: int) -> httpx.Response:
    return client.post("/api/invoices", json={**INVOICE, "invoiceNumber": f"N-{number}"})


def invoice_with_webhook(client: httpx.Client, number: int) -> httpx.Response:
    if number == 0:
        assert client.post("/api/webhooks", json=HOOK).status_code < 300
    return invoice(client, number)


def push(client: httpx.Client, number: int) -> httpx.Response:
    item = {**INVOICE, "invoiceNumber": f"E-{number}"}
    return client.post("/api/connectors/erp/invoices", json={"invoices": [item] * 4})


QUOTAS: dict[str, tuple[dict[str, Any], Callable[[httpx.Client, int], httpx.Response], str]] = {
    "endpoints": (
        {"max_endpoints": 2},
        lambda client, _: client.post("/api/webhooks", json=HOOK),
        "2 webhook endpoints, which is its limit. Remove some, reset the workspace, or start",
    ),
    "keys": (
        {"max_keys": 3},
        lambda client, _: client.post("/api/developer/api-keys", json={"name": "x"}),
        "3 API keys, which is its limit",
    ),
    "steps": ({"max_steps": 3}, push, "3 due steps, which is its limit"),
    "deliveries": ({"max_deliveries": 2}, invoice_with_webhook, "2 pending deliveries, which is"),
}


@pytest.mark.parametrize(("settings", "send", "text"), QUOTAS.values(), ids=QUOTAS)
def test_beyond_a_quota_the_response_names_it(
    settings: dict[str, Any], send: Callable[[httpx.Client, int], httpx.Response], text: str
) -> None:
    with serving(replace(FROZEN, **settings)) as running, running.client() as client:
        responses = [send(client, number) for number in range(6)]
        last = responses[-1]
        assert last.status_code == 429, last.text
        assert last.json()["error"]["code"] == "rate_limit_exceeded"
        assert text in last.json()["error"]["message"]
        with running.client(running.new_workspace()) as other:
            assert invoice(other, 99).status_code < 300


def test_a_push_beyond_the_quota_registers_nothing() -> None:
    with serving(replace(FROZEN, max_steps=3)) as running, running.client() as client:
        before = [count(client, path) for path in ("/api/audit-log", "/api/invoices")]
        assert push(client, 1).status_code == 429
        assert [count(client, path) for path in ("/api/audit-log", "/api/invoices")] == before


def count(client: httpx.Client, path: str) -> int:
    return int(client.get(path).headers["x-total-count"])


def test_a_quota_counts_what_there_is_now() -> None:
    with serving(replace(FROZEN, max_endpoints=1)) as running, running.client() as client:
        assert client.post("/api/webhooks", json=HOOK).status_code < 300
        assert client.post("/api/webhooks", json=HOOK).status_code == 429
        assert client.post("/sandbox/reset").status_code == 200
        assert client.post("/api/webhooks", json=HOOK).status_code < 300


def pending(running: Running) -> int:
    [space] = running.sandbox.engine.store._spaces.values()  # type: ignore[attr-defined]  # noqa: SLF001
    return int(space.state.in_lanes)


def test_deliveries_that_end_leave_the_quota() -> None:
    with serving() as running, running.client() as client:
        assert client.post("/api/webhooks", json=HOOK).status_code < 300
        assert invoice(client, 1).status_code < 300
        assert pending(running) > 0
        client.post("/sandbox/clock/advance", json={"by": "P30D"})
        assert pending(running) == 0
