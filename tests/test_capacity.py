"""What one workspace may hold: beyond a limit a request is rejected, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import httpx
import pytest

from tests.cases import in_turn
from tests.scenario_run import DATED
from tests.support import FROZEN, Running, serving

pytestmark = pytest.mark.slow

HOOK = {"url": "https://partner.example/hooks", "events": ["invoice.registered"]}


def invoice(client: httpx.Client, number: int) -> httpx.Response:
    return client.post("/api/invoices", json={**DATED, "invoiceNumber": f"N-{number}"})


def invoice_with_webhook(client: httpx.Client, number: int) -> httpx.Response:
    if number == 0:
        assert client.post("/api/webhooks", json=HOOK).status_code < 300
    return invoice(client, number)


def push(client: httpx.Client, number: int) -> httpx.Response:
    item = {**DATED, "invoiceNumber": f"E-{number}"}
    return client.post("/api/connectors/erp/invoices", json={"invoices": [item] * 4})


def long_number(client: httpx.Client, number: int) -> httpx.Response:
    return client.post("/api/invoices", json={**DATED, "invoiceNumber": f"{number:0200000}"})


def filled(client: httpx.Client) -> httpx.Client:
    if not client.get("/sandbox/snapshots").json()["data"]:
        assert long_number(client, 1).status_code < 300
    return client


def grandchild(client: httpx.Client, number: int) -> httpx.Response:
    if number == 0:
        made = client.post("/sandbox/workspaces", json={}).json()["data"]
        client.headers["Authorization"] = f"Bearer {made['key']}"
    return client.post("/sandbox/workspaces", json={})


LIMITS: dict[str, tuple[str, int, Callable[[httpx.Client, int], httpx.Response], str]] = {
    "endpoints": (
        "invoice_sandbox.webhooks.endpoints.MAX_ENDPOINTS",
        2,
        lambda client, _: client.post("/api/webhooks", json=HOOK),
        "2 webhook endpoints, which is its limit. Remove some, or reset the workspace.",
    ),
    "keys": (
        "invoice_sandbox.state.credentials.MAX_KEYS",
        3,
        lambda client, _: client.post("/api/developer/api-keys", json={"name": "x"}),
        "3 API keys, which is its limit",
    ),
    "steps": (
        "invoice_sandbox.state.memory.MAX_STEPS",
        0,
        push,
        "0 due steps, which is its limit",
    ),
    "faults": (
        "invoice_sandbox.control.faults.MAX_FAULTS",
        2,
        lambda client, _: client.post("/sandbox/faults", json={"kind": "status", "status": 503}),
        "2 faults, which is its limit",
    ),
    "children": (
        "invoice_sandbox.runtime.workspaces.MAX_CHILDREN",
        3,
        grandchild,
        "3 workspaces created from it, which is",
    ),
    "deliveries": (
        "invoice_sandbox.state.memory.MAX_DELIVERIES",
        2,
        invoice_with_webhook,
        "2 pending deliveries, which is",
    ),
}


@in_turn(("name", "most", "send", "text"), LIMITS.values(), ids=LIMITS)
def test_beyond_a_limit_the_response_names_it(
    name: str, most: int, send: Callable[[httpx.Client, int], httpx.Response], text: str
) -> None:
    with patch(name, most), serving() as running, running.client() as client:
        responses = [send(client, number) for number in range(6)]
        last = responses[-1]
        assert last.status_code == 429, last.text
        assert last.json()["error"]["code"] == "rate_limit_exceeded"
        assert text in last.json()["error"]["message"]
        with running.client(running.new_workspace()) as other:
            assert invoice(other, 99).status_code < 300


@pytest.mark.parametrize(
    "send",
    [long_number, lambda client, _: filled(client).post("/sandbox/snapshots")],
    ids=["state", "snapshots"],
)
def test_a_full_workspace_names_the_setting(
    send: Callable[[httpx.Client, int], httpx.Response],
) -> None:
    with serving(replace(FROZEN, max_state=1)) as running, running.client() as client:
        last = [send(client, number) for number in range(6)][-1]
        assert last.status_code == 429
        message = last.json()["error"]["message"]
        assert message.startswith("The workspace has 1,048,576 bytes of state")
        assert "--max-state" in message


def test_a_push_beyond_the_limit_registers_nothing() -> None:
    limit = patch("invoice_sandbox.state.memory.MAX_STEPS", 0)
    with limit, serving() as running, running.client() as client:
        before = [count(client, path) for path in ("/api/audit-log", "/api/invoices")]
        assert push(client, 1).status_code == 429
        assert [count(client, path) for path in ("/api/audit-log", "/api/invoices")] == before


def count(client: httpx.Client, path: str) -> int:
    return int(client.get(path).headers["x-total-count"])


def test_a_limit_counts_what_there_is_now() -> None:
    limit = patch("invoice_sandbox.webhooks.endpoints.MAX_ENDPOINTS", 1)
    with limit, serving() as running, running.client() as client:
        assert client.post("/api/webhooks", json=HOOK).status_code < 300
        assert client.post("/api/webhooks", json=HOOK).status_code == 429
        assert client.post("/sandbox/reset").status_code == 200
        assert client.post("/api/webhooks", json=HOOK).status_code < 300


def size(running: Running) -> int:
    return running.space().state.size


def fill(running: Running, client: httpx.Client) -> None:
    """Use up the state: first by long records, then by short ones."""
    while long_number(client, size(running)).status_code < 300:
        pass
    while invoice(client, size(running)).status_code < 300:
        pass


def test_a_step_without_room_is_given_up_and_the_clock_moves_on() -> None:
    full = replace(FROZEN, max_state=1, scenario="happy-path")
    with serving(full) as running, running.client() as client:
        assert invoice(client, 1).status_code < 300
        fill(running, client)
        moved = client.post("/sandbox/clock/advance", json={"by": "P1D"})
    assert moved.status_code == 200, moved.text
    failed = [one for one in moved.json()["data"]["happened"] if one["outcome"] == "failed"]
    assert "bytes of state, which is its limit" in failed[0]["reason"]
