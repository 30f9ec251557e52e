"""A workspace in which there is something to see in every view of the console."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx

from invoice_sandbox.base.ids import new_key
from tests.receivers import receiving, response
from tests.scenario_run import INVOICE, data
from tests.support import FROZEN, Running, serving

CHECKS: list[dict[str, Any]] = [
    {
        "id": "follow-to-offer",
        "level": "must",
        "proves": "The client registers an invoice and follows it to an offer.",
        "state": "finished",
        "verdict": "PASS",
        "summary": "Every rule was kept.",
    },
    {
        "id": "idempotent-retry",
        "level": "must",
        "proves": "A registration is safe to repeat.",
        "state": "finished",
        "verdict": "FAIL",
        "summary": "All requests have the same Idempotency-Key.",
    },
    {
        "id": "respect-retry-after",
        "level": "must",
        "proves": "The client waits as long as Retry-After says.",
        "state": "running",
        "verdict": None,
        "summary": None,
    },
]
REPORT: dict[str, Any] = {
    "verdict": "FAIL",
    "state": "interrupted",
    "checks": [
        {
            "id": "idempotent-retry",
            "specification": "Idempotency",
            "expected": "the same idempotencyKey in every request",
            "actual": "no idempotencyKey in 3 requests",
            "evidence": [{"line": "POST /api/invoices 503"}, {"line": "POST /api/invoices 201"}],
        }
    ],
}

SELLERS = ("acme", "hooli", "umbrella")


@contextmanager
def shown() -> Iterator[tuple[Running, dict[str, str]]]:
    """A server with real time, and the ids of what pages are about."""
    settings = replace(FROZEN, scenario="auto-progress")
    with (
        receiving(response(503, b"the queue is full")) as failing,
        serving(settings, real_time=True) as running,
        running.client() as api,
    ):
        yield running, filled(api, failing.url)


def filled(api: httpx.Client, failing: str) -> dict[str, str]:
    """Make requests of all kinds; the names of what they left behind."""
    url = data(api.get("/sandbox/inbox"))["url"]
    data(api.post("/api/webhooks", json={"url": url, "events": ["*"]}), 201)
    data(api.post("/api/webhooks", json={"url": failing, "events": ["invoice.verified"]}), 201)
    made = [registered(api, number) for number in range(6)]
    api.post("/sandbox/clock/advance", json={"by": "PT3S"})
    made += [registered(api, number) for number in (6, 7)]
    api.post("/sandbox/clock/advance", json={"by": "PT10S"})
    [offer] = data(api.get("/api/offers", params={"invoiceId": made[0]}))[:1]
    data(api.post(f"/sandbox/offers/{offer['id']}/accept"))
    api.post("/api/invoices", json={"invoiceNumber": 7})
    api.post("/api/invoices", json={**INVOICE, "currency": "EURO", "amount": "12"})
    api.get("/api/invoices/inv_sandbox_unknown")
    api.get("/api/invoices", headers={"Authorization": f"Bearer {new_key()}"})
    fault = {"kind": "status", "status": 503, "operation": "listPartners", "count": 5}
    data(api.post("/sandbox/faults", json=fault), 201)
    api.get("/api/partners")
    api.get("/api/partners")
    data(api.post("/sandbox/snapshots"), 201)
    run = {**run_of("register an invoice with number A-1001"), "report": REPORT}
    return {
        "invoice": made[1],
        "offered": " ".join(made[2:5]),
        "violation": bad(api),
        "delivery": rotated(api),
        "failed": failed(api),
        "run": data(api.post("/sandbox/acceptance/runs", json=run), 201)["id"],
    }


def run_of(waiting: str) -> dict[str, Any]:
    """The progress of an acceptance run that waits for something."""
    return {
        "plan": "partner",
        "state": "running",
        "verdict": None,
        "waitingFor": {
            "task": 3,
            "check": "respect-retry-after",
            "text": waiting,
            "environment": {"SANDBOX_API_URL": "http://127.0.0.1:8080"},
        },
        "checks": CHECKS,
    }


def registered(api: httpx.Client, number: int) -> str:
    body = {
        **INVOICE,
        "invoiceNumber": f"INV-2026-{number + 117:04d}",
        "sellerId": f"org_seller_{SELLERS[number % 3]}",
        "amount": 4_200.25 + 1_730.5 * number,
    }
    return str(data(api.post("/api/invoices", json=body), 201)["id"])


def bad(api: httpx.Client) -> str:
    """The id of a request that violates the contract."""
    return str(data(api.get("/sandbox/requests", params={"status": 400}))[-1]["requestId"])


def rotated(api: httpx.Client) -> str:
    """The id of a delivery that was sent again after a rotation, and corrupt."""
    found: Any = data(api.get("/api/webhooks"))
    delivery = next(one for one in found["deliveries"] if one["eventType"] == "offer.received")
    data(api.post(f"/sandbox/webhooks/{delivery['endpointId']}/rotate-secret"))
    path = f"/sandbox/deliveries/{delivery['id']}/replay"
    data(api.post(path, json={"fault": "changed-body"}))
    return str(delivery["id"])


def failed(api: httpx.Client) -> str:
    """The id of a delivery that was not accepted."""
    found: Any = data(api.get("/api/webhooks"))
    return str(next(one["id"] for one in found["deliveries"] if one["status"] != "delivered"))
