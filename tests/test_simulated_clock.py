"""The published flow finishes by itself, a scenario of months takes one second, and a run repeats.

What is asserted here is what the sandbox promises of its clock; the control endpoints have tests
of their own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.scenario_run import INVOICE, register, status, until
from tests.support import FROZEN, PATIENCE, Running, serving

BY_DEFAULT = replace(FROZEN, scenario=None)


@pytest.fixture(scope="module")
def progressing() -> Iterator[Running]:
    """A server under default settings, but for a seed, a frozen clock and no rate limit."""
    with serving(BY_DEFAULT) as running:
        yield running


@pytest.fixture
def client(progressing: Running) -> Iterator[httpx.Client]:
    """A client of a new workspace there."""
    with progressing.client(progressing.new_workspace()) as client:
        yield client


# The published flow ----------------------------------------------------------------------------


def test_on_a_live_clock_it_happens_without_any_request() -> None:
    live = replace(BY_DEFAULT, clock=replace(BY_DEFAULT.clock, mode="live"))
    with serving(live) as running, running.client() as client:
        invoice = register(client)
        running.system_clock.pass_seconds(6)
        until(lambda: len(_done(client)) == 4, "the steps are done")
        done = _done(client)
        assert [step["outcome"] for step in done] == ["done"] * 4
        assert status(client, invoice["id"]) == "Offered"


def _done(client: httpx.Client) -> list[Any]:
    """The steps that were run. To read them runs none."""
    done: list[Any] = client.get("/sandbox/agenda").json()["data"]["done"]
    return done


# A scenario of months -----------------------------------------------------------------------------


def reported(trigger: str) -> dict[str, str]:
    return {"trigger": trigger}


# The same again --------------------------------------------------------------------------------


@contextmanager
def process(hash_seed: str) -> Iterator[httpx.Client]:
    """A server in a process of its own."""
    command = [sys.executable, "-m", "invoice_sandbox", "serve", "--port", "0", "--seed", "7"]
    command += ["--clock", "frozen", "--rate-limit", "off", "--webhook-time", "virtual"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            _, _, url, _, _, key = server.stdout.readline().rsplit(" ", 5)
            with httpx.Client(
                base_url=url, headers={"Authorization": f"Bearer {key.strip()}"}, timeout=PATIENCE
            ) as c:
                yield c
        finally:
            server.terminate()


def mixed_run(client: httpx.Client) -> list[str]:
    """Everything that was returned to a long run of all kinds of requests."""
    responses: list[str] = []

    def ask(method: str, path: str, body: Any = None, **headers: str) -> Any:
        response = client.request(method, path, json=body, headers=headers)
        kept = {name: text for name, text in response.headers.items() if name != "date"}
        text = response.text.replace(str(client.base_url), "http://server/")
        responses.append(f"{method} {path} {response.status_code} {json.dumps(kept)} {text}")
        return response.json() if response.content else None

    inbox = ask("GET", "/sandbox/inbox")["data"]["url"]
    ask("POST", "/api/webhooks", {"url": inbox, "events": ["*"]})
    for number in range(2):
        body = {**INVOICE, "invoiceNumber": f"RUN-{number}", "amount": 1000 + 7.35 * number}
        again = {"Idempotency-Key": f"run-{number}"}
        invoice = ask("POST", "/api/invoices", body, **again)["data"]["id"]
        ask("POST", "/api/invoices", body, **again)
        ask("POST", "/sandbox/clock/advance", {"by": f"PT{number}S"})
        ask("POST", f"/sandbox/invoices/{invoice}/transition", reported("withdraw"))
        ask("POST", "/api/registry/fingerprint", body)
        fault = {"kind": "status", "status": 503, "count": 2, "probability": 0.5}
        ask("POST", "/sandbox/faults", {**fault, "operation": "listPartners"})
        for _ in range(3):
            ask("GET", "/api/partners", **{"X-Sandbox-Explain": "1"})
        ask("POST", "/api/offers", {})
        ask("POST", "/api/invoices", {"sellerId": number})
        ask("GET", "/api/nothing-here")
        ask("POST", "/api/webhooks", {"url": "https://partner.example/hooks"})
        ask("POST", "/api/connectors/erp/invoices", {"externalId": f"E-{number}", **body})
    ask("POST", "/sandbox/clock/advance", {"by": "PT0S"})  # a restore repeats what is in flight
    snapshot = ask("POST", "/sandbox/snapshots")["data"]["id"]
    ask("POST", "/api/developer/api-keys", {"name": "another"})
    ask("POST", f"/sandbox/snapshots/{snapshot}/restore")
    ask("POST", "/sandbox/clock/advance", {"by": "P2D"})
    for path in ("/api/audit-log", "/api/invoices", "/api/offers", "/sandbox/agenda"):
        ask("GET", path)
    ask("GET", "/api/webhooks")
    ask("GET", "/sandbox/inbox")
    ask("POST", "/sandbox/reset")
    ask("GET", "/api/audit-log")
    return responses


def without_chance(response: str) -> str:
    """Without what is promised to come from the machine's randomness."""
    response = re.sub(r"ilk_sandbox_\w{36}", "KEY", response)
    response = re.sub(r'"last4": ?"\w{4}"', "LAST4", response)
    response = re.sub(r"/inbox/\w{64}", "/inbox/TOKEN", response)
    if '"durationMs":' in response:  # real time, so its digits may be one more
        response = re.sub(r'"durationMs":\d+|"content-length": "\d+"', "DURATION", response)
    if "authentication_required" in response:  # nor does what the inbox rejected
        response = re.sub(r'\\"requestId\\":\\"req_sandbox_\w{26}', "REQUEST", response)
    if " 404 " in response:  # no credential was asked for, so the request belongs to no workspace
        response = re.sub(r"req_sandbox_\w{26}", "REQUEST", response)
    # The same goes for what an inbox rejected, in the log of the attempts.
    return re.sub(r'\\"requestId\\":\\"\w+', "REQUEST", response)


@pytest.mark.process
def test_a_long_mixed_run_is_the_same_in_another_process() -> None:
    with process("1") as one, process("4242") as other:
        first, second = mixed_run(one), mixed_run(other)
    assert len(first) > 40
    assert [without_chance(response) for response in first] == [
        without_chance(response) for response in second
    ]
